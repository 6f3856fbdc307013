// Quantities as people write them, times, rates and bursts: "300s", "1000fps:200", "10Mbit:64KiB". Only the
// form is judged here; which values are legal is the agent's to say. What is written can be read again.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ringswitch::ringctl {

// Whole seconds: "300", or a number with a unit, "300s", "5m", "1h30m".
absl::StatusOr<std::int64_t> ParseSeconds(absl::string_view text);
absl::StatusOr<std::int64_t> ParsePositiveSeconds(absl::string_view text);  // not 0

struct AgeingTime {
  bool never = false;
  std::int64_t seconds = 0;  // Without meaning where `never` is set.

  bool operator==(const AgeingTime&) const = default;
};

// "never" or seconds.
absl::StatusOr<AgeingTime> ParseAgeingTime(absl::string_view text);
std::string FormatAgeingTime(const AgeingTime& time);

struct BpduGuardText {
  bool enabled = false;
  std::int64_t recovery_s = 0;  // 0: none.

  bool operator==(const BpduGuardText&) const = default;
};

// "on", "off", or the seconds after which the port comes up again.
absl::StatusOr<BpduGuardText> ParseBpduGuard(absl::string_view text);
std::string FormatBpduGuard(const BpduGuardText& guard);

struct FlapGuardText {
  std::uint32_t moves = 0;  // 0: off.
  std::int64_t hold_s = 0;  // 0: what the agent takes.

  bool operator==(const FlapGuardText&) const = default;
};

// "off", "MOVES" or "MOVES:HOLD", as 5:60s.
absl::StatusOr<FlapGuardText> ParseFlapGuard(absl::string_view text);
std::string FormatFlapGuard(const FlapGuardText& guard);

// Limits by frames and by bits, each 0 where there is none; bursts 0: what the agent takes.
struct Rate {
  std::uint64_t frames_per_second = 0;
  std::uint64_t burst_frames = 0;
  std::uint64_t bits_per_second = 0;
  std::uint64_t burst_bytes = 0;

  bool operator==(const Rate&) const = default;
};

// "off" or "10Mbit", with a burst "10Mbit:64KiB". Units: bit, kbit, Mbit, Gbit (a thousand each); B, kB, MB,
// GB, KiB, MiB, GiB, none being bytes. Either case, and fractions: "1.5Gbit".
absl::StatusOr<Rate> ParseBitRate(absl::string_view text);
// As ParseBitRate, or "1000fps", with a burst "1000fps:200", or both: "1000fps,10Mbit".
absl::StatusOr<Rate> ParseStormRate(absl::string_view text);
std::string FormatRate(const Rate& rate);

}  // namespace ringswitch::ringctl
