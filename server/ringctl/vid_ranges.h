// VLAN ids as people write them: "10,20,100-199".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ringswitch::ringctl {

// An inclusive range of VIDs.
struct VidRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  bool operator==(const VidRange&) const = default;
};

// Ranges in the order written. Only the form is judged here; which VIDs are legal is the agent's to say.
absl::StatusOr<std::vector<VidRange>> ParseVidRanges(absl::string_view text);

// "10,20,100-199".
std::string FormatVidRanges(const std::vector<VidRange>& ranges);

}  // namespace ringswitch::ringctl
