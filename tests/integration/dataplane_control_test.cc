// What the control side changes and reads while frames flow: port and switch attributes, counters per VLAN,
// the log of FDB changes, captures.

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/integration/testbed.h"

namespace ringswitch::test {
namespace {

using bridge::DropReason;

class DataplaneControl : public testing::TestWithParam<BedOptions> {
 protected:
  DataplaneControl() : bed_(GetParam()) {}
  bridge::PortConfig Access() { return AccessPort(bed_.switch_index(), 1); }
  void Update(int pod, uint32_t features) {
    bridge::PortConfig config = Access();
    config.features = features;
    bed_.dataplane().UpdatePort(bed_.port(pod), config);
  }
  void SendAndSettle(int pod, const Bytes& frame) {
    ASSERT_TRUE(bed_.pod(pod).Send(frame));
    bed_.Settle();
  }
  bool Knows(int pod) {
    return bed_.dataplane().FindFdbEntry(bed_.switch_index(), {PodMac(pod), 1}).has_value();
  }
  bool IsBlocked(int pod) { return bed_.dataplane().ReadPort(bed_.port(pod)).blocked; }

  Testbed bed_;
};

INSTANTIATE_TEST_SUITE_P(All, DataplaneControl,
                         testing::Values(Variant(RxMode::kAuto, 1),
                                         Variant(RxMode::kAuto, 2, PodKind::kMixed),
                                         Variant(RxMode::kOneshot, 2, PodKind::kMixed)),
                         VariantName);

TEST_P(DataplaneControl, PortThatIsSetDownIsForgottenAndSilent) {
  const int a = bed_.AddPod(), b = bed_.AddPod();
  SendAndSettle(b, MakeFrame(kBroadcast, PodMac(b), 1));
  ASSERT_TRUE(Knows(b));
  Update(b, bridge::kAdminDown);
  EXPECT_FALSE(Knows(b));
  bed_.pod(b).Discard();
  SendAndSettle(b, MakeFrame(kBroadcast, PodMac(b), 2));
  EXPECT_FALSE(Knows(b));
  EXPECT_EQ(bed_.drops(b, DropReason::kPortDown), 1u);
  SendAndSettle(a, MakeFrame(kBroadcast, PodMac(a), 3));
  EXPECT_FALSE(bed_.pod(b).Receive(kQuiet));
  Update(b, 0);
  ASSERT_TRUE(bed_.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), 4)));
  EXPECT_TRUE(bed_.pod(b).Receive());
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneControl, PortThatBpduGuardBlocksIsFreedByChangingTheGuard) {
  const int a = bed_.AddPod(), b = bed_.AddPod();
  Update(a, bridge::kBpduGuard);
  EXPECT_FALSE(IsBlocked(a));
  SendAndSettle(a, MakeFrame(bridge::MacAddress(0x0180'c200'0000), PodMac(a), 1));
  EXPECT_TRUE(IsBlocked(a));
  SendAndSettle(a, MakeFrame(kBroadcast, PodMac(a), 2));
  EXPECT_EQ(bed_.drops(a, DropReason::kPortBlocked), 1u);
  Update(a, 0);
  EXPECT_FALSE(IsBlocked(a));
  bed_.pod(b).Discard();
  ASSERT_TRUE(bed_.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), 3)));
  EXPECT_TRUE(bed_.pod(b).Receive());
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneControl, MemoryOfAPortGoesWithIt) {
  const int a = bed_.AddPod();
  Update(a, bridge::kBpduGuard);
  SendAndSettle(a, MakeFrame(bridge::MacAddress(0x0180'c200'0000), PodMac(a), 1));
  ASSERT_TRUE(IsBlocked(a));
  const bridge::PortIndex index = bed_.port(a);
  bed_.RemovePod(a);
  const int b = bed_.AddPod();
  ASSERT_EQ(bed_.port(b), index);
  EXPECT_FALSE(IsBlocked(b));
}

TEST_P(DataplaneControl, VlansAreCountedOnDemand) {
  const int a = bed_.AddPod(TrunkPort(bed_.switch_index(), {10, 20}));
  const int b = bed_.AddPod(TrunkPort(bed_.switch_index(), {10, 20}));
  SendAndSettle(a, MakeFrame(kBroadcast, PodMac(a), 1, 60, 10));
  EXPECT_TRUE(bed_.dataplane().ReadVlans(bed_.switch_index()).empty());
  bridge::SwitchConfig config;
  for (int round = 0; round < 3; ++round) {
    config.vlan_counters = true;
    bed_.dataplane().UpdateSwitch(bed_.switch_index(), config);
    SendAndSettle(a, MakeFrame(kBroadcast, PodMac(a), 1, 60, 10));
    SendAndSettle(b, MakeFrame(kBroadcast, PodMac(b), 1, 60, 20));
    SendAndSettle(b, MakeFrame(kBroadcast, PodMac(b), 1, 60, 20));
    const std::vector<VlanTotals> vlans = bed_.dataplane().ReadVlans(bed_.switch_index());
    ASSERT_EQ(vlans.size(), 2u);
    EXPECT_EQ(vlans[0].vid, 10);
    EXPECT_EQ(vlans[0].receive_frames, 1u);
    EXPECT_EQ(vlans[0].receive_bytes, 64u);
    EXPECT_EQ(vlans[1].vid, 20);
    EXPECT_EQ(vlans[1].transmit_frames, 2u);
    config.vlan_counters = false;
    bed_.dataplane().UpdateSwitch(bed_.switch_index(), config);
    EXPECT_TRUE(bed_.dataplane().ReadVlans(bed_.switch_index()).empty());
  }
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneControl, ChangesOfTheFdbAreToldInOrder) {
  const int a = bed_.AddPod(), b = bed_.AddPod();
  Dataplane& dataplane = bed_.dataplane();
  dataplane.SetFdbLogging(bed_.switch_index(), true);
  SendAndSettle(a, MakeFrame(kBroadcast, PodMac(7), 1));
  SendAndSettle(b, MakeFrame(kBroadcast, PodMac(7), 2));
  bed_.RemovePod(b);
  std::vector<bridge::FdbChange> changes;
  EXPECT_TRUE(dataplane.TakeFdbChanges(bed_.switch_index(), &changes));
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].target.port, bed_.port(a));
  EXPECT_EQ(changes[1].target.port, bed_.port(b));
  EXPECT_EQ(changes[2].target.kind, bridge::FdbKind::kNone);
  EXPECT_TRUE(dataplane.FdbMoves(bed_.switch_index()).empty()) << "one of the two ports is gone";
}

