#include "server/agent/proto_codec.h"

#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"
#include "server/agent/field_mask.h"

namespace ringswitch::agent {
namespace {

std::optional<DurationRequest> DecodeAgeing(const v1::Switch& message) {
  if (!message.has_ageing_time()) return std::nullopt;
  return DurationRequest{message.ageing_time().seconds(), message.ageing_time().nanos()};
}

std::optional<FlapGuardRequest> DecodeFlapGuard(const v1::Switch& message) {
  if (!message.has_flap_guard()) return std::nullopt;
  FlapGuardRequest request;
  request.moves = message.flap_guard().moves();
  if (message.flap_guard().has_hold_time()) {
    const google::protobuf::Duration& time = message.flap_guard().hold_time();
    request.hold_time = DurationRequest{time.seconds(), time.nanos()};
  }
  return request;
}

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
  request.vlan_counters = message.vlan_counters();
  request.flap_guard = DecodeFlapGuard(message);
  return request;
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
                 {"vlan_aware", "default_vid", "ageing_time", "ageing_disabled", "group_forward_mask",
                  "vlan_counters", "flap_guard"},
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
  if (mask.Takes("vlan_counters", message.vlan_counters())) update->vlan_counters = message.vlan_counters();
  if (mask.Takes("flap_guard", message.has_flap_guard())) update->flap_guard = DecodeFlapGuard(message);
  if (mask.is_whole() && message.mode() != v1::SWITCH_MODE_UNSPECIFIED) update->mode = message.mode();
  if (mask.is_whole() && message.fdb_capacity() != 0) update->fdb_capacity = message.fdb_capacity();
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
  message->set_vlan_counters(spec.vlan_counters);
  if (spec.flap_moves > 0) {
    message->mutable_flap_guard()->set_moves(spec.flap_moves);
    message->mutable_flap_guard()->mutable_hold_time()->set_seconds(spec.flap_hold_s);
  }
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
  for (const PortMovesView& row : view.moves) {
    v1::PortMoves* moves = status->add_moves();
    moves->set_from_port(row.from_port);
    moves->set_to_port(row.to_port);
    moves->set_moves(row.moves);
  }
  status->set_held_addresses(view.fdb_events.held);
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
  if (!view.totals.has_value()) return;
  v1::VlanCounters* counters = message->mutable_counters();
  counters->set_receive_frames(view.totals->receive_frames);
  counters->set_receive_bytes(view.totals->receive_bytes);
  counters->set_transmit_frames(view.totals->transmit_frames);
  counters->set_transmit_bytes(view.totals->transmit_bytes);
}

}  // namespace ringswitch::agent
