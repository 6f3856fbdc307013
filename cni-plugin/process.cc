#include "cni-plugin/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cni-plugin/failure.h"

namespace ringswitch::cni {
namespace {

constexpr size_t kOutputBytesMax = 1 << 20;  // Of each stream; a child that writes more is ended.
constexpr size_t kErrorBytesMax = 4096;

std::atomic<pid_t> running_child{0};
static_assert(std::atomic<pid_t>::is_always_lock_free, "read in a signal handler");

// A descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void Reset(int fd) {
    Close();
    fd_ = fd;
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor reader;
  Descriptor writer;
};

absl::Status SystemFailure(absl::string_view what, int error) {
  return Failure(kInputOutput, absl::StrCat(what, ": ", std::strerror(error)));
}

bool Open(Pipe& pipe) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  pipe.reader.Reset(fds[0]);
  pipe.writer.Reset(fds[1]);
  return true;
}

// posix_spawn and not fork: gRPC's threads may hold locks. 0 or an errno.
int Spawn(const std::string& path, const Pipe& input, const Pipe& output, const Pipe& errors, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, input.reader.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.writer.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.writer.get(), STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  // We ignore SIGPIPE, which a child would inherit.
  sigset_t defaults;
  sigset_t mask;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigemptyset(&mask);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setsigmask(&attributes, &mask);
  // A process group of its own, so that what it has started is killed with it.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  std::string name = path;
  char* arguments[] = {name.data(), nullptr};
  const int error = posix_spawn(&pid, path.c_str(), &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Writes what fits and closes the pipe when all is written, or when nobody reads.
void Feed(Descriptor& writer, absl::string_view& input) {
  const ssize_t count = write(writer.get(), input.data(), input.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count > 0) input.remove_prefix(count);
  if (count < 0 || input.empty()) writer.Close();
}

// Reads what there is; closes the pipe at its end. False: it is too much. A child that writes as fast as we
// read is left for the limit alone, so there is no way around one.
bool Drain(Descriptor& reader, std::string& text) {
  char buffer[16384];
  while (reader.get() >= 0) {
    const ssize_t count = read(reader.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return true;
    if (count <= 0) {
      reader.Close();
      return true;
    }
    text.append(buffer, count);
    if (text.size() > kOutputBytesMax) return false;
  }
  return true;
}

bool DrainBoth(Pipe& from, Pipe& errors, ProcessResult& result) {
  return Drain(from.reader, result.standard_output) && Drain(errors.reader, result.standard_error);
}

enum class Ending { kEnded, kTooLate, kTooMuchOutput };

// Until the child has ended, or has to be. A grandchild that keeps the pipes open is not waited for.
Ending Converse(int process_fd, absl::string_view input, absl::Time deadline, Pipe& to, Pipe& from,
                Pipe& errors, ProcessResult& result) {
  for (;;) {
    const int64_t left_ms = absl::ToInt64Milliseconds(deadline - absl::Now());
    if (left_ms <= 0) return Ending::kTooLate;
    pollfd fds[] = {{process_fd, POLLIN, 0},
                    {to.writer.get(), POLLOUT, 0},
                    {from.reader.get(), POLLIN, 0},
                    {errors.reader.get(), POLLIN, 0}};
    if (poll(fds, 4, static_cast<int>(left_ms) + 1) < 0 && errno != EINTR) return Ending::kTooLate;
    if (fds[1].revents != 0) Feed(to.writer, input);
    if (!DrainBoth(from, errors, result)) return Ending::kTooMuchOutput;
    if (fds[0].revents != 0) return Ending::kEnded;
  }
}

}  // namespace

absl::StatusOr<ProcessResult> RunProcess(const std::string& path, absl::string_view input,
                                         absl::Duration timeout) {
  Pipe to;
  Pipe from;
  Pipe errors;
  if (!Open(to) || !Open(from) || !Open(errors)) return SystemFailure("pipe", errno);
  for (const int fd : {to.writer.get(), from.reader.get(), errors.reader.get()}) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  pid_t pid = 0;
  if (const int error = Spawn(path, to, from, errors, pid); error != 0) {
    return SystemFailure(absl::StrCat("cannot run ", path), error);
  }
  running_child.store(pid);
  to.reader.Close();
  from.writer.Close();
  errors.writer.Close();
  if (input.empty()) to.writer.Close();

  Descriptor process_fd;
  process_fd.Reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  ProcessResult result;
  Ending ending = Ending::kTooLate;
  if (process_fd.get() >= 0) {
    ending = Converse(process_fd.get(), input, absl::Now() + timeout, to, from, errors, result);
  }
  if (ending != Ending::kEnded) kill(-pid, SIGKILL);
  running_child.store(0);  // Before its id is free for others.
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (ending == Ending::kTooLate) {
    return Failure(kTryAgainLater, absl::StrCat(path, " did not end within ", absl::FormatDuration(timeout)));
  }
  if (ending == Ending::kTooMuchOutput || !DrainBoth(from, errors, result)) {
    return Failure(kDecoding, absl::StrCat(path, " printed more than ", kOutputBytesMax, " bytes"));
  }
  result.standard_error.resize(std::min(result.standard_error.size(), kErrorBytesMax));
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

void KillRunningProcess() {
  const pid_t pid = running_child.load();
  if (pid > 0) kill(-pid, SIGKILL);
}

}  // namespace ringswitch::cni
