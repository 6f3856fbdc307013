#pragma once

// Checks of single fields, which verification is made of: each adds what is wrong, with what would be right,
// to a list, and returns the value as far as there is one.

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/bridge/frame.h"
#include "dataplane/bridge/vlan_set.h"
#include "server/agent/control_error.h"
#include "server/agent/desired_state.h"

namespace ringswitch::agent {

using Violations = std::vector<FieldViolation>;

// `punctuation`: what a name may hold beside letters and digits.
void CheckName(const std::string& field, const std::string& name, size_t length_max, const char* punctuation,
               Violations* violations);
void CheckIfname(const std::string& field, const std::string& name, Violations* violations);
void CheckNetns(const std::string& field, const std::string& path, Violations* violations);
// 0 is taken as `fallback`.
uint32_t CheckRange(const std::string& field, uint32_t value, uint32_t first, uint32_t last,
                    uint32_t fallback, Violations* violations);
bool CheckVid(const std::string& field, uint32_t vid, Violations* violations);
void CheckRanges(const std::string& field, const std::vector<VlanRange>& ranges, bridge::VlanSet* vids,
                 Violations* violations);
bridge::MacAddress CheckMac(const std::string& field, const std::string& text, Violations* violations);
// Whole seconds, 1 to `last_s`; `zero` says what to do instead of 0 s. 1 where it is wrong.
uint32_t CheckSeconds(const std::string& field, const DurationRequest& time, uint32_t last_s,
                      const std::string& zero, Violations* violations);

}  // namespace ringswitch::agent
