#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "dataplane/bridge/fdb.h"

namespace ringswitch::bridge {
namespace {

constexpr uint32_t kNow = 1000;
constexpr uint32_t kNoLimit = 0;

FdbKey Key(uint64_t number, VlanId vid = 1) {
  return {MacAddress(0x0200'1000'0000 + number), vid};
}

class FdbTest : public testing::Test {
 protected:
  LearnResult Learn(FdbKey key, PortIndex port, uint32_t now_s = kNow) {
    return fdb_.Learn(key, port, kNoLimit, now_s);
  }
  std::vector<FdbRow> Rows(const FdbFilter& filter = {}, uint32_t now_s = kNow) {
    std::vector<FdbRow> rows;
    EXPECT_EQ(fdb_.List(0, filter, UINT32_MAX, now_s, &rows), 0u);
    return rows;
  }
  void AgeAll(uint32_t now_s, uint32_t ageing_time_s) {
    fdb_.AgeSlice(now_s, ageing_time_s, fdb_.slot_count());
  }

  EpochDomain epochs_;
  Fdb fdb_{64, 7, &epochs_};
};

TEST_F(FdbTest, KnowsWhatItLearned) {
  EXPECT_FALSE(fdb_.Lookup(Key(1)).found());
  EXPECT_EQ(Learn(Key(1), 5), LearnResult::kLearned);
  EXPECT_EQ(Learn(Key(1), 5), LearnResult::kKnown);
  EXPECT_EQ(fdb_.Lookup(Key(1)).port, 5);
  EXPECT_EQ(fdb_.Lookup(Key(1)).kind, FdbKind::kDynamic);
  EXPECT_FALSE(fdb_.Lookup(Key(1, 2)).found()) << "another VLAN";
  EXPECT_FALSE(fdb_.Lookup({Key(1).mac, kVlanIdNone}).found());
  EXPECT_EQ(fdb_.CountOf(FdbKind::kDynamic), 1u);
  EXPECT_EQ(fdb_.DynamicCountOf(5), 1u);
  EXPECT_EQ(fdb_.Events().learned, 1u);
}

TEST_F(FdbTest, TakesTheHighestPortAndVlan) {
  const FdbKey key{MacAddress(0xfeff'ffff'ffff), kVlanIdMax};
  EXPECT_EQ(Learn(key, kPortsMax - 1), LearnResult::kLearned);
  EXPECT_EQ(fdb_.Lookup(key).port, kPortsMax - 1);
  EXPECT_EQ(Rows()[0].key, key);
}

TEST_F(FdbTest, MovesAtOnce) {
  Learn(Key(1), 5);
  EXPECT_EQ(Learn(Key(1), 6), LearnResult::kMoved);
  EXPECT_EQ(fdb_.Lookup(Key(1)).port, 6);
  EXPECT_EQ(fdb_.DynamicCountOf(5), 0u);
  EXPECT_EQ(fdb_.DynamicCountOf(6), 1u);
  EXPECT_EQ(fdb_.CountOf(FdbKind::kDynamic), 1u);
  EXPECT_EQ(fdb_.Events().moved, 1u);
}

TEST_F(FdbTest, LimitOfThePortHolds) {  // L8
  for (uint64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(fdb_.Learn(Key(i), 5, 8, kNow), i < 8 ? LearnResult::kLearned : LearnResult::kNotLearned);
  }
  EXPECT_EQ(fdb_.DynamicCountOf(5), 8u);
  EXPECT_EQ(fdb_.Events().limited, 8u);
  EXPECT_EQ(fdb_.Learn(Key(0), 5, 8, kNow), LearnResult::kKnown) << "what is there is refreshed";
  EXPECT_EQ(fdb_.Learn(Key(100), 6, 8, kNow), LearnResult::kLearned) << "other ports have their own";
}

TEST_F(FdbTest, LimitOfThePortHoldsForMoves) {
  fdb_.Learn(Key(1), 5, 1, kNow);
  fdb_.Learn(Key(2), 6, 1, kNow);
  EXPECT_EQ(fdb_.Learn(Key(1), 6, 1, kNow), LearnResult::kNotLearned);
  EXPECT_EQ(fdb_.Lookup(Key(1)).port, 5);
}

TEST_F(FdbTest, LoweredLimitEvictsNothing) {  // L11
  for (uint64_t i = 0; i < 4; ++i) Learn(Key(i), 5);
  EXPECT_EQ(fdb_.Learn(Key(9), 5, 2, kNow), LearnResult::kNotLearned);
  EXPECT_EQ(fdb_.DynamicCountOf(5), 4u);
}

TEST_F(FdbTest, StaticEntriesDoNotCountTowardsTheLimit) {  // L9
  fdb_.Learn(Key(1), 5, 1, kNow);
  EXPECT_EQ(fdb_.AddStatic(Key(2), 5, false), FdbResult::kOk);
  EXPECT_EQ(fdb_.DynamicCountOf(5), 1u);
  EXPECT_EQ(fdb_.CountOf(FdbKind::kStatic), 1u);
}

TEST_F(FdbTest, StaticEntryIsNotMoved) {
  ASSERT_EQ(fdb_.AddStatic(Key(1), 5, false), FdbResult::kOk);
  EXPECT_EQ(Learn(Key(1), 6), LearnResult::kStaticElsewhere);
  EXPECT_EQ(Learn(Key(1), 5), LearnResult::kKnown);
  EXPECT_EQ(fdb_.Lookup(Key(1)).port, 5);
  EXPECT_EQ(fdb_.Lookup(Key(1)).kind, FdbKind::kStatic);
}

TEST_F(FdbTest, StaticOverDynamicConverts) {  // L10, S5
  Learn(Key(1), 5);
  EXPECT_EQ(fdb_.AddStatic(Key(1), 6, false), FdbResult::kOk);
  EXPECT_EQ(fdb_.DynamicCountOf(5), 0u);
  EXPECT_EQ(fdb_.CountOf(FdbKind::kDynamic), 0u);
  EXPECT_EQ(fdb_.CountOf(FdbKind::kStatic), 1u);
  EXPECT_EQ(fdb_.Lookup(Key(1)).port, 6);
}

TEST_F(FdbTest, StaticOverStaticNeedsReplace) {
  fdb_.AddStatic(Key(1), 5, false);
  EXPECT_EQ(fdb_.AddStatic(Key(1), 6, false), FdbResult::kExists);
  EXPECT_EQ(fdb_.AddStatic(Key(1), 5, false), FdbResult::kExists);
  EXPECT_EQ(fdb_.Lookup(Key(1)).port, 5);
  EXPECT_EQ(fdb_.AddStatic(Key(1), 6, true), FdbResult::kOk);
  EXPECT_EQ(fdb_.Lookup(Key(1)).port, 6);
  EXPECT_EQ(fdb_.CountOf(FdbKind::kStatic), 1u);
}

TEST_F(FdbTest, RemovesBothKinds) {
  Learn(Key(1), 5);
  fdb_.AddStatic(Key(2), 5, false);
  EXPECT_EQ(fdb_.Remove(Key(1)), FdbResult::kOk);
  EXPECT_EQ(fdb_.Remove(Key(2)), FdbResult::kOk);
  EXPECT_EQ(fdb_.Remove(Key(2)), FdbResult::kNotFound);
  EXPECT_EQ(fdb_.Remove(Key(3)), FdbResult::kNotFound);
  EXPECT_FALSE(fdb_.Lookup(Key(1)).found());
  EXPECT_EQ(fdb_.DynamicCountOf(5), 0u);
  EXPECT_THAT(Rows(), testing::IsEmpty());
}

TEST_F(FdbTest, FindTellsAge) {
  Learn(Key(1), 5, 100);
  EXPECT_EQ(fdb_.Find(Key(1), 130)->age_s, 30u);
  EXPECT_EQ(fdb_.Find(Key(1), 99)->age_s, 0u) << "a clock read a moment earlier";
  Learn(Key(1), 5, 120);
  EXPECT_EQ(fdb_.Find(Key(1), 130)->age_s, 10u);
  Learn(Key(1), 5, 119);
  EXPECT_EQ(fdb_.Find(Key(1), 130)->age_s, 10u) << "never refreshed backwards";
  fdb_.AddStatic(Key(2), 5, false);
  EXPECT_EQ(fdb_.Find(Key(2), 130)->age_s, 0u);
  EXPECT_EQ(fdb_.Find(Key(3), 130), std::nullopt);
}

TEST_F(FdbTest, FlushMatchesEveryCombination) {
  const auto fill = [this] {
    fdb_.Flush({});
    for (const VlanId vid : {1, 2, 3}) {
      for (const PortIndex port : {5, 6}) {
        Learn(Key(port * 10u, vid), port);
        fdb_.AddStatic(Key(port * 10u + 1, vid), port, false);
      }
    }
    ASSERT_EQ(Rows().size(), 12u);
  };
  VlanSet one_and_three;
  one_and_three.Add(1);
  one_and_three.Add(3);
  struct Case {
    FdbFilter filter;
    uint32_t matches;
  };
  const std::vector<Case> cases = {
      {{}, 12},
      {{.port = 5}, 6},
      {{.vid = 2}, 4},
      {{.kind = FdbKind::kDynamic}, 6},
      {{.kind = FdbKind::kStatic}, 6},
      {{.port = 5, .vid = 2}, 2},
      {{.port = 5, .vid = 2, .kind = FdbKind::kStatic}, 1},
      {{.port = 5, .vids = &one_and_three}, 4},
      {{.vids = &one_and_three, .kind = FdbKind::kDynamic}, 4},
      {{.vid = 2, .vids = &one_and_three}, 12},
      {{.port = 7}, 0},
      {{.vid = 4}, 0},
  };
  for (const Case& test : cases) {
    fill();
    EXPECT_EQ(Rows(test.filter).size(), test.matches);
    EXPECT_EQ(fdb_.Flush(test.filter), test.matches);
    EXPECT_EQ(Rows().size(), 12 - test.matches);
    EXPECT_THAT(Rows(test.filter), testing::IsEmpty());
    EXPECT_EQ(fdb_.CountOf(FdbKind::kDynamic) + fdb_.CountOf(FdbKind::kStatic), 12 - test.matches);
  }
}

TEST_F(FdbTest, AgesWhatIsOlderThanTheAgeingTime) {
  Learn(Key(1), 5, 100);
  Learn(Key(2), 5, 105);
  fdb_.AddStatic(Key(3), 5, false);
  AgeAll(110, 10);
  EXPECT_EQ(Rows().size(), 3u);
  AgeAll(111, 10);
  EXPECT_FALSE(fdb_.Lookup(Key(1)).found());
  EXPECT_TRUE(fdb_.Lookup(Key(2)).found());
  AgeAll(1'000'000, 10);
  EXPECT_TRUE(fdb_.Lookup(Key(3)).found()) << "static entries never age";
  EXPECT_EQ(fdb_.Events().aged, 2u);
  EXPECT_EQ(fdb_.DynamicCountOf(5), 0u);
}

TEST_F(FdbTest, FramesKeepAnEntryYoung) {  // S-08
  for (uint32_t now_s = 100; now_s <= 160; now_s += 5) {
    EXPECT_NE(Learn(Key(1), 5, now_s), LearnResult::kBusy);
    AgeAll(now_s, 10);
  }
  EXPECT_EQ(fdb_.Events().learned, 1u);
  for (uint32_t now_s = 161; now_s <= 171; ++now_s) {
    EXPECT_EQ(fdb_.Lookup(Key(1)).found(), now_s <= 171) << "looking up refreshes nothing";
    AgeAll(now_s, 10);
  }
  EXPECT_FALSE(fdb_.Lookup(Key(1)).found());
}

TEST_F(FdbTest, AgeingTimeZeroAgesNothing) {
  Learn(Key(1), 5, 100);
  AgeAll(100'000'000, 0);
  EXPECT_TRUE(fdb_.Lookup(Key(1)).found());
}

TEST_F(FdbTest, StampsWrap) {
  constexpr uint32_t kWrap = 1u << 24;
  Learn(Key(1), 5, kWrap - 3);
  EXPECT_EQ(fdb_.Find(Key(1), kWrap + 2)->age_s, 5u);
  AgeAll(kWrap + 2, 10);
  EXPECT_TRUE(fdb_.Lookup(Key(1)).found());
  Learn(Key(1), 5, kWrap + 5);
  EXPECT_EQ(fdb_.Find(Key(1), kWrap + 7)->age_s, 2u);
  AgeAll(kWrap + 16, 10);
  EXPECT_FALSE(fdb_.Lookup(Key(1)).found());
  Learn(Key(2), 5, UINT32_MAX);
  EXPECT_EQ(fdb_.Find(Key(2), 4)->age_s, 5u) << "the clock itself wraps";
  Learn(Key(3), 5, 0);
  AgeAll(1'000'000, 1'000'000);
  EXPECT_TRUE(fdb_.Lookup(Key(3)).found()) << "the longest ageing time";
  AgeAll(1'000'001, 1'000'000);
  EXPECT_FALSE(fdb_.Lookup(Key(3)).found());
}

TEST_F(FdbTest, AgeSliceGoesRound) {
  for (uint64_t i = 0; i < 40; ++i) Learn(Key(i), 5, 100);
  uint32_t before = 40;
  for (uint32_t slot = 0; slot < fdb_.slot_count(); slot += 8) {
    fdb_.AgeSlice(200, 10, 8);
    EXPECT_LE(before - fdb_.CountOf(FdbKind::kDynamic), 8u) << "a bounded slice";
    before = fdb_.CountOf(FdbKind::kDynamic);
  }
  EXPECT_EQ(before, 0u);
  Learn(Key(1), 5, 100);
  fdb_.AgeSlice(200, 10, UINT32_MAX);
  EXPECT_EQ(fdb_.CountOf(FdbKind::kDynamic), 0u);
}

TEST_F(FdbTest, PagesShowEachEntryOnce) {
  for (uint64_t i = 0; i < 60; ++i) Learn(Key(i), 5);
  for (const uint32_t rows_max : {1u, 7u, 60u, 1000u}) {
    std::set<uint64_t> seen;
    uint32_t cursor = 0;
    do {
      std::vector<FdbRow> rows;
      cursor = fdb_.List(cursor, {}, rows_max, kNow, &rows);
      EXPECT_LE(rows.size(), rows_max);
      for (const FdbRow& row : rows) EXPECT_TRUE(seen.insert(row.key.mac.bits()).second);
    } while (cursor != 0);
    EXPECT_EQ(seen.size(), 60u);
  }
}

TEST_F(FdbTest, PagesAreExactWhileEntriesComeAndGo) {  // BR-27
  for (uint64_t i = 0; i < 40; ++i) Learn(Key(i), 5);
  std::multiset<uint64_t> seen;
  uint32_t cursor = 0;
  uint64_t round = 0;
  do {
    std::vector<FdbRow> rows;
    cursor = fdb_.List(cursor, {}, 3, kNow, &rows);
    for (const FdbRow& row : rows) seen.insert(row.key.mac.bits());
    for (uint64_t i = 0; i < 20; ++i) {  // die and come back, into the same slots
      fdb_.Remove(Key(i));
      Learn(Key(i), static_cast<PortIndex>(6 + round % 2));
    }
    Learn(Key(100 + round), 7);
    ++round;
  } while (cursor != 0);
  for (uint64_t i = 0; i < 40; ++i) EXPECT_EQ(seen.count(Key(i).mac.bits()), 1u) << i;
}

TEST_F(FdbTest, CursorPastTheEndIsTheEnd) {
  std::vector<FdbRow> rows;
  EXPECT_EQ(fdb_.List(UINT32_MAX, {}, 10, kNow, &rows), 0u);
  EXPECT_THAT(rows, testing::IsEmpty());
}

TEST(Fdb, HoldsItsWholeCapacity) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    for (const uint32_t capacity : {16u, 100u, 1024u, 16384u}) {
      EpochDomain epochs;
      Fdb fdb(capacity, seed, &epochs);
      EXPECT_GE(fdb.slot_count(), 2 * capacity);
      for (uint64_t i = 0; i < capacity; ++i) {
        ASSERT_EQ(fdb.Learn(Key(i), 1, kNoLimit, kNow), LearnResult::kLearned) << i << " of " << capacity;
      }
      EXPECT_EQ(fdb.Learn(Key(capacity), 1, kNoLimit, kNow), LearnResult::kNotLearned);
      EXPECT_EQ(fdb.AddStatic(Key(capacity), 1, false), FdbResult::kFull);
      EXPECT_EQ(fdb.AddStatic(Key(0), 1, false), FdbResult::kOk) << "a conversion needs no room";
      EXPECT_EQ(fdb.Learn(Key(1), 2, kNoLimit, kNow), LearnResult::kMoved) << "nor does a move";
      for (uint64_t i = 0; i < capacity; ++i) ASSERT_TRUE(fdb.Lookup(Key(i)).found()) << i;
      EXPECT_EQ(fdb.Remove(Key(5)), FdbResult::kOk);
      EXPECT_EQ(fdb.Learn(Key(capacity), 1, kNoLimit, kNow), LearnResult::kLearned);
    }
  }
}

