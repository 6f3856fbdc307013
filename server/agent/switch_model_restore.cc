// The switch model's start: it finds again what an earlier agent left.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "server/agent/port_config.h"
#include "server/agent/switch_model.h"
#include "server/agent/switch_model_errors.h"

namespace ringswitch::agent {
namespace {

constexpr int kRestoreThreads = 8;  // entering namespaces waits for the kernel, not for a processor

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
  for (const StaticFdbEntry& entry : entries) record.static_entries.Put(entry.key, entry.port_name);
}

// The agent died while it made the device, and told nobody of it, or while it deleted it.
void SwitchModel::DeleteUnmade(const StoredPort& port) {
  File file;
  if (port.spec.device.kind == DeviceRef::Kind::kTap) {
    absl::StatusOr<PortLink> tap = links_->AttachTap(port.spec.device.link, port.netns_id);
    if (tap.ok()) file = std::move(tap->device.file);
  }
  DeleteDevice(port.spec, std::move(file));
}

void SwitchModel::RestorePorts(const std::vector<StoredPort>& ports) {
  std::vector<std::string> names;
  {
    std::lock_guard lock(mutex_);
    for (const StoredPort& port : ports) {
      if (!port.is_made) {
        DeleteUnmade(port);
        store_->RemovePort(port.spec.name);
        continue;
      }
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
      PortRecord& record = ports_[port.spec.name];
      record.spec = port.spec;
      record.netns_id = port.netns_id;
      record.state = PortState::kMissing;
      (void)ClaimDevice(port.spec);  // it was free when the port was made
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

void SwitchModel::WantPort(const PortRequest& request) {
  const absl::Status status = CreatePort(request, false).status();
  if (status.ok()) return;
  spdlog::error("port {} of the configuration file is not made yet: {}", request.name,
                std::string(status.message()));
  std::lock_guard lock(mutex_);
  wanted_ports_.push_back({request, std::string(status.message())});
}

void SwitchModel::MakeWantedPorts() {
  std::vector<WantedPort> wanted;
  {
    std::lock_guard lock(mutex_);
    wanted = wanted_ports_;
  }
  for (const WantedPort& port : wanted) {
    const absl::Status status = CreatePort(port.request, false).status();
    if (status.ok()) spdlog::info("port {} of the configuration file is made", port.request.name);
    std::lock_guard lock(mutex_);
    const auto at = std::find_if(wanted_ports_.begin(), wanted_ports_.end(), [&port](const WantedPort& one) {
      return one.request.name == port.request.name;
    });
    if (FindPort(port.request.name) != nullptr) {
      wanted_ports_.erase(at);
    } else {
      at->cause = std::string(status.message());
    }
  }
}

std::vector<std::string> SwitchModel::Problems() const {
  std::vector<std::string> problems = store_->Problems();
  std::lock_guard lock(mutex_);
  problems.insert(problems.end(), restore_problems_.begin(), restore_problems_.end());
  for (const WantedPort& port : wanted_ports_) {
    problems.push_back(
        absl::StrCat("port ", port.request.name, " of the configuration file is not made yet: ", port.cause));
  }
  for (const auto& [name, port] : ports_) {
    const PortView view = ViewOf(port);
    if (view.state == PortState::kMissing || view.state == PortState::kBlocked) {
      problems.push_back(absl::StrCat(
          "port ", name,
          view.state == PortState::kBlocked ? " is blocked: " : " is missing: ", view.state_detail));
    }
  }
  return problems;
}

}  // namespace ringswitch::agent
