#pragma once

// A set of VLANs, one bit each: membership is one load and one test on the frame path.

#include <array>
#include <cstdint>

#include "dataplane/bridge/frame.h"

namespace ringswitch::bridge {

class VlanSet {
 public:
  constexpr bool contains(VlanId vid) const { return (words_[vid >> 6 & 63] >> (vid & 63) & 1) != 0; }
  // VIDs outside 1 to 4094 are ignored.
  constexpr void Add(VlanId vid) {
    if (IsVlan(vid)) words_[vid >> 6] |= 1ULL << (vid & 63);
  }
  constexpr void AddRange(VlanId first, VlanId last) {
    for (uint32_t vid = first; vid <= last; ++vid) Add(static_cast<VlanId>(vid));
  }
  constexpr void Remove(VlanId vid) {
    if (IsVlan(vid)) words_[vid >> 6] &= ~(1ULL << (vid & 63));
  }
  constexpr void RemoveRange(VlanId first, VlanId last) {
    for (uint32_t vid = first; vid <= last; ++vid) Remove(static_cast<VlanId>(vid));
  }
  constexpr bool empty() const {
    for (uint64_t word : words_) {
      if (word != 0) return false;
    }
    return true;
  }
  friend constexpr bool operator==(const VlanSet&, const VlanSet&) = default;

 private:
  std::array<uint64_t, 64> words_{};
};

}  // namespace ringswitch::bridge
