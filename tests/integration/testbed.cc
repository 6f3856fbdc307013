#include "tests/integration/testbed.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"

namespace ringswitch::test {
namespace {

constexpr uint16_t kTestEtherType = 0x88b5;
constexpr int kReceiveBuffer = 64 << 20;
constexpr int kPacketIgnoreOutgoing = 23;
constexpr int kOperationalStateUp = 6;  // IF_OPER_UP; linux/if.h and net/if.h do not go together

void Check(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "%s: %s\n", what.c_str(), std::strerror(errno));
  std::abort();
}

File PacketSocket(const std::string& ifname, uint16_t protocol) {
  File socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  Check(socket.is_open(), "packet socket");
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(ifname.c_str()));
  Check(::bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind " + ifname);
  return socket;
}

void SetOption(const File& socket, int level, int name, int value) {
  Check(::setsockopt(socket.fd(), level, name, &value, sizeof value) == 0, "setsockopt");
}

File ReceiveSocket(const std::string& ifname) {
  File socket = PacketSocket(ifname, ETH_P_ALL);
  SetOption(socket, SOL_PACKET, kPacketIgnoreOutgoing, 1);
  SetOption(socket, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBuffer);
  return socket;
}

bool Readable(const File& socket, std::chrono::milliseconds timeout) {
  pollfd poll{socket.fd(), POLLIN, 0};
  return ::poll(&poll, 1, static_cast<int>(timeout.count())) == 1;
}

ifreq InterfaceRequest(const std::string& ifname) {
  ifreq request{};
  std::strncpy(request.ifr_name, ifname.c_str(), IFNAMSIZ - 1);
  return request;
}

// One request about a link; the reply in `reply`.
ssize_t AskLink(uint16_t type, uint16_t flags, const std::string& ifname, char (&reply)[8192]) {
  File socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  struct {
    nlmsghdr header{};
    ifinfomsg info{};
  } request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = type;
  request.header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  request.info.ifi_index = static_cast<int>(::if_nametoindex(ifname.c_str()));
  Check(::send(socket.fd(), &request, sizeof request, 0) == sizeof request, "netlink request " + ifname);
  const ssize_t size = ::recv(socket.fd(), reply, sizeof reply, 0);
  Check(size > 0, "netlink reply " + ifname);
  return size;
}

// Unlike IFF_RUNNING, which is set also while nobody knows.
int OperationalState(const std::string& ifname) {
  char reply[8192];
  const ssize_t size = AskLink(RTM_GETLINK, 0, ifname, reply);
  int left = static_cast<int>(size) - NLMSG_SPACE(sizeof(ifinfomsg));
  for (auto* attribute = reinterpret_cast<rtattr*>(reply + NLMSG_SPACE(sizeof(ifinfomsg)));
       RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    if (attribute->rta_type == IFLA_OPERSTATE) return *static_cast<const uint8_t*>(RTA_DATA(attribute));
  }
  return 0;
}

std::atomic<bool> stalled{false};
std::atomic<int> stalled_count{0};

void StallHere(int) {
  ++stalled_count;
  while (stalled) ::usleep(1000);
  --stalled_count;
}

}  // namespace

// --- frames ---

std::string ToHex(const Bytes& bytes) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

bridge::MacAddress PodMac(int pod) {
  return bridge::MacAddress(0x0200'0000'0100 + static_cast<uint64_t>(pod));
}

Bytes MakeFrame(bridge::MacAddress destination, bridge::MacAddress source, uint32_t number, size_t length,
                std::optional<uint16_t> tci) {
  Bytes frame;
  for (bridge::MacAddress mac : {destination, source}) {
    for (uint8_t byte : mac.Bytes()) frame.push_back(byte);
  }
  if (tci)
    frame.insert(frame.end(), {0x81, 0x00, static_cast<uint8_t>(*tci >> 8), static_cast<uint8_t>(*tci)});
  frame.insert(frame.end(), {kTestEtherType >> 8, kTestEtherType & 0xff});
  for (int shift = 24; shift >= 0; shift -= 8) frame.push_back(static_cast<uint8_t>(number >> shift));
  const size_t whole = length + (tci ? bridge::kTagLength : 0);
  while (frame.size() < whole) frame.push_back(static_cast<uint8_t>((whole - frame.size()) * 7 + number));
  return frame;
}

