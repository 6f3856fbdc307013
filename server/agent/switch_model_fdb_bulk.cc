// CreateFdbEntries of the switch model: static FDB entries in bulk, all or nothing.
//
// Theory of operation. What a stream has brought is verified field by field, then against what is there
// (ports, their VLANs, entries, room), and only then applied. The lock of the switch's name is held through
// all of it: ports keep their VLANs, static entries stay as they were found. Two things may still happen: a
// port is removed, for which nobody is asked to wait, and workers learn addresses into what room was left.
// Either makes the call fail, with what it has done undone; a dynamic entry that had become static is removed
// then, and learned again from the next frame of its address.
//
// mutex_ is held for a slice of entries at a time, the FDB's own lock for each entry alone, and the record
// and the state file are brought up to date once, at the end: forwarding and other calls go on.

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/agent/port_config.h"
#include "server/agent/switch_model.h"
#include "server/agent/switch_model_errors.h"

namespace ringswitch::agent {
namespace {

using bridge::FdbKind;
using bridge::VlanId;

constexpr size_t kSliceEntries = 512;  // about 0.2 ms
// A mutex is not fair: who waits for it needs a moment to wake up and take it.
constexpr std::chrono::microseconds kSlicePause{50};
constexpr size_t kViolationsMax = 16;  // more help nobody, see ToGrpc

std::string FieldOf(uint32_t number, const char* field) {
  return absl::StrCat("entries[", number, "].", field);
}

// The error of one entry, told with the entry's number.
absl::Status AtEntry(uint32_t number, const char* field, const absl::Status& status) {
  const std::string path = FieldOf(number, field);
  ErrorReason reason = ErrorReasonOf(status);
  reason.metadata.emplace_back("field", path);
  return ReasonError(status.code(), absl::StrCat(path, ": ", status.message()), reason);
}

absl::Status TooMany() {
  return ReasonError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("more than ", kFdbBulkMax, " FDB entries, each counted once per VLAN"),
                     {"FDB_BULK_TOO_LARGE", {{"entries_max", absl::StrCat(kFdbBulkMax)}}});
}

}  // namespace

class SwitchModel::FdbBulk {
 public:
  FdbBulk(SwitchModel* model, const FdbBulkRequest& request) : model_(*model), request_(request) {}

  // With the lock of the switch's name held.
  absl::StatusOr<uint32_t> Run() {
    absl::Status status = Look();
    if (status.ok()) status = Expand();
    if (status.ok()) status = CheckPorts();
    if (status.ok()) status = CheckDuplicates();
    if (status.ok()) status = CheckPresent();
    if (status.ok() && !request_.validate_only) status = Apply();
    if (!status.ok()) return status;
    return changed_;
  }

 private:
  struct Port {
    bool is_usable = false;
    PortSpec spec;
    bridge::PortIndex index = bridge::kNoPort;
    size_t checked_slice = SIZE_MAX;
  };
  struct Item {
    bridge::FdbKey key;
    uint32_t number = 0;  // of the entry in the stream
    uint32_t port = 0;    // in ports_
    bridge::FdbTarget before;
  };

  absl::Status Look();
  absl::Status Expand();
  absl::Status ExpandEntry(const FdbBulkRequest::Entry& entry, uint32_t number,
                           const std::vector<VlanId>& vids, std::vector<FieldViolation>* violations);
  absl::Status CheckPorts() const;
  absl::Status CheckDuplicates();
  absl::Status CheckPresent();
  absl::Status Apply();
  absl::Status ApplySlice(size_t* at, size_t end, size_t slice);
  void Undo(size_t end);
  absl::Status PortError(const Item& item) const;
  absl::Status FullError(const Item& item) const;

  SwitchModel& model_;
  const FdbBulkRequest& request_;
  SwitchRecord* record_ = nullptr;  // stays while the switch's name is locked
  SwitchSpec spec_;
  std::vector<Port> ports_;  // as request_.port_names
  std::vector<Item> items_;
  uint32_t changed_ = 0;
};

absl::StatusOr<uint32_t> SwitchModel::CreateFdbEntries(const FdbBulkRequest& request) {
  if (request.parts.empty()) return FieldError("entries", "at least one is wanted");
  KeyLocks::Hold hold(&keys_, SwitchKey(request.switch_name));
  return FdbBulk(this, request).Run();
}

