// The switch model on a fake node: all or nothing at every step, one call after another per port, what
// survives a restart.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <thread>

#include "server/agent/attachments.h"
#include "server/agent/control_error.h"
#include "server/agent/switch_model.h"
#include "tests/unit/agent_testbed.h"

namespace ringswitch::agent {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(SwitchModelTest, PortGetsDefaultsAndAnId) {
  MakeSwitch("sw0");
  absl::StatusOr<PortView> view = model_->CreatePort(Port("p1"), false);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->spec.id, 1u);
  EXPECT_EQ(view->spec.mtu, 1500u);
  EXPECT_EQ(view->spec.vlans->access_vid, 1);
  EXPECT_EQ(view->state, PortState::kUp);
  const bridge::PortConfig& config = node_.ports[0].first;
  EXPECT_EQ(config.vlan_mode, bridge::VlanMode::kAccess);
  EXPECT_EQ(config.pvid, 1);
  EXPECT_TRUE(config.members.contains(1) && config.untagged.contains(1));
}

TEST_F(SwitchModelTest, TrunkMembersAreTaggedAndNative) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Trunk("p1", 12), false).ok());
  const bridge::PortConfig& config = node_.ports[0].first;
  EXPECT_EQ(config.vlan_mode, bridge::VlanMode::kTrunk);
  EXPECT_EQ(config.pvid, 12);
  for (bridge::VlanId vid : {10, 11, 12, 20}) EXPECT_TRUE(config.members.contains(vid)) << vid;
  EXPECT_FALSE(config.members.contains(1));
  EXPECT_TRUE(config.untagged.contains(12));
  EXPECT_FALSE(config.untagged.contains(10));
}

TEST_F(SwitchModelTest, PortOfUnawareSwitchHasNoVlans) {
  MakeSwitch("sw0", false);
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  EXPECT_EQ(node_.ports[0].first.vlan_mode, bridge::VlanMode::kUnaware);
  absl::Status status = model_->CreatePort(Trunk("p2", 1), false).status();
  EXPECT_EQ(FieldViolationsOf(status).at(0).field, "port.vlans");
}

TEST_F(SwitchModelTest, EveryFailingStepOfCreatePortLeavesNothing) {
  MakeSwitch("sw0");
  int failures = 0;
  for (int step = 1; step <= 10; ++step) {
    node_.steps = 0;
    node_.failing_step = step;
    absl::Status status = model_->CreatePort(Port("p1"), false).status();
    if (status.ok()) break;
    ++failures;
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_TRUE(node_.devices.empty()) << step;
    EXPECT_TRUE(node_.ports.empty()) << step;
    EXPECT_TRUE(node_.watches.empty()) << step;
    EXPECT_EQ(model_->GetPort("p1").status().code(), StatusCode::kNotFound);
    EXPECT_EQ(model_->GetSwitch("sw0")->port_count, 0u);
    EXPECT_FALSE(std::filesystem::exists(directory_ + "/port.p1.json"));
  }
  EXPECT_EQ(failures, 4);  // CreateTap, Watch, AddPort, KeepTap
  EXPECT_EQ(node_.devices.size(), 1u);
}

TEST_F(SwitchModelTest, EveryFailingStepOfAnAttachmentLeavesNothing) {
  int failures = 0;
  for (int step = 1; step <= 10; ++step) {
    node_.steps = 0;
    node_.failing_step = step;
    absl::Status status = model_->CreateAttachment(Attachment("c1")).status();
    if (status.ok()) break;
    ++failures;
    EXPECT_TRUE(node_.devices.empty() && node_.ports.empty() && node_.watches.empty() &&
                node_.switches.empty())
        << step;
    EXPECT_THAT(model_->ListSwitches("", 10).rows, IsEmpty());
  }
  EXPECT_EQ(failures, 5);  // AddSwitch, CreateTap, Watch, AddPort, KeepTap
}

TEST_F(SwitchModelTest, FailedMtuChangeChangesNothing) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  PortUpdate update;
  update.name = "p1";
  update.mtu = 9000;
  node_.steps = 0;
  node_.failing_step = 1;
  EXPECT_FALSE(model_->UpdatePort(update, false).ok());
  EXPECT_EQ(node_.ports[0].first.mtu, 1500u);
  EXPECT_EQ(model_->GetPort("p1")->spec.mtu, 1500u);
  EXPECT_TRUE(model_->UpdatePort(update, false).ok());
  EXPECT_EQ(node_.ports[0].first.mtu, 9000u);
}

