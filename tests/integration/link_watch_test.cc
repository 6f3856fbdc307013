// The watch of Links against the kernel: namespaces and interfaces that go, come up and go down. Needs root.

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/agent/links.h"
#include "tests/integration/links_testbed.h"

namespace ringswitch::agent {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

TEST_F(LinksTest, NamespaceGoneThoughTheTapPinsIt) {
  Netns netns;
  Netns other;
  PortLink tap = Create(netns);
  PortLink other_tap = Create(other);
  ASSERT_TRUE(links_->Watch(1, Tap(netns), &tap).ok());
  ASSERT_TRUE(links_->Watch(2, Tap(other), &other_tap).ok());
  EXPECT_EQ(links_->Watch(2, Tap(other), &other_tap).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(links_->Watch(3, Tap(other), &tap).code(), absl::StatusCode::kNotFound);
  netns.Delete();
  EXPECT_LT(Await(1, LinkEventKind::kNamespaceGone), 1s);
  std::this_thread::sleep_for(1200ms);
  EXPECT_EQ(EventCount(), 0u) << "reported once, and only for the one that is gone";
}

TEST_F(LinksTest, NamespaceUnmountedOrReplaced) {
  Netns netns;
  Netns replacing;
  const std::string unmounted = absl::StrCat("/run/rslinks-", getpid());
  std::ofstream(unmounted).close();
  ASSERT_EQ(mount(netns.path().c_str(), unmounted.c_str(), nullptr, MS_BIND, nullptr), 0);
  PortLink tap = Create(netns);
  DeviceRef device;
  device.link = {unmounted, "eth0"};
  ASSERT_TRUE(links_->Watch(1, device, &tap).ok());
  ASSERT_TRUE(links_->Watch(2, Tap(netns), &tap).ok());
  ASSERT_EQ(umount2(unmounted.c_str(), MNT_DETACH), 0);  // the plain file stays
  EXPECT_LT(Await(1, LinkEventKind::kNamespaceGone), 1s);
  ASSERT_EQ(mount(replacing.path().c_str(), netns.path().c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_LT(Await(2, LinkEventKind::kNamespaceGone), 1s);
  EXPECT_EQ(links_->AttachTap({netns.path(), "eth0"}, tap.netns_id).status().code(),
            absl::StatusCode::kNotFound);
  unlink(unmounted.c_str());
  umount2(netns.path().c_str(), MNT_DETACH);
}

TEST_F(LinksTest, ProcessEnds) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(1);
    while (true) pause();
  }
  const std::string path = absl::StrCat("/proc/", pid, "/ns/net");
  const std::string own = std::filesystem::read_symlink("/proc/self/ns/net");
  for (int i = 0; i < 200 && std::filesystem::read_symlink(path) == own; ++i)
    std::this_thread::sleep_for(10ms);
  DeviceRef device;
  device.link = {path, "eth0"};
  absl::StatusOr<PortLink> tap = links_->CreateTap(device.link, kMac, 1500);
  ASSERT_TRUE(tap.ok()) << tap.status();
  ASSERT_TRUE(links_->Watch(1, device, &*tap).ok());
  kill(pid, SIGKILL);  // and not waited for: a zombie is gone enough
  EXPECT_LT(Await(1, LinkEventKind::kNamespaceGone), 100ms);
  waitpid(pid, nullptr, 0);
}

TEST_F(LinksTest, LinkDownUpRenamedAndGone) {
  Netns netns;
  Netns other;
  PortLink tap = Create(netns);
  PortLink other_tap = Create(other);
  ASSERT_TRUE(links_->Watch(1, Tap(netns), &tap).ok());
  ASSERT_TRUE(links_->Watch(2, Tap(other), &other_tap).ok());
  netns.Do("ip link set eth0 down");
  EXPECT_LT(Await(1, LinkEventKind::kLinkDown), 1s);
  netns.Do("ip link set eth0 name renamed");
  netns.Do("ip link set renamed up");
  EXPECT_LT(Await(1, LinkEventKind::kLinkUp), 1s);
  // No change of IFF_UP, no event: MTU, address, promiscuity, a bridge that takes it and lets it go.
  netns.Do("ip link set renamed mtu 1300");
  netns.Do("ip link add br0 type bridge");
  ASSERT_EQ(netns.Do("ip link set renamed master br0"), 0);
  netns.Do("ip link set renamed nomaster");
  other.Do("ip link set eth0 down");
  EXPECT_LT(Await(2, LinkEventKind::kLinkDown), 1s);
  EXPECT_EQ(EventCount(), 0u);
  netns.Do("ip link del renamed");
  EXPECT_LT(Await(1, LinkEventKind::kLinkGone), 1s);
  netns.Delete();
  EXPECT_LT(Await(1, LinkEventKind::kNamespaceGone), 1s);
}

TEST_F(LinksTest, LinkThatIsDownOrGoneWhenTheWatchBegins) {
  Netns netns;
  PortLink down = Create(netns, "eth0");
  PortLink gone = Create(netns, "eth1");
  netns.Do("ip link set eth0 down");
  netns.Do("ip link del eth1");
  ASSERT_TRUE(links_->Watch(1, Tap(netns), &down).ok());
  ASSERT_TRUE(links_->Watch(2, Tap(netns, "eth1"), &gone).ok());
  EXPECT_LT(Await(1, LinkEventKind::kLinkDown), 1s);
  EXPECT_LT(Await(2, LinkEventKind::kLinkGone), 1s);
}

TEST_F(LinksTest, LinkMovedToAnotherNamespaceIsGone) {
  Netns netns;
  Netns other;
  PortLink tap = Create(netns);
  ASSERT_TRUE(links_->Watch(1, Tap(netns), &tap).ok());
  ASSERT_EQ(RunCommand("ip -n " + netns.name() + " link set eth0 netns " + other.name()).code, 0);
  EXPECT_LT(Await(1, LinkEventKind::kLinkGone), 1s);
}

TEST_F(LinksTest, NoEventAfterUnwatch) {
  Netns netns;
  PortLink tap = Create(netns);
  ASSERT_TRUE(links_->Watch(1, Tap(netns), &tap).ok());
  links_->Unwatch(1);
  links_->Unwatch(1);
  netns.Do("ip link set eth0 down");
  netns.Delete();
  std::this_thread::sleep_for(1200ms);
  EXPECT_EQ(EventCount(), 0u);
}

TEST_F(LinksTest, UnwatchWaitsForTheEventThatIsUnderWay) {
  std::atomic<bool> is_inside{false};
  std::atomic<bool> is_unwatched{false};
  std::atomic<bool> was_late{false};
  Netns netns;
  Links* links = nullptr;
  auto made = MakeLinks([&](const LinkEvent& event) {
    is_inside = true;
    std::this_thread::sleep_for(200ms);
    was_late = is_unwatched.load();
    links->Unwatch(event.watch_id);  // on the event thread: returns at once
  });
  ASSERT_TRUE(made.ok());
  links = made->get();
  PortLink tap = Create(netns);
  ASSERT_TRUE(links->Watch(1, Tap(netns), &tap).ok());
  netns.Do("ip link set eth0 down");
  while (!is_inside) std::this_thread::sleep_for(1ms);
  links->Unwatch(1);
  is_unwatched = true;
  std::this_thread::sleep_for(300ms);
  EXPECT_FALSE(was_late);
}

TEST_F(LinksTest, NothingIsLeftPinned) {
  Netns netns;
  PortLink tap = Create(netns);
  const LinkRef link{netns.path(), "eth0"};
  ASSERT_TRUE(links_->Watch(1, Tap(netns), &tap).ok());
  ASSERT_TRUE(links_->Configure(link, {"10.0.0.2/24"}, {}).ok());
  ASSERT_TRUE(links_->Announce(link, {"10.0.0.2/24"}).ok());
  ASSERT_TRUE(links_->GetLink(link).ok());
  const std::string peer = absl::StrCat("rsl", getpid() % 1000000, "b");
  ASSERT_EQ(netns.Do(absl::StrCat("ip link add veth0 type veth peer name ", peer, " netns ", getpid())), 0);
  netns.Delete();
  EXPECT_LT(Await(1, LinkEventKind::kNamespaceGone), 1s);
  links_->DeleteTap(std::move(tap.device.file));
  // The peer of a veth goes with the namespace.
  bool is_gone = false;
  for (int i = 0; i < 200 && !is_gone; ++i) {
    is_gone = RunCommand("ip link show " + peer).code != 0;
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_TRUE(is_gone);
}

TEST_F(LinksTest, OverrunIsFollowedByResync) {
  Netns netns;
  PortLink first = Create(netns, "eth0");
  PortLink second = Create(netns, "eth1");
  std::mutex mutex;
  std::unique_lock<std::mutex> held(mutex);
  std::atomic<int> downs{0};
  auto made = MakeLinks([&](const LinkEvent& event) {
    std::lock_guard<std::mutex> lock(mutex);
    if (event.kind == LinkEventKind::kLinkDown) ++downs;
  });
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE((*made)->Watch(1, Tap(netns), &first).ok());
  ASSERT_TRUE((*made)->Watch(2, Tap(netns, "eth1"), &second).ok());
  const uint64_t lost = LostMessages();
  netns.Do("ip link set eth0 down");  // its event is not let through, so nobody reads
  for (int i = 0; i < 50 && LostMessages() == lost; ++i) ChangeMtuOften(netns.path(), "eth0", 1000);
  ASSERT_GT(LostMessages(), lost);
  netns.Do("ip link set eth1 down");
  held.unlock();
  for (int i = 0; i < 100 && downs < 2; ++i) std::this_thread::sleep_for(20ms);
  EXPECT_EQ(downs, 2);
}

TEST_F(LinksTest, SixtyFourWatches) {
  std::vector<Netns> namespaces(64);
  std::vector<PortLink> taps;
  for (size_t i = 0; i < namespaces.size(); ++i) {
    taps.push_back(Create(namespaces[i]));
    ASSERT_TRUE(links_->Watch(i, Tap(namespaces[i]), &taps[i]).ok());
  }
  std::this_thread::sleep_for(500ms);
  const double before = CpuSeconds();
  std::this_thread::sleep_for(2s);
  const double idle = (CpuSeconds() - before) / 2;
  std::printf("64 watches: %.3f %% of a processor\n", idle * 100);
  EXPECT_LT(idle, 0.03) << "0.001 where the machine is quiet";
  for (size_t i = 0; i < namespaces.size(); i += 2) namespaces[i].Do("ip link set eth0 down");
  for (size_t i = 0; i < namespaces.size(); i += 2) Await(i, LinkEventKind::kLinkDown);
  EXPECT_EQ(EventCount(), 0u);
  for (Netns& netns : namespaces) netns.Delete();
  for (size_t i = 0; i < namespaces.size(); ++i) EXPECT_LT(Await(i, LinkEventKind::kNamespaceGone), 1s);
  EXPECT_EQ(EventCount(), 0u);
}

}  // namespace
}  // namespace ringswitch::agent
