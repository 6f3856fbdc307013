#include "tests/integration/links_testbed.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ringswitch::agent {

Outcome RunCommand(const std::string& command) {
  std::vector<std::string> words = absl::StrSplit(command, ' ', absl::SkipEmpty());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  File reader(ends[0]);
  File writer(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writer.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writer.fd(), STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  writer.Close();
  if (error != 0) return {};
  Outcome outcome;
  char buffer[512];
  for (ssize_t size; (size = read(reader.fd(), buffer, sizeof(buffer))) > 0;)
    outcome.text.append(buffer, size);
  int status = 0;
  waitpid(pid, &status, 0);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

Netns::Netns() {
  static int count = 0;
  name_ = absl::StrCat("rslinks-", getpid(), "-", ++count);
  const Outcome made = RunCommand("ip netns add " + name_);
  if (made.code != 0) ADD_FAILURE() << made.text;
}

void Netns::Delete() {
  if (!name_.empty()) RunCommand("ip netns del " + name_);
  name_.clear();
}

int Netns::Do(const std::string& command) const {
  return RunCommand("ip netns exec " + name_ + " " + command).code;
}

std::string Netns::Read(const std::string& command) const {
  return RunCommand("ip netns exec " + name_ + " " + command).text;
}

void LinksTest::SetUp() {
  ASSERT_EQ(geteuid(), 0u) << "needs root for namespaces and TAPs: sudo tests/run.sh";
  absl::StatusOr<std::unique_ptr<Links>> made = MakeLinks([this](const LinkEvent& event) {
    std::lock_guard<std::mutex> lock(mutex_);
    events_.emplace_back(event.watch_id, event.kind);
    changed_.notify_all();
  });
  ASSERT_TRUE(made.ok()) << made.status();
  links_ = *std::move(made);
}

TapLink LinksTest::Create(const Netns& netns, const std::string& ifname) {
  absl::StatusOr<TapLink> tap = links_->CreateTap({netns.path(), ifname}, kMac, 1500);
  EXPECT_TRUE(tap.ok()) << tap.status();
  return tap.ok() ? *std::move(tap) : TapLink{};
}

std::chrono::milliseconds LinksTest::Await(uint64_t watch_id, LinkEventKind kind) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  const std::pair<uint64_t, LinkEventKind> wanted(watch_id, kind);
  const bool is_there = changed_.wait_for(lock, std::chrono::seconds(3), [&] {
    return std::find(events_.begin(), events_.end(), wanted) != events_.end();
  });
  EXPECT_TRUE(is_there) << "no event " << static_cast<int>(kind) << " of watch " << watch_id;
  if (is_there) events_.erase(std::find(events_.begin(), events_.end(), wanted));
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
}

size_t LinksTest::EventCount() {
  std::lock_guard<std::mutex> lock(mutex_);
  return events_.size();
}

}  // namespace ringswitch::agent
