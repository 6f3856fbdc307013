#include "server/agent/attachment_service.h"

#include <chrono>

#include "server/agent/grpc_status.h"
#include "server/agent/page_token.h"
#include "server/agent/proto_codec.h"

namespace ringswitch::agent {

grpc::Status AttachmentService::Measure(CniVerb verb, const std::function<absl::Status()>& call) {
  auto start = std::chrono::steady_clock::now();
  absl::Status status = call();
  std::chrono::duration<double> duration = std::chrono::steady_clock::now() - start;
  requests_->Count(verb, CodeName(status), duration.count());
  return ToGrpc(status);
}

grpc::Status AttachmentService::CreateAttachment(grpc::ServerContext*,
                                                 const v1::CreateAttachmentRequest* request,
                                                 v1::CreateAttachmentResponse* response) {
  return Measure(CniVerb::kCreate, [&] {
    absl::StatusOr<PortView> view = attachments_->Create(Decode(request->attachment()));
    if (view.ok()) EncodeAttachment(*view, response->mutable_attachment());
    return view.status();
  });
}

grpc::Status AttachmentService::ConfigureAttachment(grpc::ServerContext*,
                                                    const v1::ConfigureAttachmentRequest* request,
                                                    v1::ConfigureAttachmentResponse* response) {
  return Measure(CniVerb::kConfigure, [&] {
    absl::StatusOr<PortView> view =
        attachments_->Configure(request->container_id(), request->ifname(), Decode(request->ip_config()));
    if (view.ok()) EncodeAttachment(*view, response->mutable_attachment());
    return view.status();
  });
}

grpc::Status AttachmentService::CheckAttachment(grpc::ServerContext*,
                                                const v1::CheckAttachmentRequest* request,
                                                v1::CheckAttachmentResponse*) {
  return Measure(CniVerb::kCheck, [&] { return attachments_->Check(Decode(request->expected())); });
}

grpc::Status AttachmentService::DeleteAttachment(grpc::ServerContext*,
                                                 const v1::DeleteAttachmentRequest* request,
                                                 v1::DeleteAttachmentResponse*) {
  return Measure(CniVerb::kDelete,
                 [&] { return attachments_->Delete(request->container_id(), request->ifname()); });
}

grpc::Status AttachmentService::ListAttachments(grpc::ServerContext*,
                                                const v1::ListAttachmentsRequest* request,
                                                v1::ListAttachmentsResponse* response) {
  absl::StatusOr<std::string> after = ParsePageToken("attachments", request->page_token());
  if (!after.ok()) return ToGrpc(after.status());
  PortFilter filter;
  filter.attachments_only = true;
  filter.after = *after;
  filter.rows_max = PageSize(request->page_size(), kPageRowsMax);
  Page<PortView> page = model_->ListPorts(filter);
  for (const PortView& view : page.rows) EncodeAttachment(view, response->add_attachments());
  if (page.has_more) response->set_next_page_token(MakePageToken("attachments", page.rows.back().spec.name));
  return grpc::Status::OK;
}

}  // namespace ringswitch::agent
