#include "server/agent/capture_service.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"
#include "server/agent/grpc_status.h"
#include "server/agent/switch_model_errors.h"

namespace ringswitch::agent {
namespace {

// A message stays below 1 MiB: bytes of frames, and what stands around them (names of 128 bytes at most).
constexpr size_t kMessageBytesMax = 512 << 10;
constexpr size_t kMessageFramesMax = 2048;
static_assert(kMessageBytesMax + kMessageFramesMax * (kPortNameMax + 96) < 1 << 20);
static_assert(kCaptureSnapLengthDefault < kMessageBytesMax);

// Between two looks into the rings: while there are frames, and at most when there have been none for long.
constexpr std::chrono::milliseconds kSleepMin{2};
constexpr std::chrono::milliseconds kSleepMax{16};

absl::StatusOr<CaptureOptions> Decode(const v1::CaptureRequest& request) {
  CaptureOptions options;
  if (request.snap_length() != 0) options.snap_length = request.snap_length();
  if (options.snap_length < kCaptureSnapLengthMin || options.snap_length > kCaptureSnapLengthDefault) {
    return FieldError("snap_length",
                      absl::StrCat("is ", options.snap_length, ", must be ", kCaptureSnapLengthMin, " to ",
                                   kCaptureSnapLengthDefault, " bytes, or 0 for whole frames"));
  }
  switch (request.direction()) {
    case v1::CAPTURE_DIRECTION_UNSPECIFIED:
      break;
    case v1::CAPTURE_DIRECTION_RECEIVE:
      options.transmit = false;
      break;
    case v1::CAPTURE_DIRECTION_TRANSMIT:
      options.receive = false;
      break;
    default:
      return FieldError("direction", absl::StrCat(request.direction(), " is no direction"));
  }
  options.drops_only = request.drops_only();
  return options;
}

void Encode(const CapturedFrame& frame, const std::string& port_name, v1::CapturedFrame* message) {
  constexpr uint64_t kNsPerS = 1'000'000'000;
  message->mutable_time()->set_seconds(static_cast<int64_t>(frame.time_ns / kNsPerS));
  message->mutable_time()->set_nanos(static_cast<int32_t>(frame.time_ns % kNsPerS));
  message->set_port_name(port_name);
  message->set_direction(frame.direction == CaptureDirection::kReceive ? v1::CAPTURE_DIRECTION_RECEIVE
                                                                       : v1::CAPTURE_DIRECTION_TRANSMIT);
  if (frame.dropped.has_value()) message->set_drop_reason(std::string(bridge::TextOf(*frame.dropped).label));
  message->set_length(frame.length);
  message->set_data(frame.bytes.data(), frame.bytes.size());
}

// The capture is the dataplane's as long as this lives.
class Running {
 public:
  Running(Dataplane* dataplane, Capture* capture)
      : dataplane_(dataplane), capture_(capture), status_(dataplane->StartCapture(capture)) {}
  ~Running() {
    if (status_.ok()) dataplane_->StopCapture(capture_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  const absl::Status& status() const { return status_; }

 private:
  Dataplane* const dataplane_;
  Capture* const capture_;
  const absl::Status status_;
};

}  // namespace

absl::StatusOr<CaptureService::Names> CaptureService::FindPorts(const v1::CaptureRequest& request) const {
  if (request.port_names().empty() == request.switch_name().empty())
    return FieldError("port_names", "exactly one of port_names and switch_name must be set");
  Names names;
  if (!request.switch_name().empty()) {
    absl::StatusOr<std::vector<bridge::PortIndex>> indexes = model_->PortIndexes({}, request.switch_name());
    if (!indexes.ok()) return indexes.status();
    for (const bridge::PortIndex index : *indexes) names[index] = model_->PortNameOf(index);
    if (names.empty()) {
      return ReasonError(absl::StatusCode::kFailedPrecondition,
                         absl::StrCat("switch ", Quoted(request.switch_name()), " has no ports"),
                         {"SWITCH_HAS_NO_PORTS", {{"switch", request.switch_name()}}});
    }
    return names;
  }
  for (int i = 0; i < request.port_names_size(); ++i) {
    const std::string& name = request.port_names(i);
    absl::StatusOr<std::vector<bridge::PortIndex>> indexes = model_->PortIndexes({name}, "");
    if (!indexes.ok()) {
      ErrorReason reason = ErrorReasonOf(indexes.status());
      const std::string field = absl::StrCat("port_names[", i, "]");
      reason.metadata.emplace_back("field", field);
      return ReasonError(indexes.status().code(), absl::StrCat(field, ": ", indexes.status().message()),
                         reason);
    }
    if (indexes->empty()) {
      return ReasonError(absl::StatusCode::kFailedPrecondition,
                         absl::StrCat("port ", Quoted(name), " has no device"),
                         {"PORT_HAS_NO_DEVICE", {{"port", name}}});
    }
    names[indexes->front()] = name;
  }
  return names;
}

grpc::Status CaptureService::Capture(grpc::ServerContext* context, const v1::CaptureRequest* request,
                                     grpc::ServerWriter<v1::CaptureResponse>* writer) {
  absl::StatusOr<CaptureOptions> options = Decode(*request);
  if (!options.ok()) return ToGrpc(options.status());
  absl::StatusOr<Names> names = FindPorts(*request);
  if (!names.ok()) return ToGrpc(names.status());
  for (const auto& [index, name] : *names) options->ports.set(index);
  ringswitch::Capture capture(*options);
  const Running running(dataplane_, &capture);
  if (!running.status().ok()) {
    return ToGrpc(ReasonError(running.status().code(), std::string(running.status().message()),
                              {"TOO_MANY_CAPTURES", {}}));
  }
  // From now on a port that is removed is forgotten by the dataplane. One that went before may be another by
  // now.
  for (auto it = names->begin(); it != names->end();) {
    const absl::StatusOr<std::vector<bridge::PortIndex>> now = model_->PortIndexes({it->second}, "");
    const bool is_same = now.ok() && !now->empty() && now->front() == it->first;
    if (!is_same) capture.Forget(it->first);
    it = is_same ? std::next(it) : names->erase(it);
  }
  return Run(context, *request, *std::move(names), &capture, writer);
}

grpc::Status CaptureService::Run(grpc::ServerContext* context, const v1::CaptureRequest& request, Names names,
                                 ringswitch::Capture* capture,
                                 grpc::ServerWriter<v1::CaptureResponse>* writer) {
  v1::CaptureResponse begun;
  for (const auto& [index, name] : names) begun.add_port_names(name);
  if (!writer->Write(begun)) return grpc::Status::CANCELLED;
  uint64_t left = request.frame_limit() == 0 ? std::numeric_limits<uint64_t>::max() : request.frame_limit();
  std::chrono::milliseconds sleep = kSleepMin;
  while (left > 0 && !context->IsCancelled()) {
    const bool had_ports = capture->has_ports();
    std::vector<CapturedFrame> frames;
    capture->Take(std::min<uint64_t>(left, kMessageFramesMax), &frames, kMessageBytesMax);
    if (frames.empty() && !had_ports) return grpc::Status::OK;
    v1::CaptureResponse response;
    for (const CapturedFrame& frame : frames) {
      const auto name = names.find(frame.port);
      if (name != names.end()) Encode(frame, name->second, response.add_frames());
    }
    response.set_lost_frames(capture->lost());
    if (!response.frames().empty() && !writer->Write(response)) break;
    left -= static_cast<uint64_t>(response.frames_size());
    const bool has_more =
        frames.size() == kMessageFramesMax || response.ByteSizeLong() > kMessageBytesMax / 2;
    sleep = frames.empty() ? std::min(2 * sleep, kSleepMax) : kSleepMin;
    if (!Sleep(has_more ? std::chrono::milliseconds(0) : sleep)) {
      return ToGrpc(ReasonError(absl::StatusCode::kUnavailable,
                                "ringswitchd is ending, and the capture with it", {"AGENT_ENDING", {}}));
    }
  }
  return left == 0 ? grpc::Status::OK : grpc::Status::CANCELLED;
}

bool CaptureService::Sleep(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !stopped_.wait_for(lock, time, [this] { return is_stopped_; });
}

void CaptureService::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  stopped_.notify_all();
}

}  // namespace ringswitch::agent
