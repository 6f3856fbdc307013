#include "server/agent/verification.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/agent/ip_address.h"

namespace ringswitch::agent {
namespace {

using bridge::VlanId;
using Violations = std::vector<FieldViolation>;

constexpr int kModeBridge = 1;  // ringswitch.v1.SwitchMode
constexpr int kModeMacvlan = 2;
constexpr uint32_t kPauseBit = 1u << 1;

bool IsName(const std::string& text, const char* punctuation) {
  if (text.empty() || !absl::ascii_isalnum(static_cast<unsigned char>(text[0]))) return false;
  return std::all_of(text.begin(), text.end(), [punctuation](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view(punctuation).find(c) != std::string_view::npos;
  });
}

void CheckName(const std::string& field, const std::string& name, size_t length_max, const char* punctuation,
               Violations* violations) {
  if (name.size() <= length_max && IsName(name, punctuation)) return;
  violations->push_back(
      {field, absl::StrCat(Quoted(name), " is not a name: 1 to ", length_max, " characters of [A-Za-z0-9",
                           punctuation, "], the first one a letter or digit")});
}

// The kernel's rule (dev_valid_name, where 0xa0 is white space) without two kinds of names: those with '%',
// which it would replace by a number, and those of /proc/sys/net/ipv4/conf that stand for all interfaces.
bool IsIfname(const std::string& name) {
  static const std::set<std::string> kReserved = {"", ".", "..", "all", "default"};
  return name.size() <= kIfnameMax && kReserved.count(name) == 0 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return c > ' ' && c != 0x7f && c != '/' && c != ':' && c != '%' && c != 0xa0;
         });
}

void CheckIfname(const std::string& field, const std::string& name, Violations* violations) {
  if (IsIfname(name)) return;
  violations->push_back(
      {field, absl::StrCat(Quoted(name), " is not an interface name: 1 to ", kIfnameMax,
                           " bytes without '/', ':', '%', white space and byte 0xa0, not "
                           "\".\", \"..\", \"all\" or \"default\"; take one such as eth0")});
}

void CheckNetns(const std::string& field, const std::string& path, Violations* violations) {
  if (path.empty()) return;
  if (path[0] == '/' && path.size() <= kNetnsPathMax && path.find('\0') == std::string::npos) return;
  violations->push_back(
      {field, absl::StrCat(Quoted(path), " is not the absolute path of a network namespace, such as ",
                           "/run/netns/NAME or /proc/PID/ns/net")});
}

// 0 is taken as `fallback`.
uint32_t CheckRange(const std::string& field, uint32_t value, uint32_t first, uint32_t last,
                    uint32_t fallback, Violations* violations) {
  if (value == 0) return fallback;
  if (value < first || value > last) {
    violations->push_back({field, absl::StrCat(value, " is out of range: ", first, " to ", last)});
  }
  return value;
}

bool CheckVid(const std::string& field, uint32_t vid, Violations* violations) {
  if (bridge::IsVlan(vid)) return true;
  violations->push_back({field, absl::StrCat(vid, " is not a VID: 1 to ", bridge::kVlanIdMax)});
  return false;
}

bridge::MacAddress CheckMac(const std::string& field, const std::string& text, Violations* violations) {
  std::optional<bridge::MacAddress> mac = bridge::MacAddress::Parse(text);
  if (!mac.has_value()) {
    violations->push_back(
        {field, absl::StrCat(Quoted(text),
                             " is not a MAC address: six bytes in hexadecimal, such as 02:00:00:00:0a:01")});
    return {};
  }
  if (!mac->is_station()) {
    violations->push_back({field, absl::StrCat(text, mac->is_zero() ? " is zero" : " is a group address",
                                               ": the address of a single station is wanted")});
  }
  return *mac;
}

