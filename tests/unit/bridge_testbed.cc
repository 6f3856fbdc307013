#include "tests/unit/bridge_testbed.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <ostream>
#include <sstream>

namespace ringswitch::bridge {
namespace {

constexpr uint64_t kSeed = 0x5eed;
constexpr uint32_t kWorker = 0;

uint32_t HexDigit(char digit) {
  return static_cast<uint32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

// "10,20,100-199"
void AddVlans(const std::string& text, VlanSet* vlans) {
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ',');) {
    const size_t dash = part.find('-');
    const auto first = static_cast<VlanId>(std::stoul(part));
    const auto last =
        dash == std::string::npos ? first : static_cast<VlanId>(std::stoul(part.substr(dash + 1)));
    vlans->AddRange(first, last);
  }
}

void SetPvid(VlanId vid, PortConfig* port) {
  port->pvid = vid;
  port->members.Add(vid);
  port->untagged.Add(vid);
}

uint32_t FeatureOf(const std::string& word) {
  static const std::map<std::string, uint32_t> kWords = {
      {"down", kAdminDown},
      {"link-down", kLinkDown},
      {"no-learning", kNoLearning},
      {"no-unknown-flood", kNoUnknownUnicastFlood},
      {"no-multicast-flood", kNoMulticastFlood},
      {"no-broadcast-flood", kNoBroadcastFlood},
      {"isolated", kIsolated},
      {"hairpin", kHairpin},
      {"locked", kLocked},
      {"bpdu-guard", kBpduGuard},
      {"mac-guard", kSourceMacGuard},
      {"address-guard", kSourceAddressGuard},
      {"ra-guard", kRouterAdvertisementGuard},
      {"dhcp-guard", kDhcpServerGuard},
  };
  const auto found = kWords.find(word);
  return found != kWords.end() ? found->second : 0;
}

// "10/2"
Rate ParseRate(const std::string& text) {
  const size_t slash = text.find('/');
  return {.per_second = std::stoull(text), .burst = std::stoull(text.substr(slash + 1))};
}

bool ParseStorm(const std::string& word, const std::string& value, PortConfig* port) {
  static constexpr std::string_view kPrefix = "storm-", kBits = "-bits";
  static constexpr std::array<std::string_view, kFloodClasses> kClasses = {"broadcast", "multicast",
                                                                           "unknown"};
  if (word.rfind(kPrefix, 0) != 0) return false;
  std::string_view name = std::string_view(word).substr(kPrefix.size());
  const bool is_bits = name.size() > kBits.size() && name.substr(name.size() - kBits.size()) == kBits;
  if (is_bits) name.remove_suffix(kBits.size());
  for (size_t i = 0; i < kFloodClasses; ++i) {
    if (name != kClasses[i]) continue;
    (is_bits ? port->storm[i].bits : port->storm[i].frames) = ParseRate(value);
    port->features |= kStormControl;
    return true;
  }
  return false;
}

void AddGuarded(const std::string& text, SourceGuard* guard) {
  Ipv4Address ipv4;
  Ipv6Address ipv6;
  if (::inet_pton(AF_INET, text.c_str(), ipv4.data()) == 1) {
    guard->ipv4.push_back(ipv4);
  } else if (::inet_pton(AF_INET6, text.c_str(), ipv6.data()) == 1) {
    guard->ipv6.push_back(ipv6);
  } else {
    ADD_FAILURE() << text << " is no address";
  }
}

// What takes a value.
void SetAttribute(const std::string& word, const std::string& value, PortConfig* port) {
  if (word == "access") {
    port->vlan_mode = VlanMode::kAccess;
    SetPvid(static_cast<VlanId>(std::stoul(value)), port);
  } else if (word == "trunk") {
    port->vlan_mode = VlanMode::kTrunk;
    AddVlans(value, &port->members);
  } else if (word == "native") {
    SetPvid(static_cast<VlanId>(std::stoul(value)), port);
  } else if (word == "mtu") {
    port->mtu = static_cast<uint32_t>(std::stoul(value));
  } else if (word == "limit") {
    port->mac_limit = static_cast<uint32_t>(std::stoul(value));
  } else if (word == "bpdu-recovery") {
    port->bpdu_recovery_s = static_cast<uint32_t>(std::stoul(value));
  } else if (word == "mac") {
    port->source_guard.macs.push_back(*MacAddress::Parse(value));
  } else if (word == "ip") {
    AddGuarded(value, &port->source_guard);
  } else if (word == "receive-rate") {
    port->receive_rate = ParseRate(value);
    port->features |= kReceiveRate;
  } else if (word == "transmit-rate") {
    port->transmit_rate = ParseRate(value);
    port->features |= kTransmitRate;
  } else if (!ParseStorm(word, value, port)) {
    ADD_FAILURE() << "a port cannot say " << word;
  }
}

FrameBytes ApplyEdit(const FrameBytes& frame, TagEdit edit, uint16_t tci) {
  FrameBytes buffer(kTagLength + frame.size());
  uint8_t* start = buffer.data() + kTagLength;
  std::copy(frame.begin(), frame.end(), start);
  switch (edit) {
    case TagEdit::kNone:
      break;
    case TagEdit::kPush:
      start = PushTag(start, tci);
      break;
    case TagEdit::kPop:
      start = PopTag(start);
      break;
    case TagEdit::kSetVid:
      SetVid(start, tci & 0x0fff);
      break;
  }
  return {start, buffer.data() + buffer.size()};
}

}  // namespace

