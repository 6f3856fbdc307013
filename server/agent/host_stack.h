#pragma once

// The gate between devices and the host's own stack: frames of a device that is a port are the switch's
// alone.
//
// Theory of operation. A packet socket is handed a frame before the ingress hook of nftables sees it, so one
// chain per device with the policy drop leaves the socket its frames and the host's stack nothing: no ARP
// answer, no forwarding, no local delivery. The chains are in a table with the owner flag (Linux 5.12), which
// belongs to our netlink socket: nobody else changes it, `nft flush ruleset` passes it by, and the kernel
// deletes it with the socket, so however the agent ends no device stays deaf. The messages are made here
// instead of by libnftables, because that one opens its socket anew when a dump is disturbed, which would
// delete the table, and reads the node's whole rule set first.
//
// Limits. One transaction per device: each wakes who listens to nftables events. A tc program on the device's
// ingress runs before the chain and may still take a frame elsewhere. Frames that the host itself sends out
// of the device are not its concern.
//
// Threads. Any; one mutex.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/agent/netlink.h"

namespace ringswitch::agent {

class HostStackGate {
 public:
  // From now on the host's stack does not hear the device. A device that came back under its name is shut
  // again. FAILED_PRECONDITION where the kernel has no such chains; the message names the remedy.
  absl::Status Shut(const std::string& ifname, uint32_t ifindex);
  // It hears it again; nothing where it was not shut. An `ifindex` other than 0 speaks of that device only,
  // not of another that has its name now.
  void Open(const std::string& ifname, uint32_t ifindex = 0);

 private:
  absl::Status MakeTable();                     // mutex_ held
  void DeleteChain(const std::string& ifname);  // mutex_ held

  std::mutex mutex_;
  std::optional<NetlinkSocket> socket_;  // owns the table; opened when first needed
  std::string table_;
  std::map<std::string, uint32_t> shut_;  // ifindex by name
};

}  // namespace ringswitch::agent
