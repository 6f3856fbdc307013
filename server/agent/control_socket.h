#pragma once

// The control socket and the claim on it: one agent per socket and per state directory.
//
// Theory of operation. A lock file beside the socket and one in the state directory are locked (flock) for
// the life of the process and hold its process id; a second agent names the holder and refuses. The kernel
// drops the locks with the process, however it ends, so a stale socket stops nobody. The server binds to a
// name beside the final one; Publish gives it its mode and renames it, so a client meets the old socket or
// the new one, never a half-made one. The destructor removes the socket only while it is ours.

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/file.h"

namespace ringswitch::agent {

inline constexpr size_t kSocketPathMax =
    96;  // sockaddr_un takes 107 bytes; the name to bind to is longer than the final one

// Locks `path`, which is made where it is missing. FAILED_PRECONDITION names the holder; `what` says what it
// holds.
absl::StatusOr<File> LockFile(const std::string& path, const std::string& what);

class ControlSocket {
 public:
  // What Claim refuses about the path as such, without looking at the system.
  static absl::Status CheckPath(const std::string& path);
  // Makes the directory where it is missing and takes the lock. INVALID_ARGUMENT: the path is no good.
  static absl::StatusOr<ControlSocket> Claim(const std::string& path);
  ControlSocket(ControlSocket&&) = default;
  ControlSocket& operator=(ControlSocket&&) = delete;
  ~ControlSocket();

  // What a gRPC server binds to.
  std::string ListenAddress() const { return "unix:" + BindPath(); }
  // After the server has bound: clients can connect from now on.
  absl::Status Publish();
  // Removes the socket while it is ours.
  void Withdraw();

 private:
  ControlSocket(std::string path, File lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string BindPath() const { return path_ + ".new"; }

  std::string path_;
  File lock_;
  dev_t device_ = 0;  // of the published socket
  ino_t inode_ = 0;   // 0: nothing is published
};

}  // namespace ringswitch::agent
