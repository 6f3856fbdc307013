// The state directory: whole again after a restart, and honest about what is damaged.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "server/agent/state_store.h"

namespace ringswitch::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class StateStoreTest : public testing::Test {
 protected:
  StateStoreTest() {
    char path[] = "/tmp/ringswitch-state-XXXXXX";
    directory_ = mkdtemp(path);
    Reopen();
  }
  ~StateStoreTest() override { std::filesystem::remove_all(directory_); }

  void Reopen(const std::string& boot_id = "boot-1") { store_ = *StateStore::Open(directory_, boot_id); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
  }
  std::string Read(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(directory_ + "/" + name).rdbuf();
    return text.str();
  }
  static SwitchSpec Switch() {
    SwitchSpec spec;
    spec.name = "sw0";
    spec.id = 3;
    spec.vlan_aware = false;
    spec.default_vid = 7;
    spec.ageing_time_s = 42;
    spec.ageing_disabled = true;
    spec.fdb_capacity = 99;
    spec.group_forward_mask = 0x4001;
    spec.vlan_counters = true;
    spec.flap_moves = 5;
    spec.flap_hold_s = 30;
    return spec;
  }
  static StoredPort Port() {
    StoredPort port;
    PortSpec& spec = port.spec;
    spec.name = "c1:eth0";
    spec.id = 12;
    spec.switch_name = "sw0";
    spec.device.link = {"/run/netns/h1", "eth0"};
    spec.mac = *bridge::MacAddress::Parse("02:00:00:00:0a:01");
    spec.mtu = 9000;
    spec.vlans = VlanMembership{true, 0, {}, 5};
    spec.vlans->tagged.AddRange(10, 20);
    spec.vlans->tagged.Add(4094);
    spec.mac_limit = 64;
    spec.pod = {"default", "web-0", "uid", "c1"};
    spec.attachment = AttachmentSpec{"c1", "net", {{"10.0.0.2/24"}, {{"0.0.0.0/0", "10.0.0.1", 1400, 7}}}};
    port.netns_id = {4, 4026532000};
    return port;
  }
  // None as it is by default.
  static PortAttributes Attributes() {
    PortAttributes attributes;
    attributes.admin_up = attributes.learning = false;
    attributes.flood_unknown_unicast = attributes.flood_multicast = attributes.flood_broadcast = false;
    attributes.isolated = attributes.hairpin = attributes.locked = true;
    attributes.router_advertisement_guard = attributes.dhcp_server_guard = true;
    attributes.bpdu_recovery_s = 30;
    for (size_t i = 0; i < bridge::kFloodClasses; ++i)
      attributes.storm[i] = {{100 + i, 10 + i}, {kBitRateMax - i, kByteBurstMax * 8 - i}};
    attributes.receive_rate = {1000, 65'536 * 8};
    attributes.transmit_rate = {2000, 8};
    attributes.source_guard = {true, true, {bridge::MacAddress(0x02000000000b)}, {"10.0.0.9", "fd00::9"}};
    return attributes;
  }

  std::string directory_;
  std::unique_ptr<StateStore> store_;
};

TEST_F(StateStoreTest, EverythingComesBack) {
  store_->SaveSwitch(Switch());
  store_->SavePort(Port());
  store_->SaveFdb("sw0", {{{*bridge::MacAddress::Parse("02:00:00:00:0b:01"), 10}, "c1:eth0"}});
  store_->SaveIds({8, 80, "boot-1"});
  Reopen();
  StoredState state = store_->Load();
  ASSERT_EQ(state.switches.size(), 1u);
  EXPECT_EQ(ToJson(state.switches[0]), ToJson(Switch()));
  EXPECT_EQ(state.switches[0].group_forward_mask, 0x4001);
  ASSERT_EQ(state.ports.size(), 1u);
  EXPECT_EQ(ToJson(state.ports[0]), ToJson(Port()));
  EXPECT_EQ(state.ports[0].spec.vlans, Port().spec.vlans);
  EXPECT_EQ(state.ports[0].netns_id, Port().netns_id);
  EXPECT_EQ(state.ports[0].spec.attachment->ip_config.routes.at(0).mtu, 1400u);
  ASSERT_EQ(state.fdb["sw0"].size(), 1u);
  EXPECT_EQ(state.fdb["sw0"][0].key.vid, 10);
  EXPECT_EQ(state.ids.next_switch_id, 8u);
  EXPECT_EQ(state.ids.next_port_id, 80u);
  EXPECT_THAT(store_->Problems(), IsEmpty());
}

TEST_F(StateStoreTest, AccessPortAndPlainPortComeBack) {
  StoredPort port = Port();
  port.spec.vlans = VlanMembership{false, 10, {}, 0};
  port.spec.attachment.reset();
  EXPECT_EQ(PortFromJson(ToJson(port))->spec.vlans, port.spec.vlans);
  EXPECT_FALSE(PortFromJson(ToJson(port))->spec.attachment.has_value());
  port.spec.vlans.reset();
  EXPECT_FALSE(PortFromJson(ToJson(port))->spec.vlans.has_value());
}

TEST_F(StateStoreTest, AttributesAndDevicesComeBack) {
  StoredPort port = Port();
  EXPECT_EQ(PortFromJson(ToJson(port))->spec.attributes, PortAttributes());
  EXPECT_TRUE(PortFromJson(ToJson(port))->is_made);
  port.spec.attributes = Attributes();
  port.is_made = false;
  port.spec.device = {DeviceRef::Kind::kVeth, {"/run/netns/h1", "eth0"}, "rsv12", HostStack::kDrop, false};
  absl::StatusOr<StoredPort> read = PortFromJson(ToJson(port));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->spec.attributes, Attributes());
  EXPECT_EQ(read->spec.device.kind, DeviceRef::Kind::kVeth);
  EXPECT_EQ(read->spec.device.host_ifname, "rsv12");
  EXPECT_FALSE(read->is_made);
  port.spec.attributes.bpdu_recovery_s = 0;
  port.spec.device = {DeviceRef::Kind::kNetdev, {"", "eth1"}, "", HostStack::kKeep, true};
  read = PortFromJson(ToJson(port));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->spec.attributes.bpdu_recovery_s, 0u);
  EXPECT_EQ(read->spec.device.kind, DeviceRef::Kind::kNetdev);
  EXPECT_EQ(read->spec.device.host_stack, HostStack::kKeep);
  EXPECT_TRUE(read->spec.device.software_offload);
  absl::StatusOr<SwitchSpec> on = SwitchFromJson(ToJson(Switch()));
  EXPECT_TRUE(on->vlan_counters);
  EXPECT_EQ(on->flap_moves, 5u);
  EXPECT_EQ(on->flap_hold_s, 30u);
}

