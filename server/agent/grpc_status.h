#pragma once

// The one place that turns the agent's errors into those of gRPC, with google.rpc details for programs.

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace ringswitch::agent {

grpc::Status ToGrpc(const absl::Status& status);
// "OK", "NOT_FOUND".
const char* CodeName(const absl::Status& status);

}  // namespace ringswitch::agent
