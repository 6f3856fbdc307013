// What happens when more comes than the dataplane can take: nobody is starved, nothing is swapped, every
// frame is accounted for, and afterwards every port answers.

#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include "tests/integration/testbed.h"

namespace ringswitch::test {
namespace {

using bridge::DropReason;

// More than any queue and pool can hold; under a sanitizer that slows everything down, less will do.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint32_t kStorm = 4'000;
constexpr int kManyPods = 16;
#else
constexpr uint32_t kStorm = 20'000;
constexpr int kManyPods = 64;
#endif

class DataplaneLoad : public testing::TestWithParam<BedOptions> {
 protected:
  DataplaneLoad() : bed_(GetParam()) {}

  // Every pod sends `frames` numbered broadcasts, one pod after the other; every other must get all of them,
  // in order.
  void ExpectEveryPodAnswers(uint32_t frames) {
    for (int from = 0; from < bed_.pod_count(); ++from) {
      for (uint32_t i = 0; i < frames; ++i)
        ASSERT_TRUE(bed_.pod(from).Send(MakeFrame(kBroadcast, PodMac(from), i)));
      std::vector<uint32_t> expected(frames);
      std::iota(expected.begin(), expected.end(), 0u);
      for (int to = 0; to < bed_.pod_count(); ++to) {
        if (to == from) continue;
        EXPECT_EQ(bed_.pod(to).ReceiveNumbers(frames), expected) << "from " << from << " to " << to;
      }
    }
  }
  void DrainAll() {
    for (int pod = 0; pod < bed_.pod_count(); ++pod) bed_.pod(pod).Discard();
  }

