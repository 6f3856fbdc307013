// ringctl: manages Ringswitch's agent from the command line.
//
// Theory of operation. A command line is a noun and a verb ("port create"), parsed by CLI11 into a request of
// ringswitch.v1, which one or a few calls carry to the agent; the answer is shown as a table or as JSON.
// ringctl is thin on purpose: it judges the form of what people write (a usage error, exit code 2) and leaves
// every question of meaning to the agent, so that there is one authority on what is legal; what the agent
// refuses (exit code 1) is told in the words of the agent, with the contract's fields translated to ringctl's
// flags. An agent that cannot be reached, or does not answer in time, is exit code 3.
//
// Everything happens on the main thread. Lists are fetched page by page to the end before the first line is
// shown, so that a failure in the middle shows no half list.
#include <grpc/support/log.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

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

// "ringctl port create", as far as the command line was understood.
std::string CommandName(const CLI::App& root) {
  std::string name = root.get_name();
  const CLI::App* command = &root;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return name;
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
  AddGlobalFlags(&root, session);
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help or --version
    root.exit(request);
  } catch (const CLI::ParseError& error) {
    std::cerr << "ringctl: " << EscapeControls(error.what()) << "\nsee: " << CommandName(root) << " --help\n";
    return kExitUsage;
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
