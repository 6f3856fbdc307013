// Requests of the API on a whole switch model: each is refused or done, nothing crashes, and what was
// accepted is what a restarted agent has again.
//
// Theory of operation. The input is a list of calls with their messages (message_filler.h), taken as the
// services take them: decoded, given to the model, the answer encoded. On the way: every answer and every
// error can be sent; a port, switch or entry that was read can be sent back and changes nothing; a page token
// is taken where it was given and nowhere else. At the end the agent starts again from its state directory,
// and all is as before.

#include <google/protobuf/util/json_util.h>

#include "ringswitch/v1/agent.pb.h"
#include "server/agent/attachments.h"
#include "server/agent/control_error.h"
#include "server/agent/page_token.h"
#include "server/agent/proto_codec.h"
#include "tests/fuzz/agent_node.h"
#include "tests/fuzz/message_filler.h"

namespace ringswitch::agent {
namespace {

using fuzz::FillMessage;
using fuzz::Input;
using fuzz::Require;

constexpr int kCallsMax = 32;

template <typename Message>
void CheckSendable(const Message& message) {
  Message received;
  Require(received.ParseFromString(message.SerializeAsString()), "what is answered can be received");
}

bool IsUtf8(const std::string& text) {
  v1::FdbEntry message;
  message.set_port_name(text);
  return v1::FdbEntry().ParseFromString(message.SerializeAsString());
}

void CheckError(const absl::Status& status) {
  if (status.ok()) return;
  Require(!status.message().empty(), "an error says why");
  for (const FieldViolation& violation : FieldViolationsOf(status))
    Require(IsUtf8(violation.field) && IsUtf8(violation.description), "an error can be sent");
  for (const auto& [key, value] : ErrorReasonOf(status).metadata)
    Require(IsUtf8(value), "a reason can be sent");
}

class Client {
 public:
  Client(Input* input, AgentNode* node)
      : input_(*input), node_(*node), attachments_(&node->model(), &node->links()) {}

  void Call() {
    static constexpr void (Client::*kCalls[])() = {
        &Client::CreatePort,     &Client::CreatePort,       &Client::CreateSwitch,
        &Client::UpdatePort,     &Client::UpdateSwitch,     &Client::CreateFdbEntry,
        &Client::UpdateFdbEntry, &Client::CreateFdbEntries, &Client::CreateAttachment,
        &Client::DeletePort,     &Client::DeleteSwitch,     &Client::DeleteFdbEntry,
        &Client::FlushFdb,       &Client::ChangeVlans,      &Client::ListVlans,
        &Client::ListFdbEntries, &Client::ConfirmPort,      &Client::UseAttachment,
        &Client::ReadConfig,     &Client::UsePageToken,
    };
    (this->*kCalls[input_.Byte() % std::size(kCalls)])();
  }

 private:
  SwitchModel& model() { return node_.model(); }

  // A port that was read and is sent back.
  void CheckPort(const absl::StatusOr<PortView>& view, bool is_made) {
    CheckError(view.status());
    if (!view.ok()) return;
    v1::UpdatePortRequest request;
    Encode(*view, request.mutable_port());
    CheckSendable(request);
    if (!is_made) return;
    const std::string before = node_.Dump();
    PortUpdate update;
    Require(Decode(request, &update).ok() && model().UpdatePort(update, false).ok(),
            "what was read can be sent back");
    Require(node_.Dump() == before, "and changes nothing");
  }
  void CheckSwitch(const absl::StatusOr<SwitchView>& view, bool is_made) {
    CheckError(view.status());
    if (!view.ok()) return;
    v1::UpdateSwitchRequest request;
    Encode(*view, request.mutable_switch_());
    CheckSendable(request);
    if (!is_made) return;
    const std::string before = node_.Dump();
    SwitchUpdate update;
    Require(Decode(request, &update).ok() && model().UpdateSwitch(update, false).ok(),
            "what was read can be sent back");
    Require(node_.Dump() == before, "and changes nothing");
  }
  void CheckEntry(const absl::StatusOr<FdbEntryView>& view, bool is_made) {
    CheckError(view.status());
    if (!view.ok()) return;
    v1::FdbEntry entry;
    Encode(*view, &entry);
    CheckSendable(entry);
    if (!is_made) return;
    const std::string before = node_.Dump();
    Require(model().UpdateFdbEntry(Decode(entry), false).ok(), "what was read can be sent back");
    Require(node_.Dump() == before, "and changes nothing");
  }