uint32_t NumberOf(const Bytes& frame) {
  size_t at = 12;
  if (frame.size() >= 22 && frame[12] == 0x81 && frame[13] == 0) at += 4;
  if (frame.size() < at + 6 || bridge::LoadBe16(&frame[at]) != kTestEtherType) return UINT32_MAX;
  return static_cast<uint32_t>(bridge::LoadBe16(&frame[at + 2])) << 16 | bridge::LoadBe16(&frame[at + 4]);
}

// --- port configurations ---

bridge::PortConfig AccessPort(bridge::SwitchIndex index, bridge::VlanId vid) {
  bridge::PortConfig config;
  config.switch_index = index;
  config.vlan_mode = bridge::VlanMode::kAccess;
  config.pvid = vid;
  config.members.Add(vid);
  config.untagged.Add(vid);
  return config;
}

bridge::PortConfig TrunkPort(bridge::SwitchIndex index, const std::vector<bridge::VlanId>& vids,
                             bridge::VlanId native) {
  bridge::PortConfig config;
  config.switch_index = index;
  config.vlan_mode = bridge::VlanMode::kTrunk;
  for (bridge::VlanId vid : vids) config.members.Add(vid);
  if (native != 0) {
    config.pvid = native;
    config.members.Add(native);
    config.untagged.Add(native);
  }
  return config;
}

// --- pods ---

Pod::Pod(const std::string& ifname)
    : ifname_(ifname),
      sender_(PacketSocket(ifname, 0)),
      header_sender_(PacketSocket(ifname, 0)),
      receiver_(ReceiveSocket(ifname)),
      header_receiver_(ReceiveSocket(ifname)) {
  SetOption(receiver_, SOL_PACKET, PACKET_AUXDATA, 1);
  SetOption(header_sender_, SOL_PACKET, PACKET_VNET_HDR, 1);
  SetOption(header_receiver_, SOL_PACKET, PACKET_VNET_HDR, 1);
}

