#pragma once

// Netlink: one socket, its errors as absl::Status, and the requests that libnl has no function for.

#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dataplane/bridge/frame.h"

namespace ringswitch::agent {

// Owned objects of libnl.
template <auto kFree>
struct NetlinkFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using NetlinkMessage = std::unique_ptr<nl_msg, NetlinkFree<nlmsg_free>>;
using NetlinkAddress = std::unique_ptr<nl_addr, NetlinkFree<nl_addr_put>>;
using NetlinkLink = std::unique_ptr<rtnl_link, NetlinkFree<rtnl_link_put>>;

// What every allocation of libnl that failed comes to.
absl::Status NoNetlinkMemory();

// A socket in the namespace of the thread that opened it, which it pins while open. For one thread at a time.
class NetlinkSocket {
 public:
  static absl::StatusOr<NetlinkSocket> Open(int protocol = NETLINK_ROUTE);

  nl_sock* get() const { return socket_.get(); }
  // The status of a libnl call that returned `result`, with the kernel's own words where it said something.
  absl::Status ToStatus(int result, absl::string_view what) const;
  // Sends and hands over each message of the answer, to the acknowledgement or the dump's end. ABORTED: a
  // dump that changed under the reader's eyes.
  absl::Status Request(NetlinkMessage message, absl::string_view what,
                       const std::function<void(nl_msg*)>& on_reply) const;
  // Sends the messages as one datagram and waits for the first acknowledgement or refusal.
  absl::Status RequestTogether(const std::vector<NetlinkMessage>& messages, absl::string_view what) const;

  // NOT_FOUND: no such interface in the socket's namespace.
  absl::StatusOr<NetlinkLink> FindLink(const std::string& ifname) const;
  // Changes what `change` says of the interface.
  absl::Status ChangeLink(uint32_t ifindex, rtnl_link* change, absl::string_view what) const;

 private:
  struct Refusal {
    int error = 0;
    std::string text;
  };
  NetlinkSocket() = default;
  absl::Status Receive(int result, absl::string_view what,
                       const std::function<void(nl_msg*)>& on_reply) const;
  static int TakeRefusal(sockaddr_nl* from, nlmsgerr* answer, void* refusal);

  std::unique_ptr<Refusal> refusal_ = std::make_unique<Refusal>();  // the socket's callback has its address
  std::unique_ptr<nl_sock, NetlinkFree<nl_socket_free>> socket_;
};

// How the socket's namespace calls another one. Events and requests carry it in place of a file or a path.
inline constexpr int32_t kNsidNone = -1;

// The nsid of the namespace behind an open file; kNsidNone if it has none.
absl::StatusOr<int32_t> FindNsid(const NetlinkSocket& socket, int namespace_fd);
// The same, given where there was none.
absl::StatusOr<int32_t> EnsureNsid(const NetlinkSocket& socket, int namespace_fd);

// What a link message says of an interface.
struct LinkState {
  uint32_t ifindex = 0;
  uint32_t flags = 0;  // IFF_
  std::string ifname;
  bridge::MacAddress mac;  // all zero for what is no Ethernet device
  uint32_t mtu = 0;
};
LinkState LinkStateOf(const nlmsghdr* message);
// All zero for what is no Ethernet device.
bridge::MacAddress MacOf(rtnl_link* link);

// The interface in the namespace `nsid` (kNsidNone: the socket's), which is not entered. NOT_FOUND: no such
// interface.
absl::StatusOr<LinkState> ReadLink(const NetlinkSocket& socket, int32_t nsid, uint32_t ifindex);
// The same by name, in the socket's namespace. An alternative name is not the name.
absl::StatusOr<LinkState> ReadLink(const NetlinkSocket& socket, const std::string& ifname);

}  // namespace ringswitch::agent