// Addresses that follow each other, as vendors and hypervisors give them, are spread as well as any others.
TEST(Fdb, AddressesInARowFillTheTableWithAnySecret) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    EpochDomain epochs;
    Fdb fdb(1024, seed, &epochs);
    const uint64_t step = seed % 2 == 0 ? 1 : 256;
    for (uint64_t i = 0; i < fdb.capacity(); ++i) {
      ASSERT_EQ(fdb.Learn(Key(i * step), 1, kNoLimit, kNow), LearnResult::kLearned) << i << ", " << seed;
    }
  }
}

TEST(Fdb, CapacityIsClampedToItsLimits) {
  EpochDomain epochs;
  EXPECT_EQ(Fdb(0, 1, &epochs).capacity(), kFdbCapacityMin);
  EXPECT_EQ(Fdb(UINT32_MAX, 1, &epochs).capacity(), kFdbCapacityMax);
}

TEST(Fdb, LongChurnNeverRunsOutOfSlots) {
  EpochDomain epochs;
  epochs.Enter(0);
  Fdb fdb(256, 9, &epochs);
  for (uint64_t i = 0; i < 100'000; ++i) {
    ASSERT_EQ(fdb.Learn(Key(i), 1, kNoLimit, kNow), LearnResult::kLearned) << i;
    if (i >= 255) {
      ASSERT_EQ(fdb.Remove(Key(i - 255)), FdbResult::kOk);
      epochs.Boundary(0);
    }
  }
}

