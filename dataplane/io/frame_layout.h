#pragma once

// Where the transport header of a frame is: what must be known of a super-frame to check its virtio-net
// header and to segment it, and of a frame without checksum to say whose checksum it is.
//
// Theory of operation. EtherType, behind at most two tags, then IPv4 or IPv6 with the extension headers that
// TCP and UDP may have behind them; every step is checked against the frame's length. Only frames that leave
// work to others are looked at this way.

#include <cstdint>
#include <optional>

namespace ringswitch::io {

inline constexpr uint8_t kProtocolTcp = 6;
inline constexpr uint8_t kProtocolUdp = 17;
inline constexpr uint32_t kUdpHeaderLength = 8;

struct FrameLayout {
  bool is_ipv6 = false;
  bool has_routing = false;  // IPv6 routing header: the address in front is not the last one
  uint8_t protocol = 0;      // behind IP
  uint32_t network = 0;      // offset of the IP header from the frame's first byte
  uint32_t transport = 0;    // of the transport header
  uint32_t payload = 0;      // of what is behind that
};

// The transport header, whatever its protocol; `payload` is not looked for. None: not IP, an IP fragment, or
// headers that do not fit.
std::optional<FrameLayout> FindTransport(const uint8_t* frame, uint32_t length);
// None: not TCP or UDP over IP, an IP fragment, or headers that do not fit into the `length` bytes at
// `frame`.
std::optional<FrameLayout> FindLayout(const uint8_t* frame, uint32_t length);

}  // namespace ringswitch::io
