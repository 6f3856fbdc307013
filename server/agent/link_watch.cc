#include "server/agent/link_watch.h"

#include <errno.h>
#include <linux/net_namespace.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/agent/namespace.h"
#include "server/agent/netdev.h"

namespace ringswitch::agent {
namespace {

using std::chrono::steady_clock;

// Half of the second within which a namespace's end must be reported.
constexpr std::chrono::milliseconds kSweepInterval(500);
// 1000 macvlans made at once were 4.9 MB of messages. Memory is used only while messages wait.
constexpr int kReceiveBufferSize = 8 << 20;
// A link message with its statistics and a few virtual functions; longer ones are cut, only the header is
// read.
constexpr size_t kMessageSize = 16384;

// What an epoll event is about; above these, the serial of the entry whose process ended.
enum : uint64_t { kTagWake, kTagDirectories, kTagLinks, kTagsEnd };

bool PollAdd(const File& poll, int fd, uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  return epoll_ctl(poll.fd(), EPOLL_CTL_ADD, fd, &event) == 0;
}

// The process of "/proc/PID/ns/net"; 0 where the path is of another form.
pid_t ProcessOf(absl::string_view path) {
  pid_t pid = 0;
  if (!absl::ConsumePrefix(&path, "/proc/") || !absl::ConsumeSuffix(&path, "/ns/net")) return 0;
  return absl::SimpleAtoi(path, &pid) && pid > 0 ? pid : 0;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The nsid that came with a message; kNsidNone: it is of the socket's own namespace.
int32_t NsidOf(msghdr* received) {
  for (cmsghdr* control = CMSG_FIRSTHDR(received); control != nullptr;
       control = CMSG_NXTHDR(received, control)) {
    if (control->cmsg_level != SOL_NETLINK || control->cmsg_type != NETLINK_LISTEN_ALL_NSID) continue;
    int32_t nsid = kNsidNone;
    std::memcpy(&nsid, CMSG_DATA(control), sizeof(nsid));
    return nsid;
  }
  return kNsidNone;
}

absl::Status AnotherNamespace(const std::string& path) {
  return absl::NotFoundError(absl::StrCat(path, " is another network namespace now"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinkWatch>> LinkWatch::Start(
    std::function<void(const LinkEvent&)> on_event,
    std::function<void(const std::string& ifname, uint32_t ifindex)> on_gone) {
  std::unique_ptr<LinkWatch> watch(new LinkWatch(std::move(on_event), std::move(on_gone)));
  absl::Status status = watch->Open();
  if (!status.ok()) return status;
  try {
    watch->thread_ = std::thread(&LinkWatch::Run, watch.get());
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("starting the link watch: ", error.what()));
  }
  return watch;
}

absl::Status LinkWatch::Open() {
  absl::Status status = OpenLinkSocket();
  if (!status.ok()) return status;
  absl::StatusOr<NetlinkSocket> query = NetlinkSocket::Open();
  if (!query.ok()) return query.status();
  query_socket_ = *std::move(query);
  NamespaceId own_id;
  absl::StatusOr<File> own = OpenNamespace("", &own_id);
  if (!own.ok()) return own.status();
  own_namespace_ = *std::move(own);
  own_nsid_ = FindNsid(*query_socket_, own_namespace_->fd()).value_or(kNsidNone);
  poll_ = File(epoll_create1(EPOLL_CLOEXEC));
  wake_ = File(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!poll_.is_open() || !wake_.is_open() || !PollAdd(poll_, wake_.fd(), kTagWake) ||
      !PollAdd(poll_, nl_socket_get_fd(link_socket_->get()), kTagLinks)) {
    return absl::ErrnoToStatus(errno, "link watch");
  }
  // The node's limit of inotify instances may be used up by others: sweeps do without.
  directories_ = File(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (directories_.is_open() && !PollAdd(poll_, directories_.fd(), kTagDirectories)) directories_.Close();
  return absl::OkStatus();
}

absl::Status LinkWatch::OpenLinkSocket() {
  absl::StatusOr<NetlinkSocket> opened = NetlinkSocket::Open();
  if (!opened.ok()) return opened.status();
  link_socket_ = *std::move(opened);
  const int fd = nl_socket_get_fd(link_socket_->get());
  const int on = 1;
  if (setsockopt(fd, SOL_NETLINK, NETLINK_LISTEN_ALL_NSID, &on, sizeof(on)) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "hearing link events of all namespaces (needs CAP_NET_BROADCAST): ", std::strerror(errno)));
  }
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBufferSize, sizeof(kReceiveBufferSize)) != 0) {
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kReceiveBufferSize, sizeof(kReceiveBufferSize));
  }
  const int result = nl_socket_add_memberships(link_socket_->get(), RTNLGRP_LINK, RTNLGRP_NSID, RTNLGRP_NONE);
  if (result < 0) return absl::UnavailableError("hearing link events: the netlink groups cannot be joined");
  return absl::OkStatus();
}

LinkWatch::~LinkWatch() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  if (!thread_.joinable()) return;
  Wake();
  thread_.join();
}

