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
#include "dataplane/file.h"

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
};

struct TapLink {
  File tap;  // as Dataplane::AddPort takes it
  NamespaceId netns_id;
  uint32_t ifindex = 0;  // in its namespace
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
};

enum class LinkEventKind : uint8_t {
  kNamespaceGone,  // path or process is gone, or the path is another namespace now: reported once
  kLinkUp,         // IFF_UP was set by the pod
  kLinkDown,       // IFF_UP was cleared by the pod
  kLinkGone,       // the device was deleted
};

struct LinkEvent {
  uint64_t watch_id = 0;  // as given to Watch
  LinkEventKind kind{};
};

class Links {
 public:
  virtual ~Links() = default;

  // Makes the TAP with its final name, sets MAC and MTU, sets it up, in this order; undone on failure.
  // INVALID_ARGUMENT: the path is no network namespace, or the name is no name. ALREADY_EXISTS: the namespace
  // has such an interface.
  virtual absl::StatusOr<TapLink> CreateTap(const LinkRef& link, bridge::MacAddress mac, uint32_t mtu) = 0;
  // What CreateTap would refuse about the place, without making anything.
  virtual absl::Status CheckPlace(const LinkRef& link) = 0;
  // Opens a TAP that an agent before this one made. NOT_FOUND: namespace gone or another one than `netns_id`.
  // FAILED_PRECONDITION: the namespace lives, but the device is not there, is held by another process or is
  // no TAP of ours.
  virtual absl::StatusOr<TapLink> AttachTap(const LinkRef& link, NamespaceId netns_id) = 0;
  // Makes the TAP outlive its files. Until then it goes with the last of them, so that an agent that dies
  // before it has saved a port leaves no device behind.
  virtual absl::Status KeepTap(const File& tap) = 0;
  // Deletes the TAP with its last file. Blocks for 20 ms.
  virtual void DeleteTap(File tap) = 0;

  // All fail with NOT_FOUND where namespace or interface is not there.
  virtual absl::Status SetMtu(const LinkRef& link, uint32_t mtu) = 0;
  virtual absl::StatusOr<LinkInfo> GetLink(const LinkRef& link) = 0;
  // Adds addresses ("10.0.0.2/24"; IPv6 without duplicate address detection), then routes; undone on failure.
  // INVALID_ARGUMENT names the text that does not parse.
  virtual absl::Status Configure(const LinkRef& link, const std::vector<std::string>& addresses,
                                 const std::vector<LinkRoute>& routes) = 0;
  // Sends a gratuitous ARP for each IPv4 and an unsolicited neighbour advertisement for each IPv6 address out
  // of the interface.
  virtual absl::Status Announce(const LinkRef& link, const std::vector<std::string>& addresses) = 0;

  // Reports events of the interface and its namespace until Unwatch. `watch_id` is the caller's.
  virtual absl::Status Watch(uint64_t watch_id, const LinkRef& link, const TapLink& tap) = 0;
  // No event of that id comes after it returns, unless called from the event thread itself.
  virtual void Unwatch(uint64_t watch_id) = 0;
};

// The real one. `on_event` is called from Links' own thread. UNAVAILABLE where the netlink socket cannot be
// had.
absl::StatusOr<std::unique_ptr<Links>> MakeLinks(std::function<void(const LinkEvent&)> on_event);

}  // namespace ringswitch::agent
