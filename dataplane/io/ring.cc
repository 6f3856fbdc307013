#include "dataplane/io/ring.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ringswitch::io {
namespace {

constexpr uint32_t kMemlockMin = 8 << 20;  // bytes; rings of four workers are well below
constexpr uint8_t kOpReadMultishot = 49;   // IORING_OP_READ_MULTISHOT, newer than the packaged header

uint64_t Limit(__rlimit_resource resource) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  return limit.rlim_cur;
}

// One line: what cannot be had, why, what to do.
absl::Status Unavailable(const char* step, int error) {
  const auto fault = absl::StrCat("io_uring cannot be used: ", step, ": ", std::strerror(error), "; ");
  constexpr const char* kAllow = "allow io_uring_setup, io_uring_enter and io_uring_register";
  utsname kernel{};
  ::uname(&kernel);
  switch (error) {
    case EPERM:
      return absl::UnavailableError(absl::StrCat(
          fault, "forbidden by a seccomp profile or the sysctl kernel.io_uring_disabled: ", kAllow,
          ", or set kernel.io_uring_disabled=0"));
    case ENOSYS:
      return absl::UnavailableError(absl::StrCat(fault, "hidden by a seccomp profile or not in this kernel: ",
                                                 kAllow, ", or boot a kernel with CONFIG_IO_URING"));
    case ENOMEM:
      return absl::UnavailableError(absl::StrCat(fault, "RLIMIT_MEMLOCK is ", Limit(RLIMIT_MEMLOCK),
                                                 " bytes: raise it to at least ", kMemlockMin,
                                                 " (LimitMEMLOCK=, ulimit -l), or free memory"));
    case EMFILE:
      return absl::UnavailableError(absl::StrCat(fault, "RLIMIT_NOFILE is ", Limit(RLIMIT_NOFILE),
                                                 ": raise it to at least ", kFilesMax,
                                                 " (LimitNOFILE=, ulimit -n)"));
    default:
      return absl::UnavailableError(
          absl::StrCat(fault, "the kernel is ", kernel.release, ", Linux 6.1 or later is needed"));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ring>> Ring::Create(uint32_t reads_max) {
  std::unique_ptr<Ring> ring(new Ring);
  io_uring_params params{};
  params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
                 IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE;
  // Failed writes and cancels of one submit, reads, their last words, and the wake-up.
  params.cq_entries = std::bit_ceil(kSubmissionsMax + reads_max + 2 * kFilesMax);
  if (int r = io_uring_queue_init_params(kSubmissionsMax, &ring->ring_, &params); r < 0) {
    ring->ring_.ring_fd = -1;
    return Unavailable("io_uring_setup", -r);
  }
  if (int r = io_uring_register_ring_fd(&ring->ring_); r == 1)
    ring->enter_flags_ = IORING_ENTER_REGISTERED_RING;
  for (uint32_t i = 0; i < ring->ring_.sq.ring_entries; ++i) ring->ring_.sq.array[i] = i;
  ring->Probe();
  return ring;
}

Ring::~Ring() {
  if (ring_.ring_fd >= 0) io_uring_queue_exit(&ring_);
}

// What this kernel has. RWF_NOWAIT on a TAP cannot be asked for by opcode: it came with 6.4, READ_MULTISHOT
// with 6.7, so the opcode implies it; between the two O_NONBLOCK alone does the same work.
void Ring::Probe() {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) return;
  has_multishot_read_ = probe->last_op >= kOpReadMultishot;
  has_nowait_ = has_multishot_read_;
  io_uring_free_probe(probe);
}

absl::Status Ring::RegisterBufferRing(io_uring_buf_ring* buffers, uint32_t entries, uint16_t group) {
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<uint64_t>(buffers);
  registration.ring_entries = entries;
  registration.bgid = group;
  if (int r = io_uring_register_buf_ring(&ring_, &registration, 0); r < 0)
    return Unavailable("provided buffer ring", -r);
  return absl::OkStatus();
}

absl::Status Ring::SetFile(uint16_t slot, int fd, FileKind kind) {
  files_[slot] = fd;
  kinds_[slot] = kind;
  return absl::OkStatus();
}

io_uring_sqe* Ring::Next() {
  io_uring_sqe* sqe = &ring_.sq.sqes[tail_++ & ring_.sq.ring_mask];
  std::memset(sqe, 0, sizeof *sqe);
  return sqe;
}

void Ring::SetSlot(io_uring_sqe* sqe, uint16_t slot) const {
  sqe->fd = files_[slot];
}

void Ring::QueueMultishotRead(uint16_t slot, uint16_t group, Token token) {
  io_uring_sqe* sqe = Next();
  sqe->opcode = kOpReadMultishot;
  sqe->flags = IOSQE_BUFFER_SELECT;
  SetSlot(sqe, slot);
  sqe->off = UINT64_MAX;  // not a seekable file
  sqe->buf_group = group;
  sqe->user_data = token.Pack();
}

void Ring::QueueRead(uint16_t slot, uint16_t group, uint32_t length, bool nowait, Token token) {
  io_uring_sqe* sqe = Next();
  sqe->opcode = IORING_OP_READ;
  sqe->flags = IOSQE_BUFFER_SELECT;
  SetSlot(sqe, slot);
  sqe->off = UINT64_MAX;
  sqe->len = length;
  sqe->rw_flags = nowait ? RWF_NOWAIT : 0;
  sqe->buf_group = group;
  sqe->user_data = token.Pack();
}

void Ring::QueueMultishotReceive(uint16_t slot, uint16_t group, const msghdr* message, Token token) {
  io_uring_sqe* sqe = Next();
  sqe->opcode = IORING_OP_RECVMSG;
  sqe->flags = IOSQE_BUFFER_SELECT;
  SetSlot(sqe, slot);
  sqe->addr = reinterpret_cast<uint64_t>(message);
  sqe->len = 1;
  sqe->ioprio = IORING_RECV_MULTISHOT;
  sqe->buf_group = group;
  sqe->user_data = token.Pack();
}

void Ring::QueueReceive(uint16_t slot, uint16_t group, msghdr* message, bool nowait, Token token) {
  io_uring_sqe* sqe = Next();
  sqe->opcode = IORING_OP_RECVMSG;
  sqe->flags = IOSQE_BUFFER_SELECT;
  SetSlot(sqe, slot);
  sqe->addr = reinterpret_cast<uint64_t>(message);
  sqe->len = 1;
  sqe->msg_flags = nowait ? static_cast<uint32_t>(MSG_DONTWAIT) : 0;
  sqe->buf_group = group;
  sqe->user_data = token.Pack();
}

void Ring::QueueWrite(uint16_t slot, const uint8_t* data, uint32_t length, Token token) {
  io_uring_sqe* sqe = Next();
  SetSlot(sqe, slot);
  sqe->addr = reinterpret_cast<uint64_t>(data);
  sqe->len = length;
  sqe->user_data = token.Pack();
  if (kinds_[slot] == FileKind::kPacketSocket) {
    sqe->opcode = IORING_OP_SEND;
    sqe->msg_flags = MSG_DONTWAIT;
  } else {
    sqe->opcode = IORING_OP_WRITE;
    sqe->off = UINT64_MAX;
    sqe->rw_flags = has_nowait_ ? RWF_NOWAIT : 0;
  }
}

void Ring::QueueCancel(Token target, Token token) {
  io_uring_sqe* sqe = Next();
  sqe->opcode = IORING_OP_ASYNC_CANCEL;
  sqe->fd = -1;
  sqe->addr = target.Pack();
  sqe->cancel_flags = IORING_ASYNC_CANCEL_ALL;
  sqe->user_data = token.Pack();
}

void Ring::QueueReadFd(int fd, void* data, uint32_t length, Token token) {
  io_uring_sqe* sqe = Next();
  sqe->opcode = IORING_OP_READ;
  sqe->fd = fd;
  sqe->off = UINT64_MAX;
  sqe->addr = reinterpret_cast<uint64_t>(data);
  sqe->len = length;
  sqe->user_data = token.Pack();
}

void Ring::Wait(int64_t timeout_ns) {
  __kernel_timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  Enter(1, IORING_ENTER_GETEVENTS, timeout_ns < 0 ? nullptr : &timeout);
}

// Hands over all that is queued, however often the kernel takes only a part: after EAGAIN (no memory for a
// request) or EBUSY (completions waiting to be flushed) the rest is offered again. A signal or the end of a
// timeout just returns.
void Ring::Enter(uint32_t completions_min, uint32_t flags, __kernel_timespec* timeout) {
  __atomic_store_n(ring_.sq.ktail, tail_, __ATOMIC_RELEASE);
  io_uring_getevents_arg argument{};
  argument.sigmask_sz = _NSIG / 8;
  argument.ts = reinterpret_cast<uint64_t>(timeout);
  const bool extended = timeout != nullptr;
  for (;;) {
    const uint32_t waiting = tail_ - submitted_;
    int r = io_uring_enter2(ring_.enter_ring_fd, waiting, completions_min,
                            flags | enter_flags_ | (extended ? IORING_ENTER_EXT_ARG : 0),
                            extended ? reinterpret_cast<sigset_t*>(&argument) : nullptr,
                            extended ? sizeof argument : static_cast<size_t>(_NSIG / 8));
    if (r > 0) submitted_ += static_cast<uint32_t>(r);
    if (tail_ == submitted_) return;
    if (r < 0 && r != -EAGAIN && r != -EBUSY && r != -EINTR) return;
    if (r == -EBUSY) flags |= IORING_ENTER_GETEVENTS;
  }
}

}  // namespace ringswitch::io
