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
// name, which Links' thread must not wait for. The same thread retries, each second and only while there is
// something to retry, ports whose device could not be attached and state that could not be written.
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
#include "server/agent/state_store.h"
#include "server/agent/verification.h"

namespace ringswitch::agent {

enum class PortState : uint8_t { kUp, kDown, kMissing };

// What a caller sees of an object at one moment.
struct SwitchView {
  SwitchSpec spec;
  uint32_t port_count = 0;
  uint32_t fdb_dynamic_count = 0;
  uint32_t fdb_static_count = 0;
  bridge::FdbEvents fdb_events;
  bridge::PortTotals totals;  // of all ports, now and before
};

struct PortView {
  PortSpec spec;
  PortState state = PortState::kUp;
  std::string state_detail;
  bridge::PortTotals totals;
  uint32_t fdb_dynamic_count = 0;
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

class SwitchModel {
 public:
  // All outlive the model.
  SwitchModel(Dataplane* dataplane, Links* links, StateStore* store);
  // Devices, state and dataplane stay as they are.
  ~SwitchModel() { Stop(); }
  SwitchModel(const SwitchModel&) = delete;
  SwitchModel& operator=(const SwitchModel&) = delete;

  // Once, before any other call: attaches what the state store knows.
  void Restore();
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
  absl::Status DeleteFdbEntry(const FdbEntryRequest& request);
  absl::StatusOr<uint32_t> FlushFdb(const FdbFilterRequest& filter);

 private:
  struct SwitchRecord {
    SwitchSpec spec;
    bridge::SwitchIndex index = 0;
    uint32_t port_count = 0;  // ports that are being made included
    std::map<std::pair<uint64_t, bridge::VlanId>, StaticFdbEntry> static_entries;
  };
  struct PortRecord {
    PortSpec spec;
    NamespaceId netns_id;
    std::optional<bridge::PortIndex> index;  // none: missing since the start
    PortState state = PortState::kUp;
    std::string state_detail;
  };

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
  FdbEntryView ViewOf(const SwitchRecord& record, const bridge::FdbRow& row) const;
  absl::StatusOr<bridge::FdbFilter> FilterOf(const SwitchRecord& record,
                                             const FdbFilterRequest& request) const;
  // The port that an FDB entry may point to, or why it may not.
  absl::StatusOr<const PortRecord*> FdbPort(const std::string& port_name, const SwitchRecord& record,
                                            bridge::FdbKey key) const;

  uint64_t TakeId(uint64_t StoredIds::*next);

  // With the lock of the switch's name held.
  absl::StatusOr<SwitchView> ApplySwitch(const Verified<SwitchSpec>& verified);
  absl::StatusOr<FdbEntryView> ApplyFdbEntry(const FdbEntryRequest& request, bool is_update,
                                             bool validate_only);
  void SaveStaticEntries(const std::string& switch_name);
  // Takes the static entries that `matches` says out of record, dataplane and disk.
  void RemoveStaticEntries(const std::string& switch_name,
                           const std::function<bool(const StaticFdbEntry&)>& matches);

  // With the lock of the port's name held.
  absl::StatusOr<PortView> MakePort(const std::string& name, const std::string& switch_name,
                                    const PortFieldPaths& paths, const VerifyPort& verify,
                                    bool validate_only);
  absl::StatusOr<PortView> ApplyPort(const Verified<PortSpec>& verified, bridge::SwitchIndex switch_index,
                                     const PortFieldPaths& paths);
  absl::StatusOr<PortView> ApplyPortChange(const PortRecord& present, const Verified<PortSpec>& verified,
                                           bridge::SwitchIndex switch_index);
  absl::StatusOr<PortView> ChangePort(const std::string& name, const VerifyChange& verify,
                                      bool validate_only);
  void RemovePort(const std::string& name);
  absl::Status StartWatch(const PortSpec& spec, const TapLink& tap);
  void EndWatch(const PortSpec& spec);
  // From then on the port is seen.
  PortView EnterPort(PortRecord record);
  absl::Status AttachPort(const PortRecord& port, bridge::SwitchIndex switch_index);
  // The port goes where its namespace is gone, and stays as missing where only the device cannot be had.
  void AttachOrRemove(const std::string& name);

  void RestoreSwitch(const SwitchSpec& spec, const std::vector<StaticFdbEntry>& entries);
  void RestorePorts(const std::vector<StoredPort>& ports);

  // The thread.
  void Run();
  void Handle(const LinkEvent& event);
  void HandleLink(const PortRecord& port, LinkEventKind kind);
  void RetryMissing();

  Dataplane* const dataplane_;
  Links* const links_;
  StateStore* const store_;
  KeyLocks keys_;

  mutable std::mutex mutex_;  // guards the following
  std::map<std::string, SwitchRecord> switches_;
  std::map<std::string, PortRecord> ports_;
  std::vector<std::string> port_names_;  // by PortIndex; empty: none, or one that is being made or removed
  std::map<uint64_t, std::string> watched_;  // names by watch id, ports that are being made included
  std::vector<std::string> restore_problems_;

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
