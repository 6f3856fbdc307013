#include "dataplane/io/receiver.h"

#include <algorithm>
#include <cerrno>

namespace ringswitch::io {
namespace {

// A round begins small: a port that turns out to be empty has cost few reads for nothing.
constexpr uint32_t kFirstQuota = 8;

Token ReadToken(uint16_t slot, uint16_t generation) {
  return {Operation::kRead, generation, slot, 0};
}

}  // namespace

Receiver::Receiver(Ring* ring, BufferPool* pool, bool multishot)
    : ring_(ring), pool_(pool), multishot_(multishot) {
  due_.reserve(kFilesMax);
  arming_.reserve(kFilesMax);
  parked_.reserve(kFilesMax);
}

void Receiver::Start(uint16_t index) {
  Slot& slot = slots_[index];
  const uint16_t generation = static_cast<uint16_t>(slot.generation + 1);
  slot = Slot{};
  slot.generation = generation;
  slot.phase = multishot_ ? Phase::kMultishot : Phase::kSingle;
  gone_[index].store(false, std::memory_order_relaxed);
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

ReadOutcome Receiver::OnRead(const Completion& completion) {
  Slot& slot = slots_[completion.token.slot];
  if (completion.has_buffer) pool_->Take(completion.buffer);
  const bool frame = completion.result > 0 && completion.has_buffer;
  if (!frame && completion.has_buffer) pool_->Release(completion.buffer);
  if (!completion.more) {
    --slot.outstanding;
    if (slot.phase != Phase::kGone) MakeDue(completion.token.slot);
  }
  if (frame) {
    ++slot.filled;
    return ReadOutcome::kFrame;
  }
  if (completion.result < 0 && slot.phase != Phase::kStopping)
    OnError(completion.token.slot, completion.result);
  return completion.result == -ENOBUFS ? ReadOutcome::kNoBuffer : ReadOutcome::kNothing;
}

void Receiver::OnError(uint16_t index, int32_t error) {
  Slot& slot = slots_[index];
  switch (-error) {
    case ENOBUFS:
      slot.starved = true;
      return;
    case EAGAIN:
      slot.empty = true;
      return;
    case EINTR:
    case ECANCELED:
      return;
    default:
      break;
  }
  if (slot.phase == Phase::kGone || slot.phase == Phase::kParked) return;
  if (slot.phase == Phase::kRounds) --rounds_;
  if (slot.phase == Phase::kSingle && slot.quota > 1) --greedy_;
  const bool gone =
      error == -EBADFD || error == -EFAULT || error == -ENODEV || error == -ENXIO || error == -EBADF;
  slot.phase = gone ? Phase::kGone : Phase::kParked;
  if (gone) {
    gone_[index].store(true, std::memory_order_relaxed);
  } else {
    parked_.push_back(index);
  }
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
    ring_->QueueRead(index, BufferPool::kGroup, kReadSize, nowait, ReadToken(index, slot.generation));
    ++slot.outstanding;
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
          QueueRoom();
          ring_->QueueCancel(ReadToken(index, slot.generation),
                             {Operation::kCancel, slot.generation, index, 0});
        }
        break;
      case Phase::kMultishot:
        if (slot.outstanding == 0) {
          QueueRoom();
          ring_->QueueMultishotRead(index, BufferPool::kGroup, ReadToken(index, slot.generation));
          slot.outstanding = 1;
        }
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
