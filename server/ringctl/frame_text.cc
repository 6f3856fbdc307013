#include "server/ringctl/frame_text.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ringswitch::ringctl {
namespace {

constexpr std::size_t kAddressLength = 6;
constexpr std::uint32_t kTagType = 0x8100;
constexpr std::uint32_t kEtherTypeMin = 0x600;  // Below: the length of an LLC frame.

constexpr std::array<std::pair<std::uint32_t, absl::string_view>, 5> kEtherTypes = {{
    {0x0800, "IPv4"},
    {0x0806, "ARP"},
    {0x86dd, "IPv6"},
    {0x88a8, "802.1ad"},
    {0x88cc, "LLDP"},
}};

std::uint32_t NumberAt(absl::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]) * 256u + static_cast<unsigned char>(bytes[at + 1]);
}

std::string AddressAt(absl::string_view bytes, std::size_t at) {
  std::string text;
  for (std::size_t i = at; i < at + kAddressLength; ++i) {
    absl::StrAppendFormat(&text, "%s%02x", i == at ? "" : ":", static_cast<unsigned char>(bytes[i]));
  }
  return text;
}

std::string DescribeType(std::uint32_t type) {
  if (type < kEtherTypeMin) {
    return "LLC";
  }
  for (const auto& [number, name] : kEtherTypes) {
    if (number == type) {
      return std::string(name);
    }
  }
  return absl::StrFormat("0x%04x", type);
}

}  // namespace

std::string DescribeFrame(absl::string_view bytes) {
  std::size_t at = 2 * kAddressLength;
  if (bytes.size() < at + 2) {
    return "cut short";
  }
  std::string text = absl::StrCat(AddressAt(bytes, kAddressLength), " > ", AddressAt(bytes, 0));
  for (; NumberAt(bytes, at) == kTagType; at += 4) {
    if (bytes.size() < at + 6) {
      return absl::StrCat(text, " tag cut short");
    }
    const std::uint32_t tci = NumberAt(bytes, at + 2);
    absl::StrAppend(&text, " vlan ", tci % 4096);
    if (tci >> 13 != 0) {
      absl::StrAppend(&text, " pcp ", tci >> 13);
    }
  }
  return absl::StrCat(text, " ", DescribeType(NumberAt(bytes, at)));
}

}  // namespace ringswitch::ringctl