TEST_F(SwitchModelTest, ValidateOnlyDoesNothing) {
  MakeSwitch("sw0");
  node_.steps = 0;
  EXPECT_TRUE(model_->CreatePort(Port("p1"), true).ok());
  EXPECT_EQ(node_.steps, 0);
  EXPECT_EQ(model_->GetPort("p1").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  EXPECT_EQ(model_->CreatePort(Port("p1"), true).status().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(model_->DeletePort("p1", true).ok());
  EXPECT_TRUE(model_->GetPort("p1").ok());
}

TEST_F(SwitchModelTest, ErrorsSayWhy) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  EXPECT_EQ(ErrorReasonOf(model_->CreatePort(Port("p1"), false).status()).reason, "PORT_EXISTS");
  EXPECT_EQ(ErrorReasonOf(model_->CreatePort(Port("p2"), false).status()).reason, "INTERFACE_EXISTS");
  PortRequest nowhere = Port("p3");
  nowhere.switch_name = "sw9";
  EXPECT_EQ(ErrorReasonOf(model_->CreatePort(nowhere, false).status()).reason, "SWITCH_NOT_FOUND");
  PortRequest no_namespace = Port("p3");
  no_namespace.device.netns = "/run/netns/other";
  EXPECT_EQ(FieldViolationsOf(model_->CreatePort(no_namespace, false).status()).at(0).field,
            "port.tap.netns");
  EXPECT_EQ(ErrorReasonOf(model_->DeleteSwitch("sw0", false)).reason, "SWITCH_HAS_PORTS");
  EXPECT_EQ(ErrorReasonOf(model_->DeletePort("p9", false)).reason, "PORT_NOT_FOUND");
}

TEST_F(SwitchModelTest, VlanAwarenessIsFixedWhileThereArePorts) {
  MakeSwitch("sw0");
  SwitchUpdate update;
  update.name = "sw0";
  update.vlan_aware = false;
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  EXPECT_EQ(model_->UpdateSwitch(update, false).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(model_->DeletePort("p1", false).ok());
  EXPECT_TRUE(model_->UpdateSwitch(update, false).ok());
  EXPECT_FALSE(node_.switches[0].vlan_aware);
}

TEST_F(SwitchModelTest, StaticEntryNeedsAMember) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Trunk("p1", 0), false).ok());
  FdbEntryRequest entry{"sw0", 30, "02:00:00:00:0b:01", "p1"};
  EXPECT_EQ(model_->CreateFdbEntry(entry, false).status().code(), StatusCode::kFailedPrecondition);
  entry.vid = 10;
  EXPECT_TRUE(model_->CreateFdbEntry(entry, true).ok());
  EXPECT_TRUE(model_->CreateFdbEntry(entry, false).ok());
  EXPECT_EQ(model_->CreateFdbEntry(entry, false).status().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(model_->UpdateFdbEntry(entry, false).ok());
  EXPECT_TRUE(model_->DeleteFdbEntry(entry).ok());
  EXPECT_EQ(model_->DeleteFdbEntry(entry).code(), StatusCode::kNotFound);
  entry.mac_address = "01:00:00:00:0b:01";
  EXPECT_EQ(FieldViolationsOf(model_->CreateFdbEntry(entry, false).status()).at(0).field,
            "entry.mac_address");
}

TEST_F(SwitchModelTest, VidZeroIsTheDefaultVlan) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  absl::StatusOr<FdbEntryView> view = model_->CreateFdbEntry({"sw0", 0, "02:00:00:00:0b:01", "p1"}, false);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->row.key.vid, 1);
}

TEST_F(SwitchModelTest, FullFdbIsSaid) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  node_.fdb_capacity = 1;
  ASSERT_TRUE(model_->CreateFdbEntry({"sw0", 1, "02:00:00:00:0b:01", "p1"}, false).ok());
  EXPECT_EQ(model_->CreateFdbEntry({"sw0", 1, "02:00:00:00:0b:02", "p1"}, false).status().code(),
            StatusCode::kResourceExhausted);
}

