#pragma once

// The dataplane as the agent sees it: workers, switches, ports, FDB, counters. The only header of the
// dataplane, beside the value types it includes, that server/ may use.
//
// Theory of operation. Start makes the workers; each owns a ring, a buffer pool, a pipeline and the receive
// queues of its ports. Control calls come from any thread, are serialised by one mutex and never make a
// worker wait: a new configuration is built aside, published by pointer and picked up between two batches
// (bridge/epoch.h); a port's device is announced to each worker through its mailbox, and a call that needs
// every worker's answer blocks the caller, not the worker. Nothing here stops other ports.
//
// Removing a port: it leaves the configuration; its owner cancels the armed reads and waits for their last
// completion; every worker forgets the file and acknowledges; its FDB entries go; then the file descriptor is
// closed on the calling thread (20 ms for the last one of a TAP) and only then may the index be given to
// another port.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/bridge/counters.h"
#include "dataplane/bridge/fdb.h"
#include "dataplane/bridge/forwarding_config.h"
#include "dataplane/bridge/frame.h"
#include "dataplane/bridge/vlan_set.h"
#include "dataplane/capture.h"
#include "dataplane/file.h"

namespace ringswitch {

enum class RxMode : uint8_t {
  kAuto,       // multishot where the kernel has it
  kMultishot,  // one armed read, many frames; Linux 6.7
  kOneshot,    // re-armed single reads; Linux 6.1
};

// Limits, each with its reason.
inline constexpr uint32_t kBuffersPerWorkerMin = 16;  // a batch of one flood with its copy, and some
inline constexpr uint32_t kBuffersPerWorkerMax =
    4096;  // 280 MB; more never helped (few hot buffers are faster)
inline constexpr uint32_t kBuffersPerWorkerDefault = 256;  // 18 MB

struct DataplaneOptions {
  uint32_t workers = 1;  // 1 to bridge::kWorkersMax
  uint32_t buffers_per_worker = kBuffersPerWorkerDefault;
  RxMode rx_mode = RxMode::kAuto;
};

struct WorkerStats {
  double busy_seconds = 0;  // time spent on batches, sleep and spin left out
  uint64_t batches = 0;
  uint64_t frames = 0;  // received
  uint64_t no_buffer_events = 0;
  uint32_t buffers = 0;
  uint32_t buffers_held = 0;            // neither in the pool nor in the kernel
  uint64_t batch_size_buckets[9] = {};  // batches of up to 1, 2, 4, ... 128, more frames
};

// A port as the dataplane knows it.
struct PortStats {
  bridge::PortTotals totals;
  bool has_device = false;
  bool device_gone = false;         // the device was deleted
  bool blocked = false;             // BPDU guard has taken the port down
  uint32_t blocked_left_s = 0;      // seconds until it comes up by itself; 0: by hand only
  uint64_t device_lost_frames = 0;  // netdev: frames that found the socket's receive queue full
};

// Frames of one VLAN of a switch, since its counters were switched on.
struct VlanTotals {
  bridge::VlanId vid = 0;
  uint64_t receive_frames = 0, receive_bytes = 0, transmit_frames = 0, transmit_bytes = 0;
};

// An open device, ready to be a port's.
struct Device {
  enum class Kind : uint8_t {
    kTap,     // /dev/net/tun, virtio-net header
    kPacket,  // AF_PACKET socket bound to an interface, virtio-net header and auxiliary data
  };
  Kind kind = Kind::kTap;
  File file;
  // False: what is written has its checksums completed and its super-frames segmented before.
  bool takes_offload = true;
};

// Opens /dev/net/tun in the calling thread's network namespace and makes (`create`) or re-attaches to the TAP
// `ifname`, with virtio-net header of 10 bytes, multi-queue flag and every offload the kernel
// takes (checksum, TSO4, TSO6, ECN, USO). The flags never change: a re-attach demands the same.
// ALREADY_EXISTS: `create` and a device of that name is there. NOT_FOUND: !create and none is.
// FAILED_PRECONDITION: another process holds it, or it is no TAP of ours.
absl::StatusOr<File> OpenTap(const std::string& ifname, bool create);
// Whether the device outlives its last file. One that was just made does not: an agent that dies before it
// has noted a port down must not leave the device to nobody.
absl::Status SetTapPersistent(const File& tap, bool is_persistent);
// Opens an AF_PACKET socket on the Ethernet device `ifname` of the calling thread's network namespace, made
// promiscuous as long as the socket is open; its own transmissions and those of other sockets are not heard.
// The socket pins the namespace. NOT_FOUND: no such device. FAILED_PRECONDITION: it is no Ethernet device.
// PERMISSION_DENIED: CAP_NET_RAW is missing.
absl::StatusOr<Device> OpenNetdev(const std::string& ifname);

class Dataplane {
 public:
  // UNAVAILABLE: io_uring cannot be had; the message is one line with cause and remedy (seccomp,
  // kernel.io_uring_disabled, RLIMIT_MEMLOCK, old kernel). INVALID_ARGUMENT: an option is out of range, or
  // rx_mode asks for what the kernel lacks.
  static absl::StatusOr<std::unique_ptr<Dataplane>> Start(const DataplaneOptions& options);
  // Stops the workers, closes every file. TAPs stay, being persistent.
  ~Dataplane();
  Dataplane(const Dataplane&) = delete;
  Dataplane& operator=(const Dataplane&) = delete;

