#pragma once

// Veth pairs: the pod's end in its namespace, the host's end in the agent's own.
//
// The host's end is a device of the switch's and of nobody else: a fixed MAC given at creation (one given
// later would be replaced by udev's policy), no IPv6, so that it sends nothing by itself, no address. Both
// ends are made by one request, each in its place: 2.4 ms, where moving one costs ten times that under RTNL.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/bridge/frame.h"
#include "server/agent/links.h"

namespace ringswitch::agent {

struct VethPair {
  NamespaceId netns_id;  // of the pod's end
  uint32_t host_ifindex = 0;
};

// Makes the pair: the pod's end set up, the host's end down, so that nothing passes yet. Undone on failure.
// NOT_FOUND: no such namespace. ALREADY_EXISTS: one of the names is taken.
absl::StatusOr<VethPair> MakeVeth(const DeviceRef& device, bridge::MacAddress mac, uint32_t mtu);

// Finds the pair and makes sure that it is one. NOT_FOUND: the namespace is gone, or another one than
// `netns_id`. FAILED_PRECONDITION: one end is not there, or they do not belong together.
absl::StatusOr<VethPair> FindVeth(const DeviceRef& device, NamespaceId netns_id);

// Deletes the pair by its host's end; nothing where that is gone or another device has its name.
void RemoveVeth(const DeviceRef& device);

}  // namespace ringswitch::agent
