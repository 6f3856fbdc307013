#pragma once

// What the tests of Links share: commands, namespaces of their own (rslinks-*) and a recorder of events. The
// test program's own network and mount namespaces are private ones, so nothing of the machine's is touched.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/agent/links.h"

namespace ringswitch::agent {

inline constexpr bridge::MacAddress kMac(0x0200'0000'0a01ULL);

// Runs a command, whose words are parted by spaces; its exit code, and what it wrote.
struct Outcome {
  int code = -1;
  std::string text;
};
Outcome RunCommand(const std::string& command);
// One that must not fail.
void Must(const std::string& command);

// An interface of the test's own namespace; it is down meanwhile, as kernels before 6.2 demand.
void Rename(const std::string& from, const std::string& to);

// A namespace of the test's own, gone with it.
class Netns {
 public:
  Netns();
  Netns(Netns&& other) noexcept : name_(std::exchange(other.name_, "")) {}
  ~Netns() { Delete(); }
  void Delete();
  const std::string& name() const { return name_; }
  std::string path() const { return "/run/netns/" + name_; }
  // On a command's exit code, and on what it wrote.
  int Do(const std::string& command) const;
  std::string Read(const std::string& command) const;

 private:
  std::string name_;
};

class LinksTest : public ::testing::Test {
 protected:
  void SetUp() override;

  PortLink Create(const Netns& netns, const std::string& ifname = "eth0");
  // Waits for one event of that id and kind, which is taken; returns how long that was.
  std::chrono::milliseconds Await(uint64_t watch_id, LinkEventKind kind);
  size_t EventCount();
  std::string EventText();  // "1:2 1:3": watch and kind of each
  void ClearEvents();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<uint64_t, LinkEventKind>> events_;
  std::unique_ptr<Links> links_;
};

// Devices by kind, as ports name them.
DeviceRef Tap(const Netns& netns, const std::string& ifname = "eth0");
DeviceRef Netdev(const std::string& ifname);
DeviceRef Veth(const Netns& netns, const std::string& host_ifname, const std::string& ifname = "eth0");

// Whether somebody answers an ARP probe for 10.99.7.1 that is sent out of the interface there, within 300 ms.
bool AnswersArp(const Netns& netns, const std::string& ifname);
// Whether such a probe, sent before, is found in what the port's packet socket has received.
bool HasReceivedProbe(const File& packet_socket);

// So many link messages, as fast as the kernel makes them. `netns` as in LinkRef.
void ChangeMtuOften(const std::string& netns, const char* ifname, int times);
// Messages that sockets of this namespace lost, of those that hear link events (/proc/net/netlink, ninth
// column).
uint64_t LostMessages();

size_t FileCount();  // open ones of this process
double CpuSeconds();

}  // namespace ringswitch::agent
