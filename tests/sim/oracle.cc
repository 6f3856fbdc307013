#include "tests/sim/oracle.h"

#include <algorithm>

namespace ringswitch::sim {
namespace {

constexpr uint64_t kBroadcastAddress = 0xffff'ffff'ffff, kBridgeGroup = 0x0180'c200'0000;
constexpr int64_t kNsPerS = 1'000'000'000, kForever = INT64_MAX;

uint64_t AddressAt(const Bytes& frame, size_t offset) {
  uint64_t address = 0;
  for (size_t i = 0; i < 6; ++i) address = address * 256 + frame[offset + i];
  return address;
}

bool IsGroup(uint64_t address) {
  return (address >> 40) % 2 == 1;
}

}  // namespace

// A frame on its way.
struct Oracle::Arrival {
  const OracleConfig& config;
  const OracleFrame& frame;
  Verdict* verdict;
  const OraclePort* port = nullptr;
  OracleMemory* memory = nullptr;
  int64_t now_s = 0;
  uint64_t destination = 0, source = 0;
  bool has_tag = false;
  unsigned tci = 0;  // of the tag, when it is put back
  int vid = 0;       // 0: tags are not looked at
  bool not_learned = false;

  int64_t bits() const { return 8 * static_cast<int64_t>(frame.bytes.size()); }
  const OracleSwitch& bridge() const { return config.switches.at(port->switch_index); }
  bool IsAware(const OraclePort& at) const {
    return bridge().vlan_aware && at.mode != OraclePort::Mode::kUnaware;
  }
};

Verdict Oracle::Receive(const OracleConfig& config, const OracleFrame& frame) {
  Verdict verdict;
  Arrival arrival{config, frame, &verdict};
  bridge::PortTotals& counters = totals[frame.ingress];
  ++counters.receive_frames;
  counters.receive_bytes += frame.bytes.size();
  verdict.drop = Enter(&arrival);
  if (!verdict.drop) verdict.drop = Classify(&arrival);
  if (!verdict.drop && arrival.destination == kBridgeGroup + 1) verdict.drop = DropReason::kReservedGroup;
  if (!verdict.drop) verdict.drop = Learn(&arrival);
  if (!verdict.drop) verdict.drop = Forward(&arrival);
  if (verdict.drop) {
    ++counters.drops[static_cast<size_t>(*verdict.drop)];
  } else {
    ++counters.forwarded_frames;
    counters.not_learned_frames += arrival.not_learned ? 1 : 0;
  }
  return verdict;
}

// May it come in at all?
std::optional<DropReason> Oracle::Enter(Arrival* arrival) {
  const Bytes& bytes = arrival->frame.bytes;
  const auto found = arrival->config.ports.find(arrival->frame.ingress);
  if (found == arrival->config.ports.end()) return DropReason::kPortRemoved;
  const OraclePort& port = found->second;
  OracleMemory& memory = memories[arrival->frame.ingress];
  arrival->port = &port;
  arrival->memory = &memory;
  arrival->now_s = arrival->frame.now_ns / kNsPerS;

  if (bytes.size() < 14) return DropReason::kFrameTooShort;
  arrival->has_tag = bytes[12] == 0x81 && bytes[13] == 0x00;
  if (arrival->has_tag && bytes.size() < 18) return DropReason::kTruncatedTag;
  arrival->destination = AddressAt(bytes, 0);
  arrival->source = AddressAt(bytes, 6);
  if (arrival->source == 0 || IsGroup(arrival->source)) return DropReason::kInvalidSource;  // decision 1
  if (port.down) return DropReason::kPortDown;
  if (IsClosed(*arrival, arrival->frame.ingress)) return DropReason::kPortBlocked;
  if (port.bpdu_guard && arrival->destination == kBridgeGroup) {
    memory.blocked_until_s = port.bpdu_recovery_s == 0 ? kForever : arrival->now_s + port.bpdu_recovery_s;
    return DropReason::kBpduGuard;
  }
  if (!memory.receive_bits.Has(port.receive_bits, arrival->bits(), arrival->frame.now_ns))
    return DropReason::kReceiveRateExceeded;
  memory.receive_bits.Take(port.receive_bits, arrival->bits(), arrival->frame.now_ns);
  if (!port.source_macs.empty() && port.source_macs.count(arrival->source) == 0)
    return DropReason::kSourceMacGuard;
  return std::nullopt;
}

// Into exactly one VLAN (802.1Q-2022, 6.9.1; decisions 3 to 5).
std::optional<DropReason> Oracle::Classify(Arrival* arrival) {
  const OraclePort& port = *arrival->port;
  const Bytes& bytes = arrival->frame.bytes;
  if (!arrival->IsAware(port)) return std::nullopt;
  arrival->tci = arrival->has_tag ? bytes[14] * 256u + bytes[15] : 0;
  arrival->vid = static_cast<int>(arrival->tci % 4096);
  if (arrival->vid != 0) {
    if (port.mode == OraclePort::Mode::kAccess) return DropReason::kTaggedOnAccessPort;
    if (port.members.count(arrival->vid) == 0) return DropReason::kIngressVlanNotMember;
    return std::nullopt;
  }
  if (port.pvid == 0) return DropReason::kNoNativeVlan;
  arrival->vid = port.pvid;
  arrival->tci += static_cast<unsigned>(port.pvid);
  return std::nullopt;
}

// 802.1Q-2022, 8.7; decisions 6 and 7; Linux's locked and learning.
std::optional<DropReason> Oracle::Learn(Arrival* arrival) {
  const OraclePort& port = *arrival->port;
  const int ingress = arrival->frame.ingress;
  OracleTable& table = tables[port.switch_index];
  const std::pair<uint64_t, int> key(arrival->source, arrival->vid);
  const auto known = table.find(key);
  const bool is_known = known != table.end(), is_here = is_known && known->second.port == ingress;
  if (port.locked && !is_here) return DropReason::kSourceNotAuthorised;
  if (is_known && known->second.is_static) {
    if (!is_here) return DropReason::kStaticAddressElsewhere;
    return std::nullopt;
  }
  if (!port.learns) return std::nullopt;
  if (is_here) {
    known->second.stamp_s = std::max(known->second.stamp_s, arrival->now_s);
    return std::nullopt;
  }
  const auto learned_here = static_cast<size_t>(std::count_if(table.begin(), table.end(), [&](auto& row) {
    return !row.second.is_static && row.second.port == ingress;
  }));
  arrival->verdict->must_refuse = (port.mac_limit != 0 && learned_here >= port.mac_limit) ||
                                  (!is_known && table.size() >= arrival->bridge().capacity);
  arrival->not_learned = arrival->frame.refused;
  if (!arrival->frame.refused) table[key] = {ingress, false, arrival->now_s};
  return std::nullopt;
}

// To the port where the destination is, or to all (802.1Q-2022, 8.6.3 and 8.8).
std::optional<DropReason> Oracle::Forward(Arrival* arrival) {
  const OraclePort& port = *arrival->port;
  const uint64_t destination = arrival->destination;
  if (destination >> 4 == kBridgeGroup >> 4 &&
      (arrival->bridge().group_forward_mask >> destination % 16) % 2 == 0) {
    return DropReason::kReservedGroup;
  }
  const OracleTable& table = tables[port.switch_index];
  const auto entry = table.find({destination, arrival->vid});
  if (IsGroup(destination) || entry == table.end()) return Flood(arrival);

  const int target = entry->second.port;
  if (target == arrival->frame.ingress && !port.hairpin) return DropReason::kDestinationOnIngressPort;
  if (Takes(*arrival, target)) {
    if (AreIsolated(*arrival, target)) return DropReason::kIsolated;
    if (IsClosed(*arrival, target)) return DropReason::kNoEgressPort;
    Send(arrival, target);
    return std::nullopt;
  }
  // It left the VLAN. Bound to it, the address is nowhere else.
  const auto present = arrival->config.ports.find(target);
  const bool is_port_of_switch =
      present != arrival->config.ports.end() && present->second.switch_index == port.switch_index;
  if (entry->second.is_static && is_port_of_switch) return DropReason::kNoEgressPort;
  return Flood(arrival);
}

std::optional<DropReason> Oracle::Flood(Arrival* arrival) {
  const OraclePort& from = *arrival->port;
  const FloodClass flood_class = arrival->destination == kBroadcastAddress ? kBroadcast
                                 : IsGroup(arrival->destination)           ? kMulticast
                                                                           : kUnknownUnicast;
  const int64_t now_ns = arrival->frame.now_ns;
  Bucket& frames = arrival->memory->storm_frames[flood_class];
  Bucket& bits = arrival->memory->storm_bits[flood_class];
  if (!frames.Has(from.storm_frames[flood_class], 1, now_ns) ||
      !bits.Has(from.storm_bits[flood_class], arrival->bits(), now_ns)) {
    return flood_class == kBroadcast   ? DropReason::kStormBroadcast
           : flood_class == kMulticast ? DropReason::kStormMulticast
                                       : DropReason::kStormUnknownUnicast;
  }
  frames.Take(from.storm_frames[flood_class], 1, now_ns);
  bits.Take(from.storm_bits[flood_class], arrival->bits(), now_ns);

  uint64_t copies = 0;
  for (const auto& [number, to] : arrival->config.ports) {
    if (!Takes(*arrival, number) || IsClosed(*arrival, number) || AreIsolated(*arrival, number)) continue;
    if (number == arrival->frame.ingress && !from.hairpin) continue;
    if (!to.floods[flood_class]) continue;
    Send(arrival, number);
    ++copies;
  }
  if (copies == 0) return DropReason::kNoEgressPort;
  bridge::PortTotals& counters = totals[arrival->frame.ingress];
  counters.flood_copies += copies;
  counters.flooded_broadcast_frames += flood_class == kBroadcast ? 1 : 0;
  counters.flooded_multicast_frames += flood_class == kMulticast ? 1 : 0;
  counters.flooded_unknown_unicast_frames += flood_class == kUnknownUnicast ? 1 : 0;
  return std::nullopt;
}

// Is the port in the frame's VLAN?
bool Oracle::Takes(const Arrival& arrival, int port) const {
  const auto found = arrival.config.ports.find(port);
  if (found == arrival.config.ports.end()) return false;
  if (found->second.switch_index != arrival.port->switch_index) return false;
  return arrival.IsAware(found->second) ? found->second.members.count(arrival.vid) != 0 : arrival.vid == 0;
}

bool Oracle::IsClosed(const Arrival& arrival, int port) const {
  const OraclePort& at = arrival.config.ports.at(port);
  const auto memory = memories.find(port);
  const int64_t blocked_until_s = memory != memories.end() ? memory->second.blocked_until_s : 0;
  return at.down || (at.bpdu_guard && blocked_until_s > arrival.now_s);
}

bool Oracle::AreIsolated(const Arrival& arrival, int port) const {
  return !forgets_isolation && arrival.port->isolated && arrival.config.ports.at(port).isolated;
}

// Takes the tag off and puts it on where the port's VLAN is not untagged.
void Oracle::Send(Arrival* arrival, int port) {
  const OraclePort& to = arrival->config.ports.at(port);
  Bytes frame = arrival->frame.bytes;
  int64_t length = arrival->frame.wire_length;
  if (arrival->vid != 0 && arrival->has_tag) {
    frame.erase(frame.begin() + 12, frame.begin() + 16);
    length -= 4;
  }
  if (arrival->vid != 0 && to.untagged.count(arrival->vid) == 0) {
    const auto high = static_cast<uint8_t>(arrival->tci >> 8), low = static_cast<uint8_t>(arrival->tci);
    const Bytes tag = {0x81, 0x00, high, low};
    frame.insert(frame.begin() + 12, tag.begin(), tag.end());
    length += 4;
  }
  bridge::PortTotals& counters = totals[port];
  ++counters.queued_copies;
  Bucket& bits = memories[port].transmit_bits;
  const int64_t size = 8 * static_cast<int64_t>(frame.size());
  std::optional<DropReason> drop;
  if (length > to.mtu + 18) {
    drop = DropReason::kEgressMtuExceeded;
  } else if (to.link_down) {
    drop = DropReason::kEgressPortDown;
  } else if (!bits.Has(to.transmit_bits, size, arrival->frame.now_ns)) {
    drop = DropReason::kTransmitRateExceeded;
  }
  if (drop) {
    ++counters.drops[static_cast<size_t>(*drop)];
    return;
  }
  bits.Take(to.transmit_bits, size, arrival->frame.now_ns);
  arrival->verdict->outputs[port] = std::move(frame);
}

// --- buckets ---

bool Bucket::Has(Limit limit, int64_t tokens, int64_t now_ns) const {
  if (limit.per_second == 0 || limit.per_second != per_second_ || full_at_ns_ <= now_ns) return true;
  const int64_t missing_ns = full_at_ns_ - now_ns;
  return missing_ns + tokens * kNsPerS / limit.per_second <= limit.burst * kNsPerS / limit.per_second;
}

void Bucket::Take(Limit limit, int64_t tokens, int64_t now_ns) {
  if (limit.per_second == 0) return;
  if (limit.per_second != per_second_) full_at_ns_ = 0;  // another limit begins with a full bucket
  per_second_ = limit.per_second;
  full_at_ns_ = std::max(full_at_ns_, now_ns) + tokens * kNsPerS / limit.per_second;
}

}  // namespace ringswitch::sim
