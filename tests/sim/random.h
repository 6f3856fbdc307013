#pragma once

// Random numbers that are the same on every machine: splitmix64. All that a simulation does by chance comes
// from here.

#include <cstdint>

namespace ringswitch::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t word = state_ += 0x9e37'79b9'7f4a'7c15ULL;
    word = (word ^ word >> 30) * 0xbf58'476d'1ce4'e5b9ULL;
    word = (word ^ word >> 27) * 0x94d0'49bb'1331'11ebULL;
    return word ^ word >> 31;
  }
  uint64_t Below(uint64_t end) { return Next() % end; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

}  // namespace ringswitch::sim
