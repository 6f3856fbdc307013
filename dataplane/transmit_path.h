#pragma once

// From a decision to its writes: the forms of a frame are made, and what a device cannot take is done in its
// place.
//
// Theory of operation. A frame leaves in at most two forms, with a tag or without. Where all copies are of
// one form the frame is edited where it lies; where both are needed one is made in a buffer of the reserve.
// All copies of a form share its buffer by reference. A port whose device takes no offload gets its frames
// with checksums completed, in place, since a complete checksum is right for every receiver of the form; a
// super-frame is segmented into buffers of the reserve, and from then on the ledger counts its segments: each
// is a copy that is transmitted or dropped by itself.
//
// Nothing waits, and no buffer is held for a slow device. Buffers of the reserve are in use until their
// writes are done, so that where none is left the writes queued so far are submitted first.
//
// Collecting completions brings reads too. They are put aside in `arrivals`, for the worker to handle in
// their turn, as is everything else that is no write.
//
// Ownership: the worker's thread.

#include <bitset>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/bridge/counters.h"
#include "dataplane/bridge/forwarding_config.h"
#include "dataplane/bridge/pipeline.h"
#include "dataplane/capture_tap.h"
#include "dataplane/io/buffer_pool.h"
#include "dataplane/io/ring.h"
#include "dataplane/io/segmentation.h"
#include "dataplane/io/transmitter.h"

namespace ringswitch {

// One form of a frame: its virtio-net header with the frame behind it, somewhere in a buffer.
struct FrameForm {
  uint16_t buffer = io::BufferPool::kNoBuffer;
  uint8_t* header = nullptr;
  uint32_t length = 0;  // of the frame
  uint8_t* frame() const { return header + io::kVirtioNetHeaderSize; }
};

class TransmitPath {
 public:
  // `counters`: kPortsMax elements, this worker's own. `arrivals`: as above.
  TransmitPath(io::Ring* ring, io::BufferPool* pool, std::span<bridge::PortCounters> counters,
               const CaptureTap* capture, std::vector<io::Completion>* arrivals);
  TransmitPath(const TransmitPath&) = delete;
  TransmitPath& operator=(const TransmitPath&) = delete;

  // Between batches.
  void SetPort(bridge::PortIndex port, bool takes_offload);
  // No write for the port's device is under way.
  bool idle(bridge::PortIndex port) const { return transmitter_.idle(port); }

  // Queues the copies of a frame that is forwarded. `original` is the frame as received and may be edited.
  void Forward(const bridge::Decision& decision, FrameForm original);
  // Does what is queued. Failures are known, and counted, after the next Advance and Collect.
  void Submit();
  // Counts the writes that are complete, puts everything else aside.
  void Collect();

 private:
  static void Edit(FrameForm* form, bridge::TagEdit edit, const bridge::Decision& decision);
  void ForwardMixed(const bridge::Decision& decision, FrameForm original);
  uint16_t TakeReserveBuffer();
  void Queue(bridge::PortIndex port, const FrameForm& form);
  void QueueWithoutOffload(bridge::PortIndex port, const FrameForm& form);
  void QueueSegments(bridge::PortIndex port, const FrameForm& form, const io::Segmentation& segmentation);
  void Write(bridge::PortIndex port, const FrameForm& form);
  void AdvanceAndCollect();
  void CountWrite(const io::Completion& completion);
  void Drop(bridge::PortIndex port, bridge::DropReason reason, const FrameForm& form);

  io::Ring* const ring_;
  io::BufferPool* const pool_;
  io::Transmitter transmitter_;
  const std::span<bridge::PortCounters> counters_;
  const CaptureTap* const capture_;
  std::vector<io::Completion>* const arrivals_;
  std::bitset<bridge::kPortsMax> without_offload_;
};

}  // namespace ringswitch
