// ringctl port create|list|show|update|confirm|delete
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ringswitch/v1/port.grpc.pb.h"
#include "server/ringctl/flags.h"
#include "server/ringctl/port_attributes.h"
#include "server/ringctl/port_text.h"
#include "server/ringctl/quantities.h"
#include "server/ringctl/table.h"

namespace ringswitch::ringctl {
namespace {

// In a table a trunk's list is cut here; "port show" has all of it.
constexpr size_t kVlansCellLengthMax = 40;

struct PortFlags {
  PortSelector port;
  std::string switch_name;
  bool tap = false;
  std::string netdev;
  std::string host_stack;
  bool software_offload = false;
  bool veth = false;
  std::string host_ifname;
  std::string confirm_within;
  std::string netns;
  std::string ifname;
  std::string mac_address;
  std::optional<std::uint32_t> mtu;
  std::optional<std::uint32_t> access_vid;
  std::string trunk;
  std::uint32_t native_vid = 0;
  std::optional<std::uint32_t> mac_limit;
  std::string pod;  // The pod that the port is to belong to.
  AttributeFlags attributes;
  bool validate_only = false;
};

void FillPod(const std::string& text, v1::PodReference* pod) {
  const size_t slash = text.find('/');
  pod->set_namespace_(text.substr(0, slash));
  pod->set_name(text.substr(slash + 1));
}

// The settings that can also be changed later. Fills `mask` with the paths of what was given.
void FillSettings(const PortFlags& flags, v1::Port* port, google::protobuf::FieldMask* mask) {
  if (flags.mtu.has_value()) {
    port->set_mtu(*flags.mtu);
    mask->add_paths("mtu");
  }
  if (flags.access_vid.has_value()) {
    port->mutable_vlans()->set_access_vid(*flags.access_vid);
    mask->add_paths("vlans");
  }
  if (!flags.trunk.empty()) {
    v1::Trunk* trunk = port->mutable_vlans()->mutable_trunk();
    FillRanges(flags.trunk, trunk->mutable_tagged());
    trunk->set_native_vid(flags.native_vid);
    mask->add_paths("vlans");
  }
  if (flags.mac_limit.has_value()) {
    port->set_mac_limit(*flags.mac_limit);
    mask->add_paths("mac_limit");
  }
  if (!flags.pod.empty()) {
    FillPod(flags.pod, port->mutable_pod());
    mask->add_paths("pod");
  }
  FillAttributes(flags.attributes, port, mask);
}

std::string Sentence(const std::string& name, const std::string& verb, bool validate_only) {
  return validate_only ? absl::StrCat("port ", name, " would be ", verb, "; nothing was changed")
                       : absl::StrCat("port ", name, " ", verb);
}

// Throws CLI::ValidationError where not exactly one device is given, or half of one.
void FillDevice(const PortFlags& flags, v1::Port* port) {
  if (int{flags.tap} + int{flags.veth} + int{!flags.netdev.empty()} != 1) {
    throw CLI::ValidationError("one of --tap, --netdev IFNAME and --veth is required");
  }
  if (flags.netdev.empty() && flags.ifname.empty()) {
    throw CLI::ValidationError("--ifname NAME is required, the interface in the network namespace");
  }
  if (flags.tap) {
    port->mutable_tap()->set_netns(flags.netns);
    port->mutable_tap()->set_ifname(flags.ifname);
  } else if (flags.veth) {
    port->mutable_veth()->set_netns(flags.netns);
    port->mutable_veth()->set_ifname(flags.ifname);
    port->mutable_veth()->set_host_ifname(flags.host_ifname);
  } else {
    v1::NetdevDevice* netdev = port->mutable_netdev();
    netdev->set_ifname(flags.netdev);
    netdev->set_software_offload(flags.software_offload);
    if (!flags.host_stack.empty()) {
      netdev->set_host_stack(flags.host_stack == "keep" ? v1::HOST_STACK_KEEP : v1::HOST_STACK_DROP);
    }
  }
}

void Create(Session& session, const PortFlags& flags) {
  v1::CreatePortRequest request;
  v1::Port* port = request.mutable_port();
  google::protobuf::FieldMask unused;
  FillSettings(flags, port, &unused);
  port->set_name(flags.port.name);
  port->set_switch_name(flags.switch_name);
  FillDevice(flags, port);
  port->set_mac_address(flags.mac_address);
  request.set_validate_only(flags.validate_only);
  std::string verb = "created";
  if (!flags.confirm_within.empty()) {
    const std::int64_t seconds = ParseSeconds(flags.confirm_within).value();
    request.mutable_confirm_within()->set_seconds(seconds);
    if (!flags.validate_only) {
      absl::StrAppend(&verb, " for ", seconds, " s; to keep it: ringctl port confirm ", flags.port.name);
    }
  }
  v1::CreatePortResponse response;
  if (session.Call(&v1::PortService::Stub::CreatePort, request, &response)) {
    session.Tell(response.port(), Sentence(flags.port.name, verb, flags.validate_only));
  }
}

void List(Session& session, const PortFlags& flags) {
  v1::ListPortsRequest request;
  request.set_switch_name(flags.switch_name);
  request.set_pod(flags.pod);
  v1::ListPortsResponse response;
  if (!session.CallPaged(&v1::PortService::Stub::ListPorts, request, &response)) {
    return;
  }
  Table table(
      {"NAME", "SWITCH", "DEVICE", "MAC", "MTU>", "VLANS", "STATE", "RX>", "TX>", "DROPS>", "POD", "DETAIL"});
  for (const v1::Port& port : response.ports()) {
    const v1::PortCounters& counters = port.status().counters();
    table.AddRow({port.name(), port.switch_name(), DeviceCell(port), port.mac_address(),
                  absl::StrCat(port.mtu()), ShortenList(VlansCell(port), kVlansCellLengthMax),
                  EnumWord(v1::PortState_Name(port.status().state()), "PORT_STATE_"),
                  absl::StrCat(counters.receive_frames()), absl::StrCat(counters.transmit_frames()),
                  absl::StrCat(DropsTotal(port)), PodCell(port), DetailCell(port)});
  }
  session.Show(response, table.ToString());
}

void Show(Session& session, const PortFlags& flags) {
  RequirePort(flags.port, "NAME");
  v1::GetPortRequest request;
  v1::GetPortResponse response;
  if (ResolvePort(session, flags.port, request.mutable_name()) &&
      session.Call(&v1::PortService::Stub::GetPort, request, &response)) {
    session.Show(response.port(), DescribePort(response.port()));
  }
}

void Update(Session& session, const PortFlags& flags) {
  RequirePort(flags.port, "NAME");
  v1::Port unused;
  google::protobuf::FieldMask mask;
  FillSettings(flags, &unused, &mask);
  if (mask.paths().empty()) {
    throw CLI::ValidationError("nothing to change was given");
  }
  v1::UpdatePortRequest request;
  v1::Port* port = request.mutable_port();
  if (!ResolvePort(session, flags.port, port->mutable_name())) {
    return;
  }
  FillSettings(flags, port, request.mutable_update_mask());
  request.set_validate_only(flags.validate_only);
  v1::UpdatePortResponse response;
  if (session.Call(&v1::PortService::Stub::UpdatePort, request, &response)) {
    session.Tell(response.port(), Sentence(request.port().name(), "updated", flags.validate_only));
  }
}

void Confirm(Session& session, const PortFlags& flags) {
  RequirePort(flags.port, "NAME");
  v1::ConfirmPortRequest request;
  v1::ConfirmPortResponse response;
  if (ResolvePort(session, flags.port, request.mutable_name()) &&
      session.Call(&v1::PortService::Stub::ConfirmPort, request, &response)) {
    session.Tell(response.port(), Sentence(request.name(), "confirmed", false));
  }
}

void Delete(Session& session, const PortFlags& flags) {
  RequirePort(flags.port, "NAME");
  v1::DeletePortRequest request;
  request.set_validate_only(flags.validate_only);
  v1::DeletePortResponse response;
  if (ResolvePort(session, flags.port, request.mutable_name()) &&
      session.Call(&v1::PortService::Stub::DeletePort, request, &response)) {
    session.Tell(response, Sentence(request.name(), "deleted", flags.validate_only));
  }
}

void AddSettings(CLI::App* verb, PortFlags* flags) {
  verb->add_option("--mtu", flags->mtu, "MTU of the interface in bytes, 68 to 65521 (usual: 1500)")
      ->check(DecimalNumber())
      ->type_name("BYTES");
  CLI::Option* access =
      verb->add_option("--access", flags->access_vid,
                       "Access port: untagged member of this VLAN only, 1 to 4094 (usual: the "
                       "switch's default VLAN)")
          ->check(DecimalNumber())
          ->type_name("VID");
  CLI::Option* trunk =
      verb->add_option("--trunk", flags->trunk, "Trunk port: tagged member of these VLANs, as 10,20,100-199")
          ->check(VidRanges())
          ->type_name("RANGES")
          ->excludes(access);
  verb->add_option("--native", flags->native_vid,
                   "VLAN of the trunk's untagged frames; 0: they are dropped (usual)")
      ->check(DecimalNumber())
      ->type_name("VID")
      ->needs(trunk);
  verb->add_option("--mac-limit", flags->mac_limit, "Most addresses learned on the port; 0: no limit")
      ->check(DecimalNumber())
      ->type_name("ENTRIES");
  AddAttributeFlags(verb, &flags->attributes);
  AddValidateOnlyFlag(verb, &flags->validate_only);
}

void AddDeviceFlags(CLI::App* create, PortFlags* flags) {
  CLI::Option* tap =
      create->add_flag("--tap", flags->tap, "The device is a TAP that is made in the network namespace");
  CLI::Option* netdev = create
                            ->add_option("--netdev", flags->netdev,
                                         "The device is this one of the host: the end of a veth, a NIC")
                            ->type_name("IFNAME")
                            ->excludes(tap);
  create->add_flag("--veth", flags->veth, "The device is a veth pair, one end made in the network namespace")
      ->excludes(tap)
      ->excludes(netdev);
  create
      ->add_option(
          "--netns", flags->netns,
          "Path of the network namespace: /run/netns/NAME, /proc/PID/ns/net (usual: the agent's own)")
      ->type_name("PATH")
      ->excludes(netdev);
  create->add_option("--ifname", flags->ifname, "Name of the interface there, at most 15 bytes")
      ->type_name("NAME")
      ->excludes(netdev);
  create
      ->add_option("--host-ifname", flags->host_ifname,
                   "Name of the veth's end on the host (usual: rsv and the port's id)")
      ->type_name("NAME")
      ->excludes(tap)
      ->excludes(netdev);
  create
      ->add_option("--host-stack", flags->host_stack,
                   "Whether the host itself hears what the netdev receives (usual: drop)")
      ->check(OneOf({"keep", "drop"}))
      ->type_name("keep|drop")
      ->needs(netdev);
  create
      ->add_flag("--software-offload", flags->software_offload,
                 "Do checksums and segmentation in the switch, for a netdev that cannot")
      ->needs(netdev);
  create
      ->add_option("--confirm-within", flags->confirm_within,
                   "Take a netdev that carries addresses of the node or its default route, and give it back "
                   "unless \"port confirm\" comes in this time, 1s to 1h")
      ->check(ParsedBy(ParseSeconds))
      ->type_name("TIME")
      ->needs(netdev);
}

void AddCreate(CLI::App* noun, Session& session) {
  CLI::App* create = AddVerb(
      noun, "create", "Attach a device to a switch, or make one and attach it",
      "  ringctl port create p1 --switch sw0 --tap --netns /run/netns/h1 --ifname eth0 --access 10\n"
      "  ringctl port create p2 --switch sw0 --netdev veth-p2 --trunk 10,20,100-199 --native 1\n"
      "  ringctl port create p3 --switch sw0 --veth --netns /run/netns/h3 --ifname eth0 --isolated on\n"
      "  ringctl port create p4 --switch sw0 --tap --ifname lan0 --storm-broadcast 1000fps\n"
      "  ringctl port create up0 --switch sw0 --netdev eth1 --confirm-within 60s");
  auto flags = std::make_shared<PortFlags>();
  create->add_option("NAME", flags->port.name, "Name of the port, unique on the node")->required();
  create->add_option("--switch", flags->switch_name, "Switch to attach to")->required()->type_name("NAME");
  AddDeviceFlags(create, flags.get());
  create
      ->add_option("--mac", flags->mac_address,
                   "MAC address of the interface in the namespace (usual: a random one)")
      ->type_name("MAC");
  create->add_option("--pod", flags->pod, "Pod that the port belongs to")
      ->check(PodName())
      ->type_name("NAMESPACE/NAME");
  AddSettings(create, flags.get());
  create->callback([flags, &session] { Create(session, *flags); });
}

}  // namespace

void AddPortCommands(CLI::App* root, Session& session) {
  CLI::App* noun = AddNoun(root, "port", "Ports of switches",
                           "  ringctl port create p1 --switch sw0 --tap --netns /run/netns/h1 --ifname eth0\n"
                           "  ringctl port list --switch sw0\n"
                           "  ringctl port update p1 --access 20 --mtu 9000");
  AddCreate(noun, session);

  CLI::App* list = AddVerb(noun, "list", "List ports",
                           "  ringctl port list --switch sw0\n"
                           "  ringctl port list --pod default/web-0");
  auto list_flags = std::make_shared<PortFlags>();
  list->add_option("--switch", list_flags->switch_name, "Only ports of this switch")->type_name("NAME");
  list->add_option("--pod", list_flags->pod, "Only ports of this pod")
      ->check(PodName())
      ->type_name("NAMESPACE/NAME");
  list->callback([list_flags, &session] { List(session, *list_flags); });

  CLI::App* show = AddVerb(noun, "show", "Show a port: what is not as usual, and all its counters",
                           "  ringctl port show p1\n"
                           "  ringctl port show --pod default/web-0 --output json");
  auto show_flags = std::make_shared<PortFlags>();
  AddPortArgument(show, &show_flags->port);
  show->callback([show_flags, &session] { Show(session, *show_flags); });

  CLI::App* update = AddVerb(noun, "update", "Change what is given, leave the rest",
                             "  ringctl port update p1 --mtu 9000 --bpdu-guard 30s\n"
                             "  ringctl port update p1 --receive-rate 100Mbit --storm-multicast off\n"
                             "  ringctl port update --pod default/web-0 --access 20");
  auto update_flags = std::make_shared<PortFlags>();
  AddPortArgument(update, &update_flags->port);
  AddSettings(update, update_flags.get());
  update->add_option("--set-pod", update_flags->pod, "Pod that the port is to belong to")
      ->check(PodName())
      ->type_name("NAMESPACE/NAME");
  update->callback([update_flags, &session] { Update(session, *update_flags); });

  CLI::App* confirm = AddVerb(noun, "confirm", "Keep a port that was made with --confirm-within",
                              "  ringctl port confirm up0");
  auto confirm_flags = std::make_shared<PortFlags>();
  AddPortArgument(confirm, &confirm_flags->port);
  confirm->callback([confirm_flags, &session] { Confirm(session, *confirm_flags); });

  CLI::App* remove =
      AddVerb(noun, "delete", "Delete a port, its device and its FDB entries", "  ringctl port delete p1");
  auto remove_flags = std::make_shared<PortFlags>();
  AddPortArgument(remove, &remove_flags->port);
  AddValidateOnlyFlag(remove, &remove_flags->validate_only);
  remove->callback([remove_flags, &session] { Delete(session, *remove_flags); });
}

}  // namespace ringswitch::ringctl
