#include "server/agent/watch_journal.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ringswitch::agent {

bool WatchJournal::ObjectOrder::operator()(const Entry* a, const Entry* b) const {
  const auto place = [](const ObjectChange& change) {
    return std::tuple(change.kind, change.fdb_key.mac.bits(), change.fdb_key.vid);
  };
  auto place_a = place(a->change);
  auto place_b = place(b->change);
  if (place_a != place_b) return place_a < place_b;
  if (a->change.switch_name != b->change.switch_name) return a->change.switch_name < b->change.switch_name;
  // The port of an entry is no part of what it is. One of another switch is another port.
  return a->change.kind == ObjectChange::Kind::kPort && a->change.name < b->change.name;
}

void WatchJournal::Record(uint64_t revision, const ObjectChange& change) {
  Entry fresh{revision, change};
  auto known = by_object_.find(&fresh);
  if (known != by_object_.end()) {
    // The element keeps its address, and its object its place in by_object_.
    auto node = entries_.extract((*known)->revision);
    node.key() = revision;
    node.mapped() = std::move(fresh);
    entries_.insert(entries_.end(), std::move(node));
    return;
  }
  auto entry = entries_.emplace_hint(entries_.end(), revision, std::move(fresh));
  by_object_.insert(&entry->second);
  if (entries_.size() > objects_max_) {
    auto oldest = entries_.begin();
    RaiseFloor(oldest->first);
    by_object_.erase(&oldest->second);
    entries_.erase(oldest);
  }
}

void WatchJournal::Clear(uint64_t revision) {
  by_object_.clear();
  entries_.clear();
  RaiseFloor(revision);
}

void WatchJournal::RaiseFloor(uint64_t revision) {
  floor_ = std::max(floor_, revision);
}

}  // namespace ringswitch::agent
