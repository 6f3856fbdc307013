#include "cni-plugin/failure.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "cni-plugin/json.h"

namespace ringswitch::cni {
namespace {

constexpr char kCodePayload[] = "ringswitch.cni/code";
constexpr char kDetailsPayload[] = "ringswitch.cni/details";

std::string DetailsOf(const absl::Status& failure) {
  return std::string(failure.GetPayload(kDetailsPayload).value_or(absl::Cord()));
}

}  // namespace

absl::Status Failure(int code, absl::string_view message, absl::string_view details) {
  absl::Status failure = absl::UnknownError(message);
  failure.SetPayload(kCodePayload, absl::Cord(std::to_string(code)));
  if (!details.empty()) failure.SetPayload(kDetailsPayload, absl::Cord(details));
  return failure;
}

int CodeOf(const absl::Status& failure) {
  int code = kInternal;
  const auto payload = failure.GetPayload(kCodePayload);
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &code)) return kInternal;
  return code;
}

absl::Status WithCode(const absl::Status& failure, int code) {
  return Failure(code, failure.message(), DetailsOf(failure));
}

std::string ErrorJson(absl::string_view cni_version, const absl::Status& failure) {
  Json error;
  error["cniVersion"] = std::string(cni_version);
  error["code"] = CodeOf(failure);
  error["msg"] = std::string(failure.message());
  const std::string details = DetailsOf(failure);
  if (!details.empty()) error["details"] = details;
  return ToText(error);
}

}  // namespace ringswitch::cni
