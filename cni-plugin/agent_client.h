#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ringswitch/v1/agent.grpc.pb.h"
#include "ringswitch/v1/attachment.grpc.pb.h"

namespace ringswitch::cni {

// A connection to the agent. Every call has its timeout and gives a CNI failure: kTryAgainLater where the
// agent cannot be reached or does not answer in time.
//
// Connecting waits for the agent's first bytes (HTTP/2 SETTINGS), so that to a stopped agent, whose socket
// still takes connections, nothing is ever sent that it would do when it goes on.
class AgentClient {
 public:
  static absl::StatusOr<AgentClient> Connect(const std::string& socket_path, absl::Duration timeout);

  // kAlreadyAttached: the key is attached or the namespace has such an interface; nothing was changed.
  absl::StatusOr<v1::Attachment> Create(const v1::Attachment& attachment, absl::Duration timeout);
  absl::StatusOr<v1::Attachment> Configure(const v1::Attachment& attachment, const v1::IpConfig& ip_config,
                                           absl::Duration timeout);
  // kDiffers: what is there is not `expected`.
  absl::Status Check(const v1::Attachment& expected, absl::Duration timeout);
  absl::Status Delete(absl::string_view container_id, absl::string_view ifname, absl::Duration timeout);
  // All pages of it.
  absl::StatusOr<std::vector<v1::Attachment>> List(absl::Duration timeout);
  // Whether it answers.
  absl::Status Ping(absl::Duration timeout);

 private:
  explicit AgentClient(const std::shared_ptr<grpc::Channel>& channel);

  std::unique_ptr<v1::AttachmentService::Stub> attachments_;
  std::unique_ptr<v1::AgentService::Stub> agent_;
};

}  // namespace ringswitch::cni
