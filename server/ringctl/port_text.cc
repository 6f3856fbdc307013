#include "server/ringctl/port_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/ringctl/port_attributes.h"
#include "server/ringctl/table.h"
#include "server/ringctl/vid_ranges.h"

namespace ringswitch::ringctl {
namespace {

void AddCounters(const v1::PortCounters& counters, Table* table) {
  const auto add = [table](const char* title, std::uint64_t value) {
    table->AddRow({title, absl::StrCat(value)});
  };
  add("received frames:", counters.receive_frames());
  add("received bytes:", counters.receive_bytes());
  add("transmitted frames:", counters.transmit_frames());
  add("transmitted bytes:", counters.transmit_bytes());
  add("flooded broadcast frames:", counters.flooded_broadcast_frames());
  add("flooded multicast frames:", counters.flooded_multicast_frames());
  add("flooded unknown unicast frames:", counters.flooded_unknown_unicast_frames());
  add("flood copies:", counters.flood_copies());
  add("not learned frames:", counters.not_learned_frames());
  add("no buffer events:", counters.receive_no_buffer_events());
}

void AddDeviceRows(const v1::Port& port, Table* table) {
  const auto add = [table](const char* kind, const std::string& netns, const std::string& ifname) {
    table->AddRow({"device:", absl::StrCat(kind, ifname)});
    table->AddRow({"network namespace:", netns.empty() ? "that of the agent" : netns});
  };
  if (port.has_tap()) {
    add("tap ", port.tap().netns(), port.tap().ifname());
  } else if (port.has_veth()) {
    add("veth ", port.veth().netns(), port.veth().ifname());
    table->AddRow({"host interface:", port.veth().host_ifname()});
  } else if (port.has_netdev()) {
    table->AddRow({"device:", absl::StrCat("netdev ", port.netdev().ifname())});
    if (port.netdev().host_stack() == v1::HOST_STACK_KEEP) {
      table->AddRow({"host-stack:", "keep"});
    }
    if (port.netdev().software_offload()) {
      table->AddRow({"software-offload:", "on"});
    }
  }
}

}  // namespace

std::string VlansCell(const v1::Port& port) {
  switch (port.vlans().mode_case()) {
    case v1::VlanMembership::kAccessVid:
      return absl::StrCat("access:", port.vlans().access_vid());
    case v1::VlanMembership::kTrunk: {
      const v1::Trunk& trunk = port.vlans().trunk();
      std::vector<VidRange> ranges;
      for (const v1::VlanRange& range : trunk.tagged()) {
        ranges.push_back({range.first(), range.last()});
      }
      const std::string native =
          trunk.native_vid() != 0 ? absl::StrCat("/native:", trunk.native_vid()) : std::string();
      return absl::StrCat("trunk:", ranges.empty() ? "none" : FormatVidRanges(ranges), native);
    }
    case v1::VlanMembership::MODE_NOT_SET:
      return {};
  }
  return {};
}

std::string DeviceCell(const v1::Port& port) {
  if (port.has_netdev()) {
    return absl::StrCat("netdev:", port.netdev().ifname());
  }
  if (!port.has_tap() && !port.has_veth()) {
    return {};
  }
  const std::string& path = port.has_tap() ? port.tap().netns() : port.veth().netns();
  const std::string& ifname = port.has_tap() ? port.tap().ifname() : port.veth().ifname();
  const absl::string_view netns = absl::StripPrefix(absl::StripPrefix(path, "/var"), "/run/netns/");
  // The agent's own namespace has no path.
  return absl::StrCat(port.has_tap() ? "tap:" : "veth:", netns, netns.empty() ? "" : ":", ifname);
}

std::string PodCell(const v1::Port& port) {
  const v1::PodReference& pod = port.pod();
  if (pod.name().empty()) {
    return {};
  }
  return pod.namespace_().empty() ? pod.name() : absl::StrCat(pod.namespace_(), "/", pod.name());
}

std::string DetailCell(const v1::Port& port) {
  const v1::PortStatus& status = port.status();
  if (!status.has_confirm_time_left()) {
    return status.state_detail();
  }
  return absl::StrCat(status.state_detail(), status.state_detail().empty() ? "" : "; ",
                      "not confirmed: ", status.confirm_time_left().seconds(), "s left");
}

std::uint64_t DropsTotal(const v1::Port& port) {
  std::uint64_t total = 0;
  for (const v1::DropCount& drop : port.status().counters().drops()) {
    total += drop.frames();
  }
  return total;
}

std::string DescribePort(const v1::Port& port) {
  const v1::PortStatus& status = port.status();
  const std::string state = EnumWord(v1::PortState_Name(status.state()), "PORT_STATE_");
  Table table({});
  table.AddRow({"name:", port.name()});
  table.AddRow({"id:", absl::StrCat(port.id())});
  table.AddRow({"switch:", port.switch_name()});
  table.AddRow(
      {"state:", status.state_detail().empty() ? state : absl::StrCat(state, ": ", status.state_detail())});
  if (status.has_confirm_time_left()) {
    table.AddRow(
        {"confirm within:", absl::StrCat(status.confirm_time_left().seconds(),
                                         "s, or it is deleted: ringctl port confirm ", port.name())});
  }
  AddDeviceRows(port, &table);
  table.AddRow({"MAC address:", port.mac_address()});
  table.AddRow({"MTU:", absl::StrCat(port.mtu())});
  table.AddRow({"VLANs:", VlansCell(port)});
  if (port.mac_limit() != 0) {
    table.AddRow({"mac-limit:", absl::StrCat(port.mac_limit())});
  }
  AddAttributeRows(port, &table);
  if (!PodCell(port).empty()) {
    table.AddRow({"pod:", PodCell(port)});
  }
  if (!port.pod().uid().empty()) {
    table.AddRow({"pod UID:", port.pod().uid()});
  }
  if (!port.pod().container_id().empty()) {
    table.AddRow({"container:", port.pod().container_id()});
  }
  table.AddRow({"dynamic FDB entries:", absl::StrCat(status.fdb_dynamic_count())});
  AddCounters(status.counters(), &table);
  if (port.has_netdev() || port.has_veth()) {
    table.AddRow({"lost by the device:", absl::StrCat(status.counters().device_lost_frames())});
  }
  table.AddRow({"dropped frames:", absl::StrCat(DropsTotal(port))});
  for (const v1::DropCount& drop : status.counters().drops()) {
    table.AddRow({absl::StrCat("  ", drop.reason(), ":"), absl::StrCat(drop.frames())});
  }
  return table.ToString();
}

}  // namespace ringswitch::ringctl
