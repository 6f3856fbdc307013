// Attributes and devices of ports: what a request may hold, what is filled in, and what the dataplane is
// told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "server/agent/port_config.h"
#include "server/agent/verification.h"

namespace ringswitch::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kBroadcast = static_cast<size_t>(bridge::FloodClass::kBroadcast);
constexpr auto kUnknown = static_cast<size_t>(bridge::FloodClass::kUnknownUnicast);

std::vector<std::string> Fields(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FieldViolationsOf(status)) {
    EXPECT_FALSE(violation.description.empty()) << violation.field;
    fields.push_back(violation.field);
  }
  return fields;
}

SwitchSpec Switch() {
  SwitchSpec on;
  on.name = "sw0";
  return on;
}

PortRequest Request(DeviceRequest::Kind kind = DeviceRequest::Kind::kTap) {
  PortRequest request;
  request.name = "p1";
  request.switch_name = "sw0";
  request.device.kind = kind;
  request.device.ifname = "eth0";
  if (kind != DeviceRequest::Kind::kNetdev) {
    request.device.netns = "/run/netns/h1";
    request.mac_address = "02:00:00:00:0a:01";
  }
  return request;
}

struct Row {
  const char* what;
  std::function<void(PortRequest*)> change;
  std::vector<std::string> fields;  // none: is good
};

void CheckRows(const PortRequest& good, const std::vector<Row>& rows) {
  const SwitchSpec on = Switch();
  ASSERT_TRUE(Verification::NewPort(good, &on).ok()) << Verification::NewPort(good, &on).status();
  for (const Row& row : rows) {
    PortRequest request = good;
    row.change(&request);
    EXPECT_EQ(Fields(Verification::NewPort(request, &on).status()), row.fields) << row.what;
  }
}

StormLimitRequest* Storm(PortRequest* request) {
  std::optional<StormLimitRequest>& limit = request->attributes.storm_control[kBroadcast];
  if (!limit.has_value()) limit.emplace();
  return &*limit;
}

void SetRate(PortRequest* request, uint64_t bits_per_second, uint64_t burst_bytes) {
  request->attributes.receive_rate = RateLimitRequest{bits_per_second, burst_bytes};
}

SourceGuardRequest* Guard(PortRequest* request) {
  return &request->attributes.source_guard;
}

SourceGuardRequest WholeGuard(bool mac, bool address, std::vector<std::string> macs,
                              std::vector<std::string> ips) {
  SourceGuardRequest guard;
  guard.mac = mac;
  guard.address = address;
  guard.mac_addresses = std::move(macs);
  guard.ip_addresses = std::move(ips);
  return guard;
}

void SetRecovery(PortRequest* request, int64_t seconds, int32_t nanos) {
  request->attributes.bpdu_guard = BpduGuardRequest{true, DurationRequest{seconds, nanos}};
}

