// What the commands' flags have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ringswitch/v1/port.pb.h"
#include "server/ringctl/session.h"

namespace ringswitch::ringctl {

// A port as people name it: by its name, or by the pod it belongs to. One of the two is set after parsing.
struct PortSelector {
  std::string name;
  std::string pod;  // "namespace/name"

  bool empty() const { return name.empty() && pod.empty(); }
};

// Makes "ringctl NOUN", which wants a verb. The examples are lines of its help.
CLI::App* AddNoun(CLI::App* root, const std::string& name, const std::string& description,
                  const std::string& examples);

// Makes "ringctl NOUN VERB" (or "ringctl VERB" for a verb without a noun).
CLI::App* AddVerb(CLI::App* noun, const std::string& name, const std::string& description,
                  const std::string& examples);

// A usage error where nothing follows the command.
void RequireVerb(CLI::App* command);

// Adds --help, --address, --output and --timeout to the command and all below it, so that they are taken
// anywhere on the command line; CLI11's own way, falling through to the parent, would take a switch named
// "list" for a verb. Called last: that is where these flags stand in the help.
void AddGlobalFlags(CLI::App* command, Session& session);

// One of a few words.
CLI::Validator OneOf(std::vector<std::string> words);

void AddValidateOnlyFlag(CLI::App* command, bool* validate_only);

// NAME, or --pod instead of it.
void AddPortArgument(CLI::App* command, PortSelector* selector);
// --port, or --pod instead of it.
void AddPortFlag(CLI::App* command, PortSelector* selector, const std::string& description);

// Without these CLI11 reads "010" as 8.
CLI::Validator DecimalNumber();
CLI::Validator PodName();
CLI::Validator VidRanges();
CLI::Validator OnOrOff();
// Takes what `parse`, of quantities.h, takes.
template <typename Value>
CLI::Validator ParsedBy(absl::StatusOr<Value> (*parse)(absl::string_view)) {
  return CLI::Validator(
      [parse](std::string& text) {
        const absl::StatusOr<Value> value = parse(text);
        return value.ok() ? std::string() : std::string(value.status().message());
      },
      "", "form");
}

// `text` has passed VidRanges.
void FillRanges(const std::string& text, google::protobuf::RepeatedPtrField<v1::VlanRange>* ranges);

// Throws CLI::ValidationError, a usage error, where neither a port nor a pod is given.
void RequirePort(const PortSelector& selector, const std::string& argument);

// The name of the selected port, asking the agent where a pod is given. False where it failed, which has been
// told then.
bool ResolvePort(Session& session, const PortSelector& selector, std::string* port_name);

// As ResolvePort; *switch_name becomes the port's switch where it is empty.
bool ResolvePortAndSwitch(Session& session, const PortSelector& selector, std::string* port_name,
                          std::string* switch_name);

// The nouns and verbs, one file each.
void AddSwitchCommands(CLI::App* root, Session& session);
void AddPortCommands(CLI::App* root, Session& session);
void AddVlanCommands(CLI::App* root, Session& session);
void AddFdbCommands(CLI::App* root, Session& session);
void AddFdbAddCommand(CLI::App* noun, Session& session);
void AddAgentCommands(CLI::App* root, Session& session);
void AddCaptureCommand(CLI::App* root, Session& session);
void AddWatchCommand(CLI::App* root, Session& session);

}  // namespace ringswitch::ringctl
