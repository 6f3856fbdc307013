#include "cni-plugin/plugin.h"

#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cni-plugin/config.h"
#include "cni-plugin/failure.h"
#include "cni-plugin/invocation.h"
#include "cni-plugin/verbs.h"

namespace ringswitch::cni {
namespace {

// VERSION echoes the version that it was asked in, known or not; some callers ask in none.
absl::StatusOr<std::string> Version(absl::string_view input, absl::string_view newest) {
  std::string version(newest);
  if (!absl::StripAsciiWhitespace(input).empty()) {
    const absl::StatusOr<Json> document = ParseObject(input, "stdin");
    if (!document.ok()) return document.status();
    if (absl::Status status = ReadString(*document, "", "cniVersion", version); !status.ok()) return status;
  }
  Json answer;
  answer["cniVersion"] = version;
  answer["supportedVersions"] = kSupportedVersions;
  return ToText(answer);
}

// Verbs came with versions of the specification.
absl::Status CheckVerb(Verb verb, absl::string_view version) {
  const char* since = kSupportedVersions[0];
  if (verb == Verb::kCheck) since = "0.4.0";
  if (verb == Verb::kStatus || verb == Verb::kGc) since = "1.1.0";
  if (!IsVersionBefore(version, since)) return absl::OkStatus();
  return Failure(kIncompatibleVersion,
                 absl::StrCat("cniVersion: this command exists from ", since, " on, not in ", version));
}

}  // namespace

absl::StatusOr<std::string> RunPlugin(absl::FunctionRef<absl::StatusOr<std::string>()> read_input,
                                      std::string& cni_version) {
  cni_version = *std::prev(std::end(kSupportedVersions));
  const absl::StatusOr<Invocation> invocation = ReadInvocation();
  if (!invocation.ok()) return invocation.status();
  absl::StatusOr<std::string> input = read_input();
  if (!input.ok()) return input.status();
  if (invocation->verb == Verb::kVersion) return Version(*input, cni_version);

  const absl::StatusOr<NetworkConfig> config = ReadNetworkConfig(*std::move(input));
  if (!config.ok()) return config.status();
  cni_version = config->cni_version;
  if (absl::Status status = CheckVerb(invocation->verb, cni_version); !status.ok()) return status;
  absl::Status status;
  switch (invocation->verb) {
    case Verb::kAdd:
      return Add(*config, *invocation);
    case Verb::kDel:
      status = Del(*config, *invocation);
      break;
    case Verb::kCheck:
      status = Check(*config, *invocation);
      break;
    case Verb::kStatus:
      status = Status(*config, *invocation);
      break;
    case Verb::kGc:
      status = Gc(*config, *invocation);
      break;
    case Verb::kVersion:
      break;
  }
  if (!status.ok()) return status;
  return std::string();
}

}  // namespace ringswitch::cni
