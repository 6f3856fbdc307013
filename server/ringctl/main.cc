// ringctl: manages Ringswitch's agent from the command line.
//
// Theory of operation. A command line is a noun and a verb ("port create"), parsed by CLI11 into a request of
// ringswitch.v1, which one or a few calls carry to the agent; the answer is shown as a table or as JSON.
// ringctl is thin on purpose: it judges the form of what people write (a usage error, exit code 2) and leaves
// every question of meaning to the agent, so that there is one authority on what is legal; what the agent
// refuses (exit code 1) is told in the words of the agent, with the contract's fields translated to ringctl's
// flags. An agent that cannot be reached, or does not answer in time, is exit code 3.
//
// Everything happens on the main thread, but for ending a capture from outside. Lists are fetched page by
// page to the end before the first line is shown, so that a failure in the middle shows no half list.
#include <grpc/support/log.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/ringctl/failure.h"
#include "server/ringctl/flags.h"
#include "server/ringctl/session.h"
#include "server/ringctl/table.h"

namespace ringswitch::ringctl {
namespace {

constexpr const char* kExamples = R"(Examples:
  ringctl switch create sw0 --mode bridge
  ringctl port create p1 --switch sw0 --tap --netns /run/netns/h1 --ifname eth0 --access 10
  ringctl port list --switch sw0
  ringctl fdb list --switch sw0 --output json
  ringctl port show --pod default/web-0
  ringctl floods

Exit codes: 0 done, 1 refused by the agent, 2 usage error, 3 agent unreachable.)";

// "ringctl port create", as far as the command line was understood; `last` is that command.
std::string CommandName(const CLI::App& root, const CLI::App** last) {
  std::string name = root.get_name();
  *last = &root;
  while (!(*last)->get_subcommands().empty()) {
    *last = (*last)->get_subcommands().front();
    name += " " + (*last)->get_name();
  }
  return name;
}

// What is wrong with the command line, on one line. A word where a command should be is named as such; CLI11
// would show the help above it where --help follows.
std::string UsageError(const CLI::App& root, const std::string& problem) {
  const CLI::App* last = nullptr;
  const std::string name = CommandName(root, &last);
  const std::vector<std::string> rest = root.remaining(true);
  const bool wants_command = !last->get_subcommands([](const CLI::App*) { return true; }).empty();
  if (wants_command && !rest.empty() && rest[0][0] != '-') {
    return absl::StrCat("\"", rest[0], "\" is no command of ", name, "; see: ", name, " --help");
  }
  return problem.empty() ? problem : absl::StrCat(problem, "; see: ", name, " --help");
}

int FailUsage(const std::string& line) {
  std::cerr << "ringctl: " << EscapeControls(line) << '\n';
  return kExitUsage;
}

int Run(int argc, char** argv) {
  // stderr is for the one line that says what failed; whoever debugs gRPC itself asks for its log.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) {
    gpr_set_log_function([](gpr_log_func_args*) {});
  }
  Session session;
  CLI::App root("Manages Ringswitch, the virtual switch for container hosts.", "ringctl");
  root.get_formatter()->column_width(34);
  RequireVerb(&root);
  root.set_version_flag("--version", "ringctl " RINGCTL_VERSION, "Show the version and exit")
      ->group("Global options");
  root.footer(kExamples);
  AddSwitchCommands(&root, session);
  AddPortCommands(&root, session);
  AddVlanCommands(&root, session);
  AddFdbCommands(&root, session);
  AddAgentCommands(&root, session);
  AddCaptureCommand(&root, session);
  AddWatchCommand(&root, session);
  AddGlobalFlags(&root, session);
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help or --version
    const std::string error = UsageError(root, "");
    if (!error.empty()) {
      return FailUsage(error);
    }
    root.exit(request);
  } catch (const CLI::ParseError& error) {
    return FailUsage(UsageError(root, error.what()));
  }
  if (!std::cout.flush()) {
    session.Fail("the output could not be written");
  }
  return session.exit_code();
}

}  // namespace
}  // namespace ringswitch::ringctl

int main(int argc, char** argv) {
  return ringswitch::ringctl::Run(argc, argv);
}
