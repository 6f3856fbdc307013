#include "tests/sim/baton.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>

namespace ringswitch::sim {
namespace {

constexpr uint64_t kTurnsMax = 2'000'000;  // of one action; more is a spin without end
constexpr int64_t kClockStepNsMax = 4'000;
constexpr int64_t kNsPerS = 1'000'000'000;

thread_local Baton* mine = nullptr;

}  // namespace

Baton::Baton(int64_t now_ns) : now_ns_(now_ns) {
  threads_.push_back(std::make_unique<Thread>());
  sem_init(&threads_[0]->turn, 0, 0);
  mine = this;
}

Baton::~Baton() {
  mine = nullptr;
  for (auto& thread : threads_) sem_destroy(&thread->turn);
}

Baton* Baton::Mine() {
  return mine;
}

void Baton::Reseed(uint64_t seed) {
  random_ = Random(seed);
  turns_ = 0;
}

// --- turns ---

bool Baton::CanGoOn(const Thread& thread) const {
  if (thread.is_done || thread.rests) return false;
  return !thread.ready || thread.deadline_ns <= now_ns_ || thread.ready();
}

int Baton::Choose(bool others_only) {
  int able[64];
  size_t count = 0;
  int resting = -1;
  for (const auto& thread : threads_) {
    if (others_only && thread->number == current_) continue;
    if (thread->rests) resting = thread->number;
    if (CanGoOn(*thread)) able[count++] = thread->number;
  }
  if (count == 0) return resting;
  return count == 1 ? able[0] : able[Below(count)];
}

void Baton::CountTurn() {
  if (++turns_ > kTurnsMax) Fail("it never comes to rest");
}

void Baton::HandTo(int number) {
  CountTurn();
  if (number == current_) return;
  Thread& self = *threads_[static_cast<size_t>(current_)];
  current_ = number;
  sem_post(&threads_[static_cast<size_t>(number)]->turn);
  while (sem_wait(&self.turn) != 0) continue;
}

void Baton::Point(uint64_t one_in) {
  if (OneIn(one_in)) Yield();
}

void Baton::Yield() {
  CountTurn();
  const int next = Choose(true);
  if (next >= 0 && !threads_[static_cast<size_t>(next)]->rests) HandTo(next);
}

void Baton::Block(std::function<bool()> ready, int64_t deadline_ns) {
  Thread& self = *threads_[static_cast<size_t>(current_)];
  self.ready = std::move(ready);
  self.deadline_ns = deadline_ns;
  for (;;) {
    const int next = Choose(false);
    if (next >= 0) {
      HandTo(next);
      if (CanGoOn(self)) break;
      continue;
    }
    int64_t earliest_ns = kNever;
    for (const auto& thread : threads_) {
      if (!thread->is_done && thread->ready) earliest_ns = std::min(earliest_ns, thread->deadline_ns);
    }
    if (earliest_ns == kNever) Fail("every thread waits for another");
    now_ns_ = earliest_ns;
  }
  self.ready = nullptr;
  self.deadline_ns = kNever;
}

void Baton::AwaitRest() {
  Thread& self = *threads_[static_cast<size_t>(current_)];
  self.rests = true;
  HandTo(Choose(false));
  self.rests = false;
}

// --- threads ---

int Baton::CreateThread(pthread_t* handle, const pthread_attr_t* attributes, void* (*run)(void*),
                        void* argument) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  threads_.push_back(std::make_unique<Thread>());
  Thread* thread = threads_.back().get();
  sem_init(&thread->turn, 0, 0);
  thread->run = run;
  thread->argument = argument;
  thread->baton = this;
  thread->number = static_cast<int>(threads_.size()) - 1;
  const int error = real(handle, attributes, &Baton::Run, thread);
  thread->handle = *handle;
  if (error != 0) Fail("a thread cannot be made");
  return 0;
}

