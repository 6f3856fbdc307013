// Ports on netdevs and veths, on fakes: all or nothing at every step, one device one port, what becomes of a
// port whose device goes and comes back, and of one that BPDU guard takes down.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/agent_testbed.h"

namespace ringswitch::agent {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PortDeviceTest : public SwitchModelTest {
 protected:
  void SetUp() override { MakeSwitch("sw0"); }
  void Learn(bridge::PortIndex port) {
    std::lock_guard lock(node_.mutex);
    node_.fdb[0][{port + 1u, 1}] = {port, bridge::FdbKind::kDynamic};
  }
  void Report(const std::string& port, LinkEventKind kind) {
    model_->OnLinkEvent({model_->GetPort(port)->spec.id, kind});
  }
  bool IsUnheard(const std::string& ifname) {
    std::lock_guard lock(node_.mutex);
    return node_.unheard.count(ifname) > 0;
  }
};

TEST_F(PortDeviceTest, NetdevGivesItsMtuAndMac) {
  AddNetdev("eth1", 0x02000000beef, 1400);
  absl::StatusOr<PortView> view = model_->CreatePort(Netdev("p1", "eth1"), false);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->spec.mtu, 1400u);
  EXPECT_EQ(view->spec.mac, bridge::MacAddress(0x02000000beef));
  EXPECT_EQ(node_.ports[0].first.mtu, 1400u);
  EXPECT_TRUE(IsUnheard("eth1"));
  ASSERT_TRUE(model_->DeletePort("p1", false).ok());
  EXPECT_FALSE(IsUnheard("eth1"));
  EXPECT_EQ(node_.devices.size(), 1u);  // it is not ours
  EXPECT_EQ(WatchCount(), 0u);
}

TEST_F(PortDeviceTest, VethHasANameOfItsOwnOnTheHost) {
  absl::StatusOr<PortView> view = model_->CreatePort(Veth("p1"), false);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->spec.device.host_ifname, "rsv1");
  EXPECT_EQ(node_.devices.count({"", "rsv1"}), 1u);
  EXPECT_EQ(node_.devices.count({kNetns, "eth0"}), 1u);
  ASSERT_TRUE(model_->DeletePort("p1", false).ok());
  EXPECT_TRUE(node_.devices.empty());
}

TEST_F(PortDeviceTest, EveryFailingStepOfAVethLeavesNothing) {
  int failures = 0;
  for (int step = 1; step <= 10; ++step) {
    node_.steps = 0;
    node_.failing_step = step;
    absl::Status status = model_->CreatePort(Veth("p1"), false).status();
    if (status.ok()) break;
    ++failures;
    EXPECT_TRUE(node_.devices.empty() && node_.ports.empty() && node_.watches.empty()) << step;
    EXPECT_EQ(model_->GetPort("p1").status().code(), StatusCode::kNotFound);
    EXPECT_EQ(model_->GetSwitch("sw0")->port_count, 0u);
    EXPECT_FALSE(std::filesystem::exists(directory_ + "/port.p1.json"));
  }
  EXPECT_EQ(failures, 3);  // CreateVeth, Watch, AddPort
  EXPECT_EQ(node_.devices.size(), 2u);
}

TEST_F(PortDeviceTest, EveryFailingStepOfANetdevReleasesIt) {
  AddNetdev("eth1");
  int failures = 0;
  for (int step = 1; step <= 10; ++step) {
    node_.steps = 0;
    node_.failing_step = step;
    absl::Status status = model_->CreatePort(Netdev("p1", "eth1"), false).status();
    if (status.ok()) break;
    ++failures;
    EXPECT_FALSE(IsUnheard("eth1")) << step;
    EXPECT_TRUE(node_.ports.empty() && node_.watches.empty()) << step;
    EXPECT_FALSE(std::filesystem::exists(directory_ + "/port.p1.json"));
  }
  EXPECT_EQ(failures, 3);  // OpenNetdev, Watch, AddPort
}

