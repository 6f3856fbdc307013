#include "server/agent/options.h"

#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"
#include "server/agent/control_socket.h"
#include "server/agent/metrics.h"
#include "server/agent/proto_codec.h"
#include "server/agent/text_file.h"
#include "server/agent/verification.h"
#include "server/agent/version.h"

namespace ringswitch::agent {
namespace {

// As given; empty or unset: not given.
struct Flags {
  std::string config_path;
  std::string socket;
  std::string state_dir;
  std::string spool_dir;
  std::string metrics_address;
  std::string log_level;
  std::string rx_mode;
  std::optional<uint32_t> workers;
  std::optional<uint32_t> buffers_per_worker;
  bool check_config = false;
};

void DeclareFlags(CLI::App* app, Flags* flags) {
  app->set_version_flag("--version", absl::StrCat("ringswitchd ", kVersion));
  app->add_option("--config", flags->config_path,
                  absl::StrCat("configuration file, default ", kConfigPathDefault, " if it exists"));
  app->add_option("--socket", flags->socket,
                  "path of the control socket, default /run/ringswitch/ringswitchd.sock");
  app->add_option("--state-dir", flags->state_dir,
                  "directory of the state of this boot, default /run/ringswitch/state");
  app->add_option("--spool-dir", flags->spool_dir,
                  "directory of CNI DELs that found no agent, default /var/lib/ringswitch/spool");
  app->add_option("--metrics-address", flags->metrics_address,
                  "HOST:PORT of /metrics, or none; default 127.0.0.1:9477");
  app->add_option("--workers", flags->workers,
                  "threads of the dataplane, default one per four processors, at most four");
  app->add_option("--log-level", flags->log_level, "trace, debug, info, warn or error; default info");
  app->add_flag("--check-config", flags->check_config, "check configuration file and flags, then exit");
  // For tests.
  app->add_option("--rx-mode", flags->rx_mode)->group("");
  app->add_option("--buffers-per-worker", flags->buffers_per_worker)->group("");
}

// "(switches[0]) bogus: Cannot find field." is protobuf's way of telling an unknown field.
absl::Status ReadConfig(const std::string& path, v1::AgentConfig* config) {
  absl::StatusOr<std::string> text = ReadTextFile(path, kConfigSizeMax);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("configuration file: ", text.status().message()));
  }
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = false;
  auto status = google::protobuf::util::JsonStringToMessage(*text, config, options);
  if (status.ok()) return absl::OkStatus();
  std::string message(status.message());
  std::replace(message.begin(), message.end(), '\n', ' ');
  size_t unknown = message.find(": Cannot find field.");
  if (unknown != std::string::npos) message = absl::StrCat("unknown field ", message.substr(0, unknown));
  return absl::InvalidArgumentError(absl::StrCat("configuration file ", path, ": ", Printable(message)));
}

absl::StatusOr<RxMode> ParseRxMode(const std::string& text) {
  if (text == "auto") return RxMode::kAuto;
  if (text == "multishot") return RxMode::kMultishot;
  if (text == "oneshot") return RxMode::kOneshot;
  return absl::InvalidArgumentError(
      absl::StrCat("rx_mode: \"", text, "\" is not auto, multishot or oneshot"));
}

absl::Status CheckRange(const char* field, uint32_t value, uint32_t first, uint32_t last) {
  if (value >= first && value <= last) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value, " is out of range: ", first, " to ", last));
}

uint32_t DefaultWorkers() {
  return std::clamp(std::thread::hardware_concurrency() / 4, 1u, 4u);
}

void TakeUnlessEmpty(const std::string& value, std::string* option) {
  if (!value.empty()) *option = value;
}

absl::Status CheckCount(const char* field, int count, size_t count_max) {
  if (static_cast<size_t>(count) <= count_max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", count, " are too many: at most ", count_max));
}

// An interface that a port has.
struct Place {
  const char* field;
  std::string netns;  // empty: the agent's own
  std::string ifname;
};

std::vector<Place> PlacesOf(const v1::Port& port) {
  switch (port.device_case()) {
    case v1::Port::kNetdev:
      return {{"netdev.ifname", "", port.netdev().ifname()}};
    case v1::Port::kVeth:
      if (port.veth().host_ifname().empty())
        return {{"veth.ifname", port.veth().netns(), port.veth().ifname()}};
      return {{"veth.ifname", port.veth().netns(), port.veth().ifname()},
              {"veth.host_ifname", "", port.veth().host_ifname()}};
    case v1::Port::kTap:
    case v1::Port::DEVICE_NOT_SET:  // refused before
      break;
  }
  return {{"tap.ifname", port.tap().netns(), port.tap().ifname()}};
}

// Names and places that are there twice. Whether the switch of a port exists only the start can tell: the API
// may have made it.
absl::Status CheckDuplicates(const v1::AgentConfig& config) {
  std::map<std::string, int> switches;
  for (int i = 0; i < config.switches_size(); ++i) {
    const auto [first, is_new] = switches.emplace(config.switches(i).name(), i);
    if (is_new) continue;
    return absl::InvalidArgumentError(absl::StrCat("switches[", i, "].name: ", Quoted(first->first),
                                                   " is the name of switches[", first->second,
                                                   "] already: take another one"));
  }
  std::map<std::string, int> ports;
  std::map<std::pair<std::string, std::string>, int> places;  // namespace and name
  for (int i = 0; i < config.ports_size(); ++i) {
    const v1::Port& port = config.ports(i);
    const auto [first, is_new_name] = ports.emplace(port.name(), i);
    if (!is_new_name) {
      return absl::InvalidArgumentError(absl::StrCat("ports[", i, "].name: ", Quoted(port.name()),
                                                     " is the name of ports[", first->second,
                                                     "] already: take another one"));
    }
    for (const Place& taken : PlacesOf(port)) {
      const auto [place, is_new] = places.emplace(std::pair(taken.netns, taken.ifname), i);
      if (is_new) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "ports[", i, "].", taken.field, ": ", Quoted(taken.ifname), " is the interface of ports[",
          place->second, "] in the same netns already: take another one"));
    }
  }
  return absl::OkStatus();
}

