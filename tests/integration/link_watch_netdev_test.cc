// The watch of Links on devices of the agent's own namespace: gone and back under their names. Needs root.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "server/agent/links.h"
#include "tests/integration/links_testbed.h"

namespace ringswitch::agent {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

class LinkWatchNetdevTest : public LinksTest {
 protected:
  void TearDown() override {
    links_.reset();
    for (const char* ifname : {"port0", "away", "peer0"}) RunCommand(std::string("ip link del ") + ifname);
  }
  // A device that is deleted or moved away may be heard to go down before.
  void AwaitGone(uint64_t watch_id) {
    EXPECT_LT(Await(watch_id, LinkEventKind::kLinkGone), 1s);
    ClearEvents();
  }
  // Both ends in the agent's own namespace.
  static void MakePair() {
    Must("ip link add name port0 type veth peer name peer0");
    Must("ip link set peer0 up");
    Must("ip link set port0 up");
  }
  PortLink Open() {
    absl::StatusOr<PortLink> link = links_->OpenNetdev(Netdev("port0"));
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? *std::move(link) : PortLink{};
  }
};

TEST_F(LinkWatchNetdevTest, DeletedAndMadeAgain) {
  MakePair();
  PortLink link = Open();
  ASSERT_TRUE(links_->Watch(1, Netdev("port0"), &link).ok());
  Must("ip link del port0");
  AwaitGone(1);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(EventText(), "");
  MakePair();
  EXPECT_LT(Await(1, LinkEventKind::kLinkBack), 1s);
  EXPECT_LT(Await(1, LinkEventKind::kLinkUp), 1s);
  Must("ip link set peer0 down");
  EXPECT_LT(Await(1, LinkEventKind::kLinkDown), 1s);
  EXPECT_EQ(EventText(), "");
}

TEST_F(LinkWatchNetdevTest, RenamedAwayAndBack) {
  MakePair();
  PortLink link = Open();
  ASSERT_TRUE(links_->Watch(1, Netdev("port0"), &link).ok());
  Rename("port0", "away");
  AwaitGone(1);
  Must("ip link set peer0 down");
  Must("ip link set peer0 up");
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(EventText(), "") << "it is nobody's meanwhile";
  Rename("away", "port0");
  EXPECT_LT(Await(1, LinkEventKind::kLinkBack), 1s);
  EXPECT_LT(Await(1, LinkEventKind::kLinkUp), 1s);
  // Another device takes the name over.
  Rename("port0", "away");
  Rename("peer0", "port0");
  EXPECT_LT(Await(1, LinkEventKind::kLinkGone), 1s);
  EXPECT_LT(Await(1, LinkEventKind::kLinkBack), 1s);
  EXPECT_LT(Await(1, LinkEventKind::kLinkUp), 1s);
}

TEST_F(LinkWatchNetdevTest, MovedToAnotherNamespaceAndBack) {
  Netns other;
  MakePair();
  PortLink link = Open();
  ASSERT_TRUE(links_->Watch(1, Netdev("port0"), &link).ok());
  Must("ip link set port0 netns " + other.name());
  AwaitGone(1);
  other.Do("ip link set port0 up");
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(EventText(), "") << "another namespace's device of that name";
  Must("ip -n " + other.name() + " link set port0 netns " + std::to_string(getpid()));
  EXPECT_LT(Await(1, LinkEventKind::kLinkBack), 1s);
  Must("ip link set port0 up");
  EXPECT_LT(Await(1, LinkEventKind::kLinkUp), 1s);
}

TEST_F(LinkWatchNetdevTest, AbsentIsWaitedFor) {
  ASSERT_TRUE(links_->Watch(1, Netdev("port0"), nullptr).ok());
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(EventText(), "");
  MakePair();
  EXPECT_LT(Await(1, LinkEventKind::kLinkBack), 1s);
  EXPECT_LT(Await(1, LinkEventKind::kLinkUp), 1s);
  // There when the watch begins.
  ASSERT_TRUE(links_->Watch(2, Netdev("port0"), nullptr).ok());
  EXPECT_LT(Await(2, LinkEventKind::kLinkBack), 1s);
  EXPECT_LT(Await(2, LinkEventKind::kLinkUp), 1s);
  DeviceRef tap;
  tap.link.ifname = "port0";
  EXPECT_EQ(links_->Watch(3, tap, nullptr).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LinkWatchNetdevTest, StateAtTheStartIsCompared) {
  MakePair();
  PortLink up = Open();
  Must("ip link set peer0 down");
  ASSERT_TRUE(links_->Watch(1, Netdev("port0"), &up).ok());
  EXPECT_LT(Await(1, LinkEventKind::kLinkDown), 1s);
  PortLink down = Open();
  EXPECT_FALSE(down.is_up);
  Must("ip link del port0");
  MakePair();
  ASSERT_TRUE(links_->Watch(2, Netdev("port0"), &down).ok());
  EXPECT_LT(Await(2, LinkEventKind::kLinkGone), 1s);
  EXPECT_LT(Await(2, LinkEventKind::kLinkBack), 1s);
}

TEST_F(LinkWatchNetdevTest, NoEventWithoutAChange) {
  MakePair();
  PortLink link = Open();
  ASSERT_TRUE(links_->Watch(1, Netdev("port0"), &link).ok());
  Must("ip link add name away type bridge");
  for (const char* change : {"promisc on", "promisc off", "allmulticast on", "txqueuelen 77", "alias x",
                             "master away", "nomaster", "up"}) {
    Must(std::string("ip link set port0 ") + change);
  }
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(EventText(), "");
}

TEST_F(LinkWatchNetdevTest, MacAndMtuAreFollowed) {
  MakePair();
  std::mutex mutex;
  std::vector<LinkEvent> events;
  auto made = MakeLinks([&](const LinkEvent& event) {
    std::lock_guard<std::mutex> lock(mutex);
    events.push_back(event);
  });
  ASSERT_TRUE(made.ok());
  auto last = [&](size_t count) {
    for (int i = 0; i < 50; ++i, std::this_thread::sleep_for(20ms)) {
      std::lock_guard<std::mutex> lock(mutex);
      if (events.size() >= count) break;
    }
    std::lock_guard<std::mutex> lock(mutex);
    EXPECT_EQ(events.size(), count);
    return events.empty() ? LinkEvent{} : events.back();
  };
  PortLink link = Open();
  Must("ip link set port0 mtu 1300");  // between the look at it and the watch
  ASSERT_TRUE((*made)->Watch(1, Netdev("port0"), &link).ok());
  EXPECT_EQ(last(1).kind, LinkEventKind::kLinkChanged);
  EXPECT_EQ(last(1).mtu, 1300u);
  EXPECT_EQ(last(1).mac, link.mac);
  Must("ip link set port0 mtu 1400");
  EXPECT_EQ(last(2).mtu, 1400u);
  Must("ip link set port0 address 02:00:00:00:00:78");
  EXPECT_EQ(last(3).mac, bridge::MacAddress(0x0200'0000'0078ULL));
  EXPECT_EQ(last(3).mtu, 1400u);
  Must("ip link set port0 mtu 1400");
  Must("ip link set peer0 mtu 1200");
  std::this_thread::sleep_for(300ms);
  last(3);
}

TEST_F(LinkWatchNetdevTest, OverrunIsFollowedByResync) {
  MakePair();
  std::mutex mutex;
  std::unique_lock<std::mutex> held(mutex);
  std::atomic<int> gone{0}, back{0};
  auto made = MakeLinks([&](const LinkEvent& event) {
    std::lock_guard<std::mutex> lock(mutex);
    gone += event.watch_id == 1 && event.kind == LinkEventKind::kLinkGone;
    back += event.watch_id == 1 && event.kind == LinkEventKind::kLinkBack;
  });
  ASSERT_TRUE(made.ok());
  PortLink link = Open();
  ASSERT_TRUE((*made)->Watch(1, Netdev("port0"), &link).ok());
  ASSERT_TRUE((*made)->Watch(2, Netdev("absent"), nullptr).ok());
  ASSERT_TRUE((*made)->Watch(3, Netdev("peer0"), nullptr).ok());  // its event holds the thread up
  std::this_thread::sleep_for(100ms);
  const uint64_t lost = LostMessages();
  for (int i = 0; i < 50 && LostMessages() == lost; ++i) ChangeMtuOften("", "lo", 1000);
  ASSERT_GT(LostMessages(), lost);
  Must("ip link del port0");
  MakePair();
  held.unlock();
  for (int i = 0; i < 100 && back < 1; ++i) std::this_thread::sleep_for(20ms);
  EXPECT_EQ(gone, 1);
  EXPECT_EQ(back, 1);
}

// As a port is attached again: nothing is left over by any of the rounds.
TEST_F(LinkWatchNetdevTest, ManyTimesGoneAndBack) {
  MakePair();
  PortLink link = Open();
  ASSERT_TRUE(links_->Watch(1, Netdev("port0"), &link).ok());
  const size_t files = FileCount();
  std::chrono::milliseconds slowest(0);
  const char* is_long = std::getenv("RINGSWITCH_LONG");  // as tests/run.sh says it
  const int rounds = is_long != nullptr && is_long[0] == '1' ? 500 : 100;
  for (int i = 0; i < rounds && !HasFailure(); ++i) {
    Must("ip link del port0");
    slowest = std::max(slowest, Await(1, LinkEventKind::kLinkGone));
    link.device.file.Close();
    ClearEvents();
    Must("ip link add name port0 type veth peer name peer0");
    slowest = std::max(slowest, Await(1, LinkEventKind::kLinkBack));
    link = Open();
    ASSERT_EQ(FileCount(), files);
  }
  std::printf("slowest event of 1000: %d ms\n", static_cast<int>(slowest.count()));
}

TEST_F(LinkWatchNetdevTest, WaitingCostsNothing) {
  ASSERT_TRUE(links_->Watch(1, Netdev("port0"), nullptr).ok());
  MakePair();
  Await(1, LinkEventKind::kLinkBack);
  Must("ip link del port0");
  Await(1, LinkEventKind::kLinkGone);
  const double before = CpuSeconds();
  std::this_thread::sleep_for(1s);
  EXPECT_LT(CpuSeconds() - before, 0.01);
}

}  // namespace
}  // namespace ringswitch::agent
