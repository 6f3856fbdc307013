#pragma once

// Packet sockets: how the switch gets at an Ethernet device that others made, such as a NIC or the host's end
// of a veth pair.
//
// Theory of operation. The socket is bound to the device's index, hears what the device receives and sends
// through it. It speaks of offloads by the virtio-net header of 10 bytes that TAPs have too, and of the tag
// that the kernel has taken out of a frame by auxiliary data. What the device transmits, by this socket or
// any other, it does not hear. Everything is asked for before the socket is bound, which comes last: nothing
// that was queued earlier has another form. O_NONBLOCK is set before a ring sees the file. The device is
// promiscuous as long as the socket is open.
//
// When the device goes down the socket reports ENETDOWN once, and hears again when it is up. When the device
// is deleted the socket reports ENETDOWN once and then is silent for ever; it never binds to another device
// of that name.
//
// Everything happens in the calling thread's network namespace.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "dataplane/file.h"

namespace ringswitch::io {

// As ringswitch::OpenNetdev in dataplane.h.
absl::StatusOr<File> OpenPacketSocket(const std::string& ifname);
// Whether the device was deleted.
bool IsPacketDeviceGone(const File& socket);
// Frames that found the receive queue full since the last call.
uint64_t TakeLostFrames(const File& socket);

}  // namespace ringswitch::io
