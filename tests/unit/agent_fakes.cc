#include "tests/unit/agent_fakes.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

namespace ringswitch {
namespace agent {

FakeNode* fake_node = nullptr;

namespace {

constexpr char kMac[] = "02:00:00:00:0a:01";

// A file of its own stands for a TAP: duplicates share its inode.
File MakeFile() {
  return File(memfd_create("tap", MFD_CLOEXEC));
}

uint64_t InodeOf(const File& file) {
  struct stat info {};
  return fstat(file.fd(), &info) == 0 ? info.st_ino : 0;
}

FakeNode::Device DeviceOf(const LinkRef& link) {
  return {link.netns, link.ifname};
}

// What a veth or netdev port works with: the device in the agent's own namespace.
FakeNode::Device OwnDeviceOf(const DeviceRef& device) {
  return {"", device.own_ifname()};
}

// With the node's mutex held.
PortLink LinkOf(const FakeNode::Device& device, NamespaceId netns_id) {
  PortLink link;
  link.device = {Device::Kind::kPacket, MakeFile()};
  link.netns_id = netns_id;
  link.ifindex = 2;
  link.mac = fake_node->macs[device.second];
  link.mtu = fake_node->mtus[device];
  link.is_up = fake_node->down.count(device) == 0;
  return link;
}

PortLink TapLinkOf(NamespaceId netns_id) {
  PortLink link;
  link.device = {Device::Kind::kTap, MakeFile()};
  link.netns_id = netns_id;
  link.ifindex = 2;
  return link;
}

}  // namespace

absl::Status FakeNode::Step(const std::string& name) {
  if (on_step) on_step(name);
  std::lock_guard lock(mutex);
  return ++steps == failing_step ? absl::InternalError("injected: " + name) : absl::OkStatus();
}

void FakeNode::EndAgent() {
  std::lock_guard lock(mutex);
  ports.clear();
  switches.clear();
  fdb.clear();
  watches.clear();
  unheard.clear();
}

absl::Status FakeNode::CheckNetdev(const DeviceRef& device) const {
  const std::string& ifname = device.link.ifname;
  if (refused.count(ifname) > 0) return absl::FailedPreconditionError("refused");
  if (node_carriers.count(ifname) > 0 && !device.may_carry_node)
    return absl::FailedPreconditionError("carries addresses of the node");
  return absl::OkStatus();
}

absl::StatusOr<PortLink> FakeLinks::CreateTap(const LinkRef& link, bridge::MacAddress, uint32_t mtu) {
  absl::Status status = fake_node->Step("CreateTap");
  if (!status.ok()) return status;
  std::lock_guard lock(fake_node->mutex);
  auto netns = fake_node->namespaces.find(link.netns);
  if (netns == fake_node->namespaces.end())
    return absl::InvalidArgumentError("no network namespace: " + link.netns);
  if (fake_node->devices.count(DeviceOf(link)) > 0) return absl::AlreadyExistsError("interface exists");
  PortLink tap = TapLinkOf(NamespaceId{4, netns->second});
  fake_node->devices[DeviceOf(link)] = InodeOf(tap.device.file);
  fake_node->mtus[DeviceOf(link)] = mtu;
  return tap;
}

absl::Status FakeLinks::KeepTap(const File&) {
  return fake_node->Step("KeepTap");
}

absl::Status FakeLinks::CheckDevice(const DeviceRef& device) {
  std::lock_guard lock(fake_node->mutex);
  if (device.kind == DeviceRef::Kind::kNetdev) {
    if (fake_node->devices.count(OwnDeviceOf(device)) == 0) return absl::NotFoundError("no such device");
    return fake_node->CheckNetdev(device);
  }
  if (fake_node->namespaces.count(device.link.netns) == 0) return absl::InvalidArgumentError("no namespace");
  if (fake_node->devices.count(DeviceOf(device.link)) > 0) return absl::AlreadyExistsError("a device exists");
  if (device.kind == DeviceRef::Kind::kVeth && fake_node->devices.count(OwnDeviceOf(device)) > 0)
    return absl::AlreadyExistsError("the host's end exists");
  return absl::OkStatus();
}

absl::StatusOr<PortLink> FakeLinks::AttachTap(const LinkRef& link, NamespaceId netns_id) {
  absl::Status status = fake_node->Step("AttachTap");
  if (!status.ok()) return status;
  std::lock_guard lock(fake_node->mutex);
  auto netns = fake_node->namespaces.find(link.netns);
  if (netns == fake_node->namespaces.end() || netns->second != netns_id.inode)
    return absl::NotFoundError("namespace is gone");
  auto device = fake_node->devices.find(DeviceOf(link));
  if (device == fake_node->devices.end()) return absl::FailedPreconditionError("no such device");
  if (fake_node->held.count(DeviceOf(link)) > 0) return absl::FailedPreconditionError("device is held");
  PortLink tap = TapLinkOf(netns_id);
  device->second = InodeOf(tap.device.file);
  return tap;
}

absl::StatusOr<PortLink> FakeLinks::OpenNetdev(const DeviceRef& device) {
  absl::Status status = fake_node->Step("OpenNetdev");
  if (!status.ok()) return status;
  std::lock_guard lock(fake_node->mutex);
  if (fake_node->devices.count(OwnDeviceOf(device)) == 0) return absl::NotFoundError("no such device");
  status = fake_node->CheckNetdev(device);
  if (!status.ok()) return status;
  if (device.host_stack == HostStack::kDrop) fake_node->unheard.insert(device.link.ifname);
  PortLink link = LinkOf(OwnDeviceOf(device), {});
  link.was_down = fake_node->left_down.erase(device.link.ifname) > 0;
  return link;
}

void FakeLinks::ReleaseNetdev(const DeviceRef& device) {
  std::lock_guard lock(fake_node->mutex);
  fake_node->unheard.erase(device.link.ifname);
}

void FakeLinks::SetNetdevDown(const DeviceRef& device) {
  std::lock_guard lock(fake_node->mutex);
  fake_node->left_down.insert(device.link.ifname);
}

absl::StatusOr<PortLink> FakeLinks::CreateVeth(const DeviceRef& device, bridge::MacAddress, uint32_t mtu) {
  absl::Status status = fake_node->Step("CreateVeth");
  if (!status.ok()) return status;
  status = CheckDevice(device);
  if (!status.ok()) return status;
  std::lock_guard lock(fake_node->mutex);
  const FakeNode::Device ends[] = {DeviceOf(device.link), OwnDeviceOf(device)};
  for (int i = 0; i < 2; ++i) {
    fake_node->devices[ends[i]] = 0;
    fake_node->veth_peers[ends[i]] = ends[1 - i];
    fake_node->mtus[ends[i]] = mtu;
  }
  return LinkOf(ends[1], NamespaceId{4, fake_node->namespaces[device.link.netns]});
}

absl::StatusOr<PortLink> FakeLinks::AttachVeth(const DeviceRef& device, NamespaceId netns_id) {
  absl::Status status = fake_node->Step("AttachVeth");
  if (!status.ok()) return status;
  std::lock_guard lock(fake_node->mutex);
  auto netns = fake_node->namespaces.find(device.link.netns);
  if (netns == fake_node->namespaces.end() || netns->second != netns_id.inode)
    return absl::NotFoundError("namespace is gone");
  if (fake_node->devices.count(OwnDeviceOf(device)) == 0)
    return absl::FailedPreconditionError("no host's end");
  return LinkOf(OwnDeviceOf(device), netns_id);
}

void FakeLinks::DeleteVeth(const DeviceRef& device) {
  std::lock_guard lock(fake_node->mutex);
  auto it = fake_node->veth_peers.find(OwnDeviceOf(device));
  if (it == fake_node->veth_peers.end()) return;
  const FakeNode::Device peer = it->second;
  for (const FakeNode::Device& end : {OwnDeviceOf(device), peer}) {
    fake_node->devices.erase(end);
    fake_node->veth_peers.erase(end);
  }
}

void FakeLinks::DeleteTap(File tap) {
  if (fake_node->on_step) fake_node->on_step("DeleteTap");
  uint64_t inode = InodeOf(tap);
  std::lock_guard lock(fake_node->mutex);
  for (auto it = fake_node->devices.begin(); it != fake_node->devices.end(); ++it) {
    if (it->second != inode) continue;
    fake_node->devices.erase(it);
    return;
  }
}

absl::Status FakeLinks::SetMtu(const DeviceRef& device, uint32_t mtu) {
  absl::Status status = fake_node->Step("SetMtu");
  if (!status.ok()) return status;
  std::lock_guard lock(fake_node->mutex);
  if (fake_node->devices.count(DeviceOf(device.link)) == 0) return absl::NotFoundError("no such device");
  fake_node->mtus[DeviceOf(device.link)] = mtu;
  return absl::OkStatus();
}

absl::StatusOr<LinkInfo> FakeLinks::GetLink(const LinkRef& link) {
  std::lock_guard lock(fake_node->mutex);
  if (fake_node->devices.count(DeviceOf(link)) == 0) return absl::NotFoundError("no such device");
  LinkInfo info;
  info.mac = *bridge::MacAddress::Parse(kMac);
  info.mtu = fake_node->mtus[DeviceOf(link)];
  info.is_up = fake_node->down.count(DeviceOf(link)) == 0;
  info.addresses = fake_node->addresses[DeviceOf(link)];
  info.routes = {"0.0.0.0/0 via 10.0.0.1"};
  return info;
}

absl::Status FakeLinks::Configure(const LinkRef& link, const std::vector<std::string>& addresses,
                                  const std::vector<LinkRoute>&) {
  absl::Status status = fake_node->Step("Configure");
  if (!status.ok()) return status;
  std::lock_guard lock(fake_node->mutex);
  fake_node->addresses[DeviceOf(link)] = addresses;
  return absl::OkStatus();
}

absl::Status FakeLinks::Announce(const LinkRef&, const std::vector<std::string>&) {
  std::lock_guard lock(fake_node->mutex);
  ++fake_node->announcements;
  return absl::OkStatus();
}

absl::Status FakeLinks::Watch(uint64_t watch_id, const DeviceRef& device, const PortLink* link) {
  absl::Status status = fake_node->Step("Watch");
  if (!status.ok()) return status;
  if (link == nullptr && device.kind == DeviceRef::Kind::kTap)
    return absl::InternalError("a TAP cannot be waited for");
  if (link != nullptr && !link->device.file.is_open())
    return absl::InternalError("a closed device is watched");
  std::lock_guard lock(fake_node->mutex);
  if (!fake_node->watches.insert(watch_id).second) return absl::InternalError("watched twice");
  return absl::OkStatus();
}

void FakeLinks::Unwatch(uint64_t watch_id) {
  std::lock_guard lock(fake_node->mutex);
  fake_node->watches.erase(watch_id);
}

}  // namespace agent

// --- The dataplane ---

using agent::fake_node;
using bridge::FdbKind;
using bridge::FdbResult;

struct Dataplane::State {
  std::map<bridge::PortIndex, File> files;
};

Dataplane::Dataplane() : state_(std::make_unique<State>()) {}
Dataplane::~Dataplane() = default;

absl::StatusOr<std::unique_ptr<Dataplane>> Dataplane::Start(const DataplaneOptions&) {
  return std::unique_ptr<Dataplane>(new Dataplane());
}

absl::StatusOr<bridge::SwitchIndex> Dataplane::AddSwitch(const bridge::SwitchConfig& config, uint32_t) {
  absl::Status status = fake_node->Step("AddSwitch");
  if (!status.ok()) return status;
  std::lock_guard lock(fake_node->mutex);
  bridge::SwitchIndex index = 0;
  while (fake_node->switches.count(index) > 0) ++index;
  fake_node->switches[index] = config;
  return index;
}

void Dataplane::UpdateSwitch(bridge::SwitchIndex index, const bridge::SwitchConfig& config) {
  std::lock_guard lock(fake_node->mutex);
  fake_node->switches[index] = config;
}

void Dataplane::RemoveSwitch(bridge::SwitchIndex index) {
  std::lock_guard lock(fake_node->mutex);
  fake_node->switches.erase(index);
  fake_node->fdb.erase(index);
}

absl::StatusOr<bridge::PortIndex> Dataplane::AddPort(const bridge::PortConfig& config, Device device) {
  absl::Status status = fake_node->Step("AddPort");
  if (!status.ok()) return status;
  uint64_t inode = agent::InodeOf(device.file);
  std::lock_guard lock(fake_node->mutex);
  bridge::PortIndex index = 0;
  while (fake_node->ports.count(index) > 0) ++index;
  fake_node->ports[index] = {config, inode};
  state_->files[index] = std::move(device.file);
  return index;
}

File Dataplane::DetachDevice(bridge::PortIndex index) {
  std::lock_guard lock(fake_node->mutex);
  fake_node->ports[index].second = 0;
  bridge::SwitchIndex on = fake_node->ports[index].first.switch_index;
  std::erase_if(fake_node->fdb[on], [index](const auto& entry) {
    return entry.second.port == index && entry.second.kind == FdbKind::kDynamic;
  });
  File file = std::move(state_->files[index]);
  state_->files.erase(index);
  return file;
}

absl::Status Dataplane::AttachDevice(bridge::PortIndex index, Device device) {
  absl::Status status = fake_node->Step("AttachDevice");
  if (!status.ok()) return status;
  std::lock_guard lock(fake_node->mutex);
  if (fake_node->ports[index].second != 0) return absl::InternalError("it has a device");
  fake_node->ports[index].second = agent::InodeOf(device.file);
  state_->files[index] = std::move(device.file);
  return absl::OkStatus();
}

void Dataplane::UpdatePort(bridge::PortIndex index, const bridge::PortConfig& config) {
  constexpr uint32_t kDown = bridge::kAdminDown | bridge::kLinkDown;
  std::lock_guard lock(fake_node->mutex);
  const uint32_t before = std::exchange(fake_node->ports[index].first, config).features;
  if ((~before & config.features & kDown) == 0) return;
  std::erase_if(fake_node->fdb[config.switch_index], [index](const auto& entry) {
    return entry.second.port == index && entry.second.kind == FdbKind::kDynamic;
  });
}

File Dataplane::RemovePort(bridge::PortIndex index) {
  std::lock_guard lock(fake_node->mutex);
  bridge::SwitchIndex on = fake_node->ports[index].first.switch_index;
  std::erase_if(fake_node->fdb[on], [index](const auto& entry) { return entry.second.port == index; });
  fake_node->ports.erase(index);
  File file = std::move(state_->files[index]);
  state_->files.erase(index);
  return file;
}

FdbResult Dataplane::AddStaticFdbEntry(bridge::SwitchIndex index, bridge::FdbKey key, bridge::PortIndex port,
                                       bool replace_static) {
  std::lock_guard lock(fake_node->mutex);
  auto& table = fake_node->fdb[index];
  auto it = table.find({key.mac.bits(), key.vid});
  if (it != table.end() && it->second.kind == FdbKind::kStatic && !replace_static) return FdbResult::kExists;
  if (it == table.end() && table.size() >= fake_node->fdb_capacity) return FdbResult::kFull;
  table[{key.mac.bits(), key.vid}] = {port, FdbKind::kStatic};
  return FdbResult::kOk;
}

FdbResult Dataplane::RemoveFdbEntry(bridge::SwitchIndex index, bridge::FdbKey key) {
  std::lock_guard lock(fake_node->mutex);
  return fake_node->fdb[index].erase({key.mac.bits(), key.vid}) > 0 ? FdbResult::kOk : FdbResult::kNotFound;
}

std::optional<bridge::FdbRow> Dataplane::FindFdbEntry(bridge::SwitchIndex index, bridge::FdbKey key) const {
  std::lock_guard lock(fake_node->mutex);
  auto& table = fake_node->fdb[index];
  auto it = table.find({key.mac.bits(), key.vid});
  if (it == table.end()) return std::nullopt;
  return bridge::FdbRow{key, it->second, 0};
}

uint32_t Dataplane::FlushFdb(bridge::SwitchIndex index, const bridge::FdbFilter& filter) {
  std::lock_guard lock(fake_node->mutex);
  return static_cast<uint32_t>(std::erase_if(fake_node->fdb[index], [&](const auto& entry) {
    return (!filter.port.has_value() || entry.second.port == *filter.port) &&
           (!filter.vid.has_value() || entry.first.second == *filter.vid) &&
           (!filter.kind.has_value() || entry.second.kind == *filter.kind);
  }));
}

uint32_t Dataplane::ListFdb(bridge::SwitchIndex index, uint32_t cursor, const bridge::FdbFilter&,
                            uint32_t rows_max, std::vector<bridge::FdbRow>* rows) const {
  std::lock_guard lock(fake_node->mutex);
  uint32_t at = 0;
  for (const auto& [key, target] : fake_node->fdb[index]) {
    if (at++ < cursor) continue;
    if (rows->size() == rows_max) return at - 1;
    rows->push_back({{bridge::MacAddress(key.first), key.second}, target, 0});
  }
  return 0;
}

uint32_t Dataplane::FdbCount(bridge::SwitchIndex index, FdbKind kind) const {
  std::lock_guard lock(fake_node->mutex);
  const auto& table = fake_node->fdb[index];
  return static_cast<uint32_t>(std::count_if(
      table.begin(), table.end(), [kind](const auto& entry) { return entry.second.kind == kind; }));
}

uint32_t Dataplane::FdbDynamicCount(bridge::SwitchIndex index, bridge::PortIndex port) const {
  std::lock_guard lock(fake_node->mutex);
  const auto& table = fake_node->fdb[index];
  return static_cast<uint32_t>(std::count_if(table.begin(), table.end(), [port](const auto& entry) {
    return entry.second.port == port && entry.second.kind == FdbKind::kDynamic;
  }));
}

bridge::FdbEvents Dataplane::FdbEvents(bridge::SwitchIndex) const {
  return {};
}

PortStats Dataplane::ReadPort(bridge::PortIndex index) const {
  std::lock_guard lock(fake_node->mutex);
  PortStats stats = fake_node->stats[index];
  stats.has_device = fake_node->ports[index].second != 0;
  return stats;
}

bridge::PortTotals Dataplane::ReadSwitch(bridge::SwitchIndex) const {
  return {};
}

std::vector<WorkerStats> Dataplane::ReadWorkers() const {
  return {};
}

std::vector<bridge::FdbMoves> Dataplane::FdbMoves(bridge::SwitchIndex) const {
  std::lock_guard lock(fake_node->mutex);
  return fake_node->moves;
}

void Dataplane::SetFdbLogging(bridge::SwitchIndex index, bool is_logging) {
  std::lock_guard lock(fake_node->mutex);
  if (is_logging) fake_node->logged.insert(index);
  if (!is_logging) fake_node->logged.erase(index);
}

bool Dataplane::TakeFdbChanges(bridge::SwitchIndex, std::vector<bridge::FdbChange>* changes) {
  std::lock_guard lock(fake_node->mutex);
  *changes = std::exchange(fake_node->fdb_changes, {});
  return !fake_node->has_overflown;
}

std::vector<VlanTotals> Dataplane::ReadVlans(bridge::SwitchIndex) const {
  std::lock_guard lock(fake_node->mutex);
  return fake_node->vlans;
}

}  // namespace ringswitch
