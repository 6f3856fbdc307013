#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "server/agent/delete_spool.h"

namespace ringswitch::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class AgentDeleteSpool : public ::testing::Test {
 protected:
  AgentDeleteSpool() {
    std::string pattern = ::testing::TempDir() + "delete-spool-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~AgentDeleteSpool() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) { std::ofstream(root_ + "/" + name) << text; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_))
      names.push_back(entry.path().filename());
    return names;
  }

  std::string root_;
  std::vector<std::string> deleted_;
  absl::Status answer_;
  DeleteSpool::Delete delete_ = [this](const std::string& container_id, const std::string& ifname) {
    deleted_.push_back(container_id + ":" + ifname);
    return answer_;
  };
};

TEST_F(AgentDeleteSpool, EachDelIsDoneOnceAndItsFileRemoved) {
  Write("c1:eth0.json", R"({"container_id":"c1","ifname":"eth0"})");
  Write("c2:eth1.json", R"({"container_id":"c2","ifname":"eth1"})");
  Write(".c3:eth0", "half");  // being written
  DeleteSpool spool(root_, delete_);
  EXPECT_EQ(spool.Replay(), 2);
  EXPECT_THAT(deleted_, UnorderedElementsAre("c1:eth0", "c2:eth1"));
  EXPECT_THAT(Names(), ElementsAre(".c3:eth0"));
  EXPECT_EQ(spool.Replay(), 0);
}

TEST_F(AgentDeleteSpool, DelThatFailsStays) {
  Write("c1:eth0.json", R"({"container_id":"c1","ifname":"eth0"})");
  answer_ = absl::UnavailableError("later");
  DeleteSpool spool(root_, delete_);
  EXPECT_EQ(spool.Replay(), 0);
  EXPECT_THAT(Names(), ElementsAre("c1:eth0.json"));
  answer_ = absl::OkStatus();
  EXPECT_EQ(spool.Replay(), 1);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(AgentDeleteSpool, WhatIsNoDelIsSetAside) {
  for (const char* text :
       {"", "{", "[]", "7", R"({"container_id":7,"ifname":"eth0"})", R"({"ifname":"eth0"})"}) {
    Write("c1:eth0.json", text);
    EXPECT_EQ(DeleteSpool(root_, delete_).Replay(), 0) << text;
    EXPECT_THAT(Names(), ElementsAre(".c1:eth0.json")) << text;
  }
  EXPECT_THAT(deleted_, IsEmpty());
}

TEST_F(AgentDeleteSpool, WhatIsNoRegularFileIsSetAside) {
  std::filesystem::create_directory(root_ + "/x.json");
  ASSERT_EQ(mkfifo((root_ + "/y.json").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", root_ + "/z.json");
  Write("c1:eth0.json", R"({"container_id":"c1","ifname":"eth0"})");
  EXPECT_EQ(DeleteSpool(root_, delete_).Replay(), 1);
  EXPECT_THAT(Names(), UnorderedElementsAre(".x.json", ".y.json", ".z.json"));
}

TEST_F(AgentDeleteSpool, WhatCannotBeSetAsideStopsNothing) {
  std::filesystem::create_directory(root_ + "/x.json");
  Write(".x.json", "in the way");
  Write("c1:eth0.json", R"({"container_id":"c1","ifname":"eth0"})");
  EXPECT_EQ(DeleteSpool(root_, delete_).Replay(), 1);
  EXPECT_THAT(Names(), UnorderedElementsAre("x.json", ".x.json"));
}

TEST_F(AgentDeleteSpool, NoDirectoryIsNoDel) {
  EXPECT_EQ(DeleteSpool(root_ + "/none", delete_).Replay(), 0);
}

TEST_F(AgentDeleteSpool, ThreadEndsAtOnce) {
  DeleteSpool spool(root_, delete_);
  spool.Start();
  spool.Stop();
}

}  // namespace
}  // namespace ringswitch::agent