TEST_F(PortDeviceTest, AVethThatAnAgentDiedOverIsRemoved) {
  // On disk before it is made: the agent that died in between has told nobody of it.
  node_.on_step = [this](const std::string& step) {
    if (step == "Watch") std::filesystem::copy(directory_ + "/port.p1.json", directory_ + "/kept");
  };
  ASSERT_TRUE(model_->CreatePort(Veth("p1"), false).ok());
  node_.on_step = nullptr;
  std::filesystem::rename(directory_ + "/kept", directory_ + "/port.p1.json");
  Restart();
  EXPECT_EQ(model_->GetPort("p1").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(node_.devices.empty());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/port.p1.json"));
  EXPECT_THAT(model_->Problems(), IsEmpty());
}

TEST_F(PortDeviceTest, ADeletionThatAnAgentDiedOverIsEnded) {
  ASSERT_TRUE(model_->CreatePort(Port("p1"), false).ok());
  node_.on_step = [this](const std::string& step) {
    if (step == "DeleteTap") std::filesystem::copy(directory_ + "/port.p1.json", directory_ + "/kept");
  };
  const auto devices = node_.devices;
  ASSERT_TRUE(model_->DeletePort("p1", false).ok());
  node_.on_step = nullptr;
  std::filesystem::rename(directory_ + "/kept", directory_ + "/port.p1.json");
  node_.devices = devices;
  Restart();
  EXPECT_EQ(model_->GetPort("p1").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(node_.devices.empty());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/port.p1.json"));
  EXPECT_THAT(model_->Problems(), IsEmpty());
}

TEST_F(PortDeviceTest, ANetdevThatWasGivenAnAddressComesThroughARestart) {
  AddNetdev("eth1");
  ASSERT_TRUE(model_->CreatePort(Netdev("p1", "eth1"), false).ok());
  node_.node_carriers.insert("eth1");
  Restart();
  EXPECT_EQ(model_->GetPort("p1")->state, PortState::kUp);
  EXPECT_FALSE(model_->CreatePort(Netdev("p2", "eth1"), true).ok());
}

TEST_F(PortDeviceTest, APortOfTheFileWaitsForItsNic) {
  model_->WantPort(Netdev("p1", "eth1"));
  EXPECT_FALSE(model_->GetPort("p1").ok());
  EXPECT_THAT(model_->Problems(), ElementsAre(AllOf(HasSubstr("p1"), HasSubstr("eth1"))));
  AddNetdev("eth1");
  ASSERT_TRUE(HasState("p1", PortState::kUp));
  EXPECT_TRUE(Eventually([this] { return model_->Problems().empty(); }));
  ASSERT_TRUE(model_->DeletePort("p1", false).ok());
  ::usleep(1'100'000);
  EXPECT_FALSE(model_->GetPort("p1").ok()) << "it was made once; now it is the API's";
}

TEST_F(PortDeviceTest, ADeviceIsOnePorts) {
  AddNetdev("eth1");
  ASSERT_TRUE(model_->CreatePort(Netdev("p1", "eth1"), false).ok());
  for (bool validate_only : {true, false}) {
    absl::Status status = model_->CreatePort(Netdev("p2", "eth1"), validate_only).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"p1\""));
    EXPECT_EQ(ErrorReasonOf(status).reason, "DEVICE_IN_USE");
  }
  EXPECT_EQ(model_->GetSwitch("sw0")->port_count, 1u);
  // Missing, it is p1's still, and no other port may make one of that name.
  RemoveNetdev("eth1");
  Report("p1", LinkEventKind::kLinkGone);
  ASSERT_TRUE(HasState("p1", PortState::kMissing));
  PortRequest veth = Veth("p2");
  veth.device.host_ifname = "eth1";
  EXPECT_EQ(ErrorReasonOf(model_->CreatePort(veth, false).status()).reason, "DEVICE_IN_USE");
  node_.namespaces[""] = 1;
  PortRequest tap = Port("p2", "eth1");
  tap.device.netns = "";
  EXPECT_EQ(ErrorReasonOf(model_->CreatePort(tap, false).status()).reason, "DEVICE_IN_USE");
  ASSERT_TRUE(model_->DeletePort("p1", false).ok());
  EXPECT_TRUE(model_->CreatePort(veth, false).ok());
}