// Errors of the first switch or port that is wrong.
absl::Status CheckObjects(const v1::AgentConfig& config) {
  for (int i = 0; i < config.switches_size(); ++i) {
    absl::Status status = Verification::NewSwitch(Decode(config.switches(i))).status();
    if (!status.ok())
      return absl::InvalidArgumentError(absl::StrCat("switches[", i, "]: ", status.message()));
  }
  for (int i = 0; i < config.ports_size(); ++i) {
    absl::Status status = Verification::NewPort(Decode(config.ports(i)), nullptr).status();
    if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("ports[", i, "]: ", status.message()));
  }
  absl::Status status = CheckCount("switches", config.switches_size(), bridge::kSwitchesMax);
  if (status.ok()) status = CheckCount("ports", config.ports_size(), bridge::kPortsMax);
  return status.ok() ? CheckDuplicates(config) : status;
}

absl::Status TakeDataplane(const Flags& flags, const v1::AgentConfig& config, DataplaneOptions* options) {
  uint32_t workers = flags.workers.value_or(config.workers());
  if (flags.workers == 0u) return CheckRange("workers", 0, 1, bridge::kWorkersMax);
  options->workers = workers == 0 ? DefaultWorkers() : workers;
  absl::Status status = CheckRange("workers", options->workers, 1, bridge::kWorkersMax);
  if (!status.ok()) return status;
  uint32_t buffers = flags.buffers_per_worker.value_or(config.buffers_per_worker());
  options->buffers_per_worker = buffers == 0 ? kBuffersPerWorkerDefault : buffers;
  status = CheckRange("buffers_per_worker", options->buffers_per_worker, kBuffersPerWorkerMin,
                      kBuffersPerWorkerMax);
  if (!status.ok()) return status;
  if (!v1::RxMode_IsValid(config.rx_mode())) {
    return absl::InvalidArgumentError(
        absl::StrCat("rx_mode: ", config.rx_mode(), " is not RX_MODE_MULTISHOT or RX_MODE_ONESHOT"));
  }
  if (!flags.rx_mode.empty()) {
    absl::StatusOr<RxMode> mode = ParseRxMode(flags.rx_mode);
    if (!mode.ok()) return mode.status();
    options->rx_mode = *mode;
  } else if (config.rx_mode() != v1::RX_MODE_UNSPECIFIED) {
    options->rx_mode = config.rx_mode() == v1::RX_MODE_ONESHOT ? RxMode::kOneshot : RxMode::kMultishot;
  }
  return absl::OkStatus();
}

absl::StatusOr<Options> Combine(const Flags& flags, const v1::AgentConfig& config) {
  Options options;
  options.config = config;
  options.check_config_only = flags.check_config;
  TakeUnlessEmpty(config.socket(), &options.socket);
  TakeUnlessEmpty(flags.socket, &options.socket);
  absl::Status status = ControlSocket::CheckPath(options.socket);
  if (!status.ok()) return status;
  TakeUnlessEmpty(config.state_dir(), &options.state_dir);
  TakeUnlessEmpty(flags.state_dir, &options.state_dir);
  TakeUnlessEmpty(config.spool_dir(), &options.spool_dir);
  TakeUnlessEmpty(flags.spool_dir, &options.spool_dir);
  TakeUnlessEmpty(config.metrics_address(), &options.metrics_address);
  TakeUnlessEmpty(flags.metrics_address, &options.metrics_address);
  TakeUnlessEmpty(config.log_level(), &options.log_level);
  TakeUnlessEmpty(flags.log_level, &options.log_level);
  static const std::set<std::string> kLevels = {"trace", "debug", "info", "warn", "error"};
  if (kLevels.count(options.log_level) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("log_level: \"", options.log_level, "\" is not trace, debug, info, warn or error"));
  }
  absl::StatusOr<std::string> address = ParseMetricsAddress(options.metrics_address);
  if (!address.ok()) return address.status();
  options.metrics_address = *address;
  status = TakeDataplane(flags, config, &options.dataplane);
  if (!status.ok()) return status;
  status = CheckObjects(config);
  if (!status.ok()) return status;
  return options;
}

}  // namespace

absl::StatusOr<Options> ParseOptions(int argc, char** argv, std::optional<int>* exit_code) {
  CLI::App app("ringswitchd: the Ringswitch node agent, a virtual switch for container hosts", "ringswitchd");
  Flags flags;
  DeclareFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    *exit_code = app.exit(success);
    return Options();
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(absl::StrCat(error.what(), "; see --help"));
  }
  v1::AgentConfig config;
  bool has_default_file = access(kConfigPathDefault, F_OK) == 0;
  if (!flags.config_path.empty() || has_default_file) {
    absl::Status status =
        ReadConfig(flags.config_path.empty() ? kConfigPathDefault : flags.config_path, &config);
    if (!status.ok()) return status;
  }
  return Combine(flags, config);
}

}  // namespace ringswitch::agent
