#pragma once

// The switch model: the switches, ports and FDB entries that the agent was asked for, and the calls that make
// them so.
//
// Theory of operation. Verify, then apply: each changing call has a request verified (verification.h), and
// what applies it takes only a Verified value. Applying goes step by step, namespace, watch, dataplane, state
// file, and every step that fails has the ones before it undone, so a call is all or nothing. Device and
// namespace work takes milliseconds: it is done under the lock of the object's name (key_lock.h), never under
// mutex_, so a listing waits for no namespace.
//
// Locks, in this order: a port's name, a switch's name ("switch:NAME"), mutex_. A port's name is held through
// its whole creation, change or removal; a switch's name through changes of the switch and of static FDB
// entries, and while a port is entered or leaves. mutex_ guards the maps and is held over dataplane calls
// that read or that publish a switch, which are short.
//
// Links' events are queued and handled by one thread of the model's own: handling one means taking locks by
// name, which Links' thread must not wait for. The same thread looks each second after ports whose device is
// missing, ports that BPDU guard has taken down or let up, and state that could not be written.
//
// Devices. A device is one port's: `claims_` says whose, for names in the agent's own namespace; in a pod's
// the kernel refuses the second one. A netdev or veth that goes away leaves its port without a device
// (Dataplane::DetachDevice), MISSING, until one of that name is there again; a TAP that was deleted is gone
// for good, and so is a port whose namespace is gone.
//
// Trials. A netdev that the node itself may live on is a port on trial until it is confirmed: when its time
// is over it is removed, by the same thread or, where no agent ran, at the start, before it is attached.
//
// Free of gRPC and protobuf; runs under ThreadSanitizer.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/dataplane.h"
#include "server/agent/desired_state.h"
#include "server/agent/key_lock.h"
#include "server/agent/links.h"
#include "server/agent/object_change.h"
#include "server/agent/state_store.h"
#include "server/agent/static_entries.h"
#include "server/agent/verification.h"

namespace ringswitch::agent {

enum class PortState : uint8_t { kUp, kDown, kMissing, kBlocked };

// Addresses that moved from one port to another.
struct PortMovesView {
  std::string from_port;
  std::string to_port;
  uint64_t moves = 0;
};

// What a caller sees of an object at one moment.
struct SwitchView {
  SwitchSpec spec;
  uint32_t port_count = 0;
  uint32_t fdb_dynamic_count = 0;
  uint32_t fdb_static_count = 0;
  bridge::FdbEvents fdb_events;
  std::vector<PortMovesView> moves;
  bridge::PortTotals totals;  // of all ports, now and before
};

struct PortView {
  PortSpec spec;
  PortState state = PortState::kUp;
  std::string state_detail;
  bridge::PortTotals totals;
  uint64_t device_lost_frames = 0;
  uint32_t fdb_dynamic_count = 0;
  std::optional<uint32_t> confirm_left_s;  // none: nothing to confirm
};

struct FdbEntryView {
  std::string switch_name;
  bridge::FdbRow row;
  std::string port_name;
};

struct VlanView {
  bridge::VlanId vid = 0;
  std::vector<std::string> tagged_ports;
  std::vector<std::string> untagged_ports;
  std::optional<VlanTotals> totals;  // none: the switch does not count per VLAN
};

// Which ports a listing shows, and from where.
struct PortFilter {
  std::string switch_name;  // empty: of all
  std::string pod;          // "namespace/name"; empty: of all
  bool attachments_only = false;
  std::string after;  // names beyond this one
  size_t rows_max = 1000;
};

template <typename View>
struct Page {
  std::vector<View> rows;
  bool has_more = false;
};

struct ModelCounts {
  uint32_t switches = 0;
  uint32_t ports = 0;
};

struct FdbPage {
  std::vector<FdbEntryView> rows;
  uint32_t next_cursor = 0;  // 0: the end
};

// Milliseconds of a clock that goes on while no agent runs, within one boot as the state does.
using BootClock = std::function<int64_t()>;
int64_t BootTimeMs();

class SwitchModel {
 public:
  // All outlive the model.
  SwitchModel(Dataplane* dataplane, Links* links, StateStore* store, BootClock clock = BootTimeMs);
  // Devices, state and dataplane stay as they are.
  ~SwitchModel() { Stop(); }
  SwitchModel(const SwitchModel&) = delete;
  SwitchModel& operator=(const SwitchModel&) = delete;

