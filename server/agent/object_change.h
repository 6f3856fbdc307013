#pragma once

// What the model tells those who watch: that an object is new, has changed or is gone. Its value is read when
// it is sent, so that several changes are one.

#include <string>

#include "dataplane/bridge/fdb.h"

namespace ringswitch::agent {

struct ObjectChange {
  enum class Kind : uint8_t { kSwitch, kPort, kFdb };
  Kind kind = Kind::kSwitch;
  std::string switch_name;
  std::string name;        // of the port; of the entry's port, also where it is gone
  bridge::FdbKey fdb_key;  // of the entry
  bridge::FdbKind fdb_kind = bridge::FdbKind::kNone;
  bool deleted = false;
};

}  // namespace ringswitch::agent
