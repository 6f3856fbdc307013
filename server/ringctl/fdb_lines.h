// FDB entries as lines of text: "VID MAC PORT".
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ringswitch::ringctl {

struct FdbLine {
  size_t number = 0;  // Of the line, from 1.
  std::uint32_t vid = 0;
  std::string mac_address;
  std::string port_name;
};

// Reads to the end. Words are parted by white space; empty lines and what follows a '#' are skipped. Only the
// number of words and the VID's form are judged. The error begins with `name` and the line's number.
absl::StatusOr<std::vector<FdbLine>> ReadFdbLines(std::istream& in, const std::string& name);

}  // namespace ringswitch::ringctl
