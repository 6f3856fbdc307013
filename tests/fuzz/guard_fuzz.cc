// Guards against a receiver that takes what it can: what such a receiver would believe of a sender, no guard
// lets pass.
//
// Theory of operation. The input is the addresses that a port may use and a frame: tags, then ARP, IPv4 or
// IPv6 with extension headers and fragments, then UDP or ICMPv6, each built from choices; some bytes are
// poked and the end is cut off. A receiver written here as a careless host would be (any number of priority
// tags and extension headers, nothing verified that need not be) says what it would take the frame for: an
// ARP claim, an IP sender, a router's word, a DHCP server's. Where that is not the port's to say, the guard
// must have dropped the frame; and a frame without any of it passes.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "dataplane/bridge/guard.h"
#include "tests/fuzz/input.h"

namespace ringswitch::bridge {
namespace {

using fuzz::Bytes;
using fuzz::Input;
using fuzz::Require;

constexpr uint64_t kMacs[] = {0x0200'0000'0a01, 0x0200'0000'0a02, 0x0200'0000'0a03};
constexpr Ipv4Address kIpv4[] = {{10, 0, 0, 1}, {10, 0, 0, 2}, {0, 0, 0, 0}};
constexpr uint8_t kOwnIpv6 = 1;

// --- frames ---

void Append(uint64_t number, int bytes, Bytes* out) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    out->push_back(static_cast<uint8_t>(number >> shift));
}
template <typename List>
void AppendList(const List& list, Bytes* out) {
  out->insert(out->end(), list.begin(), list.end());
}

Ipv6Address ReadIpv6(Input* input) {
  const uint8_t choice = input->Below(8);
  if (choice == 0) return {};
  if (choice < 4) return LinkLocalOf(MacAddress(kMacs[choice - 1]));
  return {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(choice - 3)};
}

void AppendUdp(Input* input, Bytes* out) {
  static constexpr uint16_t kPorts[] = {67, 68, 547, 546, 53, 1024};
  Append(input->Pick(kPorts), 2, out);
  Append(input->Pick(kPorts), 2, out);
  Append(8, 4, out);
}

void AppendIcmpv6(Input* input, Bytes* out) {
  static constexpr uint8_t kTypes[] = {133, 134, 135, 136, 137, 128, 143, 131};
  Append(input->Pick(kTypes), 1, out);
  Append(input->Number(3), 7, out);
  if (input->OneIn(2)) AppendList(ReadIpv6(input), out);
  for (unsigned i = input->Below(3); i > 0; --i) {
    Append(input->Below(4), 1, out);
    Append(input->OneIn(8) ? input->Byte() : 1, 1, out);
    Append(input->Pick(kMacs), 6, out);
  }
}

void AppendIpv4(Input* input, Bytes* out) {
  const size_t options = input->OneIn(4) ? input->Below(11) : 0;
  Append(0x4500 + options * 256, 2, out);
  Append(0, 4, out);
  Append(input->OneIn(4) ? input->Word() : 0x4000, 2, out);
  Append(64, 1, out);
  Append(input->OneIn(4) ? input->Byte() : 17, 1, out);
  Append(0, 2, out);
  AppendList(input->Pick(kIpv4), out);
  Append(0x0a000009, 4, out);
  out->resize(out->size() + options * 4);
  AppendUdp(input, out);
}

void AppendIpv6(Input* input, Bytes* out) {
  static constexpr uint8_t kHeaders[] = {0, 43, 44, 51, 60, 135, 139, 140};
  static constexpr uint16_t kFragments[] = {0, 1, 8};
  static constexpr uint8_t kProtocols[] = {58, 58, 17, 59, 6, 50, 148, 253};
  const uint8_t count = input->OneIn(8) ? input->Below(20) : input->Below(3);
  Bytes chain;
  for (unsigned i = 0; i < count; ++i) chain.push_back(input->Pick(kHeaders));
  const uint8_t protocol = input->Pick(kProtocols);
  chain.push_back(protocol);
  Append(0x6000'0000, 4, out);
  Append(0, 2, out);
  Append(chain[0], 1, out);
  Append(input->OneIn(4) ? 64 : 255, 1, out);
  AppendList(ReadIpv6(input), out);
  AppendList(ReadIpv6(input), out);
  for (unsigned i = 0; i < count; ++i) {
    const bool is_fragment = chain[i] == 44;
    Append(chain[i + 1], 1, out);
    Append(is_fragment || !input->OneIn(8) ? 0 : input->Below(4), 1, out);
    Append(is_fragment ? input->Pick(kFragments) : 0, 2, out);
    Append(0, 4, out);
  }
  if (protocol == 17) return AppendUdp(input, out);
  AppendIcmpv6(input, out);
}

void AppendArp(Input* input, Bytes* out) {
  Append(0x0001'0800'0604, 6, out);
  Append(input->OneIn(2) ? 2 : 1, 2, out);
  Append(input->Pick(kMacs), 6, out);
  AppendList(input->Pick(kIpv4), out);
  Append(0, 6, out);
  AppendList(input->Pick(kIpv4), out);
}

Bytes ReadFrame(Input* input) {
  Bytes frame;
  Append(0xffff'ffff'ffff, 6, &frame);
  Append(input->Pick(kMacs), 6, &frame);
  const bool has_outer = input->OneIn(2);
  if (has_outer) Append(0x8100'000a, 4, &frame);
  for (unsigned i = input->OneIn(4) ? input->Below(4) : 0; i > 0; --i)
    Append(input->OneIn(2) ? 0x8100'0000 : 0x88a8'0000, 4, &frame);
  switch (input->Below(4)) {
    case 0:
      Append(0x0806, 2, &frame);
      AppendArp(input, &frame);
      break;
    case 1:
      Append(0x0800, 2, &frame);
      AppendIpv4(input, &frame);
      break;
    default:
      Append(0x86dd, 2, &frame);
      AppendIpv6(input, &frame);
  }
  if (input->OneIn(2)) frame.resize(std::max<size_t>(frame.size(), 60));
  while (!input->ended()) {
    const size_t at = 12 + input->Byte() % (frame.size() - 12);
    frame[at] = input->Byte();
    if (input->OneIn(16)) frame.resize(std::max<size_t>(18, input->Byte() % frame.size()));
  }
  return frame;
}

SourceGuard ReadGuard(Input* input) {
  SourceGuard guard;
  const uint8_t lists = input->Byte();
  if ((lists & 1) != 0) guard.macs.emplace_back(kMacs[0]);
  if ((lists & 2) != 0) guard.macs.emplace_back(kMacs[1]);
  if ((lists & 4) != 0) guard.ipv4.push_back(kIpv4[0]);
  if ((lists & 8) != 0) guard.ipv6.push_back({0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kOwnIpv6});
  return guard;
}

// --- the careless receiver ---

class Receiver {
 public:
  Receiver(const Bytes& frame, const SourceGuard& guard) : frame_(frame), guard_(guard) {
    source_ = MacAddress::FromBytes(&frame_[6]);
    size_t at = 12;
    // The outermost tag is the VLAN's; priority tags mean nothing.
    for (int tags = 0; Has(at, 2) && (Number(at, 2) == 0x8100 || Number(at, 2) == 0x88a8); ++tags) {
      if (!Has(at, 6)) return;
      const bool is_ours = tags == 0 && Number(at, 2) == 0x8100;
      if (!is_ours && Number(at + 2, 2) % 4096 != 0) return;  // another VLAN's business
      at += 4;
    }
    if (!Has(at, 2)) return;
    type_ = Number(at, 2);
    network_ = at + 2;
    if (type_ == 0x86dd) FindIpv6Upper();
    if (type_ == 0x0800 && Has(network_, 20)) {
      protocol_ = static_cast<uint8_t>(Number(network_ + 9, 1));
      is_later_fragment_ = Number(network_ + 6, 2) % 0x2000 != 0;
      upper_ = network_ + Number(network_, 1) % 16 * 4;
    }
  }

  // Whether it would learn of a router: from a neighbour's link-local address, with a whole header.
  bool HearsRouter() const {
    if (type_ != 0x86dd || !upper_.has_value() || is_later_fragment_ || protocol_ != 58 || !Has(*upper_, 1))
      return false;
    const uint64_t type = Number(*upper_, 1);
    return (type == 134 || type == 137) && Number(network_ + 7, 1) == 255 &&
           Number(network_ + 8, 2) / 64 == 0xfe80 / 64;
  }
  bool HearsDhcpServer() const {
    if (!upper_.has_value() || is_later_fragment_ || protocol_ != 17 || !Has(*upper_, 8)) return false;
    return Number(*upper_, 2) == (type_ == 0x0800 ? 67 : 547);
  }
  // Whether it would take the frame for that of an address that is not the port's.
  bool BelievesForeignSender() const {
    if (type_ == 0x0806) {
      if (!Has(network_, 28)) return false;
      const auto address = Take<4>(network_ + 14);
      const bool is_probe = address == Ipv4Address{} && Number(network_ + 6, 2) == 1;
      return !Owns(MacAddress(Number(network_ + 8, 6))) || (!IsOwn(guard_.ipv4, address) && !is_probe);
    }
    if (type_ == 0x0800 && Has(network_, 20)) {
      const auto address = Take<4>(network_ + 12);
      return address != Ipv4Address{} && !IsOwn(guard_.ipv4, address);
    }
    if (type_ != 0x86dd || !Has(network_, 40)) return false;
    const auto address = Take<16>(network_ + 8);
    if (address != Ipv6Address{} && !Owns(address)) return true;
    return HearsForeignNeighbour();
  }
  // Nothing that a guard looks at.
  bool IsOther() const { return type_ != 0x0806 && type_ != 0x0800 && type_ != 0x86dd; }

 private:
  bool Has(size_t at, size_t count) const { return at + count <= frame_.size(); }
  uint64_t Number(size_t at, int bytes) const {
    uint64_t number = 0;
    for (int i = 0; i < bytes; ++i) number = number << 8 | frame_[at + static_cast<size_t>(i)];
    return number;
  }
  template <size_t N>
  std::array<uint8_t, N> Take(size_t at) const {
    std::array<uint8_t, N> bytes;
    std::copy_n(frame_.begin() + static_cast<std::ptrdiff_t>(at), N, bytes.begin());
    return bytes;
  }
  template <typename Address>
  static bool IsOwn(const std::vector<Address>& list, const Address& address) {
    return std::count(list.begin(), list.end(), address) != 0;
  }
  bool Owns(MacAddress mac) const { return guard_.macs.empty() ? mac == source_ : IsOwn(guard_.macs, mac); }
  bool Owns(const Ipv6Address& address) const {
    bool is_own = IsOwn(guard_.ipv6, address);
    for (const uint64_t bits : kMacs) {
      const MacAddress mac(bits);
      is_own = is_own || (Owns(mac) && address == LinkLocalOf(mac));
    }
    return is_own || (Owns(source_) && address == LinkLocalOf(source_));
  }

  void FindIpv6Upper() {
    if (!Has(network_, 40)) return;
    uint8_t next = static_cast<uint8_t>(Number(network_ + 6, 1));
    size_t at = network_ + 40;
    for (;;) {
      const bool is_extension = next == 0 || next == 43 || next == 44 || next == 51 || next == 60 ||
                                next == 135 || next == 139 || next == 140;
      if (!is_extension) break;
      if (!Has(at, 8)) return;
      size_t length = (Number(at + 1, 1) + 1) * 8;
      if (next == 44) {
        length = 8;
        is_later_fragment_ = is_later_fragment_ || Number(at + 2, 2) / 8 != 0;
        is_fragment_ = is_fragment_ || (Number(at + 2, 2) & 0xfff9) != 0;
      }
      if (next == 51) length = (Number(at + 1, 1) + 2) * 4;
      next = static_cast<uint8_t>(Number(at, 1));
      at += length;
    }
    protocol_ = next;
    upper_ = at;
  }

  // Neighbour discovery of one whole frame: the target's address and the link-layer address told with it.
  bool HearsForeignNeighbour() const {
    if (!upper_.has_value() || is_fragment_ || protocol_ != 58 || !Has(*upper_, 1)) return false;
    const uint64_t type = Number(*upper_, 1);
    size_t at = *upper_ + (type == 133 ? 8 : 24);
    if ((type != 133 && type != 135 && type != 136) || !Has(*upper_, at - *upper_)) return false;
    if (type == 136 && !Owns(Take<16>(*upper_ + 8))) return true;
    const uint64_t wanted = type == 136 ? 2 : 1;
    while (Has(at, 8) && Number(at + 1, 1) != 0) {
      if (!Has(at, Number(at + 1, 1) * 8)) return false;
      if (Number(at, 1) == wanted && !Owns(MacAddress(Number(at + 2, 6)))) return true;
      at += Number(at + 1, 1) * 8;
    }
    return false;
  }

  const Bytes& frame_;
  const SourceGuard& guard_;
  MacAddress source_;
  uint64_t type_ = 0;
  size_t network_ = 0;
  uint8_t protocol_ = 0;
  bool is_fragment_ = false, is_later_fragment_ = false;
  std::optional<size_t> upper_;  // where its header begins
};

void Check(const SourceGuard& guard, const Bytes& frame) {
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[frame.size()]);
  std::copy(frame.begin(), frame.end(), bytes.get());
  FrameHeader header;
  if (ParseHeader(bytes.get(), frame.size(), &header) != ParseResult::kOk) return;
  const auto passes = [&](uint32_t features) {
    return !CheckGuards(features, guard, header.source, {bytes.get(), frame.size()}).has_value();
  };
  const Receiver receiver(frame, guard);
  Require(passes(0), "no guard drops nothing");
  const bool is_listed = std::count(guard.macs.begin(), guard.macs.end(), header.source) != 0;
  Require(passes(kSourceMacGuard) == is_listed, "a source is one of the list");
  Require(!receiver.HearsRouter() || !passes(kRouterAdvertisementGuard), "no router is heard");
  Require(!receiver.HearsDhcpServer() || !passes(kDhcpServerGuard), "no DHCP server is heard");
  Require(!receiver.BelievesForeignSender() || !passes(kSourceAddressGuard), "no foreign sender is believed");
  const uint32_t others = kGuardFeatures & ~kSourceMacGuard;
  if (receiver.IsOther()) Require(passes(others), "what is neither IP nor ARP passes");
  const bool all =
      passes(kRouterAdvertisementGuard) && passes(kDhcpServerGuard) && passes(kSourceAddressGuard);
  Require(passes(others) == all, "guards do not change each other");
}

}  // namespace
}  // namespace ringswitch::bridge

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringswitch::fuzz::Input input(data, size);
  const ringswitch::bridge::SourceGuard guard = ringswitch::bridge::ReadGuard(&input);
  ringswitch::bridge::Check(guard, ringswitch::bridge::ReadFrame(&input));
  return 0;
}
