// V21: every VLAN mode against every tag. Trunk, access, native tagged and native untagged ports, each sent
// frames without a tag and with VID 0, 10, 11, 12 at two priorities: which ports get it, and in which form,
// byte for byte.

#include <string>

#include "tests/unit/bridge_testbed.h"

namespace ringswitch::bridge {
namespace {

const std::vector<const char*> kPorts = {
    "trunk 10,12",
    "access 10",
    "access 12",
    "access 12",
    "trunk 1-4094 native 10 tagged",
    "trunk 10,12 native 10 tagged",
    "trunk 1-4094 native 12",
    "trunk 10,12 native 12",
};

// Tag of the frame, by column: none, then these VIDs.
constexpr int kVids[] = {-1, 0, 10, 11, 12};
// The VLAN that a frame belongs to, by ingress port and tag; 0: dropped.
constexpr int kVlan[8][5] = {
    {0, 0, 10, 0, 12},    {10, 10, 0, 0, 0},   {12, 12, 0, 0, 0},    {12, 12, 0, 0, 0},
    {10, 10, 10, 11, 12}, {10, 10, 10, 0, 12}, {12, 12, 10, 11, 12}, {12, 12, 10, 0, 12},
};
// How it leaves, by egress port: t with tag, u without, '-' not at all.
constexpr const char* FormsOf(int vlan) {
  switch (vlan) {
    case 10:
      return "tu--tttt";
    case 11:
      return "----t-t-";
    default:
      return "t-uuttuu";
  }
}

FrameBytes Untagged() {
  return MakeFrame(60, "ffffffffffff 020000000a01 88b5 7632");
}
FrameBytes Tagged(int pcp, int vid) {
  FrameBytes frame = MakeFrame(64, "ffffffffffff 020000000a01 81000000 88b5 7632");
  StoreBe16(&frame[14], static_cast<uint16_t>(pcp << 13 | vid));
  return frame;
}

DropReason ReasonOf(PortIndex ingress, size_t tag) {
  if (std::string_view(kPorts[ingress - 1]).rfind("access", 0) == 0) return DropReason::kTaggedOnAccessPort;
  return tag < 2 ? DropReason::kNoNativeVlan : DropReason::kIngressVlanNotMember;
}

Row MatrixRow(PortIndex ingress, size_t tag, int pcp) {
  const int vlan = kVlan[ingress - 1][tag];
  Row row{.name = "",
          .ports = kPorts,
          .input = {ingress, tag == 0 ? Untagged() : Tagged(pcp, kVids[tag])},
          .fdb = std::vector<std::string>{}};
  row.name = "V21 from p" + std::to_string(ingress) + ", " +
             (tag == 0 ? "no tag" : "VID " + std::to_string(kVids[tag]) + " PCP " + std::to_string(pcp));
  if (vlan == 0) {
    row.drop = ReasonOf(ingress, tag);
    return row;
  }
  row.fdb->push_back("02:00:00:00:0a:01 " + std::to_string(vlan) + " p" + std::to_string(ingress));
  for (PortIndex egress = 1; egress <= kPorts.size(); ++egress) {
    const char form = FormsOf(vlan)[egress - 1];
    if (egress == ingress || form == '-') continue;
    row.outputs.push_back({egress, form == 't' ? Tagged(pcp, vlan) : Untagged()});
  }
  return row;
}

}  // namespace

const std::vector<Row>& VlanMatrixRows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (PortIndex ingress = 1; ingress <= kPorts.size(); ++ingress) {
      for (size_t tag = 0; tag < std::size(kVids); ++tag) {
        for (int pcp = 0; pcp <= (tag == 0 ? 0 : 1); ++pcp) all.push_back(MatrixRow(ingress, tag, pcp));
      }
    }
    return all;
  }();
  return rows;
}

}  // namespace ringswitch::bridge
