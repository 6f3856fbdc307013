// Frame tables: from bytes in to bytes out, for addresses, learning, flooding, reserved groups and sizes.

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
FrameBytes Long(size_t length) {
  return MakeFrame(length, "020000000a02 020000000a01 88b5 02");
}
// IPv4 TCP, as a pod's kernel leaves it to be segmented.
FrameBytes SuperFrame(size_t length) {
  FrameBytes frame = MakeFrame(length,
                               "020000000a02 020000000a01 0800 4500000000070000 4006 0000 0a000001 0a000002"
                               "0014001e 00000000 00000000 50100100 0000 0000");
  StoreBe16(&frame[16], static_cast<uint16_t>(length - kHeaderLength));
  return frame;
}
FrameBytes LongTagged(size_t length) {
  return MakeFrame(length, "020000000a02 020000000a01 8100000a 88b5 02");
}

constexpr const char* kFromA = "020000000a01";
constexpr const char* kFromB = "020000000a02";

std::vector<Row> AddressRows() {
  return {
      {.name = "BR-28/F12/P1 group source: dropped, not learned",
       .ports = kFour,
       .input = {1, F12()},
       .drop = DropReason::kInvalidSource,
       .fdb = {{}}},
      {.name = "BR-28/F13/P2 zero source: dropped, not learned",
       .ports = kFour,
       .input = {1, F13()},
       .drop = DropReason::kInvalidSource,
       .fdb = {{}}},
      {.name = "BR-28 broadcast source: dropped, not learned",
       .ports = kFour,
       .input = {1, MakeFrame(60, "020000000a02 ffffffffffff 88b5")},
       .drop = DropReason::kInvalidSource,
       .fdb = {{}}},
      {.name = "BR-28 a group that somebody claimed to be still floods",
       .ports = kFour,
       .before = {{1, F12()}},
       .input = {2, MakeFrame(60, "01005e010203 020000000a02 88b5")},
       .outputs = {{1, MakeFrame(60, "01005e010203 020000000a02 88b5")},
                   {3, MakeFrame(60, "01005e010203 020000000a02 88b5")},
                   {4, MakeFrame(60, "01005e010203 020000000a02 88b5")}}},
      {.name = "L1 source validity is looked at before the VLAN",
       .ports = {"trunk 10", "trunk 10"},
       .input = {1, MakeFrame(64, "ffffffffffff 01005e010203 81000014 88b5")},
       .drop = DropReason::kInvalidSource},
      {.name = "BR-28/F14 cut off after the tag",
       .ports = {"trunk 10", "trunk 10"},
       .input = {1, F14()},
       .drop = DropReason::kTruncatedTag,
       .fdb = {{}}},
      {.name = "17 bytes: a tag and half an EtherType",
       .ports = {"trunk 10", "trunk 10"},
       .input = {1, MakeFrame(17, "ffffffffffff 020000000a01 8100000a 88")},
       .drop = DropReason::kTruncatedTag},
      {.name = "18 bytes: tag and EtherType, no payload, is a whole frame",
       .ports = {"trunk 10", "access 10"},
       .input = {1, MakeFrame(18, "ffffffffffff 020000000a01 8100000a 88b5")},
       .outputs = {{2, MakeFrame(14, "ffffffffffff 020000000a01 88b5")}}},
      {.name = "BR-28/F15/P5 13 bytes",
       .ports = kFour,
       .input = {1, F15()},
       .drop = DropReason::kFrameTooShort,
       .fdb = {{}}},
      {.name = "P5 no byte at all", .ports = kFour, .input = {1, {}}, .drop = DropReason::kFrameTooShort},
      {.name = "P6 14 bytes, header only",
       .ports = {"access 1", "access 1", "trunk 1"},
       .input = {1, MakeFrame(14, "ffffffffffff 020000000a01 88b5")},
       .outputs = {{2, MakeFrame(14, "ffffffffffff 020000000a01 88b5")},
                   {3, MakeFrame(18, "ffffffffffff 020000000a01 81000001 88b5")}}},
      {.name = "P9 short frames keep their length",
       .ports = {"access 1", "access 1"},
       .input = {1, MakeFrame(20, "ffffffffffff 020000000a01 88b5 010203")},
       .outputs = {{2, MakeFrame(20, "ffffffffffff 020000000a01 88b5 010203")}}},
      {.name = "P4 destination zero is ordinary unknown unicast",
       .ports = {"access 1", "access 1"},
       .input = {1, Unicast("000000000000", kFromA)},
       .outputs = {{2, Unicast("000000000000", kFromA)}}},
      {.name = "P10 behind the outermost tag all is payload: another tag, cut off",
       .ports = {"trunk 10", "access 10"},
       .input = {1, MakeFrame(18, "ffffffffffff 020000000a01 8100000a 8100")},
       .outputs = {{2, MakeFrame(14, "ffffffffffff 020000000a01 8100")}}},
      {.name = "P11 an IPv4 header that is none changes nothing",
       .ports = kFour,
       .input = {1, MakeFrame(34, "01005e000016 020000000a01 0800 0f00ffff")},
       .outputs = {{2, MakeFrame(34, "01005e000016 020000000a01 0800 0f00ffff")},
                   {3, MakeFrame(34, "01005e000016 020000000a01 0800 0f00ffff")},
                   {4, MakeFrame(34, "01005e000016 020000000a01 0800 0f00ffff")}}},
      {.name = "P11 an IPv6 header cut off changes nothing",
       .ports = {"access 1", "access 1"},
       .input = {1, MakeFrame(16, "333300000016 020000000a01 86dd 6000")},
       .outputs = {{2, MakeFrame(16, "333300000016 020000000a01 86dd 6000")}}},
      {.name = "a frame of a port that is no longer there",
       .ports = {"none", "access 1"},
       .input = {1, F1()},
       .drop = DropReason::kPortRemoved,
       .fdb = {{}}},
  };
}

