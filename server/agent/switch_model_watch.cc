// What the switch model tells those who watch, capture and count.

#include "absl/strings/str_cat.h"
#include "server/agent/switch_model.h"
#include "server/agent/switch_model_errors.h"

namespace ringswitch::agent {

void SwitchModel::SetObserver(std::function<void(const ObjectChange&)> observer) {
  std::lock_guard lock(mutex_);
  observer_ = std::move(observer);
}

void SwitchModel::Notify(const SwitchSpec& spec, bool is_deleted) const {
  if (!observer_) return;
  ObjectChange change;
  change.kind = ObjectChange::Kind::kSwitch;
  change.switch_name = spec.name;
  change.deleted = is_deleted;
  observer_(change);
}

void SwitchModel::Notify(const PortSpec& spec, bool is_deleted) const {
  if (!observer_) return;
  ObjectChange change;
  change.kind = ObjectChange::Kind::kPort;
  change.switch_name = spec.switch_name;
  change.name = spec.name;
  change.deleted = is_deleted;
  observer_(change);
}

void SwitchModel::SetFdbLogging(const std::string& switch_name, bool is_logging) {
  std::lock_guard lock(mutex_);
  const SwitchRecord* record = FindSwitch(switch_name);
  if (record != nullptr) dataplane_->SetFdbLogging(record->index, is_logging);
}

bool SwitchModel::TakeFdbChanges(const std::string& switch_name, std::vector<ObjectChange>* changes) {
  std::vector<bridge::FdbChange> rows;
  std::lock_guard lock(mutex_);
  const SwitchRecord* record = FindSwitch(switch_name);
  if (record == nullptr) return true;
  const bool is_whole = dataplane_->TakeFdbChanges(record->index, &rows);
  for (const bridge::FdbChange& row : rows) {
    ObjectChange& change = changes->emplace_back();
    change.kind = ObjectChange::Kind::kFdb;
    change.switch_name = switch_name;
    if (row.target.port < last_port_names_.size()) change.name = last_port_names_[row.target.port];
    change.fdb_key = row.key;
    change.fdb_kind = row.target.kind;
    change.deleted = row.target.kind == bridge::FdbKind::kNone;
  }
  return is_whole;
}

std::vector<VlanTotals> SwitchModel::ReadVlans(const std::string& switch_name) const {
  std::lock_guard lock(mutex_);
  const SwitchRecord* record = FindSwitch(switch_name);
  if (record == nullptr || !record->spec.vlan_counters) return {};
  return dataplane_->ReadVlans(record->index);
}

absl::StatusOr<std::vector<bridge::PortIndex>> SwitchModel::PortIndexes(
    const std::vector<std::string>& names, const std::string& switch_name) const {
  std::vector<bridge::PortIndex> indexes;
  std::lock_guard lock(mutex_);
  if (!switch_name.empty() && FindSwitch(switch_name) == nullptr) return SwitchNotFound(switch_name);
  for (const std::string& name : names) {
    const PortRecord* port = FindPort(name);
    if (port == nullptr) return PortNotFound(name);
    if (port->index.has_value()) indexes.push_back(*port->index);
  }
  if (!names.empty() || switch_name.empty()) return indexes;
  for (const auto& [name, port] : ports_) {
    if (port.spec.switch_name == switch_name && port.index.has_value()) indexes.push_back(*port.index);
  }
  return indexes;
}

std::string SwitchModel::PortNameOf(bridge::PortIndex index) const {
  std::lock_guard lock(mutex_);
  return index < last_port_names_.size() ? last_port_names_[index] : "";
}

}  // namespace ringswitch::agent
