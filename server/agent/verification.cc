#include "server/agent/verification.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "server/agent/field_checks.h"
#include "server/agent/ip_address.h"

namespace ringswitch::agent {
namespace {

using bridge::VlanId;

constexpr int kModeBridge = 1;  // ringswitch.v1.SwitchMode
constexpr int kModeMacvlan = 2;
constexpr int kHostStackUnset = 0;  // ringswitch.v1.HostStack
constexpr int kHostStackKeep = 2;
constexpr uint32_t kPauseBit = 1u << 1;

void CheckAgeing(const std::string& field, const std::optional<DurationRequest>& time, SwitchSpec* spec,
                 Violations* violations) {
  spec->ageing_time_s = kAgeingTimeDefaultS;
  if (!time.has_value()) return;
  spec->ageing_time_s = CheckSeconds(
      field, *time, kAgeingTimeMaxS,
      "0 s would forget addresses at once: disable ageing (ageing_disabled) to keep them, or learning of "
      "the ports to learn none",
      violations);
}

void CheckFlapGuard(const std::string& field, const std::optional<FlapGuardRequest>& guard, SwitchSpec* spec,
                    Violations* violations) {
  spec->flap_moves = 0;
  spec->flap_hold_s = kFlapHoldDefaultS;
  if (!guard.has_value()) return;
  spec->flap_moves = guard->moves;
  if (guard->moves < 1 || guard->moves > kFlapMovesMax) {
    violations->push_back(
        {field + ".moves", absl::StrCat(guard->moves, " is out of range: 1 to ", kFlapMovesMax,
                                        "; for no guard leave flap_guard out")});
  }
  if (!guard->hold_time.has_value()) return;
  spec->flap_hold_s = CheckSeconds(field + ".hold_time", *guard->hold_time, kFlapHoldMaxS,
                                   "0 s would hold nothing: leave flap_guard out for no guard", violations);
}

void CheckGroupForwardMask(const std::string& field, uint32_t mask, SwitchSpec* spec,
                           Violations* violations) {
  if (mask > 0xffff) {
    violations->push_back({field, absl::StrCat(mask, " is out of range: 0 to 65535")});
  } else if ((mask & kPauseBit) != 0) {
    violations->push_back(
        {field, "bit 1 is refused: pause frames (IEEE 802.3 annex 31B) are never forwarded"});
  }
  spec->group_forward_mask = static_cast<uint16_t>(mask);
}

// VLANs of a port on a switch; `on` null: only what can be said without one.
std::optional<VlanMembership> CheckMembership(const std::string& field,
                                              const std::optional<VlanRequest>& request, const SwitchSpec* on,
                                              Violations* violations) {
  VlanMembership membership;
  if (!request.has_value()) {
    if (on == nullptr || !on->vlan_aware) return std::nullopt;
    membership.access_vid = on->default_vid;
    return membership;
  }
  if (on != nullptr && !on->vlan_aware) {
    violations->push_back(
        {field, absl::StrCat("must be unset: switch ", Quoted(on->name), " is not VLAN-aware")});
    return std::nullopt;
  }
  switch (request->kind) {
    case VlanRequest::Kind::kUnset:
      violations->push_back({field, "one of access_vid and trunk must be set"});
      break;
    case VlanRequest::Kind::kAccess:
      CheckVid(field + ".access_vid", request->access_vid, violations);
      membership.access_vid = static_cast<VlanId>(request->access_vid);
      break;
    case VlanRequest::Kind::kTrunk:
      membership.is_trunk = true;
      CheckRanges(field + ".trunk.tagged", request->tagged, &membership.tagged, violations);
      if (request->native_vid != 0) CheckVid(field + ".trunk.native_vid", request->native_vid, violations);
      membership.native_vid = static_cast<VlanId>(request->native_vid);
      membership.tagged.Remove(membership.native_vid);
      break;
  }
  return membership;
}

void CheckPod(const std::string& field, const PodReference& pod, Violations* violations) {
  auto check = [&](const char* name, const std::string& value) {
    if (value.size() <= kPodFieldMax) return;
    violations->push_back(
        {absl::StrCat(field, ".", name), absl::StrCat("longer than ", kPodFieldMax, " bytes")});
  };
  check("namespace", pod.namespace_name);
  check("name", pod.name);
  check("uid", pod.uid);
  check("container_id", pod.container_id);
}

// `prefix`: where the request names the device.
DeviceRef CheckDevice(const std::string& prefix, const DeviceRequest& request, Violations* violations) {
  DeviceRef device;
  device.link = LinkRef{request.netns, request.ifname};
  CheckIfname(prefix + "ifname", request.ifname, violations);
  switch (request.kind) {
    case DeviceRequest::Kind::kNetdev:
      device.kind = DeviceRef::Kind::kNetdev;
      if (request.host_stack < kHostStackUnset || request.host_stack > kHostStackKeep) {
        violations->push_back({prefix + "host_stack", absl::StrCat(request.host_stack, " is none: use ",
                                                                   "HOST_STACK_DROP or HOST_STACK_KEEP")});
      }
      device.host_stack = request.host_stack == kHostStackKeep ? HostStack::kKeep : HostStack::kDrop;
      device.software_offload = request.software_offload;
      break;
    case DeviceRequest::Kind::kVeth:
      device.kind = DeviceRef::Kind::kVeth;
      CheckNetns(prefix + "netns", request.netns, violations);
      device.host_ifname = request.host_ifname;
      if (!request.host_ifname.empty()) CheckIfname(prefix + "host_ifname", request.host_ifname, violations);
      if (request.netns.empty() && request.ifname == request.host_ifname) {
        violations->push_back(
            {prefix + "host_ifname", "is the name of the other end in the same namespace: take another one"});
      }
      break;
    case DeviceRequest::Kind::kTap:
    case DeviceRequest::Kind::kUnset:  // told by the caller
      CheckNetns(prefix + "netns", request.netns, violations);
      break;
  }
  return device;
}

// What ports and attachments have in common, the device aside.
void CheckPort(const PortRequest& request, const PortFieldPaths& paths, const SwitchSpec* on, PortSpec* spec,
               Violations* violations) {
  CheckName(paths.fields + "switch_name", request.switch_name, kSwitchNameMax, "._-", violations);
  spec->switch_name = request.switch_name;
  const bool is_netdev = request.device.kind == DeviceRequest::Kind::kNetdev;
  if (is_netdev && !request.mac_address.empty()) {
    violations->push_back(
        {paths.fields + "mac_address", "must be empty: a netdev has an address of its own"});
  } else if (!request.mac_address.empty()) {
    spec->mac = CheckMac(paths.fields + "mac_address", request.mac_address, violations);
  }
  if (is_netdev && request.mtu != 0) {
    violations->push_back({paths.fields + "mtu", "must be 0: a netdev has an MTU of its own; set it there"});
  }
  spec->mtu = CheckRange(paths.fields + "mtu", request.mtu, bridge::kMtuMin, bridge::kMtuMax, kMtuDefault,
                         violations);
  spec->vlans = CheckMembership(paths.fields + "vlans", request.vlans, on, violations);
  spec->mac_limit = CheckRange(paths.fields + "mac_limit", request.mac_limit, 1, kMacLimitMax, 0, violations);
  CheckPod(paths.fields + "pod", request.pod, violations);
  spec->pod = request.pod;
  CheckAttributes(paths.fields, request.attributes, is_netdev, &spec->attributes, violations);
}

// Only a netdev is the host's before it is a port, and can be given back.
void CheckTrial(const PortRequest& request, PortSpec* spec, Violations* violations) {
  if (!request.confirm_within.has_value()) return;
  const std::string field = "confirm_within";
  if (request.device.kind != DeviceRequest::Kind::kNetdev)
    violations->push_back({field, "is for a netdev only: leave it out"});
  spec->trial.emplace();
  spec->trial->within_s = CheckSeconds(
      field, *request.confirm_within, kConfirmWithinMaxS,
      "0 s would delete the port at once: leave it out for a port that needs no confirmation", violations);
  spec->device.may_carry_node = true;
}

// Whether the request names another device than the present one; what it leaves out is not looked at.
bool IsOtherDevice(const DeviceRequest& request, const DeviceRef& present) {
  if (PortFieldPaths::Of(request.kind).device != PortFieldPaths::Of(present.kind).device) return true;
  if (request.netns != present.link.netns || request.ifname != present.link.ifname) return true;
  if (present.kind == DeviceRef::Kind::kVeth)
    return !request.host_ifname.empty() && request.host_ifname != present.host_ifname;
  if (present.kind != DeviceRef::Kind::kNetdev) return false;
  const HostStack wanted = request.host_stack == kHostStackKeep ? HostStack::kKeep : HostStack::kDrop;
  return request.software_offload != present.software_offload ||
         (request.host_stack != kHostStackUnset && wanted != present.host_stack);
}

void CheckContainer(const std::string& prefix, const std::string& container_id, const std::string& ifname,
                    Violations* violations) {
  CheckName(prefix + "container_id", container_id, kContainerIdMax, "._-", violations);
  CheckIfname(prefix + "ifname", ifname, violations);
}

void CheckImmutable(const std::string& field, bool is_changed, Violations* violations) {
  if (is_changed)
    violations->push_back({field, "cannot be changed: delete and create again, or leave it out"});
}

}  // namespace

PortFieldPaths PortFieldPaths::Of(DeviceRequest::Kind kind) {
  switch (kind) {
    case DeviceRequest::Kind::kNetdev:
      return {"port.", "port.netdev."};
    case DeviceRequest::Kind::kVeth:
      return {"port.", "port.veth."};
    case DeviceRequest::Kind::kTap:
    case DeviceRequest::Kind::kUnset:
      break;
  }
  return {"port.", "port.tap."};
}

PortFieldPaths PortFieldPaths::Of(DeviceRef::Kind kind) {
  switch (kind) {
    case DeviceRef::Kind::kNetdev:
      return Of(DeviceRequest::Kind::kNetdev);
    case DeviceRef::Kind::kVeth:
      return Of(DeviceRequest::Kind::kVeth);
    case DeviceRef::Kind::kTap:
      break;
  }
  return Of(DeviceRequest::Kind::kTap);
}

absl::StatusOr<Verified<SwitchSpec>> Verification::NewSwitch(const SwitchRequest& request) {
  Violations violations;
  SwitchSpec spec;
  CheckName("switch.name", request.name, kSwitchNameMax, "._-", &violations);
  spec.name = request.name;
  if (request.mode < 0 || request.mode > kModeMacvlan) {
    violations.push_back({"switch.mode", absl::StrCat(request.mode, " is not a mode: SWITCH_MODE_BRIDGE")});
  }
  spec.vlan_aware = request.vlan_aware.value_or(true);
  spec.default_vid = static_cast<VlanId>(
      CheckRange("switch.default_vid", request.default_vid, 1, bridge::kVlanIdMax, 1, &violations));
  CheckAgeing("switch.ageing_time", request.ageing_time, &spec, &violations);
  spec.ageing_disabled = request.ageing_disabled;
  spec.fdb_capacity = CheckRange("switch.fdb_capacity", request.fdb_capacity, bridge::kFdbCapacityMin,
                                 bridge::kFdbCapacityMax, bridge::kFdbCapacityDefault, &violations);
  CheckGroupForwardMask("switch.group_forward_mask", request.group_forward_mask, &spec, &violations);
  spec.vlan_counters = request.vlan_counters;
  CheckFlapGuard("switch.flap_guard", request.flap_guard, &spec, &violations);
  if (!violations.empty()) return FieldError(violations);
  if (request.mode == kModeMacvlan) {
    return ReasonError(absl::StatusCode::kUnimplemented, "switch.mode: this agent has bridge mode only",
                       {"SWITCH_MODE_UNIMPLEMENTED", {{"field", "switch.mode"}}});
  }
  return Verified<SwitchSpec>(spec);
}

absl::StatusOr<Verified<SwitchSpec>> Verification::ChangedSwitch(const SwitchSpec& present,
                                                                 const SwitchUpdate& update) {
  Violations violations;
  SwitchSpec spec = present;
  if (update.vlan_aware.has_value()) spec.vlan_aware = *update.vlan_aware;
  if (update.default_vid.has_value()) {
    spec.default_vid = static_cast<VlanId>(
        CheckRange("switch.default_vid", *update.default_vid, 1, bridge::kVlanIdMax, 1, &violations));
  }
  if (update.ageing_time.has_value())
    CheckAgeing("switch.ageing_time", *update.ageing_time, &spec, &violations);
  if (update.ageing_disabled.has_value()) spec.ageing_disabled = *update.ageing_disabled;
  if (update.group_forward_mask.has_value()) {
    CheckGroupForwardMask("switch.group_forward_mask", *update.group_forward_mask, &spec, &violations);
  }
  if (update.vlan_counters.has_value()) spec.vlan_counters = *update.vlan_counters;
  if (update.flap_guard.has_value())
    CheckFlapGuard("switch.flap_guard", *update.flap_guard, &spec, &violations);
  int present_mode = present.mode == SwitchMode::kBridge ? kModeBridge : kModeMacvlan;
  CheckImmutable("switch.mode", update.mode.has_value() && *update.mode != present_mode, &violations);
  CheckImmutable("switch.fdb_capacity",
                 update.fdb_capacity.has_value() && *update.fdb_capacity != present.fdb_capacity,
                 &violations);
  if (!violations.empty()) return FieldError(violations);
  return Verified<SwitchSpec>(spec);
}

absl::StatusOr<Verified<PortSpec>> Verification::NewPort(const PortRequest& request, const SwitchSpec* on) {
  Violations violations;
  PortSpec spec;
  CheckName("port.name", request.name, kPortNameMax, "._:-", &violations);
  spec.name = request.name;
  const PortFieldPaths paths = PortFieldPaths::Of(request.device.kind);
  if (request.device.kind == DeviceRequest::Kind::kUnset) {
    violations.push_back({"port.tap", "one of tap, netdev and veth must be set: the device behind the port"});
  } else {
    spec.device = CheckDevice(paths.device, request.device, &violations);
  }
  CheckPort(request, paths, on, &spec, &violations);
  CheckTrial(request, &spec, &violations);
  if (!violations.empty()) return FieldError(violations);
  return Verified<PortSpec>(spec);
}

absl::StatusOr<Verified<PortSpec>> Verification::NewAttachment(const AttachmentRequest& request,
                                                               const SwitchSpec* on) {
  Violations violations;
  PortSpec spec;
  CheckContainer("attachment.", request.container_id, request.ifname, &violations);
  // Its interface name was looked at just now.
  spec.device.link = LinkRef{request.netns, request.ifname};
  CheckNetns("attachment.netns", request.netns, &violations);
  PortRequest port;
  port.switch_name = request.switch_name;
  port.mac_address = request.mac_address;
  port.mtu = request.mtu;
  port.vlans = request.vlans;
  port.mac_limit = request.mac_limit.value_or(kAttachmentMacLimit);
  port.pod = request.pod;
  CheckPort(port, PortFieldPaths{"attachment.", "attachment."}, on, &spec, &violations);
  if (request.netns.empty())
    violations.push_back({"attachment.netns", "must be set: the path of the container's namespace"});
  if (request.network.size() > kPodFieldMax) {
    violations.push_back({"attachment.network", absl::StrCat("longer than ", kPodFieldMax, " bytes")});
  }
  if (!violations.empty()) return FieldError(violations);
  spec.name = absl::StrCat(request.container_id, ":", request.ifname);
  spec.pod.container_id = request.container_id;
  spec.attachment = AttachmentSpec{request.container_id, request.network, {}};
  return Verified<PortSpec>(spec);
}

absl::StatusOr<Verified<PortSpec>> Verification::ChangedPort(const PortSpec& present,
                                                             const PortUpdate& update, const SwitchSpec& on) {
  Violations violations;
  PortSpec spec = present;
  const bool is_netdev = present.device.kind == DeviceRef::Kind::kNetdev;
  if (is_netdev && update.mtu.value_or(0) != 0 && *update.mtu != present.mtu) {
    violations.push_back({"port.mtu", "cannot be changed: a netdev has an MTU of its own; set it there"});
  } else if (!is_netdev && update.mtu.has_value()) {
    spec.mtu =
        CheckRange("port.mtu", *update.mtu, bridge::kMtuMin, bridge::kMtuMax, kMtuDefault, &violations);
  }
  if (update.vlans.has_value()) spec.vlans = CheckMembership("port.vlans", *update.vlans, &on, &violations);
  if (update.mac_limit.has_value()) {
    spec.mac_limit = CheckRange("port.mac_limit", *update.mac_limit, 1, kMacLimitMax, 0, &violations);
  }
  if (update.pod.has_value()) {
    CheckPod("port.pod", *update.pod, &violations);
    spec.pod = *update.pod;
  }
  CheckAttributes("port.", update.attributes, is_netdev, &spec.attributes, &violations);
  CheckImmutable("port.switch_name",
                 update.switch_name.has_value() && *update.switch_name != present.switch_name, &violations);
  if (update.device.has_value() && IsOtherDevice(*update.device, present.device)) {
    std::string field = PortFieldPaths::Of(update.device->kind).device;
    CheckImmutable(field.substr(0, field.size() - 1), true, &violations);
  }
  if (update.mac_address.has_value()) {
    CheckImmutable("port.mac_address", bridge::MacAddress::Parse(*update.mac_address) != present.mac,
                   &violations);
  }
  if (!violations.empty()) return FieldError(violations);
  return Verified<PortSpec>(spec);
}

absl::StatusOr<Verified<PortSpec>> Verification::ChangedTrunk(const PortSpec& present,
                                                              const std::vector<VlanRange>& ranges,
                                                              bool add) {
  if (ranges.empty()) return FieldError("ranges", "at least one range is wanted");
  absl::StatusOr<bridge::VlanSet> vids = Vlans("ranges", ranges);
  if (!vids.ok()) return vids.status();
  if (!present.vlans.has_value() || !present.vlans->is_trunk) {
    return ReasonError(absl::StatusCode::kFailedPrecondition,
                       absl::StrCat("port ", Quoted(present.name), " is not a trunk: make it one first"),
                       {"PORT_NOT_TRUNK", {{"port", present.name}}});
  }
  PortSpec spec = present;
  for (uint32_t vid = 1; vid <= bridge::kVlanIdMax; ++vid) {
    VlanId id = static_cast<VlanId>(vid);
    if (!vids->contains(id)) continue;
    if (!add) {
      spec.vlans->tagged.Remove(id);
      if (spec.vlans->native_vid == id) spec.vlans->native_vid = bridge::kVlanIdNone;
    } else if (id != spec.vlans->native_vid) {
      spec.vlans->tagged.Add(id);
    }
  }
  return Verified<PortSpec>(spec);
}

absl::StatusOr<bridge::FdbKey> Verification::FdbKeyOf(const std::string& prefix, uint32_t vid,
                                                      const std::string& mac_address, const SwitchSpec& on) {
  Violations violations;
  bridge::FdbKey key;
  key.mac = CheckMac(prefix + "mac_address", mac_address, &violations);
  if (on.vlan_aware) {
    if (vid == 0) vid = on.default_vid;
    CheckVid(prefix + "vid", vid, &violations);
  } else if (vid != 0) {
    violations.push_back(
        {prefix + "vid", absl::StrCat("must be 0: switch ", Quoted(on.name), " is not VLAN-aware")});
  }
  key.vid = static_cast<VlanId>(vid);
  if (!violations.empty()) return FieldError(violations);
  return key;
}

absl::StatusOr<bridge::VlanSet> Verification::Vlans(const std::string& field,
                                                    const std::vector<VlanRange>& ranges) {
  Violations violations;
  bridge::VlanSet vids;
  CheckRanges(field, ranges, &vids, &violations);
  if (!violations.empty()) return FieldError(violations);
  return vids;
}

absl::Status Verification::AttachmentKey(const std::string& prefix, const std::string& container_id,
                                         const std::string& ifname) {
  Violations violations;
  CheckContainer(prefix, container_id, ifname, &violations);
  return violations.empty() ? absl::OkStatus() : FieldError(violations);
}

absl::Status Verification::Addresses(const std::string& prefix, const IpSettings& ip_config) {
  Violations violations;
  if (ip_config.addresses.size() > kIpItemsMax || ip_config.routes.size() > kIpItemsMax) {
    return FieldError(prefix + "ip_config",
                      absl::StrCat("at most ", kIpItemsMax, " addresses and ", kIpItemsMax, " routes"));
  }
  for (size_t i = 0; i < ip_config.addresses.size(); ++i) {
    if (ParseIpPrefix(ip_config.addresses[i]).ok()) continue;
    violations.push_back({absl::StrCat(prefix, "ip_config.addresses[", i, "].address"),
                          absl::StrCat(Quoted(ip_config.addresses[i]),
                                       " is no address with prefix length, such as 10.0.0.2/24")});
  }
  for (size_t i = 0; i < ip_config.routes.size(); ++i) {
    const LinkRoute& route = ip_config.routes[i];
    std::string path = absl::StrCat(prefix, "ip_config.routes[", i, "]");
    if (!ParseIpPrefix(route.destination).ok()) {
      violations.push_back(
          {path + ".destination",
           absl::StrCat(Quoted(route.destination), " is no prefix, such as 10.0.0.0/8 or 0.0.0.0/0")});
    }
    if (!route.gateway.empty() && !ParseIpAddress(route.gateway).ok()) {
      violations.push_back({path + ".gateway", absl::StrCat(Quoted(route.gateway), " is no address")});
    }
    if (route.mtu != 0 && (route.mtu < bridge::kMtuMin || route.mtu > bridge::kMtuMax)) {
      violations.push_back({path + ".mtu", absl::StrCat(route.mtu, " is out of range: ", bridge::kMtuMin,
                                                        " to ", bridge::kMtuMax)});
    }
  }
  return violations.empty() ? absl::OkStatus() : FieldError(violations);
}

}  // namespace ringswitch::agent
