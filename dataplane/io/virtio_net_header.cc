#include "dataplane/io/virtio_net_header.h"

#include <algorithm>
#include <cstring>

#include "dataplane/io/frame_layout.h"

namespace ringswitch::io {
namespace {

// Kernels take no checksum that starts before byte 20, and a tag in front of it may be popped. Farther than
// 16 bits count it cannot start, nor can it with a tag more and behind the room that a kernel keeps in front
// of a frame.
constexpr uint16_t kChecksumStartMin = 20 + 4;
constexpr uint16_t kChecksumStartMax = 0xff00;
constexpr uint16_t kTcpChecksumOffset = 16;
constexpr uint16_t kUdpChecksumOffset = 6;
constexpr uint32_t kUdpSegmentsMax = 128;   // no kernel takes a UDP super-frame of more
constexpr uint16_t kGsoSizeTaken = 0xffff;  // means something else inside the kernel, which refuses it

// Length of all headers of a super-frame; none: it is not what the header says.
std::optional<uint32_t> HeadersLength(const VirtioNetHeader& header, const uint8_t* frame, uint32_t length) {
  const std::optional<FrameLayout> layout = FindLayout(frame, length);
  if (!layout) return std::nullopt;
  const uint8_t type = header.gso_type & ~kGsoEcn;
  const bool tcp = layout->protocol == kProtocolTcp;
  if (type != (tcp ? (layout->is_ipv6 ? kGsoTcp6 : kGsoTcp4) : kGsoUdp)) return std::nullopt;
  if ((header.flags & kNeedsChecksum) != 0 &&
      (header.csum_start != layout->transport ||
       header.csum_offset != (tcp ? kTcpChecksumOffset : kUdpChecksumOffset))) {
    return std::nullopt;
  }
  // ECN is TCP's, and UDP's segments have a checksum each.
  if (!tcp && ((header.gso_type & kGsoEcn) != 0 || (header.flags & kNeedsChecksum) == 0 ||
               length - layout->payload > kUdpSegmentsMax * header.gso_size)) {
    return std::nullopt;
  }
  return layout->payload;
}

}  // namespace

VirtioNetHeader LoadVirtioNetHeader(const uint8_t* bytes) {
  VirtioNetHeader header;
  std::memcpy(&header, bytes, sizeof header);
  return header;
}

void StoreVirtioNetHeader(const VirtioNetHeader& header, uint8_t* bytes) {
  std::memcpy(bytes, &header, sizeof header);
}

std::optional<uint32_t> WireLength(uint8_t* bytes, const uint8_t* frame, uint32_t length) {
  VirtioNetHeader header = LoadVirtioNetHeader(bytes);
  if ((header.flags & kNeedsChecksum) != 0) {
    const uint32_t checksum = static_cast<uint32_t>(header.csum_start) + header.csum_offset;
    if (header.csum_start < kChecksumStartMin || header.csum_start > kChecksumStartMax ||
        checksum + 2 > length)
      return std::nullopt;
  }
  const bool is_super_frame = header.gso_type != kGsoNone;
  uint32_t headers = 0;
  if (is_super_frame) {
    if (header.gso_size == 0 || header.gso_size == kGsoSizeTaken) return std::nullopt;
    const std::optional<uint32_t> found = HeadersLength(header, frame, length);
    if (!found) return std::nullopt;
    headers = *found;
  }
  if (header.hdr_len != headers) {
    header.hdr_len = static_cast<uint16_t>(headers);
    StoreVirtioNetHeader(header, bytes);
  }
  return is_super_frame ? std::min(length, headers + header.gso_size) : length;
}

void MoveOffsets(uint8_t* bytes, int delta) {
  VirtioNetHeader header = LoadVirtioNetHeader(bytes);
  if ((header.flags & kNeedsChecksum) != 0)
    header.csum_start = static_cast<uint16_t>(header.csum_start + delta);
  if (header.hdr_len != 0) header.hdr_len = static_cast<uint16_t>(header.hdr_len + delta);
  StoreVirtioNetHeader(header, bytes);
}

}  // namespace ringswitch::io
