#include <gtest/gtest.h>

#include <vector>

#include "dataplane/io/virtio_net_header.h"

namespace ringswitch::io {
namespace {

// An IPv4 frame of `length` bytes whose TCP header says that it is `words` long.
std::vector<uint8_t> TcpFrame(size_t length, uint8_t words = 5, uint8_t protocol = 6) {
  std::vector<uint8_t> frame(length);
  frame[12] = 0x08;
  frame[14] = 0x45;
  frame[23] = protocol;
  if (length > 46) frame[46] = static_cast<uint8_t>(words << 4);
  return frame;
}
std::vector<uint8_t> UdpFrame(size_t length) {
  return TcpFrame(length, 0, 17);
}
std::vector<uint8_t> Tcp6Frame(size_t length, uint8_t words) {
  std::vector<uint8_t> frame(length);
  frame[12] = 0x86;
  frame[13] = 0xdd;
  frame[14] = 0x60;
  frame[20] = 6;
  frame[66] = static_cast<uint8_t>(words << 4);
  return frame;
}

// The header as WireLength leaves it is in `left`.
std::optional<uint32_t> Check(const VirtioNetHeader& header, const std::vector<uint8_t>& frame,
                              VirtioNetHeader* left = nullptr) {
  uint8_t bytes[sizeof header];
  StoreVirtioNetHeader(header, bytes);
  const auto length = WireLength(bytes, frame.data(), static_cast<uint32_t>(frame.size()));
  if (left != nullptr) *left = LoadVirtioNetHeader(bytes);
  return length;
}

VirtioNetHeader Gso(uint8_t type, uint16_t segment) {
  VirtioNetHeader header;
  header.flags = kNeedsChecksum;
  header.gso_type = type;
  header.gso_size = segment;
  header.csum_start = type == kGsoTcp6 ? 54 : 34;
  header.csum_offset = type == kGsoUdp ? 6 : 16;
  return header;
}

TEST(VirtioNetHeader, PlainFrameIsAsLongAsItIs) {  // O10
  EXPECT_EQ(Check({}, TcpFrame(64)), 64u);
}

TEST(VirtioNetHeader, ChecksumMustLieInTheFrame) {  // O12, O29
  VirtioNetHeader header;
  header.flags = kNeedsChecksum;
  header.csum_start = 34;
  header.csum_offset = 6;
  EXPECT_EQ(Check(header, TcpFrame(42)), 42u);
  EXPECT_EQ(Check(header, TcpFrame(41)), std::nullopt);
  header.csum_start = 0xffff;
  header.csum_offset = 0xffff;
  EXPECT_EQ(Check(header, TcpFrame(1500)), std::nullopt);
  header.csum_start = 23;
  header.csum_offset = 0;
  EXPECT_EQ(Check(header, TcpFrame(64)), std::nullopt) << "no kernel takes it once a tag is popped";
  header.csum_start = 24;
  EXPECT_EQ(Check(header, TcpFrame(64)), 64u);
  header.csum_start = 0xff00;
  EXPECT_EQ(Check(header, TcpFrame(66'000)), 66'000u);
  header.csum_start = 0xff01;
  EXPECT_EQ(Check(header, TcpFrame(66'000)), std::nullopt) << "16 bits cannot count a tag more";
}

TEST(VirtioNetHeader, SuperFrameIsAsLongAsHeadersAndOneSegment) {  // O21, O30
  EXPECT_EQ(Check(Gso(kGsoTcp4, 1400), TcpFrame(9000)), 34u + 20 + 1400);
  EXPECT_EQ(Check(Gso(kGsoTcp4 | kGsoEcn, 1400), TcpFrame(9000)), 34u + 20 + 1400);
  EXPECT_EQ(Check(Gso(kGsoTcp6, 1400), Tcp6Frame(9000, 15)), 54u + 60 + 1400);
  EXPECT_EQ(Check(Gso(kGsoUdp, 1400), UdpFrame(9000)), 34u + 8 + 1400);
  EXPECT_EQ(Check(Gso(kGsoTcp4, 1400), TcpFrame(500)), 500u) << "shorter than one segment";
}

TEST(VirtioNetHeader, ContradictionsAreRefused) {  // O15, O16, O18, O20, O29
  EXPECT_EQ(Check(Gso(kGsoTcp4, 0), TcpFrame(9000)), std::nullopt) << "segments of nothing";
  EXPECT_EQ(Check(Gso(2, 1400), TcpFrame(9000)), std::nullopt) << "unknown type";
  EXPECT_EQ(Check(Gso(3, 1400), UdpFrame(9000)), std::nullopt) << "UFO was never offered";
  EXPECT_EQ(Check(Gso(kGsoTcp4, 1400), TcpFrame(53)), std::nullopt) << "cut TCP header";
  EXPECT_EQ(Check(Gso(kGsoTcp4, 1400), TcpFrame(9000, 4)), std::nullopt) << "TCP header below its minimum";
  EXPECT_EQ(Check(Gso(kGsoTcp4, 1400), TcpFrame(60, 15)), std::nullopt) << "TCP options outside the frame";
  EXPECT_EQ(Check(Gso(kGsoTcp4, 1400), UdpFrame(9000)), std::nullopt) << "a tunnel: TCP in UDP";
  EXPECT_EQ(Check(Gso(kGsoUdp, 1400), TcpFrame(9000)), std::nullopt);
  VirtioNetHeader header = Gso(kGsoTcp4, 1400);
  header.csum_start = 84;
  EXPECT_EQ(Check(header, TcpFrame(9000)), std::nullopt) << "a tunnel: TCP in TCP";
}

TEST(VirtioNetHeader, WhatKernelsRefuseIsRefused) {
  EXPECT_EQ(Check(Gso(kGsoTcp4, 0xfffe), TcpFrame(9000)), 9000u);
  EXPECT_EQ(Check(Gso(kGsoTcp4, 0xffff), TcpFrame(9000)), std::nullopt);
  EXPECT_EQ(Check(Gso(kGsoUdp | kGsoEcn, 1400), UdpFrame(9000)), std::nullopt) << "ECN is TCP's";
  EXPECT_EQ(Check(Gso(kGsoUdp, 10), UdpFrame(42 + 1280)), 52u);
  EXPECT_EQ(Check(Gso(kGsoUdp, 10), UdpFrame(42 + 1281)), std::nullopt) << "129 segments";
  VirtioNetHeader header = Gso(kGsoUdp, 1400);
  header.flags = 0;
  EXPECT_EQ(Check(header, UdpFrame(9000)), std::nullopt) << "segments without checksums";
}

TEST(VirtioNetHeader, HintOfAPlainFrameIsTakenBack) {  // O12, O13
  VirtioNetHeader header, left;
  for (uint16_t hint : {1, 13, 65}) {
    header.hdr_len = hint;
    EXPECT_EQ(Check(header, TcpFrame(64), &left), 64u);
    EXPECT_EQ(left.hdr_len, 0);
  }
}

TEST(VirtioNetHeader, HeadersLengthIsMadeTheFrames) {  // O11
  VirtioNetHeader header = Gso(kGsoTcp4, 1000), left;
  header.flags = kDataValid;
  for (uint16_t hint : {0, 54, 200, 9001}) {
    header.hdr_len = hint;
    EXPECT_EQ(Check(header, TcpFrame(9000), &left), 1054u);
    EXPECT_EQ(left.hdr_len, 54);
  }
  EXPECT_EQ(left.flags, kDataValid);
  EXPECT_EQ(left.gso_size, 1000);
}

TEST(VirtioNetHeader, OffloadIsWorkLeft) {
  VirtioNetHeader header;
  uint8_t bytes[sizeof header];
  auto has_offload = [&] {
    StoreVirtioNetHeader(header, bytes);
    return HasOffload(bytes);
  };
  EXPECT_FALSE(has_offload());
  header.flags = kDataValid;
  EXPECT_FALSE(has_offload());
  header.flags = kNeedsChecksum;
  EXPECT_TRUE(has_offload());
  header.flags = 0;
  header.gso_type = kGsoTcp4;
  EXPECT_TRUE(has_offload());
}

TEST(VirtioNetHeader, OffsetsMoveWithTheTag) {  // O27
  VirtioNetHeader header = Gso(kGsoTcp4, 1000);
  header.hdr_len = 54;
  uint8_t bytes[sizeof header];
  StoreVirtioNetHeader(header, bytes);
  MoveOffsets(bytes, 4);
  EXPECT_EQ(LoadVirtioNetHeader(bytes).csum_start, 38);
  EXPECT_EQ(LoadVirtioNetHeader(bytes).hdr_len, 58);
  EXPECT_EQ(LoadVirtioNetHeader(bytes).csum_offset, 16);
  MoveOffsets(bytes, -4);
  EXPECT_EQ(LoadVirtioNetHeader(bytes).csum_start, 34);
  EXPECT_EQ(LoadVirtioNetHeader(bytes).hdr_len, 54);
}

TEST(VirtioNetHeader, UnsetOffsetsStayUnset) {
  uint8_t bytes[sizeof(VirtioNetHeader)] = {};
  MoveOffsets(bytes, 4);
  for (uint8_t byte : bytes) EXPECT_EQ(byte, 0);
}

}  // namespace
}  // namespace ringswitch::io
