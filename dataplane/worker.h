#pragma once

// A worker: one thread that takes frames from its ports, has the pipeline decide, and writes them to any
// port.
//
// Theory of operation. worker.cc reads from top to bottom in the order of the loop: between two batches, and
// only there, the configuration is picked up, orders from the control side are carried out, and a slice of
// the FDB is aged; then the batch: reads are collected, each frame is handed to the pipeline, its copies are
// queued (transmit_path.h), everything is submitted. Nothing waits: a
// worker with nothing to do spins for a moment where that has paid lately, then sleeps in the kernel, outside
// every epoch.
//
// Ownership. Counters and statistics are written by the worker's thread and read by anybody. Orders come from
// one control thread at a time, one order at a time: Post, then Await.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/bridge/counters.h"
#include "dataplane/bridge/epoch.h"
#include "dataplane/bridge/forwarding_config.h"
#include "dataplane/bridge/meter.h"
#include "dataplane/bridge/pipeline.h"
#include "dataplane/capture_tap.h"
#include "dataplane/dataplane.h"
#include "dataplane/file.h"
#include "dataplane/io/buffer_pool.h"
#include "dataplane/io/receiver.h"
#include "dataplane/io/ring.h"
#include "dataplane/transmit_path.h"

namespace ringswitch {

// What all workers share.
struct WorkerShared {
  bridge::EpochDomain epochs;
  std::atomic<const bridge::ForwardingConfig*> config{nullptr};
  std::atomic<const CaptureList*> captures{nullptr};  // null: none
  std::vector<bridge::PortMeters> meters{bridge::kPortsMax};
};

struct WorkerOptions {
  uint32_t index = 0;
  uint32_t buffers = kBuffersPerWorkerDefault;
  RxMode rx_mode = RxMode::kAuto;
};

struct WorkerOrder {
  enum class Kind : uint8_t {
    kSetFile,       // the port's file may be written to
    kStartReading,  // the receive queue is this worker's
    kStopReading,   // done when the last read has completed
    kClearFile,     // done when nothing of the worker refers to the file
    kExit,
  };
  Kind kind{};
  bridge::PortIndex port = bridge::kNoPort;
  int fd = -1;
  io::FileKind file_kind{};
  bool takes_offload = true;
};

class Worker {
 public:
  // Starts the thread; reports what its ring or buffers failed with.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options, WorkerShared* shared);
  ~Worker();  // cancels all reads and joins
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool multishot() const { return multishot_; }
  void Post(const WorkerOrder& order);
  absl::Status Await();

  std::span<bridge::PortCounters> counters() { return counters_; }
  WorkerStats ReadStats() const;

 private:
  Worker(const WorkerOptions& options, WorkerShared* shared);

  // In the order of worker.cc.
  void Run(const WorkerOptions& options);
  absl::Status SetUp(const WorkerOptions& options);
  void Loop();
  void BetweenBatches(int64_t now_ns);
  bool HasOrder() const { return order_in_work_ || posted_.load(std::memory_order_acquire) != taken_; }
  void TakeOrder();
  void FinishOrder();
  void Age();
  uint32_t HandleBatch();
  void HandleArrival(const io::Completion& completion);
  void HandleRead(const io::Completion& completion);
  void HandleFrame(bridge::PortIndex port, uint16_t buffer, const io::Received& received);
  void DropReceived(bridge::PortIndex port, const FrameForm& form, bridge::DropReason reason);
  void CaptureProcessed(bridge::PortIndex port, const FrameForm& form, const bridge::Decision& decision);
  void CountBatch(uint32_t frames, int64_t busy_ns);
  void Idle();
  bool Spin(int64_t until_ns);

  const uint32_t index_;
  WorkerShared* const shared_;

  // Orders: the control thread writes order_, then raises posted_; the worker answers with result_, then
  // done_.
  File wake_;
  WorkerOrder order_;
  absl::Status result_;
  std::atomic<uint32_t> posted_{0};
  std::atomic<uint32_t> done_{0};
  uint32_t taken_ = 0;          // the worker's: orders begun
  bool order_in_work_ = false;  // taken, not done
  bool exit_ = false;
  uint64_t wake_value_ = 0;  // read into by the ring

  bool multishot_ = false;
  std::unique_ptr<io::Ring> ring_;
  std::unique_ptr<io::BufferPool> pool_;
  std::unique_ptr<io::Receiver> receiver_;
  std::unique_ptr<TransmitPath> transmit_path_;
  std::vector<bridge::PortCounters> counters_;
  std::unique_ptr<bridge::Pipeline> pipeline_;
  CaptureTap capture_;
  const bridge::ForwardingConfig* config_ = nullptr;

  std::vector<io::Completion> arrivals_;  // collected, to be handled in this batch
  size_t next_arrival_ = 0;
  int64_t clock_ms_ = 0;  // monotonic, of this batch
  uint32_t now_s_ = 0;
  int64_t age_due_ms_ = 0;
  int64_t spin_ns_ = 0;

  bridge::Counter busy_ns_;
  bridge::Counter batches_;
  bridge::Counter frames_;
  bridge::Counter no_buffer_events_;
  bridge::Counter batch_sizes_[9];

  std::thread thread_;
};

}  // namespace ringswitch