TEST_F(SwitchModelTest, LeavingAVlanTakesItsStaticEntries) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Trunk("p1", 0), false).ok());
  ASSERT_TRUE(model_->CreateFdbEntry({"sw0", 10, "02:00:00:00:0b:01", "p1"}, false).ok());
  ASSERT_TRUE(model_->CreateFdbEntry({"sw0", 20, "02:00:00:00:0b:01", "p1"}, false).ok());
  ASSERT_TRUE(model_->ChangeVlans("p1", {{10, 15}}, false).ok());
  absl::StatusOr<FdbPage> page = model_->ListFdbEntries({"sw0", "", std::nullopt, std::nullopt}, 0, 100);
  ASSERT_EQ(page->rows.size(), 1u);
  EXPECT_EQ(page->rows[0].row.key.vid, 20);
  Restart();
  EXPECT_EQ(node_.fdb[0].size(), 1u);
}

TEST_F(SwitchModelTest, VlansOfATrunkAreAddedAndRemoved) {
  MakeSwitch("sw0");
  ASSERT_TRUE(model_->CreatePort(Trunk("p1", 12), false).ok());
  ASSERT_TRUE(model_->CreatePort(Port("p2", "eth1"), false).ok());
  EXPECT_EQ(ErrorReasonOf(model_->ChangeVlans("p2", {{5, 5}}, true).status()).reason, "PORT_NOT_TRUNK");
  EXPECT_EQ(FieldViolationsOf(model_->ChangeVlans("p1", {{5, 5}, {9, 4095}}, true).status()).at(0).field,
            "ranges[1].last");
  ASSERT_TRUE(model_->ChangeVlans("p1", {{12, 13}}, true).ok());
  EXPECT_EQ(model_->GetPort("p1")->spec.vlans->native_vid, 12);
  ASSERT_TRUE(model_->ChangeVlans("p1", {{12, 0}}, false).ok());
  EXPECT_EQ(model_->GetPort("p1")->spec.vlans->native_vid, bridge::kVlanIdNone);
  absl::StatusOr<std::vector<VlanView>> vlans = model_->ListVlans("sw0", {{1, 10}});
  ASSERT_TRUE(vlans.ok());
  ASSERT_EQ(vlans->size(), 2u);
  EXPECT_THAT((*vlans)[0].untagged_ports, ElementsAre("p2"));
  EXPECT_THAT((*vlans)[1].tagged_ports, ElementsAre("p1"));
}

TEST_F(SwitchModelTest, FirstAttachmentsInParallelShareOneSwitch) {
  constexpr int kAttachments = 64;
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int i = 0; i < kAttachments; ++i) {
    threads.emplace_back([this, i, &failures] {
      if (!model_->CreateAttachment(Attachment("c" + std::to_string(i))).ok()) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(model_->ListSwitches("", 10).rows.size(), 1u);
  EXPECT_EQ(model_->GetSwitch("sw0")->port_count, static_cast<uint32_t>(kAttachments));
}

TEST_F(SwitchModelTest, FailingAttachmentsTakeNoSwitchFromOthers) {
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([this, i, &failures] {
      AttachmentRequest request = Attachment("c" + std::to_string(i));
      if (i % 2 == 0) request.netns = "/run/netns/none";
      if (!model_->CreateAttachment(request).ok()) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 16);
  EXPECT_EQ(model_->GetSwitch("sw0")->port_count, 16u);
}

TEST_F(SwitchModelTest, CallsOfOnePortAreSerialisedAndReadsGoOn) {
  MakeSwitch("sw0");
  std::mutex mutex;
  std::condition_variable changed;
  bool is_inside = false;
  bool may_go_on = false;
  node_.on_step = [&](const std::string& step) {
    if (step != "CreateTap") return;
    std::unique_lock lock(mutex);
    is_inside = true;
    changed.notify_all();
    changed.wait(lock, [&] { return may_go_on; });
  };
  std::thread creator([&] { EXPECT_TRUE(model_->CreatePort(Port("p1"), false).ok()); });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_inside; });
  }
  // The creation hangs in its namespace: listings answer, the port is not seen, its switch cannot go.
  EXPECT_THAT(model_->ListPorts({}).rows, IsEmpty());
  EXPECT_EQ(model_->DeleteSwitch("sw0", false).code(), StatusCode::kFailedPrecondition);
  std::thread deleter([&] { EXPECT_TRUE(model_->DeletePort("p1", false).ok()); });  // waits for the creator
  {
    std::lock_guard lock(mutex);
    may_go_on = true;
  }
  changed.notify_all();
  creator.join();
  deleter.join();
  EXPECT_TRUE(node_.devices.empty());
}

