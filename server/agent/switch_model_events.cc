// What the switch model does of its own accord: it follows the devices of its ports, and looks after those
// that are missing or guarded.

#include <spdlog/spdlog.h>

#include <chrono>

#include "server/agent/port_config.h"
#include "server/agent/switch_model.h"
#include "server/agent/switch_model_errors.h"

namespace ringswitch::agent {
namespace {

constexpr std::chrono::seconds kLookInterval{1};

}  // namespace

void SwitchModel::OnLinkEvent(const LinkEvent& event) {
  {
    std::lock_guard lock(events_mutex_);
    events_.push_back(event);
  }
  events_changed_.notify_one();
}

void SwitchModel::Run() {
  auto next_look = std::chrono::steady_clock::now() + kLookInterval;
  std::unique_lock lock(events_mutex_);
  while (!is_ending_) {
    events_changed_.wait_until(lock, next_look, [this] { return is_ending_ || !events_.empty(); });
    std::deque<LinkEvent> events;
    events.swap(events_);
    lock.unlock();
    for (const LinkEvent& event : events) Handle(event);
    if (std::chrono::steady_clock::now() >= next_look) {
      LookAfterPorts();
      MakeWantedPorts();
      store_->RetryPending();
      next_look = std::chrono::steady_clock::now() + kLookInterval;
    }
    lock.lock();
  }
}

void SwitchModel::LookAfterPorts() {
  std::vector<std::string> over;
  std::vector<std::string> missing;
  std::vector<std::string> others;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, port] : ports_) {
      const bool is_tap = port.spec.device.kind == DeviceRef::Kind::kTap;
      if (IsTrialOver(port.spec)) over.push_back(name);
      if (port.state != PortState::kMissing) {
        const bool is_guarded = port.spec.attributes.bpdu_recovery_s.has_value() || port.is_blocked;
        if (is_guarded || !is_tap) others.push_back(name);
      } else {
        missing.push_back(name);
      }
    }
  }
  for (const std::string& name : over) {
    KeyLocks::Hold hold(&keys_, name);
    EndTrial(name);
  }
  for (const std::string& name : missing) {
    KeyLocks::Hold hold(&keys_, name);
    AttachOrRemove(name);
  }
  for (const std::string& name : others) LookAfter(name);
}

void SwitchModel::LookAfter(const std::string& name) {
  // What is seen without the lock of the name may have changed; most often there is nothing to see.
  auto look = [this, &name](PortRecord* port, PortStats* stats) {
    std::lock_guard lock(mutex_);
    const PortRecord* record = FindPort(name);
    if (record == nullptr || !record->index.has_value() || record->state == PortState::kMissing) return false;
    *stats = dataplane_->ReadPort(*record->index);
    *port = *record;
    const bool is_lost = stats->device_gone && record->spec.device.kind != DeviceRef::Kind::kTap;
    return is_lost || stats->blocked != record->is_blocked;
  };
  PortRecord port;
  PortStats stats;
  if (!look(&port, &stats)) return;
  KeyLocks::Hold hold(&keys_, name);
  if (!look(&port, &stats)) return;
  if (stats.blocked == port.is_blocked) {
    HandleLink(port, LinkEventKind::kLinkGone);
    return;
  }
  spdlog::warn("port {}: {}", name, stats.blocked ? BlockedDetail(stats) : "BPDU guard lets it up");
  if (stats.blocked) FlushDynamic(port);
  std::lock_guard lock(mutex_);
  FindPort(name)->is_blocked = stats.blocked;
  Notify(port.spec, false);
}

