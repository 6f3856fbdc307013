#include "cni-plugin/ipam.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cni-plugin/failure.h"
#include "cni-plugin/process.h"

namespace ringswitch::cni {
namespace {

// The error of a plugin that failed: its error object, or what else it left.
absl::Status ReadFailure(absl::string_view plugin, const ProcessResult& result) {
  const absl::StatusOr<Json> error = ParseObject(result.standard_output, "");
  if (error.ok()) {
    std::string message;
    std::string details;
    std::optional<int64_t> code;
    const bool is_readable = ReadString(*error, "", "msg", message).ok() &&
                             ReadString(*error, "", "details", details).ok() &&
                             ReadInteger(*error, "", "code", 1, INT32_MAX, code).ok();
    if (is_readable && code) {
      return Failure(static_cast<int>(*code), absl::StrCat("IPAM plugin ", plugin, ": ", message), details);
    }
  }
  const absl::string_view output =
      result.standard_error.empty() ? result.standard_output : result.standard_error;
  return Failure(kInternal,
                 absl::StrCat("IPAM plugin ", plugin, " failed with exit code ", result.exit_code,
                              " and without an error object"),
                 absl::StripAsciiWhitespace(output));
}

// A variable of the environment that is another while this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

}  // namespace

absl::StatusOr<std::string> Ipam::FindPlugin() const {
  for (const absl::string_view directory : absl::StrSplit(invocation_.path, ':', absl::SkipEmpty())) {
    std::string path = absl::StrCat(directory, "/", config_.ipam_type);
    struct stat information;
    if (stat(path.c_str(), &information) == 0 && S_ISREG(information.st_mode)) return path;
  }
  return Failure(kBadConfig, absl::StrCat("ipam.type: no plugin ", config_.ipam_type, " in CNI_PATH"),
                 absl::StrCat("searched ", invocation_.path));
}

absl::StatusOr<std::string> Ipam::RunOnce(const std::string& path, absl::string_view input,
                                          absl::Duration timeout) const {
  absl::StatusOr<ProcessResult> result = RunProcess(path, input, timeout);
  if (!result.ok()) return result.status();
  if (result->exit_code != 0) return ReadFailure(config_.ipam_type, *result);
  return std::move(result->standard_output);
}

absl::StatusOr<std::string> Ipam::Run(absl::Duration timeout) const {
  const absl::StatusOr<std::string> path = FindPlugin();
  if (!path.ok()) return path.status();
  absl::StatusOr<std::string> output = RunOnce(*path, config_.text, timeout);
  const bool is_too_new = !output.ok() && CodeOf(output.status()) == kIncompatibleVersion;
  if (!is_too_new || IsVersionBefore(config_.cni_version, "1.1.0")) return output;
  return RunOnce(*path, TextWithVersion(config_, "1.0.0"), timeout);
}

absl::StatusOr<std::string> Ipam::RunAs(const char* command, absl::Duration timeout) const {
  const Variable own("CNI_COMMAND", command);
  return Run(timeout);
}

absl::Status Ipam::Release(const std::string& container_id, const std::string& ifname,
                           absl::Duration timeout) const {
  const Variable container("CNI_CONTAINERID", container_id);
  const Variable interface("CNI_IFNAME", ifname);
  const Variable netns("CNI_NETNS", "");
  return RunAs("DEL", timeout).status();
}

absl::Status Ipam::RunIfKnown(absl::Duration timeout) const {
  const absl::StatusOr<std::string> versions = RunAs("VERSION", timeout);
  if (!versions.ok()) return versions.status();
  const absl::StatusOr<Json> document = ParseObject(*versions, "the output of the IPAM plugin");
  if (!document.ok()) return document.status();
  const auto supported = document->find("supportedVersions");
  const bool is_known = supported != document->end() && supported->is_array() &&
                        std::count(supported->begin(), supported->end(), "1.1.0") != 0;
  return is_known ? Run(timeout).status() : absl::OkStatus();
}

}  // namespace ringswitch::cni