TEST_F(SwitchModelTest, ChangesFromManyThreadsLeaveNothing) {
  MakeSwitch("sw0");
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        std::string name = "p" + std::to_string((t + i) % 4);
        (void)model_->CreatePort(Port(name, name), false);
        (void)model_->CreateFdbEntry({"sw0", 1, "02:00:00:00:0c:0" + std::to_string(t), name}, false);
        (void)model_->ListPorts({});
        (void)model_->ListFdbEntries({"sw0", "", std::nullopt, std::nullopt}, 0, 100);
        PortUpdate update;
        update.name = name;
        update.mtu = 1400 + t;
        (void)model_->UpdatePort(update, false);
        model_->OnLinkEvent({static_cast<uint64_t>(i), LinkEventKind::kLinkDown});
        (void)model_->DeletePort(name, false);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) (void)model_->DeletePort("p" + std::to_string(i), false);
  EXPECT_TRUE(node_.devices.empty());
  EXPECT_TRUE(node_.ports.empty());
  EXPECT_EQ(model_->GetSwitch("sw0")->fdb_static_count, 0u);
  EXPECT_TRUE(model_->DeleteSwitch("sw0", false).ok());
}

TEST_F(SwitchModelTest, ListingsHavePages) {
  MakeSwitch("sw0");
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(model_->CreatePort(Port(name, name), false).ok());
  PortFilter filter;
  filter.rows_max = 2;
  Page<PortView> page = model_->ListPorts(filter);
  ASSERT_EQ(page.rows.size(), 2u);
  EXPECT_TRUE(page.has_more);
  filter.after = page.rows.back().spec.name;
  page = model_->ListPorts(filter);
  ASSERT_EQ(page.rows.size(), 1u);
  EXPECT_FALSE(page.has_more);
}

TEST_F(SwitchModelTest, AttachmentIsConfiguredOnceAndChecked) {
  Attachments attachments(model_.get(), &links_);
  AttachmentRequest request = Attachment("c1");
  request.mac_address = "02:00:00:00:0a:01";
  ASSERT_TRUE(attachments.Create(request).ok());
  EXPECT_EQ(model_->GetPort("c1:c1")->spec.mac_limit, kAttachmentMacLimit);
  EXPECT_EQ(attachments.Create(request).status().code(), StatusCode::kAlreadyExists);
  IpSettings settings{{"10.0.0.2/24"}, {{"0.0.0.0/0", "10.0.0.1", 0, 0}}};
  ASSERT_TRUE(attachments.Configure("c1", "c1", settings).ok());
  EXPECT_EQ(node_.announcements, 1);
  EXPECT_EQ(attachments.Configure("c1", "c1", settings).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(attachments.Configure("c2", "c1", settings).status().code(), StatusCode::kNotFound);

  request.ip_config = settings;
  EXPECT_TRUE(attachments.Check(request).ok()) << attachments.Check(request);
  Restart();
  Attachments restarted(model_.get(), &links_);
  EXPECT_TRUE(restarted.Check(request).ok()) << restarted.Check(request);
  request.ip_config->addresses.push_back("10.0.0.3/24");
  request.mtu = 9000;
  absl::Status status = restarted.Check(request);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("address 10.0.0.3/24 is missing"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("MTU is 1500, not 9000"));
  EXPECT_TRUE(restarted.Delete("c1", "c1").ok());
  EXPECT_TRUE(restarted.Delete("c1", "c1").ok());
  EXPECT_EQ(restarted.Check(request).code(), StatusCode::kNotFound);
}

TEST_F(SwitchModelTest, FailedConfigurationIsNotRemembered) {
  Attachments attachments(model_.get(), &links_);
  ASSERT_TRUE(attachments.Create(Attachment("c1")).ok());
  node_.steps = 0;
  node_.failing_step = 1;
  IpSettings settings{{"10.0.0.2/24"}, {}};
  EXPECT_FALSE(attachments.Configure("c1", "c1", settings).ok());
  EXPECT_TRUE(attachments.Configure("c1", "c1", settings).ok());
}

}  // namespace
}  // namespace ringswitch::agent