std::unique_ptr<PortConfig> ParsePort(std::string_view text) {
  auto port = std::make_unique<PortConfig>();
  std::istringstream words{std::string(text)};
  for (std::string word, value; words >> word;) {
    if (word == "none") return nullptr;
    if (word == "unaware") continue;
    if (word == "tagged") {
      port->untagged = VlanSet();
    } else if (const uint32_t feature = FeatureOf(word); feature != 0) {
      port->features |= feature;
    } else {
      words >> value;
      SetAttribute(word, value, port.get());
    }
  }
  return port;
}

FrameBytes MakeFrame(size_t length, std::string_view hex) {
  FrameBytes frame;
  bool high = true;
  for (const char digit : hex) {
    if (digit == ' ') continue;
    if (high) {
      frame.push_back(static_cast<uint8_t>(HexDigit(digit) << 4));
    } else {
      frame.back() = static_cast<uint8_t>(frame.back() | HexDigit(digit));
    }
    high = !high;
  }
  EXPECT_LE(frame.size(), length) << hex;
  frame.resize(length);
  return frame;
}

FrameBytes F1() {
  return MakeFrame(60, "ffffffffffff 020000000a01 88b5 543031");
}
FrameBytes F2() {
  return MakeFrame(60, "020000000a01 020000000a02 88b5 543032");
}
FrameBytes F3() {
  return MakeFrame(64, "ffffffffffff 020000000a01 8100a00a 88b5 543033");
}
FrameBytes F5() {
  return MakeFrame(64, "ffffffffffff 020000000a01 81000fff 88b5 543035");
}
FrameBytes F6() {
  return MakeFrame(64, "ffffffffffff 020000000a01 81000014 88b5 543036");
}
FrameBytes F7() {
  return MakeFrame(68, "ffffffffffff 020000000a01 88a80064 8100000a 88b5 543037");
}
FrameBytes F8() {
  return MakeFrame(68, "ffffffffffff 020000000a01 8100000a 81000014 88b5 543038");
}
FrameBytes F9() {
  return MakeFrame(60, "0180c200000e 020000000a01 88cc");
}
FrameBytes F10() {
  return MakeFrame(60, "0180c2000000 020000000a01 0026 424203");
}
FrameBytes F11() {
  return MakeFrame(60, "0180c2000010 020000000a01 88b5 543131");
}
FrameBytes F12() {
  return MakeFrame(60, "ffffffffffff 01005e010203 88b5 543132");
}
FrameBytes F13() {
  return MakeFrame(60, "ffffffffffff 000000000000 88b5 543133");
}
FrameBytes F14() {
  return MakeFrame(16, "ffffffffffff 020000000a01 8100000a");
}
FrameBytes F15() {
  return MakeFrame(13, "ffffffffffff 020000000a01 88");
}
FrameBytes F16() {
  return MakeFrame(60, "3333ff0000b1 020000000a03 88b5 543136");
}

