#include "server/agent/delete_spool.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "dataplane/file.h"
#include "server/agent/control_error.h"
#include "server/agent/text_file.h"

namespace ringswitch::agent {
namespace {

constexpr std::chrono::seconds kReplayInterval{3};

std::string TextOf(const nlohmann::json& document, const char* key) {
  const auto found = document.is_object() ? document.find(key) : document.end();
  return found != document.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

int DeleteSpool::Replay() {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name[0] != '.') names.push_back(std::move(name));
  }
  int done = 0;
  for (const std::string& name : names) done += ReplayFile(name) ? 1 : 0;
  if (done != 0) spdlog::info("{} CNI DELs replayed from {}", done, directory_);
  return done;
}

bool DeleteSpool::ReplayFile(const std::string& name) {
  const File lock(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.is_open() || flock(lock.fd(), LOCK_EX) != 0) return false;
  const std::filesystem::path path = std::filesystem::path(directory_) / name;
  const absl::StatusOr<std::string> text = ReadTextFile(path.string(), kSpooledDelSizeMax);
  if (text.status().code() == absl::StatusCode::kFailedPrecondition) {
    SetAside(name, std::string(text.status().message()));
    return false;
  }
  if (!text.ok()) return false;  // an ADD has taken it
  const nlohmann::json document = nlohmann::json::parse(*text, nullptr, false);
  const std::string container_id = TextOf(document, "container_id");
  const std::string ifname = TextOf(document, "ifname");
  if (container_id.empty() || ifname.empty()) {
    SetAside(name, path.string() + " is no spooled DEL");
    return false;
  }
  absl::Status status = remove_(container_id, ifname);
  if (!status.ok() && !absl::IsInvalidArgument(status)) return false;
  std::error_code error;
  std::filesystem::remove(path, error);
  return true;
}

void DeleteSpool::SetAside(const std::string& name, const std::string& cause) {
  const std::filesystem::path directory(directory_);
  std::error_code error;
  std::filesystem::rename(directory / name, directory / ("." + name), error);
  if (!error) {
    stuck_.erase(name);
    spdlog::error("{}; set aside as {}", Printable(cause), Printable("." + name));
  } else if (stuck_.insert(name).second) {
    spdlog::error("{}; it cannot be set aside: {}: remove it", Printable(cause), error.message());
  }
}

void DeleteSpool::Start() {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kReplayInterval, [this] { return is_stopped_; })) {
      lock.unlock();
      Replay();
      lock.lock();
    }
  });
}

void DeleteSpool::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace ringswitch::agent
