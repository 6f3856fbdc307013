#pragma once

// Route netlink: one socket, its errors as absl::Status, and the requests that libnl has no function for.

#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

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

// A socket in the namespace of the thread that opened it, which it pins while open. For one thread at a time.
class NetlinkSocket {
 public:
  static absl::StatusOr<NetlinkSocket> Open();

  nl_sock* get() const { return socket_.get(); }
  // The status of a libnl call that returned `result`, with the kernel's own words where it said something.
  absl::Status ToStatus(int result, absl::string_view what) const;
  // Sends and hands over each message of the answer, to the acknowledgement or the dump's end. ABORTED: a
  // dump that changed under the reader's eyes.
  absl::Status Request(NetlinkMessage message, absl::string_view what,
                       const std::function<void(nl_msg*)>& on_reply) const;

  // NOT_FOUND: no such interface in the socket's namespace.
  absl::StatusOr<NetlinkLink> FindLink(const std::string& ifname) const;

 private:
  struct Refusal {
    int error = 0;
    std::string text;
  };
  NetlinkSocket() = default;
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

// IFF_ flags of an interface in the namespace `nsid` (kNsidNone: the socket's). Enters no namespace.
// NOT_FOUND: no such interface.
absl::StatusOr<uint32_t> ReadLinkFlags(const NetlinkSocket& socket, int32_t nsid, uint32_t ifindex);

}  // namespace ringswitch::agent
