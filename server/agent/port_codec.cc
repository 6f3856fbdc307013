// Ports and attachments between the contract and the agent's plain values.

#include "absl/strings/str_cat.h"
#include "server/agent/field_mask.h"
#include "server/agent/proto_codec.h"

namespace ringswitch::agent {
namespace {

VlanRequest DecodeVlans(const v1::VlanMembership& message) {
  VlanRequest request;
  switch (message.mode_case()) {
    case v1::VlanMembership::kAccessVid:
      request.kind = VlanRequest::Kind::kAccess;
      request.access_vid = message.access_vid();
      break;
    case v1::VlanMembership::kTrunk:
      request.kind = VlanRequest::Kind::kTrunk;
      request.tagged = Decode(message.trunk().tagged());
      request.native_vid = message.trunk().native_vid();
      break;
    case v1::VlanMembership::MODE_NOT_SET:
      break;
  }
  return request;
}

PodReference DecodePod(const v1::PodReference& message) {
  return {message.namespace_(), message.name(), message.uid(), message.container_id()};
}

void EncodePod(const PodReference& pod, v1::PodReference* message) {
  message->set_namespace_(pod.namespace_name);
  message->set_name(pod.name);
  message->set_uid(pod.uid);
  message->set_container_id(pod.container_id);
}

void EncodeVlans(const VlanMembership& vlans, v1::VlanMembership* message) {
  if (!vlans.is_trunk) {
    message->set_access_vid(vlans.access_vid);
    return;
  }
  v1::Trunk* trunk = message->mutable_trunk();
  trunk->set_native_vid(vlans.native_vid);
  for (uint32_t vid = 1; vid <= bridge::kVlanIdMax; ++vid) {
    if (!vlans.tagged.contains(static_cast<bridge::VlanId>(vid))) continue;
    v1::VlanRange* range = trunk->add_tagged();
    range->set_first(vid);
    while (vid < bridge::kVlanIdMax && vlans.tagged.contains(static_cast<bridge::VlanId>(vid + 1))) ++vid;
    range->set_last(vid);
  }
}

void EncodeCounters(const bridge::PortTotals& totals, v1::PortCounters* message) {
  message->set_receive_frames(totals.receive_frames);
  message->set_receive_bytes(totals.receive_bytes);
  message->set_transmit_frames(totals.transmit_frames);
  message->set_transmit_bytes(totals.transmit_bytes);
  message->set_flooded_broadcast_frames(totals.flooded_broadcast_frames);
  message->set_flooded_multicast_frames(totals.flooded_multicast_frames);
  message->set_flooded_unknown_unicast_frames(totals.flooded_unknown_unicast_frames);
  message->set_flood_copies(totals.flood_copies);
  message->set_receive_no_buffer_events(totals.receive_no_buffer_events);
  message->set_not_learned_frames(totals.not_learned_frames);
  for (size_t i = 0; i < bridge::kDropReasonCount; ++i) {
    if (totals.drops[i] == 0) continue;
    v1::DropCount* drop = message->add_drops();
    drop->set_reason(std::string(bridge::kDropReasonTexts[i].label));
    drop->set_frames(totals.drops[i]);
  }
}

v1::PortState EncodeState(PortState state) {
  switch (state) {
    case PortState::kUp:
      return v1::PORT_STATE_UP;
    case PortState::kDown:
      return v1::PORT_STATE_DOWN;
    case PortState::kMissing:
      return v1::PORT_STATE_MISSING;
    case PortState::kBlocked:
      return v1::PORT_STATE_BLOCKED;
  }
  return v1::PORT_STATE_UNSPECIFIED;
}

constexpr uint64_t kBitsPerByte = 8;

DurationRequest DecodeDuration(const google::protobuf::Duration& message) {
  return {message.seconds(), message.nanos()};
}

BpduGuardRequest DecodeBpduGuard(const v1::BpduGuard& message) {
  BpduGuardRequest request;
  request.enabled = message.enabled();
  if (message.has_recovery_time()) request.recovery_time = DecodeDuration(message.recovery_time());
  return request;
}

StormLimitRequest DecodeStormLimit(const v1::StormLimit& message) {
  return {message.frames_per_second(), message.burst_frames(), message.bits_per_second(),
          message.burst_bytes()};
}

// The mask may name the whole, or parts of it.
StormControlRequest DecodeStormControl(const v1::Port& message, const FieldMask& mask) {
  const bool is_whole = mask.Takes("storm_control", message.has_storm_control());
  StormControlRequest request;
  auto take = [&](const char* path, bridge::FloodClass flood, const v1::StormLimit& limit) {
    if (is_whole || mask.Takes(path, false)) request[static_cast<size_t>(flood)] = DecodeStormLimit(limit);
  };
  const v1::StormControl& storm = message.storm_control();
  take("storm_control.broadcast", bridge::FloodClass::kBroadcast, storm.broadcast());
  take("storm_control.multicast", bridge::FloodClass::kMulticast, storm.multicast());
  take("storm_control.unknown_unicast", bridge::FloodClass::kUnknownUnicast, storm.unknown_unicast());
  return request;
}

std::optional<RateLimitRequest> DecodeRate(bool is_set, const v1::RateLimit& message) {
  if (!is_set) return std::nullopt;
  return RateLimitRequest{message.bits_per_second(), message.burst_bytes()};
}

SourceGuardRequest DecodeSourceGuard(const v1::Port& message, const FieldMask& mask) {
  const bool is_whole = mask.Takes("source_guard", message.has_source_guard());
  auto takes = [&](const char* path) { return is_whole || mask.Takes(path, false); };
  const v1::SourceGuard& guard = message.source_guard();
  SourceGuardRequest request;
  if (takes("source_guard.mac")) request.mac = guard.mac();
  if (takes("source_guard.address")) request.address = guard.address();
  if (takes("source_guard.mac_addresses"))
    request.mac_addresses.emplace(guard.mac_addresses().begin(), guard.mac_addresses().end());
  if (takes("source_guard.ip_addresses"))
    request.ip_addresses.emplace(guard.ip_addresses().begin(), guard.ip_addresses().end());
  return request;
}

// A field that is not set means its default where a mask names it.
PortAttributesRequest DecodeAttributes(const v1::Port& message, const FieldMask& mask) {
  PortAttributesRequest request;
  auto take = [&mask](const char* path, bool is_set, bool value, std::optional<bool>* field) {
    if (mask.Takes(path, is_set)) *field = value;
  };
  auto take_on = [&take](const char* path, bool is_set, bool value, std::optional<bool>* field) {
    take(path, is_set, !is_set || value, field);
  };
  take_on("admin_up", message.has_admin_up(), message.admin_up(), &request.admin_up);
  take_on("learning", message.has_learning(), message.learning(), &request.learning);
  take_on("flood_unknown_unicast", message.has_flood_unknown_unicast(), message.flood_unknown_unicast(),
          &request.flood_unknown_unicast);
  take_on("flood_multicast", message.has_flood_multicast(), message.flood_multicast(),
          &request.flood_multicast);
  take_on("flood_broadcast", message.has_flood_broadcast(), message.flood_broadcast(),
          &request.flood_broadcast);
  take("isolated", message.isolated(), message.isolated(), &request.isolated);
  take("hairpin", message.hairpin(), message.hairpin(), &request.hairpin);
  take("locked", message.locked(), message.locked(), &request.locked);
  take("router_advertisement_guard", message.router_advertisement_guard(),
       message.router_advertisement_guard(), &request.router_advertisement_guard);
  take("dhcp_server_guard", message.dhcp_server_guard(), message.dhcp_server_guard(),
       &request.dhcp_server_guard);
  if (mask.Takes("bpdu_guard", message.has_bpdu_guard()))
    request.bpdu_guard = DecodeBpduGuard(message.bpdu_guard());
  request.storm_control = DecodeStormControl(message, mask);
  if (mask.Takes("receive_rate", message.has_receive_rate()))
    request.receive_rate = DecodeRate(message.has_receive_rate(), message.receive_rate());
  if (mask.Takes("transmit_rate", message.has_transmit_rate()))
    request.transmit_rate = DecodeRate(message.has_transmit_rate(), message.transmit_rate());
  request.source_guard = DecodeSourceGuard(message, mask);
  return request;
}

void EncodeStormLimit(const bridge::StormLimit& limit, v1::StormLimit* message) {
  message->set_frames_per_second(limit.frames.per_second);
  message->set_burst_frames(limit.frames.burst);
  message->set_bits_per_second(limit.bits.per_second);
  message->set_burst_bytes(limit.bits.burst / kBitsPerByte);
}

void EncodeStormControl(const std::array<bridge::StormLimit, bridge::kFloodClasses>& storm,
                        v1::Port* message) {
  auto encode = [&storm](bridge::FloodClass flood, auto mutable_limit) {
    const bridge::StormLimit& limit = storm[static_cast<size_t>(flood)];
    if (limit != bridge::StormLimit{}) EncodeStormLimit(limit, mutable_limit());
  };
  encode(bridge::FloodClass::kBroadcast,
         [message] { return message->mutable_storm_control()->mutable_broadcast(); });
  encode(bridge::FloodClass::kMulticast,
         [message] { return message->mutable_storm_control()->mutable_multicast(); });
  encode(bridge::FloodClass::kUnknownUnicast,
         [message] { return message->mutable_storm_control()->mutable_unknown_unicast(); });
}

void EncodeRate(const bridge::Rate& rate, v1::RateLimit* message) {
  message->set_bits_per_second(rate.per_second);
  message->set_burst_bytes(rate.burst / kBitsPerByte);
}

void EncodeSourceGuard(const SourceGuardSpec& guard, v1::SourceGuard* message) {
  message->set_mac(guard.mac);
  message->set_address(guard.address);
  for (bridge::MacAddress mac : guard.macs) message->add_mac_addresses(mac.ToString());
  for (const std::string& address : guard.ip_addresses) message->add_ip_addresses(address);
}

// What is off stays unset, so that a message that was read can be sent back.
void EncodeAttributes(const PortAttributes& attributes, v1::Port* message) {
  message->set_admin_up(attributes.admin_up);
  message->set_learning(attributes.learning);
  message->set_flood_unknown_unicast(attributes.flood_unknown_unicast);
  message->set_flood_multicast(attributes.flood_multicast);
  message->set_flood_broadcast(attributes.flood_broadcast);
  message->set_isolated(attributes.isolated);
  message->set_hairpin(attributes.hairpin);
  message->set_locked(attributes.locked);
  message->set_router_advertisement_guard(attributes.router_advertisement_guard);
  message->set_dhcp_server_guard(attributes.dhcp_server_guard);
  if (attributes.bpdu_recovery_s.has_value()) {
    v1::BpduGuard* guard = message->mutable_bpdu_guard();
    guard->set_enabled(true);
    if (*attributes.bpdu_recovery_s > 0)
      guard->mutable_recovery_time()->set_seconds(*attributes.bpdu_recovery_s);
  }
  EncodeStormControl(attributes.storm, message);
  if (attributes.receive_rate.per_second > 0)
    EncodeRate(attributes.receive_rate, message->mutable_receive_rate());
  if (attributes.transmit_rate.per_second > 0)
    EncodeRate(attributes.transmit_rate, message->mutable_transmit_rate());
  if (attributes.source_guard != SourceGuardSpec{})
    EncodeSourceGuard(attributes.source_guard, message->mutable_source_guard());
}

DeviceRequest DecodeDevice(const v1::Port& message) {
  DeviceRequest request;
  switch (message.device_case()) {
    case v1::Port::kTap:
      request.kind = DeviceRequest::Kind::kTap;
      request.netns = message.tap().netns();
      request.ifname = message.tap().ifname();
      break;
    case v1::Port::kNetdev:
      request.kind = DeviceRequest::Kind::kNetdev;
      request.ifname = message.netdev().ifname();
      request.host_stack = message.netdev().host_stack();
      request.software_offload = message.netdev().software_offload();
      break;
    case v1::Port::kVeth:
      request.kind = DeviceRequest::Kind::kVeth;
      request.netns = message.veth().netns();
      request.ifname = message.veth().ifname();
      request.host_ifname = message.veth().host_ifname();
      break;
    case v1::Port::DEVICE_NOT_SET:
      break;
  }
  return request;
}

void EncodeDevice(const DeviceRef& device, v1::Port* message) {
  switch (device.kind) {
    case DeviceRef::Kind::kTap:
      message->mutable_tap()->set_netns(device.link.netns);
      message->mutable_tap()->set_ifname(device.link.ifname);
      return;
    case DeviceRef::Kind::kNetdev:
      message->mutable_netdev()->set_ifname(device.link.ifname);
      message->mutable_netdev()->set_host_stack(device.host_stack == HostStack::kKeep ? v1::HOST_STACK_KEEP
                                                                                      : v1::HOST_STACK_DROP);
      message->mutable_netdev()->set_software_offload(device.software_offload);
      return;
    case DeviceRef::Kind::kVeth:
      message->mutable_veth()->set_netns(device.link.netns);
      message->mutable_veth()->set_ifname(device.link.ifname);
      message->mutable_veth()->set_host_ifname(device.host_ifname);
      return;
  }
}

}  // namespace

PortRequest Decode(const v1::Port& message) {
  PortRequest request;
  request.name = message.name();
  request.switch_name = message.switch_name();
  request.device = DecodeDevice(message);
  request.mac_address = message.mac_address();
  request.mtu = message.mtu();
  if (message.has_vlans()) request.vlans = DecodeVlans(message.vlans());
  request.mac_limit = message.mac_limit();
  request.pod = DecodePod(message.pod());
  request.attributes = DecodeAttributes(message, FieldMask({}, {}, {}));
  return request;
}

PortRequest Decode(const v1::CreatePortRequest& message) {
  PortRequest request = Decode(message.port());
  if (message.has_confirm_within()) request.confirm_within = DecodeDuration(message.confirm_within());
  return request;
}

AttachmentRequest Decode(const v1::Attachment& message) {
  AttachmentRequest request;
  request.container_id = message.container_id();
  request.ifname = message.ifname();
  request.netns = message.netns();
  request.network = message.network();
  request.switch_name = message.switch_name();
  if (message.has_vlans()) request.vlans = DecodeVlans(message.vlans());
  request.mac_address = message.mac_address();
  request.mtu = message.mtu();
  if (message.has_mac_limit()) request.mac_limit = message.mac_limit();
  request.pod = DecodePod(message.pod());
  if (message.has_ip_config()) request.ip_config = Decode(message.ip_config());
  return request;
}

IpSettings Decode(const v1::IpConfig& message) {
  IpSettings settings;
  for (const v1::InterfaceAddress& address : message.addresses())
    settings.addresses.push_back(address.address());
  for (const v1::Route& route : message.routes()) {
    settings.routes.push_back({route.destination(), route.gateway(), route.mtu(), route.priority()});
  }
  return settings;
}

absl::Status Decode(const v1::UpdatePortRequest& request, PortUpdate* update) {
  const v1::Port& message = request.port();
  FieldMask mask(request.update_mask(),
                 {"mtu",
                  "vlans",
                  "mac_limit",
                  "pod",
                  "admin_up",
                  "learning",
                  "flood_unknown_unicast",
                  "flood_multicast",
                  "flood_broadcast",
                  "isolated",
                  "hairpin",
                  "locked",
                  "bpdu_guard",
                  "storm_control",
                  "receive_rate",
                  "transmit_rate",
                  "source_guard",
                  "router_advertisement_guard",
                  "dhcp_server_guard",
                  "storm_control.broadcast",
                  "storm_control.multicast",
                  "storm_control.unknown_unicast",
                  "source_guard.mac",
                  "source_guard.address",
                  "source_guard.mac_addresses",
                  "source_guard.ip_addresses"},
                 {"name", "id", "switch_name", "tap", "netdev", "veth", "mac_address", "status"});
  update->name = message.name();
  if (mask.Takes("mtu", message.mtu() != 0)) update->mtu = message.mtu();
  if (mask.Takes("vlans", message.has_vlans())) {
    std::optional<VlanRequest> vlans;
    if (message.has_vlans()) vlans = DecodeVlans(message.vlans());
    update->vlans = vlans;
  }
  if (mask.Takes("mac_limit", message.mac_limit() != 0)) update->mac_limit = message.mac_limit();
  if (mask.Takes("pod", message.has_pod())) update->pod = DecodePod(message.pod());
  update->attributes = DecodeAttributes(message, mask);
  if (mask.is_whole()) {
    if (!message.switch_name().empty()) update->switch_name = message.switch_name();
    if (message.device_case() != v1::Port::DEVICE_NOT_SET) update->device = DecodeDevice(message);
    if (!message.mac_address().empty()) update->mac_address = message.mac_address();
  }
  return mask.status();
}

void Encode(const PortView& view, v1::Port* message) {
  const PortSpec& spec = view.spec;
  message->set_name(spec.name);
  message->set_id(spec.id);
  message->set_switch_name(spec.switch_name);
  EncodeDevice(spec.device, message);
  if (!spec.mac.is_zero()) message->set_mac_address(spec.mac.ToString());
  message->set_mtu(spec.mtu);
  if (spec.vlans.has_value()) EncodeVlans(*spec.vlans, message->mutable_vlans());
  message->set_mac_limit(spec.mac_limit);
  EncodePod(spec.pod, message->mutable_pod());
  EncodeAttributes(spec.attributes, message);
  v1::PortStatus* status = message->mutable_status();
  status->set_state(EncodeState(view.state));
  status->set_state_detail(view.state_detail);
  status->set_fdb_dynamic_count(view.fdb_dynamic_count);
  if (view.confirm_left_s.has_value()) status->mutable_confirm_time_left()->set_seconds(*view.confirm_left_s);
  EncodeCounters(view.totals, status->mutable_counters());
  status->mutable_counters()->set_device_lost_frames(view.device_lost_frames);
}

void EncodeAttachment(const PortView& view, v1::Attachment* message) {
  const PortSpec& spec = view.spec;
  message->set_ifname(spec.device.link.ifname);
  message->set_netns(spec.device.link.netns);
  message->set_switch_name(spec.switch_name);
  if (spec.vlans.has_value()) EncodeVlans(*spec.vlans, message->mutable_vlans());
  message->set_mac_address(spec.mac.ToString());
  message->set_mtu(spec.mtu);
  message->set_mac_limit(spec.mac_limit);
  EncodePod(spec.pod, message->mutable_pod());
  message->set_port_name(spec.name);
  if (!spec.attachment.has_value()) return;
  message->set_container_id(spec.attachment->container_id);
  message->set_network(spec.attachment->network);
  for (const std::string& address : spec.attachment->ip_config.addresses) {
    message->mutable_ip_config()->add_addresses()->set_address(address);
  }
  for (const LinkRoute& route : spec.attachment->ip_config.routes) {
    v1::Route* encoded = message->mutable_ip_config()->add_routes();
    encoded->set_destination(route.destination);
    encoded->set_gateway(route.gateway);
    encoded->set_mtu(route.mtu);
    encoded->set_priority(route.priority);
  }
}

}  // namespace ringswitch::agent
