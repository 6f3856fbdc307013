// The same random frames and changes through a kernel bridge and through the dataplane, over real devices:
// the same frames must come out at the same places, in the same order, and both must know the same addresses.
//
// Theory of operation. A seed decides everything. A step is a frame; some from one device make a burst, after
// which everything that came out is compared, device by device. Only then comes the next burst, perhaps from
// another port, or a change: so both sides see one order of events. A failure prints the seed and the step;
// RINGSWITCH_SEED repeats it, RINGSWITCH_STEPS says how many. VLAN-unaware, and VLAN-aware where the kernel's
// bridge filters VLANs. Then stations are also on 8021q devices on top of each pod's, on both sides: what
// they send is tagged by the kernel, mostly beside the frame and not in it, and what comes to them is
// untagged by it.
//
// Differences, each decided in the design, by the number of the decision or the section; there are no others:
//   2   a frame to 01:80:c2:00:00:00 is never relayed by default; the kernel relays it while it does not
//   speak
//       STP itself. None is sent.
//   4   an access port takes no tagged frame, the kernel takes those of its own VID: all ports are trunks.
//   6   a static entry is a binding: a frame from its address on another port is dropped. The kernel forwards
//       it and moves the entry. The stations of static entries speak on their own port only.
//   section 4  the MTU + 18 bytes that a frame may have include a tag. The kernel does not count one, but
//   lets a
//       packet socket send no more than MTU + 14 without. Only untagged frames come near the MTU.
// The kernel's bridge learns from frames to 01:80:c2:00:00:0X even on a locked port, against which its manual
// asks for no_linklocal_learn wherever ports are locked. It is a setting of the whole bridge: on while a
// locked port sends, and else off.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/kernel_peer.h"
#include "tests/integration/testbed.h"

namespace ringswitch::test {
namespace {

using bridge::MacAddress;
using bridge::PortIndex;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{10};  // emulated machines have pauses

constexpr int kPorts = 6;
constexpr int kLargePorts = 4;  // the first ones; the others have the usual MTU
constexpr uint32_t kLargeMtu = 9000;
constexpr uint32_t kUsualMtu = 1500;
constexpr uint64_t kStations = 24;  // that move about
constexpr uint64_t kFixedStations = 8;
constexpr uint64_t kStepsDefault = 100'000;
constexpr uint64_t kStepsLong = 1'000'000;
constexpr uint64_t kBridgeGroup = 0x0180'c200'0000;
constexpr bridge::VlanId kVids[] = {1, 2, 10, 4094};
constexpr bridge::VlanId kStationVids[] = {0, 2, 10};  // of a pod's devices; 0: its own, which sees all

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// What can be changed of a port, and how each side calls it. The bit is set where the kernel says off, but
// for the last three.
struct Attribute {
  const char* kernel_name;
  uint32_t feature;
  bool is_inverse;
};
constexpr Attribute kAttributes[] = {
    {"learning", bridge::kNoLearning, true},
    {"flood", bridge::kNoUnknownUnicastFlood, true},
    {"mcast_flood", bridge::kNoMulticastFlood, true},
    {"bcast_flood", bridge::kNoBroadcastFlood, true},
    {"isolated", bridge::kIsolated, false},
    {"hairpin", bridge::kHairpin, false},
    {"locked", bridge::kLocked, false},
};

class KernelBridge : public testing::TestWithParam<bool> {
 protected:
  KernelBridge() : bed_(Variant(RxMode::kAuto, 1, PodKind::kMixed)) {
    RunTool({"ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0", "ageing_time", "1000000"});
    // No VLAN by itself; a bridge that filters VLANs enters unaware static entries for each of a port's, too.
    SetBridge("vlan_default_pvid 0");
    is_missing_ = is_aware_ && !SetBridge("vlan_filtering 1");
    if (is_missing_) return;
    SetLinkUp("br0", true);
    switch_config_.vlan_aware = is_aware_;
    switch_config_.ageing_time_s = 0;
    switch_ = *bed_.dataplane().AddSwitch(switch_config_, bridge::kFdbCapacityDefault);
    for (int i = 0; i < kPorts; ++i) {
      configs_[i].switch_index = switch_;
      configs_[i].vlan_mode = is_aware_ ? bridge::VlanMode::kTrunk : bridge::VlanMode::kUnaware;
      configs_[i].mtu = i < kLargePorts ? kLargeMtu : kUsualMtu;
      MakePort(i);
      MakeKernelPort(i);
    }
    ip_ = std::make_unique<Tool>("ip", "link show dev lo", "LOOPBACK");
    bridge_ = std::make_unique<Tool>("bridge", "link show dev b0", " state forwarding ");
    for (int i = 0; i < kPorts && is_aware_; ++i) {
      SetVlan(i, kVids[0], kNative);
      for (bridge::VlanId vid : kVids) {
        if (vid != kVids[0]) SetVlan(i, vid, kTagged);
      }
    }
  }
  ~KernelBridge() override {
    for (int i = 0; i < static_cast<int>(ports_.size()); ++i) DeleteLink("p" + std::to_string(i));
  }

