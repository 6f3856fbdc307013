// The state directory: whole again after a restart, and honest about what is damaged.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

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
    return spec;
  }
  static StoredPort Port() {
    StoredPort port;
    PortSpec& spec = port.spec;
    spec.name = "c1:eth0";
    spec.id = 12;
    spec.switch_name = "sw0";
    spec.link = {"/run/netns/h1", "eth0"};
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
