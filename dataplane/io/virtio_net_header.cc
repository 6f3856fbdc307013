#include "dataplane/io/virtio_net_header.h"

#include <algorithm>
#include <cstring>

#include "dataplane/io/frame_layout.h"

namespace ringswitch::io {
namespace {

constexpr uint32_t kEthernetHeaderLength = 14;
constexpr uint16_t kTcpChecksumOffset = 16;
constexpr uint16_t kUdpChecksumOffset = 6;

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
    if (header.csum_start < kEthernetHeaderLength || checksum + 2 > length) return std::nullopt;
  }
  if (header.gso_type == kGsoNone) return length;
  if (header.gso_size == 0) return std::nullopt;
  std::optional<uint32_t> headers = HeadersLength(header, frame, length);
  if (!headers) return std::nullopt;
  if (header.hdr_len != *headers) {
    header.hdr_len = static_cast<uint16_t>(*headers);
    StoreVirtioNetHeader(header, bytes);
  }
  return std::min(length, *headers + header.gso_size);
}

void MoveOffsets(uint8_t* bytes, int delta) {
  VirtioNetHeader header = LoadVirtioNetHeader(bytes);
  if ((header.flags & kNeedsChecksum) != 0)
    header.csum_start = static_cast<uint16_t>(header.csum_start + delta);
  if (header.hdr_len != 0) header.hdr_len = static_cast<uint16_t>(header.hdr_len + delta);
  StoreVirtioNetHeader(header, bytes);
}

}  // namespace ringswitch::io
