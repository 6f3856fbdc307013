// The functions through which the product meets the kernel's rings and devices: liburing's, and the C
// library's. Symbols of the executable come before those of shared libraries; threads that take no turns get
// to the real ones.

#include <dlfcn.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/sim/simulated_kernel.h"

using ringswitch::sim::Baton;
using ringswitch::sim::Fail;
using ringswitch::sim::SimulatedKernel;

namespace {

SimulatedKernel& Kernel() {
  if (SimulatedKernel::Mine() == nullptr) Fail("io_uring outside a simulation");
  return *SimulatedKernel::Mine();
}

}  // namespace

extern "C" {

int io_uring_queue_init_params(unsigned entries, io_uring* ring, io_uring_params* params) {
  return Kernel().InitRing(entries, ring, params);
}

void io_uring_queue_exit(io_uring* ring) {
  Kernel().ExitRing(ring);
}

int io_uring_register_ring_fd(io_uring*) {
  return 1;
}

io_uring_probe* io_uring_get_probe_ring(io_uring*) {
  auto* probe = static_cast<io_uring_probe*>(std::calloc(1, sizeof(io_uring_probe)));
  probe->last_op = Kernel().last_opcode();
  return probe;
}

void io_uring_free_probe(io_uring_probe* probe) {
  std::free(probe);
}

int io_uring_register_buf_ring(io_uring* ring, io_uring_buf_reg* registration, unsigned) {
  Kernel().RegisterBuffers(ring, *registration);
  return 0;
}

int io_uring_enter2(unsigned fd, unsigned to_submit, unsigned min_complete, unsigned flags,
                    sigset_t* argument, size_t) {
  return Kernel().Enter(fd, to_submit, min_complete, flags, argument);
}

int eventfd(unsigned value, int flags) noexcept {
  static const auto real = reinterpret_cast<decltype(&eventfd)>(dlsym(RTLD_NEXT, "eventfd"));
  SimulatedKernel* const kernel = SimulatedKernel::Mine();
  return kernel != nullptr ? kernel->OpenEvent() : real(value, flags);
}

ssize_t write(int fd, const void* data, size_t size) {
  static const auto real = reinterpret_cast<decltype(&write)>(dlsym(RTLD_NEXT, "write"));
  SimulatedKernel* const kernel = SimulatedKernel::Mine();
  if (kernel != nullptr && kernel->WriteEvent(fd)) return static_cast<ssize_t>(size);
  return real(fd, data, size);
}

int close(int fd) {
  static const auto real = reinterpret_cast<decltype(&close)>(dlsym(RTLD_NEXT, "close"));
  if (SimulatedKernel* const kernel = SimulatedKernel::Mine(); kernel != nullptr) kernel->OnClose(fd);
  return real(fd);
}

ssize_t getrandom(void* data, size_t size, unsigned flags) {
  static const auto real = reinterpret_cast<decltype(&getrandom)>(dlsym(RTLD_NEXT, "getrandom"));
  Baton* const baton = Baton::Mine();
  if (baton == nullptr) return real(data, size, flags);
  for (size_t i = 0; i < size; ++i) static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(baton->Below(256));
  return static_cast<ssize_t>(size);
}

}  // extern "C"