  // False: the kernel cannot.
  static bool SetBridge(const std::string& setting) {
    return std::system(("ip link set br0 type bridge " + setting + " 2>/dev/null").c_str()) == 0;
  }

  // The dataplane's, a TAP or a veth.
  void MakePort(int i) {
    const std::string number = std::to_string(i), near = "h" + number, far = "p" + number;
    absl::StatusOr<Device> device;
    if (i % 2 == 1) {
      ConnectVeth(i, near, far);
      device = OpenNetdev(near);
    } else {
      device = TapDevice(*OpenTap(far, true));
      SetMtu(far, static_cast<int>(configs_[i].mtu));
      SetLinkUp(far, true);
    }
    ASSERT_TRUE(device.ok()) << device.status();
    MakeStations(far, &stations_[i]);
    ports_.push_back(*bed_.dataplane().AddPort(configs_[i], *std::move(device)));
  }

  void MakeKernelPort(int i) {
    const std::string near = KernelPort(i), far = "k" + std::to_string(i);
    ConnectVeth(i, near, far);
    RunTool({"ip", "link", "set", near, "master", "br0"});
    MakeStations(far, &kernel_stations_[i]);
  }

  void ConnectVeth(int i, const std::string& near, const std::string& far) {
    MakeVeth(near, far);
    for (const std::string& ifname : {near, far}) {
      SetMtu(ifname, static_cast<int>(configs_[i].mtu));
      SetLinkUp(ifname, true);
    }
    AwaitCarrier(near);
    AwaitCarrier(far);
  }

  // One on the device, and one on each 8021q device above it.
  using Stations = std::vector<std::unique_ptr<Station>>;
  void MakeStations(const std::string& ifname, Stations* stations) {
    for (bridge::VlanId vid : kStationVids) {
      std::string name = ifname;
      if (vid != 0) {
        if (!is_aware_) break;
        name += "." + std::to_string(vid);
        RunTool(
            {"ip", "link", "add", "link", ifname, "name", name, "type", "vlan", "id", std::to_string(vid)});
        SetLinkUp(name, true);
      }
      stations->push_back(std::make_unique<Station>(name));
    }
  }

