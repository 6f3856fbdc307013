// ringctl vlan list|show|create|delete
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ringswitch/v1/vlan.grpc.pb.h"
#include "server/ringctl/flags.h"
#include "server/ringctl/port_text.h"
#include "server/ringctl/table.h"

namespace ringswitch::ringctl {
namespace {

struct VlanFlags {
  std::string switch_name;
  std::uint32_t vid = 0;
  std::string ranges;
  PortSelector port;
};

void List(Session& session, const VlanFlags& flags) {
  v1::ListVlansRequest request;
  request.set_switch_name(flags.switch_name);
  v1::ListVlansResponse response;
  if (!session.Call(&v1::VlanService::Stub::ListVlans, request, &response)) {
    return;
  }
  // All VLANs of a switch have counters, or none.
  const bool has_counters = !response.vlans().empty() && response.vlans(0).has_counters();
  std::vector<std::string> titles = {"VID>", "TAGGED", "UNTAGGED"};
  if (has_counters) {
    titles.insert(titles.end(), {"RX>", "RX-BYTES>", "TX>", "TX-BYTES>"});
  }
  Table table(titles);
  for (const v1::Vlan& vlan : response.vlans()) {
    std::vector<std::string> cells = {absl::StrCat(vlan.vid()), absl::StrJoin(vlan.tagged_ports(), ","),
                                      absl::StrJoin(vlan.untagged_ports(), ",")};
    if (has_counters) {
      const v1::VlanCounters& counters = vlan.counters();
      for (const std::uint64_t value : {counters.receive_frames(), counters.receive_bytes(),
                                        counters.transmit_frames(), counters.transmit_bytes()}) {
        cells.push_back(absl::StrCat(value));
      }
    }
    table.AddRow(cells);
  }
  session.Show(response, table.ToString());
}

void Show(Session& session, const VlanFlags& flags) {
  v1::ListVlansRequest request;
  request.set_switch_name(flags.switch_name);
  v1::VlanRange* range = request.add_ranges();
  range->set_first(flags.vid);
  range->set_last(flags.vid);
  v1::ListVlansResponse response;
  if (!session.Call(&v1::VlanService::Stub::ListVlans, request, &response)) {
    return;
  }
  if (response.vlans().empty()) {
    session.Fail(absl::StrCat("VLAN ", flags.vid, " has no member on switch ", flags.switch_name,
                              "; see: ringctl vlan list --switch ", flags.switch_name));
    return;
  }
  const v1::Vlan& vlan = response.vlans(0);
  Table table({});
  table.AddRow({"VID:", absl::StrCat(vlan.vid())});
  table.AddRow({"switch:", vlan.switch_name()});
  table.AddRow({"tagged ports:", absl::StrJoin(vlan.tagged_ports(), " ")});
  table.AddRow({"untagged ports:", absl::StrJoin(vlan.untagged_ports(), " ")});
  if (vlan.has_counters()) {
    table.AddRow({"received frames:", absl::StrCat(vlan.counters().receive_frames())});
    table.AddRow({"received bytes:", absl::StrCat(vlan.counters().receive_bytes())});
    table.AddRow({"transmitted frames:", absl::StrCat(vlan.counters().transmit_frames())});
    table.AddRow({"transmitted bytes:", absl::StrCat(vlan.counters().transmit_bytes())});
  }
  session.Show(vlan, table.ToString());
}

// AddVlans and RemoveVlans differ in their names only.
template <typename Request, typename Response>
void Change(Session& session, const VlanFlags& flags,
            grpc::Status (v1::VlanService::Stub::*method)(grpc::ClientContext*, const Request&, Response*)) {
  RequirePort(flags.port, "--port NAME");
  Request request;
  FillRanges(flags.ranges, request.mutable_ranges());
  Response response;
  if (ResolvePort(session, flags.port, request.mutable_port_name()) &&
      session.Call(method, request, &response)) {
    session.Tell(response.port(),
                 absl::StrCat("port ", response.port().name(), " is ", VlansCell(response.port()), " now"));
  }
}

CLI::App* AddChange(CLI::App* noun, const std::string& name, const std::string& description,
                    VlanFlags* flags) {
  CLI::App* verb = AddVerb(noun, name, description,
                           absl::StrCat("  ringctl vlan ", name, " 10,20,100-199 --port p2\n",
                                        "  ringctl vlan ", name, " 30 --pod default/router-0"));
  verb->add_option("RANGES", flags->ranges, "VLANs, as 10,20,100-199")->required()->check(VidRanges());
  AddPortFlag(verb, &flags->port, "The trunk port");
  return verb;
}

}  // namespace

void AddVlanCommands(CLI::App* root, Session& session) {
  CLI::App* noun = AddNoun(root, "vlan", "VLANs of switches and their members",
                           "  ringctl vlan list --switch sw0\n"
                           "  ringctl vlan create 10,20,100-199 --port p2");

  CLI::App* list = AddVerb(noun, "list", "List the VLANs of a switch that have members",
                           "  ringctl vlan list --switch sw0");
  auto list_flags = std::make_shared<VlanFlags>();
  list->add_option("--switch", list_flags->switch_name, "The switch")->required()->type_name("NAME");
  list->callback([list_flags, &session] { List(session, *list_flags); });

  CLI::App* show = AddVerb(noun, "show", "Show the members of a VLAN", "  ringctl vlan show 10 --switch sw0");
  auto show_flags = std::make_shared<VlanFlags>();
  show->add_option("VID", show_flags->vid, "The VLAN, 1 to 4094")->required()->check(DecimalNumber());
  show->add_option("--switch", show_flags->switch_name, "The switch")->required()->type_name("NAME");
  show->callback([show_flags, &session] { Show(session, *show_flags); });

  auto create_flags = std::make_shared<VlanFlags>();
  AddChange(noun, "create", "Add tagged VLANs to a trunk port", create_flags.get())
      ->callback(
          [create_flags, &session] { Change(session, *create_flags, &v1::VlanService::Stub::AddVlans); });

  auto remove_flags = std::make_shared<VlanFlags>();
  AddChange(noun, "delete", "Remove VLANs from a trunk port", remove_flags.get())
      ->callback(
          [remove_flags, &session] { Change(session, *remove_flags, &v1::VlanService::Stub::RemoveVlans); });
}

}  // namespace ringswitch::ringctl
