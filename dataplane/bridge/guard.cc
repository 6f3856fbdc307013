#include "dataplane/bridge/guard.h"

#include <algorithm>

namespace ringswitch::bridge {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint16_t kEtherTypeIpv4 = 0x0800, kEtherTypeArp = 0x0806, kEtherTypeIpv6 = 0x86dd;
constexpr uint16_t kEtherTypeServiceTag = 0x88a8;

constexpr size_t kIpv4HeaderLength = 20, kIpv6HeaderLength = 40, kArpLength = 28;  // ARP for IPv4 on Ethernet
constexpr uint16_t kArpRequest = 1;
constexpr uint16_t kIpv4MoreFragments = 0x2000, kIpv4FragmentOffset = 0x1fff;
constexpr size_t kUdpHeaderLength = 8;
constexpr uint16_t kDhcpServerPort = 67, kDhcpClientPort = 68, kDhcpv6ServerPort = 547;

// Protocol numbers (IANA), upper layers and extension headers.
constexpr uint8_t kHopByHop = 0, kUdp = 17, kRouting = 43, kFragment = 44, kAuthentication = 51, kIcmpv6 = 58,
                  kDestinationOptions = 60, kMobility = 135, kHostIdentity = 139, kShim6 = 140;
constexpr uint8_t kProtocolMax = 147;  // those above are unassigned, experimental or reserved

constexpr uint8_t kHopLimitMax = 255;

// ICMPv6 messages (RFC 4861, RFC 2710, RFC 3810) and neighbour discovery options.
constexpr uint8_t kMulticastReport = 131, kMulticastDone = 132, kRouterSolicitation = 133,
                  kRouterAdvertisement = 134, kNeighbourSolicitation = 135, kNeighbourAdvertisement = 136,
                  kRedirect = 137, kMulticastReportV2 = 143;
constexpr uint8_t kSourceLinkLayerAddress = 1, kTargetLinkLayerAddress = 2;
constexpr size_t kIcmpv6HeaderLength = 4;
constexpr size_t kRouterSolicitationLength = 8, kNeighbourMessageLength = 24;  // before the options

// The payload and its EtherType, behind the outermost tag and the priority tags behind that.
struct Payload {
  uint16_t ether_type = 0;
  Bytes bytes;
};

Payload PayloadOf(Bytes frame) {
  size_t at = kAddressesLength;
  uint16_t ether_type = LoadBe16(&frame[at]);
  while (ether_type == kTpid || ether_type == kEtherTypeServiceTag) {
    if (frame.size() < at + kTagLength + 2) return {};
    const bool is_outermost = at == kAddressesLength && ether_type == kTpid;
    const bool is_priority_tag = (LoadBe16(&frame[at + 2]) & 0x0fff) == 0;
    if (!is_outermost && !is_priority_tag) return {};
    at += kTagLength;
    ether_type = LoadBe16(&frame[at]);
  }
  return {.ether_type = ether_type, .bytes = frame.subspan(at + 2)};
}

template <size_t N>
std::array<uint8_t, N> LoadAddress(Bytes bytes, size_t at) {
  std::array<uint8_t, N> address;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), N, address.begin());
  return address;
}

