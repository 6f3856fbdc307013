#pragma once

// The web server of /metrics.
//
// Theory of operation. The socket is made here, since an address that cannot be had must be named exactly;
// libmicrohttpd serves it. Connections are bounded in number, memory and silence, and none is waited for: a
// client that reads slowly, or not at all, holds its own answer and nothing else.
//
// Threads. The library's one thread accepts, collects and sends. Ending waits for a scrape being collected.

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

struct MHD_Daemon;
namespace prometheus {
class Collectable;
}

namespace ringswitch::agent {

class MetricsServer {
 public:
  // `address` is numeric, "127.0.0.1:9477" or "[::1]:9477"; port 0 lets the system choose. The error says
  // for people what is wrong with it.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Listen(
      const std::string& address, std::shared_ptr<const prometheus::Collectable> families);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  const std::string& address() const { return address_; }  // with the port that the system chose

 private:
  explicit MetricsServer(std::shared_ptr<const prometheus::Collectable> families)
      : families_(std::move(families)) {}

  const std::shared_ptr<const prometheus::Collectable> families_;
  std::string address_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace ringswitch::agent
