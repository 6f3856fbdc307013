#pragma once

// ringswitch.v1.CaptureService: copies frames from a capture's rings (dataplane/capture.h) to a client.
//
// Theory of operation. Each capture holds one of the server's threads, kCapturesMax of them at most. The
// thread looks into the rings every few milliseconds, sooner while there are frames, and writes what it
// finds. A client that does not read holds up that thread alone: the rings run full and lose what comes then,
// which is counted.
//
// Names. A port is known by the name it had at the start, and an index that is given to another port
// afterwards is not that port (Capture::Forget). Frames recorded in between, when the port went while the
// capture was being set up, are thrown away here.

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dataplane/dataplane.h"
#include "ringswitch/v1/capture.grpc.pb.h"
#include "server/agent/switch_model.h"

namespace ringswitch::agent {

class CaptureService final : public v1::CaptureService::Service {
 public:
  CaptureService(Dataplane* dataplane, const SwitchModel* model) : dataplane_(dataplane), model_(model) {}

  grpc::Status Capture(grpc::ServerContext* context, const v1::CaptureRequest* request,
                       grpc::ServerWriter<v1::CaptureResponse>* writer) override;
  // Ends all captures, also those that come later. Does not wait for them.
  void Stop();

 private:
  using Names = std::map<bridge::PortIndex, std::string>;

  absl::StatusOr<Names> FindPorts(const v1::CaptureRequest& request) const;
  grpc::Status Run(grpc::ServerContext* context, const v1::CaptureRequest& request, Names names,
                   ringswitch::Capture* capture, grpc::ServerWriter<v1::CaptureResponse>* writer);
  // False: the agent ends.
  bool Sleep(std::chrono::milliseconds time);

  Dataplane* const dataplane_;
  const SwitchModel* const model_;
  std::mutex mutex_;  // guards the following
  std::condition_variable stopped_;
  bool is_stopped_ = false;
};

}  // namespace ringswitch::agent
