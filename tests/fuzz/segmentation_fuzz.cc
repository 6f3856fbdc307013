// virtio-net header, checksums and segmentation, each against the same written down in the plainest way:
// whole frames as vectors, checksums added up byte pair by byte pair.
//
// Theory of operation. The input describes a frame of TCP or UDP over IPv4 or IPv6, with tags, options,
// extension headers and payload, and the header that a pod would send with it; then it pokes single bytes of
// both. Or it is a header and a frame as they stand. What becomes of it is asked of the product and of the
// reference, and must be the same: the verdict, the length on the wire, each segment byte by byte, the
// completed checksum.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "dataplane/io/checksum.h"
#include "dataplane/io/segmentation.h"
#include "dataplane/io/virtio_net_header.h"
#include "tests/fuzz/input.h"

namespace ringswitch::io {
namespace {

using fuzz::Bytes;
using fuzz::Input;
using fuzz::Require;

constexpr size_t kFrameMax = 65'535 + 14 + 8;
constexpr uint8_t kGsoTypes[] = {kGsoNone,           kGsoTcp4,           kGsoTcp6, kGsoUdp,
                                 kGsoTcp4 | kGsoEcn, kGsoTcp6 | kGsoEcn, 3};

struct Sample {
  VirtioNetHeader header;
  Bytes frame;
};

// --- the reference ---

size_t Number(const Bytes& bytes, size_t at) {
  return bytes[at] * size_t{256} + bytes[at + 1];
}
void Set(Bytes* bytes, size_t at, size_t number) {
  (*bytes)[at] = static_cast<uint8_t>(number / 256);
  (*bytes)[at + 1] = static_cast<uint8_t>(number);
}

uint16_t PlainChecksum(const Bytes& bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? bytes[i] * 256u : bytes[i];
    if (sum > 0xffff) sum -= 0xffff;
  }
  return static_cast<uint16_t>(0xffff - sum);
}

struct PlainLayout {
  bool is_ipv6 = false, is_tcp = false, has_routing = false;
  size_t tags = 0, network = 0, transport = 0, payload = 0;
};

std::optional<PlainLayout> LayoutOf(const Bytes& frame) {
  PlainLayout layout;
  size_t at = 12;
  for (;; at += 4, ++layout.tags) {
    if (frame.size() < at + 2) return std::nullopt;
    if (Number(frame, at) != 0x8100 && Number(frame, at) != 0x88a8) break;
    if (layout.tags == 2) return std::nullopt;
  }
  const size_t type = Number(frame, at);
  at += 2;
  layout.network = at;
  uint8_t protocol = 0;
  if (type == 0x0800) {
    if (frame.size() < at + 20 || frame[at] / 16 != 4 || frame[at] % 16 < 5) return std::nullopt;
    const bool is_fragment = (frame[at + 6] & 0x3f) != 0 || frame[at + 7] != 0;
    if (is_fragment) return std::nullopt;
    protocol = frame[at + 9];
    layout.transport = at + frame[at] % 16 * 4u;
  } else if (type == 0x86dd) {
    if (frame.size() < at + 40 || frame[at] / 16 != 6) return std::nullopt;
    layout.is_ipv6 = true;
    protocol = frame[at + 6];
    at += 40;
    for (int headers = 0; protocol == 0 || protocol == 43 || protocol == 60; ++headers) {
      if (headers == 4 || frame.size() < at + 8) return std::nullopt;
      if (protocol == 43) layout.has_routing = true;
      protocol = frame[at];
      at += 8 + frame[at + 1] * 8u;
    }
    layout.transport = at;
  } else {
    return std::nullopt;
  }
  layout.is_tcp = protocol == 6;
  if (!layout.is_tcp && protocol != 17) return std::nullopt;
  size_t header_length = 8;
  if (layout.is_tcp) {
    if (frame.size() < layout.transport + 20) return std::nullopt;
    header_length = frame[layout.transport + 12] / 16 * 4u;
    if (header_length < 20) return std::nullopt;
  }
  layout.payload = layout.transport + header_length;
  if (frame.size() < layout.payload) return std::nullopt;
  return layout;
}

bool IsOfType(const PlainLayout& layout, uint8_t gso_type) {
  const uint8_t type = gso_type & 0x7f;
  return layout.is_tcp ? type == (layout.is_ipv6 ? 4 : 1) : type == 5;
}

std::optional<size_t> PlainWireLength(const Sample& sample) {
  const auto& [header, frame] = sample;
  const bool has_checksum = header.flags % 2 == 1;
  if (has_checksum &&
      (header.csum_start < 14 || size_t{header.csum_start} + header.csum_offset + 2 > frame.size())) {
    return std::nullopt;
  }
  if (header.gso_type == 0) return frame.size();
  const std::optional<PlainLayout> layout = LayoutOf(frame);
  if (header.gso_size == 0 || !layout || !IsOfType(*layout, header.gso_type)) return std::nullopt;
  if (has_checksum &&
      (header.csum_start != layout->transport || header.csum_offset != (layout->is_tcp ? 16 : 6))) {
    return std::nullopt;
  }
  return std::min(frame.size(), layout->payload + header.gso_size);
}

// Segment `number`, with `data` behind the frame's headers.
Bytes PlainSegment(const Bytes& frame, const PlainLayout& layout, const Bytes& data, size_t number,
                   size_t offset, bool is_last) {
  Bytes out(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(layout.payload));
  out.insert(out.end(), data.begin(), data.end());
  const size_t ip = layout.network, tcp = layout.transport;
  Bytes pseudo;  // header, then the segment itself
  if (layout.is_ipv6) {
    Set(&out, ip + 4, out.size() - ip - 40);
    pseudo.assign(&out[ip + 8], &out[ip + 40]);
  } else {
    Set(&out, ip + 2, out.size() - ip);
    Set(&out, ip + 4, Number(out, ip + 4) + number);
    Set(&out, ip + 10, 0);
    Set(&out, ip + 10, PlainChecksum(Bytes(&out[ip], out.data() + tcp)));
    pseudo.assign(&out[ip + 12], &out[ip + 20]);
  }
  if (layout.is_tcp) {
    size_t sequence = Number(out, tcp + 4) * 65536 + Number(out, tcp + 6) + offset;
    Set(&out, tcp + 4, sequence / 65536);
    Set(&out, tcp + 6, sequence);
    if (number != 0) out[tcp + 13] &= 0x7f;
    if (!is_last) out[tcp + 13] &= 0xf6;
  } else {
    Set(&out, tcp + 4, out.size() - tcp);
  }
  const size_t field = tcp + (layout.is_tcp ? 16 : 6);
  Set(&out, field, 0);
  const size_t transport_length = out.size() - tcp;
  for (const size_t part :
       {transport_length >> 24, transport_length >> 16, transport_length >> 8, transport_length})
    pseudo.push_back(static_cast<uint8_t>(part));
  for (const uint8_t part : {0, 0, 0, layout.is_tcp ? 6 : 17}) pseudo.push_back(part);
  pseudo.insert(pseudo.end(), out.data() + tcp, out.data() + out.size());
  const uint16_t checksum = PlainChecksum(pseudo);
  Set(&out, field, checksum == 0 && !layout.is_tcp ? 0xffff : checksum);
  return out;
}

std::vector<Bytes> PlainSegments(const Sample& sample, const PlainLayout& layout) {
  const Bytes data(sample.frame.begin() + static_cast<std::ptrdiff_t>(layout.payload), sample.frame.end());
  std::vector<Bytes> segments;
  size_t offset = 0;
  do {
    const size_t end = std::min(data.size(), offset + sample.header.gso_size);
    const Bytes piece(data.data() + offset, data.data() + end);
    segments.push_back(
        PlainSegment(sample.frame, layout, piece, segments.size(), offset, end == data.size()));
    offset = end;
  } while (offset < data.size());
  return segments;
}

// --- samples ---

void Append(size_t number, int bytes, Bytes* out) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    out->push_back(static_cast<uint8_t>(number >> shift));
}

