// ringctl fdb add: static entries, one, one in many VLANs, or as many as a file has.
//
// One entry is one CreateFdbEntry; more are one CreateFdbEntries, so that all of them are made or none.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ringswitch/v1/fdb.grpc.pb.h"
#include "ringswitch/v1/port.grpc.pb.h"
#include "server/ringctl/fdb_lines.h"
#include "server/ringctl/flags.h"
#include "server/ringctl/vid_ranges.h"

namespace ringswitch::ringctl {
namespace {

constexpr size_t kMessageEntries = 4096;  // Less than 1 MB.

struct AddFlags {
  std::string switch_name;
  std::string vlans;
  std::string mac_address;
  PortSelector port;
  std::string from;
  bool replace = false;
  bool validate_only = false;
};

std::string Ending(const AddFlags& flags, const std::string& verb) {
  return flags.validate_only ? absl::StrCat(" would be ", verb, "; nothing was changed")
                             : absl::StrCat(" ", verb);
}

// The single VID that was written, 0 for none; false where there is more than one.
bool IsOneVlan(const AddFlags& flags, std::uint32_t* vid) {
  *vid = 0;
  if (flags.vlans.empty()) {
    return true;
  }
  const std::vector<VidRange> ranges = ParseVidRanges(flags.vlans).value();
  *vid = ranges[0].first;
  // A VID of 0 is left for the agent to judge.
  return ranges.size() == 1 && ranges[0].first == ranges[0].last && *vid != 0;
}

// Sends all messages of a bulk; the agent may refuse before the last one.
bool SendAll(Session& session, const std::vector<v1::CreateFdbEntriesRequest>& messages,
             const FieldNames& names, v1::CreateFdbEntriesResponse* response) {
  const std::shared_ptr<grpc::Channel> channel = session.channel();
  if (channel == nullptr) {
    return false;
  }
  v1::FdbService::Stub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(session.flags().timeout_s));
  const std::unique_ptr<grpc::ClientWriter<v1::CreateFdbEntriesRequest>> writer =
      stub.CreateFdbEntries(&context, response);
  for (const v1::CreateFdbEntriesRequest& message : messages) {
    if (!writer->Write(message)) {
      break;
    }
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  return status.ok() || session.FailCall(status, names);
}

void TellBulk(Session& session, const AddFlags& flags, const v1::CreateFdbEntriesResponse& response) {
  session.Tell(response,
               absl::StrCat("FDB entries", Ending(flags, "created"), ": ", response.created_count()));
}

void AddOne(Session& session, const AddFlags& flags, const v1::FdbEntry& entry) {
  v1::CreateFdbEntryRequest request;
  *request.mutable_entry() = entry;
  request.set_validate_only(flags.validate_only);
  v1::CreateFdbEntryResponse response;
  if (session.Call(&v1::FdbService::Stub::CreateFdbEntry, request, &response)) {
    const v1::FdbEntry& made = response.entry();
    const std::string vlan = made.vid() != 0 ? absl::StrCat(" in VLAN ", made.vid()) : std::string();
    session.Tell(made, absl::StrCat("FDB entry ", made.mac_address(), vlan, " of switch ", made.switch_name(),
                                    Ending(flags, "created")));
  }
}

// One address behind one port, in as many VLANs as were given.
void AddAddress(Session& session, const AddFlags& flags) {
  if (flags.mac_address.empty()) {
    throw CLI::ValidationError("--mac MAC or --from FILE is required");
  }
  RequirePort(flags.port, "--port NAME");
  v1::CreateFdbEntriesRequest request;
  v1::FdbEntry* entry = request.add_entries();
  entry->set_switch_name(flags.switch_name);
  entry->set_mac_address(flags.mac_address);
  if (!ResolvePortAndSwitch(session, flags.port, entry->mutable_port_name(), entry->mutable_switch_name())) {
    return;
  }
  std::uint32_t vid = 0;
  const bool is_one = IsOneVlan(flags, &vid);
  if (is_one) {
    entry->set_vid(vid);
  } else {
    FillRanges(flags.vlans, request.mutable_ranges());
  }
  if (is_one && !flags.replace) {
    AddOne(session, flags, *entry);
    return;
  }
  request.set_replace(flags.replace);
  request.set_validate_only(flags.validate_only);
  const FieldNames names = [](absl::string_view field) {
    return absl::StartsWith(field, "ranges") ? std::string("--vlan") : FlagOfField(field);
  };
  v1::CreateFdbEntriesResponse response;
  if (SendAll(session, {request}, names, &response)) {
    TellBulk(session, flags, response);
  }
}

// "entries[5].vid" is a line of the file.
FieldNames NamesOfLines(const std::string& name, const std::vector<FdbLine>& lines) {
  return [name, &lines](absl::string_view field) {
    size_t number = 0;
    if (absl::ConsumePrefix(&field, "entries[") &&
        std::from_chars(field.data(), field.data() + field.size(), number).ec == std::errc() &&
        number < lines.size()) {
      return absl::StrCat(name, ":", lines[number].number);
    }
    return FlagOfField(field);
  };
}

absl::StatusOr<std::vector<FdbLine>> ReadLines(const std::string& from) {
  if (from == "-") {
    return ReadFdbLines(std::cin, "standard input");
  }
  std::ifstream file(from);
  if (!file.is_open()) {
    return absl::NotFoundError(absl::StrCat("--from: ", from, " cannot be opened"));
  }
  return ReadFdbLines(file, from);
}

void AddFromFile(Session& session, const AddFlags& flags) {
  const absl::StatusOr<std::vector<FdbLine>> lines = ReadLines(flags.from);
  if (!lines.ok()) {
    session.Fail(Failure{kExitUsage, {std::string(lines.status().message())}});
    return;
  }
  std::string switch_name = flags.switch_name;
  std::string unused;
  if (!ResolvePortAndSwitch(session, {(*lines)[0].port_name, ""}, &unused, &switch_name)) {
    return;
  }
  std::vector<v1::CreateFdbEntriesRequest> messages;
  for (size_t i = 0; i < lines->size(); ++i) {
    if (i % kMessageEntries == 0) {
      messages.emplace_back();
    }
    v1::FdbEntry* entry = messages.back().add_entries();
    entry->set_switch_name(switch_name);
    entry->set_vid((*lines)[i].vid);
    entry->set_mac_address((*lines)[i].mac_address);
    entry->set_port_name((*lines)[i].port_name);
  }
  messages[0].set_replace(flags.replace);
  messages[0].set_validate_only(flags.validate_only);
  v1::CreateFdbEntriesResponse response;
  const std::string name = flags.from == "-" ? "standard input" : flags.from;
  if (SendAll(session, messages, NamesOfLines(name, *lines), &response)) {
    TellBulk(session, flags, response);
  }
}

}  // namespace

void AddFdbAddCommand(CLI::App* noun, Session& session) {
  CLI::App* add = AddVerb(noun, "add", "Make static entries, all or none; also known as create",
                          "  ringctl fdb add --switch sw0 --vlan 10 --mac 02:00:00:00:0a:01 --port p1\n"
                          "  ringctl fdb add --vlan 10,20-30 --mac 02:00:00:00:0a:02 --pod default/web-0\n"
                          "  ringctl fdb add --switch sw0 --from entries.txt\n"
                          "  echo '10 02:00:00:00:0a:03 p1  # a printer' | ringctl fdb add --from -");
  add->alias("create");
  auto flags = std::make_shared<AddFlags>();
  add->add_option("--switch", flags->switch_name, "The switch (usual: that of the first port)")
      ->type_name("NAME");
  CLI::Option* vlan = add->add_option("--vlan", flags->vlans,
                                      "The VLANs, as 10 or 10,20-30 (usual: the switch's default VLAN)")
                          ->check(VidRanges())
                          ->type_name("RANGES");
  CLI::Option* mac =
      add->add_option("--mac", flags->mac_address, "The unicast MAC address")->type_name("MAC");
  AddPortFlag(add, &flags->port, "The port behind which the address is");
  add->add_option(
         "--from", flags->from,
         "Entries from a file, or from standard input if -: lines of VID MAC PORT, # before comments")
      ->type_name("FILE|-")
      ->excludes(vlan)
      ->excludes(mac)
      ->excludes(add->get_option("--port"))
      ->excludes(add->get_option("--pod"));
  add->add_flag("--replace", flags->replace,
                "Move static entries that exist already, instead of refusing all");
  AddValidateOnlyFlag(add, &flags->validate_only);
  add->callback([flags, &session] {
    if (flags->from.empty()) {
      AddAddress(session, *flags);
    } else {
      AddFromFile(session, *flags);
    }
  });
}

}  // namespace ringswitch::ringctl
