#pragma once

// Between the messages of the contract and the agent's plain values. Decodes without judging; verification
// does that.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ringswitch/v1/attachment.pb.h"
#include "ringswitch/v1/fdb.pb.h"
#include "ringswitch/v1/port.pb.h"
#include "ringswitch/v1/switch.pb.h"
#include "ringswitch/v1/vlan.pb.h"
#include "server/agent/desired_state.h"
#include "server/agent/switch_model.h"

namespace ringswitch::agent {

SwitchRequest Decode(const v1::Switch& message);
PortRequest Decode(const v1::Port& message);
PortRequest Decode(const v1::CreatePortRequest& message);
AttachmentRequest Decode(const v1::Attachment& message);
IpSettings Decode(const v1::IpConfig& message);
FdbEntryRequest Decode(const v1::FdbEntry& message);
std::vector<VlanRange> Decode(const google::protobuf::RepeatedPtrField<v1::VlanRange>& ranges);
// None: any. INVALID_ARGUMENT: no such kind.
absl::Status Decode(v1::FdbEntryKind kind, std::optional<bridge::FdbKind>* decoded);

// Applies the mask: INVALID_ARGUMENT names paths that are unknown or cannot change.
absl::Status Decode(const v1::UpdateSwitchRequest& request, SwitchUpdate* update);
absl::Status Decode(const v1::UpdatePortRequest& request, PortUpdate* update);

void Encode(const SwitchView& view, v1::Switch* message);
void Encode(const PortView& view, v1::Port* message);
void EncodeAttachment(const PortView& view, v1::Attachment* message);
void Encode(const FdbEntryView& view, v1::FdbEntry* message);
void Encode(const VlanView& view, const std::string& switch_name, v1::Vlan* message);

}  // namespace ringswitch::agent
