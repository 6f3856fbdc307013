#pragma once

// Makes a request out of a fuzzer's bytes: by the message's own description, field by field, with values that
// come up in requests more often than by chance; or from the bytes as they are, as a client's would come.

#include <google/protobuf/message.h>

#include "tests/fuzz/input.h"

namespace ringswitch::fuzz {

// False: no client could send it, since no server would parse it.
bool FillMessage(Input* input, google::protobuf::Message* message);

}  // namespace ringswitch::fuzz
