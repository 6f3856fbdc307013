#pragma once

// The forwarding database: (MAC address, VID) -> port, shared by all workers of a switch.
//
// Theory of operation.
//
// Memory. Slots are a 64-bit key and a 64-bit value, both atomic, in buckets of eight. A key may lie in
// either of two buckets chosen by a seeded hash (an attacker cannot aim at one), so a lookup reads at most
// sixteen keys, hit or miss, and there are no probe chains to repair on removal. In its first bucket it has a
// home, which it gets if nobody lives there: in a table that is not crowded, nearly every hit is one
// comparison and one cache line. There are at least twice as many slots as the capacity, allocated at
// construction; nothing is allocated later and no entry ever changes its slot, which makes paged listings
// exact.
//
//   key    0: never used | MAC 48 bits | VID 12 bits | one bit that is always set
//   value  port 12 | kind 3 | held 1 | stamp 24 (seconds, wraps) | check 16 (of the key) ; kind none: dead,
//   with the epoch of its death
//
// Readers (workers, within a batch) take no lock: key, value, key again; a value counts only if it carries
// the check of the key. A slot gets another key only after every worker has passed a batch boundary since the
// old one died (epoch.h), so a reader can never pair one address with another's port.
//
// Writers hold writer_lock_, a spin lock held for tens of nanoseconds, a bounded number of slots in sweeps. A
// worker that cannot get it soon gives up: the frame is forwarded, the address is learned from the next one.
// A known address refreshes its stamp by one compare-and-swap at most once a second, without the lock.
//
// What else it knows (fdb_history.h), all of fixed size and changed under the writer lock: moves per pair of
// ports; addresses that move too often, which are held where they are by a bit in their value, so that
// refusing their frames elsewhere takes no lock; and, while somebody watches, a log of changes.
//
// Limits. Full, or the port's limit reached: not learned, counted, nothing live is evicted (design decision
// 7). A static entry stays where it is; a frame from its address elsewhere is refused (decision 6). Stamps
// wrap after 194 days, sixteen times the longest ageing time, and a sweep visits every slot far more often
// than that.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/bridge/epoch.h"
#include "dataplane/bridge/forwarding_config.h"
#include "dataplane/bridge/frame.h"

namespace ringswitch::bridge {

inline constexpr uint32_t kFdbCapacityDefault = 16384;
inline constexpr uint32_t kFdbCapacityMin = 16;
inline constexpr uint32_t kFdbCapacityMax = 1u << 20;

enum class FdbKind : uint8_t { kNone = 0, kDynamic = 1, kStatic = 2 };

struct FdbKey {
  MacAddress mac;
  VlanId vid = kVlanIdNone;
  friend bool operator==(const FdbKey&, const FdbKey&) = default;
};

struct FdbTarget {
  PortIndex port = kNoPort;
  FdbKind kind = FdbKind::kNone;  // kNone: no entry
  bool found() const { return kind != FdbKind::kNone; }
};

struct FdbRow {
  FdbKey key;
  FdbTarget target;
  uint32_t age_s = 0;  // since the last frame; 0 for static entries
};

// What became of a source address.
enum class LearnResult : uint8_t {
  kKnown,            // was there
  kLearned,          // new
  kMoved,            // was on another port
  kNotLearned,       // table full, or the port's limit reached
  kBusy,             // the writer lock was taken; the next frame will do
  kStaticElsewhere,  // bound to another port: the frame must be dropped
  kHeldElsewhere,    // moved too often, held on another port: the frame must be dropped
};

enum class FdbResult : uint8_t { kOk, kExists, kNotFound, kFull };

// Which entries; unset means all.
struct FdbFilter {
  std::optional<PortIndex> port{};
  std::optional<VlanId> vid{};
  const VlanSet* vids = nullptr;  // VLANs that match, beside `vid`
  std::optional<FdbKind> kind{};
};

// Since the table was made. `held`: times that the flap guard has held an address.
struct FdbEvents {
  uint64_t learned = 0, moved = 0, aged = 0, flushed = 0, limited = 0, held = 0;
};

// Moves of addresses from one port to another since either port was made.
struct FdbMoves {
  PortIndex from = kNoPort, to = kNoPort;
  uint64_t count = 0;
};

// A change of an entry, for those who watch. `target.kind` none: removed.
struct FdbChange {
  FdbKey key;
  FdbTarget target;
};
inline constexpr size_t kMovePairsMax = 512;     // beyond these, moves are counted in FdbEvents only
inline constexpr size_t kFdbChangesMax = 16384;  // logged and not yet taken

class Fdb {
 public:
  // `capacity` entries at most. `seed` comes from the system's random source, or from the test.
  Fdb(uint32_t capacity, uint64_t seed, EpochDomain* epochs);
  ~Fdb();
  Fdb(const Fdb&) = delete;
  Fdb& operator=(const Fdb&) = delete;

