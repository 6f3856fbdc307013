#pragma once

// JSON as the runtimes write it. Go's decoder, which the reference plugins use, takes keys in any case and
// null for absent; containerd relies on the first ("HostPort") and on the second ("Options": null). So does
// this one.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ringswitch::cni {

using Json = nlohmann::ordered_json;

// The object in `text`; anything else, also anything before or behind it, is kDecoding. `what` names the text
// in the error.
absl::StatusOr<Json> ParseObject(absl::string_view text, absl::string_view what);

// What Protobuf takes as a string.
bool IsUtf8(absl::string_view text);

// One line; bytes that are no UTF-8 are replaced.
std::string ToText(const Json& value);

// The member, by its exact name or else in any case; nullptr where it is missing or null, or `parent` is no
// object.
const Json* Find(const Json& parent, absl::string_view key);

// Each reads an optional member of `parent` and leaves `value` alone where it is missing. A value of another
// type, or out of range, is kBadConfig; the error calls it `path` + key.
absl::Status ReadString(const Json& parent, absl::string_view path, absl::string_view key,
                        std::string& value);
absl::Status ReadBoolean(const Json& parent, absl::string_view path, absl::string_view key, bool& value);
absl::Status ReadInteger(const Json& parent, absl::string_view path, absl::string_view key, int64_t least,
                         int64_t most, std::optional<int64_t>& value);
// As the above, for a list and an object: nullptr where it is missing.
absl::StatusOr<const Json*> FindList(const Json& parent, absl::string_view path, absl::string_view key);
absl::StatusOr<const Json*> FindObject(const Json& parent, absl::string_view path, absl::string_view key);

}  // namespace ringswitch::cni
