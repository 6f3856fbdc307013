#include "server/agent/watch_listing.h"

#include <utility>

namespace ringswitch::agent {
namespace {

constexpr int kOthersPerPage = kMessageWeightMax / kOtherWeight;

WatchedObject Deleted(const ObjectChange& change) {
  WatchedObject object;
  object.deleted = true;
  if (change.kind == ObjectChange::Kind::kSwitch) {
    SwitchView& view = object.view.emplace<SwitchView>();
    view.spec.name = change.switch_name;
  } else if (change.kind == ObjectChange::Kind::kPort) {
    PortView& view = object.view.emplace<PortView>();
    view.spec.name = change.name;
    view.spec.switch_name = change.switch_name;
  } else {
    FdbEntryView& view = object.view.emplace<FdbEntryView>();
    view.switch_name = change.switch_name;
    view.port_name = change.name;
    view.row.key = change.fdb_key;
    view.row.target.kind = change.fdb_kind;
  }
  return object;
}

template <typename View>
WatchedObject Present(View view) {
  WatchedObject object;
  object.view = std::move(view);
  return object;
}

}  // namespace

bool WatchFilter::Matches(const ObjectChange& change) const {
  if (!switch_name.empty() && switch_name != change.switch_name) return false;
  if (change.kind == ObjectChange::Kind::kSwitch) return has_switches;
  return change.kind == ObjectChange::Kind::kPort ? has_ports : has_fdb;
}

WatchedObject ReadObject(const SwitchModel& model, const ObjectChange& change) {
  if (change.deleted) return Deleted(change);
  if (change.kind == ObjectChange::Kind::kSwitch) {
    absl::StatusOr<SwitchView> view = model.GetSwitch(change.switch_name);
    return view.ok() ? Present(*std::move(view)) : Deleted(change);
  }
  if (change.kind == ObjectChange::Kind::kPort) {
    absl::StatusOr<PortView> view = model.GetPort(change.name);
    bool is_there = view.ok() && view->spec.switch_name == change.switch_name;
    return is_there ? Present(*std::move(view)) : Deleted(change);
  }
  FdbEntryRequest request;
  request.switch_name = change.switch_name;
  request.vid = change.fdb_key.vid;
  request.mac_address = change.fdb_key.mac.ToString();
  absl::StatusOr<FdbEntryView> view = model.GetFdbEntry(request);
  return view.ok() ? Present(*std::move(view)) : Deleted(change);
}

std::optional<std::string> NextSwitch(const SwitchModel& model, const std::string& after) {
  Page<SwitchView> page = model.ListSwitches(after, 1);
  if (page.rows.empty()) return std::nullopt;
  return page.rows.front().spec.name;
}

FdbFilterRequest EntriesOf(const std::string& switch_name, const std::string& port_name) {
  FdbFilterRequest filter;
  filter.switch_name = switch_name;
  filter.port_name = port_name;
  return filter;
}

std::vector<WatchedObject> WatchListing::Next() {
  std::vector<WatchedObject> objects;
  while (objects.empty() && stage_ != Stage::kEnd) {
    if (stage_ == Stage::kSwitches) {
      ListSwitches(&objects);
    } else if (stage_ == Stage::kPorts) {
      ListPorts(&objects);
    } else {
      ListFdb(&objects);
    }
  }
  return objects;
}

void WatchListing::ListSwitches(std::vector<WatchedObject>* objects) {
  bool has_more = false;
  if (filter_.has_switches && !filter_.switch_name.empty()) {
    absl::StatusOr<SwitchView> view = model_->GetSwitch(filter_.switch_name);
    if (view.ok()) objects->push_back(Present(*std::move(view)));
  } else if (filter_.has_switches) {
    Page<SwitchView> page = model_->ListSwitches(after_, kOthersPerPage);
    has_more = page.has_more;
    for (SwitchView& view : page.rows) {
      after_ = view.spec.name;
      objects->push_back(Present(std::move(view)));
    }
  }
  if (has_more) return;
  stage_ = Stage::kPorts;
  after_.clear();
}

void WatchListing::ListPorts(std::vector<WatchedObject>* objects) {
  bool has_more = false;
  if (filter_.has_ports) {
    PortFilter filter;
    filter.switch_name = filter_.switch_name;
    filter.after = after_;
    filter.rows_max = kOthersPerPage;
    Page<PortView> page = model_->ListPorts(filter);
    has_more = page.has_more;
    for (PortView& view : page.rows) {
      after_ = view.spec.name;
      objects->push_back(Present(std::move(view)));
    }
  }
  if (has_more) return;
  stage_ = filter_.has_fdb ? Stage::kFdb : Stage::kEnd;
  after_.clear();
}

void WatchListing::ListFdb(std::vector<WatchedObject>* objects) {
  if (fdb_cursor_ == 0) {
    std::optional<std::string> name;
    if (filter_.switch_name.empty()) {
      name = NextSwitch(*model_, after_);
    } else if (after_.empty()) {
      name = filter_.switch_name;
    }
    if (!name.has_value()) {
      stage_ = Stage::kEnd;
      return;
    }
    after_ = *name;
  }
  absl::StatusOr<FdbPage> page =
      model_->ListFdbEntries(EntriesOf(after_, ""), fdb_cursor_, kMessageWeightMax / kEntryWeight);
  fdb_cursor_ = 0;
  if (!page.ok()) return;  // the switch is gone
  fdb_cursor_ = page->next_cursor;
  for (FdbEntryView& view : page->rows) objects->push_back(Present(std::move(view)));
}

}  // namespace ringswitch::agent
