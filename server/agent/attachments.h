#pragma once

// Attachments: what the CNI plugin asks for, on top of the switch model. An attachment is a port with a
// container's key and its addresses; it lives in the model and so survives a restart.
//
// Threads. Any. Calls of one key are serialised by the model.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/agent/desired_state.h"
#include "server/agent/links.h"
#include "server/agent/switch_model.h"

namespace ringswitch::agent {

class Attachments {
 public:
  Attachments(SwitchModel* model, Links* links) : model_(model), links_(links) {}

  absl::StatusOr<PortView> Create(const AttachmentRequest& request);
  absl::StatusOr<PortView> Configure(const std::string& container_id, const std::string& ifname,
                                     const IpSettings& ip_config);
  // FAILED_PRECONDITION says in what it differs.
  absl::Status Check(const AttachmentRequest& expected);
  // Succeeds when there is nothing to remove.
  absl::Status Delete(const std::string& container_id, const std::string& ifname);

 private:
  SwitchModel* const model_;
  Links* const links_;
};

}  // namespace ringswitch::agent
