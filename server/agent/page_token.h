#pragma once

// Page tokens: opaque to clients, and good only for the listing, with its filters, that gave them out.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ringswitch::agent {

inline constexpr size_t kPageRowsMax = 1000;      // ports are large messages: 1000 stay below gRPC's 4 MiB
inline constexpr size_t kFdbPageRowsMax = 10000;  // as the contract says

// Rows of a page where `asked` were asked for.
constexpr size_t PageSize(uint32_t asked, size_t rows_max) {
  return asked == 0 || asked > rows_max ? rows_max : asked;
}

// `listing` names the call and its filters; `position` is where the next page goes on.
std::string MakePageToken(const std::string& listing, const std::string& position);
// The position; "" for an empty token. INVALID_ARGUMENT names page_token.
absl::StatusOr<std::string> ParsePageToken(const std::string& listing, const std::string& token);

}  // namespace ringswitch::agent
