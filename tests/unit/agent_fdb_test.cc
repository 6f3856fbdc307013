// Static FDB entries in bulk, on fakes: what is verified, all or nothing, and what the state directory holds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/unit/agent_testbed.h"

namespace ringswitch::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bridge::MacAddress Mac(uint64_t number) {
  return bridge::MacAddress(0x02'00'00'00'00'00 + number);
}

std::string Message(const absl::StatusOr<uint32_t>& result) {
  return std::string(result.status().message());
}

// A switch with two trunks, p1 in VLANs 10 to 12 and 20, p2 in 20 only.
class FdbBulkTest : public SwitchModelTest {
 protected:
  void SetUp() override {
    MakeSwitch("sw0");
    ASSERT_TRUE(model_->CreatePort(Trunk("p1", 0), false).ok());
    PortRequest second = Port("p2", "eth1");
    second.mac_address = "02:00:00:00:0a:02";
    VlanRequest vlans;
    vlans.kind = VlanRequest::Kind::kTrunk;
    vlans.tagged = {{20, 0}};
    second.vlans = vlans;
    ASSERT_TRUE(model_->CreatePort(second, false).ok());
  }

  static FdbBulkRequest Bulk(std::vector<FdbBulkRequest::Entry> entries, std::vector<VlanRange> ranges = {}) {
    FdbBulkRequest request;
    request.switch_name = "sw0";
    request.port_names = {"p1", "p2", "none"};
    request.parts.push_back({std::move(entries), std::move(ranges)});
    return request;
  }
  using Table = std::map<std::pair<uint64_t, bridge::VlanId>, bridge::FdbTarget>;
  Table table() {
    std::lock_guard lock(node_.mutex);
    return node_.fdb[0];
  }
  std::string PortOf(uint64_t mac, uint32_t vid) {
    auto view = model_->GetFdbEntry({"sw0", vid, Mac(mac).ToString(), ""});
    return view.ok() ? view->port_name : "-";
  }
  void Learn(uint64_t mac, bridge::VlanId vid, bridge::PortIndex port) {
    std::lock_guard lock(node_.mutex);
    node_.fdb[0][{Mac(mac).bits(), vid}] = {port, bridge::FdbKind::kDynamic};
  }
};

TEST_F(FdbBulkTest, EntriesAreMadeAndSurviveARestart) {
  FdbBulkRequest request = Bulk({{Mac(1), 10, 0}, {Mac(2), 20, 1}});
  request.parts.push_back({{{Mac(3), 0, 0}}, {{10, 11}, {20, 0}}});
  EXPECT_EQ(*model_->CreateFdbEntries(request), 5u);
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(table().size(), 5u);
    EXPECT_EQ(PortOf(1, 10), "p1");
    EXPECT_EQ(PortOf(2, 20), "p2");
    for (uint32_t vid : {10, 11, 20}) EXPECT_EQ(PortOf(3, vid), "p1");
    Restart();
  }
}

TEST_F(FdbBulkTest, ValidateOnlyCountsAndChangesNothing) {
  FdbBulkRequest request = Bulk({{Mac(1), 10, 0}});
  request.validate_only = true;
  EXPECT_EQ(*model_->CreateFdbEntries(request), 1u);
  EXPECT_TRUE(table().empty());
}

