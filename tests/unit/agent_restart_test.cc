// What the switch model does of its own accord: after a restart, and when interfaces and namespaces come and
// go.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/agent_testbed.h"

namespace ringswitch::agent {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(SwitchModelTest, PortsAndStaticEntriesComeBack) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Trunk("p1", 12), false).ok());
  ASSERT_TRUE(model_->CreateFdbEntry({"sw0", 10, "02:00:00:00:0b:01", "p1"}, false).ok());
  PortView before = *model_->GetPort("p1");
  Restart();
  absl::StatusOr<PortView> after = model_->GetPort("p1");
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->spec.id, before.spec.id);
  EXPECT_EQ(after->spec.vlans, before.spec.vlans);
  EXPECT_EQ(after->spec.mac, before.spec.mac);
  EXPECT_EQ(after->state, PortState::kUp);
  EXPECT_EQ(node_.fdb[0].size(), 1u);
  EXPECT_EQ(node_.watches.size(), 1u);
  EXPECT_THAT(model_->Problems(), IsEmpty());
  ASSERT_TRUE(model_->DeletePort("p1", false).ok());
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  EXPECT_GT(model_->GetPort("p1")->spec.id, before.spec.id);
}

TEST_F(SwitchModelTest, PortsOfGoneNamespacesAreDropped) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  node_.namespaces[kNetns] = 101;  // another namespace under the same path
  Restart();
  EXPECT_EQ(model_->GetPort("p1").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(model_->GetSwitch("sw0")->port_count, 0u);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/port.p1.json"));
}

TEST_F(SwitchModelTest, PortWhoseDeviceIsHeldIsMissingUntilItCanBeHad) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  node_.held.insert({kNetns, "eth0"});
  Restart();
  EXPECT_EQ(model_->GetPort("p1")->state, PortState::kMissing);
  EXPECT_THAT(model_->Problems(), ElementsAre(HasSubstr("p1")));
  {
    std::lock_guard lock(node_.mutex);
    node_.held.clear();
  }
  EXPECT_TRUE(Eventually([&] { return model_->GetPort("p1")->state == PortState::kUp; }));
}

TEST_F(SwitchModelTest, StateOfAnotherBootIsDropped) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  Restart("boot-2");
  EXPECT_THAT(model_->ListSwitches("", 10).rows, IsEmpty());
}

TEST_F(SwitchModelTest, NamespaceGoneRemovesThePort) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  model_->OnLinkEvent({model_->GetPort("p1")->spec.id, LinkEventKind::kNamespaceGone});
  EXPECT_TRUE(Eventually([&] { return !model_->GetPort("p1").ok() && WatchCount() == 0; }));
}

TEST_F(SwitchModelTest, EventDuringCreationIsNotLost) {
  MakeSwitch("sw0");
  node_.on_step = [&](const std::string& step) {
    if (step == "AddPort") model_->OnLinkEvent({1, LinkEventKind::kNamespaceGone});
  };
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  EXPECT_TRUE(Eventually([&] { return !model_->GetPort("p1").ok(); }));
}

TEST_F(SwitchModelTest, LinkDownFlushesDynamicEntriesOfThePort) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  ASSERT_TRUE(model_->CreateFdbEntry({"sw0", 1, "02:00:00:00:0b:01", "p1"}, false).ok());
  {
    std::lock_guard lock(node_.mutex);
    node_.fdb[0][{1, 1}] = {0, bridge::FdbKind::kDynamic};
  }
  uint64_t id = model_->GetPort("p1")->spec.id;
  model_->OnLinkEvent({id, LinkEventKind::kLinkDown});
  EXPECT_TRUE(Eventually([&] { return model_->GetPort("p1")->state == PortState::kDown; }));
  EXPECT_TRUE(Eventually([&] { return model_->GetSwitch("sw0")->fdb_dynamic_count == 0; }));
  EXPECT_EQ(model_->GetSwitch("sw0")->fdb_static_count, 1u);
  model_->OnLinkEvent({id, LinkEventKind::kLinkUp});
  EXPECT_TRUE(Eventually([&] { return model_->GetPort("p1")->state == PortState::kUp; }));
  model_->OnLinkEvent({id, LinkEventKind::kLinkGone});
  EXPECT_TRUE(Eventually([&] { return model_->GetPort("p1")->state == PortState::kMissing; }));
  EXPECT_TRUE(model_->DeletePort("p1", false).ok());
}

}  // namespace
}  // namespace ringswitch::agent
