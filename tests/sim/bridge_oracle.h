#pragma once

// An 802.1Q learning bridge written to be obviously right: maps, sets and whole frames. Slow,
// single-threaded, and sharing nothing with dataplane/bridge but the names of reasons and counters.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "dataplane/bridge/counters.h"
#include "dataplane/bridge/drop_reason.h"

namespace ringswitch::bridge {

using Bytes = std::vector<uint8_t>;

struct OraclePort {
  enum class Mode { kUnaware, kAccess, kTrunk };
  int switch_index = 0;
  Mode mode = Mode::kUnaware;
  int pvid = 0;  // 0: none
  std::set<int> members;
  std::set<int> untagged;
  int64_t mtu = 1500;
  size_t mac_limit = 0;
  bool down = false;
  bool learns = true;
  bool floods_unknown = true, floods_multicast = true, floods_broadcast = true;  // out of here
  bool isolated = false;
  bool hairpin = false;
  bool locked = false;
  bool bpdu_guard = false;
  int64_t bpdu_recovery_s = 0;  // 0: never
  int64_t blocked_until_s = 0;  // by BPDU guard
};

struct OracleEntry {
  int port = 0;
  bool is_static = false;
  int64_t stamp_s = 0;
};

struct OracleSwitch {
  bool vlan_aware = true;
  unsigned group_forward_mask = 0;
  int64_t ageing_time_s = 300;  // 0: never
  size_t capacity = 0;
  std::map<std::pair<uint64_t, int>, OracleEntry> fdb;  // (MAC, VID)
};

struct Verdict {
  std::optional<DropReason> drop;
  std::map<int, Bytes> outputs;
  bool must_refuse = false;  // the FDB is full, or the port's limit reached
};

class Oracle {
 public:
  // `refused`: the real FDB did not learn. It may do so although it has room, rarely: both buckets of a key
  // are taken.
  Verdict Receive(int ingress, const Bytes& frame, int64_t wire_length, int64_t now_s, bool refused);
  void Age(int switch_index, int64_t now_s);

  std::map<int, OraclePort> ports;
  std::map<int, OracleSwitch> switches;
  std::map<int, PortTotals> totals;  // transmit counters stay zero

 private:
  struct Arrival;
  std::optional<DropReason> Forward(Arrival* arrival, Verdict* verdict);
  std::optional<DropReason> Learn(Arrival* arrival, uint64_t source, Verdict* verdict);
  std::optional<DropReason> Flood(const Arrival& arrival, uint64_t destination, Verdict* verdict);
  bool Takes(int port, int switch_index, int vid) const;
  bool IsClosed(int port, int64_t now_s) const;
  void Send(const Arrival& arrival, int port, Verdict* verdict);
};

}  // namespace ringswitch::bridge
