#pragma once

// The virtio-net header in plain words: what it says of a frame, how it moves with a tag, what has to be done
// in its place. Written from virtio 1.2 (5.1.6) and RFC 1071, not from dataplane/io.

#include <cstdint>
#include <optional>
#include <vector>

namespace ringswitch::sim {

using Bytes = std::vector<uint8_t>;

struct Offload {
  unsigned flags = 0, type = 0;
  int header_length = 0, segment_size = 0, start = 0, offset = 0;
  bool needs_checksum() const { return flags % 2 == 1; }
  bool is_super_frame() const { return type != 0; }
};

// Bytes as a device has them: ten of header, then the frame.
Offload OffloadOf(const Bytes& bytes);
Bytes FrameOf(const Bytes& bytes);
Bytes Join(const Offload& offload, const Bytes& frame);

// Where the headers of a frame are that is IPv4, without options and fragments, behind at most two tags.
struct Ipv4Headers {
  size_t ip = 0, transport = 0;
};
std::optional<Ipv4Headers> FindIpv4(const Bytes& frame);

// The longest frame on a wire; none: the header contradicts the frame. Of super-frames, TCP that
// FindIpv4 finds is known here.
std::optional<int64_t> WireLength(const Offload& offload, const Bytes& frame);

// As it is before it is forwarded: a checksum that is not of a transport header is completed at once, and
// header_length tells of a super-frame's headers only.
void SettleOffload(Offload* offload, Bytes* frame);
// After the frame has grown by `delta` bytes in front of its network header.
Offload Moved(Offload offload, int delta);
Bytes WithChecksum(const Offload& offload, Bytes frame);
std::vector<Bytes> Segments(const Offload& offload, const Bytes& frame);

}  // namespace ringswitch::sim
