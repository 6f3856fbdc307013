// Workers that learn and look up while a control thread flushes, ages and lists, another takes the log of
// changes, and addresses flap: for ThreadSanitizer, and for what it cannot see, since every word is atomic: a
// lookup that answers with another key's port, a log from which a change is missing.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "dataplane/bridge/fdb.h"

namespace ringswitch::bridge {
namespace {

constexpr uint32_t kCapacity = 256;  // small: slots change keys all the time
constexpr uint64_t kKeys = 4096;
constexpr int kBatches = 20'000;
constexpr int kBatchFrames = 16;

FdbKey KeyOf(uint64_t number) {
  return {MacAddress(0x0200'0000'0000 + number), static_cast<VlanId>(1 + number % 3)};
}
// An address lives on one of two ports that no other kind of address uses.
PortIndex FirstPortOf(uint64_t number) {
  return static_cast<PortIndex>(number * 7 % 500 * 2);
}
bool IsPortOf(uint64_t number, PortIndex port) {
  return (port & ~1) == FirstPortOf(number);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t Below(uint64_t end) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) % end;
  }

 private:
  uint64_t state_;
};

struct Shared {
  EpochDomain epochs;
  Fdb fdb{kCapacity, 11, &epochs};
  std::atomic<uint32_t> workers_running{kWorkersMax};
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> held{0};
  // What a reader of the log has made of it.
  std::map<std::pair<uint64_t, VlanId>, FdbTarget> copy;
  uint64_t overflows = 0;
};

void RunWorker(uint32_t worker, Shared* shared) {
  Random random(worker);
  uint64_t wrong = 0, hits = 0, held = 0;
  shared->epochs.Enter(worker);
  for (int batch = 0; batch < kBatches; ++batch) {
    // A window of addresses that wanders: entries are hot, die, and their slots are wanted by others.
    const uint64_t base = static_cast<uint64_t>(batch) / 16 * 8;
    const auto now_s = static_cast<uint32_t>(batch / 64);
    for (int i = 0; i < kBatchFrames; ++i) {
      const uint64_t source = (base + random.Below(128)) % kKeys;
      const auto port = static_cast<PortIndex>(FirstPortOf(source) + random.Below(2));
      held += shared->fdb.Learn(KeyOf(source), port, 0, now_s) == LearnResult::kHeldElsewhere ? 1 : 0;
      const uint64_t destination = (base + random.Below(128)) % kKeys;
      const FdbTarget target = shared->fdb.Lookup(KeyOf(destination));
      if (target.found()) {
        ++hits;
        wrong += IsPortOf(destination, target.port) ? 0 : 1;
      }
    }
    if (batch % 32 == 0) {
      shared->epochs.Leave(worker);
      std::this_thread::yield();
      shared->epochs.Enter(worker);
    } else {
      shared->epochs.Boundary(worker);
    }
  }
  shared->epochs.Leave(worker);
  shared->wrong += wrong;
  shared->hits += hits;
  shared->held += held;
  --shared->workers_running;
}

void ExpectListIsSane(Shared* shared, uint32_t now_s) {
  std::vector<FdbRow> rows;
  uint32_t cursor = 0;
  do {
    cursor = shared->fdb.List(cursor, {}, 50, now_s, &rows);
  } while (cursor != 0);
  for (const FdbRow& row : rows) {
    EXPECT_TRUE(IsPortOf(row.key.mac.bits() - 0x0200'0000'0000, row.target.port));
  }
}

