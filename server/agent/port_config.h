#pragma once

// Specs as the dataplane's configuration.

#include <algorithm>

#include "dataplane/bridge/forwarding_config.h"
#include "server/agent/desired_state.h"

namespace ringswitch::agent {

bridge::SwitchConfig ConfigOf(const SwitchSpec& spec);
// `has_link`: the device passes on what it is given. A TAP says so itself at each write.
bridge::PortConfig ConfigOf(const PortSpec& spec, bridge::SwitchIndex switch_index, bool has_link = true);

// A netdev's MTU may be more, or less, than a port can have.
inline uint32_t PortMtu(uint32_t device_mtu) {
  return std::clamp<uint32_t>(device_mtu, bridge::kMtuMin, bridge::kMtuMax);
}

inline bool IsMember(const PortSpec& spec, bridge::VlanId vid) {
  if (!spec.vlans.has_value()) return vid == bridge::kVlanIdNone;
  const VlanMembership& vlans = *spec.vlans;
  return vlans.is_trunk ? vlans.native_vid == vid || vlans.tagged.contains(vid) : vlans.access_vid == vid;
}

}  // namespace ringswitch::agent
