#include "server/agent/state_store.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dataplane/file.h"
#include "server/agent/control_error.h"
#include "server/agent/text_file.h"

namespace ringswitch::agent {
namespace {

namespace fs = std::filesystem;

constexpr char kIdsFile[] = "ids.json";
constexpr char kSuffix[] = ".json";
constexpr char kAsideSuffix[] = ".damaged";
constexpr size_t kFdbFileSizeMax = 256u << 20;  // a million entries, each in a group of its own, and lines
// Lines are appended up to the size of what they stand behind, within these bounds: writing all anew costs as
// much per appended byte as the line did, and reading the lines no more than reading the rest.
constexpr size_t kAppendedMin = 64u << 10;
constexpr size_t kAppendedMax = 32u << 20;
constexpr size_t kAddressSize = 19;  // the least that an entry takes in a line

absl::Status ErrnoError(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::Status WriteSynced(const File& file, const std::string& path, const std::string& content) {
  for (size_t written = 0; written < content.size();) {
    ssize_t n = write(file.fd(), content.data() + written, content.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ErrnoError(absl::StrCat("cannot write ", path));
    written += static_cast<size_t>(n);
  }
  if (fsync(file.fd()) != 0) return ErrnoError(absl::StrCat("cannot sync ", path));
  return absl::OkStatus();
}

absl::Status WriteWhole(const std::string& path, const std::string& content) {
  std::string aside = path + ".new";
  // A FIFO or a link in the way is an error, nothing to wait for or to write through.
  File file(open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600));
  if (!file.is_open()) return ErrnoError(absl::StrCat("cannot create ", aside));
  absl::Status status = WriteSynced(file, aside, content);
  if (!status.ok()) return status;
  // The directory is not synced: the state does not outlive the boot.
  if (rename(aside.c_str(), path.c_str()) != 0) return ErrnoError(absl::StrCat("cannot rename ", aside));
  return absl::OkStatus();
}

// `size`: what the file must have by now. One that somebody has removed, replaced or cut is not the one that
// the line is meant for.
absl::Status AppendLine(const std::string& path, size_t size, const std::string& line) {
  File file(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat info;
  if (!file.is_open() || fstat(file.fd(), &info) != 0) return ErrnoError(absl::StrCat("cannot open ", path));
  if (!S_ISREG(info.st_mode) || static_cast<size_t>(info.st_size) != size)
    return absl::UnavailableError(absl::StrCat(path, " is not as it was written"));
  return WriteSynced(file, path, line);
}

// A file that was copied or renamed would make two objects of one, or one of another's name.
absl::Status CheckOwnName(const std::string& content_name, const std::string& file_object) {
  if (content_name == file_object) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("it describes ", Quoted(content_name)));
}

std::string FdbFileName(const std::string& switch_name) {
  return absl::StrCat("fdb.", switch_name, kSuffix);
}

template <typename Value, typename Take>
absl::Status ReadInto(const absl::StatusOr<Value>& value, Take take) {
  if (!value.ok()) return value.status();
  return take(*value);
}

}  // namespace

std::string ReadBootId() {
  std::ifstream stream("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  stream >> boot_id;
  return boot_id;
}

absl::StatusOr<std::unique_ptr<StateStore>> StateStore::Open(const std::string& directory,
                                                             const std::string& boot_id) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error || !fs::is_directory(directory, error)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "state directory ", directory, " cannot be made: ", error ? error.message() : "not a directory"));
  }
  return std::unique_ptr<StateStore>(new StateStore(directory, boot_id));
}

StoredState StateStore::Load() {
  StoredState state;
  state.ids.boot_id = boot_id_;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (absl::EndsWith(name, kSuffix)) names.push_back(name);
    if (absl::EndsWith(name, kAsideSuffix)) {
      damaged_.push_back(Printable(absl::StrCat("state file ", directory_, "/", name,
                                                " was set aside earlier: remove it when looked at")));
    }
  }
  if (error) damaged_.push_back(absl::StrCat("state directory ", directory_, ": ", error.message()));
  std::sort(names.begin(), names.end());

  StoredIds ids;
  if (std::find(names.begin(), names.end(), kIdsFile) != names.end()) {
    absl::StatusOr<std::string> text = ReadTextFile(absl::StrCat(directory_, "/", kIdsFile), kConfigSizeMax);
    absl::StatusOr<StoredIds> read = text.ok() ? IdsFromJson(*text) : text.status();
    if (read.ok()) ids = *read;
    if (!read.ok()) SetAside(kIdsFile, read.status());
    if (read.ok() && ids.boot_id != boot_id_) {
      spdlog::info("state directory {} is of an earlier boot: starting empty", directory_);
      for (const std::string& name : names) fs::remove(absl::StrCat(directory_, "/", name), error);
      return state;
    }
  }
  state.ids.next_switch_id = ids.next_switch_id;
  state.ids.next_port_id = ids.next_port_id;
  for (const std::string& name : names) {
    if (name != kIdsFile) LoadFile(name, &state);
  }
  for (const SwitchSpec& spec : state.switches)
    state.ids.next_switch_id = std::max(state.ids.next_switch_id, spec.id + 1);
  for (const StoredPort& port : state.ports)
    state.ids.next_port_id = std::max(state.ids.next_port_id, port.spec.id + 1);
  return state;
}

