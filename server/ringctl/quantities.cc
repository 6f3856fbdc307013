#include "server/ringctl/quantities.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace ringswitch::ringctl {
namespace {

// What google.protobuf.Duration can carry: about 10 000 years.
constexpr std::int64_t kSecondsMax = 315'576'000'000;
constexpr size_t kFractionDigitsMax = 9;

struct Unit {
  absl::string_view name;
  std::uint64_t factor;
};
// Those that are written, the largest first.
constexpr std::array<Unit, 4> kBitUnits = {
    {{"Gbit", 1'000'000'000}, {"Mbit", 1'000'000}, {"kbit", 1000}, {"bit", 1}}};
constexpr std::array<Unit, 7> kByteUnits = {{{"GiB", 1u << 30},
                                             {"MiB", 1u << 20},
                                             {"KiB", 1u << 10},
                                             {"GB", 1'000'000'000},
                                             {"MB", 1'000'000},
                                             {"kB", 1000},
                                             {"B", 1}}};
constexpr std::array<Unit, 1> kFrameUnits = {{{"fps", 1}}};
constexpr std::array<Unit, 1> kNoUnits = {{{"", 1}}};

bool IsDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// "1.5" times `factor`; none where it is no number, no whole result, or does not fit.
std::optional<std::uint64_t> Scale(absl::string_view number, std::uint64_t factor) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(number, absl::MaxSplits('.', 1));
  const absl::string_view fraction = parts.second;
  std::uint64_t whole = 0;
  std::uint64_t rest = 0;
  if (!IsDigits(parts.first) || !absl::SimpleAtoi(parts.first, &whole)) {
    return std::nullopt;
  }
  if (number.size() != parts.first.size()) {
    if (!IsDigits(fraction) || fraction.size() > kFractionDigitsMax || !absl::SimpleAtoi(fraction, &rest)) {
      return std::nullopt;
    }
  }
  std::uint64_t divisor = 1;
  for (size_t i = 0; i < fraction.size(); ++i) {
    divisor *= 10;
  }
  const auto sum = static_cast<unsigned __int128>(whole) * factor * divisor +
                   static_cast<unsigned __int128>(rest) * factor;
  if (sum % divisor != 0 || sum / divisor > std::numeric_limits<std::uint64_t>::max()) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(sum / divisor);
}

// A number with one of the units behind it; units differ by more than case.
template <typename Units>
std::optional<std::uint64_t> ParseNumber(absl::string_view text, const Units& units) {
  const size_t end = text.find_first_not_of("0123456789.");
  const absl::string_view number = text.substr(0, end);
  const absl::string_view unit = end == absl::string_view::npos ? absl::string_view() : text.substr(end);
  for (const Unit& one : units) {
    if (absl::EqualsIgnoreCase(unit, one.name)) {
      return Scale(number, one.factor);
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> ParseBytes(absl::string_view text) {
  const auto plain = ParseNumber(text, kNoUnits);
  return plain.has_value() ? plain : ParseNumber(text, kByteUnits);
}

template <typename Units>
std::string FormatNumber(std::uint64_t value, const Units& units) {
  for (const Unit& one : units) {
    if (value >= one.factor && value % one.factor == 0) {
      return absl::StrCat(value / one.factor, one.name);
    }
  }
  return absl::StrCat(value);
}

// One limit with its burst. False: it is neither of frames nor of bits.
bool ParseLimit(absl::string_view text, Rate* rate) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  const bool has_burst = parts.first.size() != text.size();
  if (const auto frames = ParseNumber(parts.first, kFrameUnits); frames.has_value()) {
    const auto burst = has_burst ? ParseNumber(parts.second, kNoUnits) : 0;
    const bool is_new = rate->frames_per_second == 0 && *frames != 0;
    rate->frames_per_second = *frames;
    rate->burst_frames = burst.value_or(0);
    return is_new && burst.has_value();
  }
  const auto bits = ParseNumber(parts.first, kBitUnits);
  const auto burst = has_burst ? ParseBytes(parts.second) : 0;
  if (!bits.has_value() || *bits == 0 || !burst.has_value() || rate->bits_per_second != 0) {
    return false;
  }
  rate->bits_per_second = *bits;
  rate->burst_bytes = *burst;
  return true;
}

}  // namespace

absl::StatusOr<std::int64_t> ParseSeconds(absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(IsDigits(text) ? absl::StrCat(text, "s") : std::string(text), &duration)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no time; write 300s, 5m or 1h30m"));
  }
  if (duration < absl::ZeroDuration() || duration > absl::Seconds(kSecondsMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is out of range; write 300s, 5m or 1h30m"));
  }
  const std::int64_t seconds = absl::ToInt64Seconds(duration);
  if (absl::Seconds(seconds) != duration) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no whole number of seconds"));
  }
  return seconds;
}

absl::StatusOr<std::int64_t> ParsePositiveSeconds(absl::string_view text) {
  const auto seconds = ParseSeconds(text);
  if (seconds.ok() && *seconds == 0) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no time; write at least 1s"));
  }
  return seconds;
}

absl::StatusOr<AgeingTime> ParseAgeingTime(absl::string_view text) {
  if (text == "never") {
    return AgeingTime{true, 0};
  }
  const auto seconds = ParseSeconds(text);
  if (!seconds.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(seconds.status().message(), ", or never"));
  }
  return AgeingTime{false, *seconds};
}

std::string FormatAgeingTime(const AgeingTime& time) {
  return time.never ? "never" : absl::StrCat(time.seconds, "s");
}

absl::StatusOr<BpduGuardText> ParseBpduGuard(absl::string_view text) {
  if (text == "on" || text == "off") {
    return BpduGuardText{text == "on", 0};
  }
  const auto seconds = ParseSeconds(text);
  if (!seconds.ok() || *seconds == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is neither on, off nor the time until the port comes up again, as 30s"));
  }
  return BpduGuardText{true, *seconds};
}

std::string FormatBpduGuard(const BpduGuardText& guard) {
  if (guard.enabled && guard.recovery_s != 0) {
    return absl::StrCat(guard.recovery_s, "s");
  }
  return guard.enabled ? "on" : "off";
}

absl::StatusOr<FlapGuardText> ParseFlapGuard(absl::string_view text) {
  FlapGuardText guard;
  if (text == "off") {
    return guard;
  }
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  bool is_good = IsDigits(parts.first) && absl::SimpleAtoi(parts.first, &guard.moves) && guard.moves != 0;
  if (parts.first.size() != text.size()) {
    const auto seconds = ParseSeconds(parts.second);
    guard.hold_s = seconds.value_or(0);
    is_good = is_good && guard.hold_s != 0;
  }
  if (!is_good) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text,
        "\" is no flap guard; write off, the moves within 10 s that are too many, as 5, or with the ",
        "time to hold the address, as 5:60s"));
  }
  return guard;
}

