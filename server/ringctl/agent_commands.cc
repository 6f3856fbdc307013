// ringctl status and ringctl floods: what the node's agent says of itself, and who floods.
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ringswitch/v1/agent.grpc.pb.h"
#include "ringswitch/v1/port.grpc.pb.h"
#include "server/ringctl/flags.h"
#include "server/ringctl/port_text.h"
#include "server/ringctl/table.h"

namespace ringswitch::ringctl {
namespace {

std::string DescribeAgent(const v1::AgentInfo& info) {
  Table agent({});
  agent.AddRow({"version:", info.version()});
  agent.AddRow({"kernel:", info.kernel_release()});
  agent.AddRow({"started:", google::protobuf::util::TimeUtil::ToString(info.start_time())});
  agent.AddRow({"rx mode:", EnumWord(v1::RxMode_Name(info.rx_mode()), "RX_MODE_")});
  agent.AddRow({"metrics:", info.metrics_address().empty() ? "not served" : info.metrics_address()});
  agent.AddRow({"switches:", absl::StrCat(info.switch_count())});
  agent.AddRow({"ports:", absl::StrCat(info.port_count())});

  Table workers({"WORKER>", "BUSY>", "BATCHES>", "FRAMES>", "NO-BUFFER>", "BUFFERS>", "HELD>"});
  for (const v1::WorkerStatus& worker : info.workers()) {
    workers.AddRow({absl::StrCat(worker.index()), absl::StrFormat("%.3fs", worker.busy_seconds()),
                    absl::StrCat(worker.batches()), absl::StrCat(worker.frames()),
                    absl::StrCat(worker.no_buffer_events()), absl::StrCat(worker.buffers()),
                    absl::StrCat(worker.buffers_held())});
  }
  std::string text = absl::StrCat(agent.ToString(), "\n", workers.ToString(), "\n");
  absl::StrAppend(&text, info.problems().empty() ? "problems: none\n" : "problems:\n");
  for (const std::string& problem : info.problems()) {
    absl::StrAppend(&text, "  ", EscapeControls(problem), "\n");
  }
  absl::StrAppend(&text, info.not_enforced().empty() ? "" : "not enforced:\n");
  for (const std::string& rule : info.not_enforced()) {
    absl::StrAppend(&text, "  ", EscapeControls(rule), "\n");
  }
  return text;
}

void Status(Session& session) {
  v1::GetAgentInfoResponse response;
  if (session.Call(&v1::AgentService::Stub::GetAgentInfo, v1::GetAgentInfoRequest(), &response)) {
    session.Show(response.info(), DescribeAgent(response.info()));
  }
}

void Floods(Session& session, const std::string& switch_name) {
  v1::ListPortsRequest request;
  request.set_switch_name(switch_name);
  v1::ListPortsResponse response;
  if (!session.CallPaged(&v1::PortService::Stub::ListPorts, request, &response)) {
    return;
  }
  // Stable: ports that flood alike stay in the order of their names.
  std::stable_sort(response.mutable_ports()->begin(), response.mutable_ports()->end(),
                   [](const v1::Port& a, const v1::Port& b) {
                     return a.status().counters().flood_copies() > b.status().counters().flood_copies();
                   });
  Table table({"PORT", "SWITCH", "BROADCAST>", "MULTICAST>", "UNKNOWN-UNICAST>", "COPIES>", "POD"});
  for (const v1::Port& port : response.ports()) {
    const v1::PortCounters& counters = port.status().counters();
    table.AddRow({port.name(), port.switch_name(), absl::StrCat(counters.flooded_broadcast_frames()),
                  absl::StrCat(counters.flooded_multicast_frames()),
                  absl::StrCat(counters.flooded_unknown_unicast_frames()),
                  absl::StrCat(counters.flood_copies()), PodCell(port)});
  }
  session.Show(response, table.ToString());
}

}  // namespace

void AddAgentCommands(CLI::App* root, Session& session) {
  CLI::App* status =
      AddVerb(root, "status", "What the agent is, how it is, and what is not enforced", "  ringctl status");
  status->callback([&session] { Status(session); });

  CLI::App* floods = AddVerb(root, "floods", "Who floods: ports by the copies made of their flooded frames",
                             "  ringctl floods --switch sw0");
  auto switch_name = std::make_shared<std::string>();
  floods->add_option("--switch", *switch_name, "Only ports of this switch")->type_name("NAME");
  floods->callback([switch_name, &session] { Floods(session, *switch_name); });
}

}  // namespace ringswitch::ringctl
