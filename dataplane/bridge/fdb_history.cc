#include "dataplane/bridge/fdb_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dataplane/bridge/fdb_lock.h"

namespace ringswitch::bridge {
namespace {

constexpr size_t kTakenPerHold = 256;  // of the writer lock: a microsecond or so

}  // namespace

// --- moves per pair of ports ---

FdbMoves& MoveCounts::SlotOf(PortIndex from, PortIndex to) {
  const uint32_t pair = static_cast<uint32_t>(from) << 16 | to;
  size_t slot = (pair * 0x9e37'79b9u >> 16) % kSlots;
  while (slots_[slot].count != 0 && (slots_[slot].from != from || slots_[slot].to != to)) {
    slot = (slot + 1) % kSlots;
  }
  return slots_[slot];
}

void MoveCounts::Count(PortIndex from, PortIndex to) {
  FdbMoves& slot = SlotOf(from, to);
  if (slot.count == 0) {
    if (used_ == kMovePairsMax) return;
    ++used_;
    slot = {.from = from, .to = to, .count = 0};
  }
  ++slot.count;
}

void MoveCounts::Forget(PortIndex port) {
  const std::array<FdbMoves, kSlots> before = slots_;
  slots_ = {};
  used_ = 0;
  for (const FdbMoves& moves : before) {
    if (moves.count == 0 || moves.from == port || moves.to == port) continue;
    SlotOf(moves.from, moves.to) = moves;
    ++used_;
  }
}

void MoveCounts::AppendTo(std::vector<FdbMoves>* moves) const {
  std::copy_if(slots_.begin(), slots_.end(), std::back_inserter(*moves),
               [](const FdbMoves& slot) { return slot.count != 0; });
}

// --- addresses that move too often ---

void FlapGuard::Set(uint32_t moves_max, uint32_t hold_s) {
  moves_max_ = moves_max;
  hold_s_ = hold_s;
}

FlapGuard::Mover* FlapGuard::MoverOf(uint64_t key_word, uint32_t now_s) {
  Mover* oldest = nullptr;
  const auto age = [now_s](const Mover& mover) {
    return mover.key_word == 0 ? UINT32_MAX : now_s - mover.since_s;
  };
  for (Mover& mover : movers_) {
    if (mover.key_word == key_word) return &mover;
    if (!mover.is_held && (oldest == nullptr || age(mover) > age(*oldest))) oldest = &mover;
  }
  if (oldest != nullptr) *oldest = {.key_word = key_word, .since_s = now_s};
  return oldest;
}

bool FlapGuard::Note(uint64_t key_word, uint32_t now_s) {
  Mover* found = MoverOf(key_word, now_s);
  if (found == nullptr) return false;
  Mover& mover = *found;
  if (mover.is_held || now_s - mover.since_s >= kFlapWindowS) {
    // Held and moving: the entry that was held is gone, and was learned anew.
    if (mover.is_held) --held_count_;
    mover = {.key_word = key_word, .since_s = now_s};
  }
  if (++mover.count <= moves_max_) return false;
  mover.is_held = true;
  mover.until_s = now_s + hold_s_;
  ++held_count_;
  return true;
}

// --- the log of changes ---

void ChangeLog::Add(const FdbChange& change) {
  if (count_ == ring_.size()) {
    has_overflowed_ = true;
    return;
  }
  ring_[(first_ + count_) % ring_.size()] = change;
  ++count_;
}

size_t ChangeLog::Take(FdbChange* changes, size_t count_max) {
  const size_t count = std::min(count_, count_max);
  for (size_t i = 0; i < count; ++i) changes[i] = ring_[(first_ + i) % ring_.size()];
  first_ = (first_ + count) % ring_.size();
  count_ -= count;
  return count;
}

bool ChangeLog::TakeOverflow() {
  if (has_overflowed_) count_ = 0;
  return std::exchange(has_overflowed_, false);
}

// --- what the control side asks for ---

std::vector<FdbMoves> Fdb::Moves() const {
  std::vector<FdbMoves> moves;
  moves.reserve(kMovePairsMax);  // not under the lock
  const WriterLock lock(this);
  history_->moves.AppendTo(&moves);
  return moves;
}

void Fdb::ForgetMoves(PortIndex port) {
  const WriterLock lock(this);
  history_->moves.Forget(port);
}

void Fdb::SetLogging(bool is_logging) {
  auto changes = is_logging ? std::make_unique<ChangeLog>() : nullptr;
  const WriterLock lock(this);
  if (is_logging != (history_->changes != nullptr)) history_->changes.swap(changes);
}

bool Fdb::TakeChanges(std::vector<FdbChange>* changes) {
  std::array<FdbChange, kTakenPerHold> taken;
  for (size_t total = 0; total < kFdbChangesMax;) {
    size_t count = 0;
    {
      const WriterLock lock(this);
      if (history_->changes == nullptr) return true;
      if (history_->changes->TakeOverflow()) return false;
      count = history_->changes->Take(taken.data(), taken.size());
    }
    changes->insert(changes->end(), taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(count));
    total += count;
    if (count < taken.size()) break;
  }
  return true;
}

uint32_t Fdb::CountOf(FdbKind kind) const {
  switch (kind) {
    case FdbKind::kNone:
      return 0;
    case FdbKind::kDynamic:
      return dynamic_count_.load(std::memory_order_relaxed);
    case FdbKind::kStatic:
      return static_count_.load(std::memory_order_relaxed);
  }
  return 0;
}

uint32_t Fdb::DynamicCountOf(PortIndex port) const {
  return port < kPortsMax ? port_dynamic_counts_[port].load(std::memory_order_relaxed) : 0;
}

FdbEvents Fdb::Events() const {
  return {.learned = learned_.load(std::memory_order_relaxed),
          .moved = moved_.load(std::memory_order_relaxed),
          .aged = aged_.load(std::memory_order_relaxed),
          .flushed = flushed_.load(std::memory_order_relaxed),
          .limited = limited_.load(std::memory_order_relaxed),
          .held = held_.load(std::memory_order_relaxed)};
}

}  // namespace ringswitch::bridge
