// ringswitch: the CNI plugin. A runtime runs it for one verb, with CNI_* variables and the network
// configuration on stdin, and reads stdout: exactly one JSON document or, where a verb has no result,
// nothing. This file owns stdout and nobody else writes to it; there is no log at all, since stderr is shown
// by runtimes only where stdout is empty.

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cni-plugin/failure.h"
#include "cni-plugin/plugin.h"
#include "cni-plugin/process.h"

namespace ringswitch::cni {
namespace {

// Pod annotations and prevResult may be large; a runtime that sends more than this is broken.
constexpr size_t kInputBytesMax = 4 << 20;

std::atomic_flag stdout_is_taken = ATOMIC_FLAG_INIT;

absl::StatusOr<std::string> ReadInput() {
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, buffer, sizeof(buffer));
    if (count == 0) return text;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failure(kInputOutput, absl::StrCat("cannot read stdin: ", std::strerror(errno)));
    text.append(buffer, count);
    if (text.size() > kInputBytesMax) {
      return Failure(kDecoding, "the network configuration is larger than 4 MiB");
    }
  }
}

bool Write(const char* text, size_t size) {
  while (size > 0) {
    const ssize_t count = write(STDOUT_FILENO, text, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text += count;
    size -= count;
  }
  return true;
}

// The runtime gives up half-way: leave an error object. What was made is taken back by the DEL that follows
// every failed ADD, or by the agent when the namespace goes.
void OnSignal(int) {
  static constexpr char kText[] =
      "{\"cniVersion\":\"1.0.0\",\"code\":11,\"msg\":\"terminated by a signal\"}\n";
  if (stdout_is_taken.test_and_set()) return;  // The answer is on its way out.
  KillRunningProcess();
  Write(kText, sizeof(kText) - 1);
  _exit(1);
}

void HandleSignals() {
  signal(SIGPIPE, SIG_IGN);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaction(number, &action, nullptr);
}

}  // namespace
}  // namespace ringswitch::cni

int main() {
  using namespace ringswitch::cni;  // NOLINT: main of the only binary.
  HandleSignals();
  std::string cni_version;
  const absl::StatusOr<std::string> answer = RunPlugin(ReadInput, cni_version);
  std::string text = answer.ok() ? *answer : ErrorJson(cni_version, answer.status());
  if (!text.empty()) text += "\n";
  stdout_is_taken.test_and_set();
  const bool is_written = Write(text.data(), text.size());
  // gRPC's threads are not worth waiting for.
  _exit(answer.ok() && is_written ? 0 : 1);
}