TEST_F(PortDeviceTest, ErrorsOfNetdevsSayWhy) {
  AddNetdev("eth1");
  node_.refused.insert("eth1");
  EXPECT_EQ(ErrorReasonOf(model_->CreatePort(Netdev("p1", "eth1"), false).status()).reason, "DEVICE_REFUSED");
  absl::Status status = model_->CreatePort(Netdev("p1", "eth2"), false).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(ErrorReasonOf(status).reason, "NETDEV_NOT_FOUND");
  EXPECT_EQ(model_->CreatePort(Netdev("p1", "eth2"), true).status().code(), StatusCode::kNotFound);
  PortRequest nowhere = Veth("p1");
  nowhere.device.netns = "/run/netns/other";
  EXPECT_EQ(FieldViolationsOf(model_->CreatePort(nowhere, false).status()).at(0).field, "port.veth.netns");
}

TEST_F(PortDeviceTest, ANetdevGoesAndComesBackAnother) {
  AddNetdev("eth1", 0x020000000001, 1400);
  ASSERT_TRUE(model_->CreatePort(Netdev("p1", "eth1"), false).ok());
  ASSERT_TRUE(model_->CreateFdbEntry({"sw0", 1, "02:00:00:00:0b:01", "p1"}, false).ok());
  Learn(0);
  RemoveNetdev("eth1");
  Report("p1", LinkEventKind::kLinkGone);
  ASSERT_TRUE(HasState("p1", PortState::kMissing));
  EXPECT_THAT(model_->GetPort("p1")->state_detail, HasSubstr("eth1 is not there"));
  EXPECT_THAT(model_->Problems(), ElementsAre(HasSubstr("p1")));
  EXPECT_FALSE(IsUnheard("eth1"));
  EXPECT_EQ(model_->GetSwitch("sw0")->fdb_dynamic_count, 0u);
  EXPECT_EQ(model_->GetSwitch("sw0")->fdb_static_count, 1u);
  EXPECT_EQ(model_->GetPort("p1")->spec.mtu, 1400u);

  AddNetdev("eth1", 0x020000000002, 9000);
  Report("p1", LinkEventKind::kLinkBack);
  ASSERT_TRUE(HasState("p1", PortState::kUp));
  EXPECT_EQ(model_->GetPort("p1")->spec.mac, bridge::MacAddress(0x020000000002));
  EXPECT_EQ(model_->GetPort("p1")->spec.mtu, 9000u);
  EXPECT_EQ(node_.ports.size(), 1u);
  EXPECT_EQ(node_.ports[0].first.mtu, 9000u);
  EXPECT_TRUE(IsUnheard("eth1"));
  EXPECT_EQ(model_->GetSwitch("sw0")->fdb_static_count, 1u);
  EXPECT_EQ(WatchCount(), 1u);
  EXPECT_THAT(model_->Problems(), IsEmpty());
}

TEST_F(PortDeviceTest, ADeviceThatCannotBeHadYetIsRetried) {
  AddNetdev("eth1");
  ASSERT_TRUE(model_->CreatePort(Netdev("p1", "eth1"), false).ok());
  Report("p1", LinkEventKind::kLinkGone);
  {
    std::lock_guard lock(node_.mutex);
    node_.refused.insert("eth1");
  }
  EXPECT_TRUE(Eventually([&] { return model_->GetPort("p1")->state_detail == "refused"; }));
  {
    std::lock_guard lock(node_.mutex);
    node_.refused.clear();
    node_.steps = 0;
    node_.failing_step = 2;  // AttachDevice: it is released, and tried again
  }
  EXPECT_TRUE(HasState("p1", PortState::kUp));
  EXPECT_TRUE(IsUnheard("eth1"));
}

