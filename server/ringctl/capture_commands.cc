// ringctl capture
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ringswitch/v1/capture.grpc.pb.h"
#include "ringswitch/v1/port.grpc.pb.h"
#include "server/ringctl/capture_output.h"
#include "server/ringctl/flags.h"
#include "server/ringctl/quantities.h"
#include "server/ringctl/table.h"

namespace ringswitch::ringctl {
namespace {

constexpr std::uint32_t kSnapLengthMax = 262'144;  // Bytes; whole frames.

struct CaptureFlags {
  std::vector<std::string> ports;
  std::vector<std::string> pods;
  std::string switch_name;
  std::string direction;
  bool drops_only = false;
  bool text = false;
  std::uint32_t snap_length = 0;
  std::uint64_t count = 0;
  std::string duration;  // empty: no limit
  std::string path;      // Empty: standard output.
};

// Ends a call from outside: at a signal, when its time is over, or where it does not begin in time. A thread
// of its own waits for that, since the main thread waits for frames or for whoever takes them. The signals
// must be blocked in all threads, so it is made before the first call. A second signal ends the process.
class CallEnd {
 public:
  enum class Cause { kNone, kSignal, kDuration, kNotBegun };

  CallEnd() {
    sigemptyset(&signals_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, kWake}) {
      sigaddset(&signals_, number);
    }
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    signal(SIGPIPE, SIG_IGN);  // The write tells, and names what could not be written.
  }
  ~CallEnd() {
    if (thread_.joinable()) {
      is_done_ = true;
      pthread_kill(thread_.native_handle(), kWake);
      thread_.join();
    }
  }
  CallEnd(const CallEnd&) = delete;
  CallEnd& operator=(const CallEnd&) = delete;

  // The call must not end before this object.
  void Start(grpc::ClientContext* context, int timeout_s) {
    context_ = context;
    due_cause_ = Cause::kNotBegun;
    due_ms_ = NowMs() + 1000 * std::int64_t{timeout_s};
    thread_ = std::thread([this] { Wait(); });
  }
  // The call has begun and lasts that long at most. 0: no limit.
  void Begin(std::int64_t duration_s) {
    due_cause_ = Cause::kDuration;
    due_ms_ = duration_s == 0 ? kNever : NowMs() + 1000 * duration_s;
    pthread_kill(thread_.native_handle(), kWake);
  }
  Cause cause() const { return cause_; }

 private:
  static constexpr int kWake = SIGUSR1;
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kWaitMsMax = 3'600'000;

  static std::int64_t NowMs() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  void Wait() {
    while (!is_done_) {
      const std::int64_t wait_ms = std::clamp<std::int64_t>(due_ms_ - NowMs(), 0, kWaitMsMax);
      const timespec wait{wait_ms / 1000, wait_ms % 1000 * 1'000'000};
      const int number = sigtimedwait(&signals_, nullptr, &wait);
      if (number == SIGINT || number == SIGTERM || number == SIGHUP) {
        if (cause_ == Cause::kSignal) {
          _exit(128 + number);
        }
        End(Cause::kSignal);
      } else if (NowMs() >= due_ms_) {
        End(due_cause_);
      }
    }
  }

  void End(Cause cause) {
    due_ms_ = kNever;
    cause_ = cause;
    context_->TryCancel();
  }

  sigset_t signals_;
  grpc::ClientContext* context_ = nullptr;
  std::atomic<std::int64_t> due_ms_ = kNever;
  std::atomic<Cause> due_cause_ = Cause::kNone;
  std::atomic<Cause> cause_ = Cause::kNone;
  std::atomic<bool> is_done_ = false;
  std::thread thread_;
};

CaptureForm FormOf(const Session& session, const CaptureFlags& flags) {
  if (!flags.path.empty()) {
    return CaptureForm::kPcapng;
  }
  if (session.wants_json()) {
    return CaptureForm::kJson;
  }
  return flags.text || isatty(STDOUT_FILENO) != 0 ? CaptureForm::kText : CaptureForm::kPcapng;
}

// All ports of the pod.
bool AddPortsOfPod(Session& session, const std::string& pod, v1::CaptureRequest* request) {
  v1::ListPortsRequest list;
  list.set_pod(pod);
  v1::ListPortsResponse response;
  if (!session.CallPaged(&v1::PortService::Stub::ListPorts, list, &response)) {
    return false;
  }
  for (const v1::Port& port : response.ports()) {
    request->add_port_names(port.name());
  }
  return !response.ports().empty() ||
         session.Fail(absl::StrCat("pod ", pod, " has no port; see: ringctl port list"));
}

bool FillRequest(Session& session, const CaptureFlags& flags, v1::CaptureRequest* request) {
  for (const std::string& port : flags.ports) {
    request->add_port_names(port);
  }
  for (const std::string& pod : flags.pods) {
    if (!AddPortsOfPod(session, pod, request)) {
      return false;
    }
  }
  request->set_switch_name(flags.switch_name);
  if (flags.direction == "receive") {
    request->set_direction(v1::CAPTURE_DIRECTION_RECEIVE);
  } else if (flags.direction == "transmit") {
    request->set_direction(v1::CAPTURE_DIRECTION_TRANSMIT);
  }
  request->set_drops_only(flags.drops_only);
  request->set_snap_length(flags.snap_length);
  request->set_frame_limit(flags.count);
  return true;
}

// What is told at the end of a capture that had begun.
void Report(Session& session, const CaptureFlags& flags, const CaptureOutput& output, CallEnd::Cause cause,
            const grpc::Status& status) {
  std::cerr << output.captured_frames() << (output.captured_frames() == 1 ? " frame" : " frames")
            << " captured, " << output.lost_frames() << " lost\n";
  if (cause != CallEnd::Cause::kNone) {
    return;
  }
  if (status.ok()) {
    if (flags.count == 0 || output.captured_frames() < flags.count) {
      std::cerr << "the capture has ended: its ports are gone\n";
    }
  } else if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    session.Fail(
        Failure{kExitUnreachable,
                {"the capture has ended: the agent has gone; what was captured before is complete"}});
  } else {
    session.FailCall(status);
  }
}

