#include "server/agent/field_checks.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/agent/interface_name.h"

namespace ringswitch::agent {
namespace {

using bridge::VlanId;

bool IsName(const std::string& text, const char* punctuation) {
  if (text.empty() || !absl::ascii_isalnum(static_cast<unsigned char>(text[0]))) return false;
  return std::all_of(text.begin(), text.end(), [punctuation](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view(punctuation).find(c) != std::string_view::npos;
  });
}

}  // namespace

void CheckName(const std::string& field, const std::string& name, size_t length_max, const char* punctuation,
               Violations* violations) {
  if (name.size() <= length_max && IsName(name, punctuation)) return;
  violations->push_back(
      {field, absl::StrCat(Quoted(name), " is not a name: 1 to ", length_max, " characters of [A-Za-z0-9",
                           punctuation, "], the first one a letter or digit")});
}

void CheckIfname(const std::string& field, const std::string& name, Violations* violations) {
  if (IsInterfaceName(name)) return;
  violations->push_back(
      {field, absl::StrCat(Quoted(name), " is not an interface name: 1 to ", kIfnameMax,
                           " bytes without '/', ':', '%', white space and byte 0xa0, not "
                           "\".\", \"..\", \"all\" or \"default\"; take one such as eth0")});
}

void CheckNetns(const std::string& field, const std::string& path, Violations* violations) {
  if (path.empty()) return;
  if (path[0] == '/' && path.size() <= kNetnsPathMax && path.find('\0') == std::string::npos) return;
  violations->push_back(
      {field, absl::StrCat(Quoted(path), " is not the absolute path of a network namespace, such as ",
                           "/run/netns/NAME or /proc/PID/ns/net")});
}

uint32_t CheckRange(const std::string& field, uint32_t value, uint32_t first, uint32_t last,
                    uint32_t fallback, Violations* violations) {
  if (value == 0) return fallback;
  if (value < first || value > last) {
    violations->push_back({field, absl::StrCat(value, " is out of range: ", first, " to ", last)});
  }
  return value;
}

bool CheckVid(const std::string& field, uint32_t vid, Violations* violations) {
  if (bridge::IsVlan(vid)) return true;
  violations->push_back({field, absl::StrCat(vid, " is not a VID: 1 to ", bridge::kVlanIdMax)});
  return false;
}

bridge::MacAddress CheckMac(const std::string& field, const std::string& text, Violations* violations) {
  std::optional<bridge::MacAddress> mac = bridge::MacAddress::Parse(text);
  if (!mac.has_value()) {
    violations->push_back(
        {field, absl::StrCat(Quoted(text),
                             " is not a MAC address: six bytes in hexadecimal, such as 02:00:00:00:0a:01")});
    return {};
  }
  if (!mac->is_station()) {
    violations->push_back({field, absl::StrCat(text, mac->is_zero() ? " is zero" : " is a group address",
                                               ": the address of a single station is wanted")});
  }
  return *mac;
}

void CheckRanges(const std::string& field, const std::vector<VlanRange>& ranges, bridge::VlanSet* vids,
                 Violations* violations) {
  if (ranges.size() > kVlanRangesMax) {
    violations->push_back(
        {field, absl::StrCat(ranges.size(), " ranges are too many: at most ", kVlanRangesMax)});
    return;
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    std::string path = absl::StrCat(field, "[", i, "]");
    uint32_t last = ranges[i].last == 0 ? ranges[i].first : ranges[i].last;
    bool is_valid = CheckVid(path + ".first", ranges[i].first, violations);
    is_valid &= last == ranges[i].first || CheckVid(path + ".last", last, violations);
    if (is_valid && last < ranges[i].first) {
      violations->push_back(
          {path + ".last", absl::StrCat(last, " is less than first, which is ", ranges[i].first)});
      is_valid = false;
    }
    if (is_valid) vids->AddRange(static_cast<VlanId>(ranges[i].first), static_cast<VlanId>(last));
  }
}

uint32_t CheckSeconds(const std::string& field, const DurationRequest& time, uint32_t last_s,
                      const std::string& zero, Violations* violations) {
  if (time.seconds == 0 && time.nanos == 0) {
    violations->push_back({field, zero});
  } else if (time.nanos != 0) {
    violations->push_back({field, "whole seconds are wanted"});
  } else if (time.seconds < 1 || time.seconds > last_s) {
    violations->push_back({field, absl::StrCat(time.seconds, " s is out of range: 1 s to ", last_s, " s")});
  } else {
    return static_cast<uint32_t>(time.seconds);
  }
  return 1;
}

}  // namespace ringswitch::agent
