// A state directory as somebody else may have left it: each file reads well or is refused, what reads well is
// written the same again, and an agent starts on the whole of it, twice the same.
//
// Theory of operation. The input is files: a line "@NAME" begins one, what follows is its content. Each
// content is first read as every kind of file there is, written, and read again. Then the files are put into
// a directory and an agent with fake devices is started on it.

#include "server/agent/state_json.h"
#include "tests/fuzz/agent_node.h"

namespace ringswitch::agent {
namespace {

using fuzz::Input;
using fuzz::Require;

constexpr int kFilesMax = 8;
constexpr size_t kNameMax = 64;

struct StateFile {
  std::string name;
  std::string content;
};

std::vector<StateFile> ReadFiles(Input* input) {
  std::vector<StateFile> files(1);  // what comes before the first name has none
  while (!input->ended()) {
    std::string line = input->Line();
    if (line.starts_with('@')) {
      files.push_back({line.substr(1), ""});
    } else {
      files.back().content += line + (input->ended() ? "" : "\n");
    }
  }
  return files;
}

// What was read is written, and is the same when it is read from that.
template <typename Value>
void CheckRoundTrip(const absl::StatusOr<Value>& value, absl::StatusOr<Value> (*read)(const std::string&)) {
  if (!value.ok()) return Require(!value.status().message().empty(), "an error says why");
  const std::string text = ToJson(*value);
  const absl::StatusOr<Value> again = read(text);
  Require(again.ok(), "what is written can be read");
  Require(ToJson(*again) == text, "and is the same");
}

void CheckContent(const std::string& content) {
  CheckRoundTrip(SwitchFromJson(content), SwitchFromJson);
  CheckRoundTrip(PortFromJson(content), PortFromJson);
  CheckRoundTrip(IdsFromJson(content), IdsFromJson);
  const absl::StatusOr<std::vector<StaticFdbEntry>> entries = FdbFromJson(content);
  CheckRoundTrip(entries, FdbFromJson);
  if (!entries.ok() || entries->empty()) return;
  // A line behind them that takes the first one away.
  const bridge::FdbKey key = entries->front().key;
  const StaticFdbChange change{{{key, "p9"}}, {{{key.mac, bridge::kVlanIdMax}, "p9"}}};
  const auto changed = FdbFromJson(ToJson(*entries) + ToJsonLine(change));
  Require(changed.ok(), "a line can be appended");
  bool is_there = false;
  for (const StaticFdbEntry& entry : *changed) {
    Require(entry.key != key || key.vid == bridge::kVlanIdMax, "what the line removes is gone");
    is_there = is_there || (entry.key == change.added[0].key && entry.port_name == "p9");
  }
  Require(is_there, "what the line adds is there");
}

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= kNameMax && name != "." && name != ".." &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

void Run(Input* input) {
  static const StateDirectory directory;
  const std::vector<StateFile> files = ReadFiles(input);
  for (const StateFile& file : files) CheckContent(file.content);
  directory.Empty();
  int count = 0;
  for (const StateFile& file : files) {
    if (!IsName(file.name) || ++count > kFilesMax) continue;
    directory.Put(file.name, file.content);
  }
  if (count == 0) return;
  AgentNode node(&directory, "eth0");
  const std::string before = node.Dump();
  node.Restart();
  Require(node.Dump() == before, "a second start finds what the first one found");
}

}  // namespace
}  // namespace ringswitch::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringswitch::fuzz::Input input(data, size);
  ringswitch::agent::Run(&input);
  return 0;
}
