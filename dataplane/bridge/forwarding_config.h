#pragma once

// The forwarding configuration: all that a worker needs to know to decide where a frame goes, as one
// immutable value.
//
// Theory of operation. The control side builds a new ForwardingConfig from unchanged and changed pieces,
// publishes the pointer, and frees what was replaced after every worker has passed a batch boundary
// (epoch.h). Workers load the pointer between batches, so one frame never sees two configurations, and a port
// that changes VLAN is in exactly one of them at any moment.

#include <array>
#include <cstdint>
#include <vector>

#include "dataplane/bridge/frame.h"
#include "dataplane/bridge/vlan_set.h"

namespace ringswitch::bridge {

class Fdb;

// Dense array positions, reused after a port or switch is gone; never shown outside.
using PortIndex = uint16_t;
using SwitchIndex = uint16_t;

// Limits, each with its reason.
inline constexpr size_t kPortsMax = 1024;   // as the Linux bridge (BR_PORT_BITS 10); index 0 is used here
inline constexpr size_t kSwitchesMax = 64;  // a node has a handful; the array of pointers stays in one page
inline constexpr PortIndex kNoPort = 0xffff;
inline constexpr uint32_t kMtuMin = 68;     // RFC 791
inline constexpr uint32_t kMtuMax = 65521;  // TAP: 65535 - 14

enum class VlanMode : uint8_t {
  kUnaware,  // the switch does not look at tags
  kAccess,   // untagged and priority-tagged frames only
  kTrunk,    // tagged members, optional native VLAN
};

// One port. `members` includes pvid.
struct PortConfig {
  SwitchIndex switch_index = 0;
  VlanMode vlan_mode = VlanMode::kUnaware;
  VlanId pvid = kVlanIdNone;  // VLAN of untagged frames; none: they are dropped (trunk only)
  VlanSet members;            // VLANs whose frames may enter and leave
  VlanSet untagged;           // subset of members that leaves without a tag
  uint32_t mtu = 1500;        // bytes, kMtuMin to kMtuMax
  uint32_t mac_limit = 0;     // most learned addresses; 0: no limit
  friend bool operator==(const PortConfig&, const PortConfig&) = default;
};

// One switch. Times in seconds.
struct SwitchConfig {
  bool vlan_aware = true;
  uint16_t group_forward_mask = 0;  // bit n: 01:80:c2:00:00:0n is forwarded
  uint32_t ageing_time_s = 300;     // 0: entries do not age
  friend bool operator==(const SwitchConfig&, const SwitchConfig&) = default;
};

struct SwitchEntry {
  SwitchConfig config;
  Fdb* fdb = nullptr;            // shared by all workers, internally synchronised
  std::vector<PortIndex> ports;  // in order of index
};

struct ForwardingConfig {
  std::array<const PortConfig*, kPortsMax> ports{};         // null: no such port
  std::array<const SwitchEntry*, kSwitchesMax> switches{};  // null: no such switch
};

}  // namespace ringswitch::bridge
