// The attributes of a port that can be changed at any time: their flags, and how they are shown.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ringswitch/v1/port.pb.h"
#include "server/ringctl/table.h"

namespace ringswitch::ringctl {

inline constexpr size_t kToggleCount = 9;

// As written; empty: not given.
struct AttributeFlags {
  std::optional<bool> admin_up;
  std::array<std::string, kToggleCount> toggles;  // "on" or "off"
  std::string bpdu_guard;
  std::string storm_broadcast;
  std::string storm_multicast;
  std::string storm_unknown_unicast;
  std::string receive_rate;
  std::string transmit_rate;
  std::string source_guard;
  std::vector<std::string> allow_mac;
  std::vector<std::string> allow_ip;
};

void AddAttributeFlags(CLI::App* verb, AttributeFlags* flags);

// Fills in what was given, and `mask` with the paths of just that: what others change at the same time stays.
void FillAttributes(const AttributeFlags& flags, v1::Port* port, google::protobuf::FieldMask* mask);

// A row for each attribute that is not as usual, named like its flag.
void AddAttributeRows(const v1::Port& port, Table* table);

}  // namespace ringswitch::ringctl