TEST_F(PortDeviceTest, AMissingNetdevIsWaitedForAtTheStart) {
  AddNetdev("eth1");
  ASSERT_TRUE(model_->CreatePort(Netdev("p1", "eth1"), false).ok());
  ASSERT_TRUE(model_->CreateFdbEntry({"sw0", 1, "02:00:00:00:0b:01", "p1"}, false).ok());
  const uint64_t id = model_->GetPort("p1")->spec.id;
  RemoveNetdev("eth1");
  Restart();
  ASSERT_EQ(model_->GetPort("p1")->state, PortState::kMissing);
  EXPECT_EQ(WatchCount(), 1u);
  EXPECT_EQ(ErrorReasonOf(model_->CreatePort(Netdev("p2", "eth1"), false).status()).reason, "DEVICE_IN_USE");
  AddNetdev("eth1");
  Report("p1", LinkEventKind::kLinkBack);
  ASSERT_TRUE(HasState("p1", PortState::kUp));
  EXPECT_EQ(model_->GetPort("p1")->spec.id, id);
  EXPECT_EQ(WatchCount(), 1u);
  EXPECT_TRUE(Eventually([&] { return model_->GetSwitch("sw0")->fdb_static_count == 1; }));
}

TEST_F(PortDeviceTest, AVethComesBackAfterARestart) {
  ASSERT_TRUE(model_->CreatePort(Veth("p1"), false).ok());
  Restart();
  EXPECT_EQ(model_->GetPort("p1")->state, PortState::kUp);
  EXPECT_EQ(model_->GetPort("p1")->spec.device.host_ifname, "rsv1");
  // Deleted while no agent ran, its namespace still there.
  model_->OnLinkEvent({99, LinkEventKind::kLinkGone});
  Stop();
  links_.DeleteVeth(DeviceRef{DeviceRef::Kind::kVeth, {kNetns, "eth0"}, "rsv1", HostStack::kDrop, false});
  Start("boot-1");
  EXPECT_EQ(model_->GetPort("p1")->state, PortState::kMissing);
  node_.namespaces[kNetns] = 101;
  EXPECT_TRUE(Eventually([&] { return !model_->GetPort("p1").ok(); }));
  EXPECT_TRUE(Eventually([&] { return WatchCount() == 0; }));
}

TEST_F(PortDeviceTest, CarrierIsFollowed) {
  {
    std::lock_guard lock(node_.mutex);
    node_.down.insert({"", "eth1"});
  }
  AddNetdev("eth1");
  absl::StatusOr<PortView> view = model_->CreatePort(Netdev("p1", "eth1"), false);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->state, PortState::kDown);
  EXPECT_THAT(view->state_detail, HasSubstr("carrier"));
  EXPECT_EQ(node_.ports[0].first.features, bridge::kLinkDown);
  Report("p1", LinkEventKind::kLinkUp);
  ASSERT_TRUE(HasState("p1", PortState::kUp));
  EXPECT_EQ(node_.ports[0].first.features, 0u);
  Learn(0);
  Report("p1", LinkEventKind::kLinkDown);
  ASSERT_TRUE(HasState("p1", PortState::kDown));
  EXPECT_EQ(model_->GetSwitch("sw0")->fdb_dynamic_count, 0u);
}

