#pragma once

// The watch hub: tells those who watch what has changed.
//
// Theory of operation. A change is an object's name and a revision, kept in a journal (watch_journal.h); its
// value is read from the model when it is sent, never before. A client is a revision: what is beyond it in
// the journal is what the client has yet to be told. So several changes of an object are one, a client that
// does not read costs nothing but a message that gRPC holds for it, and no change is copied per client.
//
// Snapshot. The client's revision is set to the present one, then the model's own listings are sent page by
// page. What changes meanwhile is beyond that revision and is sent afterwards. Whatever a listing showed or
// missed, the last change of an object is noted down before its value is read for the last time: a snapshot
// and the changes after it are, once all is quiet, what a listing shows.
//
// Losses. A client whose revision the journal no longer reaches back to is told so (overflow) and gets
// another snapshot, no sooner than a second after the one before, so that a flood of changes does not make a
// flood of snapshots. Resuming is the same question: does the journal reach back to the revision given? The
// first revision is the clock's: one of an agent before this one is below it.
//
// FDB. Entries change on the frame path, which logs changes only of switches whose entries somebody watches,
// or has watched within the last half minute (who lost a connection may come back and resume). The hub
// empties the logs every 20 ms. A log that has lost changes, or was off, is an entry's change that nobody
// knows of: its `complete_since` is raised, and who has not read that far has lost something. A port's
// entries are hidden while it is being made, so they are taken as changed once it is there.
//
// Threads. Everything is read, sent and ended by one thread of the hub's own: watching takes one thread's
// time at the most, and one client's messages never overlap. The model's observer only writes into the
// journal. mutex_ is taken last, under the model's lock, and never held over calls of the model or of a
// client.
//
// Free of gRPC and protobuf; runs under ThreadSanitizer.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/agent/object_change.h"
#include "server/agent/switch_model.h"
#include "server/agent/watch_journal.h"
#include "server/agent/watch_listing.h"

namespace ringswitch::agent {

enum class WatchMark : uint8_t { kNone, kSynced, kOverflow, kResumeRefused };

struct WatchMessage {
  uint64_t revision = 0;  // 0: within a snapshot
  WatchMark mark = WatchMark::kNone;
  std::vector<WatchedObject> objects;
};

// A client's stream. Called by the hub's thread, without locks held.
class WatchStream {
 public:
  virtual ~WatchStream() = default;
  // Begins to send; must not block. No other call comes before WatchHub::Written.
  virtual void Send(const WatchMessage& message) = 0;
  // The last call.
  virtual void End(const absl::Status& status) = 0;
};

// Limits, each with its reason.
struct WatchLimits {
  size_t clients_max = 64;                       // more than the tools of a node
  size_t journal_objects_max = 16384;            // 6 MB; a default FDB, learned at once
  std::chrono::milliseconds log_interval{20};    // 800 000 changes a second fit into an FDB's log
  std::chrono::milliseconds log_linger{30'000};  // a client that lost its connection is back by then
  std::chrono::milliseconds snapshot_interval{1000};
};

class WatchHub {
 public:
  // The model outlives the hub.
  explicit WatchHub(SwitchModel* model, const WatchLimits& limits = {});
  // All clients have been ended.
  ~WatchHub();
  WatchHub(const WatchHub&) = delete;
  WatchHub& operator=(const WatchHub&) = delete;

  // Takes the client and returns its id; the stream must live until it is ended. `resume_revision` 0: begin
  // with a snapshot. INVALID_ARGUMENT: nothing to watch. NOT_FOUND: no such switch. RESOURCE_EXHAUSTED: too
  // many clients. UNAVAILABLE: the agent ends.
  absl::StatusOr<uint64_t> Open(const WatchFilter& filter, uint64_t resume_revision, WatchStream* stream);
  // The message was sent, or never will be: then the client is ended.
  void Written(uint64_t id, bool is_sent);
  // The client is ended, after the message that is being sent.
  void Leave(uint64_t id);
  // As Leave, for all clients, and no others are taken. Does not wait.
  void EndAll();

 private:
  using Clock = std::chrono::steady_clock;

  struct Client {
    WatchFilter filter;
    WatchStream* stream = nullptr;
    // Guarded by mutex_.
    bool is_sending = false;
    bool is_leaving = false;
    // Of the hub's thread.
    bool is_new = true;
    uint64_t revision = 0;                       // what it has been told; at first where it wants to resume
    std::optional<WatchListing> listing;         // its snapshot, until all is sent
    std::optional<Clock::time_point> listed_at;  // when the last one began
    std::optional<uint64_t> synced_at;           // it is told that it is synced when it has come that far
  };

  // An FDB's log of changes.
  struct FdbLog {
    bool is_on = false;
    bool is_wanted = false;
    uint64_t complete_since = 0;  // changes up to it may be missing
    Clock::time_point wanted_at;
  };

  // Under the model's lock.
  void Observe(const ObjectChange& change);
  void NoteForLogs(const ObjectChange& change);

  // The thread.
  void Run();
  void RefreshLogs();
  void TurnOn(const std::string& switch_name, FdbLog* log);
  void ExpireLogs();
  std::set<std::string> SwitchesWanted() const;
  void TakeLogs();
  void TakeLog(const std::string& switch_name, FdbLog* log);
  void RecordEntriesOf(const std::string& switch_name, const std::string& port_name);
  void Serve();
  std::optional<WatchMessage> NextMessage(Client* client);
  std::optional<WatchMessage> Begin(Client* client);
  WatchMessage StartListing(Client* client, WatchMark mark);
  WatchMessage ListPage(Client* client);
  std::optional<WatchMessage> Changes(Client* client);
  // Appends what the client has not been told, a message's worth, and returns how far it has read then.
  uint64_t Collect(const WatchFilter& filter, uint64_t revision, std::vector<ObjectChange>* changes) const;
  // Under mutex_.
  uint64_t FloorOf(const WatchFilter& filter) const;
  bool HasLost(const WatchFilter& filter, uint64_t revision) const;
  uint64_t revision() const;
  uint64_t NextRevision();

  SwitchModel* const model_;
  const WatchLimits limits_;
  const uint64_t first_revision_;

  mutable std::mutex mutex_;  // guards the following
  std::condition_variable changed_;
  uint64_t revision_;  // the last one given
  WatchJournal objects_;
  WatchJournal fdb_;
  std::map<uint64_t, Client> clients_;  // erased by the hub's thread only
  uint64_t next_id_ = 1;
  bool has_work_ = false;
  bool is_ending_ = false;       // no more clients
  bool is_stopping_ = false;     // no more thread
  bool are_logs_stale_ = false;  // who wants which log has changed
  // What the thread has yet to do about logs, kept while there are clients or logs.
  bool is_fdb_watched_ = false;                                  // there are logs
  std::set<std::pair<std::string, std::string>> changed_ports_;  // switch and port
  std::map<std::string, uint64_t> undrained_;                    // switches whose ports went, and when
  std::map<std::string, bool> gone_switches_;                    // and whether they were undrained

  // Of the thread.
  std::map<std::string, FdbLog> logs_;
  Clock::time_point logs_taken_at_;
  bool is_waiting_for_time_ = false;

  std::thread thread_;
};

}  // namespace ringswitch::agent
