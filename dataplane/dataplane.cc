#include "dataplane/dataplane.h"

#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dataplane/dataplane_state.h"
#include "dataplane/io/packet_socket.h"
#include "dataplane/io/tap.h"

namespace ringswitch {
namespace {

using bridge::Fdb;
using bridge::PortConfig;
using bridge::PortIndex;
using bridge::PortTotals;
using bridge::SwitchConfig;
using bridge::SwitchEntry;
using bridge::SwitchIndex;

static_assert(bridge::kPortsMax <= io::kFilesMax);

uint32_t NowS() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
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
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, rlim_t{16} * io::kFilesMax);
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

absl::StatusOr<Device> OpenNetdev(const std::string& ifname) {
  absl::StatusOr<File> socket = io::OpenPacketSocket(ifname);
  if (!socket.ok()) return socket.status();
  Device device;
  device.kind = Device::Kind::kPacket;
  device.file = *std::move(socket);
  return device;
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
  free->fdb->SetFlapGuard(config.flap_limit, config.flap_hold_s);
  free->retired = {};
  free->vlan_counters = config.vlan_counters ? state_->MakeVlanCounters() : nullptr;
  std::unique_ptr<const SwitchEntry> replaced;
  state_->RebuildSwitch(index, config, &replaced);
  state_->Publish();
  return index;
}

void Dataplane::UpdateSwitch(SwitchIndex index, const SwitchConfig& config) {
  std::lock_guard lock(state_->mutex);
  State::Switch& its_switch = state_->switches[index];
  its_switch.fdb->SetFlapGuard(config.flap_limit, config.flap_hold_s);
  std::unique_ptr<State::VlanCounterSet> unused;  // until no worker counts into them
  if (config.vlan_counters && !its_switch.vlan_counters) {
    its_switch.vlan_counters = state_->MakeVlanCounters();
  } else if (!config.vlan_counters) {
    unused = std::move(its_switch.vlan_counters);
  }
  std::unique_ptr<const SwitchEntry> replaced;
  state_->RebuildSwitch(index, config, &replaced);
  state_->Publish();
}

void Dataplane::RemoveSwitch(SwitchIndex index) {
  std::lock_guard lock(state_->mutex);
  State::Switch& its_switch = state_->switches[index];
  std::unique_ptr<const SwitchEntry> removed = std::move(its_switch.entry);
  state_->Publish();
  its_switch.fdb.reset();
  its_switch.vlan_counters.reset();
}

// --- ports ---

absl::StatusOr<PortIndex> Dataplane::AddPort(const PortConfig& config, Device device) {
  std::lock_guard lock(state_->mutex);
  auto& ports = state_->ports;
  auto free = std::find_if(ports.begin(), ports.end(), [](const State::Port& p) { return !p.config; });
  if (free == ports.end()) {
    return absl::ResourceExhaustedError(absl::StrCat("there are ", bridge::kPortsMax, " ports, no more fit"));
  }
  const auto index = static_cast<PortIndex>(free - ports.begin());
  if (absl::Status status = state_->GiveFile(index, device); !status.ok()) return status;
  free->owner = state_->LeastLoadedWorker();
  free->config = std::make_unique<PortConfig>(config);
  free->device = std::move(device);
  free->device_lost_frames = 0;
  std::unique_ptr<const SwitchEntry> replaced;
  state_->RebuildSwitch(config.switch_index, state_->switches[config.switch_index].entry->config, &replaced);
  state_->Publish();
  state_->StartReading(index);
  return index;
}

File Dataplane::DetachDevice(PortIndex index) {
  std::lock_guard lock(state_->mutex);
  File file = state_->TakeFile(index);
  state_->FlushDynamic(index);
  return file;
}

absl::Status Dataplane::AttachDevice(PortIndex index, Device device) {
  std::lock_guard lock(state_->mutex);
  State::Port& port = state_->ports[index];
  if (port.device.file.is_open()) return absl::FailedPreconditionError("the port has a device");
  if (absl::Status status = state_->GiveFile(index, device); !status.ok()) return status;
  port.device = std::move(device);
  state_->StartReading(index);
  return absl::OkStatus();
}

void Dataplane::UpdatePort(PortIndex index, const PortConfig& config) {
  std::lock_guard lock(state_->mutex);
  State::Port& port = state_->ports[index];
  bridge::VlanSet left;
  for (uint32_t vid = 1; vid <= bridge::kVlanIdMax; ++vid) {
    const auto id = static_cast<bridge::VlanId>(vid);
    if (port.config->members.contains(id) && !config.members.contains(id)) left.Add(id);
  }
  const uint32_t changed = port.config->features ^ config.features;
  const bool is_let_up = (changed & (bridge::kBpduGuard | bridge::kAdminDown)) != 0 ||
                         port.config->bpdu_recovery_s != config.bpdu_recovery_s;
  std::unique_ptr<const PortConfig> replaced =
      std::exchange(port.config, std::make_unique<PortConfig>(config));
  state_->Publish();
  // After the configuration, or the last frame under the old one could set it again.
  if (is_let_up) state_->shared.meters[index].blocked_until_s.store(0);
  if ((changed & config.features & (bridge::kAdminDown | bridge::kLinkDown)) != 0) {
    state_->FlushDynamic(index);
  } else if (!left.empty()) {
    state_->FlushDynamic(index, &left);
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
  File file = state_->TakeFile(index);
  bridge::FdbFilter filter;
  filter.port = index;
  its_switch.fdb->Flush(filter);
  its_switch.fdb->ForgetMoves(index);
  // No worker writes them any more.
  its_switch.retired.Add(state_->Totals(index));
  for (auto& worker : state_->workers) worker->counters()[index].Reset();
  state_->shared.meters[index].Reset();
  // Who captures asked for this port, not for the next one with its index.
  for (size_t i = 0; i < state_->captures->count; ++i) state_->captures->captures[i]->Forget(index);
  return file;
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

std::vector<bridge::FdbMoves> Dataplane::FdbMoves(SwitchIndex index) const {
  std::lock_guard lock(state_->mutex);
  return state_->switches[index].fdb->Moves();
}

void Dataplane::SetFdbLogging(SwitchIndex index, bool is_logging) {
  std::lock_guard lock(state_->mutex);
  state_->switches[index].fdb->SetLogging(is_logging);
}

bool Dataplane::TakeFdbChanges(SwitchIndex index, std::vector<bridge::FdbChange>* changes) {
  std::lock_guard lock(state_->mutex);
  return state_->switches[index].fdb->TakeChanges(changes);
}

// --- counters ---

PortStats Dataplane::ReadPort(PortIndex index) const {
  std::lock_guard lock(state_->mutex);
  State::Port& port = state_->ports[index];
  PortStats stats;
  stats.totals = state_->Totals(index);
  stats.has_device = port.device.file.is_open();
  if (stats.has_device) {
    const bool is_tap = port.device.kind == Device::Kind::kTap;
    stats.device_gone = is_tap ? io::IsTapGone(port.device.file) : io::IsPacketDeviceGone(port.device.file);
  }
  const uint32_t now_s = NowS(), blocked_until_s = state_->shared.meters[index].blocked_until_s.load();
  stats.blocked = now_s < blocked_until_s;
  if (stats.blocked && blocked_until_s != UINT32_MAX) stats.blocked_left_s = blocked_until_s - now_s;
  stats.device_lost_frames = state_->DeviceLostFrames(&port);
  return stats;
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

std::vector<VlanTotals> Dataplane::ReadVlans(SwitchIndex index) const {
  std::lock_guard lock(state_->mutex);
  std::vector<VlanTotals> all;
  const auto& set = state_->switches[index].vlan_counters;
  if (!set) return all;
  for (uint32_t vid = 0; vid <= bridge::kVlanIdMax; ++vid) {
    VlanTotals totals;
    totals.vid = static_cast<bridge::VlanId>(vid);
    for (size_t i = 0; i < state_->workers.size(); ++i) {
      const bridge::VlanCounters& counters = set->counters[i][vid];
      totals.receive_frames += counters.receive_frames.Read();
      totals.receive_bytes += counters.receive_bytes.Read();
      totals.transmit_frames += counters.transmit_frames.Read();
      totals.transmit_bytes += counters.transmit_bytes.Read();
    }
    if (totals.receive_frames != 0 || totals.transmit_frames != 0) all.push_back(totals);
  }
  return all;
}

// --- captures ---

absl::Status Dataplane::StartCapture(Capture* capture) {
  std::lock_guard lock(state_->mutex);
  auto next = std::make_unique<CaptureList>(*state_->captures);
  if (next->count == kCapturesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", kCapturesMax, " captures running; stop one of them"));
  }
  next->captures[next->count++] = capture;
  state_->PublishCaptures(std::move(next));
  return absl::OkStatus();
}

void Dataplane::StopCapture(Capture* capture) {
  std::lock_guard lock(state_->mutex);
  auto next = std::make_unique<CaptureList>(*state_->captures);
  const auto end = next->captures.begin() + static_cast<ptrdiff_t>(next->count);
  next->count =
      static_cast<size_t>(std::remove(next->captures.begin(), end, capture) - next->captures.begin());
  state_->PublishCaptures(std::move(next));
}

}  // namespace ringswitch
