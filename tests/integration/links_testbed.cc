#include "tests/integration/links_testbed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/agent/namespace.h"

namespace ringswitch::agent {
namespace {

// The namespaces of the machine are left before the first thread is started. sysfs and /run/netns show those
// of who mounted them.
class PrivateMachine : public ::testing::Environment {
 public:
  void SetUp() override {
    ASSERT_EQ(geteuid(), 0u) << "needs root for namespaces and devices: sudo tests/run.sh";
    ASSERT_EQ(unshare(CLONE_NEWNET | CLONE_NEWNS), 0);
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    mkdir("/run/netns", 0755);
    ASSERT_EQ(mount("rslinks", "/run/netns", "tmpfs", 0, nullptr), 0);
    ASSERT_EQ(mount("rslinks", "/sys", "sysfs", 0, nullptr), 0);
    Must("ip link set lo up");
  }
};
const ::testing::Environment* const kPrivateMachine =
    ::testing::AddGlobalTestEnvironment(new PrivateMachine);  // GoogleTest's own

}  // namespace

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

void Must(const std::string& command) {
  const Outcome outcome = RunCommand(command);
  EXPECT_EQ(outcome.code, 0) << command << ": " << outcome.text;
}

void Rename(const std::string& from, const std::string& to) {
  Must("ip link set " + from + " down");
  Must("ip link set " + from + " name " + to);
  Must("ip link set " + to + " up");
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
  absl::StatusOr<std::unique_ptr<Links>> made = MakeLinks([this](const LinkEvent& event) {
    std::lock_guard<std::mutex> lock(mutex_);
    events_.emplace_back(event.watch_id, event.kind);
    changed_.notify_all();
  });
  ASSERT_TRUE(made.ok()) << made.status();
  links_ = *std::move(made);
}

PortLink LinksTest::Create(const Netns& netns, const std::string& ifname) {
  absl::StatusOr<PortLink> tap = links_->CreateTap({netns.path(), ifname}, kMac, 1500);
  EXPECT_TRUE(tap.ok()) << tap.status();
  return tap.ok() ? *std::move(tap) : PortLink{};
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

std::string LinksTest::EventText() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string text;
  for (const auto& [watch_id, kind] : events_)
    absl::StrAppend(&text, text.empty() ? "" : " ", watch_id, ":", static_cast<int>(kind));
  return text;
}

void LinksTest::ClearEvents() {
  std::lock_guard<std::mutex> lock(mutex_);
  events_.clear();
}

DeviceRef Tap(const Netns& netns, const std::string& ifname) {
  DeviceRef device;
  device.link = {netns.path(), ifname};
  return device;
}

DeviceRef Netdev(const std::string& ifname) {
  DeviceRef device;
  device.kind = DeviceRef::Kind::kNetdev;
  device.link.ifname = ifname;
  return device;
}

DeviceRef Veth(const Netns& netns, const std::string& host_ifname, const std::string& ifname) {
  DeviceRef device;
  device.kind = DeviceRef::Kind::kVeth;
  device.link = {netns.path(), ifname};
  device.host_ifname = host_ifname;
  return device;
}

namespace {

// An ARP probe (RFC 5227, 2.1.1), which any holder of the address answers, whoever asks.
constexpr uint8_t kProbe[42] = {
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0x0f, 1,  8,    6,  // Ethernet
    0,    1,    8,    0,    6,    4,    0, 1, 2, 0, 0,    0,  0x0f, 1,  // sender
    0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 10,   99, 7,    1};

// The next frame that matches, until `deadline`.
template <typename Match>
bool AwaitFrame(int fd, std::chrono::milliseconds time, Match&& matches) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (true) {
    uint8_t frame[2048];
    const ssize_t size = recv(fd, frame, sizeof(frame), MSG_DONTWAIT);
    if (size > 0 && matches(frame, static_cast<size_t>(size))) return true;
    if (size > 0) continue;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd ready{fd, POLLIN, 0};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) < 0) return false;
  }
}

}  // namespace

bool AnswersArp(const Netns& netns, const std::string& ifname) {
  bool is_answered = false;
  const absl::Status status = RunInNamespace(netns.path(), [&](NamespaceId) -> absl::Status {
    const File socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ARP)));
    sockaddr_ll place{};
    place.sll_family = AF_PACKET;
    place.sll_protocol = htons(ETH_P_ARP);
    place.sll_ifindex = static_cast<int>(if_nametoindex(ifname.c_str()));
    if (bind(socket.fd(), reinterpret_cast<const sockaddr*>(&place), sizeof(place)) != 0 ||
        send(socket.fd(), kProbe, sizeof(kProbe), 0) != sizeof(kProbe)) {
      return absl::ErrnoToStatus(errno, "sending an ARP probe");
    }
    is_answered = AwaitFrame(socket.fd(), std::chrono::milliseconds(300),
                             [](const uint8_t* frame, size_t size) { return size >= 42 && frame[21] == 2; });
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return is_answered;
}

// Behind a virtio-net header of 10 bytes.
bool HasReceivedProbe(const File& packet_socket) {
  return AwaitFrame(packet_socket.fd(), std::chrono::milliseconds(300),
                    [](const uint8_t* frame, size_t size) {
                      return size >= 52 && std::equal(std::begin(kProbe), std::end(kProbe), frame + 10);
                    });
}

size_t FileCount() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

uint64_t LostMessages() {
  std::ifstream table("/proc/self/net/netlink");
  std::string line;
  uint64_t sum = 0;
  while (std::getline(table, line)) {
    std::istringstream columns(line);
    std::vector<std::string> values{std::istream_iterator<std::string>(columns), {}};
    if (values.size() > 8 && values[1] == "0") sum += std::strtoull(values[8].c_str(), nullptr, 10);
  }
  return sum;
}

void ChangeMtuOften(const std::string& netns, const char* ifname, int times) {
  const absl::Status status = RunInNamespace(netns, [&](NamespaceId) {
    const File socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strncpy(request.ifr_name, ifname, IFNAMSIZ - 1);
    for (int i = 0; i < times; ++i) {
      request.ifr_mtu = 1400 + i % 2;
      if (ioctl(socket.fd(), SIOCSIFMTU, &request) != 0) return absl::ErrnoToStatus(errno, ifname);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

}  // namespace ringswitch::agent
