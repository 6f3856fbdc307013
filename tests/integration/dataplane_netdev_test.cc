// Ports that are Ethernet devices, the near ends of veths: frames cross from TAPs and back unchanged, nothing
// is heard that the device itself sends, devices go down, vanish and come back, slow ones harm nobody.

#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "dataplane/io/virtio_net_header.h"
#include "tests/integration/testbed.h"

namespace ringswitch::test {
namespace {

using bridge::DropReason;

class DataplaneNetdev : public testing::TestWithParam<BedOptions> {
 protected:
  DataplaneNetdev() : bed_(GetParam()) {}
  bridge::PortConfig Access(uint32_t mtu = 1500) {
    bridge::PortConfig config = AccessPort(bed_.switch_index(), 10);
    config.mtu = mtu;
    return config;
  }
  bridge::PortConfig Trunk() { return TrunkPort(bed_.switch_index(), {10, 20}, 30); }
  int AddTap(const bridge::PortConfig& config) { return bed_.AddPod(config, PodKind::kTap); }
  int AddVeth(const bridge::PortConfig& config) { return bed_.AddPod(config, PodKind::kVeth); }
  // A veth whose device takes no offload: what is written is complete.
  int AddPlainVeth(const bridge::PortConfig& config) {
    const int pod = AddVeth(config);
    bed_.dataplane().DetachDevice(bed_.port(pod)).Close();
    absl::StatusOr<Device> device = OpenNetdev(bed_.near_ifname(pod));
    EXPECT_TRUE(device.ok()) << device.status();
    device->takes_offload = false;
    EXPECT_TRUE(bed_.dataplane().AttachDevice(bed_.port(pod), *std::move(device)).ok());
    return pod;
  }
  void ExpectReceived(int pod, const Bytes& frame) {
    std::optional<Bytes> received = bed_.pod(pod).Receive();
    ASSERT_TRUE(received) << "pod " << pod << " received nothing";
    EXPECT_EQ(ToHex(*received), ToHex(frame)) << "pod " << pod;
  }
  void ExpectNothing(int pod) { EXPECT_FALSE(bed_.pod(pod).Receive(kQuiet)) << "pod " << pod; }
  PortStats stats(int pod) { return bed_.dataplane().ReadPort(bed_.port(pod)); }
  template <typename Condition>
  bool Soon(Condition&& condition) {
    for (int i = 0; i < 300 && !condition(); ++i) ::usleep(10'000);
    return condition();
  }

  Testbed bed_;
};

INSTANTIATE_TEST_SUITE_P(All, DataplaneNetdev,
                         testing::Values(Variant(RxMode::kAuto, 1), Variant(RxMode::kAuto, 2),
                                         Variant(RxMode::kOneshot, 1), Variant(RxMode::kOneshot, 2)),
                         VariantName);

TEST_P(DataplaneNetdev, FramesOfAllSizesCrossBothWays) {
  const int tap = AddTap(Access(9000)), veth = AddVeth(Access(9000)), other = AddVeth(Access(9000));
  for (size_t length : {14u, 15u, 18u, 59u, 60u, 61u, 64u, 1513u, 1514u, 1515u, 4096u, 9013u, 9014u}) {
    const Bytes out = MakeFrame(PodMac(veth), PodMac(tap), static_cast<uint32_t>(length), length);
    ASSERT_TRUE(bed_.pod(tap).Send(out)) << length;
    ExpectReceived(veth, out);
    const Bytes back = MakeFrame(PodMac(tap), PodMac(veth), static_cast<uint32_t>(length), length);
    ASSERT_TRUE(bed_.pod(veth).Send(back)) << length;
    ExpectReceived(tap, back);
    bed_.pod(other).Discard();
  }
  bed_.ExpectLedgersBalance();
}

// BR-01, P12: F3 exactly.
TEST_P(DataplaneNetdev, Br01TagsAreKept) {
  const int tap = AddTap(Trunk()), veth = AddVeth(Trunk()), other = AddVeth(Trunk());
  Bytes f3 = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0,    0,    0,   0x0a,
              0x01, 0x81, 0x00, 0xa0, 0x0a, 0x88, 0xb5, 0x54, 0x30, 0x33};
  f3.resize(64);
  for (int from : {veth, tap}) {
    ASSERT_TRUE(bed_.pod(from).Send(f3));
    for (int to : {tap, veth, other}) {
      if (to != from) ExpectReceived(to, f3);
    }
    ExpectNothing(from);
    bed_.Settle();
    const bridge::MacAddress source = bridge::MacAddress::FromBytes(&f3[6]);
    std::optional<bridge::FdbRow> row = bed_.dataplane().FindFdbEntry(bed_.switch_index(), {source, 10});
    ASSERT_TRUE(row);
    EXPECT_EQ(row->target.port, bed_.port(from));
    EXPECT_FALSE(bed_.dataplane().FindFdbEntry(bed_.switch_index(), {source, 30}));
  }
  bed_.ExpectLedgersBalance();
}

// A TCI of 0 is a tag: the frame is priority-tagged, belongs to the native VLAN, and its tag does not vanish
// on the way in only because the kernel took it out.
TEST_P(DataplaneNetdev, PriorityTagsAreTagsAlsoWithTciZero) {
  const int veth = AddVeth(Access());
  const int trunk = AddTap(TrunkPort(bed_.switch_index(), {10}));
  for (uint16_t tci : {0x0000, 0xa000, 0x1000}) {
    ASSERT_TRUE(bed_.pod(veth).Send(MakeFrame(kBroadcast, PodMac(veth), tci, 60, tci)));
    ExpectReceived(trunk, MakeFrame(kBroadcast, PodMac(veth), tci, 60, static_cast<uint16_t>(tci | 10)));
  }
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.totals(veth).receive_bytes, 3u * 64);
}

// Transparent to a service tag, which the kernel takes out as well; a customer tag is pushed in front of it.
TEST_P(DataplaneNetdev, ServiceTagIsPayload) {
  const int veth = AddVeth(Access()), other = AddVeth(Access());
  const int trunk = AddTap(TrunkPort(bed_.switch_index(), {10}));
  Bytes frame = MakeFrame(kBroadcast, PodMac(veth), 1, 100, 100);
  frame[12] = 0x88;
  frame[13] = 0xa8;
  ASSERT_TRUE(bed_.pod(veth).Send(frame));
  bed_.Settle();
  ExpectReceived(other, frame);
  Bytes tagged = frame;
  const uint8_t tag[] = {0x81, 0x00, 0, 10};
  tagged.insert(tagged.begin() + 12, std::begin(tag), std::end(tag));
  ExpectReceived(trunk, tagged);
  bed_.ExpectLedgersBalance();
}

// BR-17, P15: neither the switch's own transmissions nor the host's come back in.
TEST_P(DataplaneNetdev, Br17WhatTheDeviceSendsIsNotHeard) {
  const int tap = AddTap(Access()), veth = AddVeth(Access()), other = AddVeth(Access());
  const Bytes frame = MakeFrame(kBroadcast, PodMac(tap), 1);
  ASSERT_TRUE(bed_.pod(tap).Send(frame));
  ExpectReceived(veth, frame);
  ExpectReceived(other, frame);
  ExpectNothing(tap);
  ExpectNothing(veth);
  // A host's socket on the near end.
  Pod host(bed_.near_ifname(veth));
  const Bytes from_host = MakeFrame(kBroadcast, PodMac(77), 2);
  ASSERT_TRUE(host.Send(from_host));
  ExpectReceived(veth, from_host);
  ExpectNothing(tap);
  ExpectNothing(other);
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.totals(tap).receive_frames, 1u);
  EXPECT_EQ(bed_.totals(veth).receive_frames, 0u);
  EXPECT_EQ(bed_.totals(veth).transmit_frames, 1u);
  EXPECT_FALSE(bed_.dataplane().FindFdbEntry(bed_.switch_index(), {PodMac(77), 10}));
}

