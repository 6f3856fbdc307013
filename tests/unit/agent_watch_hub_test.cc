// The watch hub: coalescing, losses, resuming, the FDB's logs, and that a snapshot and the changes after it
// are what a listing shows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/agent/watch_hub.h"
#include "tests/unit/watch_fakes.h"

namespace ringswitch::agent {
namespace {

using testing::ElementsAre;

constexpr WatchMark kSynced = WatchMark::kSynced;
constexpr WatchMark kOverflow = WatchMark::kOverflow;
constexpr WatchMark kResumeRefused = WatchMark::kResumeRefused;

WatchFilter All(const std::string& switch_name = "") {
  return {switch_name, true, true, true};
}
WatchFilter Ports(const std::string& switch_name = "") {
  return {switch_name, false, true, false};
}
WatchFilter Fdb(const std::string& switch_name = "") {
  return {switch_name, false, false, true};
}

class WatchHubTest : public testing::Test {
 protected:
  WatchHubTest() {
    limits_.log_interval = std::chrono::milliseconds(2);
    limits_.snapshot_interval = std::chrono::milliseconds(5);
    StartHub();
    model_fake_.PutSwitch("sw0");
    model_fake_.PutPort("p1", "sw0");
    model_fake_.PutPort("p2", "sw0");
  }

  void StartHub() {
    hub_.reset();
    hub_ = std::make_unique<WatchHub>(&model_, limits_);
  }
  // `kind`: what the client watches, if not all.
  bool IsEqual(FakeClient* client, const std::string& kind = "") {
    std::set<std::string> lines = model_fake_.Listing();
    std::erase_if(lines, [&](const std::string& line) { return !line.starts_with(kind); });
    return client->WaitForListing(lines);
  }
  // All that has happened has been told.
  uint64_t SyncedRevision(FakeClient* client, const std::string& kind = "") {
    EXPECT_TRUE(client->WaitForMark(kSynced));
    EXPECT_TRUE(IsEqual(client, kind));
    return client->Get(&FakeClient::revision);
  }
  bool Eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 5000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }

