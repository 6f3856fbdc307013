#pragma once

// Counters: per worker and port, written by one worker with plain loads and stores, read by anybody, added up
// when read.
//
// Bytes are those of the Ethernet frame: header and tag yes, FCS and virtio-net header no (design decision
// 12). A GSO super-frame is one frame of its full length.

#include <array>
#include <atomic>
#include <cstdint>

#include "dataplane/bridge/drop_reason.h"

namespace ringswitch::bridge {

// Written by one thread, read by others: no locked instruction.
class Counter {
 public:
  void Add(uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  uint64_t Read() const { return value_.load(std::memory_order_relaxed); }
  // Only when the owning worker is known not to write.
  void Reset() { value_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// X(name). Ledgers: receive_frames = forwarded_frames + ingress drops; queued_copies = transmit_frames +
// egress drops.
#define RINGSWITCH_PORT_COUNTERS(X)                                                                        \
  X(receive_frames)                 /* read from the device, dropped ones included */                      \
  X(receive_bytes)                  /* of those */                                                         \
  X(forwarded_frames)               /* received and queued to at least one port */                         \
  X(flooded_broadcast_frames)       /* received here and flooded */                                        \
  X(flooded_multicast_frames)       /* received here and flooded */                                        \
  X(flooded_unknown_unicast_frames) /* received here and flooded: destination not in the FDB */            \
  X(flood_copies)                   /* copies queued of frames flooded from here */                        \
  X(not_learned_frames)             /* forwarded, source not learned: port's limit or switch's capacity */ \
  X(queued_copies)                  /* copies that the pipeline sent this port's way */                    \
  X(transmit_frames)                /* taken by the device */                                              \
  X(transmit_bytes)                 /* of those */                                                         \
  X(receive_no_buffer_events)       /* reads that ended because the pool was empty; no frame is lost by it */

struct PortCounters {
#define RINGSWITCH_COUNTER(name) Counter name;
  RINGSWITCH_PORT_COUNTERS(RINGSWITCH_COUNTER)
#undef RINGSWITCH_COUNTER
  std::array<Counter, kDropReasonCount> drops;  // by DropReason

  void Drop(DropReason reason, uint64_t frames = 1) {
    drops[static_cast<size_t>(reason)].Add(frames);
  }
  void Reset() {
#define RINGSWITCH_COUNTER(name) name.Reset();
    RINGSWITCH_PORT_COUNTERS(RINGSWITCH_COUNTER)
#undef RINGSWITCH_COUNTER
    for (Counter& drop : drops) drop.Reset();
  }
};

// Frames of one VLAN of a switch; received ones count when they have passed ingress filtering, bytes include
// the tag they came or leave with.
struct VlanCounters {
  Counter receive_frames, receive_bytes, transmit_frames, transmit_bytes;
};

// A sum of PortCounters at one moment.
struct PortTotals {
#define RINGSWITCH_TOTAL(name) uint64_t name = 0;
  RINGSWITCH_PORT_COUNTERS(RINGSWITCH_TOTAL)
#undef RINGSWITCH_TOTAL
  std::array<uint64_t, kDropReasonCount> drops{};

  void Add(const PortCounters& counters) {
#define RINGSWITCH_TOTAL(name) name += counters.name.Read();
    RINGSWITCH_PORT_COUNTERS(RINGSWITCH_TOTAL)
#undef RINGSWITCH_TOTAL
    for (size_t i = 0; i < kDropReasonCount; ++i) drops[i] += counters.drops[i].Read();
  }
  void Add(const PortTotals& totals) {
#define RINGSWITCH_TOTAL(name) name += totals.name;
    RINGSWITCH_PORT_COUNTERS(RINGSWITCH_TOTAL)
#undef RINGSWITCH_TOTAL
    for (size_t i = 0; i < kDropReasonCount; ++i) drops[i] += totals.drops[i];
  }
  uint64_t DropsOn(DropSide side) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kDropReasonCount; ++i) {
      if (kDropReasonTexts[i].side == side) sum += drops[i];
    }
    return sum;
  }
};

}  // namespace ringswitch::bridge
