#include "server/agent/links.h"

#include <errno.h>
#include <net/if.h>
#include <netlink/addr.h>
#include <netlink/route/link.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dataplane/dataplane.h"
#include "server/agent/announce.h"
#include "server/agent/host_stack.h"
#include "server/agent/interface_name.h"
#include "server/agent/ip_address.h"
#include "server/agent/ip_config.h"
#include "server/agent/link_watch.h"
#include "server/agent/namespace.h"
#include "server/agent/netdev.h"
#include "server/agent/netlink.h"
#include "server/agent/veth.h"

namespace ringswitch::agent {
namespace {

absl::Status CheckName(const std::string& ifname) {
  if (IsInterfaceName(ifname)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("\"", ifname, "\" is no interface name; use 1 to ",
                                                 kIfnameMax, " characters without space, '/', ':' and '%'"));
}

absl::Status CheckMac(bridge::MacAddress mac) {
  if (mac.is_station()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(mac.ToString(), " is no MAC address of a single interface"));
}

// A path that leads to no namespace is the caller's mistake where something is to be made there.
absl::Status AsMakingError(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::InvalidArgumentError(status.message()) : status;
}

// What is in the agent's own namespace is named without a path: by that it is known whose port a device is,
// and that no port is made on the other end of another one.
absl::Status CheckIsApart(const LinkRef& link) {
  if (link.netns.empty() || FindNamespace(link.netns) != FindNamespace("")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(link.netns, " is the agent's own network namespace: leave the path out"));
}

// The namespace has no interface of that name.
absl::Status CheckIsFree(const LinkRef& link) {
  return RunInNamespace(link.netns, [&](NamespaceId) -> absl::Status {
    if (if_nametoindex(link.ifname.c_str()) == 0) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("a device ", link.ifname, " exists"));
  });
}

// Address, MTU, up: one message, which the kernel works through in this order, so that nobody sees the TAP up
// with another address.
absl::Status SetUpTap(const std::string& ifname, bridge::MacAddress mac, uint32_t mtu, uint32_t* ifindex) {
  *ifindex = if_nametoindex(ifname.c_str());
  if (*ifindex == 0) return absl::ErrnoToStatus(errno, absl::StrCat("interface ", ifname));
  absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
  if (!socket.ok()) return socket.status();
  const std::array<uint8_t, 6> bytes = mac.Bytes();
  NetlinkAddress address(nl_addr_build(AF_LLC, bytes.data(), bytes.size()));
  NetlinkLink change(rtnl_link_alloc());
  if (address == nullptr || change == nullptr) return NoNetlinkMemory();
  rtnl_link_set_addr(change.get(), address.get());
  rtnl_link_set_mtu(change.get(), mtu);
  rtnl_link_set_flags(change.get(), IFF_UP);
  return socket->ChangeLink(*ifindex, change.get(),
                            absl::StrCat("setting MAC ", mac.ToString(), " and MTU ", mtu, " of ", ifname));
}

// What Links does to one interface: runs in its namespace, with the interface looked up.
using LinkWork = std::function<absl::Status(const NetlinkSocket&, rtnl_link*)>;

absl::Status WithLink(const LinkRef& ref, const LinkWork& work) {
  return RunInNamespace(ref.netns, [&](NamespaceId) {
    absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
    if (!socket.ok()) return socket.status();
    absl::StatusOr<NetlinkLink> link = socket->FindLink(ref.ifname);
    if (!link.ok()) return link.status();
    return work(*socket, link->get());
  });
}

// Sets the MTU; what it was before.
absl::StatusOr<uint32_t> ExchangeMtu(const LinkRef& ref, uint32_t mtu) {
  uint32_t before = 0;
  absl::Status status = WithLink(ref, [&](const NetlinkSocket& socket, rtnl_link* link) -> absl::Status {
    before = rtnl_link_get_mtu(link);
    NetlinkLink change(rtnl_link_alloc());
    if (change == nullptr) return NoNetlinkMemory();
    rtnl_link_set_mtu(change.get(), mtu);
    return socket.ChangeLink(static_cast<uint32_t>(rtnl_link_get_ifindex(link)), change.get(),
                             absl::StrCat("setting MTU ", mtu, " of ", ref.ifname));
  });
  if (!status.ok()) return status;
  return before;
}

class HostLinks final : public Links {
 public:
  absl::Status Start(std::function<void(const LinkEvent&)> on_event);