  FakeModel model_fake_;
  SwitchModel model_{nullptr, nullptr, nullptr};
  WatchLimits limits_;
  std::unique_ptr<WatchHub> hub_;
};

TEST_F(WatchHubTest, BeginsWithASnapshotAndGoesOnWithChanges) {
  model_fake_.Learn("p1", 1);
  FakeClient client(hub_.get());
  ASSERT_TRUE(client.Open(All()).ok());
  ASSERT_TRUE(client.WaitForMark(kSynced));
  ASSERT_TRUE(IsEqual(&client));
  model_fake_.PutPort("p3", "sw0");
  model_fake_.PutPort("p1", "sw0", 9000);
  model_fake_.DeletePort("p2");
  model_fake_.Learn("p3", 1);
  model_fake_.Learn("p3", 2);
  ASSERT_TRUE(IsEqual(&client));
  model_fake_.Forget("sw0", 2);
  ASSERT_TRUE(IsEqual(&client));
  EXPECT_THAT(client.Get(&FakeClient::marks), ElementsAre(kSynced));
  EXPECT_FALSE(client.Get(&FakeClient::is_revision_falling));
}

TEST_F(WatchHubTest, SendsOnlyWhatTheFilterSays) {
  model_fake_.PutSwitch("sw1");
  model_fake_.PutPort("q1", "sw1");
  model_fake_.Learn("q1", 7);
  FakeClient ports(hub_.get()), fdb(hub_.get());
  ASSERT_TRUE(ports.Open(Ports("sw1")).ok());
  ASSERT_TRUE(fdb.Open(Fdb("sw0")).ok());
  ASSERT_TRUE(ports.WaitForMark(kSynced) && fdb.WaitForMark(kSynced));
  model_fake_.Learn("p1", 1);
  model_fake_.PutPort("p9", "sw0");
  model_fake_.PutPort("q2", "sw1");
  EXPECT_TRUE(ports.WaitForListing({"port sw1/q1 mtu 1500", "port sw1/q2 mtu 1500"}));
  EXPECT_TRUE(fdb.WaitForListing({"entry sw0/1/00:00:00:00:00:01 on p1"}));
  EXPECT_FALSE(model_fake_.IsLogging("sw1"));
}

TEST_F(WatchHubTest, SeveralChangesOfAnObjectAreOne) {
  FakeClient client(hub_.get());
  ASSERT_TRUE(client.Open(Ports()).ok());
  ASSERT_TRUE(client.WaitForMark(kSynced));
  client.Stop();
  model_fake_.PutPort("p1", "sw0", 2000);
  ASSERT_TRUE(client.WaitUntil([](FakeClient& c) { return c.changes == 3; }));  // two of the snapshot
  for (uint32_t i = 0; i < 10'000; ++i) model_fake_.PutPort("p1", "sw0", 2001 + i);
  model_fake_.DeletePort("p2");
  client.Continue();
  ASSERT_TRUE(IsEqual(&client, "port"));
  EXPECT_EQ(client.Get(&FakeClient::changes), 5);
  EXPECT_EQ(client.Get(&FakeClient::deletions), 1);
}

TEST_F(WatchHubTest, MessagesAreBounded) {
  for (uint64_t mac = 1; mac <= 1000; ++mac) model_fake_.Learn("p1", mac);
  for (int i = 0; i < 100; ++i) model_fake_.PutPort(absl::StrCat("x", i), "sw0");
  FakeClient ports(hub_.get()), fdb(hub_.get());
  ASSERT_TRUE(ports.Open(Ports()).ok() && fdb.Open(Fdb()).ok());
  ASSERT_TRUE(ports.WaitForMark(kSynced) && fdb.WaitForMark(kSynced));
  EXPECT_EQ(fdb.Get(&FakeClient::largest), 256u);
  EXPECT_EQ(ports.Get(&FakeClient::largest), 32u);
  fdb.Stop();
  model_fake_.Forget("sw0", 1);
  ASSERT_TRUE(fdb.WaitUntil([](FakeClient& c) { return c.deletions == 1; }));
  for (uint64_t mac = 1; mac <= 1000; ++mac) model_fake_.Learn("p2", mac);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  fdb.Continue();
  ASSERT_TRUE(fdb.WaitUntil([](FakeClient& c) { return c.changes == 2001; }));
  EXPECT_EQ(fdb.Get(&FakeClient::largest), 256u);
}

TEST_F(WatchHubTest, ClientThatDoesNotReadIsToldThatItLostChanges) {
  limits_.journal_objects_max = 100;
  StartHub();
  FakeClient slow(hub_.get()), fast(hub_.get());
  ASSERT_TRUE(slow.Open(All()).ok() && fast.Open(All()).ok());
  ASSERT_TRUE(slow.WaitForMark(kSynced) && fast.WaitForMark(kSynced));
  slow.Stop();
  for (uint64_t mac = 1; mac <= 1000; ++mac) {
    model_fake_.Learn(mac % 2 == 0 ? "p1" : "p2", mac);
    if (mac % 50 == 0) {
      ASSERT_TRUE(IsEqual(&fast));
    }
  }
  for (uint64_t mac = 1; mac <= 500; ++mac) model_fake_.Forget("sw0", mac);
  ASSERT_TRUE(IsEqual(&fast));
  EXPECT_LT(slow.Get(&FakeClient::changes), 200);
  slow.Continue();
  ASSERT_TRUE(slow.WaitForMark(kOverflow) && slow.WaitForMark(kSynced, 2));
  ASSERT_TRUE(IsEqual(&slow));
  EXPECT_THAT(slow.Get(&FakeClient::marks), ElementsAre(kSynced, kOverflow, kSynced));
}

TEST_F(WatchHubTest, LogThatOverflowsIsALossForThatSwitchOnly) {
  model_fake_.PutSwitch("sw1");
  model_fake_.PutPort("q1", "sw1");
  FakeClient zero(hub_.get()), one(hub_.get()), all(hub_.get());
  ASSERT_TRUE(zero.Open(Fdb("sw0")).ok() && one.Open(Fdb("sw1")).ok() && all.Open(All()).ok());
  ASSERT_TRUE(zero.WaitForMark(kSynced) && one.WaitForMark(kSynced) && all.WaitForMark(kSynced));
  {
    std::lock_guard lock(model_fake_.mutex);
    model_fake_.switches["sw1"].entries[{5, 1}] = "q1";  // what the log has lost
    model_fake_.switches["sw1"].has_overflowed = true;
  }
  ASSERT_TRUE(one.WaitForMark(kOverflow) && one.WaitForMark(kSynced, 2));
  ASSERT_TRUE(all.WaitForMark(kOverflow) && all.WaitForMark(kSynced, 2));
  ASSERT_TRUE(IsEqual(&all));
  EXPECT_THAT(zero.Get(&FakeClient::marks), ElementsAre(kSynced));
}

TEST_F(WatchHubTest, ResumesWhereTheJournalReachesBack) {
  uint64_t revision = 0;
  {
    FakeClient client(hub_.get());
    ASSERT_TRUE(client.Open(All()).ok());
    model_fake_.Learn("p1", 1);
    revision = SyncedRevision(&client);
  }
  model_fake_.PutPort("p3", "sw0");
  model_fake_.Learn("p3", 2);
  model_fake_.Forget("sw0", 1);
  FakeClient client(hub_.get());
  client.objects = {{"switch sw0", "switch sw0 ageing 300"},
                    {"port sw0/p1", "port sw0/p1 mtu 1500"},
                    {"port sw0/p2", "port sw0/p2 mtu 1500"},
                    {"entry sw0/1/00:00:00:00:00:01", "entry sw0/1/00:00:00:00:00:01 on p1"}};
  ASSERT_TRUE(client.Open(All(), revision).ok());
  ASSERT_TRUE(client.WaitForMark(kSynced));
  ASSERT_TRUE(IsEqual(&client));
  EXPECT_THAT(client.Get(&FakeClient::marks), ElementsAre(kSynced));
  EXPECT_LE(client.Get(&FakeClient::changes), 4);  // the entry of p3 once more when p3 is there
}

TEST_F(WatchHubTest, RefusesToResumeWhatItDoesNotKnow) {
  uint64_t old_revision = 0;
  {
    FakeClient client(hub_.get());
    ASSERT_TRUE(client.Open(Ports()).ok());
    old_revision = SyncedRevision(&client, "port");
  }
  limits_.journal_objects_max = 10;
  StartHub();
  FakeClient restarted(hub_.get());
  ASSERT_TRUE(restarted.Open(Ports(), old_revision).ok());
  ASSERT_TRUE(restarted.WaitForMark(kSynced));
  EXPECT_THAT(restarted.Get(&FakeClient::marks), ElementsAre(kResumeRefused, kSynced));
  EXPECT_TRUE(restarted.WaitForListing({"port sw0/p1 mtu 1500", "port sw0/p2 mtu 1500"}));
  uint64_t revision = restarted.Get(&FakeClient::revision);

  FakeClient future(hub_.get());
  ASSERT_TRUE(future.Open(Ports(), revision + 1'000'000).ok());
  ASSERT_TRUE(future.WaitForMark(kSynced));
  EXPECT_THAT(future.Get(&FakeClient::marks), ElementsAre(kResumeRefused, kSynced));

  for (int i = 0; i < 20; ++i) model_fake_.PutPort(absl::StrCat("x", i), "sw0");
  FakeClient forgotten(hub_.get());
  ASSERT_TRUE(forgotten.Open(Ports(), revision).ok());
  ASSERT_TRUE(forgotten.WaitForMark(kSynced));
  EXPECT_THAT(forgotten.Get(&FakeClient::marks), ElementsAre(kResumeRefused, kSynced));
}

TEST_F(WatchHubTest, RefusesToResumeAnFdbThatWasNotLogged) {
  limits_.log_linger = std::chrono::milliseconds(20);
  StartHub();
  uint64_t revision = 0;
  {
    FakeClient client(hub_.get());
    ASSERT_TRUE(client.Open(Fdb()).ok());
    ASSERT_TRUE(client.WaitForMark(kSynced));
    revision = client.Get(&FakeClient::revision);
    EXPECT_TRUE(model_fake_.IsLogging("sw0"));
  }
  ASSERT_TRUE(Eventually([this] { return !model_fake_.IsLogging("sw0"); }));
  FakeClient client(hub_.get());
  ASSERT_TRUE(client.Open(Fdb(), revision).ok());
  ASSERT_TRUE(client.WaitForMark(kSynced));
  EXPECT_THAT(client.Get(&FakeClient::marks), ElementsAre(kResumeRefused, kSynced));
}

TEST_F(WatchHubTest, EntriesOfAPortThatIsBeingMadeAreToldOnceItIsThere) {
  FakeClient client(hub_.get());
  ASSERT_TRUE(client.Open(All()).ok());
  ASSERT_TRUE(client.WaitForMark(kSynced));
  model_fake_.HidePort("p3", "sw0");
  model_fake_.Learn("p3", 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(IsEqual(&client));
  model_fake_.PutPort("p3", "sw0");
  ASSERT_TRUE(IsEqual(&client));
}

TEST_F(WatchHubTest, NewSwitchesAreWatchedToo) {
  FakeClient client(hub_.get());
  ASSERT_TRUE(client.Open(All()).ok());
  ASSERT_TRUE(client.WaitForMark(kSynced));
  for (int round = 0; round < 3; ++round) {
    model_fake_.PutSwitch("sw1");
    ASSERT_TRUE(Eventually([this] { return model_fake_.IsLogging("sw1"); }));
    model_fake_.PutPort("q1", "sw1");
    model_fake_.Learn("q1", 8);
    ASSERT_TRUE(IsEqual(&client));
    model_fake_.DeletePort("q1");
    ASSERT_TRUE(IsEqual(&client));
    model_fake_.DeleteSwitch("sw1");
    ASSERT_TRUE(IsEqual(&client));
  }
  EXPECT_THAT(client.Get(&FakeClient::marks), ElementsAre(kSynced));
  // Gone before its log was taken: a loss.
  model_fake_.PutSwitch("sw1");
  model_fake_.PutPort("q1", "sw1");
  model_fake_.Learn("q1", 8);
  ASSERT_TRUE(IsEqual(&client));
  model_fake_.DeletePort("q1");
  model_fake_.DeleteSwitch("sw1");
  ASSERT_TRUE(IsEqual(&client));
}

TEST_F(WatchHubTest, APortThatGoesToAnotherSwitchIsGoneFromTheFirst) {
  model_fake_.PutSwitch("sw1");
  FakeClient zero(hub_.get()), all(hub_.get());
  ASSERT_TRUE(zero.Open(Ports("sw0")).ok() && all.Open(All()).ok());
  ASSERT_TRUE(zero.WaitForMark(kSynced) && all.WaitForMark(kSynced));
  model_fake_.DeletePort("p1");
  model_fake_.PutPort("p1", "sw1");
  EXPECT_TRUE(zero.WaitForListing({"port sw0/p2 mtu 1500"}));
  EXPECT_TRUE(IsEqual(&all));
}

TEST_F(WatchHubTest, RefusesWhatItCannotServe) {
  limits_.clients_max = 2;
  StartHub();
  FakeClient client(hub_.get()), one(hub_.get()), two(hub_.get());
  EXPECT_EQ(client.Open({}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.Open(All("none")).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(one.Open(All()).ok() && two.Open(All()).ok());
  EXPECT_EQ(client.Open(All()).code(), absl::StatusCode::kResourceExhausted);
  one.Leave();
  ASSERT_TRUE(one.WaitForEnd(absl::StatusCode::kCancelled));
  EXPECT_TRUE(client.Open(All()).ok());
}

TEST_F(WatchHubTest, AllAreEndedButThoseWhoseMessageIsStuck) {
  FakeClient idle(hub_.get()), stuck(hub_.get()), late(hub_.get());
  stuck.Stop();
  ASSERT_TRUE(idle.Open(All()).ok() && stuck.Open(All()).ok());
  ASSERT_TRUE(idle.WaitForMark(kSynced) && stuck.WaitUntil([](FakeClient& c) { return c.messages == 1; }));
  hub_->EndAll();
  EXPECT_TRUE(idle.WaitForEnd(absl::StatusCode::kUnavailable));
  EXPECT_EQ(late.Open(All()).code(), absl::StatusCode::kUnavailable);
  stuck.Continue();
  EXPECT_TRUE(stuck.WaitForEnd(absl::StatusCode::kUnavailable));
}

TEST_F(WatchHubTest, ReadsNothingForAClientThatDoesNotRead) {
  FakeClient client(hub_.get());
  ASSERT_TRUE(client.Open(All()).ok());
  ASSERT_TRUE(client.WaitForMark(kSynced));
  client.Stop();
  model_fake_.PutPort("p1", "sw0", 2000);
  ASSERT_TRUE(client.WaitUntil([](FakeClient& c) { return c.objects["port sw0/p1"].ends_with("2000"); }));
  int reads = model_fake_.reads();
  for (int round = 0; round < 20; ++round) {
    for (uint64_t mac = 1; mac <= 1000; ++mac) model_fake_.Learn(round % 2 == 0 ? "p1" : "p2", mac);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(model_fake_.reads(), reads);
}

// Snapshot and changes are the listing, whoever changes what meanwhile, with clients that come, go, resume,
// stop reading and lose changes, on a journal and logs that are too small.
TEST_F(WatchHubTest, EverybodyKnowsTheListingOnceAllIsQuiet) {
  limits_.journal_objects_max = 200;
  StartHub();
  model_fake_.log_max = 100;
  std::atomic<bool> is_done = false;
  auto change = [&](unsigned seed) {
    std::mt19937 random(seed);
    while (!is_done) {
      std::string port = absl::StrCat("p", random() % 20);
      std::string on = absl::StrCat("sw", random() % 3);
      unsigned what = random() % 1000;
      if (what < 900) {
        model_fake_.Learn(port, 1 + random() % 400, static_cast<bridge::VlanId>(1 + random() % 2));
      } else if (what < 940) {
        model_fake_.Forget("sw0", 1 + random() % 400);
      } else if (what < 960) {
        model_fake_.DeletePort(absl::StrCat("p", seed * 5 + random() % 5));
      } else {
        // Each thread's ports are its own: a port is made and deleted by one.
        unsigned number = seed * 5 + random() % 5;
        std::string name = absl::StrCat("p", number), place = absl::StrCat("sw", number % 3);
        model_fake_.PutPort(name, place, random() % 9000);
        if (what > 990) model_fake_.PutSwitch(place, random() % 1000);
      }
      if (seed == 0 && random() % 200 == 0) {
        model_fake_.PutSwitch("sw3");
        model_fake_.PutPort("p20", "sw3");
        for (uint64_t mac = 1; mac < 9; ++mac) model_fake_.Learn("p20", random() % 9 + 1);
        if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        model_fake_.DeletePort("p20");
        if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        model_fake_.DeleteSwitch("sw3");
      }
      if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    }
  };
  model_fake_.DeletePort("p1");
  model_fake_.DeletePort("p2");
  model_fake_.PutSwitch("sw1");
  model_fake_.PutSwitch("sw2");
  std::vector<std::unique_ptr<FakeClient>> clients;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(change, seed);
  std::mt19937 random(7);
  for (int round = 0; round < 150; ++round) {
    if (clients.size() < 12) {
      clients.push_back(std::make_unique<FakeClient>(hub_.get()));
      ASSERT_TRUE(clients.back()->Open(All()).ok());
    }
    FakeClient& client = *clients[random() % clients.size()];
    if (random() % 2 == 0) client.Stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 10));
    client.Continue();
    if (random() % 8 == 0) {
      // Another connection goes on where this one was.
      auto heir = std::make_unique<FakeClient>(hub_.get());
      uint64_t revision = 0;
      {
        std::lock_guard lock(client.mutex);
        heir->objects = client.objects;
        revision = heir->revision = client.revision;
      }
      ASSERT_TRUE(heir->Open(All(), revision).ok());
      clients[random() % clients.size()] = std::move(heir);
    }
  }
  is_done = true;
  for (std::thread& thread : threads) thread.join();
  int losses = 0;
  for (auto& client : clients) {
    client->Continue();
    ASSERT_TRUE(IsEqual(client.get()));
    losses += std::count(client->marks.begin(), client->marks.end(), kOverflow);
    EXPECT_FALSE(client->Get(&FakeClient::is_revision_falling));
  }
  EXPECT_GT(losses, 0);
}

// Logs go on and off with each client.
TEST_F(WatchHubTest, EachBeginningIsWhole) {
  limits_.log_linger = std::chrono::milliseconds(0);
  StartHub();
  FakeClient other(hub_.get());  // keeps the hub's thread from sleeping
  ASSERT_TRUE(other.Open(Ports()).ok());
  std::mutex quiet;
  std::atomic<bool> is_done = false;
  std::thread thread([&] {
    std::mt19937 random(3);
    while (!is_done) {
      {
        std::lock_guard lock(quiet);
        model_fake_.PutPort("p2", "sw0", random() % 9000);
        uint64_t mac = 1 + random() % 2;
        if (random() % 2 == 0) model_fake_.Learn(random() % 2 == 0 ? "p1" : "p2", mac);
        model_fake_.Forget("sw0", mac);
        if (random() % 2 == 0) model_fake_.Learn("p1", mac);
      }
      std::this_thread::yield();
    }
  });
  std::map<std::string, std::string> objects;
  uint64_t revision = 0;
  for (int round = 0; round < 300; ++round) {
    FakeClient client(hub_.get());
    if (round % 3 != 0) client.objects = objects;
    ASSERT_TRUE(client.Open(All(), round % 3 != 0 ? revision : 0).ok());
    ASSERT_TRUE(client.WaitForMark(kSynced));
    {
      std::lock_guard lock(quiet);
      ASSERT_TRUE(IsEqual(&client)) << round;
    }
    objects = client.Get(&FakeClient::objects);
    revision = client.Get(&FakeClient::revision);
  }
  is_done = true;
  thread.join();
}

TEST_F(WatchHubTest, ClientThatDoesNotReadIsOwedEachObjectOnce) {
  FakeClient stopped(hub_.get()), reading(hub_.get());
  ASSERT_TRUE(stopped.Open(Fdb()).ok() && reading.Open(Fdb()).ok());
  ASSERT_TRUE(stopped.WaitForMark(kSynced) && reading.WaitForMark(kSynced));
  stopped.Stop();
  for (int round = 0; round < 200; ++round) {
    for (uint64_t mac = 1; mac <= 500; ++mac) model_fake_.Learn(round % 2 == 0 ? "p1" : "p2", mac);
  }
  ASSERT_TRUE(IsEqual(&reading, "entry"));
  stopped.Continue();
  ASSERT_TRUE(IsEqual(&stopped, "entry"));
  EXPECT_LE(stopped.Get(&FakeClient::changes), 256 + 1000);
}

TEST(WatchJournalTest, KeepsTheLastChangeOfEachObject) {
  WatchJournal journal(3);
  ObjectChange change;
  change.kind = ObjectChange::Kind::kPort;
  uint64_t revision = 0;
  for (const char* name : {"a", "b", "a", "c", "b"}) {
    change.name = name;
    journal.Record(++revision, change);
  }
  std::vector<std::string> names;
  for (auto it = journal.After(0); it != journal.end(); ++it) names.push_back(it->second.change.name);
  EXPECT_THAT(names, ElementsAre("a", "c", "b"));
  EXPECT_EQ(journal.floor(), 0u);
  EXPECT_EQ(journal.After(3)->second.change.name, "c");
  change.name = "d";
  journal.Record(++revision, change);
  EXPECT_EQ(journal.floor(), 3u);
  EXPECT_EQ(journal.size(), 3u);
  journal.Clear(revision);
  EXPECT_TRUE(journal.floor() == revision && journal.size() == 0);
}

}  // namespace
}  // namespace ringswitch::agent
