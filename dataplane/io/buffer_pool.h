#pragma once

// The frame buffers of one worker.
//
// Theory of operation. A buffer is headroom, virtio-net header, frame:
//
//   | headroom 22 | virtio-net header 10 | frame, up to a 64 KiB super-frame with tags |
//
// so that tags can be pushed by moving header and addresses down, and header and first bytes lie in one cache
// line. What a multishot receive delivers lies behind what it says of the frame, and has more headroom. The
// stride between buffers is an odd number of cache lines: a power of two would put every frame's header into
// the same few cache sets, at half the speed. The memory is anonymous and touched only where frames are put,
// so what small frames use is a page or two per buffer.
//
// A buffer is in exactly one of four places: in the kernel's buffer group, in the reserve that copies are
// made in, referenced, or returned and not yet given back to the kernel (Recycle does that once per batch).
// References count the writes of it that are queued, and whoever holds it meanwhile.
//
// Ownership: the worker's thread. held() may be read by anybody.

#include <liburing.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/io/ring.h"

namespace ringswitch::io {

inline constexpr uint32_t kVirtioNetHeaderSize = 10;
// Bytes before the virtio-net header. A tag that the kernel took out of the frame and one that is pushed need
// 8; the rest puts the frame on a boundary of 32.
inline constexpr uint32_t kHeadroom = 22;
inline constexpr uint32_t kReadSize =
    66'048;  // header, 65535 + 14 + two tags, and room to tell that a frame was longer
inline constexpr uint32_t kStride = 66'112;  // 1033 cache lines
static_assert(kHeadroom + kReadSize <= kStride && kStride % 128 == 64);

class BufferPool {
 public:
  static constexpr uint16_t kGroup = 0;
  static constexpr uint16_t kNoBuffer = 0xffff;

  // `buffers` in all, of which a sixteenth (two at least) is the reserve. The pool must outlive the ring's
  // last operation.
  static absl::StatusOr<std::unique_ptr<BufferPool>> Create(uint32_t buffers, Ring* ring);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  uint8_t* header(uint16_t buffer) const {
    return memory_ + static_cast<size_t>(buffer) * kStride + kHeadroom;
  }

  // The kernel delivered it: one reference.
  void Take(uint16_t buffer) {
    references_[buffer] = 1;
    SetHeld(held_count_ + 1);
  }
  // One from the reserve, with one reference; kNoBuffer: none left.
  uint16_t TakeReserve() {
    if (reserve_.empty()) return kNoBuffer;
    uint16_t buffer = reserve_.back();
    reserve_.pop_back();
    Take(buffer);
    return buffer;
  }
  void AddReference(uint16_t buffer) { ++references_[buffer]; }
  void Release(uint16_t buffer) {
    if (--references_[buffer] != 0) return;
    SetHeld(held_count_ - 1);
    if (reserve_.size() < reserve_size_) {
      reserve_.push_back(buffer);
    } else {
      returned_.push_back(buffer);
    }
  }
  // Gives the returned buffers to the kernel.
  void Recycle();

  uint32_t size() const { return size_; }
  uint32_t provided() const { return size_ - reserve_size_; }  // most that reads can fill at once
  uint32_t held() const { return held_.load(std::memory_order_relaxed); }

 private:
  BufferPool() = default;
  void SetHeld(uint32_t count) {
    held_count_ = count;
    held_.store(count, std::memory_order_relaxed);
  }

  uint8_t* memory_ = nullptr;
  io_uring_buf_ring* ring_ = nullptr;
  uint32_t size_ = 0;
  uint32_t reserve_size_ = 0;
  uint32_t entries_ = 0;  // of ring_, a power of two
  uint32_t held_count_ = 0;
  std::atomic<uint32_t> held_{0};
  std::vector<uint16_t> references_;  // the most that refer to one buffer is one per port
  std::vector<uint16_t> reserve_;
  std::vector<uint16_t> returned_;
};

}  // namespace ringswitch::io