void RunControl(Shared* shared) {
  Random random(99);
  for (uint32_t round = 0; shared->workers_running.load() != 0; ++round) {
    const uint64_t number = random.Below(kKeys);
    switch (round % 8) {
      case 0:
        shared->fdb.Flush({.port = FirstPortOf(number)});
        break;
      case 1:
        shared->fdb.AgeSlice(round / 8, 2, 128);
        break;
      case 2:
        ExpectListIsSane(shared, round / 8);
        break;
      case 3:
        shared->fdb.AddStatic(KeyOf(number), FirstPortOf(number), true);
        break;
      case 4:
        shared->fdb.Flush({.vid = static_cast<VlanId>(1 + number % 3), .kind = FdbKind::kDynamic});
        break;
      case 5:
        shared->fdb.Flush({.kind = FdbKind::kStatic});
        break;
      case 6:
        shared->fdb.SetFlapGuard(round % 256 == 6 ? 0 : 4, 1);
        break;
      case 7:
        for (const FdbMoves& moves : shared->fdb.Moves()) EXPECT_EQ(moves.from ^ moves.to, 1);
        if (round % 64 == 7) shared->fdb.ForgetMoves(FirstPortOf(number));
        break;
    }
    std::this_thread::yield();
  }
}

void ApplyChanges(Shared* shared) {
  std::vector<FdbChange> changes;
  if (!shared->fdb.TakeChanges(&changes)) {
    ++shared->overflows;
    shared->copy.clear();
    std::vector<FdbRow> rows;
    shared->fdb.List(0, {}, UINT32_MAX, 0, &rows);
    for (const FdbRow& row : rows) shared->copy[{row.key.mac.bits(), row.key.vid}] = row.target;
    return;
  }
  for (const FdbChange& change : changes) {
    const std::pair key(change.key.mac.bits(), change.key.vid);
    if (change.target.found()) {
      shared->copy[key] = change.target;
    } else {
      shared->copy.erase(key);
    }
  }
}

void RunLogReader(Shared* shared) {
  while (shared->workers_running.load() != 0) {
    ApplyChanges(shared);
    std::this_thread::yield();
  }
}

TEST(FdbConcurrency, LookupNeverAnswersWithAnotherKeysPort) {
  Shared shared;
  std::vector<std::thread> threads;
  for (uint32_t worker = 0; worker < kWorkersMax; ++worker) threads.emplace_back(RunWorker, worker, &shared);
  shared.fdb.SetFlapGuard(4, 1);
  shared.fdb.SetLogging(true);
  threads.emplace_back(RunControl, &shared);
  threads.emplace_back(RunLogReader, &shared);
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(shared.wrong.load(), 0u);
  EXPECT_GT(shared.hits.load(), 10'000u);
  EXPECT_GT(shared.held.load(), 0u);

  // The books balance: counts are those of the rows, and each key is there once.
  std::vector<FdbRow> rows;
  shared.fdb.List(0, {}, UINT32_MAX, 0, &rows);
  std::set<uint64_t> keys;
  std::vector<uint32_t> dynamic_counts(kPortsMax);
  uint32_t dynamic_count = 0;
  for (const FdbRow& row : rows) {
    EXPECT_TRUE(keys.insert(row.key.mac.bits()).second);
    if (row.target.kind != FdbKind::kDynamic) continue;
    ++dynamic_counts[row.target.port];
    ++dynamic_count;
  }
  EXPECT_LE(rows.size(), kCapacity);
  ApplyChanges(&shared);  // what is left
  EXPECT_EQ(shared.copy.size(), rows.size()) << "overflows: " << shared.overflows;
  for (const FdbRow& row : rows) {
    const FdbTarget& copied = shared.copy[{row.key.mac.bits(), row.key.vid}];
    EXPECT_EQ(copied.port, row.target.port);
    EXPECT_EQ(copied.kind, row.target.kind);
  }
  EXPECT_EQ(shared.fdb.CountOf(FdbKind::kDynamic), dynamic_count);
  EXPECT_EQ(shared.fdb.CountOf(FdbKind::kStatic), rows.size() - dynamic_count);
  for (PortIndex port = 0; port < kPortsMax; ++port) {
    EXPECT_EQ(shared.fdb.DynamicCountOf(port), dynamic_counts[port]) << port;
  }
}

}  // namespace
}  // namespace ringswitch::bridge
