#pragma once

// One ring of the simulated kernel: its queues, its reads, its buffers. simulated_kernel.h has the theory.

#include <liburing.h>

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "dataplane/io/buffer_pool.h"
#include "tests/sim/simulated_kernel.h"

namespace ringswitch::sim {

struct SimulatedKernel::Ring {
  int worker = 0;
  int thread = 0;
  bool is_open = true;
  unsigned sq_head = 0, sq_tail = 0, sq_flags = 0, sq_dropped = 0, sq_mask = 0, sq_entries = 0;
  unsigned cq_head = 0, cq_tail = 0, cq_flags = 0, cq_overflow = 0, cq_mask = 0, cq_entries = 0;
  std::vector<unsigned> array;
  std::vector<io_uring_sqe> sqes;
  std::vector<io_uring_cqe> cqes;
  std::vector<Operation> armed;
  std::deque<io_uring_cqe> deferred;

  // The buffer group.
  io_uring_buf_ring* buffers = nullptr;
  uint16_t buffer_mask = 0, buffer_head = 0, buffer_tail = 0;  // tail: as far as it was looked at
  std::vector<bool> is_given;                                  // to the kernel, by buffer
  std::vector<int> writes_from;                                // not complete, by buffer
  struct Write {
    uint16_t buffer = 0;
    int fd = -1;
  };
  std::map<uint64_t, std::deque<Write>> writes;  // not complete, by user_data
  const uint8_t* memory = nullptr;

  unsigned completions() const { return cq_tail - __atomic_load_n(&cq_head, __ATOMIC_ACQUIRE); }

  void Post(const io_uring_cqe& cqe) {
    if (completions() == cq_entries) Fail("completions overflow their queue");
    if (const auto write = writes.find(cqe.user_data); write != writes.end()) {
      --writes_from[write->second.front().buffer];
      write->second.pop_front();
      if (write->second.empty()) writes.erase(write);
    }
    cqes[cq_tail & cq_mask] = cqe;
    __atomic_store_n(&cq_tail, cq_tail + 1, __ATOMIC_RELEASE);
  }
  void Complete(uint64_t user_data, int result, bool defer, unsigned flags = 0) {
    io_uring_cqe cqe{};
    cqe.user_data = user_data;
    cqe.res = result;
    cqe.flags = flags;
    if (defer) {
      deferred.push_back(cqe);
    } else {
      Post(cqe);
    }
  }

  io_uring_buf* BufferAt(uint16_t position) {
    return reinterpret_cast<io_uring_buf*>(buffers) + (position & buffer_mask);
  }
  // Buffers that the kernel may fill; takes note of those that were given since it last looked.
  uint16_t AvailableBuffers() {
    const uint16_t tail = __atomic_load_n(&buffers->tail, __ATOMIC_ACQUIRE);
    for (; buffer_tail != tail; ++buffer_tail) {
      const io_uring_buf& buffer = *BufferAt(buffer_tail);
      if (buffer.bid >= is_given.size())
        is_given.resize(buffer.bid + 1u), writes_from.resize(buffer.bid + 1u);
      if (is_given[buffer.bid]) Fail("a buffer is given to the kernel twice");
      if (writes_from[buffer.bid] != 0) Fail("a buffer is given to the kernel while it is written from");
      is_given[buffer.bid] = true;
      memory = reinterpret_cast<const uint8_t*>(buffer.addr) - buffer.bid * size_t{io::kStride};
    }
    return static_cast<uint16_t>(buffer_tail - buffer_head);
  }
  io_uring_buf TakeBuffer() {
    const io_uring_buf buffer = *BufferAt(buffer_head++);
    is_given[buffer.bid] = false;
    return buffer;
  }
  void NoteWrite(const uint8_t* data, int fd, uint64_t user_data) {
    AvailableBuffers();
    const auto buffer = static_cast<size_t>(data - (memory - io::kHeadroom)) / io::kStride;
    if (buffer >= is_given.size()) is_given.resize(buffer + 1), writes_from.resize(buffer + 1);
    if (is_given[buffer]) Fail("a frame is written from a buffer that the kernel has");
    ++writes_from[buffer];
    writes[user_data].push_back({static_cast<uint16_t>(buffer), fd});
  }
};

}  // namespace ringswitch::sim
