#pragma once

// The state directory: what the API made, one readable file per object, so that a restarted agent finds it
// again.
//
// Theory of operation. "switch.NAME.json", "port.NAME.json", "fdb.SWITCH.json" (static entries) and
// "ids.json". A file is written aside, synced and renamed, so it is whole or not there. The state is that of
// one boot: files of an earlier boot are removed. A file that does not read well is set aside as "*.damaged"
// and named in Problems; the rest is loaded, nothing that it speaks of is deleted.
//
// Static entries: there may be a hundred thousand, so a change of some is a line appended to their file and
// synced, until the lines are as long as what they stand behind and all is written anew. Only what this
// process has written whole is appended to: so a line that an earlier one left unfinished stays the last one,
// and a call's changes, which are one line, are there or not there. Appending needs no second file and so no
// rule of which belongs to which: to write the whole is to drop the lines, in one rename.
//
// Saving never fails for the caller, since forwarding must not depend on a disk (design decision 19): what
// cannot be written is named in Problems and written by a later RetryPending.
//
// Threads. Any; calls about one object must come one after another.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/agent/state_json.h"

namespace ringswitch::agent {

struct StoredState {
  StoredIds ids;
  std::vector<SwitchSpec> switches;
  std::vector<StoredPort> ports;
  std::map<std::string, std::vector<StaticFdbEntry>> fdb;  // by switch
};

class StateStore {
 public:
  // Makes the directory where it is missing. `boot_id` tells one boot from another.
  static absl::StatusOr<std::unique_ptr<StateStore>> Open(const std::string& directory,
                                                          const std::string& boot_id);

  StoredState Load();

  void SaveSwitch(const SwitchSpec& spec);
  void RemoveSwitch(const std::string& name);  // its static entries too
  void SavePort(const StoredPort& port);
  void RemovePort(const std::string& name);
  void SaveFdb(const std::string& switch_name, const std::vector<StaticFdbEntry>& entries);
  // A change of what was saved last. False: it is not on disk, and SaveFdb with all entries is due instead.
  bool AppendFdb(const std::string& switch_name, const StaticFdbChange& change);
  void SaveIds(const StoredIds& ids);

  // True: something is still not on disk.
  bool RetryPending();
  std::vector<std::string> Problems() const;

 private:
  StateStore(std::string directory, std::string boot_id)
      : directory_(std::move(directory)), boot_id_(std::move(boot_id)) {}
  // Static entries as they are on disk.
  struct FdbFile {
    size_t whole_size = 0;
    size_t appended_size = 0;
  };

  // No content: remove the file. False: retried later.
  bool Save(const std::string& file_name, std::optional<std::string> content);
  absl::Status Write(const std::string& file_name, const std::optional<std::string>& content) const;
  void LoadFile(const std::string& file_name, StoredState* state);
  void SetAside(const std::string& file_name, const absl::Status& cause);

  const std::string directory_;
  const std::string boot_id_;
  mutable std::mutex mutex_;                                   // one write at a time; guards the following
  std::map<std::string, std::optional<std::string>> pending_;  // by file name
  std::string pending_cause_;
  std::vector<std::string> damaged_;
  std::map<std::string, FdbFile> fdb_files_;  // by switch: those that can be appended to
};

// The running kernel's.
std::string ReadBootId();

}  // namespace ringswitch::agent
