#include "tests/sim/offload.h"

#include <algorithm>

namespace ringswitch::sim {
namespace {

unsigned Big16(const Bytes& bytes, size_t at) {
  return bytes[at] * 256u + bytes[at + 1];
}
void PutBig16(Bytes* bytes, size_t at, unsigned value) {
  (*bytes)[at] = static_cast<uint8_t>(value >> 8);
  (*bytes)[at + 1] = static_cast<uint8_t>(value);
}
int Little16(const Bytes& bytes, size_t at) {
  return bytes[at] + bytes[at + 1] * 256;
}

// The one's complement sum of 16-bit words, folded.
unsigned Sum(const Bytes& bytes, size_t from, size_t to) {
  unsigned sum = 0;
  for (size_t at = from; at < to; at += 2) {
    sum += bytes[at] * 256u + (at + 1 < to ? bytes[at + 1] : 0);
    sum = sum % 65536 + sum / 65536;
  }
  return sum;
}
unsigned Complement(unsigned sum) {
  while (sum > 65535) sum = sum % 65536 + sum / 65536;
  return 65535 - sum;
}

// Where the payload of a frame begins that is TCP.
std::optional<size_t> TcpPayload(const Bytes& frame) {
  const std::optional<Ipv4Headers> at = FindIpv4(frame);
  if (!at || frame[at->ip + 9] != 6 || at->transport + 20 > frame.size()) return std::nullopt;
  return at->transport + frame[at->transport + 12] / 16 * 4u;
}

}  // namespace

Offload OffloadOf(const Bytes& bytes) {
  return {bytes[0], bytes[1], Little16(bytes, 2), Little16(bytes, 4), Little16(bytes, 6), Little16(bytes, 8)};
}

Bytes FrameOf(const Bytes& bytes) {
  return {bytes.begin() + 10, bytes.end()};
}

Bytes Join(const Offload& offload, const Bytes& frame) {
  Bytes bytes = {static_cast<uint8_t>(offload.flags), static_cast<uint8_t>(offload.type)};
  for (const int value : {offload.header_length, offload.segment_size, offload.start, offload.offset}) {
    bytes.push_back(static_cast<uint8_t>(value));
    bytes.push_back(static_cast<uint8_t>(value >> 8));
  }
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  return bytes;
}

std::optional<Ipv4Headers> FindIpv4(const Bytes& frame) {
  size_t at = 12;
  for (int tags = 0; tags < 2; ++tags) {
    if (at + 6 > frame.size()) return std::nullopt;
    if (Big16(frame, at) == 0x8100 || Big16(frame, at) == 0x88a8) at += 4;
  }
  if (at + 2 + 20 > frame.size() || Big16(frame, at) != 0x0800 || frame[at + 2] != 0x45) return std::nullopt;
  return Ipv4Headers{at + 2, at + 2 + 20};
}

std::optional<int64_t> WireLength(const Offload& offload, const Bytes& frame) {
  const auto length = static_cast<int64_t>(frame.size());
  if (offload.needs_checksum() && (offload.start < 14 || offload.start + offload.offset + 2 > length))
    return std::nullopt;
  if (!offload.is_super_frame()) return length;
  const std::optional<size_t> payload = TcpPayload(frame);
  if (!payload || offload.type != 1 || offload.segment_size == 0) return std::nullopt;
  const auto tcp = static_cast<int>(FindIpv4(frame)->transport);
  if (offload.needs_checksum() && (offload.start != tcp || offload.offset != 16)) return std::nullopt;
  return std::min(length, static_cast<int64_t>(*payload) + offload.segment_size);
}

void SettleOffload(Offload* offload, Bytes* frame) {
  offload->header_length = offload->is_super_frame() ? static_cast<int>(*TcpPayload(*frame)) : 0;
  if (!offload->needs_checksum() || offload->is_super_frame()) return;
  const std::optional<Ipv4Headers> headers = FindIpv4(*frame);
  constexpr int kPorts = 4;  // bytes of them
  if (headers && offload->start + offload->offset >= static_cast<int>(headers->transport) + kPorts) return;
  *frame = WithChecksum(*offload, std::move(*frame));
  *offload = {};
}

Offload Moved(Offload offload, int delta) {
  if (offload.needs_checksum()) offload.start += delta;
  if (offload.header_length != 0) offload.header_length += delta;
  return offload;
}

Bytes WithChecksum(const Offload& offload, Bytes frame) {
  const auto start = static_cast<size_t>(offload.start);
  const unsigned checksum = Complement(Sum(frame, start, frame.size()));
  PutBig16(&frame, start + static_cast<size_t>(offload.offset), checksum == 0 ? 65535 : checksum);
  return frame;
}

std::vector<Bytes> Segments(const Offload& offload, const Bytes& frame) {
  const Ipv4Headers at = *FindIpv4(frame);
  const size_t start = *TcpPayload(frame);
  const auto size = static_cast<size_t>(offload.segment_size);
  const size_t payload = frame.size() - start;
  const size_t count = std::max<size_t>(1, (payload + size - 1) / size);
  std::vector<Bytes> segments;
  for (size_t i = 0; i < count; ++i) {
    const size_t from = start + i * size, to = std::min(frame.size(), from + size);
    Bytes segment(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(start));
    segment.insert(segment.end(), frame.begin() + static_cast<std::ptrdiff_t>(from),
                   frame.begin() + static_cast<std::ptrdiff_t>(to));
    PutBig16(&segment, at.ip + 2, static_cast<unsigned>(segment.size() - at.ip));
    PutBig16(&segment, at.ip + 4, Big16(frame, at.ip + 4) + static_cast<unsigned>(i));
    PutBig16(&segment, at.ip + 10, 0);
    PutBig16(&segment, at.ip + 10, Complement(Sum(segment, at.ip, at.transport)));
    unsigned sequence = Big16(frame, at.transport + 4) * 65536 + Big16(frame, at.transport + 6);
    sequence += static_cast<unsigned>(i * size);
    PutBig16(&segment, at.transport + 4, sequence >> 16);
    PutBig16(&segment, at.transport + 6, sequence);
    uint8_t& flags = segment[at.transport + 13];
    if (i != 0) flags &= 0x7f;          // CWR on the first only
    if (i + 1 != count) flags &= 0xf6;  // FIN, PSH on the last only
    PutBig16(&segment, at.transport + 16, 0);
    const auto length = static_cast<unsigned>(segment.size() - at.transport);
    const unsigned pseudo = Sum(segment, at.ip + 12, at.ip + 20) + 6 + length;
    PutBig16(&segment, at.transport + 16, Complement(Sum(segment, at.transport, segment.size()) + pseudo));
    segments.push_back(segment);
  }
  return segments;
}

}  // namespace ringswitch::sim