std::vector<Row> LearningRows() {
  return {
      {.name = "F1 unknown unicast: one copy to each other port",
       .ports = kFour,
       .input = {2, F2()},
       .outputs = {{1, F2()}, {3, F2()}, {4, F2()}},
       .fdb = {{"02:00:00:00:0a:02 1 p2"}}},
      {.name = "L2/F2 known unicast: one port",
       .ports = kFour,
       .before = {{1, F1()}},
       .input = {2, F2()},
       .outputs = {{1, F2()}},
       .fdb = {{"02:00:00:00:0a:01 1 p1", "02:00:00:00:0a:02 1 p2"}}},
      {.name = "L4 a move: the new port only",
       .ports = kFour,
       .before = {{1, F1()}, {3, F1()}},
       .input = {2, F2()},
       .outputs = {{3, F2()}},
       .fdb = {{"02:00:00:00:0a:01 1 p3", "02:00:00:00:0a:02 1 p2"}}},
      {.name = "S-06/I5 destination on its own side: filtered, not flooded",
       .ports = kFour,
       .before = {{1, F1()}},
       .input = {1, Unicast("020000000a01", "020000000a05")},
       .drop = DropReason::kDestinationOnIngressPort},
      {.name = "S-06 a frame to itself",
       .ports = kFour,
       .input = {1, Unicast("020000000a01", kFromA)},
       .drop = DropReason::kDestinationOnIngressPort},
      {.name = "L8 at the port's limit: not learned, still forwarded",
       .ports = {"access 1 limit 1", "access 1"},
       .before = {{1, F1()}},
       .input = {1, Unicast("020000000a02", "020000000a05")},
       .outputs = {{2, Unicast("020000000a02", "020000000a05")}},
       .fdb = {{"02:00:00:00:0a:01 1 p1"}}},
      {.name = "L12 at the port's limit: what is there stays in use",
       .ports = {"access 1 limit 1", "access 1", "access 1"},
       .before = {{1, F1()}, {1, Unicast("020000000a02", "020000000a05")}},
       .input = {2, F2()},
       .outputs = {{1, F2()}}},
      {.name = "S2 a static address moves nowhere: its frame on another port is dropped",
       .ports = kFour,
       .statics = {{kA, 1, 2}},
       .input = {1, F1()},
       .drop = DropReason::kStaticAddressElsewhere,
       .fdb = {{"02:00:00:00:0a:01 1 p2 static"}}},
      {.name = "S1 a static address on its own port is forwarded and stays static",
       .ports = {"access 1", "access 1"},
       .statics = {{kA, 1, 1}},
       .input = {1, F1()},
       .outputs = {{2, F1()}},
       .fdb = {{"02:00:00:00:0a:01 1 p1 static"}}},
      {.name = "a static entry serves look-ups",
       .ports = kFour,
       .statics = {{kA, 1, 4}},
       .input = {2, F2()},
       .outputs = {{4, F2()}}},
      {.name = "a static entry of another VLAN binds nothing here",
       .ports = {"access 1", "access 1"},
       .statics = {{kA, 2, 2}},
       .input = {1, F1()},
       .outputs = {{2, F1()}},
       .fdb = {{"02:00:00:00:0a:01 1 p1", "02:00:00:00:0a:01 2 p2 static"}}},
      {.name = "a static entry whose port is not a member of the VLAN: not delivered, not flooded",
       .ports = {"access 1", "access 1", "access 2"},
       .statics = {{kA, 1, 3}},
       .input = {2, F2()},
       .drop = DropReason::kNoEgressPort},
      {.name = "an entry whose port is gone, not flushed yet: flooded",
       .ports = {"access 1", "access 1", "none"},
       .statics = {{kA, 1, 3}},
       .input = {2, F2()},
       .outputs = {{1, F2()}}},
      {.name = "the only port of its switch",
       .ports = {"access 1"},
       .input = {1, F1()},
       .drop = DropReason::kNoEgressPort,
       .fdb = {{"02:00:00:00:0a:01 1 p1"}}},
  };
}

