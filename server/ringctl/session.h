// One run of ringctl: where the agent is, how results are shown, and what the exit code will be.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "server/ringctl/failure.h"

namespace ringswitch::ringctl {

struct GlobalFlags {
  std::string address;  // Filled in by the constructor of Session, then by the flag.
  std::string output = "table";
  int timeout_s = 10;
};

// Used by one thread.
class Session {
 public:
  // Takes the address from RINGSWITCH_ADDRESS, else the agent's usual socket.
  Session();

  GlobalFlags& flags() { return flags_; }
  int exit_code() const { return exit_code_; }
  bool wants_json() const { return flags_.output == "json"; }

  // Makes one call. False where it failed: the reason is on stderr then and the exit code is set.
  template <typename Stub, typename Request, typename Response>
  bool Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
            const Request& request, Response* response) {
    if (!OpenChannel()) {
      return false;
    }
    Stub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(flags_.timeout_s));
    const grpc::Status status = (stub.*method)(&context, request, response);
    return status.ok() || Fail(DescribeFailure(status, TargetAddress(), flags_.timeout_s));
  }

  // As Call, for every page; the rows of all pages are in `merged` afterwards. The token is empty then.
  template <typename Stub, typename Request, typename Response>
  bool CallPaged(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                 Request request, Response* merged) {
    do {
      Response page;
      if (!Call(method, request, &page)) {
        return false;
      }
      request.set_page_token(page.next_page_token());
      merged->MergeFrom(page);
      merged->clear_next_page_token();
    } while (!request.page_token().empty());
    return true;
  }

  // For calls that stream: the channel; null where the address is none, which has been told then.
  std::shared_ptr<grpc::Channel> channel() { return OpenChannel() ? channel_ : nullptr; }
  // Says why such a call failed, as Call does. Always false.
  bool FailCall(const grpc::Status& status, const FieldNames& names = FlagOfField) {
    return Fail(DescribeFailure(status, TargetAddress(), flags_.timeout_s, names));
  }

  // Says on stderr why the run failed and sets the exit code. Always false.
  bool Fail(const Failure& failure);
  bool Fail(absl::string_view line);

  // Shows a result: `message` where JSON is wanted, else `text` as it is.
  void Show(const google::protobuf::Message& message, absl::string_view text);
  // Shows what was done: `message` where JSON is wanted, else the sentence as one line. What names hold is
  // made harmless.
  void Tell(const google::protobuf::Message& message, absl::string_view sentence);

 private:
  // False where the address is none; that has been told then.
  bool OpenChannel();
  // The address in the form that gRPC takes: a plain path is a Unix socket.
  std::string TargetAddress() const;

  GlobalFlags flags_;
  std::shared_ptr<grpc::Channel> channel_;
  int exit_code_ = kExitOk;
};

}  // namespace ringswitch::ringctl