  RxMode rx_mode() const;  // kMultishot or kOneshot

  // RESOURCE_EXHAUSTED: kSwitchesMax switches exist.
  absl::StatusOr<bridge::SwitchIndex> AddSwitch(const bridge::SwitchConfig& config, uint32_t fdb_capacity);
  void UpdateSwitch(bridge::SwitchIndex index, const bridge::SwitchConfig& config);
  void RemoveSwitch(bridge::SwitchIndex index);  // has no ports

  // Takes the open device. Frames flow when it returns. RESOURCE_EXHAUSTED: kPortsMax ports exist.
  absl::StatusOr<bridge::PortIndex> AddPort(const bridge::PortConfig& config, Device device);
  // The port stays, with its configuration and counters, and has no device: its frames are dropped as
  // egress_device_gone, its dynamic FDB entries are flushed. Returns the file as RemovePort does.
  File DetachDevice(bridge::PortIndex index);
  // Gives a port without a device one. Frames flow when it returns OK.
  absl::Status AttachDevice(bridge::PortIndex index, Device device);
  // VLANs that the port leaves are flushed of its dynamic entries. Every worker has the new configuration
  // when it returns.
  // A port that is set down is flushed of them; one whose BPDU guard changes, or that is set up or down, is
  // no longer blocked.
  void UpdatePort(bridge::PortIndex index, const bridge::PortConfig& config);
  // Returns the file, no longer used by any worker: closing it blocks, so the caller does it where that hurts
  // nobody. The counters are added to the switch's retired totals.
  File RemovePort(bridge::PortIndex index);

  // FDB of a switch.
  bridge::FdbResult AddStaticFdbEntry(bridge::SwitchIndex index, bridge::FdbKey key, bridge::PortIndex port,
                                      bool replace_static);
  bridge::FdbResult RemoveFdbEntry(bridge::SwitchIndex index, bridge::FdbKey key);
  std::optional<bridge::FdbRow> FindFdbEntry(bridge::SwitchIndex index, bridge::FdbKey key) const;
  uint32_t FlushFdb(bridge::SwitchIndex index, const bridge::FdbFilter& filter);
  uint32_t ListFdb(bridge::SwitchIndex index, uint32_t cursor, const bridge::FdbFilter& filter,
                   uint32_t rows_max,
                   std::vector<bridge::FdbRow>* rows) const;  // as Fdb::List
  uint32_t FdbCount(bridge::SwitchIndex index, bridge::FdbKind kind) const;
  uint32_t FdbDynamicCount(bridge::SwitchIndex index, bridge::PortIndex port) const;
  bridge::FdbEvents FdbEvents(bridge::SwitchIndex index) const;
  std::vector<bridge::FdbMoves> FdbMoves(bridge::SwitchIndex index) const;
  // As Fdb::SetLogging and Fdb::TakeChanges.
  void SetFdbLogging(bridge::SwitchIndex index, bool is_logging);
  bool TakeFdbChanges(bridge::SwitchIndex index, std::vector<bridge::FdbChange>* changes);

  // Counters. They never go backwards.
  PortStats ReadPort(bridge::PortIndex index) const;
  bridge::PortTotals ReadSwitch(bridge::SwitchIndex index) const;  // ports now and before
  std::vector<WorkerStats> ReadWorkers() const;
  // By VID, those with frames; empty where the switch does not count per VLAN.
  std::vector<VlanTotals> ReadVlans(bridge::SwitchIndex index) const;

  // Frames at ports, as they come and go, for a capture. The capture must outlive StopCapture, after which no
  // worker uses it. RESOURCE_EXHAUSTED: kCapturesMax are running.
  absl::Status StartCapture(Capture* capture);
  void StopCapture(Capture* capture);

 private:
  Dataplane();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringswitch
