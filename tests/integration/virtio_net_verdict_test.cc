// What the switch and the kernel say of one virtio-net header: WireLength, which decides at the ingress port
// whether a frame is let in, and a write to a TAP made as the product makes it.
//
// Theory of operation. A seed makes frames (TCP and UDP over IPv4 and IPv6, with options and extension
// headers, others, fragments, up to three tags), cuts them anywhere and puts a header before each that is
// right in most fields and at a boundary in some. Both must say the same, but for the differences listed
// below, which are decided from what the frame was made of, not from what the code under test finds in it.
// What is let in is then written as the switch would: as it came, with a tag more, and with one less. The
// kernel has to take all of it: a refusal there would be a lost frame. RINGSWITCH_SEED repeats a run,
// RINGSWITCH_STEPS says how many headers. The differences; there are no others:
//
// Stricter than the kernel, which looks at no header behind the Ethernet one when a TAP is written to:
//   kUfo             fragments by UDP fragmentation offload: nobody was ever offered it, and no port could
//                    segment it.
//   kUnknownHeaders  a super-frame whose own headers are not those its type names, or are cut: neither what
//                    it will be on a wire nor its segments can be told. The kernel finds out, and drops it
//                    without a word, when it has to segment.
//   kInnerChecksum   a super-frame whose checksum is not its outer header's: one in a tunnel (decision 15).
//   kNearStart       a checksum that starts before byte 24. New kernels (6.18) take none before byte 20, old
//                    ones (6.1) do; a tag in front of it may be popped. No network header is that short.
//   kFarStart        one that starts near 64 KiB, where 16 bits do not hold a tag more and the room that a
//                    kernel keeps in front of a frame. How much that is differs, so the margin is wider.
// Laxer:
//   kHint            hdr_len is a hint that some devices have wrong: the switch writes its own, and the
//                    kernel takes that.
//   kNoUso           a kernel before 6.2 refuses UDP super-frames. It gives none away either.

#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "dataplane/io/virtio_net_header.h"
#include "tests/integration/testbed.h"

namespace ringswitch::test {
namespace {

using io::VirtioNetHeader;

constexpr uint64_t kCases = 200'000;
constexpr uint32_t kFrameMax =
    66'000;  // a super-frame of 64 KiB behind its Ethernet header and tags, and some more
constexpr uint32_t kHeaderSize = sizeof(VirtioNetHeader);
constexpr uint32_t kTagLength = 4;
constexpr uint8_t kTcp = 6, kUdp = 17;
constexpr uint8_t kGsoUfo = 3;  // UDP fragmentation offload, which the product does not know

// --- frames, and what is known of them ---

struct Frame {
  Bytes bytes;           // kFrameMax of them; how many are used is said elsewhere
  uint8_t protocol = 0;  // kTcp or kUdp in one piece behind an IP header; 0: anything else
  bool is_ipv6 = false;
  bool has_valid_tcp = true;  // its data offset is not below its minimum
  uint32_t tags = 0;
  uint32_t transport = 0;  // of TCP or UDP
  uint32_t payload = 0;    // of what is behind that
};

void Append(Frame* frame, std::initializer_list<int> bytes) {
  for (int byte : bytes) frame->bytes.push_back(static_cast<uint8_t>(byte));
}

class Frames {
 public:
  explicit Frames(std::mt19937_64* random) : random_(*random) {}

  Frame Make() {
    Frame frame;
    Append(&frame, {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2});
    frame.tags = OneIn(2) ? 0 : static_cast<uint32_t>(Below(4));
    for (uint32_t i = 0; i < frame.tags; ++i) Append(&frame, {OneIn(3) ? 0x88 : 0x81, 0, 0, 10});
    for (uint32_t i = 0; i < frame.tags; ++i)  // 88a8 is written whole
      if (frame.bytes[12 + 4 * i] == 0x88) frame.bytes[13 + 4 * i] = 0xa8;
    switch (Below(8)) {
      case 0:
        AppendOther(&frame);
        break;
      case 1:
      case 2:
      case 3:
        AppendIpv6(&frame);
        break;
      default:
        AppendIpv4(&frame);
    }
    frame.bytes.resize(kFrameMax);
    return frame;
  }

