#include "dataplane/io/checksum.h"

#include <bit>
#include <cstring>

#include "dataplane/io/frame_layout.h"

namespace ringswitch::io {
namespace {

constexpr uint32_t kPortsLength = 4;  // source and destination port: the first bytes of UDP, TCP and SCTP
// Extension headers behind which others look for a transport header, and ICMPv6, all of which is looked at.
constexpr uint8_t kFragment = 44, kAuthentication = 51, kIcmpv6 = 58, kMobility = 135, kHostIdentity = 139,
                  kShim6 = 140;

// Nobody but its receiver looks at the bytes that the checksum is put into.
bool IsReceiversOwn(const VirtioNetHeader& header, const uint8_t* frame, uint32_t length) {
  const std::optional<FrameLayout> layout = FindTransport(frame, length);
  if (!layout) return false;
  switch (layout->protocol) {
    case kFragment:
    case kAuthentication:
    case kIcmpv6:
    case kMobility:
    case kHostIdentity:
    case kShim6:
      return false;
    default:
      return uint32_t{header.csum_start} + header.csum_offset >= layout->transport + kPortsLength;
  }
}

}  // namespace

uint64_t AddChecksum(const uint8_t* bytes, uint32_t length, uint64_t sum) {
  // Sums of words in the host's order are those in the network's with the bytes swapped (RFC 1071, 2(B)), and
  // may be added up 32 bits at a time.
  uint64_t words = 0;
  for (; length >= 8; bytes += 8, length -= 8) {
    uint64_t eight;
    std::memcpy(&eight, bytes, sizeof eight);
    words += (eight & 0xffff'ffff) + (eight >> 32);
  }
  if (length != 0) {
    uint64_t eight = 0;
    std::memcpy(&eight, bytes, length);
    words += (eight & 0xffff'ffff) + (eight >> 32);
  }
  while (words >> 16 != 0) words = (words & 0xffff) + (words >> 16);
  if constexpr (std::endian::native == std::endian::little) words = (words & 0xff) << 8 | words >> 8;
  return sum + words;
}

uint16_t FoldChecksum(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

void CompleteChecksum(const VirtioNetHeader& header, uint8_t* frame, uint32_t length) {
  const uint32_t start = header.csum_start;
  const uint16_t checksum = NonZeroChecksum(FoldChecksum(AddChecksum(frame + start, length - start)));
  uint8_t* field = frame + start + header.csum_offset;
  field[0] = static_cast<uint8_t>(checksum >> 8);
  field[1] = static_cast<uint8_t>(checksum);
}

void SettleChecksum(uint8_t* bytes, uint8_t* frame, uint32_t length) {
  const VirtioNetHeader header = LoadVirtioNetHeader(bytes);
  // That of a super-frame was found to be the transport header's.
  if ((header.flags & kNeedsChecksum) == 0 || header.gso_type != kGsoNone) return;
  if (IsReceiversOwn(header, frame, length)) return;
  CompleteChecksum(header, frame, length);
  StoreVirtioNetHeader({}, bytes);
}

}  // namespace ringswitch::io
