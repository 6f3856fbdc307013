#include "server/agent/watch_hub.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"

namespace ringswitch::agent {
namespace {

constexpr int kChangesPerLock = 1024;  // read or written before the model's lock may be had by others

int WeightOf(const ObjectChange& change) {
  return change.kind == ObjectChange::Kind::kFdb ? kEntryWeight : kOtherWeight;
}

uint64_t ClockRevision() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

WatchHub::WatchHub(SwitchModel* model, const WatchLimits& limits)
    : model_(model),
      limits_(limits),
      first_revision_(ClockRevision()),
      revision_(first_revision_),
      objects_(limits.journal_objects_max),
      fdb_(limits.journal_objects_max) {
  thread_ = std::thread([this] { Run(); });
  model_->SetObserver([this](const ObjectChange& change) { Observe(change); });
}

WatchHub::~WatchHub() {
  model_->SetObserver(nullptr);
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
    has_work_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

absl::StatusOr<uint64_t> WatchHub::Open(const WatchFilter& filter, uint64_t resume_revision,
                                        WatchStream* stream) {
  if (!filter.has_switches && !filter.has_ports && !filter.has_fdb)
    return FieldError("kinds", "must name at least one kind of object to watch");
  if (!filter.switch_name.empty()) {
    absl::Status status = model_->GetSwitch(filter.switch_name).status();
    if (!status.ok()) return status;
  }
  std::lock_guard lock(mutex_);
  if (is_ending_) return ReasonError(absl::StatusCode::kUnavailable, "the agent is ending", {"ENDING", {}});
  if (clients_.size() >= limits_.clients_max) {
    return ReasonError(absl::StatusCode::kResourceExhausted,
                       absl::StrCat(limits_.clients_max, " clients are watching: end one of them first"),
                       {"TOO_MANY_WATCHES", {{"limit", absl::StrCat(limits_.clients_max)}}});
  }
  uint64_t id = next_id_++;
  Client& client = clients_[id];
  client.filter = filter;
  client.stream = stream;
  client.revision = resume_revision;
  are_logs_stale_ |= filter.has_fdb;
  has_work_ = true;
  changed_.notify_all();
  return id;
}

void WatchHub::Written(uint64_t id, bool is_sent) {
  std::lock_guard lock(mutex_);
  auto it = clients_.find(id);
  if (it == clients_.end()) return;
  it->second.is_sending = false;
  it->second.is_leaving |= !is_sent;
  has_work_ = true;
  changed_.notify_all();
}

void WatchHub::Leave(uint64_t id) {
  std::lock_guard lock(mutex_);
  auto it = clients_.find(id);
  if (it == clients_.end()) return;
  it->second.is_leaving = true;
  has_work_ = true;
  changed_.notify_all();
}

void WatchHub::EndAll() {
  std::lock_guard lock(mutex_);
  is_ending_ = true;
  has_work_ = true;
  changed_.notify_all();
}

void WatchHub::Observe(const ObjectChange& change) {
  std::lock_guard lock(mutex_);
  objects_.Record(++revision_, change);
  if (change.kind == ObjectChange::Kind::kSwitch) are_logs_stale_ = true;
  if (is_fdb_watched_ || !clients_.empty()) NoteForLogs(change);
  if (clients_.empty()) return;
  has_work_ = true;
  changed_.notify_all();
}

void WatchHub::NoteForLogs(const ObjectChange& change) {
  if (change.kind == ObjectChange::Kind::kPort) {
    if (change.deleted) {
      undrained_[change.switch_name] = revision_;
    } else {
      changed_ports_.emplace(change.switch_name, change.name);
    }
  } else if (change.deleted) {
    // A switch goes after its ports, whose entries went with them.
    gone_switches_[change.switch_name] |= undrained_.erase(change.switch_name) > 0;
  }
}

uint64_t WatchHub::revision() const {
  std::lock_guard lock(mutex_);
  return revision_;
}

uint64_t WatchHub::NextRevision() {
  std::lock_guard lock(mutex_);
  return ++revision_;
}

// --- The thread ---

void WatchHub::Run() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    auto has_work = [this] { return has_work_; };
    if (is_waiting_for_time_) {
      changed_.wait_for(lock, limits_.log_interval, has_work);
    } else {
      changed_.wait(lock, has_work);
    }
    has_work_ = false;
    lock.unlock();
    RefreshLogs();
    TakeLogs();
    Serve();
    lock.lock();
  }
}

void WatchHub::Serve() {
  std::vector<Client*> ready;
  std::vector<WatchStream*> left;
  absl::Status reason = absl::CancelledError("the client has left");
  {
    std::lock_guard lock(mutex_);
    if (is_ending_) reason = absl::UnavailableError("the agent is ending");
    for (auto it = clients_.begin(); it != clients_.end();) {
      Client& client = it->second;
      if (client.is_sending || !(client.is_leaving || is_ending_)) {
        // A client begins once the logs it wants are on.
        bool is_early = client.is_new && client.filter.has_fdb && are_logs_stale_;
        if (!client.is_sending && !is_early) ready.push_back(&client);
        ++it;
        continue;
      }
      left.push_back(client.stream);
      are_logs_stale_ |= client.filter.has_fdb;
      it = clients_.erase(it);
    }
    has_work_ |= are_logs_stale_;
  }
  for (WatchStream* stream : left) stream->End(reason);
  for (Client* client : ready) {
    std::optional<WatchMessage> message = NextMessage(client);
    if (!message.has_value()) continue;
    {
      std::lock_guard lock(mutex_);
      client->is_sending = true;
    }
    client->stream->Send(*message);
  }
}

std::optional<WatchMessage> WatchHub::NextMessage(Client* client) {
  if (client->is_new) return Begin(client);
  if (client->listing.has_value()) return ListPage(client);
  if (!HasLost(client->filter, client->revision)) return Changes(client);
  if (client->listed_at.has_value() && Clock::now() - *client->listed_at < limits_.snapshot_interval) {
    is_waiting_for_time_ = true;
    return std::nullopt;
  }
  return StartListing(client, WatchMark::kOverflow);
}

std::optional<WatchMessage> WatchHub::Begin(Client* client) {
  client->is_new = false;
  if (client->revision == 0) return StartListing(client, WatchMark::kNone);
  if (client->revision < first_revision_ || client->revision > revision() ||
      HasLost(client->filter, client->revision)) {
    return StartListing(client, WatchMark::kResumeRefused);
  }
  client->synced_at = revision();
  return Changes(client);
}

WatchMessage WatchHub::StartListing(Client* client, WatchMark mark) {
  client->revision = revision();
  client->listing.emplace(model_, client->filter);
  client->listed_at = Clock::now();
  client->synced_at.reset();
  if (mark == WatchMark::kNone) return ListPage(client);
  WatchMessage message;
  message.mark = mark;
  return message;
}

WatchMessage WatchHub::ListPage(Client* client) {
  WatchMessage message;
  message.objects = client->listing->Next();
  if (!message.objects.empty()) return message;
  client->listing.reset();
  message.revision = client->revision;
  message.mark = WatchMark::kSynced;
  return message;
}

std::optional<WatchMessage> WatchHub::Changes(Client* client) {
  WatchMessage message;
  if (client->synced_at.has_value() && client->revision >= *client->synced_at) {
    client->synced_at.reset();
    message.revision = client->revision;
    message.mark = WatchMark::kSynced;
    return message;
  }
  std::vector<ObjectChange> changes;
  while (changes.empty()) {
    std::lock_guard lock(mutex_);
    if (client->revision == revision_) break;
    if (client->revision < FloorOf(client->filter)) return std::nullopt;  // by a change that wakes the thread
    client->revision = Collect(client->filter, client->revision, &changes);
  }
  // Nothing was for this client: it may have come to its mark none the less.
  if (changes.empty()) return client->synced_at.has_value() ? Changes(client) : std::nullopt;
  message.revision = client->revision;
  for (const ObjectChange& change : changes) message.objects.push_back(ReadObject(*model_, change));
  return message;
}

uint64_t WatchHub::Collect(const WatchFilter& filter, uint64_t revision,
                           std::vector<ObjectChange>* changes) const {
  bool reads_objects = filter.has_switches || filter.has_ports;
  auto object = reads_objects ? objects_.After(revision) : objects_.end();
  auto entry = filter.has_fdb ? fdb_.After(revision) : fdb_.end();
  int weight = 0;
  for (int step = 0; step < kChangesPerLock; ++step) {
    bool has_object = object != objects_.end();
    bool has_entry = entry != fdb_.end();
    if (!has_object && !has_entry) return revision_;
    auto& next = !has_entry || (has_object && object->first < entry->first) ? object : entry;
    const ObjectChange& change = next->second.change;
    if (filter.Matches(change)) {
      weight += WeightOf(change);
      if (weight > kMessageWeightMax) break;
      changes->push_back(change);
    }
    revision = next->first;
    ++next;
  }
  return revision;
}

uint64_t WatchHub::FloorOf(const WatchFilter& filter) const {
  uint64_t floor = filter.has_switches || filter.has_ports ? objects_.floor() : 0;
  return filter.has_fdb ? std::max(floor, fdb_.floor()) : floor;
}

bool WatchHub::HasLost(const WatchFilter& filter, uint64_t revision) const {
  {
    std::lock_guard lock(mutex_);
    if (revision < FloorOf(filter)) return true;
  }
  return std::any_of(logs_.begin(), logs_.end(), [&](const auto& log) {
    return filter.HasFdbOf(log.first) && revision < log.second.complete_since;
  });
}

// --- Logs of FDBs ---

void WatchHub::RefreshLogs() {
  std::map<std::string, bool> gone;
  bool is_stale = false;
  {
    std::lock_guard lock(mutex_);
    gone.swap(gone_switches_);
    std::swap(is_stale, are_logs_stale_);
  }
  for (const auto& [name, has_lost] : gone) {
    auto log = logs_.find(name);
    if (log == logs_.end() || !log->second.is_on) continue;
    log->second.is_on = false;  // a switch of that name is another one
    if (has_lost) log->second.complete_since = NextRevision();
  }
  if (is_stale) {
    std::set<std::string> wanted = SwitchesWanted();
    for (auto& [name, log] : logs_) log.is_wanted = wanted.count(name) > 0;
    for (const std::string& name : wanted) {
      FdbLog& log = logs_[name];
      log.is_wanted = true;
      if (!log.is_on) TurnOn(name, &log);
    }
  }
  ExpireLogs();
  std::lock_guard lock(mutex_);
  is_fdb_watched_ = !logs_.empty();
  is_waiting_for_time_ = is_fdb_watched_;
}

std::set<std::string> WatchHub::SwitchesWanted() const {
  std::set<std::string> names;
  bool wants_all = false;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, client] : clients_) {
      if (!client.filter.has_fdb || client.is_leaving) continue;
      wants_all |= client.filter.switch_name.empty();
      names.insert(client.filter.switch_name);
    }
  }
  std::set<std::string> wanted;
  for (std::optional<std::string> name = NextSwitch(*model_, ""); name.has_value();
       name = NextSwitch(*model_, *name)) {
    if (wants_all || names.count(*name) > 0) wanted.insert(*name);
  }
  return wanted;
}