  static std::string KernelPort(int port) { return "b" + std::to_string(port); }
  uint64_t Below(uint64_t end) { return random_() % end; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  // --- what the world may do ---

  MacAddress StationMac(uint64_t number) { return MacAddress(0x0200'0000'0a00 + number); }
  MacAddress FixedStationMac(uint64_t number) { return MacAddress(0x0200'0000'0b00 + number); }

  MacAddress RandomDestination() {
    if (OneIn(6)) return kBroadcast;
    if (OneIn(12)) return MacAddress(kBridgeGroup + Below(18));
    if (OneIn(20)) return MacAddress(0x0100'5e00'0000 + Below(4));
    if (OneIn(100)) return MacAddress();
    return OneIn(4) ? FixedStationMac(Below(kFixedStations)) : StationMac(Below(kStations));
  }

  MacAddress RandomSource(int port) {
    if (OneIn(60)) return OneIn(2) ? MacAddress() : MacAddress(0x0100'5e01'0203);
    if (OneIn(4)) {
      const uint64_t number = Below(kFixedStations);
      const auto home = statics_.find(number);
      if (home == statics_.end() || home->second.port == port) return FixedStationMac(number);
    }
    return StationMac(Below(kStations));
  }

  // By the pod's own device, or by an 8021q device.
  Bytes RandomFrame(int port, bool is_tagged_on_the_way) {
    const bool is_large = port < kLargePorts;
    const bool is_tagged = OneIn(is_tagged_on_the_way ? 8 : is_aware_ ? 2 : 5);
    size_t length = 60 + Below(40);
    if (OneIn(20) && is_large) length = 3000 + Below(5000);
    if (OneIn(10) && !is_tagged && !is_tagged_on_the_way) {  // about the usual MTU
      length = kUsualMtu + 10 + Below(5);
      if (OneIn(2) && is_large) length = kUsualMtu + 19 + Below(8);
    }
    const auto number = static_cast<uint32_t>(step_);
    const MacAddress destination = RandomDestination(), source = RandomSource(port);
    Bytes frame = MakeFrame(destination, source, number, length,
                            is_tagged ? std::optional<uint16_t>(RandomTci()) : std::nullopt);
    if (is_tagged && OneIn(5)) bridge::StoreBe16(&frame[12], 0x88a8);
    if (is_tagged && OneIn(5)) bridge::StoreBe16(&frame[16], bridge::kTpid);  // one more within
    return frame;
  }
  uint16_t RandomTci() {
    uint64_t vid = kVids[Below(std::size(kVids))];
    if (OneIn(5)) vid = 0;
    if (OneIn(40)) vid = OneIn(2) ? 4095 : 77;
    return static_cast<uint16_t>(Below(16) << 12 | vid);
  }

  // --- a burst ---

  void Burst() {
    const int port = source_ = static_cast<int>(Below(kPorts));
    const size_t device = OneIn(2) ? 0 : Below(stations_[port].size());
    const uint64_t count = 1 + Below(OneIn(4) ? 8 : 64);
    SetLinkLocalLearning((configs_[port].features & bridge::kLocked) == 0);
    for (uint64_t i = 0; i < count; ++i, ++step_) {
      const Bytes frame = RandomFrame(port, device != 0);
      if (MacAddress::FromBytes(frame.data()) == MacAddress(kBridgeGroup)) continue;  // the two differ
      ASSERT_TRUE(stations_[port][device]->Send(frame));
      ASSERT_TRUE(kernel_stations_[port][device]->Send(frame));
      ++sent_[port];
    }
    by_devices_ += device != 0 ? count : 0;
    AwaitQuiet(port);
    CompareOutputs();
  }

  void AwaitQuiet(int source) {
    const auto deadline = Clock::now() + kPatience;
    while (bed_.dataplane().ReadPort(ports_[source]).totals.receive_frames != sent_[source] ||
           !IsQuiet(&bed_.dataplane(), ports_)) {
      ASSERT_LT(Clock::now(), deadline) << "frames are not received, or not done with; " << Where();
      ::usleep(20);
    }
  }

  using Outputs = std::vector<std::vector<Bytes>>;  // by device, in order
  static void Collect(Stations* stations, Outputs* outputs) {
    for (int i = 0; i < kPorts; ++i) {
      for (size_t device = 0; device < stations[i].size(); ++device)
        stations[i][device]->Collect(&(*outputs)[i * std::size(kStationVids) + device]);
    }
  }

  // What is on its way to a pod's socket may take a moment.
  void CompareOutputs() {
    Outputs ours(kPorts * std::size(kStationVids)), theirs(ours.size());
    const auto deadline = Clock::now() + kPatience;
    for (;;) {
      Collect(stations_, &ours);
      Collect(kernel_stations_, &theirs);
      if (ours == theirs || Clock::now() > deadline) break;
      ::usleep(200);
    }
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_EQ(Texts(ours[i]), Texts(theirs[i]))
          << "at port " << i / std::size(kStationVids) << ", VID "
          << kStationVids[i % std::size(kStationVids)] << "; ours first; " << Where();
      outputs_ += ours[i].size();
      untagged_ += i % std::size(kStationVids) != 0 ? ours[i].size() : 0;
    }
    ASSERT_EQ(ours, theirs) << Where();  // to the last byte
  }
  static std::vector<std::string> Texts(const std::vector<Bytes>& frames) {
    std::vector<std::string> texts;
    for (const Bytes& frame : frames) {
      texts.push_back(ToHex({frame.begin(), frame.begin() + std::min<size_t>(frame.size(), 24)}) + " of " +
                      std::to_string(frame.size()));
    }
    return texts;
  }
  std::string Where() const {
    std::string text = "RINGSWITCH_SEED=" + std::to_string(seed_) + ", step " + std::to_string(step_) +
                       ", from port " + std::to_string(source_) + "; features of ports";
    for (const bridge::PortConfig& config : configs_) text += " " + std::to_string(config.features);
    return text;
  }

