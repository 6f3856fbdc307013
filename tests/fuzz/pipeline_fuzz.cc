// The frame pipeline on a random configuration: whatever the ports are and whatever the frames, a frame goes
// only where it may, to all that it must, once, in the form that the port wants, or is dropped for a reason
// that is so.
//
// Theory of operation. The input is a configuration of a few ports on two switches, then a program: frames,
// and between them changes of ports and switches, time, flushes and static entries. After each frame the
// decision is held against 802.1Q written down as plainly as possible: which VLAN the frame is in, which
// ports may get it, what each form's bytes are. Where the frame's destination is known is asked of the FDB
// itself.

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "dataplane/bridge/counters.h"
#include "dataplane/bridge/epoch.h"
#include "dataplane/bridge/fdb.h"
#include "dataplane/bridge/pipeline.h"
#include "tests/fuzz/input.h"

namespace ringswitch::bridge {
namespace {

using fuzz::Bytes;
using fuzz::Input;
using fuzz::Require;

constexpr size_t kPorts = 6;
constexpr size_t kSwitches = 2;
constexpr uint32_t kWorker = 0;
constexpr uint32_t kAllFeatures = (kLinkDown << 1) - 1;
constexpr VlanId kVids[] = {1, 2, 10, 63, 64, 4094};
constexpr uint32_t kMtus[] = {1500, 68, 100, 65521};
constexpr uint64_t kReserved = 0x0180'c200'0000, kBroadcast = 0xffff'ffff'ffff;

// --- what the input says ---

VlanId ReadVid(Input* input) {
  const uint8_t choice = input->Byte();
  return choice < 250 ? kVids[choice % std::size(kVids)] : static_cast<VlanId>(input->Word() % 4096);
}

MacAddress ReadMac(Input* input, bool is_destination) {
  const uint8_t choice = input->Byte();
  if (choice < 160) return MacAddress(0x0200'0000'0a00 + choice % 12);
  if (choice < 190 && is_destination) return MacAddress(kBroadcast);
  if (choice < 220 && is_destination) return MacAddress(kReserved + choice % 17);
  if (choice < 230 && is_destination) return MacAddress(0x3333'0000'0001);
  return MacAddress(input->Number(6));
}

Rate ReadRate(Input* input) {
  return {.per_second = input->Number(3), .burst = 1 + input->Number(2)};
}

SourceGuard ReadSourceGuard(Input* input) {
  SourceGuard guard;
  for (unsigned i = input->Below(3); i > 0; --i) guard.macs.push_back(ReadMac(input, false));
  if (input->OneIn(2)) guard.ipv4.push_back({10, 0, 0, input->Byte()});
  if (input->OneIn(2)) guard.ipv6.push_back({0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, input->Byte()});
  return guard;
}

void ReadVlans(Input* input, PortConfig* port) {
  port->vlan_mode = static_cast<VlanMode>(input->Below(3));
  if (port->vlan_mode == VlanMode::kUnaware) return;
  const bool is_access = port->vlan_mode == VlanMode::kAccess;
  if (is_access || input->OneIn(2)) {
    port->pvid = ReadVid(input);
    if (!IsVlan(port->pvid)) port->pvid = 1;
    port->members.Add(port->pvid);
    if (is_access || !input->OneIn(4)) port->untagged.Add(port->pvid);
  }
  if (is_access) return;
  for (unsigned i = input->Below(4); i > 0; --i) port->members.Add(ReadVid(input));
  const VlanId bare = ReadVid(input);
  if (port->members.contains(bare) && input->OneIn(3)) port->untagged.Add(bare);
}

// Null: no such port.
std::unique_ptr<PortConfig> ReadPort(Input* input) {
  if (input->OneIn(16)) return nullptr;
  auto port = std::make_unique<PortConfig>();
  port->switch_index = input->OneIn(4) ? 1 : 0;
  ReadVlans(input, port.get());
  port->mtu = input->Pick(kMtus);
  port->mac_limit = input->Below(4);
  if (input->OneIn(3)) return port;
  port->features = static_cast<uint32_t>(input->Number(3)) & kAllFeatures;
  // Few frames pass all of it at once.
  if (!input->OneIn(4)) port->features &= static_cast<uint32_t>(input->Number(3));
  if ((port->features & kStormControl) != 0) {
    for (StormLimit& limit : port->storm) limit = {.frames = ReadRate(input), .bits = ReadRate(input)};
  }
  if ((port->features & kReceiveRate) != 0) port->receive_rate = ReadRate(input);
  if ((port->features & kTransmitRate) != 0) port->transmit_rate = ReadRate(input);
  port->bpdu_recovery_s = input->Below(4);
  if ((port->features & (kSourceMacGuard | kSourceAddressGuard)) != 0)
    port->source_guard = ReadSourceGuard(input);
  return port;
}

SwitchConfig ReadSwitch(Input* input) {
  SwitchConfig config;
  config.vlan_aware = !input->OneIn(4);
  config.group_forward_mask = input->OneIn(2) ? input->Word() : uint16_t{0};
  config.ageing_time_s = input->Below(4);
  config.vlan_counters = input->OneIn(4);
  config.flap_limit = input->OneIn(4) ? 1u : 0u;
  config.flap_hold_s = 1 + input->Below(4);
  return config;
}

void AppendWord(unsigned word, Bytes* bytes) {
  bytes->push_back(static_cast<uint8_t>(word >> 8));
  bytes->push_back(static_cast<uint8_t>(word));
}

Bytes ReadFrame(Input* input) {
  if (input->OneIn(16)) return input->Take(input->Byte());
  Bytes frame;
  for (const bool is_destination : {true, false}) {
    for (const uint8_t byte : ReadMac(input, is_destination).Bytes()) frame.push_back(byte);
  }
  for (unsigned i = input->Below(3); i > 0; --i) {
    AppendWord(input->OneIn(8) ? 0x88a8 : 0x8100, &frame);
    const unsigned priority = input->Below(16) << 12u;
    AppendWord(priority + (input->OneIn(4) ? 0u : ReadVid(input)), &frame);
  }
  static constexpr unsigned kEtherTypes[] = {0x0800, 0x0806, 0x86dd, 0x88b5, 0x8100, 0x0026};
  AppendWord(input->Pick(kEtherTypes), &frame);
  const Bytes payload = input->Take(input->Byte());
  frame.insert(frame.end(), payload.begin(), payload.end());
  static constexpr size_t kLengths[] = {60, 64, 0, 82, 83, 86, 87, 1514, 1518, 1519, 1522};
  frame.resize(std::max(frame.size(), input->Pick(kLengths)));
  if (input->OneIn(16)) frame.resize(input->OneIn(2) ? 12u + input->Below(8) : input->Byte());
  return frame;
}

// --- the bridge, and what is known of it ---

class World {
 public:
  explicit World(Input* input) : input_(*input) {
    epochs_.Enter(kWorker);
    for (size_t i = 0; i < kSwitches; ++i) {
      entries_[i].config = ReadSwitch(input);
      fdbs_[i] = std::make_unique<Fdb>(kFdbCapacityMin, i + 1, &epochs_);
      entries_[i].fdb = fdbs_[i].get();
    }
    for (auto& port : ports_) port = ReadPort(input);
    Publish();
  }
  ~World() { epochs_.Leave(kWorker); }

