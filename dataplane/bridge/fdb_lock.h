#pragma once

// The FDB's writer lock (fdb.h), for the files that make up the FDB: a spin lock, held for tens of
// nanoseconds or a bounded number of slots.

#include <atomic>
#include <cstdint>

#include "dataplane/bridge/fdb.h"

namespace ringswitch::bridge {

inline constexpr uint32_t kWorkerLockSpins = 64;  // a worker gives up after about two microseconds

class Fdb::WriterLock {
 public:
  explicit WriterLock(const Fdb* fdb) : lock_(fdb->writer_locked_) {
    while (!Acquire()) Pause();
    held_ = true;
  }
  // For workers: look at held().
  WriterLock(const Fdb* fdb, uint32_t spins) : lock_(fdb->writer_locked_) {
    for (uint32_t i = 0; i < spins && !held_; ++i) {
      held_ = Acquire();
      if (!held_) Pause();
    }
  }
  ~WriterLock() {
    if (held_) lock_.store(false, std::memory_order_release);
  }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  bool held() const { return held_; }

 private:
  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  bool Acquire() {
    return !lock_.load(std::memory_order_relaxed) && !lock_.exchange(true, std::memory_order_acquire);
  }
  std::atomic<bool>& lock_;
  bool held_ = false;
};

}  // namespace ringswitch::bridge
