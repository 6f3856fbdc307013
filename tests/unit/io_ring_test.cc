// The ring where the kernel does not do at once, or not at all, what it is asked.
//
// Theory of operation. A few of liburing's functions are defined here: symbols of the executable come before
// those of shared libraries. They do as liburing does unless a test has told them otherwise.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <vector>

#include "dataplane/io/buffer_pool.h"
#include "dataplane/io/ring.h"

namespace {

struct EnterCall {
  unsigned offered;
  bool gets_events;
};

// What the functions below do.
struct Kernel {
  // Of each of the next calls: an error (negative), or how many operations it takes at most.
  std::deque<int> enters;
  std::vector<EnterCall> calls;
  int setup_error = 0;
  int buffer_ring_error = 0;
  bool has_probe = true;
};
Kernel kernel;

template <typename Function>
Function* Next(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int io_uring_enter2(unsigned fd, unsigned to_submit, unsigned min_complete, unsigned flags, sigset_t* signals,
                    size_t size) {
  static auto* const next = Next(&io_uring_enter2, "io_uring_enter2");
  kernel.calls.push_back({to_submit, (flags & IORING_ENTER_GETEVENTS) != 0});
  if (!kernel.enters.empty()) {
    const int answer = kernel.enters.front();
    kernel.enters.pop_front();
    if (answer < 0) return answer;
    to_submit = std::min(to_submit, static_cast<unsigned>(answer));
  }
  return next(fd, to_submit, min_complete, flags, signals, size);
}

int io_uring_queue_init_params(unsigned entries, io_uring* ring, io_uring_params* params) {
  static auto* const next = Next(&io_uring_queue_init_params, "io_uring_queue_init_params");
  return kernel.setup_error != 0 ? kernel.setup_error : next(entries, ring, params);
}

int io_uring_register_buf_ring(io_uring* ring, io_uring_buf_reg* registration, unsigned flags) {
  static auto* const next = Next(&io_uring_register_buf_ring, "io_uring_register_buf_ring");
  return kernel.buffer_ring_error != 0 ? kernel.buffer_ring_error : next(ring, registration, flags);
}

io_uring_probe* io_uring_get_probe_ring(io_uring* ring) {
  static auto* const next = Next(&io_uring_get_probe_ring, "io_uring_get_probe_ring");
  return kernel.has_probe ? next(ring) : nullptr;
}

}  // extern "C"

namespace ringswitch::io {
namespace {

using ::testing::HasSubstr;

class RingTest : public testing::Test {
 protected:
  RingTest() { kernel = {}; }
  ~RingTest() override { kernel = {}; }
};

// Operations that complete at once: there is nothing to cancel.
void QueueCancels(Ring* ring, uint16_t count) {
  for (uint16_t i = 0; i < count; ++i) ring->QueueCancel({Operation::kRead}, {Operation::kCancel, 0, 0, i});
}

std::vector<uint16_t> Collect(Ring* ring) {
  std::vector<uint16_t> indexes;
  ring->Collect([&](const Completion& completion) { indexes.push_back(completion.token.index); });
  std::sort(indexes.begin(), indexes.end());
  return indexes;
}

TEST_F(RingTest, WhatTheKernelDoesNotTakeAtOnceIsOfferedAgain) {
  auto ring = *Ring::Create(16);
  QueueCancels(ring.get(), 3);
  kernel.calls.clear();
  kernel.enters = {-EAGAIN, 1, -EINTR, 1};
  ring->Submit();
  std::vector<unsigned> offered;
  for (const EnterCall& call : kernel.calls) offered.push_back(call.offered);
  EXPECT_EQ(offered, (std::vector<unsigned>{3, 3, 2, 2, 1}));
  EXPECT_EQ(Collect(ring.get()), (std::vector<uint16_t>{0, 1, 2}));
}

TEST_F(RingTest, BusyKernelIsAskedForItsEvents) {
  auto ring = *Ring::Create(16);
  QueueCancels(ring.get(), 2);
  kernel.calls.clear();
  kernel.enters = {-EBUSY};
  ring->Submit();
  ASSERT_EQ(kernel.calls.size(), 2u);
  EXPECT_FALSE(kernel.calls[0].gets_events);
  EXPECT_TRUE(kernel.calls[1].gets_events);
  EXPECT_EQ(Collect(ring.get()), (std::vector<uint16_t>{0, 1}));
}

TEST_F(RingTest, AnyOtherErrorIsNotTriedForEver) {
  auto ring = *Ring::Create(16);
  QueueCancels(ring.get(), 2);
  kernel.calls.clear();
  kernel.enters = {-EBADF};
  ring->Submit();
  EXPECT_EQ(kernel.calls.size(), 1u);
  EXPECT_TRUE(Collect(ring.get()).empty());
  ring->Submit();  // the next one offers them again
  EXPECT_EQ(Collect(ring.get()), (std::vector<uint16_t>{0, 1}));
}

TEST_F(RingTest, WhyItCannotBeHadIsSaidWithTheRemedy) {
  const struct {
    int error;
    const char* remedy;
  } kRows[] = {{EPERM, "set kernel.io_uring_disabled=0"},
               {ENOSYS, "CONFIG_IO_URING"},
               {ENOMEM, "LimitMEMLOCK="},
               {EMFILE, "LimitNOFILE="},
               {EINVAL, "Linux 6.1 or later is needed"}};
  for (const auto& row : kRows) {
    kernel.setup_error = -row.error;
    const absl::Status status = Ring::Create(16).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << row.remedy;
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.remedy));
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
}

TEST_F(RingTest, KernelThatCannotBeAskedHasNothingNew) {
  kernel.has_probe = false;
  auto ring = *Ring::Create(16);
  EXPECT_FALSE(ring->has_multishot_read());
  EXPECT_FALSE(ring->has_nowait());
}

TEST_F(RingTest, PoolWithoutABufferRingIsNone) {
  auto ring = *Ring::Create(16);
  kernel.buffer_ring_error = -EINVAL;
  EXPECT_EQ(BufferPool::Create(16, ring.get()).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RingTest, PoolWithoutMemoryIsNone) {
  auto ring = *Ring::Create(16);
  const absl::Status status = BufferPool::Create(1u << 31, ring.get()).status();  // beyond 128 TiB
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lower buffers_per_worker"));
}

}  // namespace
}  // namespace ringswitch::io
