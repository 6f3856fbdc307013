#pragma once

// Netdevs: devices of the agent's own namespace that somebody else made. What may become a port, and what may
// not because the node lives on it.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/bridge/frame.h"
#include "server/agent/links.h"
#include "server/agent/netlink.h"

namespace ringswitch::agent {

struct NetdevInfo {
  uint32_t ifindex = 0;
  bridge::MacAddress mac;
  uint32_t mtu = 0;
  bool is_set_up = false;  // IFF_UP
};

// NOT_FOUND: no such device. FAILED_PRECONDITION, with a reason and a remedy: no Ethernet device; another
// device's port; it carries addresses or the default route of the node and may not; with the host's stack
// dropped, devices on top of it (VLANs, macvlans) would be cut off.
absl::StatusOr<NetdevInfo> CheckNetdev(const NetlinkSocket& socket, const DeviceRef& device);

// Whether a port on the device can carry frames: set up, and with carrier.
bool IsOperational(uint32_t flags);
// Of the device as it is now.
absl::StatusOr<bool> IsOperational(const NetlinkSocket& socket, uint32_t ifindex);

absl::Status SetUp(const NetlinkSocket& socket, uint32_t ifindex, const std::string& ifname);
absl::Status SetDown(const NetlinkSocket& socket, const std::string& ifname);

}  // namespace ringswitch::agent
