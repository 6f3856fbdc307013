#include "server/agent/control_error.h"

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"

namespace ringswitch::agent {
namespace {

// A payload is a list of strings, escaped and one a line.
constexpr char kViolationsUrl[] = "ringswitch.agent/FieldViolations";
constexpr char kReasonUrl[] = "ringswitch.agent/ErrorReason";
constexpr size_t kQuotedMax = 80;

void AppendLine(std::string* payload, const std::string& text) {
  absl::StrAppend(payload, absl::CEscape(text), "\n");
}

std::vector<std::string> Lines(const absl::Status& status, const char* url) {
  std::vector<std::string> lines;
  absl::optional<absl::Cord> payload = status.GetPayload(url);
  if (!payload.has_value()) return lines;
  std::string text(*payload);
  for (absl::string_view escaped : absl::StrSplit(text, '\n')) {
    std::string line;
    absl::CUnescape(escaped, &line);
    lines.push_back(std::move(line));
  }
  lines.pop_back();  // behind the last newline
  return lines;
}

// Bytes of the UTF-8 character at `at`; 0: there is none, or an overlong one, a surrogate, one out of range.
size_t Utf8Length(const std::string& text, size_t at) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(at + 1);
  const bool is_bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return is_bad ? 0 : length;
}

}  // namespace

absl::Status FieldError(const std::vector<FieldViolation>& violations) {
  std::string message;
  std::string payload;
  for (const FieldViolation& violation : violations) {
    absl::StrAppend(&message, message.empty() ? "" : "; ", violation.field, ": ", violation.description);
    AppendLine(&payload, violation.field);
    AppendLine(&payload, violation.description);
  }
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kViolationsUrl, absl::Cord(payload));
  return status;
}

absl::Status FieldError(const std::string& field, const std::string& description) {
  return FieldError({FieldViolation{field, description}});
}

absl::Status ReasonError(absl::StatusCode code, const std::string& message, const ErrorReason& reason) {
  absl::Status status(code, message);
  std::string payload;
  AppendLine(&payload, reason.reason);
  for (const auto& [key, value] : reason.metadata) {
    AppendLine(&payload, key);
    AppendLine(&payload, value);
  }
  status.SetPayload(kReasonUrl, absl::Cord(payload));
  return status;
}

std::vector<FieldViolation> FieldViolationsOf(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  std::vector<std::string> lines = Lines(status, kViolationsUrl);
  for (size_t i = 0; i + 1 < lines.size(); i += 2) violations.push_back({lines[i], lines[i + 1]});
  return violations;
}

ErrorReason ErrorReasonOf(const absl::Status& status) {
  ErrorReason reason;
  std::vector<std::string> lines = Lines(status, kReasonUrl);
  if (!lines.empty()) reason.reason = lines[0];
  for (size_t i = 1; i + 1 < lines.size(); i += 2) reason.metadata.emplace_back(lines[i], lines[i + 1]);
  return reason;
}

std::string Quoted(const std::string& text) {
  bool is_cut = text.size() > kQuotedMax;
  std::string shown = text.substr(0, kQuotedMax);
  return absl::StrCat("\"", absl::CHexEscape(shown), is_cut ? "..." : "", "\"");
}

std::string Printable(const std::string& text) {
  std::string printable;
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8Length(text, at);
    const unsigned char first = static_cast<unsigned char>(text[at]);
    if (length == 0 || first < ' ' || first == 0x7f) {
      absl::StrAppend(&printable, "\\x", absl::Hex(first, absl::kZeroPad2));
      ++at;
    } else {
      printable.append(text, at, length);
      at += length;
    }
  }
  return printable;
}

}  // namespace ringswitch::agent
