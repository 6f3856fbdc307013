#include <gtest/gtest.h>

#include <vector>

#include "dataplane/io/virtio_net_header.h"

namespace ringswitch::io {
namespace {

// A frame of `length` bytes whose TCP header at `tcp` says that it is `words` long.
std::vector<uint8_t> TcpFrame(size_t length, size_t tcp = 34, uint8_t words = 5) {
  std::vector<uint8_t> frame(length);
  if (tcp + 12 < length) frame[tcp + 12] = static_cast<uint8_t>(words << 4);
  return frame;
}

std::optional<uint32_t> Check(const VirtioNetHeader& header, const std::vector<uint8_t>& frame) {
  uint8_t bytes[sizeof header];
  StoreVirtioNetHeader(header, bytes);
  return WireLength(bytes, frame.data(), static_cast<uint32_t>(frame.size()));
}

VirtioNetHeader Gso(uint8_t type, uint16_t segment) {
  VirtioNetHeader header;
  header.flags = kNeedsChecksum;
  header.gso_type = type;
  header.gso_size = segment;
  header.csum_start = 34;
  header.csum_offset = type == kGsoUdp ? 6 : 16;
  return header;
}

TEST(VirtioNetHeader, PlainFrameIsAsLongAsItIs) {
  EXPECT_EQ(Check({}, TcpFrame(64)), 64u);
}

TEST(VirtioNetHeader, ChecksumMustLieInTheFrame) {
  VirtioNetHeader header;
  header.flags = kNeedsChecksum;
  header.csum_start = 34;
  header.csum_offset = 6;
  EXPECT_EQ(Check(header, TcpFrame(42)), 42u);
  EXPECT_EQ(Check(header, TcpFrame(41)), std::nullopt);
  header.csum_start = 0xffff;
  header.csum_offset = 0xffff;
  EXPECT_EQ(Check(header, TcpFrame(1500)), std::nullopt);
  header.csum_start = 13;
  header.csum_offset = 0;
  EXPECT_EQ(Check(header, TcpFrame(64)), std::nullopt) << "inside the Ethernet header";
}

TEST(VirtioNetHeader, SuperFrameIsAsLongAsHeadersAndOneSegment) {
  EXPECT_EQ(Check(Gso(kGsoTcp4, 1400), TcpFrame(9000)), 34u + 20 + 1400);
  EXPECT_EQ(Check(Gso(kGsoTcp4 | kGsoEcn, 1400), TcpFrame(9000)), 34u + 20 + 1400);
  EXPECT_EQ(Check(Gso(kGsoTcp6, 1400), TcpFrame(9000, 34, 15)), 34u + 60 + 1400);
  EXPECT_EQ(Check(Gso(kGsoUdp, 1400), TcpFrame(9000)), 34u + 8 + 1400);
  EXPECT_EQ(Check(Gso(kGsoTcp4, 1400), TcpFrame(500)), 500u) << "shorter than one segment";
}

TEST(VirtioNetHeader, ContradictionsAreRefused) {
  EXPECT_EQ(Check(Gso(kGsoTcp4, 0), TcpFrame(9000)), std::nullopt) << "segments of nothing";
  EXPECT_EQ(Check(Gso(2, 1400), TcpFrame(9000)), std::nullopt) << "unknown type";
  EXPECT_EQ(Check(Gso(3, 1400), TcpFrame(9000)), std::nullopt) << "UFO was never offered";
  EXPECT_EQ(Check(Gso(kGsoTcp4, 1400), TcpFrame(53)), std::nullopt) << "cut TCP header";
  EXPECT_EQ(Check(Gso(kGsoTcp4, 1400), TcpFrame(9000, 34, 4)), std::nullopt)
      << "TCP header below its minimum";
  EXPECT_EQ(Check(Gso(kGsoTcp4, 1400), TcpFrame(60, 34, 15)), std::nullopt)
      << "TCP options outside the frame";
}

TEST(VirtioNetHeader, WithoutChecksumTheHintSaysWhereThePayloadBegins) {
  VirtioNetHeader header = Gso(kGsoTcp4, 1000);
  header.flags = 0;
  EXPECT_EQ(Check(header, TcpFrame(9000)), std::nullopt);
  header.hdr_len = 54;
  EXPECT_EQ(Check(header, TcpFrame(9000)), 1054u);
  header.hdr_len = 9001;
  EXPECT_EQ(Check(header, TcpFrame(9000)), std::nullopt);
}

TEST(VirtioNetHeader, OffsetsMoveWithTheTag) {
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
