// Files that are not what they should be: named, and never waited for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/agent/control_error.h"
#include "server/agent/text_file.h"

namespace ringswitch::agent {
namespace {

using testing::HasSubstr;

class TextFileTest : public testing::Test {
 protected:
  TextFileTest() {
    std::string pattern = testing::TempDir() + "text-file-XXXXXX";
    path_ = std::string(mkdtemp(pattern.data())) + "/f";
  }
  ~TextFileTest() override { std::filesystem::remove_all(std::filesystem::path(path_).parent_path()); }

  void ExpectRefused(const char* word) {
    absl::Status status = ReadTextFile(path_, 100).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_THAT(std::string(status.message()), HasSubstr(word));
  }

  std::string path_;
};

TEST_F(TextFileTest, WholeTextUpToTheLimit) {
  const std::string text(200'000, 'x');
  std::ofstream(path_) << text;
  EXPECT_EQ(*ReadTextFile(path_, text.size()), text);
  ExpectRefused("more than 100 bytes");
  std::ofstream(path_, std::ios::trunc).flush();
  EXPECT_EQ(*ReadTextFile(path_, 100), "");
}

TEST_F(TextFileTest, NothingThere) {
  EXPECT_EQ(ReadTextFile(path_, 100).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TextFileTest, Directory) {
  std::filesystem::create_directory(path_);
  ExpectRefused("a directory");
}

TEST_F(TextFileTest, Fifo) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectRefused("a FIFO");
}

TEST_F(TextFileTest, LinkToADevice) {
  std::filesystem::create_symlink("/dev/zero", path_);
  ExpectRefused("a device");
}

TEST(PrintableTest, KeepsUtf8AndEscapesTheRest) {
  EXPECT_EQ(Printable("sw0 \xc3\xa4 \xf0\x9f\x98\x80"), "sw0 \xc3\xa4 \xf0\x9f\x98\x80");
  EXPECT_EQ(Printable("a\n\x7f"), "a\\x0a\\x7f");
  EXPECT_EQ(Printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(Printable("\xc0\x80"), "\\xc0\\x80");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
}

}  // namespace
}  // namespace ringswitch::agent
