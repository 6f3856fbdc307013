#pragma once

// What every fuzz target is made of: values taken out of the fuzzer's bytes, and a check that cannot be
// ignored.
//
// Theory of operation. A target reads its input from front to back as a small program: numbers, choices,
// bytes. Where the input has ended every number is zero, so any input is a program, and one that is cut short
// is a shorter one. Nothing else decides what a target does: the same bytes do the same again.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ringswitch::fuzz {

using Bytes = std::vector<uint8_t>;

// Ends the process where something does not hold: the fuzzer keeps the input.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: does not hold: %s\n", what);
  std::abort();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool ended() const { return at_ == size_; }
  size_t left() const { return size_ - at_; }

  uint8_t Byte() { return ended() ? uint8_t{0} : data_[at_++]; }
  uint64_t Number(int bytes) {
    uint64_t number = 0;
    for (int i = 0; i < bytes; ++i) number = number << 8 | Byte();
    return number;
  }
  uint16_t Word() { return static_cast<uint16_t>(Number(2)); }
  // Of 0 to end - 1, where `end` is at most 256.
  uint8_t Below(unsigned end) { return static_cast<uint8_t>(Byte() % end); }
  bool OneIn(unsigned n) { return Below(n) == n - 1; }
  template <typename Value, size_t N>
  const Value& Pick(const Value (&values)[N]) {
    return values[Byte() % N];
  }
  // As many as there are, `count` at most.
  Bytes Take(size_t count) {
    const size_t taken = count < left() ? count : left();
    Bytes bytes(data_ + at_, data_ + at_ + taken);
    at_ += taken;
    return bytes;
  }
  std::string Text(size_t count) {
    const Bytes bytes = Take(count);
    return std::string(bytes.begin(), bytes.end());
  }
  // To the end of the line, which is taken too, or of the input.
  std::string Line() {
    std::string line;
    while (!ended()) {
      const char c = static_cast<char>(Byte());
      if (c == '\n') break;
      line += c;
    }
    return line;
  }

 private:
  const uint8_t* const data_;
  const size_t size_;
  size_t at_ = 0;
};

}  // namespace ringswitch::fuzz
