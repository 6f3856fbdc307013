#pragma once

// Stand-ins for what is around the watch hub. The switch model is faked at link time: watch_fakes.cc defines
// those of its members that the hub calls, on one FakeModel.

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/agent/watch_hub.h"

namespace ringswitch::agent {

// What exists, and the log of each FDB.
class FakeModel {
 public:
  using EntryKey = std::pair<uint64_t, bridge::VlanId>;  // MAC address and VID
  struct Switch {
    uint32_t ageing_time_s = 300;
    std::map<EntryKey, std::string> entries;  // port by key
    bool is_logging = false;
    bool has_overflowed = false;
    std::vector<ObjectChange> log;
  };
  struct Port {
    std::string switch_name;
    uint32_t mtu = 1500;
    bool is_hidden = false;  // being made: its entries are in no listing
  };

  FakeModel();
  ~FakeModel();

  void PutSwitch(const std::string& name, uint32_t ageing_time_s = 300);
  void DeleteSwitch(const std::string& name);  // without ports
  void PutPort(const std::string& name, const std::string& switch_name, uint32_t mtu = 1500);
  // Frames flow already.
  void HidePort(const std::string& name, const std::string& switch_name);
  void DeletePort(const std::string& name);
  // As a frame would; the port may be hidden. Nothing where there is no such port.
  void Learn(const std::string& port_name, uint64_t mac, bridge::VlanId vid = 1);
  void Forget(const std::string& switch_name, uint64_t mac, bridge::VlanId vid = 1);

  // Everything that a listing shows, as lines.
  std::set<std::string> Listing();
  bool IsLogging(const std::string& switch_name);
  int reads();  // of single objects

  std::mutex mutex;  // guards the following
  std::map<std::string, Switch> switches;
  std::map<std::string, Port> ports;
  std::function<void(const ObjectChange&)> observer;
  size_t log_max = bridge::kFdbChangesMax;
  int read_count = 0;

 private:
  void Log(Switch* on, const std::string& switch_name, EntryKey key, const std::string& port, bool deleted);
  void NotifyPort(const std::string& name, const std::string& switch_name, bool deleted);
};

// One line of FakeModel::Listing; deleted objects have the first two words of it.
std::string LineOf(const WatchedObject& object);
std::string KeyOf(const WatchedObject& object);

// A client that keeps what it is told. Open, then Ended before it goes.
class FakeClient final : public WatchStream {
 public:
  explicit FakeClient(WatchHub* hub) : hub_(hub) {}
  ~FakeClient() override;

  absl::Status Open(const WatchFilter& filter, uint64_t resume_revision = 0);
  void Leave();
  void Send(const WatchMessage& message) override;
  void End(const absl::Status& status) override;

  // A client that does not read: the message stays where it is until it reads on.
  void Stop();
  void Continue();

  template <typename Value>
  Value Get(Value FakeClient::*field) {
    std::lock_guard lock(mutex);
    return this->*field;
  }
  bool WaitUntil(const std::function<bool(FakeClient&)>& condition);  // condition with the lock held
  bool WaitForMark(WatchMark mark, int times = 1);
  bool WaitForEnd(absl::StatusCode code);
  // Waits until it has been told what the listing shows.
  bool WaitForListing(const std::set<std::string>& listing);

  std::mutex mutex;                            // guards the following
  std::map<std::string, std::string> objects;  // lines by key
  std::vector<WatchMark> marks;
  uint64_t revision = 0;
  int messages = 0;
  int changes = 0;
  int deletions = 0;
  size_t largest = 0;  // objects in one message
  bool is_revision_falling = false;

 private:
  void Take(const WatchMessage& message);

  WatchHub* const hub_;
  uint64_t id_ = 0;
  std::condition_variable changed_;
  bool is_open_ = false;
  bool is_stopped_ = false;
  bool is_message_stuck_ = false;
  std::optional<absl::Status> end_;
  std::optional<std::set<std::string>> listed_;  // keys of the snapshot that is being sent
};

}  // namespace ringswitch::agent
