#include "dataplane/dataplane.h"

#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "dataplane/io/tap.h"
#include "dataplane/worker.h"

namespace ringswitch {
namespace {

using bridge::Fdb;
using bridge::ForwardingConfig;
using bridge::PortConfig;
using bridge::PortIndex;
using bridge::PortTotals;
using bridge::SwitchConfig;
using bridge::SwitchEntry;
using bridge::SwitchIndex;

static_assert(bridge::kPortsMax <= io::kFilesMax);

uint32_t NowS() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint32_t>(now.tv_sec);
}

uint64_t RandomSeed() {
  uint64_t seed = 0;
  [[maybe_unused]] ssize_t r = ::getrandom(&seed, sizeof seed, 0);
  return seed;
}

// The registered file table is bounded by the soft limit, which is 1024 in many places while the hard one is
// far above.
void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 16 * io::kFilesMax);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status CheckOptions(const DataplaneOptions& options) {
  if (options.workers < 1 || options.workers > bridge::kWorkersMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("workers is ", options.workers, ", must be 1 to ", bridge::kWorkersMax));
  }
  if (options.buffers_per_worker < kBuffersPerWorkerMin ||
      options.buffers_per_worker > kBuffersPerWorkerMax) {
    return absl::InvalidArgumentError(absl::StrCat("buffers_per_worker is ", options.buffers_per_worker,
                                                   ", must be ", kBuffersPerWorkerMin, " to ",
                                                   kBuffersPerWorkerMax));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<File> OpenTap(const std::string& ifname, bool create) {
  return io::OpenTap(ifname, create);
}
absl::Status SetTapPersistent(const File& tap, bool is_persistent) {
  return io::SetTapPersistent(tap, is_persistent);
}

// The control side's own view. Everything here is touched under `mutex` only; what workers see of it they see
// through `shared.config`.
struct Dataplane::State {
  struct Port {
    std::unique_ptr<const PortConfig> config;  // null: no such port
    File file;
    uint32_t owner = 0;  // worker that reads it
  };
  struct Switch {
    std::unique_ptr<const SwitchEntry> entry;  // null: no such switch
    std::unique_ptr<Fdb> fdb;
    PortTotals retired;  // of ports that are gone
  };

  std::mutex mutex;
  WorkerShared shared;
  std::array<Port, bridge::kPortsMax> ports;
  std::array<Switch, bridge::kSwitchesMax> switches;
  std::unique_ptr<const ForwardingConfig> config;
  std::vector<std::unique_ptr<Worker>> workers;  // last: they use all of the above until they are joined

  void Publish();
  void RebuildSwitch(SwitchIndex index, const SwitchConfig& config,
                     std::unique_ptr<const SwitchEntry>* replaced);
  void OrderAll(WorkerOrder order);
  uint32_t LeastLoadedWorker() const;
  PortTotals Totals(PortIndex index) const;
  void FlushPort(const Port& port, const bridge::FdbFilter& filter) {
    switches[port.config->switch_index].fdb->Flush(filter);
  }
};

// Makes the pieces as they are now the configuration, and returns when no worker can still see another. What
// was replaced may be freed then.
void Dataplane::State::Publish() {
  auto next = std::make_unique<ForwardingConfig>();
  for (size_t i = 0; i < ports.size(); ++i) next->ports[i] = ports[i].config.get();
  for (size_t i = 0; i < switches.size(); ++i) next->switches[i] = switches[i].entry.get();
  shared.config.store(next.get());
  const uint64_t epoch = shared.epochs.Advance();
  // A batch lasts well under a millisecond; sleeping workers are outside at once.
  for (int i = 0; !shared.epochs.Passed(epoch); ++i) {
    if (i < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  config = std::move(next);
}

// The switch's entry with the ports it has now. `replaced` is to be kept until Publish has returned.
void Dataplane::State::RebuildSwitch(SwitchIndex index, const SwitchConfig& switch_config,
                                     std::unique_ptr<const SwitchEntry>* replaced) {
  auto entry = std::make_unique<SwitchEntry>();
  entry->config = switch_config;
  entry->fdb = switches[index].fdb.get();
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].config && ports[i].config->switch_index == index)
      entry->ports.push_back(static_cast<PortIndex>(i));
  }
  *replaced = std::exchange(switches[index].entry, std::move(entry));
}

// To every worker at once, then waits for all.
void Dataplane::State::OrderAll(WorkerOrder order) {
  for (auto& worker : workers) worker->Post(order);
  for (auto& worker : workers) worker->Await().IgnoreError();
}

