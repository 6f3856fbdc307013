#include "dataplane/bridge/pipeline.h"

#include <algorithm>

#include "dataplane/bridge/guard.h"

namespace ringswitch::bridge {
namespace {

constexpr uint32_t kMtuOverhead =
    kHeaderLength + kTagLength;                       // granted to untagged frames too, as Linux does
constexpr MacAddress kPauseGroup{0x0180'c200'0001};   // never forwarded (IEEE 802.3 annex 31B)
constexpr uint16_t kPriorityMask = 0xf000;            // PCP and DEI of a TCI
constexpr MacAddress kBridgeGroup{0x0180'c200'0000};  // where bridge protocols talk

// What Admit asks for, and what may keep a copy from an egress port that takes frames of its VLAN.
constexpr uint32_t kAdmitFeatures = kAdminDown | kBpduGuard | kReceiveRate | kGuardFeatures;
constexpr uint32_t kKnownEgressFeatures = kAdminDown | kBpduGuard | kIsolated;

// Ports with these features take no flooded frame of the class.
constexpr uint32_t FloodFilterOf(FrameClass frame_class) {
  switch (frame_class) {
    case FrameClass::kBroadcast:
      return kAdminDown | kNoBroadcastFlood;
    case FrameClass::kMulticast:
      return kAdminDown | kNoMulticastFlood;
    case FrameClass::kUnknownUnicast:
      return kAdminDown | kNoUnknownUnicastFlood;
    case FrameClass::kUnicast:
      break;
  }
  return kAdminDown;
}

// PAUSE never comes this far, whatever the mask says (Process).
bool IsForwardedGroup(MacAddress destination, uint16_t group_forward_mask) {
  return (group_forward_mask >> (destination.bits() & 0xf) & 1) != 0;
}

constexpr DropReason StormReasonOf(FrameClass frame_class) {
  if (frame_class == FrameClass::kBroadcast) return DropReason::kStormBroadcast;
  if (frame_class == FrameClass::kMulticast) return DropReason::kStormMulticast;
  return DropReason::kStormUnknownUnicast;
}

constexpr size_t StormIndexOf(FrameClass frame_class) {
  return static_cast<size_t>(frame_class) - static_cast<size_t>(FrameClass::kBroadcast);
}
static_assert(StormIndexOf(FrameClass::kBroadcast) == static_cast<size_t>(FloodClass::kBroadcast));
static_assert(StormIndexOf(FrameClass::kMulticast) == static_cast<size_t>(FloodClass::kMulticast));
static_assert(StormIndexOf(FrameClass::kUnknownUnicast) == static_cast<size_t>(FloodClass::kUnknownUnicast));

constexpr int32_t LengthChange(TagEdit edit) {
  switch (edit) {
    case TagEdit::kPush:
      return kTagLength;
    case TagEdit::kPop:
      return -static_cast<int32_t>(kTagLength);
    case TagEdit::kNone:
    case TagEdit::kSetVid:
      return 0;
  }
  return 0;
}

}  // namespace

struct Pipeline::Arrival {
  PortIndex ingress = kNoPort;
  uint32_t length = 0;
  uint32_t wire_length = 0;
  const uint8_t* frame = nullptr;
  const PortConfig* port = nullptr;
  const SwitchEntry* entry = nullptr;  // of the port's switch
  FrameHeader header;