 private:
  uint64_t Below(uint64_t end) { return random_() % end; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  void AppendOther(Frame* frame) {
    if (OneIn(2))
      Append(frame, {8, 6, 0, 1, 8, 0, 6, 4, 0, 1});
    else
      Append(frame, {0x88, 0xb5, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kTcp});
  }

  void AppendIpv4(Frame* frame) {
    const int words = OneIn(4) ? static_cast<int>(5 + Below(11)) : 5;
    const bool is_fragment = OneIn(10), has_transport = !OneIn(10);
    const uint8_t protocol = !has_transport ? 1 : OneIn(2) ? kTcp : kUdp;
    Append(frame, {8, 0, 0x40 | words, 0, 0, 0, 0, 0, is_fragment ? 0x20 : 0x40, 0, 64, protocol, 0, 0});
    Append(frame, {10, 0, 0, 1, 10, 0, 0, 2});
    frame->bytes.resize(frame->bytes.size() + static_cast<size_t>(words - 5) * 4, 1);
    AppendTransport(frame, protocol, has_transport && !is_fragment);
  }

  void AppendIpv6(Frame* frame) {
    frame->is_ipv6 = true;
    const bool has_transport = !OneIn(10);
    const uint8_t protocol = !has_transport ? 58 : OneIn(2) ? kTcp : kUdp;
    const uint64_t extensions = OneIn(4) ? 1 + Below(3) : 0;
    constexpr uint8_t kExtensions[] = {0, 60, 43};
    Append(frame, {0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, extensions > 0 ? kExtensions[0] : protocol, 64});
    frame->bytes.resize(frame->bytes.size() + 32, 0xfd);
    for (uint64_t i = 0; i < extensions; ++i) {
      const int units = static_cast<int>(Below(3));
      Append(frame, {i + 1 < extensions ? kExtensions[i + 1] : protocol, units});
      frame->bytes.resize(frame->bytes.size() + static_cast<size_t>(units) * 8 + 6, 0);
    }
    AppendTransport(frame, protocol, has_transport);
  }

  void AppendTransport(Frame* frame, uint8_t protocol, bool in_one_piece) {
    frame->transport = static_cast<uint32_t>(frame->bytes.size());
    uint32_t length = 8;
    if (protocol == kTcp) {
      const auto words = static_cast<uint32_t>(OneIn(20) ? Below(5) : OneIn(2) ? 5 : 5 + Below(11));
      frame->has_valid_tcp = words >= 5;
      length = std::max(words, 5u) * 4;
      frame->bytes.resize(frame->transport + length, 0);
      frame->bytes[frame->transport + 12] = static_cast<uint8_t>(words << 4);
    }
    frame->payload = frame->transport + length;
    // The switch looks behind two tags, as does who is asked for a tagged frame's protocol.
    if (in_one_piece && frame->tags <= 2) frame->protocol = protocol;
  }

  std::mt19937_64& random_;
};

// --- headers ---

struct Case {
  const Frame* frame = nullptr;
  uint32_t length = 0;
  VirtioNetHeader header;

  uint8_t type() const { return header.gso_type & static_cast<uint8_t>(~io::kGsoEcn); }
  bool is_super_frame() const { return header.gso_type != io::kGsoNone; }
  bool needs_checksum() const { return (header.flags & io::kNeedsChecksum) != 0; }
};

class Cases {
 public:
  explicit Cases(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 400; ++i) frames_.push_back(Frames(&random_).Make());
  }

  Case Next() {
    Case next;
    next.frame = &frames_[Below(frames_.size())];
    next.length = Length(*next.frame);
    next.header = Right(*next.frame);
    for (uint64_t faults = OneIn(4) ? 0 : 1 + Below(3); faults > 0; --faults)
      Spoil(next.length, &next.header);
    return next;
  }

