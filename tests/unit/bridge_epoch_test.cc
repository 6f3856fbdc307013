#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "dataplane/bridge/epoch.h"

namespace ringswitch::bridge {
namespace {

TEST(EpochDomain, NobodyInsideDelaysNobody) {
  EpochDomain epochs;
  EXPECT_TRUE(epochs.Passed(epochs.Advance()));
}

TEST(EpochDomain, WorkerInsideDelaysUntilItsBoundary) {
  EpochDomain epochs;
  epochs.Enter(0);
  const uint64_t epoch = epochs.Advance();
  EXPECT_FALSE(epochs.Passed(epoch));
  epochs.Boundary(0);
  EXPECT_TRUE(epochs.Passed(epoch));
  EXPECT_FALSE(epochs.Passed(epochs.Advance()));
  epochs.Leave(0);
  EXPECT_TRUE(epochs.Passed(epochs.Advance()));
}

TEST(EpochDomain, EveryWorkerCounts) {
  EpochDomain epochs;
  for (uint32_t worker = 0; worker < kWorkersMax; ++worker) epochs.Enter(worker);
  const uint64_t epoch = epochs.Advance();
  for (uint32_t worker = 0; worker < kWorkersMax; ++worker) {
    EXPECT_FALSE(epochs.Passed(epoch));
    epochs.Boundary(worker);
  }
  EXPECT_TRUE(epochs.Passed(epoch));
}

// What was unlinked and passed is overwritten here: a worker that could still reach it would see the mark.
TEST(EpochDomain, NoWorkerSeesWhatHasPassed) {
  constexpr uint64_t kFreed = UINT64_MAX;
  constexpr int kRounds = 2000;
  EpochDomain epochs;
  std::vector<std::unique_ptr<std::atomic<uint64_t>>> values;
  for (int i = 0; i <= kRounds; ++i) values.push_back(std::make_unique<std::atomic<uint64_t>>(i));
  std::atomic<std::atomic<uint64_t>*> published{values[0].get()};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> freed_seen{0};

  std::vector<std::thread> workers;
  for (uint32_t worker = 0; worker < 2; ++worker) {
    workers.emplace_back([&, worker] {
      epochs.Enter(worker);
      for (uint64_t batch = 0; !stop.load(); ++batch) {
        const std::atomic<uint64_t>* value = published.load();
        for (int i = 0; i < 20; ++i) freed_seen += value->load() == kFreed ? 1 : 0;
        if (batch % 8 == 0) {
          epochs.Leave(worker);
          std::this_thread::yield();
          epochs.Enter(worker);
        } else {
          epochs.Boundary(worker);
        }
      }
      epochs.Leave(worker);
    });
  }
  for (int round = 0; round < kRounds; ++round) {
    published.store(values[round + 1].get());
    const uint64_t epoch = epochs.Advance();
    while (!epochs.Passed(epoch)) std::this_thread::yield();
    values[round]->store(kFreed);
  }
  stop.store(true);
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(freed_seen.load(), 0u);
}

}  // namespace
}  // namespace ringswitch::bridge
