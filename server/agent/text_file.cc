#include "server/agent/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "dataplane/file.h"

namespace ringswitch::agent {
namespace {

constexpr size_t kChunk = 64u << 10;

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

absl::Status ErrnoError(const std::string& path) {
  std::string message = absl::StrCat("cannot read ", path, ": ", std::strerror(errno));
  if (errno == ENOENT) return absl::NotFoundError(message);
  // ENXIO: a socket.
  if (errno == EACCES || errno == EPERM || errno == ELOOP || errno == ENXIO || errno == ENODEV) {
    return absl::FailedPreconditionError(message);
  }
  return absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t size_max) {
  const File file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat info;
  if (!file.is_open() || fstat(file.fd(), &info) != 0) return ErrnoError(path);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read ", path, ": it is ", KindOf(info.st_mode), ", not a regular file"));
  }
  // Its size is not believed: the file may grow, and those of /proc have none.
  std::string text;
  while (text.size() <= size_max) {
    const size_t had = text.size();
    const size_t wanted = std::min(kChunk, size_max + 1 - had);
    text.resize(had + wanted);
    const ssize_t n = read(file.fd(), &text[had], wanted);
    text.resize(had + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n == 0) return text;
    if (n < 0 && errno != EINTR) return ErrnoError(path);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot read ", path, ": it has more than ", size_max, " bytes"));
}

}  // namespace ringswitch::agent
