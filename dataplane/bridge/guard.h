#pragma once

// Guards: what a port may say about itself, looked at before anything is learned from it.
//
// Theory of operation. Pure functions on the bytes of one frame, called for ports that have a guard and for
// no others. Behind the outermost tag, and behind priority tags (VID 0) stacked there, which receivers ignore
// and attackers hide behind, the payload is IPv4, ARP or IPv6 by its EtherType; anything else is nobody's
// business here. IPv6 extension headers are walked up to the upper layer.
//
// What cannot be read is not let in where it would have to be read: a guarded port drops an ARP, IPv4 or IPv6
// frame that is cut off inside what its guard looks at, a first fragment that hides the upper layer's header,
// and an IPv6 next header that is neither an extension header nor a protocol that IANA knows: it may be an
// extension header yet to come (RFC 7113, RFC 7610, RFC 6980). A protocol that is known ends the chain, also
// where its content is encrypted (ESP): SCTP, GRE and the like pass. Later fragments pass the router
// advertisement and DHCP server guards: without their first one nobody puts them together. The router
// advertisement guard lets pass what it cannot read where no receiver would take it for a router's: sent from
// no link-local address, or with a hop limit below 255, as whatever was routed (RFC 7113, RFC 4861).
//
// Limits. At most kExtensionHeadersMax extension headers; a frame with more counts as one that hides its
// upper layer. LLC/SNAP and inner VLANs are not looked into.

#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/bridge/drop_reason.h"
#include "dataplane/bridge/forwarding_config.h"
#include "dataplane/bridge/frame.h"

namespace ringswitch::bridge {

inline constexpr uint32_t kExtensionHeadersMax = 16;

// The PortFeature bits that CheckGuards looks at.
inline constexpr uint32_t kGuardFeatures =
    kSourceMacGuard | kSourceAddressGuard | kRouterAdvertisementGuard | kDhcpServerGuard;

// Why a frame may not enter by a port that has the guards of `features`, or nothing. `frame` has a whole
// header (ParseHeader), whose source is `source`.
std::optional<DropReason> CheckGuards(uint32_t features, const SourceGuard& guard, MacAddress source,
                                      std::span<const uint8_t> frame);

// The link-local address that a host makes of its MAC address (RFC 4291 appendix A).
Ipv6Address LinkLocalOf(MacAddress mac);

}  // namespace ringswitch::bridge
