#include "tests/sim/bridge_oracle.h"

#include <algorithm>
#include <iterator>

namespace ringswitch::bridge {
namespace {

uint64_t AddressAt(const Bytes& frame, size_t offset) {
  uint64_t address = 0;
  for (size_t i = 0; i < 6; ++i) address = address * 256 + frame[offset + i];
  return address;
}

bool IsGroup(uint64_t address) {
  return (address >> 40) % 2 == 1;
}

constexpr uint64_t kBroadcast = 0xffff'ffff'ffff, kBridgeGroup = 0x0180'c200'0000;
constexpr int64_t kForever = INT64_MAX;

}  // namespace

struct Oracle::Arrival {
  int ingress;
  Bytes frame;
  int64_t wire_length;
  int64_t now_s;
  bool refused;
  bool has_tag = false;
  unsigned tci = 0;  // of the tag, when it is put back
  int vid = 0;
  bool not_learned = false;
};

bool Oracle::Takes(int port, int switch_index, int vid) const {
  const auto found = ports.find(port);
  if (found == ports.end() || found->second.switch_index != switch_index) return false;
  const bool aware = switches.at(switch_index).vlan_aware && found->second.mode != OraclePort::Mode::kUnaware;
  return aware ? found->second.members.count(vid) != 0 : vid == 0;
}

bool Oracle::IsClosed(int port, int64_t now_s) const {
  const OraclePort& at = ports.at(port);
  return at.down || (at.bpdu_guard && at.blocked_until_s > now_s);
}

void Oracle::Send(const Arrival& arrival, int port, Verdict* verdict) {
  Bytes frame = arrival.frame;
  int64_t length = arrival.wire_length;
  if (arrival.vid != 0) {  // take the tag off, put it on where it belongs
    if (arrival.has_tag) {
      frame.erase(frame.begin() + 12, frame.begin() + 16);
      length -= 4;
    }
    if (ports.at(port).untagged.count(arrival.vid) == 0) {
      const Bytes tag = {0x81, 0x00, static_cast<uint8_t>(arrival.tci >> 8),
                         static_cast<uint8_t>(arrival.tci)};
      frame.insert(frame.begin() + 12, tag.begin(), tag.end());
      length += 4;
    }
  }
  ++totals[port].queued_copies;
  if (length > ports.at(port).mtu + 18) {
    ++totals[port].drops[static_cast<size_t>(DropReason::kEgressMtuExceeded)];
  } else {
    verdict->outputs[port] = frame;
  }
}

std::optional<DropReason> Oracle::Forward(Arrival* arrival, Verdict* verdict) {
  const Bytes& frame = arrival->frame;
  if (ports.count(arrival->ingress) == 0) return DropReason::kPortRemoved;
  OraclePort& port = ports[arrival->ingress];
  OracleSwitch& bridge = switches[port.switch_index];

  if (frame.size() < 14) return DropReason::kFrameTooShort;
  arrival->has_tag = frame[12] == 0x81 && frame[13] == 0x00;
  if (arrival->has_tag && frame.size() < 18) return DropReason::kTruncatedTag;
  const uint64_t destination = AddressAt(frame, 0), source = AddressAt(frame, 6);
  if (source == 0 || IsGroup(source)) return DropReason::kInvalidSource;
  if (port.down) return DropReason::kPortDown;
  if (IsClosed(arrival->ingress, arrival->now_s)) return DropReason::kPortBlocked;
  if (port.bpdu_guard && destination == kBridgeGroup) {
    port.blocked_until_s = port.bpdu_recovery_s == 0 ? kForever : arrival->now_s + port.bpdu_recovery_s;
    return DropReason::kBpduGuard;
  }

  if (bridge.vlan_aware && port.mode != OraclePort::Mode::kUnaware) {
    arrival->tci = arrival->has_tag ? frame[14] * 256u + frame[15] : 0;
    arrival->vid = static_cast<int>(arrival->tci % 4096);
    if (arrival->vid != 0) {
      if (port.mode == OraclePort::Mode::kAccess) return DropReason::kTaggedOnAccessPort;
      if (port.members.count(arrival->vid) == 0) return DropReason::kIngressVlanNotMember;
    } else {
      if (port.pvid == 0) return DropReason::kNoNativeVlan;
      arrival->vid = port.pvid;
      arrival->tci += static_cast<unsigned>(port.pvid);
    }
  }

  if (destination == kBridgeGroup + 1) return DropReason::kReservedGroup;
  if (const auto refusal = Learn(arrival, source, verdict)) return refusal;

  if (destination >> 4 == kBridgeGroup >> 4) {
    const unsigned last = destination % 16;
    if ((bridge.group_forward_mask >> last) % 2 == 0) return DropReason::kReservedGroup;
  }
  const auto entry = bridge.fdb.find({destination, arrival->vid});
  if (!IsGroup(destination) && entry != bridge.fdb.end()) {
    const auto target = entry->second.port;
    if (target == arrival->ingress && !port.hairpin) return DropReason::kDestinationOnIngressPort;
    if (Takes(target, port.switch_index, arrival->vid)) {
      if (port.isolated && ports.at(target).isolated) return DropReason::kIsolated;
      if (IsClosed(target, arrival->now_s)) return DropReason::kNoEgressPort;
      Send(*arrival, target, verdict);
      return std::nullopt;
    }
    const auto present = ports.find(target);
    const bool is_here = present != ports.end() && present->second.switch_index == port.switch_index;
    if (entry->second.is_static && is_here) return DropReason::kNoEgressPort;
  }
  return Flood(*arrival, destination, verdict);
}

std::optional<DropReason> Oracle::Learn(Arrival* arrival, uint64_t source, Verdict* verdict) {
  const OraclePort& port = ports[arrival->ingress];
  OracleSwitch& bridge = switches[port.switch_index];
  const std::pair<uint64_t, int> key(source, arrival->vid);
  const auto known = bridge.fdb.find(key);
  const bool is_known = known != bridge.fdb.end();
  const bool is_here = is_known && known->second.port == arrival->ingress;
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
  const auto learned_here = std::count_if(bridge.fdb.begin(), bridge.fdb.end(), [arrival](const auto& row) {
    return !row.second.is_static && row.second.port == arrival->ingress;
  });
  verdict->must_refuse = (port.mac_limit != 0 && static_cast<size_t>(learned_here) >= port.mac_limit) ||
                         (!is_known && bridge.fdb.size() >= bridge.capacity);
  arrival->not_learned = arrival->refused;
  if (!arrival->refused) bridge.fdb[key] = {arrival->ingress, false, arrival->now_s};
  return std::nullopt;
}

std::optional<DropReason> Oracle::Flood(const Arrival& arrival, uint64_t destination, Verdict* verdict) {
  const OraclePort& from = ports[arrival.ingress];
  uint64_t copies = 0;
  for (const auto& [number, to] : ports) {
    if (!Takes(number, from.switch_index, arrival.vid) || IsClosed(number, arrival.now_s)) continue;
    if (number == arrival.ingress && !from.hairpin) continue;
    if (from.isolated && to.isolated) continue;
    const bool floods = destination == kBroadcast ? to.floods_broadcast
                        : IsGroup(destination)    ? to.floods_multicast
                                                  : to.floods_unknown;
    if (!floods) continue;
    Send(arrival, number, verdict);
    ++copies;
  }
  if (copies == 0) return DropReason::kNoEgressPort;
  PortTotals& counters = totals[arrival.ingress];
  counters.flood_copies += copies;
  if (destination == kBroadcast) {
    ++counters.flooded_broadcast_frames;
  } else if (IsGroup(destination)) {
    ++counters.flooded_multicast_frames;
  } else {
    ++counters.flooded_unknown_unicast_frames;
  }
  return std::nullopt;
}

Verdict Oracle::Receive(int ingress, const Bytes& frame, int64_t wire_length, int64_t now_s, bool refused) {
  Arrival arrival{};
  arrival.ingress = ingress;
  arrival.frame = frame;
  arrival.wire_length = wire_length;
  arrival.now_s = now_s;
  arrival.refused = refused;
  Verdict verdict;
  PortTotals& counters = totals[ingress];
  ++counters.receive_frames;
  counters.receive_bytes += frame.size();
  verdict.drop = Forward(&arrival, &verdict);
  if (verdict.drop) {
    ++counters.drops[static_cast<size_t>(*verdict.drop)];
  } else {
    ++counters.forwarded_frames;
    counters.not_learned_frames += arrival.not_learned ? 1 : 0;
  }
  return verdict;
}

void Oracle::Age(int switch_index, int64_t now_s) {
  OracleSwitch& bridge = switches[switch_index];
  if (bridge.ageing_time_s == 0) return;
  for (auto row = bridge.fdb.begin(); row != bridge.fdb.end();) {
    const bool old = !row->second.is_static && now_s - row->second.stamp_s > bridge.ageing_time_s;
    row = old ? bridge.fdb.erase(row) : std::next(row);
  }
}

}  // namespace ringswitch::bridge
