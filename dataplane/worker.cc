#include "dataplane/worker.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "dataplane/bridge/fdb.h"
#include "dataplane/io/checksum.h"
#include "dataplane/io/virtio_net_header.h"

namespace ringswitch {
namespace {

using bridge::DropReason;
using bridge::PortIndex;

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kSpinNsMax = 50'000;  // longer costs the pods more CPU than it saves them time
constexpr int64_t kSpinNsMin = 2'000;
constexpr int64_t kAgeSliceMs = 8;  // of a table that is covered once a second: 0.8 % of its slots at a time
constexpr int64_t kTickMs = 1000;

int64_t NowNs(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// --- start and end ---

Worker::Worker(const WorkerOptions& options, WorkerShared* shared)
    : index_(options.index),
      shared_(shared),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      counters_(bridge::kPortsMax),
      capture_(options.index) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options, WorkerShared* shared) {
  std::unique_ptr<Worker> worker(new Worker(options, shared));
  if (!worker->wake_.is_open()) return absl::InternalError(absl::StrCat("eventfd: ", std::strerror(errno)));
  worker->posted_ = 1;  // setting up is the first order
  worker->thread_ = std::thread([raw = worker.get(), options] { raw->Run(options); });
  if (absl::Status status = worker->Await(); !status.ok()) {
    worker->thread_.join();
    return status;
  }
  return worker;
}

Worker::~Worker() {
  if (!thread_.joinable()) return;
  Post({WorkerOrder::Kind::kExit});
  Await().IgnoreError();
  thread_.join();
}

// The ring belongs to the thread that makes it.
void Worker::Run(const WorkerOptions& options) {
  ::pthread_setname_np(::pthread_self(), absl::StrCat("rs-worker-", index_).c_str());
  result_ = SetUp(options);
  const bool ok = result_.ok();
  taken_ = 1;
  FinishOrder();
  if (ok) Loop();
  ring_.reset();  // before the buffers that the kernel knows through it
}

absl::Status Worker::SetUp(const WorkerOptions& options) {
  absl::StatusOr<std::unique_ptr<io::Ring>> ring = io::Ring::Create(options.buffers);
  if (!ring.ok()) return ring.status();
  ring_ = *std::move(ring);
  if (options.rx_mode == RxMode::kMultishot && !ring_->has_multishot_read()) {
    return absl::InvalidArgumentError(
        "rx_mode multishot needs Linux 6.7 (IORING_OP_READ_MULTISHOT); use auto or oneshot");
  }
  multishot_ = options.rx_mode != RxMode::kOneshot && ring_->has_multishot_read();
  absl::StatusOr<std::unique_ptr<io::BufferPool>> pool = io::BufferPool::Create(options.buffers, ring_.get());
  if (!pool.ok()) return pool.status();
  pool_ = *std::move(pool);
  receiver_ = std::make_unique<io::Receiver>(ring_.get(), pool_.get(), multishot_);
  transmit_path_ = std::make_unique<TransmitPath>(ring_.get(), pool_.get(), counters_, &capture_, &arrivals_);
  pipeline_ = std::make_unique<bridge::Pipeline>(counters_, shared_->meters, index_);
  arrivals_.reserve(options.buffers + 2 * io::kFilesMax);
  ring_->QueueReadFd(wake_.fd(), &wake_value_, sizeof wake_value_, {io::Operation::kWake});
  return absl::OkStatus();
}

// --- the loop ---

void Worker::Loop() {
  int64_t start_ns = NowNs(CLOCK_MONOTONIC);
  clock_ms_ = start_ns / kNsPerMs;
  while (!exit_ || order_in_work_) {
    shared_->epochs.Boundary(index_);
    BetweenBatches(start_ns);
    receiver_->Arm();
    ring_->Advance();
    const uint32_t frames = HandleBatch();
    const int64_t now_ns = NowNs(CLOCK_MONOTONIC);
    if (frames != 0) {
      CountBatch(frames, now_ns - start_ns);
      start_ns = now_ns;
      continue;
    }
    if (!receiver_->pending() && age_due_ms_ == 0 && !HasOrder() && !exit_) Idle();
    start_ns = NowNs(CLOCK_MONOTONIC);
  }
  shared_->epochs.Leave(index_);
}

// --- between two batches ---

void Worker::BetweenBatches(int64_t now_ns) {
  const bridge::ForwardingConfig* config = shared_->config.load(std::memory_order_acquire);
  if (config != config_) {
    config_ = config;
    pipeline_->SetConfig(config);
  }
  capture_.Begin(shared_->captures.load(std::memory_order_acquire));
  const int64_t clock_ms = now_ns / kNsPerMs;
  now_s_ = static_cast<uint32_t>(clock_ms / 1000);
  pipeline_->SetTime({static_cast<uint64_t>(now_ns), now_s_});
  if (clock_ms != clock_ms_) {
    if (clock_ms / kTickMs != clock_ms_ / kTickMs) receiver_->Tick();
    age_due_ms_ = index_ == 0 ? std::min<int64_t>(age_due_ms_ + clock_ms - clock_ms_, kTickMs) : 0;
    clock_ms_ = clock_ms;
  }
  if (age_due_ms_ != 0) Age();
  if (HasOrder()) TakeOrder();
}

void Worker::TakeOrder() {
  const bool begin = !order_in_work_;
  if (begin) {
    ++taken_;
    order_in_work_ = true;
    result_ = absl::OkStatus();
  }
  const PortIndex port = order_.port;
  switch (order_.kind) {
    case WorkerOrder::Kind::kSetFile:
      result_ = ring_->SetFile(port, order_.fd, order_.file_kind);
      transmit_path_->SetPort(port, order_.takes_offload);
      break;
    case WorkerOrder::Kind::kStartReading:
      receiver_->Start(port);
      break;
    case WorkerOrder::Kind::kStopReading:
      if (begin) receiver_->Stop(port);
      if (!receiver_->stopped(port)) return;
      break;
    case WorkerOrder::Kind::kClearFile:
      // A failed write holds the file, and is counted on the port, until the next Advance.
      if (!transmit_path_->idle(port)) return;
      result_ = ring_->SetFile(port, -1);
      break;
    case WorkerOrder::Kind::kExit: {
      exit_ = true;
      bool all_stopped = true;
      for (uint32_t slot = 0; slot < io::kFilesMax; ++slot) {
        if (begin) receiver_->Stop(static_cast<uint16_t>(slot));
        all_stopped = all_stopped && receiver_->stopped(static_cast<uint16_t>(slot));
      }
      if (!all_stopped) return;
      break;
    }
  }
  FinishOrder();
}

void Worker::FinishOrder() {
  order_in_work_ = false;
  done_.store(taken_, std::memory_order_release);
  done_.notify_one();
}

// Worker 0 ages every switch's table, all of it once a second, a slice at a time.
void Worker::Age() {
  const int64_t slice_ms = std::min(age_due_ms_, kAgeSliceMs);
  age_due_ms_ -= slice_ms;
  if (config_ == nullptr) return;
  for (const bridge::SwitchEntry* entry : config_->switches) {
    if (entry == nullptr) continue;
    const uint64_t slots = entry->fdb->slot_count() * static_cast<uint64_t>(slice_ms) / kTickMs + 1;
    entry->fdb->AgeSlice(now_s_, entry->config.ageing_time_s, static_cast<uint32_t>(slots));
  }
}

// --- a batch ---

// Everything collected is handled, all its writes are done and its buffers given back.
uint32_t Worker::HandleBatch() {
  transmit_path_->Collect();
  const uint64_t before = frames_.Read();
  do {
    while (next_arrival_ < arrivals_.size()) {
      const io::Completion arrival = arrivals_[next_arrival_++];  // a copy: there may come more
      HandleArrival(arrival);
    }
    transmit_path_->Submit();
  } while (next_arrival_ < arrivals_.size());
  arrivals_.clear();
  next_arrival_ = 0;
  pool_->Recycle();
  return static_cast<uint32_t>(frames_.Read() - before);
}

void Worker::HandleArrival(const io::Completion& completion) {
  switch (completion.token.operation) {
    case io::Operation::kRead:
      HandleRead(completion);
      break;
    case io::Operation::kCancel:
      receiver_->OnCancelled(completion);
      break;
    case io::Operation::kWake:
      if (ring_->full()) ring_->Submit();
      ring_->QueueReadFd(wake_.fd(), &wake_value_, sizeof wake_value_, {io::Operation::kWake});
      break;
    case io::Operation::kWrite:  // the transmit path's own
      break;
  }
}

void Worker::HandleRead(const io::Completion& completion) {
  const PortIndex port = completion.token.slot;
  io::Received received;
  switch (receiver_->OnRead(completion, &received)) {
    case io::ReadOutcome::kFrame:
      frames_.Add();
      HandleFrame(port, completion.buffer, received);
      pool_->Release(completion.buffer);
      break;
    case io::ReadOutcome::kNoBuffer:
      no_buffer_events_.Add();
      counters_[port].receive_no_buffer_events.Add();
      break;
    case io::ReadOutcome::kIndescribable:
      pipeline_->DropReceived(port, 0, DropReason::kInvalidOffloadHeader);
      break;
    case io::ReadOutcome::kNothing:
      break;
  }
}

void Worker::HandleFrame(PortIndex port, uint16_t buffer, const io::Received& received) {
  const FrameForm form{buffer, received.header,
                       received.size - std::min(received.size, io::kVirtioNetHeaderSize)};
  if (form.length < bridge::kHeaderLength) {
    DropReceived(port, form, DropReason::kFrameTooShort);
    return;
  }
  if (received.truncated) {
    DropReceived(port, form, DropReason::kFrameTruncated);
    return;
  }
  const std::optional<uint32_t> wire_length = io::WireLength(form.header, form.frame(), form.length);
  if (!wire_length) {
    DropReceived(port, form, DropReason::kInvalidOffloadHeader);
    return;
  }
  if (io::HasOffload(form.header)) io::SettleChecksum(form.header, form.frame(), form.length);
  const bridge::Decision& decision = pipeline_->Process(port, form.frame(), form.length, *wire_length);
  if (capture_.on()) CaptureProcessed(port, form, decision);
  if (decision.forwarded && !decision.egress.empty()) transmit_path_->Forward(decision, form);
}

void Worker::DropReceived(PortIndex port, const FrameForm& form, DropReason reason) {
  pipeline_->DropReceived(port, form.length, reason);
  if (capture_.on()) capture_.Record(port, CaptureDirection::kReceive, reason, form.frame(), form.length);
}

// The frame as received, and copies of it that the pipeline has dropped.
void Worker::CaptureProcessed(PortIndex port, const FrameForm& form, const bridge::Decision& decision) {
  const auto dropped = decision.forwarded ? std::nullopt : std::optional(decision.reason);
  capture_.Record(port, CaptureDirection::kReceive, dropped, form.frame(), form.length);
  for (const bridge::EgressDrop& copy : decision.dropped)
    capture_.Record(copy.port, CaptureDirection::kTransmit, copy.reason, form.frame(), form.length);
}

void Worker::CountBatch(uint32_t frames, int64_t busy_ns) {
  batches_.Add();
  busy_ns_.Add(static_cast<uint64_t>(busy_ns));
  batch_sizes_[std::min<size_t>(std::bit_width(frames - 1), std::size(batch_sizes_) - 1)].Add();
}

// --- nothing to do ---

// Spinning saves a sleep and a wake-up when the next frame is near, and costs the pods CPU when it is not: so
// it is as long as has paid lately. A sleep shorter than the longest spin says that spinning would have.
void Worker::Idle() {
  shared_->epochs.Leave(index_);
  if (spin_ns_ >= kSpinNsMin && Spin(NowNs(CLOCK_MONOTONIC) + spin_ns_)) {
    spin_ns_ = kSpinNsMax;
    return;
  }
  const int64_t start_ns = NowNs(CLOCK_MONOTONIC);
  const bool ticks = index_ == 0 || receiver_->needs_tick();
  ring_->Wait(ticks ? (kTickMs - clock_ms_ % kTickMs) * kNsPerMs : -1);
  const int64_t slept_ns = NowNs(CLOCK_MONOTONIC) - start_ns;
  spin_ns_ = slept_ns < kSpinNsMax ? std::min(kSpinNsMax, spin_ns_ * 2 + kSpinNsMin) : spin_ns_ / 2;
}

bool Worker::Spin(int64_t until_ns) {
  for (;;) {
    for (int i = 0; i < 16; ++i) {
      if (ring_->Ready()) return true;
      Pause();
    }
    if (NowNs(CLOCK_MONOTONIC) >= until_ns) return false;
  }
}

// --- the control side ---

void Worker::Post(const WorkerOrder& order) {
  order_ = order;
  posted_.fetch_add(1, std::memory_order_release);
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t r = ::write(wake_.fd(), &one, sizeof one);
}

absl::Status Worker::Await() {
  const uint32_t posted = posted_.load(std::memory_order_relaxed);
  for (uint32_t done = done_.load(std::memory_order_acquire); done != posted;
       done = done_.load(std::memory_order_acquire)) {
    done_.wait(done, std::memory_order_acquire);
  }
  return result_;
}

WorkerStats Worker::ReadStats() const {
  WorkerStats stats;
  stats.busy_seconds = static_cast<double>(busy_ns_.Read()) / 1e9;
  stats.batches = batches_.Read();
  stats.frames = frames_.Read();
  stats.no_buffer_events = no_buffer_events_.Read();
  stats.buffers = pool_->size();
  stats.buffers_held = pool_->held();
  for (size_t i = 0; i < std::size(batch_sizes_); ++i) stats.batch_size_buckets[i] = batch_sizes_[i].Read();
  return stats;
}

}  // namespace ringswitch
