#include "cni-plugin/json.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cni-plugin/failure.h"

namespace ringswitch::cni {
namespace {

// What prints or copies a value goes as deep into the stack as the value is nested.
constexpr int kDepthMax = 100;

absl::Status WrongType(absl::string_view path, absl::string_view key, absl::string_view wanted,
                       const Json& value) {
  constexpr size_t kShownBytesMax = 100;
  return Failure(kBadConfig, absl::StrCat(path, key, ": must be ", wanted, ", not ",
                                          ToText(value).substr(0, kShownBytesMax)));
}

}  // namespace

absl::StatusOr<Json> ParseObject(absl::string_view text, absl::string_view what) {
  // The library takes these two, other decoders do not: an IPAM plugin gets the same bytes.
  if (absl::StartsWith(text, "\xef\xbb\xbf")) {
    return Failure(kDecoding, absl::StrCat(what, " is not valid JSON"), "it begins with a byte order mark");
  }
  if (text.find('\0') != absl::string_view::npos) {
    return Failure(kDecoding, absl::StrCat(what, " is not valid JSON"), "it holds a NUL byte");
  }
  bool is_too_deep = false;
  const auto take = [&is_too_deep](int depth, Json::parse_event_t, Json&) {
    is_too_deep = is_too_deep || depth > kDepthMax;
    return !is_too_deep;
  };
  try {
    Json value = Json::parse(text, take);
    if (is_too_deep) {
      return Failure(kDecoding, absl::StrCat(what, " is nested more than ", kDepthMax, " deep"));
    }
    if (!value.is_object()) return Failure(kDecoding, absl::StrCat(what, " is no JSON object"));
    return value;
  } catch (const Json::exception& error) {
    // The library's message begins with its own error id in brackets.
    absl::string_view reason = error.what();
    const size_t bracket = reason.find("] ");
    if (bracket != absl::string_view::npos) reason.remove_prefix(bracket + 2);
    return Failure(kDecoding, absl::StrCat(what, " is not valid JSON"), reason);
  }
}

bool IsUtf8(absl::string_view text) {
  try {
    (void)Json(std::string(text)).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

std::string ToText(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json* Find(const Json& parent, absl::string_view key) {
  if (!parent.is_object()) return nullptr;
  const Json* found = nullptr;
  for (const auto& [name, value] : parent.items()) {
    if (name == key) return value.is_null() ? nullptr : &value;
    if (!value.is_null() && absl::EqualsIgnoreCase(name, key)) found = &value;
  }
  return found;
}

absl::Status ReadString(const Json& parent, absl::string_view path, absl::string_view key,
                        std::string& value) {
  const Json* member = Find(parent, key);
  if (member == nullptr) return absl::OkStatus();
  if (!member->is_string()) return WrongType(path, key, "a string", *member);
  value = member->get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadBoolean(const Json& parent, absl::string_view path, absl::string_view key, bool& value) {
  const Json* member = Find(parent, key);
  if (member == nullptr) return absl::OkStatus();
  if (!member->is_boolean()) return WrongType(path, key, "true or false", *member);
  value = member->get<bool>();
  return absl::OkStatus();
}

absl::Status ReadInteger(const Json& parent, absl::string_view path, absl::string_view key, int64_t least,
                         int64_t most, std::optional<int64_t>& value) {
  const Json* member = Find(parent, key);
  if (member == nullptr) return absl::OkStatus();
  const bool too_large = member->is_number_unsigned() && member->get<uint64_t>() > uint64_t{INT64_MAX};
  const int64_t number = member->is_number_integer() && !too_large ? member->get<int64_t>() : 0;
  if (!member->is_number_integer() || too_large || number < least || number > most) {
    return WrongType(path, key, absl::StrCat("a whole number from ", least, " to ", most), *member);
  }
  value = number;
  return absl::OkStatus();
}

absl::StatusOr<const Json*> FindList(const Json& parent, absl::string_view path, absl::string_view key) {
  const Json* member = Find(parent, key);
  if (member != nullptr && !member->is_array()) return WrongType(path, key, "a list", *member);
  return member;
}

absl::StatusOr<const Json*> FindObject(const Json& parent, absl::string_view path, absl::string_view key) {
  const Json* member = Find(parent, key);
  if (member != nullptr && !member->is_object()) return WrongType(path, key, "an object", *member);
  return member;
}

}  // namespace ringswitch::cni
