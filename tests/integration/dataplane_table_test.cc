// The frame tables of tests/unit on devices: each row's frames are sent by packet sockets through TAPs,
// through veths whose near ends are netdev ports, and through both kinds together; what comes out, what is
// dropped and for which reason, and what the FDB holds afterwards is what the pipeline alone makes of them.
// And the drop reasons that only a device or its kernel gives cause for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/io/virtio_net_header.h"
#include "tests/integration/testbed.h"
#include "tests/unit/bridge_testbed.h"

namespace ringswitch::test {
namespace {

using bridge::DropReason;
using bridge::PortFrame;
using bridge::PortIndex;
using bridge::Row;
using Clock = std::chrono::steady_clock;

constexpr int kDevices = 8;            // ports of the widest row
constexpr uint32_t kDeviceMtu = 9100;  // room for the longest frame; a row's MTU is its port's
// Rates of the tables let a frame more pass after a second. A row that took this long is played again.
constexpr auto kRowTime = std::chrono::milliseconds(400);

bool IsTagged(const Bytes& frame) {
  const uint16_t type = bridge::LoadBe16(&frame[12]);
  return type == bridge::kTpid || type == 0x88a8;
}
// The kernel shows no packet socket a tag with less than its EtherType and two bytes behind it.
bool IsTooShortForItsTag(const Bytes& frame) {
  return frame.size() < 20 && IsTagged(frame);
}

constexpr uint16_t kTcpHeadersLength = 54;  // Ethernet, IPv4, TCP

// Of an IPv4 TCP super-frame.
io::VirtioNetHeader SuperFrameHeader(uint16_t segment) {
  io::VirtioNetHeader header;
  header.flags = io::kNeedsChecksum;
  header.gso_type = io::kGsoTcp4;
  header.gso_size = segment;
  header.hdr_len = kTcpHeadersLength;
  header.csum_start = 34;
  header.csum_offset = 16;
  return header;
}
Bytes WithHeader(const io::VirtioNetHeader& header, const Bytes& frame) {
  Bytes bytes(sizeof header);
  io::StoreVirtioNetHeader(header, bytes.data());
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  return bytes;
}

// What became of a row's frame.
struct Outcome {
  std::vector<PortFrame> outputs;
  std::vector<std::pair<PortIndex, std::string>> drops;  // by port, both sides
  std::vector<std::string> fdb;
  Clock::duration took{};
};

class DataplaneTable : public testing::TestWithParam<PodKind> {
 protected:
  DataplaneTable() : bed_(Variant(RxMode::kAuto, 1, GetParam())) {
    bridge::PortConfig config = AccessPort(bed_.switch_index(), 1);
    config.mtu = kDeviceMtu;
    for (int i = 0; i < kDevices; ++i) {
      bed_.AddPod(config);
      Device device = TapDevice(bed_.dataplane().RemovePort(bed_.port(i)));
      if (IsNetdev(i)) device.kind = Device::Kind::kPacket;
      devices_.push_back(std::move(device));
    }
  }

  bool IsNetdev(int pod) const { return bed_.near_ifname(pod) != "p" + std::to_string(pod); }
  // What a pod cannot send, or its kernel does not show.
  bool CanPlay(const Row& row) const;
  Outcome Play(const Row& row);
  void PlayAll(const std::vector<Row>& rows);

 private:
  void Begin(const Row& row);
  void Send(const PortFrame& input, uint32_t wire_length = 0);
  bridge::PortTotals TotalsOf(size_t at) const { return bed_.dataplane().ReadPort(ports_[at]).totals; }
  std::vector<std::string> FdbText() const;
  void End();