std::vector<Row> GroupRows() {
  return {
      {.name = "F6/F16 multicast floods",
       .ports = kFour,
       .input = {3, F16()},
       .outputs = {{1, F16()}, {2, F16()}, {4, F16()}}},
      {.name = "BR-20/F9/L7/G4 LLDP: not forwarded, the source learned",
       .ports = kFour,
       .input = {1, F9()},
       .drop = DropReason::kReservedGroup,
       .fdb = {{"02:00:00:00:0a:01 1 p1"}}},
      {.name = "BR-20/F10/G1 STP: not forwarded, though no bridge here speaks it",
       .ports = kFour,
       .input = {1, F10()},
       .drop = DropReason::kReservedGroup},
      {.name = "BR-20/F11 just outside the block: flooded",
       .ports = kFour,
       .input = {1, F11()},
       .outputs = {{2, F11()}, {3, F11()}, {4, F11()}}},
      {.name = "BR-20/G5 LLDP with bit 14 set: flooded",
       .ports = kFour,
       .config = Forwarding(0x4000),
       .input = {1, F9()},
       .outputs = {{2, F9()}, {3, F9()}, {4, F9()}}},
      {.name = "BR-20 another bit set: LLDP not forwarded",
       .ports = kFour,
       .config = Forwarding(0xbfff),
       .input = {1, F9()},
       .drop = DropReason::kReservedGroup},
      {.name = "BR-20/G3 PAUSE: not forwarded with any mask, the source not learned",
       .ports = kFour,
       .config = Forwarding(0xffff),
       .input = {1, MakeFrame(60, "0180c2000001 020000000a01 8808 0001ffff")},
       .drop = DropReason::kReservedGroup,
       .fdb = std::vector<std::string>()},
      {.name = "G1 STP with bit 0 set: flooded",
       .ports = {"access 1", "access 1"},
       .config = Forwarding(0x0001),
       .input = {1, F10()},
       .outputs = {{2, F10()}}},
      {.name = "G9 Cisco's groups are multicast like any other",
       .ports = {"access 1", "access 1"},
       .input = {1, MakeFrame(60, "01000ccccccc 020000000a01 88b5")},
       .outputs = {{2, MakeFrame(60, "01000ccccccc 020000000a01 88b5")}}},
      {.name = "F7/F8/F13 IP multicast floods, as other multicast does",
       .ports = {"access 1", "access 1", "access 1"},
       .input = {1, MakeFrame(60, "01005e0000fb 020000000a01 0800 4500")},
       .outputs = {{2, MakeFrame(60, "01005e0000fb 020000000a01 0800 4500")},
                   {3, MakeFrame(60, "01005e0000fb 020000000a01 0800 4500")}}},
      {.name = "BR-20 tagged LLDP: classified and learned in its VLAN, not forwarded",
       .ports = {"trunk 10", "trunk 10"},
       .input = {1, MakeFrame(64, "0180c200000e 020000000a01 8100000a 88cc")},
       .drop = DropReason::kReservedGroup,
       .fdb = {{"02:00:00:00:0a:01 10 p1"}}},
      {.name = "L7 reserved group in a foreign VLAN teaches nothing",
       .ports = {"trunk 10", "trunk 10"},
       .input = {1, MakeFrame(64, "0180c200000e 020000000a01 81000014 88cc")},
       .drop = DropReason::kIngressVlanNotMember,
       .fdb = {{}}},
      {.name = "a frame from a bound address to a reserved group is dropped for its source",
       .ports = kFour,
       .statics = {{kA, 1, 2}},
       .input = {1, F9()},
       .drop = DropReason::kStaticAddressElsewhere},
  };
}