void LinkWatch::Wake() const {
  eventfd_write(wake_.fd(), 1);
}

// The nsid is given through a file that is closed again at once.
absl::Status LinkWatch::FindTapPlace(const DeviceRef& device, const PortLink& link, Place* place) {
  NamespaceId found;
  absl::StatusOr<File> file = OpenNamespace(device.link.netns, &found);
  if (!file.ok()) return file.status();
  if (!(found == link.netns_id)) return AnotherNamespace(device.link.netns);
  place->ifindex = link.ifindex;
  if (found == FindNamespace("")) return absl::OkStatus();
  absl::StatusOr<NetlinkSocket> socket = NetlinkSocket::Open();
  if (!socket.ok()) return socket.status();
  absl::StatusOr<int32_t> nsid = EnsureNsid(*socket, file->fd());
  if (!nsid.ok()) return nsid.status();
  place->nsid = *nsid;
  return absl::OkStatus();
}

absl::Status LinkWatch::Add(uint64_t watch_id, const DeviceRef& device, const PortLink* link) {
  Entry added;
  if (device.kind == DeviceRef::Kind::kTap) {
    if (link == nullptr) return absl::InvalidArgumentError("a TAP that is not there is not waited for");
    Place place;
    absl::Status status = FindTapPlace(device, *link, &place);
    if (!status.ok()) return status;
    added.place = place;
  } else {
    added.own_ifname = device.own_ifname();
    added.is_netdev = device.kind == DeviceRef::Kind::kNetdev;
    if (link != nullptr) {
      added.place = Place{kNsidNone, link->ifindex};
      added.mac = link->mac;
      added.mtu = link->mtu;
    }
    added.is_up = link != nullptr && link->is_up;
  }
  if (device.kind != DeviceRef::Kind::kNetdev) {
    added.netns = device.link.netns;
    // Without a link, whatever is there now is meant; if nothing is, the first sweep says so.
    added.netns_id = link != nullptr ? link->netns_id : FindNamespace(added.netns).value_or(NamespaceId{});
    if (link != nullptr && FindNamespace(added.netns) != link->netns_id) return AnotherNamespace(added.netns);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (entries_.count(watch_id) != 0) {
    return absl::AlreadyExistsError(absl::StrCat("watch ", watch_id, " exists"));
  }
  added.serial = ++serial_last_ + kTagsEnd;
  AddHints(&(entries_[watch_id] = std::move(added)));
  Wake();  // to sweep from now on, and to ask what the interface is like
  return absl::OkStatus();
}

void LinkWatch::AddHints(Entry* entry) {
  if (entry->netns.empty()) return;
  const pid_t pid = ProcessOf(entry->netns);
  if (pid != 0) {
    // glibc 2.36 declares pidfd_open without C linkage.
    entry->process = File(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (entry->process.is_open() && !PollAdd(poll_, entry->process.fd(), entry->serial))
      entry->process.Close();
  } else if (directories_.is_open()) {
    constexpr uint32_t kEvents = IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
    entry->directory = inotify_add_watch(directories_.fd(), DirectoryOf(entry->netns).c_str(), kEvents);
  }
}

void LinkWatch::RemoveHints(Entry* entry) {
  entry->process.Close();
  const int directory = std::exchange(entry->directory, -1);
  const bool is_shared = std::any_of(
      entries_.begin(), entries_.end(),
      [directory](const Entries::value_type& other) { return other.second.directory == directory; });
  if (directory >= 0 && !is_shared) inotify_rm_watch(directories_.fd(), directory);
}

void LinkWatch::Remove(uint64_t watch_id) {
  std::unique_lock<std::mutex> lock(mutex_);
  auto found = entries_.find(watch_id);
  if (found != entries_.end()) {
    RemoveHints(&found->second);
    entries_.erase(found);
  }
  if (std::this_thread::get_id() == thread_.get_id()) return;
  delivered_.wait(lock, [&] { return delivering_ != watch_id; });
}

void LinkWatch::Run() {
  steady_clock::time_point sweep_at = steady_clock::now();
  while (true) {
    bool is_swept = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (is_stopping_) return;
      for (const auto& [watch_id, entry] : entries_) is_swept |= entry.IsSwept();
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(sweep_at - steady_clock::now());
    const int timeout_ms = is_swept ? std::max(static_cast<int>(wait.count()), 0) : -1;
    epoll_event events[16];
    const int count = epoll_wait(poll_.fd(), events, std::size(events), timeout_ms);
    bool is_link_event = false;
    bool is_hint = false;
    for (int i = 0; i < count; ++i) {
      const uint64_t tag = events[i].data.u64;
      eventfd_t ignored;
      if (tag == kTagWake) eventfd_read(wake_.fd(), &ignored);
      if (tag == kTagDirectories) ReadDirectories();
      if (tag >= kTagsEnd) DropProcess(tag);
      (tag == kTagLinks ? is_link_event : is_hint) = true;
    }
    // Link messages are frequent while pods start, say nothing about paths, and must not put off a sweep.
    if (is_hint || steady_clock::now() >= sweep_at) {
      Sweep();
      sweep_at = steady_clock::now() + kSweepInterval;
    }
    if (is_link_event) ReadLinkSocket();
    Deliver();  // what is known does not wait for RTNL
    ReadUnreadLinks();
    Deliver();
  }
}

void LinkWatch::Sweep() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [watch_id, entry] : entries_) {
    if (!entry.IsSwept()) continue;
    const std::optional<NamespaceId> now = FindNamespace(entry.netns);
    // Only these errors are about the path; others, such as no memory, say nothing.
    if (!now && errno != ENOENT && errno != ENOTDIR && errno != ESRCH && errno != EINVAL) continue;
    if (now == entry.netns_id) continue;
    entry.is_namespace_gone = true;
    entry.place.reset();
    RemoveHints(&entry);
    pending_.push_back({entry.serial, {watch_id, LinkEventKind::kNamespaceGone}});
  }
}

