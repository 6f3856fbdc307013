#include "tests/sim/simulated_kernel.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/io/buffer_pool.h"
#include "dataplane/io/ring.h"
#include "tests/sim/simulated_ring.h"

namespace ringswitch::sim {
namespace {

constexpr int kFirstRing = 1'000'000;     // descriptors that no file has
constexpr uint8_t kOpReadMultishot = 49;  // newer than the packaged header
constexpr size_t kHeaderSize = io::kVirtioNetHeaderSize;
constexpr size_t kControlRoom = 48;  // what the receiver leaves for control data
constexpr size_t kControlUsed = CMSG_SPACE(sizeof(tpacket_auxdata));

SimulatedKernel* instance = nullptr;

uint16_t SlotOf(uint64_t user_data) {
  return io::Token::Unpack(user_data).slot;
}

void AddTo16(Bytes* bytes, size_t offset, int delta) {
  uint16_t value;
  std::memcpy(&value, bytes->data() + offset, sizeof value);
  value = static_cast<uint16_t>(value + delta);
  std::memcpy(bytes->data() + offset, &value, sizeof value);
}

// What a packet socket tells beside the frame: the tag that the kernel took out of it.
tpacket_auxdata TakeTag(Bytes* bytes) {
  tpacket_auxdata auxiliary{};
  auxiliary.tp_status = TP_STATUS_USER;
  uint8_t* const tag = bytes->data() + kHeaderSize + 12;
  if (bytes->size() < kHeaderSize + 18) return auxiliary;
  const auto tpid = static_cast<uint16_t>(tag[0] << 8 | tag[1]);
  if (tpid != 0x8100 && tpid != 0x88a8) return auxiliary;
  auxiliary.tp_status |= TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID;
  auxiliary.tp_vlan_tpid = tpid;
  auxiliary.tp_vlan_tci = static_cast<uint16_t>(tag[2] << 8 | tag[3]);
  bytes->erase(bytes->begin() + kHeaderSize + 12, bytes->begin() + kHeaderSize + 16);
  uint16_t header_length;
  std::memcpy(&header_length, bytes->data() + 2, sizeof header_length);
  if (header_length != 0) AddTo16(bytes, 2, -4);
  if (((*bytes)[0] & 1) != 0) AddTo16(bytes, 6, -4);
  return auxiliary;
}

void PutControl(const tpacket_auxdata& auxiliary, uint8_t* control) {
  cmsghdr header{};
  header.cmsg_len = CMSG_LEN(sizeof auxiliary);
  header.cmsg_level = SOL_PACKET;
  header.cmsg_type = PACKET_AUXDATA;
  std::memset(control, 0, kControlUsed);
  std::memcpy(control, &header, sizeof header);
  std::memcpy(control + CMSG_LEN(0), &auxiliary, sizeof auxiliary);
}

}  // namespace

// --- rings ---

SimulatedKernel::SimulatedKernel(Baton* baton, KernelListener* listener, bool has_multishot)
    : baton_(baton), listener_(listener), has_multishot_(has_multishot) {
  instance = this;
}

SimulatedKernel::~SimulatedKernel() {
  instance = nullptr;
}

SimulatedKernel* SimulatedKernel::Mine() {
  return Baton::Mine() != nullptr ? instance : nullptr;
}

int SimulatedKernel::InitRing(unsigned entries, io_uring* ring, io_uring_params* params) {
  rings_.push_back(std::make_unique<Ring>());
  Ring& made = *rings_.back();
  made.worker = static_cast<int>(rings_.size()) - 1;
  made.thread = baton_->current();
  made.sq_entries = entries;
  made.sq_mask = entries - 1;
  made.cq_entries = params->cq_entries;
  made.cq_mask = params->cq_entries - 1;
  made.array.resize(made.sq_entries);
  made.sqes.resize(made.sq_entries);
  made.cqes.resize(made.cq_entries);
  *ring = {};
  ring->ring_fd = ring->enter_ring_fd = kFirstRing + made.worker;
  ring->flags = params->flags;
  ring->sq.khead = &made.sq_head;
  ring->sq.ktail = &made.sq_tail;
  ring->sq.kflags = &made.sq_flags;
  ring->sq.kdropped = &made.sq_dropped;
  ring->sq.array = made.array.data();
  ring->sq.sqes = made.sqes.data();
  ring->sq.ring_mask = made.sq_mask;
  ring->sq.ring_entries = made.sq_entries;
  ring->cq.khead = &made.cq_head;
  ring->cq.ktail = &made.cq_tail;
  ring->cq.kflags = &made.cq_flags;
  ring->cq.koverflow = &made.cq_overflow;
  ring->cq.cqes = made.cqes.data();
  ring->cq.ring_mask = made.cq_mask;
  ring->cq.ring_entries = made.cq_entries;
  return 0;
}

void SimulatedKernel::ExitRing(io_uring* ring) {
  Ring& ended = *rings_[static_cast<size_t>(ring->ring_fd - kFirstRing)];
  for (const Operation& operation : ended.armed) {
    if (!operation.is_event) Fail("a ring ends with a read in flight");
  }
  if (!ended.writes.empty()) Fail("a ring ends with a write in flight");
  ended.is_open = false;
  ended.armed.clear();
}

void SimulatedKernel::RegisterBuffers(io_uring* ring, const io_uring_buf_reg& registration) {
  Ring& its = *rings_[static_cast<size_t>(ring->ring_fd - kFirstRing)];
  its.buffers = reinterpret_cast<io_uring_buf_ring*>(registration.ring_addr);
  its.buffer_mask = static_cast<uint16_t>(registration.ring_entries - 1);
}

int SimulatedKernel::TakeEnterFault(const Ring& ring, unsigned flags, unsigned* count) {
  auto& faults = enter_faults_[ring.worker];
  if (faults.empty()) return 0;
  const EnterFault fault = faults.front();
  const bool gets_events = (flags & IORING_ENTER_GETEVENTS) != 0;
  switch (fault) {
    case EnterFault::kAgain:
      if (*count == 0) return 0;
      faults.pop_front();
      return -EAGAIN;
    case EnterFault::kBusy:  // until completions are asked for
      if (*count == 0 || gets_events) faults.pop_front();
      return *count == 0 || gets_events ? 0 : -EBUSY;
    case EnterFault::kInterrupted:  // a sleep only
      return 0;
    case EnterFault::kPartial:
      if (*count < 2) return 0;
      faults.pop_front();
      *count = 1 + static_cast<unsigned>(baton_->Below(*count - 1));
      return 0;
  }
  return 0;
}

int SimulatedKernel::Enter(unsigned fd, unsigned count, unsigned completions_min, unsigned flags,
                           const void* argument) {
  Ring& ring = *rings_[fd - kFirstRing];
  if (ring.thread != baton_->current()) Fail("a ring is entered by a thread that does not own it");
  const int64_t entered_ns = baton_->now_ns();
  baton_->Point(3);
  const unsigned queued = __atomic_load_n(&ring.sq_tail, __ATOMIC_ACQUIRE) - ring.sq_head;
  if (count != queued) Fail("what is submitted is not what is queued");
  const unsigned offered = count;
  if (const int error = TakeEnterFault(ring, flags, &count); error != 0) return error;
  for (unsigned i = 0; i < count; ++i) {
    const io_uring_sqe sqe = ring.sqes[ring.array[ring.sq_head & ring.sq_mask]];
    Execute(&ring, sqe);
    __atomic_store_n(&ring.sq_head, ring.sq_head + 1, __ATOMIC_RELEASE);
    baton_->Point(24);
  }
  int result = static_cast<int>(count);
  if ((flags & IORING_ENTER_GETEVENTS) != 0 && count == offered) {
    RunDeferred(&ring);
    if (ring.completions() < completions_min) {
      auto& faults = enter_faults_[ring.worker];
      if (!faults.empty() && faults.front() == EnterFault::kInterrupted) {
        faults.pop_front();
        UpdateFlags();
        return count != 0 ? result : -EINTR;
      }
      int64_t deadline_ns = Baton::kNever;
      if ((flags & IORING_ENTER_EXT_ARG) != 0) {
        const auto* extended = static_cast<const io_uring_getevents_arg*>(argument);
        const auto* timeout = reinterpret_cast<const __kernel_timespec*>(extended->ts);
        deadline_ns = entered_ns + timeout->tv_sec * 1'000'000'000 + timeout->tv_nsec;
      }
      baton_->Block([&ring] { return (ring.sq_flags & IORING_SQ_TASKRUN) != 0; }, deadline_ns);
      RunDeferred(&ring);
      if (ring.completions() < completions_min && result == 0) result = -ETIME;
    }
  }
  UpdateFlags();
  return result;
}

// --- operations ---

void SimulatedKernel::Execute(Ring* ring, const io_uring_sqe& sqe) {
  switch (sqe.opcode) {
    case kOpReadMultishot:
      if (!has_multishot_) return ring->Complete(sqe.user_data, -EINVAL, true);
      [[fallthrough]];
    case IORING_OP_READ:
    case IORING_OP_RECVMSG:
      return ExecuteRead(ring, sqe);
    case IORING_OP_WRITE:
    case IORING_OP_SEND:
      return ExecuteWrite(ring, sqe);
    case IORING_OP_ASYNC_CANCEL:
      return ExecuteCancel(ring, sqe);
    default:
      Fail("an operation that is not simulated");
  }
}

void SimulatedKernel::ExecuteRead(Ring* ring, const io_uring_sqe& sqe) {
  Operation operation;
  operation.user_data = sqe.user_data;
  operation.fd = sqe.fd;
  operation.is_event = (sqe.flags & IOSQE_BUFFER_SELECT) == 0;
  operation.is_receive = sqe.opcode == IORING_OP_RECVMSG;
  operation.is_multishot =
      operation.is_receive ? (sqe.ioprio & IORING_RECV_MULTISHOT) != 0 : sqe.opcode == kOpReadMultishot;
  operation.message = reinterpret_cast<msghdr*>(operation.is_receive ? sqe.addr : 0);
  operation.target = reinterpret_cast<void*>(sqe.addr);
  if (operation.is_event) {
    ring->armed.push_back(operation);
    return;
  }
  const auto device = devices_.find(sqe.fd);
  if (device == devices_.end()) Fail("a read of a file that is closed");
  if (device->second.is_packet != operation.is_receive) Fail("a read of the wrong kind");
  if (ring->AvailableBuffers() == 0) {  // one is chosen before the device is asked
    listener_->OnReadError(SlotOf(sqe.user_data), ENOBUFS);
    ring->Complete(sqe.user_data, -ENOBUFS, true);
    return;
  }
  const bool nowait =
      operation.is_receive ? (sqe.msg_flags & MSG_DONTWAIT) != 0 : (sqe.rw_flags & RWF_NOWAIT) != 0;
  if (nowait) {
    if (Attempt(ring, operation, true) == Progress::kNone)
      ring->Complete(sqe.user_data, -EAGAIN, baton_->OneIn(2));
    return;
  }
  if (baton_->OneIn(2) && Attempt(ring, operation, true) == Progress::kDone) return;
  ring->armed.push_back(operation);
}

void SimulatedKernel::ExecuteWrite(Ring* ring, const io_uring_sqe& sqe) {
  const auto* data = reinterpret_cast<const uint8_t*>(sqe.addr);
  if (sqe.fd >= 0 && devices_.count(sqe.fd) == 0) Fail("a write to a file that is closed");
  if (sqe.fd >= 0 && devices_.at(sqe.fd).is_packet != (sqe.opcode == IORING_OP_SEND))
    Fail("a write of the wrong kind");
  ring->NoteWrite(data, sqe.fd, sqe.user_data);
  const int error = listener_->OnWrite(ring->worker, SlotOf(sqe.user_data), sqe.fd, data, sqe.len);
  if (error == 0) {
    ring->Complete(sqe.user_data, static_cast<int>(sqe.len), false);
  } else {
    ring->Complete(sqe.user_data, -error, !baton_->OneIn(8));
  }
}

void SimulatedKernel::ExecuteCancel(Ring* ring, const io_uring_sqe& sqe) {
  int found = 0;
  for (size_t i = 0; i < ring->armed.size();) {
    const Operation operation = ring->armed[i];
    if (operation.user_data != sqe.addr) {
      ++i;
      continue;
    }
    Device& device = devices_.at(operation.fd);
    if (device.cancels_missed > 0) {  // it was running just then
      --device.cancels_missed;
      ring->Complete(sqe.user_data, -EALREADY, false);
      return;
    }
    ring->armed.erase(ring->armed.begin() + static_cast<std::ptrdiff_t>(i));
    ring->Complete(operation.user_data, -ECANCELED, true);
    ++found;
  }
  ring->Complete(sqe.user_data, found, baton_->OneIn(2));
}

bool SimulatedKernel::IsReady(const Operation& operation) const {
  if (operation.is_event) return events_.at(operation.fd) != 0;
  const Device& device = devices_.at(operation.fd);
  return !device.read_errors.empty() || !device.queue.empty() || (device.is_gone && !device.is_packet);
}

// One try of a read. `defer`: at its submission, where errors wait until events are asked for.
SimulatedKernel::Progress SimulatedKernel::Attempt(Ring* ring, const Operation& operation, bool defer) {
  if (!IsReady(operation)) return Progress::kNone;
  if (operation.is_event) {
    std::memcpy(operation.target, &events_[operation.fd], sizeof(uint64_t));
    events_[operation.fd] = 0;
    ring->Complete(operation.user_data, sizeof(uint64_t), false);
    return Progress::kDone;
  }
  Device& device = devices_.at(operation.fd);
  int error = 0;
  if (!device.read_errors.empty()) {
    error = device.read_errors.front();
    device.read_errors.pop_front();
  } else if (device.is_gone) {
    error = EBADFD;
  } else if (ring->AvailableBuffers() == 0) {
    error = ENOBUFS;
  }
  if (error == 0) {
    Deliver(ring, operation, &device);
    return operation.is_multishot ? Progress::kMore : Progress::kDone;
  }
  listener_->OnReadError(SlotOf(operation.user_data), error);
  if (error == EINVAL && operation.is_receive)
    listener_->OnDelivery(ring->worker, {SlotOf(operation.user_data), {}, false});
  ring->Complete(operation.user_data, -error, defer && error != EINVAL);
  return Progress::kDone;
}

void SimulatedKernel::Deliver(Ring* ring, const Operation& operation, Device* device) {
  const Bytes whole = std::move(device->queue.front());
  device->queue.pop_front();
  const io_uring_buf buffer = ring->TakeBuffer();
  auto* const place = reinterpret_cast<uint8_t*>(buffer.addr);
  Bytes bytes = whole;
  size_t offset = 0, taken_out = 0, size = std::min<size_t>(bytes.size(), buffer.len);
  bool truncated = size == buffer.len;
  if (operation.is_receive) {
    const tpacket_auxdata auxiliary = TakeTag(&bytes);
    taken_out = whole.size() - bytes.size();
    offset = operation.is_multishot ? sizeof(io_uring_recvmsg_out) + kControlRoom : 0;
    size = std::min<size_t>(bytes.size(), buffer.len - offset);
    truncated = size != bytes.size();
    const int flags = truncated ? MSG_TRUNC : 0;
    if (operation.is_multishot) {
      io_uring_recvmsg_out out{};
      out.controllen = kControlUsed;
      out.payloadlen = static_cast<uint32_t>(bytes.size());
      out.flags = static_cast<uint32_t>(flags);
      std::memcpy(place, &out, sizeof out);
      PutControl(auxiliary, place + sizeof out);
    } else {
      PutControl(auxiliary, static_cast<uint8_t*>(operation.message->msg_control));
      operation.message->msg_controllen = kControlUsed;
      operation.message->msg_flags = flags;
    }
  }
  std::memcpy(place + offset, bytes.data(), size);
  listener_->OnDelivery(ring->worker,
                        {SlotOf(operation.user_data),
                         {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size + taken_out)},
                         truncated});
  unsigned flags = IORING_CQE_F_BUFFER | static_cast<unsigned>(buffer.bid) << IORING_CQE_BUFFER_SHIFT;
  if (operation.is_multishot) flags |= IORING_CQE_F_MORE;
  ring->Complete(operation.user_data, static_cast<int>(offset + size), false, flags);
}

