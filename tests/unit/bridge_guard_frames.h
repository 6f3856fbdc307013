#pragma once

// Frames of the guards' tables and tests, written as hexadecimal text: ARP, IPv4, IPv6 and what may be
// inside.

#include <string>

#include "tests/unit/bridge_testbed.h"

namespace ringswitch::bridge {

inline constexpr const char* kPort =
    "access 1 address-guard mac 02:00:00:00:0a:01 ip 10.0.0.1 ip 2001:db8::1";
inline constexpr const char* kMac = "020000000a01";
inline constexpr const char* kOtherMac = "020000000a02";
inline constexpr const char *kIp = "0a000001", *kOtherIp = "0a000002", *kNoIp = "00000000";
inline constexpr const char* kIp6 = "20010db8000000000000000000000001";
inline constexpr const char* kOtherIp6 = "20010db8000000000000000000000002";
inline constexpr const char* kLinkLocal = "fe80000000000000000000fffe000a01";       // of kMac
inline constexpr const char* kOtherLinkLocal = "fe80000000000000000000fffe000a02";  // of kOtherMac
inline constexpr const char* kNoIp6 = "00000000000000000000000000000000";

inline std::string Hex(size_t value, int digits) {
  std::string text;
  for (int i = digits - 1; i >= 0; --i) text += "0123456789abcdef"[value >> (4 * i) & 0xf];
  return text;
}
inline size_t BytesOf(const std::string& hex) {
  return hex.size() / 2;
}
inline FrameBytes Exactly(const std::string& hex) {
  return MakeFrame(BytesOf(hex), hex);
}

inline std::string Ethernet(const std::string& type_and_payload, const char* source = kMac) {
  return std::string("ffffffffffff") + source + type_and_payload;
}
inline std::string Arp(const char* operation, const std::string& hardware, const std::string& address,
                       const std::string& target = "0a000002") {
  return std::string("0806") + "0001" + "0800" + "0604" + operation + hardware + address + "000000000000" +
         target;
}
inline std::string Ipv4(const std::string& source, const std::string& protocol, const std::string& payload,
                        const std::string& fragment = "0000", const std::string& options = "") {
  const size_t header = 20 + BytesOf(options);
  return "0800" + std::string("4") + Hex(header / 4, 1) + "00" + Hex(header + BytesOf(payload), 4) + "0001" +
         fragment + "40" + protocol + "0000" + source + "0a0000fe" + options + payload;
}
inline std::string Udp(size_t from, size_t to) {
  return Hex(from, 4) + Hex(to, 4) + "0008" + "0000";
}
inline std::string Ipv6(const std::string& source, const std::string& next, const std::string& payload) {
  return "86dd" + std::string("60000000") + Hex(BytesOf(payload), 4) + next + "ff" + source +
         "ff020000000000000000000000000001" + payload;
}
inline std::string Icmpv6(const std::string& type, const std::string& body = "00000000") {
  return type + "00" + "0000" + body;
}
// `option`: a link-layer address, "01" source or "02" target.
inline std::string Neighbour(const std::string& type, const std::string& target,
                             const std::string& option = "", const std::string& mac = "") {
  return Icmpv6(type, "00000000" + target + (option.empty() ? "" : option + "01" + mac));
}
// An extension header of eight bytes.
inline std::string Extension(const std::string& next) {
  return next + "00" + "010400000000";
}
inline std::string Fragment(const std::string& next, size_t offset, bool more) {
  return next + "00" + Hex(offset << 3 | (more ? 1 : 0), 4) + "00000001";
}

inline constexpr const char *kUdp = "11", *kTcp = "06", *kIcmpv6 = "3a", *kHopByHop = "00",
                            *kDestination = "3c", *kFragment = "2c";
inline constexpr const char *kSolicitation = "87", *kAdvertisement = "88", *kRouterSolicitation = "85",
                            *kRouterAdvertisement = "86", *kRedirect = "89";

}  // namespace ringswitch::bridge