void WatchHub::TurnOn(const std::string& switch_name, FdbLog* log) {
  model_->SetFdbLogging(switch_name, true);
  log->is_on = true;
  bool is_followed = false;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, client] : clients_)
      is_followed |= !client.is_new && client.filter.HasFdbOf(switch_name);
  }
  if (is_followed) {  // so the switch is new: nothing is lost unless it has learned something already
    absl::StatusOr<SwitchView> view = model_->GetSwitch(switch_name);
    if (view.ok() && view->fdb_dynamic_count == 0 && view->fdb_static_count == 0) return;
  }
  log->complete_since = NextRevision();
}

void WatchHub::ExpireLogs() {
  Clock::time_point now = Clock::now();
  for (auto it = logs_.begin(); it != logs_.end();) {
    FdbLog& log = it->second;
    if (log.is_wanted) log.wanted_at = now;
    if (log.is_wanted || now - log.wanted_at < limits_.log_linger) {
      ++it;
      continue;
    }
    if (log.is_on) model_->SetFdbLogging(it->first, false);
    std::lock_guard lock(mutex_);
    fdb_.RaiseFloor(log.complete_since);
    it = logs_.erase(it);
    if (logs_.empty()) fdb_.Clear(revision_);
  }
}

void WatchHub::TakeLogs() {
  std::set<std::pair<std::string, std::string>> ports;
  std::map<std::string, uint64_t> undrained;
  {
    std::lock_guard lock(mutex_);
    ports.swap(changed_ports_);
    undrained = undrained_;
  }
  if (!undrained.empty() || Clock::now() - logs_taken_at_ >= limits_.log_interval) {
    logs_taken_at_ = Clock::now();
    for (auto& [name, log] : logs_) {
      if (log.is_on) TakeLog(name, &log);
    }
    std::lock_guard lock(mutex_);
    for (const auto& [name, revision] : undrained) {
      auto it = undrained_.find(name);
      if (it != undrained_.end() && it->second == revision) undrained_.erase(it);
    }
  }
  for (const auto& [switch_name, port_name] : ports) {
    auto log = logs_.find(switch_name);
    if (log != logs_.end() && log->second.is_on) RecordEntriesOf(switch_name, port_name);
  }
}