 private:
  uint64_t Below(uint64_t end) { return random_() % end; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  uint32_t Near(uint32_t value) { return std::max(value + static_cast<uint32_t>(Below(7)), 3u) - 3; }

  uint32_t Length(const Frame& frame) {
    if (OneIn(30)) return static_cast<uint32_t>(65'440 + Below(kFrameMax - 65'440 + 1));
    if (OneIn(4)) return std::max(14u, Near(frame.payload));
    if (OneIn(6)) return static_cast<uint32_t>(14 + Below(60));
    constexpr uint32_t kUsual[] = {60, 64, 1514, 1518, 3000, 9014};
    return kUsual[Below(std::size(kUsual))];
  }

  // As a kernel would give it with the frame, super-frame or not.
  VirtioNetHeader Right(const Frame& frame) {
    VirtioNetHeader header;
    if (OneIn(5)) return header;
    const bool is_tcp = frame.protocol != kUdp;
    header.flags = io::kNeedsChecksum;
    header.csum_start = static_cast<uint16_t>(frame.transport);
    header.csum_offset = is_tcp ? 16 : 6;
    if (OneIn(3)) return header;
    header.gso_type = !is_tcp ? io::kGsoUdp : frame.is_ipv6 ? io::kGsoTcp6 : io::kGsoTcp4;
    constexpr uint16_t kSizes[] = {8, 64, 100, 536, 1000, 1448, 8948};
    header.gso_size = kSizes[Below(std::size(kSizes))];
    header.hdr_len = static_cast<uint16_t>(frame.payload);
    return header;
  }

  void Spoil(uint32_t length, VirtioNetHeader* header) {
    switch (Below(7)) {
      case 0:
        header->flags = static_cast<uint8_t>(OneIn(3) ? Below(256) : Below(4));
        break;
      case 1:
        header->gso_type = Type();
        break;
      case 2:
        header->gso_type ^= io::kGsoEcn;
        break;
      case 3:
        header->gso_size = Boundary(length);
        break;
      case 4:
        header->hdr_len = Boundary(length);
        break;
      case 5:
        header->csum_start =
            length > 0xffff && OneIn(2) ? static_cast<uint16_t>(0xffff - Below(400)) : Boundary(length);
        break;
      default:
        header->csum_offset = OneIn(2) ? static_cast<uint16_t>(Below(24)) : Boundary(length);
    }
  }
  uint8_t Type() { return static_cast<uint8_t>(OneIn(4) ? Below(256) : Below(7)); }
  uint16_t Boundary(uint32_t length) {
    const uint32_t values[] = {0,  8,      14,     20,     24,         34,          38,          42,
                               54, 65'535, 65'400, length, length / 2, length / 64, length / 128};
    const uint32_t value = values[Below(std::size(values))];
    return static_cast<uint16_t>(OneIn(6) ? Below(65'536) : std::min(Near(value), 65'535u));
  }

