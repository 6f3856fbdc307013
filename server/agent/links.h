#pragma once

// Links: everything the agent does to network namespaces and the interfaces in them.
//
// Theory of operation. An operation inside a pod's namespace runs on a short-lived thread of its own that
// enters the namespace (setns), works and ends, so no thread of the agent is ever left in the wrong one. A
// TAP is made inside the namespace: 0.4 ms, where moving one in costs 22 ms under RTNL. Its file pins the
// namespace, so Links watches the namespace's path (inotify and stat for bind mounts, a pidfd for
// /proc/PID/ns/net) and reports when it is gone. Link states in all pods are heard by one netlink socket in
// the agent's own namespace (NETLINK_LISTEN_ALL_NSID; each pod's namespace is given an nsid), which pins
// nothing.
//
// Netdevs and the host's ends of veths are in the agent's own namespace and known by name: netdev.h says what
// may be a port, veth.h makes pairs, host_stack.h keeps the host's own stack from hearing them. Their packet
// sockets pin nothing of a pod's.
//
// Threads. Every method may be called from any thread. Events come from one thread of Links' own, without
// locks held. Free of gRPC.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/bridge/frame.h"
#include "dataplane/dataplane.h"

namespace ringswitch::agent {

// A network namespace as the kernel knows it: device and inode of its nsfs file, which are given to another
// one when it is gone, and its cookie (SO_NETNS_COOKIE), which is not; a look at a path alone does not tell
// the cookie: 0. Outlives no boot. A path whose identity has changed is another namespace.
struct NamespaceId {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t cookie = 0;
  friend bool operator==(const NamespaceId& a, const NamespaceId& b) {
    return a.device == b.device && a.inode == b.inode &&
           (a.cookie == b.cookie || a.cookie == 0 || b.cookie == 0);
  }
};

// An interface by place: path of the namespace (empty: the agent's own) and name.
struct LinkRef {
  std::string netns;
  std::string ifname;
  friend bool operator==(const LinkRef&, const LinkRef&) = default;
};

// A device that was made, found or attached to again, as Dataplane::AddPort takes it.
struct PortLink {
  Device device;
  NamespaceId netns_id;    // of the pod's end; zero: the agent's own
  uint32_t ifindex = 0;    // TAP: in its namespace; netdev and veth: of the host's end
  bridge::MacAddress mac;  // netdev: its own
  uint32_t mtu = 0;        // netdev: its own
  bool is_up = true;       // netdev and veth: set up and with carrier
  bool was_down = false;   // netdev: its owner had left it down
};

// What the host's own stack does with frames that arrive on a netdev.
enum class HostStack : uint8_t { kDrop, kKeep };

// What port a device belongs to: one of three kinds.
struct DeviceRef {
  enum class Kind : uint8_t { kTap, kNetdev, kVeth };
  Kind kind = Kind::kTap;
  LinkRef link;             // TAP: the device; veth: the pod's end; netdev: name only, netns empty
  std::string host_ifname;  // veth: the host's end
  HostStack host_stack = HostStack::kDrop;  // netdev
  bool software_offload = false;            // netdev
  bool may_carry_node =
      false;  // netdev: addresses or the default route of the node are no reason to refuse it
  // The name of the device in the agent's own namespace; empty for a TAP.
  const std::string& own_ifname() const { return kind == Kind::kNetdev ? link.ifname : host_ifname; }
  friend bool operator==(const DeviceRef&, const DeviceRef&) = default;
};

// What an interface is like.
struct LinkInfo {
  bridge::MacAddress mac;
  uint32_t mtu = 0;
  bool is_up = false;                  // IFF_UP
  std::vector<std::string> addresses;  // "10.0.0.2/24", "fe80::1/64", as the kernel lists them
  std::vector<std::string>
      routes;  // "0.0.0.0/0 via 10.0.0.1", "10.1.0.0/16": those through the interface, main table
};

struct LinkRoute {
  std::string destination;  // with prefix length
  std::string gateway;      // empty: on the link
  uint32_t mtu = 0;         // 0: the interface's
  uint32_t priority = 0;    // 0: the kernel's default
  friend bool operator==(const LinkRoute&, const LinkRoute&) = default;
};

enum class LinkEventKind : uint8_t {
  kNamespaceGone,  // path or process is gone, or the path is another namespace now: reported once
  kLinkUp,         // TAP: IFF_UP was set by the pod; netdev and veth: the host's end is up and has carrier
  kLinkDown,       // not so any more
  kLinkGone,       // the device was deleted or moved to another namespace; netdev and veth: or renamed
  kLinkBack,       // netdev and veth: a device of that name is there again; down until kLinkUp
  kLinkChanged,    // netdev: it has another MAC address or MTU; not told of one that is back
};

struct LinkEvent {
  uint64_t watch_id = 0;  // as given to Watch
  LinkEventKind kind{};
  bridge::MacAddress mac = {};  // kLinkChanged: as they are now
  uint32_t mtu = 0;
};

class Links {
 public:
  virtual ~Links() = default;

