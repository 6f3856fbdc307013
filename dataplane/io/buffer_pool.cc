#include "dataplane/io/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ringswitch::io {
namespace {

void* MapAnonymous(size_t size) {
  void* memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BufferPool>> BufferPool::Create(uint32_t buffers, Ring* ring) {
  std::unique_ptr<BufferPool> pool(new BufferPool);
  pool->size_ = buffers;
  pool->reserve_size_ = std::max(2u, buffers / 16);
  pool->entries_ = std::bit_ceil(buffers);
  pool->memory_ = static_cast<uint8_t*>(MapAnonymous(static_cast<size_t>(buffers) * kStride));
  pool->ring_ = static_cast<io_uring_buf_ring*>(MapAnonymous(pool->entries_ * sizeof(io_uring_buf)));
  if (pool->memory_ == nullptr || pool->ring_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("frame buffers: ", buffers, " of ", kStride, " bytes: ",
                                                     std::strerror(errno), "; lower buffers_per_worker"));
  }
  if (absl::Status status = ring->RegisterBufferRing(pool->ring_, pool->entries_, kGroup); !status.ok())
    return status;
  io_uring_buf_ring_init(pool->ring_);
  pool->references_.assign(buffers, 0);
  pool->reserve_.reserve(buffers);
  pool->returned_.reserve(buffers);
  for (uint32_t i = 0; i < buffers; ++i) {
    (i < pool->reserve_size_ ? pool->reserve_ : pool->returned_).push_back(static_cast<uint16_t>(i));
  }
  pool->Recycle();
  return pool;
}

BufferPool::~BufferPool() {
  if (memory_ != nullptr) ::munmap(memory_, static_cast<size_t>(size_) * kStride);
  if (ring_ != nullptr) ::munmap(ring_, entries_ * sizeof(io_uring_buf));
}

void BufferPool::Recycle() {
  if (returned_.empty()) return;
  int offset = 0;
  for (uint16_t buffer : returned_) {
    io_uring_buf_ring_add(ring_, header(buffer), kReadSize, buffer, static_cast<int>(entries_ - 1), offset++);
  }
  io_uring_buf_ring_advance(ring_, offset);
  returned_.clear();
}

}  // namespace ringswitch::io
