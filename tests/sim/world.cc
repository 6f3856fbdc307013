#include "tests/sim/world.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/sim/port_config.h"

namespace ringswitch::sim {
namespace {

using bridge::FdbKind;
using bridge::FdbResult;
using bridge::MacAddress;
using bridge::PortIndex;
using bridge::SwitchIndex;
using bridge::VlanId;

constexpr int64_t kNsPerS = 1'000'000'000;
constexpr int64_t kStampsWrapS = 1 << 24;
constexpr size_t kCapacity = 24;  // of switch 0, one more for each other

World* world = nullptr;

DropReason ReasonOf(int error) {  // as dataplane/bridge/drop_reason.h describes them
  switch (error) {
    case EIO:
    case ENETDOWN:
      return DropReason::kEgressPortDown;
    case EBADFD:
    case EBADF:
    case ENXIO:
    case ENODEV:
      return DropReason::kEgressDeviceGone;
    case EINVAL:
      return DropReason::kEgressRefused;
    case EMSGSIZE:
      return DropReason::kEgressMtuExceeded;
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
      return DropReason::kEgressQueueFull;
    default:
      return DropReason::kEgressError;
  }
}

// Why a frame does not get as far as the pipeline; none: it does.
std::optional<DropReason> DropBefore(const Delivery& delivery) {
  if (delivery.bytes.empty()) return DropReason::kInvalidOffloadHeader;
  const Bytes frame = FrameOf(delivery.bytes);
  if (frame.size() < 14) return DropReason::kFrameTooShort;
  if (delivery.truncated) return DropReason::kFrameTruncated;
  if (!WireLength(OffloadOf(delivery.bytes), frame)) return DropReason::kInvalidOffloadHeader;
  return std::nullopt;
}

}  // namespace

World* World::current() {
  return world;
}

World::World(const Action& start, bool plants_fault)
    : workers_(static_cast<uint32_t>(start.arguments[0])),
      buffers_(static_cast<uint32_t>(start.arguments[1])),
      baton_((kStampsWrapS - 10 - static_cast<int64_t>(start.seed % 100)) * kNsPerS),  // stamps wrap soon
      kernel_(&baton_, this, start.arguments[2] != 0) {
  world = this;
  baton_.Reseed(start.seed);
  baton_.on_clock = [this] { OnClock(); };
  oracle_.forgets_isolation = plants_fault;
  config_ = std::make_shared<OracleConfig>();
  const RxMode mode = start.arguments[2] == 2 ? RxMode::kOneshot : RxMode::kAuto;
  auto dataplane = Dataplane::Start({workers_, buffers_, mode});
  if (!dataplane.ok()) Fail("the dataplane does not start", std::string(dataplane.status().message()));
  dataplane_ = *std::move(dataplane);
  for (int index = 0; index < kSwitches; ++index) {
    OracleConfig next = *config_;
    OracleSwitch& made = next.switches[index];
    made.capacity = kCapacity + static_cast<size_t>(index);
    Prepare(next);
    if (!dataplane_->AddSwitch(ConfigOf(made), static_cast<uint32_t>(made.capacity)).ok())
      Fail("a switch cannot be made");
  }
}

World::~World() {
  world = nullptr;
}

void World::Finish() {
  Settle(true);
  dataplane_.reset();
  for (const auto& [number, port] : ports_) {
    if (port.fd >= 0 && kernel_.IsOpen(port.fd)) Fail("a device is still open at the end");
  }
}

// --- what the kernel tells ---

void World::OnDelivery(int worker, const Delivery& delivery) {
  views_[static_cast<size_t>(worker)].deliveries.push_back(delivery);
}

void World::OnReadError(uint16_t slot, int error) {
  Port& port = ports_[slot];
  Note(slot * 256u + static_cast<uint64_t>(error));
  switch (error) {
    case ENOBUFS:
      ++oracle_.totals[slot].receive_no_buffer_events;
      return;
    case EBADFD:
    case ENODEV:
      port.reads_again = false;
      return;
    default:
      port.stumbled_ns = baton_.now_ns();
  }
}

int World::OnWrite(int worker, uint16_t slot, int fd, const uint8_t* data, size_t size) {
  Port& port = ports_[slot];
  if (fd != port.fd && !(fd == -1 && port.may_lack_file)) Fail("a frame is written to a file not the port's");
  WorkerView& view = views_[static_cast<size_t>(worker)];
  auto& copies = view.copies[slot];
  if (copies.empty()) Fail("a frame is written that nobody sent there");
  const Copy copy = std::move(copies.front());
  copies.pop_front();
  --view.copy_count;
  const auto is = [data, size](const Bytes& bytes) {
    return bytes.size() == size && std::memcmp(bytes.data(), data, size) == 0;
  };
  if (!is(copy.bytes) && (copy.completed.empty() || !is(copy.completed)))
    Fail("a frame is written with other bytes, or out of order", "port " + std::to_string(slot));
  ++copies_;
  const int error = kernel_.WriteError(fd);
  bridge::PortTotals& totals = oracle_.totals[slot];
  if (error == 0) {
    ++totals.transmit_frames;
    totals.transmit_bytes += size - 10;
  } else {
    ++totals.drops[static_cast<size_t>(ReasonOf(error))];
  }
  Note((size * 64 + slot) * 256 + static_cast<uint64_t>(error));
  for (size_t i = 0; i < std::min<size_t>(size, 48); ++i) Note(data[i]);
  return error;
}

// --- what the joints tell ---

// A worker takes up what is published, and the time, directly after it has looked at the clock: a batch
// begins there, and the last one is over.
void World::OnClock() {
  if (baton_.current() == 0) return;
  WorkerView& its = view();
  its.config = config_;
  its.now_ns = baton_.now_ns();
  for (const auto& [port, copies] : its.copies) {
    if (!copies.empty()) Fail("a copy was not written", "to port " + std::to_string(port));
  }
  if (!kernel_.IsCollected(worker())) return;
  // What a port's last reads could not describe is nobody's.
  while (!its.deliveries.empty() && its.deliveries.front().bytes.empty() &&
         ports_[its.deliveries.front().slot].may_lack_file) {
    its.deliveries.pop_front();
  }
  if (!its.deliveries.empty()) Fail("a frame was read and is not handled");
}

void World::OnPublish() {
  if (next_) config_ = std::move(next_);
}

void World::OnLearn(bridge::LearnResult result) {
  learned_ = result;
}

void World::OnProcessed(int ingress, const uint8_t* data, uint32_t length, uint32_t wire_length,
                        const bridge::Decision& decision) {
  WorkerView& its = view();
  while (!its.deliveries.empty() && its.deliveries.front().bytes.empty() &&
         ports_[its.deliveries.front().slot].may_lack_file) {
    its.deliveries.pop_front();
  }
  if (its.deliveries.empty()) Fail("a frame is processed that was not read");
  const Delivery delivery = std::move(its.deliveries.front());
  its.deliveries.pop_front();
  if (delivery.slot != ingress) Fail("frames are processed in another order than they were read in");
  if (DropBefore(delivery)) Fail("a frame is processed that should have been dropped before");
  Offload offload = OffloadOf(delivery.bytes);
  OracleFrame frame{ingress, FrameOf(delivery.bytes), 0, its.now_ns, false};
  const std::optional<int64_t> wire = WireLength(offload, frame.bytes);
  SettleOffload(&offload, &frame.bytes);
  if (frame.bytes.size() != length || std::memcmp(frame.bytes.data(), data, length) != 0)
    Fail("a frame is processed that is not the one that was read");
  frame.wire_length = *wire;
  if (frame.wire_length != wire_length) Fail("the length on the wire differs");
  frame.refused = std::exchange(learned_, std::nullopt) == bridge::LearnResult::kNotLearned;
  ++frames_;

  const Verdict verdict = oracle_.Receive(*its.config, frame);
  const auto name = [](DropReason reason) { return std::string(bridge::TextOf(reason).label); };
  if (verdict.must_refuse && !frame.refused) Fail("an address is learned beyond a limit");
  if (decision.forwarded && verdict.drop)
    Fail("a frame is forwarded that should be dropped", name(*verdict.drop));
  if (!decision.forwarded && !verdict.drop)
    Fail("a frame is dropped that should be forwarded", name(decision.reason));
  if (verdict.drop && *verdict.drop != decision.reason)
    Fail("a frame is dropped for another reason", name(decision.reason) + ", not " + name(*verdict.drop));
  Note(verdict.drop ? static_cast<uint64_t>(*verdict.drop) : 1000 + verdict.outputs.size());
  std::vector<int> ports;
  for (const bridge::Egress& egress : decision.egress) ports.push_back(egress.port);
  std::sort(ports.begin(), ports.end());
  std::vector<int> expected;
  for (const auto& [port, bytes] : verdict.outputs) expected.push_back(port);
  if (decision.forwarded && ports != expected) Fail("a frame goes to other ports");
  ExpectCopies(length, offload, verdict.outputs);
}

// `length`: of the frame as it was received.
void World::ExpectCopies(uint32_t length, const Offload& offload, const std::map<int, Bytes>& outputs) {
  WorkerView& its = view();
  for (const auto& [number, frame] : outputs) {
    const Offload moved = Moved(offload, static_cast<int>(frame.size()) - static_cast<int>(length));
    auto& copies = its.copies[number];
    const bool takes_offload = ports_[number].takes_offload;
    if (offload.is_super_frame() && !takes_offload) {
      const std::vector<Bytes> segments = Segments(moved, frame);
      for (const Bytes& segment : segments) copies.push_back({Join({}, segment), {}});
      its.copy_count += segments.size();
      oracle_.totals[number].queued_copies += segments.size() - 1;
      continue;
    }
    ++its.copy_count;
    Copy copy{Join(moved, frame), {}};
    if (offload.needs_checksum() && !offload.is_super_frame()) {
      const Bytes completed = Join({}, WithChecksum(moved, frame));
      // Copies of one form share a buffer: what one port needs completed is completed for all.
      const Bytes& form = frame;
      const bool may_be = std::any_of(outputs.begin(), outputs.end(), [this, &form](const auto& other) {
        return !ports_[other.first].takes_offload && other.second == form;
      });
      if (!takes_offload) copy.bytes = completed;
      if (may_be) copy.completed = completed;
    }
    copies.push_back(std::move(copy));
  }
}

void World::OnDropped(int ingress, uint32_t length, DropReason reason) {
  WorkerView& its = view();
  if (its.deliveries.empty()) Fail("a frame is dropped that was not read");
  const Delivery delivery = std::move(its.deliveries.front());
  its.deliveries.pop_front();
  const std::optional<DropReason> expected = DropBefore(delivery);
  if (delivery.slot != ingress || !expected) Fail("a frame is dropped that should be processed");
  if (reason != *expected) Fail("a frame is dropped before the pipeline for another reason");
  if (length + 10 != std::max<size_t>(delivery.bytes.size(), 10)) Fail("a dropped frame has another length");
  bridge::PortTotals& totals = oracle_.totals[ingress];
  ++totals.receive_frames;
  totals.receive_bytes += length;
  ++totals.drops[static_cast<size_t>(reason)];
  ++frames_;
}

// Which slots a sweep has come to is the table's business; that it removed nothing but what is old is ours.
void World::OnAged(const bridge::Fdb& fdb, uint32_t now_s, uint32_t ageing_time_s) {
  const auto index = static_cast<int>(fdb.capacity() - kCapacity);
  if (view().config->switches.at(index).ageing_time_s != ageing_time_s) Fail("ageing by another ageing time");
  OracleTable& table = oracle_.tables[index];
  const auto known = fdb.CountOf(FdbKind::kDynamic) + fdb.CountOf(FdbKind::kStatic);
  if (known == table.size()) return;
  std::vector<bridge::FdbRow> rows;
  fdb.List(0, {}, UINT32_MAX, now_s, &rows);
  std::set<std::pair<uint64_t, int>> left;
  for (const bridge::FdbRow& row : rows) left.emplace(row.key.mac.bits(), row.key.vid);
  for (auto row = table.begin(); row != table.end();) {
    if (left.count(row->first) != 0) {
      ++row;
      continue;
    }
    const bool is_old =
        ageing_time_s != 0 && static_cast<int64_t>(now_s) - row->second.stamp_s > ageing_time_s;
    if (row->second.is_static || !is_old) Fail("an entry is aged that is not old");
    row = table.erase(row);
  }
}

// --- at rest ---

void World::CheckIngress(int number) {
  const bridge::PortTotals real = dataplane_->ReadPort(static_cast<PortIndex>(number)).totals;
  const bridge::PortTotals& expected = oracle_.totals[number];
  if (real.receive_frames != expected.receive_frames || real.receive_bytes != expected.receive_bytes ||
      real.forwarded_frames != expected.forwarded_frames)
    Fail("receive counters differ");
  if (real.receive_frames != real.forwarded_frames + real.DropsOn(bridge::DropSide::kIngress))
    Fail("the receive ledger does not balance");
}

// `ticks`: and lets what happens once a second happen.
void World::Settle(bool ticks) {
  baton_.AwaitRest();
  const int64_t since_ns = baton_.now_ns();
  if (ticks) {
    baton_.Advance(kNsPerS * 11 / 10);
    baton_.AwaitRest();
    CheckHearing(since_ns);
  }
  CheckRest(ticks);
}

void World::CheckRest(bool has_ticked) {
  const std::string fault = kernel_.CheckRest(buffers_, std::max(2u, buffers_ / 16));
  if (!fault.empty()) Fail(fault);
  for (const WorkerStats& stats : dataplane_->ReadWorkers()) {
    if (stats.buffers_held != 0) Fail("buffers are held at rest");
  }
  for (const WorkerView& its : views_) {
    if (its.copy_count != 0 || !its.deliveries.empty()) Fail("a frame is under way at rest");
  }
  CheckCounters();
  for (int index = 0; index < kSwitches; ++index) CheckTable(index, has_ticked);
  Note(static_cast<uint64_t>(baton_.now_ns()));
}

void World::CheckCounters() {
  std::array<bridge::PortTotals, kSwitches> sums = retired_;
  for (const auto& [number, port] : config_->ports) {
    const bridge::PortTotals real = dataplane_->ReadPort(static_cast<PortIndex>(number)).totals;
    const bridge::PortTotals& expected = oracle_.totals[number];
#define RINGSWITCH_COMPARE(name) \
  if (real.name != expected.name) Fail("a counter differs at rest", #name);
    RINGSWITCH_PORT_COUNTERS(RINGSWITCH_COMPARE)
#undef RINGSWITCH_COMPARE
    if (real.drops != expected.drops) Fail("counters of drops differ at rest");
    if (real.receive_frames != real.forwarded_frames + real.DropsOn(bridge::DropSide::kIngress))
      Fail("the receive ledger does not balance");
    if (real.queued_copies != real.transmit_frames + real.DropsOn(bridge::DropSide::kEgress))
      Fail("the transmit ledger does not balance");
    sums[static_cast<size_t>(port.switch_index)].Add(real);
  }
  for (int index = 0; index < kSwitches; ++index) {
    bridge::PortTotals real = dataplane_->ReadSwitch(static_cast<SwitchIndex>(index));
    bridge::PortTotals& expected = sums[static_cast<size_t>(index)];
    if (real.receive_frames != expected.receive_frames || real.transmit_frames != expected.transmit_frames ||
        real.queued_copies != expected.queued_copies || real.drops != expected.drops)
      Fail("totals of a switch differ at rest");
  }
}

void World::CheckTable(int index, bool has_ticked) {
  const OracleTable& expected = oracle_.tables[index];
  std::vector<bridge::FdbRow> rows;
  dataplane_->ListFdb(static_cast<SwitchIndex>(index), 0, {}, UINT32_MAX, &rows);
  const int64_t now_s = baton_.now_ns() / kNsPerS;
  const int64_t ageing_time_s = config_->switches.at(index).ageing_time_s;
  if (rows.size() != expected.size()) Fail("the number of FDB entries differs");
  uint32_t dynamic_count = 0;
  for (const bridge::FdbRow& row : rows) {
    const auto found = expected.find({row.key.mac.bits(), row.key.vid});
    if (found == expected.end()) Fail("the FDB has an entry too many");
    const OracleEntry& entry = found->second;
    const bool is_static = row.target.kind == FdbKind::kStatic;
    if (entry.is_static != is_static || entry.port != row.target.port) Fail("an FDB entry differs");
    if (is_static) continue;
    ++dynamic_count;
    if (now_s - entry.stamp_s != row.age_s) Fail("an age differs");
    if (has_ticked && ageing_time_s != 0 && row.age_s > ageing_time_s + 1) Fail("an old entry is not aged");
  }
  const auto count = [this, index](FdbKind kind) {
    return dataplane_->FdbCount(static_cast<SwitchIndex>(index), kind);
  };
  if (count(FdbKind::kDynamic) != dynamic_count) Fail("the number of dynamic entries differs");
  if (count(FdbKind::kStatic) != rows.size() - dynamic_count) Fail("the number of static entries differs");
}

// Frames wait in a device only while its reading has stopped for a reason, and for a second at most.
void World::CheckHearing(int64_t since_ns) {
  for (const auto& [number, port] : ports_) {
    if (port.fd < 0 || kernel_.Waiting(port.fd) == 0 || !port.reads_again) continue;
    if (port.stumbled_ns <= since_ns) Fail("a port has gone deaf", "port " + std::to_string(number));
  }
}

}  // namespace ringswitch::sim
