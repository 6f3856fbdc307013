#pragma once

// What the tests of Links share: commands, namespaces of their own (rslinks-*) and a recorder of events.

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

  TapLink Create(const Netns& netns, const std::string& ifname = "eth0");
  // Waits for one event of that id and kind, which is taken; returns how long that was.
  std::chrono::milliseconds Await(uint64_t watch_id, LinkEventKind kind);
  size_t EventCount();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<uint64_t, LinkEventKind>> events_;
  std::unique_ptr<Links> links_;
};

}  // namespace ringswitch::agent
