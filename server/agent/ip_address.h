#pragma once

// An IPv4 or IPv6 address with prefix length, and its text.

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ringswitch::agent {

struct IpAddress {
  std::array<uint8_t, 16> bytes{};  // the first size() are used
  bool is_ipv6 = false;
  uint8_t prefix_length = 0;

  uint32_t size() const { return is_ipv6 ? 16 : 4; }
  int family() const;               // AF_INET or AF_INET6
  IpAddress Network() const;        // host bits cleared
  std::string ToString() const;     // "10.0.0.2/24"
  std::string AddressText() const;  // "10.0.0.2"
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

// "10.0.0.2/24" or "2001:db8::1/64". INVALID_ARGUMENT names the text.
absl::StatusOr<IpAddress> ParseIpPrefix(const std::string& text);
// "10.0.0.2" or "2001:db8::1": all bits are prefix.
absl::StatusOr<IpAddress> ParseIpAddress(const std::string& text);

}  // namespace ringswitch::agent
