#pragma once

// The kernel as the dataplane meets it: io_uring, and devices that frames come from and go to.
//
// Theory of operation. kernel_calls.cc defines liburing's exported functions and the few system calls
// that concern devices; symbols of the executable come before those of shared libraries. Rings, buffer rings
// and completions are laid out as liburing's inline functions expect them. A device is a harmless open file,
// so that whatever else is asked of it is answered by the real kernel; reads and writes of it are carried out
// here, by the number of the file.
//
// What is promised is what Linux does (dataplane/io/*.h): Submit executes, a write that succeeds is complete
// when it returns, everything that fails and everything that an armed read brings is deferred until the
// worker asks for events, which is when a ring's thread may also sleep. A buffer is chosen before the device
// is asked, an empty group ends a read with ENOBUFS and the frame stays where it is. Whatever Linux leaves
// open is drawn: which device is served first, how many frames at a time, whether an error is deferred.
//
// What is checked here: rings are entered by their owner; a buffer is given to the kernel once, and not while
// it is written from; nothing is written from a buffer that the kernel has; no operation names a closed file,
// no file is closed under an operation; completions never overflow their queue.
//
// Ownership: whoever holds the baton.

#include <liburing.h>
#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/baton.h"

namespace ringswitch::sim {

using Bytes = std::vector<uint8_t>;

// A frame that a read has put into a buffer: virtio-net header and frame, as the device had it, as far as it
// fitted. Without bytes: the device had a frame that its header cannot describe.
struct Delivery {
  uint16_t slot = 0;
  Bytes bytes;
  bool truncated = false;
};

// Who is told of what happens. Workers are numbered in the order of their rings, from 0.
class KernelListener {
 public:
  virtual ~KernelListener() = default;
  virtual void OnDelivery(int worker, const Delivery& delivery) = 0;
  virtual void OnReadError(uint16_t slot, int error) = 0;
  // The file is -1 where the port has none. 0 or the error that the write is to have.
  virtual int OnWrite(int worker, uint16_t slot, int fd, const uint8_t* data, size_t size) = 0;
};

enum class EnterFault : uint8_t { kAgain, kBusy, kInterrupted, kPartial };

class SimulatedKernel {
 public:
  SimulatedKernel(Baton* baton, KernelListener* listener, bool has_multishot);
  ~SimulatedKernel();
  SimulatedKernel(const SimulatedKernel&) = delete;
  SimulatedKernel& operator=(const SimulatedKernel&) = delete;
  static SimulatedKernel* Mine();  // null: the calling thread takes no turns

  // Devices. `is_packet`: read by recvmsg with auxiliary data.
  int OpenDevice(bool is_packet);
  bool IsOpen(int fd) const { return devices_.count(fd) != 0; }
  void Push(int fd, Bytes bytes);      // the device has a frame for the switch
  void FailRead(int fd, int error);    // the next read that is tried
  void FailWrites(int fd, int error);  // the next write
  void SetDown(int fd, int error);     // all writes, until 0
  void SetGone(int fd);                // all reads and writes, for ever
  void MissCancels(int fd) { devices_.at(fd).cancels_missed = 1; }
  void FailEnter(int worker, EnterFault fault) { enter_faults_[worker].push_back(fault); }
  int WriteError(int fd);  // of a write that is carried out now
  size_t Waiting(int fd) const { return devices_.at(fd).queue.size(); }
  bool IsGone(int fd) const { return devices_.at(fd).is_gone; }

  // The worker has seen all its completions.
  bool IsCollected(int worker) const;
  // Nothing is in flight; every buffer but those of a reserve of `reserve` is with the kernel. Empty, or what
  // is wrong.
  std::string CheckRest(uint32_t buffers, uint32_t reserve);
  uint32_t worker_count() const { return static_cast<uint32_t>(rings_.size()); }
  bool IsArmed(int fd) const;

  // For the functions that the product calls.
  int InitRing(unsigned entries, io_uring* ring, io_uring_params* params);
  void ExitRing(io_uring* ring);
  void RegisterBuffers(io_uring* ring, const io_uring_buf_reg& registration);
  int Enter(unsigned fd, unsigned count, unsigned completions_min, unsigned flags, const void* argument);
  uint8_t last_opcode() const { return has_multishot_ ? 60 : 48; }
  int OpenEvent();
  bool WriteEvent(int fd);  // false: no event
  void OnClose(int fd);

 private:
  struct Device {
    bool is_packet = false;
    bool is_gone = false;
    int down_error = 0;
    int cancels_missed = 0;
    std::deque<Bytes> queue;
    std::deque<int> read_errors, write_errors;
  };
  struct Operation {  // a read in the kernel
    uint64_t user_data = 0;
    int fd = -1;
    bool is_receive = false, is_multishot = false, is_event = false;
    msghdr* message = nullptr;
    void* target = nullptr;
  };
  struct Ring;
  enum class Progress : uint8_t { kNone, kMore, kDone };

  void Execute(Ring* ring, const io_uring_sqe& sqe);
  void ExecuteRead(Ring* ring, const io_uring_sqe& sqe);
  void ExecuteWrite(Ring* ring, const io_uring_sqe& sqe);
  void ExecuteCancel(Ring* ring, const io_uring_sqe& sqe);
  bool IsReady(const Operation& operation) const;
  Progress Attempt(Ring* ring, const Operation& operation, bool defer);
  void Deliver(Ring* ring, const Operation& operation, Device* device);
  void RunDeferred(Ring* ring);
  void UpdateFlags();
  int TakeEnterFault(const Ring& ring, unsigned flags, unsigned* count);

  Baton* const baton_;
  KernelListener* const listener_;
  const bool has_multishot_;
  std::map<int, Device> devices_;
  std::map<int, uint64_t> events_;
  std::map<int, std::deque<EnterFault>> enter_faults_;  // by worker
  std::vector<std::unique_ptr<Ring>> rings_;
};

}  // namespace ringswitch::sim
