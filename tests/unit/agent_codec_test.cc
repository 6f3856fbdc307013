// Messages to plain values and back: no field of a switch, a port or its counters is forgotten, masks take
// what they name, and the metrics say what the model says.

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <fstream>
#include <set>

#include "server/agent/metric_families.h"
#include "server/agent/proto_codec.h"
#include "tests/unit/agent_testbed.h"

namespace ringswitch::agent {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

// Names of fields that are not set, in nested messages too; of a oneof one is enough.
void FindUnset(const Message& message, const std::string& prefix, std::vector<std::string>* unset) {
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    const std::string path = prefix + field->name();
    const bool is_set = field->is_repeated() ? reflection->FieldSize(message, field) > 0
                                             : reflection->HasField(message, field);
    const auto* oneof = field->real_containing_oneof();
    if (!is_set && (oneof == nullptr || !reflection->HasOneof(message, oneof))) unset->push_back(path);
    if (is_set && !field->is_repeated() && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
      FindUnset(reflection->GetMessage(message, field), path + ".", unset);
  }
}

void SetLimit(v1::StormLimit* limit, uint64_t number) {
  limit->set_frames_per_second(number);
  limit->set_burst_frames(number + 1);
  limit->set_bits_per_second(number + 2);
  limit->set_burst_bytes(number + 3);
}

// Every field set, none to its default.
v1::Port FullPort() {
  v1::Port port;
  port.set_name("p1");
  port.set_id(7);
  port.set_switch_name("sw0");
  port.mutable_veth()->set_netns(kNetns);
  port.mutable_veth()->set_ifname("eth0");
  port.mutable_veth()->set_host_ifname("h1");
  port.set_mac_address("02:00:00:00:0a:01");
  port.set_mtu(9000);
  v1::VlanRange* range = port.mutable_vlans()->mutable_trunk()->add_tagged();
  range->set_first(10);
  range->set_last(20);
  port.mutable_vlans()->mutable_trunk()->set_native_vid(5);
  port.set_mac_limit(64);
  port.mutable_pod()->set_namespace_("default");
  port.mutable_pod()->set_name("web-0");
  port.mutable_pod()->set_uid("uid");
  port.mutable_pod()->set_container_id("c1");
  port.set_admin_up(false);
  port.set_learning(false);
  port.set_flood_unknown_unicast(false);
  port.set_flood_multicast(false);
  port.set_flood_broadcast(false);
  port.set_isolated(true);
  port.set_hairpin(true);
  port.set_locked(true);
  port.mutable_bpdu_guard()->set_enabled(true);
  port.mutable_bpdu_guard()->mutable_recovery_time()->set_seconds(30);
  SetLimit(port.mutable_storm_control()->mutable_broadcast(), 100);
  SetLimit(port.mutable_storm_control()->mutable_multicast(), 200);
  SetLimit(port.mutable_storm_control()->mutable_unknown_unicast(), 300);
  port.mutable_receive_rate()->set_bits_per_second(5000);
  port.mutable_receive_rate()->set_burst_bytes(6000);
  port.mutable_transmit_rate()->set_bits_per_second(7000);
  port.mutable_transmit_rate()->set_burst_bytes(8000);
  port.mutable_source_guard()->set_mac(true);
  port.mutable_source_guard()->set_address(true);
  port.mutable_source_guard()->add_mac_addresses("02:00:00:00:0b:01");
  port.mutable_source_guard()->add_ip_addresses("10.0.0.2");
  port.set_router_advertisement_guard(true);
  port.set_dhcp_server_guard(true);
  return port;
}

absl::StatusOr<PortSpec> SpecOf(const v1::Port& message) {
  SwitchSpec on;
  on.name = "sw0";
  absl::StatusOr<Verified<PortSpec>> verified = Verification::NewPort(Decode(message), &on);
  if (!verified.ok()) return verified.status();
  PortSpec spec = **verified;
  spec.id = message.id();
  return spec;
}

TEST(Codec, EveryFieldOfAPortGoesThereAndBack) {
  v1::Port port = FullPort();
  absl::StatusOr<PortSpec> spec = SpecOf(port);
  ASSERT_TRUE(spec.ok()) << spec.status();
  PortView view;
  view.spec = *spec;
  v1::Port back;
  Encode(view, &back);
  back.clear_status();
  EXPECT_TRUE(MessageDifferencer::Equals(port, back)) << back.DebugString();
  std::vector<std::string> unset;
  FindUnset(port, "", &unset);
  // Zero seconds and nanoseconds aside, a field that is added must be added to the test.
  EXPECT_THAT(unset, UnorderedElementsAre("bpdu_guard.recovery_time.nanos", "status"));

  port.mutable_netdev()->set_ifname("eth1");
  port.mutable_netdev()->set_host_stack(v1::HOST_STACK_KEEP);
  port.mutable_netdev()->set_software_offload(true);
  port.clear_mac_address();
  port.clear_mtu();
  spec = SpecOf(port);
  ASSERT_TRUE(spec.ok()) << spec.status();
  view.spec = *spec;
  Encode(view, &back);
  EXPECT_TRUE(MessageDifferencer::Equals(port.netdev(), back.netdev())) << back.DebugString();
  EXPECT_FALSE(back.has_veth());
}

TEST(Codec, StateOfAPortIsTold) {
  PortView view;
  view.state = PortState::kBlocked;
  view.state_detail = "why";
  view.device_lost_frames = 9;
  view.totals.receive_frames = 4;
  view.confirm_left_s = 7;
  view.totals.drops[static_cast<size_t>(bridge::DropReason::kBpduGuard)] = 3;
  v1::Port port;
  Encode(view, &port);
  EXPECT_EQ(port.status().state(), v1::PORT_STATE_BLOCKED);
  EXPECT_EQ(port.status().state_detail(), "why");
  EXPECT_EQ(port.status().confirm_time_left().seconds(), 7);
  EXPECT_EQ(port.status().counters().device_lost_frames(), 9u);
  ASSERT_EQ(port.status().counters().drops_size(), 1);
  EXPECT_EQ(port.status().counters().drops(0).reason(), "bpdu_guard");
  EXPECT_FALSE(port.has_bpdu_guard() || port.has_storm_control() || port.has_source_guard());
}

TEST(Codec, EveryFieldOfASwitchGoesThereAndBack) {
  v1::Switch message;
  message.set_name("sw0");
  message.set_id(3);
  message.set_mode(v1::SWITCH_MODE_BRIDGE);
  message.set_vlan_aware(false);
  message.set_default_vid(7);
  message.mutable_ageing_time()->set_seconds(42);
  message.set_ageing_disabled(true);
  message.set_fdb_capacity(99);
  message.set_group_forward_mask(0x4001);
  message.set_vlan_counters(true);
  message.mutable_flap_guard()->set_moves(5);
  message.mutable_flap_guard()->mutable_hold_time()->set_seconds(8);
  absl::StatusOr<Verified<SwitchSpec>> verified = Verification::NewSwitch(Decode(message));
  ASSERT_TRUE(verified.ok()) << verified.status();
  SwitchView view;
  view.spec = **verified;
  view.spec.id = 3;
  view.moves = {{"p1", "p2", 6}};
  view.fdb_events.held = 2;
  v1::Switch back;
  Encode(view, &back);
  EXPECT_EQ(back.status().held_addresses(), 2u);
  ASSERT_EQ(back.status().moves_size(), 1);
  EXPECT_EQ(back.status().moves(0).to_port(), "p2");
  back.clear_status();
  EXPECT_TRUE(MessageDifferencer::Equals(message, back)) << back.DebugString();
  std::vector<std::string> unset;
  FindUnset(message, "", &unset);
  EXPECT_THAT(unset, UnorderedElementsAre("ageing_time.nanos", "flap_guard.hold_time.nanos", "status"));
}

TEST(Codec, AMaskTakesWhatItNames) {
  v1::UpdatePortRequest request;
  *request.mutable_port() = FullPort();
  for (const char* path : {"isolated", "receive_rate", "learning"})
    request.mutable_update_mask()->add_paths(path);
  PortUpdate update;
  ASSERT_TRUE(Decode(request, &update).ok());
  EXPECT_EQ(update.attributes.isolated, true);
  EXPECT_EQ(update.attributes.learning, false);
  EXPECT_EQ((*update.attributes.receive_rate)->bits_per_second, 5000u);
  EXPECT_FALSE(update.attributes.hairpin.has_value() || update.attributes.source_guard.mac.has_value());
  EXPECT_FALSE(update.mtu.has_value() || update.device.has_value());
}

TEST(Codec, AMaskReachesThePartsOfStormControlAndSourceGuard) {
  v1::UpdatePortRequest request;
  request.mutable_port()->set_name("p1");
  SetLimit(request.mutable_port()->mutable_storm_control()->mutable_broadcast(), 500);
  request.mutable_port()->mutable_source_guard()->add_ip_addresses("10.0.0.7");
  for (const char* path : {"storm_control.broadcast", "storm_control.multicast", "source_guard.ip_addresses",
                           "source_guard.mac", "source_guard.mac_addresses"})
    request.mutable_update_mask()->add_paths(path);
  PortUpdate update;
  ASSERT_TRUE(Decode(request, &update).ok());
  const SwitchSpec on;
  const PortSpec present = *SpecOf(FullPort());
  absl::StatusOr<Verified<PortSpec>> changed = Verification::ChangedPort(present, update, on);
  ASSERT_TRUE(changed.ok()) << changed.status();
  PortAttributes expected = present.attributes;
  expected.storm[static_cast<size_t>(bridge::FloodClass::kBroadcast)] = {{500, 501}, {502, 503 * 8}};
  expected.storm[static_cast<size_t>(bridge::FloodClass::kMulticast)] = {};
  expected.source_guard.mac = false;
  expected.source_guard.macs = {};
  expected.source_guard.ip_addresses = {"10.0.0.7"};
  EXPECT_EQ((*changed)->attributes, expected);
  request.mutable_update_mask()->add_paths("storm_control.everything");
  EXPECT_EQ(FieldViolationsOf(Decode(request, &update)).at(0).field, "update_mask");
}

// Named and not set: the default.
TEST(Codec, AMaskUndoes) {
  v1::UpdatePortRequest request;
  request.mutable_port()->set_name("p1");
  const std::vector<std::string> paths = {"admin_up",
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
                                          "router_advertisement_guard",
                                          "source_guard",
                                          "dhcp_server_guard"};
  for (const std::string& path : paths) request.mutable_update_mask()->add_paths(path);
  PortUpdate update;
  ASSERT_TRUE(Decode(request, &update).ok());
  const SwitchSpec on;
  const PortSpec present = *SpecOf(FullPort());
  absl::StatusOr<Verified<PortSpec>> changed = Verification::ChangedPort(present, update, on);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ((*changed)->attributes, PortAttributes());
}

TEST(Codec, WhatWasReadCanBeSentBack) {
  v1::UpdatePortRequest request;
  PortView view;
  view.spec = *SpecOf(FullPort());
  Encode(view, request.mutable_port());
  PortUpdate update;
  ASSERT_TRUE(Decode(request, &update).ok());
  SwitchSpec on;
  on.name = "sw0";
  absl::StatusOr<Verified<PortSpec>> changed = Verification::ChangedPort(view.spec, update, on);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ((*changed)->attributes, view.spec.attributes);
  // And what is plain, with nothing but names, changes nothing.
  request.mutable_port()->Clear();
  update = {};
  ASSERT_TRUE(Decode(request, &update).ok());
  changed = Verification::ChangedPort(view.spec, update, on);
  EXPECT_EQ((*changed)->attributes, view.spec.attributes);
}

TEST(Codec, AMaskNamesWhatCannotChange) {
  v1::UpdatePortRequest request;
  for (const char* path : {"netdev", "veth", "bpdu_guard.enabled", "id"})
    request.mutable_update_mask()->add_paths(path);
  PortUpdate update;
  EXPECT_EQ(FieldViolationsOf(Decode(request, &update)).size(), 4u);
}

class MetricsTest : public SwitchModelTest {
 protected:
  std::string Scrape() {
    MetricFamilies families(dataplane_.get(), model_.get(), &requests_);
    return prometheus::TextSerializer().Serialize(families.Collect());
  }
  CniRequests requests_;
};

TEST_F(MetricsTest, SayWhatTheModelSays) {
  MakeSwitch("sw0");
  AddNetdev("eth1");
  ASSERT_TRUE(model_->CreatePort(Netdev("p1", "eth1"), false).ok());
  ASSERT_TRUE(model_->CreatePort(Port("p2"), false).ok());
  node_.moves = {{0, 1, 7}};
  node_.vlans = {{10, 1, 2, 3, 4}};
  node_.stats[0].device_lost_frames = 5;
  node_.stats[1].blocked = true;
  std::string text = Scrape();
  for (const char* line : {
           R"(ringswitch_port_device_lost_frames_total{switch="sw0",port="p1"} 5)",
           R"(ringswitch_port_state{switch="sw0",port="p1",state="up"} 1)",
           R"(ringswitch_port_state{switch="sw0",port="p2",state="blocked"} 1)",
           R"(ringswitch_port_state{switch="sw0",port="p2",state="up"} 0)",
           R"(ringswitch_port_up{switch="sw0",port="p2"} 0)",
           R"(ringswitch_fdb_moves_total{switch="sw0",from_port="p1",to_port="p2"} 7)",
           R"(ringswitch_fdb_held_addresses_total{switch="sw0"} 0)",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("ringswitch_vlan_")));
  EXPECT_THAT(text, Not(HasSubstr(R"(lost_frames_total{switch="sw0",port="p2"})")));
  SwitchUpdate update;
  update.name = "sw0";
  update.vlan_counters = true;
  ASSERT_TRUE(model_->UpdateSwitch(update, false).ok());
  ASSERT_TRUE(model_->DeletePort("p2", false).ok());
  text = Scrape();
  EXPECT_THAT(text, HasSubstr(R"(ringswitch_vlan_receive_frames_total{switch="sw0",vid="10"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(ringswitch_vlan_transmit_bytes_total{switch="sw0",vid="10"} 4)"));
  EXPECT_THAT(text, Not(HasSubstr("fdb_moves_total")));  // gone with the port
  EXPECT_THAT(text, Not(HasSubstr("p2")));
}

}  // namespace
}  // namespace ringswitch::agent
