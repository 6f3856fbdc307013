// The rings of a capture: what is recorded comes out as it went in, in order, and what does not fit is
// counted. The last test has a thread per worker and is what ThreadSanitizer looks at.

#include "dataplane/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <random>
#include <thread>

namespace ringswitch {
namespace {

using bridge::DropReason;
using bridge::PortIndex;
using testing::ElementsAre;

constexpr uint32_t kSmallRing = 4096;
constexpr uint32_t kRecordOverhead = 24;  // of the header before the bytes

CaptureOptions AllPorts() {
  CaptureOptions options;
  options.ports.set();
  return options;
}

std::vector<uint8_t> Frame(uint32_t length, uint8_t first = 0) {
  std::vector<uint8_t> frame(length);
  std::iota(frame.begin(), frame.end(), first);
  return frame;
}

void Record(Capture* capture, const std::vector<uint8_t>& frame, PortIndex port = 1, uint32_t worker = 0,
            uint64_t time_ns = 1, CaptureDirection direction = CaptureDirection::kReceive,
            std::optional<DropReason> dropped = std::nullopt) {
  capture->Record(worker, time_ns, port, direction, dropped, frame.data(),
                  static_cast<uint32_t>(frame.size()));
}

std::vector<CapturedFrame> TakeAll(Capture* capture) {
  std::vector<CapturedFrame> frames;
  capture->Take(SIZE_MAX, &frames);
  return frames;
}

std::vector<uint64_t> TimesOf(const std::vector<CapturedFrame>& frames) {
  std::vector<uint64_t> times;
  for (const CapturedFrame& frame : frames) times.push_back(frame.time_ns);
  return times;
}

TEST(CaptureTest, GivesWhatWasRecorded) {
  Capture capture(AllPorts());
  Record(&capture, Frame(60), 7, 0, 1'234'567'890'123'456'789);
  Record(&capture, Frame(1514, 9), 1023, 0, 5, CaptureDirection::kTransmit, DropReason::kEgressMtuExceeded);
  const std::vector<CapturedFrame> frames = TakeAll(&capture);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].time_ns, 1'234'567'890'123'456'789u);
  EXPECT_EQ(frames[0].port, 7);
  EXPECT_EQ(frames[0].direction, CaptureDirection::kReceive);
  EXPECT_FALSE(frames[0].dropped.has_value());
  EXPECT_EQ(frames[0].length, 60u);
  EXPECT_EQ(frames[0].bytes, Frame(60));
  EXPECT_EQ(frames[1].port, 1023);
  EXPECT_EQ(frames[1].direction, CaptureDirection::kTransmit);
  EXPECT_EQ(frames[1].dropped, DropReason::kEgressMtuExceeded);
  EXPECT_EQ(frames[1].bytes, Frame(1514, 9));
  EXPECT_TRUE(TakeAll(&capture).empty());
  EXPECT_EQ(capture.lost(), 0u);
}

TEST(CaptureTest, EveryDropReasonComesThrough) {
  Capture capture(AllPorts());
  for (size_t i = 0; i < bridge::kDropReasonCount; ++i)
    Record(&capture, Frame(14), 1, 0, i, CaptureDirection::kReceive, static_cast<DropReason>(i));
  const std::vector<CapturedFrame> frames = TakeAll(&capture);
  ASSERT_EQ(frames.size(), bridge::kDropReasonCount);
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i].dropped, static_cast<DropReason>(i));
}

TEST(CaptureTest, KeepsTheFirstBytesAndTheFullLength) {
  CaptureOptions options = AllPorts();
  options.snap_length = 14;
  Capture capture(options);
  Record(&capture, Frame(1514));
  Record(&capture, Frame(14));
  Record(&capture, Frame(3));
  const std::vector<CapturedFrame> frames = TakeAll(&capture);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].length, 1514u);
  EXPECT_EQ(frames[0].bytes, Frame(14));
  EXPECT_EQ(frames[1].bytes, Frame(14));
  EXPECT_EQ(frames[2].length, 3u);
  EXPECT_EQ(frames[2].bytes, Frame(3));
}