uint32_t Dataplane::State::LeastLoadedWorker() const {
  std::vector<uint32_t> loads(workers.size(), 0);
  for (const Port& port : ports) {
    if (port.config) ++loads[port.owner];
  }
  return static_cast<uint32_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
}

PortTotals Dataplane::State::Totals(PortIndex index) const {
  PortTotals totals;
  for (const auto& worker : workers) totals.Add(worker->counters()[index]);
  return totals;
}

// --- start and end ---

Dataplane::Dataplane() : state_(std::make_unique<State>()) {}

Dataplane::~Dataplane() {
  // Workers first: they must not see a file closed.
  state_->workers.clear();
}

absl::StatusOr<std::unique_ptr<Dataplane>> Dataplane::Start(const DataplaneOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  RaiseFileLimit();
  std::unique_ptr<Dataplane> dataplane(new Dataplane);
  State& state = *dataplane->state_;
  state.Publish();
  for (uint32_t i = 0; i < options.workers; ++i) {
    absl::StatusOr<std::unique_ptr<Worker>> worker =
        Worker::Start({i, options.buffers_per_worker, options.rx_mode}, &state.shared);
    if (!worker.ok()) return worker.status();
    state.workers.push_back(*std::move(worker));
  }
  return dataplane;
}

RxMode Dataplane::rx_mode() const {
  return state_->workers.front()->multishot() ? RxMode::kMultishot : RxMode::kOneshot;
}

// --- switches ---

absl::StatusOr<SwitchIndex> Dataplane::AddSwitch(const SwitchConfig& config, uint32_t fdb_capacity) {
  std::lock_guard lock(state_->mutex);
  auto& switches = state_->switches;
  auto free = std::find_if(switches.begin(), switches.end(), [](const State::Switch& s) { return !s.entry; });
  if (free == switches.end()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", bridge::kSwitchesMax, " switches, no more fit"));
  }
  const auto index = static_cast<SwitchIndex>(free - switches.begin());
  free->fdb = std::make_unique<Fdb>(fdb_capacity, RandomSeed(), &state_->shared.epochs);
  free->retired = {};
  std::unique_ptr<const SwitchEntry> replaced;
  state_->RebuildSwitch(index, config, &replaced);
  state_->Publish();
  return index;
}

void Dataplane::UpdateSwitch(SwitchIndex index, const SwitchConfig& config) {
  std::lock_guard lock(state_->mutex);
  std::unique_ptr<const SwitchEntry> replaced;
  state_->RebuildSwitch(index, config, &replaced);
  state_->Publish();
}

void Dataplane::RemoveSwitch(SwitchIndex index) {
  std::lock_guard lock(state_->mutex);
  std::unique_ptr<const SwitchEntry> removed = std::move(state_->switches[index].entry);
  state_->Publish();
  state_->switches[index].fdb.reset();
}

// --- ports ---

absl::StatusOr<PortIndex> Dataplane::AddPort(const PortConfig& config, File tap) {
  std::lock_guard lock(state_->mutex);
  auto& ports = state_->ports;
  auto free = std::find_if(ports.begin(), ports.end(), [](const State::Port& p) { return !p.config; });
  if (free == ports.end()) {
    return absl::ResourceExhaustedError(absl::StrCat("there are ", bridge::kPortsMax, " ports, no more fit"));
  }
  const auto index = static_cast<PortIndex>(free - ports.begin());
  for (auto& worker : state_->workers) worker->Post({WorkerOrder::Kind::kSetFile, index, tap.fd()});
  absl::Status status;
  for (auto& worker : state_->workers) status.Update(worker->Await());
  if (!status.ok()) {
    state_->OrderAll({WorkerOrder::Kind::kClearFile, index});
    return status;
  }
  free->owner = state_->LeastLoadedWorker();
  free->config = std::make_unique<PortConfig>(config);
  free->file = std::move(tap);
  std::unique_ptr<const SwitchEntry> replaced;
  state_->RebuildSwitch(config.switch_index, state_->switches[config.switch_index].entry->config, &replaced);
  state_->Publish();
  Worker& owner = *state_->workers[free->owner];
  owner.Post({WorkerOrder::Kind::kStartReading, index});
  owner.Await().IgnoreError();
  return index;
}

