// ringswitchd, the node agent: the composition root. Everything is made here, in order, and handed down;
// nothing is global.
//
// Life. Options; claims on socket and state directory; dataplane; links; model, with what an earlier agent
// left; DELs that found no agent; metrics; gRPC server; only then the socket gets its name. SIGTERM and
// SIGINT end it in the reverse order within two seconds: calls in flight have half a second and are cancelled
// then, and what holds it up still is left to the kernel, as after a crash: devices stay in their pods and
// state is on disk at any moment.
//
// Exit codes: 0 asked to end, 1 something of the system is missing or in use, 2 bad configuration. Each with
// one line.

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <malloc.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "dataplane/dataplane.h"
#include "server/agent/agent_service.h"
#include "server/agent/attachment_service.h"
#include "server/agent/attachments.h"
#include "server/agent/capture_service.h"
#include "server/agent/cni_requests.h"
#include "server/agent/control_socket.h"
#include "server/agent/delete_spool.h"
#include "server/agent/fdb_service.h"
#include "server/agent/links.h"
#include "server/agent/metric_families.h"
#include "server/agent/metrics.h"
#include "server/agent/options.h"
#include "server/agent/port_service.h"
#include "server/agent/proto_codec.h"
#include "server/agent/state_store.h"
#include "server/agent/switch_model.h"
#include "server/agent/switch_service.h"
#include "server/agent/version.h"
#include "server/agent/vlan_service.h"
#include "server/agent/watch_hub.h"
#include "server/agent/watch_service.h"

