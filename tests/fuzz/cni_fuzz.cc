// What a container runtime gives the CNI plugin: environment, configuration, prevResult. Each is taken or is
// an error that can be printed; what is taken can be sent to the agent.
//
// Theory of operation. The input is five lines, CNI_COMMAND, CNI_CONTAINERID, CNI_IFNAME, CNI_NETNS and
// CNI_ARGS, and then the configuration. It is read as each verb reads it, up to where the plugin would speak
// to the agent or run another program. Results are printed in the configuration's version and read back.

#include <cstdlib>

#include "cni-plugin/config.h"
#include "cni-plugin/failure.h"
#include "cni-plugin/invocation.h"
#include "cni-plugin/result.h"
#include "tests/fuzz/input.h"

namespace ringswitch::cni {
namespace {

using fuzz::Input;
using fuzz::Require;

void CheckFailure(const absl::Status& status) {
  if (status.ok()) return;
  const Json error = Json::parse(ErrorJson("1.0.0", status), nullptr, false);
  Require(error.is_object() && error.value("code", 0) > 0, "a failure is printed with its code");
  Require(!error.value("msg", "").empty(), "and says why");
}

template <typename Message>
void CheckSendable(const Message& message) {
  Message received;
  Require(received.ParseFromString(message.SerializeAsString()), "the agent can receive what it is sent");
}

// The result of an ADD says what IPAM said.
void CheckResult(const NetworkConfig& config, const v1::Attachment& attachment,
                 const AddressResult& addresses) {
  CheckSendable(ToIpConfig(addresses));
  const Json printed = Json::parse(AddResultText(config, attachment, addresses), nullptr, false);
  Require(printed.is_object() && printed.value("cniVersion", "") == config.cni_version,
          "a result is printed");
  const absl::StatusOr<AddressResult> read = ReadAddressResult(printed);
  Require(
      read.ok() && read->ips.size() == addresses.ips.size() && read->routes.size() == addresses.routes.size(),
      "a result can be read");
  for (size_t i = 0; i < read->ips.size(); ++i) {
    Require(
        read->ips[i].address == addresses.ips[i].address && read->ips[i].gateway == addresses.ips[i].gateway,
        "with its addresses");
  }
  for (size_t i = 0; i < read->routes.size(); ++i)
    Require(read->routes[i].destination == addresses.routes[i].destination, "and its routes");
}

void CheckConfig(const NetworkConfig& config, const Invocation& invocation) {
  for (const char* version : kSupportedVersions) {
    const absl::StatusOr<NetworkConfig> again = ReadNetworkConfig(TextWithVersion(config, version));
    Require(again.ok() && again->cni_version == version && again->name == config.name,
            "a configuration can be given on in another version");
  }
  if (invocation.verb == Verb::kGc) CheckFailure(ReadValidAttachments(config).status());
  if (invocation.verb != Verb::kAdd && invocation.verb != Verb::kCheck) return;
  absl::StatusOr<v1::Attachment> attachment = ReadAttachment(config, invocation);
  CheckFailure(attachment.status());
  if (!attachment.ok()) return;
  CheckSendable(*attachment);
  const absl::StatusOr<AddressResult> addresses = ReadAddressResult(config.document);
  CheckFailure(addresses.status());
  if (addresses.ok()) CheckResult(config, *attachment, *addresses);
  const absl::Status previous = ReadPreviousResult(config, *attachment);
  CheckFailure(previous);
  if (previous.ok()) CheckSendable(*attachment);
}

void Run(Input* input) {
  for (const char* name : {"CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS"})
    setenv(name, input->Line().c_str(), 1);
  setenv("CNI_PATH", "/opt/cni/bin", 1);
  const absl::StatusOr<Invocation> invocation = ReadInvocation();
  CheckFailure(invocation.status());
  const absl::StatusOr<NetworkConfig> config = ReadNetworkConfig(input->Text(input->left()));
  CheckFailure(config.status());
  if (config.ok() && invocation.ok()) CheckConfig(*config, *invocation);
}

}  // namespace
}  // namespace ringswitch::cni

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringswitch::fuzz::Input input(data, size);
  ringswitch::cni::Run(&input);
  return 0;
}
