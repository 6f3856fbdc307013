// ringctl fdb list|show|update|delete|flush; add has a file of its own.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ringswitch/v1/fdb.grpc.pb.h"
#include "ringswitch/v1/switch.grpc.pb.h"
#include "server/ringctl/flags.h"
#include "server/ringctl/table.h"

namespace ringswitch::ringctl {
namespace {

struct FdbFlags {
  std::string switch_name;
  std::optional<std::uint32_t> vid;
  std::string mac_address;
  PortSelector port;
  std::string kind;
  bool validate_only = false;
};

v1::FdbEntryKind KindOf(const FdbFlags& flags) {
  if (flags.kind == "static") {
    return v1::FDB_ENTRY_KIND_STATIC;
  }
  return flags.kind == "dynamic" ? v1::FDB_ENTRY_KIND_DYNAMIC : v1::FDB_ENTRY_KIND_UNSPECIFIED;
}

std::string KindCell(const v1::FdbEntry& entry) {
  return EnumWord(v1::FdbEntryKind_Name(entry.kind()), "FDB_ENTRY_KIND_");
}

std::string AgeCell(const v1::FdbEntry& entry) {
  return entry.has_age() ? absl::StrCat(entry.age().seconds(), "s") : std::string();
}

std::string Sentence(const v1::FdbEntry& entry, const std::string& verb, bool validate_only) {
  const std::string vlan = entry.vid() != 0 ? absl::StrCat(" in VLAN ", entry.vid()) : std::string();
  return absl::StrCat("FDB entry ", entry.mac_address(), vlan, " of switch ", entry.switch_name(),
                      validate_only ? " would be " : " ", verb, validate_only ? "; nothing was changed" : "");
}

void Update(Session& session, const FdbFlags& flags) {
  RequirePort(flags.port, "--port NAME");
  v1::UpdateFdbEntryRequest request;
  v1::FdbEntry* entry = request.mutable_entry();
  entry->set_switch_name(flags.switch_name);
  entry->set_vid(flags.vid.value_or(0));
  entry->set_mac_address(flags.mac_address);
  request.set_validate_only(flags.validate_only);
  v1::UpdateFdbEntryResponse response;
  if (ResolvePortAndSwitch(session, flags.port, entry->mutable_port_name(), entry->mutable_switch_name()) &&
      session.Call(&v1::FdbService::Stub::UpdateFdbEntry, request, &response)) {
    session.Tell(response.entry(), Sentence(response.entry(), "updated", flags.validate_only));
  }
}

bool ListSwitchNames(Session& session, std::vector<std::string>* names) {
  v1::ListSwitchesResponse response;
  if (!session.CallPaged(&v1::SwitchService::Stub::ListSwitches, v1::ListSwitchesRequest(), &response)) {
    return false;
  }
  for (const v1::Switch& one : response.switches()) {
    names->push_back(one.name());
  }
  return true;
}

void List(Session& session, const FdbFlags& flags) {
  v1::ListFdbEntriesRequest request;
  request.set_kind(KindOf(flags));
  if (flags.vid.has_value()) {
    request.set_vid(*flags.vid);
  }
  std::string switch_name = flags.switch_name;
  if (!ResolvePortAndSwitch(session, flags.port, request.mutable_port_name(), &switch_name)) {
    return;
  }
  std::vector<std::string> switches;
  if (!switch_name.empty()) {
    switches.push_back(switch_name);
  } else if (!ListSwitchNames(session, &switches)) {
    return;
  }
  v1::ListFdbEntriesResponse response;
  for (const std::string& name : switches) {
    request.set_switch_name(name);
    if (!session.CallPaged(&v1::FdbService::Stub::ListFdbEntries, request, &response)) {
      return;
    }
  }
  Table table({"SWITCH", "VLAN>", "MAC", "PORT", "KIND", "AGE>"});
  for (const v1::FdbEntry& entry : response.entries()) {
    table.AddRow({entry.switch_name(), entry.vid() != 0 ? absl::StrCat(entry.vid()) : "", entry.mac_address(),
                  entry.port_name(), KindCell(entry), AgeCell(entry)});
  }
  session.Show(response, table.ToString());
}

void Show(Session& session, const FdbFlags& flags) {
  v1::GetFdbEntryRequest request;
  request.set_switch_name(flags.switch_name);
  request.set_vid(flags.vid.value_or(0));
  request.set_mac_address(flags.mac_address);
  v1::GetFdbEntryResponse response;
  if (!session.Call(&v1::FdbService::Stub::GetFdbEntry, request, &response)) {
    return;
  }
  const v1::FdbEntry& entry = response.entry();
  Table table({});
  table.AddRow({"switch:", entry.switch_name()});
  table.AddRow({"VLAN:", entry.vid() != 0 ? absl::StrCat(entry.vid()) : ""});
  table.AddRow({"MAC address:", entry.mac_address()});
  table.AddRow({"port:", entry.port_name()});
  table.AddRow({"kind:", KindCell(entry)});
  table.AddRow({"age:", AgeCell(entry)});
  session.Show(entry, table.ToString());
}

void Delete(Session& session, const FdbFlags& flags) {
  v1::DeleteFdbEntryRequest request;
  request.set_switch_name(flags.switch_name);
  request.set_vid(flags.vid.value_or(0));
  request.set_mac_address(flags.mac_address);
  v1::DeleteFdbEntryResponse response;
  if (session.Call(&v1::FdbService::Stub::DeleteFdbEntry, request, &response)) {
    v1::FdbEntry entry;
    entry.set_switch_name(request.switch_name());
    entry.set_vid(request.vid());
    entry.set_mac_address(request.mac_address());
    session.Tell(response, Sentence(entry, "deleted", false));
  }
}

void Flush(Session& session, const FdbFlags& flags) {
  if (flags.switch_name.empty() && flags.port.empty()) {
    throw CLI::ValidationError("--switch NAME, --port NAME or --pod NAMESPACE/NAME is required");
  }
  v1::FlushFdbRequest request;
  request.set_switch_name(flags.switch_name);
  request.set_kind(KindOf(flags));
  if (flags.vid.has_value()) {
    request.set_vid(*flags.vid);
  }
  v1::FlushFdbResponse response;
  if (ResolvePortAndSwitch(session, flags.port, request.mutable_port_name(), request.mutable_switch_name()) &&
      session.Call(&v1::FdbService::Stub::FlushFdb, request, &response)) {
    session.Tell(response, absl::StrCat("FDB entries flushed: ", response.flushed_count()));
  }
}

// --switch, --vlan and --mac, which say which entry. The switch may be left out where a port tells it.
void AddKeyFlags(CLI::App* verb, FdbFlags* flags, bool switch_required) {
  verb->add_option("--switch", flags->switch_name,
                   switch_required ? "The switch" : "The switch (usual: that of the port)")
      ->required(switch_required)
      ->type_name("NAME");
  verb->add_option("--vlan", flags->vid, "The VLAN, 1 to 4094 (usual: the switch's default VLAN)")
      ->check(DecimalNumber())
      ->type_name("VID");
  verb->add_option("--mac", flags->mac_address, "The unicast MAC address")->required()->type_name("MAC");
}

void AddFilterFlags(CLI::App* verb, FdbFlags* flags, const std::string& kind_description) {
  verb->add_option("--switch", flags->switch_name, "Only entries of this switch")->type_name("NAME");
  AddPortFlag(verb, &flags->port, "Only entries of this port");
  verb->add_option("--vlan", flags->vid, "Only entries of this VLAN")
      ->check(DecimalNumber())
      ->type_name("VID");
  verb->add_option("--kind", flags->kind, kind_description)
      ->check(OneOf({"dynamic", "static"}))
      ->type_name("dynamic|static");
}

void AddChanges(CLI::App* noun, Session& session) {
  CLI::App* update = AddVerb(noun, "update", "Move an entry to a port and make it static",
                             "  ringctl fdb update --switch sw0 --vlan 10 --mac 02:00:00:00:0a:01 --port p2");
  auto update_flags = std::make_shared<FdbFlags>();
  AddKeyFlags(update, update_flags.get(), false);
  AddPortFlag(update, &update_flags->port, "The port behind which the address is now");
  AddValidateOnlyFlag(update, &update_flags->validate_only);
  update->callback([update_flags, &session] { Update(session, *update_flags); });

  CLI::App* remove = AddVerb(noun, "delete", "Delete an entry of any kind",
                             "  ringctl fdb delete --switch sw0 --vlan 10 --mac 02:00:00:00:0a:01");
  auto remove_flags = std::make_shared<FdbFlags>();
  AddKeyFlags(remove, remove_flags.get(), true);
  remove->callback([remove_flags, &session] { Delete(session, *remove_flags); });

  CLI::App* flush = AddVerb(noun, "flush", "Delete all entries that match",
                            "  ringctl fdb flush --switch sw0\n"
                            "  ringctl fdb flush --port p1 --vlan 10 --kind static\n"
                            "  ringctl fdb flush --pod default/web-0");
  auto flush_flags = std::make_shared<FdbFlags>();
  AddFilterFlags(flush, flush_flags.get(), "Only entries of this kind (usual: dynamic)");
  flush->callback([flush_flags, &session] { Flush(session, *flush_flags); });
}

}  // namespace

void AddFdbCommands(CLI::App* root, Session& session) {
  CLI::App* noun = AddNoun(root, "fdb", "Forwarding databases: which address is behind which port",
                           "  ringctl fdb list --switch sw0 --output json\n"
                           "  ringctl fdb add --switch sw0 --vlan 10 --mac 02:00:00:00:0a:01 --port p1\n"
                           "  ringctl fdb flush --port p1");

  CLI::App* list = AddVerb(noun, "list", "List entries, of all switches unless one is named",
                           "  ringctl fdb list --switch sw0 --output json\n"
                           "  ringctl fdb list --pod default/web-0 --kind dynamic");
  auto list_flags = std::make_shared<FdbFlags>();
  AddFilterFlags(list, list_flags.get(), "Only entries of this kind (usual: any)");
  list->callback([list_flags, &session] { List(session, *list_flags); });

  CLI::App* show = AddVerb(noun, "show", "Show an entry",
                           "  ringctl fdb show --switch sw0 --vlan 10 --mac 02:00:00:00:0a:01");
  auto show_flags = std::make_shared<FdbFlags>();
  AddKeyFlags(show, show_flags.get(), true);
  show->callback([show_flags, &session] { Show(session, *show_flags); });

  AddFdbAddCommand(noun, session);
  AddChanges(noun, session);
}

}  // namespace ringswitch::ringctl
