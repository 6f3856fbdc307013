// What takes more than one frame of the VLAN tables.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/bridge_testbed.h"

namespace ringswitch::bridge {
namespace {

// V14: ports of two PVIDs and no common VLAN.
TEST(Vlan, NothingCrossesBetweenTwoPvids) {
  const std::string destinations[] = {"020000000b01", "01005e000001", "ffffffffffff", "3333ff0000b1"};
  const std::string payloads[] = {"88b5 00", "0800 4500", "86dd 6000"};
  const VlanId vids[] = {0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4000, 4094};
  const std::vector<std::vector<const char*>> switches = {{"access 1", "access 2"},
                                                          {"trunk 5-99 native 1", "trunk 100-999 native 2"},
                                                          {"access 10", "trunk 20,30"}};
  for (const auto& ports : switches) {
    Testbed testbed(ports);
    for (const std::string& destination : destinations) {
      for (const std::string& payload : payloads) {
        const std::string addresses = destination + "020000000a01";
        EXPECT_THAT(testbed.Send(1, MakeFrame(60, addresses + payload)).outputs, testing::IsEmpty());
        for (const VlanId vid : vids) {
          FrameBytes frame = MakeFrame(64, addresses + "81000000" + payload);
          SetVid(frame.data(), vid);
          EXPECT_THAT(testbed.Send(1, frame).outputs, testing::IsEmpty()) << "VID " << vid;
        }
      }
    }
    testbed.ExpectLedgersHold();
  }
}

TEST(Vlan, PortThatChangesVlanIsInOneOfThemAtATime) {  // BR-10
  Testbed testbed({"access 1", "access 1", "access 100"});
  const auto outputs_of = [&testbed](PortIndex port) {
    std::vector<PortIndex> ports;
    for (const PortFrame& output : testbed.Send(port, F1()).outputs) ports.push_back(output.port);
    return ports;
  };
  for (int round = 0; round < 200; ++round) {
    testbed.SetPort(2, "access 100");
    EXPECT_THAT(outputs_of(1), testing::IsEmpty());
    EXPECT_THAT(outputs_of(3), testing::ElementsAre(2));
    testbed.SetPort(2, "access 1");
    EXPECT_THAT(outputs_of(1), testing::ElementsAre(2));
    EXPECT_THAT(outputs_of(3), testing::IsEmpty());
  }
}

TEST(Vlan, AddingAndRemovingAVlanLeavesThePvidAlone) {  // V15
  Testbed testbed({"trunk 10 native 1", "trunk 10 native 1"});
  EXPECT_EQ(testbed.Send(1, F3()).outputs.size(), 1u);
  testbed.SetPort(1, "trunk 1 native 1");
  EXPECT_EQ(testbed.Send(1, F3()).reason, DropReason::kIngressVlanNotMember);
  EXPECT_EQ(testbed.Send(1, F1()).outputs.size(), 1u);
  EXPECT_EQ(testbed.Send(2, F3()).reason, DropReason::kNoEgressPort);
}

TEST(Vlan, UnawarePortOfAnAwareSwitchMeetsItsLikeOnly) {
  Testbed testbed({"unaware", "unaware", "access 1", "trunk 1-4094"});
  EXPECT_THAT(testbed.Send(1, F3()).outputs, testing::ElementsAre(PortFrame{2, F3()}));
  const auto outputs = testbed.Send(3, F1()).outputs;
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].port, 4);
}

}  // namespace
}  // namespace ringswitch::bridge
