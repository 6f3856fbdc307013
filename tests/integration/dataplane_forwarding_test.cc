// Frames across real TAPs and veths, byte for byte: unicast, floods, tags, offload headers, MTU. In every rx
// mode, with one worker and with two.

#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/io/virtio_net_header.h"
#include "tests/integration/testbed.h"

namespace ringswitch::test {
namespace {

using bridge::DropReason;

class DataplaneForwarding : public testing::TestWithParam<BedOptions> {
 protected:
  DataplaneForwarding() : bed_(GetParam()) {}
  void ExpectReceived(int pod, const Bytes& frame) {
    std::optional<Bytes> received = bed_.pod(pod).Receive();
    ASSERT_TRUE(received) << "pod " << pod << " received nothing";
    EXPECT_EQ(ToHex(*received), ToHex(frame)) << "pod " << pod;
  }
  void ExpectNothing(int pod) { EXPECT_FALSE(bed_.pod(pod).Receive(kQuiet)) << "pod " << pod; }

  Testbed bed_;
};

INSTANTIATE_TEST_SUITE_P(All, DataplaneForwarding,
                         testing::Values(Variant(RxMode::kAuto, 1), Variant(RxMode::kAuto, 2),
                                         Variant(RxMode::kOneshot, 1), Variant(RxMode::kOneshot, 2),
                                         Variant(RxMode::kAuto, 1, PodKind::kVeth),
                                         Variant(RxMode::kAuto, 2, PodKind::kMixed),
                                         Variant(RxMode::kOneshot, 1, PodKind::kVeth),
                                         Variant(RxMode::kOneshot, 2, PodKind::kMixed)),
                         VariantName);

TEST_P(DataplaneForwarding, UnknownUnicastFloodsAndTheAnswerDoesNot) {
  const int a = bed_.AddPod(), b = bed_.AddPod(), c = bed_.AddPod();
  const Bytes question = MakeFrame(PodMac(b), PodMac(a), 1);
  ASSERT_TRUE(bed_.pod(a).Send(question));
  ExpectReceived(b, question);
  ExpectReceived(c, question);
  const Bytes answer = MakeFrame(PodMac(a), PodMac(b), 2, 1514);
  ASSERT_TRUE(bed_.pod(b).Send(answer));
  ExpectReceived(a, answer);
  ExpectNothing(c);
  ExpectNothing(b);
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.totals(a).flooded_unknown_unicast_frames, 1u);
  EXPECT_EQ(bed_.totals(a).receive_bytes, 64u);
  EXPECT_EQ(bed_.totals(a).transmit_bytes, 1514u);
}

TEST_P(DataplaneForwarding, EverySizeArrivesWhole) {
  bridge::PortConfig config = AccessPort(bed_.switch_index(), 1);
  config.mtu = bridge::kMtuMax;
  const int a = bed_.AddPod(config), b = bed_.AddPod(config);
  for (size_t length : {18u, 60u, 64u, 1514u, 4096u, 9014u, 65535u}) {
    const Bytes frame = MakeFrame(PodMac(b), PodMac(a), static_cast<uint32_t>(length), length);
    ASSERT_TRUE(bed_.pod(a).Send(frame)) << length;
    ExpectReceived(b, frame);
  }
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneForwarding, MixedFloodHasOneCopyAndBothForms) {
  const int access = bed_.AddPod(10);
  const int other_access = bed_.AddPod(10);
  const int trunk = bed_.AddPod(TrunkPort(bed_.switch_index(), {10, 20}));
  const int other_vlan = bed_.AddPod(20);
  const Bytes untagged = MakeFrame(kBroadcast, PodMac(1), 1, 100);
  ASSERT_TRUE(bed_.pod(access).Send(untagged));
  ExpectReceived(other_access, untagged);
  ExpectReceived(trunk, MakeFrame(kBroadcast, PodMac(1), 1, 100, 10));
  ExpectNothing(other_vlan);
  const Bytes tagged = MakeFrame(kBroadcast, PodMac(2), 2, 100, 0xa000 | 10);
  ASSERT_TRUE(bed_.pod(trunk).Send(tagged));
  ExpectReceived(access, MakeFrame(kBroadcast, PodMac(2), 2, 100));
  ExpectReceived(other_access, MakeFrame(kBroadcast, PodMac(2), 2, 100));
  ExpectNothing(other_vlan);
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneForwarding, PriorityTagIsKeptForTrunksAndTakenOffForAccessPorts) {
  const int access = bed_.AddPod(10);
  const int other_access = bed_.AddPod(10);
  const int trunk = bed_.AddPod(TrunkPort(bed_.switch_index(), {10}));
  ASSERT_TRUE(bed_.pod(access).Send(MakeFrame(kBroadcast, PodMac(1), 1, 100, 0xa000)));
  ExpectReceived(other_access, MakeFrame(kBroadcast, PodMac(1), 1, 100));
  ExpectReceived(trunk, MakeFrame(kBroadcast, PodMac(1), 1, 100, 0xa000 | 10));
}

TEST_P(DataplaneForwarding, ManyMixedFloodsInOneBatchLoseNothing) {
  const int access = bed_.AddPod(10);
  const int other_access = bed_.AddPod(10);
  const int trunk = bed_.AddPod(TrunkPort(bed_.switch_index(), {10}));
  constexpr uint32_t kFrames = 200;
  {
    StalledWorkers stalled;
    for (uint32_t i = 0; i < kFrames; ++i)
      ASSERT_TRUE(bed_.pod(access).Send(MakeFrame(kBroadcast, PodMac(1), i)));
  }
  std::vector<uint32_t> expected(kFrames);
  for (uint32_t i = 0; i < kFrames; ++i) expected[i] = i;
  EXPECT_EQ(bed_.pod(other_access).ReceiveNumbers(kFrames), expected);
  EXPECT_EQ(bed_.pod(trunk).ReceiveNumbers(kFrames), expected);
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.drops(trunk, DropReason::kEgressNoBuffer), 0u);
}

