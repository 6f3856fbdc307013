#include "server/ringctl/ageing_time.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace ringswitch::ringctl {
namespace {

// What google.protobuf.Duration can carry: about 10 000 years.
constexpr std::int64_t kSecondsMax = 315'576'000'000;

}  // namespace

absl::StatusOr<AgeingTime> ParseAgeingTime(absl::string_view text) {
  if (text == "never") {
    return AgeingTime{true, 0};
  }
  const bool only_digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  absl::Duration duration;
  if (!absl::ParseDuration(only_digits ? absl::StrCat(text, "s") : std::string(text), &duration)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is no time; write 300s, 5m, 1h30m or never"));
  }
  if (duration < absl::ZeroDuration() || duration > absl::Seconds(kSecondsMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is out of range; write 1s to 1000000s, or never"));
  }
  const std::int64_t seconds = absl::ToInt64Seconds(duration);
  if (absl::Seconds(seconds) != duration) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no whole number of seconds"));
  }
  return AgeingTime{false, seconds};
}

std::string FormatAgeingTime(const AgeingTime& time) {
  return time.never ? "never" : absl::StrCat(time.seconds, "s");
}

}  // namespace ringswitch::ringctl