// Copies what the checks need.
absl::Status SwitchModel::FdbBulk::Look() {
  std::lock_guard lock(model_.mutex_);
  record_ = model_.FindSwitch(request_.switch_name);
  if (record_ == nullptr) return SwitchNotFound(request_.switch_name);
  spec_ = record_->spec;
  ports_.resize(request_.port_names.size());
  for (size_t i = 0; i < ports_.size(); ++i) {
    const PortRecord* record = model_.FindPort(request_.port_names[i]);
    if (record == nullptr || record->spec.switch_name != spec_.name || !record->index.has_value()) continue;
    ports_[i].is_usable = true;
    ports_[i].spec = record->spec;
    ports_[i].index = *record->index;
  }
  return absl::OkStatus();
}

// Fields, and entries times VLANs.
absl::Status SwitchModel::FdbBulk::Expand() {
  std::vector<FieldViolation> violations;
  uint32_t number = 0;
  for (const FdbBulkRequest::Part& part : request_.parts) {
    absl::StatusOr<bridge::VlanSet> set = Verification::Vlans("ranges", part.ranges);
    if (!set.ok()) return set.status();
    if (!part.ranges.empty() && !spec_.vlan_aware) {
      return FieldError("ranges",
                        absl::StrCat("must be left out: switch ", Quoted(spec_.name), " is not VLAN-aware"));
    }
    std::vector<VlanId> vids;
    for (uint32_t vid = 1; vid <= bridge::kVlanIdMax; ++vid) {
      if (set->contains(static_cast<VlanId>(vid))) vids.push_back(static_cast<VlanId>(vid));
    }
    for (const FdbBulkRequest::Entry& entry : part.entries) {
      absl::Status status = ExpandEntry(entry, number++, vids, &violations);
      if (!status.ok()) return status;
      if (violations.size() >= kViolationsMax) return FieldError(violations);
    }
  }
  return violations.empty() ? absl::OkStatus() : FieldError(violations);
}

absl::Status SwitchModel::FdbBulk::ExpandEntry(const FdbBulkRequest::Entry& entry, uint32_t number,
                                               const std::vector<VlanId>& vids,
                                               std::vector<FieldViolation>* violations) {
  uint32_t vid = entry.vid == 0 && spec_.vlan_aware ? spec_.default_vid : entry.vid;
  bool is_vid = spec_.vlan_aware ? bridge::IsVlan(vid) : vid == 0;
  if (!vids.empty() && entry.vid != 0) {
    violations->push_back({FieldOf(number, "vid"), "must be 0 where ranges are given"});
  } else if (!entry.mac.is_station() || !is_vid) {
    absl::StatusOr<bridge::FdbKey> key =
        Verification::FdbKeyOf(FieldOf(number, ""), entry.vid, entry.mac.ToString(), spec_);
    for (FieldViolation& violation : FieldViolationsOf(key.status()))
      violations->push_back(std::move(violation));
  } else {
    if (items_.size() + std::max<size_t>(vids.size(), 1) > kFdbBulkMax) return TooMany();
    if (vids.empty()) items_.push_back({{entry.mac, static_cast<VlanId>(vid)}, number, entry.port, {}});
    for (VlanId each : vids) items_.push_back({{entry.mac, each}, number, entry.port, {}});
  }
  return absl::OkStatus();
}

absl::Status SwitchModel::FdbBulk::CheckPorts() const {
  for (const Item& item : items_) {
    const Port& port = ports_[item.port];
    if (!port.is_usable || !IsMember(port.spec, item.key.vid)) return PortError(item);
  }
  return absl::OkStatus();
}

absl::Status SwitchModel::FdbBulk::PortError(const Item& item) const {
  const std::string& name = request_.port_names[item.port];
  std::lock_guard lock(model_.mutex_);
  absl::StatusOr<const PortRecord*> port = model_.FdbPort(name, *record_, item.key);
  // It may have come, or come back, in this very moment.
  return AtEntry(item.number, "port_name", port.ok() ? PortNotFound(name) : port.status());
}

// Puts the items in the order of their keys; of two with the same key the later one counts.
absl::Status SwitchModel::FdbBulk::CheckDuplicates() {
  std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return std::make_tuple(a.key.mac.bits(), a.key.vid, a.number) <
           std::make_tuple(b.key.mac.bits(), b.key.vid, b.number);
  });
  size_t kept = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    const bool is_last = i + 1 == items_.size() || items_[i + 1].key != items_[i].key;
    if (!is_last && !request_.replace) {
      return AtEntry(
          items_[i + 1].number, "mac_address",
          FdbEntryError(absl::StatusCode::kAlreadyExists, "FDB_ENTRY_EXISTS", spec_.name, items_[i].key,
                        absl::StrCat("entries[", items_[i].number, "] is the same")));
    }
    if (is_last) items_[kept++] = items_[i];
  }
  items_.resize(kept);
  return absl::OkStatus();
}