bool Pod::Send(const Bytes& frame) {
  return ::send(sender_.fd(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size());
}

bool Pod::SendWithHeader(const Bytes& bytes) {
  return ::send(header_sender_.fd(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

std::optional<Bytes> Pod::Receive(std::chrono::milliseconds timeout) {
  if (!Readable(receiver_, timeout)) return std::nullopt;
  Bytes frame(70000);
  iovec part{frame.data(), frame.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(tpacket_auxdata))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = ::recvmsg(receiver_.fd(), &message, MSG_DONTWAIT);
  if (size < 0) return std::nullopt;
  frame.resize(static_cast<size_t>(size));
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) return frame;
  tpacket_auxdata auxiliary;
  std::memcpy(&auxiliary, CMSG_DATA(header), sizeof auxiliary);
  if ((auxiliary.tp_status & TP_STATUS_VLAN_VALID) != 0) {
    const bool has_tpid = (auxiliary.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
    uint8_t tag[4];
    bridge::StoreBe16(&tag[0], has_tpid ? auxiliary.tp_vlan_tpid : bridge::kTpid);
    bridge::StoreBe16(&tag[2], auxiliary.tp_vlan_tci);
    frame.insert(frame.begin() + 12, std::begin(tag), std::end(tag));
  }
  return frame;
}

std::optional<Bytes> Pod::ReceiveWithHeader(std::chrono::milliseconds timeout) {
  if (!Readable(header_receiver_, timeout)) return std::nullopt;
  Bytes bytes(70000);
  const ssize_t size = ::recv(header_receiver_.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size < 0) return std::nullopt;
  bytes.resize(static_cast<size_t>(size));
  return bytes;
}

std::vector<uint32_t> Pod::ReceiveNumbers(size_t count) {
  std::vector<uint32_t> numbers;
  while (std::optional<Bytes> frame = Receive(numbers.size() < count ? kSoon : kSoon * 0))
    numbers.push_back(NumberOf(*frame));
  return numbers;
}

void Pod::Discard() {
  char bytes[16];  // with less than its header a socket returns an error
  for (const File* socket : {&receiver_, &header_receiver_}) {
    while (::recv(socket->fd(), bytes, sizeof bytes, MSG_DONTWAIT | MSG_TRUNC) >= 0) {
    }
  }
}

// --- testbed ---

Testbed::Testbed(const BedOptions& options) : kind_(options.pods) {
  EnterFreshNamespace();
  absl::StatusOr<std::unique_ptr<Dataplane>> dataplane = Dataplane::Start(options.dataplane);
  Check(dataplane.ok(), dataplane.status().ToString());
  dataplane_ = *std::move(dataplane);
  switch_ = *dataplane_->AddSwitch({}, bridge::kFdbCapacityDefault);
}

Testbed::~Testbed() {
  for (const auto& pod : pods_) {
    if (pod && ::if_nametoindex(pod->ifname().c_str()) != 0) DeleteLink(pod->ifname());
  }
}

int Testbed::AddPod(const bridge::PortConfig& config) {
  return AddPod(config, kind_);
}

int Testbed::AddPod(const bridge::PortConfig& config, PodKind kind) {
  const int index = pod_count();
  is_veth_.push_back(kind == PodKind::kVeth || (kind == PodKind::kMixed && index % 2 == 1));
  const std::string ifname = "p" + std::to_string(index);
  const std::string near = near_ifname(index);
  absl::StatusOr<Device> device;
  if (is_veth_[index]) {
    MakeVeth(near, ifname);
    SetMtu(near, static_cast<int>(config.mtu));
    SetLinkUp(near, true);
    device = OpenNetdev(near);
  } else {
    absl::StatusOr<File> tap = OpenTap(ifname, true);
    Check(tap.ok(), tap.status().ToString());
    device = TapDevice(*std::move(tap));
  }
  Check(device.ok(), device.status().ToString());
  SetMtu(ifname, static_cast<int>(config.mtu));
  SetLinkUp(ifname, true);
  if (is_veth_[index]) {
    AwaitCarrier(near);
    AwaitCarrier(ifname);
  }
  pods_.push_back(std::make_unique<Pod>(ifname));
  ports_.push_back(*dataplane_->AddPort(config, *std::move(device)));
  return index;
}

void Testbed::RemovePod(int index) {
  const std::string ifname = pods_[index]->ifname();
  dataplane_->RemovePort(ports_[index]).Close();
  pods_[index].reset();
  if (is_veth_[index]) DeleteLink(ifname);
}

void Testbed::Settle() {
  uint64_t last = UINT64_MAX;
  for (int same = 0; same < 5;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const bridge::PortTotals now = dataplane_->ReadSwitch(switch_);
    const uint64_t sum = now.receive_frames + now.transmit_frames + now.DropsOn(bridge::DropSide::kEgress) +
                         now.DropsOn(bridge::DropSide::kIngress);
    same = sum == last ? same + 1 : 0;
    last = sum;
  }
}

void Testbed::ExpectLedgersBalance() {
  Settle();
  auto expect = [](const bridge::PortTotals& totals, const std::string& what) {
    EXPECT_EQ(totals.receive_frames, totals.forwarded_frames + totals.DropsOn(bridge::DropSide::kIngress))
        << what;
    EXPECT_EQ(totals.queued_copies, totals.transmit_frames + totals.DropsOn(bridge::DropSide::kEgress))
        << what;
  };
  for (int i = 0; i < pod_count(); ++i) {
    if (pods_[i]) expect(totals(i), pods_[i]->ifname());
  }
  expect(dataplane_->ReadSwitch(switch_), "switch");
  for (const WorkerStats& worker : dataplane_->ReadWorkers()) EXPECT_EQ(worker.buffers_held, 0u);
}

// A frame's copies are queued before it counts as forwarded: what is queued is asked only after all ports
// have been asked what they received.
bool IsQuiet(Dataplane* dataplane, const std::vector<bridge::PortIndex>& ports) {
  return std::all_of(ports.begin(), ports.end(),
                     [&](bridge::PortIndex port) {
                       const bridge::PortTotals totals = dataplane->ReadPort(port).totals;
                       return totals.receive_frames ==
                              totals.forwarded_frames + totals.DropsOn(bridge::DropSide::kIngress);
                     }) &&
         std::all_of(ports.begin(), ports.end(), [&](bridge::PortIndex port) {
           const bridge::PortTotals totals = dataplane->ReadPort(port).totals;
           return totals.queued_copies == totals.transmit_frames + totals.DropsOn(bridge::DropSide::kEgress);
         });
}

// --- the kernel ---

void EnterFreshNamespace() {
  Check(::unshare(CLONE_NEWNET) == 0, "unshare(CLONE_NEWNET); root is needed");
  // No frames that the test did not send.
  std::ofstream("/proc/sys/net/ipv6/conf/default/disable_ipv6") << "1";
}

Device TapDevice(File tap) {
  Device device;
  device.file = std::move(tap);
  return device;
}

void MakeVeth(const std::string& ifname, const std::string& peer) {
  RunTool({"ip", "link", "add", ifname, "type", "veth", "peer", "name", peer});
}

void AwaitCarrier(const std::string& ifname) {
  for (int i = 0; i < 5000; ++i) {
    if (OperationalState(ifname) == kOperationalStateUp) return;
    ::usleep(1000);
  }
  Check(false, ifname + " has no carrier");
}

void RunTool(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const std::string text = absl::StrJoin(command, " ");
  Check(::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) == 0, text);
  int status = 0;
  Check(::waitpid(child, &status, 0) == child && status == 0, text + ": failed");
}

void SetLinkUp(const std::string& ifname, bool up) {
  File socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = InterfaceRequest(ifname);
  request.ifr_flags = static_cast<short>(IFF_MULTICAST | IFF_NOARP | (up ? IFF_UP : 0));
  Check(::ioctl(socket.fd(), SIOCSIFFLAGS, &request) == 0, "SIOCSIFFLAGS " + ifname);
}

void SetMtu(const std::string& ifname, int mtu) {
  File socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = InterfaceRequest(ifname);
  request.ifr_mtu = mtu;
  Check(::ioctl(socket.fd(), SIOCSIFMTU, &request) == 0, "SIOCSIFMTU " + ifname);
}

void SetQueueLength(const std::string& ifname, int frames) {
  File socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = InterfaceRequest(ifname);
  request.ifr_qlen = frames;
  Check(::ioctl(socket.fd(), SIOCSIFTXQLEN, &request) == 0, "SIOCSIFTXQLEN " + ifname);
}

void SetSuperFrameMax(const std::string& ifname, uint32_t bytes) {
  struct {
    nlmsghdr header{};
    ifinfomsg info{};
    rtattr attribute{};
    uint32_t value = 0;
  } request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_NEWLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  request.info.ifi_index = static_cast<int>(::if_nametoindex(ifname.c_str()));
  request.attribute.rta_len = RTA_LENGTH(sizeof request.value);
  request.attribute.rta_type = IFLA_GSO_MAX_SIZE;
  request.value = bytes;
  File socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  Check(::send(socket.fd(), &request, sizeof request, 0) == sizeof request, "IFLA_GSO_MAX_SIZE " + ifname);
  char reply[8192];
  Check(::recv(socket.fd(), reply, sizeof reply, 0) > 0, "IFLA_GSO_MAX_SIZE " + ifname);
  const int error = reinterpret_cast<nlmsgerr*>(reply + NLMSG_HDRLEN)->error;
  errno = -error;
  Check(error == 0, "IFLA_GSO_MAX_SIZE " + ifname);
}

void DeleteLink(const std::string& ifname) {
  char reply[8192];
  AskLink(RTM_DELLINK, NLM_F_ACK, ifname, reply);
}

int OpenFileCount() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

StalledWorkers::StalledWorkers() {
  struct sigaction action {};
  action.sa_handler = StallHere;
  ::sigaction(SIGRTMIN + 3, &action, nullptr);
  stalled = true;
  int workers = 0;
  DIR* folder = ::opendir("/proc/self/task");
  while (const dirent* entry = ::readdir(folder)) {
    std::string name;
    std::ifstream(std::string("/proc/self/task/") + entry->d_name + "/comm") >> name;
    if (name.rfind("rs-worker-", 0) != 0) continue;
    ++workers;
    ::syscall(SYS_tgkill, ::getpid(), std::atoi(entry->d_name), SIGRTMIN + 3);
  }
  ::closedir(folder);
  while (stalled_count < workers) ::usleep(100);
}

StalledWorkers::~StalledWorkers() {
  stalled = false;
  while (stalled_count > 0) ::usleep(100);
}

}  // namespace ringswitch::test
