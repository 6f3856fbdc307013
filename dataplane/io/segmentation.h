#pragma once

// Segmentation of super-frames in software, for a device that cannot take them: TCP over IPv4 and IPv6, and
// UDP (a datagram per segment), with or without tags.
//
// Theory of operation. A super-frame is headers and payload; segment n is the headers, corrected, and the nth
// piece of the payload. Corrected are the IP length and identification, the UDP length or TCP sequence
// number, TCP flags (FIN and PSH on the last segment only, CWR on the first only) and both checksums, which
// are computed anew. Everything is checked once, when the Segmentation is made; Make then writes one segment
// after the other wherever the caller has room. The super-frame itself is not changed.

#include <cstdint>
#include <optional>

#include "dataplane/io/frame_layout.h"
#include "dataplane/io/virtio_net_header.h"

namespace ringswitch::io {

// More than the segments of 64 KiB at the smallest MTU in use (576: 122). What a pod asks for beyond it would
// be a thousand writes for one.
inline constexpr uint32_t kSegmentsMax = 256;

class Segmentation {
 public:
  // None: not a super-frame of a kind that can be segmented, or too many segments.
  static std::optional<Segmentation> Of(const VirtioNetHeader& header, const uint8_t* frame, uint32_t length);

  uint32_t count() const { return count_; }
  uint32_t length_max() const { return layout_.payload + segment_size_; }  // of a segment with its headers
  // Writes the segment (0 to count - 1) to `out` and returns its length. It needs nothing of its receiver:
  // its virtio-net header is all zero.
  uint32_t Make(uint32_t segment, uint8_t* out) const;

 private:
  Segmentation() = default;
  void CorrectIp(uint32_t segment, uint8_t* out, uint32_t length) const;
  void CorrectTcp(uint32_t segment, uint8_t* tcp) const;
  uint64_t PseudoHeaderSum(uint32_t transport_length) const;

  const uint8_t* frame_ = nullptr;
  uint32_t payload_length_ = 0;
  uint32_t segment_size_ = 0;
  uint32_t count_ = 0;
  FrameLayout layout_;
};

}  // namespace ringswitch::io
