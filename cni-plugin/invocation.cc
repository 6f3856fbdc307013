#include "cni-plugin/invocation.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cni-plugin/failure.h"
#include "cni-plugin/json.h"

namespace ringswitch::cni {
namespace {

constexpr size_t kContainerIdBytesMax = 128;
constexpr size_t kIfnameBytesMax = 15;  // IFNAMSIZ without the terminator

struct VerbName {
  const char* name;
  Verb verb;
};
constexpr VerbName kVerbs[] = {{"ADD", Verb::kAdd},       {"DEL", Verb::kDel}, {"CHECK", Verb::kCheck},
                               {"STATUS", Verb::kStatus}, {"GC", Verb::kGc},   {"VERSION", Verb::kVersion}};

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::Status CheckContainerId(absl::string_view id) {
  const auto allowed = [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-'; };
  bool valid = id.size() <= kContainerIdBytesMax && absl::ascii_isalnum(id[0]);
  for (const char c : id) valid = valid && allowed(c);
  if (valid) return absl::OkStatus();
  return Failure(kBadEnvironment,
                 absl::StrCat("CNI_CONTAINERID: must be 1 to ", kContainerIdBytesMax,
                              " characters of [A-Za-z0-9._-], the first one a letter or digit"),
                 absl::StrCat("got \"", id, "\""));
}

absl::Status CheckIfname(absl::string_view name) {
  bool valid = name.size() <= kIfnameBytesMax && name != "." && name != ".." && IsUtf8(name);
  for (const char c : name) valid = valid && c != '/' && c != ':' && !absl::ascii_isspace(c);
  if (valid) return absl::OkStatus();
  return Failure(kBadEnvironment,
                 absl::StrCat("CNI_IFNAME: must be 1 to ", kIfnameBytesMax,
                              " bytes of UTF-8 without '/', ':' and white space, not \".\" or \"..\""),
                 absl::StrCat("got \"", name, "\""));
}

absl::StatusOr<bool> ParseIgnoreUnknown(absl::string_view value) {
  if (value == "1" || absl::EqualsIgnoreCase(value, "true")) return true;
  if (value == "0" || absl::EqualsIgnoreCase(value, "false")) return false;
  return Failure(kBadEnvironment,
                 absl::StrCat("CNI_ARGS: IgnoreUnknown must be 1, true, 0 or false, not ", value));
}

}  // namespace

absl::StatusOr<Invocation> ReadInvocation() {
  Invocation invocation;
  const std::string verb_name = FromEnvironment("CNI_COMMAND");
  const VerbName* verb = nullptr;
  for (const VerbName& candidate : kVerbs) {
    if (verb_name == candidate.name) verb = &candidate;
  }
  if (verb_name.empty()) {
    return Failure(kBadEnvironment, "required environment variables missing: CNI_COMMAND");
  }
  if (verb == nullptr) {
    return Failure(kBadEnvironment, absl::StrCat("CNI_COMMAND: unknown command ", verb_name));
  }
  invocation.verb = verb->verb;
  if (invocation.verb == Verb::kVersion) return invocation;

  const bool has_attachment =
      invocation.verb == Verb::kAdd || invocation.verb == Verb::kDel || invocation.verb == Verb::kCheck;
  std::vector<absl::string_view> missing;
  const auto read = [&missing](const char* name, bool is_required) {
    std::string value = FromEnvironment(name);
    if (is_required && value.empty()) missing.push_back(name);
    return value;
  };
  invocation.container_id = read("CNI_CONTAINERID", has_attachment);
  invocation.netns = read("CNI_NETNS", has_attachment && invocation.verb != Verb::kDel);
  invocation.ifname = read("CNI_IFNAME", has_attachment);
  invocation.args = read("CNI_ARGS", false);
  invocation.path = read("CNI_PATH", true);
  if (!missing.empty()) {
    return Failure(kBadEnvironment,
                   absl::StrCat("required environment variables missing: ", absl::StrJoin(missing, ", ")));
  }
  if (has_attachment) {
    if (absl::Status status = CheckContainerId(invocation.container_id); !status.ok()) return status;
    if (absl::Status status = CheckIfname(invocation.ifname); !status.ok()) return status;
    if (invocation.verb != Verb::kDel && !IsUtf8(invocation.netns)) {
      return Failure(kBadEnvironment, "CNI_NETNS: must be UTF-8");
    }
  }
  return invocation;
}

absl::StatusOr<CniArgs> ParseCniArgs(absl::string_view text) {
  CniArgs args;
  bool ignore_unknown = false;
  std::vector<std::string> unknown;
  for (const absl::string_view pair : absl::StrSplit(text, ';', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(pair, '=');
    if (parts.size() != 2) {
      return Failure(kBadEnvironment, absl::StrCat("CNI_ARGS: \"", pair, "\" is no KEY=VALUE pair"));
    }
    const std::string& key = parts[0];
    if (absl::StartsWith(key, "K8S_POD_") && !IsUtf8(parts[1])) {
      return Failure(kBadEnvironment, absl::StrCat("CNI_ARGS: ", key, " must be UTF-8"));
    }
    if (key == "IgnoreUnknown") {
      const absl::StatusOr<bool> value = ParseIgnoreUnknown(parts[1]);
      if (!value.ok()) return value.status();
      ignore_unknown = *value;
    } else if (key == "K8S_POD_NAMESPACE") {
      args.pod_namespace = parts[1];
    } else if (key == "K8S_POD_NAME") {
      args.pod_name = parts[1];
    } else if (key == "K8S_POD_UID") {
      args.pod_uid = parts[1];
    } else if (key == "MAC") {
      args.mac_address = parts[1];
    } else if (key != "K8S_POD_INFRA_CONTAINER_ID" && key != "IP" && key != "GATEWAY") {
      unknown.emplace_back(pair);
    }
  }
  if (!unknown.empty() && !ignore_unknown) {
    return Failure(kBadEnvironment, absl::StrCat("CNI_ARGS: unknown arguments ", absl::StrJoin(unknown, ";"),
                                                 "; IgnoreUnknown=1 allows them"));
  }
  return args;
}

}  // namespace ringswitch::cni
