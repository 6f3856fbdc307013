// Netdev ports of Links against the kernel: what may be one, and what the host's stack hears of it. Needs
// root.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "server/agent/links.h"
#include "tests/integration/links_testbed.h"

namespace ringswitch::agent {
namespace {

// A veth pair as a user makes one: `ifname` in the agent's own namespace, eth0 in a pod's.
class NetdevTest : public LinksTest {
 protected:
  void SetUp() override {
    LinksTest::SetUp();
    MakePair("port0", pod_);
    // The host's address is on another device, and Linux answers for it on all.
    Must("ip address replace 10.99.7.1/32 dev lo");
  }
  void TearDown() override {
    links_.reset();
    for (const char* ifname : {"port0", "port1", "away", "br0"})
      RunCommand(std::string("ip link del ") + ifname);
    Must("ip address flush dev lo scope global");
  }
  static void MakePair(const std::string& ifname, const Netns& pod) {
    Must("ip link add name " + ifname + " type veth peer name eth0 netns " + pod.name());
    Must("ip -n " + pod.name() + " link set eth0 up");
  }
  PortLink Open(const DeviceRef& device) {
    absl::StatusOr<PortLink> link = links_->OpenNetdev(device);
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? *std::move(link) : PortLink{};
  }
  // OpenNetdev and CheckDevice refuse alike.
  void ExpectRefused(const DeviceRef& device, absl::StatusCode code, const std::string& part) {
    const absl::Status opened = links_->OpenNetdev(device).status();
    EXPECT_EQ(opened.code(), code) << opened;
    EXPECT_NE(opened.message().find(part), std::string::npos) << opened;
    EXPECT_EQ(links_->CheckDevice(device), opened);
  }

