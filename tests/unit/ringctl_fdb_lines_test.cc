#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "server/ringctl/fdb_lines.h"

namespace ringswitch::ringctl {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::vector<FdbLine>> Read(const std::string& text) {
  std::istringstream in(text);
  return ReadFdbLines(in, "f");
}

TEST(FdbLines, AreThreeWordsWithCommentsAndEmptyLinesBetween) {
  const auto lines = Read("# all\n\n10 02:00:00:00:0a:01 p1\n  20\t02-00-00-00-0A-02  p2 # a printer\r\n");
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 2u);
  EXPECT_EQ((*lines)[0].number, 3u);
  EXPECT_EQ((*lines)[0].vid, 10u);
  EXPECT_EQ((*lines)[0].mac_address, "02:00:00:00:0a:01");
  EXPECT_EQ((*lines)[0].port_name, "p1");
  EXPECT_EQ((*lines)[1].number, 4u);
  EXPECT_EQ((*lines)[1].mac_address, "02-00-00-00-0A-02");
  EXPECT_EQ((*lines)[1].port_name, "p2");
}

TEST(FdbLines, TheLastLineNeedsNoEnd) {
  EXPECT_EQ(Read("10 02:00:00:00:0a:01 p1")->size(), 1u);
}

TEST(FdbLines, WhatIsNoLineIsNamedByItsNumber) {
  for (const char* bad : {"10 02:00:00:00:0a:01", "10 02:00:00:00:0a:01 p1 p2", "x 02:00:00:00:0a:01 p1",
                          "-1 02:00:00:00:0a:01 p1", "+1 02:00:00:00:0a:01 p1", "99999999999 m p"}) {
    const auto lines = Read(std::string("10 02:00:00:00:0a:01 p1\n") + bad + "\n");
    ASSERT_FALSE(lines.ok()) << bad;
    EXPECT_THAT(std::string(lines.status().message()), HasSubstr("f:2: a line is VID MAC PORT")) << bad;
  }
  EXPECT_THAT(std::string(Read("# nothing\n").status().message()), HasSubstr("no entries"));
}

}  // namespace
}  // namespace ringswitch::ringctl
