// Frame tables: from bytes in to bytes out, for everything that VLANs decide.

#include <string>

#include "tests/unit/bridge_testbed.h"

namespace ringswitch::bridge {
namespace {

const std::vector<const char*> kMixed = {"access 10", "access 10", "trunk 10,20", "access 20"};      // BR-08
const std::vector<const char*> kTrunkFirst = {"trunk 10", "access 10", "trunk 10,20", "access 20"};  // BR-30
const std::vector<const char*> kNative = {"trunk 10,20 native 1", "access 1", "trunk 1,10", "access 10"};
const std::vector<const char*> kUnaware = {"unaware", "unaware", "unaware"};
const SwitchConfig kUnawareSwitch = {.vlan_aware = false, .group_forward_mask = 0, .ageing_time_s = 300};

// A's broadcast in other dresses.
FrameBytes Untagged() {
  return MakeFrame(60, "ffffffffffff 020000000a01 88b5 543033");
}
FrameBytes Tagged(const std::string& tci) {
  return MakeFrame(64, "ffffffffffff 020000000a01 8100" + tci + " 88b5 543033");
}

std::vector<Row> AccessRows() {
  return {
      {.name = "BR-08/F1/V3 untagged on access 10: untagged to access, VID 10 with PCP 0 to trunk",
       .ports = kMixed,
       .input = {1, F1()},
       .outputs = {{2, F1()}, {3, MakeFrame(64, "ffffffffffff 020000000a01 8100000a 88b5 543031")}},
       .fdb = {{"02:00:00:00:0a:01 10 p1"}}},
      {.name = "BR-08/F6 foreign VID on access: dropped, nothing learned",
       .ports = kMixed,
       .input = {1, F6()},
       .drop = DropReason::kTaggedOnAccessPort,
       .fdb = {{}}},
      {.name = "BR-08/F5 VID 4095 on access: dropped, nothing learned",
       .ports = kMixed,
       .input = {1, F5()},
       .drop = DropReason::kTaggedOnAccessPort,
       .fdb = {{}}},
      {.name = "BR-08/F3/V8 its own VID on access: dropped all the same",
       .ports = kMixed,
       .input = {1, F3()},
       .drop = DropReason::kTaggedOnAccessPort,
       .fdb = {{}}},
      {.name = "V4 priority tag on access: PVID, PCP kept to a tagged egress, popped at an untagged one",
       .ports = kMixed,
       .input = {1, Tagged("a000")},
       .outputs = {{2, Untagged()}, {3, Tagged("a00a")}},
       .fdb = {{"02:00:00:00:0a:01 10 p1"}}},
      {.name = "V4 priority tag with DEI: the bit stays",
       .ports = kMixed,
       .input = {1, Tagged("3000")},
       .outputs = {{2, Untagged()}, {3, Tagged("300a")}}},
      {.name = "BR-30/F7/V10 a service tag is payload in the PVID, never turned into 0x8100",
       .ports = kMixed,
       .input = {1, F7()},
       .outputs = {{2, F7()},
                   {3, MakeFrame(72, "ffffffffffff 020000000a01 8100000a 88a80064 8100000a 88b5 543037")}},
       .fdb = {{"02:00:00:00:0a:01 10 p1"}}},
      {.name = "BR-10 access 100 hears nothing of access 1",
       .ports = {"access 1", "access 100", "access 1", "access 100"},
       .input = {1, F1()},
       .outputs = {{3, F1()}}},
      {.name = "BR-10 access 100 is heard by access 100 only",
       .ports = {"access 1", "access 100", "access 1", "access 100"},
       .input = {2, F1()},
       .outputs = {{4, F1()}}},
      {.name = "BR-17/F1/F6 a broadcast: one copy each, none back",
       .ports = {"access 1", "access 1", "access 1", "access 1"},
       .input = {1, F1()},
       .outputs = {{2, F1()}, {3, F1()}, {4, F1()}}},
      {.name = "V19 one address in two VLANs: the frame of VLAN 20 does not go to the port of VLAN 10",
       .ports = kMixed,
       .before = {{1, F1()}, {4, F1()}},
       .input = {3, MakeFrame(64, "020000000a01 020000000a03 81000014 88b5")},
       .outputs = {{4, MakeFrame(60, "020000000a01 020000000a03 88b5")}},
       .fdb = {{"02:00:00:00:0a:01 10 p1", "02:00:00:00:0a:01 20 p4", "02:00:00:00:0a:03 20 p3"}}},
  };
}

std::vector<Row> TrunkRows() {
  return {
      {.name = "BR-01/F3/V11 VID 10 with PCP 5: untouched to trunk, popped to access",
       .ports = kTrunkFirst,
       .input = {1, F3()},
       .outputs = {{2, Untagged()}, {3, F3()}},
       .fdb = {{"02:00:00:00:0a:01 10 p1"}}},
      {.name = "BR-30/F8 two tags: VLAN 10 only, the inner tag left",
       .ports = kTrunkFirst,
       .input = {1, F8()},
       .outputs = {{2, MakeFrame(64, "ffffffffffff 020000000a01 81000014 88b5 543038")}, {3, F8()}},
       .fdb = {{"02:00:00:00:0a:01 10 p1"}}},
      {.name = "V7/F6 VID 20 where only 10 is a member: dropped, not learned",
       .ports = kTrunkFirst,
       .input = {1, F6()},
       .drop = DropReason::kIngressVlanNotMember,
       .fdb = {{}}},
      {.name = "F5 VID 4095 is never a member, not even of a trunk of all",
       .ports = {"trunk 1-4094", "trunk 1-4094"},
       .input = {1, F5()},
       .drop = DropReason::kIngressVlanNotMember,
       .fdb = {{}}},
      {.name = "VID 4094 is an ordinary VLAN",
       .ports = {"trunk 1-4094", "trunk 1-4094", "access 4094", "access 4093"},
       .input = {1, Tagged("0ffe")},
       .outputs = {{2, Tagged("0ffe")}, {3, Untagged()}}},
      {.name = "V6/F1 untagged on a trunk without native VLAN: dropped, not learned",
       .ports = kTrunkFirst,
       .input = {1, F1()},
       .drop = DropReason::kNoNativeVlan,
       .fdb = {{}}},
      {.name = "V6 priority-tagged on a trunk without native VLAN: dropped",
       .ports = kTrunkFirst,
       .input = {1, Tagged("2000")},
       .drop = DropReason::kNoNativeVlan,
       .fdb = {{}}},
      {.name = "V6/V10/F7 service-tagged on a trunk without native VLAN: dropped",
       .ports = kTrunkFirst,
       .input = {1, F7()},
       .drop = DropReason::kNoNativeVlan},
      {.name = "a trunk's frame in a VLAN that nobody else has",
       .ports = {"trunk 10,30", "access 10", "trunk 20"},
       .input = {1, Tagged("001e")},
       .drop = DropReason::kNoEgressPort,
       .fdb = {{"02:00:00:00:0a:01 30 p1"}}},
      {.name = "known unicast from trunk to access: popped, one port",
       .ports = kTrunkFirst,
       .before = {{2, MakeFrame(60, "ffffffffffff 020000000a02 88b5")}},
       .input = {1, MakeFrame(64, "020000000a02 020000000a01 8100e00a 88b5 01")},
       .outputs = {{2, MakeFrame(60, "020000000a02 020000000a01 88b5 01")}}},
      {.name = "known unicast from access to trunk: pushed, one port",
       .ports = kTrunkFirst,
       .before = {{1, F3()}},
       .input = {2, F2()},
       .outputs = {{1, MakeFrame(64, "020000000a01 020000000a02 8100000a 88b5 543032")}}},
      {.name = "known unicast from trunk to trunk: byte for byte",
       .ports = {"trunk 10,20", "trunk 10,20", "trunk 10,20"},
       .before = {{1, F3()}},
       .input = {2, MakeFrame(64, "020000000a01 020000000a02 8100f00a 88b5 02")},
       .outputs = {{1, MakeFrame(64, "020000000a01 020000000a02 8100f00a 88b5 02")}}},
  };
}

std::vector<Row> NativeRows() {
  return {
      {.name = "native: untagged in is VLAN 1; untagged to access, tagged to a trunk that has it tagged",
       .ports = kNative,
       .input = {1, F1()},
       .outputs = {{2, F1()}, {3, MakeFrame(64, "ffffffffffff 020000000a01 81000001 88b5 543031")}},
       .fdb = {{"02:00:00:00:0a:01 1 p1"}}},
      {.name = "native: VLAN 1 leaves the trunk untagged",
       .ports = kNative,
       .input = {2, F1()},
       .outputs = {{1, F1()}, {3, MakeFrame(64, "ffffffffffff 020000000a01 81000001 88b5 543031")}}},
      {.name = "native/V8 its own VID tagged on a trunk: accepted, membership is all that counts",
       .ports = kNative,
       .input = {1, Tagged("4001")},
       .outputs = {{2, Untagged()}, {3, Tagged("4001")}}},
      {.name = "native/V4 priority tag: native VLAN, PCP kept where tagged",
       .ports = kNative,
       .input = {1, Tagged("e000")},
       .outputs = {{2, Untagged()}, {3, Tagged("e001")}}},
      {.name = "native: another member VLAN stays tagged",
       .ports = kNative,
       .input = {3, F3()},
       .outputs = {{1, F3()}, {4, Untagged()}}},
      {.name = "V20 native VLAN tagged on egress: untagged in, tagged out",
       .ports = {"access 10", "trunk 20 native 10 tagged", "access 10"},
       .input = {1, F1()},
       .outputs = {{2, MakeFrame(64, "ffffffffffff 020000000a01 8100000a 88b5 543031")}, {3, F1()}}},
      {.name = "native: a service tag is payload, to a trunk it gets a tag in front",
       .ports = kNative,
       .input = {1, F7()},
       .outputs = {{2, F7()},
                   {3, MakeFrame(72, "ffffffffffff 020000000a01 81000001 88a80064 8100000a 88b5 543037")}}},
  };
}

std::vector<Row> UnawareRows() {
  return {
      {.name = "V2/F3 unaware: tags pass untouched, learned without VLAN",
       .ports = kUnaware,
       .config = kUnawareSwitch,
       .input = {1, F3()},
       .outputs = {{2, F3()}, {3, F3()}},
       .fdb = {{"02:00:00:00:0a:01 0 p1"}}},
      {.name = "V2/F1 unaware: untagged passes untouched",
       .ports = kUnaware,
       .config = kUnawareSwitch,
       .input = {1, F1()},
       .outputs = {{2, F1()}, {3, F1()}}},
      {.name = "V2/F5 unaware: even VID 4095",
       .ports = kUnaware,
       .config = kUnawareSwitch,
       .input = {1, F5()},
       .outputs = {{2, F5()}, {3, F5()}}},
      {.name = "V2/F8 unaware: two tags pass untouched",
       .ports = kUnaware,
       .config = kUnawareSwitch,
       .input = {1, F8()},
       .outputs = {{2, F8()}, {3, F8()}}},
      {.name = "V2 unaware: one address in two VLANs shares one entry",
       .ports = kUnaware,
       .config = kUnawareSwitch,
       .before = {{1, F3()}, {1, F6()}},
       .input = {2, MakeFrame(64, "020000000a01 020000000a02 81000063 88b5")},
       .outputs = {{1, MakeFrame(64, "020000000a01 020000000a02 81000063 88b5")}},
       .fdb = {{"02:00:00:00:0a:01 0 p1", "02:00:00:00:0a:02 0 p2"}}},
      {.name = "an unaware switch ignores what its ports say about VLANs",
       .ports = {"access 10", "access 20", "trunk 30"},
       .config = kUnawareSwitch,
       .input = {1, F3()},
       .outputs = {{2, F3()}, {3, F3()}}},
      {.name = "F14 unaware: a truncated tag is dropped there too, as the kernel does",
       .ports = kUnaware,
       .config = kUnawareSwitch,
       .input = {1, F14()},
       .drop = DropReason::kTruncatedTag,
       .fdb = {{}}},
  };
}

}  // namespace

const std::vector<Row>& VlanRows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (const auto& table : {AccessRows(), TrunkRows(), NativeRows(), UnawareRows()}) {
      all.insert(all.end(), table.begin(), table.end());
    }
    return all;
  }();
  return rows;
}

}  // namespace ringswitch::bridge
