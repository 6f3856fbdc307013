#pragma once

// ringswitch.v1.AttachmentService: decodes, calls the attachments, encodes, and measures.

#include <functional>

#include "absl/status/status.h"
#include "ringswitch/v1/attachment.grpc.pb.h"
#include "server/agent/attachments.h"
#include "server/agent/cni_requests.h"

namespace ringswitch::agent {

class AttachmentService final : public v1::AttachmentService::Service {
 public:
  AttachmentService(Attachments* attachments, SwitchModel* model, CniRequests* requests)
      : attachments_(attachments), model_(model), requests_(requests) {}

  grpc::Status CreateAttachment(grpc::ServerContext* context, const v1::CreateAttachmentRequest* request,
                                v1::CreateAttachmentResponse* response) override;
  grpc::Status ConfigureAttachment(grpc::ServerContext* context,
                                   const v1::ConfigureAttachmentRequest* request,
                                   v1::ConfigureAttachmentResponse* response) override;
  grpc::Status CheckAttachment(grpc::ServerContext* context, const v1::CheckAttachmentRequest* request,
                               v1::CheckAttachmentResponse* response) override;
  grpc::Status DeleteAttachment(grpc::ServerContext* context, const v1::DeleteAttachmentRequest* request,
                                v1::DeleteAttachmentResponse* response) override;
  grpc::Status ListAttachments(grpc::ServerContext* context, const v1::ListAttachmentsRequest* request,
                               v1::ListAttachmentsResponse* response) override;

 private:
  grpc::Status Measure(CniVerb verb, const std::function<absl::Status()>& call);

  Attachments* const attachments_;
  SwitchModel* const model_;
  CniRequests* const requests_;
};

}  // namespace ringswitch::agent