  mutable Testbed bed_;
  std::vector<Device> devices_;
  // Of the row that is played.
  bridge::SwitchIndex switch_ = 0;
  std::vector<PortIndex> ports_;  // p1 first
};

bool DataplaneTable::CanPlay(const Row& row) const {
  for (const char* port : row.ports) {
    if (std::string(port) == "none") return false;
  }
  std::vector<PortFrame> inputs = row.before;
  inputs.push_back(row.input);
  for (const PortFrame& input : inputs) {
    if (input.frame.size() < bridge::kHeaderLength) return false;
    if (IsNetdev(input.port - 1) && IsTooShortForItsTag(input.frame)) return false;
  }
  return std::none_of(row.outputs.begin(), row.outputs.end(),
                      [](const PortFrame& output) { return IsTooShortForItsTag(output.frame); });
}

void DataplaneTable::Begin(const Row& row) {
  switch_ = *bed_.dataplane().AddSwitch(row.config, bridge::kFdbCapacityDefault);
  for (size_t i = 0; i < row.ports.size(); ++i) {
    bridge::PortConfig config = *bridge::ParsePort(row.ports[i]);
    config.switch_index = switch_;
    ports_.push_back(*bed_.dataplane().AddPort(config, std::move(devices_[i])));
  }
  for (const bridge::StaticEntry& entry : row.statics) {
    EXPECT_EQ(
        bed_.dataplane().AddStaticFdbEntry(switch_, {entry.mac, entry.vid}, ports_[entry.port - 1], false),
        bridge::FdbResult::kOk);
  }
}

// Returns when the frame has met its fate. With `wire_length`, it is an IPv4 TCP super-frame.
void DataplaneTable::Send(const PortFrame& input, uint32_t wire_length) {
  const size_t at = input.port - 1u;
  const uint64_t received = TotalsOf(at).receive_frames;
  Pod& pod = bed_.pod(static_cast<int>(at));
  if (wire_length == 0) {
    ASSERT_TRUE(pod.Send(input.frame));
  } else {
    const auto segment = static_cast<uint16_t>(wire_length - kTcpHeadersLength);
    ASSERT_TRUE(pod.SendWithHeader(WithHeader(SuperFrameHeader(segment), input.frame)));
  }
  const auto deadline = Clock::now() + kSoon;
  while (TotalsOf(at).receive_frames == received || !IsQuiet(&bed_.dataplane(), ports_)) {
    ASSERT_LT(Clock::now(), deadline) << "not received, or not done with";
    ::usleep(50);
  }
}

std::vector<std::string> DataplaneTable::FdbText() const {
  std::vector<bridge::FdbRow> rows;
  uint32_t cursor = 0;
  do {
    cursor = bed_.dataplane().ListFdb(switch_, cursor, {}, 100, &rows);
  } while (cursor != 0);
  std::vector<std::string> texts;
  for (const bridge::FdbRow& row : rows) {
    const auto port = std::find(ports_.begin(), ports_.end(), row.target.port);
    texts.push_back(
        bridge::FdbText(row.key, static_cast<PortIndex>(port - ports_.begin() + 1), row.target.kind));
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

void DataplaneTable::End() {
  for (size_t i = 0; i < ports_.size(); ++i) {
    devices_[i] = Device{.kind = IsNetdev(static_cast<int>(i)) ? Device::Kind::kPacket : Device::Kind::kTap,
                         .file = bed_.dataplane().RemovePort(ports_[i])};
  }
  ports_.clear();
  bed_.dataplane().RemoveSwitch(switch_);
}

Outcome DataplaneTable::Play(const Row& row) {
  Outcome outcome;
  const auto begin = Clock::now();
  Begin(row);
  for (const PortFrame& input : row.before) Send(input);
  std::vector<bridge::PortTotals> before;
  for (size_t i = 0; i < ports_.size(); ++i) {
    before.push_back(TotalsOf(i));
    // What was transmitted is there, or is on its way to the pod's socket.
    for (uint64_t frame = 0; frame < before[i].transmit_frames; ++frame)
      bed_.pod(static_cast<int>(i)).Receive();
  }
  Send(row.input, row.wire_length);
  outcome.took = Clock::now() - begin;
  for (size_t i = 0; i < ports_.size(); ++i) {
    const bridge::PortTotals after = TotalsOf(i);
    const auto port = static_cast<PortIndex>(i + 1);
    uint64_t expected = after.transmit_frames - before[i].transmit_frames;
    while (auto frame = bed_.pod(static_cast<int>(i)).Receive(expected != 0 ? kSoon : kSoon * 0)) {
      outcome.outputs.push_back({port, *std::move(frame)});
      if (expected != 0) --expected;
    }
    EXPECT_EQ(expected, 0u) << "p" << port << " transmitted more than its pod has received";
    for (size_t reason = 0; reason < bridge::kDropReasonCount; ++reason) {
      for (uint64_t n = before[i].drops[reason]; n < after.drops[reason]; ++n)
        outcome.drops.emplace_back(port, bridge::kDropReasonTexts[reason].label);
    }
    EXPECT_EQ(after.receive_frames - before[i].receive_frames, port == row.input.port ? 1u : 0u);
    if (port == row.input.port) {
      EXPECT_EQ(after.receive_bytes - before[i].receive_bytes, row.input.frame.size()) << "T1, T2";
    }
  }
  outcome.fdb = FdbText();
  End();
  return outcome;
}

void DataplaneTable::PlayAll(const std::vector<Row>& rows) {
  size_t played = 0;
  for (const Row& row : rows) {
    if (!CanPlay(row)) continue;
    SCOPED_TRACE(row.name);
    Outcome outcome = Play(row);
    for (int again = 0; again < 5 && outcome.took > kRowTime; ++again) outcome = Play(row);
    ++played;
    EXPECT_THAT(outcome.outputs, testing::ContainerEq(row.outputs));
    std::vector<std::pair<PortIndex, std::string>> drops;
    if (row.drop) drops.emplace_back(row.input.port, bridge::TextOf(*row.drop).label);
    for (const bridge::EgressDrop& drop : row.egress_drops)
      drops.emplace_back(drop.port, bridge::TextOf(drop.reason).label);
    EXPECT_THAT(outcome.drops, testing::UnorderedElementsAreArray(drops));
    if (row.fdb) {
      EXPECT_THAT(outcome.fdb, testing::ContainerEq(*row.fdb));
    }
    if (HasFailure()) return;
  }
  std::printf("%zu of %zu rows\n", played, rows.size());
  EXPECT_GE(played * 10, rows.size() * 8);
}

INSTANTIATE_TEST_SUITE_P(
    All, DataplaneTable, testing::Values(PodKind::kTap, PodKind::kVeth, PodKind::kMixed),
    [](const testing::TestParamInfo<PodKind>& info) {
      return std::string(std::vector{"Tap", "Netdev", "Mixed"}[static_cast<size_t>(info.param)]);
    });

TEST_P(DataplaneTable, Vlan) {
  PlayAll(bridge::VlanRows());
}
TEST_P(DataplaneTable, VlanMatrix) {
  PlayAll(bridge::VlanMatrixRows());
}
TEST_P(DataplaneTable, Forwarding) {
  PlayAll(bridge::ForwardingRows());
}
TEST_P(DataplaneTable, Port) {
  PlayAll(bridge::PortRows());
}
TEST_P(DataplaneTable, Guard) {
  PlayAll(bridge::GuardRows());
}

// --- reasons that only a device or its kernel gives cause for ---

class DataplaneDrops : public testing::TestWithParam<PodKind> {
 protected:
  DataplaneDrops() : bed_(Variant(RxMode::kAuto, 1, GetParam())) {}
  // A port on an open file that is no device.
  PortIndex AddFile(File file, Device::Kind kind) {
    return *bed_.dataplane().AddPort(AccessPort(bed_.switch_index(), 1), Device{kind, std::move(file)});
  }
  uint64_t DropsOf(PortIndex port, DropReason reason) {
    return bed_.dataplane().ReadPort(port).totals.drops[static_cast<size_t>(reason)];
  }
  Testbed bed_;
};
INSTANTIATE_TEST_SUITE_P(All, DataplaneDrops, testing::Values(PodKind::kTap, PodKind::kVeth),
                         [](const testing::TestParamInfo<PodKind>& info) {
                           return std::string(info.param == PodKind::kTap ? "Tap" : "Netdev");
                         });

TEST_P(DataplaneDrops, FrameThatTheKernelRefuses) {  // O9
  const int a = bed_.AddPod();
  absl::StatusOr<File> tap = OpenTap("odd", true);
  ASSERT_TRUE(tap.ok()) << tap.status();
  const int header_size = 1000;  // nobody writes such a header
  ASSERT_EQ(::ioctl(tap->fd(), TUNSETVNETHDRSZ, &header_size), 0);
  const PortIndex odd = AddFile(*std::move(tap), Device::Kind::kTap);
  SetLinkUp("odd", true);
  ASSERT_TRUE(bed_.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), 1)));
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(DropsOf(odd, DropReason::kEgressRefused), 1u);
}

TEST_P(DataplaneDrops, AnyOtherErrorOfAWrite) {
  const int a = bed_.AddPod();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const PortIndex dead = AddFile(File(ends[0]), Device::Kind::kPacket);
  ::close(ends[1]);
  ASSERT_TRUE(bed_.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), 1)));
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(DropsOf(dead, DropReason::kEgressError), 1u);
}

