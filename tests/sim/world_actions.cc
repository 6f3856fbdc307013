// What the world does: actions are drawn, and carried out.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tests/sim/port_config.h"
#include "tests/sim/world.h"

namespace ringswitch::sim {
namespace {

using bridge::FdbKind;
using bridge::FdbResult;
using bridge::MacAddress;
using bridge::PortIndex;
using bridge::SwitchIndex;
using bridge::VlanId;

constexpr uint64_t kBroadcastAddress = 0xffff'ffff'ffff, kBridgeGroup = 0x0180'c200'0000;
constexpr uint64_t kErrorsOfReads[] = {EINTR, EAGAIN, ECANCELED, EIO, ENOMEM, ENETDOWN, EINVAL, EBADFD};
constexpr uint64_t kErrorsOfWrites[] = {EAGAIN, ENOBUFS, ENOMEM, EIO,    EINVAL,   ENXIO,
                                        ENODEV, EBADFD,  EBADF,  EFAULT, EMSGSIZE, ENETDOWN};

void Append(uint64_t value, int bytes, Bytes* frame) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    frame->push_back(static_cast<uint8_t>(value >> shift));
}

void DrawFrame(Random* random, Action* action) {
  auto& [port, to, from, tag, kind, length, count] = action->arguments;
  to = DrawStation(random);
  if (random->OneIn(6)) to = kBroadcastAddress;
  if (random->OneIn(10)) to = kBridgeGroup + random->Below(18);
  if (random->OneIn(20)) to = 0x0100'5e00'0000 + random->Below(4);
  if (random->OneIn(100)) to = 0;
  from = DrawStation(random);
  if (random->OneIn(50)) from = random->OneIn(2) ? 0 : 0x0100'5e01'0203;
  tag = kUntagged;
  if (!random->OneIn(3)) {
    tag = random->OneIn(4) ? 0 : static_cast<uint64_t>(DrawVid(random));
    if (random->OneIn(30)) tag = 4095;
    tag |= random->Below(16) << 12;
  }
  length = 26 + random->Below(40);
  if (random->OneIn(8)) length = 80 + random->Below(14);     // about MTU 68
  if (random->OneIn(16)) length = 1508 + random->Below(20);  // about MTU 1500
  kind = kPlain;
  if (random->OneIn(3)) kind = random->Below(kFrameKinds);
  if (kind == kOversized && !random->OneIn(100)) kind = kPlain;
  if (kind == kCut) length = random->Below(20);
  if (kind == kSuperFrame) length = 60 + random->Below(random->OneIn(4) ? 6000 : 900);
  count = random->OneIn(40) ? 2 + random->Below(60) : 1;
}

}  // namespace

Action World::DrawStart(Random* random) {
  Action action;
  action.kind = ActionKind::kStart;
  action.seed = random->Below(1ULL << 32);
  action.arguments = {1 + random->Below(bridge::kWorkersMax), 16 + random->Below(random->OneIn(3) ? 100 : 16),
                      random->Below(3)};
  return action;
}

