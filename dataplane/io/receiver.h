#pragma once

// The reads of one worker's ports: what is armed, when it is armed again, and who gets how much when the
// buffers run out.
//
// Theory of operation. With multishot reads (Linux 6.7) every port has one read armed, which delivers frame
// after frame until the buffer group is empty: ENOBUFS, and the read is over. No frame is lost by that, it
// waits in the device's queue. Re-arming would hand the whole pool to whichever port comes first
// (measured: 3.5 M : 39 K : 28 K frames), so a port that ended this way enters rounds: single reads that do
// not wait, in each round as many as its share of the pool allows, until the device says that it is empty;
// then the multishot read is armed again. A port alone in need is simply armed again. Where fewer buffers
// than ports are left, those that got nothing come first in the next round.
//
// Without multishot reads, every port has single reads pending: one while it is idle (they all wake for every
// frame), doubled up to its share of the pool while all of them deliver, and fewer again when they do not.
//
// A port's reads are of one kind at any time and complete in the order in which they took frames from the
// device, so frames never swap places.
//
// A TAP is read. A packet socket is received from, since the kernel takes the tag out of a frame and tells of
// it beside; here it is put back, so that what leaves this class is one and the same. What is told lies in
// the buffer itself, before the header, if the receive is a multishot one, else in a Message of its own.
//
// An error that says that a TAP is gone ends the reading. (It may not come: a read that was woken just before
// the device let go of its file waits for ever, harmlessly.) A packet socket has errors that are events:
// ENETDOWN once when the device goes down or away, EINVAL for a frame that its header cannot describe, which
// is lost; reading goes on at once. Any other error is tried again at the next Tick, once a second: neither a
// spin nor a port that stays deaf. Stopping cancels by token; stopped() holds after the last completion, and
// the generation in the token guards against anything later.
//
// Ownership: the worker's thread.

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/io/buffer_pool.h"
#include "dataplane/io/receiver_message.h"
#include "dataplane/io/ring.h"

namespace ringswitch::io {

enum class ReadOutcome : uint8_t {
  kFrame,          // the completion's buffer holds one and is referenced
  kNoBuffer,       // the pool was empty
  kIndescribable,  // the kernel had a frame, and no virtio-net header for it
  kNothing,
};

class Receiver {
 public:
  Receiver(Ring* ring, BufferPool* pool, bool multishot);
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  // The slot's file is registered. Reading begins with the next Arm.
  void Start(uint16_t slot);
  void Stop(uint16_t slot);
  bool stopped(uint16_t slot) const { return slots_[slot].phase == Phase::kOff; }

  // `received` is filled in for a frame.
  ReadOutcome OnRead(const Completion& completion, Received* received);
  void OnCancelled(const Completion& completion);

  // Queues what is due, in full; once per batch, after the batch's buffers went back to the kernel.
  void Arm();
  // Something is due that could not be queued yet: do not sleep.
  bool pending() const { return !due_.empty(); }
  bool in_rounds() const { return rounds_ != 0; }
  // Once a second: another try for reads that failed.
  void Tick();
  bool needs_tick() const { return !parked_.empty(); }

 private:
  enum class Phase : uint8_t {
    kOff,
    kMultishot,  // one read armed
    kRounds,     // single reads that do not wait
    kSingle,     // single reads that wait
    kParked,     // failed, until Tick
    kGone,       // the device was deleted
    kStopping,
  };
  struct Slot {
    Phase phase = Phase::kOff;
    FileKind kind = FileKind::kTap;
    bool due = false;      // in due_
    bool starved = false;  // a read since the last Arm found no buffer
    bool empty = false;    // ... or no frame
    uint16_t generation = 0;
    uint32_t outstanding = 0;  // reads in the kernel
    uint32_t quota = 1;        // reads per round, or pending
    uint32_t filled = 0;       // reads since the last Arm that brought a frame
  };

  // Of one single receive in the kernel: where it says what it has received.
  struct Message {
    msghdr header;
    alignas(8) uint8_t control[kControlSize];
    uint16_t slot;  // kFilesMax: free
  };
  // A read's token carries the number of its message plus one, 0 for none.

  void Locate(const Slot& slot, const Completion& completion, Received* received) const;
  ReadOutcome OnError(uint16_t index, int32_t error);
  void MakeDue(uint16_t index);
  void ChoosePhase(Slot* slot);
  void EndLonelyRounds();
  void ArmMultishot(uint16_t index);
  void ArmSingle(uint16_t index, bool nowait, uint32_t share, uint32_t* budget);
  bool QueueReceive(uint16_t index, bool nowait);
  void Cancel(uint16_t index);
  void QueueRoom();

  Ring* const ring_;
  BufferPool* const pool_;
  const bool multishot_;
  uint32_t rounds_ = 0;  // slots in phase kRounds
  uint32_t greedy_ = 0;  // slots in phase kSingle with a quota above one
  std::vector<uint16_t> due_;
  std::vector<uint16_t> arming_;
  std::vector<uint16_t> parked_;
  std::array<Slot, kFilesMax> slots_;

  const uint32_t messages_max_;
  const std::unique_ptr<Message[]> messages_;  // memory is touched as far as it is used
  uint32_t messages_used_ = 0;                 // of messages_, from the first
  std::vector<uint16_t> free_messages_;        // among those
};

}  // namespace ringswitch::io
