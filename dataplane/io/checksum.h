#pragma once

// The Internet checksum (RFC 1071), and the one that a virtio-net header leaves to be completed.

#include <cstdint>

#include "dataplane/io/virtio_net_header.h"

namespace ringswitch::io {

// The sum of the big-endian 16-bit words at `bytes`, an odd last byte padded with zero, not yet folded; `sum`
// is what was added up before (over an even number of bytes).
uint64_t AddChecksum(const uint8_t* bytes, uint32_t length, uint64_t sum = 0);
// The checksum of such a sum.
uint16_t FoldChecksum(uint64_t sum);
// 0 as its equal 0xffff: UDP takes 0 for none (RFC 768).
constexpr uint16_t NonZeroChecksum(uint16_t checksum) {
  return checksum != 0 ? checksum : 0xffff;
}

// Completes the checksum that `header` describes: the field holds the sum of the pseudo header. The header
// was found valid (WireLength) for the frame of `length` bytes.
void CompleteChecksum(const VirtioNetHeader& header, uint8_t* frame, uint32_t length);

// Completes the checksum at once, and says so in the header at `bytes`, unless it is one that may be left to
// whoever takes the frame: that of a transport header, or of something inside. A sender chooses where the
// checksum goes; anywhere else it would change, behind the back of forwarding and guards, what they have
// looked at: addresses, tags, IP headers, ports, ICMPv6. The header was found valid for the frame.
void SettleChecksum(uint8_t* bytes, uint8_t* frame, uint32_t length);

}  // namespace ringswitch::io
