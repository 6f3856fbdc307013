// ringctl watch
//
// Runs until it is interrupted. A connection that is lost is made again and the watch resumed where it was;
// if the agent cannot (it was restarted, or too much has happened), it sends everything again, which is
// compared with what was known.
#include <google/protobuf/util/json_util.h>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ringswitch/v1/agent.grpc.pb.h"
#include "ringswitch/v1/watch.grpc.pb.h"
#include "server/ringctl/flags.h"
#include "server/ringctl/port_text.h"
#include "server/ringctl/table.h"

namespace ringswitch::ringctl {
namespace {

constexpr std::chrono::milliseconds kReconnectInterval{200};  // an agent that ends refuses for a moment

struct WatchFlags {
  std::vector<std::string> kinds;
  std::string switch_name;
};

// What an object is called, and what there is to say of it.
struct ObjectText {
  std::string name;
  std::string value;
};

ObjectText TextOf(const v1::Switch& one) {
  std::string mode = EnumWord(v1::SwitchMode_Name(one.mode()), "SWITCH_MODE_");
  return {absl::StrCat("switch ", one.name()),
          absl::StrCat(mode, one.vlan_aware() ? " vlan-aware" : " vlan-unaware")};
}

ObjectText TextOf(const v1::Port& port) {
  std::string value = absl::StrCat(EnumWord(v1::PortState_Name(port.status().state()), "PORT_STATE_"));
  for (const std::string& part : {DeviceCell(port), VlansCell(port), PodCell(port)}) {
    absl::StrAppend(&value, part.empty() ? "" : " ", part);
  }
  if (!port.status().state_detail().empty()) {
    absl::StrAppend(&value, " (", port.status().state_detail(), ")");
  }
  return {absl::StrCat("port ", port.name(), " on ", port.switch_name()), value};
}

ObjectText TextOf(const v1::FdbEntry& entry) {
  std::string vlan = entry.vid() != 0 ? absl::StrCat(" vlan ", entry.vid()) : std::string();
  return {absl::StrCat("fdb ", entry.mac_address(), vlan, " on ", entry.switch_name()),
          absl::StrCat(EnumWord(v1::FdbEntryKind_Name(entry.kind()), "FDB_ENTRY_KIND_"), " at ",
                       entry.port_name())};
}

ObjectText TextOf(const v1::WatchChange& change) {
  switch (change.object_case()) {
    case v1::WatchChange::kSwitch:
      return TextOf(change.switch_());
    case v1::WatchChange::kPort:
      return TextOf(change.port());
    case v1::WatchChange::kFdbEntry:
      return TextOf(change.fdb_entry());
    case v1::WatchChange::OBJECT_NOT_SET:
      break;
  }
  return {"an object that this ringctl does not know", ""};
}

// Lines for people: what is new, what has changed, what is gone.
class ChangeLines {
 public:
  // What comes until the next synced mark is all that there is.
  void BeginSnapshot() { listed_.emplace(); }

  std::string Take(const v1::WatchResponse& response) {
    lines_.clear();
    time_ = absl::FormatTime("%H:%M:%E3S", absl::Now(), absl::LocalTimeZone());
    for (const v1::WatchChange& change : response.changes()) {
      TakeChange(change);
    }
    switch (response.mark()) {
      case v1::WATCH_MARK_SYNCED:
        EndSnapshot();
        AddLine('=', "synced", absl::StrCat("revision ", response.revision()));
        break;
      case v1::WATCH_MARK_OVERFLOW:
        AddLine('=', "overflow", "changes were lost: all is sent again");
        BeginSnapshot();
        break;
      case v1::WATCH_MARK_RESUME_REFUSED:
        AddLine('=', "resume refused", "changes were missed: all is sent again");
        BeginSnapshot();
        break;
      default:
        break;
    }
    return std::move(lines_);
  }

 private:
  void TakeChange(const v1::WatchChange& change) {
    ObjectText text = TextOf(change);
    if (change.deleted()) {
      known_.erase(text.name);
      AddLine('-', text.name, "");
      return;
    }
    if (listed_.has_value()) {
      listed_->insert(text.name);
    }
    const auto known = known_.find(text.name);
    if (known == known_.end()) {
      AddLine('+', text.name, text.value);
    } else if (known->second != text.value || (!listed_.has_value() && !change.has_fdb_entry())) {
      // Of switches and ports more may have changed than a line shows.
      AddLine('~', text.name, text.value);
    }
    known_[text.name] = text.value;
  }