// What happened is for the sweep to find out.
void LinkWatch::ReadDirectories() {
  alignas(inotify_event) char buffer[4096];
  while (read(directories_.fd(), buffer, sizeof(buffer)) > 0) {
  }
}

// A pidfd stays readable once its process has ended.
void LinkWatch::DropProcess(uint64_t serial) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [watch_id, entry] : entries_) {
    if (entry.serial == serial) entry.process.Close();
  }
}

void LinkWatch::ReadLinkSocket() {
  alignas(nlmsghdr) char buffer[kMessageSize];
  alignas(cmsghdr) char control[128];
  bool is_overrun = false;
  while (true) {
    sockaddr_nl from{};
    iovec data{buffer, sizeof(buffer)};
    msghdr received{};
    received.msg_name = &from;
    received.msg_namelen = sizeof(from);
    received.msg_iov = &data;
    received.msg_iovlen = 1;
    received.msg_control = control;
    received.msg_controllen = sizeof(control);
    const ssize_t size = recvmsg(nl_socket_get_fd(link_socket_->get()), &received, MSG_DONTWAIT);
    if (size < 0 && errno == ENOBUFS) is_overrun = true;
    if (size < 0 && errno != ENOBUFS && errno != EINTR) break;
    if (size < static_cast<ssize_t>(NLMSG_HDRLEN) || from.nl_pid != 0) continue;
    // The kernel sends one event a message, so the first header is the only one, and a cut tail does not
    // matter.
    auto* message = reinterpret_cast<nlmsghdr*>(buffer);
    if (static_cast<size_t>(size) < std::min<size_t>(message->nlmsg_len, sizeof(buffer))) continue;
    message->nlmsg_len = std::min<uint32_t>(message->nlmsg_len, sizeof(buffer));
    TakeMessage(NsidOf(&received), message);
  }
  if (!is_overrun) return;
  // What waited has been taken, so whatever was lost is older than the answers to the questions now asked.
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [watch_id, entry] : entries_) entry.is_read = false;
}