void Dataplane::UpdatePort(PortIndex index, const PortConfig& config) {
  std::lock_guard lock(state_->mutex);
  State::Port& port = state_->ports[index];
  bridge::VlanSet left;
  for (uint32_t vid = 1; vid <= bridge::kVlanIdMax; ++vid) {
    const auto id = static_cast<bridge::VlanId>(vid);
    if (port.config->members.contains(id) && !config.members.contains(id)) left.Add(id);
  }
  std::unique_ptr<const PortConfig> replaced =
      std::exchange(port.config, std::make_unique<PortConfig>(config));
  state_->Publish();
  if (!left.empty()) {
    bridge::FdbFilter filter;
    filter.port = index;
    filter.vids = &left;
    filter.kind = bridge::FdbKind::kDynamic;
    state_->FlushPort(port, filter);
  }
}

File Dataplane::RemovePort(PortIndex index) {
  std::lock_guard lock(state_->mutex);
  State::Port& port = state_->ports[index];
  State::Switch& its_switch = state_->switches[port.config->switch_index];
  std::unique_ptr<const PortConfig> removed = std::move(port.config);
  std::unique_ptr<const SwitchEntry> replaced;
  state_->RebuildSwitch(removed->switch_index, its_switch.entry->config, &replaced);
  state_->Publish();
  Worker& owner = *state_->workers[port.owner];
  owner.Post({WorkerOrder::Kind::kStopReading, index});
  owner.Await().IgnoreError();
  state_->OrderAll({WorkerOrder::Kind::kClearFile, index});
  bridge::FdbFilter filter;
  filter.port = index;
  its_switch.fdb->Flush(filter);
  // No worker writes them any more.
  its_switch.retired.Add(state_->Totals(index));
  for (auto& worker : state_->workers) worker->counters()[index].Reset();
  return std::move(port.file);
}

// --- FDB ---

bridge::FdbResult Dataplane::AddStaticFdbEntry(SwitchIndex index, bridge::FdbKey key, PortIndex port,
                                               bool replace_static) {
  std::lock_guard lock(state_->mutex);
  return state_->switches[index].fdb->AddStatic(key, port, replace_static);
}

bridge::FdbResult Dataplane::RemoveFdbEntry(SwitchIndex index, bridge::FdbKey key) {
  std::lock_guard lock(state_->mutex);
  return state_->switches[index].fdb->Remove(key);
}

std::optional<bridge::FdbRow> Dataplane::FindFdbEntry(SwitchIndex index, bridge::FdbKey key) const {
  std::lock_guard lock(state_->mutex);
  return state_->switches[index].fdb->Find(key, NowS());
}

uint32_t Dataplane::FlushFdb(SwitchIndex index, const bridge::FdbFilter& filter) {
  std::lock_guard lock(state_->mutex);
  return state_->switches[index].fdb->Flush(filter);
}

uint32_t Dataplane::ListFdb(SwitchIndex index, uint32_t cursor, const bridge::FdbFilter& filter,
                            uint32_t rows_max, std::vector<bridge::FdbRow>* rows) const {
  std::lock_guard lock(state_->mutex);
  return state_->switches[index].fdb->List(cursor, filter, rows_max, NowS(), rows);
}

uint32_t Dataplane::FdbCount(SwitchIndex index, bridge::FdbKind kind) const {
  std::lock_guard lock(state_->mutex);
  return state_->switches[index].fdb->CountOf(kind);
}

uint32_t Dataplane::FdbDynamicCount(SwitchIndex index, PortIndex port) const {
  std::lock_guard lock(state_->mutex);
  return state_->switches[index].fdb->DynamicCountOf(port);
}

bridge::FdbEvents Dataplane::FdbEvents(SwitchIndex index) const {
  std::lock_guard lock(state_->mutex);
  return state_->switches[index].fdb->Events();
}

// --- counters ---

PortStats Dataplane::ReadPort(PortIndex index) const {
  std::lock_guard lock(state_->mutex);
  return {state_->Totals(index), state_->workers[state_->ports[index].owner]->device_gone(index)};
}

PortTotals Dataplane::ReadSwitch(SwitchIndex index) const {
  std::lock_guard lock(state_->mutex);
  PortTotals totals = state_->switches[index].retired;
  for (size_t i = 0; i < state_->ports.size(); ++i) {
    const State::Port& port = state_->ports[i];
    if (port.config && port.config->switch_index == index)
      totals.Add(state_->Totals(static_cast<PortIndex>(i)));
  }
  return totals;
}

std::vector<WorkerStats> Dataplane::ReadWorkers() const {
  std::lock_guard lock(state_->mutex);
  std::vector<WorkerStats> stats;
  for (const auto& worker : state_->workers) stats.push_back(worker->ReadStats());
  return stats;
}

}  // namespace ringswitch
