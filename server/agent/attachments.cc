#include "server/agent/attachments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/agent/control_error.h"
#include "server/agent/ip_address.h"

namespace ringswitch::agent {
namespace {

std::string NameOf(const std::string& container_id, const std::string& ifname) {
  return absl::StrCat(container_id, ":", ifname);
}

absl::Status NotAttached(const std::string& name) {
  return ReasonError(absl::StatusCode::kNotFound, absl::StrCat("no attachment ", Quoted(name)),
                     {"ATTACHMENT_NOT_FOUND", {{"attachment", name}}});
}

// One spelling of an address: "FD00::0:1/64" and "fd00::1/64" are the same.
std::string Canonical(const std::string& prefix) {
  absl::StatusOr<IpAddress> address = ParseIpPrefix(prefix);
  return address.ok() ? address->ToString() : prefix;
}

// As Links lists them: "10.0.0.0/8 via 10.0.0.1", "10.1.0.0/16".
std::string CanonicalRoute(const std::string& destination, const std::string& gateway) {
  absl::StatusOr<IpAddress> network = ParseIpPrefix(destination);
  std::string route = network.ok() ? network->Network().ToString() : destination;
  if (gateway.empty()) return route;
  absl::StatusOr<IpAddress> hop = ParseIpAddress(gateway);
  return absl::StrCat(route, " via ", hop.ok() ? hop->AddressText() : gateway);
}

std::string CanonicalRoute(const std::string& listed) {
  size_t via = listed.find(" via ");
  if (via == std::string::npos) return CanonicalRoute(listed, "");
  return CanonicalRoute(listed.substr(0, via), listed.substr(via + 5));
}

bool Holds(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

void CompareIpConfig(const IpSettings& expected, const LinkInfo& info,
                     std::vector<std::string>* differences) {
  std::vector<std::string> addresses;
  for (const std::string& address : info.addresses) addresses.push_back(Canonical(address));
  for (const std::string& address : expected.addresses) {
    if (!Holds(addresses, Canonical(address)))
      differences->push_back(absl::StrCat("address ", address, " is missing"));
  }
  std::vector<std::string> routes;
  for (const std::string& route : info.routes) routes.push_back(CanonicalRoute(route));
  for (const LinkRoute& route : expected.routes) {
    std::string wanted = CanonicalRoute(route.destination, route.gateway);
    if (!Holds(routes, wanted)) differences->push_back(absl::StrCat("route ", wanted, " is missing"));
  }
}

// `expected_spec` is what the request asks for; only what `expected` sets counts.
void CompareSpec(const AttachmentRequest& expected, const PortSpec& expected_spec, const PortSpec& spec,
                 std::vector<std::string>* differences) {
  if (expected.netns != spec.device.link.netns) {
    differences->push_back(absl::StrCat("netns is ", spec.device.link.netns, ", not ", expected.netns));
  }
  if (!expected.switch_name.empty() && expected.switch_name != spec.switch_name) {
    differences->push_back(absl::StrCat("switch is ", spec.switch_name, ", not ", expected.switch_name));
  }
  if (expected.vlans.has_value() && expected_spec.vlans != spec.vlans) differences->push_back("VLANs differ");
}

void CompareLink(const AttachmentRequest& expected, const PortSpec& spec, const LinkInfo& info,
                 std::vector<std::string>* differences) {
  if (!info.is_up) differences->push_back("the interface is down");
  bridge::MacAddress mac =
      expected.mac_address.empty() ? spec.mac : *bridge::MacAddress::Parse(expected.mac_address);
  if (info.mac != mac) {
    differences->push_back(absl::StrCat("MAC address is ", info.mac.ToString(), ", not ", mac.ToString()));
  }
  uint32_t mtu = expected.mtu == 0 ? spec.mtu : expected.mtu;
  if (info.mtu != mtu) differences->push_back(absl::StrCat("MTU is ", info.mtu, ", not ", mtu));
  if (expected.ip_config.has_value()) CompareIpConfig(*expected.ip_config, info, differences);
}

absl::Status Differ(const std::string& name, const std::vector<std::string>& differences) {
  return ReasonError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("attachment ", Quoted(name), ": ", absl::StrJoin(differences, "; ")),
      {"ATTACHMENT_DIFFERS", {{"attachment", name}, {"differences", absl::StrJoin(differences, "; ")}}});
}

}  // namespace

absl::StatusOr<PortView> Attachments::Create(const AttachmentRequest& request) {
  return model_->CreateAttachment(request);
}

absl::StatusOr<PortView> Attachments::Configure(const std::string& container_id, const std::string& ifname,
                                                const IpSettings& ip_config) {
  absl::Status status = Verification::AttachmentKey("", container_id, ifname);
  if (!status.ok()) return status;
  status = Verification::Addresses("", ip_config);
  if (!status.ok()) return status;
  std::string name = NameOf(container_id, ifname);
  absl::StatusOr<PortView> view = model_->EditAttachment(name, [&](PortSpec* spec) -> absl::Status {
    if (!spec->attachment->ip_config.empty()) {
      return ReasonError(absl::StatusCode::kFailedPrecondition,
                         absl::StrCat("attachment ", Quoted(name), " has addresses already"),
                         {"ATTACHMENT_CONFIGURED", {{"attachment", name}}});
    }
    absl::Status configured = links_->Configure(spec->device.link, ip_config.addresses, ip_config.routes);
    if (configured.code() == absl::StatusCode::kInvalidArgument) {
      return FieldError("ip_config", std::string(configured.message()));
    }
    if (!configured.ok()) {
      return ReasonError(configured.code(),
                         absl::StrCat("attachment ", Quoted(name), ": ", configured.message()),
                         {"ADDRESSES_NOT_SET", {{"attachment", name}}});
    }
    spec->attachment->ip_config = ip_config;
    return absl::OkStatus();
  });
  // The neighbours' caches heal by themselves: an announcement that cannot be sent fails no pod.
  if (view.ok()) (void)links_->Announce(view->spec.device.link, ip_config.addresses);
  return view;
}

absl::Status Attachments::Check(const AttachmentRequest& expected) {
  absl::Status status = Verification::AttachmentKey("expected.", expected.container_id, expected.ifname);
  if (!status.ok()) return status;
  if (expected.ip_config.has_value()) {
    status = Verification::Addresses("expected.", *expected.ip_config);
    if (!status.ok()) return status;
  }
  if (!expected.mac_address.empty() && !bridge::MacAddress::Parse(expected.mac_address).has_value()) {
    return FieldError("expected.mac_address",
                      absl::StrCat(Quoted(expected.mac_address), " is not a MAC address"));
  }
  std::string name = NameOf(expected.container_id, expected.ifname);
  absl::StatusOr<PortView> view = model_->GetPort(name);
  if (!view.ok() || !view->spec.attachment.has_value()) return NotAttached(name);
  absl::StatusOr<SwitchView> on = model_->GetSwitch(view->spec.switch_name);
  if (!on.ok()) return NotAttached(name);

  absl::StatusOr<PortSpec> expected_spec = view->spec;
  if (expected.vlans.has_value()) {
    PortUpdate update;
    update.vlans = expected.vlans;
    absl::StatusOr<Verified<PortSpec>> verified = Verification::ChangedPort(view->spec, update, on->spec);
    if (!verified.ok()) return verified.status();
    expected_spec = **verified;
  }
  std::vector<std::string> differences;
  CompareSpec(expected, *expected_spec, view->spec, &differences);
  if (view->state == PortState::kMissing) differences.push_back(view->state_detail);
  absl::StatusOr<LinkInfo> info = links_->GetLink(view->spec.device.link);
  if (info.ok()) {
    CompareLink(expected, view->spec, *info, &differences);
  } else {
    differences.push_back(std::string(info.status().message()));
  }
  return differences.empty() ? absl::OkStatus() : Differ(name, differences);
}

absl::Status Attachments::Delete(const std::string& container_id, const std::string& ifname) {
  absl::Status status = Verification::AttachmentKey("", container_id, ifname);
  if (!status.ok()) return status;
  status = model_->DeletePort(NameOf(container_id, ifname), false);
  return status.code() == absl::StatusCode::kNotFound ? absl::OkStatus() : status;
}

}  // namespace ringswitch::agent
