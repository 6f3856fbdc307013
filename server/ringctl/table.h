// Aligned columns for people, and the words that stand in their cells.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ringswitch::ringctl {

// Rows of text cells under a header. A cell never is empty nor holds white space where scripts may want to
// cut it: absent values are "-". Columns whose title ends in '>' (which is not shown) are aligned to the
// right.
class Table {
 public:
  // No titles: no header line, as in "show" output.
  explicit Table(std::vector<std::string> titles);

  // An empty cell becomes "-"; control characters are escaped. Rows may be shorter than the header.
  void AddRow(std::vector<std::string> cells);

  // Lines with line ends; columns two blanks apart, none at the end of a line.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_aligned_;
  bool has_header_ = false;
};

// `text` with control characters, C1 ones too, and bytes that are no UTF-8 as "\x1b": names that others gave
// must neither forge lines nor steer the terminal.
std::string EscapeControls(absl::string_view text);

// "PORT_STATE_UP" without "PORT_STATE_" in lower case: "up". An unspecified or unknown value is "-".
std::string EnumWord(absl::string_view name, absl::string_view prefix);

// "1,2,3", or as many of its elements as fit into `length_max` with "..." at the end.
std::string ShortenList(absl::string_view text, size_t length_max);

}  // namespace ringswitch::ringctl
