#pragma once

// The 10-byte virtio-net header that travels before every frame of a port: checksum and segmentation
// metadata.
//
// Theory of operation. A pod's kernel leaves checksums and segmentation to the receiver: the header says
// where the checksum starts and how long the segments of a super-frame are. It is carried from the ingress to
// the egress pod as it is; only when a tag is pushed or popped the offsets, which count from the frame's
// first byte, move with it. Since a pod can write what it likes into it, it is checked against the frame
// before anything relies on it. Fields are in the host's byte order, as TAPs of this kind have it.

#include <cstdint>
#include <optional>

namespace ringswitch::io {

struct VirtioNetHeader {
  uint8_t flags = 0;     // kNeedsChecksum, kDataValid
  uint8_t gso_type = 0;  // kGso..., with kGsoEcn or-ed in
  uint16_t hdr_len = 0;  // bytes of headers in front of the payload; a hint, 0 allowed
  uint16_t gso_size = 0;
  uint16_t csum_start = 0;   // from the frame's first byte
  uint16_t csum_offset = 0;  // from csum_start
};
static_assert(sizeof(VirtioNetHeader) == 10);

inline constexpr uint8_t kNeedsChecksum = 1;
inline constexpr uint8_t kDataValid = 2;
inline constexpr uint8_t kGsoNone = 0;
inline constexpr uint8_t kGsoTcp4 = 1;
inline constexpr uint8_t kGsoTcp6 = 4;
inline constexpr uint8_t kGsoUdp = 5;  // USO, segments with a UDP header each
inline constexpr uint8_t kGsoEcn = 0x80;

VirtioNetHeader LoadVirtioNetHeader(const uint8_t* bytes);
void StoreVirtioNetHeader(const VirtioNetHeader& header, uint8_t* bytes);
// Whether it leaves work to whoever takes the frame.
inline bool HasOffload(const uint8_t* bytes) {
  return (bytes[0] & kNeedsChecksum) != 0 || bytes[1] != kGsoNone;
}

// Checks the header at `bytes` against the frame of `length` bytes behind it. The result is the length of the
// longest frame that it will be on a wire: its own, or headers and one segment of a super-frame; none if the
// header contradicts the frame, as that of a super-frame in a tunnel does: the segments it tells of are the
// inner ones (design decision 15), or if kernels refuse it. hdr_len, which some devices give as the length of
// whatever their kernel had in one piece, is made that of a super-frame's headers, 0 for any other frame.
std::optional<uint32_t> WireLength(uint8_t* bytes, const uint8_t* frame, uint32_t length);

// After `delta` bytes of tag were inserted (or removed, negative) before the network header. The header was
// found valid before.
void MoveOffsets(uint8_t* bytes, int delta);

}  // namespace ringswitch::io
