#pragma once

// The writes under way.
//
// Theory of operation. Each write is queued with a reference to its buffer and completes with one completion,
// which gives the reference back. A TAP with its default send buffer takes a frame within the submit, and a
// packet socket copies it there or has no room: after Ring::Submit and Ring::Collect all of a batch's
// successful writes are done, however slow the device. Failures are deferred work (seen on Linux 6.18) and
// arrive with the next Ring::Advance; until then they keep their buffer and their place here. Success could
// be kept silent (IOSQE_CQE_SKIP_SUCCESS), but then nobody could tell when a failure may still come. Writes
// of one (source, destination) pair are executed in the order in which they were queued.
//
// Ownership: the worker's thread.

#include <array>
#include <cstdint>

#include "dataplane/io/buffer_pool.h"
#include "dataplane/io/ring.h"

namespace ringswitch::io {

// What a write took, or was to take: virtio-net header with the frame of `length` bytes behind it. Its bytes
// are there until their buffer has a new reference.
struct Written {
  const uint8_t* header;
  uint32_t length;
};

class Transmitter {
 public:
  Transmitter(Ring* ring, BufferPool* pool) : ring_(ring), pool_(pool) {
    for (uint32_t i = 0; i < kSubmissionsMax; ++i) free_[i] = static_cast<uint16_t>(i);
  }
  Transmitter(const Transmitter&) = delete;
  Transmitter& operator=(const Transmitter&) = delete;

  // No room: submit and collect first; if that does not help, advance and collect.
  bool full() const { return free_count_ == 0 || ring_->full(); }
  uint32_t outstanding() const { return kSubmissionsMax - free_count_; }
  // Nothing that was queued for the slot's file is under way: it may be closed, and the slot have another.
  bool idle(uint16_t slot) const { return outstanding_[slot] == 0; }

  // `header`: virtio-net header with the frame of `length` bytes behind it, in `buffer`.
  void Queue(uint16_t slot, uint16_t buffer, const uint8_t* header, uint32_t length) {
    pool_->AddReference(buffer);
    const uint16_t index = free_[--free_count_];
    writes_[index] = {header, length, buffer};
    ++outstanding_[slot];
    ring_->QueueWrite(slot, header, kVirtioNetHeaderSize + length, {Operation::kWrite, 0, slot, index});
  }

  Written OnWritten(const Completion& completion) {
    const Write write = writes_[completion.token.index];
    free_[free_count_++] = completion.token.index;
    --outstanding_[completion.token.slot];
    pool_->Release(write.buffer);
    return {write.header, write.length};
  }

 private:
  struct Write {
    const uint8_t* header;
    uint32_t length;
    uint16_t buffer;
  };
  Ring* const ring_;
  BufferPool* const pool_;
  uint32_t free_count_ = kSubmissionsMax;
  std::array<uint16_t, kSubmissionsMax> free_;
  std::array<Write, kSubmissionsMax> writes_;
  std::array<uint16_t, kFilesMax> outstanding_{};  // by slot
};

}  // namespace ringswitch::io
