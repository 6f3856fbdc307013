#include "server/ringctl/fdb_lines.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace ringswitch::ringctl {

absl::StatusOr<std::vector<FdbLine>> ReadFdbLines(std::istream& in, const std::string& name) {
  std::vector<FdbLine> lines;
  std::string text;
  for (size_t number = 1; std::getline(in, text); ++number) {
    const absl::string_view content = absl::string_view(text).substr(0, text.find('#'));
    const std::vector<absl::string_view> words =
        absl::StrSplit(content, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) {
      continue;
    }
    FdbLine line;
    line.number = number;
    const bool is_vid = std::all_of(words[0].begin(), words[0].end(), absl::ascii_isdigit) &&
                        absl::SimpleAtoi(words[0], &line.vid);
    if (words.size() != 3 || !is_vid) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", number, ": a line is VID MAC PORT, as \"10 02:00:00:00:0a:01 p1\""));
    }
    line.mac_address = std::string(words[1]);
    line.port_name = std::string(words[2]);
    lines.push_back(std::move(line));
  }
  if (in.bad() || (!in.eof() && in.fail())) {
    return absl::UnavailableError(absl::StrCat(name, " could not be read"));
  }
  if (lines.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has no entries; a line is VID MAC PORT, as \"10 02:00:00:00:0a:01 p1\""));
  }
  return lines;
}

}  // namespace ringswitch::ringctl