void SimulatedKernel::RunDeferred(Ring* ring) {
  for (; !ring->deferred.empty(); ring->deferred.pop_front()) ring->Post(ring->deferred.front());
  std::vector<size_t> ready;
  for (;;) {
    ready.clear();
    for (size_t i = 0; i < ring->armed.size(); ++i) {
      if (IsReady(ring->armed[i])) ready.push_back(i);
    }
    if (ready.empty()) return;
    const size_t chosen = ready[baton_->Below(ready.size())];
    for (uint64_t more = 1 + baton_->Below(16); more > 0; --more) {
      const Progress progress = Attempt(ring, ring->armed[chosen], false);
      if (progress == Progress::kDone)
        ring->armed.erase(ring->armed.begin() + static_cast<std::ptrdiff_t>(chosen));
      if (progress != Progress::kMore) break;
    }
    if (baton_->OneIn(16)) return;  // the rest another time
  }
}

// Tells whoever spins or sleeps that there is work.
void SimulatedKernel::UpdateFlags() {
  for (auto& ring : rings_) {
    const bool has_work = !ring->deferred.empty() ||
                          std::any_of(ring->armed.begin(), ring->armed.end(),
                                      [this](const Operation& operation) { return IsReady(operation); });
    __atomic_store_n(&ring->sq_flags, has_work ? IORING_SQ_TASKRUN : 0, __ATOMIC_RELAXED);
  }
}

