#include "server/ringctl/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ringswitch::ringctl {

namespace {

// Bytes of the UTF-8 character that `text` begins with; 0: none. Overlong forms of control characters begin
// with 0xc0, 0xe0 or 0xf0 and are taken for none too.
size_t Utf8Size(absl::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  size_t size = 0;
  if (byte(0) < 0x80) size = 1;
  if (byte(0) >= 0xc2 && byte(0) < 0xe0) size = 2;
  if (byte(0) >= 0xe0 && byte(0) < 0xf0) size = 3;
  if (byte(0) >= 0xf0 && byte(0) < 0xf5) size = 4;
  const bool is_overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80 || is_overlong) {
      return 0;
    }
  }
  return size;
}

}  // namespace

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
    cell = EscapeControls(cell);
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

std::string EscapeControls(absl::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const size_t size = Utf8Size(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool is_c1 = size == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    const bool is_shown = size > 1 ? !is_c1 : size == 1 && first >= 0x20 && first != 0x7f;
    const absl::string_view character = text.substr(0, std::max<size_t>(size, 1));
    for (const char c : character) {
      if (is_shown) {
        escaped.push_back(c);
      } else {
        absl::StrAppend(&escaped, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
      }
    }
    text.remove_prefix(character.size());
  }
  return escaped;
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