  void Run() {
    while (!input_.ended()) {
      const uint8_t choice = input_.Below(32);
      choice < 22 ? HandleFrame() : Change(choice - 22u);
      epochs_.Boundary(kWorker);
    }
    for (size_t i = 0; i < kSwitches; ++i) CheckTable(*fdbs_[i]);
  }

 private:
  struct Arrival {
    PortIndex ingress = 0;
    Bytes frame{};
    uint32_t wire_length = 0;
    // Of a frame with a header: what it says, and the VLAN that it is in; none: it must not enter.
    MacAddress destination{}, source{};
    bool has_tag = false;
    unsigned tci = 0;
    std::optional<VlanId> vid{};
    bool is_aware = false;
  };

  void Publish();
  void Change(unsigned choice);
  void HandleFrame();
  void CheckForwarded(const Arrival& arrival, const Decision& decision);
  void CheckDropped(const Arrival& arrival, const Decision& decision) const;
  void CheckForm(const Arrival& arrival, const Decision& decision, PortIndex port, bool tagged) const;
  void CheckLedgers() const;
  void CheckTable(const Fdb& fdb) const;

  bool IsAware(const PortConfig& port) const {
    return port.vlan_mode != VlanMode::kUnaware && entries_[port.switch_index].config.vlan_aware;
  }
  bool IsClosed(PortIndex port) const {
    const uint32_t features = ports_[port]->features;
    return (features & kAdminDown) != 0 || ((features & kBpduGuard) != 0 && meters_[port].IsBlocked(now_s_));
  }
  // A member of the VLAN on the same switch.
  bool IsMember(const Arrival& arrival, PortIndex port) const {
    if (ports_[port] == nullptr || ports_[port]->switch_index != ports_[arrival.ingress]->switch_index)
      return false;
    return IsAware(*ports_[port]) ? ports_[port]->members.contains(*arrival.vid) : *arrival.vid == 0;
  }
  std::set<PortIndex> MayGet(const Arrival& arrival, FrameClass frame_class) const;
  Arrival Look(PortIndex ingress, const Bytes& frame) const;
  const Fdb& FdbOf(PortIndex port) const { return *fdbs_[ports_[port]->switch_index]; }

