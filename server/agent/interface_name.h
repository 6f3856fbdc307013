#pragma once

// What may be the name of a network interface.

#include <algorithm>
#include <set>
#include <string>

namespace ringswitch::agent {

inline constexpr size_t kIfnameMax = 15;  // IFNAMSIZ - 1

// The kernel's rule (dev_valid_name, where 0xa0 is white space) without two kinds of names: those with '%',
// which it would replace by a number, and those of /proc/sys/net/ipv4/conf that stand for all interfaces.
inline bool IsInterfaceName(const std::string& name) {
  static const std::set<std::string> kReserved = {"", ".", "..", "all", "default"};
  return name.size() <= kIfnameMax && kReserved.count(name) == 0 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return c > ' ' && c != 0x7f && c != '/' && c != ':' && c != '%' && c != 0xa0;
         });
}

}  // namespace ringswitch::agent