TEST_F(PortDeviceTest, MacAndMtuOfANetdevAreFollowed) {
  AddNetdev("eth1", 0x020000000001, 1400);
  PortRequest request = Netdev("p1", "eth1");
  request.attributes.isolated = true;
  ASSERT_TRUE(model_->CreatePort(request, false).ok());
  std::atomic<int> changes = 0;
  model_->SetObserver([&changes](const ObjectChange& change) { changes += change.name == "p1" ? 1 : 0; });
  auto change = [this](uint64_t mac, uint32_t mtu) {
    model_->OnLinkEvent(
        {model_->GetPort("p1")->spec.id, LinkEventKind::kLinkChanged, bridge::MacAddress(mac), mtu});
  };
  auto has_mtu = [this](uint32_t mtu) { return model_->GetPort("p1")->spec.mtu == mtu; };
  change(0x020000000001, 1400);  // as it is
  change(0x020000000009, 9000);
  ASSERT_TRUE(Eventually([&] { return has_mtu(9000); }));
  EXPECT_EQ(model_->GetPort("p1")->spec.mac, bridge::MacAddress(0x020000000009));
  EXPECT_EQ(node_.ports[0].first.mtu, 9000u);
  EXPECT_EQ(node_.ports[0].first.features, bridge::kIsolated);
  EXPECT_EQ(changes, 1);
  // What a port cannot have, and while it has no carrier.
  Report("p1", LinkEventKind::kLinkDown);
  change(0x020000000009, 65'535);
  ASSERT_TRUE(Eventually([&] { return has_mtu(bridge::kMtuMax); }));
  EXPECT_EQ(node_.ports[0].first.features, bridge::kIsolated | bridge::kLinkDown);
  // Missing, it is asked when it is back.
  Report("p1", LinkEventKind::kLinkGone);
  change(0x020000000009, 1000);
  AddNetdev("eth1", 0x020000000002, 1200);
  Report("p1", LinkEventKind::kLinkBack);
  ASSERT_TRUE(HasState("p1", PortState::kUp));
  EXPECT_TRUE(has_mtu(1200));
  // A veth has the MTU that it was given.
  ASSERT_TRUE(model_->CreatePort(Veth("p2"), false).ok());
  model_->OnLinkEvent({model_->GetPort("p2")->spec.id, LinkEventKind::kLinkChanged, {}, 1000});
  change(0x020000000002, 1300);
  ASSERT_TRUE(Eventually([&] { return has_mtu(1300); }));
  EXPECT_EQ(model_->GetPort("p2")->spec.mtu, 1500u);
  model_->SetObserver(nullptr);
}

TEST_F(PortDeviceTest, NamespaceGoneRemovesAVeth) {
  ASSERT_TRUE(model_->CreatePort(Veth("p1"), false).ok());
  Report("p1", LinkEventKind::kNamespaceGone);
  EXPECT_TRUE(Eventually([&] { return !model_->GetPort("p1").ok() && WatchCount() == 0; }));
}

TEST_F(PortDeviceTest, MtuOfAVethIsThatOfBothEnds) {
  ASSERT_TRUE(model_->CreatePort(Veth("p1"), false).ok());
  PortUpdate update;
  update.name = "p1";
  update.mtu = 9000;
  ASSERT_TRUE(model_->UpdatePort(update, false).ok());
  EXPECT_EQ((node_.mtus[{kNetns, "eth0"}]), 9000u);
  AddNetdev("eth1");
  ASSERT_TRUE(model_->CreatePort(Netdev("p2", "eth1"), false).ok());
  update.name = "p2";
  EXPECT_EQ(FieldViolationsOf(model_->UpdatePort(update, false).status()).at(0).field, "port.mtu");
}

TEST_F(PortDeviceTest, AttributesChangeInOneStepAndComeBack) {
  ASSERT_TRUE(model_->CreatePort(Veth("p1"), false).ok());
  PortUpdate update;
  update.name = "p1";
  update.attributes.isolated = true;
  update.attributes.admin_up = false;
  update.attributes.bpdu_guard = BpduGuardRequest{true, DurationRequest{30, 0}};
  ASSERT_TRUE(model_->UpdatePort(update, true).ok());
  EXPECT_EQ(node_.ports[0].first.features, 0u);
  absl::StatusOr<PortView> view = model_->UpdatePort(update, false);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->state, PortState::kDown);
  EXPECT_THAT(view->state_detail, HasSubstr("admin_up"));
  const uint32_t features = bridge::kIsolated | bridge::kAdminDown | bridge::kBpduGuard;
  EXPECT_EQ(node_.ports[0].first.features, features);
  EXPECT_EQ(node_.ports[0].first.bpdu_recovery_s, 30u);
  const PortAttributes before = view->spec.attributes;
  Restart();
  EXPECT_EQ(model_->GetPort("p1")->spec.attributes, before);
  EXPECT_EQ(node_.ports[0].first.features, features);
}

