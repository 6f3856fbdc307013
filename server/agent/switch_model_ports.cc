// Ports of the switch model: made, changed, removed; each step undone where a later one fails.

#include <fcntl.h>
#include <sys/random.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/agent/port_config.h"
#include "server/agent/switch_model.h"
#include "server/agent/switch_model_errors.h"

namespace ringswitch::agent {
namespace {

bridge::MacAddress RandomMac() {
  uint8_t bytes[6] = {};
  // Six bytes are given whole and at once, once the system has started.
  if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) bytes[5] = 1;
  bytes[0] = static_cast<uint8_t>((bytes[0] & 0xfc) | 0x02);  // locally administered, a single station
  return bridge::MacAddress::FromBytes(bytes);
}

// What Links says of a new device, in terms of the request.
absl::Status DeviceError(const absl::Status& status, const PortSpec& spec, const PortFieldPaths& paths) {
  const bool is_netdev = spec.device.kind == DeviceRef::Kind::kNetdev;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return FieldError(paths.device + (is_netdev ? "ifname" : "netns"), std::string(status.message()));
    case absl::StatusCode::kAlreadyExists:
      return WithReason(status, "INTERFACE_EXISTS", "interface", spec.device.link.ifname);
    case absl::StatusCode::kNotFound:
      return WithReason(status, "NETDEV_NOT_FOUND", "interface", spec.device.link.ifname);
    case absl::StatusCode::kFailedPrecondition:
      return WithReason(status, "DEVICE_REFUSED", "interface", spec.device.link.ifname);
    default:
      return WithReason(status, "DEVICE_NOT_MADE", "port", spec.name);
  }
}

PortView ViewOfNew(const PortSpec& spec) {
  PortView view;
  view.spec = spec;
  return view;
}

}  // namespace

const SwitchModel::PortRecord* SwitchModel::FindPort(const std::string& name) const {
  auto it = ports_.find(name);
  return it == ports_.end() ? nullptr : &it->second;
}

SwitchModel::PortRecord* SwitchModel::FindPort(const std::string& name) {
  auto it = ports_.find(name);
  return it == ports_.end() ? nullptr : &it->second;
}

PortView SwitchModel::ViewOf(const PortRecord& record) const {
  PortView view;
  view.spec = record.spec;
  view.state = record.state;
  view.state_detail = record.state_detail;
  view.confirm_left_s = ConfirmLeft(record.spec);
  if (!record.index.has_value()) return view;
  PortStats stats = dataplane_->ReadPort(*record.index);
  view.totals = stats.totals;
  view.device_lost_frames = stats.device_lost_frames;
  const SwitchRecord* on = FindSwitch(record.spec.switch_name);
  if (on != nullptr) view.fdb_dynamic_count = dataplane_->FdbDynamicCount(on->index, *record.index);
  if (view.state == PortState::kMissing) return view;
  if (stats.device_gone) {
    view.state = PortState::kMissing;
    view.state_detail = GoneDetail(record.spec.device);
  } else if (!record.spec.attributes.admin_up) {
    view.state = PortState::kDown;
    view.state_detail = "set down by its administrator: set it up (admin_up) to let it forward";
  } else if (stats.blocked) {
    view.state = PortState::kBlocked;
    view.state_detail = BlockedDetail(stats);
  }
  return view;
}

absl::StatusOr<PortView> SwitchModel::CreatePort(const PortRequest& request, bool validate_only) {
  KeyLocks::Hold hold(&keys_, request.name);
  return MakePort(
      request.name, request.switch_name, PortFieldPaths::Of(request.device.kind),
      [&request](const SwitchSpec* on) { return Verification::NewPort(request, on); }, validate_only);
}

absl::StatusOr<PortView> SwitchModel::CreateAttachment(const AttachmentRequest& request) {
  auto verify = [&request](const SwitchSpec* on) { return Verification::NewAttachment(request, on); };
  // Before the switch is made: a request that cannot succeed leaves none behind.
  absl::StatusOr<Verified<PortSpec>> verified = verify(nullptr);
  if (!verified.ok()) return verified.status();
  std::string name = (*verified)->name;
  KeyLocks::Hold hold(&keys_, name);
  while (true) {
    absl::StatusOr<bool> is_new = EnsureSwitch(request.switch_name);
    if (!is_new.ok()) return is_new.status();
    absl::StatusOr<PortView> view =
        MakePort(name, request.switch_name, PortFieldPaths{"attachment.", "attachment."}, verify, false);
    if (view.ok()) return view;
    // The first attachment of a switch takes it along when it fails, unless another one came in; that one may
    // have to make it again.
    if (ErrorReasonOf(view.status()).reason == kSwitchNotFound) continue;
    if (*is_new) (void)DeleteSwitch(request.switch_name, false);
    return view;
  }
}

