#include "server/agent/netlink.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace ringswitch::agent {
namespace {

// What the callbacks of one Request share.
struct Exchange {
  const std::function<void(nl_msg*)>* on_reply;
  bool is_done = false;
};

int TakeReply(nl_msg* message, void* exchange) {
  (*static_cast<Exchange*>(exchange)->on_reply)(message);
  return NL_OK;
}

int TakeEnd(nl_msg*, void* exchange) {
  static_cast<Exchange*>(exchange)->is_done = true;
  return NL_STOP;
}

// What the kernel adds to an error code in words (NETLINK_EXT_ACK).
std::string RefusalText(nlmsgerr* answer) {
  nlmsghdr* header = reinterpret_cast<nlmsghdr*>(answer) - 1;
  if ((header->nlmsg_flags & NLM_F_ACK_TLVS) == 0) return "";
  int offset = sizeof(nlmsgerr);
  if ((header->nlmsg_flags & NLM_F_CAPPED) == 0) offset += answer->msg.nlmsg_len - NLMSG_HDRLEN;
  nlattr* text = nlmsg_find_attr(header, offset, NLMSGERR_ATTR_MSG);
  return text == nullptr ? ""
                         : std::string(nla_get_string(text), strnlen(nla_get_string(text), nla_len(text)));
}

}  // namespace

