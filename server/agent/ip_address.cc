#include "server/agent/ip_address.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ringswitch::agent {

int IpAddress::family() const {
  return is_ipv6 ? AF_INET6 : AF_INET;
}

IpAddress IpAddress::Network() const {
  IpAddress network = *this;
  for (uint32_t bit = prefix_length; bit < size() * 8; ++bit) network.bytes[bit / 8] &= ~(0x80u >> bit % 8);
  return network;
}

std::string IpAddress::AddressText() const {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(family(), bytes.data(), text, sizeof(text));
}

std::string IpAddress::ToString() const {
  return absl::StrCat(AddressText(), "/", prefix_length);
}

absl::StatusOr<IpAddress> ParseIpAddress(const std::string& text) {
  IpAddress address;
  address.is_ipv6 = text.find(':') != std::string::npos;
  address.prefix_length = static_cast<uint8_t>(address.size() * 8);
  if (text.find('\0') == std::string::npos &&
      inet_pton(address.family(), text.c_str(), address.bytes.data()) == 1) {
    return address;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no IP address; write it as 10.0.0.2 or 2001:db8::2"));
}

absl::StatusOr<IpAddress> ParseIpPrefix(const std::string& text) {
  const size_t slash = text.find('/');
  absl::StatusOr<IpAddress> address = ParseIpAddress(text.substr(0, slash));
  const std::string length_text = slash == std::string::npos ? "" : text.substr(slash + 1);
  uint32_t length = 0;
  const bool is_number = length_text.find_first_not_of("0123456789") == std::string::npos &&
                         absl::SimpleAtoi(length_text, &length);
  if (!address.ok() || !is_number || length > address->size() * 8) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is no IP address with prefix length; write it as 10.0.0.2/24 or 2001:db8::2/64"));
  }
  address->prefix_length = static_cast<uint8_t>(length);
  return address;
}

}  // namespace ringswitch::agent