std::optional<CapturedFrame> Find(const std::vector<CapturedFrame>& frames, bridge::PortIndex port,
                                  CaptureDirection direction, std::optional<DropReason> dropped) {
  for (const CapturedFrame& frame : frames) {
    if (frame.port == port && frame.direction == direction && frame.dropped == dropped) return frame;
  }
  return std::nullopt;
}

TEST_P(DataplaneControl, CaptureSeesFramesComeGoAndDrop) {
  const int a = bed_.AddPod(TrunkPort(bed_.switch_index(), {1}));
  const int b = bed_.AddPod(), down = bed_.AddPod();
  bridge::PortConfig small = Access();
  small.mtu = 100;
  const int narrow = bed_.AddPod(small);
  SetLinkUp(bed_.near_ifname(down), false);
  CaptureOptions options;
  for (int pod : {a, b, down, narrow}) options.ports.set(bed_.port(pod));
  Capture capture(options);
  ASSERT_TRUE(bed_.dataplane().StartCapture(&capture).ok());
  const Bytes tagged = MakeFrame(kBroadcast, PodMac(a), 1, 500, 1),
              plain = MakeFrame(kBroadcast, PodMac(a), 1, 500);
  SendAndSettle(a, tagged);
  SendAndSettle(b, MakeFrame(kBroadcast, kBroadcast, 2));
  bed_.dataplane().StopCapture(&capture);
  SendAndSettle(a, tagged);
  std::vector<CapturedFrame> frames;
  capture.Take(100, &frames);
  EXPECT_EQ(frames.size(), 5u);
  const auto received = Find(frames, bed_.port(a), CaptureDirection::kReceive, std::nullopt);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->bytes, tagged);
  EXPECT_EQ(received->length, tagged.size());
  const auto sent = Find(frames, bed_.port(b), CaptureDirection::kTransmit, std::nullopt);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->bytes, plain);
  EXPECT_TRUE(Find(frames, bed_.port(down), CaptureDirection::kTransmit, DropReason::kEgressPortDown));
  EXPECT_TRUE(Find(frames, bed_.port(narrow), CaptureDirection::kTransmit, DropReason::kEgressMtuExceeded));
  EXPECT_TRUE(Find(frames, bed_.port(b), CaptureDirection::kReceive, DropReason::kInvalidSource));
  EXPECT_NE(received->time_ns, 0u);
}

TEST_P(DataplaneControl, AsManyPortsAsALinuxBridgeAndOneMore) {  // X1, where a number is lost to port 0
  std::vector<bridge::PortIndex> ports;
  for (;;) {
    Device device;
    device.file = File(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const auto port = bed_.dataplane().AddPort(Access(), std::move(device));
    if (!port.ok()) {
      EXPECT_EQ(port.status().code(), absl::StatusCode::kResourceExhausted);
      break;
    }
    ports.push_back(*port);
  }
  EXPECT_EQ(ports.size(), bridge::kPortsMax);
  bed_.dataplane().RemovePort(ports.back());
  ports.back() = bed_.port(bed_.AddPod());
  SendAndSettle(0, MakeFrame(kBroadcast, PodMac(0), 1));
  EXPECT_TRUE(Knows(0));
  for (const bridge::PortIndex port : ports) {
    if (port != bed_.port(0)) bed_.dataplane().RemovePort(port);
  }
}

TEST_P(DataplaneControl, CapturesComeAndGoUnderLoad) {
  const int a = bed_.AddPod(), b = bed_.AddPod();
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> sent{0};
  std::thread sender([&] {
    while (!stop) {
      if (bed_.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), sent))) ++sent;
      ::usleep(50);
    }
  });
  CaptureOptions options;
  options.ports.set();
  size_t seen = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::unique_ptr<Capture>> captures;
    for (size_t i = 0; i < kCapturesMax; ++i) {
      captures.push_back(std::make_unique<Capture>(options));
      ASSERT_TRUE(bed_.dataplane().StartCapture(captures.back().get()).ok());
    }
    Capture one_more(options);
    EXPECT_EQ(bed_.dataplane().StartCapture(&one_more).code(), absl::StatusCode::kResourceExhausted);
    ::usleep(1000);
    for (auto& capture : captures) {
      bed_.dataplane().StopCapture(capture.get());
      std::vector<CapturedFrame> frames;
      capture->Take(10'000, &frames);
      seen += frames.size();
    }
  }
  stop = true;
  sender.join();
  EXPECT_GT(seen, 0u);
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.totals(b).transmit_frames, sent);
}

}  // namespace
}  // namespace ringswitch::test
