// The jobs of `traffic` that use the pods' own UDP and TCP.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/bench/traffic.h"

namespace traffic {
namespace {

constexpr size_t kTcpChunkBytes = 256 * 1024;

sockaddr_storage Address(const Options& options, socklen_t* size) {
  sockaddr_storage storage{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, options.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(options.port);
    *size = sizeof(*v4);
  } else if (inet_pton(AF_INET6, options.host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(options.port);
    *size = sizeof(*v6);
  } else {
    errno = EINVAL;
    Die("address " + options.host);
  }
  return storage;
}

int OpenInet(const Options& options, int type, bool listen_here) {
  socklen_t size = 0;
  const sockaddr_storage address = Address(options, &size);
  const int fd = socket(address.ss_family, type | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // No wait is longer than this, so that a broken path ends the job.
  const timeval timeout{2, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (fd < 0 || (listen_here ? bind(fd, generic, size) : connect(fd, generic, size)) != 0) {
    Die(options.host);
  }
  return fd;
}

}  // namespace

int Echo(const Options& options) {
  const int fd = OpenInet(options, SOCK_DGRAM, true);
  SayReady();
  std::vector<uint8_t> buffer(65536);
  const auto start = Clock::now();
  uint64_t echoed = 0;
  while (stop_requested == 0 && SecondsSince(start) < options.seconds) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    const ssize_t length =
        recvfrom(fd, buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&peer), &size);
    if (length >= 0) {
      sendto(fd, buffer.data(), static_cast<size_t>(length), 0, reinterpret_cast<sockaddr*>(&peer), size);
      echoed += 1;
    }
  }
  printf("{\"echoed\": %lu}\n", echoed);
  return 0;
}

int Ping(const Options& options) {
  const int fd = OpenInet(options, SOCK_DGRAM, false);
  std::vector<uint8_t> buffer(std::max<size_t>(options.length, 1));
  std::vector<double> round_trips_us;
  uint64_t lost = 0;
  const auto start = Clock::now();
  while (stop_requested == 0 && SecondsSince(start) < options.seconds &&
         (options.count == 0 || round_trips_us.size() + lost < options.count)) {
    const auto sent = Clock::now();
    const bool answered =
        send(fd, buffer.data(), buffer.size(), 0) >= 0 && recv(fd, buffer.data(), buffer.size(), 0) >= 0;
    if (answered) {
      round_trips_us.push_back(SecondsSince(sent) * 1e6);
    } else {
      lost += 1;
    }
  }
  std::sort(round_trips_us.begin(), round_trips_us.end());
  const auto quantile = [&](double q) {
    const auto size = static_cast<double>(round_trips_us.size());
    return round_trips_us.empty() ? 0.0 : round_trips_us[static_cast<size_t>(q * (size - 1))];
  };
  printf("{\"round_trips\": %zu, \"lost\": %lu, \"p50_us\": %.2f, \"p99_us\": %.2f}\n", round_trips_us.size(),
         lost, quantile(0.5), quantile(0.99));
  return round_trips_us.empty() ? 1 : 0;
}

int Sink(const Options& options) {
  const int listener = OpenInet(options, SOCK_STREAM, true);
  if (listen(listener, 1) != 0) {
    Die("listen");
  }
  SayReady();
  const int fd = accept(listener, nullptr, nullptr);
  if (fd < 0) {
    Die("accept");
  }
  std::vector<uint8_t> buffer(kTcpChunkBytes);
  const auto start = Clock::now();
  uint64_t bytes = 0;
  while (stop_requested == 0) {
    const ssize_t length = recv(fd, buffer.data(), buffer.size(), 0);
    if (length <= 0) {
      break;
    }
    bytes += static_cast<uint64_t>(length);
  }
  const double seconds = SecondsSince(start);
  printf("{\"bytes\": %lu, \"seconds\": %.6f, \"gbit_per_second\": %.4f}\n", bytes, seconds,
         static_cast<double>(bytes) * 8e-9 / seconds);
  return 0;
}

int Source(const Options& options) {
  const int fd = OpenInet(options, SOCK_STREAM, false);
  const std::vector<uint8_t> buffer(kTcpChunkBytes, 0x5a);
  const auto start = Clock::now();
  uint64_t bytes = 0;
  while (stop_requested == 0 && SecondsSince(start) < options.seconds) {
    const ssize_t length = send(fd, buffer.data(), buffer.size(), MSG_NOSIGNAL);
    if (length <= 0) {
      Die("send");
    }
    bytes += static_cast<uint64_t>(length);
  }
  shutdown(fd, SHUT_WR);
  printf("{\"bytes\": %lu, \"seconds\": %.6f}\n", bytes, SecondsSince(start));
  return 0;
}

}  // namespace traffic
