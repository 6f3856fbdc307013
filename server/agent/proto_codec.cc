#include "server/agent/proto_codec.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"

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
  }
  return v1::PORT_STATE_UNSPECIFIED;
}

std::optional<AgeingTime> DecodeAgeing(const v1::Switch& message) {
  if (!message.has_ageing_time()) return std::nullopt;
  return AgeingTime{message.ageing_time().seconds(), message.ageing_time().nanos()};
}

// An update mask: which fields of the message to take. Without one, those that are set.
class FieldMask {
 public:
  FieldMask(const google::protobuf::FieldMask& mask, std::set<std::string> mutable_fields,
            std::set<std::string> fixed_fields)
      : is_whole_(mask.paths_size() == 0 || (mask.paths_size() == 1 && mask.paths(0) == "*")) {
    if (is_whole_) return;
    for (const std::string& path : mask.paths()) {
      if (mutable_fields.count(path) > 0) {
        paths_.insert(path);
      } else if (fixed_fields.count(path) > 0) {
        violations_.push_back({"update_mask", absl::StrCat(Quoted(path), " cannot be changed")});
      } else {
        violations_.push_back(
            {"update_mask", absl::StrCat(Quoted(path), " is no field that can be changed")});
      }
    }
  }

  bool is_whole() const { return is_whole_; }
  bool Takes(const std::string& path, bool is_set) const {
    return is_whole_ ? is_set : paths_.count(path) > 0;
  }
  absl::Status status() const { return violations_.empty() ? absl::OkStatus() : FieldError(violations_); }

 private:
  const bool is_whole_;
  std::set<std::string> paths_;
  std::vector<FieldViolation> violations_;
};

}  // namespace

SwitchRequest Decode(const v1::Switch& message) {
  SwitchRequest request;
  request.name = message.name();
  request.mode = message.mode();
  if (message.has_vlan_aware()) request.vlan_aware = message.vlan_aware();
  request.default_vid = message.default_vid();
  request.ageing_time = DecodeAgeing(message);
  request.ageing_disabled = message.ageing_disabled();
  request.fdb_capacity = message.fdb_capacity();
  request.group_forward_mask = message.group_forward_mask();
  return request;
}

