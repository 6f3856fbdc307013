#pragma once

// Reads files that somebody else may have put there: configuration, state, spool.

#include <string>

#include "absl/status/statusor.h"

namespace ringswitch::agent {

inline constexpr size_t kConfigSizeMax = 16u << 20;  // also a state file's; far above what a node has
inline constexpr size_t kSpooledDelSizeMax = 64u << 10;

// The whole text of a regular file, or of what a symbolic link to one leads to. Never waits for a FIFO and
// never reads more than `size_max` bytes. The error names the file. NOT_FOUND: it is not there.
// FAILED_PRECONDITION: it will not do as it is: not a regular file, too large, not to be opened.
// UNAVAILABLE: another time perhaps.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t size_max);

}  // namespace ringswitch::agent
