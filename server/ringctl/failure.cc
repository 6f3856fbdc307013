#include "server/ringctl/failure.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace ringswitch::ringctl {
namespace {

// Parts of field paths and the arguments that set them; the first that fits is taken.
constexpr std::pair<absl::string_view, absl::string_view> kFlags[] = {
    {"confirm_within", "--confirm-within"},
    {"netdev.ifname", "--netdev"},
    {"host_ifname", "--host-ifname"},
    {"host_stack", "--host-stack"},
    {"software_offload", "--software-offload"},
    {"ifname", "--ifname"},
    {"netns", "--netns"},
    {"device", "--tap, --netdev or --veth"},
    {"tap", "--tap, --netdev or --veth"},
    {"netdev", "--netdev"},
    {"veth", "--veth"},
    {"source_guard.mac_addresses", "--allow-mac"},
    {"source_guard.ip_addresses", "--allow-ip"},
    {"source_guard", "--source-guard"},
    {"storm_control.broadcast", "--storm-broadcast"},
    {"storm_control.multicast", "--storm-multicast"},
    {"storm_control.unknown_unicast", "--storm-unknown-unicast"},
    {"receive_rate", "--receive-rate"},
    {"transmit_rate", "--transmit-rate"},
    {"bpdu_guard", "--bpdu-guard"},
    {"router_advertisement_guard", "--ra-guard"},
    {"dhcp_server_guard", "--dhcp-guard"},
    {"admin_up", "--up or --down"},
    {"learning", "--learning"},
    {"flood_unknown_unicast", "--flood-unknown-unicast"},
    {"flood_multicast", "--flood-multicast"},
    {"flood_broadcast", "--flood-broadcast"},
    {"isolated", "--isolated"},
    {"hairpin", "--hairpin"},
    {"locked", "--locked"},
    {"flap_guard", "--flap-guard"},
    {"vlan_counters", "--vlan-counters"},
    {"access_vid", "--access"},
    {"native_vid", "--native"},
    {"default_vid", "--default-vid"},
    {"tagged", "--trunk"},
    {"trunk", "--trunk"},
    {"vlans", "--access or --trunk"},
    {"ranges", "RANGES"},
    {"vid", "--vlan"},
    {"mac_address", "--mac"},
    {"mac_limit", "--mac-limit"},
    {"mtu", "--mtu"},
    {"ageing_time", "--ageing-time"},
    {"fdb_capacity", "--fdb-capacity"},
    {"group_forward_mask", "--group-forward-mask"},
    {"vlan_aware", "--vlan-unaware"},
    {"mode", "--mode"},
    {"switch_name", "--switch"},
    {"port_name", "--port"},
    {"port_names", "--port"},
    {"pod", "--pod"},
    {"name", "NAME"},
};

// What to do about an ErrorInfo.reason, in terms of ringctl; {key} stands for a value of ErrorInfo.metadata.
// `argument` is the one to blame, or empty.
struct Remedy {
  absl::string_view reason;
  absl::string_view argument;
  absl::string_view text;
};
constexpr Remedy kRemedies[] = {
    {"SWITCH_NOT_FOUND", "", "see: ringctl switch list"},
    {"SWITCH_EXISTS", "NAME", "take another, or change it: ringctl switch update {switch}"},
    {"SWITCH_HAS_PORTS", "", "see: ringctl port list --switch {switch}"},
    {"SWITCH_NOT_VLAN_AWARE", "", "see: ringctl switch show {switch}"},
    {"PORT_NOT_FOUND", "", "see: ringctl port list"},
    {"PORT_EXISTS", "NAME", "take another, or change it: ringctl port update {port}"},
    {"PORT_MISSING", "", "see: ringctl port show {port}"},
    {"PORT_NOT_TRUNK", "", "as in: ringctl port update {port} --trunk RANGES"},
    {"PORT_NOT_VLAN_MEMBER", "", "see: ringctl port show {port}"},
    {"INTERFACE_EXISTS", "--ifname", "take another, or delete that device first"},
    {"NETDEV_NOT_FOUND", "--netdev", "see: ip link"},
    {"DEVICE_REFUSED", "--netdev", ""},
    {"DEVICE_IN_USE", "--netdev or --host-ifname", ""},
    {"FDB_ENTRY_NOT_FOUND", "", "see: ringctl fdb list"},
    {"FDB_ENTRY_EXISTS", "", "to change it: ringctl fdb update, or fdb add with --replace"},
    {"FDB_FULL", "", "delete entries, or make a switch with a larger --fdb-capacity"},
    {"FDB_BULK_TOO_LARGE", "", "add them in several calls"},
    {"TOO_MANY_STREAMS", "", "try again when they have ended"},
};

// What ErrorInfo adds to the message: who is to blame before it, what to do behind it.
struct Advice {
  std::string argument;
  std::string field;  // That the message begins with; empty: none.
  std::string remedy;
};

Advice AdviceOf(const google::rpc::ErrorInfo& info) {
  Advice advice;
  for (const Remedy& one : kRemedies) {
    if (one.reason == info.reason()) {
      advice.argument = std::string(one.argument);
      advice.remedy = std::string(one.text);
    }
  }
  for (const auto& [key, value] : info.metadata()) {
    absl::StrReplaceAll({{absl::StrCat("{", key, "}"), value}}, &advice.remedy);
    if (key == "field") {
      advice.field = value;
    }
  }
  return advice;
}

// Why a Unix socket does not take a connection, which gRPC tells only in passing; empty where it does.
std::string WhyNotConnected(absl::string_view path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::StrCat("the path is longer than ", sizeof(address.sun_path) - 1, " bytes");
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return std::strerror(errno);
  }
  const int result = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  close(fd);
  if (result == 0) {
    return {};
  }
  if (error == EACCES || error == EPERM) {
    return "permission denied; run ringctl as root or as a member of the socket's group";
  }
  return absl::StrCat(std::strerror(error), "; is ringswitchd running?");
}

