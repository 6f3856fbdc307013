// What requests may hold: one row per rule of the contract.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "server/agent/verification.h"

namespace ringswitch::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> Fields(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FieldViolationsOf(status)) fields.push_back(violation.field);
  return fields;
}

SwitchRequest GoodSwitch() {
  SwitchRequest request;
  request.name = "sw0";
  return request;
}

PortRequest GoodPort() {
  PortRequest request;
  request.name = "p1";
  request.switch_name = "sw0";
  request.device.kind = DeviceRequest::Kind::kTap;
  request.device.netns = "/run/netns/h1";
  request.device.ifname = "eth0";
  return request;
}

AttachmentRequest GoodAttachment() {
  AttachmentRequest request;
  request.container_id = "c1";
  request.ifname = "eth0";
  request.netns = "/run/netns/h1";
  request.switch_name = "sw0";
  return request;
}

VlanRequest Access(uint32_t vid) {
  VlanRequest request;
  request.kind = VlanRequest::Kind::kAccess;
  request.access_vid = vid;
  return request;
}

VlanRequest Trunk(std::vector<VlanRange> tagged, uint32_t native_vid) {
  VlanRequest request;
  request.kind = VlanRequest::Kind::kTrunk;
  request.tagged = std::move(tagged);
  request.native_vid = native_vid;
  return request;
}

template <typename Request>
struct Row {
  const char* what;
  std::function<void(Request*)> change;
  const char* field;  // null: is good
};

template <typename Request, typename Verify>
void CheckRows(const std::vector<Row<Request>>& rows, const Request& good, Verify verify) {
  ASSERT_TRUE(verify(good).ok()) << verify(good);
  for (const Row<Request>& row : rows) {
    Request request = good;
    row.change(&request);
    absl::Status status = verify(request);
    if (row.field == nullptr) {
      EXPECT_TRUE(status.ok()) << row.what << ": " << status;
    } else {
      EXPECT_THAT(Fields(status), ElementsAre(row.field)) << row.what;
    }
  }
}

TEST(Verification, SwitchFields) {
  CheckRows<SwitchRequest>(
      {
          {"no name", [](SwitchRequest* r) { r->name = ""; }, "switch.name"},
          {"longest name", [](SwitchRequest* r) { r->name = std::string(15, 'a'); }, nullptr},
          {"name too long", [](SwitchRequest* r) { r->name = std::string(16, 'a'); }, "switch.name"},
          {"dots", [](SwitchRequest* r) { r->name = ".."; }, "switch.name"},
          {"slash", [](SwitchRequest* r) { r->name = "a/b"; }, "switch.name"},
          {"first character", [](SwitchRequest* r) { r->name = "-a"; }, "switch.name"},
          {"unknown mode", [](SwitchRequest* r) { r->mode = 7; }, "switch.mode"},
          {"default VID 4094", [](SwitchRequest* r) { r->default_vid = 4094; }, nullptr},
          {"default VID 4095", [](SwitchRequest* r) { r->default_vid = 4095; }, "switch.default_vid"},
          {"ageing 0",
           [](SwitchRequest* r) {
             r->ageing_time = DurationRequest{0, 0};
           },
           "switch.ageing_time"},
          {"ageing 1",
           [](SwitchRequest* r) {
             r->ageing_time = DurationRequest{1, 0};
           },
           nullptr},
          {"ageing longest",
           [](SwitchRequest* r) {
             r->ageing_time = DurationRequest{1'000'000, 0};
           },
           nullptr},
          {"ageing too long",
           [](SwitchRequest* r) {
             r->ageing_time = DurationRequest{1'000'001, 0};
           },
           "switch.ageing_time"},
          {"ageing negative",
           [](SwitchRequest* r) {
             r->ageing_time = DurationRequest{-1, 0};
           },
           "switch.ageing_time"},
          {"ageing fraction",
           [](SwitchRequest* r) {
             r->ageing_time = DurationRequest{1, 5};
           },
           "switch.ageing_time"},
          {"capacity least", [](SwitchRequest* r) { r->fdb_capacity = 16; }, nullptr},
          {"capacity too small", [](SwitchRequest* r) { r->fdb_capacity = 15; }, "switch.fdb_capacity"},
          {"capacity too large", [](SwitchRequest* r) { r->fdb_capacity = (1 << 20) + 1; },
           "switch.fdb_capacity"},
          {"group mask", [](SwitchRequest* r) { r->group_forward_mask = 0xfffd; }, nullptr},
          {"pause bit", [](SwitchRequest* r) { r->group_forward_mask = 2; }, "switch.group_forward_mask"},
          {"wide mask", [](SwitchRequest* r) { r->group_forward_mask = 0x10000; },
           "switch.group_forward_mask"},
      },
      GoodSwitch(), [](const SwitchRequest& request) { return Verification::NewSwitch(request).status(); });
}

