#include "dataplane/capture.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace ringswitch {
namespace {

constexpr uint8_t kNotDropped = 0xff;
static_assert(bridge::kDropReasonCount <= kNotDropped);

// What stands before the bytes of a frame in a ring. Records begin at multiples of its alignment.
struct RecordHeader {
  uint64_t time_ns;
  uint32_t length;
  uint32_t captured;
  bridge::PortIndex port;
  CaptureDirection direction;
  uint8_t dropped;

  uint64_t size() const {
    constexpr uint64_t kAlignment = alignof(RecordHeader);
    return (sizeof(RecordHeader) + captured + kAlignment - 1) / kAlignment * kAlignment;
  }
};

}  // namespace

// Positions count bytes since the start and never wrap; the place of a position is its remainder by the size.
struct Capture::Ring {
  explicit Ring(uint32_t bytes) : size(bytes) {
    // Straight from the system: pages cost nothing before they are written, and go back at once at the end.
    void* memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) begin = static_cast<uint8_t*>(memory);
  }
  ~Ring() {
    if (begin != nullptr) ::munmap(begin, size);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void Write(uint64_t position, const void* source, size_t count) {
    if (count == 0) return;  // `source` may be null then
    const size_t place = position & (size - 1);
    const size_t up_to_end = std::min<size_t>(count, size - place);
    std::memcpy(begin + place, source, up_to_end);
    if (up_to_end != count)
      std::memcpy(begin, static_cast<const uint8_t*>(source) + up_to_end, count - up_to_end);
  }

  void Read(uint64_t position, void* target, size_t count) const {
    if (count == 0) return;
    const size_t place = position & (size - 1);
    const size_t up_to_end = std::min<size_t>(count, size - place);
    std::memcpy(target, begin + place, up_to_end);
    if (up_to_end != count) std::memcpy(static_cast<uint8_t*>(target) + up_to_end, begin, count - up_to_end);
  }

  // The first record that has not been taken; false: there is none.
  bool Peek(RecordHeader* header) const {
    const uint64_t position = taken.load(std::memory_order_relaxed);
    if (position == written.load(std::memory_order_acquire)) return false;
    Read(position, header, sizeof *header);
    return true;
  }

  uint8_t* begin = nullptr;  // null: no memory was to be had, every record is lost
  const uint32_t size;
  alignas(64) std::atomic<uint64_t> written{0};  // by the worker
  std::atomic<uint64_t> lost{0};                 // by the worker
  alignas(64) std::atomic<uint64_t> taken{0};    // by the reader
};

Capture::Capture(const CaptureOptions& options, uint32_t ring_bytes) : options_(options) {
  for (auto& word : ports_) word.store(0, std::memory_order_relaxed);
  for (size_t port = 0; port < options.ports.size(); ++port) {
    if (options.ports[port])
      ports_[port / 64].fetch_or(uint64_t{1} << (port % 64), std::memory_order_relaxed);
  }
  for (auto& ring : rings_) ring = std::make_unique<Ring>(ring_bytes);
}

Capture::~Capture() = default;

void Capture::Record(uint32_t worker, uint64_t time_ns, bridge::PortIndex port, CaptureDirection direction,
                     std::optional<bridge::DropReason> dropped, const uint8_t* frame, uint32_t length) {
  if (direction == CaptureDirection::kReceive ? !options_.receive : !options_.transmit) return;
  if (options_.drops_only && !dropped) return;
  const RecordHeader header{time_ns, length,    std::min(length, options_.snap_length),
                            port,    direction, dropped ? static_cast<uint8_t>(*dropped) : kNotDropped};
  Ring& ring = *rings_[worker];
  const uint64_t written = ring.written.load(std::memory_order_relaxed);
  const uint64_t free = ring.size - (written - ring.taken.load(std::memory_order_acquire));
  if (header.size() > free || ring.begin == nullptr) {
    ring.lost.store(ring.lost.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return;
  }
  ring.Write(written, &header, sizeof header);
  ring.Write(written + sizeof header, frame, header.captured);
  ring.written.store(written + header.size(), std::memory_order_release);
}

void Capture::Forget(bridge::PortIndex port) {
  ports_[port / 64].fetch_and(~(uint64_t{1} << (port % 64)), std::memory_order_relaxed);
}

bool Capture::has_ports() const {
  return std::any_of(ports_.begin(), ports_.end(),
                     [](const auto& word) { return word.load(std::memory_order_relaxed) != 0; });
}

void Capture::Take(size_t frames_max, std::vector<CapturedFrame>* frames, size_t bytes_max) {
  size_t bytes = 0;
  for (size_t count = 0; count < frames_max; ++count) {
    Ring* oldest = nullptr;
    RecordHeader header{};
    for (const auto& ring : rings_) {
      RecordHeader first;
      if (!ring->Peek(&first) || (oldest != nullptr && first.time_ns >= header.time_ns)) continue;
      oldest = ring.get();
      header = first;
    }
    if (oldest == nullptr) return;
    bytes += header.captured;
    if (count != 0 && bytes > bytes_max) return;
    CapturedFrame& frame = frames->emplace_back();
    frame.time_ns = header.time_ns;
    frame.port = header.port;
    frame.direction = header.direction;
    if (header.dropped != kNotDropped) frame.dropped = static_cast<bridge::DropReason>(header.dropped);
    frame.length = header.length;
    frame.bytes.resize(header.captured);
    const uint64_t position = oldest->taken.load(std::memory_order_relaxed);
    oldest->Read(position + sizeof header, frame.bytes.data(), header.captured);
    oldest->taken.store(position + header.size(), std::memory_order_release);
  }
}

uint64_t Capture::lost() const {
  uint64_t lost = 0;
  for (const auto& ring : rings_) lost += ring->lost.load(std::memory_order_relaxed);
  return lost;
}

}  // namespace ringswitch
