#include "server/agent/page_token.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"

namespace ringswitch::agent {
namespace {

// FNV-1a: keeps the token short and stable over restarts. It detects mistakes; there is nothing to forge.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

std::string Head(const std::string& listing, const std::string& position) {
  return absl::StrCat(absl::Hex(Hash(absl::StrCat(listing, "\n", position)), absl::kZeroPad16), ".");
}

}  // namespace

std::string MakePageToken(const std::string& listing, const std::string& position) {
  return absl::WebSafeBase64Escape(absl::StrCat(Head(listing, position), position));
}

absl::StatusOr<std::string> ParsePageToken(const std::string& listing, const std::string& token) {
  if (token.empty()) return std::string();
  std::string text;
  size_t dot = std::string::npos;
  if (absl::WebSafeBase64Unescape(token, &text)) dot = text.find('.');
  std::string position = dot == std::string::npos ? "" : text.substr(dot + 1);
  if (position.empty() || !absl::StartsWith(text, Head(listing, position))) {
    return FieldError(
        "page_token",
        "not a token that this listing gave, or its filters have changed: start with an empty one");
  }
  return position;
}

}  // namespace ringswitch::agent