  // Once, before any other call: attaches what the state store knows.
  void Restore();
  // A port of the configuration file: made now or, where what it needs is not there yet (a NIC that comes
  // late), as soon as it can be; Problems() says meanwhile why not.
  void WantPort(const PortRequest& request);
  // Ends the thread: Links is not used any more, and may go before the model, which its events still reach
  // until then.
  void Stop();
  // From Links' thread.
  void OnLinkEvent(const LinkEvent& event);
  // For people; empty when all is well.
  std::vector<std::string> Problems() const;
  ModelCounts Counts() const;

  // Switches. `validate_only`: all that can be checked without doing it.
  absl::StatusOr<SwitchView> CreateSwitch(const SwitchRequest& request, bool validate_only);
  // Makes one with defaults where there is none: true.
  absl::StatusOr<bool> EnsureSwitch(const std::string& name);
  absl::StatusOr<SwitchView> GetSwitch(const std::string& name) const;
  Page<SwitchView> ListSwitches(const std::string& after, size_t rows_max) const;
  absl::StatusOr<SwitchView> UpdateSwitch(const SwitchUpdate& update, bool validate_only);
  absl::Status DeleteSwitch(const std::string& name, bool validate_only);

  // Ports.
  absl::StatusOr<PortView> CreatePort(const PortRequest& request, bool validate_only);
  absl::StatusOr<PortView> CreateAttachment(const AttachmentRequest& request);
  absl::StatusOr<PortView> GetPort(const std::string& name) const;
  Page<PortView> ListPorts(const PortFilter& filter) const;
  absl::StatusOr<PortView> UpdatePort(const PortUpdate& update, bool validate_only);
  absl::Status DeletePort(const std::string& name, bool validate_only);
  // Ends the trial of a port, which stays. NOT_FOUND also where its time is over.
  absl::StatusOr<PortView> ConfirmPort(const std::string& name);
  // Changes what an attachment holds: `edit` gets a copy and may do slow work; where it fails nothing is
  // changed. NOT_FOUND: no such port, or it is no attachment.
  absl::StatusOr<PortView> EditAttachment(const std::string& port_name,
                                          const std::function<absl::Status(PortSpec*)>& edit);

  // VLANs.
  absl::StatusOr<std::vector<VlanView>> ListVlans(const std::string& switch_name,
                                                  const std::vector<VlanRange>& ranges) const;
  absl::StatusOr<PortView> ChangeVlans(const std::string& port_name, const std::vector<VlanRange>& ranges,
                                       bool add);

  // FDB.
  absl::StatusOr<FdbEntryView> CreateFdbEntry(const FdbEntryRequest& request, bool validate_only);
  absl::StatusOr<FdbEntryView> GetFdbEntry(const FdbEntryRequest& request) const;
  absl::StatusOr<FdbPage> ListFdbEntries(const FdbFilterRequest& filter, uint32_t cursor,
                                         uint32_t rows_max) const;
  absl::StatusOr<FdbEntryView> UpdateFdbEntry(const FdbEntryRequest& request, bool validate_only);
  // All or nothing: the number of entries made or changed.
  absl::StatusOr<uint32_t> CreateFdbEntries(const FdbBulkRequest& request);
  absl::Status DeleteFdbEntry(const FdbEntryRequest& request);
  absl::StatusOr<uint32_t> FlushFdb(const FdbFilterRequest& filter);

  // Watching. `observer` hears of each switch and port that is made, changes, changes its state or goes, with
  // mutex_ held: it must only note it down. FDB entries, static ones too, are heard of by TakeFdbChanges.
  void SetObserver(std::function<void(const ObjectChange&)> observer);
  // As Fdb::SetLogging and Fdb::TakeChanges, in names; one reader. Nothing where there is no such switch.
  void SetFdbLogging(const std::string& switch_name, bool is_logging);
  bool TakeFdbChanges(const std::string& switch_name, std::vector<ObjectChange>* changes);

