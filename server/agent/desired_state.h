#pragma once

// What the agent was asked for, as plain values: requests as they came, and specs, which only verification
// makes of them.
//
// Free of gRPC and protobuf, so that the model and its tests run under the sanitizers.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/bridge/fdb.h"
#include "dataplane/bridge/frame.h"
#include "dataplane/bridge/vlan_set.h"
#include "server/agent/links.h"
#include "server/agent/port_attributes.h"

namespace ringswitch::agent {

// Limits, each with its reason.
inline constexpr size_t kSwitchNameMax = 15;            // IFNAMSIZ - 1: it may become an interface's name
inline constexpr size_t kPortNameMax = 128;             // a container id and an interface name, with room
inline constexpr size_t kContainerIdMax = 128;          // sandbox ids are 64 characters
inline constexpr size_t kNetnsPathMax = 4095;           // PATH_MAX - 1
inline constexpr size_t kPodFieldMax = 253;             // a DNS subdomain, RFC 1123
inline constexpr size_t kVlanRangesMax = 4094;          // one per VLAN
inline constexpr size_t kIpItemsMax = 1024;             // addresses or routes of one interface
inline constexpr uint32_t kMtuDefault = 1500;           // Ethernet
inline constexpr uint32_t kMacLimitMax = 1u << 20;      // the largest FDB
inline constexpr uint32_t kAttachmentMacLimit = 64;     // design decision 7
inline constexpr uint32_t kAgeingTimeDefaultS = 300;    // IEEE 802.1Q table 8-6
inline constexpr uint32_t kAgeingTimeMaxS = 1'000'000;  // IEEE 802.1Q table 8-6
inline constexpr uint32_t kFlapMovesMax = 255;          // in kFlapWindowS: counted in one byte
inline constexpr uint32_t kFlapHoldDefaultS = 60;       // long against a loop's storm, short for a person
inline constexpr uint32_t kFlapHoldMaxS = 3600;         // an hour
inline constexpr uint32_t kFdbBulkMax = 1u << 20;       // entries of one bulk: the largest FDB
inline constexpr uint32_t kConfirmWithinMaxS = 3600;    // longer than anybody looks whether a node is reached

enum class SwitchMode : uint8_t { kBridge, kMacvlan };

// --- Specs ---

struct SwitchSpec {
  std::string name;
  uint64_t id = 0;
  SwitchMode mode = SwitchMode::kBridge;
  bool vlan_aware = true;
  bridge::VlanId default_vid = 1;
  uint32_t ageing_time_s = kAgeingTimeDefaultS;
  bool ageing_disabled = false;
  uint32_t fdb_capacity = bridge::kFdbCapacityDefault;
  uint16_t group_forward_mask = 0;
  bool vlan_counters = false;
  uint32_t flap_moves = 0;  // 0: no flap guard
  uint32_t flap_hold_s = kFlapHoldDefaultS;
  friend bool operator==(const SwitchSpec&, const SwitchSpec&) = default;
};

// VLANs of a port: one of two kinds. `tagged` never holds `native_vid`.
struct VlanMembership {
  bool is_trunk = false;
  bridge::VlanId access_vid = bridge::kVlanIdNone;
  bridge::VlanSet tagged;
  bridge::VlanId native_vid = bridge::kVlanIdNone;
  friend bool operator==(const VlanMembership&, const VlanMembership&) = default;
};

struct PodReference {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string container_id;
  friend bool operator==(const PodReference&, const PodReference&) = default;
};

struct IpSettings {
  std::vector<std::string> addresses;
  std::vector<LinkRoute> routes;
  bool empty() const { return addresses.empty() && routes.empty(); }
  friend bool operator==(const IpSettings&, const IpSettings&) = default;
};

// What a port has more when it was made for a container's interface.
struct AttachmentSpec {
  std::string container_id;
  std::string network;
  IpSettings ip_config;
  friend bool operator==(const AttachmentSpec&, const AttachmentSpec&) = default;
};

// A netdev's port that is deleted again unless it is confirmed.
struct PortTrial {
  uint32_t within_s = 0;  // as asked for
  int64_t ends_ms = 0;    // CLOCK_BOOTTIME, which goes on while no agent runs
  bool was_down = false;  // the device had been left down by its owner
  friend bool operator==(const PortTrial&, const PortTrial&) = default;
};

struct PortSpec {
  std::string name;
  uint64_t id = 0;
  std::string switch_name;
  DeviceRef device;
  bridge::MacAddress mac;               // of the interface in the pod; netdev: its own
  uint32_t mtu = kMtuDefault;           // netdev: its own
  std::optional<VlanMembership> vlans;  // none: the switch is not VLAN-aware
  uint32_t mac_limit = 0;
  PodReference pod;
  PortAttributes attributes;
  std::optional<AttachmentSpec> attachment;
  std::optional<PortTrial> trial;  // none: nothing to confirm
  friend bool operator==(const PortSpec&, const PortSpec&) = default;
};

struct StaticFdbEntry {
  bridge::FdbKey key;
  std::string port_name;
};

// What one call does to the static entries of a switch: those that go, then those that come or move.
struct StaticFdbChange {
  std::vector<StaticFdbEntry> removed;
  std::vector<StaticFdbEntry> added;
};

// --- Requests: nothing in them has been looked at ---

struct FlapGuardRequest {
  uint32_t moves = 0;
  std::optional<DurationRequest> hold_time;
};

struct SwitchRequest {
  std::string name;
  int mode = 0;  // value of ringswitch.v1.SwitchMode
  std::optional<bool> vlan_aware;
  uint32_t default_vid = 0;
  std::optional<DurationRequest> ageing_time;
  bool ageing_disabled = false;
  uint32_t fdb_capacity = 0;
  uint32_t group_forward_mask = 0;
  bool vlan_counters = false;
  std::optional<FlapGuardRequest> flap_guard;
};

// Set fields change. The last two cannot: they are named here to refuse another value than the present one.
struct SwitchUpdate {
  std::string name;
  std::optional<bool> vlan_aware;
  std::optional<uint32_t> default_vid;
  std::optional<std::optional<DurationRequest>> ageing_time;
  std::optional<bool> ageing_disabled;
  std::optional<uint32_t> group_forward_mask;
  std::optional<bool> vlan_counters;
  std::optional<std::optional<FlapGuardRequest>> flap_guard;
  std::optional<int> mode;
  std::optional<uint32_t> fdb_capacity;
};

struct VlanRange {
  uint32_t first = 0;
  uint32_t last = 0;  // 0: as first
};

struct VlanRequest {
  enum class Kind : uint8_t { kUnset, kAccess, kTrunk };
  Kind kind = Kind::kUnset;
  uint32_t access_vid = 0;
  std::vector<VlanRange> tagged;
  uint32_t native_vid = 0;
};

struct DeviceRequest {
  enum class Kind : uint8_t { kUnset, kTap, kNetdev, kVeth };
  Kind kind = Kind::kUnset;
  std::string netns;
  std::string ifname;
  std::string host_ifname;
  int host_stack = 0;  // value of ringswitch.v1.HostStack
  bool software_offload = false;
};

struct PortRequest {
  std::string name;
  std::string switch_name;
  DeviceRequest device;
  std::string mac_address;
  uint32_t mtu = 0;
  std::optional<VlanRequest> vlans;
  uint32_t mac_limit = 0;
  PodReference pod;
  PortAttributesRequest attributes;
  std::optional<DurationRequest> confirm_within;
};

// Set fields change. The last ones cannot, as in SwitchUpdate.
struct PortUpdate {
  std::string name;
  std::optional<uint32_t> mtu;
  std::optional<std::optional<VlanRequest>> vlans;
  std::optional<uint32_t> mac_limit;
  std::optional<PodReference> pod;
  PortAttributesRequest attributes;
  std::optional<std::string> switch_name;
  std::optional<DeviceRequest> device;
  std::optional<std::string> mac_address;
};

struct FdbEntryRequest {
  std::string switch_name;
  uint32_t vid = 0;
  std::string mac_address;
  std::string port_name;
};

// Static entries in bulk: each message's entries with its VLANs. There may be a million entries, so they are
// compact: addresses are parsed as they come, and ports are named by their place in `port_names`.
struct FdbBulkRequest {
  struct Entry {
    bridge::MacAddress mac;
    uint32_t vid = 0;
    uint32_t port = 0;
  };
  struct Part {
    std::vector<Entry> entries;
    std::vector<VlanRange> ranges;  // instead of the entries' VIDs, which are 0 then
  };
  std::string switch_name;
  std::vector<std::string> port_names;
  std::vector<Part> parts;
  bool replace = false;
  bool validate_only = false;
};

struct FdbFilterRequest {
  std::string switch_name;
  std::string port_name;  // empty: all
  std::optional<uint32_t> vid;
  std::optional<bridge::FdbKind> kind;
};

struct AttachmentRequest {
  std::string container_id;
  std::string ifname;
  std::string netns;
  std::string network;
  std::string switch_name;
  std::optional<VlanRequest> vlans;
  std::string mac_address;
  uint32_t mtu = 0;
  std::optional<uint32_t> mac_limit;
  PodReference pod;
  std::optional<IpSettings> ip_config;
};

}  // namespace ringswitch::agent
