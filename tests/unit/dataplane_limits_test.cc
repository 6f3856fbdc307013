// What the dataplane refuses because there is no more room, without any device: ports whose file is none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/dataplane.h"

namespace ringswitch {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Dataplane> StartOne() {
  DataplaneOptions options;
  options.workers = 1;
  return *Dataplane::Start(options);
}

void ExpectRefused(const absl::Status& status, const char* text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(DataplaneLimits, SwitchesAndThePlaceOfOneThatIsGone) {
  auto dataplane = StartOne();
  for (size_t i = 0; i < bridge::kSwitchesMax; ++i) EXPECT_EQ(*dataplane->AddSwitch({}, 16), i);
  ExpectRefused(dataplane->AddSwitch({}, 16).status(), "64 switches");
  dataplane->RemoveSwitch(7);
  EXPECT_EQ(*dataplane->AddSwitch({}, 16), 7);
}

TEST(DataplaneLimits, PortsAndThePlaceOfOneThatIsGone) {
  auto dataplane = StartOne();
  bridge::PortConfig config;
  config.switch_index = *dataplane->AddSwitch({}, 16);
  for (size_t i = 0; i < bridge::kPortsMax; ++i) ASSERT_EQ(*dataplane->AddPort(config, Device{}), i);
  ExpectRefused(dataplane->AddPort(config, Device{}).status(), "1024 ports");
  dataplane->RemovePort(7);
  EXPECT_EQ(*dataplane->AddPort(config, Device{}), 7);
}

TEST(DataplaneLimits, CapturesAtATime) {
  auto dataplane = StartOne();
  std::vector<std::unique_ptr<Capture>> captures;
  for (size_t i = 0; i <= kCapturesMax; ++i) captures.push_back(std::make_unique<Capture>(CaptureOptions{}));
  for (size_t i = 0; i < kCapturesMax; ++i) EXPECT_TRUE(dataplane->StartCapture(captures[i].get()).ok());
  ExpectRefused(dataplane->StartCapture(captures.back().get()), "4 captures");
  dataplane->StopCapture(captures.front().get());
  EXPECT_TRUE(dataplane->StartCapture(captures.back().get()).ok());
  for (size_t i = 1; i <= kCapturesMax; ++i) dataplane->StopCapture(captures[i].get());
}

TEST(DataplaneLimits, SoftLimitOfFilesIsRaised) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_GT(before.rlim_max, 256u);
  rlimit low = before;
  low.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  auto dataplane = StartOne();
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, std::min<rlim_t>(before.rlim_max, 16 * 1024));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace ringswitch
