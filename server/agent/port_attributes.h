#pragma once

// What a port does beyond plain forwarding: as asked for, and as it was verified.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/bridge/forwarding_config.h"
#include "server/agent/control_error.h"

namespace ringswitch::agent {

// Limits, each with its reason.
inline constexpr uint64_t kFrameRateMax = 1'000'000'000;    // beyond any memory's speed
inline constexpr uint64_t kFrameBurstMax = 10'000'000;      // seconds at line rate
inline constexpr uint64_t kBitRateMin = 1000;               // a frame in a second or two
inline constexpr uint64_t kBitRateMax = 1'000'000'000'000;  // 1 Tbit/s
inline constexpr uint64_t kByteBurstMax = 1u << 30;         // its bits x 10^9 fit in 63 bits (meter.h)
inline constexpr uint64_t kFrameBurstDefaultMin = 16;       // a batch of a quiet pod
inline constexpr uint64_t kByteBurstDefaultMin = 65'536;    // a super-frame
inline constexpr uint32_t kBpduRecoveryMaxS = 86'400;       // a day
inline constexpr size_t kGuardedAddressesMax = 64;          // compared one by one on the frame path

// --- Verified ---

struct SourceGuardSpec {
  bool mac = false;
  bool address = false;
  std::vector<bridge::MacAddress> macs;   // beside the port's own
  std::vector<std::string> ip_addresses;  // beside the interface's; canonical text
  friend bool operator==(const SourceGuardSpec&, const SourceGuardSpec&) = default;
};

struct PortAttributes {
  bool admin_up = true;
  bool learning = true;
  bool flood_unknown_unicast = true;
  bool flood_multicast = true;
  bool flood_broadcast = true;
  bool isolated = false;
  bool hairpin = false;
  bool locked = false;
  std::optional<uint32_t> bpdu_recovery_s;  // none: no BPDU guard; 0: comes up by hand only
  std::array<bridge::StormLimit, bridge::kFloodClasses> storm{};  // by FloodClass; limit 0: none
  bridge::Rate receive_rate;                                      // bits; 0: none
  bridge::Rate transmit_rate;
  SourceGuardSpec source_guard;
  bool router_advertisement_guard = false;
  bool dhcp_server_guard = false;
  friend bool operator==(const PortAttributes&, const PortAttributes&) = default;
};

// --- Requests ---

struct DurationRequest {
  int64_t seconds = 0;
  int32_t nanos = 0;
};

struct BpduGuardRequest {
  bool enabled = false;
  std::optional<DurationRequest> recovery_time;
};

struct StormLimitRequest {
  uint64_t frames_per_second = 0;
  uint64_t burst_frames = 0;
  uint64_t bits_per_second = 0;
  uint64_t burst_bytes = 0;
};

// By FloodClass; what is set is wanted, as everywhere below.
using StormControlRequest = std::array<std::optional<StormLimitRequest>, bridge::kFloodClasses>;

struct RateLimitRequest {
  uint64_t bits_per_second = 0;
  uint64_t burst_bytes = 0;
};

struct SourceGuardRequest {
  std::optional<bool> mac;
  std::optional<bool> address;
  std::optional<std::vector<std::string>> mac_addresses;
  std::optional<std::vector<std::string>> ip_addresses;
};

// Of a new port or of a change: what is set is wanted. A BPDU guard or storm limit as made by default is off;
// a rate has a "none" of its own.
struct PortAttributesRequest {
  std::optional<bool> admin_up;
  std::optional<bool> learning;
  std::optional<bool> flood_unknown_unicast;
  std::optional<bool> flood_multicast;
  std::optional<bool> flood_broadcast;
  std::optional<bool> isolated;
  std::optional<bool> hairpin;
  std::optional<bool> locked;
  std::optional<BpduGuardRequest> bpdu_guard;
  StormControlRequest storm_control;
  std::optional<std::optional<RateLimitRequest>> receive_rate;
  std::optional<std::optional<RateLimitRequest>> transmit_rate;
  SourceGuardRequest source_guard;
  std::optional<bool> router_advertisement_guard;
  std::optional<bool> dhcp_server_guard;
};

// Puts what is asked for into `attributes`, defaults filled in; all that is wrong goes to `violations`,
// fields named `prefix`NAME. `is_netdev`: the MAC addresses behind the port are not known of themselves.
void CheckAttributes(const std::string& prefix, const PortAttributesRequest& request, bool is_netdev,
                     PortAttributes* attributes, std::vector<FieldViolation>* violations);

}  // namespace ringswitch::agent