void Capture(Session& session, const CaptureFlags& flags) {
  if (flags.ports.empty() && flags.pods.empty() && flags.switch_name.empty()) {
    throw CLI::ValidationError("--port NAME, --pod NAMESPACE/NAME or --switch NAME is required");
  }
  grpc::ClientContext context;
  CallEnd end;
  v1::CaptureRequest request;
  if (!FillRequest(session, flags, &request)) {
    return;
  }
  const std::shared_ptr<grpc::Channel> channel = session.channel();
  if (channel == nullptr) {
    return;
  }
  v1::CaptureService::Stub stub(channel);
  end.Start(&context, session.flags().timeout_s);
  const auto reader = stub.Capture(&context, request);
  CaptureOutput output(FormOf(session, flags), flags.path.empty() ? "-" : flags.path,
                       flags.snap_length == 0 ? kSnapLengthMax : flags.snap_length);
  bool has_begun = false;
  absl::Status written;
  v1::CaptureResponse response;
  while (written.ok() && reader->Read(&response)) {
    const bool is_first = !has_begun;
    if (is_first) {
      has_begun = true;
      end.Begin(flags.duration.empty() ? 0 : ParseSeconds(flags.duration).value());
      written = output.Open();
    }
    if (written.ok()) {
      written = output.Write(response);
    }
    if (written.ok() && is_first) {
      std::cerr << "capturing at " << EscapeControls(absl::StrJoin(response.port_names(), ", ")) << "\n";
    }
  }
  if (!written.ok()) {
    context.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  if (!has_begun && end.cause() == CallEnd::Cause::kNotBegun) {
    session.FailCall(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, ""));
  } else if (!has_begun && end.cause() == CallEnd::Cause::kNone) {
    session.FailCall(status);
  }
  if (!has_begun) {
    return;
  }
  if (written.ok()) {
    written = output.Close();
  }
  if (!written.ok()) {
    session.Fail(written.message());
    return;
  }
  Report(session, flags, output, end.cause(), status);
}

}  // namespace

void AddCaptureCommand(CLI::App* root, Session& session) {
  CLI::App* capture = AddVerb(root, "capture", "Capture frames that ports receive, transmit or drop",
                              "  ringctl capture --port p1\n"
                              "  ringctl capture --pod default/web-0 --write web.pcapng --duration 10s\n"
                              "  ringctl capture --switch sw0 --drops\n"
                              "  ringctl capture --port p1 --write - | tcpdump -n -r -");
  auto flags = std::make_shared<CaptureFlags>();
  CLI::Option* ports = capture->add_option("--port", flags->ports, "A port; may be given several times")
                           ->type_name("NAME")
                           ->allow_extra_args(false);
  CLI::Option* pods = capture->add_option("--pod", flags->pods, "All ports of the pod, as --port")
                          ->check(PodName())
                          ->type_name("NAMESPACE/NAME")
                          ->allow_extra_args(false);
  capture->add_option("--switch", flags->switch_name, "All ports that the switch has now, instead of --port")
      ->type_name("NAME")
      ->excludes(ports)
      ->excludes(pods);
  capture->add_option("--direction", flags->direction, "As the switch sees it (usual: both)")
      ->check(OneOf({"receive", "transmit"}))
      ->type_name("receive|transmit");
  capture->add_flag("--drops", flags->drops_only, "Only frames that were dropped, with the reason");
  capture->add_option("--snap-length", flags->snap_length, "Keep so many bytes of each frame (usual: all)")
      ->check(DecimalNumber())
      ->check(CLI::Range(14u, kSnapLengthMax).description(""))
      ->type_name("BYTES");
  capture->add_option("--count", flags->count, "End after so many frames")
      ->check(DecimalNumber())
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000'000}).description(""))
      ->type_name("FRAMES");
  capture->add_option("--duration", flags->duration, "End after this time: 10s, 5m")
      ->check(ParsedBy(ParsePositiveSeconds))
      ->type_name("TIME");
  CLI::Option* write =
      capture->add_option("--write", flags->path, "Write pcapng to this file; \"-\" is standard output")
          ->type_name("FILE|-");
  capture->add_flag("--text", flags->text, "Show a line per frame, also where the output is no terminal")
      ->excludes(write);
  capture->callback([flags, &session] { Capture(session, *flags); });
}

}  // namespace ringswitch::ringctl
