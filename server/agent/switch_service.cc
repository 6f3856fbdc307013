#include "server/agent/switch_service.h"

#include "server/agent/grpc_status.h"
#include "server/agent/page_token.h"
#include "server/agent/proto_codec.h"

namespace ringswitch::agent {

grpc::Status SwitchService::CreateSwitch(grpc::ServerContext*, const v1::CreateSwitchRequest* request,
                                         v1::CreateSwitchResponse* response) {
  absl::StatusOr<SwitchView> view =
      model_->CreateSwitch(Decode(request->switch_()), request->validate_only());
  if (view.ok()) Encode(*view, response->mutable_switch_());
  return ToGrpc(view.status());
}

grpc::Status SwitchService::GetSwitch(grpc::ServerContext*, const v1::GetSwitchRequest* request,
                                      v1::GetSwitchResponse* response) {
  absl::StatusOr<SwitchView> view = model_->GetSwitch(request->name());
  if (view.ok()) Encode(*view, response->mutable_switch_());
  return ToGrpc(view.status());
}

grpc::Status SwitchService::ListSwitches(grpc::ServerContext*, const v1::ListSwitchesRequest* request,
                                         v1::ListSwitchesResponse* response) {
  absl::StatusOr<std::string> after = ParsePageToken("switches", request->page_token());
  if (!after.ok()) return ToGrpc(after.status());
  Page<SwitchView> page = model_->ListSwitches(*after, PageSize(request->page_size(), kPageRowsMax));
  for (const SwitchView& view : page.rows) Encode(view, response->add_switches());
  if (page.has_more) response->set_next_page_token(MakePageToken("switches", page.rows.back().spec.name));
  return grpc::Status::OK;
}

grpc::Status SwitchService::UpdateSwitch(grpc::ServerContext*, const v1::UpdateSwitchRequest* request,
                                         v1::UpdateSwitchResponse* response) {
  SwitchUpdate update;
  absl::Status status = Decode(*request, &update);
  if (!status.ok()) return ToGrpc(status);
  absl::StatusOr<SwitchView> view = model_->UpdateSwitch(update, request->validate_only());
  if (view.ok()) Encode(*view, response->mutable_switch_());
  return ToGrpc(view.status());
}

grpc::Status SwitchService::DeleteSwitch(grpc::ServerContext*, const v1::DeleteSwitchRequest* request,
                                         v1::DeleteSwitchResponse*) {
  return ToGrpc(model_->DeleteSwitch(request->name(), request->validate_only()));
}

}  // namespace ringswitch::agent
