#pragma once

// How many attachment calls there were, how they ended and how long they took. Threads: any.

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace ringswitch::agent {

enum class CniVerb : uint8_t { kCreate, kConfigure, kCheck, kDelete };
inline constexpr std::array<const char*, 4> kCniVerbNames = {"create", "configure", "check", "delete"};

// Upper bounds of the duration buckets, in seconds; one more is for what is longer.
inline constexpr std::array<double, 9> kCniDurationBounds = {0.001, 0.0025, 0.005, 0.01, 0.025,
                                                             0.1,   0.5,    2.5,   10};

struct CniDurations {
  std::array<uint64_t, kCniDurationBounds.size() + 1> buckets{};  // each call in one
  uint64_t count = 0;
  double sum_seconds = 0;
};

struct CniTotals {
  std::map<std::pair<CniVerb, std::string>, uint64_t> by_code;
  std::array<CniDurations, kCniVerbNames.size()> durations;  // by verb
};

class CniRequests {
 public:
  void Count(CniVerb verb, const std::string& code, double seconds) {
    size_t bucket = 0;
    while (bucket < kCniDurationBounds.size() && seconds > kCniDurationBounds[bucket]) ++bucket;
    std::lock_guard lock(mutex_);
    ++totals_.by_code[{verb, code}];
    CniDurations& durations = totals_.durations[static_cast<size_t>(verb)];
    ++durations.buckets[bucket];
    ++durations.count;
    durations.sum_seconds += seconds;
  }

  CniTotals Read() const {
    std::lock_guard lock(mutex_);
    return totals_;
  }

 private:
  mutable std::mutex mutex_;
  CniTotals totals_;
};

}  // namespace ringswitch::agent
