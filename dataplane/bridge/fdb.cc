#include "dataplane/bridge/fdb.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "dataplane/bridge/fdb_history.h"
#include "dataplane/bridge/fdb_lock.h"

// Who may write what. Keys, and values apart from their stamp: the holder of the writer lock. A live value's
// stamp: any worker, by compare-and-swap, so that a refresh which lost against a change of the entry is lost
// as a whole. Hence the holder may overwrite a value blindly where the stamp does not matter (flush, move,
// conversion), and must compare-and-swap where it does (ageing). A worker's refresh cannot hit another key:
// the slot keeps its key until that worker has passed a batch boundary.

namespace ringswitch::bridge {
namespace {

constexpr uint32_t kBucketSlots = 8;
constexpr uint32_t kSweepSlots = 256;  // per hold of the lock: about a quarter of a microsecond

// The key word: MAC, VID, one.
constexpr uint64_t KeyWord(FdbKey key) {
  return key.mac.bits() << 13 | static_cast<uint64_t>(key.vid & 0xfff) << 1 | 1;
}
constexpr FdbKey KeyOf(uint64_t word) {
  return {.mac = MacAddress(word >> 13), .vid = static_cast<VlanId>(word >> 1 & 0xfff)};
}

// The value word of a live entry: port 0 to 11, kind 12 to 14, held 15, stamp 16 to 39, check 48 to 63. Dead:
// kind none, epoch 16 to 63.
constexpr uint32_t kKindShift = 12;
constexpr uint64_t kHeldBit = 1u << 15;
constexpr uint32_t kStampShift = 16;
constexpr uint32_t kCheckShift = 48;
constexpr uint32_t kStampMask = (1u << 24) - 1;
static_assert(kPortsMax <= 1u << kKindShift);
// Clocks of two threads may be read in one order and used in the other; nobody's is ever an hour late.
constexpr uint32_t kStampSkewMax = 3600;
constexpr uint64_t kEpochPending = (1ULL << 48) - 1;  // dead, and nobody has advanced the epoch yet

constexpr uint64_t LiveValue(PortIndex port, FdbKind kind, uint32_t now_s, uint16_t check) {
  return static_cast<uint64_t>(check) << kCheckShift |
         static_cast<uint64_t>(now_s & kStampMask) << kStampShift |
         static_cast<uint64_t>(kind) << kKindShift | port;
}
constexpr uint64_t DeadValue(uint64_t epoch) {
  return epoch << kStampShift;
}
constexpr uint64_t DeathEpoch(uint64_t value) {
  return value >> kStampShift;
}
constexpr PortIndex PortOf(uint64_t value) {
  return static_cast<PortIndex>(value & ((1u << kKindShift) - 1));
}
constexpr FdbKind KindOf(uint64_t value) {
  return static_cast<FdbKind>(value >> kKindShift & 7);
}
constexpr bool IsLive(uint64_t value) {
  return KindOf(value) != FdbKind::kNone;
}
// By the flap guard, on the port where it is.
constexpr bool IsHeld(uint64_t value) {
  return (value & kHeldBit) != 0;
}
constexpr uint16_t CheckOf(uint64_t value) {
  return static_cast<uint16_t>(value >> kCheckShift);
}
constexpr uint64_t WithStamp(uint64_t value, uint32_t now_s) {
  constexpr uint64_t kMask = static_cast<uint64_t>(kStampMask) << kStampShift;
  return (value & ~kMask) | static_cast<uint64_t>(now_s & kStampMask) << kStampShift;
}
constexpr uint32_t AgeOf(uint64_t value, uint32_t now_s) {
  const uint32_t stamp = static_cast<uint32_t>(value >> kStampShift) & kStampMask;
  const uint32_t age = (now_s - stamp) & kStampMask;
  return age > kStampMask - kStampSkewMax ? 0 : age;
}

// Writers of these hold the lock: no locked instruction needed.
template <typename T>
void Bump(std::atomic<T>& counter, T by = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}
template <typename T>
void Lower(std::atomic<T>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

constexpr uint64_t Spread(uint64_t word) {  // the finaliser of splitmix64: turns one seed into two
  word += 0x9e37'79b9'7f4a'7c15ULL;
  word = (word ^ word >> 30) * 0xbf58'476d'1ce4'e5b9ULL;
  word = (word ^ word >> 27) * 0x94d0'49bb'1331'11ebULL;
  return word ^ word >> 31;
}

// Bit i: slots[i] has the key. Without branches, since where in the bucket a key lies cannot be predicted,
// and unrolled.
template <typename Slots, size_t... I>
[[gnu::always_inline]] inline uint32_t Hits(const Slots& slots, uint64_t key_word,
                                            std::index_sequence<I...>) {
  return (... | (static_cast<uint32_t>(slots[I].key.load(std::memory_order_acquire) == key_word) << I));
}

bool Matches(const FdbFilter& filter, FdbKey key, uint64_t value) {
  if (filter.port && *filter.port != PortOf(value)) return false;
  if (filter.kind && *filter.kind != KindOf(value)) return false;
  if (!filter.vid && filter.vids == nullptr) return true;
  return (filter.vid && *filter.vid == key.vid) || (filter.vids != nullptr && filter.vids->contains(key.vid));
}

}  // namespace

struct Fdb::Slot {
  std::atomic<uint64_t> key;
  std::atomic<uint64_t> value;
};

struct Fdb::Bucket {
  alignas(64) std::array<Slot, kBucketSlots> slots;  // four fill a cache line
};

struct Fdb::Hash {
  uint32_t first;   // bucket
  uint32_t second;  // bucket, another one
  uint32_t home;    // slot of the first bucket
  uint16_t check;
};

Fdb::Fdb(uint32_t capacity, uint64_t seed, EpochDomain* epochs)
    : capacity_(std::clamp(capacity, kFdbCapacityMin, kFdbCapacityMax)),
      bucket_count_(std::bit_ceil(2 * capacity_) / kBucketSlots),
      seed_a_(Spread(seed)),
      seed_b_(Spread(seed ^ seed_a_) | 1),
      epochs_(epochs),
      buckets_(new Bucket[bucket_count_]),
      history_(new History) {}

Fdb::~Fdb() = default;

// A product with a secret, folded, which no sender can foresee; and one more, since the fold of addresses
// that follow each other is a progression, which for some secrets meets the same few slots again and again
// (with 2048 of them in 32768 slots, half were away from home).
[[gnu::always_inline]] inline Fdb::Hash Fdb::HashOf(uint64_t key_word) const {
  const auto product = static_cast<unsigned __int128>(key_word ^ seed_a_) * seed_b_;
  const uint64_t fold = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  const uint64_t hash = fold * 0x9e37'79b9'7f4a'7c15ULL;
  const uint32_t mask = bucket_count_ - 1;  // 18 bits at most
  const auto first = static_cast<uint32_t>(hash >> 46) & mask;
  auto second = static_cast<uint32_t>(hash >> 28) & mask;
  if (second == first) second ^= 1;  // there are four buckets at least
  const auto home = static_cast<uint32_t>(hash >> 25) % kBucketSlots;
  return {.first = first, .second = second, .home = home, .check = static_cast<uint16_t>(fold >> 48)};
}

// The slot whose key this is, dead or alive; null: none.
[[gnu::always_inline]] inline Fdb::Slot* Fdb::FindKey(uint64_t key_word, const Hash& hash) const {
  Slot& home = buckets_[hash.first].slots[hash.home];
  if (home.key.load(std::memory_order_acquire) == key_word) [[likely]]
    return &home;
  return FindAwayFromHome(key_word, hash);
}

Fdb::Slot* Fdb::FindAwayFromHome(uint64_t key_word, const Hash& hash) const {
  for (const uint32_t number : {hash.first, hash.second}) {
    Bucket& bucket = buckets_[number];
    const uint32_t hits = Hits(bucket.slots, key_word, std::make_index_sequence<kBucketSlots>());
    if (hits != 0) return &bucket.slots[static_cast<uint32_t>(std::countr_zero(hits))];
  }
  return nullptr;
}

Fdb::Slot& Fdb::SlotAt(uint32_t number) const {
  return buckets_[number / kBucketSlots].slots[number % kBucketSlots];
}

uint32_t Fdb::NumberOf(const Slot& slot) const {
  // Buckets are nothing but slots, one after the other.
  return static_cast<uint32_t>(&slot - buckets_[0].slots.data());
}

FdbTarget Fdb::Lookup(FdbKey key) const {
  const uint64_t key_word = KeyWord(key);
  const Hash hash = HashOf(key_word);
  Slot* const slot = FindKey(key_word, hash);
  if (slot == nullptr) return {};
  const uint64_t value = slot->value.load(std::memory_order_acquire);
  if (!IsLive(value) || CheckOf(value) != hash.check) return {};
  if (slot->key.load(std::memory_order_relaxed) != key_word) return {};
  return {.port = PortOf(value), .kind = KindOf(value)};
}

bool Fdb::IsAtLimit(PortIndex port, uint32_t mac_limit) const {
  return mac_limit != 0 && port_dynamic_counts_[port].load(std::memory_order_relaxed) >= mac_limit;
}

bool Fdb::IsFull() const {
  return dynamic_count_.load(std::memory_order_relaxed) + static_count_.load(std::memory_order_relaxed) >=
         capacity_;
}

LearnResult Fdb::Learn(FdbKey key, PortIndex port, uint32_t mac_limit, uint32_t now_s) {
  const uint64_t key_word = KeyWord(key);
  const Hash hash = HashOf(key_word);
  Slot* const slot = FindKey(key_word, hash);
  uint64_t value = slot != nullptr ? slot->value.load(std::memory_order_acquire) : 0;
  if (IsLive(value) && CheckOf(value) == hash.check) {
    if (KindOf(value) == FdbKind::kStatic) {
      return PortOf(value) == port ? LearnResult::kKnown : LearnResult::kStaticElsewhere;
    }
    if (PortOf(value) == port) {
      if (AgeOf(value, now_s) != 0) {
        slot->value.compare_exchange_strong(value, WithStamp(value, now_s), std::memory_order_release,
                                            std::memory_order_relaxed);
      }
      return LearnResult::kKnown;
    }
    if (IsHeld(value)) return LearnResult::kHeldElsewhere;
  }
  // Asked before the lock is taken, so that a flood of invented addresses does not make workers queue for it.
  if (IsAtLimit(port, mac_limit) || (!IsLive(value) && IsFull())) {
    limited_.fetch_add(1, std::memory_order_relaxed);
    return LearnResult::kNotLearned;
  }
  return LearnChange(key_word, hash, port, mac_limit, now_s);
}

// A new address, or one that moved.
LearnResult Fdb::LearnChange(uint64_t key_word, const Hash& hash, PortIndex port, uint32_t mac_limit,
                             uint32_t now_s) {
  const WriterLock lock(this, kWorkerLockSpins);
  if (!lock.held()) return LearnResult::kBusy;
  Slot* const slot = FindKey(key_word, hash);
  const uint64_t value = slot != nullptr ? slot->value.load(std::memory_order_relaxed) : 0;
  if (IsLive(value) && PortOf(value) == port) return LearnResult::kKnown;  // another worker was faster
  if (KindOf(value) == FdbKind::kStatic) return LearnResult::kStaticElsewhere;
  if (IsHeld(value)) return LearnResult::kHeldElsewhere;
  if (IsAtLimit(port, mac_limit) ||
      (!IsLive(value) && !Insert(key_word, hash, slot, port, FdbKind::kDynamic, now_s))) {
    limited_.fetch_add(1, std::memory_order_relaxed);
    return LearnResult::kNotLearned;
  }
  if (!IsLive(value)) {
    Bump(learned_);
    return LearnResult::kLearned;
  }
  if (history_->flaps.is_on() && history_->flaps.Note(key_word, now_s)) {
    slot->value.fetch_or(kHeldBit, std::memory_order_release);
    held_now_.store(history_->flaps.held_count(), std::memory_order_relaxed);
    Bump(held_);
    return LearnResult::kHeldElsewhere;
  }
  CountOut(value);
  const uint64_t moved = LiveValue(port, FdbKind::kDynamic, now_s, hash.check);
  slot->value.store(moved, std::memory_order_release);
  CountIn(moved);
  Bump(moved_);
  history_->moves.Count(PortOf(value), port);
  Log(key_word, moved);
  return LearnResult::kMoved;
}

void Fdb::Log(uint64_t key_word, uint64_t value) {
  if (history_->changes == nullptr) return;
  FdbChange change{.key = KeyOf(key_word), .target = {}};
  if (IsLive(value)) change.target = {.port = PortOf(value), .kind = KindOf(value)};
  history_->changes->Add(change);
}

// A slot that may take a new key, null where there is none: of the first bucket while that is at most half
// full, so that most look-ups end there, else of the one with fewer live entries. There, its home; else never
// used before dead for longest, since a dead slot that keeps its key can give it back at once. Slots that a
// worker might still read are left alone.
Fdb::Slot* Fdb::FreeSlot(const Hash& hash) const {
  Slot* best = nullptr;
  uint32_t best_live = kBucketSlots;
  const Slot* const home = &buckets_[hash.first].slots[hash.home];
  for (const uint32_t number : {hash.first, hash.second}) {
    Slot* free = nullptr;
    uint64_t oldest = kEpochPending;
    uint32_t live = 0;
    for (Slot& slot : buckets_[number].slots) {
      const uint64_t value = slot.value.load(std::memory_order_relaxed);
      if (IsLive(value)) {
        ++live;
      } else if (free != home &&
                 (DeathEpoch(value) < oldest || (&slot == home && epochs_->Passed(DeathEpoch(value))))) {
        oldest = DeathEpoch(value);  // never used: 0
        free = &slot;
      }
    }
    if (free != nullptr && live < best_live && epochs_->Passed(oldest)) {
      best = free;
      best_live = live;
      if (live < kBucketSlots / 2) break;
    }
  }
  return best;
}

// `dead`: the slot that has this key already, if any. False where there is no room.
bool Fdb::Insert(uint64_t key_word, const Hash& hash, Slot* dead, PortIndex port, FdbKind kind,
                 uint32_t now_s) {
  if (IsFull()) return false;
  Slot* const slot = dead != nullptr ? dead : FreeSlot(hash);
  if (slot == nullptr) return false;
  // The key first: who sees the new value sees the new key when reading it again.
  if (dead == nullptr) slot->key.store(key_word, std::memory_order_release);
  const uint64_t value = LiveValue(port, kind, now_s, hash.check);
  slot->value.store(value, std::memory_order_release);
  CountIn(value);
  Log(key_word, value);
  return true;
}

void Fdb::CountIn(uint64_t value) {
  if (KindOf(value) == FdbKind::kStatic) {
    Bump(static_count_);
  } else {
    Bump(dynamic_count_);
    Bump(port_dynamic_counts_[PortOf(value)]);
  }
}

void Fdb::CountOut(uint64_t value) {
  if (KindOf(value) == FdbKind::kStatic) {
    Lower(static_count_);
  } else {
    Lower(dynamic_count_);
    Lower(port_dynamic_counts_[PortOf(value)]);
  }
}

// Gives the slots that died in this hold of the lock the epoch of their death. Unlinked first, then the epoch
// advances: the other order would let a worker enter the new epoch and still read the entry.
void Fdb::Seal(uint32_t first_slot, uint32_t end_slot) {
  const uint64_t epoch = epochs_->Advance();
  for (uint32_t number = first_slot; number < end_slot; ++number) {
    std::atomic<uint64_t>& value = SlotAt(number).value;
    if (value.load(std::memory_order_relaxed) == DeadValue(kEpochPending)) {
      value.store(DeadValue(epoch), std::memory_order_release);
    }
  }
}

FdbResult Fdb::AddStatic(FdbKey key, PortIndex port, bool replace_static) {
  const uint64_t key_word = KeyWord(key);
  const Hash hash = HashOf(key_word);
  const WriterLock lock(this);
  Slot* const slot = FindKey(key_word, hash);
  const uint64_t value = slot != nullptr ? slot->value.load(std::memory_order_relaxed) : 0;
  if (!IsLive(value)) {
    return Insert(key_word, hash, slot, port, FdbKind::kStatic, 0) ? FdbResult::kOk : FdbResult::kFull;
  }
  if (KindOf(value) == FdbKind::kStatic && !replace_static) return FdbResult::kExists;
  CountOut(value);
  const uint64_t fixed = LiveValue(port, FdbKind::kStatic, 0, hash.check);
  slot->value.store(fixed, std::memory_order_release);
  CountIn(fixed);
  Log(key_word, fixed);
  return FdbResult::kOk;
}

FdbResult Fdb::Remove(FdbKey key) {
  const uint64_t key_word = KeyWord(key);
  const WriterLock lock(this);
  Slot* const slot = FindKey(key_word, HashOf(key_word));
  const uint64_t value = slot != nullptr ? slot->value.load(std::memory_order_relaxed) : 0;
  if (!IsLive(value)) return FdbResult::kNotFound;
  slot->value.store(DeadValue(kEpochPending), std::memory_order_release);
  CountOut(value);
  Log(key_word, DeadValue(kEpochPending));
  const uint32_t number = NumberOf(*slot);
  Seal(number, number + 1);
  return FdbResult::kOk;
}

std::optional<FdbRow> Fdb::Find(FdbKey key, uint32_t now_s) const {
  const uint64_t key_word = KeyWord(key);
  const WriterLock lock(this);
  Slot* const slot = FindKey(key_word, HashOf(key_word));
  const uint64_t value = slot != nullptr ? slot->value.load(std::memory_order_relaxed) : 0;
  if (!IsLive(value)) return std::nullopt;
  const uint32_t age_s = KindOf(value) == FdbKind::kDynamic ? AgeOf(value, now_s) : 0;
  return FdbRow{.key = key, .target = {.port = PortOf(value), .kind = KindOf(value)}, .age_s = age_s};
}

uint32_t Fdb::Flush(const FdbFilter& filter) {
  uint32_t removed = 0;
  for (uint32_t slot = 0; slot < slot_count(); slot += kSweepSlots) {
    removed += FlushSlice(filter, slot, std::min(slot + kSweepSlots, slot_count()));
  }
  return removed;
}

uint32_t Fdb::FlushSlice(const FdbFilter& filter, uint32_t first_slot, uint32_t end_slot) {
  const WriterLock lock(this);
  uint32_t removed = 0;
  for (uint32_t number = first_slot; number < end_slot; ++number) {
    Slot& slot = SlotAt(number);
    const uint64_t value = slot.value.load(std::memory_order_relaxed);
    const uint64_t key_word = slot.key.load(std::memory_order_relaxed);
    if (!IsLive(value) || !Matches(filter, KeyOf(key_word), value)) continue;
    slot.value.store(DeadValue(kEpochPending), std::memory_order_release);
    CountOut(value);
    Log(key_word, DeadValue(kEpochPending));
    ++removed;
  }
  if (removed != 0) Seal(first_slot, end_slot);
  Bump(flushed_, uint64_t{removed});
  return removed;
}

// As workers look up, without the lock: who lists must not keep a worker from learning.
uint32_t Fdb::List(uint32_t cursor, const FdbFilter& filter, uint32_t rows_max, uint32_t now_s,
                   std::vector<FdbRow>* rows) const {
  uint32_t number = cursor;
  for (; number < slot_count() && rows_max != 0; ++number) {
    const Slot& slot = SlotAt(number);
    const uint64_t key_word = slot.key.load(std::memory_order_acquire);
    const uint64_t value = slot.value.load(std::memory_order_acquire);
    const FdbKey key = KeyOf(key_word);
    if (!IsLive(value) || !Matches(filter, key, value)) continue;
    // Another address is entering the slot just now.
    if (CheckOf(value) != HashOf(key_word).check) continue;
    if (slot.key.load(std::memory_order_relaxed) != key_word) continue;
    const uint32_t age_s = KindOf(value) == FdbKind::kDynamic ? AgeOf(value, now_s) : 0;
    rows->push_back({.key = key, .target = {.port = PortOf(value), .kind = KindOf(value)}, .age_s = age_s});
    --rows_max;
  }
  return number < slot_count() ? number : 0;
}

void Fdb::AgeSlice(uint32_t now_s, uint32_t ageing_time_s, uint32_t slots) {
  if (held_now_.load(std::memory_order_relaxed) != 0) {
    const WriterLock lock(this, kWorkerLockSpins);
    if (lock.held()) EndHolds(now_s, false);
  }
  if (ageing_time_s == 0) return;
  slots = std::min(slots, slot_count());
  while (slots != 0) {
    const WriterLock lock(this, kWorkerLockSpins);
    if (!lock.held()) return;  // the next slice begins where this one did
    const uint32_t count = std::min({slots, kSweepSlots, slot_count() - age_cursor_});
    if (AgeLocked(now_s, ageing_time_s, age_cursor_, age_cursor_ + count) != 0) {
      Seal(age_cursor_, age_cursor_ + count);
    }
    age_cursor_ = (age_cursor_ + count) % slot_count();
    slots -= count;
  }
}

uint32_t Fdb::AgeLocked(uint32_t now_s, uint32_t ageing_time_s, uint32_t first_slot, uint32_t end_slot) {
  uint32_t removed = 0;
  for (uint32_t number = first_slot; number < end_slot; ++number) {
    Slot& slot = SlotAt(number);
    uint64_t value = slot.value.load(std::memory_order_relaxed);
    if (KindOf(value) != FdbKind::kDynamic || AgeOf(value, now_s) <= ageing_time_s) continue;
    // Fails where a worker has just heard from the address: then it stays.
    if (!slot.value.compare_exchange_strong(value, DeadValue(kEpochPending), std::memory_order_release,
                                            std::memory_order_relaxed)) {
      continue;
    }
    CountOut(value);
    Log(slot.key.load(std::memory_order_relaxed), DeadValue(kEpochPending));
    ++removed;
  }
  Bump(aged_, uint64_t{removed});
  return removed;
}

void Fdb::SetFlapGuard(uint32_t moves, uint32_t hold_s) {
  const WriterLock lock(this);
  history_->flaps.Set(moves, hold_s);
  if (moves == 0) EndHolds(0, true);
}

void Fdb::EndHolds(uint32_t now_s, bool all) {
  history_->flaps.EndHolds(now_s, all, [this](uint64_t key_word) {
    Slot* const slot = FindKey(key_word, HashOf(key_word));
    // The entry may be gone. A worker may refresh its stamp meanwhile.
    if (slot != nullptr && IsLive(slot->value.load(std::memory_order_relaxed))) {
      slot->value.fetch_and(~kHeldBit, std::memory_order_release);
    }
  });
  held_now_.store(history_->flaps.held_count(), std::memory_order_relaxed);
}

uint32_t Fdb::slot_count() const {
  return bucket_count_ * kBucketSlots;
}

}  // namespace ringswitch::bridge
