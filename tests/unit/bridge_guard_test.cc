// Frame tables: from bytes in to bytes out, for the guards of a port; and frames cut off everywhere.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>

#include "dataplane/bridge/guard.h"
#include "tests/unit/bridge_testbed.h"

namespace ringswitch::bridge {
namespace {

// --- frames, as text ---

constexpr const char* kPort = "access 1 address-guard mac 02:00:00:00:0a:01 ip 10.0.0.1 ip 2001:db8::1";
constexpr const char* kMac = "020000000a01";
constexpr const char* kOtherMac = "020000000a02";
constexpr const char *kIp = "0a000001", *kOtherIp = "0a000002", *kNoIp = "00000000";
constexpr const char* kIp6 = "20010db8000000000000000000000001";
constexpr const char* kOtherIp6 = "20010db8000000000000000000000002";
constexpr const char* kLinkLocal = "fe80000000000000000000fffe000a01";       // of kMac
constexpr const char* kOtherLinkLocal = "fe80000000000000000000fffe000a02";  // of kOtherMac
constexpr const char* kNoIp6 = "00000000000000000000000000000000";

std::string Hex(size_t value, int digits) {
  std::string text;
  for (int i = digits - 1; i >= 0; --i) text += "0123456789abcdef"[value >> (4 * i) & 0xf];
  return text;
}
size_t BytesOf(const std::string& hex) {
  return hex.size() / 2;
}
FrameBytes Exactly(const std::string& hex) {
  return MakeFrame(BytesOf(hex), hex);
}

std::string Ethernet(const std::string& type_and_payload, const char* source = kMac) {
  return std::string("ffffffffffff") + source + type_and_payload;
}
std::string Arp(const char* operation, const std::string& hardware, const std::string& address,
                const std::string& target = "0a000002") {
  return std::string("0806") + "0001" + "0800" + "0604" + operation + hardware + address + "000000000000" +
         target;
}
std::string Ipv4(const std::string& source, const std::string& protocol, const std::string& payload,
                 const std::string& fragment = "0000", const std::string& options = "") {
  const size_t header = 20 + BytesOf(options);
  return "0800" + std::string("4") + Hex(header / 4, 1) + "00" + Hex(header + BytesOf(payload), 4) + "0001" +
         fragment + "40" + protocol + "0000" + source + "0a0000fe" + options + payload;
}
std::string Udp(size_t from, size_t to) {
  return Hex(from, 4) + Hex(to, 4) + "0008" + "0000";
}
std::string Ipv6(const std::string& source, const std::string& next, const std::string& payload) {
  return "86dd" + std::string("60000000") + Hex(BytesOf(payload), 4) + next + "ff" + source +
         "ff020000000000000000000000000001" + payload;
}
std::string Icmpv6(const std::string& type, const std::string& body = "00000000") {
  return type + "00" + "0000" + body;
}
// `option`: a link-layer address, "01" source or "02" target.
std::string Neighbour(const std::string& type, const std::string& target, const std::string& option = "",
                      const std::string& mac = "") {
  return Icmpv6(type, "00000000" + target + (option.empty() ? "" : option + "01" + mac));
}
// An extension header of eight bytes.
std::string Extension(const std::string& next) {
  return next + "00" + "010400000000";
}
std::string Fragment(const std::string& next, size_t offset, bool more) {
  return next + "00" + Hex(offset << 3 | (more ? 1 : 0), 4) + "00000001";
}

constexpr const char *kUdp = "11", *kTcp = "06", *kIcmpv6 = "3a", *kHopByHop = "00", *kDestination = "3c",
                     *kFragment = "2c";
constexpr const char *kSolicitation = "87", *kAdvertisement = "88", *kRouterSolicitation = "85",
                     *kRouterAdvertisement = "86", *kRedirect = "89";

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
    for (const auto& table : {MacRows(), ArpAndIpv4Rows(), Ipv6Rows(), RouterRows(), DhcpRows()}) {
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

namespace {

class GuardTable : public testing::TestWithParam<Row> {};
TEST_P(GuardTable, Row) {
  ExpectRow(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Bridge, GuardTable, testing::ValuesIn(GuardRows()));

TEST(Guard, LinkLocalAddressIsMadeOfTheMac) {
  const Ipv6Address expected = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x00, 0x00, 0xff, 0xfe, 0x00, 0x0a, 0x01};
  EXPECT_EQ(LinkLocalOf(MacAddress(0x0200'0000'0a01)), expected);
}

// Each frame of the tables at every length that still has a header, in a buffer of exactly that length: for
// AddressSanitizer. A frame that was dropped for what it says is never let in for being cut off inside it.
TEST(Guard, NeverReadsPastTheEnd) {
  constexpr uint32_t kAll = kGuardFeatures & ~kSourceMacGuard;
  SourceGuard guard;
  guard.macs = {MacAddress(0x0200'0000'0a01)};
  for (const Row& row : GuardRows()) {
    const FrameBytes& frame = row.input.frame;
    for (size_t length = kHeaderLength; length <= frame.size(); ++length) {
      const std::unique_ptr<uint8_t[]> bytes(new uint8_t[length]);
      std::copy_n(frame.begin(), length, bytes.get());
      for (const uint32_t features : {uint32_t{kSourceAddressGuard}, uint32_t{kRouterAdvertisementGuard},
                                      uint32_t{kDhcpServerGuard}, kAll}) {
        CheckGuards(features, guard, MacAddress::FromBytes(bytes.get() + 6), {bytes.get(), length});
      }
    }
  }
}

TEST(Guard, CutOffIsNoWayIn) {
  struct Case {
    uint32_t feature;
    std::string frame;
  };
  const std::vector<Case> cases = {
      {kSourceAddressGuard, Ethernet(Arp("0002", kMac, kOtherIp))},
      {kSourceAddressGuard, Ethernet(Ipv4(kOtherIp, kTcp, ""))},
      {kSourceAddressGuard, Ethernet(Ipv6(kIp6, kIcmpv6, Neighbour(kAdvertisement, kOtherIp6)))},
      {kRouterAdvertisementGuard, Ethernet(Ipv6(kLinkLocal, kIcmpv6, "86"))},
      {kRouterAdvertisementGuard,
       Ethernet(Ipv6(kLinkLocal, kHopByHop, Extension(kDestination) + Extension(kIcmpv6) + "86"))},
      {kDhcpServerGuard, Ethernet(Ipv4(kIp, kUdp, Udp(67, 68)))},
      {kDhcpServerGuard, Ethernet(Ipv6(kLinkLocal, kUdp, Udp(547, 546)))},
  };
  SourceGuard guard;
  guard.macs = {MacAddress(0x0200'0000'0a01)};
  guard.ipv6 = {{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  for (const Case& test : cases) {
    const FrameBytes frame = Exactly(test.frame);
    for (size_t length = kHeaderLength; length <= frame.size(); ++length) {
      EXPECT_TRUE(CheckGuards(test.feature, guard, MacAddress(0x0200'0000'0a01), {frame.data(), length}))
          << test.frame << " cut to " << length;
    }
  }
}

}  // namespace
}  // namespace ringswitch::bridge