// As an agent wrote them that had TAPs and nothing of the rest.
TEST_F(StateStoreTest, FilesOfEarlierAgentsAreRead) {
  Write("switch.sw0.json", R"({"format": 1, "name": "sw0", "id": 1, "mode": "bridge", "vlan_aware": true,
    "default_vid": 1, "ageing_time_s": 300, "ageing_disabled": false, "fdb_capacity": 16384,
    "group_forward_mask": 0})");
  Write("port.p1.json", R"({"format": 1, "name": "p1", "id": 2, "switch": "sw0", "netns": "/run/netns/h1",
    "netns_device": 4, "netns_inode": 5, "netns_cookie": 6, "ifname": "eth0",
    "mac_address": "02:00:00:00:0a:01", "mtu": 1500, "mac_limit": 0, "vlans": {"access_vid": 1},
    "pod": {"namespace": "", "name": "", "uid": "", "container_id": ""}})");
  Write("fdb.sw0.json", R"({"format": 1, "entries": [
    {"mac_address": "02:00:00:00:0b:01", "vid": 1, "port": "p1"}]})");
  StoredState state = store_->Load();
  EXPECT_THAT(store_->Problems(), IsEmpty());
  ASSERT_EQ(state.ports.size(), 1u);
  EXPECT_EQ(state.ports[0].spec.device.kind, DeviceRef::Kind::kTap);
  EXPECT_EQ(state.ports[0].spec.attributes, PortAttributes());
  ASSERT_EQ(state.switches.size(), 1u);
  EXPECT_EQ(state.switches[0].flap_moves, 0u);
  EXPECT_EQ(state.fdb["sw0"].size(), 1u);
}

