#include "tests/unit/watch_fakes.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"

namespace ringswitch::agent {
namespace {

FakeModel* fake_model = nullptr;

constexpr std::chrono::seconds kPatience{20};

ObjectChange ChangeOf(ObjectChange::Kind kind, const std::string& switch_name, const std::string& name,
                      bool deleted) {
  ObjectChange change;
  change.kind = kind;
  change.switch_name = switch_name;
  change.name = name;
  change.deleted = deleted;
  return change;
}

SwitchView ViewOf(const std::string& name, const FakeModel::Switch& one) {
  SwitchView view;
  view.spec.name = name;
  view.spec.ageing_time_s = one.ageing_time_s;
  view.fdb_dynamic_count = static_cast<uint32_t>(one.entries.size());
  return view;
}

PortView ViewOf(const std::string& name, const FakeModel::Port& port) {
  PortView view;
  view.spec.name = name;
  view.spec.switch_name = port.switch_name;
  view.spec.mtu = port.mtu;
  return view;
}

FdbEntryView ViewOf(const std::string& switch_name, FakeModel::EntryKey key, const std::string& port) {
  FdbEntryView view;
  view.switch_name = switch_name;
  view.port_name = port;
  view.row.key = {bridge::MacAddress(key.first), key.second};
  view.row.target.kind = bridge::FdbKind::kDynamic;
  return view;
}

absl::Status NotFound() {
  return absl::NotFoundError("none");
}

}  // namespace

FakeModel::FakeModel() {
  fake_model = this;
}

FakeModel::~FakeModel() {
  fake_model = nullptr;
}

void FakeModel::PutSwitch(const std::string& name, uint32_t ageing_time_s) {
  std::lock_guard lock(mutex);
  switches[name].ageing_time_s = ageing_time_s;
  if (observer) observer(ChangeOf(ObjectChange::Kind::kSwitch, name, "", false));
}

void FakeModel::DeleteSwitch(const std::string& name) {
  std::lock_guard lock(mutex);
  switches.erase(name);
  if (observer) observer(ChangeOf(ObjectChange::Kind::kSwitch, name, "", true));
}

void FakeModel::NotifyPort(const std::string& name, const std::string& switch_name, bool deleted) {
  if (observer) observer(ChangeOf(ObjectChange::Kind::kPort, switch_name, name, deleted));
}

void FakeModel::PutPort(const std::string& name, const std::string& switch_name, uint32_t mtu) {
  std::lock_guard lock(mutex);
  ports[name] = {switch_name, mtu, false};
  NotifyPort(name, switch_name, false);
}

void FakeModel::HidePort(const std::string& name, const std::string& switch_name) {
  std::lock_guard lock(mutex);
  ports[name] = {switch_name, 1500, true};
}

void FakeModel::DeletePort(const std::string& name) {
  std::lock_guard lock(mutex);
  auto port = ports.find(name);
  if (port == ports.end()) return;
  std::string switch_name = port->second.switch_name;
  ports.erase(port);
  Switch& on = switches[switch_name];
  for (auto it = on.entries.begin(); it != on.entries.end();) {
    if (it->second != name) {
      ++it;
      continue;
    }
    Log(&on, switch_name, it->first, name, true);
    it = on.entries.erase(it);
  }
  NotifyPort(name, switch_name, true);
}

void FakeModel::Log(Switch* on, const std::string& switch_name, EntryKey key, const std::string& port,
                    bool deleted) {
  if (!on->is_logging) return;
  if (on->log.size() == log_max) {
    on->has_overflowed = true;
    return;
  }
  ObjectChange change = ChangeOf(ObjectChange::Kind::kFdb, switch_name, port, deleted);
  change.fdb_key = {bridge::MacAddress(key.first), key.second};
  if (!deleted) change.fdb_kind = bridge::FdbKind::kDynamic;
  on->log.push_back(change);
}

void FakeModel::Learn(const std::string& port_name, uint64_t mac, bridge::VlanId vid) {
  std::lock_guard lock(mutex);
  auto port = ports.find(port_name);
  if (port == ports.end()) return;
  Switch& on = switches[port->second.switch_name];
  std::string& place = on.entries[{mac, vid}];
  if (place == port_name) return;
  place = port_name;
  Log(&on, port->second.switch_name, {mac, vid}, port_name, false);
}

void FakeModel::Forget(const std::string& switch_name, uint64_t mac, bridge::VlanId vid) {
  std::lock_guard lock(mutex);
  Switch& on = switches[switch_name];
  auto entry = on.entries.find({mac, vid});
  if (entry == on.entries.end()) return;
  Log(&on, switch_name, entry->first, entry->second, true);
  on.entries.erase(entry);
}

std::set<std::string> FakeModel::Listing() {
  std::set<std::string> lines;
  std::lock_guard lock(mutex);
  for (const auto& [name, one] : switches) {
    lines.insert(LineOf({ViewOf(name, one), false}));
    for (const auto& [key, port] : one.entries) {
      if (!ports[port].is_hidden) lines.insert(LineOf({ViewOf(name, key, port), false}));
    }
  }
  for (const auto& [name, port] : ports) {
    if (!port.is_hidden) lines.insert(LineOf({ViewOf(name, port), false}));
  }
  return lines;
}

bool FakeModel::IsLogging(const std::string& switch_name) {
  std::lock_guard lock(mutex);
  return switches[switch_name].is_logging;
}

int FakeModel::reads() {
  std::lock_guard lock(mutex);
  return read_count;
}

// --- The members of SwitchModel that the hub calls ---

int64_t BootTimeMs() {
  return 0;
}

SwitchModel::SwitchModel(Dataplane*, Links*, StateStore*, BootClock)
    : dataplane_(nullptr), links_(nullptr), store_(nullptr) {}

void SwitchModel::Stop() {}

void SwitchModel::SetObserver(std::function<void(const ObjectChange&)> observer) {
  std::lock_guard lock(fake_model->mutex);
  fake_model->observer = std::move(observer);
}

void SwitchModel::SetFdbLogging(const std::string& switch_name, bool is_logging) {
  std::lock_guard lock(fake_model->mutex);
  auto it = fake_model->switches.find(switch_name);
  if (it == fake_model->switches.end()) return;
  it->second.is_logging = is_logging;
  it->second.log.clear();
}

bool SwitchModel::TakeFdbChanges(const std::string& switch_name, std::vector<ObjectChange>* changes) {
  std::lock_guard lock(fake_model->mutex);
  auto it = fake_model->switches.find(switch_name);
  if (it == fake_model->switches.end()) return true;
  changes->insert(changes->end(), it->second.log.begin(), it->second.log.end());
  it->second.log.clear();
  return !std::exchange(it->second.has_overflowed, false);
}

absl::StatusOr<SwitchView> SwitchModel::GetSwitch(const std::string& name) const {
  std::lock_guard lock(fake_model->mutex);
  ++fake_model->read_count;
  auto it = fake_model->switches.find(name);
  if (it == fake_model->switches.end()) return NotFound();
  return agent::ViewOf(name, it->second);
}

absl::StatusOr<PortView> SwitchModel::GetPort(const std::string& name) const {
  std::lock_guard lock(fake_model->mutex);
  ++fake_model->read_count;
  auto it = fake_model->ports.find(name);
  if (it == fake_model->ports.end() || it->second.is_hidden) return NotFound();
  return agent::ViewOf(name, it->second);
}

absl::StatusOr<FdbEntryView> SwitchModel::GetFdbEntry(const FdbEntryRequest& request) const {
  std::lock_guard lock(fake_model->mutex);
  ++fake_model->read_count;
  auto on = fake_model->switches.find(request.switch_name);
  if (on == fake_model->switches.end()) return NotFound();
  FakeModel::EntryKey key{bridge::MacAddress::Parse(request.mac_address)->bits(),
                          static_cast<bridge::VlanId>(request.vid)};
  auto entry = on->second.entries.find(key);
  if (entry == on->second.entries.end() || fake_model->ports[entry->second].is_hidden) return NotFound();
  return agent::ViewOf(request.switch_name, key, entry->second);
}

Page<SwitchView> SwitchModel::ListSwitches(const std::string& after, size_t rows_max) const {
  Page<SwitchView> page;
  std::lock_guard lock(fake_model->mutex);
  for (auto it = fake_model->switches.upper_bound(after); it != fake_model->switches.end(); ++it) {
    page.has_more = page.rows.size() == rows_max;
    if (page.has_more) break;
    page.rows.push_back(agent::ViewOf(it->first, it->second));
  }
  return page;
}

Page<PortView> SwitchModel::ListPorts(const PortFilter& filter) const {
  Page<PortView> page;
  std::lock_guard lock(fake_model->mutex);
  for (auto it = fake_model->ports.upper_bound(filter.after); it != fake_model->ports.end(); ++it) {
    if (it->second.is_hidden) continue;
    if (!filter.switch_name.empty() && it->second.switch_name != filter.switch_name) continue;
    page.has_more = page.rows.size() == filter.rows_max;
    if (page.has_more) break;
    page.rows.push_back(agent::ViewOf(it->first, it->second));
  }
  return page;
}

// A cursor is a MAC address: exact while the table changes, as slots are.
absl::StatusOr<FdbPage> SwitchModel::ListFdbEntries(const FdbFilterRequest& filter, uint32_t cursor,
                                                    uint32_t rows_max) const {
  FdbPage page;
  std::lock_guard lock(fake_model->mutex);
  auto on = fake_model->switches.find(filter.switch_name);
  if (on == fake_model->switches.end()) return NotFound();
  for (auto it = on->second.entries.lower_bound({cursor, 0}); it != on->second.entries.end(); ++it) {
    if (page.rows.size() >= rows_max && page.rows.back().row.key.mac.bits() != it->first.first) {
      page.next_cursor = static_cast<uint32_t>(it->first.first);
      return page;
    }
    if (fake_model->ports[it->second].is_hidden) continue;
    if (!filter.port_name.empty() && it->second != filter.port_name) continue;
    page.rows.push_back(agent::ViewOf(filter.switch_name, it->first, it->second));
  }
  return page;
}

// --- The client ---

std::string KeyOf(const WatchedObject& object) {
  if (const auto* view = std::get_if<SwitchView>(&object.view))
    return absl::StrCat("switch ", view->spec.name);
  if (const auto* view = std::get_if<PortView>(&object.view)) {
    return absl::StrCat("port ", view->spec.switch_name, "/", view->spec.name);
  }
  const auto& view = std::get<FdbEntryView>(object.view);
  return absl::StrCat("entry ", view.switch_name, "/", view.row.key.vid, "/", view.row.key.mac.ToString());
}

std::string LineOf(const WatchedObject& object) {
  if (const auto* view = std::get_if<SwitchView>(&object.view)) {
    return absl::StrCat(KeyOf(object), " ageing ", view->spec.ageing_time_s);
  }
  if (const auto* view = std::get_if<PortView>(&object.view)) {
    return absl::StrCat(KeyOf(object), " mtu ", view->spec.mtu);
  }
  return absl::StrCat(KeyOf(object), " on ", std::get<FdbEntryView>(object.view).port_name);
}

FakeClient::~FakeClient() {
  Continue();
  Leave();
  std::unique_lock lock(mutex);
  changed_.wait(lock, [this] { return !is_open_; });
}

absl::Status FakeClient::Open(const WatchFilter& filter, uint64_t resume_revision) {
  std::lock_guard lock(mutex);  // Send waits for the id
  absl::StatusOr<uint64_t> id = hub_->Open(filter, resume_revision, this);
  if (!id.ok()) return id.status();
  id_ = *id;
  is_open_ = true;
  if (resume_revision == 0) listed_.emplace();
  return absl::OkStatus();
}

void FakeClient::Leave() {
  uint64_t id = 0;
  {
    std::lock_guard lock(mutex);
    id = id_;
  }
  hub_->Leave(id);
}

void FakeClient::Send(const WatchMessage& message) {
  uint64_t id = 0;
  {
    std::lock_guard lock(mutex);
    Take(message);
    id = id_;
    is_message_stuck_ = is_stopped_;
    changed_.notify_all();
    if (is_stopped_) return;
  }
  hub_->Written(id, true);
}

void FakeClient::Take(const WatchMessage& message) {
  ++messages;
  largest = std::max(largest, message.objects.size());
  if (message.mark == WatchMark::kOverflow || message.mark == WatchMark::kResumeRefused) listed_.emplace();
  if (listed_.has_value() != (message.revision == 0) && message.mark != WatchMark::kSynced)
    is_revision_falling = true;
  if (message.revision != 0) {
    is_revision_falling |= message.revision < revision;
    revision = message.revision;
  }
  for (const WatchedObject& object : message.objects) {
    ++changes;
    deletions += object.deleted ? 1 : 0;
    if (object.deleted) {
      objects.erase(KeyOf(object));
    } else {
      objects[KeyOf(object)] = LineOf(object);
    }
    if (listed_.has_value()) listed_->insert(KeyOf(object));
  }
  if (message.mark == WatchMark::kSynced && listed_.has_value()) {
    std::erase_if(objects, [this](const auto& object) { return listed_->count(object.first) == 0; });
    listed_.reset();
  }
  if (message.mark != WatchMark::kNone) marks.push_back(message.mark);
}

void FakeClient::End(const absl::Status& status) {
  std::lock_guard lock(mutex);
  end_ = status;
  is_open_ = false;
  changed_.notify_all();
}

void FakeClient::Stop() {
  std::lock_guard lock(mutex);
  is_stopped_ = true;
}

void FakeClient::Continue() {
  uint64_t id = 0;
  {
    std::lock_guard lock(mutex);
    is_stopped_ = false;
    if (!std::exchange(is_message_stuck_, false)) return;
    id = id_;
  }
  hub_->Written(id, true);
}

bool FakeClient::WaitUntil(const std::function<bool(FakeClient&)>& condition) {
  std::unique_lock lock(mutex);
  return changed_.wait_for(lock, kPatience, [&] { return condition(*this); });
}

bool FakeClient::WaitForMark(WatchMark mark, int times) {
  return WaitUntil([&](FakeClient& client) {
    return std::count(client.marks.begin(), client.marks.end(), mark) >= times;
  });
}

bool FakeClient::WaitForEnd(absl::StatusCode code) {
  return WaitUntil(
      [&](FakeClient& client) { return client.end_.has_value() && client.end_->code() == code; });
}

bool FakeClient::WaitForListing(const std::set<std::string>& listing) {
  return WaitUntil([&](FakeClient& client) {
    if (client.objects.size() != listing.size()) return false;
    return std::all_of(client.objects.begin(), client.objects.end(),
                       [&](const auto& object) { return listing.count(object.second) > 0; });
  });
}

}  // namespace ringswitch::agent
