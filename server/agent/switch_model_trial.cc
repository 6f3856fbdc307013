// Ports on trial: netdevs that the node itself may live on (design decision 17). Such a port is made at once
// and removed again unless it is confirmed in time, so that whoever cut themselves off by it gets the node
// back.

#include <spdlog/spdlog.h>
#include <time.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/agent/switch_model.h"
#include "server/agent/switch_model_errors.h"

namespace ringswitch::agent {

int64_t BootTimeMs() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

absl::StatusOr<PortView> SwitchModel::ConfirmPort(const std::string& name) {
  KeyLocks::Hold hold(&keys_, name);
  if (EndTrial(name)) {
    return ReasonError(
        absl::StatusCode::kNotFound,
        absl::StrCat("port ", Quoted(name), " was not confirmed in time: it is deleted, make it again"),
        {"PORT_NOT_FOUND", {{"port", name}}});
  }
  StoredPort port;
  {
    std::lock_guard lock(mutex_);
    const PortRecord* record = FindPort(name);
    if (record == nullptr) return PortNotFound(name);
    if (!record->spec.trial.has_value()) return ViewOf(*record);
    port = StoredPort{record->spec, record->netns_id};
  }
  port.spec.trial.reset();
  store_->SavePort(port);
  spdlog::info("port {} is confirmed", name);
  std::lock_guard lock(mutex_);
  PortRecord* record = FindPort(name);
  record->spec = port.spec;
  Notify(port.spec, false);
  return ViewOf(*record);
}

bool SwitchModel::IsTrialOver(const PortSpec& spec) const {
  return spec.trial.has_value() && clock_() >= spec.trial->ends_ms;
}

bool SwitchModel::EndTrial(const std::string& name) {
  {
    std::lock_guard lock(mutex_);
    const PortRecord* record = FindPort(name);
    if (record == nullptr || !IsTrialOver(record->spec)) return false;
    spdlog::warn("port {} is removed: it was not confirmed in time; {} is the host's again", name,
                 record->spec.device.own_ifname());
  }
  RemovePort(name);
  return true;
}

std::optional<uint32_t> SwitchModel::ConfirmLeft(const PortSpec& spec) const {
  if (!spec.trial.has_value()) return std::nullopt;
  const int64_t left_ms = std::max<int64_t>(spec.trial->ends_ms - clock_(), 0);
  return static_cast<uint32_t>((left_ms + 999) / 1000);
}

}  // namespace ringswitch::agent
