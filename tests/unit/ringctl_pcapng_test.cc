// Capture files, block by block as the format's specification has them, and frames as text.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "server/ringctl/frame_text.h"
#include "server/ringctl/pcapng.h"

namespace ringswitch::ringctl {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::SizeIs;

// A block taken apart: its fixed part, and its options by code.
struct Parsed {
  std::uint32_t type = 0;
  std::string fixed;
  std::map<std::uint16_t, std::string> options;
};

template <typename Number>
Number NumberAt(const std::string& bytes, std::size_t at) {
  Number number{};
  EXPECT_LE(at + sizeof number, bytes.size());
  if (at + sizeof number <= bytes.size()) std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

std::size_t Padded(std::size_t length) {
  return (length + 3) / 4 * 4;
}

std::size_t FixedLength(std::uint32_t type, const std::string& body) {
  switch (type) {
    case 0x0a0d0d0a:
      return 16;
    case 1:
      return 8;
    case 5:
      return 12;
    case 6:
      return 20 + Padded(NumberAt<std::uint32_t>(body, 12));
    default:
      ADD_FAILURE() << "block of type " << type;
      return 0;
  }
}

std::vector<Parsed> Parse(const std::string& file) {
  std::vector<Parsed> blocks;
  for (std::size_t at = 0; at < file.size();) {
    Parsed block;
    block.type = NumberAt<std::uint32_t>(file, at);
    const auto length = NumberAt<std::uint32_t>(file, at + 4);
    EXPECT_EQ(length % 4, 0u);
    EXPECT_EQ(NumberAt<std::uint32_t>(file, at + length - 4), length);
    const std::string body = file.substr(at + 8, length - 12);
    std::size_t option = FixedLength(block.type, body);
    block.fixed = body.substr(0, option);
    for (;;) {
      const auto code = NumberAt<std::uint16_t>(body, option);
      const auto size = NumberAt<std::uint16_t>(body, option + 2);
      if (code == 0) break;
      block.options[code] = body.substr(option + 4, size);
      option += 4 + Padded(size);
    }
    EXPECT_EQ(option + 4, body.size()) << "options end the block";
    blocks.push_back(block);
    at += length;
  }
  return blocks;
}

TEST(PcapngTest, SectionHeader) {
  std::string file;
  AppendSectionHeader("ringctl 1.2.3", &file);
  const std::vector<Parsed> blocks = Parse(file);
  ASSERT_THAT(blocks, SizeIs(1));
  EXPECT_EQ(blocks[0].type, 0x0a0d0d0au);
  EXPECT_EQ(NumberAt<std::uint32_t>(blocks[0].fixed, 0), 0x1a2b3c4du);
  EXPECT_EQ(NumberAt<std::uint16_t>(blocks[0].fixed, 4), 1);
  EXPECT_EQ(NumberAt<std::uint16_t>(blocks[0].fixed, 6), 0);
  EXPECT_EQ(NumberAt<std::int64_t>(blocks[0].fixed, 8), -1);
  EXPECT_THAT(blocks[0].options, ElementsAre(Pair(4, "ringctl 1.2.3")));
}

TEST(PcapngTest, Interface) {
  std::string file;
  AppendInterface("0f3a:eth0", 262'144, &file);
  const std::vector<Parsed> blocks = Parse(file);
  ASSERT_THAT(blocks, SizeIs(1));
  EXPECT_EQ(blocks[0].type, 1u);
  EXPECT_EQ(NumberAt<std::uint16_t>(blocks[0].fixed, 0), 1) << "Ethernet";
  EXPECT_EQ(NumberAt<std::uint32_t>(blocks[0].fixed, 4), 262'144u);
  EXPECT_THAT(blocks[0].options, ElementsAre(Pair(2, "0f3a:eth0"), Pair(9, "\x09")));
}

TEST(PcapngTest, FramesOfEveryLength) {
  for (std::size_t length = 0; length < 70; ++length) {
    std::string bytes(length, 'x');
    for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>(i);
    PcapngFrame frame;
    frame.interface = 3;
    frame.time_ns = 0x0123'4567'89ab'cdef;
    frame.is_inbound = length % 2 == 0;
    frame.length = static_cast<std::uint32_t>(length) + 1000;
    frame.bytes = bytes;
    frame.comment = std::string(length % 5, 'c');
    std::string file;
    AppendFrame(frame, &file);
    const std::vector<Parsed> blocks = Parse(file);
    ASSERT_THAT(blocks, SizeIs(1));
    const Parsed& block = blocks[0];
    EXPECT_EQ(block.type, 6u);
    EXPECT_EQ(NumberAt<std::uint32_t>(block.fixed, 0), 3u);
    EXPECT_EQ(NumberAt<std::uint32_t>(block.fixed, 4), 0x0123'4567u);
    EXPECT_EQ(NumberAt<std::uint32_t>(block.fixed, 8), 0x89ab'cdefu);
    EXPECT_EQ(NumberAt<std::uint32_t>(block.fixed, 12), length);
    EXPECT_EQ(NumberAt<std::uint32_t>(block.fixed, 16), length + 1000);
    EXPECT_EQ(block.fixed.substr(20, length), bytes);
    EXPECT_EQ(NumberAt<std::uint32_t>(block.options.at(2), 0), frame.is_inbound ? 1u : 2u);
    EXPECT_EQ(block.options.count(1), frame.comment.empty() ? 0u : 1u);
    if (!frame.comment.empty()) {
      EXPECT_EQ(block.options.at(1), frame.comment);
    }
  }
}

TEST(PcapngTest, StatisticsEndTheFile) {
  std::string file;
  AppendSectionHeader("ringctl", &file);
  AppendInterface("p1", 65535, &file);
  AppendStatistics(0, 5, 77, 3, "of all ports", &file);
  AppendStatistics(1, 5, 78, std::nullopt, "", &file);
  const std::vector<Parsed> blocks = Parse(file);
  ASSERT_THAT(blocks, SizeIs(4));
  EXPECT_EQ(blocks[2].type, 5u);
  EXPECT_EQ(NumberAt<std::uint64_t>(blocks[2].options.at(4), 0), 77u);
  EXPECT_EQ(NumberAt<std::uint64_t>(blocks[2].options.at(5), 0), 3u);
  EXPECT_EQ(blocks[2].options.at(1), "of all ports");
  EXPECT_EQ(NumberAt<std::uint32_t>(blocks[3].fixed, 0), 1u);
  EXPECT_THAT(blocks[3].options, SizeIs(1));
}

std::string Bytes(std::initializer_list<int> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

TEST(FrameTextTest, AddressesTagsAndType) {
  const std::string addresses = Bytes({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0x0a, 1});
  const std::string from_to = "02:00:00:00:0a:01 > ff:ff:ff:ff:ff:ff";
  EXPECT_EQ(DescribeFrame(addresses + Bytes({8, 6})), from_to + " ARP");
  EXPECT_EQ(DescribeFrame(addresses + Bytes({0x86, 0xdd, 0x60})), from_to + " IPv6");
  EXPECT_EQ(DescribeFrame(addresses + Bytes({0x88, 0xb5})), from_to + " 0x88b5");
  EXPECT_EQ(DescribeFrame(addresses + Bytes({0, 0x26, 0x42})), from_to + " LLC");
  EXPECT_EQ(DescribeFrame(addresses + Bytes({0x81, 0, 0xa0, 10, 8, 0})), from_to + " vlan 10 pcp 5 IPv4");
  EXPECT_EQ(DescribeFrame(addresses + Bytes({0x81, 0, 0xf, 0xff, 0x81, 0, 0, 20, 8, 0})),
            from_to + " vlan 4095 vlan 20 IPv4");
  EXPECT_EQ(DescribeFrame(addresses + Bytes({0x88, 0xa8, 0, 100})), from_to + " 802.1ad");
}

TEST(FrameTextTest, FramesThatWereCutShort) {
  const std::string tagged =
      Bytes({1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x81, 0, 0, 10, 0x81, 0, 0, 20, 8, 0});
  for (std::size_t length = 0; length < tagged.size(); ++length) {
    EXPECT_THAT(DescribeFrame(tagged.substr(0, length)), testing::HasSubstr("cut short")) << length;
  }
  EXPECT_THAT(DescribeFrame(tagged), testing::EndsWith("vlan 10 vlan 20 IPv4"));
}

}  // namespace
}  // namespace ringswitch::ringctl
