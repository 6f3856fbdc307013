#pragma once

// What the control side keeps of the dataplane: ports with their files, switches with their tables, and the
// workers; and the three steps that every change is made of.
//
// Theory of operation. Workers see nothing of this but what is published: a configuration of pointers to
// immutable pieces, replaced as a whole. A change makes new pieces, publishes, and frees what was replaced
// once every worker has passed a batch boundary (epoch.h). Files are handed to workers and taken from them by
// orders, each waited for, so that a file that comes back is used by nobody.
//
// Ownership: everything is touched under `mutex` only.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "dataplane/bridge/fdb.h"
#include "dataplane/dataplane.h"
#include "dataplane/worker.h"

namespace ringswitch {

struct Dataplane::State {
  struct Port {
    std::unique_ptr<const bridge::PortConfig> config;  // null: no such port
    Device device;                                     // its file is closed where there is none
    uint32_t owner = 0;                                // worker that reads it
    uint64_t device_lost_frames = 0;                   // as far as they were asked for
  };
  // Frames of a switch by worker and VLAN. What workers see of it does not change.
  struct VlanCounterSet {
    std::array<std::unique_ptr<bridge::VlanCounters[]>, bridge::kWorkersMax> counters;
    std::array<bridge::VlanCounters*, bridge::kWorkersMax> by_worker{};
  };
  struct Switch {
    std::unique_ptr<const bridge::SwitchEntry> entry;  // null: no such switch
    std::unique_ptr<bridge::Fdb> fdb;
    bridge::PortTotals retired;                     // of ports that are gone
    std::unique_ptr<VlanCounterSet> vlan_counters;  // null: not counted
  };

  std::mutex mutex;
  WorkerShared shared;
  std::array<Port, bridge::kPortsMax> ports;
  std::array<Switch, bridge::kSwitchesMax> switches;
  std::unique_ptr<const bridge::ForwardingConfig> config;
  std::unique_ptr<const CaptureList> captures = std::make_unique<CaptureList>();
  std::vector<std::unique_ptr<Worker>> workers;  // last: they use all of the above until they are joined

  // Makes the pieces as they are now the configuration, and returns when no worker can still see another.
  void Publish();
  // The same for the captures.
  void PublishCaptures(std::unique_ptr<const CaptureList> next);
  // The switch's entry with the ports it has now. `replaced` is to be kept until Publish has returned.
  void RebuildSwitch(bridge::SwitchIndex index, const bridge::SwitchConfig& config,
                     std::unique_ptr<const bridge::SwitchEntry>* replaced);
  std::unique_ptr<VlanCounterSet> MakeVlanCounters() const;
  bridge::Fdb& FdbOf(const Port& port) { return *switches[port.config->switch_index].fdb; }

  // Hands the device's file to every worker; none has it where that fails.
  absl::Status GiveFile(bridge::PortIndex index, const Device& device);
  void StartReading(bridge::PortIndex index);
  // Stops the port's reads and takes its file from every worker.
  File TakeFile(bridge::PortIndex index);
  void FlushDynamic(bridge::PortIndex index, const bridge::VlanSet* vids = nullptr);

  uint32_t LeastLoadedWorker() const;
  bridge::PortTotals Totals(bridge::PortIndex index) const;
  uint64_t DeviceLostFrames(Port* port);

 private:
  void AwaitEpoch();
  void OrderAll(const WorkerOrder& order);
};

}  // namespace ringswitch
