// Ageing times as people write them: "300s", "5m", "never".
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ringswitch::ringctl {

struct AgeingTime {
  bool never = false;
  std::int64_t seconds = 0;  // Without meaning where `never` is set.

  bool operator==(const AgeingTime&) const = default;
};

// "never", whole seconds ("300"), or a number with a unit ("300s", "5m", "1h30m"). Which times are legal is
// the agent's to say, 0 among them.
absl::StatusOr<AgeingTime> ParseAgeingTime(absl::string_view text);

// "never" or "300s".
std::string FormatAgeingTime(const AgeingTime& time);

}  // namespace ringswitch::ringctl
