// Ports on trial, on fakes and by a clock of the test's: made where they would be refused, confirmed, over in
// time, over while no agent ran.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/agent_testbed.h"

namespace ringswitch::agent {
namespace {

using absl::StatusCode;
using testing::IsEmpty;

class PortTrialTest : public SwitchModelTest {
 protected:
  void SetUp() override {
    MakeSwitch("sw0");
    AddNetdev("eth1");
    node_.node_carriers.insert("eth1");
  }
  static PortRequest Trial(int64_t seconds, const std::string& ifname = "eth1") {
    PortRequest request = Netdev("p1", ifname);
    request.confirm_within = DurationRequest{seconds, 0};
    return request;
  }
  void Pass(int64_t seconds) { now_ms_ += seconds * 1000; }
  bool IsUnheard() {
    std::lock_guard lock(node_.mutex);
    return node_.unheard.count("eth1") > 0;
  }
  bool IsLeftDown() {
    std::lock_guard lock(node_.mutex);
    return node_.left_down.count("eth1") > 0;
  }
  bool IsGone() { return absl::IsNotFound(model_->GetPort("p1").status()); }
  // Nothing of the port is left, and the device is the host's.
  void ExpectGivenBack() {
    EXPECT_TRUE(Eventually([this] { return IsGone() && !IsUnheard(); }));
    EXPECT_TRUE(Eventually([this] { return model_->GetSwitch("sw0")->port_count == 0; }));
    EXPECT_EQ(WatchCount(), 0u);
    EXPECT_FALSE(std::filesystem::exists(directory_ + "/port.p1.json"));
    std::lock_guard lock(node_.mutex);
    EXPECT_TRUE(node_.ports.empty());
    EXPECT_EQ(node_.devices.size(), 1u);
  }
  // The model's thread has looked after ports at least once since.
  static void AwaitLook() { std::this_thread::sleep_for(std::chrono::milliseconds(1200)); }
};

TEST_F(PortTrialTest, WithoutOneTheDeviceIsRefused) {
  for (bool validate_only : {true, false}) {
    absl::Status status = model_->CreatePort(Netdev("p1", "eth1"), validate_only).status();
    EXPECT_EQ(ErrorReasonOf(status).reason, "DEVICE_REFUSED");
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(model_->CreatePort(Trial(60), true).ok());
  EXPECT_TRUE(IsGone());
}

TEST_F(PortTrialTest, TimesAndDevicesThatAreNone) {
  auto fields = [this](const PortRequest& request) {
    std::string fields;
    for (const FieldViolation& one : FieldViolationsOf(model_->CreatePort(request, true).status()))
      fields += one.field + " ";
    return fields;
  };
  EXPECT_EQ(fields(Trial(0)), "confirm_within ");
  EXPECT_EQ(fields(Trial(3601)), "confirm_within ");
  EXPECT_EQ(fields(Trial(-1)), "confirm_within ");
  EXPECT_EQ(fields(Trial(1)), "");
  EXPECT_EQ(fields(Trial(3600)), "");
  PortRequest tap = Port("p1");
  tap.confirm_within = DurationRequest{60, 0};
  EXPECT_EQ(fields(tap), "confirm_within ");
}

TEST_F(PortTrialTest, OverItIsGivenBack) {
  absl::StatusOr<PortView> view = model_->CreatePort(Trial(60), false);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->confirm_left_s, 60u);
  ASSERT_TRUE(model_->CreateFdbEntry({"sw0", 1, "02:00:00:00:0b:01", "p1"}, false).ok());
  EXPECT_TRUE(IsUnheard());
  now_ms_ += 59'999;
  EXPECT_EQ(model_->GetPort("p1")->confirm_left_s, 1u);
  AwaitLook();
  EXPECT_FALSE(IsGone());
  now_ms_ += 1;
  ExpectGivenBack();
  EXPECT_FALSE(IsLeftDown());
  EXPECT_EQ(model_->GetSwitch("sw0")->fdb_static_count, 0u);
}

TEST_F(PortTrialTest, ADeviceThatWasDownIsDownAgain) {
  node_.left_down.insert("eth1");
  ASSERT_TRUE(model_->CreatePort(Trial(60), false).ok());
  EXPECT_FALSE(IsLeftDown());
  Restart();
  EXPECT_EQ(model_->GetPort("p1")->state, PortState::kUp);
  Pass(60);
  ExpectGivenBack();
  EXPECT_TRUE(IsLeftDown());
}

TEST_F(PortTrialTest, ConfirmedItStaysForGood) {
  node_.left_down.insert("eth1");
  ASSERT_TRUE(model_->CreatePort(Trial(60), false).ok());
  Pass(59);
  absl::StatusOr<PortView> view = model_->ConfirmPort("p1");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_FALSE(view->confirm_left_s.has_value());
  EXPECT_TRUE(model_->ConfirmPort("p1").ok());  // whose answer was lost asks again
  Pass(3600);
  AwaitLook();
  EXPECT_TRUE(IsUnheard());
  Restart();  // the device carries the node's addresses still
  EXPECT_EQ(model_->GetPort("p1")->state, PortState::kUp);
  EXPECT_THAT(model_->Problems(), IsEmpty());
  ASSERT_TRUE(model_->DeletePort("p1", false).ok());
  ExpectGivenBack();
  EXPECT_FALSE(IsLeftDown());  // long since its user's affair
}

TEST_F(PortTrialTest, TooLateIsTooLate) {
  ASSERT_TRUE(model_->CreatePort(Trial(60), false).ok());
  Pass(60);
  EXPECT_EQ(model_->ConfirmPort("p1").status().code(), StatusCode::kNotFound);
  ExpectGivenBack();
  EXPECT_EQ(model_->ConfirmPort("p1").status().code(), StatusCode::kNotFound);
}

TEST_F(PortTrialTest, OverWhileNoAgentRanItIsNeverAttached) {
  ASSERT_TRUE(model_->CreatePort(Trial(60), false).ok());
  ASSERT_TRUE(model_->CreateFdbEntry({"sw0", 1, "02:00:00:00:0b:01", "p1"}, false).ok());
  Stop();
  Pass(60);
  std::atomic<int> opened = 0;
  node_.on_step = [&opened](const std::string& step) { opened += step == "OpenNetdev" ? 1 : 0; };
  Start("boot-1");
  EXPECT_TRUE(IsGone());  // at once
  ExpectGivenBack();
  EXPECT_EQ(opened, 0);
  EXPECT_EQ(model_->GetSwitch("sw0")->fdb_static_count, 0u);
  AddNetdev("eth1");
  node_.on_step = nullptr;
  EXPECT_TRUE(model_->CreatePort(Trial(60), false).ok());
}

TEST_F(PortTrialTest, ARestartDoesNotStopTheTime) {
  ASSERT_TRUE(model_->CreatePort(Trial(60), false).ok());
  Pass(20);
  Restart();
  EXPECT_EQ(model_->GetPort("p1")->confirm_left_s, 40u);
  EXPECT_TRUE(IsUnheard());
  PortUpdate update;  // nor does a change
  update.name = "p1";
  update.attributes.isolated = true;
  EXPECT_EQ(model_->UpdatePort(update, false)->confirm_left_s, 40u);
  Pass(40);
  ExpectGivenBack();
}

TEST_F(PortTrialTest, ADeviceThatIsMissingMeanwhileIsNotWaitedForLonger) {
  ASSERT_TRUE(model_->CreatePort(Trial(60), false).ok());
  model_->OnLinkEvent({model_->GetPort("p1")->spec.id, LinkEventKind::kLinkGone});
  ASSERT_TRUE(HasState("p1", PortState::kMissing));
  Pass(60);
  ExpectGivenBack();
}

TEST_F(PortTrialTest, ConfirmingAndEndingAtOnce) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(model_->CreatePort(Trial(60), false).ok());
    std::thread clock([this] { Pass(60); });
    std::thread looker([this] { (void)model_->ListPorts({}); });
    const bool is_confirmed = model_->ConfirmPort("p1").ok();
    clock.join();
    looker.join();
    EXPECT_EQ(model_->GetPort("p1").ok(), is_confirmed);
    EXPECT_EQ(model_->DeletePort("p1", false).ok(), is_confirmed);
  }
  ExpectGivenBack();
}

}  // namespace
}  // namespace ringswitch::agent
