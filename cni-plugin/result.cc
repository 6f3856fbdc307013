#include "cni-plugin/result.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cni-plugin/failure.h"

namespace ringswitch::cni {
namespace {

bool IsIpv6(absl::string_view address) {
  return absl::StrContains(address, ':');
}

absl::Status ReadIps(const Json& document, AddressResult& result) {
  const absl::StatusOr<const Json*> ips = FindList(document, "", "ips");
  if (!ips.ok() || *ips == nullptr) return ips.status();
  for (const Json& item : **ips) {
    AddressResult::Ip ip;
    std::optional<int64_t> index;
    absl::Status status = ReadString(item, "ips[].", "address", ip.address);
    if (status.ok()) status = ReadString(item, "ips[].", "gateway", ip.gateway);
    if (status.ok()) status = ReadInteger(item, "ips[].", "interface", -1, INT32_MAX, index);
    if (!status.ok()) return status;
    if (ip.address.empty()) return Failure(kBadConfig, "ips[].address: must be given");
    ip.interface_index = index.value_or(-1);
    result.ips.push_back(std::move(ip));
  }
  return absl::OkStatus();
}

absl::Status ReadRoutes(const Json& document, AddressResult& result) {
  const absl::StatusOr<const Json*> routes = FindList(document, "", "routes");
  if (!routes.ok() || *routes == nullptr) return routes.status();
  for (const Json& item : **routes) {
    AddressResult::Route route;
    std::optional<int64_t> mtu;
    std::optional<int64_t> priority;
    absl::Status status = ReadString(item, "routes[].", "dst", route.destination);
    if (status.ok()) status = ReadString(item, "routes[].", "gw", route.gateway);
    if (status.ok()) status = ReadInteger(item, "routes[].", "mtu", 0, INT32_MAX, mtu);
    if (status.ok()) status = ReadInteger(item, "routes[].", "priority", 0, INT32_MAX, priority);
    if (!status.ok()) return status;
    if (route.destination.empty()) return Failure(kBadConfig, "routes[].dst: must be given");
    for (const char* key : {"advmss", "table", "scope"}) {
      if (const Json* value = Find(item, key); value != nullptr && *value != 0) {
        return Failure(kUnsupportedField, absl::StrCat("routes[].", key, ": not supported; leave it out"));
      }
    }
    route.mtu = mtu.value_or(0);
    route.priority = priority.value_or(0);
    result.routes.push_back(std::move(route));
  }
  return absl::OkStatus();
}

Json InterfaceJson(const NetworkConfig& config, const v1::Attachment& attachment) {
  Json interface = {{"name", attachment.ifname()}, {"mac", attachment.mac_address()}};
  if (!IsVersionBefore(config.cni_version, "1.1.0")) interface["mtu"] = attachment.mtu();
  interface["sandbox"] = attachment.netns();
  return interface;
}

Json IpJson(const NetworkConfig& config, const AddressResult::Ip& ip) {
  Json json = Json::object();
  if (IsVersionBefore(config.cni_version, "1.0.0")) json["version"] = IsIpv6(ip.address) ? "6" : "4";
  json["interface"] = 0;
  json["address"] = ip.address;
  if (!ip.gateway.empty()) json["gateway"] = ip.gateway;
  return json;
}

Json RouteJson(const NetworkConfig& config, const AddressResult::Route& route) {
  Json json = {{"dst", route.destination}};
  if (!route.gateway.empty()) json["gw"] = route.gateway;
  if (IsVersionBefore(config.cni_version, "1.1.0")) return json;
  if (route.mtu != 0) json["mtu"] = route.mtu;
  if (route.priority != 0) json["priority"] = route.priority;
  return json;
}

}  // namespace

absl::StatusOr<AddressResult> ReadAddressResult(const Json& document) {
  AddressResult result;
  absl::Status status = ReadIps(document, result);
  if (status.ok()) status = ReadRoutes(document, result);
  if (!status.ok()) return status;
  const absl::StatusOr<const Json*> dns = FindObject(document, "", "dns");
  if (!dns.ok()) return dns.status();
  if (*dns != nullptr) result.dns = **dns;
  return result;
}

v1::IpConfig ToIpConfig(const AddressResult& result) {
  v1::IpConfig config;
  std::string gateway4;
  std::string gateway6;
  for (const AddressResult::Ip& ip : result.ips) {
    config.add_addresses()->set_address(ip.address);
    std::string& gateway = IsIpv6(ip.gateway) ? gateway6 : gateway4;
    if (gateway.empty()) gateway = ip.gateway;
  }
  for (const AddressResult::Route& route : result.routes) {
    v1::Route& wanted = *config.add_routes();
    wanted.set_destination(route.destination);
    const std::string& gateway = IsIpv6(route.destination) ? gateway6 : gateway4;
    wanted.set_gateway(route.gateway.empty() ? gateway : route.gateway);
    wanted.set_mtu(route.mtu);
    wanted.set_priority(route.priority);
  }
  return config;
}

std::string AddResultText(const NetworkConfig& config, const v1::Attachment& attachment,
                          const AddressResult& addresses) {
  Json result;
  result["cniVersion"] = config.cni_version;
  result["interfaces"] = Json::array({InterfaceJson(config, attachment)});
  for (const AddressResult::Ip& ip : addresses.ips) result["ips"].push_back(IpJson(config, ip));
  for (const AddressResult::Route& route : addresses.routes) {
    result["routes"].push_back(RouteJson(config, route));
  }
  // Name servers of the configuration go before those of IPAM, as in the reference.
  const Json* dns = Find(config.document, "dns");
  result["dns"] = dns != nullptr && dns->is_object() && !dns->empty() ? *dns : addresses.dns;
  return ToText(result);
}

absl::Status ReadPreviousResult(const NetworkConfig& config, v1::Attachment& expected) {
  const absl::StatusOr<const Json*> previous = FindObject(config.document, "", "prevResult");
  if (!previous.ok()) return previous.status();
  if (*previous == nullptr) return Failure(kBadConfig, "prevResult: must be given");
  const absl::StatusOr<const Json*> interfaces = FindList(**previous, "prevResult.", "interfaces");
  if (!interfaces.ok()) return interfaces.status();
  constexpr int64_t kNone = -1;
  int64_t found = kNone;
  const size_t count = *interfaces == nullptr ? 0 : (*interfaces)->size();
  for (size_t i = 0; i < count && found == kNone; ++i) {
    const Json& item = (**interfaces)[i];
    std::string name;
    std::string sandbox;
    absl::Status status = ReadString(item, "prevResult.interfaces[].", "name", name);
    // Some runtimes lose the sandbox on the way: then the name must do.
    if (status.ok()) status = ReadString(item, "prevResult.interfaces[].", "sandbox", sandbox);
    if (!status.ok()) return status;
    if (name == expected.ifname() && (sandbox.empty() || sandbox == expected.netns())) found = i;
  }
  if (found == kNone) {
    return Failure(kBadConfig, absl::StrCat("prevResult: has no interface ", expected.ifname(), " in ",
                                            expected.netns()));
  }
  std::string mac;
  std::optional<int64_t> mtu;
  absl::Status status = ReadString((**interfaces)[found], "prevResult.interfaces[].", "mac", mac);
  if (status.ok()) {
    status = ReadInteger((**interfaces)[found], "prevResult.interfaces[].", "mtu", 0, UINT32_MAX, mtu);
  }
  if (!status.ok()) return status;
  absl::StatusOr<AddressResult> addresses = ReadAddressResult(**previous);
  if (!addresses.ok()) return addresses.status();
  // Other plugins of the chain may have added interfaces with addresses of their own.
  std::erase_if(addresses->ips, [found](const AddressResult::Ip& ip) {
    return ip.interface_index != kNone && ip.interface_index != found;
  });
  expected.set_mac_address(mac);
  if (mtu.value_or(0) != 0) expected.set_mtu(*mtu);
  *expected.mutable_ip_config() = ToIpConfig(*addresses);
  return absl::OkStatus();
}

}  // namespace ringswitch::cni
