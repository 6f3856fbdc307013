#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cni-plugin/config.h"
#include "cni-plugin/invocation.h"

namespace ringswitch::cni {

// Delegation to the IPAM plugin of the configuration, by the rules of the specification: found in CNI_PATH,
// run with our own environment and the configuration as it came, for the same verb. Its error object becomes
// our error.
class Ipam {
 public:
  // Both must outlive this.
  Ipam(const NetworkConfig& config, const Invocation& invocation)
      : config_(config), invocation_(invocation) {}

  // Whether there is a plugin to ask.
  bool is_configured() const { return !config_.ipam_type.empty(); }

  // What it printed. An IPAM plugin that knows no cniVersion 1.1.0 is asked again in 1.0.0, whose results
  // mean the same: distributions ship such ones beside runtimes that speak 1.1.0.
  absl::StatusOr<std::string> Run(absl::Duration timeout) const;

  // Run under another CNI_COMMAND, for taking back.
  absl::StatusOr<std::string> RunAs(const char* command, absl::Duration timeout) const;

  // Gives back what another container's interface has. Repeats are harmless.
  absl::Status Release(const std::string& container_id, const std::string& ifname,
                       absl::Duration timeout) const;

  // Run for STATUS and GC, if the plugin speaks 1.1.0. It is asked for its versions first: one from before
  // takes the verbs for something else and answers with any error.
  absl::Status RunIfKnown(absl::Duration timeout) const;

 private:
  absl::StatusOr<std::string> FindPlugin() const;
  absl::StatusOr<std::string> RunOnce(const std::string& path, absl::string_view input,
                                      absl::Duration timeout) const;

  const NetworkConfig& config_;
  const Invocation& invocation_;
};

}  // namespace ringswitch::cni