TEST_P(DataplaneNetdev, DownIsCountedAndUpIsFoundAtOnce) {  // D1, E16
  const int tap = AddTap(Access()), veth = AddVeth(Access()), other = AddVeth(Access());
  const std::string near = bed_.near_ifname(veth);
  for (int round = 0; round < 5; ++round) {
    SetLinkUp(near, false);
    for (uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(bed_.pod(tap).Send(MakeFrame(kBroadcast, PodMac(tap), i)));
    EXPECT_EQ(bed_.pod(other).ReceiveNumbers(20).size(), 20u);
    bed_.Settle();
    EXPECT_EQ(bed_.drops(veth, DropReason::kEgressPortDown), 20u * (round + 1));
    EXPECT_FALSE(stats(veth).device_gone);
    SetLinkUp(near, true);
    AwaitCarrier(near);
    AwaitCarrier(bed_.pod(veth).ifname());
    Pod pod(bed_.pod(veth).ifname());
    ASSERT_TRUE(pod.Send(MakeFrame(kBroadcast, PodMac(veth), 1)));
    EXPECT_TRUE(bed_.pod(tap).Receive(std::chrono::milliseconds(500)));
    bed_.pod(other).Discard();
  }
  bed_.ExpectLedgersBalance();
}

// BR-16: deleted and made again a hundred times; index and counters stay, no file is left behind.
TEST_P(DataplaneNetdev, Br16DeviceGoesAndComesBack) {
  const int tap = AddTap(Access()), veth = AddVeth(Access());
  const std::string near = bed_.near_ifname(veth), far = bed_.pod(veth).ifname();
  int files = 0;
  for (uint32_t round = 0; round < 100; ++round) {
    DeleteLink(near);
    ASSERT_TRUE(Soon([&] { return stats(veth).device_gone; }));
    File gone = bed_.dataplane().DetachDevice(bed_.port(veth));
    EXPECT_TRUE(gone.is_open());
    gone.Close();
    EXPECT_FALSE(stats(veth).has_device);
    EXPECT_FALSE(bed_.dataplane().FindFdbEntry(bed_.switch_index(), {PodMac(veth), 10}));
    if (round == 0) files = OpenFileCount();
    ASSERT_TRUE(bed_.pod(tap).Send(MakeFrame(kBroadcast, PodMac(tap), round)));
    bed_.dataplane().ReadPort(bed_.port(tap));
    ASSERT_TRUE(Soon([&] { return bed_.drops(veth, DropReason::kEgressDeviceGone) == round + 1; }));
    EXPECT_EQ(OpenFileCount(), files);
    MakeVeth(near, far);
    SetLinkUp(near, true);
    SetLinkUp(far, true);
    AwaitCarrier(near);
    AwaitCarrier(far);
    absl::StatusOr<Device> device = OpenNetdev(near);
    ASSERT_TRUE(device.ok()) << device.status();
    ASSERT_TRUE(bed_.dataplane().AttachDevice(bed_.port(veth), *std::move(device)).ok());
    EXPECT_TRUE(stats(veth).has_device);
    Pod pod(far);
    ASSERT_TRUE(pod.Send(MakeFrame(kBroadcast, PodMac(veth), round)));
    std::optional<Bytes> frame = bed_.pod(tap).Receive();
    ASSERT_TRUE(frame);
    EXPECT_EQ(NumberOf(*frame), round);
    ASSERT_TRUE(bed_.pod(tap).Send(MakeFrame(PodMac(veth), PodMac(tap), round)));
    ASSERT_TRUE(pod.Receive());
  }
  bed_.Settle();
  EXPECT_EQ(bed_.totals(veth).receive_frames, 100u);
  EXPECT_EQ(bed_.totals(veth).transmit_frames, 100u);
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneNetdev, FrameThatTheDeviceIsTooSmallForIsCounted) {
  const int tap = AddTap(Access(2000)), veth = AddVeth(Access(2000));
  SetMtu(bed_.near_ifname(veth), 1500);  // by somebody else, the port does not know yet
  for (size_t length : {1514u, 1515u, 2014u})
    ASSERT_TRUE(bed_.pod(tap).Send(MakeFrame(kBroadcast, PodMac(tap), 1, length)));
  EXPECT_EQ(bed_.pod(veth).ReceiveNumbers(1).size(), 1u);
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.drops(veth, DropReason::kEgressMtuExceeded), 2u);
}

