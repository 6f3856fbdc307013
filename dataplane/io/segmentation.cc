#include "dataplane/io/segmentation.h"

#include <algorithm>
#include <cstring>

#include "dataplane/io/checksum.h"

namespace ringswitch::io {
namespace {

// Offsets of fields in their headers, and flags.
constexpr uint32_t kIpv4TotalLength = 2, kIpv4Identification = 4, kIpv4Checksum = 10, kIpv4Addresses = 12;
constexpr uint32_t kIpv6PayloadLength = 4, kIpv6Addresses = 8, kIpv6HeaderLength = 40;
constexpr uint32_t kTcpSequence = 4, kTcpFlags = 13, kTcpChecksum = 16;
constexpr uint32_t kUdpLength = 4, kUdpChecksum = 6;
constexpr uint8_t kTcpFin = 0x01, kTcpPsh = 0x08, kTcpCwr = 0x80;

uint16_t Load16(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] << 8 | bytes[1]);
}
void Store16(uint8_t* bytes, uint32_t value) {
  bytes[0] = static_cast<uint8_t>(value >> 8);
  bytes[1] = static_cast<uint8_t>(value);
}
uint32_t Load32(const uint8_t* bytes) {
  return static_cast<uint32_t>(Load16(bytes)) << 16 | Load16(bytes + 2);
}
void Store32(uint8_t* bytes, uint32_t value) {
  Store16(bytes, value >> 16);
  Store16(bytes + 2, value);
}

}  // namespace

std::optional<Segmentation> Segmentation::Of(const VirtioNetHeader& header, const uint8_t* frame,
                                             uint32_t length) {
  std::optional<FrameLayout> layout = FindLayout(frame, length);
  // Behind a routing header the checksum is over an address that is not looked for.
  if (!layout || layout->has_routing || header.gso_size == 0) return std::nullopt;
  const uint8_t type = header.gso_type & ~kGsoEcn;
  const bool fits =
      layout->protocol == kProtocolTcp ? type == (layout->is_ipv6 ? kGsoTcp6 : kGsoTcp4) : type == kGsoUdp;
  if (!fits) return std::nullopt;
  Segmentation segmentation;
  segmentation.frame_ = frame;
  segmentation.layout_ = *layout;
  segmentation.payload_length_ = length - layout->payload;
  segmentation.segment_size_ =
      std::min<uint32_t>(header.gso_size, std::max(1u, segmentation.payload_length_));
  segmentation.count_ = std::max(
      1u, (segmentation.payload_length_ + segmentation.segment_size_ - 1) / segmentation.segment_size_);
  if (segmentation.count_ > kSegmentsMax) return std::nullopt;
  return segmentation;
}

uint32_t Segmentation::Make(uint32_t segment, uint8_t* out) const {
  const uint32_t from = segment * segment_size_;
  const uint32_t size = std::min(segment_size_, payload_length_ - from);
  std::memcpy(out, frame_, layout_.payload);
  std::memcpy(out + layout_.payload, frame_ + layout_.payload + from, size);
  const uint32_t length = layout_.payload + size;
  CorrectIp(segment, out, length);
  uint8_t* transport = out + layout_.transport;
  const uint32_t transport_length = length - layout_.transport;
  const bool is_tcp = layout_.protocol == kProtocolTcp;
  if (is_tcp) {
    CorrectTcp(segment, transport);
  } else {
    Store16(transport + kUdpLength, transport_length);
  }
  uint8_t* field = transport + (is_tcp ? kTcpChecksum : kUdpChecksum);
  Store16(field, 0);
  const uint16_t checksum =
      FoldChecksum(AddChecksum(transport, transport_length, PseudoHeaderSum(transport_length)));
  Store16(field, is_tcp ? checksum : NonZeroChecksum(checksum));
  return length;
}

void Segmentation::CorrectIp(uint32_t segment, uint8_t* out, uint32_t length) const {
  uint8_t* ip = out + layout_.network;
  if (layout_.is_ipv6) {
    Store16(ip + kIpv6PayloadLength, length - layout_.network - kIpv6HeaderLength);
    return;
  }
  Store16(ip + kIpv4TotalLength, length - layout_.network);
  Store16(ip + kIpv4Identification, Load16(ip + kIpv4Identification) + segment);
  Store16(ip + kIpv4Checksum, 0);
  Store16(ip + kIpv4Checksum, FoldChecksum(AddChecksum(ip, layout_.transport - layout_.network)));
}

void Segmentation::CorrectTcp(uint32_t segment, uint8_t* tcp) const {
  Store32(tcp + kTcpSequence, Load32(tcp + kTcpSequence) + segment * segment_size_);
  if (segment != 0) tcp[kTcpFlags] &= static_cast<uint8_t>(~kTcpCwr);
  if (segment + 1 != count_) tcp[kTcpFlags] &= static_cast<uint8_t>(~(kTcpFin | kTcpPsh));
}

uint64_t Segmentation::PseudoHeaderSum(uint32_t transport_length) const {
  const uint8_t* ip = frame_ + layout_.network;
  const uint64_t addresses =
      layout_.is_ipv6 ? AddChecksum(ip + kIpv6Addresses, 32) : AddChecksum(ip + kIpv4Addresses, 8);
  return addresses + layout_.protocol + transport_length;
}

}  // namespace ringswitch::io
