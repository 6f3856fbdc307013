#pragma once

// What the FDB remembers beside its entries: which ports addresses moved between, which addresses move too
// often, and what has changed since somebody last asked.
//
// Everything here is of fixed size and changes under the FDB's writer lock only; the frame path comes here
// when an entry changes and never to look one up.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/bridge/fdb.h"

namespace ringswitch::bridge {

// Moves per pair of ports: an open-addressed table, never more than half full. A pair that finds it full is
// not counted here.
class MoveCounts {
 public:
  void Count(PortIndex from, PortIndex to);
  void Forget(PortIndex port);
  // Up to kMovePairsMax of them, to room that is there.
  void AppendTo(std::vector<FdbMoves>* moves) const;

 private:
  static constexpr size_t kSlots = 2 * kMovePairsMax;
  FdbMoves& SlotOf(PortIndex from, PortIndex to);  // of the pair, or the free one where it would be

  std::array<FdbMoves, kSlots> slots_{};  // count 0: free
  size_t used_ = 0;
};

// Addresses that have moved lately, and those that are held for it. Moves count in windows of kFlapWindowS
// that begin with an address's first one. Of more than kMoversMax addresses moving at once, the one whose
// window is oldest is forgotten; held ones are not, so that kMoversMax at most are held and each is released.
class FlapGuard {
 public:
  static constexpr size_t kMoversMax = 64;

  void Set(uint32_t moves_max, uint32_t hold_s);
  bool is_on() const { return moves_max_ != 0; }
  // Notes a move that is about to happen. True: it is one too many, and the address is to be held.
  bool Note(uint64_t key_word, uint32_t now_s);
  // Calls `release` with each address whose hold is over, or with all that are held; they are forgotten.
  template <typename Release>
  void EndHolds(uint32_t now_s, bool all, const Release& release) {
    for (Mover& mover : movers_) {
      if (!mover.is_held || (!all && static_cast<int32_t>(now_s - mover.until_s) < 0)) continue;
      release(mover.key_word);
      mover = Mover{};
      --held_count_;
    }
  }
  uint32_t held_count() const { return held_count_; }

 private:
  struct Mover {
    uint64_t key_word = 0;  // 0: free
    uint32_t since_s = 0;   // when the window began
    uint32_t count = 0;     // moves in it
    uint32_t until_s = 0;   // end of the hold
    bool is_held = false;
  };
  Mover* MoverOf(uint64_t key_word, uint32_t now_s);  // known or new; null: all are held

  std::array<Mover, kMoversMax> movers_{};
  uint32_t moves_max_ = 0;
  uint32_t hold_s_ = 0;
  uint32_t held_count_ = 0;
};

// The log of changes: a ring. One that is full says so and takes no more until it was read.
class ChangeLog {
 public:
  ChangeLog() : ring_(kFdbChangesMax) {}
  void Add(const FdbChange& change);
  // Moves up to `count_max` changes, oldest first, to `changes`; returns how many.
  size_t Take(FdbChange* changes, size_t count_max);
  // Whether some were lost. If so the rest is forgotten as well, and the log begins anew: what is left would
  // be older than what the reader is about to read from the table.
  bool TakeOverflow();

 private:
  std::vector<FdbChange> ring_;
  size_t first_ = 0, count_ = 0;
  bool has_overflowed_ = false;
};

struct Fdb::History {
  MoveCounts moves;
  FlapGuard flaps;
  std::unique_ptr<ChangeLog> changes;  // null: nobody asks
};

}  // namespace ringswitch::bridge
