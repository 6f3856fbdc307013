// What the FDB remembers beside its entries: moves per pair of ports, flapping addresses, the log of changes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "dataplane/bridge/fdb.h"

namespace ringswitch::bridge {
namespace {

constexpr uint32_t kNow = 1000;

FdbKey Key(uint64_t number, VlanId vid = 1) {
  return {MacAddress(0x0200'2000'0000 + number), vid};
}

class FdbHistoryTest : public testing::Test {
 protected:
  LearnResult Learn(FdbKey key, PortIndex port, uint32_t now_s = kNow) {
    return fdb_.Learn(key, port, 0, now_s);
  }
  uint64_t MovesBetween(PortIndex from, PortIndex to) const {
    for (const FdbMoves& moves : fdb_.Moves()) {
      if (moves.from == from && moves.to == to) return moves.count;
    }
    return 0;
  }
  void AgeAll(uint32_t now_s, uint32_t ageing_time_s = 0) {
    fdb_.AgeSlice(now_s, ageing_time_s, fdb_.slot_count());
  }
  std::vector<FdbChange> Take() {
    std::vector<FdbChange> changes;
    EXPECT_TRUE(fdb_.TakeChanges(&changes));
    return changes;
  }

  EpochDomain epochs_;
  Fdb fdb_{4096, 7, &epochs_};
};

// --- moves ---

TEST_F(FdbHistoryTest, MovesAreCountedPerPairAndDirection) {
  Learn(Key(1), 5);
  Learn(Key(2), 5);
  EXPECT_THAT(fdb_.Moves(), testing::IsEmpty());
  Learn(Key(1), 6);
  Learn(Key(2), 6);
  Learn(Key(1), 5);
  EXPECT_EQ(MovesBetween(5, 6), 2u);
  EXPECT_EQ(MovesBetween(6, 5), 1u);
  EXPECT_EQ(fdb_.Moves().size(), 2u);
  fdb_.AddStatic(Key(1), 7, false);
  EXPECT_EQ(fdb_.Moves().size(), 2u) << "what the operator does is no move";
}

TEST_F(FdbHistoryTest, MovesOfAPortAreForgottenWithIt) {
  for (PortIndex port = 1; port < 20; ++port) {
    Learn(Key(1), port);
    Learn(Key(1), 100);
  }
  EXPECT_EQ(fdb_.Moves().size(), 37u);
  fdb_.ForgetMoves(7);
  EXPECT_EQ(fdb_.Moves().size(), 35u);
  EXPECT_EQ(MovesBetween(7, 100), 0u);
  EXPECT_EQ(MovesBetween(100, 7), 0u);
  EXPECT_EQ(MovesBetween(8, 100), 1u);
  fdb_.ForgetMoves(100);
  EXPECT_THAT(fdb_.Moves(), testing::IsEmpty());
  Learn(Key(1), 3);
  EXPECT_EQ(MovesBetween(100, 3), 1u);
}

TEST_F(FdbHistoryTest, MorePairsThanFitAreCountedAsMovesOnly) {
  Learn(Key(1), 0);
  for (PortIndex port = 1; port < 1000; ++port) Learn(Key(1), port);
  EXPECT_EQ(fdb_.Moves().size(), kMovePairsMax);
  EXPECT_EQ(fdb_.Events().moved, 999u);
  Learn(Key(2), 3);
  Learn(Key(2), 4);
  EXPECT_EQ(MovesBetween(3, 4), 2u) << "pairs that are there go on counting";
}

// --- the flap guard ---

TEST_F(FdbHistoryTest, FlappingAddressIsHeldWhereItIs) {
  fdb_.SetFlapGuard(3, 60);
  Learn(Key(1), 5);
  EXPECT_EQ(Learn(Key(1), 6), LearnResult::kMoved);
  EXPECT_EQ(Learn(Key(1), 5), LearnResult::kMoved);
  EXPECT_EQ(Learn(Key(1), 6), LearnResult::kMoved);
  EXPECT_EQ(Learn(Key(1), 5), LearnResult::kHeldElsewhere) << "the fourth";
  EXPECT_EQ(Learn(Key(1), 7), LearnResult::kHeldElsewhere);
  EXPECT_EQ(Learn(Key(1), 6), LearnResult::kKnown);
  EXPECT_EQ(fdb_.Lookup(Key(1)).port, 6);
  EXPECT_EQ(Learn(Key(1, 2), 7), LearnResult::kLearned) << "of one VLAN";
  EXPECT_EQ(fdb_.Events().held, 1u);
  EXPECT_EQ(fdb_.Events().moved, 3u);
  AgeAll(kNow + 59);
  EXPECT_EQ(Learn(Key(1), 5, kNow + 59), LearnResult::kHeldElsewhere);
  AgeAll(kNow + 60);
  EXPECT_EQ(Learn(Key(1), 5, kNow + 60), LearnResult::kMoved);
}

TEST_F(FdbHistoryTest, SlowMoverIsNoFlap) {
  fdb_.SetFlapGuard(1, 60);
  for (uint32_t i = 0; i < 50; ++i) {
    EXPECT_NE(Learn(Key(1), 5 + i % 2, kNow + i * kFlapWindowS), LearnResult::kHeldElsewhere) << i;
  }
}

TEST_F(FdbHistoryTest, HoldEndsWithTheGuardAndWithTheEntry) {
  fdb_.SetFlapGuard(1, 60);
  const auto flap = [this](FdbKey key) {
    Learn(key, 5);
    Learn(key, 6);
    return Learn(key, 5);
  };
  ASSERT_EQ(flap(Key(1)), LearnResult::kHeldElsewhere);
  fdb_.SetFlapGuard(0, 60);
  EXPECT_EQ(Learn(Key(1), 5), LearnResult::kMoved) << "switched off";
  fdb_.SetFlapGuard(1, 60);
  ASSERT_EQ(flap(Key(2)), LearnResult::kHeldElsewhere);
  fdb_.Remove(Key(2));
  EXPECT_EQ(Learn(Key(2), 5), LearnResult::kLearned) << "removed";
  EXPECT_EQ(Learn(Key(2), 6), LearnResult::kMoved) << "begins anew";
  EXPECT_EQ(Learn(Key(2), 5), LearnResult::kHeldElsewhere);
  EXPECT_EQ(fdb_.AddStatic(Key(2), 5, false), FdbResult::kOk);
  EXPECT_EQ(Learn(Key(2), 6), LearnResult::kStaticElsewhere) << "bound";
  AgeAll(kNow + 1000);
  EXPECT_EQ(Learn(Key(2), 6), LearnResult::kStaticElsewhere);
}

TEST_F(FdbHistoryTest, HeldEntryAgesWhenItsPortIsSilent) {
  fdb_.SetFlapGuard(1, 3600);
  Learn(Key(1), 5);
  Learn(Key(1), 6);
  ASSERT_EQ(Learn(Key(1), 5), LearnResult::kHeldElsewhere);
  AgeAll(kNow + 11, 10);
  EXPECT_EQ(Learn(Key(1), 5, kNow + 11), LearnResult::kLearned);
  AgeAll(kNow + 3600, 0);
  EXPECT_EQ(fdb_.Lookup(Key(1)).port, 5);
}

TEST_F(FdbHistoryTest, ManyMoversCostTheGuardItsOldestOnly) {
  fdb_.SetFlapGuard(1, 60);
  Learn(Key(0), 5);
  Learn(Key(0), 6);
  ASSERT_EQ(Learn(Key(0), 5), LearnResult::kHeldElsewhere);
  for (uint64_t i = 1; i < 1000; ++i) {
    Learn(Key(i), 5);
    EXPECT_EQ(Learn(Key(i), 6), LearnResult::kMoved);
  }
  EXPECT_EQ(Learn(Key(999), 5), LearnResult::kHeldElsewhere) << "the latest are remembered";
  EXPECT_EQ(Learn(Key(1), 5), LearnResult::kMoved) << "the first are not";
  EXPECT_EQ(Learn(Key(0), 5), LearnResult::kHeldElsewhere) << "held ones go last";
  AgeAll(kNow + 60);
  EXPECT_EQ(Learn(Key(0), 5, kNow + 60), LearnResult::kMoved);
  EXPECT_EQ(Learn(Key(999), 5, kNow + 60), LearnResult::kMoved);
}

TEST_F(FdbHistoryTest, WhoeverIsHeldIsReleased) {
  fdb_.SetFlapGuard(1, 60);
  for (uint64_t i = 0; i < 200; ++i) {
    Learn(Key(i), 5);
    Learn(Key(i), 6);
    Learn(Key(i), 5);
  }
  EXPECT_EQ(fdb_.Events().held, 64u) << "no more than can be remembered";
  AgeAll(kNow + 60);
  for (uint64_t i = 0; i < 200; ++i) EXPECT_EQ(Learn(Key(i), 9, kNow + 60), LearnResult::kMoved) << i;
}

// --- the log of changes ---

TEST_F(FdbHistoryTest, LogTellsEveryChangeInOrder) {
  Learn(Key(9), 1);
  EXPECT_THAT(Take(), testing::IsEmpty()) << "off";
  fdb_.SetLogging(true);
  EXPECT_THAT(Take(), testing::IsEmpty()) << "what was there before is in the table";
  Learn(Key(1), 5);
  Learn(Key(1), 5, kNow + 5);  // refreshed: no change
  Learn(Key(1), 6);
  fdb_.AddStatic(Key(2), 7, false);
  fdb_.AddStatic(Key(2), 8, true);
  fdb_.Remove(Key(2));
  fdb_.AddStatic(Key(1), 5, false);
  fdb_.Flush({.port = 1});
  Learn(Key(3), 5, 100);
  AgeAll(200, 10);
  struct Expected {
    uint64_t number;
    PortIndex port;
    FdbKind kind;
  };
  const std::vector<Expected> expected = {
      {1, 5, FdbKind::kDynamic},    {1, 6, FdbKind::kDynamic},    {2, 7, FdbKind::kStatic},
      {2, 8, FdbKind::kStatic},     {2, kNoPort, FdbKind::kNone}, {1, 5, FdbKind::kStatic},
      {9, kNoPort, FdbKind::kNone}, {3, 5, FdbKind::kDynamic},    {3, kNoPort, FdbKind::kNone}};
  const std::vector<FdbChange> changes = Take();
  ASSERT_EQ(changes.size(), expected.size());
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(changes[i].key, Key(expected[i].number)) << i;
    EXPECT_EQ(changes[i].target.port, expected[i].port) << i;
    EXPECT_EQ(changes[i].target.kind, expected[i].kind) << i;
  }
  EXPECT_THAT(Take(), testing::IsEmpty());
  fdb_.SetLogging(false);
  Learn(Key(4), 5);
  EXPECT_THAT(Take(), testing::IsEmpty());
}

TEST_F(FdbHistoryTest, LogHoldsItsWholeSizeAndGoesRound) {
  fdb_.SetLogging(true);
  fdb_.SetLogging(true);
  size_t taken = 0;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kFdbChangesMax / 4; ++i) {
      Learn(Key(i), 1);
      Learn(Key(i), 2);
    }
    taken += Take().size();
  }
  EXPECT_EQ(taken, kFdbChangesMax / 2 + 2 * kFdbChangesMax / 2);
}