  // Frame path; any worker, within a batch. No lock, no allocation.
  FdbTarget Lookup(FdbKey key) const;
  // `mac_limit` 0: none. `now_s`: monotonic seconds.
  LearnResult Learn(FdbKey key, PortIndex port, uint32_t mac_limit, uint32_t now_s);

  // Control, any thread.
  FdbResult AddStatic(FdbKey key, PortIndex port,
                      bool replace_static);  // a dynamic entry is converted; kExists where a static one is
                                             // there and !replace_static
  FdbResult Remove(FdbKey key);
  std::optional<FdbRow> Find(FdbKey key, uint32_t now_s) const;
  // Removes what matches; takes and gives back the lock every few hundred slots. Returns how many.
  uint32_t Flush(const FdbFilter& filter);
  // Appends rows from slot `cursor` on, `rows_max` at most, and returns the next cursor; 0 at the end.
  uint32_t List(uint32_t cursor, const FdbFilter& filter, uint32_t rows_max, uint32_t now_s,
                std::vector<FdbRow>* rows) const;
  // Removes dynamic entries older than `ageing_time_s` (0: none) among the next `slots` slots; goes round.
  // Ends the flap guard's holds whose time is over, all of them.
  void AgeSlice(uint32_t now_s, uint32_t ageing_time_s, uint32_t slots);

  // More than `moves` moves of an address within kFlapWindowS hold it where it is for `hold_s`; 0: never.
  void SetFlapGuard(uint32_t moves, uint32_t hold_s);
  // Moves per pair of ports, kMovePairsMax pairs at most; those of a port that is gone are left out after
  // ForgetMoves.
  std::vector<FdbMoves> Moves() const;
  void ForgetMoves(PortIndex port);

  // The log of changes, for one reader; off, it costs nothing. Taking appends what was logged since, in
  // order; false: some are missing (more than kFdbChangesMax since the last time), read the whole table,
  // after which the log goes on. Refreshed stamps are no changes.
  void SetLogging(bool is_logging);
  bool TakeChanges(std::vector<FdbChange>* changes);

  uint32_t slot_count() const;
  uint32_t capacity() const { return capacity_; }
  uint32_t CountOf(FdbKind kind) const;           // entries now
  uint32_t DynamicCountOf(PortIndex port) const;  // entries now
  FdbEvents Events() const;

 private:
  struct Slot;
  struct Bucket;
  struct History;    // fdb_history.h
  struct Hash;       // of a key: two buckets, its home and the check
  class WriterLock;  // holds writer_locked_

  Hash HashOf(uint64_t key_word) const;
  Slot* FindKey(uint64_t key_word, const Hash& hash) const;
  Slot* FindAwayFromHome(uint64_t key_word, const Hash& hash) const;
  Slot& SlotAt(uint32_t number) const;
  uint32_t NumberOf(const Slot& slot) const;
  LearnResult LearnChange(uint64_t key_word, const Hash& hash, PortIndex port, uint32_t mac_limit,
                          uint32_t now_s);
  // The rest needs the writer lock.
  Slot* FreeSlot(const Hash& hash) const;
  bool Insert(uint64_t key_word, const Hash& hash, Slot* dead, PortIndex port, FdbKind kind, uint32_t now_s);
  void CountIn(uint64_t value);
  void CountOut(uint64_t value);
  void Seal(uint32_t first_slot, uint32_t end_slot);
  uint32_t FlushSlice(const FdbFilter& filter, uint32_t first_slot, uint32_t end_slot);
  uint32_t AgeLocked(uint32_t now_s, uint32_t ageing_time_s, uint32_t first_slot, uint32_t end_slot);
  void Log(uint64_t key_word, uint64_t value);
  void EndHolds(uint32_t now_s, bool all);
  bool IsAtLimit(PortIndex port, uint32_t mac_limit) const;
  bool IsFull() const;

  const uint32_t capacity_;
  const uint32_t bucket_count_;  // a power of two
  const uint64_t seed_a_;
  const uint64_t seed_b_;
  EpochDomain* const epochs_;
  const std::unique_ptr<Bucket[]> buckets_;
  const std::unique_ptr<History> history_;  // what it points to: under the writer lock

  // Changed under the writer lock, read by anybody.
  alignas(64) mutable std::atomic<bool> writer_locked_{false};
  uint32_t age_cursor_ = 0;  // next slot of AgeSlice; under the writer lock
  std::atomic<uint32_t> dynamic_count_{0};
  std::atomic<uint32_t> static_count_{0};
  std::array<std::atomic<uint32_t>, kPortsMax> port_dynamic_counts_{};
  std::atomic<uint64_t> learned_{0}, moved_{0}, aged_{0}, flushed_{0}, held_{0};
  std::atomic<uint32_t> held_now_{0};  // addresses
  std::atomic<uint64_t> limited_{0};   // any worker, without the lock
};

}  // namespace ringswitch::bridge
