#pragma once

// A capture: copies of the first bytes of frames that ports receive, transmit or drop, on their way to
// somebody who looks.
//
// Theory of operation. A capture has one bounded ring of bytes per worker: the worker appends records of
// variable length, one reader takes them, neither waits. A ring that is full loses the record and counts it;
// forwarding never notices. Workers look at one pointer per batch, so that no capture costs nothing. Frames
// are recorded as they are on the wire, without the virtio-net header; a super-frame is one record of its
// full length.
//
// A port's index may become another port's. Whoever removes a port calls Forget before that, so that a
// capture never shows frames of a port that nobody asked for; what was recorded before is still the old
// port's.
//
// Ownership: Record by the worker `worker`, Take by one thread at a time, the rest by any thread. The memory
// of a ring is the system's until a worker first writes there, so rings of workers that do not exist cost
// nothing.

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/bridge/drop_reason.h"
#include "dataplane/bridge/epoch.h"
#include "dataplane/bridge/forwarding_config.h"

namespace ringswitch {

inline constexpr uint32_t kCaptureSnapLengthMin = 14;           // bytes: addresses and EtherType
inline constexpr uint32_t kCaptureSnapLengthDefault = 262'144;  // bytes: whole frames; readers take no more
inline constexpr uint32_t kCaptureRingBytes = 4 << 20;          // per worker
inline constexpr size_t kCapturesMax = 4;                       // at a time

enum class CaptureDirection : uint8_t {
  kReceive,   // came from the device
  kTransmit,  // was taken by the device, or would have been, had it not been dropped
};

struct CaptureOptions {
  std::bitset<bridge::kPortsMax> ports;
  bool receive = true;
  bool transmit = true;
  bool drops_only = false;  // only frames and copies that were dropped
  uint32_t snap_length = kCaptureSnapLengthDefault;
};

struct CapturedFrame {
  uint64_t time_ns = 0;  // since 1970, of the batch
  bridge::PortIndex port = bridge::kNoPort;
  CaptureDirection direction{};
  std::optional<bridge::DropReason> dropped;  // why, if it went nowhere
  uint32_t length = 0;                        // of the frame
  std::vector<uint8_t> bytes;                 // the first ones
};

class Capture {
 public:
  // `ring_bytes`: a power of two.
  explicit Capture(const CaptureOptions& options, uint32_t ring_bytes = kCaptureRingBytes);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // By the worker. No lock, no allocation. `frame` has `length` bytes.
  bool wants(bridge::PortIndex port) const {
    return (ports_[port / 64].load(std::memory_order_relaxed) >> (port % 64) & 1) != 0;
  }
  void Record(uint32_t worker, uint64_t time_ns, bridge::PortIndex port, CaptureDirection direction,
              std::optional<bridge::DropReason> dropped, const uint8_t* frame, uint32_t length);

  // Nothing more is recorded of the port once every worker has passed a batch boundary.
  void Forget(bridge::PortIndex port);
  // False: all have been forgotten.
  bool has_ports() const;

  // By the reader: appends what there is, the oldest of all workers first, each worker's in its order; at
  // most `frames_max`, and no more bytes of frames than `bytes_max` unless the first alone has more.
  void Take(size_t frames_max, std::vector<CapturedFrame>* frames, size_t bytes_max = SIZE_MAX);
  // Records that found their ring full.
  uint64_t lost() const;

 private:
  struct Ring;
  const CaptureOptions options_;
  std::array<std::atomic<uint64_t>, bridge::kPortsMax / 64> ports_;  // those that are left of options_.ports
  std::array<std::unique_ptr<Ring>, bridge::kWorkersMax> rings_;
};

}  // namespace ringswitch
