#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cni-plugin/config.h"
#include "cni-plugin/invocation.h"

namespace ringswitch::cni {

// What each verb does. The plugin is thin: it asks the agent for every change of a device or a namespace, and
// the IPAM plugin for addresses; it only keeps the order, and undoes what it has asked for.
//
// ADD: device, then IPAM (a dhcp daemon looks for the device), then addresses. A failure takes all of it
// back, as DEL does: port first and address after, or a device that is still there would answer for an
// address given to the next. DEL: also with the namespace gone, twice, or never added. While no agent answers
// it is spooled and is a success.
//
// Time: an agent that is down or stopped costs less than 3 s in STATUS and less than 10 s elsewhere.

// The result, as text.
absl::StatusOr<std::string> Add(const NetworkConfig& config, const Invocation& invocation);
absl::Status Del(const NetworkConfig& config, const Invocation& invocation);
absl::Status Check(const NetworkConfig& config, const Invocation& invocation);
absl::Status Status(const NetworkConfig& config, const Invocation& invocation);
absl::Status Gc(const NetworkConfig& config, const Invocation& invocation);

}  // namespace ringswitch::cni
