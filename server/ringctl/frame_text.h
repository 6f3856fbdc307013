// Frames as people read them.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace ringswitch::ringctl {

// "02:00:00:00:0a:01 > ff:ff:ff:ff:ff:ff vlan 10 pcp 5 ARP": addresses, tags and EtherType, as far as the
// frame's first bytes tell.
std::string DescribeFrame(absl::string_view bytes);

}  // namespace ringswitch::ringctl
