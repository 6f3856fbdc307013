#pragma once

// ringswitch.v1.VlanService: decodes, calls the model, encodes.

#include "ringswitch/v1/vlan.grpc.pb.h"
#include "server/agent/switch_model.h"

namespace ringswitch::agent {

class VlanService final : public v1::VlanService::Service {
 public:
  explicit VlanService(SwitchModel* model) : model_(model) {}

  grpc::Status ListVlans(grpc::ServerContext* context, const v1::ListVlansRequest* request,
                         v1::ListVlansResponse* response) override;
  grpc::Status AddVlans(grpc::ServerContext* context, const v1::AddVlansRequest* request,
                        v1::AddVlansResponse* response) override;
  grpc::Status RemoveVlans(grpc::ServerContext* context, const v1::RemoveVlansRequest* request,
                           v1::RemoveVlansResponse* response) override;

 private:
  SwitchModel* const model_;
};

}  // namespace ringswitch::agent
