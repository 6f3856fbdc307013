// What takes more than one frame: attributes that change on the way, time that passes, what counters say
// afterwards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/bridge_testbed.h"

namespace ringswitch::bridge {
namespace {

TEST(LearningAttribute, FollowsTheWholeCourse) {  // L2, A1, F4
  Testbed testbed({"access 1 no-unknown-flood", "access 1"}, {.ageing_time_s = 10});
  const FrameBytes to_new = MakeFrame(60, "deadbeef1337 020000000a02 88b5");
  const FrameBytes from_new = MakeFrame(60, "ffffffffffff deadbeef1337 88b5");
  EXPECT_EQ(testbed.Send(2, to_new).reason, DropReason::kNoEgressPort);
  testbed.Send(1, from_new);
  EXPECT_THAT(testbed.FdbText(), testing::Contains("de:ad:be:ef:13:37 1 p1"));
  EXPECT_EQ(testbed.Send(2, to_new).outputs.size(), 1u);
  testbed.Wait(11);
  testbed.Age();
  EXPECT_THAT(testbed.FdbText(), testing::Not(testing::Contains("de:ad:be:ef:13:37 1 p1")));
  testbed.SetPort(1, "access 1 no-learning");
  testbed.Send(1, from_new);
  EXPECT_THAT(testbed.FdbText(), testing::Not(testing::Contains("de:ad:be:ef:13:37 1 p1")));
  testbed.SetPort(1, "access 1");
  testbed.Send(1, from_new);
  EXPECT_THAT(testbed.FdbText(), testing::Contains("de:ad:be:ef:13:37 1 p1"));
}

TEST(LearningAttribute, OffRefreshesNothing) {  // L6, A3
  Testbed testbed({"access 1", "access 1"}, {.ageing_time_s = 10});
  testbed.Send(1, F1());
  testbed.SetPort(1, "access 1 no-learning");
  testbed.Wait(11);
  testbed.Send(1, F1());
  EXPECT_EQ(testbed.Send(2, F2()).frame_class, FrameClass::kUnicast) << "used until the sweep finds it";
  testbed.Age();
  EXPECT_EQ(testbed.Send(2, F2()).frame_class, FrameClass::kUnknownUnicast);
}

TEST(LearningAttribute, LimitHoldsAsLinuxHoldsIt) {  // L8, L9, L10, L11
  Testbed testbed({"access 1 limit 8", "access 1"});
  const auto send_from = [&testbed](uint8_t last) {
    FrameBytes frame = F1();
    frame[10] = 0x0c;
    frame[11] = last;
    EXPECT_EQ(testbed.Send(1, frame).outputs.size(), 1u);
  };
  for (uint8_t last = 0; last < 16; ++last) send_from(last);
  EXPECT_EQ(testbed.fdb().DynamicCountOf(1), 8u) << "L8";
  ASSERT_EQ(testbed.fdb().AddStatic({kD, 1}, 1, false), FdbResult::kOk) << "L9";
  EXPECT_EQ(testbed.fdb().DynamicCountOf(1), 8u) << "L10: only learned ones count";
  ASSERT_EQ(testbed.fdb().AddStatic({MacAddress(0x0200'0000'0c00), 1}, 1, false), FdbResult::kOk);
  EXPECT_EQ(testbed.fdb().DynamicCountOf(1), 7u) << "L10: converted";
  send_from(0x80);
  EXPECT_EQ(testbed.fdb().DynamicCountOf(1), 8u);
  testbed.SetPort(1, "access 1 limit 2");
  send_from(0x81);
  EXPECT_EQ(testbed.fdb().DynamicCountOf(1), 8u) << "L11";
}

TEST(Locked, RefreshesWhatItLetsIn) {  // I7
  Testbed testbed({"access 1", "access 1"}, {.ageing_time_s = 10});
  testbed.Send(1, F1());
  testbed.SetPort(1, "access 1 locked");
  for (int i = 0; i < 5; ++i) {
    testbed.Wait(8);
    EXPECT_EQ(testbed.Send(1, F1()).outputs.size(), 1u);
    testbed.Age();
  }
  testbed.Wait(11);
  testbed.Age();
  EXPECT_EQ(testbed.Send(1, F1()).reason, DropReason::kSourceNotAuthorised);
  testbed.SetPort(1, "access 1");
  EXPECT_EQ(testbed.Send(1, F1()).outputs.size(), 1u) << "unlocked";
}

TEST(BpduGuard, RecoversByTime) {
  Testbed testbed({"access 1 bpdu-guard bpdu-recovery 30", "access 1"});
  EXPECT_EQ(testbed.Send(1, F10()).reason, DropReason::kBpduGuard);
  EXPECT_TRUE(testbed.meters(1).IsBlocked(testbed.now_s));
  testbed.Wait(29);
  EXPECT_EQ(testbed.Send(1, F10()).reason, DropReason::kPortBlocked) << "no second start of the time";
  EXPECT_EQ(testbed.Send(2, F2()).reason, DropReason::kNoEgressPort);
  testbed.Wait(1);
  EXPECT_EQ(testbed.Send(1, F1()).outputs.size(), 1u);
  EXPECT_EQ(testbed.Send(2, F2()).outputs.size(), 1u);
  EXPECT_EQ(testbed.Send(1, F10()).reason, DropReason::kBpduGuard) << "and again";
  testbed.ExpectLedgersHold();
}

TEST(BpduGuard, WithoutRecoveryWaitsForAHand) {
  Testbed testbed({"access 1 bpdu-guard", "access 1"});
  testbed.Send(1, F10());
  testbed.Wait(1'000'000'000);
  EXPECT_EQ(testbed.Send(1, F1()).reason, DropReason::kPortBlocked);
  testbed.meters(1).Reset();
  EXPECT_EQ(testbed.Send(1, F1()).outputs.size(), 1u);
}

TEST(BpduGuard, SwitchedOffUnblocks) {
  Testbed testbed({"access 1 bpdu-guard", "access 1"});
  testbed.Send(1, F10());
  testbed.SetPort(1, "access 1");
  EXPECT_EQ(testbed.Send(1, F1()).outputs.size(), 1u);
  EXPECT_EQ(testbed.Send(2, F2()).outputs.size(), 1u);
}

TEST(FlapGuard, HoldEndsByTime) {
  Testbed testbed({"access 1", "access 1"}, {.ageing_time_s = 0, .flap_limit = 1, .flap_hold_s = 20});
  testbed.Send(1, F1());
  testbed.Send(2, F1());
  EXPECT_EQ(testbed.Send(1, F1()).reason, DropReason::kAddressFlapping);
  EXPECT_EQ(testbed.fdb().Events().held, 1u);
  testbed.Wait(19);
  testbed.Age();
  EXPECT_EQ(testbed.Send(1, F1()).reason, DropReason::kAddressFlapping);
  testbed.Wait(1);
  testbed.Age();
  EXPECT_EQ(testbed.Send(1, F1()).outputs.size(), 1u) << "free again, also where nothing ages";
  EXPECT_EQ(testbed.FdbText(), std::vector<std::string>{"02:00:00:00:0a:01 1 p1"});
  testbed.ExpectLedgersHold();
}

TEST(StormControl, LimitsTheRate) {
  Testbed testbed({"access 1 storm-broadcast 100/10", "access 1"});
  uint32_t passed = 0;
  for (int ms = 0; ms < 10'000; ++ms) {
    passed += testbed.Send(1, F1()).forwarded ? 1 : 0;
    testbed.now_ns += 1'000'000;
  }
  EXPECT_NEAR(passed, 100 * 10 + 10, 1);
}

TEST(StormControl, FrameThatOneLimitRefusesCostsTheOtherNothing) {
  Testbed testbed({"access 1 storm-broadcast 1/2 storm-broadcast-bits 480/960", "access 1"});
  const FrameBytes longer = MakeFrame(1500, "ffffffffffff 020000000a01 88b5");
  EXPECT_TRUE(testbed.Send(1, F1()).forwarded);
  EXPECT_FALSE(testbed.Send(1, longer).forwarded) << "there are frames left, and no bits";
  EXPECT_TRUE(testbed.Send(1, F1()).forwarded) << "there are both";
  EXPECT_FALSE(testbed.Send(1, F1()).forwarded) << "there is neither";
}

TEST(Rates, HoldForSuperFrames) {
  Testbed testbed({"access 1 receive-rate 8000000/80000", "access 1 transmit-rate 8000000/80000"});
  const FrameBytes super = MakeFrame(60'000, "ffffffffffff 020000000a01 88b5");
  EXPECT_TRUE(testbed.Send(1, super, 1514).forwarded) << "longer than the burst, but the bucket is full";
  EXPECT_FALSE(testbed.Send(1, F1()).forwarded);
  testbed.now_ns += 60'000'000;  // what it took
  EXPECT_EQ(testbed.Send(1, super, 1514).outputs.size(), 1u);
  testbed.ExpectLedgersHold();
}

TEST(VlanCounters, CountWhatPassedTheVlanAndWhatLeaves) {  // T1, T11
  Testbed testbed({"access 10", "trunk 10,20", "access 20"}, {.vlan_counters = true});
  testbed.Send(1, F1());  // 60 bytes in, 64 out by the trunk
  testbed.Send(2, F3());  // 64 in, 60 out
  testbed.Send(1, F6());  // not let in
  testbed.Send(2, F9());  // no native VLAN
  testbed.Send(2, MakeFrame(64, "0180c200000e 020000000a01 8100000a 88cc"));  // let in, goes nowhere
  const VlanCounters& ten = testbed.VlanCountersOf(10);
  EXPECT_EQ(ten.receive_frames.Read(), 3u);
  EXPECT_EQ(ten.receive_bytes.Read(), 60u + 64u + 64u);
  EXPECT_EQ(ten.transmit_frames.Read(), 2u);
  EXPECT_EQ(ten.transmit_bytes.Read(), 64u + 60u);
  EXPECT_EQ(testbed.VlanCountersOf(20).receive_frames.Read(), 0u);
  testbed.Send(3, F1());
  EXPECT_EQ(testbed.VlanCountersOf(20).transmit_bytes.Read(), 64u);
  testbed.SetSwitch({});
  testbed.Send(3, F1());
  EXPECT_EQ(testbed.VlanCountersOf(20).receive_frames.Read(), 1u) << "off";
}

TEST(VlanCounters, OfAnUnawareSwitchAreThoseOfNoVlan) {
  Testbed testbed({"unaware", "unaware", "unaware"}, {.vlan_aware = false, .vlan_counters = true});
  testbed.Send(1, F3());
  EXPECT_EQ(testbed.VlanCountersOf(kVlanIdNone).receive_bytes.Read(), 64u);
  EXPECT_EQ(testbed.VlanCountersOf(kVlanIdNone).transmit_frames.Read(), 2u);
}

TEST(Removal, OfTheNativeVlanLeavesNone) {  // V16, V17
  Testbed testbed({"trunk 1,10 native 1", "trunk 1,10 native 1"});
  EXPECT_EQ(testbed.Send(1, F1()).outputs.size(), 1u);
  testbed.SetPort(1, "trunk 1,10 native 10");
  testbed.Send(1, F1());
  EXPECT_THAT(testbed.FdbText(), testing::Contains("02:00:00:00:0a:01 10 p1")) << "10 is the only one now";
  testbed.SetPort(1, "trunk 1,10");
  EXPECT_EQ(testbed.Send(1, F1()).reason, DropReason::kNoNativeVlan);
}

TEST(Removal, OfAVlanAndOfAPort) {  // V18, L16, S6
  Testbed testbed({"trunk 10,20", "trunk 10,20"});
  testbed.Send(1, F3());
  testbed.Send(1, F6());
  ASSERT_EQ(testbed.fdb().AddStatic({kC, 10}, 1, false), FdbResult::kOk);
  ASSERT_EQ(testbed.fdb().AddStatic({kD, 20}, 2, false), FdbResult::kOk);
  VlanSet left;
  left.Add(10);
  EXPECT_EQ(testbed.fdb().Flush({.port = 1, .vids = &left, .kind = FdbKind::kDynamic}), 1u);
  EXPECT_EQ(testbed.FdbText(),
            (std::vector<std::string>{"02:00:00:00:0a:01 20 p1", "02:00:00:00:0a:03 10 p1 static",
                                      "02:00:00:00:0a:04 20 p2 static"}));
  EXPECT_EQ(testbed.fdb().Flush({.port = 1}), 2u) << "static ones too";
  EXPECT_EQ(testbed.FdbText(), std::vector<std::string>{"02:00:00:00:0a:04 20 p2 static"});
}

TEST(Switches, AreIndependent) {  // L15, L19
  Testbed one({"access 1", "access 1", "access 1"}),
      two({"access 1", "access 1", "access 1"}, {}, kFdbCapacityMin);
  one.Send(1, F1());
  two.Send(2, F1());
  EXPECT_THAT(one.Send(3, F2()).outputs, testing::ElementsAre(PortFrame{1, F2()}));
  EXPECT_THAT(two.Send(3, F2()).outputs, testing::ElementsAre(PortFrame{2, F2()}));
  EXPECT_EQ(one.fdb().capacity(), kFdbCapacityDefault);
}

TEST(Ageing, FollowsTheTimeThatIsSet) {  // A1, A3, A4, A5, A6
  Testbed testbed({"access 1", "access 1", "access 1"});
  ASSERT_EQ(testbed.fdb().AddStatic({kD, 1}, 1, false), FdbResult::kOk);
  testbed.Send(1, F1());
  testbed.Wait(300);
  testbed.Age();
  EXPECT_EQ(testbed.Send(2, F2()).outputs.size(), 1u) << "A1: 300 s by default";
  testbed.SetSwitch({.ageing_time_s = 10});
  testbed.Age();
  EXPECT_EQ(testbed.Send(2, F2()).outputs.size(), 2u) << "A5: at once for what is there";
  testbed.SetSwitch({.ageing_time_s = 0});
  testbed.Send(1, F1());
  testbed.Wait(1'000'000);
  testbed.Age();
  EXPECT_EQ(testbed.Send(2, F2()).outputs.size(), 1u) << "A4: 0 is no ageing here";
  EXPECT_THAT(testbed.FdbText(), testing::Contains("02:00:00:00:0a:04 1 p1 static")) << "A6";
}

}  // namespace
}  // namespace ringswitch::bridge