const EgressDrop kTooLongForP2 = {2, DropReason::kEgressMtuExceeded};

std::vector<Row> SizeRows() {
  return {
      {.name = "O1 1518 bytes at MTU 1500 pass, untagged too",
       .ports = {"access 10 mtu 9000", "access 10"},
       .input = {1, Long(1518)},
       .outputs = {{2, Long(1518)}}},
      {.name = "O1 1519 bytes at MTU 1500 are dropped at the egress port, and counted there",
       .ports = {"access 10 mtu 9000", "access 10"},
       .input = {1, Long(1519)},
       .egress_drops = {kTooLongForP2}},
      {.name = "O1 a push that makes 1518",
       .ports = {"access 10", "trunk 10"},
       .input = {1, Long(1514)},
       .outputs = {{2, LongTagged(1518)}}},
      {.name = "O1 a push that makes 1519",
       .ports = {"access 10", "trunk 10"},
       .input = {1, Long(1515)},
       .egress_drops = {kTooLongForP2}},
      {.name = "O1 a pop that brings 1522 to 1518",
       .ports = {"trunk 10 mtu 9000", "access 10"},
       .input = {1, LongTagged(1522)},
       .outputs = {{2, Long(1518)}}},
      {.name = "O1 tagged 1519 to a trunk",
       .ports = {"trunk 10 mtu 9000", "trunk 10"},
       .input = {1, LongTagged(1519)},
       .egress_drops = {kTooLongForP2}},
      {.name = "S-17 a flood: only the port of the small MTU loses its copy",
       .ports = {"access 10 mtu 9000", "access 10 mtu 1400", "access 10 mtu 9000", "trunk 10 mtu 9000"},
       .input = {1, Long(9014)},
       .outputs = {{3, Long(9014)}, {4, LongTagged(9018)}},
       .egress_drops = {kTooLongForP2}},
      {.name = "O1/O30/T3/T7 a super-frame counts once, its length against the MTU is header and segment",
       .ports = {"access 10", "access 10"},
       .input = {1, SuperFrame(65000)},
       .wire_length = 1514,
       .outputs = {{2, SuperFrame(65000)}}},
      {.name = "O30 a super-frame whose segments are too long",
       .ports = {"access 10 mtu 9000", "access 10"},
       .input = {1, SuperFrame(65000)},
       .wire_length = 9014,
       .egress_drops = {kTooLongForP2}},
      {.name = "O5 the smallest MTU",
       .ports = {"access 10", "access 10 mtu 68"},
       .input = {1, Long(86)},
       .outputs = {{2, Long(86)}}},
  };
}

}  // namespace

const std::vector<Row>& ForwardingRows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (const auto& table : {AddressRows(), LearningRows(), GroupRows(), SizeRows()}) {
      all.insert(all.end(), table.begin(), table.end());
    }
    return all;
  }();
  return rows;
}

}  // namespace ringswitch::bridge
