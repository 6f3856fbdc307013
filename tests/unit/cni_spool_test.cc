#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cni-plugin/failure.h"
#include "cni-plugin/spool.h"

namespace ringswitch::cni {
namespace {

class CniSpool : public ::testing::Test {
 protected:
  CniSpool() {
    std::string pattern = ::testing::TempDir() + "cni-spool-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~CniSpool() override { std::filesystem::remove_all(root_); }

  std::string root_;
};

TEST_F(CniSpool, HoldsOneFileForEachKey) {
  const Spool spool(root_ + "/a/spool");
  EXPECT_FALSE(spool.Contains("c1", "eth0"));
  ASSERT_TRUE(spool.Add("c1", "eth0").ok());
  ASSERT_TRUE(spool.Add("c1", "eth0").ok());
  EXPECT_TRUE(spool.Contains("c1", "eth0"));
  EXPECT_FALSE(spool.Contains("c1", "eth1"));
  std::ifstream file(root_ + "/a/spool/c1:eth0.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, "{\"container_id\":\"c1\",\"ifname\":\"eth0\"}\n");
  EXPECT_FALSE(spool.Take("c1", "eth1"));
  EXPECT_TRUE(spool.Take("c1", "eth0"));
  EXPECT_FALSE(spool.Take("c1", "eth0"));
  EXPECT_TRUE(std::filesystem::is_empty(root_ + "/a/spool"));
}

TEST_F(CniSpool, FullIsAnErrorButNotForWhatItHolds) {
  const Spool spool(root_);
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(spool.Add("c" + std::to_string(i), "eth0").ok());
  EXPECT_EQ(CodeOf(spool.Add("one-more", "eth0")), kTryAgainLater);
  EXPECT_TRUE(spool.Add("c7", "eth0").ok());
}

TEST_F(CniSpool, UnwritableIsAnError) {
  std::ofstream(root_ + "/file") << "x";
  EXPECT_EQ(CodeOf(Spool(root_ + "/file/spool").Add("c1", "eth0")), kInputOutput);
}

}  // namespace
}  // namespace ringswitch::cni