template <typename T>
bool Contains(const std::vector<T>& list, const T& wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

constexpr bool IsUnspecified(const auto& address) {
  return std::all_of(address.begin(), address.end(), [](uint8_t byte) { return byte == 0; });
}

// --- the upper layer behind an IP header ---

struct UpperLayer {
  enum class Kind : uint8_t {
    kFound,
    kLaterFragment,  // its header is in another frame
    kHidden,         // cut off, malformed, or put where a first fragment does not show it
  };
  Kind kind = Kind::kHidden;
  uint8_t protocol = 0;
  bool is_fragment = false;
  Bytes bytes{};  // from the upper layer's header on
};

UpperLayer UpperLayerOfIpv4(Bytes datagram) {
  if (datagram.size() < kIpv4HeaderLength || datagram[0] >> 4 != 4) return {};
  const size_t header_length = (datagram[0] & 0x0f) * size_t{4};
  if (header_length < kIpv4HeaderLength || header_length > datagram.size()) return {};
  const uint16_t fragment = LoadBe16(&datagram[6]);
  const bool is_later = (fragment & kIpv4FragmentOffset) != 0;
  return {.kind = is_later ? UpperLayer::Kind::kLaterFragment : UpperLayer::Kind::kFound,
          .protocol = datagram[9],
          .is_fragment = is_later || (fragment & kIpv4MoreFragments) != 0,
          .bytes = datagram.subspan(header_length)};
}

constexpr bool IsExtensionHeader(uint8_t protocol) {
  switch (protocol) {
    case kHopByHop:
    case kRouting:
    case kFragment:
    case kAuthentication:
    case kDestinationOptions:
    case kMobility:
    case kHostIdentity:
    case kShim6:
      return true;
    default:
      return false;
  }
}

UpperLayer UpperLayerOfIpv6(Bytes datagram) {
  if (datagram.size() < kIpv6HeaderLength || datagram[0] >> 4 != 6) return {};
  UpperLayer upper{.kind = UpperLayer::Kind::kFound,
                   .protocol = datagram[6],
                   .is_fragment = false,
                   .bytes = datagram.subspan(kIpv6HeaderLength)};
  for (uint32_t headers = 0; headers <= kExtensionHeadersMax; ++headers) {
    if (upper.protocol > kProtocolMax) return {};
    if (!IsExtensionHeader(upper.protocol)) return upper;
    const Bytes header = upper.bytes;
    if (header.size() < 8) return {};
    size_t length = (header[1] + size_t{1}) * 8;
    if (upper.protocol == kAuthentication) length = (header[1] + size_t{2}) * 4;
    if (upper.protocol == kFragment) {
      length = 8;
      const uint16_t fragment = LoadBe16(&header[2]);
      upper.is_fragment = upper.is_fragment || (fragment & ~6u) != 0;  // offset or M; not an atomic fragment
      if ((fragment & ~7u) != 0) {
        upper.kind = UpperLayer::Kind::kLaterFragment;
        return upper;
      }
    }
    if (header.size() < length) return {};
    upper.protocol = header[0];
    upper.bytes = header.subspan(length);
  }
  return {};
}

// --- router advertisements, DHCP servers ---

// What a receiver may take for a message of a router on its link, whatever is inside.
bool IsFromTheLink(Bytes datagram) {
  if (datagram.size() < kIpv6HeaderLength) return true;
  return datagram[7] == kHopLimitMax && datagram[8] == 0xfe && (datagram[9] & 0xc0) == 0x80;
}

bool IsRouterAdvertisement(const Payload& payload) {
  if (payload.ether_type != kEtherTypeIpv6) return false;
  const UpperLayer upper = UpperLayerOfIpv6(payload.bytes);
  if (upper.kind == UpperLayer::Kind::kLaterFragment) return false;
  if (upper.kind == UpperLayer::Kind::kHidden) return IsFromTheLink(payload.bytes);
  if (upper.protocol != kIcmpv6) return false;
  if (upper.bytes.empty()) return true;
  return upper.bytes[0] == kRouterAdvertisement || upper.bytes[0] == kRedirect;
}

bool IsFromDhcpServer(const Payload& payload) {
  const bool is_ipv4 = payload.ether_type == kEtherTypeIpv4;
  if (!is_ipv4 && payload.ether_type != kEtherTypeIpv6) return false;
  const UpperLayer upper = is_ipv4 ? UpperLayerOfIpv4(payload.bytes) : UpperLayerOfIpv6(payload.bytes);
  if (upper.kind == UpperLayer::Kind::kLaterFragment) return false;
  if (upper.kind == UpperLayer::Kind::kHidden) return true;
  if (upper.protocol != kUdp) return false;
  if (upper.bytes.size() < kUdpHeaderLength) return true;
  return LoadBe16(upper.bytes.data()) == (is_ipv4 ? kDhcpServerPort : kDhcpv6ServerPort);
}

// --- senders ---

// What one port may call itself in one frame.
class Sender {
 public:
  Sender(const SourceGuard& guard, MacAddress source) : guard_(guard), source_(source) {}

  bool MaySend(const Payload& payload) const {
    switch (payload.ether_type) {
      case kEtherTypeIpv4:
        return MaySendIpv4(payload.bytes);
      case kEtherTypeArp:
        return MaySendArp(payload.bytes);
      case kEtherTypeIpv6:
        return MaySendIpv6(payload.bytes);
      default:
        return true;
    }
  }

 private:
  // A port without a list of MACs owns the one that it sends from.
  bool Owns(MacAddress mac) const {
    return guard_.macs.empty() ? mac == source_ : Contains(guard_.macs, mac);
  }
  bool Owns(const Ipv4Address& address) const { return Contains(guard_.ipv4, address); }
  bool Owns(const Ipv6Address& address) const {
    if (Contains(guard_.ipv6, address)) return true;
    if (guard_.macs.empty()) return address == LinkLocalOf(source_);
    return std::any_of(guard_.macs.begin(), guard_.macs.end(),
                       [&address](MacAddress mac) { return address == LinkLocalOf(mac); });
  }

  bool MaySendIpv4(Bytes datagram) const {
    const UpperLayer upper = UpperLayerOfIpv4(datagram);
    if (upper.kind == UpperLayer::Kind::kHidden) return false;
    const auto address = LoadAddress<4>(datagram, 12);
    if (Owns(address)) return true;
    return IsUnspecified(address) && upper.kind == UpperLayer::Kind::kFound && upper.protocol == kUdp &&
           upper.bytes.size() >= kUdpHeaderLength && LoadBe16(&upper.bytes[0]) == kDhcpClientPort &&
           LoadBe16(&upper.bytes[2]) == kDhcpServerPort;
  }

  bool MaySendArp(Bytes message) const {
    static constexpr std::array<uint8_t, 6> kIpv4OnEthernet = {0x00, 0x01, 0x08, 0x00, 6, 4};
    if (message.size() < kArpLength ||
        !std::equal(kIpv4OnEthernet.begin(), kIpv4OnEthernet.end(), message.begin())) {
      return false;
    }
    if (!Owns(MacAddress::FromBytes(&message[8]))) return false;
    const auto address = LoadAddress<4>(message, 14);
    return Owns(address) || (IsUnspecified(address) && LoadBe16(&message[6]) == kArpRequest);
  }

  bool MaySendIpv6(Bytes datagram) const {
    const UpperLayer upper = UpperLayerOfIpv6(datagram);
    if (datagram.size() < kIpv6HeaderLength || upper.kind == UpperLayer::Kind::kHidden) return false;
    const auto address = LoadAddress<16>(datagram, 8);
    const bool has_no_address = IsUnspecified(address);
    if (!has_no_address && !Owns(address)) return false;
    if (upper.kind == UpperLayer::Kind::kLaterFragment || upper.protocol != kIcmpv6) return !has_no_address;
    return MaySendIcmpv6(upper, has_no_address);
  }

  // `has_no_address`: sent from ::, as in duplicate address detection.
  bool MaySendIcmpv6(const UpperLayer& upper, bool has_no_address) const {
    const Bytes message = upper.bytes;
    if (message.size() < kIcmpv6HeaderLength) return false;
    switch (message[0]) {
      case kRouterSolicitation:
        return OptionsAreOwn(upper, kRouterSolicitationLength, kSourceLinkLayerAddress);
      case kNeighbourSolicitation:
        if (!OptionsAreOwn(upper, kNeighbourMessageLength, kSourceLinkLayerAddress)) return false;
        return !has_no_address || Owns(LoadAddress<16>(message, 8));
      case kNeighbourAdvertisement:
        return OptionsAreOwn(upper, kNeighbourMessageLength, kTargetLinkLayerAddress) && !has_no_address &&
               Owns(LoadAddress<16>(message, 8));
      case kMulticastReport:
      case kMulticastDone:
      case kMulticastReportV2:
        return true;
      default:
        return !has_no_address;
    }
  }

  // The link-layer addresses of `option` behind the first `length` bytes of a neighbour discovery message,
  // which must be whole and unfragmented.
  bool OptionsAreOwn(const UpperLayer& upper, size_t length, uint8_t option) const {
    Bytes rest = upper.bytes;
    if (upper.is_fragment || rest.size() < length) return false;
    for (rest = rest.subspan(length); rest.size() >= 2;) {
      const size_t option_length = rest[1] * size_t{8};
      // The padding of a short frame looks like an option without length: nothing real follows one.
      if (option_length == 0) return true;
      if (option_length > rest.size()) return false;
      if (rest[0] == option && !Owns(MacAddress::FromBytes(&rest[2]))) return false;
      rest = rest.subspan(option_length);
    }
    return true;
  }

  const SourceGuard& guard_;
  const MacAddress source_;
};

}  // namespace

