#include "server/ringctl/capture_output.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/ringctl/frame_text.h"
#include "server/ringctl/pcapng.h"
#include "server/ringctl/table.h"

namespace ringswitch::ringctl {
namespace {

std::uint64_t TimeNs(const v1::CapturedFrame& frame) {
  return static_cast<std::uint64_t>(frame.time().seconds()) * 1'000'000'000 +
         static_cast<std::uint64_t>(frame.time().nanos());
}

std::string TextLine(const v1::CapturedFrame& frame) {
  const std::string time = absl::FormatTime(
      "%H:%M:%E6S", absl::FromUnixNanos(static_cast<std::int64_t>(TimeNs(frame))), absl::LocalTimeZone());
  const std::string direction = EnumWord(v1::CaptureDirection_Name(frame.direction()), "CAPTURE_DIRECTION_");
  return absl::StrCat(time, " ", EscapeControls(frame.port_name()), " ", direction, " ", frame.length(), " ",
                      DescribeFrame(frame.data()),
                      frame.drop_reason().empty() ? "" : " dropped: ", EscapeControls(frame.drop_reason()),
                      "\n");
}

// One object a line.
std::string JsonLine(const v1::CapturedFrame& frame) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string json;
  google::protobuf::util::MessageToJsonString(frame, &json, options).ok();
  return absl::StrCat(json, "\n");
}

}  // namespace

CaptureOutput::CaptureOutput(CaptureForm form, std::string path, std::uint32_t snap_length)
    : form_(form), path_(std::move(path)), snap_length_(snap_length) {}

CaptureOutput::~CaptureOutput() {
  if (fd_ > STDERR_FILENO) {
    close(fd_);
  }
}

absl::Status CaptureOutput::Open() {
  fd_ = path_ == "-" ? STDOUT_FILENO : open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    return Failure("open", errno);
  }
  if (form_ == CaptureForm::kPcapng) {
    AppendSectionHeader("ringctl " RINGCTL_VERSION, &buffer_);
  }
  return Flush();
}

CaptureOutput::Port* CaptureOutput::FindPort(const std::string& name) {
  const auto [port, is_new] = ports_.try_emplace(name);
  if (is_new) {
    port->second.interface = static_cast<std::uint32_t>(ports_.size() - 1);
    if (form_ == CaptureForm::kPcapng) {
      AppendInterface(name, snap_length_, &buffer_);
    }
  }
  return &port->second;
}

void CaptureOutput::AddFrame(const v1::CapturedFrame& frame) {
  Port* const port = FindPort(frame.port_name());
  ++port->captured_frames;
  ++captured_frames_;
  last_time_ns_ = TimeNs(frame);
  switch (form_) {
    case CaptureForm::kText:
      buffer_ += TextLine(frame);
      break;
    case CaptureForm::kJson:
      buffer_ += JsonLine(frame);
      break;
    case CaptureForm::kPcapng: {
      PcapngFrame record;
      record.interface = port->interface;
      record.time_ns = last_time_ns_;
      record.is_inbound = frame.direction() == v1::CAPTURE_DIRECTION_RECEIVE;
      record.length = frame.length();
      record.bytes = frame.data();
      if (!frame.drop_reason().empty()) {
        record.comment = absl::StrCat("dropped: ", frame.drop_reason());
      }
      AppendFrame(record, &buffer_);
      break;
    }
  }
}

absl::Status CaptureOutput::Write(const v1::CaptureResponse& response) {
  // Before the first frame, so that a capture without frames has its interfaces too.
  for (const std::string& name : response.port_names()) {
    FindPort(name);
  }
  for (const v1::CapturedFrame& frame : response.frames()) {
    AddFrame(frame);
  }
  lost_frames_ = response.lost_frames();
  return Flush();
}

void CaptureOutput::AddEnd() {
  for (const auto& [name, port] : ports_) {
    // Frames are lost before it is known whose they were.
    const bool is_first = port.interface == 0;
    AppendStatistics(port.interface, last_time_ns_, port.captured_frames,
                     is_first ? std::optional(lost_frames_) : std::nullopt,
                     is_first && ports_.size() > 1 ? "lost frames are those of all ports" : "", &buffer_);
  }
}

absl::Status CaptureOutput::Close() {
  if (fd_ < 0) {
    return absl::OkStatus();
  }
  if (form_ == CaptureForm::kPcapng) {
    AddEnd();
  }
  absl::Status status = Flush();
  if (fd_ > STDERR_FILENO && close(fd_) != 0) {
    status.Update(Failure("write", errno));
  }
  fd_ = -1;
  return status;
}

absl::Status CaptureOutput::Flush() {
  absl::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return Failure("write", written == 0 ? ENOSPC : errno);
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status CaptureOutput::Failure(absl::string_view what, int error) const {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path_ == "-" ? "standard output" : path_,
                                             ": ", std::strerror(error)));
}

}  // namespace ringswitch::ringctl
