#pragma once

// ringswitch.v1.SwitchService: decodes, calls the model, encodes.

#include "ringswitch/v1/switch.grpc.pb.h"
#include "server/agent/switch_model.h"

namespace ringswitch::agent {

class SwitchService final : public v1::SwitchService::Service {
 public:
  explicit SwitchService(SwitchModel* model) : model_(model) {}

  grpc::Status CreateSwitch(grpc::ServerContext* context, const v1::CreateSwitchRequest* request,
                            v1::CreateSwitchResponse* response) override;
  grpc::Status GetSwitch(grpc::ServerContext* context, const v1::GetSwitchRequest* request,
                         v1::GetSwitchResponse* response) override;
  grpc::Status ListSwitches(grpc::ServerContext* context, const v1::ListSwitchesRequest* request,
                            v1::ListSwitchesResponse* response) override;
  grpc::Status UpdateSwitch(grpc::ServerContext* context, const v1::UpdateSwitchRequest* request,
                            v1::UpdateSwitchResponse* response) override;
  grpc::Status DeleteSwitch(grpc::ServerContext* context, const v1::DeleteSwitchRequest* request,
                            v1::DeleteSwitchResponse* response) override;

 private:
  SwitchModel* const model_;
};

}  // namespace ringswitch::agent
