// What takes more than one frame of the forwarding tables, or another look than theirs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/bridge_testbed.h"

namespace ringswitch::bridge {
namespace {

const std::vector<const char*> kFour = {"access 1", "access 1", "access 1", "access 1"};
constexpr SwitchConfig Forwarding(uint16_t group_forward_mask) {
  return {.vlan_aware = true, .group_forward_mask = group_forward_mask, .ageing_time_s = 300};
}
FrameBytes Unicast(const char* destination, const char* source) {
  return MakeFrame(60, std::string(destination) + source + "88b5 01");
}
constexpr const char *kFromA = "020000000a01", *kFromB = "020000000a02";

TEST(ReservedGroup, AllSixteenReachNobody) {  // BR-20
  Testbed testbed(kFour);
  for (uint8_t last = 0; last <= 0x0f; ++last) {
    FrameBytes frame = F9();
    frame[5] = last;
    EXPECT_EQ(testbed.Send(1, frame).reason, DropReason::kReservedGroup);
    testbed.SetSwitch(Forwarding(0xffff));
    EXPECT_EQ(testbed.Send(1, frame).forwarded, last != 1);
    testbed.SetSwitch(Forwarding(0));
  }
  EXPECT_EQ(testbed.TotalsOf(1).drops[static_cast<size_t>(DropReason::kReservedGroup)], 17u);
  testbed.ExpectLedgersHold();
}

TEST(Flood, IsCountedOnceByClassAndOncePerCopy) {
  Testbed testbed(kFour);
  testbed.Send(1, F1());
  testbed.Send(1, F11());
  testbed.Send(1, Unicast("020000000b01", kFromA));
  testbed.Send(2, F2());  // known
  const PortTotals totals = testbed.TotalsOf(1);
  EXPECT_EQ(totals.flooded_broadcast_frames, 1u);
  EXPECT_EQ(totals.flooded_multicast_frames, 1u);
  EXPECT_EQ(totals.flooded_unknown_unicast_frames, 1u);
  EXPECT_EQ(totals.flood_copies, 9u);
  EXPECT_EQ(totals.queued_copies, 1u);
  EXPECT_EQ(testbed.TotalsOf(2).flood_copies, 0u);
  EXPECT_EQ(testbed.TotalsOf(2).queued_copies, 3u);
  testbed.ExpectLedgersHold();
}

TEST(Flood, CopyThatItsPortDropsIsACopy) {
  Testbed testbed({"access 1 mtu 9000", "access 1", "access 1 mtu 9000"});
  EXPECT_EQ(testbed.Send(1, MakeFrame(1519, "ffffffffffff 020000000a01 88b5")).outputs.size(), 1u);
  EXPECT_EQ(testbed.TotalsOf(1).flood_copies, 2u);
  EXPECT_EQ(testbed.TotalsOf(2).queued_copies, 1u);
  testbed.ExpectLedgersHold();
}

TEST(Flood, ReachesEveryPortOfAFullSwitch) {  // F1, F19, X1
  Testbed testbed(std::vector<const char*>(kPortsMax - 1, "access 1"));
  EXPECT_EQ(testbed.Send(1, F1()).outputs.size(), kPortsMax - 2);
  testbed.ExpectLedgersHold();
}

TEST(Learning, NotLearnedIsCountedOnForwardedFramesOnly) {
  Testbed testbed({"access 1 limit 1", "access 1"});
  testbed.Send(1, F1());
  testbed.Send(1, Unicast(kFromB, "020000000a05"));
  testbed.Send(1, Unicast(kFromA, "020000000a06"));  // filtered
  EXPECT_EQ(testbed.TotalsOf(1).not_learned_frames, 1u);
  EXPECT_EQ(testbed.fdb().Events().limited, 2u);
}

TEST(Learning, FullSwitchStillForwards) {  // L12
  Testbed testbed({"access 1", "access 1"}, {}, kFdbCapacityMin);
  for (uint8_t last = 1; last <= 100; ++last) {
    FrameBytes frame = F1();
    frame[10] = 0x0b;
    frame[11] = last;
    EXPECT_EQ(testbed.Send(1, frame).outputs.size(), 1u);
  }
  EXPECT_EQ(testbed.fdb().CountOf(FdbKind::kDynamic), kFdbCapacityMin);
  EXPECT_EQ(testbed.TotalsOf(1).not_learned_frames, 100u - kFdbCapacityMin);
}

TEST(Removal, FlushedAddressFloodsAndReachesWhoeverHasItNow) {  // BR-12
  Testbed testbed({"access 10", "access 10", "access 10"});
  testbed.Send(1, F1());
  ASSERT_EQ(testbed.Send(2, F2()).outputs.size(), 1u);
  testbed.SetPort(1, "access 20");
  VlanSet left;
  left.Add(10);
  EXPECT_EQ(testbed.fdb().Flush({.port = 1, .vids = &left, .kind = FdbKind::kDynamic}), 1u);
  EXPECT_THAT(testbed.Send(2, F2()).outputs, testing::ElementsAre(PortFrame{3, F2()}));
  EXPECT_EQ(testbed.TotalsOf(2).flooded_unknown_unicast_frames, 1u);
}

TEST(Removal, PortOfAnotherSwitchIsNoEgress) {
  EpochDomain epochs;
  Fdb fdb(kFdbCapacityMin, 1, &epochs);
  PortConfig here, there;
  there.switch_index = 1;
  const SwitchEntry entry{.config = {}, .fdb = &fdb, .ports = {0}};
  ForwardingConfig config;
  config.ports[0] = &here;
  config.ports[1] = &there;
  config.switches[0] = &entry;
  std::vector<PortCounters> counters(kPortsMax);
  std::vector<PortMeters> meters(kPortsMax);
  Pipeline pipeline(counters, meters, 0);
  const FrameBytes frame = F2();
  EXPECT_EQ(pipeline.Process(0, frame.data(), 60, 60).reason, DropReason::kPortRemoved)
      << "no configuration yet";
  pipeline.SetConfig(&config);
  EXPECT_EQ(pipeline.Process(1, frame.data(), 60, 60).reason, DropReason::kPortRemoved) << "no such switch";
  ASSERT_EQ(fdb.AddStatic({kA, kVlanIdNone}, 1, false), FdbResult::kOk);
  EXPECT_EQ(pipeline.Process(0, frame.data(), 60, 60).reason, DropReason::kNoEgressPort);
}

// S15: as VPP's own test goes about it.
TEST(StaticEntries, AreProgrammedDeletedAndFlushedByTheHundred) {
  Testbed testbed(kFour);
  Fdb& fdb = testbed.fdb();
  const auto mac = [](uint32_t number) { return MacAddress(0x0200'0000'0c00 + number); };
  const auto program = [&](uint32_t first, uint32_t end, PortIndex port) {
    for (uint32_t i = first; i < end; ++i)
      ASSERT_EQ(fdb.AddStatic({mac(i), 1}, port, false), FdbResult::kOk) << i;
  };
  const auto reached = [&](uint32_t number) {
    FrameBytes frame = F2();
    const auto bytes = mac(number).Bytes();
    std::copy(bytes.begin(), bytes.end(), frame.begin());
    return testbed.Send(2, frame).outputs;
  };
  program(0, 100, 1);
  for (uint32_t i = 0; i < 12; ++i) EXPECT_EQ(fdb.Remove({mac(i), 1}), FdbResult::kOk);
  EXPECT_EQ(fdb.CountOf(FdbKind::kStatic), 88u);
  EXPECT_EQ(reached(11).size(), 3u) << "unknown again";
  program(100, 200, 3);
  for (uint32_t i = 12; i < 200; ++i) {
    const auto outputs = reached(i);
    ASSERT_EQ(outputs.size(), 1u) << i;
    EXPECT_EQ(outputs[0].port, i < 100 ? 1 : 3);
  }
  program(200, 210, 4);
  for (uint8_t i = 0; i < 10; ++i) {
    FrameBytes frame = F1();
    frame[11] = static_cast<uint8_t>(0x80 + i);
    testbed.Send(4, frame);
  }
  EXPECT_EQ(fdb.Flush({.port = 4, .kind = FdbKind::kDynamic}), 10u);
  EXPECT_EQ(fdb.Flush({.port = 3}), 100u);
  EXPECT_EQ(fdb.CountOf(FdbKind::kStatic), 98u);
  EXPECT_EQ(fdb.Flush({}), 98u + 1) << "and the one that sent to them all";
  testbed.ExpectLedgersHold();
}

TEST(Received, FrameThatIoRefusedIsCountedAsReceivedAndDropped) {
  Testbed testbed(kFour);
  testbed.pipeline().DropReceived(1, 2000, DropReason::kFrameTruncated);
  testbed.pipeline().DropReceived(1, 60, DropReason::kInvalidOffloadHeader);
  const PortTotals totals = testbed.TotalsOf(1);
  EXPECT_EQ(totals.receive_frames, 2u);
  EXPECT_EQ(totals.receive_bytes, 2060u);
  EXPECT_EQ(totals.DropsOn(DropSide::kIngress), 2u);
  testbed.ExpectLedgersHold();
}

}  // namespace
}  // namespace ringswitch::bridge
