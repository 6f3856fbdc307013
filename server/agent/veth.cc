#include "server/agent/veth.h"

#include <errno.h>
#include <fcntl.h>
#include <netlink/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/agent/namespace.h"
#include "server/agent/netdev.h"
#include "server/agent/netlink.h"
#include "server/agent/offloads.h"

namespace ringswitch::agent {
namespace {

// The pod's address with another first byte, so that the two differ and a trace shows who belongs to whom.
bridge::MacAddress HostMac(bridge::MacAddress pod_mac) {
  std::array<uint8_t, 6> bytes = pod_mac.Bytes();
  bytes[0] = bytes[0] == 0xfe ? 0xfa : 0xfe;
  return bridge::MacAddress::FromBytes(bytes.data());
}

bool Describe(rtnl_link* link, const std::string& ifname, bridge::MacAddress mac, uint32_t mtu) {
  const std::array<uint8_t, 6> bytes = mac.Bytes();
  NetlinkAddress address(nl_addr_build(AF_LLC, bytes.data(), bytes.size()));
  if (address == nullptr) return false;
  rtnl_link_set_name(link, ifname.c_str());
  rtnl_link_set_addr(link, address.get());
  rtnl_link_set_mtu(link, mtu);
  return true;
}

// The host's end is not up yet, so it has sent nothing.
absl::Status DisableIpv6(const std::string& ifname) {
  const std::string path = absl::StrCat("/proc/sys/net/ipv6/conf/", ifname, "/disable_ipv6");
  const File file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT) return absl::OkStatus();  // a kernel without IPv6
  if (file.is_open() && write(file.fd(), "1", 1) == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("IPv6 cannot be disabled on the host's end: ", path, ": ",
                                                    std::strerror(errno),
                                                    "; the agent needs a writable /proc/sys"));
}

bool IsVeth(rtnl_link* link) {
  const char* type = rtnl_link_get_type(link);
  return type != nullptr && std::strcmp(type, "veth") == 0;
}

// The nsid of the namespace that the peer of a veth is in; kNsidNone: the same as this end's.
int32_t PeerNsid(rtnl_link* link) {
  int32_t nsid = kNsidNone;
  return rtnl_link_get_link_netnsid(link, &nsid) < 0 ? kNsidNone : nsid;
}

uint32_t IndexOf(rtnl_link* link) {
  return static_cast<uint32_t>(rtnl_link_get_ifindex(link));
}

// The host's end as the agent's namespace has it.
struct HostEnd {
  uint32_t ifindex = 0;
  uint32_t peer_ifindex = 0;  // in the peer's namespace
  int32_t peer_nsid = kNsidNone;
};

// NOT_FOUND: no veth of that name.
absl::StatusOr<HostEnd> FindHostEnd(const NetlinkSocket& socket, const std::string& ifname) {
  absl::StatusOr<NetlinkLink> link = socket.FindLink(ifname);
  if (!link.ok()) return link.status();
  if (!IsVeth(link->get())) return absl::NotFoundError(absl::StrCat(ifname, " is no veth"));
  return HostEnd{IndexOf(link->get()), static_cast<uint32_t>(rtnl_link_get_link(link->get())),
                 PeerNsid(link->get())};
}

// Whether a veth's peer is in the namespace behind the file.
absl::StatusOr<bool> IsPeerIn(const NetlinkSocket& socket, const HostEnd& end, NamespaceId id,
                              int namespace_fd) {
  if (FindNamespace("") == id) return end.peer_nsid == kNsidNone;
  absl::StatusOr<int32_t> nsid = FindNsid(socket, namespace_fd);
  if (!nsid.ok()) return nsid.status();
  return *nsid != kNsidNone && *nsid == end.peer_nsid;
}

absl::Status AnotherNamespace(const DeviceRef& device) {
  return absl::NotFoundError(absl::StrCat(device.link.netns, " is another network namespace now"));
}

absl::Status DeleteLink(const NetlinkSocket& socket, uint32_t ifindex) {
  NetlinkLink link(rtnl_link_alloc());
  if (link == nullptr) return NoNetlinkMemory();
  rtnl_link_set_ifindex(link.get(), static_cast<int>(ifindex));
  return socket.ToStatus(rtnl_link_delete(socket.get(), link.get()), "deleting a veth pair");
}

absl::Status RequestPair(const NetlinkSocket& socket, const DeviceRef& device, int namespace_fd,
                         bridge::MacAddress mac, uint32_t mtu) {
  NetlinkLink host(rtnl_link_veth_alloc());
  if (host == nullptr) return NoNetlinkMemory();
  NetlinkLink pod(rtnl_link_veth_get_peer(host.get()));  // a reference of our own
  if (pod == nullptr || !Describe(host.get(), device.host_ifname, HostMac(mac), mtu) ||
      !Describe(pod.get(), device.link.ifname, mac, mtu)) {
    return NoNetlinkMemory();
  }
  rtnl_link_set_ns_fd(pod.get(), namespace_fd);
  return socket.ToStatus(
      rtnl_link_add(socket.get(), host.get(), NLM_F_CREATE | NLM_F_EXCL),
      absl::StrCat("veth pair ", device.host_ifname, " and ", device.link.ifname, " with MTU ", mtu));
}

// What is to be done to the pod's end, inside its namespace. It cannot be made up: the kernel opens it before
// it has its peer.
absl::Status FinishPodEnd(const DeviceRef& device, uint32_t ifindex, NamespaceId expected,
                          NamespaceId* found) {
  return RunInNamespace(device.link.netns, [&](NamespaceId id) -> absl::Status {
    *found = id;
    if (!(id == expected)) return AnotherNamespace(device);
    absl::Status status = ClearIndescribableOffloads(device.link.ifname);
    if (!status.ok()) return status;
    absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
    if (!socket.ok()) return socket.status();
    return SetUp(*socket, ifindex, device.link.ifname);
  });
}

}  // namespace