TEST_F(StateStoreTest, AFileThatDescribesAnotherObjectIsSetAside) {
  store_->SaveSwitch(Switch());
  store_->SavePort(Port());
  std::filesystem::copy(directory_ + "/port.c1:eth0.json", directory_ + "/port.p2.json");
  std::filesystem::copy(directory_ + "/switch.sw0.json", directory_ + "/switch.sw1.json");
  StoredState state = store_->Load();
  EXPECT_EQ(state.ports.size(), 1u);
  EXPECT_EQ(state.switches.size(), 1u);
  EXPECT_THAT(store_->Problems(),
              ElementsAre(HasSubstr("it describes \"c1:eth0\""), HasSubstr("it describes \"sw0\"")));
  EXPECT_THAT(Read("port.p2.json.damaged"), HasSubstr("c1:eth0"));
}

TEST_F(StateStoreTest, RatesOutOfRangeAreRefused) {
  StoredPort port = Port();
  for (const bridge::Rate& rate :
       {bridge::Rate{kBitRateMax + 1, 1}, bridge::Rate{1, kByteBurstMax * 8 + 1}, bridge::Rate{1000, 0}}) {
    port.spec.attributes.receive_rate = rate;
    EXPECT_FALSE(PortFromJson(ToJson(port)).ok()) << rate.per_second;
  }
}

TEST_F(StateStoreTest, DamagedFileIsKeptAsideAndNamed) {
  store_->SaveSwitch(Switch());
  store_->SavePort(Port());
  store_->SaveIds({8, 80, "boot-1"});
  Write("port.p2.json", "{\"format\": 1, \"name\": \"p2\"");
  Reopen();
  StoredState state = store_->Load();
  EXPECT_EQ(state.ports.size(), 1u);
  EXPECT_THAT(store_->Problems(), ElementsAre(HasSubstr("port.p2.json")));
  EXPECT_THAT(Read("port.p2.json.damaged"), HasSubstr("p2"));
  Reopen();
  store_->Load();
  EXPECT_THAT(store_->Problems(), ElementsAre(HasSubstr("port.p2.json.damaged")));
}

TEST_F(StateStoreTest, EveryCutFileIsRefusedNotMisread) {
  std::string whole = ToJson(Port());
  for (size_t length = 0; length + 2 < whole.size(); ++length) {
    EXPECT_FALSE(PortFromJson(whole.substr(0, length)).ok()) << length;
  }
  for (const char* text : {"", "null", "[]", "{}", "{\"format\": 2}", "{\"format\": \"x\"}"}) {
    EXPECT_FALSE(PortFromJson(text).ok()) << text;
    EXPECT_FALSE(SwitchFromJson(text).ok()) << text;
    EXPECT_FALSE(FdbFromJson(text).ok()) << text;
    EXPECT_FALSE(IdsFromJson(text).ok()) << text;
  }
}

TEST_F(StateStoreTest, IdsGoOnBeyondWhatIsThereWhereTheirFileIsDamaged) {
  store_->SavePort(Port());
  Write("ids.json", "garbage");
  Reopen();
  EXPECT_EQ(store_->Load().ids.next_port_id, 13u);
}