std::string FormatFlapGuard(const FlapGuardText& guard) {
  if (guard.moves == 0) {
    return "off";
  }
  return guard.hold_s == 0 ? absl::StrCat(guard.moves) : absl::StrCat(guard.moves, ":", guard.hold_s, "s");
}

absl::StatusOr<Rate> ParseBitRate(absl::string_view text) {
  Rate rate;
  if (text == "off" || (ParseLimit(text, &rate) && rate.frames_per_second == 0)) {
    return rate;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is no rate; write off or one such as 100Mbit, 1.5Gbit, or with a burst 100Mbit:64KiB"));
}

absl::StatusOr<Rate> ParseStormRate(absl::string_view text) {
  Rate rate;
  if (text == "off") {
    return rate;
  }
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (!ParseLimit(part, &rate)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", part, "\" is no rate; write off, 1000fps, 10Mbit, both as 1000fps,10Mbit, ",
                       "or with bursts 1000fps:200,10Mbit:64KiB"));
    }
  }
  return rate;
}

std::string FormatRate(const Rate& rate) {
  std::string text;
  if (rate.frames_per_second != 0) {
    absl::StrAppend(&text, rate.frames_per_second, "fps");
    absl::StrAppend(&text, rate.burst_frames != 0 ? absl::StrCat(":", rate.burst_frames) : "");
  }
  if (rate.bits_per_second != 0) {
    absl::StrAppend(&text, text.empty() ? "" : ",", FormatNumber(rate.bits_per_second, kBitUnits));
    absl::StrAppend(
        &text, rate.burst_bytes != 0 ? absl::StrCat(":", FormatNumber(rate.burst_bytes, kByteUnits)) : "");
  }
  return text.empty() ? "off" : text;
}

}  // namespace ringswitch::ringctl
