#include "server/agent/netlink.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <netlink/addr.h>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <string.h>
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

absl::Status NoNetlinkMemory() {
  return absl::ResourceExhaustedError("no memory for a netlink object");
}

absl::StatusOr<NetlinkSocket> NetlinkSocket::Open(int protocol) {
  NetlinkSocket opened;
  opened.socket_.reset(nl_socket_alloc());
  if (opened.socket_ == nullptr) return absl::ResourceExhaustedError("no memory for a netlink socket");
  const int result = nl_connect(opened.get(), protocol);
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
  if (message == nullptr) return NoNetlinkMemory();
  return Receive(nl_send_auto(get(), message.get()), what, on_reply);
}

absl::Status NetlinkSocket::RequestTogether(const std::vector<NetlinkMessage>& messages,
                                            absl::string_view what) const {
  std::vector<uint8_t> datagram;
  for (const NetlinkMessage& message : messages) {
    if (message == nullptr) return NoNetlinkMemory();
    const auto* bytes = reinterpret_cast<const uint8_t*>(nlmsg_hdr(message.get()));
    datagram.insert(datagram.end(), bytes, bytes + nlmsg_hdr(message.get())->nlmsg_len);
    datagram.resize(NLMSG_ALIGN(datagram.size()));
  }
  return Receive(nl_sendto(get(), datagram.data(), datagram.size()), what, [](nl_msg*) {});
}

absl::Status NetlinkSocket::Receive(int result, absl::string_view what,
                                    const std::function<void(nl_msg*)>& on_reply) const {
  nl_cb* original = nl_socket_get_cb(get());
  std::unique_ptr<nl_cb, NetlinkFree<nl_cb_put>> callbacks(nl_cb_clone(original));
  nl_cb_put(original);
  if (callbacks == nullptr) return NoNetlinkMemory();
  Exchange exchange{&on_reply};
  nl_cb_set(callbacks.get(), NL_CB_VALID, NL_CB_CUSTOM, TakeReply, &exchange);
  nl_cb_set(callbacks.get(), NL_CB_ACK, NL_CB_CUSTOM, TakeEnd, &exchange);
  nl_cb_set(callbacks.get(), NL_CB_FINISH, NL_CB_CUSTOM, TakeEnd, &exchange);
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

absl::Status NetlinkSocket::ChangeLink(uint32_t ifindex, rtnl_link* change, absl::string_view what) const {
  NetlinkLink link(rtnl_link_alloc());
  if (link == nullptr || change == nullptr) return NoNetlinkMemory();
  rtnl_link_set_ifindex(link.get(), static_cast<int>(ifindex));
  return ToStatus(rtnl_link_change(get(), link.get(), change, 0), what);
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

LinkState LinkStateOf(const nlmsghdr* message) {
  const auto* header = static_cast<const ifinfomsg*>(nlmsg_data(message));
  LinkState state;
  state.ifindex = static_cast<uint32_t>(header->ifi_index);
  state.flags = header->ifi_flags;
  auto find = [message](int attribute) {
    return nlmsg_find_attr(const_cast<nlmsghdr*>(message), sizeof(ifinfomsg), attribute);
  };
  const nlattr* name = find(IFLA_IFNAME);
  const nlattr* address = find(IFLA_ADDRESS);
  const nlattr* mtu = find(IFLA_MTU);
  if (address != nullptr && nla_len(address) == 6)
    state.mac = bridge::MacAddress::FromBytes(static_cast<const uint8_t*>(nla_data(address)));
  if (mtu != nullptr && nla_len(mtu) == sizeof(state.mtu)) state.mtu = nla_get_u32(mtu);
  if (name != nullptr)
    state.ifname.assign(nla_get_string(name), strnlen(nla_get_string(name), nla_len(name)));
  return state;
}

bridge::MacAddress MacOf(rtnl_link* link) {
  nl_addr* address = rtnl_link_get_addr(link);
  if (address == nullptr || nl_addr_get_len(address) != 6) return {};
  return bridge::MacAddress::FromBytes(static_cast<const uint8_t*>(nl_addr_get_binary_addr(address)));
}

namespace {

// By index, or where that is 0 by name.
absl::StatusOr<LinkState> AskForLink(const NetlinkSocket& socket, int32_t nsid, uint32_t ifindex,
                                     const std::string& ifname, absl::string_view what) {
  NetlinkMessage message(nlmsg_alloc_simple(RTM_GETLINK, 0));
  ifinfomsg header{};
  header.ifi_index = static_cast<int>(ifindex);
  if (message == nullptr || nlmsg_append(message.get(), &header, sizeof(header), NLMSG_ALIGNTO) < 0 ||
      nla_put_u32(message.get(), IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS) < 0 ||
      (nsid != kNsidNone && nla_put_s32(message.get(), IFLA_TARGET_NETNSID, nsid) < 0) ||
      (ifindex == 0 && nla_put_string(message.get(), IFLA_IFNAME, ifname.c_str()) < 0)) {
    return NoNetlinkMemory();
  }
  LinkState state;
  absl::Status status =
      socket.Request(std::move(message), what, [&](nl_msg* reply) { state = LinkStateOf(nlmsg_hdr(reply)); });
  if (!status.ok()) return status;
  return state;
}

}  // namespace

absl::StatusOr<LinkState> ReadLink(const NetlinkSocket& socket, int32_t nsid, uint32_t ifindex) {
  return AskForLink(socket, nsid, ifindex, "", absl::StrCat("interface with index ", ifindex));
}

absl::StatusOr<LinkState> ReadLink(const NetlinkSocket& socket, const std::string& ifname) {
  const std::string what = absl::StrCat("interface ", ifname);
  absl::StatusOr<LinkState> state = AskForLink(socket, kNsidNone, 0, ifname, what);
  if (state.ok() && state->ifname != ifname) return absl::NotFoundError(absl::StrCat(what, " not found"));
  return state;
}

}  // namespace ringswitch::agent