// What the table holds of the keys, and whether it has room for the rest.
absl::Status SwitchModel::FdbBulk::CheckPresent() {
  const Item* exists = nullptr;
  uint32_t new_count = 0;
  for (Item& item : items_) {
    std::optional<bridge::FdbRow> row = model_.dataplane_->FindFdbEntry(record_->index, item.key);
    if (row.has_value()) item.before = row->target;
    const bool is_static = item.before.kind == FdbKind::kStatic;
    if (is_static && !request_.replace && (exists == nullptr || item.number < exists->number)) exists = &item;
    if (!is_static || item.before.port != ports_[item.port].index) ++changed_;
    if (!row.has_value()) ++new_count;
  }
  if (exists != nullptr) {
    return AtEntry(exists->number, "mac_address",
                   FdbEntryError(absl::StatusCode::kAlreadyExists, "FDB_ENTRY_EXISTS", spec_.name,
                                 exists->key, "a static FDB entry exists"));
  }
  const uint32_t present = model_.dataplane_->FdbCount(record_->index, FdbKind::kDynamic) +
                           model_.dataplane_->FdbCount(record_->index, FdbKind::kStatic);
  const uint32_t room = spec_.fdb_capacity - std::min(spec_.fdb_capacity, present);
  if (new_count > room) {
    return ReasonError(
        absl::StatusCode::kResourceExhausted,
        absl::StrCat("the FDB of switch ", spec_.name, " has room for ", room, " more entries, not for ",
                     new_count, ": fdb_capacity is ", spec_.fdb_capacity),
        {"FDB_FULL", {{"switch", spec_.name}}});
  }
  return absl::OkStatus();
}

absl::Status SwitchModel::FdbBulk::Apply() {
  size_t at = 0;
  for (size_t slice = 0; at < items_.size(); ++slice) {
    absl::Status status = ApplySlice(&at, std::min(at + kSliceEntries, items_.size()), slice);
    if (!status.ok()) {
      Undo(at);
      return status;
    }
    if (at < items_.size()) std::this_thread::sleep_for(kSlicePause);
  }
  StaticFdbChange change;
  change.added.reserve(items_.size());
  for (const Item& item : items_) {
    record_->static_entries.Put(item.key, request_.port_names[item.port]);
    change.added.push_back({item.key, request_.port_names[item.port]});
  }
  model_.SaveStaticEntries(*record_, change);
  return absl::OkStatus();
}

// `at` ends up behind the last item that was applied.
absl::Status SwitchModel::FdbBulk::ApplySlice(size_t* at, size_t end, size_t slice) {
  const Item* lost = nullptr;
  {
    std::lock_guard lock(model_.mutex_);
    for (; *at < end && lost == nullptr; ++*at) {
      const Item& item = items_[*at];
      Port& port = ports_[item.port];
      if (port.checked_slice != slice) {
        // Its number in the dataplane may be another port's by now.
        const PortRecord* record = model_.FindPort(port.spec.name);
        if (record == nullptr || record->spec.id != port.spec.id || record->index != port.index) {
          lost = &item;
          break;
        }
        port.checked_slice = slice;
      }
      bridge::FdbResult result =
          model_.dataplane_->AddStaticFdbEntry(record_->index, item.key, port.index, true);
      if (result != bridge::FdbResult::kOk) return FullError(item);
    }
  }
  return lost == nullptr ? absl::OkStatus() : PortError(*lost);
}

absl::Status SwitchModel::FdbBulk::FullError(const Item& item) const {
  return AtEntry(
      item.number, "mac_address",
      FdbEntryError(absl::StatusCode::kResourceExhausted, "FDB_FULL", spec_.name, item.key,
                    absl::StrCat("the FDB has become full: fdb_capacity is ", spec_.fdb_capacity)));
}

// Takes back the items before `end`. The record was not changed yet: it says what was static, and where.
void SwitchModel::FdbBulk::Undo(size_t end) {
  for (size_t first = 0; first < end; first += kSliceEntries) {
    {
      std::lock_guard lock(model_.mutex_);
      for (size_t i = first; i < std::min(first + kSliceEntries, end); ++i) {
        const Item& item = items_[i];
        const std::string* stored = record_->static_entries.PortOf(item.key);
        const bool is_back = item.before.kind == FdbKind::kStatic && stored != nullptr &&
                             model_.port_names_[item.before.port] == *stored;
        if (is_back) {
          model_.dataplane_->AddStaticFdbEntry(record_->index, item.key, item.before.port, true);
        } else {
          model_.dataplane_->RemoveFdbEntry(record_->index, item.key);
        }
      }
    }
    std::this_thread::sleep_for(kSlicePause);
  }
}

}  // namespace ringswitch::agent
