#include "server/agent/grpc_status.h"

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/agent/control_error.h"

namespace ringswitch::agent {
namespace {

constexpr char kDomain[] = "ringswitch.v1";
// Details travel in a header, and clients limit those to 8 KiB by default: more violations than this help
// nobody.
constexpr size_t kViolationsMax = 16;
constexpr size_t kMessageMax = 2048;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  std::string message(status.message());
  if (message.size() > kMessageMax) message = message.substr(0, kMessageMax) + "...";
  details.set_message(message);
  google::rpc::BadRequest bad_request;
  for (const FieldViolation& violation : FieldViolationsOf(status)) {
    if (bad_request.field_violations_size() == kViolationsMax) break;
    auto* added = bad_request.add_field_violations();
    added->set_field(violation.field);
    added->set_description(violation.description);
  }
  google::rpc::ErrorInfo info;
  ErrorReason reason = ErrorReasonOf(status);
  if (bad_request.field_violations_size() > 0) {
    details.add_details()->PackFrom(bad_request);
    reason.reason = "BAD_REQUEST";
  }
  info.set_reason(reason.reason.empty() ? CodeName(status) : reason.reason);
  info.set_domain(kDomain);
  for (const auto& [key, value] : reason.metadata) (*info.mutable_metadata())[key] = value;
  details.add_details()->PackFrom(info);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message, details.SerializeAsString());
}

const char* CodeName(const absl::Status& status) {
  static constexpr const char* kNames[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  size_t code = static_cast<size_t>(status.code());
  return code < sizeof(kNames) / sizeof(kNames[0]) ? kNames[code] : "UNKNOWN";
}

}  // namespace ringswitch::agent
