#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/ringctl/quantities.h"

namespace ringswitch::ringctl {
namespace {

using ::testing::HasSubstr;

constexpr Rate Frames(std::uint64_t fps, std::uint64_t burst = 0) {
  return {fps, burst, 0, 0};
}
constexpr Rate Bits(std::uint64_t bps, std::uint64_t burst = 0) {
  return {0, 0, bps, burst};
}

// What is written, what it means, and how it is written back where that differs.
struct RateRow {
  const char* text;
  Rate rate;
  const char* written = nullptr;
};
const RateRow kRates[] = {
    {"off", {}},
    {"1000fps", Frames(1000)},
    {"1fps", Frames(1)},
    {"1000FPS:200", Frames(1000, 200), "1000fps:200"},
    {"1000fps:0", Frames(1000), "1000fps"},
    {"10Mbit", Bits(10'000'000)},
    {"10mbit", Bits(10'000'000), "10Mbit"},
    {"999bit", Bits(999)},
    {"1000bit", Bits(1000), "1kbit"},
    {"1.5Gbit", Bits(1'500'000'000), "1500Mbit"},
    {"0.001kbit", Bits(1), "1bit"},
    {"1000Gbit", Bits(1'000'000'000'000)},
    {"10Mbit:64KiB", Bits(10'000'000, 65536)},
    {"10Mbit:65536", Bits(10'000'000, 65536), "10Mbit:64KiB"},
    {"10Mbit:1500B", Bits(10'000'000, 1500)},
    {"10Mbit:64kB", Bits(10'000'000, 64000)},
    {"10Mbit:1MB", Bits(10'000'000, 1'000'000)},
    {"10Mbit:1.5MiB", Bits(10'000'000, 1'572'864), "10Mbit:1536KiB"},
    {"10Mbit:1GiB", Bits(10'000'000, 1u << 30)},
    {"1000fps,10Mbit", {1000, 0, 10'000'000, 0}},
    {"10Mbit:64KiB,1000fps:5", {1000, 5, 10'000'000, 65536}, "1000fps:5,10Mbit:64KiB"},
};

TEST(Quantities, RatesAreReadAndWritten) {
  for (const RateRow& row : kRates) {
    const auto rate = ParseStormRate(row.text);
    ASSERT_TRUE(rate.ok()) << rate.status();
    EXPECT_EQ(*rate, row.rate) << row.text;
    const std::string written = FormatRate(*rate);
    EXPECT_EQ(written, row.written != nullptr ? row.written : row.text);
    EXPECT_EQ(*ParseStormRate(written), row.rate) << written;
    const bool is_bits = row.rate.frames_per_second == 0;
    EXPECT_EQ(ParseBitRate(row.text).ok(), is_bits) << row.text;
  }
}

TEST(Quantities, WhatIsNoRateIsRefusedWithExamples) {
  for (const char* text : {"",
                           "1000",
                           "fps",
                           "10",
                           "on",
                           "-1fps",
                           "+1fps",
                           "1.5fps",
                           "0fps",
                           "0Mbit",
                           "10Mbps",
                           "10MB",
                           "10 Mbit",
                           "10Mbit:",
                           "10Mbit:x",
                           "10Mbit:5fps",
                           "1000fps:",
                           "1000fps:64KiB",
                           "1000fps:1:2",
                           "1000fps,",
                           "1000fps,2000fps",
                           "1Mbit,2Mbit",
                           "off,1fps",
                           "1.Mbit",
                           ".5Mbit",
                           "1..5Mbit",
                           "0.1bit",
                           "1.0000000001Mbit",
                           "99999999999999999999bit",
                           "18446744073709551616bit",
                           "99999999999Gbit"}) {
    const auto rate = ParseStormRate(text);
    ASSERT_FALSE(rate.ok()) << text;
    EXPECT_THAT(std::string(rate.status().message()), HasSubstr("1000fps")) << text;
    EXPECT_FALSE(ParseBitRate(text).ok()) << text;
  }
}

TEST(Quantities, SecondsTakeUnits) {
  const std::pair<const char*, std::int64_t> rows[] = {{"0", 0},    {"300", 300},    {"300s", 300},
                                                       {"5m", 300}, {"1h30m", 5400}, {"2000ms", 2}};
  for (const auto& [text, seconds] : rows) {
    EXPECT_EQ(*ParseSeconds(text), seconds) << text;
    EXPECT_EQ(*ParseAgeingTime(text), (AgeingTime{false, seconds})) << text;
  }
  for (const char* text : {"", "5x", "1.5s", "1ms", "-1s", "inf", "s", "99999999999999999999"}) {
    EXPECT_FALSE(ParseSeconds(text).ok()) << text;
    EXPECT_FALSE(ParseAgeingTime(text).ok()) << text;
  }
}

TEST(Quantities, AgeingTimeMayBeNever) {
  EXPECT_TRUE(ParseAgeingTime("never")->never);
  EXPECT_EQ(FormatAgeingTime({false, 300}), "300s");
  EXPECT_EQ(FormatAgeingTime({true, 300}), "never");
}

TEST(Quantities, BpduGuardIsOnOffOrForATime) {
  const std::pair<const char*, BpduGuardText> rows[] = {
      {"on", {true, 0}}, {"off", {false, 0}}, {"30s", {true, 30}}, {"86400s", {true, 86400}}};
  for (const auto& [text, guard] : rows) {
    EXPECT_EQ(*ParseBpduGuard(text), guard) << text;
    EXPECT_EQ(FormatBpduGuard(guard), text);
  }
  EXPECT_EQ(*ParseBpduGuard("5m"), (BpduGuardText{true, 300}));
  for (const char* text : {"", "yes", "0", "-1", "1.5s"}) {
    EXPECT_FALSE(ParseBpduGuard(text).ok()) << text;
  }
}

TEST(Quantities, FlapGuardIsMovesWithOrWithoutATime) {
  const std::pair<const char*, FlapGuardText> rows[] = {{"off", {0, 0}}, {"5", {5, 0}}, {"5:60s", {5, 60}}};
  for (const auto& [text, guard] : rows) {
    EXPECT_EQ(*ParseFlapGuard(text), guard) << text;
    EXPECT_EQ(FormatFlapGuard(guard), text);
  }
  for (const char* text : {"", "on", "0", "5:", "5:0", "5:x", "-1", "5:60:1", "99999999999"}) {
    EXPECT_FALSE(ParseFlapGuard(text).ok()) << text;
  }
}

}  // namespace
}  // namespace ringswitch::ringctl