TEST(CaptureTest, TakesOneDirectionOrDropsOnlyWhereAsked) {
  for (const CaptureDirection wanted : {CaptureDirection::kReceive, CaptureDirection::kTransmit}) {
    CaptureOptions options = AllPorts();
    options.receive = wanted == CaptureDirection::kReceive;
    options.transmit = !options.receive;
    Capture capture(options);
    Record(&capture, Frame(60), 1, 0, 1, CaptureDirection::kReceive);
    Record(&capture, Frame(60), 1, 0, 2, CaptureDirection::kTransmit);
    const std::vector<CapturedFrame> frames = TakeAll(&capture);
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].direction, wanted);
  }
  CaptureOptions options = AllPorts();
  options.drops_only = true;
  Capture capture(options);
  Record(&capture, Frame(60), 1, 0, 1);
  Record(&capture, Frame(60), 1, 0, 2, CaptureDirection::kReceive, DropReason::kFrameTooShort);
  EXPECT_THAT(TimesOf(TakeAll(&capture)), ElementsAre(2u));
}

TEST(CaptureTest, WantsItsPortsUntilTheyAreForgotten) {
  CaptureOptions options;
  for (const PortIndex port : {0, 63, 64, 1023}) options.ports.set(port);
  Capture capture(options);
  for (uint32_t port = 0; port < bridge::kPortsMax; ++port)
    EXPECT_EQ(capture.wants(static_cast<PortIndex>(port)), options.ports[port]) << port;
  for (const PortIndex port : {0, 63, 64, 1023}) {
    EXPECT_TRUE(capture.has_ports());
    capture.Forget(port);
    EXPECT_FALSE(capture.wants(port));
  }
  EXPECT_FALSE(capture.has_ports());
  EXPECT_FALSE(Capture(CaptureOptions()).has_ports());
}

TEST(CaptureTest, WrapsAroundAtEveryPlace) {
  Capture capture(AllPorts(), kSmallRing);
  std::mt19937 random(3);
  for (uint32_t i = 0; i < 20'000; ++i) {
    const auto length = static_cast<uint32_t>(random() % 900);
    Record(&capture, Frame(length, static_cast<uint8_t>(i)), 1, 0, i);
    if (i % 3 != 0) continue;
    for (const CapturedFrame& frame : TakeAll(&capture))
      ASSERT_EQ(frame.bytes, Frame(frame.length, static_cast<uint8_t>(frame.time_ns)));
  }
  EXPECT_EQ(capture.lost(), 0u);
}

TEST(CaptureTest, AFullRingLosesAndCountsAndGoesOn) {
  Capture capture(AllPorts(), kSmallRing);
  const uint32_t fit = kSmallRing / (kRecordOverhead + 64);
  for (uint32_t i = 0; i < fit + 5; ++i) Record(&capture, Frame(64), 1, 0, i);
  EXPECT_EQ(capture.lost(), 5u);
  std::vector<CapturedFrame> frames;
  capture.Take(1, &frames);
  Record(&capture, Frame(64), 1, 0, 1000);
  Record(&capture, Frame(64), 1, 0, 1001);
  EXPECT_EQ(capture.lost(), 6u);
  frames = TakeAll(&capture);
  ASSERT_EQ(frames.size(), fit);
  EXPECT_EQ(frames.front().time_ns, 1u);
  EXPECT_EQ(frames.back().time_ns, 1000u);
  // Exactly full: the whole ring is one record.
  Record(&capture, Frame(kSmallRing - kRecordOverhead));
  Record(&capture, Frame(0));
  EXPECT_EQ(capture.lost(), 7u);
  EXPECT_EQ(TakeAll(&capture).at(0).bytes.size(), kSmallRing - kRecordOverhead);
  // Never fits.
  Record(&capture, Frame(kSmallRing));
  EXPECT_EQ(capture.lost(), 8u);
  EXPECT_TRUE(TakeAll(&capture).empty());
}