  absl::StatusOr<PortLink> CreateTap(const LinkRef& link, bridge::MacAddress mac, uint32_t mtu) override;
  absl::Status CheckDevice(const DeviceRef& device) override;
  absl::StatusOr<PortLink> AttachTap(const LinkRef& link, NamespaceId netns_id) override;
  absl::Status KeepTap(const File& tap) override { return SetTapPersistent(tap, true); }
  void DeleteTap(File tap) override;
  absl::StatusOr<PortLink> OpenNetdev(const DeviceRef& device) override;
  absl::StatusOr<PortLink> CreateVeth(const DeviceRef& device, bridge::MacAddress mac, uint32_t mtu) override;
  absl::StatusOr<PortLink> AttachVeth(const DeviceRef& device, NamespaceId netns_id) override;
  void DeleteVeth(const DeviceRef& device) override;
  void ReleaseNetdev(const DeviceRef& device) override { gate_.Open(device.own_ifname()); }
  void SetNetdevDown(const DeviceRef& device) override;
  absl::Status SetMtu(const DeviceRef& device, uint32_t mtu) override;
  absl::StatusOr<LinkInfo> GetLink(const LinkRef& link) override;
  absl::Status Configure(const LinkRef& link, const std::vector<std::string>& addresses,
                         const std::vector<LinkRoute>& routes) override;
  absl::Status Announce(const LinkRef& link, const std::vector<std::string>& addresses) override;
  absl::Status Watch(uint64_t watch_id, const DeviceRef& device, const PortLink* link) override {
    return watch_->Add(watch_id, device, link);
  }
  void Unwatch(uint64_t watch_id) override { watch_->Remove(watch_id); }

 private:
  absl::StatusOr<PortLink> OpenOwn(const DeviceRef& device, uint32_t ifindex);

