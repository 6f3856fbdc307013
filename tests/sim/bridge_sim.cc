// The bridge against an oracle, for as many random steps as one likes.
//
// Theory of operation. A seed decides everything: frames, configuration changes between batches, static
// entries, flushes, and how the virtual clock goes. Two workers take turns on one thread; each step's
// outputs, drop reason and every counter of every port must be those of the oracle, and after each batch the
// FDBs too. A failure prints the seed and the step: the same seed fails again at the same step.
//
//   bridge_sim [--seed N] [--steps N]      or RINGSWITCH_SIM_SEED, RINGSWITCH_SIM_STEPS

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "dataplane/bridge/epoch.h"
#include "dataplane/bridge/fdb.h"
#include "dataplane/bridge/pipeline.h"
#include "tests/sim/bridge_oracle.h"

namespace ringswitch::bridge {
namespace {

constexpr int kPorts = 12;
constexpr int kSwitches = 2;
constexpr int kWorkers = 2;
constexpr uint32_t kCapacity = 32;
constexpr uint64_t kStepsDefault = 200'000;
constexpr uint32_t kClockStart = (1u << 24) - 500;  // stamps wrap soon

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : seed_(seed), random_(seed) {
    for (int i = 0; i < kSwitches; ++i) {
      fdbs_[i] = std::make_unique<Fdb>(kCapacity, seed + static_cast<uint64_t>(i), &epochs_);
      oracle_.switches[i].capacity = kCapacity;
    }
    for (int i = 0; i < kWorkers; ++i) {
      counters_[i] = std::vector<PortCounters>(kPortsMax);
      pipelines_[i] = std::make_unique<Pipeline>(counters_[i], meters_, static_cast<uint32_t>(i));
      epochs_.Enter(static_cast<uint32_t>(i));
    }
    for (int port = 0; port < kPorts; ++port) oracle_.ports[port] = RandomPort();
    Publish();
  }

  bool Run(uint64_t steps) {
    while (step_ < steps && !failed_) {
      const uint64_t batch = 1 + Below(32);
      const int worker = static_cast<int>(Below(kWorkers));
      for (uint64_t i = 0; i < batch && !failed_; ++i, ++step_) SendFrame(worker);
      epochs_.Boundary(static_cast<uint32_t>(worker));
      CompareTables();
      if (OneIn(3)) now_s_ += static_cast<uint32_t>(Below(4));
      if (OneIn(3)) Control();
      if (OneIn(2)) AgeAll();
    }
    return !failed_;
  }

  uint64_t step() const { return step_; }
  uint64_t forwarded() const { return forwarded_; }
  uint64_t bucket_refusals() const { return bucket_refusals_; }

