#pragma once

// What a receive from a packet socket has put into memory: where the frame is, and the tag put back into it.
//
// Theory of operation. A multishot receive fills a buffer with what it says of the frame, room for control
// data, then the frame behind its virtio-net header; a single one fills the buffer with the latter and says
// the rest elsewhere. The tag that the kernel took out of the frame is told in the control data. Functions on
// bytes, inline for the frame path (receiver.cc), and in reach of whoever has bytes of his own (tests/fuzz).
//
// Limits. The kernel's numbers are taken as they are, but what lies in the buffer is read within its first
// kFrameOffset bytes only, whatever they say.

#include <linux/if_packet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "dataplane/io/buffer_pool.h"
#include "dataplane/io/virtio_net_header.h"

namespace ringswitch::io {

// What a read brought.
struct Received {
  uint8_t* header = nullptr;  // virtio-net header with the frame behind it, in the completion's buffer
  uint32_t size = 0;          // of both
  bool truncated = false;
};

inline constexpr size_t kControlSize = 48;  // auxiliary data needs 40; puts the frame on a boundary of 32
inline constexpr uint32_t kFrameOffset = sizeof(io_uring_recvmsg_out) + kControlSize;  // multishot
inline constexpr uint16_t kTpidDefault = 0x8100;  // of a tag whose TPID the kernel does not tell

// What the kernel tells of a received frame beside it.
inline void FindAuxiliaryData(const uint8_t* control, size_t size, tpacket_auxdata* auxiliary) {
  cmsghdr header;
  if (size < CMSG_LEN(sizeof *auxiliary)) return;
  std::memcpy(&header, control, sizeof header);
  if (header.cmsg_level != SOL_PACKET || header.cmsg_type != PACKET_AUXDATA) return;
  std::memcpy(auxiliary, control + CMSG_LEN(0), sizeof *auxiliary);
}

// Puts the tag that the kernel took out back into the frame: header and addresses move down.
inline void RestoreTag(const tpacket_auxdata& auxiliary, Received* received) {
  constexpr size_t kAddressesLength = 12;
  constexpr int kTagLength = 4;
  const bool has_tpid = (auxiliary.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
  const uint16_t tpid = has_tpid ? auxiliary.tp_vlan_tpid : kTpidDefault;
  uint8_t* moved = received->header - kTagLength;
  std::memmove(moved, received->header, kVirtioNetHeaderSize + kAddressesLength);
  uint8_t* tag = moved + kVirtioNetHeaderSize + kAddressesLength;
  tag[0] = static_cast<uint8_t>(tpid >> 8);
  tag[1] = static_cast<uint8_t>(tpid);
  tag[2] = static_cast<uint8_t>(auxiliary.tp_vlan_tci >> 8);
  tag[3] = static_cast<uint8_t>(auxiliary.tp_vlan_tci);
  MoveOffsets(moved, kTagLength);
  received->header = moved;
  received->size += kTagLength;
}

// Makes of the whole buffer, as `received` has it, what a multishot receive has put there.
inline void LocateInBuffer(Received* received, tpacket_auxdata* auxiliary) {
  io_uring_recvmsg_out out;
  std::memcpy(&out, received->header, sizeof out);
  FindAuxiliaryData(received->header + sizeof out, out.controllen, auxiliary);
  received->header += kFrameOffset;
  received->size -= std::min(received->size, kFrameOffset);
  received->truncated = (out.flags & MSG_TRUNC) != 0;
}

// Beside the buffer, of a single receive.
inline void LocateBeside(const msghdr& message, const uint8_t* control, Received* received,
                         tpacket_auxdata* auxiliary) {
  FindAuxiliaryData(control, message.msg_controllen, auxiliary);
  received->truncated = (message.msg_flags & MSG_TRUNC) != 0;
}

// A TCI of 0 is a tag too.
inline void RestoreTagIfTaken(const tpacket_auxdata& auxiliary, Received* received) {
  if ((auxiliary.tp_status & TP_STATUS_VLAN_VALID) != 0) RestoreTag(auxiliary, received);
}

}  // namespace ringswitch::io