TEST_F(FdbHistoryTest, OverflowIsSaidOnceAndTheLogBeginsAnew) {
  fdb_.SetLogging(true);
  Learn(Key(1), 1);
  for (size_t i = 0; i < kFdbChangesMax; ++i) Learn(Key(1), 1 + i % 2);
  std::vector<FdbChange> changes;
  EXPECT_EQ(fdb_.Lookup(Key(1)).port, 2);
  for (size_t i = 0; i < 10; ++i) Learn(Key(1), 1 + i % 2);
  EXPECT_FALSE(fdb_.TakeChanges(&changes));
  EXPECT_THAT(changes, testing::IsEmpty()) << "older than the table that is read next";
  EXPECT_THAT(Take(), testing::IsEmpty());
  Learn(Key(1), 7);
  EXPECT_EQ(Take().size(), 1u);
}

TEST_F(FdbHistoryTest, LogAppliedToASnapshotGivesTheTable) {  // L20: none is missing from the union
  fdb_.SetLogging(true);
  std::map<uint64_t, PortIndex> copy;
  uint64_t random = 1;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 50; ++i) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      const FdbKey key = Key(random >> 40 & 0xff);
      const auto port = static_cast<PortIndex>(1 + (random >> 33) % 4);
      if ((random >> 50) % 4 == 0) {
        fdb_.Remove(key);
      } else {
        Learn(key, port);
      }
    }
    if (round % 17 == 0) fdb_.Flush({.port = PortIndex{2}});
    for (const FdbChange& change : Take()) {
      if (change.target.found()) {
        copy[change.key.mac.bits()] = change.target.port;
      } else {
        copy.erase(change.key.mac.bits());
      }
    }
    std::vector<FdbRow> rows;
    fdb_.List(0, {}, UINT32_MAX, kNow, &rows);
    ASSERT_EQ(rows.size(), copy.size());
    for (const FdbRow& row : rows) EXPECT_EQ(copy[row.key.mac.bits()], row.target.port);
  }
}

}  // namespace
}  // namespace ringswitch::bridge