namespace ringswitch::agent {
namespace {

constexpr int kExitSystem = 1;
constexpr int kExitConfiguration = 2;
constexpr std::chrono::milliseconds kShutdownGrace{500};
constexpr std::chrono::milliseconds kExitDeadline{1600};
// A call that waits for a namespace holds a thread: more than the pods that a node starts at once.
constexpr int kServerThreadsMax = 256;
constexpr int kServerPollersMax = 4;
// Who watches may ask whether the agent is still there; gRPC itself cuts off who asks twice in five minutes.
constexpr int kPingIntervalMinMs = 1000;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "ringswitchd: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? kExitConfiguration : kExitSystem;
}

// SIGTERM and SIGINT wait for the main thread, in all threads made later too; a repeated one changes nothing.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// One heap for all threads. Each that ever allocated beside another would have one of its own, which grows by
// itself and is never given back; workers do not allocate, and the others can wait for each other.
void ShareHeap() {
  mallopt(M_ARENA_MAX, 1);
}

void PrepareProcess(const Options& options) {
  umask(0077);
  // A port is a file or two, a container runtime's default soft limit a thousand.
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("ringswitchd"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  spdlog::set_level(spdlog::level::from_str(options.log_level));
}

// Objects of the configuration file; those that exist are the API's business.
void ApplyConfig(const v1::AgentConfig& config, SwitchModel* model) {
  for (const v1::Switch& message : config.switches()) {
    if (model->GetSwitch(message.name()).ok()) continue;
    absl::Status status = model->CreateSwitch(Decode(message), false).status();
    if (!status.ok())
      spdlog::error("switch {} of the configuration file: {}", message.name(), std::string(status.message()));
  }
  for (const v1::Port& message : config.ports()) {
    if (model->GetPort(message.name()).ok()) continue;
    model->WantPort(Decode(message));
  }
}

// Ends the process where the orderly end takes too long.
class ExitDeadline {
 public:
  explicit ExitDeadline(ControlSocket* socket) {
    thread_ = std::thread([this, socket] {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, kExitDeadline, [this] { return is_met_; })) return;
      spdlog::warn("ending at once: something did not end in time");
      socket->Withdraw();
      _exit(0);
    });
  }
  ~ExitDeadline() {
    {
      std::lock_guard lock(mutex_);
      is_met_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  ExitDeadline(const ExitDeadline&) = delete;
  ExitDeadline& operator=(const ExitDeadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_met_ = false;
  std::thread thread_;
};

// The gRPC server and its services.
class Server {
 public:
  Server(Dataplane* dataplane, SwitchModel* model, Attachments* attachments, const Metrics* metrics,
         CniRequests* requests, WatchHub* watch_hub)
      : switch_service_(model),
        port_service_(model),
        vlan_service_(model),
        fdb_service_(model),
        attachment_service_(attachments, model, requests),
        capture_service_(dataplane, model),
        watch_hub_(watch_hub),
        watch_service_(watch_hub),
        agent_service_(dataplane, model, metrics) {}

  bool Start(const std::string& address) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(&switch_service_);
    builder.RegisterService(&port_service_);
    builder.RegisterService(&vlan_service_);
    builder.RegisterService(&fdb_service_);
    builder.RegisterService(&attachment_service_);
    builder.RegisterService(&capture_service_);
    builder.RegisterService(&watch_service_);
    builder.RegisterService(&agent_service_);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, kServerPollersMax);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingIntervalMinMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    grpc::ResourceQuota quota("ringswitchd");
    quota.SetMaxThreads(kServerThreadsMax);
    builder.SetResourceQuota(quota);
    server_ = builder.BuildAndStart();
    return server_ != nullptr;
  }

  grpc::HealthCheckServiceInterface* health() { return server_->GetHealthCheckService(); }

  void Stop() {
    health()->Shutdown();
    capture_service_.Stop();
    watch_hub_->EndAll();
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    server_->Wait();
  }

 private:
  SwitchService switch_service_;
  PortService port_service_;
  VlanService vlan_service_;
  FdbService fdb_service_;
  AttachmentService attachment_service_;
  CaptureService capture_service_;
  WatchHub* const watch_hub_;
  WatchService watch_service_;
  AgentService agent_service_;
  std::unique_ptr<grpc::Server> server_;
};

int Serve(const Options& options, ControlSocket* socket, StateStore* store, const sigset_t& signals) {
  std::optional<ExitDeadline> deadline;  // outlives all else
  absl::StatusOr<std::unique_ptr<Dataplane>> dataplane = Dataplane::Start(options.dataplane);
  if (!dataplane.ok()) return Fail(dataplane.status());
  std::atomic<SwitchModel*> events_to = nullptr;
  absl::StatusOr<std::unique_ptr<Links>> links = MakeLinks([&events_to](const LinkEvent& event) {
    SwitchModel* model = events_to.load();
    if (model != nullptr) model->OnLinkEvent(event);
  });
  if (!links.ok()) return Fail(links.status());
  SwitchModel model(dataplane->get(), links->get(), store);
  events_to = &model;
  model.Restore();
  ApplyConfig(options.config, &model);

  Attachments attachments(&model, links->get());
  DeleteSpool spool(options.spool_dir,
                    [&attachments](const std::string& container_id, const std::string& ifname) {
                      return attachments.Delete(container_id, ifname);
                    });
  spool.Replay();

  CniRequests requests;
  auto families = std::make_shared<MetricFamilies>(dataplane->get(), &model, &requests);
  Metrics metrics(options.metrics_address, families);
  WatchHub watch_hub(&model);
  Server server(dataplane->get(), &model, &attachments, &metrics, &requests, &watch_hub);
  absl::Status status = absl::UnavailableError("the control socket cannot be listened on");
  if (server.Start(socket->ListenAddress())) {
    metrics.Start([&server](bool is_serving) { server.health()->SetServingStatus("metrics", is_serving); });
    status = socket->Publish();
    if (status.ok()) {
      spool.Start();
      spdlog::info("ringswitchd {} is ready: socket {}, state {}, {} workers, {} reads", kVersion,
                   options.socket, options.state_dir, options.dataplane.workers,
                   (*dataplane)->rx_mode() == RxMode::kOneshot ? "single" : "multishot");
      int received = 0;
      sigwait(&signals, &received);
      spdlog::info("ending on {}", received == SIGTERM ? "SIGTERM" : "SIGINT");
    }
    deadline.emplace(socket);
    spool.Stop();
    metrics.Stop();  // its thread calls the server
    server.Stop();
  }
  model.Stop();
  links->reset();  // its thread calls the model
  return status.ok() ? 0 : Fail(status);
}

int Main(int argc, char** argv) {
  ShareHeap();
  sigset_t signals = BlockSignals();
  std::optional<int> exit_code;
  absl::StatusOr<Options> options = ParseOptions(argc, argv, &exit_code);
  if (exit_code.has_value()) return *exit_code;
  if (!options.ok()) return Fail(options.status());
  if (options->check_config_only) {
    std::printf("configuration is good\n");
    return 0;
  }
  PrepareProcess(*options);
  absl::StatusOr<ControlSocket> socket = ControlSocket::Claim(options->socket);
  if (!socket.ok()) return Fail(socket.status());
  absl::StatusOr<std::unique_ptr<StateStore>> store = StateStore::Open(options->state_dir, ReadBootId());
  if (!store.ok()) return Fail(store.status());
  absl::StatusOr<File> state_lock =
      LockFile(options->state_dir + "/lock", "state directory " + options->state_dir);
  if (!state_lock.ok()) return Fail(state_lock.status());
  int code = Serve(*options, &*socket, store->get(), signals);
  if (code == 0) spdlog::info("ended");
  return code;
}

}  // namespace
}  // namespace ringswitch::agent

int main(int argc, char** argv) {
  return ringswitch::agent::Main(argc, argv);
}