void LinkWatch::TakeMessage(int32_t nsid, const nlmsghdr* message) {
  if (nsid == own_nsid_) nsid = kNsidNone;
  const int type = message->nlmsg_type;
  if (type == RTM_NEWNSID && nsid == kNsidNone) {
    own_nsid_ = FindNsid(*query_socket_, own_namespace_->fd()).value_or(kNsidNone);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (type == RTM_DELNSID && nsid == kNsidNone) {
    // The namespace is no more, and its nsid may be another's next.
    nlattr* attribute = nlmsg_find_attr(const_cast<nlmsghdr*>(message), sizeof(rtgenmsg), NETNSA_NSID);
    const int32_t deleted = attribute == nullptr ? kNsidNone : nla_get_s32(attribute);
    if (deleted == kNsidNone) return;
    for (auto& [watch_id, entry] : entries_) {
      if (entry.place && entry.place->nsid == deleted) entry.place.reset();
    }
  }
  if ((type != RTM_NEWLINK && type != RTM_DELLINK) || message->nlmsg_len < NLMSG_LENGTH(sizeof(ifinfomsg)))
    return;
  // A bridge that lets go of a port says so in link messages of its own family.
  if (static_cast<const ifinfomsg*>(NLMSG_DATA(message))->ifi_family != AF_UNSPEC) return;
  const LinkState link = LinkStateOf(message);
  const bool is_deleted = type == RTM_DELLINK;
  const Place place{nsid, link.ifindex};
  for (auto& [watch_id, entry] : entries_) {
    if (!entry.own_ifname.empty()) {
      if (nsid == kNsidNone) TakeNamedLink(&entry, watch_id, link, is_deleted);
    } else if (entry.place == place) {
      is_deleted ? SetGone(&entry, watch_id) : SetUp(&entry, watch_id, (link.flags & IFF_UP) != 0);
    }
  }
}

void LinkWatch::TakeNamedLink(Entry* entry, uint64_t watch_id, const LinkState& link, bool is_deleted) {
  if (!is_deleted && link.ifname == entry->own_ifname) {
    SetNamedLink(entry, watch_id, link);
  } else if (entry->place && entry->place->ifindex == link.ifindex) {
    SetGone(entry, watch_id);
  }
}

void LinkWatch::SetNamedLink(Entry* entry, uint64_t watch_id, const LinkState& link) {
  if (entry->is_namespace_gone) return;
  const Place place{kNsidNone, link.ifindex};
  if (entry->place && *entry->place != place) SetGone(entry, watch_id);
  if (!entry->place) {
    entry->place = place;
    entry->is_up = false;
    // Who attaches to it asks for these, and later than now.
    entry->mac = link.mac;
    entry->mtu = link.mtu;
    pending_.push_back({entry->serial, {watch_id, LinkEventKind::kLinkBack}});
  }
  if (entry->is_netdev) SetAttributes(entry, watch_id, link);
  SetUp(entry, watch_id, IsOperational(link.flags));
}

void LinkWatch::SetAttributes(Entry* entry, uint64_t watch_id, const LinkState& link) {
  if (entry->mac == link.mac && entry->mtu == link.mtu) return;
  entry->mac = link.mac;
  entry->mtu = link.mtu;
  pending_.push_back({entry->serial, {watch_id, LinkEventKind::kLinkChanged, link.mac, link.mtu}});
}

void LinkWatch::SetUp(Entry* entry, uint64_t watch_id, bool is_up) {
  if (std::exchange(entry->is_up, is_up) == is_up) return;
  pending_.push_back({entry->serial, {watch_id, is_up ? LinkEventKind::kLinkUp : LinkEventKind::kLinkDown}});
}

void LinkWatch::SetGone(Entry* entry, uint64_t watch_id) {
  pending_.push_back(
      {entry->serial, {watch_id, LinkEventKind::kLinkGone}, entry->own_ifname, entry->place->ifindex});
  entry->place.reset();
}

// Each question waits for RTNL in the kernel, so it is asked without the mutex.
void LinkWatch::ReadUnreadLinks() {
  struct Unread {
    uint64_t watch_id;
    uint64_t serial;
    std::string own_ifname;
    Place place;
  };
  std::vector<Unread> unread;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [watch_id, entry] : entries_) {
      if (std::exchange(entry.is_read, true) || (!entry.place && entry.own_ifname.empty())) continue;
      unread.push_back({watch_id, entry.serial, entry.own_ifname, entry.place.value_or(Place{})});
    }
  }
  for (const Unread& link : unread) {
    const absl::StatusOr<LinkState> state =
        link.own_ifname.empty() ? ReadLink(*query_socket_, link.place.nsid, link.place.ifindex)
                                : ReadLink(*query_socket_, link.own_ifname);
    // Others: the namespace died, which is the sweep's affair.
    if (!state.ok() && !absl::IsNotFound(state.status())) continue;
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = entries_.find(link.watch_id);
    if (found == entries_.end() || found->second.serial != link.serial) continue;
    Entry& entry = found->second;
    if (!state.ok()) {
      if (entry.place) SetGone(&entry, link.watch_id);
    } else if (!entry.own_ifname.empty()) {
      SetNamedLink(&entry, link.watch_id, *state);
    } else if (entry.place) {
      SetUp(&entry, link.watch_id, (state->flags & IFF_UP) != 0);
    }
  }
}

void LinkWatch::Deliver() {
  for (const Pending& pending : std::exchange(pending_, {})) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto found = entries_.find(pending.event.watch_id);
      if (found == entries_.end() || found->second.serial != pending.serial) continue;
      delivering_ = pending.event.watch_id;
    }
    if (!pending.gone_ifname.empty()) on_gone_(pending.gone_ifname, pending.gone_ifindex);
    on_event_(pending.event);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      delivering_.reset();
    }
    delivered_.notify_all();
  }
}

}  // namespace ringswitch::agent