void* Baton::Run(void* argument) {
  Thread* self = static_cast<Thread*>(argument);
  Baton* baton = self->baton;
  mine = baton;
  while (sem_wait(&self->turn) != 0) continue;
  void* const result = self->run(self->argument);
  mine = nullptr;
  self->is_done = true;
  const int next = baton->Choose(true);
  if (next < 0) Fail("a thread ends and no other can go on");
  baton->current_ = next;
  sem_post(&baton->threads_[static_cast<size_t>(next)]->turn);
  return result;
}

void Baton::AwaitExit(pthread_t handle) {
  for (const auto& thread : threads_) {
    if (pthread_equal(thread->handle, handle) == 0 || thread->number == 0) continue;
    Block([raw = thread.get()] { return raw->is_done; });
    return;
  }
}

// --- what threads ask the kernel for ---

int64_t Baton::LookAtClock() {
  if (current_ != 0) Point(8);  // what the control thread reads is of one moment
  now_ns_ += 1 + static_cast<int64_t>(Below(kClockStepNsMax));
  if (on_clock) on_clock();
  return now_ns_;
}

long Baton::Futex(const uint32_t* word, int operation, uint32_t value) {
  const int command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET) {
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
      errno = EAGAIN;
      return -1;
    }
    Thread* self = threads_[static_cast<size_t>(current_)].get();
    self->futex = word;
    Block([self] { return self->futex == nullptr; });
    return 0;
  }
  // Whether a waker calls at all depends on addresses: no turn ends here, and no chance is drawn.
  if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) {
    long woken = 0;
    for (auto& thread : threads_) {
      if (thread->futex != word || static_cast<uint32_t>(woken) == value) continue;
      thread->futex = nullptr;
      ++woken;
    }
    return woken;
  }
  Fail("a futex operation that is not simulated");
}

}  // namespace ringswitch::sim

// --- the C library's functions, for threads that take turns ---

using ringswitch::sim::Baton;
using ringswitch::sim::kNsPerS;

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto real = reinterpret_cast<decltype(&clock_gettime)>(dlsym(RTLD_NEXT, "clock_gettime"));
  Baton* const baton = Baton::Mine();
  if (baton == nullptr) return real(clock, time);
  const int64_t now_ns = clock == CLOCK_MONOTONIC ? baton->LookAtClock() : baton->now_ns();
  time->tv_sec = now_ns / kNsPerS;
  time->tv_nsec = now_ns % kNsPerS;
  return 0;
}

int nanosleep(const timespec* time, timespec* left) {
  static const auto real = reinterpret_cast<decltype(&nanosleep)>(dlsym(RTLD_NEXT, "nanosleep"));
  Baton* const baton = Baton::Mine();
  if (baton == nullptr) return real(time, left);
  baton->Advance(time->tv_sec * kNsPerS + time->tv_nsec);
  baton->Yield();
  return 0;
}

int sched_yield() noexcept {
  static const auto real = reinterpret_cast<decltype(&sched_yield)>(dlsym(RTLD_NEXT, "sched_yield"));
  Baton* const baton = Baton::Mine();
  if (baton == nullptr) return real();
  baton->Yield();
  return 0;
}

// Callers give as many arguments as their call has; what is read beyond is passed on and not looked at.
__attribute__((no_sanitize("address", "undefined"))) long syscall(long number, ...) noexcept {
  static const auto real = reinterpret_cast<decltype(&syscall)>(dlsym(RTLD_NEXT, "syscall"));
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  Baton* const baton = Baton::Mine();
  if (baton != nullptr && number == SYS_futex) {
    return baton->Futex(reinterpret_cast<const uint32_t*>(arguments[0]), static_cast<int>(arguments[1]),
                        static_cast<uint32_t>(arguments[2]));
  }
  return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

int pthread_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  Baton* const baton = Baton::Mine();
  if (baton == nullptr) return real(handle, attributes, run, argument);
  return baton->CreateThread(handle, attributes, run, argument);
}

int pthread_join(pthread_t handle, void** result) {
  static const auto real = reinterpret_cast<decltype(&pthread_join)>(dlsym(RTLD_NEXT, "pthread_join"));
  if (Baton* const baton = Baton::Mine(); baton != nullptr) baton->AwaitExit(handle);
  return real(handle, result);
}

}  // extern "C"
