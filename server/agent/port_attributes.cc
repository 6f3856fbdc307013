#include "server/agent/port_attributes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/agent/field_checks.h"
#include "server/agent/ip_address.h"

namespace ringswitch::agent {
namespace {

constexpr const char* kFloodClassNames[bridge::kFloodClasses] = {"broadcast", "multicast", "unknown_unicast"};
constexpr uint64_t kBitsPerByte = 8;
constexpr uint64_t kBurstsPerSecond = 10;  // a default burst is a tenth of a second's

uint64_t CheckAtMost(const std::string& field, uint64_t value, uint64_t last, Violations* violations) {
  if (value > last) violations->push_back({field, absl::StrCat(value, " is out of range: at most ", last)});
  return value;
}

// A burst that is left out is a tenth of a second's, `least` at least. `rate` is as requested, `per_second`
// the same in units of the burst.
uint64_t CheckBurst(const std::string& field, uint64_t burst, uint64_t rate, uint64_t per_second,
                    const char* rate_name, uint64_t last, uint64_t least, Violations* violations) {
  if (burst != 0 && rate == 0) {
    violations->push_back(
        {field, absl::StrCat("is a burst of no rate: set ", rate_name, ", or leave it out")});
  }
  if (burst != 0) return CheckAtMost(field, burst, last, violations);
  return std::clamp(per_second / kBurstsPerSecond, least, last);
}

bridge::Rate CheckBits(const std::string& field, uint64_t bits_per_second, uint64_t burst_bytes,
                       Violations* violations) {
  bridge::Rate rate;
  rate.per_second = CheckAtMost(field + ".bits_per_second", bits_per_second, kBitRateMax, violations);
  const uint64_t bytes_per_second = bits_per_second / kBitsPerByte;
  uint64_t burst = CheckBurst(field + ".burst_bytes", burst_bytes, bits_per_second, bytes_per_second,
                              "bits_per_second", kByteBurstMax, kByteBurstDefaultMin, violations);
  rate.burst = bits_per_second == 0 ? 0 : burst * kBitsPerByte;
  return rate;
}

bridge::StormLimit CheckStorm(const std::string& field, const StormLimitRequest& request,
                              Violations* violations) {
  bridge::StormLimit limit;
  limit.frames.per_second =
      CheckAtMost(field + ".frames_per_second", request.frames_per_second, kFrameRateMax, violations);
  const uint64_t per_second = request.frames_per_second;
  uint64_t burst = CheckBurst(field + ".burst_frames", request.burst_frames, per_second, per_second,
                              "frames_per_second", kFrameBurstMax, kFrameBurstDefaultMin, violations);
  limit.frames.burst = request.frames_per_second == 0 ? 0 : burst;
  limit.bits = CheckBits(field, request.bits_per_second, request.burst_bytes, violations);
  return limit;
}

bridge::Rate CheckRate(const std::string& field, const std::optional<RateLimitRequest>& request,
                       Violations* violations) {
  if (!request.has_value()) return {};
  if (request->bits_per_second < kBitRateMin) {
    violations->push_back({field + ".bits_per_second",
                           absl::StrCat(request->bits_per_second, " is out of range: ", kBitRateMin, " to ",
                                        kBitRateMax, "; for no limit leave it out or say off")});
    return {};
  }
  return CheckBits(field, request->bits_per_second, request->burst_bytes, violations);
}

std::optional<uint32_t> CheckBpduGuard(const std::string& field, const BpduGuardRequest& request,
                                       Violations* violations) {
  uint32_t recovery_s = 0;
  if (request.recovery_time.has_value()) {
    recovery_s =
        CheckSeconds(field + ".recovery_time", *request.recovery_time, kBpduRecoveryMaxS,
                     "0 s would let the port up at once: leave it out to let it up by hand", violations);
  }
  if (!request.enabled) return std::nullopt;
  return recovery_s;
}

bool IsStationAddress(const IpAddress& address) {
  bool is_zero = std::all_of(address.bytes.begin(), address.bytes.end(), [](uint8_t b) { return b == 0; });
  return !is_zero && (address.is_ipv6 ? address.bytes[0] != 0xff : address.bytes[0] < 224);
}

std::string CheckIp(const std::string& field, const std::string& text, Violations* violations) {
  absl::StatusOr<IpAddress> address = ParseIpAddress(text);
  if (!address.ok()) {
    violations->push_back({field, absl::StrCat(Quoted(text), " is no address without prefix length, such ",
                                               "as 10.0.0.2 or fd00::2")});
    return {};
  }
  if (!IsStationAddress(*address)) {
    violations->push_back(
        {field, absl::StrCat(text, " cannot be a sender: the address of a single station is wanted")});
  }
  return address->AddressText();
}

// A list in place of the one in `spec`, address by address through `check`.
template <typename Value, typename Check>
void CheckList(const std::string& field, const std::optional<std::vector<std::string>>& wanted, Check check,
               std::vector<Value>* list, Violations* violations) {
  if (!wanted.has_value()) return;
  list->clear();
  if (wanted->size() > kGuardedAddressesMax) {
    violations->push_back(
        {field, absl::StrCat(wanted->size(), " addresses are too many: at most ", kGuardedAddressesMax)});
    list->resize(1);  // not empty, so that nothing else is said of it
    return;
  }
  for (size_t i = 0; i < wanted->size(); ++i)
    list->push_back(check(absl::StrCat(field, "[", i, "]"), (*wanted)[i], violations));
}

// What is asked for is put into `spec`; whether its parts go together is judged by what comes of it.
void CheckSourceGuard(const std::string& field, const SourceGuardRequest& request, bool is_netdev,
                      SourceGuardSpec* spec, Violations* violations) {
  const std::string macs = field + ".mac_addresses";
  const std::string ips = field + ".ip_addresses";
  spec->mac = request.mac.value_or(spec->mac);
  spec->address = request.address.value_or(spec->address);
  CheckList(macs, request.mac_addresses, CheckMac, &spec->macs, violations);
  CheckList(ips, request.ip_addresses, CheckIp, &spec->ip_addresses, violations);
  if (is_netdev && spec->mac && spec->macs.empty()) {
    violations->push_back({macs, "must be set: what is behind a netdev has other addresses than it"});
  }
  if (!spec->macs.empty() && !spec->mac && !spec->address) {
    violations->push_back({macs, "has no meaning while mac and address are off: set one, or leave it empty"});
  }
  if (!spec->ip_addresses.empty() && !spec->address) {
    violations->push_back({ips, "has no meaning while address is off: set it, or leave this empty"});
  }
}

}  // namespace

void CheckAttributes(const std::string& prefix, const PortAttributesRequest& request, bool is_netdev,
                     PortAttributes* attributes, std::vector<FieldViolation>* violations) {
  auto take = [](const std::optional<bool>& wanted, bool* value) { *value = wanted.value_or(*value); };
  take(request.admin_up, &attributes->admin_up);
  take(request.learning, &attributes->learning);
  take(request.flood_unknown_unicast, &attributes->flood_unknown_unicast);
  take(request.flood_multicast, &attributes->flood_multicast);
  take(request.flood_broadcast, &attributes->flood_broadcast);
  take(request.isolated, &attributes->isolated);
  take(request.hairpin, &attributes->hairpin);
  take(request.locked, &attributes->locked);
  take(request.router_advertisement_guard, &attributes->router_advertisement_guard);
  take(request.dhcp_server_guard, &attributes->dhcp_server_guard);
  if (request.bpdu_guard.has_value()) {
    attributes->bpdu_recovery_s = CheckBpduGuard(prefix + "bpdu_guard", *request.bpdu_guard, violations);
  }
  for (size_t i = 0; i < bridge::kFloodClasses; ++i) {
    if (!request.storm_control[i].has_value()) continue;
    attributes->storm[i] = CheckStorm(absl::StrCat(prefix, "storm_control.", kFloodClassNames[i]),
                                      *request.storm_control[i], violations);
  }
  if (request.receive_rate.has_value())
    attributes->receive_rate = CheckRate(prefix + "receive_rate", *request.receive_rate, violations);
  if (request.transmit_rate.has_value())
    attributes->transmit_rate = CheckRate(prefix + "transmit_rate", *request.transmit_rate, violations);
  CheckSourceGuard(prefix + "source_guard", request.source_guard, is_netdev, &attributes->source_guard,
                   violations);
}

}  // namespace ringswitch::agent