// A port behind a slow queue costs others nothing: its frames are lost when its send buffer is full, and no
// buffer of the pool waits for it.
TEST_P(DataplaneNetdev, SlowDeviceLosesItsOwnFramesOnly) {
  const int tap = AddTap(Access()), slow = AddVeth(Access()), other = AddVeth(Access());
  RunTool({"tc", "qdisc", "add", "dev", bed_.near_ifname(slow), "root", "tbf", "rate", "64kbit", "burst",
           "2kb", "limit", "100mb"});
  constexpr uint32_t kRounds = 50, kRound = 100, kFrames = kRounds * kRound;
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::vector<uint32_t> expected(kRound);
    std::iota(expected.begin(), expected.end(), round * kRound);
    for (uint32_t number : expected)
      ASSERT_TRUE(bed_.pod(tap).Send(MakeFrame(kBroadcast, PodMac(tap), number, 1000)));
    ASSERT_EQ(bed_.pod(other).ReceiveNumbers(kRound), expected);
  }
  bed_.ExpectLedgersBalance();
  EXPECT_GT(bed_.drops(slow, DropReason::kEgressQueueFull), kFrames / 2);
  EXPECT_EQ(bed_.totals(other).DropsOn(bridge::DropSide::kEgress), 0u);
  // Those that came through are in order.
  const std::vector<uint32_t> slow_numbers = bed_.pod(slow).ReceiveNumbers(1);
  EXPECT_TRUE(std::is_sorted(slow_numbers.begin(), slow_numbers.end()));
  RunTool({"tc", "qdisc", "del", "dev", bed_.near_ifname(slow), "root"});
}