  Netns pod_;
};

TEST_F(NetdevTest, OpenedSetUpAndDescribed) {
  Must("ip link set port0 address 02:00:00:00:00:77 mtu 4000");
  Must("ip -n " + pod_.name() + " link set eth0 down");
  ASSERT_TRUE(links_->CheckDevice(Netdev("port0")).ok());
  EXPECT_FALSE(links_->GetLink({"", "port0"})->is_up) << "a check changes nothing";
  {
    PortLink link = Open(Netdev("port0"));
    EXPECT_TRUE(links_->GetLink({"", "port0"})->is_up);
    EXPECT_EQ(link.mac, bridge::MacAddress(0x0200'0000'0077ULL));
    EXPECT_EQ(link.mtu, 4000u);
    EXPECT_EQ(link.netns_id, NamespaceId{});
    EXPECT_FALSE(link.is_up) << "no carrier";
    EXPECT_EQ(link.device.kind, Device::Kind::kPacket);
    EXPECT_EQ(RunCommand("cat /sys/class/net/port0/ifindex").text, std::to_string(link.ifindex) + "\n");
  }
  Must("ip -n " + pod_.name() + " link set eth0 up");
  DeviceRef device = Netdev("port0");
  device.software_offload = true;
  PortLink link = Open(device);
  EXPECT_TRUE(link.is_up);
  EXPECT_FALSE(link.device.takes_offload);
  ASSERT_TRUE(links_->SetMtu(device, 1400).ok());
  EXPECT_EQ(links_->GetLink({"", "port0"})->mtu, 1400u);
  EXPECT_EQ(links_->GetLink({pod_.path(), "eth0"})->mtu, 1500u) << "the other end is its owner's";
}

TEST_F(NetdevTest, HostsStackDoesNotHearIt) {
  Netns other;
  MakePair("port1", other);
  Must("ip link set port0 up");
  Must("ip link set port1 up");
  EXPECT_TRUE(AnswersArp(pod_, "eth0")) << "or the test proves nothing";
  EXPECT_TRUE(AnswersArp(other, "eth0"));
  PortLink link = Open(Netdev("port0"));
  EXPECT_FALSE(AnswersArp(pod_, "eth0"));
  EXPECT_TRUE(HasReceivedProbe(link.device.file));
  EXPECT_TRUE(AnswersArp(other, "eth0")) << "only the port is shut";
  PortLink second = Open(Netdev("port1"));
  EXPECT_FALSE(AnswersArp(pod_, "eth0"));
  EXPECT_FALSE(AnswersArp(other, "eth0"));
  links_->ReleaseNetdev(Netdev("port0"));
  EXPECT_TRUE(AnswersArp(pod_, "eth0"));
  EXPECT_FALSE(AnswersArp(other, "eth0"));
  links_.reset();
  EXPECT_TRUE(AnswersArp(other, "eth0"));
}

TEST_F(NetdevTest, HostsStackKept) {
  DeviceRef device = Netdev("port0");
  PortLink dropping = Open(device);
  device.host_stack = HostStack::kKeep;
  PortLink link = Open(device);
  EXPECT_TRUE(AnswersArp(pod_, "eth0"));
  EXPECT_TRUE(HasReceivedProbe(link.device.file));
}

TEST_F(NetdevTest, HostsStackIsShutAgainWhenTheDeviceComesBack) {
  PortLink first = Open(Netdev("port0"));
  Must("ip link del port0");
  MakePair("port0", pod_);
  PortLink link = Open(Netdev("port0"));
  EXPECT_NE(link.ifindex, first.ifindex);
  EXPECT_FALSE(AnswersArp(pod_, "eth0"));
  EXPECT_TRUE(HasReceivedProbe(link.device.file));
}

TEST_F(NetdevTest, RenamedAwayItIsTheHostsAgain) {
  PortLink link = Open(Netdev("port0"));
  ASSERT_TRUE(links_->Watch(1, Netdev("port0"), &link).ok());
  Rename("port0", "away");
  Await(1, LinkEventKind::kLinkGone);
  EXPECT_TRUE(AnswersArp(pod_, "eth0"));
  Rename("away", "port0");
  Await(1, LinkEventKind::kLinkBack);
  link = Open(Netdev("port0"));
  EXPECT_FALSE(AnswersArp(pod_, "eth0"));
}

TEST_F(NetdevTest, HostsStackHearsAgainWhenTheAgentIsKilled) {
  Must("ip link set port0 up");
  links_.reset();  // and with it its thread, since the child starts one
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    auto links = MakeLinks([](const LinkEvent&) {});
    absl::StatusOr<PortLink> link = (*links)->OpenNetdev(Netdev("port0"));
    const char result = link.ok() ? 'y' : 'n';
    if (write(ready[1], &result, 1) != 1) _exit(1);
    while (true) pause();
  }
  close(ready[1]);
  char result = 0;
  EXPECT_EQ(read(ready[0], &result, 1), 1);
  close(ready[0]);
  EXPECT_EQ(result, 'y');
  EXPECT_FALSE(AnswersArp(pod_, "eth0"));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(AnswersArp(pod_, "eth0"));
}

TEST_F(NetdevTest, RefusesWhatIsNoEthernetDevice) {
  constexpr absl::StatusCode kRefused = absl::StatusCode::kFailedPrecondition;
  ExpectRefused(Netdev("absent"), absl::StatusCode::kNotFound, "absent");
  ExpectRefused(Netdev("lo"), kRefused, "no Ethernet device");
  Must("ip tuntap add dev away mode tun");
  ExpectRefused(Netdev("away"), kRefused, "no Ethernet device");
  Must("ip link add name br0 type bridge");
  ExpectRefused(Netdev("br0"), kRefused, "is a bridge");
  Must("ip link set port0 master br0");
  ExpectRefused(Netdev("port0"), kRefused, "ip link set port0 nomaster");
  Must("ip link set port0 nomaster");
  Must("ip link property add dev port0 altname alias");
  ExpectRefused(Netdev("alias"), kRefused, "another name of port0");
  EXPECT_EQ(links_->CheckDevice(Netdev("a/b")).code(), absl::StatusCode::kInvalidArgument);
  Open(Netdev("port0"));
}

TEST_F(NetdevTest, RefusesWhatTheNodeLivesOn) {
  constexpr absl::StatusCode kRefused = absl::StatusCode::kFailedPrecondition;
  Must("ip address add 10.99.8.1/24 dev port0");
  ExpectRefused(Netdev("port0"), kRefused, "carries 10.99.8.1/24 of the node");
  ExpectRefused(Netdev("port0"), kRefused, "--confirm-within 60s");
  DeviceRef keeping = Netdev("port0");
  keeping.host_stack = HostStack::kKeep;
  ExpectRefused(keeping, kRefused, "10.99.8.1/24");
  Must("ip address del 10.99.8.1/24 dev port0");
  Must("ip address add 2001:db8:8::1/64 dev port0 nodad");
  ExpectRefused(Netdev("port0"), kRefused, "2001:db8:8::1/64");
  Must("ip address del 2001:db8:8::1/64 dev port0");
  Must("ip link set port0 up");
  for (const char* route : {"0.0.0.0/0", "::/0"}) {
    Must(std::string("ip route add ") + route + " dev port0");
    ExpectRefused(Netdev("port0"), kRefused, std::string("the default route ") + route);
    Must(std::string("ip route del ") + route + " dev port0");
  }
  EXPECT_TRUE(AnswersArp(pod_, "eth0")) << "a refusal shuts nothing";
  Must("ip address add fe80::7/64 dev port0 nodad");
  Open(Netdev("port0"));  // a link-local address is nobody's
}

TEST_F(NetdevTest, WhatTheNodeLivesOnIsGivenBackAsItWas) {
  Must("ip address add 10.99.8.1/24 dev port0");
  DeviceRef device = Netdev("port0");
  device.may_carry_node = true;
  ASSERT_TRUE(links_->CheckDevice(device).ok());
  for (bool is_up : {false, true}) {
    Must(std::string("ip link set port0 ") + (is_up ? "up" : "down"));
    {
      PortLink link = Open(device);
      EXPECT_EQ(link.was_down, !is_up);
      EXPECT_FALSE(AnswersArp(pod_, "eth0"));
    }
    if (!is_up) links_->SetNetdevDown(device);
    links_->ReleaseNetdev(device);
    EXPECT_EQ(links_->GetLink({"", "port0"})->is_up, is_up);
  }
  EXPECT_TRUE(AnswersArp(pod_, "eth0"));
  Must("ip link del port0");
  links_->SetNetdevDown(device);
}

TEST_F(NetdevTest, RefusesToCutOffDevicesOnTop) {
  Must("ip link add link port0 name away type macvlan");
  ExpectRefused(Netdev("port0"), absl::StatusCode::kFailedPrecondition, "(away)");
  ExpectRefused(Netdev("port0"), absl::StatusCode::kFailedPrecondition, "HOST_STACK_KEEP");
  DeviceRef device = Netdev("port0");
  device.host_stack = HostStack::kKeep;
  Open(device);
}

}  // namespace
}  // namespace ringswitch::agent