TEST(CaptureTest, TakesSuperFrames) {
  Capture capture(AllPorts());
  const std::vector<uint8_t> frame = Frame(65'535 + 14 + 4);
  for (int round = 0; round < 5; ++round) {
    for (uint64_t i = 0; i < 40; ++i) Record(&capture, frame, 1, 0, i);
    const std::vector<CapturedFrame> frames = TakeAll(&capture);
    ASSERT_EQ(frames.size(), 40u);
    for (const CapturedFrame& taken : frames) ASSERT_EQ(taken.bytes, frame);
  }
  EXPECT_EQ(capture.lost(), 0u);
}

TEST(CaptureTest, MergesWorkersByTime) {
  Capture capture(AllPorts());
  for (const uint64_t time_ns : {1, 4, 4, 9}) Record(&capture, Frame(60), 1, 0, time_ns);
  for (const uint64_t time_ns : {2, 3, 10}) Record(&capture, Frame(60), 1, 3, time_ns);
  for (const uint64_t time_ns : {5, 8}) Record(&capture, Frame(60), 1, 2, time_ns);
  std::vector<CapturedFrame> frames;
  capture.Take(4, &frames);
  EXPECT_THAT(TimesOf(frames), ElementsAre(1u, 2u, 3u, 4u));
  capture.Take(SIZE_MAX, &frames);
  EXPECT_THAT(TimesOf(frames), ElementsAre(1u, 2u, 3u, 4u, 4u, 5u, 8u, 9u, 10u));
}

TEST(CaptureTest, TakesNoMoreBytesThanAsked) {
  Capture capture(AllPorts());
  for (uint64_t i = 0; i < 5; ++i) Record(&capture, Frame(1000), 1, 0, i);
  std::vector<CapturedFrame> frames;
  capture.Take(SIZE_MAX, &frames, 2999);
  EXPECT_EQ(frames.size(), 2u);
  capture.Take(SIZE_MAX, &frames, 1);
  EXPECT_EQ(frames.size(), 3u);
  capture.Take(SIZE_MAX, &frames, 2000);
  EXPECT_EQ(frames.size(), 5u);
}

// Every worker writes numbered frames of many lengths as fast as it can while the reader takes them and a
// port is forgotten: all that is not counted as lost arrives once, whole, in its worker's order.
TEST(CaptureTest, WorkersAndReaderDoNotDisturbOneAnother) {
  constexpr uint32_t kFrames = 40'000;
  Capture capture(AllPorts(), 1 << 16);
  std::atomic<uint32_t> running = bridge::kWorkersMax;
  std::vector<std::thread> workers;
  for (uint32_t worker = 0; worker < bridge::kWorkersMax; ++worker) {
    workers.emplace_back([&, worker] {
      std::mt19937 random(worker);
      for (uint32_t i = 0; i < kFrames; ++i) {
        if (!capture.wants(static_cast<PortIndex>(worker))) continue;
        Record(&capture, Frame(static_cast<uint32_t>(random() % 2000), static_cast<uint8_t>(i)),
               static_cast<PortIndex>(worker), worker, i);
      }
      --running;
    });
  }
  std::array<uint64_t, bridge::kWorkersMax> next{};
  uint64_t taken = 0;
  for (bool is_last = false; !is_last;) {
    is_last = running == 0;
    std::vector<CapturedFrame> frames;
    capture.Take(64, &frames);
    for (const CapturedFrame& frame : frames) {
      ASSERT_EQ(frame.bytes, Frame(frame.length, static_cast<uint8_t>(frame.time_ns)));
      ASSERT_GE(frame.time_ns, next[frame.port]);
      next[frame.port] = frame.time_ns + 1;
      ++taken;
    }
    if (taken > 1000) capture.Forget(3);
    is_last = is_last && frames.empty();
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_GE(taken, 1000u);
  EXPECT_GE(taken + capture.lost(), uint64_t{3} * kFrames);
  EXPECT_LE(taken + capture.lost(), uint64_t{4} * kFrames);
}

}  // namespace
}  // namespace ringswitch
