// The claim on the control socket, and page tokens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "server/agent/control_error.h"
#include "server/agent/control_socket.h"
#include "server/agent/page_token.h"

namespace ringswitch::agent {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class ControlSocketTest : public testing::Test {
 protected:
  ControlSocketTest() {
    char path[] = "/tmp/ringswitch-socket-XXXXXX";
    directory_ = mkdtemp(path);
    path_ = directory_ + "/run/agent.sock";
  }
  ~ControlSocketTest() override { std::filesystem::remove_all(directory_); }

  // What the server does.
  static File Bind(const ControlSocket& socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket.ListenAddress().c_str() + std::strlen("unix:"),
                 sizeof(address.sun_path) - 1);
    File file(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(file.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return file;
  }

  std::string directory_;
  std::string path_;
};

TEST_F(ControlSocketTest, SecondClaimNamesTheHolder) {
  absl::StatusOr<ControlSocket> first = ControlSocket::Claim(path_);
  ASSERT_TRUE(first.ok()) << first.status();
  absl::Status second = ControlSocket::Claim(path_).status();
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr("process " + std::to_string(getpid())));
}

TEST_F(ControlSocketTest, PublishedSocketHasItsModeAndGoesWithItsOwner) {
  std::optional<ControlSocket> socket = *ControlSocket::Claim(path_);
  File file = Bind(*socket);
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(socket->Publish().ok());
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
  socket.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ControlSocketTest, StaleSocketStopsNobodyAndAnothersIsLeft) {
  std::optional<ControlSocket> socket = *ControlSocket::Claim(path_);
  File stale = Bind(*socket);
  ASSERT_TRUE(socket->Publish().ok());
  // As if somebody had replaced it.
  std::filesystem::remove(path_);
  std::ofstream(path_ + ".other");
  std::filesystem::rename(path_ + ".other", path_);
  socket.reset();
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_EQ(ControlSocket::Claim(path_).status().code(), StatusCode::kFailedPrecondition);  // no socket
  std::filesystem::remove(path_);
  absl::StatusOr<ControlSocket> next = ControlSocket::Claim(path_);
  ASSERT_TRUE(next.ok());
  File bound = Bind(*next);
  stale = Bind(*ControlSocket::Claim(directory_ + "/stale.sock"));
  EXPECT_TRUE(next->Publish().ok());
}

TEST_F(ControlSocketTest, PathsAreChecked) {
  EXPECT_EQ(ControlSocket::Claim("relative.sock").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ControlSocket::Claim("/" + std::string(96, 'a')).status().code(), StatusCode::kInvalidArgument);
}

TEST(PageToken, IsGoodForItsListingOnly) {
  std::string token = MakePageToken("ports\nsw0", "p1");
  EXPECT_EQ(*ParsePageToken("ports\nsw0", token), "p1");
  EXPECT_EQ(*ParsePageToken("ports\nsw0", ""), "");
  for (const std::string& wrong : {token + "x", token.substr(1), std::string("%%%"), std::string("cA==")}) {
    absl::Status status = ParsePageToken("ports\nsw0", wrong).status();
    ASSERT_EQ(FieldViolationsOf(status).size(), 1u) << wrong;
    EXPECT_EQ(FieldViolationsOf(status)[0].field, "page_token");
  }
  EXPECT_FALSE(ParsePageToken("ports\nsw1", token).ok());
}

}  // namespace
}  // namespace ringswitch::agent
