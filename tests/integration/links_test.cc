// Links against the kernel: TAPs, addresses, routes and announcements in real namespaces. Needs root.

#include "server/agent/links.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "tests/integration/links_testbed.h"

namespace ringswitch::agent {
namespace {

using bridge::MacAddress;
using std::chrono::steady_clock;
using std::chrono_literals::operator""s;

// The next frame from the TAP that starts so, without virtio-net header; empty after a second.
std::vector<uint8_t> NextFrame(const File& tap, const std::vector<uint8_t>& start) {
  const auto end = steady_clock::now() + 1s;
  while (steady_clock::now() < end) {
    pollfd ready{tap.fd(), POLLIN, 0};
    poll(&ready, 1, 100);
    std::vector<uint8_t> frame(2048);
    const ssize_t size = read(tap.fd(), frame.data(), frame.size());
    if (size <= 10) continue;
    frame.resize(size);
    frame.erase(frame.begin(), frame.begin() + 10);
    if (frame.size() >= start.size() && std::equal(start.begin(), start.end(), frame.begin())) return frame;
  }
  return {};
}

std::string Hex(const std::vector<uint8_t>& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) absl::StrAppend(&text, absl::Hex(byte, absl::kZeroPad2));
  return text;
}

TEST_F(LinksTest, CreateSetsMacMtuAndUp) {
  Netns netns;
  absl::StatusOr<PortLink> tap = links_->CreateTap({netns.path(), "eth0"}, kMac, 1400);
  ASSERT_TRUE(tap.ok()) << tap.status();
  EXPECT_TRUE(tap->device.file.is_open());
  EXPECT_EQ(netns.Read("cat /sys/class/net/eth0/address"), "02:00:00:00:0a:01\n");
  EXPECT_EQ(netns.Read("cat /sys/class/net/eth0/addr_assign_type"), "3\n");
  EXPECT_EQ(netns.Read("cat /sys/class/net/eth0/ifindex"), absl::StrCat(tap->ifindex, "\n"));
  EXPECT_NE(netns.Read("ip link show eth0").find("LOWER_UP"), std::string::npos);
  EXPECT_EQ(netns.Read("ip link show lo").find(",UP"), std::string::npos);
  absl::StatusOr<LinkInfo> info = links_->GetLink({netns.path(), "eth0"});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->mac, kMac);
  EXPECT_EQ(info->mtu, 1400u);
  EXPECT_TRUE(info->is_up);
  ASSERT_TRUE(links_->SetMtu(Tap(netns), 9000).ok());
  EXPECT_EQ(links_->GetLink({netns.path(), "eth0"})->mtu, 9000u);
  links_->DeleteTap(std::move(tap->device.file));
  EXPECT_NE(netns.Do("ip link show eth0"), 0);
}

TEST_F(LinksTest, CreateInOwnNamespace) {
  const std::string ifname = absl::StrCat("rsl", getpid() % 1000000);
  absl::StatusOr<PortLink> tap = links_->CreateTap({"", ifname}, kMac, 1500);
  ASSERT_TRUE(tap.ok()) << tap.status();
  DeviceRef device;
  device.link = {"", ifname};
  ASSERT_TRUE(links_->Watch(1, device, &*tap).ok());
  RunCommand("ip link set " + ifname + " down");
  EXPECT_LT(Await(1, LinkEventKind::kLinkDown), 1s);
  links_->DeleteTap(std::move(tap->device.file));
  EXPECT_LT(Await(1, LinkEventKind::kLinkGone), 1s);
}