// --- devices ---

int SimulatedKernel::OpenDevice(bool is_packet) {
  const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  devices_[fd].is_packet = is_packet;
  return fd;
}

void SimulatedKernel::Push(int fd, Bytes bytes) {
  Device& device = devices_.at(fd);
  if (device.is_gone) return;
  device.queue.push_back(std::move(bytes));
  UpdateFlags();
}

void SimulatedKernel::FailRead(int fd, int error) {
  devices_.at(fd).read_errors.push_back(error);
  UpdateFlags();
}

void SimulatedKernel::FailWrites(int fd, int error) {
  devices_.at(fd).write_errors.push_back(error);
}

void SimulatedKernel::SetDown(int fd, int error) {
  devices_.at(fd).down_error = error;
}

void SimulatedKernel::SetGone(int fd) {
  Device& device = devices_.at(fd);
  device.is_gone = true;
  device.queue.clear();
  UpdateFlags();
}

int SimulatedKernel::WriteError(int fd) {
  if (fd < 0) return EBADF;
  Device& device = devices_.at(fd);
  if (device.is_gone) return device.is_packet ? ENXIO : EBADFD;
  if (device.down_error != 0) return device.down_error;
  if (device.write_errors.empty()) return 0;
  const int error = device.write_errors.front();
  device.write_errors.pop_front();
  return error;
}

