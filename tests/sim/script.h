#pragma once

// What the world does to the switch, one action after the other: drawn from a seed, printed one a line, read
// back.
//
// Theory of operation. An action is a kind and a few numbers that say all of it, and a seed of its own for
// what happens by chance meanwhile (whose turn it is, what the kernel may decide). So actions can be left out
// of a script and the others still mean the same. An action that makes no sense, since the one that it
// depended on is gone, does nothing.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringswitch::sim {

inline constexpr size_t kArguments = 7;

// X(enumerator, name, names of its numbers). `port` is an index, `detail` the seed of a port's configuration.
#define RINGSWITCH_ACTIONS(X)                                   \
  X(kStart, "start", "workers buffers multishot")               \
  X(kFrame, "frame", "port to from tag kind length count")      \
  X(kClock, "clock", "ms")                                      \
  X(kSettle, "settle", "ticks")                                 \
  X(kAddPort, "add-port", "switch detail packet offload")       \
  X(kRemovePort, "remove-port", "port")                         \
  X(kUpdatePort, "update-port", "port detail")                  \
  X(kDetach, "detach", "port")                                  \
  X(kAttach, "attach", "port packet")                           \
  X(kUpdateSwitch, "update-switch", "switch aware mask ageing") \
  X(kAddStatic, "add-static", "switch mac vid port replace")    \
  X(kRemoveEntry, "remove-entry", "switch mac vid")             \
  X(kFlush, "flush", "switch port vid kind")                    \
  X(kReadFault, "read-fault", "port error")                     \
  X(kWriteFault, "write-fault", "port error count")             \
  X(kEnterFault, "enter-fault", "worker fault")                 \
  X(kMissCancel, "miss-cancel", "port")                         \
  X(kDeviceDown, "device-down", "port error")                   \
  X(kDeviceGone, "device-gone", "port")

enum class ActionKind : uint8_t {
#define RINGSWITCH_ENUMERATOR(name, text, arguments) name,
  RINGSWITCH_ACTIONS(RINGSWITCH_ENUMERATOR)
#undef RINGSWITCH_ENUMERATOR
};

struct Action {
  ActionKind kind = ActionKind::kSettle;
  std::array<uint64_t, kArguments> arguments{};
  uint64_t seed = 0;
};

inline constexpr uint64_t kAny = 0xffff;  // of a flush's numbers; no tag of a frame: kUntagged
inline constexpr uint64_t kUntagged = 0x10000;

// How a frame is made, beside its addresses and its tag.
enum FrameKind : uint64_t {
  kPlain,
  kServiceTagged,  // 0x88a8 outside
  kTwoTags,        // another 0x8100 tag inside
  kCut,            // to `length`
  kChecksum,       // of UDP over IPv4, left to the receiver
  kOddChecksum,    // of no transport header
  kSuperFrame,     // TCP over IPv4 in segments
  kBadChecksum,    // outside the frame
  kBadSuperFrame,  // segments of what is no TCP
  kOversized,      // longer than a buffer
  kFrameKinds
};

std::string Print(const Action& action);
// None: not a line of a script. Blank lines and those that begin with '#' are for the caller to skip.
std::optional<Action> Parse(const std::string& line);

}  // namespace ringswitch::sim