TEST_F(PortDeviceTest, BpduGuardIsShownAndItsEntriesGo) {
  PortRequest request = Port("p1");
  request.attributes.bpdu_guard = BpduGuardRequest{true, DurationRequest{30, 0}};
  ASSERT_TRUE(model_->CreatePort(request, false).ok());
  std::atomic<int> changes = 0;
  model_->SetObserver([&changes](const ObjectChange& change) {
    if (change.name == "p1" && !change.deleted) ++changes;
  });
  Learn(0);
  {
    std::lock_guard lock(node_.mutex);
    node_.stats[0].blocked = true;
    node_.stats[0].blocked_left_s = 17;
  }
  EXPECT_EQ(model_->GetPort("p1")->state, PortState::kBlocked);  // at once
  EXPECT_THAT(model_->GetPort("p1")->state_detail, HasSubstr("17 s"));
  EXPECT_TRUE(Eventually([&] { return changes == 1; }));
  EXPECT_EQ(model_->GetSwitch("sw0")->fdb_dynamic_count, 0u);
  {
    std::lock_guard lock(node_.mutex);
    node_.stats[0].blocked_left_s = 0;
  }
  EXPECT_THAT(model_->GetPort("p1")->state_detail, HasSubstr("set it down and up"));
  {
    std::lock_guard lock(node_.mutex);
    node_.stats[0].blocked = false;
  }
  EXPECT_EQ(model_->GetPort("p1")->state, PortState::kUp);
  EXPECT_TRUE(Eventually([&] { return changes == 2; }));
  model_->SetObserver(nullptr);
}

TEST_F(PortDeviceTest, SourceGuardLearnsAddressesThatAreConfigured) {
  Attachments attachments(model_.get(), &links_);
  ASSERT_TRUE(attachments.Create(Attachment("c1")).ok());
  EXPECT_EQ(node_.ports[0].first.features, 0u);
  PortUpdate update;
  update.name = "c1:c1";
  update.attributes.source_guard.mac = true;
  update.attributes.source_guard.address = true;
  update.attributes.source_guard.ip_addresses = std::vector<std::string>{"10.0.0.9"};
  ASSERT_TRUE(model_->UpdatePort(update, false).ok());
  EXPECT_THAT(node_.ports[0].first.source_guard.ipv4, ElementsAre(bridge::Ipv4Address{10, 0, 0, 9}));
  ASSERT_TRUE(attachments.Configure("c1", "c1", {{"10.0.0.2/24"}, {}}).ok());
  EXPECT_THAT(node_.ports[0].first.source_guard.ipv4,
              ElementsAre(bridge::Ipv4Address{10, 0, 0, 2}, bridge::Ipv4Address{10, 0, 0, 9}));
}

TEST_F(PortDeviceTest, DevicesComeAndGoUnderChanges) {
  for (const char* ifname : {"eth1", "eth2"}) AddNetdev(ifname);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const std::string name = "p" + std::to_string(t % 2);
      const std::string ifname = "eth" + std::to_string(1 + t % 2);
      for (int i = 0; i < 60; ++i) {
        (void)model_->CreatePort(i % 2 == 0 ? Netdev(name, ifname) : Veth(name, name), false);
        absl::StatusOr<PortView> view = model_->GetPort(name);
        const uint64_t id = view.ok() ? view->spec.id : 0;
        for (LinkEventKind kind :
             {LinkEventKind::kLinkGone, LinkEventKind::kLinkDown, LinkEventKind::kLinkBack})
          model_->OnLinkEvent({id, kind});
        PortUpdate update;
        update.name = name;
        update.attributes.locked = i % 3 == 0;
        (void)model_->UpdatePort(update, false);
        (void)model_->ListPorts({});
        (void)model_->DeletePort(name, false);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const char* name : {"p0", "p1"}) (void)model_->DeletePort(name, false);
  std::lock_guard lock(node_.mutex);
  EXPECT_EQ(node_.devices.size(), 2u);
  EXPECT_TRUE(node_.ports.empty());
  EXPECT_TRUE(node_.unheard.empty());
  EXPECT_TRUE(node_.watches.empty());
}

}  // namespace
}  // namespace ringswitch::agent
