#pragma once

// ringswitch.v1.PortService: decodes, calls the model, encodes.

#include "ringswitch/v1/port.grpc.pb.h"
#include "server/agent/switch_model.h"

namespace ringswitch::agent {

class PortService final : public v1::PortService::Service {
 public:
  explicit PortService(SwitchModel* model) : model_(model) {}

  grpc::Status CreatePort(grpc::ServerContext* context, const v1::CreatePortRequest* request,
                          v1::CreatePortResponse* response) override;
  grpc::Status GetPort(grpc::ServerContext* context, const v1::GetPortRequest* request,
                       v1::GetPortResponse* response) override;
  grpc::Status ListPorts(grpc::ServerContext* context, const v1::ListPortsRequest* request,
                         v1::ListPortsResponse* response) override;
  grpc::Status UpdatePort(grpc::ServerContext* context, const v1::UpdatePortRequest* request,
                          v1::UpdatePortResponse* response) override;
  grpc::Status DeletePort(grpc::ServerContext* context, const v1::DeletePortRequest* request,
                          v1::DeletePortResponse* response) override;
  grpc::Status ConfirmPort(grpc::ServerContext* context, const v1::ConfirmPortRequest* request,
                           v1::ConfirmPortResponse* response) override;

 private:
  SwitchModel* const model_;
};

}  // namespace ringswitch::agent