// A sender names the place of the checksum: here the type of an ICMPv6 message, which it completes to 134.
TEST_P(DataplaneDrops, RouterAdvertisementThatItsChecksumMakes) {
  bridge::PortConfig guarded = AccessPort(bed_.switch_index(), 1);
  guarded.features = bridge::kRouterAdvertisementGuard;
  const int a = bed_.AddPod(guarded), b = bed_.AddPod();
  Bytes frame = MakeFrame(kBroadcast, PodMac(a), 0, 70);
  const Bytes ipv6 = {0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 58, 255, 0xfe, 0x80};
  std::copy(ipv6.begin(), ipv6.end(), frame.begin() + 12);
  std::fill(frame.begin() + 54, frame.end(), 0);
  frame[56] = 0x79;  // 0xffff - 0x8600
  frame[57] = 0xff;
  io::VirtioNetHeader header;
  header.flags = io::kNeedsChecksum;
  header.csum_start = 54;
  ASSERT_TRUE(bed_.pod(a).SendWithHeader(WithHeader(header, frame)));
  bed_.ExpectLedgersBalance();
  EXPECT_EQ(bed_.drops(a, DropReason::kRouterAdvertisementGuard), 1u);
  EXPECT_FALSE(bed_.pod(b).Receive(kQuiet));
}