Ipv6Address LinkLocalOf(MacAddress mac) {
  const std::array<uint8_t, 6> m = mac.Bytes();
  return {0xfe,
          0x80,
          0,
          0,
          0,
          0,
          0,
          0,  //
          static_cast<uint8_t>(m[0] ^ 0x02),
          m[1],
          m[2],
          0xff,
          0xfe,
          m[3],
          m[4],
          m[5]};
}

std::optional<DropReason> CheckGuards(uint32_t features, const SourceGuard& guard, MacAddress source,
                                      std::span<const uint8_t> frame) {
  if ((features & kSourceMacGuard) != 0 && !Contains(guard.macs, source)) return DropReason::kSourceMacGuard;
  if ((features & kGuardFeatures & ~kSourceMacGuard) == 0) return std::nullopt;
  const Payload payload = PayloadOf(frame);
  if ((features & kSourceAddressGuard) != 0 && !Sender(guard, source).MaySend(payload)) {
    return DropReason::kSourceAddressGuard;
  }
  if ((features & kRouterAdvertisementGuard) != 0 && IsRouterAdvertisement(payload)) {
    return DropReason::kRouterAdvertisementGuard;
  }
  if ((features & kDhcpServerGuard) != 0 && IsFromDhcpServer(payload)) return DropReason::kDhcpServerGuard;
  return std::nullopt;
}

}  // namespace ringswitch::bridge
