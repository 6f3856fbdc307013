#pragma once

// A node for the targets that speak to the agent: switch model and state store as they are, devices and
// dataplane fake (tests/unit/agent_fakes.h), and a state directory that is emptied for each input.
//
// Limits. The model's own thread runs, and looks after ports once a second: an input must take less. Time
// stands still for trials.

#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/agent/state_json.h"
#include "server/agent/state_store.h"
#include "server/agent/switch_model.h"
#include "tests/fuzz/input.h"
#include "tests/unit/agent_fakes.h"

namespace ringswitch::agent {

inline constexpr char kNetns[] = "/run/netns/h1";
inline constexpr char kBootId[] = "boot-1";

// One for the whole process, below $TMPDIR.
class StateDirectory {
 public:
  StateDirectory() {
    const char* parent = getenv("TMPDIR");
    path_ = absl::StrCat(parent != nullptr ? parent : "/tmp", "/ringswitch-fuzz-XXXXXX");
    fuzz::Require(mkdtemp(path_.data()) != nullptr, "a state directory can be made");
    spdlog::set_level(spdlog::level::off);
  }
  ~StateDirectory() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  void Empty() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_)) std::filesystem::remove_all(entry);
  }
  void Put(const std::string& name, const std::string& content) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << content;
  }

 private:
  std::string path_;
};

class AgentNode {
 public:
  // `tap`: a TAP that an earlier agent left in the namespace.
  explicit AgentNode(const StateDirectory* directory, const char* tap = nullptr) : directory_(*directory) {
    fake_node = &node_;
    node_.namespaces[kNetns] = 100;
    for (const char* ifname : {"nd0", "nd1"}) {
      node_.devices[{"", ifname}] = 0;
      node_.macs[ifname] = bridge::MacAddress(0x0200'0000'0b01);
      node_.mtus[{"", ifname}] = 1400;
    }
    if (tap != nullptr) node_.devices[{kNetns, tap}] = 0;
    Start();
  }
  ~AgentNode() {
    Stop();
    fake_node = nullptr;
  }

  // As after a crash: the dataplane's memory is gone, devices and state stay.
  void Restart() {
    Stop();
    Start();
  }
  SwitchModel& model() { return *model_; }
  FakeLinks& links() { return links_; }
  std::vector<std::string> Problems() const { return model_->Problems(); }

  // All that was asked for and is there.
  std::string Dump() const {
    std::string text;
    for (const SwitchView& view : model_->ListSwitches("", SIZE_MAX).rows) {
      absl::StrAppend(&text, ToJson(view.spec));
      FdbFilterRequest filter;
      filter.switch_name = view.spec.name;
      filter.kind = bridge::FdbKind::kStatic;
      const absl::StatusOr<FdbPage> page = model_->ListFdbEntries(filter, 0, UINT32_MAX);
      fuzz::Require(page.ok(), "the FDB of a switch can be listed");
      for (const FdbEntryView& entry : page->rows) {
        absl::StrAppend(&text, entry.row.key.vid, " ", entry.row.key.mac.ToString(), " ", entry.port_name,
                        "\n");
      }
    }
    PortFilter all;
    all.rows_max = SIZE_MAX;
    for (const PortView& view : model_->ListPorts(all).rows)
      absl::StrAppend(&text, ToJson(StoredPort{view.spec, {}}));
    return text;
  }

 private:
  void Start() {
    dataplane_ = *Dataplane::Start({});
    store_ = *StateStore::Open(directory_.path(), kBootId);
    model_ = std::make_unique<SwitchModel>(dataplane_.get(), &links_, store_.get(),
                                           [] { return int64_t{1'000'000}; });
    model_->Restore();
  }
  void Stop() {
    model_.reset();
    store_.reset();
    dataplane_.reset();
    node_.EndAgent();
  }

  const StateDirectory& directory_;
  FakeNode node_;
  FakeLinks links_;
  std::unique_ptr<Dataplane> dataplane_;
  std::unique_ptr<StateStore> store_;
  std::unique_ptr<SwitchModel> model_;
};

}  // namespace ringswitch::agent
