#pragma once

// The static FDB entries of a switch, by key and by port: what belongs to a port is found without a walk over
// what belongs to the others, since a thousand ports come, each with its own, when the agent starts.
//
// No lock of its own: switch_model_fdb.cc says who may touch them when.

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "server/agent/desired_state.h"

namespace ringswitch::agent {

class StaticEntries {
 public:
  // In place of the one of that key.
  void Put(bridge::FdbKey key, const std::string& port_name);
  // False: there is none.
  bool Remove(bridge::FdbKey key);
  // Null: there is no such entry.
  const std::string* PortOf(bridge::FdbKey key) const;
  // In the order of their keys.
  std::vector<StaticFdbEntry> List() const;
  std::vector<StaticFdbEntry> ListOf(const std::string& port_name) const;

 private:
  struct KeyOrder {
    bool operator()(bridge::FdbKey a, bridge::FdbKey b) const {
      return std::make_tuple(a.mac.bits(), a.vid) < std::make_tuple(b.mac.bits(), b.vid);
    }
  };
  using Port = std::pair<const std::string, std::set<bridge::FdbKey, KeyOrder>>;

  void Forget(Port* port, bridge::FdbKey key);

  std::map<std::string, std::set<bridge::FdbKey, KeyOrder>> ports_;  // those that have entries
  std::map<bridge::FdbKey, Port*, KeyOrder> entries_;                // each points into ports_
};

inline void StaticEntries::Put(bridge::FdbKey key, const std::string& port_name) {
  // Many come in the order of their keys: behind the last one there is nothing to look for.
  Port*& place = entries_.emplace_hint(entries_.end(), key, nullptr)->second;
  if (place != nullptr && place->first == port_name) return;
  if (place != nullptr) Forget(place, key);
  place = &*ports_.try_emplace(port_name).first;
  place->second.insert(place->second.end(), key);
}

inline bool StaticEntries::Remove(bridge::FdbKey key) {
  auto it = entries_.find(key);
  if (it == entries_.end()) return false;
  Forget(it->second, key);
  entries_.erase(it);
  return true;
}

inline const std::string* StaticEntries::PortOf(bridge::FdbKey key) const {
  auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second->first;
}

inline std::vector<StaticFdbEntry> StaticEntries::List() const {
  std::vector<StaticFdbEntry> list;
  list.reserve(entries_.size());
  for (const auto& [key, port] : entries_) list.push_back({key, port->first});
  return list;
}

inline std::vector<StaticFdbEntry> StaticEntries::ListOf(const std::string& port_name) const {
  std::vector<StaticFdbEntry> list;
  auto port = ports_.find(port_name);
  if (port == ports_.end()) return list;
  list.reserve(port->second.size());
  for (const bridge::FdbKey& key : port->second) list.push_back({key, port_name});
  return list;
}

inline void StaticEntries::Forget(Port* port, bridge::FdbKey key) {
  port->second.erase(key);
  if (port->second.empty()) ports_.erase(port->first);
}

}  // namespace ringswitch::agent
