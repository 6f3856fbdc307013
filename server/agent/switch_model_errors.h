#pragma once

// What the files of the switch model share: its errors, the names of its locks, and how it says what is
// wrong with a port.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dataplane/bridge/fdb.h"
#include "dataplane/dataplane.h"
#include "server/agent/control_error.h"
#include "server/agent/links.h"

namespace ringswitch::agent {

inline constexpr char kSwitchNotFound[] = "SWITCH_NOT_FOUND";

// No port has such a name: '/' is in none.
inline std::string SwitchKey(const std::string& name) {
  return absl::StrCat("switch/", name);
}

inline absl::Status SwitchNotFound(const std::string& name) {
  return ReasonError(absl::StatusCode::kNotFound, absl::StrCat("no switch ", Quoted(name)),
                     {kSwitchNotFound, {{"switch", name}}});
}

inline absl::Status SwitchExists(const std::string& name) {
  return ReasonError(absl::StatusCode::kAlreadyExists, absl::StrCat("switch ", Quoted(name), " exists"),
                     {"SWITCH_EXISTS", {{"switch", name}}});
}

inline absl::Status PortNotFound(const std::string& name) {
  return ReasonError(absl::StatusCode::kNotFound, absl::StrCat("no port ", Quoted(name)),
                     {"PORT_NOT_FOUND", {{"port", name}}});
}

inline absl::Status PortExists(const std::string& name) {
  return ReasonError(absl::StatusCode::kAlreadyExists, absl::StrCat("port ", Quoted(name), " exists"),
                     {"PORT_EXISTS", {{"port", name}}});
}

inline absl::Status FdbEntryError(absl::StatusCode code, const std::string& reason,
                                  const std::string& switch_name, bridge::FdbKey key,
                                  const std::string& what) {
  const std::string mac = key.mac.ToString();
  const std::string vlan = key.vid == bridge::kVlanIdNone ? "" : absl::StrCat(" in VLAN ", key.vid);
  return ReasonError(
      code, absl::StrCat(mac, vlan, " of switch ", switch_name, ": ", what),
      {reason, {{"switch", switch_name}, {"vid", absl::StrCat(key.vid)}, {"mac_address", mac}}});
}

inline std::string DownDetail(const DeviceRef& device) {
  if (device.kind == DeviceRef::Kind::kTap) return "the interface was set down in its namespace";
  return absl::StrCat("device ", device.own_ifname(), " is down or has no carrier: set both its ends up");
}

inline std::string GoneDetail(const DeviceRef& device) {
  if (device.kind == DeviceRef::Kind::kTap)
    return "the device was deleted in its namespace, or moved out of it: bring it back, or delete the port "
           "and create it again";
  return absl::StrCat("device ", device.own_ifname(), " is not there: it is attached again when it is back");
}

inline std::string BlockedDetail(const PortStats& stats) {
  const std::string cause = "BPDU guard has taken the port down: it sent a bridge protocol frame; ";
  if (stats.blocked_left_s > 0) return absl::StrCat(cause, "it comes up in ", stats.blocked_left_s, " s");
  return absl::StrCat(cause, "to let it up at once set it down and up (admin_up)");
}

// The status of a layer below, with a reason for programs.
inline absl::Status WithReason(const absl::Status& status, const std::string& reason, const std::string& kind,
                               const std::string& name) {
  return ReasonError(status.code(), absl::StrCat(kind, " ", Quoted(name), ": ", status.message()),
                     {reason, {{kind, name}}});
}

}  // namespace ringswitch::agent
