#include "server/agent/port_config.h"

#include <algorithm>

#include "server/agent/ip_address.h"

namespace ringswitch::agent {
namespace {

void AddAddress(const absl::StatusOr<IpAddress>& address, bridge::SourceGuard* guard) {
  if (!address.ok()) return;  // verified before
  if (address->is_ipv6) {
    guard->ipv6.push_back(address->bytes);
    return;
  }
  bridge::Ipv4Address ipv4;
  std::copy_n(address->bytes.begin(), ipv4.size(), ipv4.begin());
  guard->ipv4.push_back(ipv4);
}

bridge::SourceGuard GuardOf(const PortSpec& spec) {
  bridge::SourceGuard guard;
  // A netdev's own address is that of the near end: none behind it speaks from it.
  if (spec.device.kind != DeviceRef::Kind::kNetdev) guard.macs.push_back(spec.mac);
  const SourceGuardSpec& wanted = spec.attributes.source_guard;
  guard.macs.insert(guard.macs.end(), wanted.macs.begin(), wanted.macs.end());
  if (!wanted.address) return guard;
  if (spec.attachment.has_value()) {
    for (const std::string& prefix : spec.attachment->ip_config.addresses)
      AddAddress(ParseIpPrefix(prefix), &guard);
  }
  for (const std::string& address : wanted.ip_addresses) AddAddress(ParseIpAddress(address), &guard);
  return guard;
}

uint32_t FeaturesOf(const PortAttributes& attributes) {
  const bool has_storm_control =
      std::any_of(attributes.storm.begin(), attributes.storm.end(), [](const bridge::StormLimit& limit) {
        return limit.frames.per_second != 0 || limit.bits.per_second != 0;
      });
  uint32_t features = 0;
  auto set = [&features](bridge::PortFeature feature, bool is_on) {
    if (is_on) features |= feature;
  };
  set(bridge::kAdminDown, !attributes.admin_up);
  set(bridge::kNoLearning, !attributes.learning);
  set(bridge::kNoUnknownUnicastFlood, !attributes.flood_unknown_unicast);
  set(bridge::kNoMulticastFlood, !attributes.flood_multicast);
  set(bridge::kNoBroadcastFlood, !attributes.flood_broadcast);
  set(bridge::kIsolated, attributes.isolated);
  set(bridge::kHairpin, attributes.hairpin);
  set(bridge::kLocked, attributes.locked);
  set(bridge::kBpduGuard, attributes.bpdu_recovery_s.has_value());
  set(bridge::kSourceMacGuard, attributes.source_guard.mac);
  set(bridge::kSourceAddressGuard, attributes.source_guard.address);
  set(bridge::kRouterAdvertisementGuard, attributes.router_advertisement_guard);
  set(bridge::kDhcpServerGuard, attributes.dhcp_server_guard);
  set(bridge::kStormControl, has_storm_control);
  set(bridge::kReceiveRate, attributes.receive_rate.per_second != 0);
  set(bridge::kTransmitRate, attributes.transmit_rate.per_second != 0);
  return features;
}

}  // namespace

bridge::SwitchConfig ConfigOf(const SwitchSpec& spec) {
  bridge::SwitchConfig config;
  config.vlan_aware = spec.vlan_aware;
  config.group_forward_mask = spec.group_forward_mask;
  config.ageing_time_s = spec.ageing_disabled ? 0 : spec.ageing_time_s;
  config.vlan_counters = spec.vlan_counters;
  config.flap_limit = spec.flap_moves;
  config.flap_hold_s = spec.flap_hold_s;
  return config;
}

bridge::PortConfig ConfigOf(const PortSpec& spec, bridge::SwitchIndex switch_index, bool has_link) {
  const PortAttributes& attributes = spec.attributes;
  bridge::PortConfig config;
  config.switch_index = switch_index;
  config.mtu = spec.mtu;
  config.mac_limit = spec.mac_limit;
  config.features = FeaturesOf(attributes);
  if (!has_link && spec.device.kind != DeviceRef::Kind::kTap) config.features |= bridge::kLinkDown;
  config.storm = attributes.storm;
  config.receive_rate = attributes.receive_rate;
  config.transmit_rate = attributes.transmit_rate;
  config.bpdu_recovery_s = attributes.bpdu_recovery_s.value_or(0);
  if (attributes.source_guard.mac || attributes.source_guard.address) config.source_guard = GuardOf(spec);
  if (!spec.vlans.has_value()) return config;
  const VlanMembership& vlans = *spec.vlans;
  config.vlan_mode = vlans.is_trunk ? bridge::VlanMode::kTrunk : bridge::VlanMode::kAccess;
  config.pvid = vlans.is_trunk ? vlans.native_vid : vlans.access_vid;
  config.members = vlans.tagged;
  config.members.Add(config.pvid);
  config.untagged.Add(config.pvid);
  return config;
}

}  // namespace ringswitch::agent
