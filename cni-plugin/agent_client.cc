#include "cni-plugin/agent_client.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cni-plugin/failure.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace ringswitch::cni {
namespace {

constexpr uint32_t kPageRows = 1000;

// Why nobody answers on the socket. gRPC tells it only to a call that it fails, so ask the kernel.
std::string WhyUnreachable(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int error =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  close(fd);
  if (error == 0 || error == EAGAIN) return "it takes connections but does not answer";
  return std::strerror(error);
}

// What the error model tells beyond the message, for people.
std::string DescribeDetails(const grpc::Status& status, const google::rpc::Status& details,
                            bool& names_netns) {
  std::vector<std::string> lines;
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::BadRequest bad_request;
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&bad_request)) {
      for (const auto& violation : bad_request.field_violations()) {
        if (!absl::StrContains(status.error_message(), violation.field())) {
          lines.push_back(absl::StrCat(violation.field(), ": ", violation.description()));
        }
        names_netns = names_netns || absl::EndsWith(violation.field(), "netns");
      }
    } else if (detail.UnpackTo(&info)) {
      for (const auto& [key, value] : info.metadata()) lines.push_back(absl::StrCat(key, "=", value));
    }
  }
  return absl::StrJoin(lines, "; ");
}

absl::Status ToFailure(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status details;
  bool names_netns = false;
  std::string text;
  if (details.ParseFromString(status.error_details())) text = DescribeDetails(status, details, names_netns);
  const std::string message = absl::StrCat("ringswitchd: ", status.error_message());
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::CANCELLED:
      return Failure(kTryAgainLater, message, text);
    case grpc::StatusCode::INVALID_ARGUMENT:
      return Failure(names_netns ? kBadNetns : kBadConfig, message, text);
    case grpc::StatusCode::ALREADY_EXISTS:
      return Failure(kAlreadyAttached, message, text);
    case grpc::StatusCode::FAILED_PRECONDITION:
      return Failure(kDiffers, message, text);
    case grpc::StatusCode::NOT_FOUND:
      return Failure(kUnknownContainer, message, text);
    case grpc::StatusCode::PERMISSION_DENIED:
      return Failure(kInputOutput, message, text);
    default:
      return Failure(kInternal, message, text);
  }
}

// One unary call.
template <typename Stub, typename Method, typename Request, typename Response>
absl::Status Call(Stub& stub, Method method, absl::Duration timeout, const Request& request,
                  Response& response) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  return ToFailure((stub.*method)(&context, request, &response));
}

}  // namespace

AgentClient::AgentClient(const std::shared_ptr<grpc::Channel>& channel)
    : attachments_(v1::AttachmentService::NewStub(channel)), agent_(v1::AgentService::NewStub(channel)) {}

absl::StatusOr<AgentClient> AgentClient::Connect(const std::string& socket_path, absl::Duration timeout) {
  // The environment is the runtime's: it may ask gRPC to log.
  gpr_set_log_function([](gpr_log_func_args*) {});
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  const auto channel = grpc::CreateCustomChannel(absl::StrCat("unix:", socket_path),
                                                 grpc::InsecureChannelCredentials(), arguments);
  const auto deadline = absl::ToChronoTime(absl::Now() + timeout);
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE &&
         channel->WaitForStateChange(state, deadline)) {
    state = channel->GetState(/*try_to_connect=*/true);
  }
  if (state == GRPC_CHANNEL_READY) return AgentClient(channel);
  return Failure(kTryAgainLater, absl::StrCat("ringswitchd is not reachable at ", socket_path, ": ",
                                              WhyUnreachable(socket_path)));
}

absl::StatusOr<v1::Attachment> AgentClient::Create(const v1::Attachment& attachment, absl::Duration timeout) {
  v1::CreateAttachmentRequest request;
  v1::CreateAttachmentResponse response;
  *request.mutable_attachment() = attachment;
  const absl::Status status =
      Call(*attachments_, &v1::AttachmentService::Stub::CreateAttachment, timeout, request, response);
  if (!status.ok()) return status;
  return response.attachment();
}

absl::StatusOr<v1::Attachment> AgentClient::Configure(const v1::Attachment& attachment,
                                                      const v1::IpConfig& ip_config, absl::Duration timeout) {
  v1::ConfigureAttachmentRequest request;
  v1::ConfigureAttachmentResponse response;
  request.set_container_id(attachment.container_id());
  request.set_ifname(attachment.ifname());
  *request.mutable_ip_config() = ip_config;
  const absl::Status status =
      Call(*attachments_, &v1::AttachmentService::Stub::ConfigureAttachment, timeout, request, response);
  if (!status.ok()) return status;
  return response.attachment();
}

absl::Status AgentClient::Check(const v1::Attachment& expected, absl::Duration timeout) {
  v1::CheckAttachmentRequest request;
  v1::CheckAttachmentResponse response;
  *request.mutable_expected() = expected;
  return Call(*attachments_, &v1::AttachmentService::Stub::CheckAttachment, timeout, request, response);
}

absl::Status AgentClient::Delete(absl::string_view container_id, absl::string_view ifname,
                                 absl::Duration timeout) {
  v1::DeleteAttachmentRequest request;
  v1::DeleteAttachmentResponse response;
  request.set_container_id(std::string(container_id));
  request.set_ifname(std::string(ifname));
  return Call(*attachments_, &v1::AttachmentService::Stub::DeleteAttachment, timeout, request, response);
}

absl::StatusOr<std::vector<v1::Attachment>> AgentClient::List(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  std::vector<v1::Attachment> attachments;
  v1::ListAttachmentsRequest request;
  request.set_page_size(kPageRows);
  do {
    v1::ListAttachmentsResponse response;
    const absl::Status status = Call(*attachments_, &v1::AttachmentService::Stub::ListAttachments,
                                     deadline - absl::Now(), request, response);
    if (!status.ok()) return status;
    for (v1::Attachment& attachment : *response.mutable_attachments()) {
      attachments.push_back(std::move(attachment));
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return attachments;
}

absl::Status AgentClient::Ping(absl::Duration timeout) {
  v1::GetAgentInfoResponse response;
  return Call(*agent_, &v1::AgentService::Stub::GetAgentInfo, timeout, v1::GetAgentInfoRequest(), response);
}

}  // namespace ringswitch::cni
