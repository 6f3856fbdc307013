#pragma once

// What the files of the switch model share: its errors and the names of its locks.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"

namespace ringswitch::agent {

inline constexpr char kSwitchNotFound[] = "SWITCH_NOT_FOUND";

// No port has such a name: '/' is in none.
inline std::string SwitchKey(const std::string& name) {
  return absl::StrCat("switch/", name);
}

inline absl::Status SwitchNotFound(const std::string& name) {
  return ReasonError(absl::StatusCode::kNotFound, absl::StrCat("no switch ", Quoted(name)),
                     {kSwitchNotFound, {{"switch", name}}});
}

inline absl::Status SwitchExists(const std::string& name) {
  return ReasonError(absl::StatusCode::kAlreadyExists, absl::StrCat("switch ", Quoted(name), " exists"),
                     {"SWITCH_EXISTS", {{"switch", name}}});
}

inline absl::Status PortNotFound(const std::string& name) {
  return ReasonError(absl::StatusCode::kNotFound, absl::StrCat("no port ", Quoted(name)),
                     {"PORT_NOT_FOUND", {{"port", name}}});
}

inline absl::Status PortExists(const std::string& name) {
  return ReasonError(absl::StatusCode::kAlreadyExists, absl::StrCat("port ", Quoted(name), " exists"),
                     {"PORT_EXISTS", {{"port", name}}});
}

// The status of a layer below, with a reason for programs.
inline absl::Status WithReason(const absl::Status& status, const std::string& reason, const std::string& kind,
                               const std::string& name) {
  return ReasonError(status.code(), absl::StrCat(kind, " ", Quoted(name), ": ", status.message()),
                     {reason, {{kind, name}}});
}

}  // namespace ringswitch::agent