// A UDP packet whose checksum the receiver is to complete, as a pod's kernel sends it.
Bytes NeedsChecksumFrame(bridge::MacAddress destination, bridge::MacAddress source) {
  Bytes frame = MakeFrame(destination, source, 0, 14);
  frame.resize(12);
  const uint8_t packet[] = {0x08, 0x00, 0x45, 0,    0, 36,   0, 0, 0,  0, 64, 17, 0x66, 0xc7, 10, 0, 0, 1, 10,
                            0,    0,    2,    0x10, 0, 0x20, 0, 0, 16, 0, 0,  1,  2,    3,    4,  5, 6, 7, 8};
  frame.insert(frame.end(), std::begin(packet), std::end(packet));
  return frame;
}

Bytes WithHeader(const io::VirtioNetHeader& header, const Bytes& frame) {
  Bytes bytes(sizeof header);
  io::StoreVirtioNetHeader(header, bytes.data());
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  return bytes;
}

TEST_P(DataplaneForwarding, ChecksumOffsetsMoveWithTheTag) {  // O26, O27
  const int access = bed_.AddPod(10);
  const int trunk = bed_.AddPod(TrunkPort(bed_.switch_index(), {10}));
  const int other_access = bed_.AddPod(10);
  io::VirtioNetHeader header;
  header.flags = io::kNeedsChecksum;
  header.csum_start = 34;
  header.csum_offset = 6;
  const Bytes sent = WithHeader(header, NeedsChecksumFrame(kBroadcast, PodMac(1)));
  ASSERT_TRUE(bed_.pod(access).SendWithHeader(sent));
  std::optional<Bytes> plain = bed_.pod(other_access).ReceiveWithHeader();
  ASSERT_TRUE(plain);
  EXPECT_EQ(*plain, sent);
  // The kernel refuses a header whose offsets lie outside the frame, and takes the tag out of the frame on
  // its way to the socket: had the offsets not moved, what arrives would be 4 bytes off.
  std::optional<Bytes> tagged = bed_.pod(trunk).ReceiveWithHeader();
  ASSERT_TRUE(tagged);
  EXPECT_EQ(*tagged, sent);
  std::optional<Bytes> on_wire = bed_.pod(trunk).Receive();
  ASSERT_TRUE(on_wire);
  EXPECT_EQ(bridge::LoadBe16(&(*on_wire)[12]), bridge::kTpid);
  bed_.ExpectLedgersBalance();
}

