#pragma once

// An Ethernet frame as bytes, and the only code that reads or moves its header.
//
// Theory of operation. A frame is the bytes from the destination address to the last byte of payload, without
// FCS. Every access is bounds-checked here, so the rest of the room cannot read past the end. Only the
// outermost tag is looked at (IEEE 802.1Q-2022, 9.3); a tag is 0x8100 on the wire, everything else (0x88a8
// too) is opaque payload (design decision 5). Byte order is converted here and nowhere else. Tags are pushed
// and popped by moving the twelve address bytes, never the payload: the buffer must have kTagLength bytes of
// headroom before the frame.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace ringswitch::bridge {

inline constexpr size_t kHeaderLength = 14;     // destination, source, EtherType
inline constexpr size_t kAddressesLength = 12;  // destination, source
inline constexpr size_t kTagLength = 4;         // TPID, TCI
inline constexpr uint16_t kTpid = 0x8100;       // C-tag, IEEE 802.1Q-2022 table 9-1

// A VLAN identifier. 0: none (priority tag, or a switch that is not VLAN-aware); 1 to 4094: a VLAN; 4095:
// reserved.
using VlanId = uint16_t;
inline constexpr VlanId kVlanIdNone = 0;
inline constexpr VlanId kVlanIdMax = 4094;
constexpr bool IsVlan(uint32_t vid) {
  return vid >= 1 && vid <= kVlanIdMax;
}

// A MAC address in the low 48 bits of an integer, first byte on the wire in bits 40 to 47.
class MacAddress {
 public:
  constexpr MacAddress() = default;
  constexpr explicit MacAddress(uint64_t bits) : bits_(bits & 0xffff'ffff'ffffULL) {}
  static MacAddress FromBytes(const uint8_t* bytes);
  // "02:00:00:00:0a:01", ':' or '-', either case; nothing else is taken.
  static std::optional<MacAddress> Parse(std::string_view text);

  constexpr uint64_t bits() const { return bits_; }
  std::array<uint8_t, 6> Bytes() const;
  std::string ToString() const;
  constexpr bool is_group() const { return (bits_ >> 40 & 1) != 0; }
  constexpr bool is_zero() const { return bits_ == 0; }
  constexpr bool is_broadcast() const { return bits_ == 0xffff'ffff'ffffULL; }
  // A single station: what may be a source, an FDB entry or an interface's address.
  constexpr bool is_station() const { return !is_group() && !is_zero(); }
  // 01:80:c2:00:00:00 to :0f, link-scoped (IEEE 802.1Q-2022 table 8-1).
  constexpr bool is_reserved_group() const { return bits_ >> 4 == 0x0180'c200'000ULL; }
  friend constexpr bool operator==(MacAddress, MacAddress) = default;
  friend constexpr auto operator<=>(MacAddress, MacAddress) = default;

 private:
  uint64_t bits_ = 0;
};

// The outermost tag of a frame.
enum class TagState : uint8_t {
  kUntagged,        // no 0x8100 tag
  kPriorityTagged,  // VID 0
  kTagged,          // VID 1 to 4095
};

// What a frame needs to have before it may leave by a port.
enum class TagEdit : uint8_t { kNone, kPush, kPop, kSetVid };

// What the pipeline needs of a header; valid only if Parse said so.
struct FrameHeader {
  MacAddress destination;
  MacAddress source;
  TagState tag = TagState::kUntagged;
  uint16_t tci = 0;  // PCP, DEI, VID of the tag; 0 when untagged
  VlanId vid() const { return tci & 0x0fff; }
};

enum class ParseResult : uint8_t { kOk, kTooShort, kTruncatedTag };

// Reads the header of a frame of `length` bytes. kTooShort below 14 bytes, kTruncatedTag where a 0x8100 TPID
// is not followed by two bytes of TCI and two of EtherType.
ParseResult ParseHeader(const uint8_t* frame, size_t length, FrameHeader* header);

// The edits. Each returns the frame's new start; the length changes by kTagLength accordingly. The caller
// guarantees kTagLength bytes before `frame` for PushTag, and a frame whose header was parsed as tagged for
// the other two.
uint8_t* PushTag(uint8_t* frame, uint16_t tci);
uint8_t* PopTag(uint8_t* frame);
void SetVid(uint8_t* frame, VlanId vid);  // keeps PCP and DEI

// --- inline, for the frame path ---

inline MacAddress MacAddress::FromBytes(const uint8_t* bytes) {
  // Written so that compilers make two wide loads of it.
  const auto byte = [bytes](size_t i) { return static_cast<uint32_t>(bytes[i]); };
  const uint32_t high = byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
  return MacAddress(static_cast<uint64_t>(high) << 16 | byte(4) << 8 | byte(5));
}

inline uint16_t LoadBe16(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] << 8 | bytes[1]);
}
inline void StoreBe16(uint8_t* bytes, uint16_t value) {
  bytes[0] = static_cast<uint8_t>(value >> 8);
  bytes[1] = static_cast<uint8_t>(value);
}

inline ParseResult ParseHeader(const uint8_t* frame, size_t length, FrameHeader* header) {
  if (length < kHeaderLength) return ParseResult::kTooShort;
  header->destination = MacAddress::FromBytes(frame);
  header->source = MacAddress::FromBytes(frame + 6);
  header->tag = TagState::kUntagged;
  header->tci = 0;
  if (LoadBe16(frame + kAddressesLength) != kTpid) return ParseResult::kOk;
  if (length < kHeaderLength + kTagLength) return ParseResult::kTruncatedTag;
  header->tci = LoadBe16(frame + kHeaderLength);
  header->tag = header->vid() == 0 ? TagState::kPriorityTagged : TagState::kTagged;
  return ParseResult::kOk;
}

inline uint8_t* PushTag(uint8_t* frame, uint16_t tci) {
  uint8_t* start = frame - kTagLength;
  std::memmove(start, frame, kAddressesLength);
  StoreBe16(start + kAddressesLength, kTpid);
  StoreBe16(start + kHeaderLength, tci);
  return start;
}

inline uint8_t* PopTag(uint8_t* frame) {
  uint8_t* start = frame + kTagLength;
  std::memmove(start, frame, kAddressesLength);
  return start;
}

inline void SetVid(uint8_t* frame, VlanId vid) {
  uint16_t tci = LoadBe16(frame + kHeaderLength);
  StoreBe16(frame + kHeaderLength, static_cast<uint16_t>((tci & 0xf000) | vid));
}

}  // namespace ringswitch::bridge