absl::StatusOr<PortView> SwitchModel::MakePort(const std::string& name, const std::string& switch_name,
                                               const PortFieldPaths& paths, const VerifyPort& verify,
                                               bool validate_only) {
  bridge::SwitchIndex switch_index = 0;
  absl::StatusOr<Verified<PortSpec>> verified = absl::UnknownError("");
  {
    KeyLocks::Hold hold_switch(&keys_, SwitchKey(switch_name));
    std::lock_guard lock(mutex_);
    SwitchRecord* on = FindSwitch(switch_name);
    verified = verify(on == nullptr ? nullptr : &on->spec);
    if (!verified.ok()) return verified.status();
    if (on == nullptr) return SwitchNotFound(switch_name);
    if (FindPort(name) != nullptr) return PortExists(name);
    if (validate_only) {
      absl::Status claim = CheckClaims(**verified);
      if (!claim.ok()) return claim;
    }
    switch_index = on->index;
    if (!validate_only) ++on->port_count;  // from here on the switch stays, and stays as VLAN-aware as it is
  }
  if (validate_only) {
    DeviceRef device = (*verified)->device;
    // Its number comes with the port; none is called 0.
    if (device.kind == DeviceRef::Kind::kVeth && device.host_ifname.empty()) device.host_ifname = "rsv0";
    absl::Status status = links_->CheckDevice(device);
    if (!status.ok()) return DeviceError(status, **verified, paths);
    return ViewOfNew(**verified);
  }
  absl::StatusOr<PortView> view = ApplyPort(*verified, switch_index, paths);
  if (!view.ok()) {
    std::lock_guard lock(mutex_);
    --FindSwitch(switch_name)->port_count;
  }
  return view;
}

absl::StatusOr<PortView> SwitchModel::ApplyPort(const Verified<PortSpec>& verified,
                                                bridge::SwitchIndex switch_index,
                                                const PortFieldPaths& paths) {
  PortRecord record;
  record.spec = *verified;
  PortSpec& spec = record.spec;
  const bool is_netdev = spec.device.kind == DeviceRef::Kind::kNetdev;
  if (spec.mac.is_zero() && !is_netdev) spec.mac = RandomMac();
  if (spec.trial.has_value()) spec.trial->ends_ms = clock_() + int64_t{spec.trial->within_s} * 1000;
  spec.id = TakeId(&StoredIds::next_port_id);
  if (spec.device.kind == DeviceRef::Kind::kVeth && spec.device.host_ifname.empty())
    spec.device.host_ifname = absl::StrCat("rsv", spec.id);
  {
    std::lock_guard lock(mutex_);
    absl::Status status = ClaimDevice(spec);
    if (!status.ok()) return status;
  }
  absl::Status status = BuildPort(&record, switch_index, paths);
  if (status.ok()) return EnterPort(std::move(record));
  std::lock_guard lock(mutex_);
  ReleaseClaims(spec);
  return status;
}

absl::Status SwitchModel::BuildPort(PortRecord* record, bridge::SwitchIndex switch_index,
                                    const PortFieldPaths& paths) {
  PortSpec& spec = record->spec;
  const bool is_tap = spec.device.kind == DeviceRef::Kind::kTap;
  // A TAP goes with its last file until it is kept. A veth does not: it is on disk before it is made, so that
  // an agent that dies in between leaves none that no file names.
  bool is_saved = spec.device.kind == DeviceRef::Kind::kVeth;
  if (is_saved) {
    absl::Status device = links_->CheckDevice(spec.device);
    if (!device.ok()) return DeviceError(device, spec, paths);
    store_->SavePort(StoredPort{spec, {}, /*is_made=*/false});
  }
  absl::StatusOr<PortLink> link = MakeDevice(&spec);
  if (!link.ok()) {
    if (is_saved) store_->RemovePort(spec.name);
    return DeviceError(link.status(), spec, paths);
  }
  record->netns_id = link->netns_id;
  if (!link->is_up) {
    record->state = PortState::kDown;
    record->state_detail = DownDetail(spec.device);
  }
  // The dataplane takes the file also where it fails: a second one, so that a TAP can be deleted then.
  File spare(is_tap ? fcntl(link->device.file.fd(), F_DUPFD_CLOEXEC, 0) : -1);
  absl::Status status = StartWatch(spec, &*link);
  const bool is_watched = status.ok();
  const char* reason = "NAMESPACE_NOT_WATCHED";
  if (status.ok()) {
    absl::StatusOr<bridge::PortIndex> index =
        dataplane_->AddPort(ConfigOf(spec, switch_index, link->is_up), std::move(link->device));
    if (index.ok()) record->index = *index;
    status = index.status();
    reason = "PORT_NOT_ADDED";
  }
  if (status.ok()) {
    store_->SavePort(StoredPort{spec, record->netns_id});
    is_saved = true;
    // After it is on disk, as said above.
    if (is_tap) status = links_->KeepTap(spare);
    reason = "DEVICE_NOT_KEPT";
  }
  if (status.ok()) return status;
  if (is_watched) EndWatch(spec);
  if (record->index.has_value()) dataplane_->RemovePort(*record->index);
  link->device.file.Close();
  DeleteDevice(spec, std::move(spare));
  if (is_saved) store_->RemovePort(spec.name);
  return WithReason(status, reason, "port", spec.name);
}