  std::mt19937_64 random_;
  std::vector<Frame> frames_;
};

// --- the differences ---

enum Difference : uint8_t {
  kNone,
  kUfo,
  kUnknownHeaders,
  kInnerChecksum,
  kNearStart,
  kFarStart,
  kHint,
  kNoUso
};
constexpr const char* kNames[] = {"the same",  "UFO",  "unknown headers", "inner checksum", "near start",
                                  "far start", "hint", "no USO"};

// What the switch does not let in, whatever the kernel says.
Difference Stricter(const Case& one) {
  const Frame& frame = *one.frame;
  if (one.needs_checksum() && one.header.csum_start < 20 + kTagLength) return kNearStart;
  if (one.needs_checksum() && one.header.csum_start > 0xff00) return kFarStart;
  if (!one.is_super_frame()) return kNone;
  if (one.type() == kGsoUfo) return kUfo;
  const bool is_tcp = one.type() == io::kGsoTcp4 || one.type() == io::kGsoTcp6;
  if (frame.protocol != (is_tcp ? kTcp : kUdp) || one.length < frame.payload) return kUnknownHeaders;
  if (is_tcp && (!frame.has_valid_tcp || frame.is_ipv6 != (one.type() == io::kGsoTcp6)))
    return kUnknownHeaders;
  if (one.needs_checksum() && one.header.csum_start != frame.transport) return kInnerChecksum;
  return kNone;
}

// As the kernel counts: with a checksum to be written, the hint reaches at least there.
bool IsHintRefused(const Case& one) {
  if (one.header.hdr_len == 0) return false;
  uint32_t hint = one.header.hdr_len;
  if (one.needs_checksum())
    hint = std::max<uint32_t>(hint, one.header.csum_start + one.header.csum_offset + 2u);
  return hint > one.length || hint < 14;
}

// --- the two verdicts ---

class VirtioNetVerdict : public testing::Test {
 protected:
  VirtioNetVerdict() : buffer_(kHeaderSize + kFrameMax + kTagLength) {
    EnterFreshNamespace();
    tap_ = *OpenTap("p0", true);
    SetLinkUp("p0", true);
    constexpr unsigned kOffloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN, kUso = 0x20 | 0x40;
    has_uso_ = ::ioctl(tap_.fd(), TUNSETOFFLOAD, kOffloads | kUso) == 0;
  }

  bool KernelTakes(const VirtioNetHeader& header, const uint8_t* frame, uint32_t length) {
    io::StoreVirtioNetHeader(header, buffer_.data());
    std::memcpy(&buffer_[kHeaderSize], frame, length);
    const ssize_t size = ::write(tap_.fd(), buffer_.data(), kHeaderSize + length);
    if (size >= 0) return true;
    EXPECT_EQ(errno, EINVAL);
    return false;
  }
  bool KernelTakes(const Case& one) { return KernelTakes(one.header, one.frame->bytes.data(), one.length); }

  bool KernelTakesButForHint(const Case& one, bool* is_hint);
  void ExpectKernelTakesAll(const VirtioNetHeader& header, const Bytes& frame);
  Difference Compare(const Case& one);

  static std::string Text(const Case& one) {
    const VirtioNetHeader& header = one.header;
    char text[256];
    std::snprintf(
        text, sizeof text, "flags %u type %u hdr_len %u gso_size %u csum %u+%u, frame of %u: ", header.flags,
        header.gso_type, header.hdr_len, header.gso_size, header.csum_start, header.csum_offset, one.length);
    return text + ToHex({one.frame->bytes.begin(), one.frame->bytes.begin() + std::min(one.length, 120u)});
  }

