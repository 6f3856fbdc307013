// Meters in virtual time: rate, burst, the super-frame that is longer than the burst, and two threads at one
// meter.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "dataplane/bridge/meter.h"

namespace ringswitch::bridge {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kStart = 1000 * kSecond;

TEST(Meter, FullBucketLetsOneBurstPassAtOnce) {
  Meter meter;
  const Rate rate{.per_second = 10, .burst = 5};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(meter.Take(rate, 1, kStart)) << i;
  EXPECT_FALSE(meter.Take(rate, 1, kStart));
  EXPECT_FALSE(meter.Take(rate, 1, kStart + kSecond / 10 - 1));
  EXPECT_TRUE(meter.Take(rate, 1, kStart + kSecond / 10));
  EXPECT_FALSE(meter.Take(rate, 1, kStart + kSecond / 10));
}

TEST(Meter, BucketFillsNoFurtherThanItsBurst) {
  Meter meter;
  const Rate rate{.per_second = 10, .burst = 5};
  EXPECT_TRUE(meter.Take(rate, 5, kStart));
  uint32_t passed = 0;
  for (int i = 0; i < 100; ++i) passed += meter.Take(rate, 1, kStart + 3600 * kSecond) ? 1 : 0;
  EXPECT_EQ(passed, 5u);
}

TEST(Meter, RateHoldsOverTime) {
  for (const uint64_t per_second : {1u, 7u, 1000u, 999'983u}) {
    Meter meter;
    const Rate rate{.per_second = per_second, .burst = 3};
    uint64_t passed = 0;
    const uint64_t step_ns = kSecond / per_second / 3;
    const uint64_t seconds = per_second > 1000 ? 1 : 20;
    for (uint64_t ns = 0; ns < seconds * kSecond; ns += step_ns)
      passed += meter.Take(rate, 1, kStart + ns) ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(passed), static_cast<double>(seconds * per_second + 3),
                1 + 0.001 * static_cast<double>(seconds * per_second))
        << per_second;
  }
}

TEST(Meter, RefusedUnitsCostNothing) {
  Meter meter;
  const Rate rate{.per_second = 10, .burst = 1};
  EXPECT_TRUE(meter.Take(rate, 1, kStart));
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(meter.Take(rate, 1, kStart));
  EXPECT_TRUE(meter.Take(rate, 1, kStart + kSecond / 10));
}

TEST(Meter, SuperFrameLongerThanTheBurstPassesWhenFullAndIsPaidFor) {
  Meter meter;
  const Rate rate{.per_second = 1'000'000, .burst = 12'000};
  constexpr uint64_t kBits = 524'280;
  EXPECT_TRUE(meter.Take(rate, kBits, kStart));
  EXPECT_FALSE(meter.Take(rate, 480, kStart));
  EXPECT_FALSE(meter.Take(rate, kBits, kStart + kBits * 1000 - 1)) << "not quite full";
  EXPECT_TRUE(meter.Take(rate, kBits, kStart + kBits * 1000));
  EXPECT_FALSE(meter.Take(rate, 480, kStart + kBits * 1000 + (kBits - 12'000) * 1000));
  EXPECT_TRUE(meter.Take(rate, 480, kStart + kBits * 1000 + (kBits - 12'000 + 480) * 1000));
}

TEST(Meter, AnotherRateBeginsWithAFullBucket) {
  Meter meter;
  EXPECT_TRUE(meter.Take({.per_second = 1000, .burst = 1}, 524'280, kStart));  // nine minutes' worth
  EXPECT_FALSE(meter.Take({.per_second = 1000, .burst = 1}, 1, kStart + kSecond));
  EXPECT_TRUE(meter.WouldTake({.per_second = 1'000'000'000, .burst = 100'000}, 480, kStart + kSecond));
  EXPECT_TRUE(meter.Take({.per_second = 1'000'000'000, .burst = 100'000}, 480, kStart + kSecond));
}

TEST(Meter, NoLimitLetsEverythingPass) {
  Meter meter;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(meter.Take({}, 524'280, kStart));
  EXPECT_TRUE(meter.WouldTake({}, 524'280, kStart));
}

TEST(Meter, AskingTakesNothing) {
  Meter meter;
  const Rate rate{.per_second = 10, .burst = 1};
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(meter.WouldTake(rate, 1, kStart));
  EXPECT_TRUE(meter.Take(rate, 1, kStart));
  EXPECT_FALSE(meter.WouldTake(rate, 1, kStart));
}

TEST(Meter, ClockOfOneWorkerBehindTheOthers) {
  Meter meter;
  const Rate rate{.per_second = 1000, .burst = 10};
  EXPECT_TRUE(meter.Take(rate, 10, kStart));
  EXPECT_FALSE(meter.Take(rate, 1, kStart - 5'000'000));
  EXPECT_TRUE(meter.Take(rate, 1, kStart + 1'000'000));
}

TEST(Meter, FastestAndLongest) {
  Meter meter;
  const Rate rate{.per_second = 100'000'000'000, .burst = 8'000'000'000};  // 100 Gbit/s, a gigabyte
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(meter.Take(rate, 524'280, kStart));
}

// An egress rate is one for all workers: together they get it once, not each of them.
TEST(Meter, TwoThreadsShareOneRate) {
  Meter meter;
  const Rate rate{.per_second = 1'000'000, .burst = 1000};
  std::atomic<uint64_t> now_ns{kStart};
  std::atomic<uint64_t> passed{0};
  constexpr uint64_t kEnd = kStart + kSecond / 20;
  const auto run = [&] {
    uint64_t own = 0;
    for (;;) {
      const uint64_t ns = now_ns.fetch_add(100);
      if (ns >= kEnd) break;
      own += meter.Take(rate, 1, ns) ? 1 : 0;
    }
    passed += own;
  };
  std::thread one(run), two(run);
  one.join();
  two.join();
  EXPECT_LE(passed.load(), 50'000u + 1000 + 2);
  EXPECT_GE(passed.load(), 49'000u);
}

}  // namespace
}  // namespace ringswitch::bridge
