#include "tests/unit/bridge_testbed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

std::unique_ptr<PortConfig> ParsePort(std::string_view text) {
  auto port = std::make_unique<PortConfig>();
  std::istringstream words{std::string(text)};
  for (std::string word, value; words >> word;) {
    if (word == "none") return nullptr;
    if (word == "tagged") {
      port->untagged = VlanSet();
      continue;
    }
    if (word == "unaware") continue;
    words >> value;
    if (word == "access") {
      port->vlan_mode = VlanMode::kAccess;
      SetPvid(static_cast<VlanId>(std::stoul(value)), port.get());
    } else if (word == "trunk") {
      port->vlan_mode = VlanMode::kTrunk;
      AddVlans(value, &port->members);
    } else if (word == "native") {
      SetPvid(static_cast<VlanId>(std::stoul(value)), port.get());
    } else if (word == "mtu") {
      port->mtu = static_cast<uint32_t>(std::stoul(value));
    } else if (word == "limit") {
      port->mac_limit = static_cast<uint32_t>(std::stoul(value));
    } else {
      ADD_FAILURE() << "a port cannot say " << word;
    }
  }
  return port;
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
      port_configs_(kPortsMax),
      switch_config_(config),
      pipeline_(counters_),
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
  switch_entry_ = {.config = switch_config_, .fdb = &fdb_, .ports = {}};
  for (size_t i = 0; i < kPortsMax; ++i) {
    config_.ports[i] = port_configs_[i].get();
    if (port_configs_[i]) switch_entry_.ports.push_back(static_cast<PortIndex>(i));
  }
  config_.switches[0] = &switch_entry_;
  pipeline_.SetConfig(&config_);
  epochs_.Boundary(kWorker);
}

Testbed::Result Testbed::Send(PortIndex port, const FrameBytes& frame, uint32_t wire_length) {
  // Exactly as long as the frame, so that AddressSanitizer sees a read past its end.
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[frame.size()]);
  std::copy(frame.begin(), frame.end(), bytes.get());
  const auto length = static_cast<uint32_t>(frame.size());
  const Decision& decision =
      pipeline_.Process(port, bytes.get(), length, wire_length == 0 ? length : wire_length, now_s);
  Result result{.forwarded = decision.forwarded,
                .reason = decision.reason,
                .frame_class = decision.frame_class,
                .outputs = {}};
  uint32_t tagged_count = 0;
  for (const Egress& egress : decision.egress) {
    const TagEdit edit = egress.tagged ? decision.tagged_edit : decision.untagged_edit;
    result.outputs.push_back({egress.port, ApplyEdit(frame, edit, decision.tci)});
    tagged_count += egress.tagged ? 1 : 0;
    ++transmitted_[egress.port];
  }
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
    std::ostringstream text;
    text << row.key.mac.ToString() << " " << row.key.vid << " p" << row.target.port;
    if (row.target.kind == FdbKind::kStatic) text << " static";
    texts.push_back(text.str());
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