 private:
  uint64_t Below(uint64_t end) { return random_() % end; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  void Fail(const char* what) {
    failed_ = true;
    std::fprintf(stderr, "bridge_sim: %s; seed %llu, step %llu\n", what,
                 static_cast<unsigned long long>(seed_), static_cast<unsigned long long>(step_));
  }

  // --- what the world may do ---

  int RandomVid() {
    static constexpr int kVids[] = {1, 2, 3, 4094};
    return kVids[Below(4)];
  }

  OraclePort RandomPort() {
    OraclePort port;
    port.switch_index = static_cast<int>(Below(kSwitches));
    port.mtu = OneIn(4) ? 68 : 1500;
    port.mac_limit = OneIn(3) ? 1 + Below(4) : 0;
    if (OneIn(2)) RandomAttributes(&port);
    if (OneIn(12)) return port;  // unaware
    port.mode = OneIn(2) ? OraclePort::Mode::kAccess : OraclePort::Mode::kTrunk;
    if (port.mode == OraclePort::Mode::kAccess || OneIn(2)) {
      port.pvid = RandomVid();
      port.members.insert(port.pvid);
      if (!OneIn(8)) port.untagged.insert(port.pvid);
    }
    if (port.mode == OraclePort::Mode::kTrunk) {
      for (uint64_t i = Below(4); i > 0; --i) port.members.insert(RandomVid());
      if (OneIn(6) && !port.members.empty()) port.untagged.insert(*port.members.begin());
    }
    return port;
  }

  void RandomAttributes(OraclePort* port) {
    port->down = OneIn(10);
    port->learns = !OneIn(6);
    port->floods_unknown = !OneIn(6);
    port->floods_multicast = !OneIn(6);
    port->floods_broadcast = !OneIn(6);
    port->isolated = OneIn(3);
    port->hairpin = OneIn(4);
    port->locked = OneIn(8);
    port->bpdu_guard = OneIn(4);
    port->bpdu_recovery_s = static_cast<int64_t>(Below(4));
  }

  uint64_t RandomStation() { return 0x0200'0000'0a00 + Below(40); }

  Bytes RandomFrame() {
    uint64_t destination = RandomStation();
    if (OneIn(6)) destination = 0xffff'ffff'ffff;
    if (OneIn(10)) destination = 0x0180'c200'0000 + Below(18);
    if (OneIn(20)) destination = 0x0100'5e00'0000 + Below(4);
    if (OneIn(100)) destination = 0;
    uint64_t source = RandomStation();
    if (OneIn(50)) source = OneIn(2) ? 0 : 0x0100'5e01'0203;
    Bytes frame;
    for (const uint64_t address : {destination, source}) {
      for (int shift = 40; shift >= 0; shift -= 8) frame.push_back(static_cast<uint8_t>(address >> shift));
    }
    if (OneIn(20)) AppendTag(0x88a8, &frame);
    if (!OneIn(3)) AppendTag(0x8100, &frame);
    if (OneIn(20)) AppendTag(0x8100, &frame);
    size_t length = frame.size() + 2 + Below(8);
    if (OneIn(8)) length = 80 + Below(14);     // about MTU 68
    if (OneIn(16)) length = 1510 + Below(14);  // about MTU 1500
    while (frame.size() < length) frame.push_back(static_cast<uint8_t>(frame.size() * 7 + 0x88));
    if (OneIn(40)) frame.resize(Below(20));
    return frame;
  }

  void AppendTag(unsigned tpid, Bytes* frame) {
    unsigned vid = OneIn(4) ? 0 : static_cast<unsigned>(RandomVid());
    if (OneIn(30)) vid = 4095;
    const unsigned tci = static_cast<unsigned>(Below(16)) << 12 | vid;
    for (const unsigned word : {tpid, tci}) {
      frame->push_back(static_cast<uint8_t>(word >> 8));
      frame->push_back(static_cast<uint8_t>(word));
    }
  }

  void Control() {
    const int number = static_cast<int>(Below(kPorts));
    const int index = static_cast<int>(Below(kSwitches));
    switch (Below(8)) {
      case 0:
        return ReplacePort(number);
      case 1:
        oracle_.switches[index].group_forward_mask = static_cast<unsigned>(Below(0x10000));
        oracle_.switches[index].ageing_time_s = static_cast<int64_t>(Below(5) * 5);
        oracle_.switches[index].vlan_aware = !OneIn(4);
        return Publish();
      case 2:
      case 3:
        return AddStatic(index, number);
      case 4:
        return RemoveEntry(index);
      case 5:  // link down
        return Flush(
            index,
            [number](int, const OracleEntry& entry) { return entry.port == number && !entry.is_static; },
            {.port = static_cast<PortIndex>(number), .kind = FdbKind::kDynamic});
      case 7: {  // its attributes change; what BPDU guard did is forgotten
        const auto port = oracle_.ports.find(number);
        if (port == oracle_.ports.end()) return;
        RandomAttributes(&port->second);
        port->second.blocked_until_s = 0;
        meters_[number].Reset();
        return Publish();
      }
      case 6: {
        const int vid = RandomVid();
        return Flush(index, [vid](int at, const OracleEntry&) { return at == vid; },
                     {.vid = static_cast<VlanId>(vid)});
      }
    }
  }

  void ReplacePort(int number) {
    const bool was_there = oracle_.ports.erase(number) != 0;
    if (!was_there || OneIn(3)) {
      oracle_.ports[number] = RandomPort();
      meters_[number].Reset();
    }
    Publish();
    if (OneIn(3)) return;  // its entries stay: stale ones must lead nowhere
    for (int index = 0; index < kSwitches; ++index) {
      Flush(index, [number](int, const OracleEntry& entry) { return entry.port == number; },
            {.port = static_cast<PortIndex>(number)});
    }
  }

  void AddStatic(int index, int number) {
    const uint64_t mac = RandomStation();
    const int vid = OneIn(4) ? 0 : RandomVid();
    const bool replace = OneIn(2);
    const FdbResult result = fdbs_[index]->AddStatic({MacAddress(mac), static_cast<VlanId>(vid)},
                                                     static_cast<PortIndex>(number), replace);
    auto& fdb = oracle_.switches[index].fdb;
    const auto found = fdb.find({mac, vid});
    FdbResult expected = FdbResult::kOk;
    if (found == fdb.end() && fdb.size() >= kCapacity) expected = FdbResult::kFull;
    if (found != fdb.end() && found->second.is_static && !replace) expected = FdbResult::kExists;
    if (result == FdbResult::kFull && expected == FdbResult::kOk && found == fdb.end()) {
      ++bucket_refusals_;
      return;
    }
    if (result != expected) return Fail("AddStatic differs");
    if (result == FdbResult::kOk) fdb[{mac, vid}] = {number, true, 0};
  }

  void RemoveEntry(int index) {
    const uint64_t mac = RandomStation();
    const int vid = RandomVid();
    const bool was_there = oracle_.switches[index].fdb.erase({mac, vid}) != 0;
    const FdbResult result = fdbs_[index]->Remove({MacAddress(mac), static_cast<VlanId>(vid)});
    if (result != (was_there ? FdbResult::kOk : FdbResult::kNotFound)) Fail("Remove differs");
  }

  template <typename Predicate>
  void Flush(int index, Predicate matches, const FdbFilter& filter) {
    auto& fdb = oracle_.switches[index].fdb;
    uint32_t removed = 0;
    for (auto row = fdb.begin(); row != fdb.end();) {
      const bool gone = matches(row->first.second, row->second);
      removed += gone ? 1 : 0;
      row = gone ? fdb.erase(row) : std::next(row);
    }
    if (fdbs_[index]->Flush(filter) != removed) Fail("Flush differs");
  }

  void AgeAll() {
    for (int index = 0; index < kSwitches; ++index) {
      const auto ageing_time_s = static_cast<uint32_t>(oracle_.switches[index].ageing_time_s);
      fdbs_[index]->AgeSlice(now_s_, ageing_time_s, fdbs_[index]->slot_count());
      oracle_.Age(index, now_s_);
    }
  }

  // --- the bridge under test ---

  static uint32_t FeaturesOf(const OraclePort& from) {
    uint32_t features = 0;
    if (from.down) features |= kAdminDown;
    if (!from.learns) features |= kNoLearning;
    if (!from.floods_unknown) features |= kNoUnknownUnicastFlood;
    if (!from.floods_multicast) features |= kNoMulticastFlood;
    if (!from.floods_broadcast) features |= kNoBroadcastFlood;
    if (from.isolated) features |= kIsolated;
    if (from.hairpin) features |= kHairpin;
    if (from.locked) features |= kLocked;
    if (from.bpdu_guard) features |= kBpduGuard;
    return features;
  }

  static VlanSet SetOf(const std::set<int>& vids) {
    VlanSet set;
    for (const int vid : vids) set.Add(static_cast<VlanId>(vid));
    return set;
  }

  void Publish() {
    config_ = ForwardingConfig();
    for (int i = 0; i < kSwitches; ++i) {
      const OracleSwitch& from = oracle_.switches[i];
      entries_[i] = {.config = {.vlan_aware = from.vlan_aware,
                                .group_forward_mask = static_cast<uint16_t>(from.group_forward_mask),
                                .ageing_time_s = static_cast<uint32_t>(from.ageing_time_s)},
                     .fdb = fdbs_[i].get(),
                     .ports = {}};
      config_.switches[i] = &entries_[i];
    }
    for (const auto& [number, from] : oracle_.ports) {
      PortConfig& port = ports_[number];
      port.switch_index = static_cast<SwitchIndex>(from.switch_index);
      port.vlan_mode = static_cast<VlanMode>(from.mode);
      port.pvid = static_cast<VlanId>(from.pvid);
      port.members = SetOf(from.members);
      port.untagged = SetOf(from.untagged);
      port.mtu = static_cast<uint32_t>(from.mtu);
      port.mac_limit = static_cast<uint32_t>(from.mac_limit);
      port.features = FeaturesOf(from);
      port.bpdu_recovery_s = static_cast<uint32_t>(from.bpdu_recovery_s);
      config_.ports[number] = &port;
      entries_[from.switch_index].ports.push_back(static_cast<PortIndex>(number));
    }
    for (int i = 0; i < kWorkers; ++i) {
      pipelines_[i]->SetConfig(&config_);
      epochs_.Boundary(static_cast<uint32_t>(i));
    }
  }

  Bytes Edited(const Bytes& frame, TagEdit edit, uint16_t tci) {
    Bytes buffer(kTagLength + frame.size());
    uint8_t* start = buffer.data() + kTagLength;
    std::copy(frame.begin(), frame.end(), start);
    if (edit == TagEdit::kPush) start = PushTag(start, tci);
    if (edit == TagEdit::kPop) start = PopTag(start);
    if (edit == TagEdit::kSetVid) SetVid(start, tci & 0x0fff);
    return {start, buffer.data() + buffer.size()};
  }

  uint64_t LimitedEvents() const {
    uint64_t events = 0;
    for (const auto& fdb : fdbs_) events += fdb->Events().limited;
    return events;
  }

  void SendFrame(int worker) {
    const auto ingress = static_cast<PortIndex>(Below(kPorts));
    const Bytes frame = RandomFrame();
    const auto length = static_cast<uint32_t>(frame.size());
    const uint32_t wire_length = OneIn(20) ? length + static_cast<uint32_t>(Below(200)) : length;

    const uint64_t limited_before = LimitedEvents();
    pipelines_[worker]->SetTime({.ns = uint64_t{now_s_} * 1'000'000'000, .s = now_s_});
    const Decision& decision = pipelines_[worker]->Process(ingress, frame.data(), length, wire_length);
    const bool refused = LimitedEvents() != limited_before;
    const Verdict verdict = oracle_.Receive(ingress, frame, wire_length, now_s_, refused);

    if (verdict.must_refuse && !refused) return Fail("learned beyond a limit");
    bucket_refusals_ += refused && !verdict.must_refuse ? 1 : 0;
    if (decision.forwarded == verdict.drop.has_value()) return Fail("forwarded or dropped differs");
    if (verdict.drop && *verdict.drop != decision.reason) return Fail("drop reason differs");
    std::map<int, Bytes> outputs;
    for (const Egress& egress : decision.egress) {
      const TagEdit edit = egress.tagged ? decision.tagged_edit : decision.untagged_edit;
      if (!outputs.emplace(egress.port, Edited(frame, edit, decision.tci)).second)
        return Fail("two copies to a port");
      ++transmitted_[egress.port];
    }
    if (outputs != verdict.outputs) return Fail("outputs differ");
    for (const EgressDrop& drop : decision.dropped) {
      if (outputs.count(drop.port) != 0 || drop.reason != DropReason::kEgressMtuExceeded) {
        return Fail("a dropped copy that should not be");
      }
    }
    forwarded_ += decision.forwarded ? 1 : 0;
    CompareCounters();
  }

  void CompareCounters() {
    for (int number = 0; number < kPorts; ++number) {
      PortTotals real;
      for (const auto& counters : counters_) real.Add(counters[number]);
      const PortTotals& expected = oracle_.totals[number];
#define RINGSWITCH_COMPARE(name) \
  if (real.name != expected.name) return Fail(#name " differs");
      RINGSWITCH_PORT_COUNTERS(RINGSWITCH_COMPARE)
#undef RINGSWITCH_COMPARE
      if (real.drops != expected.drops) return Fail("drops differ");
      if (real.receive_frames != real.forwarded_frames + real.DropsOn(DropSide::kIngress)) {
        return Fail("receive ledger does not balance");
      }
      if (real.queued_copies != transmitted_[number] + real.DropsOn(DropSide::kEgress)) {
        return Fail("transmit ledger does not balance");
      }
    }
  }

  void CompareTables() {
    for (int index = 0; index < kSwitches; ++index) {
      const auto& expected = oracle_.switches[index].fdb;
      std::vector<FdbRow> rows;
      fdbs_[index]->List(0, {}, UINT32_MAX, now_s_, &rows);
      if (rows.size() != expected.size()) return Fail("number of FDB entries differs");
      uint32_t dynamic_count = 0;
      for (const FdbRow& row : rows) {
        const auto found = expected.find({row.key.mac.bits(), row.key.vid});
        if (found == expected.end()) return Fail("FDB has an entry too many");
        const OracleEntry& entry = found->second;
        const bool is_static = row.target.kind == FdbKind::kStatic;
        if (entry.is_static != is_static || entry.port != row.target.port) return Fail("FDB entry differs");
        if (!is_static && now_s_ - entry.stamp_s != row.age_s) return Fail("age differs");
        dynamic_count += is_static ? 0 : 1;
      }
      if (fdbs_[index]->CountOf(FdbKind::kDynamic) != dynamic_count) return Fail("dynamic count differs");
      if (fdbs_[index]->CountOf(FdbKind::kStatic) != rows.size() - dynamic_count)
        return Fail("static count differs");
    }
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  uint64_t step_ = 0;
  uint64_t forwarded_ = 0;
  uint64_t bucket_refusals_ = 0;
  bool failed_ = false;
  uint32_t now_s_ = kClockStart;

  Oracle oracle_;
  EpochDomain epochs_;
  std::array<std::unique_ptr<Fdb>, kSwitches> fdbs_;
  std::array<std::vector<PortCounters>, kWorkers> counters_;
  std::vector<PortMeters> meters_{kPortsMax};
  std::array<std::unique_ptr<Pipeline>, kWorkers> pipelines_;
  std::array<PortConfig, kPorts> ports_;
  std::array<SwitchEntry, kSwitches> entries_;
  ForwardingConfig config_;
  std::array<uint64_t, kPorts> transmitted_{};
};

uint64_t Option(int argc, char** argv, const char* flag, const char* variable, uint64_t otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], flag) == 0) return std::strtoull(argv[i + 1], nullptr, 0);
  }
  const char* value = std::getenv(variable);
  return value != nullptr ? std::strtoull(value, nullptr, 0) : otherwise;
}

}  // namespace
}  // namespace ringswitch::bridge

int main(int argc, char** argv) {
  using namespace ringswitch::bridge;
  const uint64_t seed = Option(argc, argv, "--seed", "RINGSWITCH_SIM_SEED", std::random_device{}());
  const uint64_t steps = Option(argc, argv, "--steps", "RINGSWITCH_SIM_STEPS", kStepsDefault);
  std::printf("bridge_sim --seed %llu --steps %llu\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(steps));
  std::fflush(stdout);
  Simulation simulation(seed);
  const bool passed = simulation.Run(steps);
  std::printf("%s: %llu frames, %llu forwarded, %llu not learned for a full bucket\n",
              passed ? "passed" : "FAILED", static_cast<unsigned long long>(simulation.step()),
              static_cast<unsigned long long>(simulation.forwarded()),
              static_cast<unsigned long long>(simulation.bucket_refusals()));
  return passed ? 0 : 1;
}
