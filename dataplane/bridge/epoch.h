#pragma once

// Epochs: how the control threads know that no worker can still see what was unlinked.
//
// Theory of operation. A worker reads shared memory (forwarding configuration, FDB slots) only within a
// batch. It says so here: Enter when it comes back from sleep, Boundary between two batches, Leave before it
// sleeps. A control thread, or a worker holding an FDB's writer lock, unlinks a thing, calls Advance, and may
// free or reuse it once Passed(epoch) holds. A worker that sleeps holds nothing and never delays anybody. No
// fences are used, only sequentially consistent operations, because ThreadSanitizer understands these: Enter
// publishes its epoch and reads the global one again, so either the control thread sees the worker inside, or
// the worker sees all that was unlinked before.

#include <array>
#include <atomic>
#include <cstdint>

namespace ringswitch::bridge {

inline constexpr uint32_t kWorkersMax = 4;

class EpochDomain {
 public:
  // Worker threads only, each with its own index.
  void Enter(uint32_t worker) {
    uint64_t seen = global_.load();
    for (;;) {
      slots_[worker].epoch.store(seen);
      uint64_t again = global_.load();
      if (again == seen) return;
      seen = again;
    }
  }
  // One load when nothing was unlinked since the last batch.
  void Boundary(uint32_t worker) {
    uint64_t now = global_.load();
    if (slots_[worker].epoch.load(std::memory_order_relaxed) != now) Enter(worker);
  }
  void Leave(uint32_t worker) { slots_[worker].epoch.store(kOutside); }

  // Any thread. Everything unlinked before the call is out of reach once Passed(result).
  uint64_t Advance() { return global_.fetch_add(1) + 1; }
  bool Passed(uint64_t epoch) const {
    for (const Slot& slot : slots_) {
      if (slot.epoch.load() < epoch) return false;
    }
    return true;
  }

 private:
  static constexpr uint64_t kOutside = UINT64_MAX;
  struct alignas(64) Slot {
    std::atomic<uint64_t> epoch{kOutside};
  };
  alignas(64) std::atomic<uint64_t> global_{1};
  std::array<Slot, kWorkersMax> slots_;
};

}  // namespace ringswitch::bridge