void CheckAgeing(const std::string& field, const std::optional<AgeingTime>& time, SwitchSpec* spec,
                 Violations* violations) {
  if (!time.has_value()) {
    spec->ageing_time_s = kAgeingTimeDefaultS;
    return;
  }
  if (time->seconds == 0 && time->nanos == 0) {
    violations->push_back(
        {field,
         "0 s would forget addresses at once: set ageing_disabled to keep them, or learning=false "
         "on a port to learn none"});
  } else if (time->nanos != 0) {
    violations->push_back({field, "whole seconds are wanted"});
  } else if (time->seconds < 1 || time->seconds > kAgeingTimeMaxS) {
    violations->push_back(
        {field, absl::StrCat(time->seconds, " s is out of range: 1 s to ", kAgeingTimeMaxS, " s")});
  } else {
    spec->ageing_time_s = static_cast<uint32_t>(time->seconds);
  }
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

void CheckRanges(const std::string& field, const std::vector<VlanRange>& ranges, bridge::VlanSet* vids,
                 Violations* violations) {
  if (ranges.size() > kVlanRangesMax) {
    violations->push_back(
        {field, absl::StrCat(ranges.size(), " ranges are too many: at most ", kVlanRangesMax)});
    return;
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    std::string path = absl::StrCat(field, "[", i, "]");
    uint32_t last = ranges[i].last == 0 ? ranges[i].first : ranges[i].last;
    bool is_valid = CheckVid(path + ".first", ranges[i].first, violations);
    is_valid &= last == ranges[i].first || CheckVid(path + ".last", last, violations);
    if (is_valid && last < ranges[i].first) {
      violations->push_back(
          {path + ".last", absl::StrCat(last, " is less than first, which is ", ranges[i].first)});
      is_valid = false;
    }
    if (is_valid) vids->AddRange(static_cast<VlanId>(ranges[i].first), static_cast<VlanId>(last));
  }
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

// What ports and attachments have in common.
void CheckPort(const PortRequest& request, const PortFieldPaths& paths, const SwitchSpec* on, PortSpec* spec,
               Violations* violations) {
  CheckName(paths.fields + "switch_name", request.switch_name, kSwitchNameMax, "._-", violations);
  spec->switch_name = request.switch_name;
  CheckNetns(paths.device + "netns", request.netns, violations);
  CheckIfname(paths.device + "ifname", request.ifname, violations);
  spec->link = LinkRef{request.netns, request.ifname};
  if (!request.mac_address.empty())
    spec->mac = CheckMac(paths.fields + "mac_address", request.mac_address, violations);
  spec->mtu = CheckRange(paths.fields + "mtu", request.mtu, bridge::kMtuMin, bridge::kMtuMax, kMtuDefault,
                         violations);
  spec->vlans = CheckMembership(paths.fields + "vlans", request.vlans, on, violations);
  spec->mac_limit = CheckRange(paths.fields + "mac_limit", request.mac_limit, 1, kMacLimitMax, 0, violations);
  CheckPod(paths.fields + "pod", request.pod, violations);
  spec->pod = request.pod;
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
  if (request.has_device) {
    CheckPort(request, PortFieldPaths{"port.", "port.tap."}, on, &spec, &violations);
  } else {
    violations.push_back({"port.tap", "must be set: it says which device is behind the port"});
  }
  if (!violations.empty()) return FieldError(violations);
  return Verified<PortSpec>(spec);
}

absl::StatusOr<Verified<PortSpec>> Verification::NewAttachment(const AttachmentRequest& request,
                                                               const SwitchSpec* on) {
  Violations violations;
  PortSpec spec;
  CheckContainer("attachment.", request.container_id, request.ifname, &violations);
  PortRequest port;
  port.switch_name = request.switch_name;
  port.netns = request.netns;
  port.ifname = request.ifname;
  port.mac_address = request.mac_address;
  port.mtu = request.mtu;
  port.vlans = request.vlans;
  port.mac_limit = request.mac_limit.value_or(kAttachmentMacLimit);
  port.pod = request.pod;
  // Its interface name was looked at already; the same finding twice would be no help.
  Violations port_violations;
  CheckPort(port, PortFieldPaths{"attachment.", "attachment."}, on, &spec, &port_violations);
  for (FieldViolation& violation : port_violations) {
    if (violation.field != "attachment.ifname") violations.push_back(std::move(violation));
  }
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
  if (update.mtu.has_value()) {
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
  CheckImmutable("port.switch_name",
                 update.switch_name.has_value() && *update.switch_name != present.switch_name, &violations);
  CheckImmutable("port.tap",
                 update.link.has_value() &&
                     (update.link->netns != present.link.netns || update.link->ifname != present.link.ifname),
                 &violations);
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
    return ReasonError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("port ", Quoted(present.name), " is not a trunk: change its vlans with UpdatePort"),
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
