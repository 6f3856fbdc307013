// Network configurations and environments as runtimes send them: what is taken, and which error names what.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cni-plugin/config.h"
#include "cni-plugin/failure.h"
#include "cni-plugin/invocation.h"

namespace ringswitch::cni {
namespace {

using ::testing::HasSubstr;

// A configuration with `members` beside what every one needs.
std::string Text(const std::string& members) {
  return R"({"cniVersion":"1.0.0","name":"n1","type":"ringswitch")" + (members.empty() ? "" : "," + members) +
         "}";
}

Invocation Pod(const std::string& args = "") {
  Invocation invocation;
  invocation.container_id = "c1";
  invocation.ifname = "eth0";
  invocation.netns = "/run/netns/c1";
  invocation.args = args;
  return invocation;
}

absl::StatusOr<v1::Attachment> Read(const std::string& members, const std::string& args = "") {
  const absl::StatusOr<NetworkConfig> config = ReadNetworkConfig(Text(members));
  if (!config.ok()) return config.status();
  return ReadAttachment(*config, Pod(args));
}

TEST(CniConfig, DefaultsAreThoseOfTheReference) {
  const auto attachment = Read("");
  ASSERT_TRUE(attachment.ok()) << attachment.status();
  EXPECT_EQ(attachment->switch_name(), "cni0");
  EXPECT_EQ(attachment->network(), "n1");
  EXPECT_EQ(attachment->netns(), "/run/netns/c1");
  EXPECT_FALSE(attachment->has_vlans());
  EXPECT_FALSE(attachment->has_mac_limit());
  EXPECT_FALSE(attachment->has_pod());
  EXPECT_EQ(attachment->mtu(), 0u);
}

TEST(CniConfig, KeysAreTakenInAnyCaseAndNullIsAbsent) {
  const auto attachment =
      Read(R"("Bridge":"sw0","MTU":9000,"vlan":null,"runtimeConfig":{"Mac":"02-00-00-00-0A-01"})");
  ASSERT_TRUE(attachment.ok()) << attachment.status();
  EXPECT_EQ(attachment->switch_name(), "sw0");
  EXPECT_EQ(attachment->mtu(), 9000u);
  EXPECT_FALSE(attachment->has_vlans());
  EXPECT_EQ(attachment->mac_address(), "02:00:00:00:0a:01");
}

TEST(CniConfig, MacOfRuntimeConfigGoesBeforeArgsBeforeEnvironment) {
  const std::string runtime = R"("runtimeConfig":{"mac":"02:00:00:00:00:01"})";
  const std::string args = R"("args":{"cni":{"mac":"02:00:00:00:00:02"}})";
  const std::string environment = "MAC=02:00:00:00:00:03";
  EXPECT_EQ(Read(runtime + "," + args, environment)->mac_address(), "02:00:00:00:00:01");
  EXPECT_EQ(Read(args, environment)->mac_address(), "02:00:00:00:00:02");
  EXPECT_EQ(Read("", environment)->mac_address(), "02:00:00:00:00:03");
}

TEST(CniConfig, VlanIsAccessAndVlanTrunkIsTagged) {
  EXPECT_EQ(Read(R"("vlan":100)")->vlans().access_vid(), 100u);
  EXPECT_FALSE(Read(R"("vlan":0)")->has_vlans());
  const auto trunk = Read(R"("vlan":7,"vlanTrunk":[{"minID":10,"maxID":20},{"id":4094}])");
  ASSERT_TRUE(trunk.ok()) << trunk.status();
  ASSERT_EQ(trunk->vlans().trunk().tagged_size(), 2);
  EXPECT_EQ(trunk->vlans().trunk().native_vid(), 7u);
  EXPECT_EQ(trunk->vlans().trunk().tagged(0).first(), 10u);
  EXPECT_EQ(trunk->vlans().trunk().tagged(0).last(), 20u);
  EXPECT_EQ(trunk->vlans().trunk().tagged(1).first(), 4094u);
}

TEST(CniConfig, PodComesFromCniArgsInAnyOrder) {
  const auto attachment = Read("",
                               "K8S_POD_INFRA_CONTAINER_ID=a30b;K8S_POD_UID=1-2;IgnoreUnknown=1;K8S_POD_"
                               "NAMESPACE=shop;K8S_POD_NAME=web;X=y");
  ASSERT_TRUE(attachment.ok()) << attachment.status();
  EXPECT_EQ(attachment->pod().namespace_(), "shop");
  EXPECT_EQ(attachment->pod().name(), "web");
  EXPECT_EQ(attachment->pod().uid(), "1-2");
}

struct BadCase {
  std::string members;
  std::string args;
  int code;
  std::string named;
};

TEST(CniConfig, BadValuesAreNamed) {
  const BadCase cases[] = {
      {R"("vlan":4095)", "", kBadConfig, "vlan:"},
      {R"("vlan":-1)", "", kBadConfig, "vlan:"},
      {R"("vlan":"100")", "", kBadConfig, "vlan:"},
      {R"("vlan":1.5)", "", kBadConfig, "vlan:"},
      {R"("vlan":18446744073709551615)", "", kBadConfig, "vlan:"},
      {R"("mtu":67)", "", kBadConfig, "mtu:"},
      {R"("mtu":true)", "", kBadConfig, "mtu:"},
      {R"("bridge":5)", "", kBadConfig, "bridge:"},
      {R"("macLimit":-1)", "", kBadConfig, "macLimit:"},
      {R"("ipam":[])", "", kBadConfig, "ipam:"},
      {R"("ipam":{"type":"../x"})", "", kBadConfig, "ipam.type:"},
      {R"("agentAddress":"10.0.0.1:80")", "", kBadConfig, "agentAddress:"},
      {R"("vlanTrunk":{})", "", kBadConfig, "vlanTrunk:"},
      {R"("vlanTrunk":[{"minID":5}])", "", kBadConfig, "vlanTrunk[0]"},
      {R"("vlanTrunk":[{"id":1},{"minID":5,"maxID":4}])", "", kBadConfig, "vlanTrunk[1]"},
      {R"("vlanTrunk":[{"id":4095}])", "", kBadConfig, "vlanTrunk[0].id:"},
      {R"("runtimeConfig":{"mac":"01:00:00:00:00:01"})", "", kBadConfig, "runtimeConfig.mac:"},
      {R"("args":{"cni":{"mac":"00:00:00:00:00:00"}})", "", kBadConfig, "args.cni.mac:"},
      {"", "MAC=02:00", kBadEnvironment, "CNI_ARGS: MAC"},
      {"", "FOO=1", kBadEnvironment, "FOO=1"},
      {"", "FOO", kBadEnvironment, "FOO"},
      {"", "IgnoreUnknown=maybe", kBadEnvironment, "IgnoreUnknown"},
      {"", "K8S_POD_NAME=a\xff", kBadEnvironment, "K8S_POD_NAME"},
      {"", "IgnoreUnknown=1;K8S_POD_NAMESPACE=\xc3;K8S_POD_NAME=a", kBadEnvironment, "K8S_POD_NAMESPACE"},
      {"\"bridge\":\"\xff\"", "", kDecoding, "stdin"},
      {R"("isGateway":[])", "", kBadConfig, "isGateway:"},
      {R"("isGateway":{})", "", kBadConfig, "isGateway:"},
      {R"("hairpinMode":1)", "", kBadConfig, "hairpinMode:"},
      {R"("bcqueuelen":"5")", "", kBadConfig, "bcqueuelen:"},
      {R"("master":false)", "", kBadConfig, "master:"},
      {R"("mode":5)", "", kBadConfig, "mode:"},
      {R"("type":5)", "", kBadConfig, "type:"},
      {R"("isGateway":true)", "", kUnsupportedField, "isGateway:"},
      {R"("IPMasq":true)", "", kUnsupportedField, "ipMasq:"},
      {R"("master":"eth1")", "", kUnsupportedField, "master:"},
      {R"("mode":"private")", "", kUnsupportedField, "mode:"},
  };
  for (const BadCase& bad : cases) {
    const auto attachment = Read(bad.members, bad.args);
    ASSERT_FALSE(attachment.ok()) << bad.members << bad.args;
    EXPECT_EQ(CodeOf(attachment.status()), bad.code) << bad.members << bad.args;
    EXPECT_THAT(std::string(attachment.status().message()), HasSubstr(bad.named));
  }
}

TEST(CniConfig, SwitchedOffKeysAndUnknownKeysAreFine) {
  const auto attachment = Read(
      R"("isGateway":false,"ipMasq":false,"hairpinMode":false,"master":"","bcqueuelen":0,"capabilities":{"mac":true},"x":1)");
  EXPECT_TRUE(attachment.ok()) << attachment.status();
}

TEST(CniConfig, DocumentsThatAreNone) {
  EXPECT_EQ(CodeOf(ReadNetworkConfig("").status()), kDecoding);
  EXPECT_EQ(CodeOf(ReadNetworkConfig("{").status()), kDecoding);
  EXPECT_EQ(CodeOf(ReadNetworkConfig("[]").status()), kDecoding);
  EXPECT_EQ(CodeOf(ReadNetworkConfig(Text("") + "x").status()), kDecoding);
  EXPECT_EQ(CodeOf(ReadNetworkConfig(Text("") + std::string(1, '\0')).status()), kDecoding);
  EXPECT_EQ(CodeOf(ReadNetworkConfig("\xef\xbb\xbf" + Text("")).status()), kDecoding);
  // Printing a value goes as deep into the stack as the value is nested.
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_EQ(CodeOf(ReadNetworkConfig(Text("\"bridge\":" + deep)).status()), kDecoding);
  EXPECT_EQ(CodeOf(ReadNetworkConfig(R"({"name":"n1"})").status()), kIncompatibleVersion);
  EXPECT_EQ(CodeOf(ReadNetworkConfig(R"({"cniVersion":"9.9.9","name":"n1"})").status()),
            kIncompatibleVersion);
  EXPECT_EQ(CodeOf(ReadNetworkConfig(R"({"cniVersion":"1.0.0"})").status()), kBadConfig);
  EXPECT_EQ(CodeOf(ReadNetworkConfig(R"({"cniVersion":"1.0.0","name":"a/b"})").status()), kBadConfig);
}

// What only ADD looks at never stops a DEL, which needs no more than this.
TEST(CniConfig, DelDoesNotLookAtWhatAddRefuses) {
  EXPECT_TRUE(
      ReadNetworkConfig(Text(R"("vlan":"x","isGateway":true,"runtimeConfig":5,"prevResult":7)")).ok());
}

TEST(CniConfig, AbsentValidAttachmentsAreNotEmpty) {
  EXPECT_EQ(CodeOf(ReadValidAttachments(*ReadNetworkConfig(Text(""))).status()), kBadConfig);
  EXPECT_TRUE(ReadValidAttachments(*ReadNetworkConfig(Text(R"("cni.dev/valid-attachments":[])")))->empty());
  const auto keys = ReadValidAttachments(
      *ReadNetworkConfig(Text(R"("cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}])")));
  ASSERT_EQ(keys->size(), 1u);
  EXPECT_EQ(keys->front().container_id, "c1");
}

class CniInvocation : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH"}) {
      unsetenv(name);
    }
  }
  void SetAll(const char* command) {
    setenv("CNI_COMMAND", command, 1);
    setenv("CNI_CONTAINERID", "c1", 1);
    setenv("CNI_NETNS", "/run/netns/c1", 1);
    setenv("CNI_IFNAME", "eth0", 1);
    setenv("CNI_PATH", "/opt/cni/bin", 1);
  }
};

