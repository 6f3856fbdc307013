#include "server/agent/control_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ringswitch::agent {
namespace {

constexpr mode_t kSocketMode = 0660;

std::string ReadHolder(int fd) {
  char text[32] = {};
  ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
  std::string holder(text, length > 0 ? static_cast<size_t>(length) : 0);
  absl::StripAsciiWhitespace(&holder);
  return holder.empty() ? "another process" : absl::StrCat("process ", holder);
}

}  // namespace

absl::StatusOr<File> LockFile(const std::string& path, const std::string& what) {
  File file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open())
    return absl::FailedPreconditionError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  if (flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      return absl::FailedPreconditionError(absl::StrCat("cannot lock ", path, ": ", std::strerror(errno)));
    return absl::FailedPreconditionError(
        absl::StrCat(what, " is in use by ", ReadHolder(file.fd()),
                     ", another ringswitchd: stop it, or choose another one"));
  }
  std::string holder = absl::StrCat(getpid(), "\n");
  if (ftruncate(file.fd(), 0) != 0 || pwrite(file.fd(), holder.data(), holder.size(), 0) < 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  }
  return file;
}

absl::Status ControlSocket::CheckPath(const std::string& path) {
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat("socket: \"", path, "\" is not an absolute path"));
  }
  if (path.size() > kSocketPathMax) {
    return absl::InvalidArgumentError(absl::StrCat("socket: the path has ", path.size(), " bytes, at most ",
                                                   kSocketPathMax, " are possible"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ControlSocket> ControlSocket::Claim(const std::string& path) {
  absl::Status status = CheckPath(path);
  if (!status.ok()) return status;
  std::error_code error;
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(parent, error);
  if (error)
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make ", parent.string(), ": ", error.message()));
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("socket: ", path, " exists and is not a socket"));
  }
  absl::StatusOr<File> lock = LockFile(path + ".lock", absl::StrCat("socket ", path));
  if (!lock.ok()) return lock.status();
  ControlSocket socket(path, *std::move(lock));
  unlink(socket.BindPath().c_str());
  return socket;
}

absl::Status ControlSocket::Publish() {
  std::string bound = BindPath();
  struct stat info;
  if (chmod(bound.c_str(), kSocketMode) != 0 || stat(bound.c_str(), &info) != 0 ||
      rename(bound.c_str(), path_.c_str()) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot publish socket ", path_, ": ", std::strerror(errno)));
  }
  device_ = info.st_dev;
  inode_ = info.st_ino;
  return absl::OkStatus();
}

void ControlSocket::Withdraw() {
  struct stat info;
  if (inode_ == 0 || stat(path_.c_str(), &info) != 0) return;
  if (info.st_dev == device_ && info.st_ino == inode_) unlink(path_.c_str());
}

ControlSocket::~ControlSocket() {
  if (lock_.is_open()) Withdraw();  // else it was moved from
}

}  // namespace ringswitch::agent