void WatchHub::TakeLog(const std::string& switch_name, FdbLog* log) {
  std::vector<ObjectChange> changes;
  if (!model_->TakeFdbChanges(switch_name, &changes)) {
    log->complete_since = NextRevision();
    return;
  }
  for (size_t next = 0; next < changes.size();) {
    size_t end = std::min(changes.size(), next + kChangesPerLock);
    std::lock_guard lock(mutex_);
    for (; next < end; ++next) fdb_.Record(++revision_, changes[next]);
  }
}

void WatchHub::RecordEntriesOf(const std::string& switch_name, const std::string& port_name) {
  uint32_t cursor = 0;
  do {
    absl::StatusOr<FdbPage> page =
        model_->ListFdbEntries(EntriesOf(switch_name, port_name), cursor, kChangesPerLock);
    if (!page.ok()) return;
    std::lock_guard lock(mutex_);
    for (const FdbEntryView& view : page->rows) {
      ObjectChange change;
      change.kind = ObjectChange::Kind::kFdb;
      change.switch_name = switch_name;
      change.name = port_name;
      change.fdb_key = view.row.key;
      change.fdb_kind = view.row.target.kind;
      fdb_.Record(++revision_, change);
    }
    cursor = page->next_cursor;
  } while (cursor != 0);
}

}  // namespace ringswitch::agent
