// One port against the table: a million invented sources, and what the others notice of it.

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/bridge_testbed.h"

namespace ringswitch::bridge {
namespace {

constexpr uint32_t kSources = 1'000'000;
constexpr uint32_t kSourcesPerSecond = 100'000;

void SetAddress(MacAddress mac, size_t at, FrameBytes* frame) {
  const auto bytes = mac.Bytes();
  std::copy(bytes.begin(), bytes.end(), frame->begin() + static_cast<std::ptrdiff_t>(at));
}

// `attacker`: text of p3. A and B, on p1 and p2, talk all the time.
void ExpectTheirTalkIsUntouched(const char* attacker) {
  Testbed testbed({"access 1", "access 1", attacker, "access 1"});
  const FrameBytes a_to_b = MakeFrame(60, "020000000a02 020000000a01 88b5"), b_to_a = F2();
  FrameBytes invented = MakeFrame(60, "020000000a01 000000000000 88b5");
  testbed.Send(1, F1());
  testbed.Send(2, b_to_a);
  uint64_t random = 0x5eed;
  uint32_t strays = 0, talk = 0;
  for (uint32_t i = 0; i < kSources; ++i) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    // Locally administered, and not one of the stations.
    SetAddress(MacAddress((random >> 16 & 0xfcff'ffff'ffff) | 0x0600'0000'0000), 6, &invented);
    strays += testbed.Send(3, invented).outputs.size() == 1 ? 0 : 1;
    if (i % 100 == 0) {
      ++talk;
      strays += testbed.Send(1, a_to_b).frame_class == FrameClass::kUnicast ? 0 : 1;
      strays += testbed.Send(2, b_to_a).frame_class == FrameClass::kUnicast ? 0 : 1;
    }
    if (i % kSourcesPerSecond == 0) {
      testbed.Wait(1);
      testbed.Age();
    }
  }
  EXPECT_EQ(strays, 0u) << "frames between learned stations that went elsewhere, or nowhere";
  EXPECT_LE(testbed.fdb().CountOf(FdbKind::kDynamic), testbed.fdb().capacity());
  EXPECT_EQ(testbed.TotalsOf(4).queued_copies, 1u) << "the broadcast at the start";
  EXPECT_EQ(testbed.TotalsOf(1).not_learned_frames, 0u);
  EXPECT_EQ(testbed.TotalsOf(2).not_learned_frames, 0u);
  EXPECT_EQ(testbed.TotalsOf(3).not_learned_frames + testbed.fdb().DynamicCountOf(3), kSources);
  EXPECT_EQ(testbed.TotalsOf(2).queued_copies, talk + 1);
  testbed.ExpectLedgersHold();
}

TEST(MacFlood, FillsTheTableAndTouchesNobody) {
  ExpectTheirTalkIsUntouched("access 1");
}

TEST(MacFlood, AgainstAPortsLimitTakesNoMoreThanThat) {
  ExpectTheirTalkIsUntouched("access 1 limit 64");
}

}  // namespace
}  // namespace ringswitch::bridge
