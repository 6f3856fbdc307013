#include "server/ringctl/port_attributes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/ringctl/flags.h"
#include "server/ringctl/quantities.h"

namespace ringswitch::ringctl {
namespace {

// An attribute that is on or off.
struct Toggle {
  const char* name;  // Of the flag, without dashes.
  const char* path;  // Within v1::Port.
  const char* description;
  bool usual;
  bool (v1::Port::*get)() const;
  void (v1::Port::*set)(bool);
};

constexpr Toggle kToggles[kToggleCount] = {
    {"learning", "learning", "Learn addresses from frames that come in here (usual: on)", true,
     &v1::Port::learning, &v1::Port::set_learning},
    {"flood-unknown-unicast", "flood_unknown_unicast",
     "Frames to unknown addresses may leave here (usual: on)", true, &v1::Port::flood_unknown_unicast,
     &v1::Port::set_flood_unknown_unicast},
    {"flood-multicast", "flood_multicast", "Multicast may leave here (usual: on)", true,
     &v1::Port::flood_multicast, &v1::Port::set_flood_multicast},
    {"flood-broadcast", "flood_broadcast", "Broadcast may leave here (usual: on)", true,
     &v1::Port::flood_broadcast, &v1::Port::set_flood_broadcast},
    {"isolated", "isolated", "No frames between this port and other isolated ones (usual: off)", false,
     &v1::Port::isolated, &v1::Port::set_isolated},
    {"hairpin", "hairpin", "Frames may leave by the port they came in by (usual: off)", false,
     &v1::Port::hairpin, &v1::Port::set_hairpin},
    {"locked", "locked", "Only addresses that have an FDB entry here may send (usual: off)", false,
     &v1::Port::locked, &v1::Port::set_locked},
    {"ra-guard", "router_advertisement_guard", "Drop router advertisements that come in here (usual: off)",
     false, &v1::Port::router_advertisement_guard, &v1::Port::set_router_advertisement_guard},
    {"dhcp-guard", "dhcp_server_guard", "Drop DHCP server messages that come in here (usual: off)", false,
     &v1::Port::dhcp_server_guard, &v1::Port::set_dhcp_server_guard},
};

constexpr char kNone[] = "none";  // Empties a list.

// "mac", "address", both, or "off".
CLI::Validator SourceGuardText() {
  return CLI::Validator(
      [](std::string& text) {
        const bool is_good = text == "off" || text == "mac" || text == "address" || text == "mac,address" ||
                             text == "address,mac";
        return is_good ? std::string()
                       : absl::StrCat("\"", text, "\" is none of mac, address, mac,address and off");
      },
      "", "source guard");
}

CLI::Option* AddText(CLI::App* verb, const std::string& flag, std::string* text, const std::string& type,
                     const std::string& description) {
  return verb->add_option(flag, *text, description)->type_name(type);
}

void FillLimit(const std::string& text, const char* path, v1::StormLimit* (v1::StormControl::*limit)(),
               v1::Port* port, google::protobuf::FieldMask* mask) {
  if (text.empty()) {
    return;
  }
  mask->add_paths(path);
  const Rate rate = ParseStormRate(text).value();
  if (rate == Rate()) {
    return;
  }
  v1::StormLimit* one = (port->mutable_storm_control()->*limit)();
  one->set_frames_per_second(rate.frames_per_second);
  one->set_burst_frames(rate.burst_frames);
  one->set_bits_per_second(rate.bits_per_second);
  one->set_burst_bytes(rate.burst_bytes);
}

void FillRate(const std::string& text, const char* path, v1::RateLimit* (v1::Port::*limit)(), v1::Port* port,
              google::protobuf::FieldMask* mask) {
  if (text.empty()) {
    return;
  }
  mask->add_paths(path);
  const Rate rate = ParseBitRate(text).value();
  if (rate != Rate()) {
    (port->*limit)()->set_bits_per_second(rate.bits_per_second);
    (port->*limit)()->set_burst_bytes(rate.burst_bytes);
  }
}

void FillList(const std::vector<std::string>& words, const char* path,
              google::protobuf::RepeatedPtrField<std::string>* (v1::SourceGuard::*list)(), v1::Port* port,
              google::protobuf::FieldMask* mask) {
  if (words.empty()) {
    return;
  }
  mask->add_paths(path);
  for (const std::string& word : words) {
    if (word != kNone) {
      *(port->mutable_source_guard()->*list)()->Add() = word;
    }
  }
}

void FillSourceGuard(const AttributeFlags& flags, v1::Port* port, google::protobuf::FieldMask* mask) {
  if (!flags.source_guard.empty()) {
    const std::vector<std::string> words = absl::StrSplit(flags.source_guard, ',');
    const auto has = [&words](const char* word) {
      return std::find(words.begin(), words.end(), word) != words.end();
    };
    port->mutable_source_guard()->set_mac(has("mac"));
    port->mutable_source_guard()->set_address(has("address"));
    mask->add_paths("source_guard.mac");
    mask->add_paths("source_guard.address");
    // A list means nothing without its half of the guard.
    if (!has("mac")) {
      mask->add_paths("source_guard.mac_addresses");
    }
    if (!has("address")) {
      mask->add_paths("source_guard.ip_addresses");
    }
  }
  FillList(flags.allow_mac, "source_guard.mac_addresses", &v1::SourceGuard::mutable_mac_addresses, port,
           mask);
  FillList(flags.allow_ip, "source_guard.ip_addresses", &v1::SourceGuard::mutable_ip_addresses, port, mask);
}

void FillBpduGuard(const AttributeFlags& flags, v1::Port* port, google::protobuf::FieldMask* mask) {
  if (flags.bpdu_guard.empty()) {
    return;
  }
  mask->add_paths("bpdu_guard");
  const BpduGuardText guard = ParseBpduGuard(flags.bpdu_guard).value();
  if (guard.enabled) {
    port->mutable_bpdu_guard()->set_enabled(true);
  }
  if (guard.recovery_s != 0) {
    port->mutable_bpdu_guard()->mutable_recovery_time()->set_seconds(guard.recovery_s);
  }
}

Rate RateOf(const v1::StormLimit& limit) {
  return {limit.frames_per_second(), limit.burst_frames(), limit.bits_per_second(), limit.burst_bytes()};
}
Rate RateOf(const v1::RateLimit& limit) {
  return {0, 0, limit.bits_per_second(), limit.burst_bytes()};
}

void AddRateRow(const char* title, const Rate& rate, Table* table) {
  if (rate.frames_per_second != 0 || rate.bits_per_second != 0) {
    table->AddRow({title, FormatRate(rate)});
  }
}

void AddSourceGuardRows(const v1::SourceGuard& guard, Table* table) {
  if (guard.mac() || guard.address()) {
    const char* separator = guard.mac() && guard.address() ? "," : "";
    table->AddRow({"source-guard:",
                   absl::StrCat(guard.mac() ? "mac" : "", separator, guard.address() ? "address" : "")});
  }
  if (!guard.mac_addresses().empty()) {
    table->AddRow({"allow-mac:", absl::StrJoin(guard.mac_addresses(), ",")});
  }
  if (!guard.ip_addresses().empty()) {
    table->AddRow({"allow-ip:", absl::StrJoin(guard.ip_addresses(), ",")});
  }
}

}  // namespace

void AddAttributeFlags(CLI::App* verb, AttributeFlags* flags) {
  CLI::Option* up = verb->add_flag_callback(
      "--up", [flags] { flags->admin_up = true; }, "Let frames in and out (usual)");
  verb->add_flag_callback(
          "--down", [flags] { flags->admin_up = false; }, "Let nothing in or out, forget learned addresses")
      ->excludes(up);
  for (size_t i = 0; i < kToggleCount; ++i) {
    AddText(verb, absl::StrCat("--", kToggles[i].name), &flags->toggles[i], "on|off", kToggles[i].description)
        ->check(OnOrOff());
  }
  AddText(verb, "--bpdu-guard", &flags->bpdu_guard, "on|off|SECONDS",
          "Take the port down when it sends bridge protocol frames, for good or for a time (usual: off)")
      ->check(ParsedBy(ParseBpduGuard));
  AddText(verb, "--storm-broadcast", &flags->storm_broadcast, "RATE",
          "Most broadcast that the port may flood: 1000fps, 10Mbit, both with ',', bursts as "
          "1000fps:200,10Mbit:64KiB, or off (usual)")
      ->check(ParsedBy(ParseStormRate));
  AddText(verb, "--storm-multicast", &flags->storm_multicast, "RATE", "Most multicast, likewise")
      ->check(ParsedBy(ParseStormRate));
  AddText(verb, "--storm-unknown-unicast", &flags->storm_unknown_unicast, "RATE",
          "Most frames to unknown addresses, likewise")
      ->check(ParsedBy(ParseStormRate));
  AddText(verb, "--receive-rate", &flags->receive_rate, "RATE",
          "Most that is taken from the device: 100Mbit, with a burst 100Mbit:64KiB, or off (usual)")
      ->check(ParsedBy(ParseBitRate));
  AddText(verb, "--transmit-rate", &flags->transmit_rate, "RATE", "Most that is given to it, likewise")
      ->check(ParsedBy(ParseBitRate));
  AddText(verb, "--source-guard", &flags->source_guard, "WHAT",
          "Drop frames from other senders: by mac, by IP address, by mac,address, or off (usual)")
      ->check(SourceGuardText());
  verb->add_option("--allow-mac", flags->allow_mac,
                   "More MAC addresses that source guard lets in, with ',' between them, or none")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("MACS");
  verb->add_option("--allow-ip", flags->allow_ip,
                   "More IP addresses that source guard lets in, with ',' between them, or none")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("IPS");
}

void FillAttributes(const AttributeFlags& flags, v1::Port* port, google::protobuf::FieldMask* mask) {
  if (flags.admin_up.has_value()) {
    port->set_admin_up(*flags.admin_up);
    mask->add_paths("admin_up");
  }
  for (size_t i = 0; i < kToggleCount; ++i) {
    if (!flags.toggles[i].empty()) {
      (port->*kToggles[i].set)(flags.toggles[i] == "on");
      mask->add_paths(kToggles[i].path);
    }
  }
  FillBpduGuard(flags, port, mask);
  FillLimit(flags.storm_broadcast, "storm_control.broadcast", &v1::StormControl::mutable_broadcast, port,
            mask);
  FillLimit(flags.storm_multicast, "storm_control.multicast", &v1::StormControl::mutable_multicast, port,
            mask);
  FillLimit(flags.storm_unknown_unicast, "storm_control.unknown_unicast",
            &v1::StormControl::mutable_unknown_unicast, port, mask);
  FillRate(flags.receive_rate, "receive_rate", &v1::Port::mutable_receive_rate, port, mask);
  FillRate(flags.transmit_rate, "transmit_rate", &v1::Port::mutable_transmit_rate, port, mask);
  FillSourceGuard(flags, port, mask);
}

void AddAttributeRows(const v1::Port& port, Table* table) {
  for (const Toggle& toggle : kToggles) {
    const bool value = (port.*toggle.get)();
    if (value != toggle.usual) {
      table->AddRow({absl::StrCat(toggle.name, ":"), value ? "on" : "off"});
    }
  }
  if (port.bpdu_guard().enabled()) {
    table->AddRow({"bpdu-guard:", FormatBpduGuard({true, port.bpdu_guard().recovery_time().seconds()})});
  }
  AddRateRow("storm-broadcast:", RateOf(port.storm_control().broadcast()), table);
  AddRateRow("storm-multicast:", RateOf(port.storm_control().multicast()), table);
  AddRateRow("storm-unknown-unicast:", RateOf(port.storm_control().unknown_unicast()), table);
  AddRateRow("receive-rate:", RateOf(port.receive_rate()), table);
  AddRateRow("transmit-rate:", RateOf(port.transmit_rate()), table);
  AddSourceGuardRows(port.source_guard(), table);
}

}  // namespace ringswitch::ringctl
