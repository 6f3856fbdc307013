#include "server/agent/netdev.h"

#include <linux/if.h>
#include <linux/if_arp.h>
#include <netlink/route/link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/agent/ip_address.h"
#include "server/agent/ip_config.h"

namespace ringswitch::agent {
namespace {

absl::Status Unfit(const std::string& ifname, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(ifname, " ", why));
}

std::string NameOf(const NetlinkSocket& socket, uint32_t ifindex) {
  absl::StatusOr<LinkState> link = ReadLink(socket, kNsidNone, ifindex);
  return link.ok() ? link->ifname : absl::StrCat("the interface with index ", ifindex);
}

absl::Status CheckKind(const NetlinkSocket& socket, rtnl_link* link, const std::string& ifname) {
  const std::string name = rtnl_link_get_name(link);
  if (name != ifname) return Unfit(ifname, absl::StrCat("is another name of ", name, "; use that"));
  const bool is_loopback = (rtnl_link_get_flags(link) & IFF_LOOPBACK) != 0;
  if (rtnl_link_get_arptype(link) != ARPHRD_ETHER || is_loopback)
    return Unfit(ifname, "is no Ethernet device; a port needs one");
  const char* type = rtnl_link_get_type(link);
  if (type != nullptr && std::strcmp(type, "bridge") == 0) {
    return Unfit(ifname, "is a bridge; make one of its ports, or a veth whose peer is its port, a port here");
  }
  const uint32_t master = static_cast<uint32_t>(rtnl_link_get_master(link));
  if (master == 0) return absl::OkStatus();
  const std::string owner = NameOf(socket, master);
  return Unfit(ifname,
               absl::StrCat("belongs to ", owner, "; take it out with: ip link set ", ifname, " nomaster"));
}

// Link-local addresses are on every device that is up, and nobody reaches the node by them.
bool IsOfTheNode(const std::string& text) {
  const absl::StatusOr<IpAddress> address = ParseIpPrefix(text);
  if (!address.ok()) return true;
  return !address->is_ipv6 || address->bytes[0] != 0xfe || (address->bytes[1] & 0xc0) != 0x80;
}

bool IsDefaultRoute(const std::string& text) {
  return absl::StartsWith(text, "0.0.0.0/0") || absl::StartsWith(text, "::/0");
}

absl::Status CheckCarriesNothing(const NetlinkSocket& socket, uint32_t ifindex, const std::string& ifname) {
  absl::StatusOr<std::vector<std::string>> addresses = ListAddresses(socket, ifindex);
  if (!addresses.ok()) return addresses.status();
  absl::StatusOr<std::vector<std::string>> routes = ListRoutes(socket, ifindex);
  if (!routes.ok()) return routes.status();
  std::vector<std::string> carried;
  std::copy_if(addresses->begin(), addresses->end(), std::back_inserter(carried), IsOfTheNode);
  for (const std::string& route : *routes) {
    if (IsDefaultRoute(route)) carried.push_back(absl::StrCat("the default route ", route));
  }
  if (carried.empty()) return absl::OkStatus();
  return Unfit(ifname,
               absl::StrCat("carries ", absl::StrJoin(carried, ", "),
                            " of the node, which would be cut off; move them to the switch's host port, or "
                            "remove them with ip address del and ip route del, then try again; or make the "
                            "port with --confirm-within 60s (confirm_within), which gives the device back "
                            "unless the port is confirmed in that time"));
}

// Devices on top of another are seen in sysfs, which costs a look into one directory; netlink would have to
// list every device of the node. Those in other namespaces are not seen.
absl::Status CheckNothingOnTop(const std::string& ifname) {
  constexpr absl::string_view kPrefix = "upper_";
  std::error_code error;
  std::vector<std::string> uppers;
  for (std::filesystem::directory_iterator entry(absl::StrCat("/sys/class/net/", ifname), error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (absl::StartsWith(name, kPrefix)) uppers.push_back(name.substr(kPrefix.size()));
  }
  if (uppers.empty()) return absl::OkStatus();
  std::sort(uppers.begin(), uppers.end());
  return Unfit(ifname,
               absl::StrCat("has devices on top of it (", absl::StrJoin(uppers, ", "),
                            "), which would hear nothing any more; delete them, or make the port with "
                            "host_stack HOST_STACK_KEEP"));
}

}  // namespace

absl::StatusOr<NetdevInfo> CheckNetdev(const NetlinkSocket& socket, const DeviceRef& device) {
  const std::string& ifname = device.own_ifname();
  absl::StatusOr<NetlinkLink> link = socket.FindLink(ifname);
  if (!link.ok()) return link.status();
  const NetdevInfo info{static_cast<uint32_t>(rtnl_link_get_ifindex(link->get())), MacOf(link->get()),
                        rtnl_link_get_mtu(link->get()), (rtnl_link_get_flags(link->get()) & IFF_UP) != 0};
  absl::Status status = CheckKind(socket, link->get(), ifname);
  if (status.ok() && !device.may_carry_node) status = CheckCarriesNothing(socket, info.ifindex, ifname);
  if (status.ok() && device.host_stack == HostStack::kDrop) status = CheckNothingOnTop(ifname);
  if (!status.ok()) return status;
  return info;
}

// What the kernel's operational state (IFF_RUNNING) comes to, which lags behind and so shows changes that
// were none.
bool IsOperational(uint32_t flags) {
  return (flags & (IFF_UP | IFF_LOWER_UP | IFF_DORMANT)) == (IFF_UP | IFF_LOWER_UP);
}

absl::StatusOr<bool> IsOperational(const NetlinkSocket& socket, uint32_t ifindex) {
  absl::StatusOr<LinkState> link = ReadLink(socket, kNsidNone, ifindex);
  if (!link.ok()) return link.status();
  return IsOperational(link->flags);
}

absl::Status SetUp(const NetlinkSocket& socket, uint32_t ifindex, const std::string& ifname) {
  NetlinkLink change(rtnl_link_alloc());
  if (change == nullptr) return NoNetlinkMemory();
  rtnl_link_set_flags(change.get(), IFF_UP);
  return socket.ChangeLink(ifindex, change.get(), absl::StrCat("setting ", ifname, " up"));
}

absl::Status SetDown(const NetlinkSocket& socket, const std::string& ifname) {
  absl::StatusOr<LinkState> link = ReadLink(socket, ifname);
  if (!link.ok()) return link.status();
  NetlinkLink change(rtnl_link_alloc());
  if (change == nullptr) return NoNetlinkMemory();
  rtnl_link_unset_flags(change.get(), IFF_UP);
  return socket.ChangeLink(link->ifindex, change.get(), absl::StrCat("setting ", ifname, " down"));
}

}  // namespace ringswitch::agent