  Input& input_;
  EpochDomain epochs_;
  std::array<std::unique_ptr<Fdb>, kSwitches> fdbs_;
  std::array<SwitchEntry, kSwitches> entries_;
  std::array<std::unique_ptr<PortConfig>, kPorts> ports_;
  // As many as there are ports and no more, so that AddressSanitizer sees a wrong index.
  std::vector<PortCounters> counters_{kPorts};
  std::vector<PortMeters> meters_{kPorts};
  std::array<uint64_t, kPorts> transmitted_{};
  ForwardingConfig config_;
  Pipeline pipeline_{counters_, meters_, kWorker};
  uint32_t now_s_ = (1u << 24) - 4;  // stamps wrap soon
};

void World::Publish() {
  static std::vector<VlanCounters> vlan_counters(kVlanIdMax + 1);
  static VlanCounters* by_worker[] = {vlan_counters.data()};
  for (size_t i = 0; i < kSwitches; ++i) {
    entries_[i].ports.clear();
    entries_[i].vlan_counters = entries_[i].config.vlan_counters ? by_worker : nullptr;
    fdbs_[i]->SetFlapGuard(entries_[i].config.flap_limit, entries_[i].config.flap_hold_s);
    config_.switches[i] = &entries_[i];
  }
  for (size_t i = 0; i < kPorts; ++i) {
    config_.ports[i] = ports_[i].get();
    if (ports_[i] != nullptr) entries_[ports_[i]->switch_index].ports.push_back(static_cast<PortIndex>(i));
  }
  pipeline_.SetConfig(&config_);
}

void World::Change(unsigned choice) {
  const auto port = static_cast<PortIndex>(input_.Below(kPorts));
  const size_t at = input_.Below(kSwitches);
  const FdbKey key{ReadMac(&input_, false), ReadVid(&input_)};
  switch (choice) {
    case 0:
      ports_[port] = ReadPort(&input_);
      return Publish();
    case 1:
      entries_[at].config = ReadSwitch(&input_);
      return Publish();
    case 2:
    case 3:
      now_s_ += input_.Byte();
      return;
    case 4:
      if (key.mac.is_station()) fdbs_[at]->AddStatic(key, port, input_.OneIn(2));
      return;
    case 5:
      fdbs_[at]->Remove(key);
      return;
    case 6:
      fdbs_[at]->Flush({.port = port});
      return;
    case 7:
      fdbs_[at]->Flush({.vid = key.vid, .kind = FdbKind::kDynamic});
      return;
    case 8:
      fdbs_[at]->AgeSlice(now_s_, entries_[at].config.ageing_time_s, fdbs_[at]->slot_count());
      return;
    default:
      fdbs_[at]->SetLogging(input_.OneIn(2));
  }
}

World::Arrival World::Look(PortIndex ingress, const Bytes& frame) const {
  Arrival arrival{.ingress = ingress, .frame = frame, .wire_length = static_cast<uint32_t>(frame.size())};
  if (frame.size() < 14) return arrival;
  arrival.destination = MacAddress::FromBytes(&frame[0]);
  arrival.source = MacAddress::FromBytes(&frame[6]);
  arrival.has_tag = frame[12] == 0x81 && frame[13] == 0;
  if (arrival.has_tag && frame.size() < 18) return arrival;
  if (ports_[ingress] == nullptr || !arrival.source.is_station()) return arrival;
  const PortConfig& port = *ports_[ingress];
  arrival.is_aware = IsAware(port);
  if (!arrival.is_aware) {
    arrival.vid = kVlanIdNone;
    return arrival;
  }
  arrival.tci = arrival.has_tag ? frame[14] * 256u + frame[15] : 0;
  const auto vid = static_cast<VlanId>(arrival.tci % 4096);
  if (vid != 0 && port.vlan_mode == VlanMode::kTrunk && port.members.contains(vid)) arrival.vid = vid;
  if (vid == 0 && port.pvid != 0) {
    arrival.vid = port.pvid;
    arrival.tci += port.pvid;
  }
  return arrival;
}

void World::HandleFrame() {
  const auto ingress = static_cast<PortIndex>(input_.Below(kPorts));
  const Bytes frame = ReadFrame(&input_);
  Arrival arrival = Look(ingress, frame);
  // A super-frame's segments are shorter than it.
  if (input_.OneIn(4) && frame.size() > 54)
    arrival.wire_length = 54 + input_.Word() % (arrival.wire_length - 54);
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[frame.size()]);
  std::copy(frame.begin(), frame.end(), bytes.get());
  pipeline_.SetTime({.ns = uint64_t{now_s_} * 1'000'000'000, .s = now_s_});
  const Decision& decision =
      pipeline_.Process(ingress, bytes.get(), static_cast<uint32_t>(frame.size()), arrival.wire_length);
  Require(std::equal(frame.begin(), frame.end(), bytes.get()), "deciding changes no byte");
  decision.forwarded ? CheckForwarded(arrival, decision) : CheckDropped(arrival, decision);
  for (const Egress& egress : decision.egress) ++transmitted_[egress.port];
  CheckLedgers();
}

std::set<PortIndex> World::MayGet(const Arrival& arrival, FrameClass frame_class) const {
  static const std::map<FrameClass, uint32_t> kFilters = {
      {FrameClass::kUnicast, 0},
      {FrameClass::kBroadcast, kNoBroadcastFlood},
      {FrameClass::kMulticast, kNoMulticastFlood},
      {FrameClass::kUnknownUnicast, kNoUnknownUnicastFlood},
  };
  const uint32_t from = ports_[arrival.ingress]->features;
  std::set<PortIndex> may;
  for (PortIndex port = 0; port < kPorts; ++port) {
    if (!IsMember(arrival, port) || IsClosed(port)) continue;
    if (port == arrival.ingress && (from & kHairpin) == 0) continue;
    if ((from & ports_[port]->features & kIsolated) != 0) continue;
    if ((ports_[port]->features & kFilters.at(frame_class)) != 0) continue;
    may.insert(port);
  }
  return may;
}

void World::CheckForwarded(const Arrival& arrival, const Decision& decision) {
  Require(arrival.vid.has_value(), "what enters has a whole header and a VLAN that the port is a member of");
  Require(decision.vid == *arrival.vid, "the frame is in the VLAN that it said or the port has");
  Require(!IsClosed(arrival.ingress), "nothing enters by a closed port");
  const MacAddress destination = arrival.destination;
  const FrameClass frame_class = decision.frame_class;
  const bool is_broadcast = frame_class == FrameClass::kBroadcast;
  Require(destination.is_broadcast() == is_broadcast, "broadcast is broadcast");
  Require(destination.is_group() == (is_broadcast || frame_class == FrameClass::kMulticast), "and groups");
  if (destination.is_reserved_group()) {
    const unsigned number = destination.bits() & 0xf;
    const unsigned mask = entries_[ports_[arrival.ingress]->switch_index].config.group_forward_mask;
    Require(number != 1 && (mask >> number & 1) != 0, "reserved groups stay here");
  }

  std::set<PortIndex> got;
  uint16_t tagged_count = 0;
  for (const Egress& egress : decision.egress) {
    Require(got.insert(egress.port).second, "one copy per port");
    Require((ports_[egress.port]->features & kLinkDown) == 0, "no copy into a device that would lose it");
    CheckForm(arrival, decision, egress.port, egress.tagged);
    tagged_count = static_cast<uint16_t>(tagged_count + (egress.tagged ? 1 : 0));
  }
  Require(tagged_count == decision.tagged_count, "the tagged copies are counted");
  for (const EgressDrop& drop : decision.dropped) {
    Require(got.insert(drop.port).second, "one copy per port, sent or dropped");
    Require(TextOf(drop.reason).side == DropSide::kEgress, "a copy is dropped for an egress reason");
  }
  const std::set<PortIndex> may = MayGet(arrival, frame_class);
  const FdbTarget known = FdbOf(arrival.ingress).Lookup({destination, *arrival.vid});
  if (frame_class == FrameClass::kUnicast) {
    Require(known.found() && got == std::set<PortIndex>{known.port}, "known unicast goes where it is known");
    Require(may.count(known.port) != 0, "known unicast goes where it may");
  } else {
    Require(got == may, "a flood reaches every port that it may, and no other");
    Require(frame_class != FrameClass::kUnknownUnicast || !known.found() || !IsMember(arrival, known.port),
            "what is known is not flooded");
  }
}

// What leaves by `port`, made the way the worker does, against what should be on its wire.
void World::CheckForm(const Arrival& arrival, const Decision& decision, PortIndex port, bool tagged) const {
  const Bytes& frame = arrival.frame;
  Bytes expected = frame;
  bool wants_tag = false;
  if (arrival.is_aware) {
    if (arrival.has_tag) expected.erase(expected.begin() + 12, expected.begin() + 16);
    wants_tag = !ports_[port]->untagged.contains(*arrival.vid);
    const uint8_t tag[] = {0x81, 0, static_cast<uint8_t>(arrival.tci >> 8),
                           static_cast<uint8_t>(arrival.tci)};
    if (wants_tag) expected.insert(expected.begin() + 12, std::begin(tag), std::end(tag));
  }
  Require(tagged == wants_tag, "a tag where the port wants one");
  Bytes room(kTagLength + frame.size());
  uint8_t* start = room.data() + kTagLength;
  std::copy(frame.begin(), frame.end(), start);
  switch (tagged ? decision.tagged_edit : decision.untagged_edit) {
    case TagEdit::kNone:
      break;
    case TagEdit::kPush:
      start = PushTag(start, decision.tci);
      break;
    case TagEdit::kPop:
      start = PopTag(start);
      break;
    case TagEdit::kSetVid:
      SetVid(start, decision.vid);
      break;
  }
  uint8_t* const end = room.data() + room.size();
  Require(std::equal(expected.begin(), expected.end(), start, end), "the form is what the port wants");
  const size_t wire_length = arrival.wire_length + expected.size() - frame.size();
  Require(wire_length <= ports_[port]->mtu + 18, "no copy is longer than the MTU");
}

// Whether the reason is so, as far as the frame and the configuration tell.
void World::CheckDropped(const Arrival& arrival, const Decision& decision) const {
  static const std::map<DropReason, uint32_t> kFeatures = {
      {DropReason::kPortDown, kAdminDown},
      {DropReason::kPortBlocked, kBpduGuard},
      {DropReason::kBpduGuard, kBpduGuard},
      {DropReason::kSourceNotAuthorised, kLocked},
      {DropReason::kSourceMacGuard, kSourceMacGuard},
      {DropReason::kSourceAddressGuard, kSourceAddressGuard},
      {DropReason::kRouterAdvertisementGuard, kRouterAdvertisementGuard},
      {DropReason::kDhcpServerGuard, kDhcpServerGuard},
      {DropReason::kStormBroadcast, kStormControl},
      {DropReason::kStormMulticast, kStormControl},
      {DropReason::kStormUnknownUnicast, kStormControl},
      {DropReason::kReceiveRateExceeded, kReceiveRate},
      {DropReason::kIsolated, kIsolated},
  };
  Require(decision.egress.empty() && decision.dropped.empty(), "a dropped frame has no copies");
  Require(TextOf(decision.reason).side == DropSide::kIngress, "a frame is dropped for an ingress reason");
  const PortConfig* port = ports_[arrival.ingress].get();
  Require((port == nullptr) == (decision.reason == DropReason::kPortRemoved), "a port that is not there");
  if (port == nullptr) return;
  const auto feature = kFeatures.find(decision.reason);
  if (feature != kFeatures.end()) Require((port->features & feature->second) != 0, "the port asked for it");
  if (!arrival.vid.has_value()) return;
  const FdbTarget source = FdbOf(arrival.ingress).Lookup({arrival.source, *arrival.vid});
  const FdbTarget known = FdbOf(arrival.ingress).Lookup({arrival.destination, *arrival.vid});
  switch (decision.reason) {
    case DropReason::kFrameTooShort:
    case DropReason::kTruncatedTag:
    case DropReason::kInvalidSource:
    case DropReason::kIngressVlanNotMember:
    case DropReason::kTaggedOnAccessPort:
    case DropReason::kNoNativeVlan:
      return Require(false, "the frame may enter");
    case DropReason::kReservedGroup:
      return Require(arrival.destination.is_reserved_group(), "only reserved groups stay here");
    case DropReason::kStaticAddressElsewhere:
      return Require(source.kind == FdbKind::kStatic && source.port != arrival.ingress, "bound elsewhere");
    case DropReason::kDestinationOnIngressPort:
      return Require(known.port == arrival.ingress && (port->features & kHairpin) == 0, "on its own side");
    case DropReason::kAddressFlapping:
      return Require(source.found() && source.port != arrival.ingress, "held elsewhere");
    case DropReason::kNoEgressPort: {
      FrameClass frame_class = FrameClass::kUnknownUnicast;
      if (arrival.destination.is_group()) frame_class = FrameClass::kMulticast;
      if (arrival.destination.is_broadcast()) frame_class = FrameClass::kBroadcast;
      if (known.found() && !arrival.destination.is_group() && known.kind == FdbKind::kStatic) return;
      if (known.found() && !arrival.destination.is_group() && IsMember(arrival, known.port)) {
        return Require(IsClosed(known.port), "known, and closed");
      }
      return Require(MayGet(arrival, frame_class).empty(), "nobody may get it");
    }
    default:
      return;
  }
}

void World::CheckLedgers() const {
  for (size_t port = 0; port < kPorts; ++port) {
    PortTotals totals;
    totals.Add(counters_[port]);
    Require(totals.receive_frames == totals.forwarded_frames + totals.DropsOn(DropSide::kIngress),
            "each frame received is forwarded or dropped for one reason");
    Require(totals.queued_copies == transmitted_[port] + totals.DropsOn(DropSide::kEgress),
            "each copy is transmitted or dropped for one reason");
  }
}

void World::CheckTable(const Fdb& fdb) const {
  std::vector<FdbRow> rows;
  Require(fdb.List(0, {}, UINT32_MAX, now_s_, &rows) == 0, "the whole table is listed");
  std::set<std::pair<uint64_t, VlanId>> keys;
  std::map<PortIndex, uint32_t> dynamic;
  for (const FdbRow& row : rows) {
    Require(keys.emplace(row.key.mac.bits(), row.key.vid).second, "one entry per key");
    if (row.target.kind == FdbKind::kDynamic) ++dynamic[row.target.port];
  }
  Require(rows.size() <= fdb.capacity(), "no more entries than there may be");
  Require(rows.size() == fdb.CountOf(FdbKind::kDynamic) + fdb.CountOf(FdbKind::kStatic),
          "entries are counted");
  for (PortIndex port = 0; port < kPorts; ++port)
    Require(dynamic[port] == fdb.DynamicCountOf(port), "entries are counted by port");
}

}  // namespace
}  // namespace ringswitch::bridge

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringswitch::fuzz::Input input(data, size);
  ringswitch::bridge::World(&input).Run();
  return 0;
}
