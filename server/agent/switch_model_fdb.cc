// FDB entries of the switch model. Dynamic ones live in the dataplane alone; static ones are desired state.
//
// Static entries of a switch change only under the lock of its name. Under it they are walked, copied and
// written without mutex_, so that a million of them hold up nobody else; what is written is what a call has
// changed, most often (state_store.h). Many at once:
// switch_model_fdb_bulk.cc.

#include "absl/strings/str_cat.h"
#include "server/agent/port_config.h"
#include "server/agent/switch_model.h"
#include "server/agent/switch_model_errors.h"

namespace ringswitch::agent {
namespace {

absl::Status PortElsewhere(const PortSpec& port, const std::string& switch_name) {
  return ReasonError(absl::StatusCode::kNotFound,
                     absl::StrCat("switch ", Quoted(switch_name), " has no port ", Quoted(port.name),
                                  ": it is on ", Quoted(port.switch_name)),
                     {"PORT_NOT_FOUND", {{"port", port.name}, {"switch", switch_name}}});
}

absl::Status EntryNotFound(const FdbEntryRequest& request, bridge::FdbKey key) {
  return FdbEntryError(absl::StatusCode::kNotFound, "FDB_ENTRY_NOT_FOUND", request.switch_name, key,
                       "no such FDB entry");
}

}  // namespace

FdbEntryView SwitchModel::ViewOf(const SwitchRecord& record, const bridge::FdbRow& row) const {
  return {record.spec.name, row, port_names_[row.target.port]};
}

absl::StatusOr<const SwitchModel::PortRecord*> SwitchModel::FdbPort(const std::string& port_name,
                                                                    const SwitchRecord& record,
                                                                    bridge::FdbKey key) const {
  const PortRecord* port = FindPort(port_name);
  if (port == nullptr) return PortNotFound(port_name);
  if (port->spec.switch_name != record.spec.name) return PortElsewhere(port->spec, record.spec.name);
  if (!IsMember(port->spec, key.vid)) {
    return ReasonError(absl::StatusCode::kFailedPrecondition,
                       absl::StrCat("port ", Quoted(port_name), " is not a member of VLAN ", key.vid),
                       {"PORT_NOT_VLAN_MEMBER", {{"port", port_name}, {"vid", absl::StrCat(key.vid)}}});
  }
  if (!port->index.has_value()) {
    return ReasonError(absl::StatusCode::kFailedPrecondition,
                       absl::StrCat("the device of port ", Quoted(port_name), " is missing"),
                       {"PORT_MISSING", {{"port", port_name}}});
  }
  return port;
}

absl::StatusOr<FdbEntryView> SwitchModel::CreateFdbEntry(const FdbEntryRequest& request, bool validate_only) {
  KeyLocks::Hold hold(&keys_, SwitchKey(request.switch_name));
  return ApplyFdbEntry(request, false, validate_only);
}

absl::StatusOr<FdbEntryView> SwitchModel::UpdateFdbEntry(const FdbEntryRequest& request, bool validate_only) {
  KeyLocks::Hold hold(&keys_, SwitchKey(request.switch_name));
  return ApplyFdbEntry(request, true, validate_only);
}

absl::StatusOr<FdbEntryView> SwitchModel::ApplyFdbEntry(const FdbEntryRequest& request, bool is_update,
                                                        bool validate_only) {
  FdbEntryView view;
  SwitchRecord* record = nullptr;  // stays while the switch's name is locked
  {
    std::lock_guard lock(mutex_);
    record = FindSwitch(request.switch_name);
    if (record == nullptr) return SwitchNotFound(request.switch_name);
    absl::StatusOr<bridge::FdbKey> key =
        Verification::FdbKeyOf("entry.", request.vid, request.mac_address, record->spec);
    if (!key.ok()) return key.status();
    absl::StatusOr<const PortRecord*> port = FdbPort(request.port_name, *record, *key);
    if (!port.ok()) return port.status();
    std::optional<bridge::FdbRow> present = dataplane_->FindFdbEntry(record->index, *key);
    bool is_static = present.has_value() && present->target.kind == bridge::FdbKind::kStatic;
    if (is_update && !present.has_value()) return EntryNotFound(request, *key);
    if (!is_update && is_static) {
      return FdbEntryError(absl::StatusCode::kAlreadyExists, "FDB_ENTRY_EXISTS", request.switch_name, *key,
                           "a static FDB entry exists");
    }
    bridge::PortIndex index = *(*port)->index;
    view = {request.switch_name, {*key, {index, bridge::FdbKind::kStatic}, 0}, request.port_name};
    if (validate_only) return view;
    bridge::FdbResult result = dataplane_->AddStaticFdbEntry(record->index, *key, index, true);
    if (result != bridge::FdbResult::kOk) {
      return FdbEntryError(absl::StatusCode::kResourceExhausted, "FDB_FULL", request.switch_name, *key,
                           absl::StrCat("the FDB is full: fdb_capacity is ", record->spec.fdb_capacity));
    }
    record->static_entries.Put(*key, request.port_name);
  }
  SaveStaticEntries(*record, {{}, {{view.row.key, request.port_name}}});
  return view;
}

void SwitchModel::SaveStaticEntries(const SwitchRecord& record, const StaticFdbChange& change) {
  if (!store_->AppendFdb(record.spec.name, change))
    store_->SaveFdb(record.spec.name, record.static_entries.List());
}

void SwitchModel::RemoveStaticEntries(const std::string& switch_name, const std::string& port_name,
                                      const std::function<bool(bridge::FdbKey)>& matches) {
  SwitchRecord* record = nullptr;
  {
    std::lock_guard lock(mutex_);
    record = FindSwitch(switch_name);
  }
  if (record == nullptr) return;
  StaticFdbChange change;
  change.removed =
      port_name.empty() ? record->static_entries.List() : record->static_entries.ListOf(port_name);
  std::erase_if(change.removed, [&](const StaticFdbEntry& entry) { return !matches(entry.key); });
  for (const StaticFdbEntry& entry : change.removed) {
    dataplane_->RemoveFdbEntry(record->index, entry.key);
    record->static_entries.Remove(entry.key);
  }
  if (!change.removed.empty()) SaveStaticEntries(*record, change);
}

absl::StatusOr<FdbEntryView> SwitchModel::GetFdbEntry(const FdbEntryRequest& request) const {
  std::lock_guard lock(mutex_);
  const SwitchRecord* record = FindSwitch(request.switch_name);
  if (record == nullptr) return SwitchNotFound(request.switch_name);
  absl::StatusOr<bridge::FdbKey> key =
      Verification::FdbKeyOf("", request.vid, request.mac_address, record->spec);
  if (!key.ok()) return key.status();
  std::optional<bridge::FdbRow> row = dataplane_->FindFdbEntry(record->index, *key);
  if (!row.has_value() || port_names_[row->target.port].empty()) return EntryNotFound(request, *key);
  return ViewOf(*record, *row);
}

absl::StatusOr<bridge::FdbFilter> SwitchModel::FilterOf(const SwitchRecord& record,
                                                        const FdbFilterRequest& request) const {
  bridge::FdbFilter filter;
  filter.kind = request.kind;
  if (!request.port_name.empty()) {
    const PortRecord* port = FindPort(request.port_name);
    if (port == nullptr) return PortNotFound(request.port_name);
    if (port->spec.switch_name != record.spec.name) return PortElsewhere(port->spec, record.spec.name);
    filter.port = port->index.value_or(bridge::kNoPort);
  }
  if (request.vid.has_value()) {
    uint32_t vid = *request.vid == 0 && record.spec.vlan_aware ? record.spec.default_vid : *request.vid;
    if (vid > bridge::kVlanIdMax)
      return FieldError("vid", absl::StrCat(vid, " is not a VID: 1 to ", bridge::kVlanIdMax));
    if (vid != 0 && !record.spec.vlan_aware)
      return FieldError("vid", "must be left out or 0: the switch is not VLAN-aware");
    filter.vid = static_cast<bridge::VlanId>(vid);
  }
  return filter;
}

absl::StatusOr<FdbPage> SwitchModel::ListFdbEntries(const FdbFilterRequest& request, uint32_t cursor,
                                                    uint32_t rows_max) const {
  FdbPage page;
  std::vector<bridge::FdbRow> rows;
  std::vector<std::string> port_names;
  {
    std::lock_guard lock(mutex_);
    const SwitchRecord* record = FindSwitch(request.switch_name);
    if (record == nullptr) return SwitchNotFound(request.switch_name);
    absl::StatusOr<bridge::FdbFilter> filter = FilterOf(*record, request);
    if (!filter.ok()) return filter.status();
    page.next_cursor = dataplane_->ListFdb(record->index, cursor, *filter, rows_max, &rows);
    port_names = port_names_;
  }
  page.rows.reserve(rows.size());
  for (const bridge::FdbRow& row : rows) {
    // A port that is being removed has no name any more: its entries go with it.
    const std::string& port_name = port_names[row.target.port];
    if (!port_name.empty()) page.rows.push_back({request.switch_name, row, port_name});
  }
  return page;
}

absl::Status SwitchModel::DeleteFdbEntry(const FdbEntryRequest& request) {
  KeyLocks::Hold hold(&keys_, SwitchKey(request.switch_name));
  SwitchRecord* record = nullptr;  // stays while the switch's name is locked
  StaticFdbChange change;
  {
    std::lock_guard lock(mutex_);
    record = FindSwitch(request.switch_name);
    if (record == nullptr) return SwitchNotFound(request.switch_name);
    absl::StatusOr<bridge::FdbKey> key =
        Verification::FdbKeyOf("", request.vid, request.mac_address, record->spec);
    if (!key.ok()) return key.status();
    const std::string* port_name = record->static_entries.PortOf(*key);
    const bool was_static = port_name != nullptr;
    if (was_static) change.removed.push_back({*key, *port_name});
    record->static_entries.Remove(*key);
    if (dataplane_->RemoveFdbEntry(record->index, *key) == bridge::FdbResult::kNotFound && !was_static) {
      return EntryNotFound(request, *key);
    }
    if (!was_static) return absl::OkStatus();
  }
  SaveStaticEntries(*record, change);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> SwitchModel::FlushFdb(const FdbFilterRequest& request) {
  KeyLocks::Hold hold(&keys_, SwitchKey(request.switch_name));
  bridge::SwitchIndex index = 0;
  bridge::FdbFilter filter;
  {
    std::lock_guard lock(mutex_);
    const SwitchRecord* record = FindSwitch(request.switch_name);
    if (record == nullptr) return SwitchNotFound(request.switch_name);
    absl::StatusOr<bridge::FdbFilter> wanted = FilterOf(*record, request);
    if (!wanted.ok()) return wanted.status();
    filter = *wanted;
    index = record->index;
  }
  if (!filter.kind.has_value()) filter.kind = bridge::FdbKind::kDynamic;
  uint32_t count = dataplane_->FlushFdb(index, filter);
  if (filter.kind == bridge::FdbKind::kStatic) {
    RemoveStaticEntries(request.switch_name, request.port_name, [&filter](bridge::FdbKey key) {
      return !filter.vid.has_value() || key.vid == *filter.vid;
    });
  }
  return count;
}

}  // namespace ringswitch::agent
