#include "server/agent/metrics.h"

#include <arpa/inet.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/agent/metrics_server.h"

namespace ringswitch::agent {
namespace {

constexpr std::chrono::seconds kRetryInterval{5};

bool IsHost(const std::string& host, int family) {
  unsigned char bytes[16];
  return inet_pton(family, host.c_str(), bytes) == 1;
}

}  // namespace

absl::StatusOr<std::string> ParseMetricsAddress(const std::string& text) {
  if (text == "none") return std::string();
  absl::Status error = absl::InvalidArgumentError(absl::StrCat(
      "metrics_address: \"", text, "\" is not HOST:PORT with a numeric address, such as 127.0.0.1:9477 or ",
      "[::1]:9477, nor \"none\""));
  size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size()) return error;
  std::string host = text.substr(0, colon);
  std::string port_text = text.substr(colon + 1);
  uint32_t port = 0;
  bool is_number =
      port_text.size() <= 5 && std::all_of(port_text.begin(), port_text.end(), absl::ascii_isdigit);
  if (!is_number || !absl::SimpleAtoi(port_text, &port) || port > 65535) return error;
  if (host == "localhost") host = "127.0.0.1";
  bool is_v6 = host.size() > 2 && host.front() == '[' && host.back() == ']' &&
               IsHost(host.substr(1, host.size() - 2), AF_INET6);
  if (!is_v6 && !IsHost(host, AF_INET)) return error;
  return absl::StrCat(host, ":", port);
}

Metrics::Metrics(std::string address, std::shared_ptr<const prometheus::Collectable> families)
    : configured_(std::move(address)), families_(std::move(families)) {}

Metrics::~Metrics() {
  Stop();
}

void Metrics::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ending_.notify_all();
  if (thread_.joinable()) thread_.join();
  server_.reset();
}

void Metrics::Start(std::function<void(bool is_serving)> on_change) {
  on_change_ = std::move(on_change);
  if (configured_.empty()) return;
  if (!Listen()) thread_ = std::thread([this] { Retry(); });
}

bool Metrics::Listen() {
  absl::StatusOr<std::unique_ptr<MetricsServer>> server = MetricsServer::Listen(configured_, families_);
  if (server.ok()) {
    server_ = *std::move(server);
    {
      std::lock_guard lock(mutex_);
      address_ = server_->address();
      problem_.clear();
    }
    spdlog::info("metrics are served at http://{}/metrics", server_->address());
    on_change_(true);
    return true;
  }
  std::string text = absl::StrCat("metrics are not served at ", configured_, ": ", server.status().message(),
                                  "; retried every ", kRetryInterval.count(), " s, forwarding goes on");
  bool is_new = false;
  {
    std::lock_guard lock(mutex_);
    is_new = problem_ != text;
    problem_ = text;
  }
  if (is_new) {
    spdlog::warn("{}", text);
    on_change_(false);
  }
  return false;
}

void Metrics::Retry() {
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, kRetryInterval, [this] { return is_ending_; })) {
    lock.unlock();
    bool is_serving = Listen();
    lock.lock();
    if (is_serving) return;
  }
}

std::string Metrics::address() const {
  std::lock_guard lock(mutex_);
  return address_;
}

std::string Metrics::problem() const {
  std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace ringswitch::agent