// Only IPv6 has such frames, where somebody has allowed them (RFC 2675); a TAP never does.
TEST(DataplaneNetdevDrops, FrameLongerThanABuffer) {  // P14, O4
  Testbed bed(Variant(RxMode::kAuto, 1, PodKind::kVeth));
  const int a = bed.AddPod(), b = bed.AddPod();
  SetSuperFrameMax(bed.pod(a).ifname(), 200'000);
  io::VirtioNetHeader header = SuperFrameHeader(1400);
  header.gso_type = io::kGsoTcp6;
  header.csum_start = 54;
  header.hdr_len = 74;
  Bytes frame = MakeFrame(kBroadcast, PodMac(a), 0, 14);
  frame[12] = 0x86;
  frame[13] = 0xdd;
  frame.resize(69'000, 0);  // kernels before 6.6 make none longer than 17 pages for a packet socket
  frame[14] = 0x60;
  frame[20] = 6;     // TCP
  frame[66] = 0x50;  // five words
  ASSERT_TRUE(bed.pod(a).SendWithHeader(WithHeader(header, frame)));
  ASSERT_TRUE(bed.pod(a).Send(MakeFrame(kBroadcast, PodMac(a), 7)));
  EXPECT_EQ(bed.pod(b).ReceiveNumbers(1), std::vector<uint32_t>{7}) << "the next one passes, never a part";
  bed.ExpectLedgersBalance();
  EXPECT_EQ(bed.drops(a, DropReason::kFrameTruncated), 1u);
}

}  // namespace
}  // namespace ringswitch::test
