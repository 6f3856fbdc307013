#include "server/agent/host_stack.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/socket.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ringswitch::agent {
namespace {

// Before the chains of others, which then cannot take a frame on to somewhere else.
constexpr int32_t kPriority = -500;

NetlinkMessage MakeMessage(int type, int flags, uint8_t family, uint16_t resource) {
  NetlinkMessage message(nlmsg_alloc_simple(type, NLM_F_REQUEST | flags));
  nfgenmsg header{};
  header.nfgen_family = family;
  header.version = NFNETLINK_V0;
  header.res_id = htons(resource);
  if (message == nullptr || nlmsg_append(message.get(), &header, sizeof(header), NLMSG_ALIGNTO) < 0)
    return nullptr;
  return message;
}

NetlinkMessage MakeRule(nf_tables_msg_types type, int flags) {
  return MakeMessage(NFNL_SUBSYS_NFTABLES << 8 | type, flags | NLM_F_ACK, NFPROTO_NETDEV, 0);
}

// One change as a transaction of its own, so that there is one answer. nf_tables takes changes in batches
// only.
absl::Status Commit(const NetlinkSocket& socket, NetlinkMessage change, absl::string_view what) {
  std::vector<NetlinkMessage> batch;
  batch.push_back(MakeMessage(NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
  batch.push_back(std::move(change));
  batch.push_back(MakeMessage(NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
  return socket.RequestTogether(batch, what);
}

NetlinkMessage NewChain(const std::string& table, const std::string& ifname) {
  NetlinkMessage message = MakeRule(NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
  if (message == nullptr) return nullptr;
  nl_msg* m = message.get();
  if (nla_put_string(m, NFTA_CHAIN_TABLE, table.c_str()) < 0 ||
      nla_put_string(m, NFTA_CHAIN_NAME, ifname.c_str()) < 0 ||
      nla_put_string(m, NFTA_CHAIN_TYPE, "filter") < 0 ||
      nla_put_u32(m, NFTA_CHAIN_POLICY, htonl(NF_DROP)) < 0) {
    return nullptr;
  }
  nlattr* hook = nla_nest_start(m, NFTA_CHAIN_HOOK);
  if (hook == nullptr || nla_put_u32(m, NFTA_HOOK_HOOKNUM, htonl(NF_NETDEV_INGRESS)) < 0 ||
      nla_put_u32(m, NFTA_HOOK_PRIORITY, htonl(static_cast<uint32_t>(kPriority))) < 0 ||
      nla_put_string(m, NFTA_HOOK_DEV, ifname.c_str()) < 0 || nla_nest_end(m, hook) < 0) {
    return nullptr;
  }
  return message;
}

// The kernel's refusals say little (a kernel without netdev chains finds none, and says "no such file"); what
// helps is always the same.
absl::Status Refused(const absl::Status& status, const std::string& ifname) {
  if (absl::IsResourceExhausted(status)) return status;
  if (if_nametoindex(ifname.c_str()) == 0)
    return absl::NotFoundError(absl::StrCat("interface ", ifname, " not found"));
  return absl::FailedPreconditionError(
      absl::StrCat("keeping the host's stack from hearing ", ifname, ": ", status.message(),
                   "; it needs CAP_NET_ADMIN and nftables with netdev chains (modules nf_tables and "
                   "nfnetlink, Linux 5.12); or make the port with host_stack HOST_STACK_KEEP"));
}

}  // namespace

absl::Status HostStackGate::MakeTable() {
  if (socket_) return absl::OkStatus();
  absl::StatusOr<NetlinkSocket> opened = NetlinkSocket::Open(NETLINK_NETFILTER);
  if (!opened.ok()) return opened.status();
  // Messages of a batch are not numbered by libnl, so it cannot tell whether answers are.
  nl_socket_disable_seq_check(opened->get());
  // The port id is the kernel's name of the socket, unique in the namespace: two agents have two tables.
  std::string table = absl::StrCat("ringswitch-", nl_socket_get_local_port(opened->get()));
  NetlinkMessage message = MakeRule(NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
  if (message == nullptr || nla_put_string(message.get(), NFTA_TABLE_NAME, table.c_str()) < 0 ||
      nla_put_u32(message.get(), NFTA_TABLE_FLAGS, htonl(NFT_TABLE_F_OWNER)) < 0) {
    return NoNetlinkMemory();
  }
  absl::Status status = Commit(*opened, std::move(message), "nftables table");
  if (!status.ok()) return status;
  socket_ = *std::move(opened);
  table_ = std::move(table);
  return absl::OkStatus();
}

absl::Status HostStackGate::Shut(const std::string& ifname, uint32_t ifindex) {
  std::lock_guard<std::mutex> lock(mutex_);
  absl::Status status = MakeTable();
  if (!status.ok()) return Refused(status, ifname);
  // What became of the chain of a device that went depends on the kernel: gone with it (6.1), or there and
  // bound to the name (6.16).
  if (shut_.count(ifname) != 0) DeleteChain(ifname);
  status = Commit(*socket_, NewChain(table_, ifname), "nftables chain");
  if (!status.ok()) return Refused(status, ifname);
  shut_[ifname] = ifindex;
  return absl::OkStatus();
}

void HostStackGate::Open(const std::string& ifname, uint32_t ifindex) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = shut_.find(ifname);
  if (found == shut_.end() || (ifindex != 0 && found->second != ifindex)) return;
  DeleteChain(ifname);
}

// A chain that went with its device is not there: what was wanted.
void HostStackGate::DeleteChain(const std::string& ifname) {
  shut_.erase(ifname);
  NetlinkMessage message = MakeRule(NFT_MSG_DELCHAIN, 0);
  if (message == nullptr || nla_put_string(message.get(), NFTA_CHAIN_TABLE, table_.c_str()) < 0 ||
      nla_put_string(message.get(), NFTA_CHAIN_NAME, ifname.c_str()) < 0) {
    return;
  }
  Commit(*socket_, std::move(message), "nftables chain").IgnoreError();
}

}  // namespace ringswitch::agent
