// What the guards' tables do not say: frames cut off everywhere.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "dataplane/bridge/guard.h"
#include "tests/unit/bridge_guard_frames.h"
#include "tests/unit/bridge_testbed.h"

namespace ringswitch::bridge {
namespace {

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
