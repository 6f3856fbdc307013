#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ringswitch::cni {

enum class Verb { kAdd, kDel, kCheck, kStatus, kGc, kVersion };

// What the runtime put in the environment.
struct Invocation {
  Verb verb = Verb::kVersion;
  std::string container_id;
  std::string ifname;
  std::string netns;
  std::string args;
  std::string path;
};

// Reads and checks the CNI_* variables; kBadEnvironment names all that the verb needs and that are missing.
absl::StatusOr<Invocation> ReadInvocation();

// What we use of CNI_ARGS.
struct CniArgs {
  std::string pod_namespace;
  std::string pod_name;
  std::string pod_uid;
  std::string mac_address;
};

// "K=V;K=V", in any order. As the reference: an unknown key is an error unless IgnoreUnknown is true. IP and
// GATEWAY, which IPAM plugins read, are known.
absl::StatusOr<CniArgs> ParseCniArgs(absl::string_view text);

}  // namespace ringswitch::cni
