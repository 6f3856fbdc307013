#pragma once

// ringswitch.v1.AgentService: what the agent says of itself.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "dataplane/dataplane.h"
#include "ringswitch/v1/agent.grpc.pb.h"
#include "server/agent/switch_model.h"

namespace ringswitch::agent {

class Metrics;

class AgentService final : public v1::AgentService::Service {
 public:
  AgentService(const Dataplane* dataplane, const SwitchModel* model, const Metrics* metrics)
      : dataplane_(dataplane),
        model_(model),
        metrics_(metrics),
        start_time_(std::chrono::system_clock::now()) {}

  grpc::Status GetAgentInfo(grpc::ServerContext* context, const v1::GetAgentInfoRequest* request,
                            v1::GetAgentInfoResponse* response) override;

 private:
  const Dataplane* const dataplane_;
  const SwitchModel* const model_;
  const Metrics* const metrics_;
  const std::chrono::system_clock::time_point start_time_;
};

}  // namespace ringswitch::agent
