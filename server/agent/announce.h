#pragma once

// Announcements: the frames by which an interface tells its neighbours that an address is now at its MAC.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "dataplane/bridge/frame.h"
#include "server/agent/ip_address.h"

namespace ringswitch::agent {

// IPv4: an ARP announcement (RFC 5227, 2.3: a request whose sender and target are the address), broadcast.
// IPv6: an unsolicited neighbour advertisement with override flag (RFC 4861, 7.2.6) to all nodes.
std::vector<uint8_t> AnnouncementFrame(bridge::MacAddress mac, const IpAddress& address);

// Sends one frame for each address out of the interface of the calling thread's namespace.
absl::Status SendAnnouncements(uint32_t ifindex, bridge::MacAddress mac,
                               const std::vector<IpAddress>& addresses);

}  // namespace ringswitch::agent