TEST_F(StateStoreTest, WhatIsNoRegularFileIsSetAside) {
  store_->SaveSwitch(Switch());
  ASSERT_EQ(mkfifo((directory_ + "/ids.json").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((directory_ + "/port.p1.json").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", directory_ + "/port.p2.json");
  std::filesystem::create_directory(directory_ + "/port.p3.json");
  EXPECT_EQ(store_->Load().switches.size(), 1u);
  EXPECT_THAT(store_->Problems(),
              ElementsAre(HasSubstr("FIFO"), HasSubstr("FIFO"), HasSubstr("device"), HasSubstr("directory")));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/port.p3.json"));
}

TEST_F(StateStoreTest, ProblemsArePrintable) {
  Write("port.p\xff.json", "{\"name\": \"\xfe\"}");
  store_->Load();
  ASSERT_EQ(store_->Problems().size(), 1u);
  const std::string problem = store_->Problems()[0];
  EXPECT_EQ(problem.find_first_of("\xfe\xff"), std::string::npos) << problem;
  EXPECT_THAT(problem, HasSubstr("port.p\\xff.json"));
}

TEST_F(StateStoreTest, FifoInTheWayOfASaveIsNotWaitedFor) {
  ASSERT_EQ(mkfifo((directory_ + "/switch.sw0.json.new").c_str(), 0600), 0);
  store_->SaveSwitch(Switch());
  EXPECT_THAT(store_->Problems(), ElementsAre(HasSubstr("not saved")));
}

TEST_F(StateStoreTest, UnfinishedFilesAreIgnored) {
  Write("port.p1.json.new", "{");
  EXPECT_THAT(store_->Load().ports, IsEmpty());
  EXPECT_THAT(store_->Problems(), IsEmpty());
}

TEST_F(StateStoreTest, AnotherBootStartsEmpty) {
  store_->SavePort(Port());
  store_->SaveIds({8, 80, "boot-1"});
  Reopen("boot-2");
  EXPECT_THAT(store_->Load().ports, IsEmpty());
  EXPECT_EQ(Read("port.c1:eth0.json"), "");
}

TEST_F(StateStoreTest, SavingIsRetried) {
  // A directory in the way: root cannot write through it either.
  std::filesystem::create_directories(directory_ + "/switch.sw0.json/x");
  store_->SaveSwitch(Switch());
  EXPECT_THAT(store_->Problems(), ElementsAre(HasSubstr("not saved")));
  EXPECT_TRUE(store_->RetryPending());
  std::filesystem::remove_all(directory_ + "/switch.sw0.json");
  EXPECT_FALSE(store_->RetryPending());
  EXPECT_THAT(store_->Problems(), IsEmpty());
  EXPECT_EQ(store_->Load().switches.size(), 1u);
}

// Static entries whose changes are appended. `Entries` as "MAC number / VID port", in order.
class StaticEntriesOnDisk : public StateStoreTest {
 protected:
  static constexpr const char* kFile = "fdb.sw0.json";

  static StaticFdbEntry Entry(uint64_t mac, const std::string& port = "p1", bridge::VlanId vid = 1) {
    return {{bridge::MacAddress(0x0200'0000'0000 + mac), vid}, port};
  }
  std::vector<std::string> Loaded() {
    Reopen();
    StoredState state = store_->Load();
    std::vector<std::string> lines;
    for (const StaticFdbEntry& entry : state.fdb["sw0"]) {
      lines.push_back(
          absl::StrCat(entry.key.mac.bits() - 0x0200'0000'0000, "/", entry.key.vid, " ", entry.port_name));
    }
    return lines;
  }
  size_t FileSize() { return std::filesystem::file_size(directory_ + "/" + kFile); }
  void Cut(size_t bytes) { std::filesystem::resize_file(directory_ + "/" + kFile, FileSize() - bytes); }
  void AppendText(const std::string& text) { std::ofstream(directory_ + "/" + kFile, std::ios::app) << text; }
};

TEST_F(StaticEntriesOnDisk, ChangesComeBackInTheOrderTheyWereMade) {
  store_->SaveFdb("sw0", {Entry(1), Entry(2), Entry(3, "p:\"2")});
  EXPECT_TRUE(store_->AppendFdb("sw0", {{Entry(1)}, {}}));
  EXPECT_TRUE(store_->AppendFdb("sw0", {{}, {Entry(1, "p9"), Entry(4, "p\n")}}));
  EXPECT_TRUE(store_->AppendFdb("sw0", {{}, {Entry(2, "p2")}}));  // it moves
  EXPECT_TRUE(store_->AppendFdb("sw0", {{Entry(4)}, {Entry(4, "p4"), Entry(4, "p4", 2)}}));
  EXPECT_TRUE(store_->AppendFdb("sw0", {{Entry(7)}, {}}));  // it never was
  EXPECT_THAT(Loaded(), ElementsAre("1/1 p9", "2/1 p2", "3/1 p:\"2", "4/1 p4", "4/2 p4"));
  EXPECT_THAT(store_->Problems(), IsEmpty());
}

TEST_F(StaticEntriesOnDisk, ALineThatWasNotFinishedIsNoChangeWhereverItEnds) {
  store_->SaveFdb("sw0", {Entry(1)});
  const size_t whole = FileSize();
  ASSERT_TRUE(store_->AppendFdb("sw0", {{}, {Entry(2)}}));
  const size_t first = FileSize();
  ASSERT_TRUE(store_->AppendFdb("sw0", {{Entry(1)}, {Entry(3), Entry(4, "p2")}}));
  const std::string text = Read(kFile);
  for (size_t length = whole; length <= text.size(); ++length) {
    std::ofstream(directory_ + "/" + kFile) << text.substr(0, length);
    std::vector<std::string> expected = {"1/1 p1"};
    if (length >= first) expected.push_back("2/1 p1");
    if (length == text.size()) expected = {"2/1 p1", "3/1 p1", "4/1 p2"};
    ASSERT_EQ(Loaded(), expected) << length;
    ASSERT_THAT(store_->Problems(), IsEmpty());
  }
}

TEST_F(StaticEntriesOnDisk, NothingIsAppendedToWhatAnotherProcessWrote) {
  EXPECT_FALSE(store_->AppendFdb("sw0", {{}, {Entry(1)}}));
  store_->SaveFdb("sw0", {Entry(1)});
  ASSERT_TRUE(store_->AppendFdb("sw0", {{}, {Entry(2)}}));
  Cut(5);
  EXPECT_THAT(Loaded(), ElementsAre("1/1 p1"));
  EXPECT_FALSE(store_->AppendFdb("sw0", {{}, {Entry(3)}}));
  store_->SaveFdb("sw0", {Entry(1), Entry(3)});
  EXPECT_TRUE(store_->AppendFdb("sw0", {{}, {Entry(4)}}));
  EXPECT_THAT(Loaded(), ElementsAre("1/1 p1", "3/1 p1", "4/1 p1"));
}

TEST_F(StaticEntriesOnDisk, NothingIsAppendedToAFileThatIsNotAsItWasWritten) {
  for (const char* how : {"cut", "grown", "removed", "removed with its directory", "a FIFO"}) {
    store_->SaveFdb("sw0", {Entry(1)});
    ASSERT_TRUE(store_->AppendFdb("sw0", {{}, {Entry(2)}})) << how;
    if (how[0] == 'c') Cut(3);
    if (how[0] == 'g') AppendText("{\"rem");
    if (how[0] == 'r') std::filesystem::remove_all(directory_ + (how[7] == 0 ? "/fdb.sw0.json" : ""));
    if (how[0] == 'a') {
      std::filesystem::remove(directory_ + "/" + kFile);
      ASSERT_EQ(mkfifo((directory_ + "/" + kFile).c_str(), 0600), 0);
    }
    EXPECT_FALSE(store_->AppendFdb("sw0", {{}, {Entry(3)}})) << how;
    EXPECT_FALSE(store_->AppendFdb("sw0", {{}, {Entry(3)}})) << how;
    std::filesystem::create_directories(directory_);
  }
}

TEST_F(StaticEntriesOnDisk, ADamagedLineIsTheFilesDamage) {
  for (const char* line :
       {"{\"removed\":[]\n", "\n", "[]\n", "{\"removed\":[],\"added\":[{\"port\":1}]}\n"}) {
    store_->SaveFdb("sw0", {Entry(1)});
    ASSERT_TRUE(store_->AppendFdb("sw0", {{}, {Entry(2)}}));
    AppendText(line);
    EXPECT_THAT(Loaded(), IsEmpty()) << line;
    EXPECT_THAT(store_->Problems(), testing::Contains(HasSubstr("line 2 behind its entries"))) << line;
    EXPECT_THAT(Read("fdb.sw0.json.damaged"), HasSubstr("02:00:00:00:00:02"));
    std::filesystem::remove(directory_ + "/fdb.sw0.json.damaged");
  }
}

// What SwitchModel does: all is written anew when the lines have grown as long as what they stand behind.
TEST_F(StaticEntriesOnDisk, LinesAreBounded) {
  std::vector<StaticFdbEntry> entries;
  for (uint64_t mac = 0; mac < 5'000; ++mac) entries.push_back(Entry(mac));
  store_->SaveFdb("sw0", entries);
  const size_t whole = FileSize();
  ASSERT_GT(whole, 96u << 10);
  int written_anew = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    // A hundred that come, and go the time after.
    StaticFdbChange change;
    for (uint64_t mac = 0; mac < 100; ++mac) {
      if (i % 2 == 0) change.added.push_back(Entry(20'000 + mac, i % 4 == 0 ? "p1" : "p2"));
      if (i % 2 == 1) change.removed.push_back(Entry(20'000 + mac));
    }
    entries.resize(5'000);
    entries.insert(entries.end(), change.added.begin(), change.added.end());
    if (!store_->AppendFdb("sw0", change)) {
      ++written_anew;
      store_->SaveFdb("sw0", entries);
    }
    ASSERT_LE(FileSize(), 2 * whole + 10'000);
  }
  EXPECT_THAT(written_anew, testing::AllOf(testing::Ge(3), testing::Le(8)));
  EXPECT_FALSE(store_->AppendFdb("sw0", {{}, entries})) << "as long as all of it";
  EXPECT_EQ(Loaded().size(), entries.size());
}

TEST_F(StaticEntriesOnDisk, AfterAFailureAllIsWritten) {
  store_->SaveFdb("sw0", {Entry(1)});
  std::filesystem::create_directories(directory_ + "/fdb.sw0.json.new");  // in the way of a whole file
  std::filesystem::remove(directory_ + "/" + kFile);
  EXPECT_FALSE(store_->AppendFdb("sw0", {{}, {Entry(2)}}));
  store_->SaveFdb("sw0", {Entry(1), Entry(2)});
  EXPECT_THAT(store_->Problems(), ElementsAre(HasSubstr("not saved")));
  EXPECT_FALSE(store_->AppendFdb("sw0", {{}, {Entry(3)}}));
  store_->SaveFdb("sw0", {Entry(1), Entry(2), Entry(3)});
  std::filesystem::remove(directory_ + "/fdb.sw0.json.new");
  EXPECT_FALSE(store_->RetryPending());
  EXPECT_THAT(Loaded(), ElementsAre("1/1 p1", "2/1 p1", "3/1 p1"));
}

TEST_F(StaticEntriesOnDisk, TheLastEntryTakesTheFileWithIt) {
  store_->SaveFdb("sw0", {Entry(1)});
  store_->SaveFdb("sw0", {});
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/" + kFile));
  EXPECT_FALSE(store_->AppendFdb("sw0", {{}, {Entry(1)}}));
  store_->SaveFdb("sw0", {Entry(1)});
  store_->RemoveSwitch("sw0");
  EXPECT_FALSE(store_->AppendFdb("sw0", {{}, {Entry(1)}}));
}

TEST_F(StateStoreTest, RemovedObjectsStayRemoved) {
  store_->SaveSwitch(Switch());
  store_->SaveFdb("sw0", {{{bridge::MacAddress(2), 10}, "p"}});
  store_->RemoveSwitch("sw0");
  store_->RemovePort("never was");
  StoredState state = store_->Load();
  EXPECT_THAT(state.switches, IsEmpty());
  EXPECT_THAT(state.fdb, IsEmpty());
  EXPECT_THAT(store_->Problems(), IsEmpty());
}

}  // namespace
}  // namespace ringswitch::agent
