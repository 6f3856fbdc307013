#pragma once

// TAP devices: made, attached to again, described.
//
// Theory of operation. The flags are fixed for good, since attaching again demands the same: IFF_TAP,
// IFF_NO_PI, IFF_VNET_HDR, IFF_MULTI_QUEUE, virtio-net header of 10 bytes; and only a persistent one can be
// attached again. IFF_MULTI_QUEUE means that the kernel would let a second process attach and share the
// traffic, so OpenTap asks rtnetlink for the device's own account of its queues (IFLA_TUN_NUM_QUEUES; carrier
// says the same only while the device is up) before it attaches, and once more after: of two that race, at
// least one sees two queues and lets go. O_NONBLOCK is set before anything else may register the file with a
// ring: Linux 6.1 decides then whether operations run inline.
//
// Everything happens in the calling thread's network namespace.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/file.h"

namespace ringswitch::io {

// As ringswitch::OpenTap in dataplane.h.
absl::StatusOr<File> OpenTap(const std::string& ifname, bool create);
absl::Status SetTapPersistent(const File& tap, bool is_persistent);
// Whether the device was deleted. Asks for no lock of the kernel's.
bool IsTapGone(const File& tap);

}  // namespace ringswitch::io