TEST_F(CniInvocation, AllMissingVariablesAreNamed) {
  EXPECT_THAT(std::string(ReadInvocation().status().message()), HasSubstr("CNI_COMMAND"));
  setenv("CNI_COMMAND", "ADD", 1);
  const auto add = ReadInvocation();
  EXPECT_EQ(CodeOf(add.status()), kBadEnvironment);
  EXPECT_THAT(std::string(add.status().message()),
              HasSubstr("CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME, CNI_PATH"));
  setenv("CNI_COMMAND", "DEL", 1);
  EXPECT_THAT(std::string(ReadInvocation().status().message()),
              HasSubstr("CNI_CONTAINERID, CNI_IFNAME, CNI_PATH"));
  setenv("CNI_COMMAND", "STATUS", 1);
  EXPECT_THAT(std::string(ReadInvocation().status().message()), HasSubstr(": CNI_PATH"));
  setenv("CNI_COMMAND", "VERSION", 1);
  EXPECT_TRUE(ReadInvocation().ok());
}

TEST_F(CniInvocation, DelNeedsNoNamespace) {
  SetAll("DEL");
  setenv("CNI_NETNS", "", 1);
  EXPECT_TRUE(ReadInvocation().ok());
}

TEST_F(CniInvocation, BadVariablesAreNamed) {
  SetAll("FOO");
  EXPECT_THAT(std::string(ReadInvocation().status().message()), HasSubstr("FOO"));
  for (const char* id : {"-c1", "c/1", "c 1"}) {
    SetAll("ADD");
    setenv("CNI_CONTAINERID", id, 1);
    EXPECT_THAT(std::string(ReadInvocation().status().message()), HasSubstr("CNI_CONTAINERID")) << id;
  }
  for (const char* name : {".", "..", "a/b", "a:b", "a b", "a\xff", "sixteen-bytes-ab"}) {
    SetAll("ADD");
    setenv("CNI_IFNAME", name, 1);
    EXPECT_THAT(std::string(ReadInvocation().status().message()), HasSubstr("CNI_IFNAME")) << name;
  }
  SetAll("ADD");
  setenv("CNI_NETNS", "/run/netns/\xff", 1);
  EXPECT_THAT(std::string(ReadInvocation().status().message()), HasSubstr("CNI_NETNS"));
  setenv("CNI_COMMAND", "DEL", 1);
  EXPECT_TRUE(ReadInvocation().ok());
}

}  // namespace
}  // namespace ringswitch::cni