// The device's queue overflows while the workers stand still, and says how much.
TEST_P(DataplaneNetdev, FramesLostBeforeTheSwitchAreToldOf) {
  const int veth = AddVeth(Access()), tap = AddTap(Access());
  constexpr uint32_t kFrames = 30'000;
  {
    StalledWorkers stalled;
    for (uint32_t i = 0; i < kFrames; ++i) bed_.pod(veth).Send(MakeFrame(PodMac(tap), PodMac(veth), i));
  }
  bed_.Settle();
  const PortStats first = stats(veth);
  EXPECT_GT(first.device_lost_frames, 0u);
  EXPECT_EQ(first.device_lost_frames + first.totals.receive_frames, kFrames);
  EXPECT_EQ(stats(veth).device_lost_frames, first.device_lost_frames) << "asking twice";
  bed_.ExpectLedgersBalance();
}

// --- offloads ---

Bytes WithHeader(const io::VirtioNetHeader& header, const Bytes& frame) {
  Bytes bytes(sizeof header);
  io::StoreVirtioNetHeader(header, bytes.data());
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  return bytes;
}

// An IPv4 TCP frame with `payload` bytes, its checksum left to whoever takes it.
Bytes TcpFrame(bridge::MacAddress source, size_t payload) {
  Bytes frame = MakeFrame(kBroadcast, source, 0, 14);
  frame.resize(12);
  const size_t total = 40 + payload;
  const uint8_t headers[] = {0x08,
                             0x00,
                             0x45,
                             0,
                             static_cast<uint8_t>(total >> 8),
                             static_cast<uint8_t>(total),
                             0,
                             7,
                             0x40,
                             0,
                             64,
                             6,
                             0,
                             0,
                             10,
                             0,
                             0,
                             1,
                             10,
                             0,
                             0,
                             2,
                             0x10,
                             0,
                             0x20,
                             0,
                             0,
                             0,
                             1,
                             0,
                             0,
                             0,
                             0,
                             1,
                             0x50,
                             0x18,
                             1,
                             0,
                             0,
                             0,
                             0,
                             0};
  frame.insert(frame.end(), std::begin(headers), std::end(headers));
  for (size_t i = 0; i < payload; ++i) frame.push_back(static_cast<uint8_t>(i * 31 + i / 256));
  // The sum of the pseudo header, as a kernel leaves it.
  uint32_t sum = 0x0a00 + 1 + 0x0a00 + 2 + 6 + static_cast<uint32_t>(20 + payload);
  sum = (sum & 0xffff) + (sum >> 16);
  frame[50] = static_cast<uint8_t>(sum >> 8);
  frame[51] = static_cast<uint8_t>(sum);
  return frame;
}

io::VirtioNetHeader TcpHeader(uint16_t segment_size) {
  io::VirtioNetHeader header;
  header.flags = io::kNeedsChecksum;
  header.csum_start = 34;
  header.csum_offset = 16;
  if (segment_size != 0) {
    header.gso_type = io::kGsoTcp4;
    header.gso_size = segment_size;
    header.hdr_len = 54;
  }
  return header;
}

