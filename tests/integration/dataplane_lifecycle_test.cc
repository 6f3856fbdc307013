// Ports come and go, devices go down and vanish, while frames flow.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/integration/testbed.h"

namespace ringswitch::test {
namespace {

using bridge::DropReason;

class DataplaneLifecycle : public testing::TestWithParam<BedOptions> {
 protected:
  DataplaneLifecycle() : bed_(GetParam()) {}
  Testbed bed_;
};

INSTANTIATE_TEST_SUITE_P(All, DataplaneLifecycle,
                         testing::Values(Variant(RxMode::kAuto, 1), Variant(RxMode::kAuto, 2),
                                         Variant(RxMode::kOneshot, 1), Variant(RxMode::kOneshot, 2)),
                         VariantName);

// A pod that sends numbered frames at a modest pace until told to stop.
class Stream {
 public:
  Stream(Pod* pod, bridge::MacAddress destination, bridge::MacAddress source) {
    thread_ = std::thread([this, pod, destination, source] {
      while (!stop_) {
        if (pod->Send(MakeFrame(destination, source, sent_))) ++sent_;
        ::usleep(100);
      }
    });
  }
  uint32_t Stop() {
    stop_ = true;
    thread_.join();
    return sent_;
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<uint32_t> sent_{0};
  std::thread thread_;
};

TEST_P(DataplaneLifecycle, TwoHundredPortsComeAndGoUnderLoadWithoutLossElsewhere) {
  const int a = bed_.AddPod(), b = bed_.AddPod();
  bed_.pod(b).Send(MakeFrame(kBroadcast, PodMac(b), 0));
  bed_.Settle();
  bed_.pod(b).Discard();
  Stream steady(&bed_.pod(a), PodMac(b), PodMac(a));
  const int files = OpenFileCount();
  for (int round = 0; round < 200; ++round) {
    absl::StatusOr<File> tap = OpenTap("x0", true);
    ASSERT_TRUE(tap.ok()) << tap.status();
    SetLinkUp("x0", true);
    Pod pod("x0");
    absl::StatusOr<bridge::PortIndex> port =
        bed_.dataplane().AddPort(AccessPort(bed_.switch_index(), 1), TapDevice(*std::move(tap)));
    ASSERT_TRUE(port.ok()) << port.status();
    for (uint32_t i = 0; i < 20; ++i) pod.Send(MakeFrame(kBroadcast, PodMac(100), 1'000'000 + i));
    File closed = bed_.dataplane().RemovePort(*port);
    ASSERT_TRUE(closed.is_open());
    closed.Close();
  }
  EXPECT_EQ(OpenFileCount(), files);
  const uint32_t sent = steady.Stop();
  bed_.ExpectLedgersBalance();
  uint32_t expected = 0;
  while (std::optional<Bytes> frame = bed_.pod(b).Receive(kQuiet)) {
    const uint32_t number = NumberOf(*frame);
    if (number >= 1'000'000) continue;
    ASSERT_EQ(number, expected);
    ++expected;
  }
  EXPECT_EQ(expected, sent);
  bridge::FdbFilter all;
  std::vector<bridge::FdbRow> rows;
  bed_.dataplane().ListFdb(bed_.switch_index(), 0, all, 1000, &rows);
  EXPECT_EQ(rows.size(), 2u) << "entries of removed ports stayed";
}

TEST_P(DataplaneLifecycle, PortThatIsDownDropsAndComesBack) {
  const int a = bed_.AddPod(), b = bed_.AddPod(), c = bed_.AddPod();
  SetLinkUp(bed_.pod(b).ifname(), false);
  for (uint32_t i = 0; i < 50; ++i) bed_.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), i));
  EXPECT_EQ(bed_.pod(c).ReceiveNumbers(50).size(), 50u);
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.drops(b, DropReason::kEgressPortDown), 50u);
  EXPECT_FALSE(bed_.dataplane().ReadPort(bed_.port(b)).device_gone);
  SetLinkUp(bed_.pod(b).ifname(), true);
  Pod again(bed_.pod(b).ifname());  // packet sockets of a device that went down report that first
  ASSERT_TRUE(bed_.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), 99)));
  std::optional<Bytes> frame = again.Receive();
  ASSERT_TRUE(frame);
  EXPECT_EQ(NumberOf(*frame), 99u);
  ASSERT_TRUE(again.Send(MakeFrame(kBroadcast, PodMac(b), 100)));
  bed_.pod(a).Receive(kQuiet);
  bed_.Settle();
  EXPECT_EQ(bed_.totals(b).receive_frames, 1u);
}

