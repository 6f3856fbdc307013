// Results: what IPAM plugins give, what a runtime gets in each version, what CHECK makes of it.

#include <gtest/gtest.h>

#include "cni-plugin/failure.h"
#include "cni-plugin/result.h"

namespace ringswitch::cni {
namespace {

constexpr char kIpamResult[] = R"({"cniVersion":"1.0.0","ips":[
  {"address":"10.99.1.2/24","gateway":"10.99.1.1"},{"address":"fd00:99::2/64","gateway":"fd00:99::1"}],
  "routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"},{"dst":"10.0.0.0/8","gw":"10.99.1.9","mtu":1400,"priority":5}],
  "dns":{"nameservers":["10.96.0.10"]}})";

NetworkConfig Config(const std::string& version, const std::string& members = "") {
  return *ReadNetworkConfig(R"({"cniVersion":")" + version + R"(","name":"n1","type":"ringswitch")" +
                            members + "}");
}

v1::Attachment Pod() {
  v1::Attachment attachment;
  attachment.set_container_id("c1");
  attachment.set_ifname("eth0");
  attachment.set_netns("/run/netns/c1");
  attachment.set_mac_address("02:00:00:00:00:01");
  attachment.set_mtu(1500);
  return attachment;
}

std::string ResultIn(const std::string& version) {
  return AddResultText(Config(version), Pod(), *ReadAddressResult(Json::parse(kIpamResult)));
}

TEST(CniResult, ShapeFollowsTheVersion) {
  const std::string routes_before_1_1 =
      R"("routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"},{"dst":"10.0.0.0/8","gw":"10.99.1.9"}],)"
      R"("dns":{"nameservers":["10.96.0.10"]}})";
  const std::string interface =
      R"("interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"/run/netns/c1"}],)";
  EXPECT_EQ(ResultIn("1.0.0"), R"({"cniVersion":"1.0.0",)" + interface +
                                   R"("ips":[{"interface":0,"address":"10.99.1.2/24","gateway":"10.99.1.1"},)"
                                   R"({"interface":0,"address":"fd00:99::2/64","gateway":"fd00:99::1"}],)" +
                                   routes_before_1_1);
  for (const std::string version : {"0.3.1", "0.4.0"}) {
    EXPECT_EQ(ResultIn(version),
              R"({"cniVersion":")" + version + R"(",)" + interface +
                  R"("ips":[{"version":"4","interface":0,"address":"10.99.1.2/24","gateway":"10.99.1.1"},)"
                  R"({"version":"6","interface":0,"address":"fd00:99::2/64","gateway":"fd00:99::1"}],)" +
                  routes_before_1_1);
  }
  const Json newest = Json::parse(ResultIn("1.1.0"));
  EXPECT_EQ(newest["interfaces"][0]["mtu"], 1500);
  EXPECT_EQ(newest["routes"][2]["mtu"], 1400);
  EXPECT_EQ(newest["routes"][2]["priority"], 5);
}

TEST(CniResult, WithoutIpamThereAreNoAddresses) {
  EXPECT_EQ(AddResultText(Config("1.0.0"), Pod(), AddressResult()),
            R"({"cniVersion":"1.0.0","interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01",)"
            R"("sandbox":"/run/netns/c1"}],"dns":{}})");
}

TEST(CniResult, DnsOfTheConfigurationGoesFirst) {
  const NetworkConfig config = Config("1.0.0", R"(,"dns":{"nameservers":["10.0.0.53"]})");
  const std::string text = AddResultText(config, Pod(), *ReadAddressResult(Json::parse(kIpamResult)));
  EXPECT_EQ(Json::parse(text)["dns"]["nameservers"][0], "10.0.0.53");
}

TEST(CniResult, RoutesGetTheGatewayOfTheirFamily) {
  const v1::IpConfig config = ToIpConfig(*ReadAddressResult(Json::parse(kIpamResult)));
  ASSERT_EQ(config.addresses_size(), 2);
  EXPECT_EQ(config.addresses(1).address(), "fd00:99::2/64");
  ASSERT_EQ(config.routes_size(), 3);
  EXPECT_EQ(config.routes(0).gateway(), "10.99.1.1");
  EXPECT_EQ(config.routes(1).gateway(), "fd00:99::1");
  EXPECT_EQ(config.routes(2).gateway(), "10.99.1.9");
  EXPECT_EQ(config.routes(2).mtu(), 1400u);
  EXPECT_EQ(config.routes(2).priority(), 5u);
}

TEST(CniResult, WithoutGatewayARouteIsOnTheLink) {
  const v1::IpConfig config = ToIpConfig(*ReadAddressResult(
      Json::parse(R"({"ips":[{"address":"fd00::2/64"}],"routes":[{"dst":"0.0.0.0/0"}]})")));
  EXPECT_EQ(config.routes(0).gateway(), "");
}

TEST(CniResult, BadIpamResultsAreRefused) {
  const std::pair<const char*, int> cases[] = {
      {R"({"ips":{}})", kBadConfig},
      {R"({"ips":[{}]})", kBadConfig},
      {R"({"ips":[5]})", kBadConfig},
      {R"({"routes":[{"gw":"10.0.0.1"}]})", kBadConfig},
      {R"({"routes":[{"dst":"0.0.0.0/0","table":100}]})", kUnsupportedField},
  };
  for (const auto& [text, code] : cases) {
    EXPECT_EQ(CodeOf(ReadAddressResult(Json::parse(text)).status()), code) << text;
  }
}

TEST(CniResult, PreviousResultGivesTheExpectations) {
  // A chained plugin has put an interface before ours, with an address, and lost the sandbox.
  const NetworkConfig config = Config("1.0.0", R"(,"prevResult":{"interfaces":[
      {"name":"veth1","mac":"02:00:00:00:00:99"},{"name":"eth0","mac":"02:00:00:00:00:07"}],
      "ips":[{"interface":0,"address":"10.1.1.1/24"},{"interface":1,"address":"10.99.1.2/24"}],
      "routes":[{"dst":"0.0.0.0/0","gw":"10.99.1.1"}]})");
  v1::Attachment expected = Pod();
  const absl::Status status = ReadPreviousResult(config, expected);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(expected.mac_address(), "02:00:00:00:00:07");
  ASSERT_EQ(expected.ip_config().addresses_size(), 1);
  EXPECT_EQ(expected.ip_config().addresses(0).address(), "10.99.1.2/24");
  EXPECT_EQ(expected.ip_config().routes(0).gateway(), "10.99.1.1");
}

TEST(CniResult, PreviousResultMustKnowTheInterface) {
  v1::Attachment expected = Pod();
  EXPECT_EQ(CodeOf(ReadPreviousResult(Config("1.0.0"), expected)), kBadConfig);
  EXPECT_EQ(CodeOf(ReadPreviousResult(Config("1.0.0", R"(,"prevResult":{})"), expected)), kBadConfig);
  EXPECT_EQ(CodeOf(ReadPreviousResult(Config("1.0.0", R"(,"prevResult":[])"), expected)), kBadConfig);
  const NetworkConfig other =
      Config("1.0.0", R"(,"prevResult":{"interfaces":[{"name":"eth0","sandbox":"/run/netns/other"}]})");
  EXPECT_EQ(CodeOf(ReadPreviousResult(other, expected)), kBadConfig);
}

}  // namespace
}  // namespace ringswitch::cni