  Bytes buffer_;
  File tap_;
  bool has_uso_ = false;
  uint64_t let_in_ = 0;
  uint64_t refused_ = 0;
};

// --- what was let in ---

// What the frame is on a wire, and the header that goes with it from here.
void ExpectWire(const Case& one, const VirtioNetHeader& passed_on, uint32_t wire_length) {
  const uint32_t headers = one.is_super_frame() ? one.frame->payload : 0;
  const uint32_t whole = one.is_super_frame() ? headers + one.header.gso_size : one.length;
  EXPECT_EQ(wire_length, std::min(one.length, whole));
  VirtioNetHeader expected = one.header;
  expected.hdr_len = static_cast<uint16_t>(headers);
  EXPECT_EQ(std::memcmp(&passed_on, &expected, kHeaderSize), 0);
}

VirtioNetHeader Moved(const VirtioNetHeader& header, int delta) {
  uint8_t bytes[kHeaderSize];
  io::StoreVirtioNetHeader(header, bytes);
  io::MoveOffsets(bytes, delta);
  return io::LoadVirtioNetHeader(bytes);
}

// As the switch passes it on: as it is, with a tag more, and with one less.
void VirtioNetVerdict::ExpectKernelTakesAll(const VirtioNetHeader& header, const Bytes& frame) {
  const auto length = static_cast<uint32_t>(frame.size());
  EXPECT_TRUE(KernelTakes(header, frame.data(), length));
  constexpr uint8_t kTag[kTagLength] = {0x81, 0, 0, 20};
  Bytes other = frame;
  other.insert(other.begin() + 12, std::begin(kTag), std::end(kTag));
  EXPECT_TRUE(KernelTakes(Moved(header, kTagLength), other.data(), length + kTagLength)) << "with a tag more";
  if (length < 14 + kTagLength || frame[12] != 0x81) return;
  other = frame;
  other.erase(other.begin() + 12, other.begin() + 12 + kTagLength);
  EXPECT_TRUE(KernelTakes(Moved(header, -static_cast<int>(kTagLength)), other.data(), length - kTagLength))
      << "with a tag less";
}

// --- the comparison ---

// What the kernel says once the hint is right, and whether that made a difference.
bool VirtioNetVerdict::KernelTakesButForHint(const Case& one, bool* is_hint) {
  const bool takes = KernelTakes(one);
  *is_hint = IsHintRefused(one);
  if (!*is_hint) return takes;
  EXPECT_FALSE(takes) << "the hint is wrong";
  Case other = one;
  other.header.hdr_len = 0;
  return KernelTakes(other);
}

Difference VirtioNetVerdict::Compare(const Case& one) {
  bool is_hint = false;
  const bool kernel_takes = KernelTakesButForHint(one, &is_hint);
  const Bytes frame(one.frame->bytes.begin(),
                    one.frame->bytes.begin() + one.length);  // and nothing readable behind
  uint8_t bytes[kHeaderSize];
  io::StoreVirtioNetHeader(one.header, bytes);
  const std::optional<uint32_t> wire_length = io::WireLength(bytes, frame.data(), one.length);
  const VirtioNetHeader passed_on = io::LoadVirtioNetHeader(bytes);
  if (wire_length) ExpectWire(one, passed_on, *wire_length);
  if (!has_uso_ && one.type() == io::kGsoUdp) {
    EXPECT_FALSE(kernel_takes);
    return kNoUso;
  }
  const Difference stricter = Stricter(one);
  EXPECT_EQ(wire_length.has_value(), kernel_takes && stricter == kNone)
      << "the kernel says " << kernel_takes
      << (stricter == kNone ? "" : std::string(", decided: ") + kNames[stricter]);
  if (wire_length) ExpectKernelTakesAll(passed_on, frame);
  ++(wire_length ? let_in_ : refused_);
  if (kernel_takes && stricter != kNone) return stricter;
  return kernel_takes && is_hint ? kHint : kNone;
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST_F(VirtioNetVerdict, IsTheKernels) {
  const uint64_t seed = FromEnvironment("RINGSWITCH_SEED", std::random_device()());
  const uint64_t count = FromEnvironment("RINGSWITCH_STEPS", kCases);
  Cases cases(seed);
  uint64_t differences[std::size(kNames)] = {};
  for (uint64_t i = 0; i < count; ++i) {
    const Case one = cases.Next();
    ++differences[Compare(one)];
    ASSERT_FALSE(HasFailure()) << "RINGSWITCH_SEED=" << seed << ", header " << i << ": " << Text(one);
  }
  std::printf("seed %lu: %lu let in, %lu refused by both or by decision;", seed, let_in_, refused_);
  for (size_t i = 0; i < std::size(kNames); ++i) {
    std::printf(" %s %lu%s", kNames[i], differences[i], i + 1 < std::size(kNames) ? "," : "\n");
    EXPECT_TRUE(differences[i] > 0 || i == kNoUso) << kNames[i] << " is listed, and never seen";
  }
  EXPECT_EQ(differences[kNoUso] > 0, !has_uso_);
  EXPECT_GT(let_in_, count / 5);
  EXPECT_GT(refused_, count / 5);
}

}  // namespace
}  // namespace ringswitch::test
