// Capture files in the pcapng format (draft-ietf-opsawg-pcapng), as tcpdump and Wireshark read them.
//
// Theory of operation. A file is a sequence of blocks; each function appends one. It begins with one section
// header; an interface stands before its first frame, known by its number in order of appearance, counted
// from 0; statistics end it, so that a reader can tell a whole file from one that was cut short. Numbers are
// in this machine's byte order, which the section header tells.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace ringswitch::ringctl {

struct PcapngFrame {
  std::uint32_t interface = 0;
  std::uint64_t time_ns = 0;  // Since 1970.
  bool is_inbound = false;
  std::uint32_t length = 0;  // Of the whole frame.
  absl::string_view bytes;   // The first ones.
  std::string comment;       // Empty: none.
};

void AppendSectionHeader(absl::string_view application, std::string* file);
// An Ethernet interface whose frames' times are in nanoseconds. `snap_length`: most bytes of a frame.
void AppendInterface(absl::string_view name, std::uint32_t snap_length, std::string* file);
void AppendFrame(const PcapngFrame& frame, std::string* file);
// `captured`: frames of the interface that the file has. `lost`: frames that it was to have and does not.
void AppendStatistics(std::uint32_t interface, std::uint64_t time_ns, std::uint64_t captured,
                      std::optional<std::uint64_t> lost, absl::string_view comment, std::string* file);

}  // namespace ringswitch::ringctl
