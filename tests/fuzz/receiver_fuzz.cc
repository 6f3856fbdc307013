// What a receive from a packet socket brings: whatever the buffer, the control data and the kernel's words
// for them hold, the frame is found where it is, its tag is put back, and nothing outside the buffer is
// touched.
//
// Theory of operation. The input fills a buffer of the shape that the kernel fills (io_uring_recvmsg_out,
// control data, virtio-net header, frame; or the last two, with the rest beside), each part well-formed or as
// it comes. The buffer is as long as the headroom, what was received and the least that every buffer has: so
// AddressSanitizer sees a step outside. The same is read once more from a vector, field by field, and
// compared; then a frame that would go on is pushed the tag that it may still get, for which there must be
// room.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "dataplane/io/receiver_message.h"
#include "dataplane/io/virtio_net_header.h"
#include "tests/fuzz/input.h"

namespace ringswitch::io {
namespace {

using fuzz::Bytes;
using fuzz::Input;
using fuzz::Require;

constexpr size_t kAddresses = 12, kTag = 4;
// Every buffer has these, filled or not.
constexpr size_t kBufferMin = kFrameOffset + kVirtioNetHeaderSize + kAddresses;
// Fields of struct cmsghdr and of struct tpacket_auxdata behind it.
constexpr size_t kCmsgLevel = 8, kCmsgType = 12, kStatus = 16, kTci = 32, kTpid = 34, kAuxiliaryEnd = 36;

struct Sample {
  bool is_multishot = false;
  uint32_t control_length = 0;
  uint32_t flags = 0;
  Bytes control = Bytes(kControlSize);
  Bytes content;          // virtio-net header and frame
  size_t received = 0;    // bytes in the buffer
  bool is_short = false;  // it has not all of what is before the frame
};

template <typename Value>
void Store(Value value, size_t at, Bytes* bytes) {
  std::memcpy(&(*bytes)[at], &value, sizeof value);
}
template <typename Value>
Value Load(const Bytes& bytes, size_t at) {
  Value value;
  std::memcpy(&value, &bytes[at], sizeof value);
  return value;
}

Sample ReadSample(Input* input) {
  Sample sample;
  sample.is_multishot = !input->OneIn(3);
  static constexpr uint32_t kLengths[] = {40, 36, 35, 0, 48, UINT32_MAX};
  sample.control_length = input->Pick(kLengths);
  sample.flags = input->OneIn(4) ? static_cast<uint32_t>(input->Number(4)) : 0;
  if (input->OneIn(4)) {
    const Bytes raw = input->Take(kControlSize);
    std::copy(raw.begin(), raw.end(), sample.control.begin());
  } else {
    Store(uint64_t{kAuxiliaryEnd}, 0, &sample.control);
    Store(input->OneIn(16) ? 0 : SOL_PACKET, kCmsgLevel, &sample.control);
    Store(input->OneIn(16) ? 0 : PACKET_AUXDATA, kCmsgType, &sample.control);
    Store(static_cast<uint32_t>(input->Byte()), kStatus, &sample.control);
    Store(input->Word(), kTci, &sample.control);
    Store(input->OneIn(2) ? uint16_t{0x88a8} : input->Word(), kTpid, &sample.control);
  }
  sample.is_short = sample.is_multishot && input->OneIn(8);
  if (sample.is_short) {
    sample.received = input->Byte() % kFrameOffset;
    return sample;
  }
  sample.content = input->Take(input->left());
  sample.received = sample.content.size() + (sample.is_multishot ? kFrameOffset : 0);
  return sample;
}

// The tag that was taken out of the frame: TPID and TCI.
std::optional<std::pair<uint16_t, uint16_t>> TakenTag(const Sample& sample) {
  if (sample.control_length < kAuxiliaryEnd) return std::nullopt;
  if (Load<int>(sample.control, kCmsgLevel) != 263 || Load<int>(sample.control, kCmsgType) != 8)
    return std::nullopt;
  const auto status = Load<uint32_t>(sample.control, kStatus);
  if ((status & 0x10) == 0) return std::nullopt;
  const uint16_t tpid = (status & 0x40) != 0 ? Load<uint16_t>(sample.control, kTpid) : uint16_t{0x8100};
  return std::pair(tpid, Load<uint16_t>(sample.control, kTci));
}

Bytes ExpectedFrame(const Sample& sample) {
  Bytes frame(sample.content.begin() + kVirtioNetHeaderSize, sample.content.end());
  if (const auto tag = TakenTag(sample)) {
    const uint8_t bytes[] = {static_cast<uint8_t>(tag->first >> 8), static_cast<uint8_t>(tag->first),
                             static_cast<uint8_t>(tag->second >> 8), static_cast<uint8_t>(tag->second)};
    frame.insert(frame.begin() + kAddresses, std::begin(bytes), std::end(bytes));
  }
  return frame;
}

// As the worker goes on with it.
void CheckFrame(const Sample& sample, Received received, const uint8_t* begin) {
  uint8_t* frame = received.header + kVirtioNetHeaderSize;
  const uint32_t length = received.size - kVirtioNetHeaderSize;
  const Bytes expected = ExpectedFrame(sample);
  Require(length == expected.size(), "the frame is as long as received, and its tag");
  Require(std::equal(expected.begin(), expected.end(), frame), "the frame is as received, and its tag");
  VirtioNetHeader header = LoadVirtioNetHeader(received.header);
  VirtioNetHeader before = LoadVirtioNetHeader(sample.content.data());
  if (TakenTag(sample).has_value()) {
    if ((before.flags & kNeedsChecksum) != 0)
      before.csum_start = static_cast<uint16_t>(before.csum_start + kTag);
    if (before.hdr_len != 0) before.hdr_len = static_cast<uint16_t>(before.hdr_len + kTag);
  }
  Require(std::memcmp(&header, &before, sizeof header) == 0, "the header's offsets move with the tag");
  if (length < 14 || received.truncated) return;
  const std::optional<uint32_t> wire_length = WireLength(received.header, frame, length);
  if (!wire_length) return;
  Require(*wire_length <= length, "a frame is not longer on the wire");
  Require(received.header - kTag >= begin, "there is room for one tag more");
  std::memmove(received.header - kTag, received.header, kVirtioNetHeaderSize + kAddresses);
}

void Check(const Sample& sample) {
  const size_t size = std::max(sample.received, kBufferMin);
  const std::unique_ptr<uint8_t[]> memory(new uint8_t[kHeadroom + size]());
  uint8_t* const buffer = memory.get() + kHeadroom;
  uint8_t* content = buffer;
  Received received{.header = buffer, .size = static_cast<uint32_t>(sample.received)};
  if (sample.is_multishot) {
    const io_uring_recvmsg_out out{.namelen = 0,
                                   .controllen = sample.control_length,
                                   .payloadlen = static_cast<uint32_t>(sample.content.size()),
                                   .flags = sample.flags};
    std::memcpy(buffer, &out, sizeof out);
    std::copy(sample.control.begin(), sample.control.end(), buffer + sizeof out);
    content += kFrameOffset;
  }
  std::copy(sample.content.begin(), sample.content.end(), content);

  tpacket_auxdata auxiliary{};
  if (sample.is_multishot) {
    LocateInBuffer(&received, &auxiliary);
  } else {
    msghdr message{};
    message.msg_controllen = sample.control_length;
    message.msg_flags = static_cast<int>(sample.flags);
    LocateBeside(message, sample.control.data(), &received, &auxiliary);
  }
  RestoreTagIfTaken(auxiliary, &received);
  Require(received.truncated == ((sample.flags & MSG_TRUNC) != 0), "the kernel says what is truncated");
  Require(received.header >= memory.get(), "the header is in the buffer");
  Require(received.header + received.size <= buffer + size, "and so is the frame's end");
  Require(!sample.is_short || received.size <= kTag, "what is short has no frame");
  const bool is_whole = sample.content.size() >= kVirtioNetHeaderSize + kAddresses;
  if (is_whole) CheckFrame(sample, received, memory.get());
}

}  // namespace
}  // namespace ringswitch::io

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringswitch::fuzz::Input input(data, size);
  ringswitch::io::Check(ringswitch::io::ReadSample(&input));
  return 0;
}
