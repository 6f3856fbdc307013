#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cni-plugin/invocation.h"
#include "cni-plugin/json.h"
#include "ringswitch/v1/attachment.pb.h"

namespace ringswitch::cni {

// In rising order.
inline constexpr const char* kSupportedVersions[] = {"0.3.1", "0.4.0", "1.0.0", "1.1.0"};
bool IsSupportedVersion(absl::string_view version);
// Both must be supported.
bool IsVersionBefore(absl::string_view version, absl::string_view other);

// The part of a network configuration that every verb needs. A DEL must succeed whatever else the
// configuration holds, so nothing else is looked at here.
struct NetworkConfig {
  std::string text;  // As received: IPAM plugins get the same bytes.
  Json document;
  std::string cni_version;
  std::string name;
  std::string ipam_type;        // Empty: no IPAM.
  std::string agent_address;    // Path of the agent's socket.
  std::string spool_directory;  // Where DELs wait for an agent.
};

absl::StatusOr<NetworkConfig> ReadNetworkConfig(std::string text);

// The same as a document of another cniVersion.
std::string TextWithVersion(const NetworkConfig& config, absl::string_view version);

// What ADD and CHECK ask the agent for: everything but addresses. kUnsupportedField for keys of the reference
// plugins that would mean something and are not implemented.
absl::StatusOr<v1::Attachment> ReadAttachment(const NetworkConfig& config, const Invocation& invocation);

// The attachments that GC keeps. Where the list is missing that is an error: absent is not empty.
struct AttachmentKey {
  std::string container_id;
  std::string ifname;
};
absl::StatusOr<std::vector<AttachmentKey>> ReadValidAttachments(const NetworkConfig& config);

}  // namespace ringswitch::cni