  // Of a switch that counts per VLAN, by VID.
  std::vector<VlanTotals> ReadVlans(const std::string& switch_name) const;

  // Capturing. The ports named; with a switch's name and no ports, all of that switch. NOT_FOUND: no such
  // port, or no such switch. A port whose device has been missing since the start is left out.
  absl::StatusOr<std::vector<bridge::PortIndex>> PortIndexes(const std::vector<std::string>& names,
                                                             const std::string& switch_name) const;
  // Of the port that has the index now, or had it last; empty: none ever had.
  std::string PortNameOf(bridge::PortIndex index) const;

 private:
  struct SwitchRecord {
    SwitchSpec spec;
    bridge::SwitchIndex index = 0;
    uint32_t port_count = 0;  // ports that are being made included
    StaticEntries static_entries;
  };
  struct PortRecord {
    PortSpec spec;
    NamespaceId netns_id;
    std::optional<bridge::PortIndex> index;  // none: missing since the start
    // Of the device; what the port's administrator and BPDU guard say comes on top.
    PortState state = PortState::kUp;
    std::string state_detail;
    bool is_blocked = false;  // as told to the observer
  };

  class FdbBulk;  // one CreateFdbEntries: switch_model_fdb_bulk.cc

  using VerifyPort = std::function<absl::StatusOr<Verified<PortSpec>>(const SwitchSpec* on)>;
  using VerifyChange =
      std::function<absl::StatusOr<Verified<PortSpec>>(const PortSpec& present, const SwitchSpec& on)>;

  // With mutex_ held. The pointers are null, and the errors NOT_FOUND, where there is no such object.
  const SwitchRecord* FindSwitch(const std::string& name) const;
  SwitchRecord* FindSwitch(const std::string& name);
  const PortRecord* FindPort(const std::string& name) const;
  PortRecord* FindPort(const std::string& name);
  SwitchView ViewOf(const SwitchRecord& record) const;
  PortView ViewOf(const PortRecord& record) const;
  void Notify(const SwitchSpec& spec, bool is_deleted) const;
  void Notify(const PortSpec& spec, bool is_deleted) const;
  FdbEntryView ViewOf(const SwitchRecord& record, const bridge::FdbRow& row) const;
  absl::StatusOr<bridge::FdbFilter> FilterOf(const SwitchRecord& record,
                                             const FdbFilterRequest& request) const;
  // The port that an FDB entry may point to, or why it may not.
  absl::StatusOr<const PortRecord*> FdbPort(const std::string& port_name, const SwitchRecord& record,
                                            bridge::FdbKey key) const;

  uint64_t TakeId(uint64_t StoredIds::*next);
  bool IsTrialOver(const PortSpec& spec) const;
  std::optional<uint32_t> ConfirmLeft(const PortSpec& spec) const;

  // With the lock of the switch's name held.
  absl::StatusOr<SwitchView> ApplySwitch(const Verified<SwitchSpec>& verified);
  absl::StatusOr<FdbEntryView> ApplyFdbEntry(const FdbEntryRequest& request, bool is_update,
                                             bool validate_only);
  // What has just been done to `record`, on disk.
  void SaveStaticEntries(const SwitchRecord& record, const StaticFdbChange& change);
  // Takes the static entries of a port, or of all ("") ports, that `matches` says out of record, dataplane
  // and disk.
  void RemoveStaticEntries(const std::string& switch_name, const std::string& port_name,
                           const std::function<bool(bridge::FdbKey)>& matches);

