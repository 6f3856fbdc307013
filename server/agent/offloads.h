#pragma once

// Offloads of a pod's end of a veth pair: those that a packet socket at the host's end cannot be told of.

#include <string>

#include "absl/status/status.h"

namespace ringswitch::agent {

// Clears on the interface of the calling thread's network namespace every transmit offload whose frames a
// virtio-net header cannot describe: tunnels, fraglists, SCTP, and what the kernel invents next. The pod's
// stack then segments (and completes SCTP's CRC) itself. TCP, and UDP where the kernel's packet sockets know
// it, keep theirs.
absl::Status ClearIndescribableOffloads(const std::string& ifname);

}  // namespace ringswitch::agent
