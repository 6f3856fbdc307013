// Every row of the frame tables through the pipeline, and that every drop reason has one.

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "tests/unit/bridge_testbed.h"

namespace ringswitch::bridge {
namespace {

class Table : public testing::TestWithParam<Row> {};
TEST_P(Table, Row) {
  ExpectRow(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Vlan, Table, testing::ValuesIn(VlanRows()));
INSTANTIATE_TEST_SUITE_P(VlanMatrix, Table, testing::ValuesIn(VlanMatrixRows()));
INSTANTIATE_TEST_SUITE_P(Forwarding, Table, testing::ValuesIn(ForwardingRows()));
INSTANTIATE_TEST_SUITE_P(Port, Table, testing::ValuesIn(PortRows()));
INSTANTIATE_TEST_SUITE_P(Guard, Table, testing::ValuesIn(GuardRows()));

TEST(VlanMatrix, IsWhole) {  // V21: eight ports, no tag or four VIDs at two priorities
  EXPECT_EQ(VlanMatrixRows().size(), 8u * (1 + 4 * 2));
}

TEST(DropReasons, EachHasARow) {
  // Made by the worker and by io from what the kernel says: the integration and system tests have these, but
  // for egress_no_buffer, which no device is slow enough to cause.
  const std::set<DropReason> of_worker = {
      DropReason::kFrameTruncated,   DropReason::kInvalidOffloadHeader, DropReason::kEgressPortDown,
      DropReason::kEgressDeviceGone, DropReason::kEgressRefused,        DropReason::kEgressNoBuffer,
      DropReason::kEgressQueueFull,  DropReason::kEgressError,          DropReason::kEgressNotSegmentable};
  std::set<DropReason> seen = of_worker;
  for (const auto* rows : {&VlanRows(), &ForwardingRows(), &PortRows(), &GuardRows()}) {
    for (const Row& row : *rows) {
      if (row.drop) seen.insert(*row.drop);
      for (const EgressDrop& drop : row.egress_drops) seen.insert(drop.reason);
    }
  }
  for (size_t i = 0; i < kDropReasonCount; ++i) {
    EXPECT_TRUE(seen.contains(static_cast<DropReason>(i))) << kDropReasonTexts[i].label << " has no row";
  }
}

TEST(DropReasons, LabelsAreDistinct) {
  std::set<std::string_view> labels;
  for (const DropReasonText& text : kDropReasonTexts) labels.insert(text.label);
  EXPECT_EQ(labels.size(), kDropReasonCount);
}

}  // namespace
}  // namespace ringswitch::bridge
