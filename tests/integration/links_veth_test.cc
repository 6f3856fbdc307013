// Veth ports of Links against the kernel. Needs root.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "server/agent/links.h"
#include "tests/integration/links_testbed.h"

namespace ringswitch::agent {
namespace {

using std::chrono::steady_clock;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

class VethTest : public LinksTest {
 protected:
  void TearDown() override {
    links_.reset();
    for (const char* ifname : {"host0", "host1"}) RunCommand(std::string("ip link del ") + ifname);
    Must("ip address flush dev lo scope global");
  }
  PortLink Make(const DeviceRef& device, uint32_t mtu = 1500) {
    absl::StatusOr<PortLink> link = links_->CreateVeth(device, kMac, mtu);
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? *std::move(link) : PortLink{};
  }
  bool IsThere(const std::string& netns, const std::string& ifname) {
    return links_->GetLink({netns, ifname}).ok();
  }

  Netns pod_;
};

TEST_F(VethTest, BothEndsAreAsAsked) {
  PortLink link = Make(Veth(pod_, "host0"), 1400);
  EXPECT_EQ(link.device.kind, Device::Kind::kPacket);
  EXPECT_TRUE(link.is_up);
  EXPECT_NE(link.netns_id.cookie, 0u);
  EXPECT_EQ(RunCommand("cat /sys/class/net/host0/ifindex").text, std::to_string(link.ifindex) + "\n");
  absl::StatusOr<LinkInfo> pod = links_->GetLink({pod_.path(), "eth0"});
  absl::StatusOr<LinkInfo> host = links_->GetLink({"", "host0"});
  ASSERT_TRUE(pod.ok() && host.ok()) << pod.status() << host.status();
  EXPECT_EQ(pod->mac, kMac);
  EXPECT_EQ(host->mac, bridge::MacAddress(0xfe00'0000'0a01ULL));
  EXPECT_EQ(pod->mtu, 1400u);
  EXPECT_EQ(host->mtu, 1400u);
  EXPECT_TRUE(pod->is_up && host->is_up);
  EXPECT_TRUE(host->addresses.empty());
  // Given at creation, so that no policy of udev's replaces it.
  EXPECT_EQ(pod_.Read("cat /sys/class/net/eth0/addr_assign_type"), "3\n");
  EXPECT_EQ(RunCommand("cat /sys/class/net/host0/addr_assign_type").text, "3\n");
  EXPECT_NE(pod_.Read("ip -o link show").find("eth0@"), std::string::npos);
}

TEST_F(VethTest, PodsEndHasNoOffloadsThatCannotBeDescribed) {
  Make(Veth(pod_, "host0"));
  const std::string features = pod_.Read("ethtool -k eth0");
  ASSERT_NE(features.find("tx-udp_tnl-segmentation: off"), std::string::npos) << features;
  for (const char* cleared :
       {"tx-udp_tnl-csum", "tx-gre", "tx-gre-csum", "tx-ipxip4", "tx-ipxip6", "tx-sctp"}) {
    EXPECT_EQ(features.find(std::string(cleared) + "-segmentation: on"), std::string::npos) << cleared;
  }
  for (const char* cleared : {"tx-gso-list", "tx-gso-partial", "tx-checksum-sctp"}) {
    EXPECT_EQ(features.find(std::string(cleared) + ": on"), std::string::npos) << cleared;
  }
  for (const char* kept : {"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-checksum-ip-generic"}) {
    EXPECT_NE(features.find(std::string(kept) + ": on"), std::string::npos) << kept;
  }
}

TEST_F(VethTest, HostNeitherSpeaksNorAnswers) {
  Must("ip address replace 10.99.7.1/32 dev lo");
  PortLink link = Make(Veth(pod_, "host0"));
  EXPECT_FALSE(AnswersArp(pod_, "eth0"));
  EXPECT_TRUE(HasReceivedProbe(link.device.file));
  std::this_thread::sleep_for(1500ms);  // when router solicitations and reports would have been sent
  EXPECT_EQ(pod_.Read("cat /sys/class/net/eth0/statistics/rx_packets"), "0\n");
}

TEST_F(VethTest, RefusalsLeaveNothingBehind) {
  Make(Veth(pod_, "host0"));
  EXPECT_EQ(links_->CreateVeth(Veth(pod_, "host0", "eth1"), kMac, 1500).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(links_->CheckDevice(Veth(pod_, "host0", "eth1")).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(links_->CreateVeth(Veth(pod_, "host1"), kMac, 1500).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(links_->CheckDevice(Veth(pod_, "host1")).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(links_->CheckDevice(Veth(pod_, "host1", "eth1")).ok());
  const absl::Status small = links_->CreateVeth(Veth(pod_, "host1", "eth1"), kMac, 10).status();
  EXPECT_EQ(small.code(), absl::StatusCode::kInvalidArgument) << small;
  EXPECT_NE(small.message().find("MTU 10"), std::string::npos) << small;
  DeviceRef nowhere = Veth(pod_, "host1", "eth1");
  nowhere.link.netns = "/etc/hostname";
  EXPECT_EQ(links_->CreateVeth(nowhere, kMac, 1500).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(links_->CheckDevice(nowhere).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(links_->CreateVeth(Veth(pod_, "host 1", "eth1"), kMac, 1500).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(links_->CreateVeth(Veth(pod_, "host1", "eth1"), bridge::MacAddress(), 1500).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(IsThere("", "host1"));
  EXPECT_FALSE(IsThere(pod_.path(), "eth1"));
}

// What fails after the pair was made: here the agent may not write to /proc/sys.
TEST_F(VethTest, UndoneWhenTheHostsEndCannotBePrepared) {
  Must("mount -t tmpfs rslinks /proc/sys/net/ipv6/conf");
  Must("mkdir -p /proc/sys/net/ipv6/conf/host1/disable_ipv6");
  const absl::Status status = links_->CreateVeth(Veth(pod_, "host1"), kMac, 1500).status();
  Must("umount /proc/sys/net/ipv6/conf");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_FALSE(IsThere("", "host1"));
  EXPECT_FALSE(IsThere(pod_.path(), "eth0"));
}

TEST_F(VethTest, AttachAfterARestart) {
  const DeviceRef device = Veth(pod_, "host0");
  const NamespaceId id = Make(device).netns_id;
  Netns other;
  TearDown();  // also deletes the pair
  SetUp();
  EXPECT_EQ(links_->AttachVeth(device, id).status().code(), absl::StatusCode::kFailedPrecondition);
  const uint32_t ifindex = Make(device).ifindex;
  links_.reset();
  SetUp();
  absl::StatusOr<PortLink> link = links_->AttachVeth(device, id);
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_EQ(link->ifindex, ifindex);
  EXPECT_EQ(link->netns_id, id);
  EXPECT_TRUE(link->is_up);
  Must("ip address replace 10.99.7.1/32 dev lo");
  EXPECT_FALSE(AnswersArp(pod_, "eth0"));
  EXPECT_TRUE(HasReceivedProbe(link->device.file));
  EXPECT_EQ(links_->AttachVeth(Veth(other, "host0"), id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(links_->AttachVeth(Veth(pod_, "host1"), id).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(links_->AttachVeth(Veth(pod_, "host0", "eth1"), id).status().code(),
            absl::StatusCode::kFailedPrecondition);
  DeviceRef nowhere = device;
  nowhere.link.netns = "/run/netns/rslinks-absent";
  EXPECT_EQ(links_->AttachVeth(nowhere, id).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(VethTest, AnotherPairUnderTheSameNameIsNeitherAttachedNorDeleted) {
  Netns other;
  const DeviceRef device = Veth(pod_, "host0");
  const NamespaceId id = Make(device).netns_id;
  Must("ip link del host0");
  Must("ip link add name host0 type veth peer name eth0 netns " + other.name());
  pod_.Do("ip link add name eth0 type veth peer name eth1");
  EXPECT_EQ(links_->AttachVeth(device, id).status().code(), absl::StatusCode::kFailedPrecondition);
  links_->DeleteVeth(device);
  EXPECT_TRUE(IsThere("", "host0"));
  EXPECT_TRUE(IsThere(other.path(), "eth0"));
}

TEST_F(VethTest, Delete) {
  const DeviceRef device = Veth(pod_, "host0");
  PortLink link = Make(device);
  pod_.Do("ip link set eth0 down");
  pod_.Do("ip link set eth0 name renamed");
  EXPECT_TRUE(IsThere(pod_.path(), "renamed"));
  links_->DeleteVeth(device);
  EXPECT_FALSE(IsThere("", "host0"));
  EXPECT_FALSE(IsThere(pod_.path(), "renamed"));
  links_->DeleteVeth(device);
  Make(device);
  pod_.Delete();
  links_->DeleteVeth(device);
  EXPECT_FALSE(IsThere("", "host0"));
}

TEST_F(VethTest, MtuOfBothEndsOrOfNone) {
  const DeviceRef device = Veth(pod_, "host0");
  Make(device);
  ASSERT_TRUE(links_->SetMtu(device, 9000).ok());
  EXPECT_EQ(links_->GetLink({"", "host0"})->mtu, 9000u);
  EXPECT_EQ(links_->GetLink({pod_.path(), "eth0"})->mtu, 9000u);
  EXPECT_EQ(links_->SetMtu(device, 10).code(), absl::StatusCode::kInvalidArgument);
  Rename("host0", "host1");
  EXPECT_EQ(links_->SetMtu(device, 1400).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(links_->GetLink({pod_.path(), "eth0"})->mtu, 9000u);
  EXPECT_EQ(links_->GetLink({"", "host1"})->mtu, 9000u);
}

TEST_F(VethTest, CarrierAndNamespaceAreWatched) {
  const DeviceRef device = Veth(pod_, "host0");
  PortLink link = Make(device);
  ASSERT_TRUE(links_->Watch(1, device, &link).ok());
  pod_.Do("ip link set eth0 down");
  EXPECT_LT(Await(1, LinkEventKind::kLinkDown), 1s);
  pod_.Do("ip link set eth0 up");
  EXPECT_LT(Await(1, LinkEventKind::kLinkUp), 1s);
  pod_.Do("ip link set eth0 mtu 1300");
  Must("ip link set host0 promisc on");
  Must("ip link set host0 down");
  EXPECT_LT(Await(1, LinkEventKind::kLinkDown), 1s);
  EXPECT_EQ(EventText(), "");
  pod_.Delete();
  EXPECT_LT(Await(1, LinkEventKind::kNamespaceGone), 1s);
  // The open packet socket pins nothing of the pod's.
  for (int i = 0; i < 300 && IsThere("", "host0"); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(IsThere("", "host0"));
}

TEST_F(VethTest, PairThatIsGoneIsWatched) {
  const DeviceRef device = Veth(pod_, "host0");
  PortLink link = Make(device);
  ASSERT_TRUE(links_->Watch(1, device, &link).ok());
  pod_.Do("ip link del eth0");
  EXPECT_LT(Await(1, LinkEventKind::kLinkGone), 1s);
  link = Make(device);
  EXPECT_LT(Await(1, LinkEventKind::kLinkBack), 1s);
  EXPECT_LT(Await(1, LinkEventKind::kLinkUp), 1s);
  links_->Unwatch(1);
  ASSERT_TRUE(links_->Watch(2, device, nullptr).ok());
  EXPECT_LT(Await(2, LinkEventKind::kLinkBack), 1s);
  Netns other;
  EXPECT_EQ(links_->Watch(3, Veth(other, "host0"), &link).code(), absl::StatusCode::kNotFound);
  pod_.Delete();
  EXPECT_LT(Await(2, LinkEventKind::kNamespaceGone), 1s);
}

TEST_F(VethTest, CreateIsFast) {
  std::vector<double> making, deleting;
  const auto since = [](steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
  };
  const DeviceRef device = Veth(pod_, "host0");
  const size_t files = FileCount();
  for (int i = 0; i < 20; ++i) {
    auto start = steady_clock::now();
    PortLink link = Make(device);
    making.push_back(since(start));
    start = steady_clock::now();
    links_->DeleteVeth(device);
    deleting.push_back(since(start));
  }
  EXPECT_LE(FileCount(), files + 1) << "the gate's socket";
  std::sort(making.begin(), making.end());
  std::sort(deleting.begin(), deleting.end());
  std::printf("CreateVeth: median %.2f ms, slowest %.2f ms; DeleteVeth: median %.2f ms\n", making[10],
              making[19], deleting[10]);
  EXPECT_LT(making[0], 200);
}

}  // namespace
}  // namespace ringswitch::agent