  void CreateSwitch() {
    v1::CreateSwitchRequest request;
    if (!FillMessage(&input_, &request)) return;
    CheckSwitch(model().CreateSwitch(Decode(request.switch_()), request.validate_only()),
                !request.validate_only());
  }
  void UpdateSwitch() {
    v1::UpdateSwitchRequest request;
    if (!FillMessage(&input_, &request)) return;
    SwitchUpdate update;
    const absl::Status status = Decode(request, &update);
    CheckError(status);
    if (status.ok())
      CheckSwitch(model().UpdateSwitch(update, request.validate_only()), !request.validate_only());
  }
  void DeleteSwitch() {
    v1::DeleteSwitchRequest request;
    if (FillMessage(&input_, &request))
      CheckError(model().DeleteSwitch(request.name(), request.validate_only()));
  }
  void CreatePort() {
    v1::CreatePortRequest request;
    if (!FillMessage(&input_, &request)) return;
    // What every port needs is there more often than not.
    if (!input_.OneIn(4)) {
      if (request.port().name().empty()) request.mutable_port()->set_name("p1");
      if (request.port().switch_name().empty()) request.mutable_port()->set_switch_name("sw0");
      if (request.port().device_case() == v1::Port::DEVICE_NOT_SET) request.mutable_port()->mutable_tap();
      if (request.port().has_tap() && request.port().tap().ifname().empty())
        request.mutable_port()->mutable_tap()->set_ifname(request.port().name());
      if (request.port().has_tap() && request.port().tap().netns().empty())
        request.mutable_port()->mutable_tap()->set_netns(kNetns);
    }
    CheckPort(model().CreatePort(Decode(request), request.validate_only()), !request.validate_only());
  }
  void UpdatePort() {
    v1::UpdatePortRequest request;
    if (!FillMessage(&input_, &request)) return;
    PortUpdate update;
    const absl::Status status = Decode(request, &update);
    CheckError(status);
    if (status.ok()) CheckPort(model().UpdatePort(update, request.validate_only()), !request.validate_only());
  }
  void DeletePort() {
    v1::DeletePortRequest request;
    if (FillMessage(&input_, &request))
      CheckError(model().DeletePort(request.name(), request.validate_only()));
  }
  void ConfirmPort() {
    v1::ConfirmPortRequest request;
    if (FillMessage(&input_, &request)) CheckPort(model().ConfirmPort(request.name()), true);
  }
  void CreateFdbEntry() {
    v1::CreateFdbEntryRequest request;
    if (!FillMessage(&input_, &request)) return;
    CheckEntry(model().CreateFdbEntry(Decode(request.entry()), request.validate_only()),
               !request.validate_only());
  }
  void UpdateFdbEntry() {
    v1::UpdateFdbEntryRequest request;
    if (!FillMessage(&input_, &request)) return;
    CheckEntry(model().UpdateFdbEntry(Decode(request.entry()), request.validate_only()),
               !request.validate_only());
  }
  void DeleteFdbEntry() {
    v1::DeleteFdbEntryRequest request;
    if (!FillMessage(&input_, &request)) return;
    CheckError(model().DeleteFdbEntry({request.switch_name(), request.vid(), request.mac_address(), ""}));
  }
  void CreateFdbEntries() {
    v1::CreateFdbEntriesRequest request;
    if (!FillMessage(&input_, &request) || request.entries_size() == 0) return;
    FdbBulkRequest bulk;
    bulk.switch_name = request.entries(0).switch_name();
    bulk.replace = request.replace();
    bulk.validate_only = request.validate_only();
    FdbBulkRequest::Part& part = bulk.parts.emplace_back();
    part.ranges = Decode(request.ranges());
    for (const v1::FdbEntry& entry : request.entries()) {
      const std::optional<bridge::MacAddress> mac = bridge::MacAddress::Parse(entry.mac_address());
      if (!mac.has_value()) return;
      part.entries.push_back({*mac, entry.vid(), static_cast<uint32_t>(bulk.port_names.size())});
      bulk.port_names.push_back(entry.port_name());
    }
    const std::string before = node_.Dump();
    const absl::StatusOr<uint32_t> made = model().CreateFdbEntries(bulk);
    CheckError(made.status());
    Require((made.ok() && !bulk.validate_only) || node_.Dump() == before, "all or nothing");
  }
  void FlushFdb() {
    v1::FlushFdbRequest request;
    FdbFilterRequest filter;
    if (FillMessage(&input_, &request) && DecodeFilter(request, &filter))
      CheckError(model().FlushFdb(filter).status());
  }
  void ListFdbEntries() {
    v1::ListFdbEntriesRequest request;
    FdbFilterRequest filter;
    if (!FillMessage(&input_, &request) || !DecodeFilter(request, &filter)) return;
    CheckError(model().ListFdbEntries(filter, 0, 1 + request.page_size() % 1000).status());
  }
  template <typename Request>
  bool DecodeFilter(const Request& request, FdbFilterRequest* filter) {
    filter->switch_name = request.switch_name();
    filter->port_name = request.port_name();
    if (request.has_vid()) filter->vid = request.vid();
    const absl::Status status = Decode(request.kind(), &filter->kind);
    CheckError(status);
    return status.ok();
  }
  void ChangeVlans() {
    v1::AddVlansRequest request;
    if (!FillMessage(&input_, &request)) return;
    CheckPort(model().ChangeVlans(request.port_name(), Decode(request.ranges()), input_.OneIn(2)), true);
  }
  void ListVlans() {
    v1::ListVlansRequest request;
    if (!FillMessage(&input_, &request)) return;
    const absl::StatusOr<std::vector<VlanView>> views =
        model().ListVlans(request.switch_name(), Decode(request.ranges()));
    CheckError(views.status());
    if (!views.ok()) return;
    v1::ListVlansResponse response;
    for (const VlanView& view : *views) Encode(view, request.switch_name(), response.add_vlans());
    CheckSendable(response);
  }
  void CreateAttachment() {
    v1::Attachment request;
    if (!FillMessage(&input_, &request)) return;
    if (!input_.OneIn(4)) {
      if (request.container_id().empty()) request.set_container_id("c1");
      if (request.ifname().empty()) request.set_ifname("eth0");
      if (request.switch_name().empty()) request.set_switch_name("sw0");
      if (request.netns().empty()) request.set_netns(kNetns);
    }
    const absl::StatusOr<PortView> view = attachments_.Create(Decode(request));
    CheckError(view.status());
    if (!view.ok()) return;
    v1::Attachment answer;
    EncodeAttachment(*view, &answer);
    CheckSendable(answer);
  }
  void UseAttachment() {
    v1::Attachment request;
    if (!FillMessage(&input_, &request)) return;
    if (request.container_id().empty()) request.set_container_id("c1");
    if (request.ifname().empty()) request.set_ifname("eth0");
    switch (input_.Below(3)) {
      case 0:
        return CheckError(
            attachments_.Configure(request.container_id(), request.ifname(), Decode(request.ip_config()))
                .status());
      case 1:
        return CheckError(attachments_.Check(Decode(request)));
      default:
        return CheckError(attachments_.Delete(request.container_id(), request.ifname()));
    }
  }
  // What the agent checks of its configuration file.
  void ReadConfig() {
    v1::AgentConfig config;
    google::protobuf::util::JsonParseOptions options;
    options.ignore_unknown_fields = false;
    const std::string text = input_.Text(input_.Byte() * size_t{4});
    if (!google::protobuf::util::JsonStringToMessage(text, &config, options).ok()) return;
    for (const v1::Switch& message : config.switches())
      CheckError(Verification::NewSwitch(Decode(message)).status());
    for (const v1::Port& message : config.ports())
      CheckError(Verification::NewPort(Decode(message), nullptr).status());
  }
  void UsePageToken() {
    const std::string listing = input_.Text(input_.Below(8)), position = input_.Text(input_.Below(8));
    const std::string token = MakePageToken(listing, position);
    const absl::StatusOr<std::string> parsed = ParsePageToken(listing, token);
    Require(position.empty() || (parsed.ok() && *parsed == position),
            "a page token is taken where it was given");
    Require(!ParsePageToken(listing + "x", token).ok(), "and nowhere else");
    CheckError(ParsePageToken(listing, input_.Text(input_.Below(64))).status());
  }

  Input& input_;
  AgentNode& node_;
  Attachments attachments_;
};

void Run(Input* input) {
  static const StateDirectory directory;
  directory.Empty();
  AgentNode node(&directory);
  SwitchRequest request;
  request.name = "sw0";
  Require(node.model().CreateSwitch(request, false).ok(), "a switch can be made");
  {
    Client client(input, &node);
    for (int calls = 0; calls < kCallsMax && !input->ended(); ++calls) client.Call();
  }
  Require(node.Problems().empty(), "there are no problems");
  const std::string before = node.Dump();
  node.Restart();
  Require(node.Problems().empty(), "there are no problems after a restart");
  Require(node.Dump() == before, "what was accepted is there after a restart");
}

}  // namespace
}  // namespace ringswitch::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringswitch::fuzz::Input input(data, size);
  ringswitch::agent::Run(&input);
  return 0;
}
