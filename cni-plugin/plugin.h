#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace ringswitch::cni {

// Runs one CNI call: the environment says which, `read_input` gives the configuration and is not called
// before the environment has been found right. Returns what belongs on stdout, possibly nothing.
// `cni_version` is the version in which an error is to be told.
absl::StatusOr<std::string> RunPlugin(absl::FunctionRef<absl::StatusOr<std::string>()> read_input,
                                      std::string& cni_version);

}  // namespace ringswitch::cni