  // --- changes, the same on both sides ---

  void Change() {
    const int port = static_cast<int>(Below(kPorts));
    switch (Below(is_aware_ ? 12 : 8)) {
      case 0:
        return SetForwardedGroups();
      case 1:
        return FixStation(port);
      case 2:
        return FreeStation();
      case 3:
        return Flush(port);
      case 8:
      case 9:
      case 10:
      case 11:
        return SetVlan(port, kVids[Below(std::size(kVids))], RandomMembership());
      default:
        return SetAttribute(port, kAttributes[Below(std::size(kAttributes))]);
    }
  }

  void SetAttribute(int port, const Attribute& attribute) {
    const bool is_set = OneIn(5);
    uint32_t& features = configs_[port].features;
    features = is_set ? features | attribute.feature : features & ~attribute.feature;
    bed_.dataplane().UpdatePort(ports_[port], configs_[port]);
    ip_->Run("link set " + KernelPort(port) + " type bridge_slave " + attribute.kernel_name +
             (is_set != attribute.is_inverse ? " on" : " off"));
  }

  void SetLinkLocalLearning(bool is_on) {
    if (is_on == learns_link_local_) return;
    learns_link_local_ = is_on;
    ip_->Run(std::string("link set br0 type bridge no_linklocal_learn ") + (is_on ? "0" : "1"));
  }

  // The kernel lets nobody forward the first three; ours the second.
  void SetForwardedGroups() {
    switch_config_.group_forward_mask = static_cast<uint16_t>(Below(0x10000) & 0xfff8);
    bed_.dataplane().UpdateSwitch(switch_, switch_config_);
    ip_->Run("link set br0 type bridge group_fwd_mask " + std::to_string(switch_config_.group_forward_mask));
  }

