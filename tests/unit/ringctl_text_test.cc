#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/ringctl/table.h"
#include "server/ringctl/vid_ranges.h"

namespace ringswitch::ringctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(VidRanges, SingleVidsAndRangesKeepTheirOrder) {
  const auto ranges = ParseVidRanges("20,10,100-199");
  ASSERT_TRUE(ranges.ok());
  EXPECT_THAT(*ranges, ElementsAre(VidRange{20, 20}, VidRange{10, 10}, VidRange{100, 199}));
  EXPECT_EQ(FormatVidRanges(*ranges), "20,10,100-199");
}

TEST(VidRanges, VidsAreDecimalAndTheirRangeIsLeftToTheAgent) {
  EXPECT_THAT(*ParseVidRanges("010"), ElementsAre(VidRange{10, 10}));
  EXPECT_THAT(*ParseVidRanges("0,4095"), ElementsAre(VidRange{0, 0}, VidRange{4095, 4095}));
}

TEST(VidRanges, WhatIsNoRangeIsRefusedWithTheRemedy) {
  for (const char* text : {"", ",", "1,", "1,,2", "a", "1-", "-1", "1-2-3", "1 ,2", "0x10", "99999999999"}) {
    const auto ranges = ParseVidRanges(text);
    ASSERT_FALSE(ranges.ok()) << text;
    EXPECT_THAT(std::string(ranges.status().message()), HasSubstr("10,20,100-199")) << text;
  }
}

TEST(VidRanges, BackwardsRangeIsRefused) {
  EXPECT_FALSE(ParseVidRanges("20-10").ok());
  EXPECT_FALSE(ParseVidRanges("5-0").ok());
  EXPECT_THAT(*ParseVidRanges("5-5"), ElementsAre(VidRange{5, 5}));
}

TEST(Table, AlignsColumnsAndMarksEmptyCells) {
  Table table({"NAME", "RX>", "POD"});
  table.AddRow({"p1", "5", ""});
  table.AddRow({"port2", "1234", "default/web-0"});
  EXPECT_EQ(table.ToString(),
            "NAME     RX  POD\n"
            "p1        5  -\n"
            "port2  1234  default/web-0\n");
}

TEST(Table, ControlCharactersForgeNeitherLinesNorEscapes) {
  EXPECT_EQ(EscapeControls("a\x1b[31m\n\t\x7f"
                           "b"),
            "a\\x1b[31m\\x0a\\x09\\x7fb");
  EXPECT_EQ(EscapeControls("\xc2\x9b"
                           "1m\x9b\xc0\x9b\xe0\x80\x9b"),
            "\\xc2\\x9b1m\\x9b\\xc0\\x9b\\xe0\\x80\\x9b");
  EXPECT_EQ(EscapeControls("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"),
            "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(EscapeControls("\xc3"), "\\xc3");
  Table table({});
  table.AddRow({"p1\np2"});
  EXPECT_EQ(table.ToString(), "p1\\x0ap2\n");
}

TEST(Table, WithoutRowsIsItsHeader) {
  EXPECT_EQ(Table({"NAME", "MTU>"}).ToString(), "NAME  MTU\n");
}

TEST(Table, WithoutTitlesHasNoHeaderLine) {
  Table table({});
  table.AddRow({"name:", "p1"});
  EXPECT_EQ(table.ToString(), "name:  p1\n");
}

TEST(Table, EnumValuesBecomeWords) {
  EXPECT_EQ(EnumWord("PORT_STATE_UP", "PORT_STATE_"), "up");
  EXPECT_EQ(EnumWord("PORT_STATE_UNSPECIFIED", "PORT_STATE_"), "-");
  EXPECT_EQ(EnumWord("", "PORT_STATE_"), "-");
}

TEST(Table, ListsAreShortenedBetweenElements) {
  EXPECT_EQ(ShortenList("1,2,3", 5), "1,2,3");
  EXPECT_EQ(ShortenList("100,200,300", 10), "100,...");
}

}  // namespace
}  // namespace ringswitch::ringctl