  Testbed bed_;
};

INSTANTIATE_TEST_SUITE_P(All, DataplaneLoad,
                         testing::Values(Variant(RxMode::kAuto, 1), Variant(RxMode::kAuto, 2),
                                         Variant(RxMode::kAuto, 1, kBuffersPerWorkerMin),
                                         Variant(RxMode::kOneshot, 1),
                                         Variant(RxMode::kOneshot, 2, kBuffersPerWorkerMin),
                                         Variant(RxMode::kAuto, 1, PodKind::kVeth),
                                         Variant(RxMode::kOneshot, 2, kBuffersPerWorkerMin, PodKind::kMixed),
                                         Variant(RxMode::kAuto, 4, PodKind::kMixed),
                                         Variant(RxMode::kOneshot, 2, PodKind::kVeth),
                                         Variant(RxMode::kOneshot, 1, kBuffersPerWorkerMin, PodKind::kMixed)),
                         VariantName);

// BR-04: a burst while the workers stand still, five times; then every port answers.
TEST_P(DataplaneLoad, NoPortIsDeafAfterABurst) {
  for (int i = 0; i < 4; ++i) bed_.AddPod();
  for (int round = 0; round < 5; ++round) {
    {
      StalledWorkers stalled;
      for (uint32_t i = 0; i < kStorm; ++i) bed_.pod(0).Send(MakeFrame(kBroadcast, PodMac(0), i));
    }
    bed_.Settle();
    DrainAll();
    ExpectEveryPodAnswers(100);
  }
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneLoad, ManyPortsAnswerAfterABroadcastStorm) {
  for (int i = 0; i < kManyPods; ++i) bed_.AddPod();
  for (uint32_t i = 0; i < kStorm; ++i) bed_.pod(0).Send(MakeFrame(kBroadcast, PodMac(0), i));
  bed_.Settle();
  bed_.ExpectLedgersBalance();
  DrainAll();
  ExpectEveryPodAnswers(3);
  bed_.ExpectLedgersBalance();
}

// Everybody at once, each to its neighbour and now and then to all.
TEST_P(DataplaneLoad, OrderIsKeptUnderLoadFromAllSides) {
  constexpr int kPods = 4;
  constexpr uint32_t kFrames = kStorm;
  for (int i = 0; i < kPods; ++i) bed_.AddPod();
  for (int i = 0; i < kPods; ++i) bed_.pod(i).Send(MakeFrame(kBroadcast, PodMac(i), 0));
  bed_.Settle();
  DrainAll();
  std::vector<std::thread> senders;
  for (int pod = 0; pod < kPods; ++pod) {
    senders.emplace_back([this, pod] {
      for (uint32_t i = 0; i < kFrames; ++i) {
        bed_.pod(pod).Send(MakeFrame(i % 16 == 0 ? kBroadcast : PodMac((pod + 1) % kPods), PodMac(pod), i));
      }
    });
  }
  for (std::thread& sender : senders) sender.join();
  bed_.Settle();
  for (int to = 0; to < kPods; ++to) {
    std::vector<int64_t> last(kPods, -1);
    while (std::optional<Bytes> frame = bed_.pod(to).Receive(std::chrono::milliseconds(0))) {
      const int from =
          static_cast<int>(bridge::MacAddress::FromBytes(&(*frame)[6]).bits() - PodMac(0).bits());
      ASSERT_TRUE(from >= 0 && from < kPods);
      ASSERT_GT(NumberOf(*frame), last[from]) << "from " << from << " to " << to;
      last[from] = NumberOf(*frame);
    }
  }
  bed_.ExpectLedgersBalance();
}

// However many buffers there are.
class DataplaneIdle : public DataplaneLoad {};
INSTANTIATE_TEST_SUITE_P(All, DataplaneIdle,
                         testing::Values(Variant(RxMode::kAuto, 1, PodKind::kMixed),
                                         Variant(RxMode::kOneshot, 2, PodKind::kMixed)),
                         VariantName);

TEST_P(DataplaneIdle, UsesNoCpu) {
  for (int i = 0; i < kManyPods; ++i) bed_.AddPod();
  ExpectEveryPodAnswers(1);
  ::usleep(300'000);
  timespec before{}, after{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  ::usleep(1'000'000);
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  const double used_ms = (after.tv_sec - before.tv_sec) * 1e3 + (after.tv_nsec - before.tv_nsec) / 1e6;
  EXPECT_LT(used_ms, 10) << "ms of CPU in 1 s";
}

// Four workers forward on one switch while control threads do all at once that they may: the shared FDB is
// learned into, aged, flushed, listed and logged, captures come and go, ports change, counters are read. For
// ThreadSanitizer, and for the books afterwards.
class DataplaneBusy : public DataplaneLoad {
 protected:
  static constexpr int kPods = 8;
  static constexpr uint32_t kSenders = 4;
  static constexpr uint32_t kStations = 512;

  // Each sends for two pods: from their own addresses, and from many that move from pod to pod.
  void Send(uint32_t sender) {
    for (uint32_t i = 0; !stop_; ++i) {
      const int pod = static_cast<int>(sender + i % 2 * kSenders);
      const bridge::MacAddress station(0x0200'1000'0000 + (i / 4 + sender) % kStations);
      const bridge::MacAddress source = i % 4 == 3 ? station : PodMac(pod);
      const bridge::MacAddress destination =
          i % 16 == 0 ? kBroadcast : PodMac(static_cast<int>(i / 2 % kPods));
      bed_.pod(pod).Send(MakeFrame(destination, source, i));
      if (i % 64 == 0) ::usleep(500);
    }
  }
  void ChangeFdb() {
    Dataplane& dataplane = bed_.dataplane();
    const bridge::SwitchIndex index = bed_.switch_index();
    for (uint32_t round = 0; !stop_; ++round) {
      const bridge::FdbKey key{bridge::MacAddress(0x0200'2000'0000 + round % 64), 1};
      const bridge::PortIndex port = bed_.port(static_cast<int>(round % kPods));
      dataplane.AddStaticFdbEntry(index, key, port, true);
      if (round % 8 == 0) dataplane.FlushFdb(index, {.port = port, .kind = bridge::FdbKind::kDynamic});
      if (round % 32 == 0) dataplane.FlushFdb(index, {.kind = bridge::FdbKind::kStatic});
      if (round % 3 == 0) dataplane.RemoveFdbEntry(index, key);
      bridge::SwitchConfig config;
      config.ageing_time_s = 1;
      config.vlan_counters = round % 2 == 0;
      config.flap_limit = round % 4 < 2 ? 8 : 0;
      config.flap_hold_s = 1;
      dataplane.UpdateSwitch(index, config);
      bridge::PortConfig changed = AccessPort(index, 1);
      changed.mac_limit = round % 2 == 0 ? 0 : 16;
      dataplane.UpdatePort(bed_.port(kPods - 1), changed);
      ::usleep(2000);
    }
  }
  void ReadFdb() {
    const bridge::SwitchIndex index = bed_.switch_index();
    while (!stop_) {
      std::vector<bridge::FdbRow> rows;
      for (uint32_t cursor = bed_.dataplane().ListFdb(index, 0, {}, 100, &rows); cursor != 0;)
        cursor = bed_.dataplane().ListFdb(index, cursor, {}, 100, &rows);
      listed_ += rows.size();
      std::vector<bridge::FdbChange> changes;
      bed_.dataplane().TakeFdbChanges(index, &changes);
      logged_ += changes.size();
      (void)bed_.dataplane().FdbMoves(index);
      (void)bed_.dataplane().ReadVlans(index);
      (void)bed_.dataplane().ReadSwitch(index);
      ::usleep(1000);
    }
  }
  void Capture() {
    CaptureOptions options;
    for (int pod = 0; pod < kPods; ++pod) options.ports.set(bed_.port(pod));
    while (!stop_) {
      ringswitch::Capture capture(options);
      ASSERT_TRUE(bed_.dataplane().StartCapture(&capture).ok());
      std::vector<CapturedFrame> frames;
      for (int look = 0; look < 3; ++look) {
        ::usleep(1000);
        capture.Take(1000, &frames);
      }
      bed_.dataplane().StopCapture(&capture);
      capture.Take(1000, &frames);
      captured_ += frames.size();
    }
  }

  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> listed_{0}, logged_{0}, captured_{0};
};

INSTANTIATE_TEST_SUITE_P(All, DataplaneBusy, testing::Values(Variant(RxMode::kAuto, 4, PodKind::kMixed)),
                         VariantName);

TEST_P(DataplaneBusy, FourWorkersAndAllThatTheControlSideDoes) {
  for (int i = 0; i < kPods; ++i) bed_.AddPod();
  bed_.dataplane().SetFdbLogging(bed_.switch_index(), true);
  std::vector<std::thread> threads;
  for (uint32_t sender = 0; sender < kSenders; ++sender)
    threads.emplace_back([this, sender] { Send(sender); });
  threads.emplace_back([this] { ChangeFdb(); });
  threads.emplace_back([this] { ReadFdb(); });
  for (int i = 0; i < 2; ++i) threads.emplace_back([this] { Capture(); });
  ::usleep(2'000'000);
  stop_ = true;
  for (std::thread& thread : threads) thread.join();
  bed_.Settle();
  EXPECT_GT(listed_, 0u);
  EXPECT_GT(logged_, 0u);
  EXPECT_GT(captured_, 0u);
  bed_.ExpectLedgersBalance();
  bed_.dataplane().FlushFdb(bed_.switch_index(), {});
  bed_.dataplane().UpdateSwitch(bed_.switch_index(), {});
  DrainAll();
  ExpectEveryPodAnswers(10);
  bed_.ExpectLedgersBalance();
}

// Ten ports with more frames waiting than the pool can hold, all for another: as long as all ten have some
// left, each gets within 20 % of a tenth. The frames wait in the devices' queues before the worker begins, so
// what is seen is the dataplane's choice, not that of the machine's scheduler; and on one worker, since with
// two it is two processors that are shared.
class DataplaneFairness : public DataplaneLoad {};

INSTANTIATE_TEST_SUITE_P(
    All, DataplaneFairness,
    testing::Values(Variant(RxMode::kAuto, 1), Variant(RxMode::kAuto, 1, kBuffersPerWorkerMin),
                    Variant(RxMode::kOneshot, 1), Variant(RxMode::kOneshot, 1, kBuffersPerWorkerMin),
                    Variant(RxMode::kAuto, 1, PodKind::kVeth), Variant(RxMode::kAuto, 1, PodKind::kMixed),
                    Variant(RxMode::kOneshot, 1, PodKind::kVeth),
                    Variant(RxMode::kOneshot, 1, PodKind::kMixed)),
    VariantName);

TEST_P(DataplaneFairness, TenSendersShareEvenly) {
  constexpr int kSenders = 10;
  constexpr uint32_t kFrames = 4'000;
  for (int i = 0; i <= kSenders; ++i) bed_.AddPod();
  bed_.pod(kSenders).Send(MakeFrame(kBroadcast, PodMac(kSenders), 0));
  for (int i = 0; i < kSenders; ++i) SetQueueLength(bed_.pod(i).ifname(), kFrames);
  bed_.Settle();
  {
    StalledWorkers stalled;
    for (int from = 0; from < kSenders; ++from) {
      const Bytes frame = MakeFrame(PodMac(kSenders), PodMac(from), 0);
      for (uint32_t i = 0; i < kFrames; ++i) bed_.pod(from).Send(frame);
    }
  }
  bed_.Settle();
  std::array<uint32_t, kSenders> counts{};
  uint32_t seen = 0;
  while (*std::max_element(counts.begin(), counts.end()) < kFrames - 100) {
    std::optional<Bytes> frame = bed_.pod(kSenders).Receive();
    ASSERT_TRUE(frame);
    ++counts[(*frame)[11] - PodMac(0).Bytes()[5]];
    ++seen;
  }
  for (uint32_t count : counts) EXPECT_NEAR(count, seen / 10.0, seen / 10.0 * 0.2);
  bed_.ExpectLedgersBalance();
}

}  // namespace
}  // namespace ringswitch::test
