#include "server/agent/agent_service.h"

#include <sys/utsname.h>

#include "server/agent/control_error.h"
#include "server/agent/metrics.h"
#include "server/agent/version.h"

namespace ringswitch::agent {

grpc::Status AgentService::GetAgentInfo(grpc::ServerContext*, const v1::GetAgentInfoRequest*,
                                        v1::GetAgentInfoResponse* response) {
  v1::AgentInfo* info = response->mutable_info();
  info->set_version(kVersion);
  utsname system;
  if (uname(&system) == 0) info->set_kernel_release(system.release);
  info->mutable_start_time()->set_seconds(std::chrono::system_clock::to_time_t(start_time_));
  info->set_rx_mode(dataplane_->rx_mode() == RxMode::kOneshot ? v1::RX_MODE_ONESHOT : v1::RX_MODE_MULTISHOT);
  info->set_metrics_address(metrics_->address());
  uint32_t index = 0;
  for (const WorkerStats& stats : dataplane_->ReadWorkers()) {
    v1::WorkerStatus* worker = info->add_workers();
    worker->set_index(index++);
    worker->set_busy_seconds(stats.busy_seconds);
    worker->set_batches(stats.batches);
    worker->set_frames(stats.frames);
    worker->set_no_buffer_events(stats.no_buffer_events);
    worker->set_buffers(stats.buffers);
    worker->set_buffers_held(stats.buffers_held);
  }
  ModelCounts counts = model_->Counts();
  info->set_switch_count(counts.switches);
  info->set_port_count(counts.ports);
  for (const std::string& problem : model_->Problems()) info->add_problems(Printable(problem));
  std::string metrics_problem = metrics_->problem();
  if (!metrics_problem.empty()) info->add_problems(Printable(metrics_problem));
  info->add_not_enforced("NetworkPolicy for traffic between pods of this node");
  return grpc::Status::OK;
}

}  // namespace ringswitch::agent