// The smallest table: 32 slots. All are used and die while a worker is inside its batch.
TEST(Fdb, DeadSlotTakesAnotherKeyOnlyAfterEveryWorkerHasPassed) {
  EpochDomain epochs;
  Fdb fdb(kFdbCapacityMin, 3, &epochs);
  epochs.Enter(0);
  epochs.Enter(1);
  uint64_t next = 0;
  for (int round = 0; round < 100; ++round) {  // until no slot is left that was never used
    if (fdb.Learn(Key(next++), 1, kNoLimit, kNow) == LearnResult::kLearned) fdb.Flush({});
  }
  const auto learn_many = [&] {
    uint32_t learned = 0;
    for (int i = 0; i < 100; ++i) {
      learned += fdb.Learn(Key(next++), 2, kNoLimit, kNow) == LearnResult::kLearned ? 1 : 0;
    }
    return learned;
  };
  EXPECT_EQ(learn_many(), 0u);
  EXPECT_EQ(fdb.Learn(Key(0), 2, kNoLimit, kNow), LearnResult::kLearned) << "its own key comes back at once";
  EXPECT_EQ(fdb.Lookup(Key(0)).port, 2);
  fdb.Flush({});
  epochs.Boundary(0);
  EXPECT_EQ(learn_many(), 0u) << "worker 1 is still inside";
  epochs.Leave(1);
  EXPECT_GT(learn_many(), 0u);
}

TEST(Fdb, TablesOfTwoSeedsDiffer) {
  EpochDomain epochs;
  Fdb one(1024, 1, &epochs), two(1024, 2, &epochs);
  std::vector<FdbRow> rows_of_one, rows_of_two;
  for (uint64_t i = 0; i < 100; ++i) {
    one.Learn(Key(i), 1, kNoLimit, kNow);
    two.Learn(Key(i), 1, kNoLimit, kNow);
  }
  one.List(0, {}, 1000, kNow, &rows_of_one);
  two.List(0, {}, 1000, kNow, &rows_of_two);
  ASSERT_EQ(rows_of_one.size(), rows_of_two.size());
  uint32_t same = 0;
  for (size_t i = 0; i < rows_of_one.size(); ++i) same += rows_of_one[i].key == rows_of_two[i].key ? 1 : 0;
  EXPECT_LT(same, 20u);
}

}  // namespace
}  // namespace ringswitch::bridge