  void EndSnapshot() {
    if (!listed_.has_value()) {
      return;
    }
    for (auto it = known_.begin(); it != known_.end();) {
      if (listed_->count(it->first) > 0) {
        ++it;
        continue;
      }
      AddLine('-', it->first, "");
      it = known_.erase(it);
    }
    listed_.reset();
  }

  void AddLine(char sign, const std::string& name, const std::string& value) {
    absl::StrAppend(&lines_, time_, " ", std::string(1, sign), " ", EscapeControls(name),
                    value.empty() ? "" : ": ", EscapeControls(value), "\n");
  }

  std::map<std::string, std::string> known_;     // values by name
  std::optional<std::set<std::string>> listed_;  // names in the snapshot that is being sent
  std::string time_;
  std::string lines_;
};

// One line, without a line end within.
std::string JsonLine(const v1::WatchResponse& response) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string line;
  if (!google::protobuf::util::MessageToJsonString(response, &line, options).ok()) {
    return {};
  }
  return line + "\n";
}

v1::WatchRequest RequestOf(const WatchFlags& flags) {
  v1::WatchRequest request;
  request.set_switch_name(flags.switch_name);
  const std::vector<std::string> all = {"switches", "ports", "fdb"};
  for (const std::string& kind : flags.kinds.empty() ? all : flags.kinds) {
    request.add_kinds(kind == "switches" ? v1::WATCH_KIND_SWITCH
                      : kind == "ports"  ? v1::WATCH_KIND_PORT
                                         : v1::WATCH_KIND_FDB);
  }
  return request;
}

// Whether the agent, or the way to it, has gone, rather than having refused.
bool IsLost(const grpc::Status& status) {
  return status.ok() || status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::CANCELLED;
}

void Watch(Session& session, const WatchFlags& flags) {
  // An agent that is not there, or does not answer, is told of at once; later on it is waited for.
  v1::GetAgentInfoResponse info;
  if (!session.Call(&v1::AgentService::Stub::GetAgentInfo, v1::GetAgentInfoRequest(), &info)) {
    return;
  }
  v1::WatchService::Stub stub(session.channel());
  v1::WatchRequest request = RequestOf(flags);
  ChangeLines lines;
  bool is_loss_told = false;
  while (true) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    const auto reader = stub.Watch(&context, request);
    if (request.resume_revision() == 0) {
      lines.BeginSnapshot();
    }
    v1::WatchResponse response;
    while (reader->Read(&response)) {
      is_loss_told = false;
      if (response.revision() != 0) {
        request.set_resume_revision(response.revision());
      }
      std::cout << (session.wants_json() ? JsonLine(response) : lines.Take(response));
      if (!std::cout.flush()) {  // which is told at the end of the program
        context.TryCancel();
        reader->Finish();
        return;
      }
    }
    const grpc::Status status = reader->Finish();
    if (!IsLost(status)) {
      session.FailCall(status);
      return;
    }
    if (!is_loss_told) {
      std::cerr << "ringctl: the connection to the agent is lost; waiting for it\n";
    }
    is_loss_told = true;
    std::this_thread::sleep_for(kReconnectInterval);
  }
}

}  // namespace

void AddWatchCommand(CLI::App* root, Session& session) {
  CLI::App* watch = AddVerb(
      root, "watch", "Show switches, ports and FDB entries, and what changes of them, until interrupted",
      "  ringctl watch\n"
      "  ringctl watch ports fdb --switch sw0\n"
      "  ringctl watch fdb --output json\n"
      "Each line begins with the time and + (new), ~ (changed), - (gone) or = (a mark:\n"
      "synced is the end of what there was before). JSON has a message in each line.");
  auto flags = std::make_shared<WatchFlags>();
  watch->add_option("KINDS", flags->kinds, "What to watch: switches, ports, fdb (usual: all)")
      ->check(OneOf({"switches", "ports", "fdb"}))
      ->type_name("");
  watch->add_option("--switch", flags->switch_name, "Only of this switch")->type_name("NAME");
  watch->callback([flags, &session] { Watch(session, *flags); });
}

}  // namespace ringswitch::ringctl
