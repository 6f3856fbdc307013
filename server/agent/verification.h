#pragma once

// Verification: the only maker of Verified values, which the model's Apply functions demand. It looks at
// every field of a request and reports all that is wrong at once. It asks nothing of the system.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/agent/control_error.h"
#include "server/agent/desired_state.h"

namespace ringswitch::agent {

// A value that was verified. Copies stay verified; there is no way to change one.
template <typename Spec>
class Verified {
 public:
  const Spec& operator*() const { return spec_; }
  const Spec* operator->() const { return &spec_; }

 private:
  friend class Verification;
  explicit Verified(Spec spec) : spec_(std::move(spec)) {}
  Spec spec_;
};

// How the fields of a port are called in the request at hand: those of a Port and of an Attachment lie in
// different places.
struct PortFieldPaths {
  std::string fields;  // "port."
  std::string device;  // "port.tap."
  static PortFieldPaths Of(DeviceRequest::Kind kind);
  static PortFieldPaths Of(DeviceRef::Kind kind);
};

class Verification {
 public:
  // UNIMPLEMENTED for macvlan mode.
  static absl::StatusOr<Verified<SwitchSpec>> NewSwitch(const SwitchRequest& request);
  static absl::StatusOr<Verified<SwitchSpec>> ChangedSwitch(const SwitchSpec& present,
                                                            const SwitchUpdate& update);

  // `on` is the switch that the request names, or null where there is none; that is the caller's error to
  // report, after those of the fields. An empty MAC address stays zero: the model picks one.
  static absl::StatusOr<Verified<PortSpec>> NewPort(const PortRequest& request, const SwitchSpec* on);
  static absl::StatusOr<Verified<PortSpec>> NewAttachment(const AttachmentRequest& request,
                                                          const SwitchSpec* on);
  static absl::StatusOr<Verified<PortSpec>> ChangedPort(const PortSpec& present, const PortUpdate& update,
                                                        const SwitchSpec& on);
  // `add` or remove the ranges of a trunk.
  static absl::StatusOr<Verified<PortSpec>> ChangedTrunk(const PortSpec& present,
                                                         const std::vector<VlanRange>& ranges, bool add);

  // The (MAC address, VID) of an FDB request; VID 0 is the default VLAN where the switch is VLAN-aware.
  static absl::StatusOr<bridge::FdbKey> FdbKeyOf(const std::string& prefix, uint32_t vid,
                                                 const std::string& mac_address, const SwitchSpec& on);
  static absl::StatusOr<bridge::VlanSet> Vlans(const std::string& field,
                                               const std::vector<VlanRange>& ranges);
  static absl::Status AttachmentKey(const std::string& prefix, const std::string& container_id,
                                    const std::string& ifname);
  static absl::Status Addresses(const std::string& prefix, const IpSettings& ip_config);
};

}  // namespace ringswitch::agent
