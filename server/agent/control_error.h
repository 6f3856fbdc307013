#pragma once

// Errors of the control side: an absl::Status that also carries, for programs, which fields of the request
// are wrong or why the call failed. grpc_status.h turns it into the details of a gRPC status.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace ringswitch::agent {

struct FieldViolation {
  std::string field;        // path in the request: "port.vlans.access_vid"
  std::string description;  // what is wrong and what would be right
};

struct ErrorReason {
  std::string reason;  // "PORT_EXISTS"
  std::vector<std::pair<std::string, std::string>> metadata;
};

// INVALID_ARGUMENT with all violations, of which there is at least one; the message is made of them.
absl::Status FieldError(const std::vector<FieldViolation>& violations);
absl::Status FieldError(const std::string& field, const std::string& description);
absl::Status ReasonError(absl::StatusCode code, const std::string& message, const ErrorReason& reason);

// Empty where the status carries none.
std::vector<FieldViolation> FieldViolationsOf(const absl::Status& status);
ErrorReason ErrorReasonOf(const absl::Status& status);

// Text of a caller in quotes, made printable and cut to a length that suits a message.
std::string Quoted(const std::string& text);

// Text of any origin as one line of valid UTF-8, which a protobuf string must be: control characters and
// bytes that are no UTF-8 become \xNN, the rest stays readable.
std::string Printable(const std::string& text);

}  // namespace ringswitch::agent
