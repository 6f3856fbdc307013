#pragma once

// Specs as JSON text and back: the form of the state files. Readable for people, free of protobuf.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/agent/desired_state.h"

namespace ringswitch::agent {

// A port and the namespace that its device was made in.
struct StoredPort {
  PortSpec spec;
  NamespaceId netns_id;
  bool is_made = true;  // false: a veth that the agent was about to make
};

// What is kept beside the objects.
struct StoredIds {
  uint64_t next_switch_id = 1;  // every id handed out is below
  uint64_t next_port_id = 1;
  std::string boot_id;
};

std::string ToJson(const SwitchSpec& spec);
std::string ToJson(const StoredPort& port);
std::string ToJson(const std::vector<StaticFdbEntry>& entries);
std::string ToJson(const StoredIds& ids);
// A line to append to the text of static entries, so that a change costs what it is, not what is there.
std::string ToJsonLine(const StaticFdbChange& change);

// DATA_LOSS says what is wrong with the text.
absl::StatusOr<SwitchSpec> SwitchFromJson(const std::string& text);
absl::StatusOr<StoredPort> PortFromJson(const std::string& text);
// The entries as the lines behind them leave them. What comes after the last newline is no line: its writer
// died, and had told nobody yet.
absl::StatusOr<std::vector<StaticFdbEntry>> FdbFromJson(const std::string& text);
absl::StatusOr<StoredIds> IdsFromJson(const std::string& text);

}  // namespace ringswitch::agent
