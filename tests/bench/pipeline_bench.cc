// What one frame costs the bridge, without any I/O: Google Benchmark, one iteration is one Process.
//
// Each also counts what the frame path allocates ("allocations", of all its iterations), and fails if that is
// not 0.

#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "dataplane/bridge/epoch.h"
#include "dataplane/bridge/fdb.h"
#include "dataplane/bridge/pipeline.h"

namespace {

std::atomic<uint64_t> allocations{0};

void* Allocate(size_t size, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(size_t size) {
  return Allocate(size, alignof(std::max_align_t));
}
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace ringswitch::bridge {
namespace {

constexpr uint32_t kNow = 100;
constexpr VlanId kVid = 10;
constexpr uint32_t kFrameLength = 60;
constexpr size_t kStations = 1024;  // a table in use, not one hot entry
using Frame = std::array<uint8_t, kFrameLength>;

MacAddress Station(size_t number) {
  return MacAddress(0x0200'0000'0000 + number);
}

Frame MakeFrame(MacAddress destination, MacAddress source) {
  Frame frame{};
  const auto to = destination.Bytes(), from = source.Bytes();
  for (size_t i = 0; i < 6; ++i) {
    frame[i] = to[i];
    frame[6 + i] = from[i];
  }
  StoreBe16(frame.data() + kAddressesLength, 0x88b5);
  return frame;
}

// Access ports of one VLAN, the last one a trunk.
class Bed {
 public:
  explicit Bed(size_t port_count)
      : ports_(port_count), counters_(kPortsMax), meters_(kPortsMax), pipeline_(counters_, meters_, 0) {
    entry_.fdb = &fdb_;
    for (size_t i = 0; i < port_count; ++i) {
      ports_[i].vlan_mode = i + 1 == port_count ? VlanMode::kTrunk : VlanMode::kAccess;
      ports_[i].members.Add(kVid);
      if (ports_[i].vlan_mode == VlanMode::kAccess) {
        ports_[i].pvid = kVid;
        ports_[i].untagged.Add(kVid);
      }
      config_.ports[i] = &ports_[i];
      entry_.ports.push_back(static_cast<PortIndex>(i));
    }
    config_.switches[0] = &entry_;
    pipeline_.SetConfig(&config_);
    pipeline_.SetTime({.ns = kNow * 1'000'000'000ULL, .s = kNow});
    epochs_.Enter(0);
  }

  Fdb& fdb() { return fdb_; }
  PortConfig& port(PortIndex index) { return ports_[index]; }
  const Decision& Process(PortIndex ingress, const Frame& frame) {
    return pipeline_.Process(ingress, frame.data(), kFrameLength, kFrameLength);
  }

 private:
  EpochDomain epochs_;
  Fdb fdb_{kFdbCapacityDefault, 42, &epochs_};
  std::vector<PortConfig> ports_;
  SwitchEntry entry_;
  ForwardingConfig config_;
  std::vector<PortCounters> counters_;
  std::vector<PortMeters> meters_;
  Pipeline pipeline_;
};

void Report(benchmark::State& state, uint64_t allocated) {
  state.SetItemsProcessed(state.iterations());
  state.counters["allocations"] = static_cast<double>(allocated);
  if (allocated != 0) state.SkipWithError("the frame path allocates");
}

// Sends `frames` from port 0, one after the other, as long as the benchmark runs.
void Run(benchmark::State& state, Bed* bed, const std::vector<Frame>& frames) {
  const uint64_t before = allocations.load();
  uint64_t during = before;
  size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bed->Process(0, frames[i]).egress.size());
    i = i + 1 == frames.size() ? 0 : i + 1;
    during = allocations.load(std::memory_order_relaxed);
  }
  Report(state, during - before);
}

// Stations live on port `at`; frames come from as many others on port 0.
void RunKnown(benchmark::State& state, PortIndex at, size_t ports, uint32_t features) {
  Bed bed(ports);
  bed.port(0).features = features;
  bed.port(at).features = features;
  std::vector<Frame> frames;
  for (size_t i = 0; i < kStations; ++i) {
    bed.fdb().Learn({Station(i), kVid}, at, 0, kNow);
    bed.fdb().Learn({Station(kStations + i), kVid}, 0, 0, kNow);
    frames.push_back(MakeFrame(Station(i), Station(kStations + i)));
  }
  Run(state, &bed, frames);
}

void KnownUnicast(benchmark::State& state) {
  RunKnown(state, 1, 3, 0);
}
void KnownUnicastToTrunk(benchmark::State& state) {
  RunKnown(state, 2, 3, 0);
}
// Ports that have features, none of which stops this frame.
void KnownUnicastGuarded(benchmark::State& state) {
  RunKnown(
      state, 1, 3,
      kBpduGuard | kRouterAdvertisementGuard | kDhcpServerGuard | kNoUnknownUnicastFlood | kStormControl);
}

// The same, and the tag really pushed.
void KnownUnicastPushTag(benchmark::State& state) {
  Bed bed(2);
  bed.fdb().Learn({Station(1), kVid}, 1, 0, kNow);
  std::array<uint8_t, kTagLength + kFrameLength> buffer{};
  const Frame frame = MakeFrame(Station(1), Station(2));
  uint8_t* start = buffer.data() + kTagLength;
  std::copy(frame.begin(), frame.end(), start);
  const uint64_t before = allocations.load();
  uint64_t during = before;
  for (auto _ : state) {
    const Decision& decision = bed.Process(0, frame);
    uint8_t* tagged = PushTag(start, decision.tci);
    benchmark::DoNotOptimize(tagged);
    start = PopTag(tagged);
    benchmark::ClobberMemory();
    during = allocations.load(std::memory_order_relaxed);
  }
  Report(state, during - before);
}

void Flood(benchmark::State& state) {
  Bed bed(static_cast<size_t>(state.range(0)) + 1);
  Run(state, &bed, {MakeFrame(MacAddress(0xffff'ffff'ffff), Station(1))});
}

// Destinations that nobody has: both buckets are read, then the frame floods to two ports.
void UnknownUnicast(benchmark::State& state) {
  Bed bed(3);
  std::vector<Frame> frames;
  for (size_t i = 0; i < kStations; ++i) {
    bed.fdb().Learn({Station(i), kVid}, 0, 0, kNow);
    frames.push_back(MakeFrame(Station(kStations + i), Station(i)));
  }
  Run(state, &bed, frames);
}

// A source flood against a full table: what an attacker can make each frame cost.
void SourceFloodAtLimit(benchmark::State& state) {
  Bed bed(2);
  for (size_t i = 0; i < kFdbCapacityDefault; ++i) bed.fdb().Learn({Station(i), kVid}, 1, 0, kNow);
  std::vector<Frame> frames;
  for (size_t i = 0; i < kStations; ++i) frames.push_back(MakeFrame(Station(0), Station(1'000'000 + i)));
  Run(state, &bed, frames);
}

BENCHMARK(KnownUnicast);
BENCHMARK(KnownUnicastToTrunk);
BENCHMARK(KnownUnicastGuarded);
BENCHMARK(KnownUnicastPushTag);
BENCHMARK(Flood)->Arg(8)->Arg(64);
BENCHMARK(UnknownUnicast);
BENCHMARK(SourceFloodAtLimit);

}  // namespace
}  // namespace ringswitch::bridge

BENCHMARK_MAIN();
