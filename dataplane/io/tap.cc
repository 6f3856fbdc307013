#include "dataplane/io/tap.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dataplane/io/buffer_pool.h"

namespace ringswitch::io {
namespace {

// Newer than the packaged header; Linux 6.2. The two are only taken together.
constexpr unsigned kOffloadUso4 = 0x20;
constexpr unsigned kOffloadUso6 = 0x40;
constexpr unsigned kOffloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;

// What the kernel says of a device.
struct TapDescription {
  bool is_tap = false;
  bool has_packet_information = false;
  bool has_virtio_net_header = false;
  bool is_multi_queue = false;
  bool is_persistent = false;
  uint32_t queues = 0;  // attached, disabled ones included

  bool IsOurs() const {
    return is_tap && !has_packet_information && has_virtio_net_header && is_multi_queue && is_persistent;
  }
};

absl::Status Failed(const char* step, const std::string& ifname, int error) {
  std::string text = absl::StrCat("TAP ", ifname, ": ", step, ": ", std::strerror(error));
  if (error == EPERM)
    return absl::PermissionDeniedError(
        absl::StrCat(text, "; CAP_NET_ADMIN is needed in this network namespace"));
  if (error == ENOENT || error == ENODEV)
    return absl::UnavailableError(absl::StrCat(text, "; load the kernel module tun"));
  return absl::InternalError(text);
}

// Walks the attributes of `size` bytes at `first`; visit(type, payload).
template <typename Visit>
void ForEachAttribute(const void* first, size_t size, Visit&& visit) {
  int left = static_cast<int>(size);
  for (auto* attribute = static_cast<const rtattr*>(first); RTA_OK(attribute, left);
       attribute = RTA_NEXT(attribute, left)) {
    const auto* data = reinterpret_cast<const uint8_t*>(attribute) + RTA_LENGTH(0);
    visit(attribute->rta_type & NLA_TYPE_MASK,
          std::string_view(reinterpret_cast<const char*>(data), RTA_PAYLOAD(attribute)));
  }
}

uint32_t Number(std::string_view payload) {
  uint32_t value = 0;
  std::memcpy(&value, payload.data(), std::min(payload.size(), sizeof value));
  return value;
}

TapDescription ParseTap(std::string_view link_info) {
  TapDescription tap;
  bool is_tun = false;
  std::string_view data;
  ForEachAttribute(link_info.data(), link_info.size(), [&](int type, std::string_view payload) {
    if (type == IFLA_INFO_KIND) is_tun = payload.substr(0, 3) == "tun";
    if (type == IFLA_INFO_DATA) data = payload;
  });
  if (!is_tun) return tap;
  ForEachAttribute(data.data(), data.size(), [&](int type, std::string_view payload) {
    if (payload.empty()) return;
    switch (type) {
      case IFLA_TUN_TYPE:
        tap.is_tap = payload[0] == IFF_TAP;
        break;
      case IFLA_TUN_PI:
        tap.has_packet_information = payload[0] != 0;
        break;
      case IFLA_TUN_VNET_HDR:
        tap.has_virtio_net_header = payload[0] != 0;
        break;
      case IFLA_TUN_MULTI_QUEUE:
        tap.is_multi_queue = payload[0] != 0;
        break;
      case IFLA_TUN_PERSIST:
        tap.is_persistent = payload[0] != 0;
        break;
      case IFLA_TUN_NUM_QUEUES:
      case IFLA_TUN_NUM_DISABLED_QUEUES:
        tap.queues += Number(payload);
        break;
      default:
        break;
    }
  });
  return tap;
}

// One RTM_GETLINK by name. No value: there is no such device.
absl::StatusOr<std::optional<TapDescription>> DescribeTap(const std::string& ifname) {
  File socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket.is_open()) return Failed("netlink socket", ifname, errno);
  struct {
    nlmsghdr header{};
    ifinfomsg info{};
    rtattr name_header{};
    char name[IFNAMSIZ] = {};
  } request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.name_header.rta_type = IFLA_IFNAME;
  request.name_header.rta_len = RTA_LENGTH(IFNAMSIZ);
  std::memcpy(request.name, ifname.data(), ifname.size());
  if (::send(socket.fd(), &request, sizeof request, 0) < 0) return Failed("netlink request", ifname, errno);
  std::vector<char> reply(32768);
  const ssize_t size = ::recv(socket.fd(), reply.data(), reply.size(), 0);
  if (size < static_cast<ssize_t>(sizeof(nlmsghdr)))
    return Failed("netlink reply", ifname, size < 0 ? errno : EIO);
  const auto* header = reinterpret_cast<const nlmsghdr*>(reply.data());
  if (header->nlmsg_type == NLMSG_ERROR) {
    const int error = -reinterpret_cast<const nlmsgerr*>(reply.data() + NLMSG_HDRLEN)->error;
    if (error == ENODEV) return std::optional<TapDescription>();
    return Failed("netlink reply", ifname, error);
  }
  TapDescription tap;
  const size_t offset = NLMSG_SPACE(sizeof(ifinfomsg));
  ForEachAttribute(reply.data() + offset, static_cast<size_t>(size) - offset,
                   [&](int type, std::string_view payload) {
                     if (type == IFLA_LINKINFO) tap = ParseTap(payload);
                   });
  return std::optional<TapDescription>(tap);
}

absl::Status CheckName(const std::string& ifname) {
  // '%' would make the kernel choose a number.
  if (ifname.empty() || ifname.size() >= IFNAMSIZ || ifname.find_first_of("%/: \t\n") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ifname \"", ifname, "\": 1 to 15 characters without '/', '%', ':' and blanks are needed"));
  }
  return absl::OkStatus();
}

