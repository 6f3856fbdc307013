#include "dataplane/io/frame_layout.h"

namespace ringswitch::io {
namespace {

constexpr uint32_t kEtherTypeOffset = 12;
constexpr uint32_t kTagLength = 4;
constexpr int kTagsMax = 2;
constexpr uint32_t kIpv4HeaderLengthMin = 20;
constexpr uint32_t kIpv6HeaderLength = 40;
constexpr uint32_t kTcpHeaderLengthMin = 20;
constexpr int kExtensionHeadersMax = 4;
constexpr uint8_t kHopByHop = 0, kRouting = 43, kDestinationOptions = 60;

uint32_t Load16(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0] << 8 | bytes[1]);
}

bool FindIpv4Transport(const uint8_t* frame, uint32_t length, FrameLayout* layout) {
  const uint32_t at = layout->network;
  if (at + kIpv4HeaderLengthMin > length || frame[at] >> 4 != 4) return false;
  const uint32_t header_length = (frame[at] & 0xf) * 4u;
  constexpr uint32_t kMoreFragmentsAndOffset = 0x3fff;
  if (header_length < kIpv4HeaderLengthMin || (Load16(frame + at + 6) & kMoreFragmentsAndOffset) != 0)
    return false;
  layout->protocol = frame[at + 9];
  layout->transport = at + header_length;
  return true;
}

bool FindIpv6Transport(const uint8_t* frame, uint32_t length, FrameLayout* layout) {
  uint32_t at = layout->network;
  if (at + kIpv6HeaderLength > length || frame[at] >> 4 != 6) return false;
  uint8_t next = frame[at + 6];
  at += kIpv6HeaderLength;
  for (int i = 0; next == kHopByHop || next == kRouting || next == kDestinationOptions; ++i) {
    if (i == kExtensionHeadersMax || at + 8 > length) return false;
    layout->has_routing = layout->has_routing || next == kRouting;
    next = frame[at];
    at += (frame[at + 1] + 1u) * 8;
  }
  layout->is_ipv6 = true;
  layout->protocol = next;
  layout->transport = at;
  return true;
}

}  // namespace

std::optional<FrameLayout> FindTransport(const uint8_t* frame, uint32_t length) {
  FrameLayout layout;
  uint32_t at = kEtherTypeOffset;
  uint32_t type = 0;
  for (int tags = 0;; ++tags) {
    if (at + 2 > length) return std::nullopt;
    type = Load16(frame + at);
    if (type != 0x8100 && type != 0x88a8) break;
    if (tags == kTagsMax) return std::nullopt;
    at += kTagLength;
  }
  layout.network = at + 2;
  const bool found = type == 0x0800   ? FindIpv4Transport(frame, length, &layout)
                     : type == 0x86dd ? FindIpv6Transport(frame, length, &layout)
                                      : false;
  if (!found || layout.transport > length) return std::nullopt;
  return layout;
}

std::optional<FrameLayout> FindLayout(const uint8_t* frame, uint32_t length) {
  std::optional<FrameLayout> layout = FindTransport(frame, length);
  if (!layout) return std::nullopt;
  uint32_t header_length = kUdpHeaderLength;
  if (layout->protocol == kProtocolTcp) {
    if (layout->transport + kTcpHeaderLengthMin > length) return std::nullopt;
    header_length = (frame[layout->transport + 12] >> 4) * 4u;
    if (header_length < kTcpHeaderLengthMin) return std::nullopt;
  } else if (layout->protocol != kProtocolUdp) {
    return std::nullopt;
  }
  layout->payload = layout->transport + header_length;
  if (layout->payload > length) return std::nullopt;
  return layout;
}

}  // namespace ringswitch::io
