#pragma once

// Where a worker lets captures see frames.
//
// Theory of operation. The captures that run are one immutable list, published and replaced like the
// configuration: a worker looks at the pointer between batches, and there is none while nobody captures, so
// that each place where frames come or go costs one predictable branch.
//
// Ownership: the worker's thread; the list outlives its use (epoch.h).

#include <time.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "dataplane/bridge/drop_reason.h"
#include "dataplane/bridge/forwarding_config.h"
#include "dataplane/capture.h"

namespace ringswitch {

struct CaptureList {
  std::array<Capture*, kCapturesMax> captures{};
  size_t count = 0;
};

class CaptureTap {
 public:
  explicit CaptureTap(uint32_t worker) : worker_(worker) {}

  // Between batches. `list` null: nobody captures.
  void Begin(const CaptureList* list) {
    list_ = list;
    if (list == nullptr) return;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    time_ns_ = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  }
  bool on() const { return list_ != nullptr; }

  void Record(bridge::PortIndex port, CaptureDirection direction, std::optional<bridge::DropReason> dropped,
              const uint8_t* frame, uint32_t length) const {
    for (size_t i = 0; i < list_->count; ++i) {
      Capture& capture = *list_->captures[i];
      if (capture.wants(port)) capture.Record(worker_, time_ns_, port, direction, dropped, frame, length);
    }
  }

 private:
  const uint32_t worker_;
  const CaptureList* list_ = nullptr;
  uint64_t time_ns_ = 0;
};

}  // namespace ringswitch