TEST_F(FdbBulkTest, RefusalsNameTheEntryAndChangeNothing) {
  struct Case {
    FdbBulkRequest request;
    absl::StatusCode code;
    const char* words;
  };
  const FdbBulkRequest::Entry good{Mac(1), 10, 0};
  FdbBulkRequest elsewhere = Bulk({good});
  elsewhere.switch_name = "none";
  const Case cases[] = {
      {Bulk({good, {Mac(2), 4095, 0}}), absl::StatusCode::kInvalidArgument, "entries[1].vid"},
      {Bulk({good, {bridge::MacAddress(), 10, 0}}), absl::StatusCode::kInvalidArgument,
       "entries[1].mac_address"},
      {Bulk({good, {bridge::MacAddress(0x01'00'5e'00'00'01), 10, 0}}), absl::StatusCode::kInvalidArgument,
       "entries[1].mac_address"},
      {Bulk({{Mac(1), 0, 0}, {Mac(2), 10, 0}}, {{10, 11}}), absl::StatusCode::kInvalidArgument,
       "entries[1].vid"},
      {Bulk({{Mac(1), 0, 0}}, {{10, 4095}}), absl::StatusCode::kInvalidArgument, "ranges[0].last"},
      {Bulk({good, {Mac(2), 10, 2}}), absl::StatusCode::kNotFound, "entries[1].port_name: no port \"none\""},
      {Bulk({good, {Mac(2), 10, 1}}), absl::StatusCode::kFailedPrecondition, "entries[1].port_name"},
      {Bulk({{Mac(1), 0, 0}}, {{10, 13}}), absl::StatusCode::kFailedPrecondition, "entries[0].port_name"},
      {Bulk({good, {Mac(2), 10, 0}, good}), absl::StatusCode::kAlreadyExists, "entries[2]"},
      {elsewhere, absl::StatusCode::kNotFound, "none"},
  };
  for (const Case& one : cases) {
    for (bool validate_only : {true, false}) {
      FdbBulkRequest request = one.request;
      request.validate_only = validate_only;
      auto result = model_->CreateFdbEntries(request);
      EXPECT_EQ(result.status().code(), one.code) << one.words;
      EXPECT_THAT(Message(result), HasSubstr(one.words));
      EXPECT_TRUE(table().empty()) << one.words;
    }
  }
}

TEST_F(FdbBulkTest, AllWrongFieldsAreToldAtOnce) {
  auto result = model_->CreateFdbEntries(Bulk({{Mac(1), 4095, 0}, {bridge::MacAddress(), 5000, 0}}));
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FieldViolationsOf(result.status()))
    fields.push_back(violation.field);
  EXPECT_THAT(fields, ElementsAre("entries[0].vid", "entries[1].mac_address", "entries[1].vid"));
}

TEST_F(FdbBulkTest, AStaticEntryIsMovedOnlyWhenAskedFor) {
  ASSERT_TRUE(model_->CreateFdbEntries(Bulk({{Mac(2), 20, 0}})).ok());
  FdbBulkRequest request = Bulk({{Mac(1), 20, 1}, {Mac(2), 20, 1}});
  auto refused = model_->CreateFdbEntries(request);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(refused), HasSubstr("entries[1].mac_address"));
  EXPECT_EQ(PortOf(2, 20), "p1");
  EXPECT_EQ(PortOf(1, 20), "-");
  request.replace = true;
  EXPECT_EQ(*model_->CreateFdbEntries(request), 2u);
  EXPECT_EQ(PortOf(2, 20), "p2");
  EXPECT_EQ(*model_->CreateFdbEntries(request), 0u) << "nothing is left to change";
}

TEST_F(FdbBulkTest, OfTwoOfAKeyTheLaterCountsWhereEntriesAreReplaced) {
  FdbBulkRequest request = Bulk({{Mac(1), 20, 0}, {Mac(2), 20, 0}, {Mac(1), 20, 1}});
  request.replace = true;
  EXPECT_EQ(*model_->CreateFdbEntries(request), 2u);
  EXPECT_EQ(PortOf(1, 20), "p2");
}

TEST_F(FdbBulkTest, ADynamicEntryIsConverted) {
  Learn(1, 20, 1);
  EXPECT_EQ(*model_->CreateFdbEntries(Bulk({{Mac(1), 20, 0}})), 1u);
  EXPECT_EQ(PortOf(1, 20), "p1");
  EXPECT_EQ(table().begin()->second.kind, bridge::FdbKind::kStatic);
}

TEST_F(FdbBulkTest, NoMoreThanTheTableHolds) {
  SwitchRequest small;
  small.name = "sw1";
  small.fdb_capacity = 16;
  ASSERT_TRUE(model_->CreateSwitch(small, false).ok());
  PortRequest port = Port("p3", "eth2");
  port.mac_address = "02:00:00:00:0a:03";
  port.switch_name = "sw1";
  ASSERT_TRUE(model_->CreatePort(port, false).ok());
  FdbBulkRequest request;
  request.switch_name = "sw1";
  request.port_names = {"p3"};
  request.parts.emplace_back();
  for (uint64_t i = 0; i < 17; ++i) request.parts[0].entries.push_back({Mac(i + 1), 0, 0});
  EXPECT_EQ(model_->CreateFdbEntries(request).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReasonOf(model_->CreateFdbEntries(request).status()).reason, "FDB_FULL");
  request.parts[0].entries.pop_back();
  EXPECT_EQ(*model_->CreateFdbEntries(request), 16u);
}

TEST_F(FdbBulkTest, WhatWasDoneIsUndoneWhenTheTableFillsUpMeanwhile) {
  ASSERT_TRUE(model_->CreateFdbEntries(Bulk({{Mac(1), 20, 0}})).ok());
  Learn(2, 20, 0);
  {
    std::lock_guard lock(node_.mutex);
    node_.fdb_capacity = 3;  // less than the switch believes: as if workers had learned
  }
  FdbBulkRequest request = Bulk({{Mac(1), 20, 1}, {Mac(2), 20, 1}, {Mac(3), 20, 1}, {Mac(4), 20, 1}});
  request.replace = true;
  auto result = model_->CreateFdbEntries(request);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(result), HasSubstr("entries[3].mac_address"));
  EXPECT_EQ(table().size(), 1u);
  EXPECT_EQ(PortOf(1, 20), "p1");
  Restart();
  EXPECT_EQ(PortOf(1, 20), "p1");
}

TEST_F(FdbBulkTest, EntriesTimesVlansAreLimited) {
  FdbBulkRequest request = Bulk({}, {{10, 12}});
  const uint32_t most = kFdbBulkMax / 3;
  for (uint32_t i = 0; i <= most; ++i) request.parts[0].entries.push_back({Mac(i + 1), 0, 0});
  auto result = model_->CreateFdbEntries(request);
  EXPECT_EQ(ErrorReasonOf(result.status()).reason, "FDB_BULK_TOO_LARGE");
  EXPECT_TRUE(table().empty());
}

TEST_F(FdbBulkTest, APortThatGoesMeanwhileFailsTheCallAndLeavesNothing) {
  FdbBulkRequest request = Bulk({});
  for (uint64_t i = 0; i < 900; ++i) request.parts[0].entries.push_back({Mac(i + 1), 20, i == 899 ? 1u : 0u});
  std::thread remover([this] {
    while (table().empty()) std::this_thread::yield();
    EXPECT_TRUE(model_->DeletePort("p2", false).ok());
  });
  auto result = model_->CreateFdbEntries(request);
  // Which of the two was first is left to the threads; never is there a part of it.
  EXPECT_TRUE(result.ok() || result.status().code() == absl::StatusCode::kNotFound) << result.status();
  if (!result.ok()) Learn(1, 20, 0);  // lets the other thread end where the table was emptied again
  remover.join();
  EXPECT_EQ(PortOf(900, 20), "-");
  EXPECT_EQ(PortOf(2, 20), result.ok() ? "p1" : "-");
}

TEST_F(FdbBulkTest, FlushTakesStaticEntriesByPortVlanAndKind) {
  ASSERT_TRUE(model_->CreateFdbEntries(Bulk({{Mac(1), 10, 0}, {Mac(2), 20, 0}, {Mac(3), 20, 1}})).ok());
  FdbFilterRequest filter;
  filter.switch_name = "sw0";
  EXPECT_EQ(*model_->FlushFdb(filter), 0u) << "dynamic ones unless asked";
  filter.kind = bridge::FdbKind::kStatic;
  filter.port_name = "p1";
  filter.vid = 20;
  EXPECT_EQ(*model_->FlushFdb(filter), 1u);
  Restart();
  EXPECT_EQ(PortOf(1, 10), "p1");
  EXPECT_EQ(PortOf(2, 20), "-");
  EXPECT_EQ(PortOf(3, 20), "p2");
}

// --- What is done to one of many costs what it is, not what the others are ---

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint32_t kPorts = 50, kMany = 5'000;
#else
constexpr uint32_t kPorts = 200, kMany = 100'000;
#endif

double CpuMs(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

class ManyStaticEntriesTest : public FdbBulkTest {
 protected:
  void SetUp() override {
    rlimit files{};  // a port of the fakes is one or two
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    SwitchRequest many;
    many.name = "sw0";
    many.fdb_capacity = 2 * kMany;
    ASSERT_TRUE(model_->CreateSwitch(many, false).ok());
    node_.fdb_capacity = 2 * kMany;
  }
  // Entry number n is that of port n % ports.
  void MakePorts(uint32_t ports) {
    FdbBulkRequest request;
    request.switch_name = "sw0";
    request.parts.emplace_back();
    for (uint32_t i = 0; i < ports; ++i) {
      request.port_names.push_back(absl::StrCat("m", i));
      ASSERT_TRUE(model_->CreatePort(Port(request.port_names[i], absl::StrCat("eth", i)), false).ok());
    }
    for (uint32_t i = 0; i < kMany; ++i) request.parts[0].entries.push_back({Mac(i), 0, i % ports});
    ASSERT_EQ(*model_->CreateFdbEntries(request), kMany);
  }
  FdbEntryRequest Entry(uint32_t number, const std::string& port) {
    return {"sw0", 0, Mac(number).ToString(), port};
  }
};

TEST_F(ManyStaticEntriesTest, OneMoreOrLessIsNotAllWrittenAnew) {
  MakePorts(2);
  const std::string file = directory_ + "/fdb.sw0.json";
  const size_t whole = std::filesystem::file_size(file);
  constexpr uint32_t kOnes = 200;
  const double begin = CpuMs(CLOCK_THREAD_CPUTIME_ID);
  for (uint32_t i = 0; i < kOnes; ++i)
    ASSERT_TRUE(model_->CreateFdbEntry(Entry(kMany + i, "m0"), false).ok());
  const double add_ms = (CpuMs(CLOCK_THREAD_CPUTIME_ID) - begin) / kOnes;
  for (uint32_t i = 0; i < kOnes; i += 2) ASSERT_TRUE(model_->DeleteFdbEntry(Entry(i, "")).ok());
  ASSERT_TRUE(model_->UpdateFdbEntry(Entry(1, "m0"), false).ok());
  EXPECT_LT(std::filesystem::file_size(file), whole + 2 * kOnes * 120);
  const double middle = CpuMs(CLOCK_THREAD_CPUTIME_ID);
  std::vector<StaticFdbEntry> all;
  for (uint32_t i = 0; i < kMany; ++i) all.push_back({{Mac(i), 1}, "m0"});
  store_->SaveFdb("sw1", all);
  const double whole_ms = CpuMs(CLOCK_THREAD_CPUTIME_ID) - middle;
  std::printf("%.3f ms of CPU for one more of %u entries, %.3f ms for all\n", add_ms, kMany, whole_ms);
  EXPECT_LT(add_ms, whole_ms / 5);
  Restart();
  EXPECT_EQ(table().size(), kMany + kOnes - kOnes / 2);
  EXPECT_EQ(PortOf(0, 0), "-");
  EXPECT_EQ(PortOf(1, 0), "m0");
  EXPECT_EQ(PortOf(3, 0), "m1");
  EXPECT_EQ(PortOf(kMany + kOnes - 1, 0), "m0");
}

TEST_F(ManyStaticEntriesTest, PortsFindTheirsAtTheStart) {
  MakePorts(kPorts);
  Stop();
  const double begin = CpuMs(CLOCK_PROCESS_CPUTIME_ID);
  Start("boot-1");
  const double restore_ms = CpuMs(CLOCK_PROCESS_CPUTIME_ID) - begin;
  std::printf("%.0f ms of CPU for %u ports and %u entries\n", restore_ms, kPorts, kMany);
  EXPECT_EQ(table().size(), kMany);
  for (uint32_t i = 0; i < kMany; i += 997) EXPECT_EQ(PortOf(i, 0), absl::StrCat("m", i % kPorts));
  const char* slow = std::getenv("RINGSWITCH_SLOW");  // how many times, where the processor is emulated
  if (slow != nullptr) std::printf("RINGSWITCH_SLOW=%s: the bound is that much larger\n", slow);
  EXPECT_LT(restore_ms, 3000 * (slow != nullptr ? std::atof(slow) : 1));
  const double end = CpuMs(CLOCK_THREAD_CPUTIME_ID);
  for (uint32_t i = 0; i < kPorts / 2; ++i) ASSERT_TRUE(model_->DeletePort(absl::StrCat("m", i), false).ok());
  std::printf("%.3f ms of CPU to delete a port with its entries\n",
              (CpuMs(CLOCK_THREAD_CPUTIME_ID) - end) / (kPorts / 2));
  EXPECT_EQ(table().size(), kMany / 2);
}

}  // namespace
}  // namespace ringswitch::agent
