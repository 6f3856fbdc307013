// What people give to ringctl and what it writes: lines of FDB entries, VLAN ranges, rates and times, frames
// as text, capture files.
//
// Theory of operation. The whole input is given to every parser. What one takes is printed and taken again as
// the same. As a frame it is put into a capture file, which is then read by a reader that knows the format's
// frame only: blocks of whole 32-bit words, their length at both ends, options that end where their block
// does.

#include <cstring>
#include <sstream>

#include "server/ringctl/fdb_lines.h"
#include "server/ringctl/frame_text.h"
#include "server/ringctl/pcapng.h"
#include "server/ringctl/quantities.h"
#include "server/ringctl/vid_ranges.h"
#include "tests/fuzz/input.h"

namespace ringswitch::ringctl {
namespace {

using fuzz::Input;
using fuzz::Require;

// What is taken is printed, and what is printed is taken and printed the same.
template <typename Value, typename Parse, typename Format>
void CheckRoundTrip(const std::string& text, Parse parse, Format format) {
  const absl::StatusOr<Value> value = parse(text);
  if (!value.ok()) return Require(!value.status().message().empty(), "an error says why");
  const std::string printed = format(*value);
  const absl::StatusOr<Value> again = parse(printed);
  Require(again.ok() && format(*again) == printed, "what is printed can be taken");
}

void CheckLines(const std::string& text) {
  std::istringstream stream(text);
  const absl::StatusOr<std::vector<FdbLine>> lines = ReadFdbLines(stream, "file");
  if (!lines.ok()) return Require(!lines.status().message().empty(), "an error says why");
  std::string printed;
  for (const FdbLine& line : *lines)
    printed += std::to_string(line.vid) + " " + line.mac_address + "\t" + line.port_name + " # as read\n\n";
  std::istringstream printed_stream(printed);
  const absl::StatusOr<std::vector<FdbLine>> again = ReadFdbLines(printed_stream, "file");
  Require(again.ok() && again->size() == lines->size(), "as many lines");
  for (size_t i = 0; i < lines->size(); ++i) {
    Require((*again)[i].vid == (*lines)[i].vid && (*again)[i].mac_address == (*lines)[i].mac_address &&
                (*again)[i].port_name == (*lines)[i].port_name,
            "the same lines");
  }
}

uint32_t NumberAt(const std::string& file, size_t at) {
  uint32_t number = 0;
  std::memcpy(&number, &file[at], sizeof number);
  return number;
}

// Bytes before the options of a block, by its type; of a frame's, without the frame.
size_t FixedLength(uint32_t type) {
  switch (type) {
    case 0x0a0d0d0a:
      return 24;
    case 1:
      return 16;
    case 5:
      return 20;
    default:
      return 28;
  }
}

void CheckOptions(const std::string& file, size_t at, size_t end) {
  for (;;) {
    Require(at + 4 <= end, "options end in their block");
    const uint32_t option = NumberAt(file, at);
    const size_t length = option >> 16;
    at += 4 + (length + 3) / 4 * 4;
    if ((option & 0xffff) == 0) break;
  }
  Require(at == end, "nothing is behind the last option");
}

void CheckCapture(const std::string& bytes, Input* input) {
  std::string file;
  PcapngFrame frame;
  frame.interface = input->Byte();
  frame.time_ns = input->Number(8);
  frame.is_inbound = input->OneIn(2);
  frame.length = static_cast<uint32_t>(input->Number(4));
  frame.bytes = bytes;
  frame.comment = bytes;
  AppendSectionHeader(bytes, &file);
  AppendInterface(bytes, input->Word(), &file);
  AppendFrame(frame, &file);
  AppendStatistics(frame.interface, frame.time_ns, 1, input->Byte(), bytes, &file);
  int blocks = 0;
  for (size_t at = 0; at < file.size(); ++blocks) {
    Require(at + 12 <= file.size(), "a block is whole");
    const uint32_t type = NumberAt(file, at);
    const uint32_t length = NumberAt(file, at + 4);
    Require(length % 4 == 0 && length >= 12 && at + length <= file.size(), "a block has a length");
    Require(NumberAt(file, at + length - 4) == length, "the same at its end");
    size_t options = at + FixedLength(type);
    if (type == 6) {
      Require(NumberAt(file, at + 20) == bytes.size(), "a frame has its length");
      Require(file.compare(options, bytes.size(), bytes) == 0, "and its bytes");
      options += (bytes.size() + 3) / 4 * 4;
    }
    CheckOptions(file, options, at + length - 4);
    at += length;
  }
  Require(blocks == 4, "as many blocks as were written");
}

void Run(const std::string& text, Input* input) {
  CheckLines(text);
  CheckRoundTrip<std::vector<VidRange>>(text, ParseVidRanges, FormatVidRanges);
  CheckRoundTrip<AgeingTime>(text, ParseAgeingTime, FormatAgeingTime);
  CheckRoundTrip<BpduGuardText>(text, ParseBpduGuard, FormatBpduGuard);
  CheckRoundTrip<FlapGuardText>(text, ParseFlapGuard, FormatFlapGuard);
  CheckRoundTrip<Rate>(text, ParseBitRate, FormatRate);
  CheckRoundTrip<Rate>(text, ParseStormRate, FormatRate);
  const std::string described = DescribeFrame(text);
  Require(!described.empty() && described.size() < 100 + text.size() * 8, "a frame is told in a few words");
  CheckCapture(text, input);
}

}  // namespace
}  // namespace ringswitch::ringctl

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringswitch::fuzz::Input input(data, size);
  ringswitch::ringctl::Run(std::string(reinterpret_cast<const char*>(data), size), &input);
  return 0;
}