void SwitchModel::Handle(const LinkEvent& event) {
  std::string name;
  {
    std::lock_guard lock(mutex_);
    auto it = watched_.find(event.watch_id);
    if (it == watched_.end()) return;
    name = it->second;
  }
  KeyLocks::Hold hold(&keys_, name);
  PortRecord port;
  {
    // Meanwhile its creation may have failed, or it may have gone and another one may have its name.
    std::lock_guard lock(mutex_);
    const PortRecord* record = FindPort(name);
    if (record == nullptr || record->spec.id != event.watch_id) return;
    port = *record;
  }
  switch (event.kind) {
    case LinkEventKind::kNamespaceGone:
      spdlog::info("port {} is removed: network namespace {} is gone", name, port.spec.device.link.netns);
      RemovePort(name);
      return;
    case LinkEventKind::kLinkBack:
      if (port.spec.device.kind != DeviceRef::Kind::kTap) AttachOrRemove(name);
      return;
    case LinkEventKind::kLinkUp:
    case LinkEventKind::kLinkDown:
    case LinkEventKind::kLinkGone:
      if (port.state != PortState::kMissing) HandleLink(port, event.kind);
      return;
    case LinkEventKind::kLinkChanged:
      // One that is missing is asked when it is attached.
      if (port.state != PortState::kMissing) FollowNetdev(port, event.mac, PortMtu(event.mtu));
      return;
  }
}

void SwitchModel::FollowNetdev(const PortRecord& port, bridge::MacAddress mac, uint32_t mtu) {
  PortSpec spec = port.spec;
  if (spec.device.kind != DeviceRef::Kind::kNetdev || (spec.mac == mac && spec.mtu == mtu)) return;
  spec.mac = mac;
  spec.mtu = mtu;
  bridge::SwitchIndex switch_index = 0;
  {
    std::lock_guard lock(mutex_);
    switch_index = FindSwitch(spec.switch_name)->index;
  }
  dataplane_->UpdatePort(*port.index, ConfigOf(spec, switch_index, port.state != PortState::kDown));
  store_->SavePort(StoredPort{spec, port.netns_id});
  std::lock_guard lock(mutex_);
  FindPort(spec.name)->spec = spec;
  Notify(spec, false);
}

void SwitchModel::HandleLink(const PortRecord& port, LinkEventKind kind) {
  const PortSpec& spec = port.spec;
  PortState state = PortState::kUp;
  std::string detail;
  if (kind == LinkEventKind::kLinkDown) {
    state = PortState::kDown;
    detail = DownDetail(spec.device);
  } else if (kind == LinkEventKind::kLinkGone) {
    state = PortState::kMissing;
    detail = GoneDetail(spec.device);
    spdlog::warn("port {}: {}", spec.name, detail);
  }
  if (port.state == state) return;
  bridge::SwitchIndex switch_index = 0;
  {
    std::lock_guard lock(mutex_);
    switch_index = FindSwitch(spec.switch_name)->index;
  }
  // Who sees the new state can rely on the entries being gone.
  if (state == PortState::kMissing) {
    // A TAP that was moved to another namespace would go on forwarding there.
    dataplane_->DetachDevice(*port.index).Close();
    // It may have been renamed, and its host's stack wants it again.
    if (spec.device.kind == DeviceRef::Kind::kNetdev) links_->ReleaseNetdev(spec.device);
  } else if (spec.device.kind == DeviceRef::Kind::kTap) {
    if (state != PortState::kUp) FlushDynamic(port);
  } else {
    dataplane_->UpdatePort(*port.index, ConfigOf(spec, switch_index, state == PortState::kUp));
  }
  std::lock_guard lock(mutex_);
  SetDeviceState(spec, state, detail);
}

void SwitchModel::SetDeviceState(const PortSpec& spec, PortState state, const std::string& detail) {
  PortRecord* record = FindPort(spec.name);
  record->state = state;
  record->state_detail = detail;
  Notify(spec, false);
}

void SwitchModel::FlushDynamic(const PortRecord& port) {
  bridge::SwitchIndex switch_index = 0;
  {
    std::lock_guard lock(mutex_);
    switch_index = FindSwitch(port.spec.switch_name)->index;
  }
  bridge::FdbFilter filter;
  filter.port = port.index;
  filter.kind = bridge::FdbKind::kDynamic;
  dataplane_->FlushFdb(switch_index, filter);
}

}  // namespace ringswitch::agent
