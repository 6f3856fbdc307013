// What the switch model tells those who watch, capture and count.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent_testbed.h"

namespace ringswitch::agent {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

class ObserverTest : public SwitchModelTest {
 protected:
  void SetUp() override {
    model_->SetObserver([this](const ObjectChange& change) {
      std::lock_guard lock(mutex_);
      const bool is_switch = change.kind == ObjectChange::Kind::kSwitch;
      seen_.push_back((change.deleted ? "-" : "+") + (is_switch ? change.switch_name : change.name));
    });
  }
  void TearDown() override { model_->SetObserver(nullptr); }
  std::vector<std::string> Seen() {
    std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }

  std::mutex mutex_;
  std::vector<std::string> seen_;
};

TEST_F(ObserverTest, HearsOfSwitchesAndPorts) {
  MakeSwitch("sw0");
  EXPECT_THAT(Seen(), ElementsAre("+sw0"));
  ASSERT_TRUE(model_->CreatePort(Trunk("p1", 0), false).ok());
  EXPECT_THAT(Seen(), ElementsAre("+p1"));
  EXPECT_FALSE(model_->CreatePort(Port("p1"), false).ok());
  EXPECT_TRUE(model_->CreatePort(Port("p2", "eth1"), true).ok());
  EXPECT_THAT(Seen(), IsEmpty());
  ASSERT_TRUE(model_->ChangeVlans("p1", {{30, 31}}, true).ok());
  EXPECT_THAT(Seen(), ElementsAre("+p1"));
  SwitchUpdate update;
  update.name = "sw0";
  update.vlan_counters = true;
  ASSERT_TRUE(model_->UpdateSwitch(update, false).ok());
  EXPECT_THAT(Seen(), ElementsAre("+sw0"));
  ASSERT_TRUE(model_->ChangeVlans("p1", {{30, 31}}, true).ok());
  ASSERT_TRUE(model_->UpdateSwitch(update, false).ok());
  EXPECT_THAT(Seen(), IsEmpty()) << "E5: nothing is changed by what is so already";
  model_->OnLinkEvent({model_->GetPort("p1")->spec.id, LinkEventKind::kLinkDown});
  ASSERT_TRUE(HasState("p1", PortState::kDown));
  EXPECT_THAT(Seen(), ElementsAre("+p1"));
  ASSERT_TRUE(model_->DeletePort("p1", false).ok());
  ASSERT_TRUE(model_->DeleteSwitch("sw0", false).ok());
  EXPECT_THAT(Seen(), ElementsAre("-p1", "-sw0"));
}

TEST_F(ObserverTest, FdbChangesHaveNames) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  ASSERT_TRUE(model_->CreatePort(Port("p2", "eth1"), false).ok());
  model_->SetFdbLogging("sw0", true);
  EXPECT_EQ(node_.logged.count(0), 1u);
  const bridge::FdbKey key{bridge::MacAddress(0x020000000001), 1};
  node_.fdb_changes = {{key, {1, bridge::FdbKind::kStatic}}, {key, {1, bridge::FdbKind::kNone}}};
  ASSERT_TRUE(model_->DeletePort("p2", false).ok());
  std::vector<ObjectChange> changes;
  EXPECT_TRUE(model_->TakeFdbChanges("sw0", &changes));
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].kind, ObjectChange::Kind::kFdb);
  EXPECT_EQ(changes[0].switch_name, "sw0");
  EXPECT_EQ(changes[0].name, "p2");
  EXPECT_EQ(changes[0].fdb_key, key);
  EXPECT_EQ(changes[0].fdb_kind, bridge::FdbKind::kStatic);
  EXPECT_FALSE(changes[0].deleted);
  EXPECT_EQ(changes[1].name, "p2");
  EXPECT_TRUE(changes[1].deleted);
  node_.has_overflown = true;
  EXPECT_FALSE(model_->TakeFdbChanges("sw0", &changes));
  EXPECT_TRUE(model_->TakeFdbChanges("none", &changes));
  model_->SetFdbLogging("sw0", false);
  EXPECT_EQ(node_.logged.count(0), 0u);
}

TEST_F(ObserverTest, PortsToCapture) {
  MakeSwitch("sw0");
  MakeSwitch("sw1");
  PortRequest other = Port("p3", "eth2");
  other.switch_name = "sw1";
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  ASSERT_TRUE(model_->CreatePort(Port("p2", "eth1"), false).ok());
  ASSERT_TRUE(model_->CreatePort(other, false).ok());
  EXPECT_THAT(*model_->PortIndexes({"p2"}, ""), ElementsAre(1));
  EXPECT_THAT(*model_->PortIndexes({}, "sw0"), ElementsAre(0, 1));
  EXPECT_EQ(model_->PortIndexes({"p9"}, "").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(model_->PortIndexes({}, "sw9").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(model_->PortNameOf(1), "p2");
  ASSERT_TRUE(model_->DeletePort("p2", false).ok());
  EXPECT_EQ(model_->PortNameOf(1), "p2");
  EXPECT_EQ(model_->PortNameOf(500), "");
  EXPECT_EQ(model_->PortNameOf(bridge::kNoPort), "");
}

TEST_F(ObserverTest, MovesAreThoseOfPortsThatAreThere) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  ASSERT_TRUE(model_->CreatePort(Port("p2", "eth1"), false).ok());
  node_.moves = {{0, 1, 7}, {1, 0, 3}};
  const std::vector<PortMovesView> moves = model_->GetSwitch("sw0")->moves;
  ASSERT_EQ(moves.size(), 2u);
  EXPECT_EQ(moves[0].from_port, "p1");
  EXPECT_EQ(moves[0].to_port, "p2");
  EXPECT_EQ(moves[0].moves, 7u);
  ASSERT_TRUE(model_->DeletePort("p1", false).ok());
  EXPECT_THAT(model_->GetSwitch("sw0")->moves, IsEmpty());
}

TEST_F(ObserverTest, VlansAreCountedWhereAskedFor) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Trunk("p1", 12), false).ok());
  node_.vlans = {{10, 1, 2, 3, 4}, {99, 5, 6, 7, 8}};
  EXPECT_FALSE(model_->ListVlans("sw0", {})->at(0).totals.has_value());
  EXPECT_THAT(model_->ReadVlans("sw0"), IsEmpty());
  SwitchUpdate update;
  update.name = "sw0";
  update.vlan_counters = true;
  ASSERT_TRUE(model_->UpdateSwitch(update, false).ok());
  EXPECT_TRUE(node_.switches[0].vlan_counters);
  const std::vector<VlanView> vlans = *model_->ListVlans("sw0", {});
  ASSERT_EQ(vlans.size(), 4u);  // 10 to 12 and 20
  EXPECT_EQ(vlans[0].totals->receive_frames, 1u);
  EXPECT_EQ(vlans[0].totals->transmit_bytes, 4u);
  EXPECT_EQ(vlans[1].totals->receive_frames, 0u);
  EXPECT_EQ(model_->ReadVlans("sw0").size(), 2u);
}

}  // namespace
}  // namespace ringswitch::agent