absl::StatusOr<VethPair> MakeVeth(const DeviceRef& device, bridge::MacAddress mac, uint32_t mtu) {
  NamespaceId id;
  absl::StatusOr<File> netns = OpenNamespace(device.link.netns, &id);
  if (!netns.ok()) return netns.status();
  absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
  if (!socket.ok()) return socket.status();
  absl::Status status = RequestPair(*socket, device, netns->fd(), mac, mtu);
  if (!status.ok()) return status;
  netns->Close();  // pins it no longer than needed
  VethPair pair;
  absl::StatusOr<HostEnd> end = FindHostEnd(*socket, device.host_ifname);
  status = end.status();
  if (status.ok()) status = DisableIpv6(device.host_ifname);
  if (status.ok()) status = FinishPodEnd(device, end->peer_ifindex, id, &pair.netns_id);
  if (!status.ok()) {
    if (end.ok()) DeleteLink(*socket, end->ifindex).IgnoreError();
    return status;
  }
  pair.host_ifindex = end->ifindex;
  return pair;
}

absl::StatusOr<VethPair> FindVeth(const DeviceRef& device, NamespaceId netns_id) {
  NamespaceId id;
  absl::StatusOr<File> netns = OpenNamespace(device.link.netns, &id);
  if (!netns.ok()) return netns.status();
  if (!(id == netns_id)) return AnotherNamespace(device);
  absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
  if (!socket.ok()) return socket.status();
  absl::StatusOr<HostEnd> end = FindHostEnd(*socket, device.host_ifname);
  if (absl::IsNotFound(end.status())) return absl::FailedPreconditionError(end.status().message());
  if (!end.ok()) return end.status();
  absl::StatusOr<bool> is_peer_there = IsPeerIn(*socket, *end, id, netns->fd());
  if (!is_peer_there.ok()) return is_peer_there.status();
  VethPair pair{{}, end->ifindex};
  absl::Status status = RunInNamespace(device.link.netns, [&](NamespaceId inside) -> absl::Status {
    if (!(inside == netns_id)) return AnotherNamespace(device);
    pair.netns_id = inside;
    absl::StatusOr<NetlinkSocket> pod_socket = NetlinkSocket::Open();
    if (!pod_socket.ok()) return pod_socket.status();
    absl::StatusOr<LinkState> pod = ReadLink(*pod_socket, device.link.ifname);
    if (absl::IsNotFound(pod.status())) return absl::FailedPreconditionError(pod.status().message());
    if (!pod.ok()) return pod.status();
    if (!*is_peer_there || pod->ifindex != end->peer_ifindex) {
      return absl::FailedPreconditionError(
          absl::StrCat(device.host_ifname, " is not the other end of ", device.link.ifname));
    }
    return ClearIndescribableOffloads(device.link.ifname);
  });
  if (!status.ok()) return status;
  return pair;
}

void RemoveVeth(const DeviceRef& device) {
  absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
  if (!socket.ok()) return;
  absl::StatusOr<HostEnd> end = FindHostEnd(*socket, device.host_ifname);
  if (!end.ok()) return;
  // Where the path is gone already, the namespace may still live, pinned by somebody: the name has to do.
  NamespaceId id;
  absl::StatusOr<File> netns = OpenNamespace(device.link.netns, &id);
  if (netns.ok() && !IsPeerIn(*socket, *end, id, netns->fd()).value_or(true)) return;
  DeleteLink(*socket, end->ifindex).IgnoreError();
}

}  // namespace ringswitch::agent
