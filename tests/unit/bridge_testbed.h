#pragma once

// The test bed of the frame tables: a switch of a few ports around one pipeline, fed with bytes and answering
// with bytes.
//
// Ports are numbered as in the tables, p1 being index 1. A port is written as text:
//   "access 10" | "trunk 10,20,100-199" | "trunk 10,20 native 1" | "unaware" | "none", then any of
//   "mtu 1500", "limit 2" (learned addresses)
//   "down", "no-learning", "no-unknown-flood", "no-multicast-flood", "no-broadcast-flood", "isolated",
//   "hairpin", "locked"
//   "bpdu-guard", "bpdu-recovery 30" (seconds)
//   "mac-guard", "address-guard", "ra-guard", "dhcp-guard", with "mac 02:00:00:00:0a:01", "ip 10.0.0.1", "ip
//   2001:db8::1", each as often as one likes
//   "storm-broadcast 10/2" (frames/s and burst), "storm-broadcast-bits 8000/4000", and so on for "multicast"
//   and "unknown"; "receive-rate 8000/4000", "transmit-rate 8000/4000" (bits)
// "native 1 tagged" keeps the tag of the native VLAN on egress. Frames are written as hexadecimal digits,
// zero-padded to their length.

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/bridge/counters.h"
#include "dataplane/bridge/epoch.h"
#include "dataplane/bridge/fdb.h"
#include "dataplane/bridge/forwarding_config.h"
#include "dataplane/bridge/pipeline.h"

namespace ringswitch::bridge {

using FrameBytes = std::vector<uint8_t>;
FrameBytes MakeFrame(size_t length, std::string_view hex);

// A port written as text; null: "none".
std::unique_ptr<PortConfig> ParsePort(std::string_view text);
// An FDB entry as the tables write it: "02:00:00:00:0a:01 10 p1", with "static" behind it where it is.
std::string FdbText(const FdbKey& key, PortIndex port, FdbKind kind);

// Addresses of the test bed: A to D live on p1 to p4.
inline constexpr MacAddress kA{0x0200'0000'0a01}, kB{0x0200'0000'0a02}, kC{0x0200'0000'0a03},
    kD{0x0200'0000'0a04};

// The frames that the tables share.
FrameBytes F1();   // untagged broadcast from A
FrameBytes F2();   // untagged unicast from B to A
FrameBytes F3();   // broadcast, VID 10, PCP 5
FrameBytes F5();   // broadcast, VID 4095
FrameBytes F6();   // broadcast, VID 20
FrameBytes F7();   // S-tag 100, C-tag 10
FrameBytes F8();   // two 0x8100 tags, 10 then 20
FrameBytes F9();   // LLDP group
FrameBytes F10();  // STP group
FrameBytes F11();  // just outside the reserved block
FrameBytes F12();  // source is a group address
FrameBytes F13();  // source all zero
FrameBytes F14();  // cut off after the tag
FrameBytes F15();  // runt
FrameBytes F16();  // IPv6 solicited-node group, from C

struct PortFrame {
  PortIndex port = 0;
  FrameBytes frame{};
  friend bool operator==(const PortFrame&, const PortFrame&) = default;
};
std::ostream& operator<<(std::ostream& out, const PortFrame& port_frame);

struct StaticEntry {
  MacAddress mac;
  VlanId vid = kVlanIdNone;
  PortIndex port = 0;
};

// One row of a table: what goes in, what must come out.
struct Row {
  std::string name{};                // cases of the field it stands for, and a sentence
  std::vector<const char*> ports{};  // p1, p2, ...
  SwitchConfig config{};
  std::vector<StaticEntry> statics{};  // entered first
  std::vector<PortFrame> before{};     // sent first, outputs not looked at
  PortFrame input{};
  uint32_t wire_length = 0;          // of a GSO super-frame; 0: the frame's own
  std::vector<PortFrame> outputs{};  // in order of port
  std::optional<DropReason> drop{};  // of the frame
  std::vector<EgressDrop> egress_drops{};
  std::optional<std::vector<std::string>>
      fdb{};  // afterwards, sorted: "02:00:00:00:0a:01 10 p1", static ones with "static"
};
void PrintTo(const Row& row, std::ostream* out);

class Testbed {
 public:
  explicit Testbed(const std::vector<const char*>& ports, const SwitchConfig& config = {},
                   uint32_t fdb_capacity = kFdbCapacityDefault);
  ~Testbed();

  // A new configuration, as the control side would publish it.
  void SetPort(PortIndex port, std::string_view text);
  void SetSwitch(const SwitchConfig& config);

  struct Result {
    bool forwarded = false;
    DropReason reason{};
    FrameClass frame_class{};
    std::vector<PortFrame> outputs;                         // in order of port
    std::vector<std::pair<PortIndex, DropReason>> dropped;  // copies
  };
  Result Send(PortIndex port, const FrameBytes& frame, uint32_t wire_length = 0);

  Fdb& fdb() { return fdb_; }
  Pipeline& pipeline() { return pipeline_; }
  PortMeters& meters(PortIndex port) { return meters_[port]; }
  void Age() { fdb_.AgeSlice(now_s, switch_config_.ageing_time_s, fdb_.slot_count()); }
  // Lets time pass.
  void Wait(uint32_t seconds);
  // Of a switch that counts per VLAN.
  const VlanCounters& VlanCountersOf(VlanId vid) const { return vlan_counters_[vid]; }
  PortTotals TotalsOf(PortIndex port) const;
  std::vector<std::string> FdbText() const;
  // Both ledgers of counters.h, on every port.
  void ExpectLedgersHold() const;

  uint32_t now_s = 1000;
  uint64_t now_ns = 1'000'000'000'000;

 private:
  void Publish();

  EpochDomain epochs_;
  Fdb fdb_;
  std::vector<PortCounters> counters_;
  std::vector<PortMeters> meters_;
  std::vector<VlanCounters> vlan_counters_;
  VlanCounters* vlan_counters_by_worker_[1];
  std::vector<std::unique_ptr<PortConfig>> port_configs_;  // by index
  SwitchConfig switch_config_;
  SwitchEntry switch_entry_;
  ForwardingConfig config_;
  Pipeline pipeline_;
  std::vector<uint64_t> transmitted_;  // copies per port, as the worker would count them
};

// Sends a row's frames through a new test bed and expects what the row says.
void ExpectRow(const Row& row);

// The tables. They are run by the pipeline alone, and on devices (tests/integration/dataplane_table_test.cc).
const std::vector<Row>& VlanRows();
const std::vector<Row>& VlanMatrixRows();
const std::vector<Row>& ForwardingRows();
const std::vector<Row>& PortRows();
const std::vector<Row>& GuardRows();

}  // namespace ringswitch::bridge