void Fill(size_t count, Input* input, Bytes* out) {
  const Bytes bytes = input->Take(std::min<size_t>(count, input->Byte()));
  out->insert(out->end(), bytes.begin(), bytes.end());
  for (size_t i = bytes.size(); i < count; ++i) out->push_back(static_cast<uint8_t>(i * 7 + count));
}

// IP header and what belongs to it, before a transport header of `protocol`.
void AppendIp(bool is_ipv6, uint8_t protocol, size_t behind, Input* input, Bytes* frame) {
  if (!is_ipv6) {
    const size_t options = input->Below(11);
    Append(0x4500 + options * 256, 2, frame);
    Append(20 + options * 4 + behind, 2, frame);
    Append(input->Word(), 2, frame);
    Append(0x4000, 2, frame);
    Append(64 * 256 + protocol, 2, frame);
    Append(0, 2, frame);
    Fill(8 + options * 4, input, frame);
    return;
  }
  const size_t headers = input->Below(6);
  static constexpr uint8_t kKinds[] = {60, 60, 0, 43};
  uint8_t kinds[6];
  for (size_t i = 0; i < headers; ++i) kinds[i] = input->Pick(kKinds);
  kinds[headers] = protocol;
  Append(0x6000'0000, 4, frame);
  Append(behind + headers * 8, 2, frame);
  Append(kinds[0] * 256u + 64, 2, frame);
  Fill(32, input, frame);
  for (size_t i = 0; i < headers; ++i) {
    const bool is_long = input->OneIn(4);
    Append(kinds[i + 1] * 256u + (is_long ? 1 : 0), 2, frame);
    Fill(is_long ? 14 : 6, input, frame);
  }
}

Sample ReadDescribed(Input* input) {
  Sample sample;
  Bytes& frame = sample.frame;
  const bool is_ipv6 = input->OneIn(2), is_tcp = !input->OneIn(3);
  Fill(12, input, &frame);
  for (unsigned i = input->Below(4); i > 0; --i)
    Append(input->OneIn(4) ? 0x88a8'0064 : 0x8100'200a, 4, &frame);
  Append(is_ipv6 ? 0x86dd : 0x0800, 2, &frame);
  const size_t options = is_tcp ? input->Below(11) * 4u : 0;
  const size_t transport_length = is_tcp ? 20 + options : 8;
  size_t payload = input->Word() % 3000;
  if (input->OneIn(8)) payload = input->Word() % 65'000;
  AppendIp(is_ipv6, is_tcp ? 6 : 17, transport_length + payload, input, &frame);
  const size_t transport = frame.size();
  Append(0x0400'0500, 4, &frame);
  if (is_tcp) {
    Append(input->Number(4), 4, &frame);
    Append(77, 4, &frame);
    Append((transport_length / 4) << 12 | input->Byte(), 2, &frame);
    Append(512, 2, &frame);
    Append(input->Word(), 2, &frame);
    Append(0, 2, &frame);
    Fill(options, input, &frame);
  } else {
    Append(8 + payload, 2, &frame);
    Append(input->Word(), 2, &frame);
  }
  Fill(payload, input, &frame);
  VirtioNetHeader& header = sample.header;
  header.flags = input->OneIn(8) ? input->Byte() : kNeedsChecksum;
  header.gso_type = is_tcp ? (is_ipv6 ? kGsoTcp6 : kGsoTcp4) : kGsoUdp;
  if (input->OneIn(4)) header.gso_type = input->Pick(kGsoTypes);
  header.gso_size = input->OneIn(4) ? input->Word() : static_cast<uint16_t>(1 + input->Word() % 1500);
  header.csum_start = static_cast<uint16_t>(transport);
  header.csum_offset = is_tcp ? 16 : 6;
  header.hdr_len = input->OneIn(2) ? input->Word() : uint16_t{0};
  return sample;
}

Sample ReadSample(Input* input) {
  Sample sample;
  const bool is_raw = input->OneIn(4);
  if (!is_raw) sample = ReadDescribed(input);
  uint8_t bytes[sizeof sample.header];
  StoreVirtioNetHeader(sample.header, bytes);
  for (unsigned i = is_raw ? 10 : input->Below(4); i > 0; --i)
    bytes[is_raw ? 10 - i : input->Below(sizeof bytes)] = input->Byte();
  sample.header = LoadVirtioNetHeader(bytes);
  if (is_raw) sample.frame = input->Take(input->left());
  while (!is_raw && !input->ended() && !sample.frame.empty()) {
    const size_t at = input->Byte() % std::min<size_t>(sample.frame.size(), 120);
    sample.frame[at] = input->Byte();
    if (input->OneIn(32)) sample.frame.resize(input->Byte() % (sample.frame.size() + 1));
  }
  sample.frame.resize(std::min(sample.frame.size(), kFrameMax));
  return sample;
}

// --- one held against the other ---

// Exactly as long as `bytes`, so that AddressSanitizer sees what is read or written beyond.
std::unique_ptr<uint8_t[]> Copy(const Bytes& bytes) {
  std::unique_ptr<uint8_t[]> copy(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return copy;
}

void CheckSegments(const Sample& sample) {
  const auto length = static_cast<uint32_t>(sample.frame.size());
  const std::unique_ptr<uint8_t[]> frame = Copy(sample.frame);
  const std::optional<Segmentation> segmentation = Segmentation::Of(sample.header, frame.get(), length);
  const std::optional<PlainLayout> layout = LayoutOf(sample.frame);
  const bool is_good = layout && sample.header.gso_size != 0 && IsOfType(*layout, sample.header.gso_type) &&
                       !layout->has_routing &&
                       sample.frame.size() - layout->payload <= size_t{kSegmentsMax} * sample.header.gso_size;
  Require(segmentation.has_value() == is_good, "what can be segmented is");
  if (!is_good) return;
  const std::vector<Bytes> expected = PlainSegments(sample, *layout);
  Require(segmentation->count() == expected.size(), "as many segments");
  for (uint32_t i = 0; i < expected.size(); ++i) {
    Require(expected[i].size() <= segmentation->length_max(), "no segment is longer than it may be");
    const std::unique_ptr<uint8_t[]> out(new uint8_t[expected[i].size()]);
    Require(segmentation->Make(i, out.get()) == expected[i].size(), "a segment's length");
    Require(std::equal(expected[i].begin(), expected[i].end(), out.get()), "a segment's bytes");
  }
  Require(std::equal(sample.frame.begin(), sample.frame.end(), frame.get()),
          "the super-frame stays as it is");
}

void CheckChecksum(const Sample& sample) {
  const std::unique_ptr<uint8_t[]> frame = Copy(sample.frame);
  CompleteChecksum(sample.header, frame.get(), static_cast<uint32_t>(sample.frame.size()));
  Bytes expected = sample.frame;
  const uint16_t checksum = PlainChecksum(Bytes(expected.begin() + sample.header.csum_start, expected.end()));
  Set(&expected, size_t{sample.header.csum_start} + sample.header.csum_offset,
      checksum == 0 ? 0xffff : checksum);
  Require(std::equal(expected.begin(), expected.end(), frame.get()), "the completed checksum");
}

// A tag more is a header that says the same, of a frame that is longer by it.
void CheckTagged(const Sample& sample, size_t wire_length) {
  uint8_t bytes[sizeof(VirtioNetHeader)], moved[sizeof bytes];
  StoreVirtioNetHeader(sample.header, bytes);
  std::memcpy(moved, bytes, sizeof moved);
  Sample tagged = sample;
  MoveOffsets(moved, 4);
  tagged.header = LoadVirtioNetHeader(moved);
  const uint8_t tag[] = {0x81, 0, 0, 10};
  tagged.frame.insert(tagged.frame.begin() + 12, std::begin(tag), std::end(tag));
  const std::optional<size_t> tagged_length = PlainWireLength(tagged);
  const bool is_crowded = sample.header.gso_type != kGsoNone && LayoutOf(sample.frame)->tags == 2;
  Require(is_crowded || tagged_length == wire_length + 4, "a tag moves the header's offsets");
  MoveOffsets(moved, -4);
  Require(std::memcmp(bytes, moved, sizeof bytes) == 0, "and back");
}

void Check(Sample sample) {
  const auto length = static_cast<uint32_t>(sample.frame.size());
  uint8_t bytes[sizeof(VirtioNetHeader)];
  StoreVirtioNetHeader(sample.header, bytes);
  const std::unique_ptr<uint8_t[]> frame = Copy(sample.frame);
  const std::optional<uint32_t> wire_length = WireLength(bytes, frame.get(), length);
  const std::optional<size_t> expected = PlainWireLength(sample);
  // What kernels refuse beside is compared with them (tests/integration).
  Require(!wire_length.has_value() || expected.has_value(), "no header is taken that contradicts its frame");
  CheckSegments(sample);
  Require(AddChecksum(frame.get(), length) % 0xffff == (0xffffu - PlainChecksum(sample.frame)) % 0xffff,
          "a sum");
  if (!wire_length) return;
  Require(*wire_length == *expected, "the length on the wire");
  const bool is_super_frame = sample.header.gso_type != kGsoNone;
  sample.header.hdr_len = static_cast<uint16_t>(is_super_frame ? LayoutOf(sample.frame)->payload : 0);
  uint8_t corrected[sizeof bytes];
  StoreVirtioNetHeader(sample.header, corrected);
  Require(std::memcmp(bytes, corrected, sizeof bytes) == 0, "the length of the headers is put right");
  if (sample.frame.size() >= 14) CheckTagged(sample, *wire_length);
  if ((sample.header.flags & kNeedsChecksum) != 0) CheckChecksum(sample);
}

}  // namespace
}  // namespace ringswitch::io

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringswitch::fuzz::Input input(data, size);
  ringswitch::io::Check(ringswitch::io::ReadSample(&input));
  return 0;
}
