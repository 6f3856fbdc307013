#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ringswitch::cni {

// DELs that found no agent: one file for each (container id, ifname), "CONTAINER_ID:IFNAME.json", that holds
// {"container_id":"...","ifname":"..."}. The agent deletes these attachments and the files. Names that begin
// with '.' are files being written. Safe between processes: files appear by rename; they are counted, taken
// and replayed under a lock of the directory, so that no DEL is replayed after an ADD has taken it.
class Spool {
 public:
  explicit Spool(std::string directory) : directory_(std::move(directory)) {}

  // Makes the directory where it is missing. Twice the same is one. kTryAgainLater: it is full.
  absl::Status Add(absl::string_view container_id, absl::string_view ifname) const;
  bool Contains(absl::string_view container_id, absl::string_view ifname) const;
  // Removes it. False: it was not there, or the agent has just replayed it.
  bool Take(absl::string_view container_id, absl::string_view ifname) const;

 private:
  int Lock() const;  // a file descriptor to close, or -1
  std::string PathOf(absl::string_view container_id, absl::string_view ifname) const;

  std::string directory_;
};

}  // namespace ringswitch::cni
