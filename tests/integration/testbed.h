#pragma once

// A dataplane with real TAPs and veths in a network namespace of the test's own, and packet sockets in the
// pods' stead.
//
// Each Testbed moves the calling thread into a fresh network namespace, which goes with everything in it when
// the test ends. A Pod is a device and packet sockets on it: a TAP attached to the dataplane, or the far end
// of a veth whose near end is. What it sends is what the dataplane reads, and what it receives is what the
// dataplane wrote, with the tag put back that the kernel takes out of received frames.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/dataplane.h"

namespace ringswitch::test {

using Bytes = std::vector<uint8_t>;

inline constexpr std::chrono::milliseconds kSoon{1000};  // for what must happen
inline constexpr std::chrono::milliseconds kQuiet{30};   // for what must not

// --- variants of the dataplane that a test is run with ---

enum class PodKind : uint8_t { kTap, kVeth, kMixed };  // mixed: one after the other, a TAP first

struct BedOptions {
  DataplaneOptions dataplane;
  PodKind pods = PodKind::kTap;
};
inline BedOptions Variant(RxMode rx_mode, uint32_t workers, uint32_t buffers = kBuffersPerWorkerDefault,
                          PodKind pods = PodKind::kTap) {
  return {{workers, buffers, rx_mode}, pods};
}
inline BedOptions Variant(RxMode rx_mode, uint32_t workers, PodKind pods) {
  return Variant(rx_mode, workers, kBuffersPerWorkerDefault, pods);
}
inline std::string VariantName(const testing::TestParamInfo<BedOptions>& info) {
  const DataplaneOptions& options = info.param.dataplane;
  const char* const kKinds[] = {"", "Veth", "Mixed"};
  return (options.rx_mode == RxMode::kOneshot ? "Oneshot" : "Auto") + std::to_string(options.workers) +
         "Buffers" + std::to_string(options.buffers_per_worker) +
         kKinds[static_cast<size_t>(info.param.pods)];
}

// --- frames ---

std::string ToHex(const Bytes& bytes);

bridge::MacAddress PodMac(int pod);
inline constexpr bridge::MacAddress kBroadcast{0xffff'ffff'ffff};
// `length` bytes in all; EtherType 0x88b5, then `number`, then a pattern. With `tci`, an 802.1Q tag (the
// frame is 4 bytes longer).
Bytes MakeFrame(bridge::MacAddress destination, bridge::MacAddress source, uint32_t number,
                size_t length = 64, std::optional<uint16_t> tci = std::nullopt);
uint32_t NumberOf(const Bytes& frame);  // of MakeFrame's, tagged or not; UINT32_MAX for any other

// --- port configurations ---

bridge::PortConfig AccessPort(bridge::SwitchIndex index, bridge::VlanId vid);
bridge::PortConfig TrunkPort(bridge::SwitchIndex index, const std::vector<bridge::VlanId>& vids,
                             bridge::VlanId native = 0);

class Pod {
 public:
  explicit Pod(const std::string& ifname);

  const std::string& ifname() const { return ifname_; }
  bool Send(const Bytes& frame);
  // With a virtio-net header of 10 bytes in front.
  bool SendWithHeader(const Bytes& header_and_frame);
  // The next frame, tag restored.
  std::optional<Bytes> Receive(std::chrono::milliseconds timeout = kSoon);
  // The next frame with the virtio-net header in front, as the kernel describes it; the tag stays out.
  std::optional<Bytes> ReceiveWithHeader(std::chrono::milliseconds timeout = kSoon);
  // The numbers of the next `count` frames of MakeFrame, which must come soon, and of any that should not
  // have come after them.
  std::vector<uint32_t> ReceiveNumbers(size_t count);
  void Discard();  // what waits

 private:
  std::string ifname_;
  File sender_;
  File header_sender_;
  File receiver_;
  File header_receiver_;
};

class Testbed {
 public:
  explicit Testbed(const BedOptions& options);
  ~Testbed();

  Dataplane& dataplane() { return *dataplane_; }
  bridge::SwitchIndex switch_index() const { return switch_; }
  // A device named pN, up, attached with this configuration. Of a veth, the near end is named hN.
  int AddPod(const bridge::PortConfig& config);
  int AddPod(const bridge::PortConfig& config, PodKind kind);
  int AddPod(bridge::VlanId vid = 1) { return AddPod(AccessPort(switch_, vid)); }
  Pod& pod(int index) { return *pods_[index]; }
  bridge::PortIndex port(int index) const { return ports_[index]; }
  const std::vector<bridge::PortIndex>& ports() const { return ports_; }
  // What the dataplane has of it.
  std::string near_ifname(int index) const { return (is_veth_[index] ? "h" : "p") + std::to_string(index); }
  // Takes it out of the dataplane and deletes the device.
  void RemovePod(int index);
  int pod_count() const { return static_cast<int>(pods_.size()); }

  bridge::PortTotals totals(int index) { return dataplane_->ReadPort(ports_[index]).totals; }
  uint64_t drops(int index, bridge::DropReason reason) {
    return totals(index).drops[static_cast<size_t>(reason)];
  }
  // Every worker at rest and the counters steady.
  void Settle();
  // Both ledgers of every port and of the switch balance, and no buffer is held.
  void ExpectLedgersBalance();

 private:
  const PodKind kind_;
  std::unique_ptr<Dataplane> dataplane_;
  bridge::SwitchIndex switch_ = 0;
  std::vector<bool> is_veth_;  // by pod
  std::vector<std::unique_ptr<Pod>> pods_;
  std::vector<bridge::PortIndex> ports_;
};

// Every frame these ports received, and then every copy that was queued on them, has met its fate: nothing is
// under way between them.
bool IsQuiet(Dataplane* dataplane, const std::vector<bridge::PortIndex>& ports);

Device TapDevice(File tap);
void EnterFreshNamespace();
void MakeVeth(const std::string& ifname, const std::string& peer);
// Until the kernel sends through the device: it starts its queue some time after the link is up, and what is
// sent before is lost without a word.
void AwaitCarrier(const std::string& ifname);
// Runs a tool with its arguments, which must succeed.
void RunTool(const std::vector<std::string>& command);
void SetLinkUp(const std::string& ifname, bool up);
void SetMtu(const std::string& ifname, int mtu);
void SetQueueLength(const std::string& ifname, int frames);
void SetSuperFrameMax(const std::string& ifname, uint32_t bytes);  // beyond 65536: IPv6 only
void DeleteLink(const std::string& ifname);
int OpenFileCount();

// Keeps the worker threads of this process from running, as a stopped process would be.
class StalledWorkers {
 public:
  StalledWorkers();
  ~StalledWorkers();
};

}  // namespace ringswitch::test
