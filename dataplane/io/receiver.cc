#include "dataplane/io/receiver.h"

#include <algorithm>
#include <cerrno>

namespace ringswitch::io {
namespace {

// A round begins small: a port that turns out to be empty has cost few reads for nothing.
constexpr uint32_t kFirstQuota = 8;
// Quotas follow the number of ports with a delay. Of ports that turn greedy one after the other the first has
// the whole pool pending, the next a half, and so on: below eight pools for kFilesMax of them.
constexpr uint32_t kPoolsPending = 8;

Token ReadToken(uint16_t slot, uint16_t generation, uint16_t message = 0) {
  return {Operation::kRead, generation, slot, message};
}

}  // namespace

Receiver::Receiver(Ring* ring, BufferPool* pool, bool multishot)
    : ring_(ring),
      pool_(pool),
      multishot_(multishot),
      messages_max_(std::min<uint32_t>(UINT16_MAX - 1, kFilesMax + kPoolsPending * pool->provided())),
      messages_(new Message[messages_max_]) {
  due_.reserve(kFilesMax);
  arming_.reserve(kFilesMax);
  parked_.reserve(kFilesMax);
  free_messages_.reserve(messages_max_);
}

void Receiver::Start(uint16_t index) {
  Slot& slot = slots_[index];
  const uint16_t generation = static_cast<uint16_t>(slot.generation + 1);
  slot = Slot{};
  slot.generation = generation;
  slot.kind = ring_->kind(index);
  slot.phase = multishot_ ? Phase::kMultishot : Phase::kSingle;
  MakeDue(index);
}

void Receiver::Stop(uint16_t index) {
  Slot& slot = slots_[index];
  if (slot.phase == Phase::kOff) return;
  if (slot.phase == Phase::kRounds) --rounds_;
  if (slot.phase == Phase::kSingle && slot.quota > 1) --greedy_;
  if (slot.phase == Phase::kParked) parked_.erase(std::find(parked_.begin(), parked_.end(), index));
  slot.phase = Phase::kStopping;
  MakeDue(index);
}

void Receiver::MakeDue(uint16_t index) {
  if (slots_[index].due) return;
  slots_[index].due = true;
  due_.push_back(index);
}

ReadOutcome Receiver::OnRead(const Completion& completion, Received* received) {
  Slot& slot = slots_[completion.token.slot];
  if (completion.has_buffer) pool_->Take(completion.buffer);
  const bool frame = completion.result > 0 && completion.has_buffer;
  if (frame) {
    Locate(slot, completion, received);
    ++slot.filled;
  } else if (completion.has_buffer) {
    pool_->Release(completion.buffer);
  }
  if (!completion.more) {
    --slot.outstanding;
    if (slot.phase != Phase::kGone) MakeDue(completion.token.slot);
    if (completion.token.index != 0) {
      const auto message = static_cast<uint16_t>(completion.token.index - 1);
      messages_[message].slot = kFilesMax;
      free_messages_.push_back(message);
    }
  }
  if (frame) return ReadOutcome::kFrame;
  if (completion.result >= 0 || slot.phase == Phase::kStopping) return ReadOutcome::kNothing;
  return OnError(completion.token.slot, completion.result);
}

// Where the read has put the frame.
void Receiver::Locate(const Slot& slot, const Completion& completion, Received* received) const {
  received->header = pool_->header(completion.buffer);
  received->size = static_cast<uint32_t>(completion.result);
  received->truncated = received->size == kReadSize;
  if (slot.kind == FileKind::kTap) return;

  tpacket_auxdata auxiliary{};
  if (completion.token.index == 0) {
    LocateInBuffer(received, &auxiliary);
  } else {
    const Message& message = messages_[completion.token.index - 1];
    LocateBeside(message.header, message.control, received, &auxiliary);
  }
  RestoreTagIfTaken(auxiliary, received);
}

ReadOutcome Receiver::OnError(uint16_t index, int32_t error) {
  Slot& slot = slots_[index];
  switch (-error) {
    case ENOBUFS:
      slot.starved = true;
      return ReadOutcome::kNoBuffer;
    case EAGAIN:
      slot.empty = true;
      return ReadOutcome::kNothing;
    case EINTR:
    case ECANCELED:
      return ReadOutcome::kNothing;
    case ENETDOWN:
      if (slot.kind == FileKind::kPacketSocket) return ReadOutcome::kNothing;
      break;
    case EINVAL:
      if (slot.kind == FileKind::kPacketSocket) return ReadOutcome::kIndescribable;
      break;
    default:
      break;
  }
  if (slot.phase == Phase::kGone || slot.phase == Phase::kParked) return ReadOutcome::kNothing;
  if (slot.phase == Phase::kRounds) --rounds_;
  if (slot.phase == Phase::kSingle && slot.quota > 1) --greedy_;
  const bool gone =
      error == -EBADFD || error == -EFAULT || error == -ENODEV || error == -ENXIO || error == -EBADF;
  slot.phase = gone ? Phase::kGone : Phase::kParked;
  if (!gone) parked_.push_back(index);
  return ReadOutcome::kNothing;
}

// A cancel was carried out. Should it have missed the read (it was running just then), it is queued again.
void Receiver::OnCancelled(const Completion& completion) {
  if (slots_[completion.token.slot].phase == Phase::kStopping) MakeDue(completion.token.slot);
}

void Receiver::Tick() {
  for (uint16_t index : parked_) {
    Slot& slot = slots_[index];
    slot.phase = multishot_ ? Phase::kMultishot : Phase::kSingle;
    slot.quota = 1;
    MakeDue(index);
  }
  parked_.clear();
}

// What the answers since the last Arm say about how to go on.
void Receiver::ChoosePhase(Slot* slot) {
  if (slot->phase == Phase::kMultishot && slot->starved) {
    slot->phase = Phase::kRounds;
    slot->quota = kFirstQuota;
    ++rounds_;
  } else if (slot->phase == Phase::kRounds && slot->empty) {
    slot->phase = Phase::kMultishot;
    --rounds_;
  }
}

// Nobody to be fair to.
void Receiver::EndLonelyRounds() {
  for (uint16_t index : arming_) {
    if (slots_[index].phase == Phase::kRounds) slots_[index].phase = Phase::kMultishot;
  }
  rounds_ = 0;
}

void Receiver::QueueRoom() {
  if (ring_->full()) ring_->Submit();
}

void Receiver::ArmMultishot(uint16_t index) {
  // Its lengths are all that the kernel reads of it.
  static const msghdr kLayout = [] {
    msghdr layout{};
    layout.msg_controllen = kControlSize;
    return layout;
  }();
  Slot& slot = slots_[index];
  QueueRoom();
  const Token token = ReadToken(index, slot.generation);
  if (slot.kind == FileKind::kTap) {
    ring_->QueueMultishotRead(index, BufferPool::kGroup, token);
  } else {
    ring_->QueueMultishotReceive(index, BufferPool::kGroup, &kLayout, token);
  }
  slot.outstanding = 1;
}

// Queues single reads up to the slot's quota, which follows what the last ones brought.
void Receiver::ArmSingle(uint16_t index, bool nowait, uint32_t share, uint32_t* budget) {
  Slot& slot = slots_[index];
  const bool was_greedy = slot.quota > 1;
  if (slot.filled >= slot.quota) {
    slot.quota *= 2;
  } else if (!nowait && !slot.starved && slot.filled <= slot.quota / 2) {
    slot.quota = std::max(1u, slot.filled);
  }
  slot.quota = std::clamp(slot.quota, 1u, share);
  if (!nowait) greedy_ += (slot.quota > 1 ? 1u : 0u) - (was_greedy ? 1u : 0u);
  for (; slot.outstanding<slot.quota&& * budget> 0; --*budget) {
    QueueRoom();
    if (slot.kind == FileKind::kTap) {
      ring_->QueueRead(index, BufferPool::kGroup, kReadSize, nowait, ReadToken(index, slot.generation));
    } else if (!QueueReceive(index, nowait)) {
      break;
    }
    ++slot.outstanding;
  }
}

// False: all messages are in the kernel.
bool Receiver::QueueReceive(uint16_t index, bool nowait) {
  if (free_messages_.empty()) {
    if (messages_used_ == messages_max_) return false;
    free_messages_.push_back(static_cast<uint16_t>(messages_used_++));
  }
  const uint16_t number = free_messages_.back();
  free_messages_.pop_back();
  Message& message = messages_[number];
  message.slot = index;
  message.header = {};
  message.header.msg_control = message.control;
  message.header.msg_controllen = kControlSize;
  const auto token_index = static_cast<uint16_t>(number + 1);
  ring_->QueueReceive(index, BufferPool::kGroup, &message.header, nowait,
                      ReadToken(index, slots_[index].generation, token_index));
  return true;
}

// All reads of the slot, by token.
void Receiver::Cancel(uint16_t index) {
  const uint16_t generation = slots_[index].generation;
  QueueRoom();
  ring_->QueueCancel(ReadToken(index, generation), {Operation::kCancel, generation, index, 0});
  if (slots_[index].kind == FileKind::kTap) return;
  for (uint32_t i = 0; i < messages_used_; ++i) {
    if (messages_[i].slot != index) continue;
    QueueRoom();
    ring_->QueueCancel(ReadToken(index, generation, static_cast<uint16_t>(i + 1)),
                       {Operation::kCancel, generation, index, 0});
  }
}

void Receiver::Arm() {
  if (due_.empty()) return;
  arming_.swap(due_);
  for (uint16_t index : arming_) {
    if (slots_[index].outstanding == 0) ChoosePhase(&slots_[index]);
  }
  if (rounds_ == 1) EndLonelyRounds();
  const uint32_t active = std::max(1u, multishot_ ? rounds_ : greedy_);
  const uint32_t share = std::max(1u, pool_->provided() / active);
  uint32_t budget = pool_->provided();
  // Those that found no buffer come first.
  std::stable_partition(arming_.begin(), arming_.end(),
                        [this](uint16_t index) { return slots_[index].starved; });
  for (uint16_t index : arming_) {
    Slot& slot = slots_[index];
    slot.due = false;
    switch (slot.phase) {
      case Phase::kStopping:
        if (slot.outstanding == 0) {
          slot.phase = Phase::kOff;
        } else {
          Cancel(index);
        }
        break;
      case Phase::kMultishot:
        if (slot.outstanding == 0) ArmMultishot(index);
        break;
      case Phase::kRounds:
      case Phase::kSingle:
        if (budget == 0) {
          MakeDue(index);
          continue;  // what it saw counts for its turn
        }
        ArmSingle(index, slot.phase == Phase::kRounds, share, &budget);
        break;
      case Phase::kOff:
      case Phase::kParked:
      case Phase::kGone:
        break;
    }
    slot.filled = 0;
    slot.starved = slot.empty = false;
  }
  arming_.clear();
}

}  // namespace ringswitch::io
