#include "server/ringctl/session.h"

#include <google/protobuf/util/json_util.h>

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "server/ringctl/table.h"

namespace ringswitch::ringctl {

Session::Session() {
  const char* const address = std::getenv("RINGSWITCH_ADDRESS");
  flags_.address = address != nullptr && *address != '\0' ? address : "unix:/run/ringswitch/ringswitchd.sock";
}

bool Session::Fail(const Failure& failure) {
  for (const std::string& line : failure.lines) {
    std::cerr << "ringctl: " << EscapeControls(line) << '\n';
  }
  exit_code_ = failure.exit_code;
  return false;
}

bool Session::Fail(absl::string_view line) {
  return Fail(Failure{kExitRefused, {std::string(line)}});
}

void Session::Show(const google::protobuf::Message& message, absl::string_view text) {
  if (!wants_json()) {
    std::cout << text;
    return;
  }
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) {
    Fail(absl::StrCat("the agent's answer has no JSON form: ", status.ToString()));
    return;
  }
  std::cout << json;
}

void Session::Tell(const google::protobuf::Message& message, absl::string_view sentence) {
  Show(message, absl::StrCat(EscapeControls(sentence), "\n"));
}

bool Session::OpenChannel() {
  if (channel_ != nullptr) {
    return true;
  }
  grpc::ChannelArguments arguments;
  // The rows of one VLAN listing may exceed gRPC's usual 4 MiB, and the agent is trusted not to flood its
  // client.
  arguments.SetMaxReceiveMessageSize(-1);
  // The agent is on this node: an http_proxy in the environment is not meant for it.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A watch waits for an agent that was restarted, and must notice one that has silently gone.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  channel_ = grpc::CreateCustomChannel(TargetAddress(), grpc::InsecureChannelCredentials(), arguments);
  // For an address that gRPC cannot read it makes a channel that has failed already.
  if (channel_->GetState(false) != GRPC_CHANNEL_IDLE) {
    return Fail(
        Failure{kExitUsage,
                {absl::StrCat("\"", flags_.address,
                              "\" is no address; write unix:PATH (at most 107 bytes), PATH or HOST:PORT")}});
  }
  return true;
}

std::string Session::TargetAddress() const {
  return flags_.address.starts_with('/') ? absl::StrCat("unix:", flags_.address) : flags_.address;
}

}  // namespace ringswitch::ringctl
