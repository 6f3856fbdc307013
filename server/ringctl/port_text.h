// A port's values as words for people.
#pragma once

#include <cstdint>
#include <string>

#include "ringswitch/v1/port.pb.h"

namespace ringswitch::ringctl {

// "access:10", "trunk:10,20,100-199/native:1"; without white space, so that scripts can cut columns.
std::string VlansCell(const v1::Port& port);

// "tap:h1:eth0", "veth:h1:eth0", "netdev:eth1"; the usual folder of named namespaces is left out.
std::string DeviceCell(const v1::Port& port);

// "default/web-0", empty where the port belongs to no pod.
std::string PodCell(const v1::Port& port);

// Why the port does not forward, and for how long it is there if nobody confirms it.
std::string DetailCell(const v1::Port& port);

// Frames and copies dropped, all reasons together.
std::uint64_t DropsTotal(const v1::Port& port);

// The port line by line: of its attributes those that are not as usual, and all counters.
std::string DescribePort(const v1::Port& port);

}  // namespace ringswitch::ringctl