TEST_P(DataplaneForwarding, SuperFrameKeepsItsSegmentSize) {  // O30, T7
  const int access = bed_.AddPod(10);
  const int trunk = bed_.AddPod(TrunkPort(bed_.switch_index(), {10}));
  bridge::PortConfig small = AccessPort(bed_.switch_index(), 10);
  small.mtu = 1000;
  const int too_small = bed_.AddPod(small);
  // 14 Ethernet, 20 IPv4, 20 TCP, then 8000 bytes of payload in segments of 1400.
  constexpr uint16_t kPayload = 8000;
  Bytes frame = MakeFrame(kBroadcast, PodMac(1), 0, 14);
  frame.resize(12);
  const uint16_t total = 40 + kPayload;
  const uint8_t headers[] = {
      0x08, 0x00, 0x45, 0,    total >> 8, total & 0xff, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0,    0,    1, 10,
      0,    0,    2,    0x10, 0,          0x20,         0, 0, 0, 0, 1,  0, 0, 0, 1,  0x50, 0x10, 1, 0,
      0,    0,    0,    0};
  frame.insert(frame.end(), std::begin(headers), std::end(headers));
  for (int i = 0; i < kPayload; ++i) frame.push_back(static_cast<uint8_t>(i * 31));
  io::VirtioNetHeader header;
  header.flags = io::kNeedsChecksum;
  header.gso_type = io::kGsoTcp4;
  header.gso_size = 1400;
  header.hdr_len = 54;
  header.csum_start = 34;
  header.csum_offset = 16;
  ASSERT_TRUE(bed_.pod(access).SendWithHeader(WithHeader(header, frame)));
  std::optional<Bytes> received = bed_.pod(trunk).ReceiveWithHeader();
  ASSERT_TRUE(received);
  const io::VirtioNetHeader seen = io::LoadVirtioNetHeader(received->data());
  EXPECT_EQ(seen.gso_type, io::kGsoTcp4);
  EXPECT_EQ(seen.gso_size, 1400);
  EXPECT_EQ(seen.csum_start, 34);  // the kernel has taken the tag out again
  EXPECT_EQ(Bytes(received->begin() + sizeof header, received->end()), frame);
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.drops(too_small, DropReason::kEgressMtuExceeded), 1u);
  EXPECT_EQ(bed_.totals(trunk).transmit_bytes, frame.size() + 4);
}

TEST_P(DataplaneForwarding, FrameAboveTheEgressMtuIsDroppedThere) {  // O1, O3
  bridge::PortConfig jumbo = AccessPort(bed_.switch_index(), 1);
  jumbo.mtu = 9000;
  const int a = bed_.AddPod(jumbo), b = bed_.AddPod(), c = bed_.AddPod(jumbo);
  const Bytes frame = MakeFrame(kBroadcast, PodMac(a), 1, 1519);
  ASSERT_TRUE(bed_.pod(a).Send(frame));
  ExpectReceived(c, frame);
  ExpectNothing(b);
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.drops(b, DropReason::kEgressMtuExceeded), 1u);
}

TEST_P(DataplaneForwarding, AgedEntryFloodsAgain) {
  bridge::SwitchConfig config;
  config.ageing_time_s = 1;
  bed_.dataplane().UpdateSwitch(bed_.switch_index(), config);
  const int a = bed_.AddPod();
  bed_.AddPod();
  ASSERT_TRUE(bed_.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), 1)));
  bed_.Settle();
  EXPECT_EQ(bed_.dataplane().FdbCount(bed_.switch_index(), bridge::FdbKind::kDynamic), 1u);
  for (int i = 0; i < 50 && bed_.dataplane().FdbCount(bed_.switch_index(), bridge::FdbKind::kDynamic) != 0;
       ++i) {
    ::usleep(100'000);
  }
  EXPECT_EQ(bed_.dataplane().FdbCount(bed_.switch_index(), bridge::FdbKind::kDynamic), 0u);
}

}  // namespace
}  // namespace ringswitch::test
