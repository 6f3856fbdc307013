#include "server/agent/offloads.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "dataplane/file.h"

namespace ringswitch::agent {
namespace {

// Packet sockets describe UDP super-frames from Linux 6.2 on (VIRTIO_NET_HDR_GSO_UDP_L4); before, reading one
// is an error. There is nothing to ask but the version.
bool CanDescribeUdpSegmentation() {
  utsname kernel{};
  unsigned major = 0;
  unsigned minor = 0;
  if (uname(&kernel) != 0 || sscanf(kernel.release, "%u.%u", &major, &minor) != 2) return false;
  return std::pair(major, minor) >= std::pair(6u, 2u);
}

bool IsDescribable(absl::string_view feature) {
  if (feature == "tx-checksum-sctp") return false;  // a checksum that is not the internet's
  if (!absl::StartsWith(feature, "tx-gso-") && !absl::EndsWith(feature, "-segmentation")) return true;
  if (feature == "tx-udp-segmentation") return CanDescribeUdpSegmentation();
  return feature == "tx-tcp-segmentation" || feature == "tx-tcp-ecn-segmentation" ||
         feature == "tx-tcp6-segmentation";
}

// The ethtool requests of one interface. Each is a header with a tail of varying size.
class Ethtool {
 public:
  explicit Ethtool(const std::string& ifname) : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    ifname.copy(request_.ifr_name, IFNAMSIZ - 1);
  }
  bool Do(void* command) {
    request_.ifr_data = static_cast<char*>(command);
    return ioctl(socket_.fd(), SIOCETHTOOL, &request_) >= 0;  // above 0: done, with remarks
  }

 private:
  const File socket_;
  ifreq request_{};
};

// A request structure followed by `count` elements of its flexible array, which begins at its end.
template <typename Header, typename Element>
struct Command {
  explicit Command(size_t count) : bytes(sizeof(Header) + count * sizeof(Element)) {}
  Header* header() { return reinterpret_cast<Header*>(bytes.data()); }
  Element* elements() { return reinterpret_cast<Element*>(bytes.data() + sizeof(Header)); }
  std::vector<uint8_t> bytes;
};

// Names of the features, by bit.
bool ReadFeatureNames(Ethtool* device, std::vector<std::string>* names) {
  Command<ethtool_sset_info, uint32_t> sets(1);
  sets.header()->cmd = ETHTOOL_GSSET_INFO;
  sets.header()->sset_mask = uint64_t{1} << ETH_SS_FEATURES;
  if (!device->Do(sets.bytes.data())) return false;
  const uint32_t count = sets.elements()[0];
  Command<ethtool_gstrings, char[ETH_GSTRING_LEN]> strings(count);
  strings.header()->cmd = ETHTOOL_GSTRINGS;
  strings.header()->string_set = ETH_SS_FEATURES;
  strings.header()->len = count;
  if (!device->Do(strings.bytes.data())) return false;
  for (uint32_t i = 0; i < count; ++i) {
    names->emplace_back(strings.elements()[i], strnlen(strings.elements()[i], ETH_GSTRING_LEN));
  }
  return true;
}

}  // namespace

absl::Status ClearIndescribableOffloads(const std::string& ifname) {
  const auto failed = [&] {
    return absl::ErrnoToStatus(errno, absl::StrCat("clearing segmentation offloads of ", ifname));
  };
  Ethtool device(ifname);
  std::vector<std::string> names;
  if (!ReadFeatureNames(&device, &names)) return failed();
  const size_t blocks = (names.size() + 31) / 32;
  Command<ethtool_gfeatures, ethtool_get_features_block> present(blocks);
  present.header()->cmd = ETHTOOL_GFEATURES;
  present.header()->size = static_cast<uint32_t>(blocks);
  if (!device.Do(present.bytes.data())) return failed();
  Command<ethtool_sfeatures, ethtool_set_features_block> wanted(blocks);
  wanted.header()->cmd = ETHTOOL_SFEATURES;
  wanted.header()->size = static_cast<uint32_t>(blocks);
  bool is_change = false;
  for (size_t bit = 0; bit < names.size(); ++bit) {
    const ethtool_get_features_block& block = present.elements()[bit / 32];
    const uint32_t mask = uint32_t{1} << bit % 32;
    // Not those that cannot be changed: the driver then never has them, or never says so.
    if ((block.available & ~block.never_changed & mask) == 0) continue;
    if (((block.active | block.requested) & mask) == 0 || IsDescribable(names[bit])) continue;
    wanted.elements()[bit / 32].valid |= mask;
    is_change = true;
  }
  if (is_change && !device.Do(wanted.bytes.data())) return failed();
  return absl::OkStatus();
}

}  // namespace ringswitch::agent