TEST(PortAttributes, RatesAndTimes) {
  CheckRows(
      Request(),
      {
          {"BPDU guard", [](PortRequest* r) { SetRecovery(r, 1, 0); }, {}},
          {"a day", [](PortRequest* r) { SetRecovery(r, 86'400, 0); }, {}},
          {"over a day",
           [](PortRequest* r) { SetRecovery(r, 86'401, 0); },
           {"port.bpdu_guard.recovery_time"}},
          {"at once", [](PortRequest* r) { SetRecovery(r, 0, 0); }, {"port.bpdu_guard.recovery_time"}},
          {"a fraction", [](PortRequest* r) { SetRecovery(r, 1, 5); }, {"port.bpdu_guard.recovery_time"}},
          {"most frames",
           [](PortRequest* r) {
             *Storm(r) = {1'000'000'000, 10'000'000, 0, 0};
           },
           {}},
          {"more frames",
           [](PortRequest* r) {
             *Storm(r) = {1'000'000'001, 10'000'001, 0, 0};
           },
           {"port.storm_control.broadcast.frames_per_second", "port.storm_control.broadcast.burst_frames"}},
          {"most bits",
           [](PortRequest* r) {
             *Storm(r) = {0, 0, 1'000'000'000'000, 1u << 30};
           },
           {}},
          {"more bits",
           [](PortRequest* r) {
             *Storm(r) = {0, 0, 1'000'000'000'001, (1u << 30) + 1};
           },
           {"port.storm_control.broadcast.bits_per_second", "port.storm_control.broadcast.burst_bytes"}},
          {"bursts alone",
           [](PortRequest* r) {
             *Storm(r) = {0, 1, 0, 1};
           },
           {"port.storm_control.broadcast.burst_frames", "port.storm_control.broadcast.burst_bytes"}},
          {"least rate", [](PortRequest* r) { SetRate(r, 1000, 1); }, {}},
          {"less", [](PortRequest* r) { SetRate(r, 999, 0); }, {"port.receive_rate.bits_per_second"}},
          {"none", [](PortRequest* r) { SetRate(r, 0, 0); }, {"port.receive_rate.bits_per_second"}},
          {"most", [](PortRequest* r) { SetRate(r, 1'000'000'000'000, 1u << 30); }, {}},
          {"more",
           [](PortRequest* r) { SetRate(r, 1'000'000'000'001, (1u << 30) + 1); },
           {"port.receive_rate.bits_per_second", "port.receive_rate.burst_bytes"}},
      });
}

TEST(PortAttributes, SourceGuard) {
  CheckRows(
      Request(),
      {
          {"its own", [](PortRequest* r) { Guard(r)->mac = true; }, {}},
          {"more",
           [](PortRequest* r) {
             *Guard(r) = WholeGuard(true, true, {"02:00:00:00:0B:01"}, {"10.0.0.2", "fd00::2"});
           },
           {}},
          {"no MAC",
           [](PortRequest* r) { *Guard(r) = WholeGuard(true, false, {"x"}, {}); },
           {"port.source_guard.mac_addresses[0]"}},
          {"group",
           [](PortRequest* r) { *Guard(r) = WholeGuard(true, false, {"01:00:5e:00:00:01"}, {}); },
           {"port.source_guard.mac_addresses[0]"}},
          {"prefix length",
           [](PortRequest* r) { *Guard(r) = WholeGuard(false, true, {}, {"10.0.0.2/24"}); },
           {"port.source_guard.ip_addresses[0]"}},
          {"no sender",
           [](PortRequest* r) {
             *Guard(r) = WholeGuard(false, true, {}, {"0.0.0.0", "224.0.0.1", "::", "ff02::1"});
           },
           {"port.source_guard.ip_addresses[0]", "port.source_guard.ip_addresses[1]",
            "port.source_guard.ip_addresses[2]", "port.source_guard.ip_addresses[3]"}},
          {"addresses without a guard",
           [](PortRequest* r) { *Guard(r) = WholeGuard(false, false, {"02:00:00:00:0b:01"}, {"10.0.0.2"}); },
           {"port.source_guard.mac_addresses", "port.source_guard.ip_addresses"}},
          {"many",
           [](PortRequest* r) {
             *Guard(r) = WholeGuard(false, true, {}, std::vector<std::string>(64, "10.0.0.2"));
           },
           {}},
          {"too many",
           [](PortRequest* r) {
             *Guard(r) = WholeGuard(false, true, {}, std::vector<std::string>(65, "10.0.0.2"));
           },
           {"port.source_guard.ip_addresses"}},
      });
  CheckRows(
      Request(DeviceRequest::Kind::kNetdev),
      {
          {"its own", [](PortRequest* r) { Guard(r)->mac = true; }, {"port.source_guard.mac_addresses"}},
          {"named",
           [](PortRequest* r) { *Guard(r) = WholeGuard(true, false, {"02:00:00:00:0b:01"}, {}); },
           {}},
      });
}

TEST(PortAttributes, Devices) {
  CheckRows(Request(DeviceRequest::Kind::kNetdev),
            {
                {"MAC", [](PortRequest* r) { r->mac_address = "02:00:00:00:0a:01"; }, {"port.mac_address"}},
                {"MTU", [](PortRequest* r) { r->mtu = 1500; }, {"port.mtu"}},
                {"no name", [](PortRequest* r) { r->device.ifname = ""; }, {"port.netdev.ifname"}},
                {"host stack", [](PortRequest* r) { r->device.host_stack = 2; }, {}},
                {"unknown", [](PortRequest* r) { r->device.host_stack = 3; }, {"port.netdev.host_stack"}},
            });
  CheckRows(Request(DeviceRequest::Kind::kVeth),
            {
                {"host's end", [](PortRequest* r) { r->device.host_ifname = "h1"; }, {}},
                {"no name", [](PortRequest* r) { r->device.host_ifname = "a/b"; }, {"port.veth.host_ifname"}},
                {"relative", [](PortRequest* r) { r->device.netns = "h1"; }, {"port.veth.netns"}},
                {"twice",
                 [](PortRequest* r) {
                   r->device.netns = "";
                   r->device.host_ifname = "eth0";
                 },
                 {"port.veth.host_ifname"}},
            });
}

TEST(PortAttributes, AllIsReportedAtOnce) {
  PortRequest request = Request(DeviceRequest::Kind::kNetdev);
  request.name = "";
  request.mtu = 9000;
  SetRecovery(&request, 0, 0);
  SetRate(&request, 1, 0);
  Guard(&request)->mac = true;
  const SwitchSpec on = Switch();
  EXPECT_THAT(Fields(Verification::NewPort(request, &on).status()),
              ElementsAre("port.name", "port.mtu", "port.bpdu_guard.recovery_time",
                          "port.receive_rate.bits_per_second", "port.source_guard.mac_addresses"));
}

TEST(PortAttributes, DefaultsAreThoseOfPlainForwarding) {
  const SwitchSpec on = Switch();
  absl::StatusOr<Verified<PortSpec>> spec = Verification::NewPort(Request(), &on);
  EXPECT_EQ((*spec)->attributes, PortAttributes());
  EXPECT_EQ(ConfigOf(**spec, 3).features, 0u);
}

TEST(PortAttributes, BurstsAreATenthOfASecondAtLeastABatch) {
  PortRequest request = Request();
  *Storm(&request) = {100, 0, 1000, 0};
  request.attributes.storm_control[kUnknown] = StormLimitRequest{100'000, 0, 80'000'000, 7};
  SetRate(&request, 8'000'000'000, 0);
  const SwitchSpec on = Switch();
  absl::StatusOr<Verified<PortSpec>> spec = Verification::NewPort(request, &on);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const PortAttributes& attributes = (*spec)->attributes;
  EXPECT_EQ(attributes.storm[kBroadcast].frames, (bridge::Rate{100, 16}));
  EXPECT_EQ(attributes.storm[kBroadcast].bits, (bridge::Rate{1000, 65'536 * 8}));
  EXPECT_EQ(attributes.storm[kUnknown].frames, (bridge::Rate{100'000, 10'000}));
  EXPECT_EQ(attributes.storm[kUnknown].bits, (bridge::Rate{80'000'000, 7 * 8}));
  EXPECT_EQ(attributes.receive_rate, (bridge::Rate{8'000'000'000, 800'000'000}));
  EXPECT_EQ(ConfigOf(**spec, 0).features, bridge::kStormControl | bridge::kReceiveRate);
}

TEST(PortAttributes, EachIsABitOfTheConfiguration) {
  struct Case {
    std::function<void(PortAttributes*)> change;
    uint32_t features;
  };
  const std::vector<Case> cases = {
      {[](PortAttributes* a) { a->admin_up = false; }, bridge::kAdminDown},
      {[](PortAttributes* a) { a->learning = false; }, bridge::kNoLearning},
      {[](PortAttributes* a) { a->flood_unknown_unicast = false; }, bridge::kNoUnknownUnicastFlood},
      {[](PortAttributes* a) { a->flood_multicast = false; }, bridge::kNoMulticastFlood},
      {[](PortAttributes* a) { a->flood_broadcast = false; }, bridge::kNoBroadcastFlood},
      {[](PortAttributes* a) { a->isolated = true; }, bridge::kIsolated},
      {[](PortAttributes* a) { a->hairpin = true; }, bridge::kHairpin},
      {[](PortAttributes* a) { a->locked = true; }, bridge::kLocked},
      {[](PortAttributes* a) { a->bpdu_recovery_s = 0; }, bridge::kBpduGuard},
      {[](PortAttributes* a) { a->source_guard.mac = true; }, bridge::kSourceMacGuard},
      {[](PortAttributes* a) { a->source_guard.address = true; }, bridge::kSourceAddressGuard},
      {[](PortAttributes* a) { a->router_advertisement_guard = true; }, bridge::kRouterAdvertisementGuard},
      {[](PortAttributes* a) { a->dhcp_server_guard = true; }, bridge::kDhcpServerGuard},
      {[](PortAttributes* a) {
         a->storm[kUnknown].bits = {1, 1};
       },
       bridge::kStormControl},
      {[](PortAttributes* a) {
         a->receive_rate = {1, 1};
       },
       bridge::kReceiveRate},
      {[](PortAttributes* a) {
         a->transmit_rate = {1, 1};
       },
       bridge::kTransmitRate},
  };
  uint32_t all = 0;
  for (const Case& row : cases) {
    PortSpec spec;
    row.change(&spec.attributes);
    EXPECT_EQ(ConfigOf(spec, 0).features, row.features);
    all |= row.features;
  }
  EXPECT_EQ(all, (1u << cases.size()) - 1);
}

TEST(PortAttributes, SourceGuardHoldsWhatThePortHas) {
  PortSpec spec;
  spec.mac = bridge::MacAddress(0x02000000000a);
  spec.attributes.source_guard = {true, true, {bridge::MacAddress(0x02000000000b)}, {"10.0.0.9", "fd00::9"}};
  spec.attachment = AttachmentSpec{"c1", "", {{"10.0.0.2/24", "fd00::2/64"}, {}}};
  const bridge::SourceGuard guard = ConfigOf(spec, 0).source_guard;
  EXPECT_THAT(guard.macs, ElementsAre(spec.mac, bridge::MacAddress(0x02000000000b)));
  EXPECT_THAT(guard.ipv4, ElementsAre(bridge::Ipv4Address{10, 0, 0, 2}, bridge::Ipv4Address{10, 0, 0, 9}));
  ASSERT_EQ(guard.ipv6.size(), 2u);
  EXPECT_EQ(guard.ipv6[0][15], 2);
  EXPECT_EQ(guard.ipv6[1][15], 9);
  spec.device.kind = DeviceRef::Kind::kNetdev;
  EXPECT_THAT(ConfigOf(spec, 0).source_guard.macs, ElementsAre(bridge::MacAddress(0x02000000000b)));
  spec.attributes.source_guard = {};
  EXPECT_THAT(ConfigOf(spec, 0).source_guard.macs, IsEmpty());
}

TEST(PortAttributes, AChangeLeavesTheRest) {
  const SwitchSpec on = Switch();
  PortRequest request = Request();
  request.attributes.isolated = true;
  SetRate(&request, 5000, 0);
  SetRecovery(&request, 30, 0);
  const PortSpec present = **Verification::NewPort(request, &on);
  PortUpdate update;
  update.attributes.learning = false;
  PortSpec changed = **Verification::ChangedPort(present, update, on);
  EXPECT_FALSE(changed.attributes.learning);
  EXPECT_TRUE(changed.attributes.isolated);
  EXPECT_EQ(changed.attributes.receive_rate, present.attributes.receive_rate);
  EXPECT_EQ(changed.attributes.bpdu_recovery_s, 30u);
  update.attributes.receive_rate = std::optional<RateLimitRequest>();
  update.attributes.bpdu_guard = BpduGuardRequest();
  update.attributes.isolated = false;
  changed = **Verification::ChangedPort(present, update, on);
  EXPECT_EQ(changed.attributes.receive_rate, bridge::Rate());
  EXPECT_EQ(changed.attributes.bpdu_recovery_s, std::nullopt);
  EXPECT_EQ(ConfigOf(changed, 0).features, bridge::kNoLearning);
}

TEST(PortAttributes, DevicesCannotBeChanged) {
  const SwitchSpec on = Switch();
  PortSpec netdev = **Verification::NewPort(Request(DeviceRequest::Kind::kNetdev), &on);
  netdev.mtu = 1400;
  PortUpdate update;
  update.device = Request(DeviceRequest::Kind::kNetdev).device;
  update.mtu = 1400;
  EXPECT_TRUE(Verification::ChangedPort(netdev, update, on).ok());
  update.mtu = 1500;
  update.device->software_offload = true;
  EXPECT_THAT(Fields(Verification::ChangedPort(netdev, update, on).status()),
              ElementsAre("port.mtu", "port.netdev"));
  PortSpec veth = **Verification::NewPort(Request(DeviceRequest::Kind::kVeth), &on);
  veth.device.host_ifname = "rsv1";
  update = {};
  update.device = Request(DeviceRequest::Kind::kVeth).device;
  EXPECT_TRUE(Verification::ChangedPort(veth, update, on).ok());
  update.device->host_ifname = "rsv2";
  EXPECT_THAT(Fields(Verification::ChangedPort(veth, update, on).status()), ElementsAre("port.veth"));
  update.device = Request().device;
  EXPECT_THAT(Fields(Verification::ChangedPort(veth, update, on).status()), ElementsAre("port.tap"));
}

TEST(SwitchAttributes, FlapGuard) {
  struct Case {
    FlapGuardRequest guard;
    std::vector<std::string> fields;
  };
  for (const Case& row : std::vector<Case>{
           {{1, {}}, {}},
           {{255, DurationRequest{3600, 0}}, {}},
           {{0, {}}, {"switch.flap_guard.moves"}},
           {{256, DurationRequest{0, 0}}, {"switch.flap_guard.moves", "switch.flap_guard.hold_time"}},
           {{5, DurationRequest{3601, 0}}, {"switch.flap_guard.hold_time"}},
           {{5, DurationRequest{1, 1}}, {"switch.flap_guard.hold_time"}},
       }) {
    SwitchRequest request;
    request.name = "sw0";
    request.flap_guard = row.guard;
    EXPECT_EQ(Fields(Verification::NewSwitch(request).status()), row.fields) << row.guard.moves;
  }
  SwitchRequest request;
  request.name = "sw0";
  request.vlan_counters = true;
  request.flap_guard = FlapGuardRequest{5, std::nullopt};
  const SwitchSpec spec = **Verification::NewSwitch(request);
  EXPECT_EQ(ConfigOf(spec).flap_limit, 5u);
  EXPECT_EQ(ConfigOf(spec).flap_hold_s, 60u);
  EXPECT_TRUE(ConfigOf(spec).vlan_counters);
  SwitchUpdate update;
  update.flap_guard = std::optional<FlapGuardRequest>();
  update.vlan_counters = false;
  EXPECT_EQ(ConfigOf(**Verification::ChangedSwitch(spec, update)).flap_limit, 0u);
}

}  // namespace
}  // namespace ringswitch::agent
