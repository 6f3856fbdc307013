#include "server/agent/state_json.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace ringswitch::agent {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;  // raised when an older agent could not read the file rightly

std::string Dump(Json json) {
  Json file = {{"format", kFormat}};
  file.update(json);
  return file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Exceptions are how nlohmann-json reports; none leaves this file.
template <typename Value, typename Read>
absl::StatusOr<Value> Parse(const std::string& text, Read read) {
  try {
    Json json = Json::parse(text);
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
  if (json.at("mode") != "bridge") throw std::runtime_error("unknown mode");
  if (spec.name.empty() || spec.id == 0 || !bridge::IsVlan(spec.default_vid) || spec.ageing_time_s == 0 ||
      spec.fdb_capacity < bridge::kFdbCapacityMin || spec.fdb_capacity > bridge::kFdbCapacityMax) {
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
  json.at("netns").get_to(spec.link.netns);
  json.at("netns_device").get_to(port.netns_id.device);
  json.at("netns_inode").get_to(port.netns_id.inode);
  json.at("netns_cookie").get_to(port.netns_id.cookie);
  json.at("ifname").get_to(spec.link.ifname);
  spec.mac = MacOf(json.at("mac_address"));
  json.at("mtu").get_to(spec.mtu);
  if (json.contains("vlans")) spec.vlans = VlansOf(json.at("vlans"));
  json.at("mac_limit").get_to(spec.mac_limit);
  const Json& pod = json.at("pod");
  pod.at("namespace").get_to(spec.pod.namespace_name);
  pod.at("name").get_to(spec.pod.name);
  pod.at("uid").get_to(spec.pod.uid);
  pod.at("container_id").get_to(spec.pod.container_id);
  if (json.contains("attachment")) spec.attachment = AttachmentOf(json.at("attachment"));
  if (spec.name.empty() || spec.id == 0 || spec.mtu < bridge::kMtuMin || spec.mtu > bridge::kMtuMax) {
    throw std::runtime_error("a value is out of range");
  }
  return port;
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
               {"group_forward_mask", spec.group_forward_mask}});
}

std::string ToJson(const StoredPort& port) {
  const PortSpec& spec = port.spec;
  Json json = {{"name", spec.name},
               {"id", spec.id},
               {"switch", spec.switch_name},
               {"netns", spec.link.netns},
               {"netns_device", port.netns_id.device},
               {"netns_inode", port.netns_id.inode},
               {"netns_cookie", port.netns_id.cookie},
               {"ifname", spec.link.ifname},
               {"mac_address", spec.mac.ToString()},
               {"mtu", spec.mtu},
               {"mac_limit", spec.mac_limit}};
  if (spec.vlans.has_value()) json["vlans"] = VlansJson(*spec.vlans);
  json["pod"] = {{"namespace", spec.pod.namespace_name},
                 {"name", spec.pod.name},
                 {"uid", spec.pod.uid},
                 {"container_id", spec.pod.container_id}};
  if (spec.attachment.has_value()) json["attachment"] = AttachmentJson(*spec.attachment);
  return Dump(json);
}

std::string ToJson(const std::vector<StaticFdbEntry>& entries) {
  Json rows = Json::array();
  for (const StaticFdbEntry& entry : entries) {
    rows.push_back(
        {{"mac_address", entry.key.mac.ToString()}, {"vid", entry.key.vid}, {"port", entry.port_name}});
  }
  return Dump({{"entries", rows}});
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
  return Parse<std::vector<StaticFdbEntry>>(text, [](const Json& json) {
    std::vector<StaticFdbEntry> entries;
    for (const Json& row : json.at("entries")) {
      bridge::FdbKey key{MacOf(row.at("mac_address")), VidOf(row.at("vid"))};
      entries.push_back({key, row.at("port").get<std::string>()});
    }
    return entries;
  });
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
