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
#include "server/agent/ip_address.h"
#include "server/agent/ip_config.h"
#include "server/agent/link_watch.h"
#include "server/agent/namespace.h"
#include "server/agent/netlink.h"

namespace ringswitch::agent {
namespace {

// What the kernel takes as an interface's name (dev_valid_name), and no '%', which it would replace by a
// number.
absl::Status CheckName(const std::string& ifname) {
  const bool is_valid = !ifname.empty() && ifname.size() < IFNAMSIZ && ifname != "." && ifname != ".." &&
                        std::all_of(ifname.begin(), ifname.end(), [](unsigned char c) {
                          return c > ' ' && c != 0x7f && c != '/' && c != ':' && c != '%' && c != 0xa0;
                        });
  if (is_valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("\"", ifname, "\" is no interface name; use 1 to ",
                                                 IFNAMSIZ - 1,
                                                 " characters without space, '/', ':' and '%'"));
}

absl::Status NoMemory() {
  return absl::ResourceExhaustedError("no memory for a netlink object");
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
  NetlinkLink link(rtnl_link_alloc());
  NetlinkLink change(rtnl_link_alloc());
  if (address == nullptr || link == nullptr || change == nullptr) return NoMemory();
  rtnl_link_set_ifindex(link.get(), static_cast<int>(*ifindex));
  rtnl_link_set_addr(change.get(), address.get());
  rtnl_link_set_mtu(change.get(), mtu);
  rtnl_link_set_flags(change.get(), IFF_UP);
  return socket->ToStatus(rtnl_link_change(socket->get(), link.get(), change.get(), 0),
                          absl::StrCat("setting MAC ", mac.ToString(), " and MTU ", mtu, " of ", ifname));
}

bridge::MacAddress MacOf(rtnl_link* link) {
  nl_addr* address = rtnl_link_get_addr(link);
  if (address == nullptr || nl_addr_get_len(address) != 6) return {};
  return bridge::MacAddress::FromBytes(static_cast<const uint8_t*>(nl_addr_get_binary_addr(address)));
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

class HostLinks final : public Links {
 public:
  explicit HostLinks(std::unique_ptr<LinkWatch> watch) : watch_(std::move(watch)) {}

  absl::StatusOr<TapLink> CreateTap(const LinkRef& link, bridge::MacAddress mac, uint32_t mtu) override;
  absl::Status CheckPlace(const LinkRef& link) override;
  absl::StatusOr<TapLink> AttachTap(const LinkRef& link, NamespaceId netns_id) override;
  absl::Status KeepTap(const File& tap) override { return SetTapPersistent(tap, true); }
  void DeleteTap(File tap) override;
  absl::Status SetMtu(const LinkRef& link, uint32_t mtu) override;
  absl::StatusOr<LinkInfo> GetLink(const LinkRef& link) override;
  absl::Status Configure(const LinkRef& link, const std::vector<std::string>& addresses,
                         const std::vector<LinkRoute>& routes) override;
  absl::Status Announce(const LinkRef& link, const std::vector<std::string>& addresses) override;
  absl::Status Watch(uint64_t watch_id, const LinkRef& link, const TapLink& tap) override {
    return watch_->Add(watch_id, link.netns, tap.netns_id, tap.ifindex);
  }
  void Unwatch(uint64_t watch_id) override { watch_->Remove(watch_id); }

 private:
  std::unique_ptr<LinkWatch> watch_;
};

absl::StatusOr<TapLink> HostLinks::CreateTap(const LinkRef& link, bridge::MacAddress mac, uint32_t mtu) {
  absl::Status status = CheckName(link.ifname);
  if (!status.ok()) return status;
  if (!mac.is_station()) {
    return absl::InvalidArgumentError(
        absl::StrCat(mac.ToString(), " is no MAC address of a single interface"));
  }
  TapLink made;
  status = RunInNamespace(link.netns, [&](NamespaceId id) -> absl::Status {
    absl::StatusOr<File> tap = OpenTap(link.ifname, /*create=*/true);
    if (!tap.ok()) return tap.status();
    made.tap = *std::move(tap);
    made.netns_id = id;
    return SetUpTap(link.ifname, mac, mtu, &made.ifindex);
  });
  if (status.ok()) return made;
  if (made.tap.is_open()) DeleteTap(std::move(made.tap));
  return absl::IsNotFound(status) ? absl::InvalidArgumentError(status.message()) : status;
}

absl::Status HostLinks::CheckPlace(const LinkRef& link) {
  absl::Status status = CheckName(link.ifname);
  if (!status.ok()) return status;
  status = RunInNamespace(link.netns, [&](NamespaceId) -> absl::Status {
    if (if_nametoindex(link.ifname.c_str()) == 0) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("a device ", link.ifname, " exists"));
  });
  return absl::IsNotFound(status) ? absl::InvalidArgumentError(status.message()) : status;
}

absl::StatusOr<TapLink> HostLinks::AttachTap(const LinkRef& link, NamespaceId netns_id) {
  TapLink attached;
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
    attached.tap = *std::move(tap);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return attached;
}

// A device that is deleted already refuses to be made transient: it is what was wanted.
void HostLinks::DeleteTap(File tap) {
  SetTapPersistent(tap, false).IgnoreError();
}

absl::Status HostLinks::SetMtu(const LinkRef& ref, uint32_t mtu) {
  return WithLink(ref, [&](const NetlinkSocket& socket, rtnl_link* link) -> absl::Status {
    NetlinkLink change(rtnl_link_alloc());
    if (change == nullptr) return NoMemory();
    rtnl_link_set_mtu(change.get(), mtu);
    return socket.ToStatus(rtnl_link_change(socket.get(), link, change.get(), 0),
                           absl::StrCat("setting MTU ", mtu, " of ", ref.ifname));
  });
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
  absl::StatusOr<std::unique_ptr<LinkWatch>> watch = LinkWatch::Start(std::move(on_event));
  if (!watch.ok()) return watch.status();
  return std::make_unique<HostLinks>(*std::move(watch));
}

}  // namespace ringswitch::agent
