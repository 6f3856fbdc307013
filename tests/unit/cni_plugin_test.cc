// Whole calls of the CNI plugin, against an agent and an IPAM plugin that record what they are asked.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cni-plugin/failure.h"
#include "cni-plugin/json.h"
#include "cni-plugin/plugin.h"
#include "cni-plugin/process.h"
#include "ringswitch/v1/agent.grpc.pb.h"
#include "ringswitch/v1/attachment.grpc.pb.h"

namespace ringswitch::cni {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Keeps keys, refuses what the name of the switch asks it to, and writes each call into the common journal.
class FakeAgent : public v1::AttachmentService::Service, public v1::AgentService::Service {
 public:
  explicit FakeAgent(const std::string& journal) : journal_(journal) {}

  grpc::Status CreateAttachment(grpc::ServerContext*, const v1::CreateAttachmentRequest* request,
                                v1::CreateAttachmentResponse* response) override {
    const v1::Attachment& wanted = request->attachment();
    Note(absl::StrCat("create ", wanted.container_id()));
    if (!keys_.emplace(wanted.container_id(), wanted.ifname()).second) {
      return {grpc::StatusCode::ALREADY_EXISTS, "eth0 is attached"};
    }
    *response->mutable_attachment() = wanted;
    response->mutable_attachment()->set_mac_address("02:00:00:00:00:01");
    response->mutable_attachment()->set_mtu(1500);
    attachment_ = response->attachment();
    return grpc::Status::OK;
  }
  grpc::Status ConfigureAttachment(grpc::ServerContext*, const v1::ConfigureAttachmentRequest* request,
                                   v1::ConfigureAttachmentResponse* response) override {
    Note(absl::StrCat("configure ", request->ip_config().addresses(0).address()));
    if (attachment_.switch_name() == "refuse") return {grpc::StatusCode::INVALID_ARGUMENT, "refused"};
    *response->mutable_attachment() = attachment_;
    return grpc::Status::OK;
  }
  grpc::Status CheckAttachment(grpc::ServerContext*, const v1::CheckAttachmentRequest* request,
                               v1::CheckAttachmentResponse*) override {
    Note(absl::StrCat("check ", request->expected().mac_address()));
    if (attachment_.switch_name() != request->expected().switch_name()) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "switch differs"};
    }
    return grpc::Status::OK;
  }
  grpc::Status DeleteAttachment(grpc::ServerContext*, const v1::DeleteAttachmentRequest* request,
                                v1::DeleteAttachmentResponse*) override {
    Note(absl::StrCat("delete ", request->container_id()));
    keys_.erase({request->container_id(), request->ifname()});
    return grpc::Status::OK;
  }
  grpc::Status ListAttachments(grpc::ServerContext*, const v1::ListAttachmentsRequest* request,
                               v1::ListAttachmentsResponse* response) override {
    // One row a page.
    auto key = keys_.begin();
    if (!request->page_token().empty()) std::advance(key, std::stoi(request->page_token()));
    if (key == keys_.end()) return grpc::Status::OK;
    v1::Attachment& row = *response->add_attachments();
    row.set_container_id(key->first);
    row.set_ifname(key->second);
    row.set_network(key->first == "other" ? "n2" : "n1");
    const auto next = std::distance(keys_.begin(), key) + 1;
    if (next < static_cast<ptrdiff_t>(keys_.size())) response->set_next_page_token(std::to_string(next));
    return grpc::Status::OK;
  }
  grpc::Status GetAgentInfo(grpc::ServerContext*, const v1::GetAgentInfoRequest*,
                            v1::GetAgentInfoResponse*) override {
    return grpc::Status::OK;
  }

 private:
  void Note(const std::string& line) { std::ofstream(journal_, std::ios::app) << line << "\n"; }

  const std::string journal_;
  std::set<std::pair<std::string, std::string>> keys_;
  v1::Attachment attachment_;
};

class CniPlugin : public ::testing::Test {
 protected:
  CniPlugin() {
    std::string pattern = ::testing::TempDir() + "cni-plugin-XXXXXX";
    root_ = mkdtemp(pattern.data());
    std::ofstream(root_ + "/netns") << "";
    WriteIpam(R"(echo '{"cniVersion":"1.0.0","ips":[{"address":"10.99.1.2/24"}]}')");
  }
  ~CniPlugin() override {
    StopAgent();
    std::filesystem::remove_all(root_);
  }