void StateStore::LoadFile(const std::string& file_name, StoredState* state) {
  const size_t size_max = absl::StartsWith(file_name, "fdb.") ? kFdbFileSizeMax : kConfigSizeMax;
  absl::StatusOr<std::string> text = ReadTextFile(absl::StrCat(directory_, "/", file_name), size_max);
  // "port.NAME.json"
  const size_t dot = file_name.find('.');
  const std::string kind = file_name.substr(0, dot + 1);
  const size_t end = file_name.size() - std::strlen(kSuffix);
  const std::string name = dot < end ? file_name.substr(dot + 1, end - dot - 1) : "";
  absl::Status status = text.status();
  if (text.ok() && kind == "switch.") {
    status = ReadInto(SwitchFromJson(*text), [&](const SwitchSpec& spec) {
      absl::Status own = CheckOwnName(spec.name, name);
      if (own.ok()) state->switches.push_back(spec);
      return own;
    });
  } else if (text.ok() && kind == "port.") {
    status = ReadInto(PortFromJson(*text), [&](const StoredPort& port) {
      absl::Status own = CheckOwnName(port.spec.name, name);
      if (own.ok()) state->ports.push_back(port);
      return own;
    });
  } else if (text.ok() && kind == "fdb.") {
    status = ReadInto(FdbFromJson(*text), [&](const std::vector<StaticFdbEntry>& entries) {
      state->fdb[name] = entries;
      return absl::OkStatus();
    });
  }
  if (!status.ok()) SetAside(file_name, status);
}

void StateStore::SetAside(const std::string& file_name, const absl::Status& cause) {
  std::string path = absl::StrCat(directory_, "/", file_name);
  std::string problem =
      absl::StrCat("state file ", path, " is damaged (", std::string(cause.message()), "): kept as ", path,
                   kAsideSuffix, ", what it describes is left as it is");
  if (rename(path.c_str(), absl::StrCat(path, kAsideSuffix).c_str()) != 0) {
    absl::StrAppend(&problem, " (it could not be renamed: ", std::strerror(errno), ")");
  }
  problem = Printable(problem);  // the cause may quote the file
  spdlog::error("{}", problem);
  std::lock_guard lock(mutex_);
  damaged_.push_back(problem);
}

void StateStore::SaveSwitch(const SwitchSpec& spec) {
  Save(absl::StrCat("switch.", spec.name, kSuffix), ToJson(spec));
}

void StateStore::RemoveSwitch(const std::string& name) {
  SaveFdb(name, {});
  Save(absl::StrCat("switch.", name, kSuffix), std::nullopt);
}

void StateStore::SavePort(const StoredPort& port) {
  Save(absl::StrCat("port.", port.spec.name, kSuffix), ToJson(port));
}

void StateStore::RemovePort(const std::string& name) {
  Save(absl::StrCat("port.", name, kSuffix), std::nullopt);
}

void StateStore::SaveFdb(const std::string& switch_name, const std::vector<StaticFdbEntry>& entries) {
  std::optional<std::string> content;
  if (!entries.empty()) content = ToJson(entries);
  const size_t size = entries.empty() ? 0 : content->size();
  const bool is_saved = Save(FdbFileName(switch_name), std::move(content));
  std::lock_guard lock(mutex_);
  fdb_files_.erase(switch_name);
  if (is_saved && size > 0) fdb_files_[switch_name] = {size, 0};
}

bool StateStore::AppendFdb(const std::string& switch_name, const StaticFdbChange& change) {
  std::lock_guard lock(mutex_);
  auto it = fdb_files_.find(switch_name);
  if (it == fdb_files_.end()) return false;
  FdbFile& file = it->second;
  const size_t room = std::clamp(file.whole_size, kAppendedMin, kAppendedMax) - file.appended_size;
  if ((change.removed.size() + change.added.size()) * kAddressSize > room) return false;
  const std::string line = ToJsonLine(change);
  if (line.size() > room) return false;
  absl::Status status = AppendLine(absl::StrCat(directory_, "/", FdbFileName(switch_name)),
                                   file.whole_size + file.appended_size, line);
  if (status.ok()) {
    file.appended_size += line.size();
    return true;
  }
  // A part of the line may be there: nothing can stand behind that.
  fdb_files_.erase(it);
  return false;
}

void StateStore::SaveIds(const StoredIds& ids) {
  Save(kIdsFile, ToJson(ids));
}

bool StateStore::Save(const std::string& file_name, std::optional<std::string> content) {
  std::lock_guard lock(mutex_);
  absl::Status status = Write(file_name, content);
  if (status.ok()) {
    pending_.erase(file_name);
    return true;
  }
  if (pending_.empty()) spdlog::error("state is not saved, retrying: {}", std::string(status.message()));
  pending_[file_name] = std::move(content);
  pending_cause_ = std::string(status.message());
  return false;
}

absl::Status StateStore::Write(const std::string& file_name,
                               const std::optional<std::string>& content) const {
  std::string path = absl::StrCat(directory_, "/", file_name);
  if (content.has_value()) return WriteWhole(path, *content);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoError(absl::StrCat("cannot remove ", path));
  return absl::OkStatus();
}

bool StateStore::RetryPending() {
  std::lock_guard lock(mutex_);
  if (pending_.empty()) return false;
  // Somebody may have removed the directory.
  std::error_code error;
  fs::create_directories(directory_, error);
  for (auto it = pending_.begin(); it != pending_.end();) {
    absl::Status status = Write(it->first, it->second);
    if (!status.ok()) {
      pending_cause_ = std::string(status.message());
      return true;
    }
    it = pending_.erase(it);
  }
  spdlog::info("state is saved again");
  return false;
}

std::vector<std::string> StateStore::Problems() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> problems = damaged_;
  if (!pending_.empty()) {
    problems.push_back(absl::StrCat("state is not saved (", pending_.size(), " objects): ", pending_cause_));
  }
  return problems;
}

}  // namespace ringswitch::agent