  enum Membership { kNone, kTagged, kUntagged, kNative, kNativeTagged };
  Membership RandomMembership() {
    return OneIn(2) ? kTagged : static_cast<Membership>(Below(kNativeTagged + 1));
  }
  void SetVlan(int port, bridge::VlanId vid, Membership membership) {
    bridge::PortConfig& config = configs_[port];
    if (membership == kNone && !config.members.contains(vid)) return;
    if (membership == kNone) {  // the kernel lets nobody touch an entry in a VLAN that the port is not in
      for (auto station = statics_.begin(); station != statics_.end();) {
        const auto at = station++;
        if (at->second.port == port && at->second.vid == vid) Free(at);
      }
    }
    config.members.Remove(vid);
    config.untagged.Remove(vid);
    if (config.pvid == vid) config.pvid = bridge::kVlanIdNone;
    if (membership != kNone) config.members.Add(vid);
    if (membership == kUntagged || membership == kNative) config.untagged.Add(vid);
    if (membership == kNative || membership == kNativeTagged) config.pvid = vid;
    bed_.dataplane().UpdatePort(ports_[port], config);
    bridge_->Run(std::string("vlan ") + (membership == kNone ? "del" : "add") + " dev " + KernelPort(port) +
                 " vid " + std::to_string(vid) + (config.untagged.contains(vid) ? " untagged" : "") +
                 (config.pvid == vid ? " pvid" : ""));
  }

  struct Fixed {
    int port;
    bridge::VlanId vid;
  };
  void FixStation(int port) {
    const uint64_t number = Below(kFixedStations);
    const bridge::VlanId vid = is_aware_ ? kVids[Below(std::size(kVids))] : bridge::kVlanIdNone;
    if (is_aware_ && !configs_[port].members.contains(vid)) return;
    // In one VLAN at a time, so that its own port is its own in all of them.
    if (const auto old = statics_.find(number); old != statics_.end() && old->second.vid != vid) return;
    statics_[number] = {port, vid};
    const MacAddress mac = FixedStationMac(number);
    ASSERT_EQ(bed_.dataplane().AddStaticFdbEntry(switch_, {mac, vid}, ports_[port], true),
              bridge::FdbResult::kOk);
    ChangeKernelFdb("replace", mac, {port, vid}, " static");
  }

  void FreeStation() {
    if (!statics_.empty()) Free(std::next(statics_.begin(), static_cast<long>(Below(statics_.size()))));
  }
  void Free(std::map<uint64_t, Fixed>::iterator station) {
    const MacAddress mac = FixedStationMac(station->first);
    const Fixed fixed = station->second;
    ASSERT_EQ(bed_.dataplane().RemoveFdbEntry(switch_, {mac, fixed.vid}), bridge::FdbResult::kOk);
    ChangeKernelFdb("del", mac, fixed, "");
    statics_.erase(station);
  }

  void ChangeKernelFdb(const std::string& verb, MacAddress mac, Fixed at, const std::string& rest) {
    bridge_->Run("fdb " + verb + " " + mac.ToString() + " dev " + KernelPort(at.port) + " master" +
                 (at.vid != bridge::kVlanIdNone ? " vlan " + std::to_string(at.vid) : "") + rest);
  }

  void Flush(int port) {
    bed_.dataplane().FlushFdb(switch_, {.port = ports_[port], .kind = bridge::FdbKind::kDynamic});
    ip_->Run("link set " + KernelPort(port) + " type bridge_slave fdb_flush");
  }

  // --- what each side knows ---

  std::set<std::string> OurTable() {
    std::vector<bridge::FdbRow> rows;
    uint32_t cursor = 0;
    do {
      cursor = bed_.dataplane().ListFdb(switch_, cursor, {}, 1000, &rows);
    } while (cursor != 0);
    std::set<std::string> table;
    for (const bridge::FdbRow& row : rows) {
      int port = 0;
      while (port < kPorts && ports_[port] != row.target.port) ++port;
      table.insert(row.key.mac.ToString() + " " + std::to_string(row.key.vid) + " " + std::to_string(port) +
                   (row.target.kind == bridge::FdbKind::kStatic ? " static" : ""));
    }
    return table;
  }

