#pragma once

// What those who watch are told of: the objects that a filter selects, read from the model either one after a
// change of it or all of them, page by page.
//
// Each read takes the model's lock for itself, so a listing is of no one moment: an object is as it was when
// its page was read, and one that comes or goes meanwhile may be in it or not.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/agent/object_change.h"
#include "server/agent/switch_model.h"

namespace ringswitch::agent {

// What a client watches.
struct WatchFilter {
  std::string switch_name;  // empty: all
  bool has_switches = false;
  bool has_ports = false;
  bool has_fdb = false;
  bool HasFdbOf(const std::string& name) const {
    return has_fdb && (switch_name.empty() || switch_name == name);
  }
  bool Matches(const ObjectChange& change) const;
};

// An object as it is, or, when deleted, as much of it as says which one it was.
struct WatchedObject {
  std::variant<SwitchView, PortView, FdbEntryView> view;
  bool deleted = false;
};

// A message takes objects up to this weight: 256 FDB entries, the contract's most, or 32 others, since a port
// with 2000 VLAN ranges is 50 KB and a client takes 4 MB.
inline constexpr int kMessageWeightMax = 256;
inline constexpr int kEntryWeight = 1;
inline constexpr int kOtherWeight = 8;

// The object of a change as it is now.
WatchedObject ReadObject(const SwitchModel& model, const ObjectChange& change);
// The switch after the one of that name.
std::optional<std::string> NextSwitch(const SwitchModel& model, const std::string& after);
FdbFilterRequest EntriesOf(const std::string& switch_name, const std::string& port_name);

class WatchListing {
 public:
  // The model outlives the listing.
  WatchListing(const SwitchModel* model, const WatchFilter& filter) : model_(model), filter_(filter) {}
  // As many as a message takes; none at the end.
  std::vector<WatchedObject> Next();

 private:
  enum class Stage : uint8_t { kSwitches, kPorts, kFdb, kEnd };

  // The next page, which may be empty. They go on to the next stage by themselves.
  void ListSwitches(std::vector<WatchedObject>* objects);
  void ListPorts(std::vector<WatchedObject>* objects);
  void ListFdb(std::vector<WatchedObject>* objects);

  const SwitchModel* model_;
  WatchFilter filter_;
  Stage stage_ = Stage::kSwitches;
  std::string after_;        // the last name
  uint32_t fdb_cursor_ = 0;  // within the FDB of that switch; 0: it has been listed
};

}  // namespace ringswitch::agent
