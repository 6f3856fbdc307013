#pragma once

// Meters: how much may pass, and what a port remembers of what has passed.
//
// Theory of operation. A meter is a token bucket kept as one number, the time at which the bucket would be
// full again (GCRA: ITU-T I.371 annex A): a frame conforms if that time is at most one burst ahead of now,
// and moves it on by the frame's share of a second. One 64-bit word that any worker changes by
// compare-and-swap, so an egress rate holds over all workers together. What does not conform is dropped;
// nothing waits here.
//
// Meters live beside the configuration and outlive its changes. A debt is kept as time, and what is an hour
// at 1 kbit/s is nothing at 1 Gbit/s: so a meter remembers its rate, and another one begins with a full
// bucket.

#include <array>
#include <atomic>
#include <cstdint>

namespace ringswitch::bridge {

// A limit in units (frames or bits) per second with a burst in the same unit. per_second 0: no limit.
struct Rate {
  uint64_t per_second = 0;
  uint64_t burst = 0;  // at least 1 where there is a limit
  friend bool operator==(const Rate&, const Rate&) = default;
};

class Meter {
 public:
  // Whether `units` may pass at `now_ns`; they are taken if so. A unit's time must not overflow: units *
  // 10^9 < 2^63.
  bool Take(const Rate& rate, uint64_t units, uint64_t now_ns) {
    if (rate.per_second == 0) return true;
    if (per_second_.load(std::memory_order_relaxed) != rate.per_second) {
      per_second_.store(rate.per_second, std::memory_order_relaxed);
      full_ns_.store(0, std::memory_order_relaxed);
    }
    const uint64_t cost_ns = CostNs(rate, units);
    uint64_t full_ns = full_ns_.load(std::memory_order_relaxed);
    while (Conforms(full_ns, rate, units, now_ns)) {
      const uint64_t after_ns = (full_ns > now_ns ? full_ns : now_ns) + cost_ns;
      if (full_ns_.compare_exchange_weak(full_ns, after_ns, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  // Whether they might, without taking any.
  bool WouldTake(const Rate& rate, uint64_t units, uint64_t now_ns) const {
    if (rate.per_second == 0 || per_second_.load(std::memory_order_relaxed) != rate.per_second) return true;
    return Conforms(full_ns_.load(std::memory_order_relaxed), rate, units, now_ns);
  }
  void Reset() { full_ns_.store(0, std::memory_order_relaxed); }

 private:
  static uint64_t CostNs(const Rate& rate, uint64_t units) { return units * 1'000'000'000 / rate.per_second; }
  // A full bucket lets anything pass, a super-frame that is longer than the burst too.
  static bool Conforms(uint64_t full_ns, const Rate& rate, uint64_t units, uint64_t now_ns) {
    return full_ns <= now_ns || full_ns + CostNs(rate, units) <= now_ns + CostNs(rate, rate.burst);
  }
  std::atomic<uint64_t> full_ns_{0};
  std::atomic<uint64_t> per_second_{0};  // of the rate that full_ns_ was counted at
};

// What storm control tells apart.
enum class FloodClass : uint8_t { kBroadcast, kMulticast, kUnknownUnicast };
inline constexpr size_t kFloodClasses = 3;

// A port's memory, shared by all workers.
struct PortMeters {
  std::array<Meter, kFloodClasses> storm_frames;
  std::array<Meter, kFloodClasses> storm_bits;
  Meter receive_bits;
  Meter transmit_bits;
  // Second of the monotonic clock until which the BPDU guard keeps the port down; UINT32_MAX: until it is
  // changed by hand; 0: it does not.
  std::atomic<uint32_t> blocked_until_s{0};
  bool IsBlocked(uint32_t now_s) const { return blocked_until_s.load(std::memory_order_relaxed) > now_s; }

  void Reset() {
    for (Meter& meter : storm_frames) meter.Reset();
    for (Meter& meter : storm_bits) meter.Reset();
    receive_bits.Reset();
    transmit_bits.Reset();
    blocked_until_s.store(0, std::memory_order_relaxed);
  }
};

}  // namespace ringswitch::bridge
