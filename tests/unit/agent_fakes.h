#pragma once

// Stand-ins for what the switch model works on. Links is a fake class. The dataplane is faked at link time:
// agent_fakes.cc defines the members of ringswitch::Dataplane, so the model needs no seam for the tests'
// sake. Both keep what they hold in one FakeNode, which can make any of their steps fail.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/dataplane.h"
#include "server/agent/links.h"

namespace ringswitch::agent {

// A node: what exists on it, and which step fails.
struct FakeNode {
  using Device = std::pair<std::string, std::string>;  // namespace, interface

  std::mutex mutex;                    // guards the following
  std::map<Device, uint64_t> devices;  // inode of the file that stands for the TAP; a netdev or veth: 0
  std::map<Device, Device> veth_peers;
  std::map<Device, uint32_t> mtus;
  std::map<std::string, bridge::MacAddress> macs;  // of netdevs
  std::set<std::string> refused;                   // netdevs that cannot be a port
  std::set<std::string> node_carriers;             // that the node lives on
  std::set<std::string> left_down;                 // that their owner has not set up
  std::set<std::string> unheard;                   // netdevs that the host's stack does not hear
  std::map<Device, std::vector<std::string>> addresses;
  std::set<Device> down;
  std::set<Device> held;                       // by another process: no attaching
  std::map<std::string, uint64_t> namespaces;  // inode by path
  std::set<uint64_t> watches;
  std::map<bridge::SwitchIndex, bridge::SwitchConfig> switches;
  // And the inode of the file; 0: it has no device.
  std::map<bridge::PortIndex, std::pair<bridge::PortConfig, uint64_t>> ports;
  std::map<bridge::PortIndex, PortStats> stats;  // what ReadPort says, the device aside
  std::vector<bridge::FdbMoves> moves;
  std::vector<bridge::FdbChange> fdb_changes;
  bool has_overflown = false;  // what TakeFdbChanges says
  std::set<bridge::SwitchIndex> logged;
  std::vector<VlanTotals> vlans;
  std::map<bridge::SwitchIndex, std::map<std::pair<uint64_t, bridge::VlanId>, bridge::FdbTarget>> fdb;
  uint32_t fdb_capacity = 1000;
  int announcements = 0;

  // The step that fails, counted from 1; 0: none. Steps that cannot fail are not counted.
  int failing_step = 0;
  int steps = 0;
  std::function<void(const std::string&)> on_step;  // called without the mutex

  // OK unless this is the failing step.
  absl::Status Step(const std::string& name);
  absl::Status CheckNetdev(const DeviceRef& device) const;  // with the mutex held
  // As the end of the agent does: the dataplane's memory and the watches are gone, devices stay.
  void EndAgent();
};

extern FakeNode* fake_node;  // set by the test

class FakeLinks final : public Links {
 public:
  absl::StatusOr<PortLink> CreateTap(const LinkRef& link, bridge::MacAddress mac, uint32_t mtu) override;
  absl::Status CheckDevice(const DeviceRef& device) override;
  absl::StatusOr<PortLink> AttachTap(const LinkRef& link, NamespaceId netns_id) override;
  absl::Status KeepTap(const File& tap) override;
  void DeleteTap(File tap) override;
  absl::StatusOr<PortLink> OpenNetdev(const DeviceRef& device) override;
  absl::StatusOr<PortLink> CreateVeth(const DeviceRef& device, bridge::MacAddress mac, uint32_t mtu) override;
  absl::StatusOr<PortLink> AttachVeth(const DeviceRef& device, NamespaceId netns_id) override;
  void DeleteVeth(const DeviceRef& device) override;
  void ReleaseNetdev(const DeviceRef& device) override;
  void SetNetdevDown(const DeviceRef& device) override;
  absl::Status SetMtu(const DeviceRef& device, uint32_t mtu) override;
  absl::StatusOr<LinkInfo> GetLink(const LinkRef& link) override;
  absl::Status Configure(const LinkRef& link, const std::vector<std::string>& addresses,
                         const std::vector<LinkRoute>& routes) override;
  absl::Status Announce(const LinkRef& link, const std::vector<std::string>& addresses) override;
  absl::Status Watch(uint64_t watch_id, const DeviceRef& device, const PortLink* link) override;
  void Unwatch(uint64_t watch_id) override;
};

}  // namespace ringswitch::agent
