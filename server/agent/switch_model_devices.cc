// The devices of the switch model's ports: whose they are, made, opened again, given up.

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "server/agent/port_config.h"
#include "server/agent/switch_model.h"
#include "server/agent/switch_model_errors.h"

namespace ringswitch::agent {
namespace {

// Names that the device takes in the agent's own namespace.
std::vector<std::string> OwnNames(const DeviceRef& device) {
  std::vector<std::string> names;
  if (!device.own_ifname().empty()) names.push_back(device.own_ifname());
  if (device.kind != DeviceRef::Kind::kNetdev && device.link.netns.empty())
    names.push_back(device.link.ifname);
  return names;
}

}  // namespace

absl::Status SwitchModel::CheckClaims(const PortSpec& spec) const {
  for (const std::string& name : OwnNames(spec.device)) {
    auto it = claims_.find(name);
    if (it == claims_.end()) continue;
    return ReasonError(absl::StatusCode::kFailedPrecondition,
                       absl::StrCat("device ", Quoted(name), " is that of port ", Quoted(it->second),
                                    ": take another device, or delete that port first"),
                       {"DEVICE_IN_USE", {{"interface", name}, {"port", it->second}}});
  }
  return absl::OkStatus();
}

absl::Status SwitchModel::ClaimDevice(const PortSpec& spec) {
  absl::Status status = CheckClaims(spec);
  if (!status.ok()) return status;
  for (const std::string& name : OwnNames(spec.device)) claims_[name] = spec.name;
  return absl::OkStatus();
}

void SwitchModel::ReleaseClaims(const PortSpec& spec) {
  for (const std::string& name : OwnNames(spec.device)) claims_.erase(name);
}

absl::StatusOr<PortLink> SwitchModel::MakeDevice(PortSpec* spec) {
  switch (spec->device.kind) {
    case DeviceRef::Kind::kTap:
      return links_->CreateTap(spec->device.link, spec->mac, spec->mtu);
    case DeviceRef::Kind::kVeth:
      return links_->CreateVeth(spec->device, spec->mac, spec->mtu);
    case DeviceRef::Kind::kNetdev:
      break;
  }
  absl::StatusOr<PortLink> link = links_->OpenNetdev(spec->device);
  if (!link.ok()) return link;
  spec->mac = link->mac;
  spec->mtu = PortMtu(link->mtu);
  if (spec->trial.has_value()) spec->trial->was_down = link->was_down;
  return link;
}

absl::StatusOr<PortLink> SwitchModel::OpenDevice(const PortRecord& port) {
  const DeviceRef& device = port.spec.device;
  switch (device.kind) {
    case DeviceRef::Kind::kTap:
      return links_->AttachTap(device.link, port.netns_id);
    case DeviceRef::Kind::kVeth:
      return links_->AttachVeth(device, port.netns_id);
    case DeviceRef::Kind::kNetdev:
      break;
  }
  DeviceRef known = device;
  // It carried nothing when the port was made. Who has given it an address since has cut himself off then; a
  // restart of the agent does not cut off the others, too.
  known.may_carry_node = known.may_carry_node || !port.index.has_value();
  absl::StatusOr<PortLink> link = links_->OpenNetdev(known);
  // Unlike a namespace, a device that is gone may be there again under its name.
  if (absl::IsNotFound(link.status())) return absl::FailedPreconditionError(GoneDetail(device));
  return link;
}

void SwitchModel::DeleteDevice(const PortSpec& spec, File file) {
  switch (spec.device.kind) {
    case DeviceRef::Kind::kTap:
      // One that could not be attached is not ours to delete.
      if (file.is_open()) links_->DeleteTap(std::move(file));
      return;
    case DeviceRef::Kind::kVeth:
      file.Close();
      links_->DeleteVeth(spec.device);
      return;
    case DeviceRef::Kind::kNetdev:
      file.Close();
      // On trial it is given back as it was taken.
      if (spec.trial.has_value() && spec.trial->was_down) links_->SetNetdevDown(spec.device);
      links_->ReleaseNetdev(spec.device);
      return;
  }
}

void SwitchModel::AttachOrRemove(const std::string& name) {
  if (EndTrial(name)) return;
  PortRecord port;
  bridge::SwitchIndex switch_index = 0;
  {
    std::lock_guard lock(mutex_);
    const PortRecord* record = FindPort(name);
    if (record == nullptr || record->state != PortState::kMissing) return;
    port = *record;
    switch_index = FindSwitch(port.spec.switch_name)->index;
  }
  absl::Status status = AttachPort(port, switch_index);
  if (status.ok()) {
    if (!port.state_detail.empty()) spdlog::info("port {} is attached again", name);
    return;
  }
  if (status.code() == absl::StatusCode::kNotFound) {
    spdlog::info("port {} is removed: network namespace {} is gone", name, port.spec.device.link.netns);
    RemovePort(name);
    return;
  }
  std::string detail(status.message());
  if (detail == port.state_detail) return;
  spdlog::warn("port {} is missing, retrying: {}", name, detail);
  // Found missing at the start; one that goes later is watched already.
  const bool is_waited_for = port.spec.device.kind != DeviceRef::Kind::kTap && !port.index.has_value();
  if (is_waited_for && port.state_detail.empty()) (void)StartWatch(port.spec, nullptr);
  std::lock_guard lock(mutex_);
  SetDeviceState(port.spec, PortState::kMissing, detail);
}

absl::Status SwitchModel::AttachPort(PortRecord port, bridge::SwitchIndex switch_index) {
  absl::StatusOr<PortLink> link = OpenDevice(port);
  if (!link.ok()) return link.status();
  port.state = link->is_up ? PortState::kUp : PortState::kDown;
  port.state_detail = link->is_up ? "" : DownDetail(port.spec.device);
  const PortSpec before = port.spec;
  const bool is_new = !port.index.has_value();
  if (before.device.kind == DeviceRef::Kind::kNetdev) {
    port.spec.mac = link->mac;
    port.spec.mtu = PortMtu(link->mtu);
  }
  absl::Status status = is_new ? AttachNewPort(&port, *std::move(link), switch_index)
                               : AttachKnownPort(&port, *std::move(link), switch_index);
  if (!status.ok()) {
    if (before.device.kind == DeviceRef::Kind::kNetdev) links_->ReleaseNetdev(before.device);
    return absl::FailedPreconditionError(status.message());
  }
  if (port.spec.mac != before.mac || port.spec.mtu != before.mtu)
    store_->SavePort(StoredPort{port.spec, port.netns_id});
  const bridge::PortIndex index = *port.index;
  EnterPort(std::move(port));
  if (is_new) AddStaticEntries(before, index);
  return absl::OkStatus();
}

absl::Status SwitchModel::AttachNewPort(PortRecord* port, PortLink link, bridge::SwitchIndex switch_index) {
  const bool is_tap = port->spec.device.kind == DeviceRef::Kind::kTap;
  if (!is_tap) EndWatch(port->spec);  // it was waited for
  absl::Status status = StartWatch(port->spec, &link);
  if (!status.ok()) return status;
  if (is_tap) {
    absl::StatusOr<LinkInfo> info = links_->GetLink(port->spec.device.link);
    if (info.ok() && !info->is_up) {
      port->state = PortState::kDown;
      port->state_detail = DownDetail(port->spec.device);
    }
  }
  // Where it fails the file is closed and the device stays: a TAP is persistent.
  absl::StatusOr<bridge::PortIndex> index =
      dataplane_->AddPort(ConfigOf(port->spec, switch_index, link.is_up), std::move(link.device));
  if (!index.ok()) {
    EndWatch(port->spec);
    return index.status();
  }
  port->index = *index;
  return absl::OkStatus();
}

absl::Status SwitchModel::AttachKnownPort(PortRecord* port, PortLink link, bridge::SwitchIndex switch_index) {
  if (port->spec.device.kind == DeviceRef::Kind::kTap) {  // watched by its index, which may be another now
    EndWatch(port->spec);
    absl::Status status = StartWatch(port->spec, &link);
    if (!status.ok()) return status;
  }
  // Another device may have come under the name.
  dataplane_->UpdatePort(*port->index, ConfigOf(port->spec, switch_index, link.is_up));
  return dataplane_->AttachDevice(*port->index, std::move(link.device));
}

void SwitchModel::AddStaticEntries(const PortSpec& spec, bridge::PortIndex index) {
  KeyLocks::Hold hold_switch(&keys_, SwitchKey(spec.switch_name));
  const SwitchRecord* on = nullptr;
  {
    std::lock_guard lock(mutex_);
    on = FindSwitch(spec.switch_name);
  }
  for (const StaticFdbEntry& entry : on->static_entries.ListOf(spec.name)) {
    if (dataplane_->AddStaticFdbEntry(on->index, entry.key, index, true) != bridge::FdbResult::kOk) {
      spdlog::error("static FDB entry {} of port {} is not restored: the FDB is full",
                    entry.key.mac.ToString(), spec.name);
    }
  }
}

}  // namespace ringswitch::agent
