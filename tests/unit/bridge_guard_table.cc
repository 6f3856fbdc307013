// Frame tables: from bytes in to bytes out, for the guards of a port.

#include <optional>
#include <string>

#include "dataplane/bridge/guard.h"
#include "tests/unit/bridge_guard_frames.h"
#include "tests/unit/bridge_testbed.h"

namespace ringswitch::bridge {
namespace {

// One row on a guarded port p1, with p2 to hear of it.
Row GuardRow(const char* name, const char* port, const std::string& frame,
             std::optional<DropReason> drop = std::nullopt) {
  Row row{.name = name, .ports = {port, "access 1"}, .input = {1, Exactly(frame)}, .drop = drop};
  if (drop) {
    row.fdb.emplace();  // nothing is learned from it
  } else {
    row.outputs = {{2, Exactly(frame)}};
  }
  return row;
}

constexpr auto kMacGuard = DropReason::kSourceMacGuard;
constexpr auto kAddressGuard = DropReason::kSourceAddressGuard;
constexpr auto kRaGuard = DropReason::kRouterAdvertisementGuard;
constexpr auto kDhcpGuard = DropReason::kDhcpServerGuard;

std::vector<Row> MacRows() {
  const char* port = "access 1 mac-guard mac 02:00:00:00:0a:01 mac 02:00:00:00:0a:09";
  return {
      GuardRow("I15 MAC guard: its own", port, Ethernet("88b5")),
      GuardRow("I15 MAC guard: its second", port, Ethernet("88b5", "020000000a09")),
      GuardRow("I15 MAC guard: another's", port, Ethernet("88b5", kOtherMac), kMacGuard),
      GuardRow("I15 MAC guard without any address: nobody", "access 1 mac-guard", Ethernet("88b5"),
               kMacGuard),
      GuardRow("L1 MAC guard before the VLAN", port, Ethernet("8100000a88b5", kOtherMac), kMacGuard),
  };
}

std::vector<Row> ArpAndIpv4Rows() {
  return {
      GuardRow("I15 address guard: its own IPv4", kPort, Ethernet(Ipv4(kIp, kTcp, ""))),
      GuardRow("I15 address guard: another's IPv4", kPort, Ethernet(Ipv4(kOtherIp, kTcp, "")), kAddressGuard),
      GuardRow("address guard: another's IPv4 behind a priority tag", kPort,
               Ethernet("8100a000" + Ipv4(kOtherIp, kTcp, "")), kAddressGuard),
      GuardRow("address guard: a frame that is no IP", kPort, Ethernet("88b5" + std::string(80, '0'))),
      GuardRow("address guard: DHCP client without address", kPort, Ethernet(Ipv4(kNoIp, kUdp, Udp(68, 67)))),
      GuardRow("address guard: no address, other ports", kPort, Ethernet(Ipv4(kNoIp, kUdp, Udp(68, 53))),
               kAddressGuard),
      GuardRow("address guard: no address, no UDP", kPort, Ethernet(Ipv4(kNoIp, kTcp, Udp(68, 67))),
               kAddressGuard),
      GuardRow("address guard: no address, a later fragment", kPort,
               Ethernet(Ipv4(kNoIp, kUdp, Udp(68, 67), "0001")), kAddressGuard),
      GuardRow("address guard: a later fragment of its own", kPort,
               Ethernet(Ipv4(kIp, kUdp, Udp(1, 2), "0001"))),
      GuardRow("P11 address guard: IPv4 header of another version", kPort,
               Ethernet("0800" + std::string("65") + std::string(38, '0')), kAddressGuard),
      GuardRow("P11 address guard: IPv4 header shorter than possible", kPort,
               Ethernet("080044" + std::string(22, '0') + kIp + kIp), kAddressGuard),
      GuardRow("P11 address guard: IPv4 cut off", kPort, Ethernet("08004500"), kAddressGuard),
      GuardRow("I15 address guard: ARP request of its own", kPort, Ethernet(Arp("0001", kMac, kIp))),
      GuardRow("I15 address guard: ARP reply of its own", kPort, Ethernet(Arp("0002", kMac, kIp))),
      GuardRow("I15 address guard: gratuitous ARP for another's address", kPort,
               Ethernet(Arp("0001", kMac, kOtherIp, kOtherIp)), kAddressGuard),
      GuardRow("I15 address guard: ARP reply for another's address", kPort,
               Ethernet(Arp("0002", kMac, kOtherIp)), kAddressGuard),
      GuardRow("I15 address guard: ARP with another's hardware address", kPort,
               Ethernet(Arp("0002", kOtherMac, kIp)), kAddressGuard),
      GuardRow("address guard: ARP probe", kPort, Ethernet(Arp("0001", kMac, kNoIp))),
      GuardRow("address guard: ARP reply from no address", kPort, Ethernet(Arp("0002", kMac, kNoIp)),
               kAddressGuard),
      GuardRow("address guard: ARP cut off", kPort, Ethernet("0806000108000604000102"), kAddressGuard),
      GuardRow("address guard: ARP for something else", kPort,
               Ethernet("0806000186dd0604000102" + std::string(80, '0')), kAddressGuard),
  };
}

std::vector<Row> Ipv6Rows() {
  return {
      GuardRow("I15 address guard: its own IPv6", kPort, Ethernet(Ipv6(kIp6, kTcp, ""))),
      GuardRow("I15 address guard: another's IPv6", kPort, Ethernet(Ipv6(kOtherIp6, kTcp, "")),
               kAddressGuard),
      GuardRow("address guard: the link-local address of its MAC", kPort,
               Ethernet(Ipv6(kLinkLocal, kTcp, ""))),
      GuardRow("address guard: the link-local address of another MAC", kPort,
               Ethernet(Ipv6(kOtherLinkLocal, kTcp, "")), kAddressGuard),
      GuardRow("address guard: no MAC listed, then the frame's own counts", "access 1 address-guard",
               Ethernet(Ipv6(kLinkLocal, kTcp, ""))),
      GuardRow("address guard: no address and not to find one", kPort,
               Ethernet(Ipv6(kNoIp6, kUdp, Udp(1, 2))), kAddressGuard),
      GuardRow("address guard: cut off IPv6", kPort, Ethernet("86dd60000000"), kAddressGuard),
      GuardRow("I15 address guard: it asks for a neighbour", kPort,
               Ethernet(Ipv6(kIp6, kIcmpv6, Neighbour(kSolicitation, kOtherIp6, "01", kMac)))),
      GuardRow("I15 address guard: it asks and says that it is another", kPort,
               Ethernet(Ipv6(kIp6, kIcmpv6, Neighbour(kSolicitation, kOtherIp6, "01", kOtherMac))),
               kAddressGuard),
      GuardRow("address guard: duplicate address detection of its own", kPort,
               Ethernet(Ipv6(kNoIp6, kIcmpv6, Neighbour(kSolicitation, kIp6)))),
      GuardRow("address guard: duplicate address detection of its link-local one", kPort,
               Ethernet(Ipv6(kNoIp6, kIcmpv6, Neighbour(kSolicitation, kLinkLocal)))),
      GuardRow("address guard: duplicate address detection of another's", kPort,
               Ethernet(Ipv6(kNoIp6, kIcmpv6, Neighbour(kSolicitation, kOtherIp6))), kAddressGuard),
      GuardRow("I15 address guard: it advertises itself", kPort,
               Ethernet(Ipv6(kIp6, kIcmpv6, Neighbour(kAdvertisement, kIp6, "02", kMac)))),
      GuardRow("I15 address guard: it advertises another's address", kPort,
               Ethernet(Ipv6(kIp6, kIcmpv6, Neighbour(kAdvertisement, kOtherIp6, "02", kMac))),
               kAddressGuard),
      GuardRow("I15 address guard: it advertises another's MAC", kPort,
               Ethernet(Ipv6(kIp6, kIcmpv6, Neighbour(kAdvertisement, kIp6, "02", kOtherMac))),
               kAddressGuard),
      GuardRow(
          "I15 address guard: another's address advertised behind extension headers", kPort,
          Ethernet(Ipv6(kIp6, kHopByHop,
                        Extension(kDestination) + Extension(kIcmpv6) + Neighbour(kAdvertisement, kOtherIp6))),
          kAddressGuard),
      GuardRow("address guard: neighbour discovery in fragments (RFC 6980)", kPort,
               Ethernet(Ipv6(kIp6, kFragment, Fragment(kIcmpv6, 0, true) + Neighbour(kAdvertisement, kIp6))),
               kAddressGuard),
      GuardRow("address guard: a neighbour discovery message without its target", kPort,
               Ethernet(Ipv6(kIp6, kIcmpv6, Icmpv6(kAdvertisement))), kAddressGuard),
      GuardRow("address guard: an option that ends behind the frame", kPort,
               Ethernet(Ipv6(kIp6, kIcmpv6, Neighbour(kAdvertisement, kIp6) + "0202" + kMac)), kAddressGuard),
      GuardRow("address guard: router solicitation from no address", kPort,
               Ethernet(Ipv6(kNoIp6, kIcmpv6, Icmpv6(kRouterSolicitation)))),
      GuardRow("address guard: router solicitation that says it is another", kPort,
               Ethernet(Ipv6(kIp6, kIcmpv6, Icmpv6(kRouterSolicitation) + "0101" + kOtherMac)),
               kAddressGuard),
      GuardRow("address guard: multicast report of duplicate address detection", kPort,
               Ethernet(Ipv6(kNoIp6, kHopByHop, Extension(kIcmpv6) + Icmpv6("8f")))),
      GuardRow("address guard: a later fragment from no address", kPort,
               Ethernet(Ipv6(kNoIp6, kFragment, Fragment(kIcmpv6, 9, false) + Icmpv6("8f"))), kAddressGuard),
      GuardRow("address guard: echo from no address", kPort, Ethernet(Ipv6(kNoIp6, kIcmpv6, Icmpv6("80"))),
               kAddressGuard),
  };
}

std::vector<Row> RouterRows() {
  const char* port = "access 1 ra-guard";
  const std::string ra = Icmpv6(kRouterAdvertisement);
  std::string many;
  for (uint32_t i = 0; i <= kExtensionHeadersMax; ++i) many += Extension(kDestination);
  return {
      GuardRow("router advertisement", port, Ethernet(Ipv6(kLinkLocal, kIcmpv6, ra)), kRaGuard),
      GuardRow("redirect", port, Ethernet(Ipv6(kLinkLocal, kIcmpv6, Icmpv6(kRedirect))), kRaGuard),
      GuardRow("router solicitation passes", port,
               Ethernet(Ipv6(kLinkLocal, kIcmpv6, Icmpv6(kRouterSolicitation)))),
      GuardRow("router advertisement behind a priority tag", port,
               Ethernet("81000000" + Ipv6(kLinkLocal, kIcmpv6, ra)), kRaGuard),
      GuardRow("router advertisement behind two priority tags", port,
               Ethernet("8100000081000000" + Ipv6(kLinkLocal, kIcmpv6, ra)), kRaGuard),
      GuardRow("router advertisement behind a priority service tag", port,
               Ethernet("88a80000" + Ipv6(kLinkLocal, kIcmpv6, ra)), kRaGuard),
      GuardRow("V10 router advertisement in an inner VLAN is payload", port,
               Ethernet("88a80005" + Ipv6(kLinkLocal, kIcmpv6, ra))),
      GuardRow("RFC 7113 behind extension headers", port,
               Ethernet(Ipv6(kLinkLocal, kHopByHop, Extension(kDestination) + Extension(kIcmpv6) + ra)),
               kRaGuard),
      GuardRow("RFC 7113 behind a routing header of two units", port,
               Ethernet(Ipv6(kLinkLocal, "2b", "3a01" + std::string(28, '0') + ra)), kRaGuard),
      GuardRow("RFC 7113 behind an authentication header", port,
               Ethernet(Ipv6(kLinkLocal, "33", "3a04" + std::string(44, '0') + ra)), kRaGuard),
      GuardRow("RFC 7113 in an atomic fragment", port,
               Ethernet(Ipv6(kLinkLocal, kFragment, Fragment(kIcmpv6, 0, false) + ra)), kRaGuard),
      GuardRow("RFC 7113 in an atomic fragment whose reserved byte looks like a length", port,
               Ethernet(Ipv6(kLinkLocal, kFragment,
                             std::string(kIcmpv6) + "01" + "0000" + "00000001" +
                                 Icmpv6(kRouterAdvertisement, std::string(64, '0')))),
               kRaGuard),
      GuardRow("RFC 7113 in a first fragment", port,
               Ethernet(Ipv6(kLinkLocal, kFragment, Fragment(kIcmpv6, 0, true) + ra)), kRaGuard),
      GuardRow("RFC 7113 a first fragment that hides the upper layer", port,
               Ethernet(Ipv6(kLinkLocal, kFragment, Fragment(kDestination, 0, true) + "3a02010400000000")),
               kRaGuard),
      GuardRow("RFC 7113 a first fragment that ends before the upper layer", port,
               Ethernet(Ipv6(kLinkLocal, kFragment, Fragment(kDestination, 0, true) + Extension(kIcmpv6))),
               kRaGuard),
      GuardRow("RFC 7113 a later fragment passes", port,
               Ethernet(Ipv6(kLinkLocal, kFragment, Fragment(kIcmpv6, 2, false) + ra))),
      GuardRow("RFC 7113 more extension headers than anybody needs", port,
               Ethernet(Ipv6(kLinkLocal, kDestination, many + Extension(kIcmpv6) + ra)), kRaGuard),
      GuardRow("an extension header that ends behind the frame", port,
               Ethernet(Ipv6(kLinkLocal, kDestination, "3aff010400000000")), kRaGuard),
      GuardRow("TCP behind an extension header passes", port,
               Ethernet(Ipv6(kIp6, kDestination, Extension(kTcp) + std::string(40, '0')))),
      GuardRow("an unknown upper layer passes", port, Ethernet(Ipv6(kIp6, "84", "8600000000000000"))),
      GuardRow("IPv4 is none of the router advertisement guard's business", port, Ethernet("080086")),
  };
}

// What stands before the upper layer, known and unknown (numbers as IANA gives them).
std::vector<Row> HeaderChainRows() {
  const char* port = "access 1 ra-guard";
  const std::string ra = Icmpv6(kRouterAdvertisement);
  const auto behind = [&ra](const char* source, const char* header) {
    return Ipv6(source, header, Extension(kIcmpv6) + ra);
  };
  std::string routed = behind(kLinkLocal, "fd");
  routed.replace(routed.find("fdff"), 4, "fd40");  // next header and hop limit
  std::vector<Row> rows = {
      GuardRow("RFC 7113 behind a mobility header", port, Ethernet(behind(kLinkLocal, "87")), kRaGuard),
      GuardRow("RFC 7113 behind a host identity header", port, Ethernet(behind(kLinkLocal, "8b")), kRaGuard),
      GuardRow("RFC 7113 behind a shim6 header", port, Ethernet(behind(kLinkLocal, "8c")), kRaGuard),
      GuardRow("RFC 7113 behind a header that nobody knows", port, Ethernet(behind(kLinkLocal, "fc")),
               kRaGuard),
      GuardRow("RFC 7113 behind an experimental header", port, Ethernet(behind(kLinkLocal, "fd")), kRaGuard),
      GuardRow("RFC 7113 behind a known and an unknown header", port,
               Ethernet(Ipv6(kLinkLocal, kDestination, Extension("c8") + Extension(kIcmpv6) + ra)), kRaGuard),
      GuardRow("RFC 7113 an unknown header in a first fragment", port,
               Ethernet(Ipv6(kLinkLocal, kFragment, Fragment("fe", 0, true) + ra)), kRaGuard),
      GuardRow("RFC 7113 an unknown header in a later fragment passes", port,
               Ethernet(Ipv6(kLinkLocal, kFragment, Fragment("fe", 2, false) + ra))),
      GuardRow("RFC 7113 an unknown header from no link-local address passes", port,
               Ethernet(behind(kIp6, "fd"))),
      GuardRow("RFC 7113 an unknown header that was routed passes", port, Ethernet(routed)),
      GuardRow("RFC 7113 a router advertisement is one whoever sends it", port,
               Ethernet(Ipv6(kIp6, kIcmpv6, ra)), kRaGuard),
      GuardRow("RFC 7610 behind a header that nobody knows", "access 1 dhcp-guard",
               Ethernet(Ipv6(kLinkLocal, "fc", Extension(kUdp) + Udp(547, 546))), kDhcpGuard),
      GuardRow("RFC 6980 address guard: behind a header that nobody knows", kPort,
               Ethernet(Ipv6(kIp6, "fc", Extension(kIcmpv6) + Neighbour(kAdvertisement, kOtherIp6))),
               kAddressGuard),
  };
  // IPv4, IPv6, DCCP, GRE, ESP, none, OSPF, VRRP, SCTP, UDP-Lite.
  for (const char* protocol : {"04", "29", "21", "2f", "32", "3b", "59", "70", "84", "88"}) {
    rows.push_back(GuardRow("RFC 7113 a protocol of the upper layer passes", port,
                            Ethernet(Ipv6(kLinkLocal, protocol, "86000000" + std::string(40, '0')))));
    rows.back().name += std::string(", 0x") + protocol;
  }
  return rows;
}

std::vector<Row> DhcpRows() {
  const char* port = "access 1 dhcp-guard";
  return {
      GuardRow("DHCP server's message", port, Ethernet(Ipv4(kIp, kUdp, Udp(67, 68))), kDhcpGuard),
      GuardRow("DHCP relay's message", port, Ethernet(Ipv4(kIp, kUdp, Udp(67, 67))), kDhcpGuard),
      GuardRow("DHCP client's message passes", port, Ethernet(Ipv4(kNoIp, kUdp, Udp(68, 67)))),
      GuardRow("DHCP server behind IPv4 options", port,
               Ethernet(Ipv4(kIp, kUdp, Udp(67, 68), "0000", "01010101")), kDhcpGuard),
      GuardRow("DHCP server's first fragment", port, Ethernet(Ipv4(kIp, kUdp, Udp(67, 68), "2000")),
               kDhcpGuard),
      GuardRow("a first fragment that hides the ports", port, Ethernet(Ipv4(kIp, kUdp, "0043", "2000")),
               kDhcpGuard),
      GuardRow("a later fragment passes", port, Ethernet(Ipv4(kIp, kUdp, Udp(67, 68), "0005"))),
      GuardRow("P11 IPv4 options that end behind the frame", port,
               Ethernet("08004f" + std::string(14, '0') + "11" + std::string(20, '0')), kDhcpGuard),
      GuardRow("TCP from port 67 passes", port, Ethernet(Ipv4(kIp, kTcp, Udp(67, 68)))),
      GuardRow("DHCPv6 server's message", port, Ethernet(Ipv6(kLinkLocal, kUdp, Udp(547, 546))), kDhcpGuard),
      GuardRow("DHCPv6 client's message passes", port, Ethernet(Ipv6(kLinkLocal, kUdp, Udp(546, 547)))),
      GuardRow("DHCPv6 server behind an extension header", port,
               Ethernet(Ipv6(kLinkLocal, kDestination, Extension(kUdp) + Udp(547, 546))), kDhcpGuard),
      GuardRow("DHCPv6: a first fragment that hides the ports", port,
               Ethernet(Ipv6(kLinkLocal, kFragment, Fragment(kUdp, 0, true))), kDhcpGuard),
      GuardRow("ARP is none of the DHCP guard's business", port, Ethernet("0806")),
  };
}

}  // namespace

const std::vector<Row>& GuardRows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (const auto& table :
         {MacRows(), ArpAndIpv4Rows(), Ipv6Rows(), RouterRows(), HeaderChainRows(), DhcpRows()}) {
      all.insert(all.end(), table.begin(), table.end());
    }
    // What leaves an access port has lost its outer tag.
    for (Row& row : all) {
      for (PortFrame& output : row.outputs) {
        if (LoadBe16(&output.frame[12]) == kTpid)
          output.frame.erase(output.frame.begin() + 12, output.frame.begin() + 16);
      }
    }
    return all;
  }();
  return rows;
}

}  // namespace ringswitch::bridge