TEST_F(LinksTest, CreateRefusesWhatIsNoNamespaceOrName) {
  Netns netns;
  for (const char* path : {"/run/netns/rslinks-absent", "/etc/hostname", "/dev/null", "/proc/self/ns/uts",
                           "/", "/etc/hostname/x"}) {
    const absl::Status status = links_->CreateTap({path, "eth0"}, kMac, 1500).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path << ": " << status;
    EXPECT_EQ(links_->GetLink({path, "eth0"}).status().code(), absl::StatusCode::kNotFound) << path;
  }
  for (const char* name : {"", ".", "..", "a/b", "a b", "a:b", "eth%d", "sixteen-letters-"}) {
    EXPECT_EQ(links_->CreateTap({netns.path(), name}, kMac, 1500).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(links_->CreateTap({netns.path(), "eth0"}, MacAddress(0x0100'0000'0000ULL), 1500).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(LinksTest, CreateIsUndoneOnFailure) {
  Netns netns;
  const absl::Status status = links_->CreateTap({netns.path(), "eth0"}, kMac, 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_NE(status.message().find("MTU 10"), std::string::npos) << status;
  EXPECT_EQ(links_->GetLink({netns.path(), "eth0"}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LinksTest, CreateRefusesAnExistingName) {
  Netns netns;
  PortLink tap = Create(netns);
  EXPECT_EQ(links_->CreateTap({netns.path(), "eth0"}, kMac, 1500).status().code(),
            absl::StatusCode::kAlreadyExists);
  ASSERT_EQ(netns.Do("ip link add veth0 type veth peer name veth1"), 0);
  EXPECT_EQ(links_->CreateTap({netns.path(), "veth0"}, kMac, 1500).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(links_->GetLink({netns.path(), "eth0"}).ok());
}

TEST_F(LinksTest, DeviceGoesWithItsFileUntilItIsKept) {
  Netns netns;
  Create(netns).device.file.Close();
  EXPECT_EQ(links_->GetLink({netns.path(), "eth0"}).status().code(), absl::StatusCode::kNotFound);
  PortLink tap = Create(netns);
  ASSERT_TRUE(links_->KeepTap(tap.device.file).ok());
  tap.device.file.Close();
  EXPECT_TRUE(links_->GetLink({netns.path(), "eth0"}).ok());
}

TEST_F(LinksTest, AttachAfterTheFileWasClosed) {
  Netns netns;
  Netns other;
  PortLink tap = Create(netns);
  ASSERT_TRUE(links_->KeepTap(tap.device.file).ok());
  const uint32_t ifindex = tap.ifindex;
  EXPECT_EQ(links_->AttachTap({other.path(), "eth0"}, tap.netns_id).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(links_->AttachTap({"/run/netns/rslinks-absent", "eth0"}, tap.netns_id).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(links_->AttachTap({netns.path(), "eth1"}, tap.netns_id).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(links_->AttachTap({netns.path(), "eth0"}, tap.netns_id).status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "held by another file";
  tap.device.file.Close();
  absl::StatusOr<PortLink> attached = links_->AttachTap({netns.path(), "eth0"}, tap.netns_id);
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_EQ(attached->ifindex, ifindex);
  EXPECT_EQ(attached->netns_id, tap.netns_id);
  EXPECT_EQ(links_->GetLink({netns.path(), "eth0"})->mac, kMac);
  ASSERT_EQ(netns.Do("ip link add veth0 type veth peer name veth1"), 0);
  EXPECT_EQ(links_->AttachTap({netns.path(), "veth0"}, tap.netns_id).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(LinksTest, ConfigureAddsAddressesAndRoutes) {
  Netns netns;
  PortLink tap = Create(netns);
  const LinkRef link{netns.path(), "eth0"};
  // As container runtimes leave a namespace.
  ASSERT_EQ(netns.Do("sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1"), 0);
  const absl::Status status = links_->Configure(link, {"10.0.0.2/24", "2001:db8::2/64"},
                                                {{"0.0.0.0/0", "10.0.0.1", 0, 0},
                                                 {"10.1.0.0/16", "", 1300, 0},
                                                 {"::/0", "2001:db8::1", 0, 0},
                                                 {"2001:db8:1::/48", "", 0, 77}});
  ASSERT_TRUE(status.ok()) << status;
  // At once, without duplicate address detection.
  const std::string listed = netns.Read("ip addr show eth0");
  EXPECT_NE(listed.find("inet 10.0.0.2/24 brd 10.0.0.255"), std::string::npos) << listed;
  EXPECT_EQ(netns.Read("ip -6 addr show dev eth0 scope global").find("tentative"), std::string::npos)
      << listed;
  EXPECT_NE(netns.Read("ip -6 addr show dev eth0").find("2001:db8::2/64"), std::string::npos) << listed;
  const std::string routes = netns.Read("ip route") + netns.Read("ip -6 route");
  EXPECT_NE(routes.find("10.1.0.0/16 dev eth0 proto static scope link mtu 1300"), std::string::npos)
      << routes;
  EXPECT_NE(routes.find("2001:db8:1::/48 dev eth0 proto static metric 77"), std::string::npos) << routes;
  absl::StatusOr<LinkInfo> info = links_->GetLink(link);
  ASSERT_TRUE(info.ok()) << info.status();
  const auto has = [](const std::vector<std::string>& texts, const char* text) {
    return std::find(texts.begin(), texts.end(), text) != texts.end();
  };
  EXPECT_TRUE(has(info->addresses, "10.0.0.2/24"));
  EXPECT_TRUE(has(info->addresses, "2001:db8::2/64"));
  for (const char* route : {"0.0.0.0/0 via 10.0.0.1", "10.0.0.0/24", "10.1.0.0/16", "::/0 via 2001:db8::1",
                            "2001:db8:1::/48", "2001:db8::/64"}) {
    EXPECT_TRUE(has(info->routes, route)) << route;
  }
  // A second time changes nothing.
  EXPECT_TRUE(
      links_->Configure(link, {"10.0.0.2/24", "2001:db8::2/64"}, {{"0.0.0.0/0", "10.0.0.1", 0, 0}}).ok());
  EXPECT_EQ(links_->GetLink(link)->routes, info->routes);
}

TEST_F(LinksTest, ConfigureIsUndoneOnFailure) {
  Netns netns;
  PortLink tap = Create(netns);
  const LinkRef link{netns.path(), "eth0"};
  ASSERT_TRUE(links_->Configure(link, {"10.0.0.2/24"}, {}).ok());
  absl::StatusOr<LinkInfo> before = links_->GetLink(link);
  const absl::Status status = links_->Configure(
      link, {"10.0.0.2/24", "10.0.1.2/24", "2001:db8::2/64"},
      {{"10.7.0.0/16", "10.0.0.9", 0, 0}, {"2001:db8:7::/48", "", 0, 0}, {"10.8.0.0/16", "192.0.2.1", 0, 0}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_NE(status.message().find("192.0.2.1"), std::string::npos) << status;
  absl::StatusOr<LinkInfo> after = links_->GetLink(link);
  const auto without_link_local = [](std::vector<std::string> texts) {
    texts.erase(std::remove_if(texts.begin(), texts.end(),
                               [](const std::string& text) { return text.rfind("fe80", 0) == 0; }),
                texts.end());
    return texts;
  };
  EXPECT_EQ(without_link_local(after->addresses), without_link_local(before->addresses));
  EXPECT_EQ(without_link_local(after->routes), without_link_local(before->routes));
}

TEST_F(LinksTest, ConfigureNamesWhatDoesNotParse) {
  Netns netns;
  PortLink tap = Create(netns);
  const LinkRef link{netns.path(), "eth0"};
  for (const char* text : {"10.0.0.2", "10.0.0.2/33", "10.0.0/24", "", "/24", "::1/129", "10.0.0.2/-1",
                           "10.0.0.2/2 4", "10.0.0.2/24/1", "fe80::1%eth0/64", "10.0.0.2/+24"}) {
    const absl::Status status = links_->Configure(link, {"10.9.0.1/24", text}, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(absl::StrCat("\"", text, "\"")), std::string::npos) << status;
  }
  for (const LinkRoute& route : std::vector<LinkRoute>{
           {"10.0.0.1/24", "", 0, 0}, {"10.0.0.0/24", "x", 0, 0}, {"10.0.0.0/24", "2001:db8::1", 0, 0}}) {
    EXPECT_EQ(links_->Configure(link, {}, {route}).code(), absl::StatusCode::kInvalidArgument)
        << route.gateway;
  }
  EXPECT_EQ(links_->Configure({netns.path(), "eth7"}, {}, {}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(links_->SetMtu(Tap(netns, "eth7"), 1500).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(links_->Announce({netns.path(), "eth7"}, {"10.0.0.2/24"}).code(), absl::StatusCode::kNotFound);
}

TEST_F(LinksTest, AnnouncementsHaveTheRightBytes) {
  Netns netns;
  PortLink tap = Create(netns);
  const LinkRef link{netns.path(), "eth0"};
  ASSERT_TRUE(links_->Configure(link, {"10.0.0.2/24", "2001:db8::2/64"}, {}).ok());
  const absl::Status status = links_->Announce(link, {"10.0.0.2/24", "2001:db8::2/64"});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Hex(NextFrame(tap.device.file, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff})),
            "ffffffffffff020000000a01"
            "0806"
            "0001080006040001"
            "020000000a01"
            "0a000002"
            "000000000000"
            "0a000002");
  const std::string advertisement = Hex(NextFrame(tap.device.file, {0x33, 0x33, 0, 0, 0, 1}));
  ASSERT_EQ(advertisement.size(), 172u);
  EXPECT_EQ(advertisement.substr(0, 112),
            "333300000001020000000a01"
            "86dd"
            "6000000000203aff"
            "20010db8000000000000000000000002"
            "ff020000000000000000000000000001"
            "8800");
  EXPECT_EQ(advertisement.substr(116),
            "20000000"
            "20010db8000000000000000000000002"
            "0201020000000a01");
  // The checksum: pseudo header and message with it add up to all ones.
  uint32_t sum = 32 + 58;
  for (size_t i = 44; i < advertisement.size(); i += 4)
    sum += std::stoul(advertisement.substr(i, 4), nullptr, 16);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  EXPECT_EQ(sum, 0xffffu);
}

TEST_F(LinksTest, CreateIsFast) {
  Netns netns;
  std::vector<double> milliseconds;
  for (int i = 0; i < 20; ++i) {
    const auto start = steady_clock::now();
    PortLink tap = Create(netns);
    milliseconds.push_back(std::chrono::duration<double, std::milli>(steady_clock::now() - start).count());
    links_->DeleteTap(std::move(tap.device.file));
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf("CreateTap: median %.2f ms, slowest %.2f ms\n", milliseconds[10], milliseconds[19]);
  // 1 ms where the machine is quiet; the bound leaves room for a busy or an emulated one, not for a sleep.
  EXPECT_LT(milliseconds[0], 200);
}

}  // namespace
}  // namespace ringswitch::agent
