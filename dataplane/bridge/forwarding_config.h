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
#include "dataplane/bridge/meter.h"
#include "dataplane/bridge/vlan_set.h"

namespace ringswitch::bridge {

class Fdb;
struct VlanCounters;

// Dense array positions, reused after a port or switch is gone; never shown outside.
using PortIndex = uint16_t;
using SwitchIndex = uint16_t;

// Limits, each with its reason.
inline constexpr size_t kPortsMax = 1024;   // as the Linux bridge (BR_PORT_BITS 10); index 0 is used here
inline constexpr size_t kSwitchesMax = 64;  // a node has a handful; the array of pointers stays in one page
inline constexpr PortIndex kNoPort = 0xffff;
inline constexpr uint32_t kFlapWindowS = 10;
inline constexpr uint32_t kMtuMin = 68;     // RFC 791
inline constexpr uint32_t kMtuMax = 65521;  // TAP: 65535 - 14

enum class VlanMode : uint8_t {
  kUnaware,  // the switch does not look at tags
  kAccess,   // untagged and priority-tagged frames only
  kTrunk,    // tagged members, optional native VLAN
};

// What a port does beyond plain forwarding, one bit each: the frame path asks for all of them at once, and a
// port without any costs one comparison.
enum PortFeature : uint32_t {
  kAdminDown = 1u << 0,              // nothing enters or leaves
  kNoLearning = 1u << 1,             // addresses are neither learned nor refreshed; entries there are used
  kNoUnknownUnicastFlood = 1u << 2,  // such frames do not leave here
  kNoMulticastFlood = 1u << 3,
  kNoBroadcastFlood = 1u << 4,
  kIsolated = 1u << 5,                   // no frame from one isolated port to another
  kHairpin = 1u << 6,                    // frames may leave by the port they came in by
  kLocked = 1u << 7,                     // only sources that have an entry on this port may enter
  kBpduGuard = 1u << 8,                  // a frame to 01:80:c2:00:00:00 takes the port down
  kSourceMacGuard = 1u << 9,             // sources: SourceGuard::macs only
  kSourceAddressGuard = 1u << 10,        // IPv4, ARP, IPv6 and ND senders: SourceGuard's addresses only
  kRouterAdvertisementGuard = 1u << 11,  // no router advertisement or redirect enters (RFC 6105)
  kDhcpServerGuard = 1u << 12,           // nothing that a DHCP server says enters
  kStormControl = 1u << 13,
  kReceiveRate = 1u << 14,
  kTransmitRate = 1u << 15,
  kLinkDown = 1u << 16,  // the device would lose what it is given: copies are dropped as egress_port_down
};

// Storm control of one class at ingress; a limit of 0 is none.
struct StormLimit {
  Rate frames;
  Rate bits;
  friend bool operator==(const StormLimit&, const StormLimit&) = default;
};

using Ipv4Address = std::array<uint8_t, 4>;   // as on the wire
using Ipv6Address = std::array<uint8_t, 16>;  // as on the wire

// What may be a port's sender. Link-local IPv6 addresses made of the MACs (RFC 4291 appendix A) are allowed
// with them, and so are the unspecified addresses where a host that has none yet must use them (ARP probe,
// RFC 5227; DHCP client; duplicate address detection, RFC 4862).
struct SourceGuard {
  std::vector<MacAddress> macs;
  std::vector<Ipv4Address> ipv4;
  std::vector<Ipv6Address> ipv6;
  friend bool operator==(const SourceGuard&, const SourceGuard&) = default;
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
  uint32_t features = 0;      // PortFeature bits; what follows is looked at only where its bit is set
  std::array<StormLimit, kFloodClasses> storm{};  // by FloodClass
  Rate receive_rate;                              // bits of frames received, dropped beyond it
  Rate transmit_rate;                             // bits of frames transmitted, dropped beyond it
  uint32_t bpdu_recovery_s = 0;  // after which a port that BPDU guard took down comes up; 0: by hand only
  SourceGuard source_guard;
  friend bool operator==(const PortConfig&, const PortConfig&) = default;
};

// One switch. Times in seconds.
struct SwitchConfig {
  bool vlan_aware = true;
  uint16_t group_forward_mask = 0;  // bit n: 01:80:c2:00:00:0n is forwarded
  uint32_t ageing_time_s = 300;     // 0: entries do not age
  bool vlan_counters = false;       // count frames per VLAN
  uint32_t flap_limit = 0;          // moves of an address within kFlapWindowS that are a flap; 0: no guard
  uint32_t flap_hold_s = 60;        // how long a flapping address stays where it is
  friend bool operator==(const SwitchConfig&, const SwitchConfig&) = default;
};

struct SwitchEntry {
  SwitchConfig config;
  Fdb* fdb = nullptr;                            // shared by all workers, internally synchronised
  std::vector<PortIndex> ports;                  // in order of index
  VlanCounters* const* vlan_counters = nullptr;  // by worker: kVlanIdMax + 1 of them; null: not counted
};

struct ForwardingConfig {
  std::array<const PortConfig*, kPortsMax> ports{};         // null: no such port
  std::array<const SwitchEntry*, kSwitchesMax> switches{};  // null: no such switch
};

}  // namespace ringswitch::bridge
