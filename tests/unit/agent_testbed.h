#pragma once

// A switch model on a fake node, with a state directory of its own, that can be restarted.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/agent/attachments.h"
#include "server/agent/control_error.h"
#include "server/agent/switch_model.h"
#include "tests/unit/agent_fakes.h"

namespace ringswitch::agent {

inline constexpr char kNetns[] = "/run/netns/h1";

class SwitchModelTest : public testing::Test {
 protected:
  SwitchModelTest() {
    fake_node = &node_;
    node_.namespaces[kNetns] = 100;
    char path[] = "/tmp/ringswitch-model-XXXXXX";
    directory_ = mkdtemp(path);
    Start("boot-1");
  }
  ~SwitchModelTest() override {
    Stop();
    std::filesystem::remove_all(directory_);
    fake_node = nullptr;
  }

  void Start(const std::string& boot_id) {
    dataplane_ = *Dataplane::Start({});
    store_ = *StateStore::Open(directory_, boot_id);
    model_ = std::make_unique<SwitchModel>(dataplane_.get(), &links_, store_.get(),
                                           [this] { return now_ms_.load(); });
    model_->Restore();
  }
  // As a crash would: the dataplane's memory is gone, devices and state stay.
  void Stop() {
    model_.reset();
    store_.reset();
    dataplane_.reset();
    node_.EndAgent();
  }
  void Restart(const std::string& boot_id = "boot-1") {
    Stop();
    Start(boot_id);
  }

  void MakeSwitch(const std::string& name, bool vlan_aware = true) {
    SwitchRequest request;
    request.name = name;
    request.vlan_aware = vlan_aware;
    ASSERT_TRUE(model_->CreateSwitch(request, false).ok());
  }
  static PortRequest Port(const std::string& name, const std::string& ifname = "eth0") {
    PortRequest request;
    request.name = name;
    request.switch_name = "sw0";
    request.device.kind = DeviceRequest::Kind::kTap;
    request.device.netns = kNetns;
    request.device.ifname = ifname;
    request.mac_address = "02:00:00:00:0a:01";
    return request;
  }
  static PortRequest Veth(const std::string& name, const std::string& ifname = "eth0") {
    PortRequest request = Port(name, ifname);
    request.device.kind = DeviceRequest::Kind::kVeth;
    return request;
  }
  static PortRequest Netdev(const std::string& name, const std::string& ifname) {
    PortRequest request;
    request.name = name;
    request.switch_name = "sw0";
    request.device.kind = DeviceRequest::Kind::kNetdev;
    request.device.ifname = ifname;
    return request;
  }
  // A device of the agent's own namespace comes into being, or goes.
  void AddNetdev(const std::string& ifname, uint64_t mac = 0x020000000001, uint32_t mtu = 1400) {
    std::lock_guard lock(node_.mutex);
    node_.devices[{"", ifname}] = 0;
    node_.macs[ifname] = bridge::MacAddress(mac);
    node_.mtus[{"", ifname}] = mtu;
  }
  void RemoveNetdev(const std::string& ifname) {
    std::lock_guard lock(node_.mutex);
    node_.devices.erase({"", ifname});
  }
  bool HasState(const std::string& name, PortState state) {
    return Eventually([&] {
      absl::StatusOr<PortView> view = model_->GetPort(name);
      return view.ok() && view->state == state;
    });
  }
  static PortRequest Trunk(const std::string& name, uint32_t native_vid) {
    PortRequest request = Port(name);
    VlanRequest vlans;
    vlans.kind = VlanRequest::Kind::kTrunk;
    vlans.tagged = {{10, 12}, {20, 0}};
    vlans.native_vid = native_vid;
    request.vlans = vlans;
    return request;
  }
  static AttachmentRequest Attachment(const std::string& container_id) {
    AttachmentRequest request;
    request.container_id = container_id;
    request.ifname = container_id;
    request.netns = kNetns;
    request.switch_name = "sw0";
    return request;
  }
  template <typename Condition>
  static bool Eventually(Condition condition) {
    for (int i = 0; i < 500; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  size_t WatchCount() {
    std::lock_guard lock(node_.mutex);
    return node_.watches.size();
  }

  std::atomic<int64_t> now_ms_ = 1'000'000;  // of the clock that trials go by
  FakeNode node_;
  FakeLinks links_;
  std::string directory_;
  std::unique_ptr<Dataplane> dataplane_;
  std::unique_ptr<StateStore> store_;
  std::unique_ptr<SwitchModel> model_;
};

}  // namespace ringswitch::agent