TEST(Verification, AgeingZeroNamesTheAlternatives) {
  SwitchRequest request = GoodSwitch();
  request.ageing_time = DurationRequest{0, 0};
  std::string message(Verification::NewSwitch(request).status().message());
  EXPECT_THAT(message, HasSubstr("learning of the ports"));
  EXPECT_THAT(message, HasSubstr("ageing_disabled"));
}

TEST(Verification, MacvlanModeIsUnimplemented) {
  SwitchRequest request = GoodSwitch();
  request.mode = 2;
  EXPECT_EQ(Verification::NewSwitch(request).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Verification, PortFields) {
  SwitchSpec on;
  on.name = "sw0";
  CheckRows<PortRequest>(
      {
          {"no name", [](PortRequest* r) { r->name = ""; }, "port.name"},
          {"colons in the name", [](PortRequest* r) { r->name = "c1:eth0"; }, nullptr},
          {"name too long", [](PortRequest* r) { r->name = std::string(129, 'a'); }, "port.name"},
          {"no device", [](PortRequest* r) { r->device.kind = DeviceRequest::Kind::kUnset; }, "port.tap"},
          {"own namespace", [](PortRequest* r) { r->device.netns = ""; }, nullptr},
          {"relative path", [](PortRequest* r) { r->device.netns = "h1"; }, "port.tap.netns"},
          {"no interface name", [](PortRequest* r) { r->device.ifname = ""; }, "port.tap.ifname"},
          {"interface name too long", [](PortRequest* r) { r->device.ifname = "abcdefghijklmnop"; },
           "port.tap.ifname"},
          {"slash in it", [](PortRequest* r) { r->device.ifname = "a/b"; }, "port.tap.ifname"},
          {"space in it", [](PortRequest* r) { r->device.ifname = "a b"; }, "port.tap.ifname"},
          {"dots", [](PortRequest* r) { r->device.ifname = ".."; }, "port.tap.ifname"},
          {"percent in it", [](PortRequest* r) { r->device.ifname = "eth%d"; }, "port.tap.ifname"},
          {"byte 0xa0 in it", [](PortRequest* r) { r->device.ifname = "\xc3\xa0"; }, "port.tap.ifname"},
          {"UTF-8 in it", [](PortRequest* r) { r->device.ifname = "\xc3\xa4"; }, nullptr},
          {"all", [](PortRequest* r) { r->device.ifname = "all"; }, "port.tap.ifname"},
          {"default", [](PortRequest* r) { r->device.ifname = "default"; }, "port.tap.ifname"},
          {"MAC with dashes", [](PortRequest* r) { r->mac_address = "02-00-00-00-0A-01"; }, nullptr},
          {"no MAC", [](PortRequest* r) { r->mac_address = "02:00"; }, "port.mac_address"},
          {"group", [](PortRequest* r) { r->mac_address = "01:00:5e:00:00:01"; }, "port.mac_address"},
          {"zero", [](PortRequest* r) { r->mac_address = "00:00:00:00:00:00"; }, "port.mac_address"},
          {"least MTU", [](PortRequest* r) { r->mtu = 68; }, nullptr},
          {"MTU too small", [](PortRequest* r) { r->mtu = 67; }, "port.mtu"},
          {"largest MTU", [](PortRequest* r) { r->mtu = 65521; }, nullptr},
          {"MTU too large", [](PortRequest* r) { r->mtu = 65522; }, "port.mtu"},
          {"MAC limit too large", [](PortRequest* r) { r->mac_limit = (1 << 20) + 1; }, "port.mac_limit"},
          {"access VLAN", [](PortRequest* r) { r->vlans = Access(4094); }, nullptr},
          {"access VID 0", [](PortRequest* r) { r->vlans = Access(0); }, "port.vlans.access_vid"},
          {"access VID 4095", [](PortRequest* r) { r->vlans = Access(4095); }, "port.vlans.access_vid"},
          {"neither", [](PortRequest* r) { r->vlans = VlanRequest{}; }, "port.vlans"},
          {"trunk",
           [](PortRequest* r) {
             r->vlans = Trunk({{10, 20}, {15, 0}}, 15);
           },
           nullptr},
          {"VID 0",
           [](PortRequest* r) {
             r->vlans = Trunk({{0, 0}}, 0);
           },
           "port.vlans.trunk.tagged[0].first"},
          {"backwards",
           [](PortRequest* r) {
             r->vlans = Trunk({{5, 6}, {10, 9}}, 0);
           },
           "port.vlans.trunk.tagged[1].last"},
          {"native 4095",
           [](PortRequest* r) {
             r->vlans = Trunk({{1, 2}}, 4095);
           },
           "port.vlans.trunk.native_vid"},
          {"pod name too long", [](PortRequest* r) { r->pod.name = std::string(254, 'a'); }, "port.pod.name"},
      },
      GoodPort(), [&on](const PortRequest& request) { return Verification::NewPort(request, &on).status(); });
}

TEST(Verification, AllViolationsAreReportedAtOnce) {
  PortRequest request = GoodPort();
  request.name = "";
  request.mtu = 1;
  request.vlans = Access(0);
  request.mac_address = "x";
  EXPECT_THAT(Fields(Verification::NewPort(request, nullptr).status()),
              ElementsAre("port.name", "port.mac_address", "port.mtu", "port.vlans.access_vid"));
}

TEST(Verification, AttachmentFields) {
  SwitchSpec on;
  on.name = "sw0";
  CheckRows<AttachmentRequest>(
      {
          {"no container id", [](AttachmentRequest* r) { r->container_id = ""; }, "attachment.container_id"},
          {"colon in it", [](AttachmentRequest* r) { r->container_id = "a:b"; }, "attachment.container_id"},
          {"longest", [](AttachmentRequest* r) { r->container_id = std::string(128, 'a'); }, nullptr},
          {"interface name", [](AttachmentRequest* r) { r->ifname = "a:b"; }, "attachment.ifname"},
          {"no namespace", [](AttachmentRequest* r) { r->netns = ""; }, "attachment.netns"},
          {"switch name", [](AttachmentRequest* r) { r->switch_name = ""; }, "attachment.switch_name"},
          {"VID", [](AttachmentRequest* r) { r->vlans = Access(4095); }, "attachment.vlans.access_vid"},
          {"MAC", [](AttachmentRequest* r) { r->mac_address = "x"; }, "attachment.mac_address"},
          {"MTU", [](AttachmentRequest* r) { r->mtu = 65522; }, "attachment.mtu"},
      },
      GoodAttachment(),
      [&on](const AttachmentRequest& request) { return Verification::NewAttachment(request, &on).status(); });
}

TEST(Verification, AttachmentIsNamedByItsKey) {
  SwitchSpec on;
  absl::StatusOr<Verified<PortSpec>> spec = Verification::NewAttachment(GoodAttachment(), &on);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ((*spec)->name, "c1:eth0");
  EXPECT_EQ((*spec)->pod.container_id, "c1");
  AttachmentRequest unlimited = GoodAttachment();
  unlimited.mac_limit = 0;
  EXPECT_EQ((*Verification::NewAttachment(unlimited, &on))->mac_limit, 0u);
}

TEST(Verification, FixedFieldsMayBeRepeatedButNotChanged) {
  SwitchSpec on;
  PortSpec present;
  present.name = "p1";
  present.switch_name = "sw0";
  present.device.link = {"/run/netns/h1", "eth0"};
  present.mac = *bridge::MacAddress::Parse("02:00:00:00:0a:01");
  PortUpdate update;
  update.switch_name = "sw0";
  update.device = GoodPort().device;
  update.mac_address = "02-00-00-00-0A-01";
  EXPECT_TRUE(Verification::ChangedPort(present, update, on).ok());
  update.switch_name = "sw1";
  update.device->ifname = "eth1";
  update.mac_address = "02:00:00:00:0a:02";
  EXPECT_THAT(Fields(Verification::ChangedPort(present, update, on).status()),
              ElementsAre("port.switch_name", "port.tap", "port.mac_address"));
}

TEST(Verification, AddressesAndRoutes) {
  IpSettings good{{"10.0.0.2/24", "fd00::2/64"},
                  {{"0.0.0.0/0", "10.0.0.1", 0, 0}, {"fd01::/16", "", 1280, 7}}};
  EXPECT_TRUE(Verification::Addresses("", good).ok()) << Verification::Addresses("", good);
  IpSettings bad{{"10.0.0.2", "10.0.0.2/33"}, {{"x", "y", 10, 0}}};
  EXPECT_THAT(Fields(Verification::Addresses("", bad)),
              ElementsAre("ip_config.addresses[0].address", "ip_config.addresses[1].address",
                          "ip_config.routes[0].destination", "ip_config.routes[0].gateway",
                          "ip_config.routes[0].mtu"));
}

TEST(ControlError, CarriesAnyText) {
  absl::Status status = FieldError({{"a\nb", "c\td\x01"}, {"e", ""}});
  ASSERT_EQ(FieldViolationsOf(status).size(), 2u);
  EXPECT_EQ(FieldViolationsOf(status)[0].field, "a\nb");
  EXPECT_EQ(FieldViolationsOf(status)[0].description, "c\td\x01");
  EXPECT_EQ(FieldViolationsOf(status)[1].description, "");
  EXPECT_THAT(ErrorReasonOf(status).reason, IsEmpty());
  EXPECT_THAT(FieldViolationsOf(absl::OkStatus()), IsEmpty());
}

}  // namespace
}  // namespace ringswitch::agent
