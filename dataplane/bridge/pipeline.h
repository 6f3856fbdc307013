#pragma once

// The pipeline: one frame in, one decision out. 802.1Q and nothing else.
//
// Theory of operation. Process takes a frame through the stages of the Linux bridge, in its order
// (br_handle_frame): header -> source validity -> VLAN classification and membership -> learn -> reserved
// group addresses -> look up the destination -> egress filter. A frame is classified before anything is
// learned from it, so a frame that may not enter teaches nothing. The decision names the egress ports and
// which of at most two forms of the frame each one gets, with a tag or without; making the forms, queueing
// and buffers are the worker's business.
//
// Ownership. One pipeline per worker, used by that worker's thread only; the FDB behind it is shared. No
// allocation, no lock but the FDB's, no clock: time comes with the frame.

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

// Where a frame goes. Valid until the next call of Process.
struct Decision {
  bool forwarded = false;  // false: dropped for `reason`
  DropReason reason{};
  FrameClass frame_class{};
  VlanId vid = kVlanIdNone;                // the frame's VLAN
  uint16_t tci = 0;                        // of the tag that the tagged form carries
  TagEdit tagged_edit = TagEdit::kNone;    // makes the tagged form out of the frame as received
  TagEdit untagged_edit = TagEdit::kNone;  // makes the untagged form
  std::span<const Egress> egress;          // one per copy; empty where every copy was dropped for its MTU
  uint16_t tagged_count = 0;               // how many of them are tagged
};

class Pipeline {
 public:
  // `counters`: kPortsMax elements, this worker's own.
  explicit Pipeline(std::span<PortCounters> counters) : counters_(counters) {}
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Between batches only. The configuration outlives its use (epoch.h).
  void SetConfig(const ForwardingConfig* config) { config_ = config; }

  // `frame` is as read from the device of port `ingress`; `wire_length` is the length in bytes of the longest
  // frame it will be on a wire: its own, or header + segment of a GSO super-frame. Counts everything but
  // transmission.
  const Decision& Process(PortIndex ingress, const uint8_t* frame, uint32_t length, uint32_t wire_length,
                          uint32_t now_s);

  // A frame that never got as far as Process, dropped for an ingress reason that io found.
  void DropReceived(PortIndex ingress, uint32_t length, DropReason reason);

 private:
  struct Arrival;  // what is known of the frame in hand

  // The stages. Each returns why the frame ends there, or nothing.
  std::optional<DropReason> Classify(Arrival* arrival);
  std::optional<DropReason> Forward(const Arrival& arrival);
  std::optional<DropReason> ForwardKnown(const Arrival& arrival, FdbTarget target);
  std::optional<DropReason> Flood(const Arrival& arrival, FrameClass frame_class);
  // One copy: queued, or dropped for the egress port's MTU.
  void Queue(const Arrival& arrival, PortIndex egress, const PortConfig& port);
  const Decision& Drop(PortIndex ingress, DropReason reason);

  std::span<PortCounters> counters_;
  const ForwardingConfig* config_ = nullptr;
  Decision decision_;
  uint16_t egress_count_ = 0;
  std::array<Egress, kPortsMax> egress_;
};

}  // namespace ringswitch::bridge