Action World::Draw(Random* random) const {
  Action action;
  action.seed = random->Below(1ULL << 32);
  auto& numbers = action.arguments;
  const uint64_t port = random->Below(kPorts), index = random->Below(kSwitches);
  const auto set = [&action, &numbers](ActionKind kind, std::initializer_list<uint64_t> values) {
    action.kind = kind;
    std::copy(values.begin(), values.end(), numbers.begin());
    return action;
  };
  const uint64_t detail = random->Below(1ULL << 32);
  uint64_t choice = random->Below(1000);
  if (config_->ports.size() < 4 && choice < 500)
    return set(ActionKind::kAddPort, {index, detail, random->Below(2), random->Below(4)});
  const auto is = [&choice](uint64_t weight) { return std::exchange(choice, choice - weight) < weight; };
  if (is(10)) return set(ActionKind::kAddPort, {index, detail, random->Below(2), random->Below(4)});
  if (is(4)) return set(ActionKind::kRemovePort, {port});
  if (is(20)) return set(ActionKind::kUpdatePort, {port, detail});
  if (is(4)) return set(ActionKind::kDetach, {port});
  if (is(12)) return set(ActionKind::kAttach, {port, random->Below(2)});
  if (is(8))
    return set(ActionKind::kUpdateSwitch,
               {index, random->OneIn(4) ? 0u : 1u, random->Below(0x10000), random->Below(5) * 5});
  const auto vid = static_cast<uint64_t>(DrawVid(random));
  const uint64_t mac = DrawStation(random);
  if (is(12))
    return set(ActionKind::kAddStatic, {index, mac, random->OneIn(4) ? 0 : vid, port, random->Below(2)});
  if (is(8)) return set(ActionKind::kRemoveEntry, {index, mac, vid});
  if (is(6)) {
    return set(ActionKind::kFlush, {index, random->OneIn(2) ? port : kAny, random->OneIn(2) ? vid : kAny,
                                    random->OneIn(2) ? 1 + random->Below(2) : kAny});
  }
  if (is(8))
    return set(ActionKind::kReadFault,
               {port, kErrorsOfReads[random->Below(std::size(kErrorsOfReads) - (random->OneIn(4) ? 0 : 1))]});
  if (is(10)) {
    return set(ActionKind::kWriteFault,
               {port, kErrorsOfWrites[random->Below(std::size(kErrorsOfWrites))], 1 + random->Below(4)});
  }
  if (is(10)) return set(ActionKind::kEnterFault, {random->Below(workers_), random->Below(4)});
  if (is(4)) return set(ActionKind::kMissCancel, {port});
  if (is(6)) return set(ActionKind::kDeviceDown, {port, random->OneIn(2) ? 0u : uint64_t{EIO}});
  if (is(2)) return set(ActionKind::kDeviceGone, {port});
  if (is(40)) return set(ActionKind::kClock, {random->OneIn(4) ? random->Below(4000) : random->Below(20)});
  if (is(70)) return set(ActionKind::kSettle, {random->OneIn(6) ? 1u : 0u});
  action.kind = ActionKind::kFrame;
  DrawFrame(random, &action);
  numbers[0] = port;
  for (uint64_t i = 0; i < kPorts && !HasDevice(numbers[0]); ++i) numbers[0] = (numbers[0] + 1) % kPorts;
  return action;
}

void World::Run(const Action& action) {
  baton_.Reseed(action.seed);
  Apply(action);
  baton_.Point(3);
  if (action.kind == ActionKind::kFrame && HasPort(action.arguments[0]))
    CheckIngress(static_cast<int>(action.arguments[0]));
}

void World::Apply(const Action& action) {
  const auto& numbers = action.arguments;
  const int port = static_cast<int>(numbers[0]);
  switch (action.kind) {
    case ActionKind::kStart:
      return;
    case ActionKind::kFrame:
      return SendFrame(action);
    case ActionKind::kClock:
      return baton_.Advance(static_cast<int64_t>(numbers[0]) * 1'000'000);
    case ActionKind::kSettle:
      return Settle(numbers[0] != 0);
    case ActionKind::kAddPort:
      return AddPort(action);
    case ActionKind::kRemovePort:
      return HasPort(numbers[0]) ? RemovePort(port) : void();
    case ActionKind::kUpdatePort:
      return HasPort(numbers[0]) ? UpdatePort(port, numbers[1]) : void();
    case ActionKind::kDetach:
      return HasDevice(numbers[0]) ? Detach(port) : void();
    case ActionKind::kAttach:
      return Attach(action);
    case ActionKind::kUpdateSwitch:
      return UpdateSwitch(action);
    case ActionKind::kAddStatic:
      return AddStatic(action);
    case ActionKind::kRemoveEntry:
      return RemoveEntry(action);
    case ActionKind::kFlush:
      return Flush(action);
    case ActionKind::kEnterFault:
      if (numbers[0] < workers_) kernel_.FailEnter(port, static_cast<EnterFault>(numbers[1] % 4));
      return;
    default:
      break;
  }
  if (!HasDevice(numbers[0])) return;
  const int fd = ports_.at(port).fd, error = static_cast<int>(numbers[1]);
  if (action.kind == ActionKind::kReadFault) kernel_.FailRead(fd, error);
  for (uint64_t i = 0; action.kind == ActionKind::kWriteFault && i < numbers[2]; ++i)
    kernel_.FailWrites(fd, error);
  if (action.kind == ActionKind::kMissCancel) kernel_.MissCancels(fd);
  if (action.kind == ActionKind::kDeviceDown) kernel_.SetDown(fd, error);
  if (action.kind == ActionKind::kDeviceGone) kernel_.SetGone(fd);
}

