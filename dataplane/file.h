#pragma once

// An owned file descriptor.

#include <unistd.h>

#include <utility>

namespace ringswitch {

class File {
 public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    if (this != &other) Close(), fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  ~File() { Close(); }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace ringswitch
