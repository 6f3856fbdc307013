#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cni-plugin/config.h"
#include "cni-plugin/json.h"
#include "ringswitch/v1/attachment.pb.h"

namespace ringswitch::cni {

// The addresses, routes and name servers of a CNI result, of an IPAM plugin or of a prevResult.
struct AddressResult {
  struct Ip {
    std::string address;  // With prefix length.
    std::string gateway;  // May be empty.
    int64_t interface_index = -1;
  };
  struct Route {
    std::string destination;
    std::string gateway;  // Empty: the gateway of the first address of the same family that has one.
    int64_t mtu = 0;
    int64_t priority = 0;
  };
  std::vector<Ip> ips;
  std::vector<Route> routes;
  Json dns = Json::object();
};

// Any version of the format from 0.3.0 on. kUnsupportedField for attributes of routes that the agent cannot
// set.
absl::StatusOr<AddressResult> ReadAddressResult(const Json& document);

// What the agent is to set: addresses as they come, and routes with their gateways resolved as the reference
// plugins do.
v1::IpConfig ToIpConfig(const AddressResult& result);

// The result of an ADD in the version of the configuration. It lists the pod's interface only: a TAP has no
// host end.
std::string AddResultText(const NetworkConfig& config, const v1::Attachment& attachment,
                          const AddressResult& addresses);

// Puts into `expected`, whose key and netns are set, what prevResult says of the interface; kBadConfig where
// it is missing or does not know the interface.
absl::Status ReadPreviousResult(const NetworkConfig& config, v1::Attachment& expected);

}  // namespace ringswitch::cni
