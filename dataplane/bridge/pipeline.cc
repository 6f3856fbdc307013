#include "dataplane/bridge/pipeline.h"

namespace ringswitch::bridge {
namespace {

constexpr uint32_t kMtuOverhead =
    kHeaderLength + kTagLength;             // granted to untagged frames too, as Linux does
constexpr uint32_t kPauseGroup = 1;         // 01:80:c2:00:00:01, never forwarded
constexpr uint16_t kPriorityMask = 0xf000;  // PCP and DEI of a TCI

bool IsForwardedGroup(MacAddress destination, uint16_t group_forward_mask) {
  const uint32_t group = destination.bits() & 0xf;
  return group != kPauseGroup && (group_forward_mask >> group & 1) != 0;
}

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
  uint32_t wire_length = 0;
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
                                  uint32_t wire_length, uint32_t now_s) {
  PortCounters& counters = counters_[ingress];
  counters.receive_frames.Add();
  counters.receive_bytes.Add(length);
  decision_ = Decision{};
  egress_count_ = 0;

  Arrival arrival;
  arrival.ingress = ingress;
  arrival.wire_length = wire_length;
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
  if (const auto refusal = Classify(&arrival)) return Drop(ingress, *refusal);

  const FdbKey source{.mac = arrival.header.source, .vid = decision_.vid};
  const LearnResult learned = arrival.entry->fdb->Learn(source, ingress, arrival.port->mac_limit, now_s);
  if (learned == LearnResult::kStaticElsewhere) return Drop(ingress, DropReason::kStaticAddressElsewhere);

  if (const auto refusal = Forward(arrival)) return Drop(ingress, *refusal);
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

// To exactly one VLAN, and the edits that make the frame's two forms.
std::optional<DropReason> Pipeline::Classify(Arrival* arrival) {
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

std::optional<DropReason> Pipeline::Forward(const Arrival& arrival) {
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

std::optional<DropReason> Pipeline::ForwardKnown(const Arrival& arrival, FdbTarget target) {
  if (target.port == arrival.ingress) return DropReason::kDestinationOnIngressPort;
  const PortConfig* port = target.port < kPortsMax ? config_->ports[target.port] : nullptr;
  if (port != nullptr && port->switch_index == arrival.port->switch_index) {
    if (arrival.Takes(*port, decision_.vid)) {
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

std::optional<DropReason> Pipeline::Flood(const Arrival& arrival, FrameClass frame_class) {
  decision_.frame_class = frame_class;
  uint32_t copies = 0;
  for (const PortIndex egress : arrival.entry->ports) {
    const PortConfig* port = config_->ports[egress];
    if (egress == arrival.ingress || port == nullptr || !arrival.Takes(*port, decision_.vid)) continue;
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

void Pipeline::Queue(const Arrival& arrival, PortIndex egress, const PortConfig& port) {
  const bool tagged = arrival.IsAware(port) && !port.untagged.contains(decision_.vid);
  const TagEdit edit = tagged ? decision_.tagged_edit : decision_.untagged_edit;
  PortCounters& counters = counters_[egress];
  counters.queued_copies.Add();
  if (arrival.wire_length + LengthChange(edit) > port.mtu + kMtuOverhead) {
    counters.Drop(DropReason::kEgressMtuExceeded);
    return;
  }
  egress_[egress_count_++] = {.port = egress, .tagged = tagged};
  decision_.tagged_count += tagged ? 1 : 0;
}

}  // namespace ringswitch::bridge