  HostStackGate gate_;
  std::unique_ptr<LinkWatch> watch_;  // last: its thread uses the gate
};

absl::Status HostLinks::Start(std::function<void(const LinkEvent&)> on_event) {
  // A device that was renamed away is no port's any more, and the host may hear it.
  absl::StatusOr<std::unique_ptr<LinkWatch>> watch =
      LinkWatch::Start(std::move(on_event),
                       [this](const std::string& ifname, uint32_t ifindex) { gate_.Open(ifname, ifindex); });
  if (!watch.ok()) return watch.status();
  watch_ = *std::move(watch);
  return absl::OkStatus();
}

absl::StatusOr<PortLink> HostLinks::CreateTap(const LinkRef& link, bridge::MacAddress mac, uint32_t mtu) {
  absl::Status status = CheckName(link.ifname);
  if (status.ok()) status = CheckMac(mac);
  if (status.ok()) status = CheckIsApart(link);
  if (!status.ok()) return status;
  PortLink made;
  status = RunInNamespace(link.netns, [&](NamespaceId id) -> absl::Status {
    absl::StatusOr<File> tap = OpenTap(link.ifname, /*create=*/true);
    if (!tap.ok()) return tap.status();
    made.device.file = *std::move(tap);
    made.netns_id = id;
    return SetUpTap(link.ifname, mac, mtu, &made.ifindex);
  });
  if (status.ok()) return made;
  if (made.device.file.is_open()) DeleteTap(std::move(made.device.file));
  return AsMakingError(status);
}

absl::Status HostLinks::CheckDevice(const DeviceRef& device) {
  absl::Status status = CheckName(device.link.ifname);
  if (!status.ok()) return status;
  if (device.kind == DeviceRef::Kind::kNetdev) {
    absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
    if (!socket.ok()) return socket.status();
    return CheckNetdev(*socket, device).status();
  }
  if (device.kind == DeviceRef::Kind::kVeth) {
    status = CheckName(device.host_ifname);
    if (status.ok()) status = CheckIsFree({"", device.host_ifname});
    if (!status.ok()) return status;
  }
  status = CheckIsApart(device.link);
  return status.ok() ? AsMakingError(CheckIsFree(device.link)) : status;
}

absl::StatusOr<PortLink> HostLinks::AttachTap(const LinkRef& link, NamespaceId netns_id) {
  PortLink attached;
  absl::Status status = RunInNamespace(link.netns, [&](NamespaceId id) -> absl::Status {
    if (!(id == netns_id))
      return absl::NotFoundError(absl::StrCat(link.netns, " is another network namespace now"));
    attached.netns_id = id;
    absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
    if (!socket.ok()) return socket.status();
    absl::StatusOr<NetlinkLink> found = socket->FindLink(link.ifname);
    if (absl::IsNotFound(found.status())) return absl::FailedPreconditionError(found.status().message());
    if (!found.ok()) return found.status();
    attached.ifindex = static_cast<uint32_t>(rtnl_link_get_ifindex(found->get()));
    absl::StatusOr<File> tap = OpenTap(link.ifname, /*create=*/false);
    if (absl::IsNotFound(tap.status())) return absl::FailedPreconditionError(tap.status().message());
    if (!tap.ok()) return tap.status();
    attached.device.file = *std::move(tap);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return attached;
}

// A device that is deleted already refuses to be made transient: it is what was wanted.
void HostLinks::DeleteTap(File tap) {
  SetTapPersistent(tap, false).IgnoreError();
}

// What netdevs and the host's ends of veths have in common: the host's stack is shut out before the first
// frame can arrive, and a packet socket on a device that is down would begin with an error. A netdev that its
// owner has left down is set up, as other switches do: a port that is added is meant to carry frames.
absl::StatusOr<PortLink> HostLinks::OpenOwn(const DeviceRef& device, uint32_t ifindex) {
  const std::string& ifname = device.own_ifname();
  absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
  if (!socket.ok()) return socket.status();
  if (device.kind == DeviceRef::Kind::kVeth || device.host_stack == HostStack::kDrop) {
    absl::Status status = gate_.Shut(ifname, ifindex);
    if (!status.ok()) return status;
  } else {
    gate_.Open(ifname);
  }
  PortLink opened;
  opened.ifindex = ifindex;
  absl::Status status = SetUp(*socket, ifindex, ifname);
  if (status.ok()) {
    absl::StatusOr<Device> file = ringswitch::OpenNetdev(ifname);
    status = file.status();
    if (file.ok()) opened.device = *std::move(file);
  }
  if (status.ok()) {
    absl::StatusOr<bool> is_up = IsOperational(*socket, ifindex);
    status = is_up.status();
    opened.is_up = is_up.value_or(false);
  }
  if (!status.ok()) {
    gate_.Open(ifname);
    return status;
  }
  if (device.software_offload) opened.device.takes_offload = false;
  return opened;
}

absl::StatusOr<PortLink> HostLinks::OpenNetdev(const DeviceRef& device) {
  absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
  if (!socket.ok()) return socket.status();
  absl::StatusOr<NetdevInfo> info = CheckNetdev(*socket, device);
  if (!info.ok()) return info.status();
  absl::StatusOr<PortLink> opened = OpenOwn(device, info->ifindex);
  if (!opened.ok()) return opened.status();
  opened->mac = info->mac;
  opened->mtu = info->mtu;
  opened->was_down = !info->is_set_up;
  return opened;
}

void HostLinks::SetNetdevDown(const DeviceRef& device) {
  absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
  if (socket.ok()) SetDown(*socket, device.own_ifname()).IgnoreError();
}

absl::StatusOr<PortLink> HostLinks::CreateVeth(const DeviceRef& device, bridge::MacAddress mac,
                                               uint32_t mtu) {
  absl::Status status = CheckName(device.link.ifname);
  if (status.ok()) status = CheckName(device.host_ifname);
  if (status.ok()) status = CheckMac(mac);
  if (status.ok()) status = CheckIsApart(device.link);
  if (!status.ok()) return status;
  absl::StatusOr<VethPair> pair = MakeVeth(device, mac, mtu);
  if (!pair.ok()) return AsMakingError(pair.status());
  absl::StatusOr<PortLink> opened = OpenOwn(device, pair->host_ifindex);
  if (!opened.ok()) {
    RemoveVeth(device);
    return opened.status();
  }
  opened->netns_id = pair->netns_id;
  return opened;
}

absl::StatusOr<PortLink> HostLinks::AttachVeth(const DeviceRef& device, NamespaceId netns_id) {
  absl::StatusOr<VethPair> pair = FindVeth(device, netns_id);
  if (!pair.ok()) return pair.status();
  absl::StatusOr<PortLink> opened = OpenOwn(device, pair->host_ifindex);
  if (!opened.ok()) return opened.status();
  opened->netns_id = pair->netns_id;
  return opened;
}

// The chain goes last, so that the host hears nothing of the end.
void HostLinks::DeleteVeth(const DeviceRef& device) {
  RemoveVeth(device);
  gate_.Open(device.host_ifname);
}

// The pod's end of a veth first: its stack knows best what it can be asked. The host's end follows or nothing
// is changed.
absl::Status HostLinks::SetMtu(const DeviceRef& device, uint32_t mtu) {
  absl::StatusOr<uint32_t> before = ExchangeMtu(device.link, mtu);
  if (!before.ok() || device.kind != DeviceRef::Kind::kVeth) return before.status();
  absl::Status status = ExchangeMtu({"", device.host_ifname}, mtu).status();
  if (!status.ok()) ExchangeMtu(device.link, *before).IgnoreError();
  return status;
}

absl::StatusOr<LinkInfo> HostLinks::GetLink(const LinkRef& ref) {
  LinkInfo info;
  absl::Status status = WithLink(ref, [&](const NetlinkSocket& socket, rtnl_link* link) {
    const auto ifindex = static_cast<uint32_t>(rtnl_link_get_ifindex(link));
    info.mac = MacOf(link);
    info.mtu = rtnl_link_get_mtu(link);
    info.is_up = (rtnl_link_get_flags(link) & IFF_UP) != 0;
    absl::StatusOr<std::vector<std::string>> addresses = ListAddresses(socket, ifindex);
    if (!addresses.ok()) return addresses.status();
    absl::StatusOr<std::vector<std::string>> routes = ListRoutes(socket, ifindex);
    if (!routes.ok()) return routes.status();
    info.addresses = *std::move(addresses);
    info.routes = *std::move(routes);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return info;
}

absl::Status HostLinks::Configure(const LinkRef& ref, const std::vector<std::string>& addresses,
                                  const std::vector<LinkRoute>& routes) {
  absl::StatusOr<IpConfig> config = ParseIpConfig(addresses, routes);
  if (!config.ok()) return config.status();
  return WithLink(ref, [&](const NetlinkSocket& socket, rtnl_link* link) {
    return ApplyIpConfig(socket, ref.ifname, static_cast<uint32_t>(rtnl_link_get_ifindex(link)), *config);
  });
}

absl::Status HostLinks::Announce(const LinkRef& ref, const std::vector<std::string>& addresses) {
  std::vector<IpAddress> parsed;
  for (const std::string& text : addresses) {
    const bool has_length = text.find('/') != std::string::npos;
    absl::StatusOr<IpAddress> address = has_length ? ParseIpPrefix(text) : ParseIpAddress(text);
    if (!address.ok()) return address.status();
    parsed.push_back(*address);
  }
  return WithLink(ref, [&](const NetlinkSocket&, rtnl_link* link) {
    return SendAnnouncements(static_cast<uint32_t>(rtnl_link_get_ifindex(link)), MacOf(link), parsed);
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Links>> MakeLinks(std::function<void(const LinkEvent&)> on_event) {
  auto links = std::make_unique<HostLinks>();
  absl::Status status = links->Start(std::move(on_event));
  if (!status.ok()) return status;
  return links;
}

}  // namespace ringswitch::agent
