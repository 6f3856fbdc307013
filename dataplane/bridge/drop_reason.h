#pragma once

// Why a frame went nowhere: one name per cause, the same in code, metrics, API and README.
//
// kIngress reasons end the life of a received frame; kEgress reasons end that of one copy queued to one port.
// The two ledgers of the dataplane: frames received = frames forwarded to at least one port + ingress drops;
// copies queued = copies transmitted + egress drops. Both hold exactly at every batch boundary.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ringswitch::bridge {

// X(enumerator, side, label, what happened). Labels are values of the metric label `reason`: never rename
// one.
#define RINGSWITCH_DROP_REASONS(X)                                                                        \
  X(kFrameTooShort, kIngress, "frame_too_short", "fewer than 14 bytes")                                   \
  X(kFrameTruncated, kIngress, "frame_truncated", "longer than a buffer, or cut short by the device")     \
  X(kTruncatedTag, kIngress, "truncated_tag", "0x8100 without a whole tag and EtherType behind it")       \
  X(kInvalidOffloadHeader, kIngress, "invalid_offload_header",                                            \
    "virtio-net header that contradicts the frame")                                                       \
  X(kInvalidSource, kIngress, "invalid_source", "source address is a group or zero")                      \
  X(kReservedGroup, kIngress, "reserved_group", "01:80:c2:00:00:0X is not forwarded by a bridge")         \
  X(kIngressVlanNotMember, kIngress, "ingress_vlan_not_member",                                           \
    "the port is not a member of the tag's VLAN")                                                         \
  X(kTaggedOnAccessPort, kIngress, "tagged_on_access_port",                                               \
    "an access port takes untagged and priority-tagged frames")                                           \
  X(kNoNativeVlan, kIngress, "no_native_vlan", "untagged on a trunk without native VLAN")                 \
  X(kStaticAddressElsewhere, kIngress, "static_address_elsewhere", "the source is bound to another port") \
  X(kDestinationOnIngressPort, kIngress, "destination_on_ingress_port", "filtered: already on its side")  \
  X(kNoEgressPort, kIngress, "no_egress_port",                                                            \
    "filtered: no other port takes frames of this VLAN and class")                                        \
  X(kPortRemoved, kIngress, "port_removed", "read before, handled after the port was removed")            \
  X(kPortDown, kIngress, "port_down", "the port was set down by its administrator")                       \
  X(kPortBlocked, kIngress, "port_blocked", "BPDU guard has taken the port down")                         \
  X(kBpduGuard, kIngress, "bpdu_guard", "a bridge protocol frame on a port that must not send any")       \
  X(kSourceNotAuthorised, kIngress, "source_not_authorised",                                              \
    "the port is locked and no FDB entry binds the source to it")                                         \
  X(kSourceMacGuard, kIngress, "source_mac_guard", "the source is not one of the port's MAC addresses")   \
  X(kSourceAddressGuard, kIngress, "source_address_guard",                                                \
    "the IP, ARP or ND sender is not one of the port's addresses")                                        \
  X(kRouterAdvertisementGuard, kIngress, "router_advertisement_guard",                                    \
    "router advertisement or redirect from a port that must not send any")                                \
  X(kDhcpServerGuard, kIngress, "dhcp_server_guard", "DHCP server's message from a port that is none's")  \
  X(kStormBroadcast, kIngress, "storm_broadcast", "beyond the port's rate of broadcast")                  \
  X(kStormMulticast, kIngress, "storm_multicast", "beyond the port's rate of multicast")                  \
  X(kStormUnknownUnicast, kIngress, "storm_unknown_unicast", "beyond the port's rate of unknown unicast") \
  X(kReceiveRateExceeded, kIngress, "receive_rate_exceeded", "beyond the port's receive rate")            \
  X(kAddressFlapping, kIngress, "address_flapping",                                                       \
    "the source is held on another port: it moved too often")                                             \
  X(kIsolated, kIngress, "isolated", "filtered: both ports are isolated")                                 \
  X(kTransmitRateExceeded, kEgress, "transmit_rate_exceeded", "beyond the port's transmit rate")          \
  X(kEgressNotSegmentable, kEgress, "egress_not_segmentable",                                             \
    "a super-frame that the device cannot take and software cannot segment")                              \
  X(kEgressMtuExceeded, kEgress, "egress_mtu_exceeded", "longer than the egress port's MTU + 14 + 4")     \
  X(kEgressPortDown, kEgress, "egress_port_down", "the pod has set its interface down")                   \
  X(kEgressDeviceGone, kEgress, "egress_device_gone", "the device was deleted (EBADFD, EBADF, ENXIO)")    \
  X(kEgressRefused, kEgress, "egress_refused",                                                            \
    "the kernel refused the frame or its offload header (EINVAL)")                                        \
  X(kEgressNoBuffer, kEgress, "egress_no_buffer", "no buffer for the one copy that a mixed flood needs")  \
  X(kEgressQueueFull, kEgress, "egress_queue_full",                                                       \
    "the device takes no more at the moment (EAGAIN, ENOBUFS, ENOMEM)")                                   \
  X(kEgressError, kEgress, "egress_error", "any other error of a write")

enum class DropSide : uint8_t { kIngress, kEgress };

enum class DropReason : uint8_t {
#define RINGSWITCH_ENUMERATOR(name, side, label, text) name,
  RINGSWITCH_DROP_REASONS(RINGSWITCH_ENUMERATOR)
#undef RINGSWITCH_ENUMERATOR
};

struct DropReasonText {
  DropSide side;
  std::string_view label;
  std::string_view description;
};

inline constexpr auto kDropReasonTexts = std::to_array<DropReasonText>({
#define RINGSWITCH_ROW(name, side, label, text) {DropSide::side, label, text},
    RINGSWITCH_DROP_REASONS(RINGSWITCH_ROW)
#undef RINGSWITCH_ROW
});
inline constexpr size_t kDropReasonCount = kDropReasonTexts.size();

constexpr const DropReasonText& TextOf(DropReason reason) {
  return kDropReasonTexts[static_cast<size_t>(reason)];
}

}  // namespace ringswitch::bridge