  // Tags are looked at. A port that does not look at them talks to its like only, in a VLAN of their own:
  // none.
  bool IsAware(const PortConfig& at) const {
    return at.vlan_mode != VlanMode::kUnaware && entry->config.vlan_aware;
  }
  bool Takes(const PortConfig& at, VlanId vid) const {
    return IsAware(at) ? at.members.contains(vid) : vid == kVlanIdNone;
  }
};

const Decision& Pipeline::Process(PortIndex ingress, const uint8_t* frame, uint32_t length,
                                  uint32_t wire_length) {
  PortCounters& counters = counters_[ingress];
  counters.receive_frames.Add();
  counters.receive_bytes.Add(length);
  decision_ = Decision{};
  egress_count_ = 0;

  Arrival arrival;
  arrival.ingress = ingress;
  arrival.length = length;
  arrival.wire_length = wire_length;
  arrival.frame = frame;
  arrival.port = config_ != nullptr ? config_->ports[ingress] : nullptr;
  if (arrival.port == nullptr) return Drop(ingress, DropReason::kPortRemoved);
  arrival.entry = config_->switches[arrival.port->switch_index];
  if (arrival.entry == nullptr) return Drop(ingress, DropReason::kPortRemoved);

  switch (ParseHeader(frame, length, &arrival.header)) {
    case ParseResult::kOk:
      break;
    case ParseResult::kTooShort:
      return Drop(ingress, DropReason::kFrameTooShort);
    case ParseResult::kTruncatedTag:
      return Drop(ingress, DropReason::kTruncatedTag);
  }
  if (!arrival.header.source.is_station()) return Drop(ingress, DropReason::kInvalidSource);
  if ((arrival.port->features & kAdmitFeatures) != 0) [[unlikely]] {
    if (const auto refusal = Admit(arrival)) return Drop(ingress, *refusal);
  }
  if (const auto refusal = Classify(&arrival)) return Drop(ingress, *refusal);
  // As Linux does: what is meant for the other end of a link says nothing about stations.
  if (arrival.header.destination == kPauseGroup) [[unlikely]]
    return Drop(ingress, DropReason::kReservedGroup);

  LearnResult learned = LearnResult::kKnown;
  std::optional<DropReason> refusal = Learn(arrival, &learned);
  if (!refusal) refusal = Forward(arrival);
  if (arrival.entry->vlan_counters != nullptr) [[unlikely]]
    CountVlan(arrival);
  if (refusal) return Drop(ingress, *refusal);
  decision_.forwarded = true;
  decision_.egress = std::span<const Egress>(egress_.data(), egress_count_);
  counters.forwarded_frames.Add();
  if (learned == LearnResult::kNotLearned) counters.not_learned_frames.Add();
  return decision_;
}

void Pipeline::DropReceived(PortIndex ingress, uint32_t length, DropReason reason) {
  PortCounters& counters = counters_[ingress];
  counters.receive_frames.Add();
  counters.receive_bytes.Add(length);
  counters.Drop(reason);
}

const Decision& Pipeline::Drop(PortIndex ingress, DropReason reason) {
  counters_[ingress].Drop(reason);
  decision_.reason = reason;
  return decision_;
}

// What the port's state and its guards say, for ports that have any.
std::optional<DropReason> Pipeline::Admit(const Arrival& arrival) {
  const PortConfig& port = *arrival.port;
  PortMeters& meters = meters_[arrival.ingress];
  if ((port.features & kAdminDown) != 0) return DropReason::kPortDown;
  if ((port.features & kBpduGuard) != 0) {
    if (meters.IsBlocked(time_.s)) return DropReason::kPortBlocked;
    if (arrival.header.destination == kBridgeGroup) {
      const uint64_t until_s = uint64_t{time_.s} + port.bpdu_recovery_s;
      meters.blocked_until_s.store(port.bpdu_recovery_s == 0
                                       ? UINT32_MAX
                                       : static_cast<uint32_t>(std::min<uint64_t>(until_s, UINT32_MAX)),
                                   std::memory_order_relaxed);
      return DropReason::kBpduGuard;
    }
  }
  if ((port.features & kReceiveRate) != 0 &&
      !meters.receive_bits.Take(port.receive_rate, uint64_t{arrival.length} * 8, time_.ns)) {
    return DropReason::kReceiveRateExceeded;
  }
  if ((port.features & kGuardFeatures) == 0) return std::nullopt;
  return CheckGuards(port.features, port.source_guard, arrival.header.source,
                     {arrival.frame, arrival.length});
}

// To exactly one VLAN, and the edits that make the frame's two forms.
[[gnu::always_inline]] inline std::optional<DropReason> Pipeline::Classify(Arrival* arrival) {
  const PortConfig& port = *arrival->port;
  const FrameHeader& header = arrival->header;
  if (!arrival->IsAware(port)) return std::nullopt;

  if (header.tag == TagState::kTagged) {
    if (port.vlan_mode == VlanMode::kAccess) return DropReason::kTaggedOnAccessPort;
    // 4095 is never a member (vlan_set.h).
    if (!port.members.contains(header.vid())) return DropReason::kIngressVlanNotMember;
    decision_.vid = header.vid();
    decision_.tci = header.tci;
    decision_.untagged_edit = TagEdit::kPop;
    return std::nullopt;
  }
  if (port.pvid == kVlanIdNone) return DropReason::kNoNativeVlan;
  decision_.vid = port.pvid;
  decision_.tci = static_cast<uint16_t>((header.tci & kPriorityMask) | port.pvid);
  if (header.tag == TagState::kUntagged) {
    decision_.tagged_edit = TagEdit::kPush;
  } else {
    decision_.tagged_edit = TagEdit::kSetVid;
    decision_.untagged_edit = TagEdit::kPop;
  }
  return std::nullopt;
}

// Binds the source to the port, or says why it must not speak there.
[[gnu::always_inline]] inline std::optional<DropReason> Pipeline::Learn(const Arrival& arrival,
                                                                        LearnResult* learned) {
  const FdbKey source{.mac = arrival.header.source, .vid = decision_.vid};
  Fdb& fdb = *arrival.entry->fdb;
  const uint32_t restrictions = arrival.port->features & (kLocked | kNoLearning);
  if (restrictions != 0) [[unlikely]] {
    const FdbTarget known = fdb.Lookup(source);
    const bool is_here = known.found() && known.port == arrival.ingress;
    if ((restrictions & kLocked) != 0 && !is_here) return DropReason::kSourceNotAuthorised;
    if ((restrictions & kNoLearning) != 0) {
      if (known.kind == FdbKind::kStatic && !is_here) return DropReason::kStaticAddressElsewhere;
      return std::nullopt;
    }
  }
  *learned = fdb.Learn(source, arrival.ingress, arrival.port->mac_limit, time_.s);
  if (*learned == LearnResult::kStaticElsewhere) return DropReason::kStaticAddressElsewhere;
  if (*learned == LearnResult::kHeldElsewhere) return DropReason::kAddressFlapping;
  return std::nullopt;
}

[[gnu::always_inline]] inline std::optional<DropReason> Pipeline::Forward(const Arrival& arrival) {
  const MacAddress destination = arrival.header.destination;
  if (destination.is_group()) {
    if (destination.is_reserved_group() &&
        !IsForwardedGroup(destination, arrival.entry->config.group_forward_mask)) {
      return DropReason::kReservedGroup;
    }
    return Flood(arrival, destination.is_broadcast() ? FrameClass::kBroadcast : FrameClass::kMulticast);
  }
  const FdbTarget target = arrival.entry->fdb->Lookup({.mac = destination, .vid = decision_.vid});
  if (!target.found()) return Flood(arrival, FrameClass::kUnknownUnicast);
  return ForwardKnown(arrival, target);
}

[[gnu::always_inline]] inline std::optional<DropReason> Pipeline::ForwardKnown(const Arrival& arrival,
                                                                               FdbTarget target) {
  if (target.port == arrival.ingress && (arrival.port->features & kHairpin) == 0) {
    return DropReason::kDestinationOnIngressPort;
  }
  const PortConfig* port = target.port < kPortsMax ? config_->ports[target.port] : nullptr;
  if (port != nullptr && port->switch_index == arrival.port->switch_index) {
    if (arrival.Takes(*port, decision_.vid)) {
      if ((port->features & kKnownEgressFeatures) != 0) [[unlikely]] {
        if ((port->features & arrival.port->features & kIsolated) != 0) return DropReason::kIsolated;
        if (IsClosed(target.port, *port)) return DropReason::kNoEgressPort;
      }
      decision_.frame_class = FrameClass::kUnicast;
      Queue(arrival, target.port, *port);
      return std::nullopt;
    }
    // Bound to a port that has left the VLAN: not delivered there, nor shown to anybody else, as Linux does.
    if (target.kind == FdbKind::kStatic) return DropReason::kNoEgressPort;
  }
  // The entry outlives its port, or the port's membership, by the moment between a configuration and its
  // flush.
  return Flood(arrival, FrameClass::kUnknownUnicast);
}

bool Pipeline::IsClosed(PortIndex index, const PortConfig& port) const {
  if ((port.features & kAdminDown) != 0) return true;
  return (port.features & kBpduGuard) != 0 && meters_[index].IsBlocked(time_.s);
}

// Both limits of the class must have room before either gives it.
bool Pipeline::TakeStorm(const Arrival& arrival, FrameClass frame_class) {
  const size_t index = StormIndexOf(frame_class);
  const StormLimit& limit = arrival.port->storm[index];
  PortMeters& meters = meters_[arrival.ingress];
  return meters.storm_frames[index].WouldTake(limit.frames, 1, time_.ns) &&
         meters.storm_bits[index].Take(limit.bits, uint64_t{arrival.length} * 8, time_.ns) &&
         meters.storm_frames[index].Take(limit.frames, 1, time_.ns);
}

std::optional<DropReason> Pipeline::Flood(const Arrival& arrival, FrameClass frame_class) {
  decision_.frame_class = frame_class;
  const uint32_t features = arrival.port->features;
  if ((features & kStormControl) != 0 && !TakeStorm(arrival, frame_class)) return StormReasonOf(frame_class);

  const uint32_t filter = FloodFilterOf(frame_class) | (features & kIsolated);
  uint32_t copies = 0;
  for (const PortIndex egress : arrival.entry->ports) {
    const PortConfig* port = config_->ports[egress];
    if (port == nullptr || !arrival.Takes(*port, decision_.vid)) continue;
    if (egress == arrival.ingress && (features & kHairpin) == 0) continue;
    if ((port->features & (filter | kBpduGuard)) != 0) [[unlikely]] {
      if ((port->features & filter) != 0 || IsClosed(egress, *port)) continue;
    }
    Queue(arrival, egress, *port);
    ++copies;
  }
  if (copies == 0) return DropReason::kNoEgressPort;

  PortCounters& counters = counters_[arrival.ingress];
  counters.flood_copies.Add(copies);
  switch (frame_class) {
    case FrameClass::kBroadcast:
      counters.flooded_broadcast_frames.Add();
      break;
    case FrameClass::kMulticast:
      counters.flooded_multicast_frames.Add();
      break;
    case FrameClass::kUnknownUnicast:
      counters.flooded_unknown_unicast_frames.Add();
      break;
    case FrameClass::kUnicast:
      break;
  }
  return std::nullopt;
}

[[gnu::always_inline]] inline void Pipeline::Queue(const Arrival& arrival, PortIndex egress,
                                                   const PortConfig& port) {
  const bool tagged = arrival.IsAware(port) && !port.untagged.contains(decision_.vid);
  const TagEdit edit = tagged ? decision_.tagged_edit : decision_.untagged_edit;
  counters_[egress].queued_copies.Add();
  if (arrival.wire_length + LengthChange(edit) > port.mtu + kMtuOverhead) [[unlikely]] {
    return DropCopy(egress, DropReason::kEgressMtuExceeded);
  }
  if ((port.features & (kTransmitRate | kLinkDown)) != 0) [[unlikely]] {
    if ((port.features & kLinkDown) != 0) return DropCopy(egress, DropReason::kEgressPortDown);
    const uint64_t bits = (uint64_t{arrival.length} + LengthChange(edit)) * 8;
    if (!meters_[egress].transmit_bits.Take(port.transmit_rate, bits, time_.ns)) {
      return DropCopy(egress, DropReason::kTransmitRateExceeded);
    }
  }
  egress_[egress_count_++] = {.port = egress, .tagged = tagged};
  decision_.tagged_count += tagged ? 1 : 0;
}

void Pipeline::DropCopy(PortIndex egress, DropReason reason) {
  counters_[egress].Drop(reason);
  const size_t count = decision_.dropped.size();
  dropped_[count] = {.port = egress, .reason = reason};
  decision_.dropped = std::span<const EgressDrop>(dropped_.data(), count + 1);
}

void Pipeline::CountVlan(const Arrival& arrival) {
  VlanCounters& vlan = arrival.entry->vlan_counters[worker_][decision_.vid];
  vlan.receive_frames.Add();
  vlan.receive_bytes.Add(arrival.length);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < egress_count_; ++i) {
    const TagEdit edit = egress_[i].tagged ? decision_.tagged_edit : decision_.untagged_edit;
    bytes += uint64_t{arrival.length} + LengthChange(edit);
  }
  vlan.transmit_frames.Add(egress_count_);
  vlan.transmit_bytes.Add(bytes);
}

}  // namespace ringswitch::bridge
