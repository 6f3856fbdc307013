#include "server/agent/announce.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <sys/socket.h>

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "dataplane/file.h"

namespace ringswitch::agent {
namespace {

using bridge::MacAddress;

constexpr MacAddress kBroadcast(0xffff'ffff'ffffULL);
constexpr MacAddress kAllNodes(0x3333'0000'0001ULL);  // ff02::1 (RFC 2464, 7)

void Append(std::vector<uint8_t>* frame, std::initializer_list<uint8_t> bytes) {
  frame->insert(frame->end(), bytes);
}

void Append(std::vector<uint8_t>* frame, MacAddress mac) {
  const std::array<uint8_t, 6> bytes = mac.Bytes();
  frame->insert(frame->end(), bytes.begin(), bytes.end());
}

void Append(std::vector<uint8_t>* frame, const IpAddress& address) {
  frame->insert(frame->end(), address.bytes.begin(), address.bytes.begin() + address.size());
}

void AppendArp(std::vector<uint8_t>* frame, MacAddress mac, const IpAddress& address) {
  Append(frame, {0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1});  // EtherType; Ethernet, IPv4, lengths, request
  Append(frame, mac);
  Append(frame, address);
  Append(frame, {0, 0, 0, 0, 0, 0});
  Append(frame, address);
}

// RFC 1071 over the pseudo header (RFC 8200, 8.1) and the message: `ip` is the IPv6 header, the rest of the
// frame ICMPv6 only.
uint16_t Icmpv6Checksum(const uint8_t* ip, size_t icmp_length) {
  uint32_t sum = static_cast<uint32_t>(icmp_length) + 58;
  for (size_t i = 8; i < 40 + icmp_length; i += 2) sum += bridge::LoadBe16(ip + i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

void AppendNeighborAdvertisement(std::vector<uint8_t>* frame, MacAddress mac, const IpAddress& address) {
  constexpr uint8_t kIcmpLength = 32;
  Append(frame, {0x86, 0xdd, 0x60, 0, 0, 0, 0, kIcmpLength, 58, 255});  // EtherType; IPv6, ICMPv6, hop limit
  const size_t ip = frame->size() - 8;
  Append(frame, address);
  Append(frame, {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  const size_t icmp = frame->size();
  Append(frame, {136, 0, 0, 0, 0x20, 0, 0, 0});  // neighbour advertisement, override
  Append(frame, address);
  Append(frame, {2, 1});  // option: target link-layer address
  Append(frame, mac);
  bridge::StoreBe16(frame->data() + icmp + 2, Icmpv6Checksum(frame->data() + ip, kIcmpLength));
}

}  // namespace

std::vector<uint8_t> AnnouncementFrame(MacAddress mac, const IpAddress& address) {
  std::vector<uint8_t> frame;
  Append(&frame, address.is_ipv6 ? kAllNodes : kBroadcast);
  Append(&frame, mac);
  if (address.is_ipv6) {
    AppendNeighborAdvertisement(&frame, mac, address);
  } else {
    AppendArp(&frame, mac, address);
  }
  return frame;
}

absl::Status SendAnnouncements(uint32_t ifindex, MacAddress mac, const std::vector<IpAddress>& addresses) {
  File socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));  // protocol 0: receives nothing
  if (!socket.is_open()) return absl::ErrnoToStatus(errno, "packet socket for announcements");
  sockaddr_ll target{};
  target.sll_family = AF_PACKET;
  target.sll_ifindex = static_cast<int>(ifindex);
  for (const IpAddress& address : addresses) {
    const std::vector<uint8_t> frame = AnnouncementFrame(mac, address);
    if (sendto(socket.fd(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&target),
               sizeof(target)) < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("announcing ", address.AddressText()));
    }
  }
  return absl::OkStatus();
}

}  // namespace ringswitch::agent