absl::Status HeldElsewhere(const std::string& ifname) {
  return absl::FailedPreconditionError(
      absl::StrCat("TAP ", ifname, " is in use by another process; stop that first"));
}

absl::Status CheckAttachable(const std::string& ifname) {
  absl::StatusOr<std::optional<TapDescription>> tap = DescribeTap(ifname);
  if (!tap.ok()) return tap.status();
  if (!tap->has_value()) return absl::NotFoundError(absl::StrCat("no device ", ifname));
  if (!(*tap)->IsOurs()) {
    return absl::FailedPreconditionError(absl::StrCat(
        ifname,
        " is not a persistent multi-queue TAP with virtio-net header; delete it or choose another name"));
  }
  if ((*tap)->queues != 0) return HeldElsewhere(ifname);
  return absl::OkStatus();
}

absl::Status Configure(int fd, const std::string& ifname) {
  int size = kVirtioNetHeaderSize;
  if (::ioctl(fd, TUNSETVNETHDRSZ, &size) < 0) return Failed("header size", ifname, errno);
  if (::ioctl(fd, TUNSETOFFLOAD, kOffloads | kOffloadUso4 | kOffloadUso6) < 0 &&
      ::ioctl(fd, TUNSETOFFLOAD, kOffloads) < 0) {
    return Failed("offloads", ifname, errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<File> OpenTap(const std::string& ifname, bool create) {
  if (absl::Status status = CheckName(ifname); !status.ok()) return status;
  if (!create) {
    if (absl::Status status = CheckAttachable(ifname); !status.ok()) return status;
  }
  File tap(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!tap.is_open()) return Failed("open /dev/net/tun", ifname, errno);
  ifreq request{};
  std::memcpy(request.ifr_name, ifname.data(), ifname.size());
  int flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE | (create ? IFF_TUN_EXCL : 0);
  request.ifr_flags = static_cast<short>(flags);
  if (::ioctl(tap.fd(), TUNSETIFF, &request) < 0) {
    if (create && errno == EBUSY)
      return absl::AlreadyExistsError(absl::StrCat("a device ", ifname, " exists"));
    return Failed("TUNSETIFF", ifname, errno);
  }
  if (!create) {
    absl::StatusOr<std::optional<TapDescription>> now = DescribeTap(ifname);
    if (!now.ok()) return now.status();
    // Deleted in between: what was attached to is a new device, not persistent, which goes with its file.
    if (!now->has_value() || !(*now)->is_persistent)
      return absl::NotFoundError(absl::StrCat("no device ", ifname));
    if ((*now)->queues != 1) return HeldElsewhere(ifname);
  }
  if (absl::Status status = Configure(tap.fd(), ifname); !status.ok()) return status;
  return tap;
}

absl::Status SetTapPersistent(const File& tap, bool is_persistent) {
  if (::ioctl(tap.fd(), TUNSETPERSIST, is_persistent ? 1 : 0) < 0) {
    return absl::InternalError(absl::StrCat("TUNSETPERSIST: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

// A TAP's file without a device is in error, and never else.
bool IsTapGone(const File& tap) {
  pollfd poll{tap.fd(), 0, 0};
  return ::poll(&poll, 1, 0) == 1 && (poll.revents & POLLERR) != 0;
}

}  // namespace ringswitch::io
