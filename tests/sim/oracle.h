#pragma once

// An 802.1Q learning bridge written to be obviously right: maps, sets and whole frames. Slow, without
// threads, and sharing nothing with dataplane/bridge but the names of reasons and counters.
//
// Theory of operation. The configuration is a value that is handed in with every frame, since two workers may
// have two of them for a moment. What lasts from frame to frame is here: the tables, what the ports' limits
// and guards remember, the counters. What Linux adds to 802.1Q is marked by the number of the design decision
// or by the name of the option.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "dataplane/bridge/counters.h"
#include "dataplane/bridge/drop_reason.h"

namespace ringswitch::sim {

using bridge::DropReason;
using Bytes = std::vector<uint8_t>;

enum FloodClass { kBroadcast, kMulticast, kUnknownUnicast, kFloodClasses };

struct Limit {
  int64_t per_second = 0;  // 0: none
  int64_t burst = 0;
};

struct OraclePort {
  enum class Mode { kUnaware, kAccess, kTrunk };
  int switch_index = 0;
  Mode mode = Mode::kUnaware;
  int pvid = 0;  // 0: none
  std::set<int> members, untagged;
  int64_t mtu = 1500;
  size_t mac_limit = 0;
  bool down = false, link_down = false;
  bool learns = true, locked = false;
  bool floods[kFloodClasses] = {true, true, true};  // out of here
  bool isolated = false, hairpin = false;
  bool bpdu_guard = false;
  int64_t bpdu_recovery_s = 0;     // 0: never
  std::set<uint64_t> source_macs;  // empty: any
  Limit storm_frames[kFloodClasses], storm_bits[kFloodClasses];
  Limit receive_bits, transmit_bits;
};

struct OracleSwitch {
  bool vlan_aware = true;
  unsigned group_forward_mask = 0;
  int64_t ageing_time_s = 300;  // 0: never
  size_t capacity = 0;
};

struct OracleConfig {
  std::map<int, OraclePort> ports;
  std::map<int, OracleSwitch> switches;
};

struct OracleEntry {
  int port = 0;
  bool is_static = false;
  int64_t stamp_s = 0;
};
using OracleTable = std::map<std::pair<uint64_t, int>, OracleEntry>;  // by (MAC, VID)

// Tokens that come back at the limit's rate. A full bucket lets anything pass.
class Bucket {
 public:
  bool Has(Limit limit, int64_t tokens, int64_t now_ns) const;
  void Take(Limit limit, int64_t tokens, int64_t now_ns);

 private:
  int64_t per_second_ = 0;
  int64_t full_at_ns_ = 0;
};

// What a port's guards and limits remember, whatever its configuration becomes.
struct OracleMemory {
  int64_t blocked_until_s = 0;  // by BPDU guard
  Bucket storm_frames[kFloodClasses], storm_bits[kFloodClasses], receive_bits, transmit_bits;
};

struct OracleFrame {
  int ingress = 0;
  Bytes bytes;
  int64_t wire_length = 0;  // of the longest frame that it becomes on a wire
  int64_t now_ns = 0;
  bool refused = false;  // the real FDB did not learn its source; `must_refuse` says whether it had to
};

struct Verdict {
  std::optional<DropReason> drop;
  std::map<int, Bytes> outputs;  // by port
  // The FDB is full, or the port's limit reached. It may refuse besides, rarely: both buckets of a key are
  // taken.
  bool must_refuse = false;
};

class Oracle {
 public:
  Verdict Receive(const OracleConfig& config, const OracleFrame& frame);

  std::map<int, OracleTable> tables;         // by switch
  std::map<int, OracleMemory> memories;      // by port
  std::map<int, bridge::PortTotals> totals;  // by port; what is transmitted is not known here
  bool forgets_isolation = false;            // an error, planted to see it found

 private:
  struct Arrival;
  std::optional<DropReason> Enter(Arrival* arrival);
  std::optional<DropReason> Classify(Arrival* arrival);
  std::optional<DropReason> Learn(Arrival* arrival);
  std::optional<DropReason> Forward(Arrival* arrival);
  std::optional<DropReason> Flood(Arrival* arrival);
  bool Takes(const Arrival& arrival, int port) const;
  bool IsClosed(const Arrival& arrival, int port) const;
  bool AreIsolated(const Arrival& arrival, int port) const;
  void Send(Arrival* arrival, int port);
};

}  // namespace ringswitch::sim
