#pragma once

// Specs as the dataplane's configuration.

#include "dataplane/bridge/forwarding_config.h"
#include "server/agent/desired_state.h"

namespace ringswitch::agent {

inline constexpr char kDownDetail[] = "the interface was set down in its namespace";
inline constexpr char kGoneDetail[] =
    "the device was deleted in its namespace: delete the port and create it again";

inline bridge::SwitchConfig ConfigOf(const SwitchSpec& spec) {
  bridge::SwitchConfig config;
  config.vlan_aware = spec.vlan_aware;
  config.group_forward_mask = spec.group_forward_mask;
  config.ageing_time_s = spec.ageing_disabled ? 0 : spec.ageing_time_s;
  return config;
}

inline bridge::PortConfig ConfigOf(const PortSpec& spec, bridge::SwitchIndex switch_index) {
  bridge::PortConfig config;
  config.switch_index = switch_index;
  config.mtu = spec.mtu;
  config.mac_limit = spec.mac_limit;
  if (!spec.vlans.has_value()) return config;
  const VlanMembership& vlans = *spec.vlans;
  config.vlan_mode = vlans.is_trunk ? bridge::VlanMode::kTrunk : bridge::VlanMode::kAccess;
  config.pvid = vlans.is_trunk ? vlans.native_vid : vlans.access_vid;
  config.members = vlans.tagged;
  config.members.Add(config.pvid);
  config.untagged.Add(config.pvid);
  return config;
}

inline bool IsMember(const PortSpec& spec, bridge::VlanId vid) {
  if (!spec.vlans.has_value()) return vid == bridge::kVlanIdNone;
  const VlanMembership& vlans = *spec.vlans;
  return vlans.is_trunk ? vlans.native_vid == vid || vlans.tagged.contains(vid) : vlans.access_vid == vid;
}

}  // namespace ringswitch::agent
