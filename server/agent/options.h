#pragma once

// What ringswitchd was told: the configuration file, then the flags, later wins.

#include <string>

#include "absl/status/statusor.h"
#include "dataplane/dataplane.h"
#include "ringswitch/v1/agent.pb.h"

namespace ringswitch::agent {

inline constexpr char kConfigPathDefault[] = "/etc/ringswitch/ringswitchd.json";

struct Options {
  std::string socket = "/run/ringswitch/ringswitchd.sock";
  std::string state_dir = "/run/ringswitch/state";
  std::string spool_dir = "/var/lib/ringswitch/spool";
  std::string metrics_address = "127.0.0.1:9477";  // as ParseMetricsAddress returned it
  std::string log_level = "info";
  DataplaneOptions dataplane;
  v1::AgentConfig config;  // switches and ports that exist from the start
  bool check_config_only = false;
};

// Prints what --help and --version ask for, and errors of the command line, and then sets `exit_code`:
// nothing more is to be done. INVALID_ARGUMENT is one line for people.
absl::StatusOr<Options> ParseOptions(int argc, char** argv, std::optional<int>* exit_code);

}  // namespace ringswitch::agent