  void StartAgent() {
    agent_ = std::make_unique<FakeAgent>(root_ + "/journal");
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + root_ + "/agent.sock", grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<v1::AttachmentService::Service*>(agent_.get()));
    builder.RegisterService(static_cast<v1::AgentService::Service*>(agent_.get()));
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void StopAgent() {
    if (server_ != nullptr) server_->Shutdown();
    server_.reset();
  }

  // An IPAM plugin that journals its command and then runs `add` on ADD.
  void WriteIpam(const std::string& add) {
    const std::string path = root_ + "/ipam";
    std::ofstream(path) << "#!/bin/sh\n[ \"$CNI_COMMAND\" != VERSION ] || exec echo "
                        << R"('{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}')"
                        << "\ncat > " << root_ << "/ipam-stdin\necho \"ipam $CNI_COMMAND\" >> " << root_
                        << "/journal\nif [ \"$CNI_COMMAND\" = ADD ]; then\n"
                        << add << "\nfi\n";
    chmod(path.c_str(), 0755);
  }

  // Configuration with `members` beside what every one needs.
  std::string Text(const std::string& members = "", const std::string& version = "1.0.0") const {
    return absl::StrCat(R"({"cniVersion":")", version,
                        R"(","name":"n1","type":"ringswitch","agentAddress":")", root_,
                        R"(/agent.sock","spoolDirectory":")", root_, R"(/spool","ipam":{"type":"ipam"})",
                        members.empty() ? "" : ",", members, "}");
  }

  absl::StatusOr<std::string> Run(const char* command, const std::string& id, const std::string& text) {
    setenv("CNI_COMMAND", command, 1);
    setenv("CNI_CONTAINERID", id.c_str(), 1);
    setenv("CNI_NETNS", (root_ + "/netns").c_str(), 1);
    setenv("CNI_IFNAME", "eth0", 1);
    setenv("CNI_PATH", ("/nonexistent:" + root_).c_str(), 1);
    unsetenv("CNI_ARGS");
    return RunPlugin([&text]() -> absl::StatusOr<std::string> { return text; }, version_);
  }

  std::vector<std::string> Journal() const {
    std::vector<std::string> lines;
    std::ifstream file(root_ + "/journal");
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  std::string Contents(const std::string& name) const {
    std::ifstream file(root_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string root_;
  std::string version_;
  std::unique_ptr<FakeAgent> agent_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(CniPlugin, AddIsDeviceThenAddressThenConfiguration) {
  StartAgent();
  const std::string text = Text("\"bridge\" : \"sw0\"");
  const auto result = Run("ADD", "c1", text);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(*result, HasSubstr(R"("mac":"02:00:00:00:00:01")"));
  EXPECT_THAT(Journal(), ElementsAre("create c1", "ipam ADD", "configure 10.99.1.2/24"));
  EXPECT_EQ(Contents("ipam-stdin"), text);  // Byte for byte.
}

TEST_F(CniPlugin, FailedConfigurationIsTakenBackPortFirst) {
  StartAgent();
  const auto result = Run("ADD", "c1", Text(R"("bridge":"refuse")"));
  EXPECT_EQ(CodeOf(result.status()), kBadConfig);
  EXPECT_THAT(Journal(),
              ElementsAre("create c1", "ipam ADD", "configure 10.99.1.2/24", "delete c1", "ipam DEL"));
  EXPECT_STREQ(std::getenv("CNI_COMMAND"), "ADD");
}

TEST_F(CniPlugin, IpamErrorIsPassedOnAndThePortTakenBack) {
  StartAgent();
  WriteIpam(R"(echo '{"code":11,"msg":"pool is empty","details":"n1"}'; exit 1)");
  const auto result = Run("ADD", "c1", Text());
  EXPECT_EQ(CodeOf(result.status()), 11);
  EXPECT_EQ(ErrorJson("1.0.0", result.status()),
            R"({"cniVersion":"1.0.0","code":11,"msg":"IPAM plugin ipam: pool is empty","details":"n1"})");
  EXPECT_THAT(Journal(), ElementsAre("create c1", "ipam ADD", "delete c1", "ipam DEL"));
}

TEST_F(CniPlugin, IpamThatGivesNoAddressIsAnError) {
  StartAgent();
  for (const char* output : {"echo '{}'", "echo", "echo '{} x'", "echo oops >&2; exit 3"}) {
    WriteIpam(output);
    EXPECT_FALSE(Run("ADD", "c1", Text()).ok()) << output;
  }
  EXPECT_THAT(std::string(ErrorJson("1.0.0", Run("ADD", "c1", Text()).status())), HasSubstr("oops"));
}

TEST_F(CniPlugin, IpamThatPrintsWithoutEndIsEnded) {
  StartAgent();
  for (const char* output : {"exec cat /dev/zero", "cat /dev/zero", "exec cat /dev/zero >&2"}) {
    WriteIpam(output);
    const absl::Time start = absl::Now();
    EXPECT_EQ(CodeOf(Run("ADD", "c1", Text()).status()), kDecoding) << output;
    EXPECT_LT(absl::Now() - start, absl::Seconds(10)) << output;
    EXPECT_EQ(Journal().back(), "ipam DEL") << output;
  }
}

// As the handler of SIGTERM does it.
TEST_F(CniPlugin, RunningIpamIsKilledWithItsChildren) {
  StartAgent();
  WriteIpam("sleep 50 & echo $! > " + root_ + "/sleeper; wait");
  std::thread killer([this] {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (Contents("sleeper").empty() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
    KillRunningProcess();
  });
  EXPECT_EQ(CodeOf(Run("ADD", "c1", Text()).status()), kInternal);
  killer.join();
  const std::string status_path = "/proc/" + std::to_string(std::stoi(Contents("sleeper"))) + "/cmdline";
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  std::string command = "?";
  while (!command.empty() && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
    std::ifstream file(status_path);  // Gone, or empty where nobody has reaped it yet.
    command.assign(std::istreambuf_iterator<char>(file), {});
  }
  EXPECT_EQ(command, "");
}

TEST_F(CniPlugin, SecondAddLeavesTheFirstAlone) {
  StartAgent();
  ASSERT_TRUE(Run("ADD", "c1", Text()).ok());
  const auto second = Run("ADD", "c1", Text());
  EXPECT_EQ(CodeOf(second.status()), kAlreadyAttached);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("eth0"));
  EXPECT_THAT(Journal(), ElementsAre("create c1", "ipam ADD", "configure 10.99.1.2/24", "create c1"));
}

TEST_F(CniPlugin, IpamOfAnOlderSpecificationIsAskedInItsVersion) {
  StartAgent();
  WriteIpam("if grep -q 1.1.0 " + root_ +
            R"(/ipam-stdin; then echo '{"code":1,"msg":"old"}'; exit 1; fi
              echo '{"cniVersion":"1.0.0","ips":[{"address":"10.99.1.2/24"}]}')");
  const auto result = Run("ADD", "c1", Text("", "1.1.0"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(*result, HasSubstr(R"("cniVersion":"1.1.0")"));
  EXPECT_THAT(Contents("ipam-stdin"), HasSubstr(R"("cniVersion":"1.0.0")"));
}

TEST_F(CniPlugin, ChildInheritsOnlyItsStreams) {
  StartAgent();
  WriteIpam("ls /proc/self/fd > " + root_ + R"(/fds; echo '{"ips":[{"address":"10.99.1.2/24"}]}')");
  ASSERT_TRUE(Run("ADD", "c1", Text()).ok());
  EXPECT_EQ(Contents("fds"), "0\n1\n2\n3\n");  // 3: the directory that ls reads.
}

TEST_F(CniPlugin, DelClosesThePortBeforeTheAddressIsFree) {
  StartAgent();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(*Run("DEL", "c1", Text()), "");
  EXPECT_THAT(Journal(), ElementsAre("delete c1", "ipam DEL", "delete c1", "ipam DEL"));
}

TEST_F(CniPlugin, WithoutAgentDelIsSpooledAndAddSaysSo) {
  EXPECT_EQ(*Run("DEL", "c1", Text()), "");
  EXPECT_THAT(Journal(), ElementsAre("ipam DEL"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/spool/c1:eth0.json"));
  EXPECT_EQ(CodeOf(Run("ADD", "c2", Text()).status()), kTryAgainLater);
  EXPECT_EQ(CodeOf(Run("STATUS", "", Text("", "1.1.0")).status()), kNotAvailable);
  EXPECT_THAT(Journal(), ElementsAre("ipam DEL"));

  // The ADD of a key whose DEL still waits settles that first.
  StartAgent();
  ASSERT_TRUE(Run("ADD", "c1", Text()).ok());
  EXPECT_THAT(Journal(),
              ElementsAre("ipam DEL", "delete c1", "create c1", "ipam ADD", "configure 10.99.1.2/24"));
  EXPECT_TRUE(std::filesystem::is_empty(root_ + "/spool"));
  EXPECT_EQ(*Run("STATUS", "", Text("", "1.1.0")), "");
}

// As a stopped process: the kernel takes connections, nobody answers.
TEST_F(CniPlugin, SilentAgentCostsBoundedTime) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (root_ + "/agent.sock").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd, 16), 0);
  absl::Time start = absl::Now();
  EXPECT_EQ(CodeOf(Run("STATUS", "", Text("", "1.1.0")).status()), kNotAvailable);
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
  start = absl::Now();
  EXPECT_EQ(CodeOf(Run("ADD", "c1", Text()).status()), kTryAgainLater);
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  start = absl::Now();
  EXPECT_TRUE(Run("DEL", "c1", Text()).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  close(fd);
}

TEST_F(CniPlugin, CheckComparesWithPrevResult) {
  StartAgent();
  const std::string result = *Run("ADD", "c1", Text(R"("bridge":"sw0")"));
  const std::string members = R"("bridge":"sw0","prevResult":)" + result;
  EXPECT_EQ(*Run("CHECK", "c1", Text(members)), "");
  EXPECT_EQ(Journal().back(), "ipam CHECK");
  EXPECT_EQ(CodeOf(Run("CHECK", "c1", Text(R"("prevResult":)" + result)).status()), kDiffers);
  EXPECT_EQ(CodeOf(Run("CHECK", "c1", Text(R"("bridge":"sw0")")).status()), kBadConfig);
  EXPECT_EQ(CodeOf(Run("CHECK", "c1", Text(members, "0.3.1")).status()), kIncompatibleVersion);
}

TEST_F(CniPlugin, GcDeletesWhatIsNotListedInItsNetworkOnly) {
  StartAgent();
  for (const char* id : {"c1", "c2", "c3", "other"}) ASSERT_TRUE(Run("ADD", id, Text()).ok());
  EXPECT_EQ(CodeOf(Run("GC", "", Text("", "1.1.0")).status()), kBadConfig);
  std::filesystem::remove(root_ + "/journal");
  const std::string valid = R"("cni.dev/valid-attachments":[{"containerID":"c2","ifname":"eth0"}])";
  EXPECT_EQ(*Run("GC", "", Text(valid, "1.1.0")), "");
  EXPECT_THAT(Journal(), ElementsAre("delete c1", "ipam DEL", "delete c3", "ipam DEL", "ipam GC"));
  EXPECT_EQ(CodeOf(Run("GC", "", Text(valid, "1.0.0")).status()), kIncompatibleVersion);
}

TEST_F(CniPlugin, VersionEchoesTheVersionOfTheQuestion) {
  const std::string supported = R"(,"supportedVersions":["0.3.1","0.4.0","1.0.0","1.1.0"]})";
  EXPECT_EQ(*Run("VERSION", "", R"({"cniVersion":"0.4.0"})"), R"({"cniVersion":"0.4.0")" + supported);
  EXPECT_EQ(*Run("VERSION", "", R"({"cniVersion":"9.9.9"})"), R"({"cniVersion":"9.9.9")" + supported);
  EXPECT_EQ(*Run("VERSION", "", ""), R"({"cniVersion":"1.1.0")" + supported);
  EXPECT_EQ(CodeOf(Run("VERSION", "", "{").status()), kDecoding);
}

TEST_F(CniPlugin, AddRefusesANamespaceThatIsNone) {
  StartAgent();
  std::filesystem::remove(root_ + "/netns");
  EXPECT_EQ(CodeOf(Run("ADD", "c1", Text()).status()), kBadNetns);
  std::filesystem::create_symlink("/proc/self/ns/net", root_ + "/netns");
  EXPECT_EQ(CodeOf(Run("ADD", "c1", Text()).status()), kBadNetns);
  EXPECT_THAT(Journal(), IsEmpty());
}

}  // namespace
}  // namespace ringswitch::cni