// --- frames ---

void World::SendFrame(const Action& action) {
  if (!HasDevice(action.arguments[0])) return;
  const Port& port = ports_.at(static_cast<int>(action.arguments[0]));
  for (uint64_t i = 0; i < action.arguments[6]; ++i) {
    Action each = action;
    // A packet socket is not given what is shorter.
    if (port.is_packet && each.arguments[4] == kCut)
      each.arguments[5] = std::max<uint64_t>(18, each.arguments[5]);
    kernel_.Push(port.fd, MakeFrame(each, ++number_));
  }
}

Bytes World::MakeFrame(const Action& action, uint64_t number) const {
  const auto [port, to, from, tag, kind, length, count] = action.arguments;
  Bytes frame;
  Append(to, 6, &frame);
  Append(from, 6, &frame);
  if (kind == kServiceTagged) Append(0x88a8'0005, 4, &frame);
  if (tag != kUntagged) Append(0x8100'0000 | tag, 4, &frame);
  if (kind == kTwoTags) Append(0x8100'0002, 4, &frame);
  Offload offload;
  if (number % 8 == 0) offload.flags = 2;  // the checksum was found right
  const bool is_tcp = kind == kSuperFrame;
  if (is_tcp || kind == kChecksum) {
    Append(0x0800, 2, &frame);
    const auto transport = static_cast<int>(frame.size()) + 20;
    Append(0x4500'0000'0000'0000 | number % 65536 << 16, 8, &frame);
    Append(0x4000'0000'0a00'0001 | (is_tcp ? 6ULL : 17ULL) << 48, 8, &frame);
    Append(0x0a00'0002'0050'0051, 8, &frame);  // to the ports
    Append(number * 7919, 4, &frame);
    if (is_tcp) Append(number << 32 | 0x50f9'ffff, 8, &frame), Append(0x1234'0000, 4, &frame);  // all flags
    const auto header_length = static_cast<int>(number % 3 == 0 ? 0 : frame.size());
    offload = {1, 0, header_length, 0, transport, is_tcp ? 16 : 6};
    if (is_tcp) offload.type = 1, offload.segment_size = 100 + static_cast<int>(number % 1000);
  } else {
    Append(0x88b5, 2, &frame);
    Append(number, 4, &frame);
  }
  const size_t header_length = frame.size();
  uint64_t wanted = length;
  if (kind == kOddChecksum) {
    offload = {1, 0, static_cast<int>(number % 3) * 20, 0, static_cast<int>(header_length + 6 + number % 8),
               6};
    wanted = std::max<uint64_t>(length, header_length + 24);
  }
  if (kind == kOversized) wanted = 66'100;
  while (frame.size() < wanted) frame.push_back(static_cast<uint8_t>(frame.size() * 7 + number));
  if (kind == kCut) frame.resize(length);
  if (kind == kBadChecksum) offload = {1, 0, 0, 0, static_cast<int>(frame.size()) - 1, 6};
  if (kind == kBadSuperFrame) offload = {1, 1, 0, 100, static_cast<int>(header_length), 16};
  return Join(offload, frame);
}

// --- ports ---

Device World::OpenDevice(Port* port, bool is_packet, bool takes_offload) {
  port->fd = kernel_.OpenDevice(is_packet);
  port->is_packet = is_packet;
  port->takes_offload = takes_offload;
  port->reads_again = true;
  Device device;
  device.kind = is_packet ? Device::Kind::kPacket : Device::Kind::kTap;
  device.file = File(port->fd);
  device.takes_offload = takes_offload;
  return device;
}

void World::AddPort(const Action& action) {
  int number = 0;
  while (HasPort(static_cast<uint64_t>(number))) ++number;
  if (number == kPorts) return;
  OracleConfig next = *config_;
  const OraclePort& made = next.ports[number] =
      DrawPort(static_cast<int>(action.arguments[0] % kSwitches), action.arguments[1]);
  Prepare(next);
  Device device = OpenDevice(&ports_[number], action.arguments[2] != 0, action.arguments[3] != 0);
  const auto index = dataplane_->AddPort(ConfigOf(made), std::move(device));
  if (!index.ok() || *index != number) Fail("a port cannot be added");
}

void World::RemovePort(int number) {
  const int index = config_->ports.at(number).switch_index;
  OracleConfig next = *config_;
  next.ports.erase(number);
  Prepare(next);
  ports_.at(number).may_lack_file = true;
  const File file = dataplane_->RemovePort(static_cast<PortIndex>(number));
  if (file.fd() != ports_.at(number).fd) Fail("another file comes back");
  ports_.erase(number);
  oracle_.totals[number].receive_no_buffer_events = 0;
  retired_[static_cast<size_t>(index)].Add(oracle_.totals[number]);
  oracle_.totals.erase(number);
  oracle_.memories.erase(number);
  Forget(index, [number](int, const OracleEntry& entry) { return entry.port == number; });
}

void World::UpdatePort(int number, uint64_t detail) {
  const OraclePort before = config_->ports.at(number);
  OracleConfig next = *config_;
  const OraclePort after = next.ports[number] = DrawPort(before.switch_index, detail);
  Prepare(next);
  dataplane_->UpdatePort(static_cast<PortIndex>(number), ConfigOf(after));
  if (before.bpdu_guard != after.bpdu_guard || before.down != after.down ||
      before.bpdu_recovery_s != after.bpdu_recovery_s) {
    oracle_.memories[number].blocked_until_s = 0;
  }
  const bool is_set_down = (after.down && !before.down) || (after.link_down && !before.link_down);
  Forget(before.switch_index, [&](int vid, const OracleEntry& entry) {
    const bool has_left = before.members.count(vid) != 0 && after.members.count(vid) == 0;
    return entry.port == number && !entry.is_static && (is_set_down || has_left);
  });
}

void World::Detach(int number) {
  Port& port = ports_.at(number);
  port.may_lack_file = true;
  const File file = dataplane_->DetachDevice(static_cast<PortIndex>(number));
  if (file.fd() != port.fd) Fail("another file comes back");
  port.fd = -1;
  Forget(config_->ports.at(number).switch_index,
         [number](int, const OracleEntry& entry) { return entry.port == number && !entry.is_static; });
  // Of reads that were being stopped it does not matter why they ended.
  const auto real = dataplane_->ReadPort(static_cast<PortIndex>(number)).totals.receive_no_buffer_events;
  uint64_t& expected = oracle_.totals[number].receive_no_buffer_events;
  if (real > expected) Fail("reads found no buffer that had one");
  expected = real;
}

void World::Attach(const Action& action) {
  if (!HasPort(action.arguments[0]) || HasDevice(action.arguments[0])) return;
  const auto number = static_cast<int>(action.arguments[0]);
  Port& port = ports_.at(number);
  Device device = OpenDevice(&port, action.arguments[1] != 0, port.takes_offload);
  if (!dataplane_->AttachDevice(static_cast<PortIndex>(number), std::move(device)).ok())
    Fail("a device cannot be attached");
  port.may_lack_file = false;
}

void World::UpdateSwitch(const Action& action) {
  const auto index = static_cast<int>(action.arguments[0] % kSwitches);
  OracleConfig next = *config_;
  OracleSwitch& updated = next.switches[index];
  updated.vlan_aware = action.arguments[1] != 0;
  updated.group_forward_mask = static_cast<unsigned>(action.arguments[2]);
  updated.ageing_time_s = static_cast<int64_t>(action.arguments[3]);
  const bridge::SwitchConfig config = ConfigOf(updated);
  Prepare(next);
  dataplane_->UpdateSwitch(static_cast<SwitchIndex>(index), config);
}

// --- the table ---

void World::AddStatic(const Action& action) {
  const auto [switch_index, mac, vid, port, replace, unused, none] = action.arguments;
  const auto index = static_cast<int>(switch_index % kSwitches);
  const FdbResult result = dataplane_->AddStaticFdbEntry(
      static_cast<SwitchIndex>(index), {.mac = MacAddress(mac), .vid = static_cast<VlanId>(vid)},
      static_cast<PortIndex>(port), replace != 0);
  OracleTable& table = oracle_.tables[index];
  const auto found = table.find({mac, static_cast<int>(vid)});
  const bool is_known = found != table.end();
  FdbResult expected = FdbResult::kOk;
  if (!is_known && table.size() >= config_->switches.at(index).capacity) expected = FdbResult::kFull;
  if (is_known && found->second.is_static && replace == 0) expected = FdbResult::kExists;
  // Both buckets of the key are taken: rare, and allowed.
  if (result == FdbResult::kFull && expected == FdbResult::kOk && !is_known) return;
  if (result != expected) Fail("the answer to a static entry differs");
  if (result == FdbResult::kOk) table[{mac, static_cast<int>(vid)}] = {static_cast<int>(port), true, 0};
}

void World::RemoveEntry(const Action& action) {
  const auto [switch_index, mac, vid, a, b, c, d] = action.arguments;
  const auto index = static_cast<int>(switch_index % kSwitches);
  const FdbResult result = dataplane_->RemoveFdbEntry(
      static_cast<SwitchIndex>(index), {.mac = MacAddress(mac), .vid = static_cast<VlanId>(vid)});
  const bool was_known = oracle_.tables[index].erase({mac, static_cast<int>(vid)}) != 0;
  if (result != (was_known ? FdbResult::kOk : FdbResult::kNotFound))
    Fail("the answer to the removal of an entry differs");
}

void World::Flush(const Action& action) {
  const auto [switch_index, port, vid, kind, a, b, c] = action.arguments;
  const auto index = static_cast<int>(switch_index % kSwitches);
  bridge::FdbFilter filter;
  if (port != kAny) filter.port = static_cast<PortIndex>(port);
  if (vid != kAny) filter.vid = static_cast<VlanId>(vid);
  if (kind != kAny) filter.kind = static_cast<FdbKind>(kind);
  const uint32_t removed = dataplane_->FlushFdb(static_cast<SwitchIndex>(index), filter);
  const uint32_t expected = Forget(index, [&](int at, const OracleEntry& entry) {
    const FdbKind its_kind = entry.is_static ? FdbKind::kStatic : FdbKind::kDynamic;
    return (!filter.port || *filter.port == entry.port) && (!filter.vid || *filter.vid == at) &&
           (!filter.kind || *filter.kind == its_kind);
  });
  if (removed != expected) Fail("a flush removes another number of entries");
}

template <typename Matches>
uint32_t World::Forget(int index, Matches matches) {
  return static_cast<uint32_t>(std::erase_if(
      oracle_.tables[index], [&](const auto& row) { return matches(row.first.second, row.second); }));
}

}  // namespace ringswitch::sim
