#include "cni-plugin/spool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cni-plugin/failure.h"
#include "cni-plugin/json.h"

namespace ringswitch::cni {
namespace {

// A node holds some hundred pods; more DELs than this mean that nobody will ever replay them.
constexpr int kFilesMax = 256;

absl::Status FileFailure(const std::string& path) {
  return Failure(kInputOutput, absl::StrCat("cannot spool the DEL in ", path, ": ", std::strerror(errno)));
}

int CountFiles(const std::string& directory) {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (!absl::StartsWith(entry.path().filename().string(), ".")) ++count;
  }
  return count;
}

absl::Status WriteFile(const std::string& path, absl::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return FileFailure(path);
  const absl::Cleanup closer = [fd] { close(fd); };
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return FileFailure(path);
  if (fsync(fd) != 0) return FileFailure(path);
  return absl::OkStatus();
}

}  // namespace

std::string Spool::PathOf(absl::string_view container_id, absl::string_view ifname) const {
  return absl::StrCat(directory_, "/", container_id, ":", ifname, ".json");
}

int Spool::Lock() const {
  const int directory = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 || flock(directory, LOCK_EX) == 0) return directory;
  close(directory);
  return -1;
}

absl::Status Spool::Add(absl::string_view container_id, absl::string_view ifname) const {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  const int directory = Lock();
  if (directory < 0) return FileFailure(directory_);
  const absl::Cleanup closer = [directory] { close(directory); };
  if (Contains(container_id, ifname)) return absl::OkStatus();
  if (CountFiles(directory_) >= kFilesMax) {
    return Failure(kTryAgainLater, absl::StrCat("the agent is not reachable and ", directory_, " holds ",
                                                kFilesMax, " DELs already: start ringswitchd"));
  }
  // At most 162 bytes, since both parts are checked.
  const std::string temporary = absl::StrCat(directory_, "/.", container_id, ":", ifname);
  const Json text = {{"container_id", std::string(container_id)}, {"ifname", std::string(ifname)}};
  if (absl::Status status = WriteFile(temporary, ToText(text) + "\n"); !status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  if (rename(temporary.c_str(), PathOf(container_id, ifname).c_str()) != 0) return FileFailure(directory_);
  fsync(directory);
  return absl::OkStatus();
}

bool Spool::Contains(absl::string_view container_id, absl::string_view ifname) const {
  return access(PathOf(container_id, ifname).c_str(), F_OK) == 0;
}

bool Spool::Take(absl::string_view container_id, absl::string_view ifname) const {
  if (!Contains(container_id, ifname)) return false;
  const int directory = Lock();
  const absl::Cleanup closer = [directory] { close(directory); };
  return unlink(PathOf(container_id, ifname).c_str()) == 0;
}

}  // namespace ringswitch::cni