std::string FdbText(const FdbKey& key, PortIndex port, FdbKind kind) {
  std::string text = key.mac.ToString() + " " + std::to_string(key.vid) + " p" + std::to_string(port);
  if (kind == FdbKind::kStatic) text += " static";
  return text;
}

std::ostream& operator<<(std::ostream& out, const PortFrame& port_frame) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  const FrameBytes& frame = port_frame.frame;
  out << "p" << port_frame.port << " " << frame.size() << " bytes ";
  for (size_t i = 0; i < std::min<size_t>(frame.size(), 32); ++i) {
    out << (i == 6 || i == 12 || i == 16 ? " " : "") << kDigits[frame[i] >> 4] << kDigits[frame[i] & 0xf];
  }
  return out;
}

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

Testbed::Testbed(const std::vector<const char*>& ports, const SwitchConfig& config, uint32_t fdb_capacity)
    : fdb_(fdb_capacity, kSeed, &epochs_),
      counters_(kPortsMax),
      meters_(kPortsMax),
      vlan_counters_(kVlanIdMax + 1),
      vlan_counters_by_worker_{vlan_counters_.data()},
      port_configs_(kPortsMax),
      switch_config_(config),
      pipeline_(counters_, meters_, kWorker),
      transmitted_(kPortsMax) {
  for (size_t i = 0; i < ports.size(); ++i) port_configs_[i + 1] = ParsePort(ports[i]);
  epochs_.Enter(kWorker);
  Publish();
}

Testbed::~Testbed() {
  epochs_.Leave(kWorker);
}

void Testbed::SetPort(PortIndex port, std::string_view text) {
  port_configs_[port] = ParsePort(text);
  Publish();
}

void Testbed::SetSwitch(const SwitchConfig& config) {
  switch_config_ = config;
  Publish();
}

void Testbed::Publish() {
  switch_entry_ = {.config = switch_config_,
                   .fdb = &fdb_,
                   .ports = {},
                   .vlan_counters = switch_config_.vlan_counters ? vlan_counters_by_worker_ : nullptr};
  fdb_.SetFlapGuard(switch_config_.flap_limit, switch_config_.flap_hold_s);
  for (size_t i = 0; i < kPortsMax; ++i) {
    config_.ports[i] = port_configs_[i].get();
    if (port_configs_[i]) switch_entry_.ports.push_back(static_cast<PortIndex>(i));
  }
  config_.switches[0] = &switch_entry_;
  pipeline_.SetConfig(&config_);
  epochs_.Boundary(kWorker);
}

void Testbed::Wait(uint32_t seconds) {
  now_s += seconds;
  now_ns += uint64_t{seconds} * 1'000'000'000;
}

Testbed::Result Testbed::Send(PortIndex port, const FrameBytes& frame, uint32_t wire_length) {
  // Exactly as long as the frame, so that AddressSanitizer sees a read past its end.
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[frame.size()]);
  std::copy(frame.begin(), frame.end(), bytes.get());
  const auto length = static_cast<uint32_t>(frame.size());
  pipeline_.SetTime({.ns = now_ns, .s = now_s});
  const Decision& decision =
      pipeline_.Process(port, bytes.get(), length, wire_length == 0 ? length : wire_length);
  Result result{.forwarded = decision.forwarded,
                .reason = decision.reason,
                .frame_class = decision.frame_class,
                .outputs = {},
                .dropped = {}};
  uint32_t tagged_count = 0;
  for (const Egress& egress : decision.egress) {
    const TagEdit edit = egress.tagged ? decision.tagged_edit : decision.untagged_edit;
    result.outputs.push_back({egress.port, ApplyEdit(frame, edit, decision.tci)});
    tagged_count += egress.tagged ? 1 : 0;
    ++transmitted_[egress.port];
  }
  for (const EgressDrop& drop : decision.dropped) result.dropped.emplace_back(drop.port, drop.reason);
  EXPECT_EQ(tagged_count, decision.tagged_count);
  epochs_.Boundary(kWorker);
  return result;
}

