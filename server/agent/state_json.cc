#include "server/agent/state_json.h"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/agent/static_entries.h"

namespace ringswitch::agent {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;                // raised when an older agent could not read the file rightly
constexpr char kDocumentEnd[] = "\n}\n";  // no other line of a document of ours is only a brace

std::string Dump(const Json& json) {
  Json file = {{"format", kFormat}};
  file.update(json);
  return file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Exceptions are how nlohmann-json reports; none leaves this file.
template <typename Value, typename Read>
absl::StatusOr<Value> Parse(std::string_view text, Read read) {
  try {
    Json json = Json::parse(text.begin(), text.end());
    if (json.at("format").get<int>() != kFormat)
      return absl::DataLossError("written by another version of the agent");
    return read(json);
  } catch (const std::exception& error) {
    return absl::DataLossError(error.what());
  }
}

bridge::MacAddress MacOf(const Json& json) {
  std::optional<bridge::MacAddress> mac = bridge::MacAddress::Parse(json.get<std::string>());
  if (!mac.has_value()) throw std::runtime_error("no MAC address");
  return *mac;
}

bridge::VlanId VidOf(const Json& json) {
  uint32_t vid = json.get<uint32_t>();
  if (vid > bridge::kVlanIdMax) throw std::runtime_error("no VID");
  return static_cast<bridge::VlanId>(vid);
}

Json RangesOf(const bridge::VlanSet& vids) {
  Json ranges = Json::array();
  for (uint32_t vid = 1; vid <= bridge::kVlanIdMax; ++vid) {
    if (!vids.contains(static_cast<bridge::VlanId>(vid))) continue;
    uint32_t first = vid;
    while (vid < bridge::kVlanIdMax && vids.contains(static_cast<bridge::VlanId>(vid + 1))) ++vid;
    ranges.push_back({first, vid});
  }
  return ranges;
}

Json VlansJson(const VlanMembership& vlans) {
  if (!vlans.is_trunk) return {{"access_vid", vlans.access_vid}};
  return {{"tagged", RangesOf(vlans.tagged)}, {"native_vid", vlans.native_vid}};
}

VlanMembership VlansOf(const Json& json) {
  VlanMembership vlans;
  vlans.is_trunk = json.contains("tagged");
  if (!vlans.is_trunk) {
    vlans.access_vid = VidOf(json.at("access_vid"));
    return vlans;
  }
  vlans.native_vid = VidOf(json.at("native_vid"));
  for (const Json& range : json.at("tagged")) vlans.tagged.AddRange(VidOf(range.at(0)), VidOf(range.at(1)));
  return vlans;
}

Json AttachmentJson(const AttachmentSpec& attachment) {
  Json routes = Json::array();
  for (const LinkRoute& route : attachment.ip_config.routes) {
    routes.push_back({{"destination", route.destination},
                      {"gateway", route.gateway},
                      {"mtu", route.mtu},
                      {"priority", route.priority}});
  }
  return {{"container_id", attachment.container_id},
          {"network", attachment.network},
          {"addresses", attachment.ip_config.addresses},
          {"routes", routes}};
}

AttachmentSpec AttachmentOf(const Json& json) {
  AttachmentSpec attachment;
  json.at("container_id").get_to(attachment.container_id);
  json.at("network").get_to(attachment.network);
  json.at("addresses").get_to(attachment.ip_config.addresses);
  for (const Json& route : json.at("routes")) {
    LinkRoute& link_route = attachment.ip_config.routes.emplace_back();
    route.at("destination").get_to(link_route.destination);
    route.at("gateway").get_to(link_route.gateway);
    route.at("mtu").get_to(link_route.mtu);
    route.at("priority").get_to(link_route.priority);
  }
  return attachment;
}

Json RateJson(const bridge::Rate& rate) {
  return {{"per_second", rate.per_second}, {"burst", rate.burst}};
}

bridge::Rate RateOf(const Json& json, uint64_t per_second_max, uint64_t burst_max) {
  bridge::Rate rate{json.at("per_second").get<uint64_t>(), json.at("burst").get<uint64_t>()};
  if (rate.per_second > per_second_max || rate.burst > burst_max || (rate.per_second > 0 && rate.burst == 0))
    throw std::runtime_error("a rate is out of range");
  return rate;
}

// Rates in bits, as everywhere below the API.
bridge::Rate BitRateOf(const Json& json) {
  return RateOf(json, kBitRateMax, kByteBurstMax * 8);
}

constexpr const char* kFloodClassNames[bridge::kFloodClasses] = {"broadcast", "multicast", "unknown_unicast"};

// Of the attributes that are on or off.
struct Switchable {
  const char* name;
  bool PortAttributes::*value;
};
constexpr Switchable kSwitchables[] = {
    {"admin_up", &PortAttributes::admin_up},
    {"learning", &PortAttributes::learning},
    {"flood_unknown_unicast", &PortAttributes::flood_unknown_unicast},
    {"flood_multicast", &PortAttributes::flood_multicast},
    {"flood_broadcast", &PortAttributes::flood_broadcast},
    {"isolated", &PortAttributes::isolated},
    {"hairpin", &PortAttributes::hairpin},
    {"locked", &PortAttributes::locked},
    {"router_advertisement_guard", &PortAttributes::router_advertisement_guard},
    {"dhcp_server_guard", &PortAttributes::dhcp_server_guard},
};

Json AttributesJson(const PortAttributes& attributes) {
  Json json;
  for (const Switchable& row : kSwitchables) json[row.name] = attributes.*row.value;
  if (attributes.bpdu_recovery_s.has_value()) json["bpdu_recovery_s"] = *attributes.bpdu_recovery_s;
  for (size_t i = 0; i < bridge::kFloodClasses; ++i) {
    json["storm_control"][kFloodClassNames[i]] = {{"frames", RateJson(attributes.storm[i].frames)},
                                                  {"bits", RateJson(attributes.storm[i].bits)}};
  }
  json["receive_bits"] = RateJson(attributes.receive_rate);
  json["transmit_bits"] = RateJson(attributes.transmit_rate);
  const SourceGuardSpec& guard = attributes.source_guard;
  Json macs = Json::array();
  for (bridge::MacAddress mac : guard.macs) macs.push_back(mac.ToString());
  json["source_guard"] = {{"mac", guard.mac},
                          {"address", guard.address},
                          {"mac_addresses", macs},
                          {"ip_addresses", guard.ip_addresses}};
  return json;
}

PortAttributes AttributesOf(const Json& json) {
  PortAttributes attributes;
  for (const Switchable& row : kSwitchables) json.at(row.name).get_to(attributes.*row.value);
  if (json.contains("bpdu_recovery_s"))
    attributes.bpdu_recovery_s = json.at("bpdu_recovery_s").get<uint32_t>();
  for (size_t i = 0; i < bridge::kFloodClasses; ++i) {
    const Json& storm = json.at("storm_control").at(kFloodClassNames[i]);
    attributes.storm[i] = {RateOf(storm.at("frames"), kFrameRateMax, kFrameBurstMax),
                           BitRateOf(storm.at("bits"))};
  }
  attributes.receive_rate = BitRateOf(json.at("receive_bits"));
  attributes.transmit_rate = BitRateOf(json.at("transmit_bits"));
  const Json& guard = json.at("source_guard");
  guard.at("mac").get_to(attributes.source_guard.mac);
  guard.at("address").get_to(attributes.source_guard.address);
  for (const Json& mac : guard.at("mac_addresses")) attributes.source_guard.macs.push_back(MacOf(mac));
  guard.at("ip_addresses").get_to(attributes.source_guard.ip_addresses);
  return attributes;
}

// Files of an agent that had TAPs only do not say what kind it is.
DeviceRef DeviceOf(const Json& json) {
  DeviceRef device;
  json.at("netns").get_to(device.link.netns);
  json.at("ifname").get_to(device.link.ifname);
  const std::string kind = json.value("device", "tap");
  if (kind == "netdev") {
    device.kind = DeviceRef::Kind::kNetdev;
    device.host_stack =
        json.at("host_stack").get<std::string>() == "keep" ? HostStack::kKeep : HostStack::kDrop;
    json.at("software_offload").get_to(device.software_offload);
    device.may_carry_node = json.value("may_carry_node", false);
  } else if (kind == "veth") {
    device.kind = DeviceRef::Kind::kVeth;
    json.at("host_ifname").get_to(device.host_ifname);
  } else if (kind != "tap") {
    throw std::runtime_error("unknown kind of device");
  }
  return device;
}

void AddDevice(const DeviceRef& device, Json* json) {
  switch (device.kind) {
    case DeviceRef::Kind::kTap:
      (*json)["device"] = "tap";
      return;
    case DeviceRef::Kind::kNetdev:
      (*json)["device"] = "netdev";
      (*json)["host_stack"] = device.host_stack == HostStack::kKeep ? "keep" : "drop";
      (*json)["software_offload"] = device.software_offload;
      if (device.may_carry_node) (*json)["may_carry_node"] = true;
      return;
    case DeviceRef::Kind::kVeth:
      (*json)["device"] = "veth";
      (*json)["host_ifname"] = device.host_ifname;
      return;
  }
}

SwitchSpec ReadSwitch(const Json& json) {
  SwitchSpec spec;
  json.at("name").get_to(spec.name);
  json.at("id").get_to(spec.id);
  json.at("vlan_aware").get_to(spec.vlan_aware);
  spec.default_vid = VidOf(json.at("default_vid"));
  json.at("ageing_time_s").get_to(spec.ageing_time_s);
  json.at("ageing_disabled").get_to(spec.ageing_disabled);
  json.at("fdb_capacity").get_to(spec.fdb_capacity);
  json.at("group_forward_mask").get_to(spec.group_forward_mask);
  // Files of earlier agents do not have the following.
  spec.vlan_counters = json.value("vlan_counters", false);
  spec.flap_moves = json.value("flap_moves", 0u);
  spec.flap_hold_s = json.value("flap_hold_s", kFlapHoldDefaultS);
  if (json.at("mode") != "bridge") throw std::runtime_error("unknown mode");
  if (spec.name.empty() || spec.id == 0 || !bridge::IsVlan(spec.default_vid) || spec.ageing_time_s == 0 ||
      spec.fdb_capacity < bridge::kFdbCapacityMin || spec.fdb_capacity > bridge::kFdbCapacityMax ||
      spec.flap_moves > kFlapMovesMax || spec.flap_hold_s < 1 || spec.flap_hold_s > kFlapHoldMaxS) {
    throw std::runtime_error("a value is out of range");
  }
  return spec;
}

StoredPort ReadPort(const Json& json) {
  StoredPort port;
  PortSpec& spec = port.spec;
  json.at("name").get_to(spec.name);
  json.at("id").get_to(spec.id);
  json.at("switch").get_to(spec.switch_name);
  spec.device = DeviceOf(json);
  json.at("netns_device").get_to(port.netns_id.device);
  json.at("netns_inode").get_to(port.netns_id.inode);
  json.at("netns_cookie").get_to(port.netns_id.cookie);
  spec.mac = MacOf(json.at("mac_address"));
  json.at("mtu").get_to(spec.mtu);
  if (json.contains("vlans")) spec.vlans = VlansOf(json.at("vlans"));
  json.at("mac_limit").get_to(spec.mac_limit);
  const Json& pod = json.at("pod");
  pod.at("namespace").get_to(spec.pod.namespace_name);
  pod.at("name").get_to(spec.pod.name);
  pod.at("uid").get_to(spec.pod.uid);
  pod.at("container_id").get_to(spec.pod.container_id);
  if (json.contains("attributes")) spec.attributes = AttributesOf(json.at("attributes"));
  port.is_made = json.value("is_made", true);
  if (json.contains("trial")) {
    spec.trial.emplace();
    json.at("trial").at("ends_ms").get_to(spec.trial->ends_ms);
    json.at("trial").at("was_down").get_to(spec.trial->was_down);
  }
  if (json.contains("attachment")) spec.attachment = AttachmentOf(json.at("attachment"));
  if (spec.name.empty() || spec.id == 0 || spec.mtu < bridge::kMtuMin || spec.mtu > bridge::kMtuMax) {
    throw std::runtime_error("a value is out of range");
  }
  return port;
}

// By port and VLAN, and written without the detour through a tree: there may be a million.
std::string GroupsText(const std::vector<StaticFdbEntry>& entries, const char* separator) {
  std::map<std::pair<std::string_view, bridge::VlanId>, std::string> groups;
  for (const StaticFdbEntry& entry : entries) {
    std::string& addresses = groups[{entry.port_name, entry.key.vid}];
    absl::StrAppend(&addresses, addresses.empty() ? "\"" : ",\"", entry.key.mac.ToString(), "\"");
  }
  std::string text;
  for (const auto& [place, addresses] : groups) {
    absl::StrAppend(&text, text.empty() ? "" : separator, "{\"port\":", Json(std::string(place.first)).dump(),
                    ",\"vid\":", place.second, ",\"mac_addresses\":[", addresses, "]}");
  }
  return text;
}

std::vector<StaticFdbEntry> EntriesOf(const Json& groups) {
  std::vector<StaticFdbEntry> entries;
  for (const Json& group : groups) {
    const std::string port = group.at("port").get<std::string>();
    const bridge::VlanId vid = VidOf(group.at("vid"));
    // Files of earlier agents have one address each.
    if (group.contains("mac_address")) {
      entries.push_back({{MacOf(group.at("mac_address")), vid}, port});
      continue;
    }
    for (const Json& mac : group.at("mac_addresses")) entries.push_back({{MacOf(mac), vid}, port});
  }
  return entries;
}

absl::Status ApplyLine(std::string_view line, StaticEntries* entries) {
  try {
    const Json json = Json::parse(line.begin(), line.end());
    for (const StaticFdbEntry& entry : EntriesOf(json.at("removed"))) entries->Remove(entry.key);
    for (const StaticFdbEntry& entry : EntriesOf(json.at("added"))) entries->Put(entry.key, entry.port_name);
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::DataLossError(error.what());
  }
}

}  // namespace

std::string ToJson(const SwitchSpec& spec) {
  return Dump({{"name", spec.name},
               {"id", spec.id},
               {"mode", "bridge"},
               {"vlan_aware", spec.vlan_aware},
               {"default_vid", spec.default_vid},
               {"ageing_time_s", spec.ageing_time_s},
               {"ageing_disabled", spec.ageing_disabled},
               {"fdb_capacity", spec.fdb_capacity},
               {"group_forward_mask", spec.group_forward_mask},
               {"vlan_counters", spec.vlan_counters},
               {"flap_moves", spec.flap_moves},
               {"flap_hold_s", spec.flap_hold_s}});
}

std::string ToJson(const StoredPort& port) {
  const PortSpec& spec = port.spec;
  Json json = {{"name", spec.name},
               {"id", spec.id},
               {"switch", spec.switch_name},
               {"netns", spec.device.link.netns},
               {"netns_device", port.netns_id.device},
               {"netns_inode", port.netns_id.inode},
               {"netns_cookie", port.netns_id.cookie},
               {"ifname", spec.device.link.ifname},
               {"mac_address", spec.mac.ToString()},
               {"mtu", spec.mtu},
               {"mac_limit", spec.mac_limit}};
  AddDevice(spec.device, &json);
  if (!port.is_made) json["is_made"] = false;
  if (spec.trial.has_value())
    json["trial"] = {{"ends_ms", spec.trial->ends_ms}, {"was_down", spec.trial->was_down}};
  if (spec.vlans.has_value()) json["vlans"] = VlansJson(*spec.vlans);
  json["pod"] = {{"namespace", spec.pod.namespace_name},
                 {"name", spec.pod.name},
                 {"uid", spec.pod.uid},
                 {"container_id", spec.pod.container_id}};
  json["attributes"] = AttributesJson(spec.attributes);
  if (spec.attachment.has_value()) json["attachment"] = AttachmentJson(*spec.attachment);
  return Dump(json);
}

std::string ToJson(const std::vector<StaticFdbEntry>& entries) {
  return absl::StrCat("{\n  \"format\": ", kFormat, ",\n  \"entries\": [\n    ",
                      GroupsText(entries, ",\n    "), "\n  ]", kDocumentEnd);
}

std::string ToJsonLine(const StaticFdbChange& change) {
  return absl::StrCat("{\"removed\":[", GroupsText(change.removed, ","), "],\"added\":[",
                      GroupsText(change.added, ","), "]}\n");
}

std::string ToJson(const StoredIds& ids) {
  return Dump(
      {{"next_switch_id", ids.next_switch_id}, {"next_port_id", ids.next_port_id}, {"boot_id", ids.boot_id}});
}

absl::StatusOr<SwitchSpec> SwitchFromJson(const std::string& text) {
  return Parse<SwitchSpec>(text, ReadSwitch);
}

absl::StatusOr<StoredPort> PortFromJson(const std::string& text) {
  return Parse<StoredPort>(text, ReadPort);
}

absl::StatusOr<std::vector<StaticFdbEntry>> FdbFromJson(const std::string& text) {
  const size_t end = text.find(kDocumentEnd);
  std::string_view lines = text;
  lines.remove_prefix(end == std::string::npos ? text.size() : end + std::strlen(kDocumentEnd));
  const std::string_view document(text.data(), text.size() - lines.size());
  absl::StatusOr<std::vector<StaticFdbEntry>> whole = Parse<std::vector<StaticFdbEntry>>(
      document, [](const Json& json) { return EntriesOf(json.at("entries")); });
  if (!whole.ok() || lines.empty()) return whole;
  StaticEntries entries;
  for (const StaticFdbEntry& entry : *whole) entries.Put(entry.key, entry.port_name);
  int number = 1;
  for (size_t length; (length = lines.find('\n')) != std::string_view::npos; ++number) {
    absl::Status status = ApplyLine(lines.substr(0, length), &entries);
    if (!status.ok())
      return absl::DataLossError(absl::StrCat("line ", number, " behind its entries: ", status.message()));
    lines.remove_prefix(length + 1);
  }
  return entries.List();
}

absl::StatusOr<StoredIds> IdsFromJson(const std::string& text) {
  return Parse<StoredIds>(text, [](const Json& json) {
    StoredIds ids;
    json.at("next_switch_id").get_to(ids.next_switch_id);
    json.at("next_port_id").get_to(ids.next_port_id);
    json.at("boot_id").get_to(ids.boot_id);
    return ids;
  });
}

}  // namespace ringswitch::agent
