#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ringswitch::cni {

// How a child process ended.
struct ProcessResult {
  int exit_code = 0;  // 128 + signal where it was killed.
  std::string standard_output;
  std::string standard_error;  // Its beginning.
};

// Runs `path` with this process's environment and `input` on its stdin. The child inherits nothing but its
// three streams, all of them pipes of ours: a runtime that waits for the end of our own streams never waits
// for a child. After `timeout` it is killed: kTryAgainLater; so is, as soon as it prints more than 1 MiB:
// kDecoding.
absl::StatusOr<ProcessResult> RunProcess(const std::string& path, absl::string_view input,
                                         absl::Duration timeout);

// Kills the child that RunProcess waits for, if any, with its process group. Safe in a signal handler.
void KillRunningProcess();

}  // namespace ringswitch::cni