// A failed write is counted a moment after it was tried: on the port that it was for, not on the next owner
// of its index.
TEST_P(DataplaneLifecycle, PortRemovedWhileItsWritesFailLeavesNothingToTheNext) {
  const int a = bed_.AddPod();
  Stream steady(&bed_.pod(a), kBroadcast, PodMac(a));
  for (int round = 0; round < 50; ++round) {
    const int down = bed_.AddPod();
    SetLinkUp(bed_.pod(down).ifname(), false);
    ::usleep(1000);
    bed_.RemovePod(down);
  }
  steady.Stop();
  bed_.ExpectLedgersBalance();
  EXPECT_NE(bed_.dataplane()
                .ReadSwitch(bed_.switch_index())
                .drops[static_cast<size_t>(DropReason::kEgressPortDown)],
            0u);
}

TEST_P(DataplaneLifecycle, DeletedDeviceIsReportedAndDoesNotSpin) {  // BR-15, D3
  const int a = bed_.AddPod(), b = bed_.AddPod(), c = bed_.AddPod();
  DeleteLink(bed_.pod(b).ifname());
  EXPECT_TRUE(bed_.dataplane().ReadPort(bed_.port(b)).device_gone);
  for (uint32_t i = 0; i < 50; ++i) bed_.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), i));
  EXPECT_EQ(bed_.pod(c).ReceiveNumbers(50).size(), 50u);
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.drops(b, DropReason::kEgressDeviceGone), 50u);
  timespec before{}, after{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  ::usleep(500'000);
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  EXPECT_LT((after.tv_sec - before.tv_sec) * 1e3 + (after.tv_nsec - before.tv_nsec) / 1e6, 20);
  File file = bed_.dataplane().RemovePort(bed_.port(b));
  EXPECT_TRUE(file.is_open());
}

TEST_P(DataplaneLifecycle, CountersOfARemovedPortStayInTheSwitch) {
  const int a = bed_.AddPod(), b = bed_.AddPod();
  for (uint32_t i = 0; i < 10; ++i) bed_.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), i));
  bed_.Settle();
  const bridge::PortTotals before = bed_.dataplane().ReadSwitch(bed_.switch_index());
  bed_.RemovePod(b);
  const bridge::PortTotals after = bed_.dataplane().ReadSwitch(bed_.switch_index());
  EXPECT_EQ(after.transmit_frames, before.transmit_frames);
  EXPECT_EQ(after.queued_copies, 10u);
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneLifecycle, VlanThatAPortLeavesIsForgotten) {
  const int a = bed_.AddPod(TrunkPort(bed_.switch_index(), {10, 20}));
  for (uint16_t vid : {10, 20}) bed_.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), 0, 64, vid));
  bed_.Settle();
  EXPECT_EQ(bed_.dataplane().FdbDynamicCount(bed_.switch_index(), bed_.port(a)), 2u);
  bed_.dataplane().UpdatePort(bed_.port(a), TrunkPort(bed_.switch_index(), {20}));
  EXPECT_EQ(bed_.dataplane().FdbDynamicCount(bed_.switch_index(), bed_.port(a)), 1u);
  EXPECT_FALSE(bed_.dataplane().FindFdbEntry(bed_.switch_index(), {PodMac(a), 10}));
}

TEST_P(DataplaneLifecycle, TapOutlivesTheDataplaneAndIsAttachedAgain) {  // D4, E15
  const int a = bed_.AddPod();
  const std::string ifname = bed_.pod(a).ifname();
  EXPECT_EQ(OpenTap(ifname, true).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(OpenTap(ifname, false).status().code(), absl::StatusCode::kFailedPrecondition)
      << "held by this dataplane";
  File last = bed_.dataplane().RemovePort(bed_.port(a));
  ASSERT_TRUE(SetTapPersistent(last, true).ok());
  last.Close();
  absl::StatusOr<File> tap = OpenTap(ifname, false);
  ASSERT_TRUE(tap.ok()) << tap.status();
  absl::StatusOr<bridge::PortIndex> port =
      bed_.dataplane().AddPort(AccessPort(bed_.switch_index(), 1), TapDevice(*std::move(tap)));
  ASSERT_TRUE(port.ok());
  const int b = bed_.AddPod();
  ASSERT_TRUE(bed_.pod(b).Send(MakeFrame(kBroadcast, PodMac(b), 7)));
  std::optional<Bytes> frame = bed_.pod(a).Receive();
  ASSERT_TRUE(frame);
  EXPECT_EQ(NumberOf(*frame), 7u);
}

TEST(DataplaneTap, WrongDevicesAreRefused) {
  EnterFreshNamespace();
  EXPECT_EQ(OpenTap("nosuch", false).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenTap("lo", false).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(OpenTap("lo", true).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(OpenTap("tap%d", true).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenTap("", true).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenTap("sixteen-letters-", true).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(DataplaneStart, OptionsOutOfRangeAreRefusedByName) {
  DataplaneOptions options;
  options.workers = 5;
  EXPECT_EQ(Dataplane::Start(options).status().code(), absl::StatusCode::kInvalidArgument);
  options = {};
  options.buffers_per_worker = 8;
  absl::Status status = Dataplane::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("buffers_per_worker"), std::string::npos);
}

}  // namespace
}  // namespace ringswitch::test