uint32_t PseudoAndTransportSum(const Bytes& frame) {
  uint32_t sum = 6 + static_cast<uint32_t>(frame.size() - 34);
  for (size_t i = 26; i < frame.size(); ++i) sum += i % 2 == 0 ? frame[i] << 8 : frame[i];
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

TEST_P(DataplaneNetdev, MetadataCrossesBothWays) {
  const int tap = AddTap(Access()), veth = AddVeth(Access()), other = AddVeth(Access());
  const int trunk = AddVeth(Trunk());
  for (uint16_t segment : {0, 1400}) {
    for (int from : {tap, veth}) {
      const Bytes frame = TcpFrame(PodMac(from), segment == 0 ? 1000 : 20'000);
      const Bytes sent = WithHeader(TcpHeader(segment), frame);
      ASSERT_TRUE(bed_.pod(from).SendWithHeader(sent));
      for (int to : {tap, veth, other, trunk}) {
        if (to == from) continue;
        std::optional<Bytes> received = bed_.pod(to).ReceiveWithHeader();
        ASSERT_TRUE(received) << from << " to " << to;
        const io::VirtioNetHeader seen = io::LoadVirtioNetHeader(received->data());
        EXPECT_EQ(seen.flags, io::kNeedsChecksum);
        EXPECT_EQ(seen.gso_type, segment == 0 ? io::kGsoNone : io::kGsoTcp4);
        EXPECT_EQ(seen.gso_size, segment);
        EXPECT_EQ(seen.csum_start, 34);
        EXPECT_EQ(Bytes(received->begin() + sizeof seen, received->end()), frame) << from << " to " << to;
      }
    }
  }
  bed_.ExpectLedgersBalance();
}

// TAP -> veth -> TAP: both ends of a veth are ports, each of a switch of its own, with a TAP beside it.
TEST_P(DataplaneNetdev, TapVethTapLeavesEveryFrameIntact) {
  bridge::PortConfig config = Trunk();
  config.mtu = 9000;
  const int tap = AddTap(config), veth = AddVeth(config);
  bridge::PortConfig far_config = config;
  far_config.switch_index = *bed_.dataplane().AddSwitch({}, bridge::kFdbCapacityDefault);
  ASSERT_TRUE(bed_.dataplane().AddPort(far_config, *OpenNetdev(bed_.pod(veth).ifname())).ok());
  const int far = AddTap(far_config);
  std::vector<Bytes> frames;
  for (size_t length = 14; length <= 9014; length += length < 200 ? 1 : 97)
    frames.push_back(MakeFrame(kBroadcast, PodMac(tap), static_cast<uint32_t>(length), length));
  for (uint16_t tci : {0x0000, 0x000a, 0xa00a, 0x1014, 0xf014, 0x6000})
    frames.push_back(MakeFrame(kBroadcast, PodMac(tap), tci, 100, tci));
  for (const Bytes& frame : frames) {
    for (const auto& [from, to] : {std::pair(tap, far), std::pair(far, tap)}) {
      ASSERT_TRUE(bed_.pod(from).Send(frame));
      Bytes expected = frame;
      // A priority tag belongs to the native VLAN, which leaves without one.
      const bool is_priority = frame[12] == 0x81 && (bridge::LoadBe16(&frame[14]) & 0xfff) == 0;
      if (is_priority) expected.erase(expected.begin() + 12, expected.begin() + 16);
      ExpectReceived(to, expected);
    }
    bed_.pod(veth).Discard();
  }
  for (uint16_t segment : {0, 1400}) {
    for (const auto& [from, to] : {std::pair(tap, far), std::pair(far, tap)}) {
      const Bytes sent = WithHeader(TcpHeader(segment), TcpFrame(PodMac(from), segment == 0 ? 1000 : 50'000));
      bed_.pod(to).Discard();
      ASSERT_TRUE(bed_.pod(from).SendWithHeader(sent));
      std::optional<Bytes> received = bed_.pod(to).ReceiveWithHeader();
      ASSERT_TRUE(received);
      EXPECT_TRUE(*received == sent) << "segment size " << segment;
    }
  }
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneNetdev, ChecksumIsCompletedForADeviceWithoutOffload) {  // O28
  const int tap = AddTap(Access()), plain = AddPlainVeth(Access()), other = AddTap(Access());
  ASSERT_TRUE(bed_.pod(tap).SendWithHeader(WithHeader(TcpHeader(0), TcpFrame(PodMac(tap), 777))));
  std::optional<Bytes> received = bed_.pod(plain).ReceiveWithHeader();
  ASSERT_TRUE(received);
  EXPECT_EQ((*received)[0] & io::kNeedsChecksum, 0);
  EXPECT_EQ(PseudoAndTransportSum(Bytes(received->begin() + 10, received->end())), 0xffffu);
  received = bed_.pod(other).ReceiveWithHeader();
  ASSERT_TRUE(received);
  const bool left = ((*received)[0] & io::kNeedsChecksum) != 0;
  EXPECT_TRUE(left || PseudoAndTransportSum(Bytes(received->begin() + 10, received->end())) == 0xffff);
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneNetdev, SuperFrameIsSegmentedForADeviceWithoutOffload) {  // O28
  const int tap = AddTap(Access()), plain = AddPlainVeth(Access()), other = AddVeth(Access());
  constexpr size_t kPayload = 60'000, kSegment = 1400;
  constexpr size_t kSegments = (kPayload + kSegment - 1) / kSegment;
  const Bytes frame = TcpFrame(PodMac(tap), kPayload);
  ASSERT_TRUE(bed_.pod(tap).SendWithHeader(WithHeader(TcpHeader(kSegment), frame)));
  Bytes payload;
  for (size_t i = 0; i < kSegments; ++i) {
    std::optional<Bytes> received = bed_.pod(plain).ReceiveWithHeader();
    ASSERT_TRUE(received) << "segment " << i;
    const Bytes segment(received->begin() + 10, received->end());
    EXPECT_LE(segment.size(), 54 + kSegment);
    EXPECT_EQ(bridge::LoadBe16(&segment[18]), 7 + i) << "IP identification";
    EXPECT_EQ(bridge::LoadBe16(&segment[40]), (256 + i * kSegment) & 0xffff) << "TCP sequence";
    EXPECT_EQ(segment[47], i + 1 == kSegments ? 0x18 : 0x10) << "PSH on the last only";
    EXPECT_EQ(PseudoAndTransportSum(segment), 0xffffu) << "segment " << i;
    payload.insert(payload.end(), segment.begin() + 54, segment.end());
  }
  EXPECT_EQ(payload, Bytes(frame.begin() + 54, frame.end()));
  std::optional<Bytes> whole = bed_.pod(other).ReceiveWithHeader();
  ASSERT_TRUE(whole);
  EXPECT_EQ(Bytes(whole->begin() + 10, whole->end()), frame) << "the others get the super-frame as it is";
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.totals(plain).transmit_frames, kSegments);
}

TEST_P(DataplaneNetdev, ManySuperFramesInOneBatchAreSegmentedInOrder) {
  const int tap = AddTap(Access()), plain = AddPlainVeth(Access());
  constexpr size_t kFrames = 60, kSegments = 10;
  {
    StalledWorkers stalled;
    for (size_t i = 0; i < kFrames; ++i) {
      Bytes frame = TcpFrame(PodMac(tap), kSegments * 1400);
      frame[19] = 0;
      frame[18] = static_cast<uint8_t>(i);  // IP identification
      ASSERT_TRUE(bed_.pod(tap).SendWithHeader(WithHeader(TcpHeader(1400), frame)));
    }
  }
  for (size_t i = 0; i < kFrames * kSegments; ++i) {
    std::optional<Bytes> received = bed_.pod(plain).Receive();
    ASSERT_TRUE(received) << i;
    EXPECT_EQ(bridge::LoadBe16(&(*received)[18]), i / kSegments * 256 + i % kSegments);
  }
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneNetdev, WhatCannotBeSegmentedIsCounted) {  // O28
  const int tap = AddTap(Access()), plain = AddPlainVeth(Access());
  ASSERT_TRUE(bed_.pod(tap).SendWithHeader(WithHeader(TcpHeader(8), TcpFrame(PodMac(tap), 40'000))));
  ExpectNothing(plain);
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.drops(plain, DropReason::kEgressNotSegmentable), 1u);
}

// --- opening ---

TEST(DataplaneOpenNetdev, WrongDevicesAreRefused) {
  EnterFreshNamespace();
  EXPECT_EQ(OpenNetdev("nosuch").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenNetdev("lo").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(OpenNetdev("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenNetdev("sixteen-letters-").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringswitch::test
