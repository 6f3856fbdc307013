#pragma once

// What the jobs of `traffic` share: its options and its end.

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace traffic {

using Clock = std::chrono::steady_clock;

extern volatile sig_atomic_t stop_requested;  // by SIGTERM or SIGINT

struct Options {
  std::vector<std::string> namespaces;
  std::string ifname = "eth0";
  std::string source = "02:00:00:00:0a:01";
  std::string destination = "ff:ff:ff:ff:ff:ff";
  std::string host = "127.0.0.1";
  uint16_t port = 9000;
  uint32_t stream = 0;
  uint32_t source_count = 1;
  uint32_t length = 64;
  uint64_t count = 0;
  double rate = 0;  // frames/s; 0: as fast as it goes
  double seconds = 10;
  double idle_seconds = 0;
};

// Ends the program with what failed and errno.
[[noreturn]] void Die(const std::string& what);

inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline void SayReady() {
  printf("ready\n");
  fflush(stdout);
}

// Jobs of TCP and UDP. Each prints one JSON object and returns the exit status.
int Echo(const Options& options);
int Ping(const Options& options);
int Sink(const Options& options);
int Source(const Options& options);

}  // namespace traffic
