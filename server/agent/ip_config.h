#pragma once

// Addresses and routes of an interface, through a netlink socket in its namespace.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/agent/ip_address.h"
#include "server/agent/links.h"
#include "server/agent/netlink.h"

namespace ringswitch::agent {

struct IpRoute {
  IpAddress destination;
  std::optional<IpAddress> gateway;
  uint32_t mtu = 0;       // 0: the interface's
  uint32_t priority = 0;  // 0: the kernel's default
};

// What Links::Configure is given, parsed.
struct IpConfig {
  std::vector<IpAddress> addresses;
  std::vector<IpRoute> routes;
};

// INVALID_ARGUMENT names the text that does not parse or does not fit.
absl::StatusOr<IpConfig> ParseIpConfig(const std::vector<std::string>& addresses,
                                       const std::vector<LinkRoute>& routes);

// Adds the addresses, then the routes to the main table; what this call added is taken back on failure. What
// is there already stays as it is. The calling thread must be in the socket's namespace, since IPv6 is
// enabled through /proc/sys where it was not.
absl::Status ApplyIpConfig(const NetlinkSocket& socket, const std::string& ifname, uint32_t ifindex,
                           const IpConfig& config);

// As the kernel lists them, IPv4 first.
absl::StatusOr<std::vector<std::string>> ListAddresses(const NetlinkSocket& socket, uint32_t ifindex);
// The main table's routes through the interface.
absl::StatusOr<std::vector<std::string>> ListRoutes(const NetlinkSocket& socket, uint32_t ifindex);

}  // namespace ringswitch::agent
