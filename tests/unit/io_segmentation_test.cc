// Checksums and segments against a plain reference that works the other way round: it builds every segment
// from a description of the connection, and adds checksums up byte by byte.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "dataplane/io/checksum.h"
#include "dataplane/io/segmentation.h"

namespace ringswitch::io {
namespace {

using Bytes = std::vector<uint8_t>;

// What a frame says, apart from what follows from it.
struct Description {
  std::vector<uint32_t> tags;  // TPID and TCI
  bool is_ipv6 = false;
  bool is_tcp = true;
  size_t extension_headers = 0;  // IPv6 destination options of 8 bytes
  size_t ip_options = 0;         // IPv4, bytes
  size_t tcp_options = 0;        // bytes
  uint16_t identification = 0;
  uint32_t sequence = 0;
  uint8_t tcp_flags = 0x10;
  Bytes payload;
};

void Append(Bytes* bytes, uint64_t value, int size) {
  for (int shift = 8 * (size - 1); shift >= 0; shift -= 8)
    bytes->push_back(static_cast<uint8_t>(value >> shift));
}

uint16_t PlainChecksum(const Bytes& bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? static_cast<uint32_t>(bytes[i]) << 8 : bytes[i];
    if (sum > 0xffff) sum -= 0xffff;
  }
  return static_cast<uint16_t>(0xffff - sum);
}

Bytes Transport(const Description& of, uint16_t checksum) {
  Bytes bytes;
  Append(&bytes, 1000, 2);
  Append(&bytes, 2000, 2);
  if (of.is_tcp) {
    Append(&bytes, of.sequence, 4);
    Append(&bytes, 77, 4);
    bytes.push_back(static_cast<uint8_t>((20 + of.tcp_options) / 4 << 4));
    bytes.push_back(of.tcp_flags);
    Append(&bytes, 512, 2);
    Append(&bytes, checksum, 2);
    Append(&bytes, 0, 2);
    bytes.insert(bytes.end(), of.tcp_options, 1);
  } else {
    Append(&bytes, 8 + of.payload.size(), 2);
    Append(&bytes, checksum, 2);
  }
  bytes.insert(bytes.end(), of.payload.begin(), of.payload.end());
  return bytes;
}

Bytes Addresses(const Description& of) {
  Bytes bytes;
  for (int i = 0; i < (of.is_ipv6 ? 32 : 8); ++i) bytes.push_back(static_cast<uint8_t>(3 * i + 1));
  return bytes;
}

uint16_t TransportChecksum(const Description& of) {
  const Bytes transport = Transport(of, 0);
  Bytes all = Addresses(of);
  Append(&all, transport.size(), 4);
  Append(&all, of.is_tcp ? 6 : 17, 4);
  all.insert(all.end(), transport.begin(), transport.end());
  const uint16_t checksum = PlainChecksum(all);
  return checksum == 0 && !of.is_tcp ? 0xffff : checksum;
}

Bytes Ipv4Header(const Description& of, size_t transport_length, uint16_t checksum) {
  Bytes bytes;
  bytes.push_back(static_cast<uint8_t>(0x40 | (20 + of.ip_options) / 4));
  bytes.push_back(0x2e);
  Append(&bytes, 20 + of.ip_options + transport_length, 2);
  Append(&bytes, of.identification, 2);
  Append(&bytes, 0x4000, 2);
  bytes.push_back(64);
  bytes.push_back(of.is_tcp ? 6 : 17);
  Append(&bytes, checksum, 2);
  const Bytes addresses = Addresses(of);
  bytes.insert(bytes.end(), addresses.begin(), addresses.end());
  bytes.insert(bytes.end(), of.ip_options, 1);
  return bytes;
}

Bytes Ipv6Header(const Description& of, size_t transport_length) {
  const uint8_t protocol = of.is_tcp ? 6 : 17;
  Bytes bytes;
  Append(&bytes, 0x6120'0345, 4);
  Append(&bytes, 8 * of.extension_headers + transport_length, 2);
  bytes.push_back(of.extension_headers != 0 ? 60 : protocol);
  bytes.push_back(64);
  const Bytes addresses = Addresses(of);
  bytes.insert(bytes.end(), addresses.begin(), addresses.end());
  for (size_t i = 0; i < of.extension_headers; ++i) {
    bytes.push_back(i + 1 < of.extension_headers ? 60 : protocol);
    bytes.push_back(0);
    Append(&bytes, 0x0104'0000'0000, 6);
  }
  return bytes;
}

size_t TransportOffset(const Description& of) {
  return 14 + 4 * of.tags.size() + (of.is_ipv6 ? 40 + 8 * of.extension_headers : 20 + of.ip_options);
}

Bytes Frame(const Description& of) {
  Bytes frame;
  Append(&frame, 0x0200'0000'0a01, 6);
  Append(&frame, 0x0200'0000'0a02, 6);
  for (uint32_t tag : of.tags) Append(&frame, tag, 4);
  Append(&frame, of.is_ipv6 ? 0x86dd : 0x0800, 2);
  const Bytes transport = Transport(of, TransportChecksum(of));
  Bytes ip = of.is_ipv6 ? Ipv6Header(of, transport.size()) : Ipv4Header(of, transport.size(), 0);
  if (!of.is_ipv6) ip = Ipv4Header(of, transport.size(), PlainChecksum(ip));
  frame.insert(frame.end(), ip.begin(), ip.end());
  frame.insert(frame.end(), transport.begin(), transport.end());
  return frame;
}

VirtioNetHeader HeaderOf(const Description& of, uint16_t segment_size) {
  VirtioNetHeader header;
  header.flags = kNeedsChecksum;
  header.gso_type = !of.is_tcp ? kGsoUdp : of.is_ipv6 ? kGsoTcp6 : kGsoTcp4;
  header.gso_size = segment_size;
  header.csum_start = static_cast<uint16_t>(TransportOffset(of));
  header.csum_offset = of.is_tcp ? 16 : 6;
  return header;
}

Bytes RandomBytes(size_t size, std::mt19937* random) {
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((*random)());
  return bytes;
}

Bytes Segment(const Segmentation& segmentation, uint32_t index) {
  Bytes out(segmentation.length_max());
  out.resize(segmentation.Make(index, out.data()));
  return out;
}

void ExpectSegments(const Description& whole, uint16_t segment_size) {
  Bytes super = Frame(whole);
  // What the pod leaves in the fields does not matter.
  super[TransportOffset(whole) + (whole.is_tcp ? 16 : 6)] ^= 0x5a;
  const auto segmentation =
      Segmentation::Of(HeaderOf(whole, segment_size), super.data(), static_cast<uint32_t>(super.size()));
  ASSERT_TRUE(segmentation);
  const size_t count = std::max<size_t>(1, (whole.payload.size() + segment_size - 1) / segment_size);
  ASSERT_EQ(segmentation->count(), count);
  for (size_t i = 0; i < count; ++i) {
    Description part = whole;
    const size_t from = i * segment_size, to = std::min(whole.payload.size(), from + segment_size);
    part.payload =
        Bytes(whole.payload.begin() + static_cast<long>(from), whole.payload.begin() + static_cast<long>(to));
    part.identification = static_cast<uint16_t>(whole.identification + i);
    part.sequence = whole.sequence + static_cast<uint32_t>(from);
    if (i != 0) part.tcp_flags &= 0x7f;          // CWR
    if (i + 1 != count) part.tcp_flags &= 0xf6;  // FIN, PSH
    EXPECT_EQ(Segment(*segmentation, static_cast<uint32_t>(i)), Frame(part)) << "segment " << i;
  }
}

TEST(Segmentation, SegmentsAreWhatTheConnectionWouldHaveSent) {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    Description whole;
    whole.is_ipv6 = random() % 2 != 0;
    whole.is_tcp = random() % 3 != 0;
    for (uint32_t tags = random() % 3; tags != 0; --tags)
      whole.tags.push_back((tags == 2 ? 0x88a8'0000 : 0x8100'0000) | (random() & 0xffff));
    whole.extension_headers = random() % 3;
    whole.ip_options = random() % 3 * 4;
    whole.tcp_options = random() % 11 * 4;
    whole.identification = static_cast<uint16_t>(random());
    whole.sequence = random();
    whole.tcp_flags = static_cast<uint8_t>(random());
    const auto segment_size = static_cast<uint16_t>(200 + random() % 9000);
    whole.payload = RandomBytes(random() % 20'000, &random);
    SCOPED_TRACE(testing::Message() << "round " << round);
    ExpectSegments(whole, segment_size);
  }
}

TEST(Segmentation, FullSuperFrame) {
  std::mt19937 random(4);
  Description whole;
  whole.payload = RandomBytes(65'535 - 40, &random);
  whole.sequence = 0xffff'f000;  // wraps
  whole.identification = 0xfff0;
  ExpectSegments(whole, 1448);
}

TEST(Segmentation, WhatItIsNotForIsRefused) {
  std::mt19937 random(5);
  Description whole;
  whole.payload = RandomBytes(3000, &random);
  const Bytes frame = Frame(whole);
  const VirtioNetHeader header = HeaderOf(whole, 1000);
  auto segments = [](const VirtioNetHeader& h, const Bytes& f) {
    const auto segmentation = Segmentation::Of(h, f.data(), static_cast<uint32_t>(f.size()));
    return segmentation ? segmentation->count() : 0;
  };
  EXPECT_EQ(segments(header, frame), 3u);
  VirtioNetHeader other = header;
  other.gso_type |= kGsoEcn;
  EXPECT_EQ(segments(other, frame), 3u);
  other.gso_type = kGsoTcp6;
  EXPECT_EQ(segments(other, frame), 0u) << "IPv4 said to be IPv6";
  other.gso_type = kGsoUdp;
  EXPECT_EQ(segments(other, frame), 0u) << "TCP said to be UDP";
  other = header;
  other.gso_size = 0;
  EXPECT_EQ(segments(other, frame), 0u);
  other.gso_size = 3000 / kSegmentsMax;
  EXPECT_EQ(segments(other, frame), 0u) << "too many";
  Bytes fragment = frame;
  fragment[21] = 1;
  EXPECT_EQ(segments(header, fragment), 0u);
  whole.is_ipv6 = true;
  whole.extension_headers = 1;
  Bytes routed = Frame(whole);
  EXPECT_EQ(segments(HeaderOf(whole, 1000), routed), 3u);
  routed[20] = 43;
  EXPECT_EQ(segments(HeaderOf(whole, 1000), routed), 0u) << "the checksum is over another address";
}

TEST(Segmentation, UdpChecksumOfZeroIsAllOnes) {  // RFC 768
  Description whole;
  whole.is_tcp = false;
  whole.payload = Bytes(40);
  for (uint32_t word = 0; TransportChecksum(whole) != 0xffff; ++word) {
    ASSERT_LT(word, 0x10000u);
    whole.payload[20] = static_cast<uint8_t>(word >> 8);
    whole.payload[21] = static_cast<uint8_t>(word);
  }
  ExpectSegments(whole, 22);
  ExpectSegments(whole, 100);
}

TEST(Segmentation, CutFramesAreNeverReadPastTheirEnd) {
  std::mt19937 random(6);
  Description whole;
  whole.is_ipv6 = true;
  whole.extension_headers = 2;
  whole.tags = {0x8100'0005};
  whole.payload = RandomBytes(100, &random);
  const Bytes frame = Frame(whole);
  for (size_t length = 0; length < TransportOffset(whole) + 20; ++length) {
    const Bytes cut(frame.begin(), frame.begin() + static_cast<long>(length));
    EXPECT_FALSE(Segmentation::Of(HeaderOf(whole, 50), cut.data(), static_cast<uint32_t>(length))) << length;
  }
}

TEST(Checksum, SumIsTheOneAddedUpByteByByte) {
  std::mt19937 random(7);
  for (size_t length = 0; length < 300; ++length) {
    const Bytes bytes = RandomBytes(length, &random);
    EXPECT_EQ(FoldChecksum(AddChecksum(bytes.data(), static_cast<uint32_t>(length))), PlainChecksum(bytes));
  }
  const Bytes ones(65'536, 0xff);
  EXPECT_EQ(FoldChecksum(AddChecksum(ones.data(), 65'536)), PlainChecksum(ones));
}

// The pod leaves the sum of the pseudo header in the field.
TEST(Checksum, NeededChecksumIsCompleted) {
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    Description of;
    of.is_ipv6 = round % 2 != 0;
    of.is_tcp = round % 4 < 2;
    if (round % 3 == 0) of.tags = {0x8100'0007};
    of.payload = RandomBytes(random() % 1400, &random);
    const Bytes complete = Frame(of);
    Bytes pseudo = Addresses(of);
    Append(&pseudo, complete.size() - TransportOffset(of), 4);
    Append(&pseudo, of.is_tcp ? 6 : 17, 4);
    const auto sum = static_cast<uint16_t>(~PlainChecksum(pseudo));
    Bytes frame = complete;
    const VirtioNetHeader header = HeaderOf(of, 0);
    const size_t field = header.csum_start + header.csum_offset;
    frame[field] = static_cast<uint8_t>(sum >> 8);
    frame[field + 1] = static_cast<uint8_t>(sum);
    CompleteChecksum(header, frame.data(), static_cast<uint32_t>(frame.size()));
    EXPECT_EQ(frame, complete) << "round " << round;
  }
}

TEST(Checksum, ZeroIsWrittenAsAllOnes) {
  VirtioNetHeader header;
  header.flags = kNeedsChecksum;
  header.csum_start = 34;
  header.csum_offset = 6;
  Bytes frame(42);
  frame[34] = frame[35] = 0xff;  // all there is adds up to 0xffff
  CompleteChecksum(header, frame.data(), 42);
  EXPECT_EQ(frame[40], 0xff);
  EXPECT_EQ(frame[41], 0xff);
}

TEST(Checksum, FieldMayLieAnywhere) {
  std::mt19937 random(9);
  VirtioNetHeader header;
  header.flags = kNeedsChecksum;
  header.csum_start = 33;
  header.csum_offset = 11;
  Bytes frame = RandomBytes(100, &random);
  const uint16_t expected = PlainChecksum(Bytes(frame.begin() + 33, frame.end()));
  CompleteChecksum(header, frame.data(), 100);
  EXPECT_EQ(frame[44] << 8 | frame[45], expected);
}

// What a sender may leave to others, and what is done at once.
struct Owed {
  const char* what;
  Bytes headers;  // Ethernet and what is behind
  uint16_t start;
  uint16_t offset;
  bool is_settled;
};

Bytes Ethernet(std::initializer_list<int> behind, size_t length = 160) {
  Bytes frame = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
  for (int byte : behind) frame.push_back(static_cast<uint8_t>(byte));
  frame.resize(length, 0x11);
  return frame;
}

TEST(Checksum, OnlyThatOfATransportIsLeftToOthers) {
  const auto ipv4 = [](int protocol, int fragment = 0) {
    return Ethernet({8, 0, 0x45, 0, 0, 146, 0, 0, fragment, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2});
  };
  const auto ipv6 = [](int next) { return Ethernet({0x86, 0xdd, 0x60, 0, 0, 0, 0, 106, next, 64}); };
  const Bytes tagged = Ethernet({0x81, 0, 0, 10, 8, 0, 0x45, 0, 0, 142, 0, 0, 0, 0, 64, 6});
  const Owed kCases[] = {
      {"TCP", ipv4(6), 34, 16, false},
      {"UDP", ipv6(17), 54, 6, false},
      {"TCP behind a tag", tagged, 38, 16, false},
      {"SCTP", ipv4(132), 34, 8, false},
      {"inner TCP of VXLAN", ipv4(17), 98, 16, false},
      {"UDP's ports", ipv4(17), 34, 0, true},
      {"IPv4 source address", ipv4(17), 14, 12, true},
      {"EtherType behind a tag", tagged, 16, 0, true},
      {"VID", tagged, 14, 0, true},
      {"ICMPv6 type", ipv6(58), 54, 0, true},
      {"ICMPv6 target", ipv6(58), 54, 8, true},
      {"behind a fragment header", ipv6(44), 54, 16, true},
      {"fragment", ipv4(6, 0x20), 34, 16, true},
      {"ARP", Ethernet({8, 6, 0, 1, 8, 0, 6, 4}), 24, 4, true},
  };
  for (const Owed& one : kCases) {
    Bytes frame = one.headers;
    VirtioNetHeader header;
    header.flags = kNeedsChecksum;
    header.csum_start = one.start;
    header.csum_offset = one.offset;
    uint8_t bytes[sizeof header];
    StoreVirtioNetHeader(header, bytes);
    Bytes completed = frame;
    CompleteChecksum(header, completed.data(), static_cast<uint32_t>(completed.size()));
    SettleChecksum(bytes, frame.data(), static_cast<uint32_t>(frame.size()));
    EXPECT_EQ(HasOffload(bytes), !one.is_settled) << one.what;
    EXPECT_EQ(frame, one.is_settled ? completed : one.headers) << one.what;
  }
}

}  // namespace
}  // namespace ringswitch::io
