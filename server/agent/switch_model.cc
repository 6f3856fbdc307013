#include "server/agent/switch_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"
#include "server/agent/port_config.h"
#include "server/agent/switch_model_errors.h"

namespace ringswitch::agent {
namespace {

constexpr uint64_t kIdsPerSave =
    64;  // ids that one write of the ids file covers; a restart skips what is left of them

SwitchView ViewOfNew(const SwitchSpec& spec) {
  SwitchView view;
  view.spec = spec;
  return view;
}

}  // namespace

SwitchModel::SwitchModel(Dataplane* dataplane, Links* links, StateStore* store, BootClock clock)
    : dataplane_(dataplane),
      links_(links),
      store_(store),
      clock_(std::move(clock)),
      port_names_(bridge::kPortsMax),
      last_port_names_(bridge::kPortsMax) {
  thread_ = std::thread([this] { Run(); });
}

void SwitchModel::Stop() {
  {
    std::lock_guard lock(events_mutex_);
    is_ending_ = true;
  }
  events_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

ModelCounts SwitchModel::Counts() const {
  std::lock_guard lock(mutex_);
  return {static_cast<uint32_t>(switches_.size()), static_cast<uint32_t>(ports_.size())};
}

const SwitchModel::SwitchRecord* SwitchModel::FindSwitch(const std::string& name) const {
  auto it = switches_.find(name);
  return it == switches_.end() ? nullptr : &it->second;
}

SwitchModel::SwitchRecord* SwitchModel::FindSwitch(const std::string& name) {
  auto it = switches_.find(name);
  return it == switches_.end() ? nullptr : &it->second;
}

uint64_t SwitchModel::TakeId(uint64_t StoredIds::*next) {
  std::lock_guard lock(ids_mutex_);
  uint64_t id = ids_.*next;
  if (id >= ids_saved_.*next) {
    ids_saved_.*next = id + kIdsPerSave;
    store_->SaveIds(ids_saved_);
  }
  ++(ids_.*next);
  return id;
}

SwitchView SwitchModel::ViewOf(const SwitchRecord& record) const {
  SwitchView view = ViewOfNew(record.spec);
  view.port_count = record.port_count;
  view.fdb_dynamic_count = dataplane_->FdbCount(record.index, bridge::FdbKind::kDynamic);
  view.fdb_static_count = dataplane_->FdbCount(record.index, bridge::FdbKind::kStatic);
  view.fdb_events = dataplane_->FdbEvents(record.index);
  view.totals = dataplane_->ReadSwitch(record.index);
  for (const bridge::FdbMoves& row : dataplane_->FdbMoves(record.index)) {
    // Those of a port that is being removed go with it.
    if (port_names_[row.from].empty() || port_names_[row.to].empty()) continue;
    view.moves.push_back({port_names_[row.from], port_names_[row.to], row.count});
  }
  return view;
}

absl::StatusOr<SwitchView> SwitchModel::CreateSwitch(const SwitchRequest& request, bool validate_only) {
  absl::StatusOr<Verified<SwitchSpec>> verified = Verification::NewSwitch(request);
  if (!verified.ok()) return verified.status();
  KeyLocks::Hold hold(&keys_, SwitchKey(request.name));
  {
    std::lock_guard lock(mutex_);
    if (FindSwitch(request.name) != nullptr) return SwitchExists(request.name);
    if (validate_only) return ViewOfNew(**verified);
  }
  return ApplySwitch(*verified);
}

absl::StatusOr<SwitchView> SwitchModel::ApplySwitch(const Verified<SwitchSpec>& verified) {
  SwitchRecord record;
  record.spec = *verified;
  absl::StatusOr<bridge::SwitchIndex> index =
      dataplane_->AddSwitch(ConfigOf(record.spec), record.spec.fdb_capacity);
  if (!index.ok()) return WithReason(index.status(), "SWITCH_NOT_ADDED", "switch", record.spec.name);
  record.index = *index;
  record.spec.id = TakeId(&StoredIds::next_switch_id);
  store_->SaveSwitch(record.spec);
  std::lock_guard lock(mutex_);
  Notify(record.spec, false);
  return ViewOf(switches_.emplace(record.spec.name, record).first->second);
}

absl::StatusOr<bool> SwitchModel::EnsureSwitch(const std::string& name) {
  SwitchRequest request;
  request.name = name;
  absl::StatusOr<Verified<SwitchSpec>> verified = Verification::NewSwitch(request);
  if (!verified.ok()) return verified.status();
  KeyLocks::Hold hold(&keys_, SwitchKey(name));
  {
    std::lock_guard lock(mutex_);
    if (FindSwitch(name) != nullptr) return false;
  }
  absl::Status status = ApplySwitch(*verified).status();
  if (!status.ok()) return status;
  return true;
}

absl::StatusOr<SwitchView> SwitchModel::GetSwitch(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const SwitchRecord* record = FindSwitch(name);
  if (record == nullptr) return SwitchNotFound(name);
  return ViewOf(*record);
}

Page<SwitchView> SwitchModel::ListSwitches(const std::string& after, size_t rows_max) const {
  Page<SwitchView> page;
  std::lock_guard lock(mutex_);
  for (auto it = switches_.upper_bound(after); it != switches_.end(); ++it) {
    if (page.rows.size() == rows_max) {
      page.has_more = true;
      break;
    }
    page.rows.push_back(ViewOf(it->second));
  }
  return page;
}

absl::StatusOr<SwitchView> SwitchModel::UpdateSwitch(const SwitchUpdate& update, bool validate_only) {
  KeyLocks::Hold hold(&keys_, SwitchKey(update.name));
  std::unique_lock lock(mutex_);
  SwitchRecord* record = FindSwitch(update.name);
  if (record == nullptr) return SwitchNotFound(update.name);
  absl::StatusOr<Verified<SwitchSpec>> verified = Verification::ChangedSwitch(record->spec, update);
  if (!verified.ok()) return verified.status();
  const SwitchSpec& spec = **verified;
  bool is_vlan_change =
      spec.vlan_aware != record->spec.vlan_aware || spec.default_vid != record->spec.default_vid;
  if (is_vlan_change && record->port_count > 0) {
    return ReasonError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("vlan_aware and default_vid of switch ", Quoted(update.name),
                     " cannot change while it has ports: delete its ", record->port_count, " ports first"),
        {"SWITCH_HAS_PORTS", {{"switch", update.name}}});
  }
  if (validate_only || spec == record->spec) {
    SwitchView view = ViewOf(*record);
    view.spec = spec;
    return view;
  }
  bridge::SwitchIndex index = record->index;
  lock.unlock();
  // The lock of the name keeps the switch and lets no port in meanwhile.
  dataplane_->UpdateSwitch(index, ConfigOf(spec));
  store_->SaveSwitch(spec);
  lock.lock();
  record->spec = spec;
  Notify(spec, false);
  return ViewOf(*record);
}

absl::Status SwitchModel::DeleteSwitch(const std::string& name, bool validate_only) {
  KeyLocks::Hold hold(&keys_, SwitchKey(name));
  bridge::SwitchIndex index = 0;
  {
    std::lock_guard lock(mutex_);
    const SwitchRecord* record = FindSwitch(name);
    if (record == nullptr) return SwitchNotFound(name);
    if (record->port_count > 0) {
      return ReasonError(
          absl::StatusCode::kFailedPrecondition,
          absl::StrCat("switch ", Quoted(name), " has ", record->port_count, " ports: delete them first"),
          {"SWITCH_HAS_PORTS", {{"switch", name}}});
    }
    if (validate_only) return absl::OkStatus();
    index = record->index;
    Notify(record->spec, true);
    switches_.erase(name);
  }
  dataplane_->RemoveSwitch(index);
  store_->RemoveSwitch(name);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<VlanView>> SwitchModel::ListVlans(const std::string& switch_name,
                                                             const std::vector<VlanRange>& ranges) const {
  absl::StatusOr<bridge::VlanSet> wanted = Verification::Vlans("ranges", ranges);
  if (!wanted.ok()) return wanted.status();
  std::map<bridge::VlanId, VlanView> vlans;
  std::lock_guard lock(mutex_);
  const SwitchRecord* record = FindSwitch(switch_name);
  if (record == nullptr) return SwitchNotFound(switch_name);
  if (!record->spec.vlan_aware) {
    return ReasonError(absl::StatusCode::kFailedPrecondition,
                       absl::StrCat("switch ", Quoted(switch_name), " is not VLAN-aware"),
                       {"SWITCH_NOT_VLAN_AWARE", {{"switch", switch_name}}});
  }
  for (const auto& [name, port] : ports_) {
    if (port.spec.switch_name != switch_name || !port.spec.vlans.has_value()) continue;
    const VlanMembership& membership = *port.spec.vlans;
    for (uint32_t vid = 1; vid <= bridge::kVlanIdMax; ++vid) {
      bridge::VlanId id = static_cast<bridge::VlanId>(vid);
      bool is_untagged = id == (membership.is_trunk ? membership.native_vid : membership.access_vid);
      bool is_tagged = membership.tagged.contains(id);
      if ((!is_tagged && !is_untagged) || (!ranges.empty() && !wanted->contains(id))) continue;
      VlanView& vlan = vlans[id];
      vlan.vid = id;
      (is_tagged ? vlan.tagged_ports : vlan.untagged_ports).push_back(name);
    }
  }
  if (record->spec.vlan_counters) {
    for (auto& [vid, vlan] : vlans) vlan.totals = VlanTotals{vid, 0, 0, 0, 0};
    for (const VlanTotals& totals : dataplane_->ReadVlans(record->index)) {
      auto it = vlans.find(totals.vid);
      if (it != vlans.end()) it->second.totals = totals;
    }
  }
  std::vector<VlanView> rows;
  rows.reserve(vlans.size());
  for (auto& [vid, vlan] : vlans) rows.push_back(std::move(vlan));
  return rows;
}

}  // namespace ringswitch::agent
