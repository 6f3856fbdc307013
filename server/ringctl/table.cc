#include "server/ringctl/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ringswitch::ringctl {

Table::Table(std::vector<std::string> titles) : has_header_(!titles.empty()) {
  for (std::string& title : titles) {
    right_aligned_.push_back(!title.empty() && title.back() == '>');
    if (right_aligned_.back()) {
      title.pop_back();
    }
  }
  if (has_header_) {
    rows_.push_back(std::move(titles));
  }
}

void Table::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    if (cell.empty()) {
      cell.push_back('-');
    }
  }
  rows_.push_back(std::move(cells));
}

std::string Table::ToString() const {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    for (size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - row[column].size(), ' ');
      const bool right_aligned = column < right_aligned_.size() && right_aligned_[column];
      const bool is_last = column + 1 == row.size();
      absl::StrAppend(&text, column == 0 ? "" : "  ", right_aligned ? padding : "", row[column],
                      right_aligned || is_last ? "" : padding);
    }
    text.push_back('\n');
  }
  return text;
}

std::string EnumWord(absl::string_view name, absl::string_view prefix) {
  const absl::string_view word = absl::StripPrefix(name, prefix);
  if (word.empty() || word == "UNSPECIFIED") {
    return "-";
  }
  return absl::AsciiStrToLower(word);
}

std::string ShortenList(absl::string_view text, size_t length_max) {
  if (text.size() <= length_max) {
    return std::string(text);
  }
  const absl::string_view kept = text.substr(0, length_max - 3);
  // Not within an element: "1,..." must not stand for "100".
  return absl::StrCat(kept.substr(0, kept.rfind(',') + 1), "...");
}

}  // namespace ringswitch::ringctl