PortRequest Decode(const v1::Port& message) {
  PortRequest request;
  request.name = message.name();
  request.switch_name = message.switch_name();
  request.has_device = message.has_tap();
  request.netns = message.tap().netns();
  request.ifname = message.tap().ifname();
  request.mac_address = message.mac_address();
  request.mtu = message.mtu();
  if (message.has_vlans()) request.vlans = DecodeVlans(message.vlans());
  request.mac_limit = message.mac_limit();
  request.pod = DecodePod(message.pod());
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

FdbEntryRequest Decode(const v1::FdbEntry& message) {
  return {message.switch_name(), message.vid(), message.mac_address(), message.port_name()};
}

std::vector<VlanRange> Decode(const google::protobuf::RepeatedPtrField<v1::VlanRange>& ranges) {
  std::vector<VlanRange> decoded;
  for (const v1::VlanRange& range : ranges) decoded.push_back({range.first(), range.last()});
  return decoded;
}

absl::Status Decode(v1::FdbEntryKind kind, std::optional<bridge::FdbKind>* decoded) {
  switch (kind) {
    case v1::FDB_ENTRY_KIND_UNSPECIFIED:
      *decoded = std::nullopt;
      return absl::OkStatus();
    case v1::FDB_ENTRY_KIND_DYNAMIC:
      *decoded = bridge::FdbKind::kDynamic;
      return absl::OkStatus();
    case v1::FDB_ENTRY_KIND_STATIC:
      *decoded = bridge::FdbKind::kStatic;
      return absl::OkStatus();
    default:  // proto3 enums are open: any number may come
      return FieldError("kind", absl::StrCat(static_cast<int>(kind), " is no kind of FDB entry"));
  }
}

absl::Status Decode(const v1::UpdateSwitchRequest& request, SwitchUpdate* update) {
  const v1::Switch& message = request.switch_();
  FieldMask mask(request.update_mask(),
                 {"vlan_aware", "default_vid", "ageing_time", "ageing_disabled", "group_forward_mask"},
                 {"name", "id", "mode", "fdb_capacity", "status"});
  update->name = message.name();
  if (mask.Takes("vlan_aware", message.has_vlan_aware())) {
    update->vlan_aware = message.has_vlan_aware() ? message.vlan_aware() : true;
  }
  if (mask.Takes("default_vid", message.default_vid() != 0)) update->default_vid = message.default_vid();
  if (mask.Takes("ageing_time", message.has_ageing_time())) update->ageing_time = DecodeAgeing(message);
  if (mask.Takes("ageing_disabled", message.ageing_disabled()))
    update->ageing_disabled = message.ageing_disabled();
  if (mask.Takes("group_forward_mask", message.group_forward_mask() != 0)) {
    update->group_forward_mask = message.group_forward_mask();
  }
  if (mask.is_whole() && message.mode() != v1::SWITCH_MODE_UNSPECIFIED) update->mode = message.mode();
  if (mask.is_whole() && message.fdb_capacity() != 0) update->fdb_capacity = message.fdb_capacity();
  return mask.status();
}

absl::Status Decode(const v1::UpdatePortRequest& request, PortUpdate* update) {
  const v1::Port& message = request.port();
  FieldMask mask(request.update_mask(), {"mtu", "vlans", "mac_limit", "pod"},
                 {"name", "id", "switch_name", "tap", "mac_address", "status"});
  update->name = message.name();
  if (mask.Takes("mtu", message.mtu() != 0)) update->mtu = message.mtu();
  if (mask.Takes("vlans", message.has_vlans())) {
    std::optional<VlanRequest> vlans;
    if (message.has_vlans()) vlans = DecodeVlans(message.vlans());
    update->vlans = vlans;
  }
  if (mask.Takes("mac_limit", message.mac_limit() != 0)) update->mac_limit = message.mac_limit();
  if (mask.Takes("pod", message.has_pod())) update->pod = DecodePod(message.pod());
  if (mask.is_whole()) {
    if (!message.switch_name().empty()) update->switch_name = message.switch_name();
    if (message.has_tap()) update->link = LinkRef{message.tap().netns(), message.tap().ifname()};
    if (!message.mac_address().empty()) update->mac_address = message.mac_address();
  }
  return mask.status();
}

void Encode(const SwitchView& view, v1::Switch* message) {
  const SwitchSpec& spec = view.spec;
  message->set_name(spec.name);
  message->set_id(spec.id);
  message->set_mode(spec.mode == SwitchMode::kBridge ? v1::SWITCH_MODE_BRIDGE : v1::SWITCH_MODE_MACVLAN);
  message->set_vlan_aware(spec.vlan_aware);
  message->set_default_vid(spec.default_vid);
  message->mutable_ageing_time()->set_seconds(spec.ageing_time_s);
  message->set_ageing_disabled(spec.ageing_disabled);
  message->set_fdb_capacity(spec.fdb_capacity);
  message->set_group_forward_mask(spec.group_forward_mask);
  v1::SwitchStatus* status = message->mutable_status();
  const bridge::PortTotals& totals = view.totals;
  status->set_port_count(view.port_count);
  status->set_fdb_dynamic_count(view.fdb_dynamic_count);
  status->set_fdb_static_count(view.fdb_static_count);
  status->set_receive_frames(totals.receive_frames);
  status->set_transmit_frames(totals.transmit_frames);
  status->set_flooded_frames(totals.flooded_broadcast_frames + totals.flooded_multicast_frames +
                             totals.flooded_unknown_unicast_frames);
  status->set_flood_copies(totals.flood_copies);
  status->set_dropped_frames(totals.DropsOn(bridge::DropSide::kIngress) +
                             totals.DropsOn(bridge::DropSide::kEgress));
}

void Encode(const PortView& view, v1::Port* message) {
  const PortSpec& spec = view.spec;
  message->set_name(spec.name);
  message->set_id(spec.id);
  message->set_switch_name(spec.switch_name);
  message->mutable_tap()->set_netns(spec.link.netns);
  message->mutable_tap()->set_ifname(spec.link.ifname);
  if (!spec.mac.is_zero()) message->set_mac_address(spec.mac.ToString());
  message->set_mtu(spec.mtu);
  if (spec.vlans.has_value()) EncodeVlans(*spec.vlans, message->mutable_vlans());
  message->set_mac_limit(spec.mac_limit);
  EncodePod(spec.pod, message->mutable_pod());
  v1::PortStatus* status = message->mutable_status();
  status->set_state(EncodeState(view.state));
  status->set_state_detail(view.state_detail);
  status->set_fdb_dynamic_count(view.fdb_dynamic_count);
  EncodeCounters(view.totals, status->mutable_counters());
}

void EncodeAttachment(const PortView& view, v1::Attachment* message) {
  const PortSpec& spec = view.spec;
  message->set_ifname(spec.link.ifname);
  message->set_netns(spec.link.netns);
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

void Encode(const FdbEntryView& view, v1::FdbEntry* message) {
  message->set_switch_name(view.switch_name);
  message->set_vid(view.row.key.vid);
  message->set_mac_address(view.row.key.mac.ToString());
  message->set_port_name(view.port_name);
  bool is_static = view.row.target.kind == bridge::FdbKind::kStatic;
  message->set_kind(is_static ? v1::FDB_ENTRY_KIND_STATIC : v1::FDB_ENTRY_KIND_DYNAMIC);
  if (!is_static) message->mutable_age()->set_seconds(view.row.age_s);
}

void Encode(const VlanView& view, const std::string& switch_name, v1::Vlan* message) {
  message->set_vid(view.vid);
  message->set_switch_name(switch_name);
  for (const std::string& port : view.tagged_ports) message->add_tagged_ports(port);
  for (const std::string& port : view.untagged_ports) message->add_untagged_ports(port);
}

}  // namespace ringswitch::agent
