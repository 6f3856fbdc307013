#include "server/ringctl/failure.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace ringswitch::ringctl {
namespace {

// Last parts of field paths and the arguments that set them; the first that fits is taken.
constexpr std::array<std::pair<absl::string_view, absl::string_view>, 22> kFlags = {{
    {"access_vid", "--access"},
    {"native_vid", "--native"},
    {"default_vid", "--default-vid"},
    {"tagged", "--trunk"},
    {"trunk", "--trunk"},
    {"vlans", "--access or --trunk"},
    {"ranges", "RANGES"},
    {"vid", "--vlan"},
    {"netns", "--netns"},
    {"ifname", "--ifname"},
    {"tap", "--tap"},
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
    {"pod", "--pod"},
}};

// What to do about an ErrorInfo.reason, in terms of ringctl; {key} stands for a value of ErrorInfo.metadata.
constexpr std::array<std::pair<absl::string_view, absl::string_view>, 8> kRemedies = {{
    {"SWITCH_NOT_FOUND", "see: ringctl switch list"},
    {"SWITCH_HAS_PORTS", "see: ringctl port list --switch {switch}"},
    {"PORT_NOT_FOUND", "see: ringctl port list"},
    {"PORT_NOT_TRUNK", "as in: ringctl port update {port} --trunk RANGES"},
    {"PORT_NOT_VLAN_MEMBER", "see: ringctl port show {port}"},
    {"FDB_ENTRY_NOT_FOUND", "see: ringctl fdb list"},
    {"FDB_ENTRY_EXISTS", "to change it: ringctl fdb update"},
    {"FDB_FULL", "delete entries, or make a switch with a larger --fdb-capacity"},
}};

std::string RemedyOf(const google::rpc::ErrorInfo& info) {
  std::string text;
  for (const auto& [reason, remedy] : kRemedies) {
    if (reason == info.reason()) {
      text = std::string(remedy);
    }
  }
  for (const auto& [key, value] : info.metadata()) {
    absl::StrReplaceAll({{absl::StrCat("{", key, "}"), value}}, &text);
  }
  return text;
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

std::vector<std::string> RefusalLines(const grpc::Status& status) {
  std::vector<std::string> lines;
  std::string remedy;
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) {
      google::rpc::BadRequest bad_request;
      google::rpc::ErrorInfo info;
      if (detail.UnpackTo(&bad_request)) {
        for (const auto& violation : bad_request.field_violations()) {
          lines.push_back(absl::StrCat(FlagOfField(violation.field()), ": ", violation.description()));
        }
      } else if (detail.UnpackTo(&info)) {
        remedy = RemedyOf(info);
      }
    }
  }
  if (lines.empty()) {
    lines.push_back(status.error_message().empty()
                        ? absl::StrCat("refused by the agent with code ", status.error_code())
                        : status.error_message());
  }
  if (!remedy.empty()) {
    absl::StrAppend(&lines.back(), "; ", remedy);
  }
  return lines;
}

}  // namespace

Failure DescribeFailure(const grpc::Status& status, const std::string& address, int timeout_s) {
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
      return {kExitRefused, RefusalLines(status)};
    default:
      return {kExitRefused, RefusalLines(status)};
  }
}

std::string FlagOfField(absl::string_view field) {
  std::vector<absl::string_view> parts = absl::StrSplit(field, '.');
  // "tagged[0].first": what people wrote is the list.
  if (parts.size() > 1 && (parts.back() == "first" || parts.back() == "last")) {
    parts.pop_back();
  }
  absl::string_view last = parts.back();
  last = last.substr(0, last.find('['));
  for (const auto& [name, flag] : kFlags) {
    if (name == last) {
      return std::string(flag);
    }
  }
  if (last == "name") {
    return absl::StrContains(field, "pod.") ? "--pod" : "NAME";
  }
  return std::string(field);
}

}  // namespace ringswitch::ringctl
