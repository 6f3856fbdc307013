#pragma once

// The watch: one thread that hears when a watched namespace goes away and when a watched interface is set up,
// down, deleted or back.
//
// Theory of operation. Whether a namespace is gone is decided in one place only, a sweep that compares the
// identity behind each watched path with the one it had. Sweeps run twice a second while something is watched
// (a stat each), and at once when a hint comes: inotify on the path's directory (`ip netns del` unmounts,
// then unlinks), or the pidfd of a process named by /proc/PID/ns/net. Hints may be missing or wrong (a PID
// used again, an unmount without unlink) without harm.
//
// Interfaces are heard through one netlink socket in the agent's namespace that receives the link messages of
// every namespace with an nsid. TAPs are told apart by (nsid, ifindex), so a rename in the pod does not
// matter. Netdevs and the host's ends of veths are watched by name in the agent's own namespace, since the
// device of that name is what the port wants: one that is deleted, renamed or moved away is gone, and the
// next one that is given the name is back. A netdev's MAC address and MTU, which are the port's, are followed
// too. After an overrun, and once at the start of each watch, the kernel
// is asked (by nsid: IFLA_TARGET_NETNSID). Nothing here holds a file inside a watched namespace.
//
// Threads. `mutex_` guards the watches; it is held for no callback and no netlink request. The event thread
// alone delivers.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/file.h"
#include "server/agent/links.h"
#include "server/agent/netlink.h"

namespace ringswitch::agent {

class LinkWatch {
 public:
  // UNAVAILABLE: the netlink socket cannot be had.
  // `on_gone` is called before kLinkGone of a netdev or veth is delivered, with the name and the index that
  // the device had in the agent's own namespace.
  static absl::StatusOr<std::unique_ptr<LinkWatch>> Start(
      std::function<void(const LinkEvent&)> on_event,
      std::function<void(const std::string& ifname, uint32_t ifindex)> on_gone);
  ~LinkWatch();  // not on the event thread
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

  // NOT_FOUND: the path does not lead to that namespace. ALREADY_EXISTS: the id is in use. A TAP is taken to
  // be up, others as the link says: where it is not so, an event says it.
  absl::Status Add(uint64_t watch_id, const DeviceRef& device, const PortLink* link);
  void Remove(uint64_t watch_id);

 private:
  // Where the interface is, as link messages name it.
  struct Place {
    int32_t nsid = kNsidNone;  // kNsidNone: the agent's own namespace
    uint32_t ifindex = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Entry {
    uint64_t serial = 0;  // no two watches ever have the same, unlike ids
    std::string netns;    // empty: never gone
    NamespaceId netns_id;
    std::string own_ifname;  // netdev and veth; empty: watched by place alone
    // Where it is. None: gone, for good if it is watched by place alone.
    std::optional<Place> place;
    File process;        // pidfd of /proc/PID/ns/net
    int directory = -1;  // inotify watch descriptor, shared by all in that directory
    bool is_namespace_gone = false;
    bool is_up = true;
    bool is_netdev = false;
    bridge::MacAddress mac;  // netdev: as last known to who watches
    uint32_t mtu = 0;
    bool is_read = false;  // the kernel was asked
    bool IsSwept() const { return !netns.empty() && !is_namespace_gone; }
  };
  struct Pending {
    uint64_t serial = 0;
    LinkEvent event;
    std::string gone_ifname = {};  // for on_gone; empty: no call
    uint32_t gone_ifindex = 0;
  };
  using Entries = std::map<uint64_t, Entry>;

  LinkWatch(std::function<void(const LinkEvent&)> on_event,
            std::function<void(const std::string&, uint32_t)> on_gone)
      : on_event_(std::move(on_event)), on_gone_(std::move(on_gone)) {}
  absl::Status Open();
  absl::Status OpenLinkSocket();
  static absl::Status FindTapPlace(const DeviceRef& device, const PortLink& link, Place* place);
  void AddHints(Entry* entry);     // mutex_ held
  void RemoveHints(Entry* entry);  // mutex_ held

  // The event thread.
  void Run();
  void Sweep();
  void ReadDirectories();
  void DropProcess(uint64_t serial);
  void ReadLinkSocket();
  void TakeMessage(int32_t nsid, const nlmsghdr* message);
  void ReadUnreadLinks();
  // All with mutex_ held.
  void TakeNamedLink(Entry* entry, uint64_t watch_id, const LinkState& link, bool is_deleted);
  void SetNamedLink(Entry* entry, uint64_t watch_id, const LinkState& link);
  void SetUp(Entry* entry, uint64_t watch_id, bool is_up);
  void SetAttributes(Entry* entry, uint64_t watch_id, const LinkState& link);
  void SetGone(Entry* entry, uint64_t watch_id);
  void Deliver();
  void Wake() const;

  const std::function<void(const LinkEvent&)> on_event_;
  const std::function<void(const std::string&, uint32_t)> on_gone_;
  std::optional<NetlinkSocket> link_socket_;   // hears; the event thread's
  std::optional<NetlinkSocket> query_socket_;  // asks; the event thread's
  std::optional<File> own_namespace_;          // pins the agent's own only
  File poll_;
  File wake_;
  File directories_;              // inotify; closed where it cannot be had
  int32_t own_nsid_ = kNsidNone;  // by which the agent's own namespace may be called too; the event thread's
  std::vector<Pending> pending_;  // the event thread's

  std::mutex mutex_;
  std::condition_variable delivered_;
  Entries entries_;
  uint64_t serial_last_ = 0;
  std::optional<uint64_t> delivering_;  // id whose event is being delivered
  bool is_stopping_ = false;

  std::thread thread_;  // last: runs on all of the above
};

}  // namespace ringswitch::agent
