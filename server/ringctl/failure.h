// What is told when a call fails.
#pragma once

#include <grpcpp/support/status.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ringswitch::ringctl {

// Exit codes, a promise to scripts.
inline constexpr int kExitOk = 0;
inline constexpr int kExitRefused = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreachable = 3;

struct Failure {
  int exit_code = kExitRefused;
  // One line per problem, without line ends.
  std::vector<std::string> lines;
};

// "port.vlans.trunk.native_vid" is "--native"; a path without a flag stays as it is.
std::string FlagOfField(absl::string_view field);

// How people know a field of the contract.
using FieldNames = std::function<std::string(absl::string_view)>;

// The failed call's status, with its error details decoded and fields of the contract translated.
Failure DescribeFailure(const grpc::Status& status, const std::string& address, int timeout_s,
                        const FieldNames& names = FlagOfField);

}  // namespace ringswitch::ringctl
