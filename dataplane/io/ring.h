#pragma once

// One worker's io_uring: set-up, probing, the handful of operations the switch needs, and completions.
//
// Theory of operation. The ring has one issuer (IORING_SETUP_SINGLE_ISSUER) and runs its deferred work only
// when the worker asks for events (IORING_SETUP_DEFER_TASKRUN), so nothing happens behind the worker's back
// and a batch costs one or two system calls. IORING_SETUP_TASKRUN_FLAG lets a spinning worker see without a
// system call that work has arrived. Files are addressed by their slot, of which there are kFilesMax, and
// given to the kernel as plain descriptors; the ring's own descriptor is registered.
//
//   Submit     hands over what was queued and runs nothing else: a write is complete when it returns. Armed
//              reads bring nothing meanwhile.
//   Advance    the same, then runs deferred work: armed reads deliver. No system call where there is neither.
//   Wait       sleeps until a completion or the timeout.
//
// Every operation carries Token as its user_data: what it was, for which slot, in which generation of it, and
// a number. No memory is allocated per operation. The completion queue is larger than all that can be
// outstanding at once, and whoever submits collects before submitting again, so it cannot overflow.
//
// A file is of one of two kinds. TAPs are read and written; packet sockets are received from with auxiliary
// data and sent to, since before Linux 6.5 a write to a socket cannot be told not to wait. Both are
// O_NONBLOCK before they come here.
//
// Ownership: one thread, the one that called Create. A readiness-based engine (epoll, read, write) would
// stand in for this class, Receiver and Transmitter; nothing above them knows io_uring.

#include <liburing.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ringswitch::io {

// Slots for files, one per port.
inline constexpr uint32_t kFilesMax = 1024;
// Queued operations between two submits: a flood to every port is submitted in pieces. 64 KiB of entries stay
// in cache.
inline constexpr uint32_t kSubmissionsMax = 1024;

enum class Operation : uint8_t { kRead, kWrite, kCancel, kWake };
enum class FileKind : uint8_t { kTap, kPacketSocket };

struct Token {
  Operation operation{};
  uint16_t generation = 0;
  uint16_t slot = 0;   // of the file table
  uint16_t index = 0;  // of the write in its batch, or of the read's message
  uint64_t Pack() const {
    return static_cast<uint64_t>(operation) << 48 | static_cast<uint64_t>(generation) << 32 |
           static_cast<uint64_t>(slot) << 16 | index;
  }
  static Token Unpack(uint64_t bits) {
    return {static_cast<Operation>(bits >> 48), static_cast<uint16_t>(bits >> 32),
            static_cast<uint16_t>(bits >> 16), static_cast<uint16_t>(bits)};
  }
};

struct Completion {
  Token token;
  int32_t result = 0;  // bytes, or -errno
  bool more = false;   // the operation stays armed
  bool has_buffer = false;
  uint16_t buffer = 0;  // of the buffer group
};

class Ring {
 public:
  // `reads_max`: most completions of reads that can be outstanding. UNAVAILABLE with cause and remedy in one
  // line.
  static absl::StatusOr<std::unique_ptr<Ring>> Create(uint32_t reads_max);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  bool has_multishot_read() const { return has_multishot_read_; }  // Linux 6.7
  bool has_nowait() const { return has_nowait_; }                  // a TAP takes RWF_NOWAIT: Linux 6.4

  // Control. The address of `entries` (a power of two of them) must stay valid as long as the ring.
  absl::Status RegisterBufferRing(io_uring_buf_ring* buffers, uint32_t entries, uint16_t group);
  absl::Status SetFile(uint16_t slot, int fd, FileKind kind = FileKind::kTap);  // fd -1 empties the slot
  FileKind kind(uint16_t slot) const { return kinds_[slot]; }

  // Queueing. There must be room: see full().
  bool full() const {
    return tail_ - __atomic_load_n(ring_.sq.khead, __ATOMIC_ACQUIRE) >= ring_.sq.ring_entries;
  }
  void QueueMultishotRead(uint16_t slot, uint16_t group, Token token);
  void QueueRead(uint16_t slot, uint16_t group, uint32_t length, bool nowait, Token token);
  // From a packet socket. `message` gives the room for control data and stays valid; a multishot one puts it
  // into each buffer, a single one receives it.
  void QueueMultishotReceive(uint16_t slot, uint16_t group, const msghdr* message, Token token);
  void QueueReceive(uint16_t slot, uint16_t group, msghdr* message, bool nowait, Token token);
  void QueueWrite(uint16_t slot, const uint8_t* data, uint32_t length, Token token);
  void QueueCancel(Token target, Token token);  // all that carry `target`
  void QueueReadFd(int fd, void* data, uint32_t length, Token token);

  void Submit() { Enter(0, 0, nullptr); }
  void Advance() {
    if (tail_ != submitted_ || (Ready() && !HasCompletions())) Enter(0, IORING_ENTER_GETEVENTS, nullptr);
  }
  void Wait(int64_t timeout_ns);  // negative: for ever
  // Anything to collect or to run? No system call.
  bool Ready() const {
    return HasCompletions() || (__atomic_load_n(ring_.sq.kflags, __ATOMIC_RELAXED) &
                                (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
  }

  // Calls sink(Completion) for each completion, in order, and empties the queue.
  template <typename Sink>
  void Collect(Sink&& sink) {
    uint32_t head = *ring_.cq.khead;
    const uint32_t tail = __atomic_load_n(ring_.cq.ktail, __ATOMIC_ACQUIRE);
    for (; head != tail; ++head) {
      const io_uring_cqe& cqe = ring_.cq.cqes[head & ring_.cq.ring_mask];
      sink(Completion{Token::Unpack(cqe.user_data), cqe.res, (cqe.flags & IORING_CQE_F_MORE) != 0,
                      (cqe.flags & IORING_CQE_F_BUFFER) != 0,
                      static_cast<uint16_t>(cqe.flags >> IORING_CQE_BUFFER_SHIFT)});
    }
    __atomic_store_n(ring_.cq.khead, head, __ATOMIC_RELEASE);
  }

 private:
  Ring() = default;
  bool HasCompletions() const { return __atomic_load_n(ring_.cq.ktail, __ATOMIC_ACQUIRE) != *ring_.cq.khead; }
  io_uring_sqe* Next();
  void SetSlot(io_uring_sqe* sqe, uint16_t slot) const;
  void Enter(uint32_t completions_min, uint32_t flags, __kernel_timespec* timeout);
  void Probe();

  io_uring ring_{};
  uint32_t tail_ = 0;       // queued
  uint32_t submitted_ = 0;  // of those, handed over
  uint32_t enter_flags_ = 0;
  bool has_multishot_read_ = false;
  bool has_nowait_ = false;
  std::array<int, kFilesMax> files_{};  // descriptors
  std::array<FileKind, kFilesMax> kinds_{};
};

}  // namespace ringswitch::io
