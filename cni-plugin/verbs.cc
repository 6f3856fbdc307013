#include "cni-plugin/verbs.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cni-plugin/agent_client.h"
#include "cni-plugin/failure.h"
#include "cni-plugin/ipam.h"
#include "cni-plugin/result.h"
#include "cni-plugin/spool.h"

namespace ringswitch::cni {
namespace {

// Long, since a node that starts a hundred pods at once is slow and not broken; short enough for less than 10
// s in all, also where the agent stops half-way and the undoing or the retry finds it stopped.
constexpr absl::Duration kConnectTimeout = absl::Seconds(5);
constexpr absl::Duration kConnectAndCallTimeout = absl::Seconds(8);
constexpr absl::Duration kConfigureTimeout = absl::Seconds(5);
constexpr absl::Duration kDeleteTimeout = absl::Seconds(3);
constexpr absl::Duration kUndoConnectTimeout = absl::Seconds(1);
constexpr absl::Duration kRetryTimeout = absl::Milliseconds(500);
constexpr absl::Duration kCheckTimeout = absl::Seconds(4);
constexpr absl::Duration kListTimeout = absl::Seconds(4);
constexpr absl::Duration kStatusTimeout = absl::Seconds(1);
// dhcp waits for a server.
constexpr absl::Duration kIpamTimeout = absl::Seconds(60);

// Deletes the port, or spools that.
absl::Status RemovePort(const NetworkConfig& config, const Invocation& invocation,
                        absl::Duration connect_timeout, absl::Duration timeout) {
  const auto remove = [&](absl::Duration connecting, absl::Time deadline) {
    absl::StatusOr<AgentClient> agent = AgentClient::Connect(config.agent_address, connecting);
    if (!agent.ok()) return agent.status();
    return agent->Delete(invocation.container_id, invocation.ifname, deadline - absl::Now());
  };
  absl::Status status = remove(connect_timeout, absl::Now() + timeout);
  if (CodeOf(status) != kTryAgainLater) return status;
  const Spool spool(config.spool_directory);
  status = spool.Add(invocation.container_id, invocation.ifname);
  if (!status.ok()) return status;
  // The agent may have started, and replayed the spool, between the two.
  if (remove(kRetryTimeout, absl::Now() + 2 * kRetryTimeout).ok()) {
    spool.Take(invocation.container_id, invocation.ifname);
  }
  return absl::OkStatus();
}

// Takes an ADD back.
void UndoPort(const NetworkConfig& config, const Invocation& invocation) {
  (void)RemovePort(config, invocation, kUndoConnectTimeout, kDeleteTimeout);
}

// A namespace that is there and is not the host's: nobody wants a pod's interface in the host.
absl::Status CheckNetns(const std::string& path) {
  struct stat wanted;
  struct stat own;
  if (stat(path.c_str(), &wanted) != 0) {
    return Failure(kBadNetns, absl::StrCat("CNI_NETNS: ", path, ": ", std::strerror(errno)));
  }
  const bool is_own =
      stat("/proc/self/ns/net", &own) == 0 && own.st_dev == wanted.st_dev && own.st_ino == wanted.st_ino;
  if (is_own) {
    return Failure(kBadNetns, absl::StrCat("CNI_NETNS: ", path, " is the plugin's own network namespace"));
  }
  return absl::OkStatus();
}

// Addresses from IPAM, set by the agent.
absl::StatusOr<AddressResult> AddAddresses(const Ipam& ipam, AgentClient& agent, v1::Attachment& attachment) {
  const absl::StatusOr<std::string> output = ipam.Run(kIpamTimeout);
  if (!output.ok()) return output.status();
  const absl::StatusOr<Json> document = ParseObject(*output, "the output of the IPAM plugin");
  if (!document.ok()) return document.status();
  absl::StatusOr<AddressResult> addresses = ReadAddressResult(*document);
  if (!addresses.ok()) return addresses.status();
  if (addresses->ips.empty()) return Failure(kInternal, "the IPAM plugin gave no address");
  absl::StatusOr<v1::Attachment> configured =
      agent.Configure(attachment, ToIpConfig(*addresses), kConfigureTimeout);
  if (!configured.ok()) return configured.status();
  attachment = *std::move(configured);
  return addresses;
}

}  // namespace

absl::StatusOr<std::string> Add(const NetworkConfig& config, const Invocation& invocation) {
  const absl::StatusOr<v1::Attachment> wanted = ReadAttachment(config, invocation);
  if (!wanted.ok()) return wanted.status();
  if (absl::Status status = CheckNetns(invocation.netns); !status.ok()) return status;
  const absl::Time deadline = absl::Now() + kConnectAndCallTimeout;
  absl::StatusOr<AgentClient> agent = AgentClient::Connect(config.agent_address, kConnectTimeout);
  if (!agent.ok()) return agent.status();

  // A DEL of the same key that no agent has seen yet: replayed later it would remove what this ADD makes.
  const Spool spool(config.spool_directory);
  if (spool.Take(invocation.container_id, invocation.ifname)) {
    absl::Status status = agent->Delete(invocation.container_id, invocation.ifname, kDeleteTimeout);
    if (!status.ok()) return status;  // the runtime's DEL follows
  }
  absl::StatusOr<v1::Attachment> attachment = agent->Create(*wanted, deadline - absl::Now());
  if (!attachment.ok()) {
    // The agent takes back what it refuses. Whether one that fell silent has made the port is not known.
    if (CodeOf(attachment.status()) == kTryAgainLater) UndoPort(config, invocation);
    return attachment.status();
  }
  const Ipam ipam(config, invocation);
  absl::StatusOr<AddressResult> addresses = AddressResult();
  if (ipam.is_configured()) addresses = AddAddresses(ipam, *agent, *attachment);
  if (!addresses.ok()) {
    UndoPort(config, invocation);
    (void)ipam.RunAs("DEL", kIpamTimeout);
    return addresses.status();
  }
  return AddResultText(config, *attachment, *addresses);
}

absl::Status Del(const NetworkConfig& config, const Invocation& invocation) {
  absl::Status status = RemovePort(config, invocation, kConnectTimeout, kConnectAndCallTimeout);
  if (!status.ok()) return status;
  const Ipam ipam(config, invocation);
  return ipam.is_configured() ? ipam.Run(kIpamTimeout).status() : absl::OkStatus();
}

absl::Status Check(const NetworkConfig& config, const Invocation& invocation) {
  absl::StatusOr<v1::Attachment> expected = ReadAttachment(config, invocation);
  if (!expected.ok()) return expected.status();
  if (absl::Status status = ReadPreviousResult(config, *expected); !status.ok()) return status;
  if (absl::Status status = CheckNetns(invocation.netns); !status.ok()) return status;
  absl::StatusOr<AgentClient> agent = AgentClient::Connect(config.agent_address, kConnectTimeout);
  if (!agent.ok()) return agent.status();
  if (absl::Status status = agent->Check(*expected, kCheckTimeout); !status.ok()) return status;
  const Ipam ipam(config, invocation);
  return ipam.is_configured() ? ipam.Run(kIpamTimeout).status() : absl::OkStatus();
}

absl::Status Status(const NetworkConfig& config, const Invocation& invocation) {
  absl::StatusOr<AgentClient> agent = AgentClient::Connect(config.agent_address, kStatusTimeout);
  if (!agent.ok()) return WithCode(agent.status(), kNotAvailable);
  if (absl::Status status = agent->Ping(kStatusTimeout); !status.ok()) return WithCode(status, kNotAvailable);
  const Ipam ipam(config, invocation);
  return ipam.is_configured() ? ipam.RunIfKnown(kIpamTimeout) : absl::OkStatus();
}

absl::Status Gc(const NetworkConfig& config, const Invocation& invocation) {
  const absl::StatusOr<std::vector<AttachmentKey>> valid = ReadValidAttachments(config);
  if (!valid.ok()) return valid.status();
  std::set<std::pair<std::string, std::string>> kept;
  for (const AttachmentKey& key : *valid) kept.emplace(key.container_id, key.ifname);
  absl::StatusOr<AgentClient> agent = AgentClient::Connect(config.agent_address, kConnectTimeout);
  if (!agent.ok()) return agent.status();
  const absl::StatusOr<std::vector<v1::Attachment>> attachments = agent->List(kListTimeout);
  if (!attachments.ok()) return attachments.status();
  const Ipam ipam(config, invocation);
  // One that resists does not keep the others; the first error is told. An address is given back only when no
  // port is left that answers for it, and here, because an IPAM plugin from before 1.1.0 knows no GC.
  absl::Status first;
  for (const v1::Attachment& attachment : *attachments) {
    if (attachment.network() != config.name) continue;
    if (kept.count({attachment.container_id(), attachment.ifname()}) != 0) continue;
    absl::Status status = agent->Delete(attachment.container_id(), attachment.ifname(), kDeleteTimeout);
    if (status.ok() && ipam.is_configured()) {
      status = ipam.Release(attachment.container_id(), attachment.ifname(), kIpamTimeout);
    }
    first.Update(status);
  }
  if (first.ok() && ipam.is_configured()) first = ipam.RunIfKnown(kIpamTimeout);
  return first;
}

}  // namespace ringswitch::cni