absl::Status SwitchModel::StartWatch(const PortSpec& spec, const PortLink* link) {
  {
    std::lock_guard lock(mutex_);
    watched_[spec.id] = spec.name;
  }
  absl::Status status = links_->Watch(spec.id, spec.device, link);
  if (status.ok()) return status;
  std::lock_guard lock(mutex_);
  watched_.erase(spec.id);
  return status;
}

void SwitchModel::EndWatch(const PortSpec& spec) {
  links_->Unwatch(spec.id);
  std::lock_guard lock(mutex_);
  watched_.erase(spec.id);
}

PortView SwitchModel::EnterPort(PortRecord record) {
  std::lock_guard lock(mutex_);
  if (record.index.has_value()) {
    port_names_[*record.index] = record.spec.name;
    last_port_names_[*record.index] = record.spec.name;
  }
  std::string name = record.spec.name;
  Notify(record.spec, false);
  return ViewOf(ports_.insert_or_assign(name, std::move(record)).first->second);
}

absl::StatusOr<PortView> SwitchModel::GetPort(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const PortRecord* record = FindPort(name);
  if (record == nullptr) return PortNotFound(name);
  return ViewOf(*record);
}

Page<PortView> SwitchModel::ListPorts(const PortFilter& filter) const {
  Page<PortView> page;
  std::lock_guard lock(mutex_);
  for (auto it = ports_.upper_bound(filter.after); it != ports_.end(); ++it) {
    const PortSpec& spec = it->second.spec;
    if (!filter.switch_name.empty() && spec.switch_name != filter.switch_name) continue;
    if (!filter.pod.empty() && absl::StrCat(spec.pod.namespace_name, "/", spec.pod.name) != filter.pod)
      continue;
    if (filter.attachments_only && !spec.attachment.has_value()) continue;
    if (page.rows.size() == filter.rows_max) {
      page.has_more = true;
      break;
    }
    page.rows.push_back(ViewOf(it->second));
  }
  return page;
}

absl::StatusOr<PortView> SwitchModel::UpdatePort(const PortUpdate& update, bool validate_only) {
  return ChangePort(
      update.name,
      [&update](const PortSpec& present, const SwitchSpec& on) {
        return Verification::ChangedPort(present, update, on);
      },
      validate_only);
}

absl::StatusOr<PortView> SwitchModel::ChangeVlans(const std::string& port_name,
                                                  const std::vector<VlanRange>& ranges, bool add) {
  return ChangePort(
      port_name,
      [&ranges, add](const PortSpec& present, const SwitchSpec&) {
        return Verification::ChangedTrunk(present, ranges, add);
      },
      false);
}

absl::StatusOr<PortView> SwitchModel::ChangePort(const std::string& name, const VerifyChange& verify,
                                                 bool validate_only) {
  KeyLocks::Hold hold(&keys_, name);
  PortRecord present;
  bridge::SwitchIndex switch_index = 0;
  absl::StatusOr<Verified<PortSpec>> verified = absl::UnknownError("");
  {
    std::lock_guard lock(mutex_);
    const PortRecord* record = FindPort(name);
    if (record == nullptr) return PortNotFound(name);
    const SwitchRecord* on = FindSwitch(record->spec.switch_name);
    verified = verify(record->spec, on->spec);
    if (!verified.ok()) return verified.status();
    if (validate_only || **verified == record->spec) {
      PortView view = ViewOf(*record);
      view.spec = **verified;
      return view;
    }
    present = *record;
    switch_index = on->index;
  }
  return ApplyPortChange(present, *verified, switch_index);
}

