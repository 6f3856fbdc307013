#include "server/ringctl/vid_ranges.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace ringswitch::ringctl {
namespace {

bool ParseVid(absl::string_view text, std::uint32_t* vid) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *vid);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

absl::StatusOr<std::vector<VidRange>> ParseVidRanges(absl::string_view text) {
  std::vector<VidRange> ranges;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    VidRange range;
    const size_t dash = part.find('-');
    bool well_formed = ParseVid(part.substr(0, dash), &range.first);
    range.last = range.first;
    if (dash != absl::string_view::npos) {
      well_formed = well_formed && ParseVid(part.substr(dash + 1), &range.last);
    }
    if (!well_formed) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", part, "\" is no VLAN range; write VIDs and ranges like 10,20,100-199"));
    }
    // Checked here because the contract reads a last VID of 0 as "the same as the first".
    if (range.last < range.first) {
      return absl::InvalidArgumentError(
          absl::StrCat("range ", part, " runs backwards; write ", range.last, "-", range.first));
    }
    ranges.push_back(range);
  }
  return ranges;
}

std::string FormatVidRanges(const std::vector<VidRange>& ranges) {
  return absl::StrJoin(ranges, ",", [](std::string* out, const VidRange& range) {
    // A last VID of 0 is how the contract abbreviates a range of one.
    const std::uint32_t last = std::max(range.first, range.last);
    absl::StrAppend(out, range.first);
    if (last != range.first) {
      absl::StrAppend(out, "-", last);
    }
  });
}

}  // namespace ringswitch::ringctl
