#include "server/agent/ip_config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/addr.h>
#include <netlink/errno.h>
#include <netlink/route/addr.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dataplane/file.h"

namespace ringswitch::agent {
namespace {

using NetlinkIfAddress = std::unique_ptr<rtnl_addr, NetlinkFree<rtnl_addr_put>>;
using NetlinkRoute = std::unique_ptr<rtnl_route, NetlinkFree<rtnl_route_put>>;

NetlinkAddress ToNetlink(const IpAddress& address) {
  NetlinkAddress result(nl_addr_build(address.family(), address.bytes.data(), address.size()));
  if (result != nullptr) nl_addr_set_prefixlen(result.get(), address.prefix_length);
  return result;
}

// A null address, or one of no bytes, is the unspecified one, as of a default route.
IpAddress FromNetlink(nl_addr* address, bool is_ipv6) {
  IpAddress result;
  result.is_ipv6 = is_ipv6;
  if (address == nullptr) return result;
  const size_t length = std::min<size_t>(nl_addr_get_len(address), result.size());
  std::memcpy(result.bytes.data(), nl_addr_get_binary_addr(address), length);
  result.prefix_length = static_cast<uint8_t>(nl_addr_get_prefixlen(address));
  return result;
}

absl::StatusOr<IpRoute> ParseRoute(const LinkRoute& text) {
  absl::StatusOr<IpAddress> destination = ParseIpPrefix(text.destination);
  if (!destination.ok()) return destination.status();
  if (!(destination->Network() == *destination)) {
    return absl::InvalidArgumentError(absl::StrCat("route destination \"", text.destination,
                                                   "\" has host bits; the network is ",
                                                   destination->Network().ToString()));
  }
  IpRoute route{*destination, std::nullopt, text.mtu, text.priority};
  if (text.gateway.empty()) return route;
  absl::StatusOr<IpAddress> gateway = ParseIpAddress(text.gateway);
  if (!gateway.ok()) return gateway.status();
  if (gateway->is_ipv6 != destination->is_ipv6) {
    return absl::InvalidArgumentError(
        absl::StrCat("gateway \"", text.gateway, "\" is of another family than ", text.destination));
  }
  route.gateway = *gateway;
  return route;
}

NetlinkIfAddress MakeIfAddress(const IpAddress& address, uint32_t ifindex) {
  NetlinkIfAddress result(rtnl_addr_alloc());
  NetlinkAddress local = ToNetlink(address);
  if (result == nullptr || local == nullptr) return nullptr;
  rtnl_addr_set_ifindex(result.get(), static_cast<int>(ifindex));
  if (rtnl_addr_set_local(result.get(), local.get()) < 0) return nullptr;
  if (address.is_ipv6) {
    // The agent knows who has which address; a second of silence at a pod's start would buy nothing.
    rtnl_addr_set_flags(result.get(), IFA_F_NODAD);
  } else if (address.prefix_length < 31) {
    IpAddress broadcast = address.Network();
    for (uint32_t bit = address.prefix_length; bit < 32; ++bit) broadcast.bytes[bit / 8] |= 0x80u >> bit % 8;
    NetlinkAddress built = ToNetlink(broadcast);
    if (built == nullptr || rtnl_addr_set_broadcast(result.get(), built.get()) < 0) return nullptr;
  }
  return result;
}

NetlinkRoute MakeRoute(const IpRoute& route, uint32_t ifindex) {
  NetlinkRoute result(rtnl_route_alloc());
  NetlinkAddress destination = ToNetlink(route.destination);
  std::unique_ptr<rtnl_nexthop, NetlinkFree<rtnl_route_nh_free>> nexthop(rtnl_route_nh_alloc());
  if (result == nullptr || destination == nullptr || nexthop == nullptr) return nullptr;
  rtnl_route_set_family(result.get(), static_cast<uint8_t>(route.destination.family()));
  rtnl_route_set_table(result.get(), RT_TABLE_MAIN);
  rtnl_route_set_type(result.get(), RTN_UNICAST);
  const bool is_on_link = !route.gateway && !route.destination.is_ipv6;
  rtnl_route_set_scope(result.get(), is_on_link ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE);
  if (rtnl_route_set_dst(result.get(), destination.get()) < 0) return nullptr;
  if (route.priority != 0) rtnl_route_set_priority(result.get(), route.priority);
  if (route.mtu != 0) rtnl_route_set_metric(result.get(), RTAX_MTU, route.mtu);
  rtnl_route_nh_set_ifindex(nexthop.get(), static_cast<int>(ifindex));
  if (route.gateway) {
    NetlinkAddress gateway = ToNetlink(*route.gateway);
    if (gateway == nullptr) return nullptr;
    rtnl_route_nh_set_gateway(nexthop.get(), gateway.get());
  }
  rtnl_route_add_nexthop(result.get(), nexthop.release());
  return result;
}

// A namespace may have IPv6 switched off by default (container runtimes do that). Being given an IPv6 address
// is a wish to have it, as with the reference plugins, which enable it on the loopback device too.
absl::Status EnableIpv6(const std::string& ifname) {
  for (const std::string& name : {std::string("lo"), ifname}) {
    const std::string path = absl::StrCat("/proc/sys/net/ipv6/conf/", name, "/disable_ipv6");
    File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) {
      return absl::FailedPreconditionError(absl::StrCat("IPv6 is not available in this network namespace (",
                                                        path, ": ", std::strerror(errno), ")"));
    }
    char value = '0';
    if (read(file.fd(), &value, 1) == 1 && value == '0') continue;
    file = File(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.is_open() || write(file.fd(), "0", 1) != 1) {
      return absl::FailedPreconditionError(
          absl::StrCat("IPv6 is disabled (", path, " is 1) and cannot be enabled: ", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

// What was added so far, taken back unless told otherwise.
class Undo {
 public:
  explicit Undo(const NetlinkSocket& socket) : socket_(socket) {}
  ~Undo() {
    for (const NetlinkRoute& route : routes_) rtnl_route_delete(socket_.get(), route.get(), 0);
    for (const NetlinkIfAddress& address : addresses_) rtnl_addr_delete(socket_.get(), address.get(), 0);
  }
  void Add(NetlinkIfAddress address) { addresses_.push_back(std::move(address)); }
  void Add(NetlinkRoute route) { routes_.push_back(std::move(route)); }
  void Dismiss() {
    routes_.clear();
    addresses_.clear();
  }

 private:
  const NetlinkSocket& socket_;
  std::vector<NetlinkIfAddress> addresses_;
  std::vector<NetlinkRoute> routes_;
};

absl::Status AddAddress(const NetlinkSocket& socket, uint32_t ifindex, const IpAddress& address, Undo* undo) {
  NetlinkIfAddress object = MakeIfAddress(address, ifindex);
  if (object == nullptr) return absl::ResourceExhaustedError("no memory for an address");
  absl::Status status = socket.ToStatus(rtnl_addr_add(socket.get(), object.get(), NLM_F_CREATE | NLM_F_EXCL),
                                        absl::StrCat("adding address ", address.ToString()));
  if (absl::IsAlreadyExists(status)) return absl::OkStatus();
  if (status.ok()) undo->Add(std::move(object));
  return status;
}

absl::Status AddRoute(const NetlinkSocket& socket, uint32_t ifindex, const IpRoute& route, Undo* undo) {
  NetlinkRoute object = MakeRoute(route, ifindex);
  if (object == nullptr) return absl::ResourceExhaustedError("no memory for a route");
  std::string what = absl::StrCat("adding route ", route.destination.ToString());
  if (route.gateway) absl::StrAppend(&what, " via ", route.gateway->AddressText());
  absl::Status status =
      socket.ToStatus(rtnl_route_add(socket.get(), object.get(), NLM_F_CREATE | NLM_F_EXCL), what);
  // The first of several interfaces that want the same route has it, as with the reference plugins.
  if (absl::IsAlreadyExists(status)) return absl::OkStatus();
  if (absl::IsUnavailable(status) && route.gateway) {
    return absl::InvalidArgumentError(
        absl::StrCat(status.message(), "; is the gateway in the network of one of the addresses?"));
  }
  if (status.ok()) undo->Add(std::move(object));
  return status;
}

// A dump of one family. The kernel filters by what the message says (NETLINK_GET_STRICT_CHK), which spares a
// node with many routes; an older one sends all, so the reader filters too.
absl::Status Dump(const NetlinkSocket& socket, NetlinkMessage message, absl::string_view what,
                  const std::function<void(nl_object*)>& on_object) {
  const int on = 1;
  setsockopt(nl_socket_get_fd(socket.get()), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
  return socket.Request(std::move(message), what, [&](nl_msg* reply) {
    auto forward = [](nl_object* object, void* target) {
      (*static_cast<const std::function<void(nl_object*)>*>(target))(object);
    };
    nl_msg_parse(reply, forward, const_cast<void*>(static_cast<const void*>(&on_object)));
  });
}

}  // namespace

absl::StatusOr<IpConfig> ParseIpConfig(const std::vector<std::string>& addresses,
                                       const std::vector<LinkRoute>& routes) {
  IpConfig config;
  for (const std::string& text : addresses) {
    absl::StatusOr<IpAddress> address = ParseIpPrefix(text);
    if (!address.ok()) return address.status();
    config.addresses.push_back(*address);
  }
  for (const LinkRoute& text : routes) {
    absl::StatusOr<IpRoute> route = ParseRoute(text);
    if (!route.ok()) return route.status();
    config.routes.push_back(*route);
  }
  return config;
}

absl::Status ApplyIpConfig(const NetlinkSocket& socket, const std::string& ifname, uint32_t ifindex,
                           const IpConfig& config) {
  for (const IpAddress& address : config.addresses) {
    if (!address.is_ipv6) continue;
    absl::Status status = EnableIpv6(ifname);
    if (!status.ok()) return status;
    break;
  }
  Undo undo(socket);
  for (const IpAddress& address : config.addresses) {
    absl::Status status = AddAddress(socket, ifindex, address, &undo);
    if (!status.ok()) return status;
  }
  for (const IpRoute& route : config.routes) {
    absl::Status status = AddRoute(socket, ifindex, route, &undo);
    if (!status.ok()) return status;
  }
  undo.Dismiss();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListAddresses(const NetlinkSocket& socket, uint32_t ifindex) {
  std::vector<std::string> texts;
  for (const int family : {AF_INET, AF_INET6}) {
    NetlinkMessage message(nlmsg_alloc_simple(RTM_GETADDR, NLM_F_DUMP));
    ifaddrmsg header{};
    header.ifa_family = static_cast<uint8_t>(family);
    header.ifa_index = ifindex;
    if (message == nullptr || nlmsg_append(message.get(), &header, sizeof(header), NLMSG_ALIGNTO) < 0) {
      return absl::ResourceExhaustedError("no memory for a netlink message");
    }
    absl::Status status = Dump(socket, std::move(message), "reading addresses", [&](nl_object* object) {
      auto* address = reinterpret_cast<rtnl_addr*>(object);
      if (rtnl_addr_get_ifindex(address) != static_cast<int>(ifindex)) return;
      if (rtnl_addr_get_family(address) != family) return;
      texts.push_back(FromNetlink(rtnl_addr_get_local(address), family == AF_INET6).ToString());
    });
    if (!status.ok()) return status;
  }
  return texts;
}

absl::StatusOr<std::vector<std::string>> ListRoutes(const NetlinkSocket& socket, uint32_t ifindex) {
  std::vector<std::string> texts;
  for (const int family : {AF_INET, AF_INET6}) {
    NetlinkMessage message(nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_DUMP));
    rtmsg header{};
    header.rtm_family = static_cast<uint8_t>(family);
    header.rtm_table = RT_TABLE_MAIN;
    if (message == nullptr || nlmsg_append(message.get(), &header, sizeof(header), NLMSG_ALIGNTO) < 0 ||
        nla_put_u32(message.get(), RTA_OIF, ifindex) < 0) {
      return absl::ResourceExhaustedError("no memory for a netlink message");
    }
    absl::Status status = Dump(socket, std::move(message), "reading routes", [&](nl_object* object) {
      auto* route = reinterpret_cast<rtnl_route*>(object);
      if (rtnl_route_get_table(route) != RT_TABLE_MAIN || rtnl_route_get_family(route) != family) return;
      if (rtnl_route_get_type(route) != RTN_UNICAST) return;
      for (int i = 0; i < rtnl_route_get_nnexthops(route); ++i) {
        rtnl_nexthop* nexthop = rtnl_route_nexthop_n(route, i);
        if (rtnl_route_nh_get_ifindex(nexthop) != static_cast<int>(ifindex)) continue;
        std::string text = FromNetlink(rtnl_route_get_dst(route), family == AF_INET6).ToString();
        nl_addr* gateway = rtnl_route_nh_get_gateway(nexthop);
        if (gateway != nullptr) {
          const bool is_ipv6 = nl_addr_get_family(gateway) == AF_INET6;
          absl::StrAppend(&text, " via ", FromNetlink(gateway, is_ipv6).AddressText());
        }
        texts.push_back(std::move(text));
      }
    });
    if (!status.ok()) return status;
  }
  return texts;
}

}  // namespace ringswitch::agent
