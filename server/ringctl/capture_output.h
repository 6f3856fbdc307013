// Where the frames of a capture go: a file, standard output, a terminal.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ringswitch/v1/capture.pb.h"

namespace ringswitch::ringctl {

enum class CaptureForm { kPcapng, kText, kJson };

// Used by one thread. What fails names the target.
class CaptureOutput {
 public:
  // `path`: "-" is standard output. `snap_length`: most bytes of a frame, for the pcapng form.
  CaptureOutput(CaptureForm form, std::string path, std::uint32_t snap_length);
  ~CaptureOutput();
  CaptureOutput(const CaptureOutput&) = delete;
  CaptureOutput& operator=(const CaptureOutput&) = delete;

  // Makes the file, or empties the one that is there.
  absl::Status Open();
  // Whoever reads has all frames of the message when this returns.
  absl::Status Write(const v1::CaptureResponse& response);
  // Ends what was begun, so that a reader finds a whole file.
  absl::Status Close();

  std::uint64_t captured_frames() const { return captured_frames_; }
  std::uint64_t lost_frames() const { return lost_frames_; }

 private:
  struct Port {
    std::uint32_t interface = 0;
    std::uint64_t captured_frames = 0;
  };

  Port* FindPort(const std::string& name);
  void AddFrame(const v1::CapturedFrame& frame);
  void AddEnd();
  absl::Status Flush();
  absl::Status Failure(absl::string_view what, int error) const;

  const CaptureForm form_;
  const std::string path_;
  const std::uint32_t snap_length_;
  int fd_ = -1;
  std::string buffer_;  // What was added and not written yet.
  std::map<std::string, Port> ports_;
  std::uint64_t captured_frames_ = 0;
  std::uint64_t lost_frames_ = 0;
  std::uint64_t last_time_ns_ = 0;
};

}  // namespace ringswitch::ringctl
