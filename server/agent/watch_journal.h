#pragma once

// What has changed lately: the last change of each object, by revision.
//
// Theory of operation. Several changes of an object are one, the last: an object that changes again moves to
// the end. So a reader needs no queue of its own, only the revision up to which it has read; what is beyond
// it is what it has yet to be told, each object once. The journal is bounded; objects whose changes are
// oldest are forgotten, and `floor` tells a reader who had not come that far that it has lost something.
//
// Ordered trees, no hashing: the addresses of FDB entries come from pods, which could aim them at one bucket.
//
// One lock, the owner's, guards all of it.

#include <cstdint>
#include <map>
#include <set>

#include "server/agent/object_change.h"

namespace ringswitch::agent {

class WatchJournal {
 public:
  struct Entry {
    uint64_t revision = 0;
    ObjectChange change;
  };
  using Entries = std::map<uint64_t, Entry>;  // by revision

  explicit WatchJournal(size_t objects_max) : objects_max_(objects_max) {}
  WatchJournal(const WatchJournal&) = delete;
  WatchJournal& operator=(const WatchJournal&) = delete;

  // `revision` is beyond that of every change before.
  void Record(uint64_t revision, const ObjectChange& change);
  // Forgets everything; changes up to `revision` may be missing.
  void Clear(uint64_t revision);
  // Changes up to `revision` may be missing.
  void RaiseFloor(uint64_t revision);

  // The first change after `revision`.
  Entries::const_iterator After(uint64_t revision) const { return entries_.upper_bound(revision); }
  Entries::const_iterator end() const { return entries_.end(); }
  // Who has not read up to here has lost changes.
  uint64_t floor() const { return floor_; }
  size_t size() const { return entries_.size(); }

 private:
  // By the object, whatever has become of it.
  struct ObjectOrder {
    bool operator()(const Entry* a, const Entry* b) const;
  };

  const size_t objects_max_;
  uint64_t floor_ = 0;
  Entries entries_;
  std::set<Entry*, ObjectOrder> by_object_;  // all of entries_, whose elements stay where they are
};

}  // namespace ringswitch::agent
