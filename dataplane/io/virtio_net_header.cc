#include "dataplane/io/virtio_net_header.h"

#include <algorithm>
#include <cstring>

namespace ringswitch::io {
namespace {

constexpr uint32_t kEthernetHeaderLength = 14;
constexpr uint32_t kTcpHeaderLengthMin = 20;
constexpr uint32_t kTcpDataOffset = 12;  // of the byte with the header's length in its high half, in words
constexpr uint32_t kUdpHeaderLength = 8;

// Length of all headers of a super-frame; none: they do not fit into it.
std::optional<uint32_t> HeadersLength(const VirtioNetHeader& header, const uint8_t* frame, uint32_t length) {
  const uint8_t type = header.gso_type & ~kGsoEcn;
  const bool tcp = type == kGsoTcp4 || type == kGsoTcp6;
  if (!tcp && type != kGsoUdp) return std::nullopt;
  if ((header.flags & kNeedsChecksum) == 0) {
    // Already checksummed: hdr_len is all there is to go by.
    if (header.hdr_len < kEthernetHeaderLength || header.hdr_len > length) return std::nullopt;
    return header.hdr_len;
  }
  const uint32_t start = header.csum_start;
  if (!tcp) {
    if (start + kUdpHeaderLength > length) return std::nullopt;
    return start + kUdpHeaderLength;
  }
  if (start + kTcpHeaderLengthMin > length) return std::nullopt;
  const uint32_t tcp_length = (frame[start + kTcpDataOffset] >> 4) * 4u;
  if (tcp_length < kTcpHeaderLengthMin || start + tcp_length > length) return std::nullopt;
  return start + tcp_length;
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

std::optional<uint32_t> WireLength(const uint8_t* bytes, const uint8_t* frame, uint32_t length) {
  const VirtioNetHeader header = LoadVirtioNetHeader(bytes);
  if ((header.flags & kNeedsChecksum) != 0) {
    const uint32_t checksum = static_cast<uint32_t>(header.csum_start) + header.csum_offset;
    if (header.csum_start < kEthernetHeaderLength || checksum + 2 > length) return std::nullopt;
  }
  if (header.gso_type == kGsoNone) return length;
  if (header.gso_size == 0) return std::nullopt;
  std::optional<uint32_t> headers = HeadersLength(header, frame, length);
  if (!headers) return std::nullopt;
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