  // With the lock of the port's name held.
  absl::StatusOr<PortView> MakePort(const std::string& name, const std::string& switch_name,
                                    const PortFieldPaths& paths, const VerifyPort& verify,
                                    bool validate_only);
  absl::StatusOr<PortView> ApplyPort(const Verified<PortSpec>& verified, bridge::SwitchIndex switch_index,
                                     const PortFieldPaths& paths);
  // Device, watch, dataplane and file of a new port; undone on failure.
  absl::Status BuildPort(PortRecord* record, bridge::SwitchIndex switch_index, const PortFieldPaths& paths);
  absl::StatusOr<PortView> ApplyPortChange(const PortRecord& present, const Verified<PortSpec>& verified,
                                           bridge::SwitchIndex switch_index);
  absl::StatusOr<PortView> ChangePort(const std::string& name, const VerifyChange& verify,
                                      bool validate_only);
  void RemovePort(const std::string& name);
  // True: the port's trial was over, and it is removed.
  bool EndTrial(const std::string& name);
  absl::Status StartWatch(const PortSpec& spec, const PortLink* link);
  void EndWatch(const PortSpec& spec);
  // From then on the port is seen.
  PortView EnterPort(PortRecord record);

  // Devices. Claims with mutex_ held, the rest with the lock of the port's name.
  absl::Status CheckClaims(const PortSpec& spec) const;
  absl::Status ClaimDevice(const PortSpec& spec);
  void ReleaseClaims(const PortSpec& spec);
  absl::StatusOr<PortLink> MakeDevice(PortSpec* spec);
  absl::StatusOr<PortLink> OpenDevice(const PortRecord& port);
  void DeleteDevice(const PortSpec& spec, File file);
  // Gives a port whose device is missing what is there now.
  absl::Status AttachPort(PortRecord port, bridge::SwitchIndex switch_index);
  absl::Status AttachNewPort(PortRecord* port, PortLink link, bridge::SwitchIndex switch_index);
  absl::Status AttachKnownPort(PortRecord* port, PortLink link, bridge::SwitchIndex switch_index);
  void AddStaticEntries(const PortSpec& spec, bridge::PortIndex index);
  // The port goes where its namespace is gone, and stays as missing where only the device cannot be had.
  void AttachOrRemove(const std::string& name);

  void RestoreSwitch(const SwitchSpec& spec, const std::vector<StaticFdbEntry>& entries);
  void DeleteUnmade(const StoredPort& port);
  void RestorePorts(const std::vector<StoredPort>& ports);

  // The thread.
  void Run();
  void Handle(const LinkEvent& event);
  void HandleLink(const PortRecord& port, LinkEventKind kind);
  // A netdev's MAC address and MTU are the port's.
  void FollowNetdev(const PortRecord& port, bridge::MacAddress mac, uint32_t mtu);
  // With mutex_ held.
  void SetDeviceState(const PortSpec& spec, PortState state, const std::string& detail);
  void LookAfterPorts();
  void MakeWantedPorts();
  void LookAfter(const std::string& name);
  void FlushDynamic(const PortRecord& port);

  Dataplane* const dataplane_;
  Links* const links_;
  StateStore* const store_;
  const BootClock clock_;
  KeyLocks keys_;

  mutable std::mutex mutex_;  // guards the following
  std::map<std::string, SwitchRecord> switches_;
  std::map<std::string, PortRecord> ports_;
  std::vector<std::string> port_names_;  // by PortIndex; empty: none, or one that is being made or removed
  std::vector<std::string> last_port_names_;   // by PortIndex, also of ports that are gone
  std::map<uint64_t, std::string> watched_;    // names by watch id, ports that are being made included
  std::map<std::string, std::string> claims_;  // port by own_ifname, ports that are being made included
  std::function<void(const ObjectChange&)> observer_;
  std::vector<std::string> restore_problems_;
  struct WantedPort {
    PortRequest request;
    std::string cause;  // why it is not there
  };
  std::vector<WantedPort> wanted_ports_;

  std::mutex ids_mutex_;  // guards the following; held over the writing of ids_
  StoredIds ids_;
  StoredIds ids_saved_;  // on disk: a restarted agent goes on from here

  std::mutex events_mutex_;  // guards the following
  std::condition_variable events_changed_;
  std::deque<LinkEvent> events_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace ringswitch::agent
