#pragma once

// /metrics: where it is served, and its being ill without anything else being ill.
//
// Theory of operation. Nothing is counted here: each scrape reads the model and the dataplane afresh
// (metric_families.h), so a series lives exactly as long as its port. An address that cannot be listened on
// is tried again every five seconds; each change of state is logged once and told to `on_change`.
//
// Threads. The web server has its own (metrics_server.h); one of ours tries again and ends once it serves.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace prometheus {
class Collectable;
}

namespace ringswitch::agent {

class MetricsServer;

// "HOST:PORT" with a numeric host, "" for "none". INVALID_ARGUMENT: neither.
absl::StatusOr<std::string> ParseMetricsAddress(const std::string& text);

class Metrics {
 public:
  // `address` as ParseMetricsAddress returned it.
  Metrics(std::string address, std::shared_ptr<const prometheus::Collectable> families);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Tries once before it returns. `on_change` hears whether it serves, now and at each change.
  void Start(std::function<void(bool is_serving)> on_change);

  // Nothing is served any more.
  void Stop();

  std::string address() const;  // with the port that the system chose; empty while it does not serve
  std::string problem() const;  // for people; empty while all is well

 private:
  bool Listen();
  void Retry();

  const std::string configured_;
  const std::shared_ptr<const prometheus::Collectable> families_;
  std::function<void(bool)> on_change_;
  std::unique_ptr<MetricsServer> server_;

  mutable std::mutex mutex_;  // guards the following
  std::condition_variable ending_;
  std::string address_;
  std::string problem_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace ringswitch::agent