absl::StatusOr<PortView> SwitchModel::ApplyPortChange(const PortRecord& present,
                                                      const Verified<PortSpec>& verified,
                                                      bridge::SwitchIndex switch_index) {
  const PortSpec& spec = *verified;
  // The only step that can fail comes first.
  if (spec.mtu != present.spec.mtu) {
    absl::Status status = links_->SetMtu(spec.device, spec.mtu);
    if (status.code() == absl::StatusCode::kNotFound) {
      status = absl::FailedPreconditionError(absl::StrCat("its device is missing: ", status.message()));
    }
    if (!status.ok()) return WithReason(status, "MTU_NOT_SET", "port", spec.name);
  }
  KeyLocks::Hold hold_switch(&keys_, SwitchKey(spec.switch_name));
  if (present.index.has_value())
    dataplane_->UpdatePort(*present.index, ConfigOf(spec, switch_index, present.state != PortState::kDown));
  RemoveStaticEntries(spec.switch_name, spec.name,
                      [&spec](bridge::FdbKey key) { return !IsMember(spec, key.vid); });
  store_->SavePort(StoredPort{spec, present.netns_id});
  std::lock_guard lock(mutex_);
  PortRecord* record = FindPort(spec.name);
  record->spec = spec;
  Notify(spec, false);
  return ViewOf(*record);
}

absl::Status SwitchModel::DeletePort(const std::string& name, bool validate_only) {
  KeyLocks::Hold hold(&keys_, name);
  {
    std::lock_guard lock(mutex_);
    if (FindPort(name) == nullptr) return PortNotFound(name);
    if (validate_only) return absl::OkStatus();
  }
  RemovePort(name);
  return absl::OkStatus();
}

void SwitchModel::RemovePort(const std::string& name) {
  PortSpec spec;
  NamespaceId netns_id;
  {
    std::lock_guard lock(mutex_);
    const PortRecord* record = FindPort(name);
    spec = record->spec;
    netns_id = record->netns_id;
  }
  EndWatch(spec);
  File device;
  {
    // Out of listings and out of the switch in one step: who no longer sees the port's entries can rely on
    // them being gone.
    std::lock_guard lock(mutex_);
    auto it = ports_.find(name);
    const std::optional<bridge::PortIndex> index = it->second.index;
    ports_.erase(it);
    if (index.has_value()) {
      port_names_[*index].clear();
      device = dataplane_->RemovePort(*index);
    }
    Notify(spec, true);
  }
  {
    KeyLocks::Hold hold_switch(&keys_, SwitchKey(spec.switch_name));
    RemoveStaticEntries(spec.switch_name, name, [](bridge::FdbKey) { return true; });
  }
  // An agent that dies in between is followed by one that ends what was begun.
  store_->SavePort(StoredPort{spec, netns_id, /*is_made=*/false});
  DeleteDevice(spec, std::move(device));
  store_->RemovePort(name);
  std::lock_guard lock(mutex_);
  ReleaseClaims(spec);
  --FindSwitch(spec.switch_name)->port_count;
}

absl::StatusOr<PortView> SwitchModel::EditAttachment(const std::string& port_name,
                                                     const std::function<absl::Status(PortSpec*)>& edit) {
  KeyLocks::Hold hold(&keys_, port_name);
  PortRecord changed;
  bridge::SwitchIndex switch_index = 0;
  {
    std::lock_guard lock(mutex_);
    const PortRecord* record = FindPort(port_name);
    if (record == nullptr || !record->spec.attachment.has_value()) {
      return ReasonError(absl::StatusCode::kNotFound, absl::StrCat("no attachment ", Quoted(port_name)),
                         {"ATTACHMENT_NOT_FOUND", {{"attachment", port_name}}});
    }
    changed = *record;
    switch_index = FindSwitch(changed.spec.switch_name)->index;
  }
  absl::Status status = edit(&changed.spec);
  if (!status.ok()) return status;
  store_->SavePort(StoredPort{changed.spec, changed.netns_id});
  if (changed.index.has_value() && changed.spec.attributes.source_guard.address) {
    // Its addresses are what it may be.
    dataplane_->UpdatePort(*changed.index,
                           ConfigOf(changed.spec, switch_index, changed.state != PortState::kDown));
  }
  std::lock_guard lock(mutex_);
  PortRecord* record = FindPort(port_name);
  record->spec = std::move(changed.spec);
  Notify(record->spec, false);
  return ViewOf(*record);
}

}  // namespace ringswitch::agent
