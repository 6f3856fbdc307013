#pragma once

// Threads that take turns, and a clock that only the simulation moves: so that a run is a function of its
// seed.
//
// Theory of operation. One thread makes the Baton and is number 0, the control thread; threads made while it
// exists are 1, 2, 3... Exactly one of them runs at any time: the one that holds the baton. It may hand it on
// where it calls the kernel and nowhere else: the functions through which the product sleeps, waits, yields
// and looks at the clock are defined in baton.cc, and symbols of the executable come before those of shared
// libraries. Who goes on is drawn from the seed. Threads that are not of a Baton reach the real functions.
//
// The clock moves a little with every look at it, and, when nobody can go on, to the earliest time at which
// somebody can.
//
// Ownership: everything is touched by the holder of the baton only; semaphores hand it on.

#include <pthread.h>
#include <semaphore.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/random.h"

namespace ringswitch::sim {

// Ends the process: this run has failed. `what` says what is wrong and is the same whenever the same thing
// is, `details` may differ.
[[noreturn]] void Fail(const std::string& what, const std::string& details = {});

class Baton {
 public:
  static constexpr int64_t kNever = INT64_MAX;

  explicit Baton(int64_t now_ns);
  ~Baton();  // all other threads were joined
  Baton(const Baton&) = delete;
  Baton& operator=(const Baton&) = delete;

  // The calling thread's, null: it takes no turns.
  static Baton* Mine();

  int current() const { return current_; }
  int64_t now_ns() const { return now_ns_; }
  void Advance(int64_t ns) { now_ns_ += ns; }
  // What happens by chance from here on.
  void Reseed(uint64_t seed);
  uint64_t Below(uint64_t end) { return random_.Below(end); }
  bool OneIn(uint64_t n) { return random_.OneIn(n); }

  // Another thread may go on here, once in `one_in` times.
  void Point(uint64_t one_in);
  // Another goes on, if one can.
  void Yield();
  // The others go on until `ready` or the clock is there.
  void Block(std::function<bool()> ready, int64_t deadline_ns = kNever);
  // The others go on until none can.
  void AwaitRest();

  // Called at every look at the monotonic clock, by the thread that looks.
  std::function<void()> on_clock;

  // For the functions of baton.cc.
  int64_t LookAtClock();
  long Futex(const uint32_t* word, int operation, uint32_t value);
  int CreateThread(pthread_t* handle, const pthread_attr_t* attributes, void* (*run)(void*), void* argument);
  void AwaitExit(pthread_t handle);

 private:
  struct Thread {
    sem_t turn;
    pthread_t handle{};
    void* (*run)(void*) = nullptr;
    void* argument = nullptr;
    std::function<bool()> ready;  // empty: it can go on
    int64_t deadline_ns = kNever;
    bool rests = false;  // goes on when nobody else can
    bool is_done = false;
    const uint32_t* futex = nullptr;
    Baton* baton = nullptr;
    int number = 0;
  };
  static void* Run(void* thread);
  bool CanGoOn(const Thread& thread) const;
  int Choose(bool others_only);  // -1: nobody
  void HandTo(int number);
  void CountTurn();

  Random random_{0};
  int current_ = 0;
  int64_t now_ns_;
  uint64_t turns_ = 0;  // since the last Reseed
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace ringswitch::sim
