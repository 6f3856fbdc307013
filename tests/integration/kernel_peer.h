#pragma once

// What a test beside the kernel's bridge needs a hundred thousand times: stations that send and hear in
// batches, and the tools of iproute2, started once.
//
// Theory of operation. A Station is a packet socket on a device: a pod's own, or an 8021q device on top of
// it, whose tag the kernel puts and takes. It copies what it hears out of one arena that all stations share,
// so they belong to one thread. A Tool reads commands from a pipe (-batch); a last command with a known
// answer says that those before it are done. It ends at the first command that fails, which ends the test.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/testbed.h"

namespace ringswitch::test {

inline constexpr size_t kHeardFrameMax = 9216;  // what is longer ends the test

class Station {
 public:
  explicit Station(const std::string& ifname);

  bool Send(const Bytes& frame);
  // Appends what has come, in order and with the tag restored.
  void Collect(std::vector<Bytes>* frames);

 private:
  File socket_;
};

class Tool {
 public:
  // `last` is the command that says so, and its answer has `answer` in its only line.
  Tool(const std::string& name, const std::string& last, const std::string& answer);

  void Run(const std::string& command) { Ask(command); }
  // The lines it answers with.
  std::vector<std::string> Ask(const std::string& command);

 private:
  std::string last_;
  std::string answer_;
  std::unique_ptr<FILE, int (*)(FILE*)> commands_;
  std::unique_ptr<FILE, int (*)(FILE*)> answers_;
};

}  // namespace ringswitch::test