PortTotals Testbed::TotalsOf(PortIndex port) const {
  PortTotals totals;
  totals.Add(counters_[port]);
  return totals;
}

std::vector<std::string> Testbed::FdbText() const {
  std::vector<FdbRow> rows;
  EXPECT_EQ(fdb_.List(0, {}, UINT32_MAX, now_s, &rows), 0u);
  std::vector<std::string> texts;
  for (const FdbRow& row : rows) {
    texts.push_back(bridge::FdbText(row.key, row.target.port, row.target.kind));
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

void Testbed::ExpectLedgersHold() const {
  for (PortIndex port = 0; port < kPortsMax; ++port) {
    const PortTotals totals = TotalsOf(port);
    EXPECT_EQ(totals.receive_frames, totals.forwarded_frames + totals.DropsOn(DropSide::kIngress))
        << "p" << port;
    EXPECT_EQ(totals.queued_copies, transmitted_[port] + totals.DropsOn(DropSide::kEgress)) << "p" << port;
  }
}

void ExpectRow(const Row& row) {
  Testbed testbed(row.ports, row.config);
  for (const StaticEntry& entry : row.statics) {
    ASSERT_EQ(testbed.fdb().AddStatic({entry.mac, entry.vid}, entry.port, false), FdbResult::kOk);
  }
  for (const PortFrame& input : row.before) testbed.Send(input.port, input.frame);

  const PortTotals before = testbed.TotalsOf(row.input.port);
  std::vector<PortTotals> egress_before;
  for (const EgressDrop& drop : row.egress_drops) egress_before.push_back(testbed.TotalsOf(drop.port));
  const Testbed::Result result = testbed.Send(row.input.port, row.input.frame, row.wire_length);
  EXPECT_THAT(result.outputs, testing::ContainerEq(row.outputs));
  EXPECT_EQ(result.forwarded, !row.drop.has_value());

  const PortTotals after = testbed.TotalsOf(row.input.port);
  EXPECT_EQ(after.receive_frames, before.receive_frames + 1);
  EXPECT_EQ(after.receive_bytes, before.receive_bytes + row.input.frame.size());
  EXPECT_EQ(after.DropsOn(DropSide::kIngress), before.DropsOn(DropSide::kIngress) + (row.drop ? 1 : 0));
  if (row.drop) {
    EXPECT_EQ(TextOf(result.reason).label, TextOf(*row.drop).label);
    const auto reason = static_cast<size_t>(*row.drop);
    EXPECT_EQ(after.drops[reason], before.drops[reason] + 1);
  }
  EXPECT_EQ(result.dropped.size(), row.egress_drops.size());
  for (size_t i = 0; i < std::min(result.dropped.size(), row.egress_drops.size()); ++i) {
    EXPECT_EQ(result.dropped[i], std::pair(row.egress_drops[i].port, row.egress_drops[i].reason));
  }
  for (size_t i = 0; i < row.egress_drops.size(); ++i) {
    const EgressDrop& drop = row.egress_drops[i];
    const auto reason = static_cast<size_t>(drop.reason);
    EXPECT_EQ(testbed.TotalsOf(drop.port).drops[reason], egress_before[i].drops[reason] + 1);
  }
  if (row.fdb) {
    EXPECT_THAT(testbed.FdbText(), testing::ContainerEq(*row.fdb));
  }
  testbed.ExpectLedgersHold();
}

}  // namespace ringswitch::bridge
