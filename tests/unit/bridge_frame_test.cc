#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "dataplane/bridge/frame.h"
#include "dataplane/bridge/vlan_set.h"

namespace ringswitch::bridge {
namespace {

TEST(MacAddress, ParsesBothSeparatorsAndCases) {
  const MacAddress expected(0x0200'abcd'ef01);
  EXPECT_EQ(MacAddress::Parse("02:00:ab:cd:ef:01"), expected);
  EXPECT_EQ(MacAddress::Parse("02-00-AB-CD-EF-01"), expected);
  EXPECT_EQ(MacAddress::Parse("02:00:Ab:cD:eF:01"), expected);
  EXPECT_EQ(MacAddress::Parse("00:00:00:00:00:00"), MacAddress());
}

TEST(MacAddress, RefusesEverythingElse) {
  for (const char* text :
       {"", "02", "02:00:ab:cd:ef", "02:00:ab:cd:ef:0", "02:00:ab:cd:ef:01:", "02:00:ab:cd:ef:012",
        " 02:00:ab:cd:ef:1", "02:00:ab-cd:ef:01", "02.00.ab.cd.ef.01", "0200abcdef01", "0g:00:ab:cd:ef:01",
        "02:00:ab:cd:ef:0 ", "+2:00:ab:cd:ef:01", "02:00:ab:cd:ef:01\n", "2:00:ab:cd:ef:001",
        "0x:00:ab:cd:ef:01"}) {
    EXPECT_EQ(MacAddress::Parse(text), std::nullopt) << text;
  }
}

TEST(MacAddress, PrintsWhatItParses) {
  for (const char* text : {"02:00:ab:cd:ef:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:0a"}) {
    EXPECT_EQ(MacAddress::Parse(text)->ToString(), text);
  }
}

TEST(MacAddress, BytesAreInOrderOfTheWire) {
  const MacAddress address(0x0102'0304'0506);
  const std::array<uint8_t, 6> bytes = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(address.Bytes(), bytes);
  EXPECT_EQ(MacAddress::FromBytes(bytes.data()), address);
}

TEST(MacAddress, KnowsItsClass) {
  EXPECT_TRUE(MacAddress(0x0200'0000'0001).is_station());
  EXPECT_FALSE(MacAddress().is_station());
  EXPECT_FALSE(MacAddress(0x0100'5e00'0001).is_station());
  EXPECT_TRUE(MacAddress(0x0100'5e00'0001).is_group());
  EXPECT_TRUE(MacAddress(0xffff'ffff'ffff).is_broadcast());
  EXPECT_TRUE(MacAddress(0xffff'ffff'ffff).is_group());
  EXPECT_TRUE(MacAddress(0x0180'c200'0000).is_reserved_group());
  EXPECT_TRUE(MacAddress(0x0180'c200'000f).is_reserved_group());
  EXPECT_FALSE(MacAddress(0x0180'c200'0010).is_reserved_group());
  EXPECT_EQ(MacAddress(0xabcd'0200'0000'0001), MacAddress(0x0200'0000'0001)) << "48 bits only";
}

TEST(VlanSet, HoldsVlansAndNothingElse) {
  VlanSet set;
  EXPECT_TRUE(set.empty());
  for (const VlanId vid : {0, 4095, 4096, 65535}) {
    set.Add(vid);
    EXPECT_FALSE(set.contains(vid)) << vid;
  }
  EXPECT_TRUE(set.empty());
  for (const VlanId vid : {1, 63, 64, 4094}) {
    set.Add(vid);
    EXPECT_TRUE(set.contains(vid)) << vid;
    set.Remove(vid);
    EXPECT_FALSE(set.contains(vid)) << vid;
  }
  EXPECT_TRUE(set.empty());
}

TEST(VlanSet, RangesIncludeBothEnds) {
  VlanSet set;
  set.AddRange(0, 65535);
  for (uint32_t vid = 1; vid <= kVlanIdMax; ++vid) EXPECT_TRUE(set.contains(static_cast<VlanId>(vid)));
  EXPECT_FALSE(set.contains(0));
  EXPECT_FALSE(set.contains(4095));
  set.RemoveRange(2, 4093);
  VlanSet ends;
  ends.Add(1);
  ends.Add(4094);
  EXPECT_EQ(set, ends);
  set.AddRange(20, 10);
  EXPECT_EQ(set, ends) << "an empty range";
}

std::vector<uint8_t> Numbered(size_t length) {
  std::vector<uint8_t> bytes(length);
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<uint8_t>(i + 1);
  return bytes;
}

TEST(ParseHeader, NeverReadsPastTheEnd) {
  for (size_t length = 0; length < 32; ++length) {
    std::vector<uint8_t> frame = Numbered(length);
    frame.shrink_to_fit();
    FrameHeader header;
    const bool whole = length >= kHeaderLength;
    EXPECT_EQ(ParseHeader(frame.data(), length, &header), whole ? ParseResult::kOk : ParseResult::kTooShort);
    if (!whole) continue;
    StoreBe16(frame.data() + kAddressesLength, kTpid);
    const bool whole_tag = length >= kHeaderLength + kTagLength;
    EXPECT_EQ(ParseHeader(frame.data(), length, &header),
              whole_tag ? ParseResult::kOk : ParseResult::kTruncatedTag);
  }
}

TEST(ParseHeader, TellsTagsApart) {
  std::vector<uint8_t> frame = Numbered(20);
  FrameHeader header;
  ASSERT_EQ(ParseHeader(frame.data(), frame.size(), &header), ParseResult::kOk);
  EXPECT_EQ(header.tag, TagState::kUntagged);
  EXPECT_EQ(header.tci, 0);
  EXPECT_EQ(header.destination, MacAddress(0x0102'0304'0506));
  EXPECT_EQ(header.source, MacAddress(0x0708'090a'0b0c));
  StoreBe16(frame.data() + 12, 0x88a8);
  ASSERT_EQ(ParseHeader(frame.data(), frame.size(), &header), ParseResult::kOk);
  EXPECT_EQ(header.tag, TagState::kUntagged);
  StoreBe16(frame.data() + 12, kTpid);
  StoreBe16(frame.data() + 14, 0xf000);
  ASSERT_EQ(ParseHeader(frame.data(), frame.size(), &header), ParseResult::kOk);
  EXPECT_EQ(header.tag, TagState::kPriorityTagged);
  EXPECT_EQ(header.vid(), 0);
  StoreBe16(frame.data() + 14, 0xffff);
  ASSERT_EQ(ParseHeader(frame.data(), frame.size(), &header), ParseResult::kOk);
  EXPECT_EQ(header.tag, TagState::kTagged);
  EXPECT_EQ(header.vid(), 4095);
  EXPECT_EQ(header.tci, 0xffff);
}

TEST(Edit, PushThenPopGivesTheFrameBack) {
  const std::vector<uint8_t> frame = Numbered(20);
  std::vector<uint8_t> buffer(kTagLength + frame.size());
  uint8_t* start = buffer.data() + kTagLength;
  std::copy(frame.begin(), frame.end(), start);

  uint8_t* tagged = PushTag(start, 0xa00a);
  ASSERT_EQ(tagged, buffer.data());
  FrameHeader header;
  ASSERT_EQ(ParseHeader(tagged, buffer.size(), &header), ParseResult::kOk);
  EXPECT_EQ(header.tci, 0xa00a);
  EXPECT_EQ(header.source, MacAddress(0x0708'090a'0b0c));
  EXPECT_EQ(LoadBe16(tagged + 16), 0x0d0e) << "the EtherType follows the tag";

  SetVid(tagged, 0x123);
  EXPECT_EQ(LoadBe16(tagged + 14), 0xa123) << "PCP and DEI stay";

  ASSERT_EQ(PopTag(tagged), start);
  EXPECT_TRUE(std::equal(frame.begin(), frame.end(), start));
}

}  // namespace
}  // namespace ringswitch::bridge
