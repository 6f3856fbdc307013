#include "server/agent/metrics.h"

#include <arpa/inet.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ringswitch::agent {
namespace {

constexpr std::chrono::seconds kRetryInterval{5};
constexpr char kThreads[] = "2";              // one scrape may wait while another is read slowly
constexpr char kRequestTimeoutMs[] = "5000";  // a client that says nothing holds a thread no longer

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

Metrics::Metrics(std::string address, std::shared_ptr<prometheus::Collectable> families)
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
  exposer_.reset();
}

void Metrics::Start(std::function<void(bool is_serving)> on_change) {
  on_change_ = std::move(on_change);
  if (configured_.empty()) return;
  if (!Listen()) thread_ = std::thread([this] { Retry(); });
}

bool Metrics::Listen() {
  std::string problem;
  try {
    // The exceptions of the web server end here.
    auto exposer = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", configured_, "num_threads", kThreads, "request_timeout_ms", kRequestTimeoutMs});
    std::vector<int> ports = exposer->GetListeningPorts();
    if (!ports.empty()) {
      exposer->RegisterCollectable(families_);
      exposer_ = std::move(exposer);
      std::lock_guard lock(mutex_);
      address_ = absl::StrCat(configured_.substr(0, configured_.rfind(':')), ":", ports[0]);
      problem_.clear();
    } else {
      problem = "no port is open";
    }
  } catch (const std::exception&) {
    problem = "the address is in use or not one of this machine";
  }
  if (problem.empty()) {
    spdlog::info("metrics are served at http://{}/metrics", address());
    on_change_(true);
    return true;
  }
  std::string text = absl::StrCat("metrics are not served at ", configured_, ": ", problem,
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
