#include "server/agent/port_service.h"

#include "absl/strings/str_cat.h"
#include "server/agent/grpc_status.h"
#include "server/agent/page_token.h"
#include "server/agent/proto_codec.h"

namespace ringswitch::agent {

grpc::Status PortService::CreatePort(grpc::ServerContext*, const v1::CreatePortRequest* request,
                                     v1::CreatePortResponse* response) {
  absl::StatusOr<PortView> view = model_->CreatePort(Decode(*request), request->validate_only());
  if (view.ok()) Encode(*view, response->mutable_port());
  return ToGrpc(view.status());
}

grpc::Status PortService::GetPort(grpc::ServerContext*, const v1::GetPortRequest* request,
                                  v1::GetPortResponse* response) {
  absl::StatusOr<PortView> view = model_->GetPort(request->name());
  if (view.ok()) Encode(*view, response->mutable_port());
  return ToGrpc(view.status());
}

grpc::Status PortService::ListPorts(grpc::ServerContext*, const v1::ListPortsRequest* request,
                                    v1::ListPortsResponse* response) {
  std::string listing = absl::StrCat("ports\n", request->switch_name(), "\n", request->pod());
  absl::StatusOr<std::string> after = ParsePageToken(listing, request->page_token());
  if (!after.ok()) return ToGrpc(after.status());
  if (!request->switch_name().empty()) {
    const absl::Status status = model_->GetSwitch(request->switch_name()).status();
    if (!status.ok()) return ToGrpc(status);
  }
  PortFilter filter;
  filter.switch_name = request->switch_name();
  filter.pod = request->pod();
  filter.after = *after;
  filter.rows_max = PageSize(request->page_size(), kPageRowsMax);
  Page<PortView> page = model_->ListPorts(filter);
  for (const PortView& view : page.rows) Encode(view, response->add_ports());
  if (page.has_more) response->set_next_page_token(MakePageToken(listing, page.rows.back().spec.name));
  return grpc::Status::OK;
}

grpc::Status PortService::UpdatePort(grpc::ServerContext*, const v1::UpdatePortRequest* request,
                                     v1::UpdatePortResponse* response) {
  PortUpdate update;
  absl::Status status = Decode(*request, &update);
  if (!status.ok()) return ToGrpc(status);
  absl::StatusOr<PortView> view = model_->UpdatePort(update, request->validate_only());
  if (view.ok()) Encode(*view, response->mutable_port());
  return ToGrpc(view.status());
}

grpc::Status PortService::DeletePort(grpc::ServerContext*, const v1::DeletePortRequest* request,
                                     v1::DeletePortResponse*) {
  return ToGrpc(model_->DeletePort(request->name(), request->validate_only()));
}

grpc::Status PortService::ConfirmPort(grpc::ServerContext*, const v1::ConfirmPortRequest* request,
                                      v1::ConfirmPortResponse* response) {
  absl::StatusOr<PortView> view = model_->ConfirmPort(request->name());
  if (view.ok()) Encode(*view, response->mutable_port());
  return ToGrpc(view.status());
}

}  // namespace ringswitch::agent
