#include "server/ringctl/flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ringswitch/v1/port.grpc.pb.h"
#include "server/ringctl/vid_ranges.h"

namespace ringswitch::ringctl {

CLI::App* AddNoun(CLI::App* root, const std::string& name, const std::string& description,
                  const std::string& examples) {
  CLI::App* noun = root->add_subcommand(name, description);
  noun->footer("Examples:\n" + examples);
  RequireVerb(noun);
  return noun;
}

CLI::App* AddVerb(CLI::App* noun, const std::string& name, const std::string& description,
                  const std::string& examples) {
  CLI::App* verb = noun->add_subcommand(name, description);
  verb->footer("Examples:\n" + examples);
  return verb;
}

void RequireVerb(CLI::App* command) {
  command->require_subcommand(0, 1);
  command->callback([command] {
    if (command->get_subcommands().empty()) {
      throw CLI::ValidationError("a command is missing");
    }
  });
}

void AddGlobalFlags(CLI::App* command, Session& session) {
  GlobalFlags& flags = session.flags();
  const char* const group = "Global options";
  command->set_help_flag("-h,--help", "Show this help and exit")->group(group);
  command
      ->add_option("--address", flags.address,
                   "The agent: unix:PATH, PATH or HOST:PORT (else RINGSWITCH_ADDRESS, else its usual socket)")
      ->type_name("ADDRESS")
      ->group(group);
  command->add_option("--output", flags.output, "For people, or for programs: the JSON form of ringswitch.v1")
      ->check(OneOf({"table", "json"}))
      ->type_name("table|json")
      ->group(group);
  command->add_option("--timeout", flags.timeout_s, "Longest wait for an answer of the agent (usual: 10)")
      ->check(DecimalNumber())
      ->check(CLI::Range(1, 86400).description(""))
      ->type_name("SECONDS")
      ->group(group);
  for (CLI::App* below : command->get_subcommands([](const CLI::App*) { return true; })) {
    AddGlobalFlags(below, session);
  }
}

CLI::Validator OneOf(std::vector<std::string> words) {
  return CLI::IsMember(std::move(words)).description("");
}

void AddValidateOnlyFlag(CLI::App* command, bool* validate_only) {
  command->add_flag("--validate-only", *validate_only, "Let the agent check the request and change nothing");
}

void AddPortArgument(CLI::App* command, PortSelector* selector) {
  CLI::Option* name = command->add_option("NAME", selector->name, "Name of the port");
  command->add_option("--pod", selector->pod, "The pod's port, instead of NAME")
      ->check(PodName())
      ->type_name("NAMESPACE/NAME")
      ->excludes(name);
}

void AddPortFlag(CLI::App* command, PortSelector* selector, const std::string& description) {
  CLI::Option* port = command->add_option("--port", selector->name, description)->type_name("NAME");
  command->add_option("--pod", selector->pod, "The pod's port, instead of --port")
      ->check(PodName())
      ->type_name("NAMESPACE/NAME")
      ->excludes(port);
}

CLI::Validator DecimalNumber() {
  return CLI::Validator(
      [](std::string& text) {
        const bool is_decimal = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
                                (text.size() == 1 || text[0] != '0');
        if (!is_decimal) return absl::StrCat("\"", text, "\" is no decimal number");
        std::uint32_t number = 0;
        return absl::SimpleAtoi(text, &number) ? std::string() : absl::StrCat(text, " is too large a number");
      },
      "", "decimal");
}

CLI::Validator PodName() {
  return CLI::Validator(
      [](std::string& text) {
        const bool well_formed =
            std::count(text.begin(), text.end(), '/') == 1 && text.front() != '/' && text.back() != '/';
        return well_formed ? std::string()
                           : absl::StrCat("\"", text,
                                          "\" names no pod; write NAMESPACE/NAME, for example default/web-0");
      },
      "", "pod");
}

CLI::Validator VidRanges() {
  return CLI::Validator(
      [](std::string& text) {
        const auto ranges = ParseVidRanges(text);
        return ranges.ok() ? std::string() : std::string(ranges.status().message());
      },
      "", "ranges");
}

CLI::Validator OnOrOff() {
  return CLI::Validator(
      [](std::string& text) {
        return text == "on" || text == "off" ? std::string()
                                             : absl::StrCat("\"", text, "\" is neither on nor off");
      },
      "", "on or off");
}

void FillRanges(const std::string& text, google::protobuf::RepeatedPtrField<v1::VlanRange>* ranges) {
  const std::vector<VidRange> parsed = ParseVidRanges(text).value();
  for (const VidRange& range : parsed) {
    v1::VlanRange* one = ranges->Add();
    one->set_first(range.first);
    one->set_last(range.last);
  }
}

void RequirePort(const PortSelector& selector, const std::string& argument) {
  if (selector.empty()) {
    throw CLI::ValidationError(absl::StrCat(argument, " or --pod NAMESPACE/NAME is required"));
  }
}

namespace {

bool FindPortOfPod(Session& session, const std::string& pod, v1::Port* port) {
  v1::ListPortsRequest request;
  request.set_pod(pod);
  v1::ListPortsResponse response;
  if (!session.CallPaged(&v1::PortService::Stub::ListPorts, request, &response)) {
    return false;
  }
  if (response.ports().empty()) {
    return session.Fail(absl::StrCat("pod ", pod, " has no port; see: ringctl port list"));
  }
  if (response.ports_size() > 1) {
    const std::string names = absl::StrJoin(
        response.ports(), ", ", [](std::string* out, const v1::Port& one) { out->append(one.name()); });
    return session.Fail(absl::StrCat("pod ", pod, " has ", response.ports_size(), " ports (", names,
                                     "); name one of them instead of the pod"));
  }
  *port = std::move(*response.mutable_ports(0));
  return true;
}

}  // namespace

bool ResolvePort(Session& session, const PortSelector& selector, std::string* port_name) {
  *port_name = selector.name;
  if (selector.pod.empty()) {
    return true;
  }
  v1::Port port;
  if (!FindPortOfPod(session, selector.pod, &port)) {
    return false;
  }
  *port_name = port.name();
  return true;
}

bool ResolvePortAndSwitch(Session& session, const PortSelector& selector, std::string* port_name,
                          std::string* switch_name) {
  if (selector.empty()) {
    return true;
  }
  v1::Port port;
  port.set_name(selector.name);
  if (!selector.pod.empty()) {
    if (!FindPortOfPod(session, selector.pod, &port)) {
      return false;
    }
  } else if (switch_name->empty()) {
    v1::GetPortRequest request;
    request.set_name(selector.name);
    v1::GetPortResponse response;
    if (!session.Call(&v1::PortService::Stub::GetPort, request, &response)) {
      return false;
    }
    port = response.port();
  }
  *port_name = port.name();
  if (switch_name->empty()) {
    *switch_name = port.switch_name();
  }
  return true;
}

}  // namespace ringswitch::ringctl
