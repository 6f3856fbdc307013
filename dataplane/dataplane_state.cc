#include "dataplane/dataplane_state.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "dataplane/io/packet_socket.h"

namespace ringswitch {

using bridge::PortIndex;
using bridge::PortTotals;
using bridge::SwitchIndex;

// --- publishing ---

// Until no worker can still see what was unlinked before the call.
void Dataplane::State::AwaitEpoch() {
  const uint64_t epoch = shared.epochs.Advance();
  // A batch lasts well under a millisecond; sleeping workers are outside at once.
  for (int i = 0; !shared.epochs.Passed(epoch); ++i) {
    if (i < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

void Dataplane::State::Publish() {
  auto next = std::make_unique<bridge::ForwardingConfig>();
  for (size_t i = 0; i < ports.size(); ++i) next->ports[i] = ports[i].config.get();
  for (size_t i = 0; i < switches.size(); ++i) next->switches[i] = switches[i].entry.get();
  shared.config.store(next.get());
  AwaitEpoch();
  config = std::move(next);
}

void Dataplane::State::PublishCaptures(std::unique_ptr<const CaptureList> next) {
  shared.captures.store(next->count != 0 ? next.get() : nullptr);
  AwaitEpoch();
  captures = std::move(next);
}

void Dataplane::State::RebuildSwitch(SwitchIndex index, const bridge::SwitchConfig& switch_config,
                                     std::unique_ptr<const bridge::SwitchEntry>* replaced) {
  Switch& its_switch = switches[index];
  auto entry = std::make_unique<bridge::SwitchEntry>();
  entry->config = switch_config;
  entry->fdb = its_switch.fdb.get();
  if (its_switch.vlan_counters) entry->vlan_counters = its_switch.vlan_counters->by_worker.data();
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].config && ports[i].config->switch_index == index)
      entry->ports.push_back(static_cast<PortIndex>(i));
  }
  *replaced = std::exchange(its_switch.entry, std::move(entry));
}

auto Dataplane::State::MakeVlanCounters() const -> std::unique_ptr<VlanCounterSet> {
  auto set = std::make_unique<VlanCounterSet>();
  for (size_t i = 0; i < workers.size(); ++i) {
    set->counters[i] = std::make_unique<bridge::VlanCounters[]>(bridge::kVlanIdMax + 1);
    set->by_worker[i] = set->counters[i].get();
  }
  return set;
}

// --- files ---

// To every worker at once, then waits for all.
void Dataplane::State::OrderAll(const WorkerOrder& order) {
  for (auto& worker : workers) worker->Post(order);
  for (auto& worker : workers) worker->Await().IgnoreError();
}

absl::Status Dataplane::State::GiveFile(PortIndex index, const Device& device) {
  WorkerOrder order;
  order.kind = WorkerOrder::Kind::kSetFile;
  order.port = index;
  order.fd = device.file.fd();
  order.file_kind = device.kind == Device::Kind::kTap ? io::FileKind::kTap : io::FileKind::kPacketSocket;
  order.takes_offload = device.takes_offload;
  for (auto& worker : workers) worker->Post(order);
  absl::Status status;
  for (auto& worker : workers) status.Update(worker->Await());
  if (!status.ok()) OrderAll({WorkerOrder::Kind::kClearFile, index});
  return status;
}

void Dataplane::State::StartReading(PortIndex index) {
  Worker& owner = *workers[ports[index].owner];
  owner.Post({WorkerOrder::Kind::kStartReading, index});
  owner.Await().IgnoreError();
}

File Dataplane::State::TakeFile(PortIndex index) {
  Port& port = ports[index];
  if (port.device.file.is_open()) {
    Worker& owner = *workers[port.owner];
    owner.Post({WorkerOrder::Kind::kStopReading, index});
    owner.Await().IgnoreError();
  }
  // Without a device too: writes that had none to go to are counted when they have failed.
  OrderAll({WorkerOrder::Kind::kClearFile, index});
  DeviceLostFrames(&port);
  return std::move(port.device.file);
}

void Dataplane::State::FlushDynamic(PortIndex index, const bridge::VlanSet* vids) {
  bridge::FdbFilter filter;
  filter.port = index;
  filter.vids = vids;
  filter.kind = bridge::FdbKind::kDynamic;
  FdbOf(ports[index]).Flush(filter);
}

// --- sums ---

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

// The kernel forgets what it has told.
uint64_t Dataplane::State::DeviceLostFrames(Port* port) {
  if (port->device.kind == Device::Kind::kPacket && port->device.file.is_open())
    port->device_lost_frames += io::TakeLostFrames(port->device.file);
  return port->device_lost_frames;
}

}  // namespace ringswitch
