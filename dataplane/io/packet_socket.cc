#include "dataplane/io/packet_socket.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ringswitch::io {
namespace {

// The default holds 256 frames. The kernel doubles this and charges about 768 bytes for a small frame.
constexpr int kReceiveQueueBytes = 4 << 20;
constexpr int kPacketIgnoreOutgoing = 23;  // newer than some packaged headers; Linux 4.20

absl::Status Failed(const char* step, const std::string& ifname, int error) {
  const std::string text = absl::StrCat("netdev ", ifname, ": ", step, ": ", std::strerror(error));
  if (error == EPERM || error == EACCES)
    return absl::PermissionDeniedError(
        absl::StrCat(text, "; CAP_NET_RAW is needed in this network namespace"));
  if (error == ENODEV || error == ENXIO) return absl::NotFoundError(absl::StrCat("no device ", ifname));
  return absl::InternalError(text);
}

bool SetOption(const File& socket, int level, int name, int value) {
  return ::setsockopt(socket.fd(), level, name, &value, sizeof value) == 0;
}

absl::StatusOr<int> FindEthernetDevice(const File& socket, const std::string& ifname) {
  ifreq request{};
  if (ifname.empty() || ifname.size() >= IFNAMSIZ)
    return absl::InvalidArgumentError(absl::StrCat("ifname \"", ifname, "\": 1 to 15 characters are needed"));
  std::memcpy(request.ifr_name, ifname.data(), ifname.size());
  if (::ioctl(socket.fd(), SIOCGIFINDEX, &request) < 0) return Failed("SIOCGIFINDEX", ifname, errno);
  const int index = request.ifr_ifindex;
  if (::ioctl(socket.fd(), SIOCGIFHWADDR, &request) < 0) return Failed("SIOCGIFHWADDR", ifname, errno);
  if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER)
    return absl::FailedPreconditionError(absl::StrCat(ifname, " is no Ethernet device"));
  return index;
}

}  // namespace

absl::StatusOr<File> OpenPacketSocket(const std::string& ifname) {
  // Protocol 0: it hears nothing before it is bound.
  File socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return Failed("packet socket", ifname, errno);
  absl::StatusOr<int> index = FindEthernetDevice(socket, ifname);
  if (!index.ok()) return index.status();
  if (!SetOption(socket, SOL_PACKET, PACKET_VNET_HDR, 1)) return Failed("PACKET_VNET_HDR", ifname, errno);
  if (!SetOption(socket, SOL_PACKET, PACKET_AUXDATA, 1)) return Failed("PACKET_AUXDATA", ifname, errno);
  if (!SetOption(socket, SOL_PACKET, kPacketIgnoreOutgoing, 1))
    return Failed("PACKET_IGNORE_OUTGOING", ifname, errno);
  // Beyond the limit with CAP_NET_ADMIN, up to it without.
  if (!SetOption(socket, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveQueueBytes) &&
      !SetOption(socket, SOL_SOCKET, SO_RCVBUF, kReceiveQueueBytes)) {
    return Failed("SO_RCVBUF", ifname, errno);
  }
  packet_mreq membership{};
  membership.mr_ifindex = *index;
  membership.mr_type = PACKET_MR_PROMISC;
  if (::setsockopt(socket.fd(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership, sizeof membership) < 0)
    return Failed("PACKET_MR_PROMISC", ifname, errno);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = *index;
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0)
    return Failed("bind", ifname, errno);
  return socket;
}

bool IsPacketDeviceGone(const File& socket) {
  sockaddr_ll address{};
  socklen_t size = sizeof address;
  return ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.sll_ifindex <= 0;
}

uint64_t TakeLostFrames(const File& socket) {
  tpacket_stats statistics{};
  socklen_t size = sizeof statistics;
  if (::getsockopt(socket.fd(), SOL_PACKET, PACKET_STATISTICS, &statistics, &size) < 0) return 0;
  return statistics.tp_drops;
}

}  // namespace ringswitch::io