std::string UnreachableLine(const grpc::Status& status, const std::string& address) {
  if (absl::StartsWith(address, "unix:")) {
    const absl::string_view path = absl::StripPrefix(absl::StripPrefix(address, "unix:"), "//");
    const std::string why = WhyNotConnected(path);
    if (!why.empty()) {
      return absl::StrCat("cannot reach the agent at ", address, ": ", why);
    }
  }
  return absl::StrCat("cannot reach the agent at ", address, ": ", status.error_message(),
                      "; is ringswitchd running?");
}

// The agent's message, with the field that it begins with, or that its reason blames, in people's words.
std::string MessageLine(const grpc::Status& status, const Advice& advice, const FieldNames& names) {
  const std::string text = status.error_message();
  absl::string_view message = text;
  if (message.empty()) {
    return absl::StrCat("refused by the agent with code ", status.error_code());
  }
  if (!advice.field.empty() && absl::ConsumePrefix(&message, absl::StrCat(advice.field, ": "))) {
    return absl::StrCat(names(advice.field), ": ", message);
  }
  return absl::StrCat(advice.argument, advice.argument.empty() ? "" : ": ", message);
}

std::vector<std::string> RefusalLines(const grpc::Status& status, const FieldNames& names) {
  std::vector<std::string> lines;
  Advice advice;
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) {
      google::rpc::BadRequest bad_request;
      google::rpc::ErrorInfo info;
      if (detail.UnpackTo(&bad_request)) {
        for (const auto& violation : bad_request.field_violations()) {
          lines.push_back(absl::StrCat(names(violation.field()), ": ", violation.description()));
        }
      } else if (detail.UnpackTo(&info)) {
        advice = AdviceOf(info);
      }
    }
  }
  if (lines.empty()) {
    lines.push_back(MessageLine(status, advice, names));
  }
  if (!advice.remedy.empty()) {
    absl::StrAppend(&lines.back(), "; ", advice.remedy);
  }
  return lines;
}

}  // namespace

Failure DescribeFailure(const grpc::Status& status, const std::string& address, int timeout_s,
                        const FieldNames& names) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return {kExitUnreachable, {UnreachableLine(status, address)}};
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {
          kExitUnreachable,
          {absl::StrCat("no answer from the agent at ", address, " within ", timeout_s,
                        " s (--timeout waits longer); a change, if one was asked for, may have been made")}};
    case grpc::StatusCode::UNIMPLEMENTED:
      if (status.error_details().empty() && status.error_message().empty()) {
        return {kExitRefused, {"this agent does not know the call; is it older than ringctl?"}};
      }
      return {kExitRefused, RefusalLines(status, names)};
    default:
      return {kExitRefused, RefusalLines(status, names)};
  }
}

std::string FlagOfField(absl::string_view field) {
  // "port.vlans.trunk.tagged[0].first" without the numbers, which people did not write.
  std::string path = ".";
  bool in_brackets = false;
  for (const char c : field) {
    in_brackets = (in_brackets || c == '[') && c != ']';
    if (!in_brackets && c != ']') {
      path.push_back(c);
    }
  }
  path.push_back('.');
  for (const auto& [part, flag] : kFlags) {
    if (absl::StrContains(path, absl::StrCat(".", part, "."))) {
      return std::string(flag);
    }
  }
  return std::string(field);
}

}  // namespace ringswitch::ringctl