absl::StatusOr<NetlinkSocket> NetlinkSocket::Open() {
  NetlinkSocket opened;
  opened.socket_.reset(nl_socket_alloc());
  if (opened.socket_ == nullptr) return absl::ResourceExhaustedError("no memory for a netlink socket");
  const int result = nl_connect(opened.get(), NETLINK_ROUTE);
  if (result < 0) return absl::UnavailableError(absl::StrCat("netlink socket: ", nl_geterror(result)));
  nl_socket_modify_err_cb(opened.get(), NL_CB_CUSTOM, &NetlinkSocket::TakeRefusal, opened.refusal_.get());
  // Wished for only: errors keep their code without it.
  const int on = 1;
  setsockopt(nl_socket_get_fd(opened.get()), SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
  return opened;
}

int NetlinkSocket::TakeRefusal(sockaddr_nl*, nlmsgerr* answer, void* refusal) {
  *static_cast<Refusal*>(refusal) = {-answer->error, RefusalText(answer)};
  return -nl_syserr2nlerr(answer->error);
}

absl::Status NetlinkSocket::ToStatus(int result, absl::string_view what) const {
  const Refusal refusal = std::exchange(*refusal_, {});
  if (result >= 0) return absl::OkStatus();
  if (result == -NLE_DUMP_INTR) return absl::AbortedError(absl::StrCat(what, ": changed meanwhile"));
  if (refusal.error == 0) return absl::InternalError(absl::StrCat(what, ": ", nl_geterror(result)));
  const std::string text = refusal.text.empty() ? std::string(what) : absl::StrCat(what, ": ", refusal.text);
  return absl::ErrnoToStatus(refusal.error, text);
}

absl::Status NetlinkSocket::Request(NetlinkMessage message, absl::string_view what,
                                    const std::function<void(nl_msg*)>& on_reply) const {
  if (message == nullptr) return absl::ResourceExhaustedError("no memory for a netlink message");
  nl_cb* original = nl_socket_get_cb(get());
  std::unique_ptr<nl_cb, NetlinkFree<nl_cb_put>> callbacks(nl_cb_clone(original));
  nl_cb_put(original);
  if (callbacks == nullptr) return absl::ResourceExhaustedError("no memory for a netlink request");
  Exchange exchange{&on_reply};
  nl_cb_set(callbacks.get(), NL_CB_VALID, NL_CB_CUSTOM, TakeReply, &exchange);
  nl_cb_set(callbacks.get(), NL_CB_ACK, NL_CB_CUSTOM, TakeEnd, &exchange);
  nl_cb_set(callbacks.get(), NL_CB_FINISH, NL_CB_CUSTOM, TakeEnd, &exchange);
  int result = nl_send_auto(get(), message.get());
  while (result >= 0 && !exchange.is_done) result = nl_recvmsgs(get(), callbacks.get());
  return ToStatus(result, what);
}

absl::StatusOr<NetlinkLink> NetlinkSocket::FindLink(const std::string& ifname) const {
  rtnl_link* link = nullptr;
  const int result = rtnl_link_get_kernel(get(), 0, ifname.c_str(), &link);
  if (result == -NLE_NODEV || result == -NLE_OBJ_NOTFOUND)
    return absl::NotFoundError(absl::StrCat("interface ", ifname, " not found"));
  absl::Status status = ToStatus(result, absl::StrCat("interface ", ifname));
  if (!status.ok()) return status;
  return NetlinkLink(link);
}

namespace {

// A request about an nsid: the namespace by file, and the nsid that is asked for (kNsidNone: any).
NetlinkMessage NsidMessage(int type, int namespace_fd, bool is_assignment) {
  NetlinkMessage message(nlmsg_alloc_simple(type, 0));
  rtgenmsg header{AF_UNSPEC};
  if (message == nullptr || nlmsg_append(message.get(), &header, sizeof(header), NLMSG_ALIGNTO) < 0 ||
      nla_put_u32(message.get(), NETNSA_FD, namespace_fd) < 0 ||
      (is_assignment && nla_put_s32(message.get(), NETNSA_NSID, kNsidNone) < 0)) {
    return nullptr;
  }
  return message;
}

}  // namespace

absl::StatusOr<int32_t> FindNsid(const NetlinkSocket& socket, int namespace_fd) {
  int32_t nsid = kNsidNone;
  absl::Status status = socket.Request(NsidMessage(RTM_GETNSID, namespace_fd, false),
                                       "asking for the nsid of a network namespace", [&](nl_msg* reply) {
                                         nlattr* attribute =
                                             nlmsg_find_attr(nlmsg_hdr(reply), sizeof(rtgenmsg), NETNSA_NSID);
                                         if (attribute != nullptr) nsid = nla_get_s32(attribute);
                                       });
  if (!status.ok()) return status;
  return nsid;
}

absl::StatusOr<int32_t> EnsureNsid(const NetlinkSocket& socket, int namespace_fd) {
  absl::StatusOr<int32_t> nsid = FindNsid(socket, namespace_fd);
  if (!nsid.ok() || *nsid != kNsidNone) return nsid;
  absl::Status status = socket.Request(NsidMessage(RTM_NEWNSID, namespace_fd, true),
                                       "giving a network namespace an nsid", [](nl_msg*) {});
  // ALREADY_EXISTS: somebody else was faster.
  if (!status.ok() && !absl::IsAlreadyExists(status)) return status;
  nsid = FindNsid(socket, namespace_fd);
  if (nsid.ok() && *nsid == kNsidNone)
    return absl::InternalError("the kernel gave a network namespace no nsid");
  return nsid;
}

absl::StatusOr<uint32_t> ReadLinkFlags(const NetlinkSocket& socket, int32_t nsid, uint32_t ifindex) {
  NetlinkMessage message(nlmsg_alloc_simple(RTM_GETLINK, 0));
  ifinfomsg header{};
  header.ifi_index = static_cast<int>(ifindex);
  if (message == nullptr || nlmsg_append(message.get(), &header, sizeof(header), NLMSG_ALIGNTO) < 0 ||
      nla_put_u32(message.get(), IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS) < 0 ||
      (nsid != kNsidNone && nla_put_s32(message.get(), IFLA_TARGET_NETNSID, nsid) < 0)) {
    return absl::ResourceExhaustedError("no memory for a netlink message");
  }
  uint32_t flags = 0;
  absl::Status status = socket.Request(
      std::move(message), absl::StrCat("interface with index ", ifindex),
      [&](nl_msg* reply) { flags = static_cast<ifinfomsg*>(nlmsg_data(nlmsg_hdr(reply)))->ifi_flags; });
  if (!status.ok()) return status;
  return flags;
}

}  // namespace ringswitch::agent
