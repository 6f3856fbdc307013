// What the switch model does of its own accord: it finds again what an earlier agent left, and follows the
// pods' interfaces.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "server/agent/port_config.h"
#include "server/agent/switch_model.h"
#include "server/agent/switch_model_errors.h"

namespace ringswitch::agent {
namespace {

constexpr int kRestoreThreads = 8;  // entering namespaces waits for the kernel, not for a processor
constexpr std::chrono::seconds kRetryInterval{1};

}  // namespace

void SwitchModel::Restore() {
  StoredState state = store_->Load();
  {
    std::lock_guard lock(ids_mutex_);
    ids_ = ids_saved_ = state.ids;
    store_->SaveIds(ids_saved_);
  }
  for (const SwitchSpec& spec : state.switches) RestoreSwitch(spec, state.fdb[spec.name]);
  RestorePorts(state.ports);
}

void SwitchModel::RestoreSwitch(const SwitchSpec& spec, const std::vector<StaticFdbEntry>& entries) {
  absl::StatusOr<bridge::SwitchIndex> index = dataplane_->AddSwitch(ConfigOf(spec), spec.fdb_capacity);
  std::lock_guard lock(mutex_);
  if (!index.ok()) {
    restore_problems_.push_back(
        absl::StrCat("switch ", spec.name, " is not restored: ", index.status().message()));
    spdlog::error("{}", restore_problems_.back());
    return;
  }
  SwitchRecord& record = switches_[spec.name];
  record.spec = spec;
  record.index = *index;
  for (const StaticFdbEntry& entry : entries)
    record.static_entries[{entry.key.mac.bits(), entry.key.vid}] = entry;
}

void SwitchModel::RestorePorts(const std::vector<StoredPort>& ports) {
  std::vector<std::string> names;
  {
    std::lock_guard lock(mutex_);
    for (const StoredPort& port : ports) {
      SwitchRecord* on = FindSwitch(port.spec.switch_name);
      if (on == nullptr) {
        // Its file stays: the switch's may have been damaged, and the pod's device is not ours to delete for
        // that.
        restore_problems_.push_back(absl::StrCat("port ", port.spec.name, " is not restored: its switch ",
                                                 port.spec.switch_name, " is not in the state directory"));
        spdlog::error("{}", restore_problems_.back());
        continue;
      }
      ++on->port_count;
      ports_[port.spec.name] = PortRecord{port.spec, port.netns_id, std::nullopt, PortState::kMissing, ""};
      names.push_back(port.spec.name);
    }
  }
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kRestoreThreads && i < static_cast<int>(names.size()); ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < names.size(); at = next++) {
        KeyLocks::Hold hold(&keys_, names[at]);
        AttachOrRemove(names[at]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!names.empty())
    spdlog::info("{} ports found in the state directory are attached or watched for", names.size());
}

void SwitchModel::AttachOrRemove(const std::string& name) {
  PortRecord port;
  bridge::SwitchIndex switch_index = 0;
  {
    std::lock_guard lock(mutex_);
    const PortRecord* record = FindPort(name);
    if (record == nullptr || record->index.has_value()) return;
    port = *record;
    switch_index = FindSwitch(port.spec.switch_name)->index;
  }
  absl::Status status = AttachPort(port, switch_index);
  if (status.ok()) {
    if (!port.state_detail.empty()) spdlog::info("port {} is attached again", name);
    return;
  }
  if (status.code() == absl::StatusCode::kNotFound) {
    spdlog::info("port {} is removed: network namespace {} is gone", name, port.spec.link.netns);
    RemovePort(name);
    return;
  }
  std::string detail(status.message());
  if (detail == port.state_detail) return;
  spdlog::warn("port {} is missing, retrying: {}", name, detail);
  std::lock_guard lock(mutex_);
  FindPort(name)->state_detail = detail;
}

absl::Status SwitchModel::AttachPort(const PortRecord& port, bridge::SwitchIndex switch_index) {
  const PortSpec& spec = port.spec;
  absl::StatusOr<TapLink> tap = links_->AttachTap(spec.link, port.netns_id);
  if (!tap.ok()) return tap.status();
  absl::Status watch = StartWatch(spec, *tap);
  if (!watch.ok()) return absl::FailedPreconditionError(watch.message());
  absl::StatusOr<LinkInfo> info = links_->GetLink(spec.link);
  // Where it fails the file is closed and the device stays, being persistent.
  absl::StatusOr<bridge::PortIndex> index =
      dataplane_->AddPort(ConfigOf(spec, switch_index), std::move(tap->tap));
  if (!index.ok()) {
    EndWatch(spec);
    return absl::FailedPreconditionError(index.status().message());
  }
  bool is_down = info.ok() && !info->is_up;
  EnterPort(PortRecord{spec, port.netns_id, *index, is_down ? PortState::kDown : PortState::kUp,
                       is_down ? kDownDetail : ""});
  KeyLocks::Hold hold_switch(&keys_, SwitchKey(spec.switch_name));
  std::lock_guard lock(mutex_);
  for (const auto& [key, entry] : FindSwitch(spec.switch_name)->static_entries) {
    if (entry.port_name != spec.name) continue;
    if (dataplane_->AddStaticFdbEntry(switch_index, entry.key, *index, true) != bridge::FdbResult::kOk) {
      spdlog::error("static FDB entry {} of port {} is not restored: the FDB is full",
                    entry.key.mac.ToString(), spec.name);
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> SwitchModel::Problems() const {
  std::vector<std::string> problems = store_->Problems();
  std::lock_guard lock(mutex_);
  problems.insert(problems.end(), restore_problems_.begin(), restore_problems_.end());
  for (const auto& [name, port] : ports_) {
    if (!port.index.has_value())
      problems.push_back(absl::StrCat("port ", name, " is missing: ", port.state_detail));
  }
  return problems;
}

void SwitchModel::OnLinkEvent(const LinkEvent& event) {
  {
    std::lock_guard lock(events_mutex_);
    events_.push_back(event);
  }
  events_changed_.notify_one();
}

void SwitchModel::Run() {
  auto next_retry = std::chrono::steady_clock::now() + kRetryInterval;
  std::unique_lock lock(events_mutex_);
  while (!is_ending_) {
    events_changed_.wait_until(lock, next_retry, [this] { return is_ending_ || !events_.empty(); });
    std::deque<LinkEvent> events;
    events.swap(events_);
    lock.unlock();
    for (const LinkEvent& event : events) Handle(event);
    if (std::chrono::steady_clock::now() >= next_retry) {
      RetryMissing();
      store_->RetryPending();
      next_retry = std::chrono::steady_clock::now() + kRetryInterval;
    }
    lock.lock();
  }
}

void SwitchModel::RetryMissing() {
  std::vector<std::string> names;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, port] : ports_) {
      if (!port.index.has_value()) names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    KeyLocks::Hold hold(&keys_, name);
    AttachOrRemove(name);
  }
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
    if (record == nullptr || record->spec.id != event.watch_id || !record->index.has_value()) return;
    port = *record;
  }
  if (event.kind == LinkEventKind::kNamespaceGone) {
    spdlog::info("port {} is removed: network namespace {} is gone", name, port.spec.link.netns);
    RemovePort(name);
  } else {
    HandleLink(port, event.kind);
  }
}

void SwitchModel::HandleLink(const PortRecord& port, LinkEventKind kind) {
  const std::string& name = port.spec.name;
  PortState state = PortState::kUp;
  std::string detail;
  if (kind == LinkEventKind::kLinkDown) {
    state = PortState::kDown;
    detail = kDownDetail;
  } else if (kind == LinkEventKind::kLinkGone) {
    state = PortState::kMissing;
    detail = kGoneDetail;
  }
  bridge::SwitchIndex switch_index = 0;
  {
    std::lock_guard lock(mutex_);
    PortRecord* record = FindPort(name);
    if (record->state == state || record->state == PortState::kMissing) return;
    record->state = state;
    record->state_detail = detail;
    switch_index = FindSwitch(port.spec.switch_name)->index;
  }
  if (state == PortState::kMissing) spdlog::warn("port {}: {}", name, detail);
  if (state == PortState::kUp) return;
  bridge::FdbFilter filter;
  filter.port = port.index;
  filter.kind = bridge::FdbKind::kDynamic;
  dataplane_->FlushFdb(switch_index, filter);
}

}  // namespace ringswitch::agent