int SimulatedKernel::OpenEvent() {
  const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  events_[fd] = 0;
  return fd;
}

bool SimulatedKernel::WriteEvent(int fd) {
  const auto event = events_.find(fd);
  if (event == events_.end()) return false;
  ++event->second;
  UpdateFlags();
  baton_->Point(2);
  return true;
}

void SimulatedKernel::OnClose(int fd) {
  if (IsArmed(fd)) Fail("a file is closed under a read");
  for (const auto& ring : rings_) {
    for (const auto& [user_data, writes] : ring->writes) {
      const auto is = [fd](const Ring::Write& write) { return write.fd == fd; };
      if (std::any_of(writes.begin(), writes.end(), is)) Fail("a file is closed before its writes are known");
    }
  }
  devices_.erase(fd);
  events_.erase(fd);
}

// --- what is under way ---

bool SimulatedKernel::IsArmed(int fd) const {
  return std::any_of(rings_.begin(), rings_.end(), [fd](const auto& ring) {
    return std::any_of(ring->armed.begin(), ring->armed.end(),
                       [fd](const Operation& operation) { return operation.fd == fd; });
  });
}

bool SimulatedKernel::IsCollected(int worker) const {
  return rings_[static_cast<size_t>(worker)]->completions() == 0;
}

std::string SimulatedKernel::CheckRest(uint32_t buffers, uint32_t reserve) {
  for (auto& ring : rings_) {
    if (ring->completions() != 0 || !ring->deferred.empty()) return "a worker sleeps over completions";
    if (ring->sq_tail != ring->sq_head) return "a worker sleeps over operations that it has queued";
    if (!ring->writes.empty()) return "a write is in flight at rest";
    if (ring->AvailableBuffers() != buffers - reserve) return "buffers are missing at rest";
  }
  return {};
}

}  // namespace ringswitch::sim
