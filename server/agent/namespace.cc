#include "server/agent/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstring>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"

namespace ringswitch::agent {
namespace {

constexpr char kOwnPath[] = "/proc/thread-self/ns/net";

// Whatever is wrong with the path itself means that no namespace is there.
absl::Status OpenError(int error, const std::string& path) {
  const std::string what = absl::StrCat("network namespace ", path);
  switch (error) {
    case EACCES:
    case EPERM:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::ErrnoToStatus(error, what);
    default:
      return absl::NotFoundError(absl::StrCat(what, ": ", std::strerror(error)));
  }
}

absl::Status NoNamespace(const std::string& path) {
  return absl::NotFoundError(
      absl::StrCat(path,
                   " is no network namespace; name the file of one, such as /run/netns/NAME or "
                   "/proc/PID/ns/net, and check that the agent sees the mount"));
}

// Of the calling thread's namespace.
uint64_t ReadCookie() {
  const File socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  getsockopt(socket.fd(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size);
  return cookie;
}

absl::Status Enter(const std::string& path, NamespaceId* id) {
  absl::StatusOr<File> file = OpenNamespace(path, id);
  if (!file.ok()) return file.status();
  if (setns(file->fd(), CLONE_NEWNET) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(
      errno, absl::StrCat("entering network namespace ", path, " (setns needs CAP_SYS_ADMIN)"));
}

}  // namespace

std::optional<NamespaceId> FindNamespace(const std::string& path) {
  struct stat status {};
  if (stat(path.empty() ? kOwnPath : path.c_str(), &status) != 0) return std::nullopt;
  return NamespaceId{.device = status.st_dev, .inode = status.st_ino};
}

absl::StatusOr<File> OpenNamespace(const std::string& path, NamespaceId* id) {
  const char* name = path.empty() ? kOwnPath : path.c_str();
  // Asked before it is opened, since the path is a caller's and opening may mean something, as with a FIFO or
  // a device.
  struct statfs file_system {};
  if (statfs(name, &file_system) != 0) return OpenError(errno, path);
  if (file_system.f_type != NSFS_MAGIC) return NoNamespace(path);
  File file(open(name, O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.is_open() || fstat(file.fd(), &status) != 0) return OpenError(errno, path);
  if (ioctl(file.fd(), NS_GET_NSTYPE) != CLONE_NEWNET) return NoNamespace(path);
  *id = {.device = status.st_dev, .inode = status.st_ino};
  return file;
}

absl::Status RunInNamespace(const std::string& path, const std::function<absl::Status(NamespaceId)>& work) {
  if (path.empty()) {
    std::optional<NamespaceId> own = FindNamespace(path);
    if (!own) return absl::InternalError("own network namespace cannot be read; is /proc mounted?");
    own->cookie = ReadCookie();
    return work(*own);
  }
  absl::Status result;
  try {
    std::thread([&] {
      NamespaceId id;
      result = Enter(path, &id);
      if (!result.ok()) return;
      id.cookie = ReadCookie();
      result = work(id);
    }).join();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("starting a thread: ", error.what()));
  }
  return result;
}

}  // namespace ringswitch::agent