  // Makes the TAP with its final name, sets MAC and MTU, sets it up, in this order; undone on failure.
  // INVALID_ARGUMENT: the path is no network namespace, or the name is no name. ALREADY_EXISTS: the namespace
  // has such an interface.
  virtual absl::StatusOr<PortLink> CreateTap(const LinkRef& link, bridge::MacAddress mac, uint32_t mtu) = 0;
  // What CreateTap, CreateVeth or OpenNetdev would refuse, without making anything.
  virtual absl::Status CheckDevice(const DeviceRef& device) = 0;
  // Opens a TAP that an agent before this one made. NOT_FOUND: namespace gone or another one than `netns_id`.
  // FAILED_PRECONDITION: the namespace lives, but the device is not there, is held by another process or is
  // no TAP of ours.
  virtual absl::StatusOr<PortLink> AttachTap(const LinkRef& link, NamespaceId netns_id) = 0;
  // Makes the TAP outlive its files. Until then it goes with the last of them, so that an agent that dies
  // before it has saved a port leaves no device behind.
  virtual absl::Status KeepTap(const File& tap) = 0;
  // Deletes the TAP with its last file. Blocks for 20 ms.
  virtual void DeleteTap(File tap) = 0;

  // Opens a device of the agent's own namespace and, for HostStack::kDrop, keeps the host's stack from
  // hearing it until ReleaseNetdev or the agent's end. NOT_FOUND: no such device. FAILED_PRECONDITION: no
  // Ethernet device, a bridge's port, or one that carries addresses or the default route of the node and may
  // not.
  virtual absl::StatusOr<PortLink> OpenNetdev(const DeviceRef& device) = 0;
  // Makes a veth pair: the pod's end directly in its namespace under its final name with MAC and MTU, tunnel
  // and fraglist segmentation off there (a packet socket's header cannot describe them), the host's end with
  // the same MTU and no address of its own; both set up; undone on failure. Errors as CreateTap;
  // ALREADY_EXISTS also for the host's end.
  virtual absl::StatusOr<PortLink> CreateVeth(const DeviceRef& device, bridge::MacAddress mac,
                                              uint32_t mtu) = 0;
  // Opens the host's end of a pair that an agent before this one made. Errors as AttachTap.
  virtual absl::StatusOr<PortLink> AttachVeth(const DeviceRef& device, NamespaceId netns_id) = 0;
  // Deletes the pair; nothing where it is gone.
  virtual void DeleteVeth(const DeviceRef& device) = 0;
  // The host's stack hears the netdev again.
  virtual void ReleaseNetdev(const DeviceRef& device) = 0;
  // As its owner had left it; nothing where it is gone.
  virtual void SetNetdevDown(const DeviceRef& device) = 0;

  // All fail with NOT_FOUND where namespace or interface is not there.
  // Of both ends of a veth.
  virtual absl::Status SetMtu(const DeviceRef& device, uint32_t mtu) = 0;
  virtual absl::StatusOr<LinkInfo> GetLink(const LinkRef& link) = 0;
  // Adds addresses ("10.0.0.2/24"; IPv6 without duplicate address detection), then routes; undone on failure.
  // INVALID_ARGUMENT names the text that does not parse.
  virtual absl::Status Configure(const LinkRef& link, const std::vector<std::string>& addresses,
                                 const std::vector<LinkRoute>& routes) = 0;
  // Sends a gratuitous ARP for each IPv4 and an unsolicited neighbour advertisement for each IPv6 address out
  // of the interface.
  virtual absl::Status Announce(const LinkRef& link, const std::vector<std::string>& addresses) = 0;

  // Reports events of the device and its namespace until Unwatch. `watch_id` is the caller's.
  // A netdev or veth that is not there (`link` none) is waited for.
  virtual absl::Status Watch(uint64_t watch_id, const DeviceRef& device, const PortLink* link) = 0;
  // No event of that id comes after it returns, unless called from the event thread itself.
  virtual void Unwatch(uint64_t watch_id) = 0;
};

// The real one. `on_event` is called from Links' own thread. UNAVAILABLE where the netlink socket cannot be
// had.
absl::StatusOr<std::unique_ptr<Links>> MakeLinks(std::function<void(const LinkEvent&)> on_event);

}  // namespace ringswitch::agent
