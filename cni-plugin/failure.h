#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ringswitch::cni {

// Codes of the CNI specification 1.1.0 (below 100) and of this plugin (from 100).
inline constexpr int kIncompatibleVersion = 1;
inline constexpr int kUnsupportedField = 2;
inline constexpr int kUnknownContainer = 3;
inline constexpr int kBadEnvironment = 4;
inline constexpr int kInputOutput = 5;
inline constexpr int kDecoding = 6;
inline constexpr int kBadConfig = 7;
inline constexpr int kBadNetns = 8;
inline constexpr int kTryAgainLater = 11;
inline constexpr int kNotAvailable = 50;
inline constexpr int kAlreadyAttached = 100;
inline constexpr int kDiffers = 101;
inline constexpr int kInternal = 999;

// An error of a CNI call: a status that carries its CNI code and details as a payload, for any code that an
// IPAM plugin may give.
absl::Status Failure(int code, absl::string_view message, absl::string_view details = "");

// The CNI code of a failure; kInternal for a status that has none.
int CodeOf(const absl::Status& failure);

// The failure with another code, the same text.
absl::Status WithCode(const absl::Status& failure, int code);

// The error object of the specification, the only thing that a failing call prints.
std::string ErrorJson(absl::string_view cni_version, const absl::Status& failure);

}  // namespace ringswitch::cni
