#include "server/agent/vlan_service.h"

#include "server/agent/grpc_status.h"
#include "server/agent/proto_codec.h"

namespace ringswitch::agent {

grpc::Status VlanService::ListVlans(grpc::ServerContext*, const v1::ListVlansRequest* request,
                                    v1::ListVlansResponse* response) {
  absl::StatusOr<std::vector<VlanView>> vlans =
      model_->ListVlans(request->switch_name(), Decode(request->ranges()));
  if (!vlans.ok()) return ToGrpc(vlans.status());
  for (const VlanView& vlan : *vlans) Encode(vlan, request->switch_name(), response->add_vlans());
  return grpc::Status::OK;
}

grpc::Status VlanService::AddVlans(grpc::ServerContext*, const v1::AddVlansRequest* request,
                                   v1::AddVlansResponse* response) {
  absl::StatusOr<PortView> view = model_->ChangeVlans(request->port_name(), Decode(request->ranges()), true);
  if (view.ok()) Encode(*view, response->mutable_port());
  return ToGrpc(view.status());
}

grpc::Status VlanService::RemoveVlans(grpc::ServerContext*, const v1::RemoveVlansRequest* request,
                                      v1::RemoveVlansResponse* response) {
  absl::StatusOr<PortView> view = model_->ChangeVlans(request->port_name(), Decode(request->ranges()), false);
  if (view.ok()) Encode(*view, response->mutable_port());
  return ToGrpc(view.status());
}

}  // namespace ringswitch::agent
