#include "dataplane/bridge/frame.h"

namespace ringswitch::bridge {
namespace {

constexpr size_t kTextLength = 17;  // six pairs and five separators

int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<MacAddress> MacAddress::Parse(std::string_view text) {
  if (text.size() != kTextLength) return std::nullopt;
  const char separator = text[2];
  if (separator != ':' && separator != '-') return std::nullopt;
  uint64_t bits = 0;
  for (size_t i = 0; i < kTextLength; ++i) {
    if (i % 3 == 2) {
      if (text[i] != separator) return std::nullopt;
      continue;
    }
    const int digit = HexDigit(text[i]);
    if (digit < 0) return std::nullopt;
    bits = bits << 4 | static_cast<uint64_t>(digit);
  }
  return MacAddress(bits);
}

std::array<uint8_t, 6> MacAddress::Bytes() const {
  std::array<uint8_t, 6> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(bits_ >> (40 - 8 * i));
  return bytes;
}

std::string MacAddress::ToString() const {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(kTextLength);
  for (const uint8_t byte : Bytes()) {
    if (!text.empty()) text += ':';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

}  // namespace ringswitch::bridge