  static std::vector<std::string> OnlyIn(const std::set<std::string>& one,
                                         const std::set<std::string>& other) {
    std::vector<std::string> rows;
    std::set_difference(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(rows));
    return rows;
  }
  std::set<std::string> KernelTable() {
    std::set<std::string> table;
    for (const std::string& text : bridge_->Ask("fdb show br br0")) {
      char mac[32], ifname[32];
      if (std::sscanf(text.c_str(), "%31s dev %31s", mac, ifname) != 2 || ifname[0] != 'b') continue;
      if (text.find("permanent") != std::string::npos || text.find(" self") != std::string::npos) continue;
      if (std::string(ifname) == "br0") continue;
      const size_t vlan = text.find(" vlan ");
      const std::string vid = vlan == std::string::npos ? "0" : std::to_string(std::atoi(&text[vlan + 6]));
      table.insert(std::string(mac) + " " + vid + " " + (ifname + 1) +
                   (text.find(" static") != std::string::npos ? " static" : ""));
    }
    return table;
  }

  const uint64_t seed_ = FromEnvironment("RINGSWITCH_SEED", std::random_device()());
  std::mt19937_64 random_{seed_};
  const bool is_aware_ = GetParam();
  bool is_missing_ = false;  // the kernel's bridge cannot do it
  Testbed bed_;
  bridge::SwitchIndex switch_ = 0;
  bridge::SwitchConfig switch_config_;
  bridge::PortConfig configs_[kPorts];
  std::vector<PortIndex> ports_;  // of the dataplane
  Stations stations_[kPorts];
  Stations kernel_stations_[kPorts];
  std::unique_ptr<Tool> ip_, bridge_;
  bool learns_link_local_ = true;
  std::map<uint64_t, Fixed> statics_;  // by number of the station
  uint64_t sent_[kPorts] = {};
  int source_ = 0;  // of the burst
  uint64_t step_ = 0;
  uint64_t outputs_ = 0;
  uint64_t known_ = 0;       // addresses, in all comparisons
  uint64_t by_devices_ = 0;  // frames sent by 8021q devices
  uint64_t untagged_ = 0;    // frames that came out of them
};

INSTANTIATE_TEST_SUITE_P(, KernelBridge, testing::Bool(), [](const testing::TestParamInfo<bool>& info) {
  return std::string(info.param ? "VlanAware" : "VlanUnaware");
});

TEST_P(KernelBridge, ForwardsTheSameAndKnowsTheSame) {
  if (is_missing_) GTEST_SKIP() << "this kernel's bridge does not filter VLANs";
  const bool is_long = std::string(std::getenv("RINGSWITCH_LONG") ?: "0") == "1";
  const uint64_t steps = FromEnvironment("RINGSWITCH_STEPS", is_long ? kStepsLong : kStepsDefault);
  std::printf("RINGSWITCH_SEED=%lu\n", seed_);  // also where a tool that fails ends it all
  std::fflush(stdout);
  for (uint64_t burst = 0; step_ < steps; ++burst) {
    Burst();
    if (HasFailure()) return;
    if (OneIn(3)) Change();
    if (burst % 64 == 0) {
      const std::set<std::string> ours = OurTable(), theirs = KernelTable();
      ASSERT_EQ(OnlyIn(ours, theirs), OnlyIn(theirs, ours)) << "what ours alone knows first; " << Where();
      known_ += ours.size();
    }
  }
  std::printf(
      "seed %lu: %lu steps (%lu by 8021q devices), %lu frames came out (%lu of them untagged by the "
      "kernel)\n",
      seed_, step_, by_devices_, outputs_, untagged_);
  if (steps < 1000) return;  // a replay
  EXPECT_GT(known_, 0u);
  EXPECT_GE(by_devices_, is_aware_ ? steps / 8 : 0);
  EXPECT_GE(untagged_, is_aware_ ? steps / 16 : 0);
  EXPECT_GT(outputs_, steps / 4) << "not enough was forwarded to say anything";
}

}  // namespace
}  // namespace ringswitch::test
