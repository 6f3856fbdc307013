// ringctl switch create|list|show|update|delete
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ringswitch/v1/switch.grpc.pb.h"
#include "server/ringctl/flags.h"
#include "server/ringctl/quantities.h"
#include "server/ringctl/table.h"

namespace ringswitch::ringctl {
namespace {

CLI::Validator GroupMask() {
  return CLI::Validator(
      [](std::string& text) {
        uint32_t mask = 0;
        const bool is_mask =
            absl::StartsWith(text, "0x") ? absl::SimpleHexAtoi(text, &mask) : absl::SimpleAtoi(text, &mask);
        return is_mask && mask <= 0xffff ? std::string()
                                         : absl::StrCat("\"", text, "\" is no mask of 16 bits; write 0x4000");
      },
      "", "mask");
}

struct SwitchFlags {
  std::string name;
  std::string mode;
  std::optional<bool> vlan_aware;
  std::optional<std::uint32_t> default_vid;
  std::string ageing_time;
  std::optional<std::uint32_t> fdb_capacity;
  std::optional<std::uint32_t> group_forward_mask;
  std::string vlan_counters;
  std::string flap_guard;
  bool validate_only = false;
};

std::string AgeingCell(const v1::Switch& one) {
  return FormatAgeingTime({one.ageing_disabled(), one.ageing_time().seconds()});
}

std::string ModeCell(const v1::Switch& one) {
  return EnumWord(v1::SwitchMode_Name(one.mode()), "SWITCH_MODE_");
}

std::string MaskCell(const v1::Switch& one) {
  return absl::StrCat("0x", absl::Hex(one.group_forward_mask(), absl::kZeroPad4));
}

std::uint64_t MovesTotal(const v1::Switch& one) {
  std::uint64_t total = 0;
  for (const v1::PortMoves& pair : one.status().moves()) {
    total += pair.moves();
  }
  return total;
}

std::string DescribeSwitch(const v1::Switch& one) {
  const v1::SwitchStatus& status = one.status();
  Table table({});
  table.AddRow({"name:", one.name()});
  table.AddRow({"id:", absl::StrCat(one.id())});
  table.AddRow({"mode:", ModeCell(one)});
  table.AddRow({"VLAN-aware:", one.vlan_aware() ? "yes" : "no"});
  table.AddRow({"default VID:", absl::StrCat(one.default_vid())});
  table.AddRow({"ageing time:", AgeingCell(one)});
  table.AddRow({"group forward mask:", MaskCell(one)});
  if (one.vlan_counters()) {
    table.AddRow({"vlan-counters:", "on"});
  }
  if (one.has_flap_guard()) {
    table.AddRow(
        {"flap-guard:", FormatFlapGuard({one.flap_guard().moves(), one.flap_guard().hold_time().seconds()})});
  }
  table.AddRow({"ports:", absl::StrCat(status.port_count())});
  table.AddRow({"FDB capacity:", absl::StrCat(one.fdb_capacity())});
  table.AddRow({"dynamic FDB entries:", absl::StrCat(status.fdb_dynamic_count())});
  table.AddRow({"static FDB entries:", absl::StrCat(status.fdb_static_count())});
  table.AddRow({"received frames:", absl::StrCat(status.receive_frames())});
  table.AddRow({"transmitted frames:", absl::StrCat(status.transmit_frames())});
  table.AddRow({"flooded frames:", absl::StrCat(status.flooded_frames())});
  table.AddRow({"flood copies:", absl::StrCat(status.flood_copies())});
  table.AddRow({"dropped frames:", absl::StrCat(status.dropped_frames())});
  if (one.has_flap_guard()) {
    table.AddRow({"held addresses:", absl::StrCat(status.held_addresses())});
  }
  table.AddRow({"moved addresses:", absl::StrCat(MovesTotal(one))});
  for (const v1::PortMoves& pair : status.moves()) {
    table.AddRow(
        {absl::StrCat("  ", pair.from_port(), " to ", pair.to_port(), ":"), absl::StrCat(pair.moves())});
  }
  return table.ToString();
}

// Fills `mask` with the paths of what was given, except those that can only be given at creation.
void FillSwitch(const SwitchFlags& flags, v1::Switch* one, google::protobuf::FieldMask* mask) {
  one->set_name(flags.name);
  if (flags.vlan_aware.has_value()) {
    one->set_vlan_aware(*flags.vlan_aware);
    mask->add_paths("vlan_aware");
  }
  if (flags.default_vid.has_value()) {
    one->set_default_vid(*flags.default_vid);
    mask->add_paths("default_vid");
  }
  if (!flags.ageing_time.empty()) {
    const AgeingTime time = ParseAgeingTime(flags.ageing_time).value();
    one->set_ageing_disabled(time.never);
    mask->add_paths("ageing_disabled");
    if (!time.never) {
      one->mutable_ageing_time()->set_seconds(time.seconds);
      mask->add_paths("ageing_time");
    }
  }
  if (flags.group_forward_mask.has_value()) {
    one->set_group_forward_mask(*flags.group_forward_mask);
    mask->add_paths("group_forward_mask");
  }
  if (!flags.vlan_counters.empty()) {
    one->set_vlan_counters(flags.vlan_counters == "on");
    mask->add_paths("vlan_counters");
  }
  if (!flags.flap_guard.empty()) {
    mask->add_paths("flap_guard");
    const FlapGuardText guard = ParseFlapGuard(flags.flap_guard).value();
    if (guard.moves != 0) {
      one->mutable_flap_guard()->set_moves(guard.moves);
    }
    if (guard.hold_s != 0) {
      one->mutable_flap_guard()->mutable_hold_time()->set_seconds(guard.hold_s);
    }
  }
}

std::string Sentence(const std::string& name, const std::string& verb, bool validate_only) {
  return validate_only ? absl::StrCat("switch ", name, " would be ", verb, "; nothing was changed")
                       : absl::StrCat("switch ", name, " ", verb);
}

void Create(Session& session, const SwitchFlags& flags) {
  v1::CreateSwitchRequest request;
  google::protobuf::FieldMask unused;
  FillSwitch(flags, request.mutable_switch_(), &unused);
  request.mutable_switch_()->set_mode(v1::SWITCH_MODE_BRIDGE);
  request.mutable_switch_()->set_fdb_capacity(flags.fdb_capacity.value_or(0));
  request.set_validate_only(flags.validate_only);
  v1::CreateSwitchResponse response;
  if (session.Call(&v1::SwitchService::Stub::CreateSwitch, request, &response)) {
    session.Tell(response.switch_(), Sentence(flags.name, "created", flags.validate_only));
  }
}

void List(Session& session) {
  v1::ListSwitchesResponse response;
  if (!session.CallPaged(&v1::SwitchService::Stub::ListSwitches, v1::ListSwitchesRequest(), &response)) {
    return;
  }
  Table table({"NAME", "MODE", "VLAN-AWARE", "DEFAULT-VID>", "AGEING>", "PORTS>", "FDB>", "CAPACITY>", "RX>",
               "TX>", "FLOODED>", "COPIES>", "DROPS>"});
  for (const v1::Switch& one : response.switches()) {
    const v1::SwitchStatus& status = one.status();
    table.AddRow({one.name(), ModeCell(one), one.vlan_aware() ? "yes" : "no", absl::StrCat(one.default_vid()),
                  AgeingCell(one), absl::StrCat(status.port_count()),
                  absl::StrCat(status.fdb_dynamic_count() + status.fdb_static_count()),
                  absl::StrCat(one.fdb_capacity()), absl::StrCat(status.receive_frames()),
                  absl::StrCat(status.transmit_frames()), absl::StrCat(status.flooded_frames()),
                  absl::StrCat(status.flood_copies()), absl::StrCat(status.dropped_frames())});
  }
  session.Show(response, table.ToString());
}

void Show(Session& session, const SwitchFlags& flags) {
  v1::GetSwitchRequest request;
  request.set_name(flags.name);
  v1::GetSwitchResponse response;
  if (session.Call(&v1::SwitchService::Stub::GetSwitch, request, &response)) {
    session.Show(response.switch_(), DescribeSwitch(response.switch_()));
  }
}

void Update(Session& session, const SwitchFlags& flags) {
  v1::UpdateSwitchRequest request;
  FillSwitch(flags, request.mutable_switch_(), request.mutable_update_mask());
  if (request.update_mask().paths().empty()) {
    throw CLI::ValidationError("nothing to change was given");
  }
  request.set_validate_only(flags.validate_only);
  v1::UpdateSwitchResponse response;
  if (session.Call(&v1::SwitchService::Stub::UpdateSwitch, request, &response)) {
    session.Tell(response.switch_(), Sentence(flags.name, "updated", flags.validate_only));
  }
}

void Delete(Session& session, const SwitchFlags& flags) {
  v1::DeleteSwitchRequest request;
  request.set_name(flags.name);
  request.set_validate_only(flags.validate_only);
  v1::DeleteSwitchResponse response;
  if (session.Call(&v1::SwitchService::Stub::DeleteSwitch, request, &response)) {
    session.Tell(response, Sentence(flags.name, "deleted", flags.validate_only));
  }
}

std::shared_ptr<SwitchFlags> AddName(CLI::App* verb) {
  auto flags = std::make_shared<SwitchFlags>();
  verb->add_option("NAME", flags->name, "Name of the switch")->required();
  return flags;
}

void AddSettings(CLI::App* verb, SwitchFlags* flags) {
  CLI::Option* aware = verb->add_flag_callback(
      "--vlan-aware", [flags] { flags->vlan_aware = true; }, "Classify frames to VLANs (usual)");
  verb->add_flag_callback(
          "--vlan-unaware", [flags] { flags->vlan_aware = false; },
          "Pass every tag untouched; fixed while the switch has ports")
      ->excludes(aware);
  verb->add_option(
          "--default-vid", flags->default_vid,
          "VLAN of access ports that ask for none, 1 to 4094 (usual: 1); fixed while the switch has ports")
      ->check(DecimalNumber())
      ->check(CLI::Range(1, 4094).description(""))
      ->type_name("VID");
  verb->add_option("--ageing-time", flags->ageing_time,
                   "How long an address is remembered after its last frame: 300s (usual), 5m, never")
      ->check(ParsedBy(ParseAgeingTime))
      ->type_name("TIME");
  verb->add_option("--group-forward-mask", flags->group_forward_mask,
                   "Bit n: relay frames to 01:80:c2:00:00:0n instead of dropping them (usual: 0)")
      ->check(GroupMask())
      ->type_name("MASK");
  verb->add_option("--vlan-counters", flags->vlan_counters,
                   "Count frames per VLAN, for vlan list and show (usual: off)")
      ->check(OnOrOff())
      ->type_name("on|off");
  verb->add_option("--flap-guard", flags->flap_guard,
                   "Hold an address that moves between ports more often than MOVES times in 10 s, for "
                   "HOLD (usual: 60s), or off (usual)")
      ->check(ParsedBy(ParseFlapGuard))
      ->type_name("MOVES[:HOLD]");
  AddValidateOnlyFlag(verb, &flags->validate_only);
}

}  // namespace

void AddSwitchCommands(CLI::App* root, Session& session) {
  CLI::App* noun = AddNoun(root, "switch", "Virtual switches",
                           "  ringctl switch create sw0 --mode bridge\n"
                           "  ringctl switch list\n"
                           "  ringctl switch update sw0 --ageing-time 5m");
  CLI::App* create = AddVerb(noun, "create", "Make a switch",
                             "  ringctl switch create sw0 --mode bridge\n"
                             "  ringctl switch create sw1 --default-vid 10 --ageing-time 5m");
  auto create_flags = AddName(create);
  create->add_option("--mode", create_flags->mode, "bridge: a VLAN-aware learning bridge (usual)")
      ->check(OneOf({"bridge"}))
      ->type_name("bridge");
  AddSettings(create, create_flags.get());
  create
      ->add_option("--fdb-capacity", create_flags->fdb_capacity,
                   "Most FDB entries, 16 to 1048576 (usual: 16384)")
      ->check(DecimalNumber())
      ->type_name("ENTRIES");
  create->callback([create_flags, &session] { Create(session, *create_flags); });

  CLI::App* list = AddVerb(noun, "list", "List the switches", "  ringctl switch list");
  list->callback([&session] { List(session); });

  CLI::App* show = AddVerb(noun, "show", "Show a switch with its counters and the addresses that moved",
                           "  ringctl switch show sw0");
  auto show_flags = AddName(show);
  show->callback([show_flags, &session] { Show(session, *show_flags); });

  CLI::App* update = AddVerb(noun, "update", "Change what is given, leave the rest",
                             "  ringctl switch update sw0 --ageing-time never\n"
                             "  ringctl switch update sw0 --vlan-counters on --flap-guard 5:60s");
  auto update_flags = AddName(update);
  AddSettings(update, update_flags.get());
  update->callback([update_flags, &session] { Update(session, *update_flags); });

  CLI::App* remove =
      AddVerb(noun, "delete", "Delete a switch that has no ports", "  ringctl switch delete sw0");
  auto remove_flags = AddName(remove);
  AddValidateOnlyFlag(remove, &remove_flags->validate_only);
  remove->callback([remove_flags, &session] { Delete(session, *remove_flags); });
}

}  // namespace ringswitch::ringctl
