#pragma once

// The spool of CNI DELs that found no agent (design decision 13), as the CNI plugin writes it: one file
// "CONTAINER_ID:IFNAME.json" for each, in a directory that outlives a boot.
//
// Replayed once before the control socket is published, so that a dead pod's port is gone before anybody
// looks, and every few seconds after, for a DEL that gave up on an agent that was only slow. Each file is
// replayed and removed under the directory's lock, which the plugin's ADD of the same key takes too: a DEL
// can never remove what a later ADD has made. What is no regular file, or says nothing sensible, is set aside
// under a name that begins with '.', logged once.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"

namespace ringswitch::agent {

class DeleteSpool {
 public:
  using Delete = std::function<absl::Status(const std::string& container_id, const std::string& ifname)>;

  DeleteSpool(std::string directory, Delete remove)
      : directory_(std::move(directory)), remove_(std::move(remove)) {}
  ~DeleteSpool() { Stop(); }
  DeleteSpool(const DeleteSpool&) = delete;
  DeleteSpool& operator=(const DeleteSpool&) = delete;

  // All of it, once; returns the number of DELs done. One that fails stays for the next time.
  int Replay();
  void Start();  // replays from a thread of its own until Stop
  void Stop();

 private:
  bool ReplayFile(const std::string& name);
  void SetAside(const std::string& name, const std::string& cause);

  const std::string directory_;
  const Delete remove_;
  std::set<std::string> stuck_;  // could not be set aside, which was logged; one Replay at a time
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace ringswitch::agent
