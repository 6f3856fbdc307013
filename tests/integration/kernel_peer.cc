#include "tests/integration/kernel_peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace ringswitch::test {
namespace {

constexpr int kReceiveBuffer = 64 << 20;
constexpr int kPacketIgnoreOutgoing = 23;
constexpr size_t kBatch = 64;

void Check(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "%s: %s\n", what.c_str(), std::strerror(errno));
  std::abort();
}

// Where all stations receive. A message is made ready again after it was used.
struct Arena {
  Arena() {
    for (size_t i = 0; i < kBatch; ++i) MakeReady(i);
  }
  void MakeReady(size_t i) {
    parts[i] = {frames[i], kHeardFrameMax};
    msghdr& message = messages[i].msg_hdr;
    message = {};
    message.msg_iov = &parts[i];
    message.msg_iovlen = 1;
    message.msg_control = control[i];
    message.msg_controllen = sizeof control[i];
  }

  uint8_t frames[kBatch][kHeardFrameMax];
  alignas(cmsghdr) char control[kBatch][CMSG_SPACE(sizeof(tpacket_auxdata))];
  iovec parts[kBatch];
  mmsghdr messages[kBatch];
};

// The tag that the kernel took out of a received frame goes back where it was.
void RestoreTag(const msghdr& message, Bytes* frame) {
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  Check(header != nullptr, "no auxiliary data");
  tpacket_auxdata auxiliary;
  std::memcpy(&auxiliary, CMSG_DATA(header), sizeof auxiliary);
  if ((auxiliary.tp_status & TP_STATUS_VLAN_VALID) == 0) return;
  const bool has_tpid = (auxiliary.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
  uint8_t tag[bridge::kTagLength];
  bridge::StoreBe16(&tag[0], has_tpid ? auxiliary.tp_vlan_tpid : bridge::kTpid);
  bridge::StoreBe16(&tag[2], auxiliary.tp_vlan_tci);
  frame->insert(frame->begin() + 12, std::begin(tag), std::end(tag));
}

}  // namespace

Station::Station(const std::string& ifname) : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)) {
  Check(socket_.is_open(), "packet socket");
  auto set = [&](int level, int name, int value) {
    Check(::setsockopt(socket_.fd(), level, name, &value, sizeof value) == 0, "setsockopt");
  };
  set(SOL_PACKET, kPacketIgnoreOutgoing, 1);
  set(SOL_PACKET, PACKET_AUXDATA, 1);
  set(SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBuffer);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(ifname.c_str()));
  Check(::bind(socket_.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind " + ifname);
}

bool Station::Send(const Bytes& frame) {
  return ::send(socket_.fd(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size());
}

void Station::Collect(std::vector<Bytes>* frames) {
  static Arena arena;
  int count = 0;
  do {
    count = ::recvmmsg(socket_.fd(), arena.messages, kBatch, MSG_DONTWAIT, nullptr);
    Check(count > 0 || errno == EAGAIN, "recvmmsg");
    for (int i = 0; i < count; ++i) {
      const mmsghdr& message = arena.messages[i];
      Check((message.msg_hdr.msg_flags & MSG_TRUNC) == 0, "a frame longer than the arena's");
      Bytes& frame = frames->emplace_back();
      frame.reserve(message.msg_len + bridge::kTagLength);
      frame.assign(arena.frames[i], arena.frames[i] + message.msg_len);
      RestoreTag(message.msg_hdr, &frame);
      arena.MakeReady(static_cast<size_t>(i));
    }
  } while (count == static_cast<int>(kBatch));
}

Tool::Tool(const std::string& name, const std::string& last, const std::string& answer)
    : last_(last), answer_(answer), commands_(nullptr, ::fclose), answers_(nullptr, ::fclose) {
  int to[2], from[2];
  Check(::pipe2(to, O_CLOEXEC) == 0 && ::pipe2(from, O_CLOEXEC) == 0, "pipe2");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  std::string arguments[] = {name, "-o", "-batch", "-"};
  char* const pointers[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                            arguments[3].data(), nullptr};
  pid_t child = 0;
  Check(::posix_spawnp(&child, name.c_str(), &actions, nullptr, pointers, environ) == 0, name);
  posix_spawn_file_actions_destroy(&actions);
  ::close(to[0]);
  ::close(from[1]);
  commands_.reset(::fdopen(to[1], "w"));
  answers_.reset(::fdopen(from[0], "r"));
}

std::vector<std::string> Tool::Ask(const std::string& command) {
  std::fprintf(commands_.get(), "%s\n%s\n", command.c_str(), last_.c_str());
  std::fflush(commands_.get());
  std::vector<std::string> lines;
  char line[4096];
  while (std::fgets(line, sizeof line, answers_.get()) != nullptr) {
    if (std::strstr(line, answer_.c_str()) != nullptr) return lines;
    lines.emplace_back(line);
  }
  errno = 0;
  Check(false, command + ": failed");
  return lines;
}

}  // namespace ringswitch::test
