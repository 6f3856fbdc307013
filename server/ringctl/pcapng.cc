#include "server/ringctl/pcapng.h"

#include <algorithm>

namespace ringswitch::ringctl {
namespace {

constexpr std::uint32_t kSectionHeaderBlock = 0x0a0d0d0a;
constexpr std::uint32_t kInterfaceBlock = 1;
constexpr std::uint32_t kStatisticsBlock = 5;
constexpr std::uint32_t kFrameBlock = 6;

constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr std::uint16_t kLinkTypeEthernet = 1;
constexpr std::uint8_t kNanoseconds = 9;  // Times are in units of 10^-9 s.

// Codes of options; those of one kind of block mean another thing in another.
constexpr std::uint16_t kOptionEnd = 0;
constexpr std::uint16_t kOptionComment = 1;
constexpr std::uint16_t kSectionApplication = 4;
constexpr std::uint16_t kInterfaceName = 2;
constexpr std::uint16_t kInterfaceTimeResolution = 9;
constexpr std::uint16_t kFrameFlags = 2;
constexpr std::uint16_t kStatisticsReceived = 4;
constexpr std::uint16_t kStatisticsDropped = 5;

constexpr std::uint32_t kFlagInbound = 1;
constexpr std::uint32_t kFlagOutbound = 2;

// An option's length has 16 bits.
constexpr std::size_t kTextMax = 1024;

// One block, begun where it is made and finished by End.
class Block {
 public:
  Block(std::uint32_t type, std::string* file) : file_(file), begin_(file->size()) {
    Put(type);
    Put(std::uint32_t{0});  // The length, filled in by End.
  }

  template <typename Number>
  void Put(Number number) {
    file_->append(reinterpret_cast<const char*>(&number), sizeof number);
  }

  void PutTime(std::uint64_t time_ns) {
    Put(static_cast<std::uint32_t>(time_ns >> 32));
    Put(static_cast<std::uint32_t>(time_ns));
  }

  void PutPadded(absl::string_view bytes) {
    file_->append(bytes.data(), bytes.size());
    file_->append((4 - bytes.size() % 4) % 4, '\0');
  }

  void PutOption(std::uint16_t code, absl::string_view value) {
    Put(code);
    Put(static_cast<std::uint16_t>(value.size()));
    PutPadded(value);
  }

  template <typename Number>
  void PutNumberOption(std::uint16_t code, Number number) {
    PutOption(code, absl::string_view(reinterpret_cast<const char*>(&number), sizeof number));
  }

  void PutTextOption(std::uint16_t code, absl::string_view text) {
    if (!text.empty()) {
      PutOption(code, text.substr(0, kTextMax));
    }
  }

  void End() {
    Put(kOptionEnd);
    Put(std::uint16_t{0});
    const auto length = static_cast<std::uint32_t>(file_->size() - begin_ + sizeof(std::uint32_t));
    Put(length);
    const auto* const bytes = reinterpret_cast<const char*>(&length);
    std::copy(bytes, bytes + sizeof length, file_->begin() + static_cast<std::ptrdiff_t>(begin_) + 4);
  }

 private:
  std::string* const file_;
  const std::size_t begin_;
};

}  // namespace

void AppendSectionHeader(absl::string_view application, std::string* file) {
  Block block(kSectionHeaderBlock, file);
  block.Put(kByteOrderMagic);
  block.Put(std::uint16_t{1});  // Version 1.0.
  block.Put(std::uint16_t{0});
  block.Put(std::int64_t{-1});  // Length of the section: not known yet.
  block.PutTextOption(kSectionApplication, application);
  block.End();
}

void AppendInterface(absl::string_view name, std::uint32_t snap_length, std::string* file) {
  Block block(kInterfaceBlock, file);
  block.Put(kLinkTypeEthernet);
  block.Put(std::uint16_t{0});
  block.Put(snap_length);
  block.PutTextOption(kInterfaceName, name);
  block.PutNumberOption(kInterfaceTimeResolution, kNanoseconds);
  block.End();
}

void AppendFrame(const PcapngFrame& frame, std::string* file) {
  Block block(kFrameBlock, file);
  block.Put(frame.interface);
  block.PutTime(frame.time_ns);
  block.Put(static_cast<std::uint32_t>(frame.bytes.size()));
  block.Put(frame.length);
  block.PutPadded(frame.bytes);
  block.PutNumberOption(kFrameFlags, frame.is_inbound ? kFlagInbound : kFlagOutbound);
  block.PutTextOption(kOptionComment, frame.comment);
  block.End();
}

void AppendStatistics(std::uint32_t interface, std::uint64_t time_ns, std::uint64_t captured,
                      std::optional<std::uint64_t> lost, absl::string_view comment, std::string* file) {
  Block block(kStatisticsBlock, file);
  block.Put(interface);
  block.PutTime(time_ns);
  block.PutNumberOption(kStatisticsReceived, captured);
  if (lost.has_value()) {
    block.PutNumberOption(kStatisticsDropped, *lost);
  }
  block.PutTextOption(kOptionComment, comment);
  block.End();
}

}  // namespace ringswitch::ringctl
