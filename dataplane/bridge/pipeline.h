#pragma once

// The pipeline: one frame in, one decision out. 802.1Q and nothing else.
//
// Theory of operation. Process takes a frame through the stages of the Linux bridge, in its order
// (br_handle_frame): header -> source validity -> port state, receive rate and guards -> VLAN classification
// and membership -> locked port -> learn -> reserved group addresses -> look up the destination -> storm
// control -> egress filter -> MTU and transmit rate. A frame is classified before anything is learned from
// it, so a frame that may not enter teaches nothing. The decision names the egress ports and which of at most
// two forms of the frame each one gets, with a tag or without; making the forms, queueing and buffers are the
// worker's business.
//
// What a port does beyond plain forwarding is a bit of PortConfig::features, tested where it acts, so that a
// port without features pays a few predictable branches and nothing else.
//
// A port that is closed (set down, or taken down by its BPDU guard) is no egress: floods leave it out, and a
// frame to an address there is filtered as kNoEgressPort until the entry is flushed or ages; it is not
// flooded, since whose it is is known.
//
// Ownership. One pipeline per worker, used by that worker's thread only; FDB and meters are shared. No
// allocation, no lock but the FDB's, no clock: time comes with the batch.

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/bridge/counters.h"
#include "dataplane/bridge/drop_reason.h"
#include "dataplane/bridge/fdb.h"
#include "dataplane/bridge/forwarding_config.h"
#include "dataplane/bridge/frame.h"

namespace ringswitch::bridge {

enum class FrameClass : uint8_t { kUnicast, kBroadcast, kMulticast, kUnknownUnicast };

struct Egress {
  PortIndex port;
  bool tagged;  // gets the tagged form
};

// A copy that goes nowhere.
struct EgressDrop {
  PortIndex port;
  DropReason reason;
};

// Where a frame goes. Valid until the next call of Process.
struct Decision {
  bool forwarded = false;  // false: dropped for `reason`
  DropReason reason{};
  FrameClass frame_class{};
  VlanId vid = kVlanIdNone;                // the frame's VLAN
  uint16_t tci = 0;                        // of the tag that the tagged form carries
  TagEdit tagged_edit = TagEdit::kNone;    // makes the tagged form out of the frame as received
  TagEdit untagged_edit = TagEdit::kNone;  // makes the untagged form
  std::span<const Egress> egress;          // one per copy; empty where every copy was dropped
  uint16_t tagged_count = 0;               // how many of them are tagged
  std::span<const EgressDrop> dropped;     // copies that the pipeline has dropped, in no frame's way
};

// Time of a batch on the monotonic clock.
struct BatchTime {
  uint64_t ns = 0;
  uint32_t s = 0;
};

class Pipeline {
 public:
  // `counters`: kPortsMax elements, this worker's own. `meters`: kPortsMax elements, shared by all workers.
  // `worker`: index of the worker, for what is kept per worker in the configuration.
  Pipeline(std::span<PortCounters> counters, std::span<PortMeters> meters, uint32_t worker)
      : counters_(counters), meters_(meters), worker_(worker) {}
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Between batches only. The configuration outlives its use (epoch.h).
  void SetConfig(const ForwardingConfig* config) { config_ = config; }
  void SetTime(BatchTime time) { time_ = time; }

  // `frame` is as read from the device of port `ingress`; `wire_length` is the length in bytes of the longest
  // frame it will be on a wire: its own, or header + segment of a GSO super-frame. Counts everything but
  // transmission.
  const Decision& Process(PortIndex ingress, const uint8_t* frame, uint32_t length, uint32_t wire_length);

  // A frame that never got as far as Process, dropped for an ingress reason that io found.
  void DropReceived(PortIndex ingress, uint32_t length, DropReason reason);

 private:
  struct Arrival;  // what is known of the frame in hand

  // The stages. Each returns why the frame ends there, or nothing.
  std::optional<DropReason> Admit(const Arrival& arrival);
  std::optional<DropReason> Classify(Arrival* arrival);
  std::optional<DropReason> Learn(const Arrival& arrival, LearnResult* learned);
  std::optional<DropReason> Forward(const Arrival& arrival);
  std::optional<DropReason> ForwardKnown(const Arrival& arrival, FdbTarget target);
  std::optional<DropReason> Flood(const Arrival& arrival, FrameClass frame_class);
  bool IsClosed(PortIndex index, const PortConfig& port) const;
  bool TakeStorm(const Arrival& arrival, FrameClass frame_class);
  // One copy: queued, or dropped for the egress port's MTU or rate.
  void Queue(const Arrival& arrival, PortIndex egress, const PortConfig& port);
  void DropCopy(PortIndex egress, DropReason reason);
  void CountVlan(const Arrival& arrival);
  const Decision& Drop(PortIndex ingress, DropReason reason);

  std::span<PortCounters> counters_;
  std::span<PortMeters> meters_;
  const uint32_t worker_;
  BatchTime time_;
  const ForwardingConfig* config_ = nullptr;
  Decision decision_;
  uint16_t egress_count_ = 0;
  std::array<Egress, kPortsMax> egress_;
  std::array<EgressDrop, kPortsMax> dropped_;
};

}  // namespace ringswitch::bridge
