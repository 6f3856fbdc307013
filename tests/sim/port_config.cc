#include "tests/sim/port_config.h"

namespace ringswitch::sim {
namespace {

// Rates whose tokens take a whole number of nanoseconds, so that nothing is rounded.
Limit DrawLimit(Random* random, int64_t per_second, int64_t burst) {
  return {per_second, 1 + static_cast<int64_t>(random->Below(static_cast<uint64_t>(burst)))};
}

void DrawAttributes(Random* random, OraclePort* port) {
  port->down = random->OneIn(10);
  port->link_down = random->OneIn(12);
  port->learns = !random->OneIn(6);
  for (bool& floods : port->floods) floods = !random->OneIn(6);
  port->isolated = random->OneIn(3);
  port->hairpin = random->OneIn(4);
  port->locked = random->OneIn(8);
  port->bpdu_guard = random->OneIn(4);
  port->bpdu_recovery_s = static_cast<int64_t>(random->Below(4));
  if (random->OneIn(8)) {
    for (int i = 0; i < 12; ++i) port->source_macs.insert(DrawStation(random));
  }
}

void DrawLimits(Random* random, OraclePort* port) {
  for (int i = 0; i < kFloodClasses; ++i) {
    if (random->OneIn(2)) port->storm_frames[i] = DrawLimit(random, 1000, 8);
    if (random->OneIn(3)) port->storm_bits[i] = DrawLimit(random, 1'000'000, 8000);
  }
  if (random->OneIn(3)) port->receive_bits = DrawLimit(random, 1'000'000, 20'000);
  if (random->OneIn(3))
    port->transmit_bits = DrawLimit(random, random->OneIn(2) ? 1'000'000 : 500'000, 20'000);
}

uint32_t FeaturesOf(const OraclePort& from) {
  uint32_t features = 0;
  if (from.down) features |= bridge::kAdminDown;
  if (from.link_down) features |= bridge::kLinkDown;
  if (!from.learns) features |= bridge::kNoLearning;
  if (!from.floods[kUnknownUnicast]) features |= bridge::kNoUnknownUnicastFlood;
  if (!from.floods[kMulticast]) features |= bridge::kNoMulticastFlood;
  if (!from.floods[kBroadcast]) features |= bridge::kNoBroadcastFlood;
  if (from.isolated) features |= bridge::kIsolated;
  if (from.hairpin) features |= bridge::kHairpin;
  if (from.locked) features |= bridge::kLocked;
  if (from.bpdu_guard) features |= bridge::kBpduGuard;
  if (!from.source_macs.empty()) features |= bridge::kSourceMacGuard;
  for (int i = 0; i < kFloodClasses; ++i) {
    if (from.storm_frames[i].per_second != 0 || from.storm_bits[i].per_second != 0)
      features |= bridge::kStormControl;
  }
  if (from.receive_bits.per_second != 0) features |= bridge::kReceiveRate;
  if (from.transmit_bits.per_second != 0) features |= bridge::kTransmitRate;
  return features;
}

bridge::VlanSet SetOf(const std::set<int>& vids) {
  bridge::VlanSet set;
  for (const int vid : vids) set.Add(static_cast<bridge::VlanId>(vid));
  return set;
}

bridge::Rate RateOf(Limit limit) {
  return {static_cast<uint64_t>(limit.per_second), static_cast<uint64_t>(limit.burst)};
}

}  // namespace

int DrawVid(Random* random) {
  static constexpr int kVids[] = {1, 2, 3, 4094};
  return kVids[random->Below(4)];
}

uint64_t DrawStation(Random* random) {
  return 0x0200'0000'0a00 + random->Below(40);
}

OraclePort DrawPort(int switch_index, uint64_t detail) {
  Random random(detail);
  OraclePort port;
  port.switch_index = switch_index;
  port.mtu = random.OneIn(4) ? 68 : 1500;
  port.mac_limit = random.OneIn(3) ? 1 + random.Below(4) : 0;
  if (random.OneIn(2)) DrawAttributes(&random, &port);
  if (random.OneIn(5)) DrawLimits(&random, &port);
  if (random.OneIn(10)) return port;  // unaware
  port.mode = random.OneIn(2) ? OraclePort::Mode::kAccess : OraclePort::Mode::kTrunk;
  if (port.mode == OraclePort::Mode::kAccess || random.OneIn(2)) {
    port.pvid = DrawVid(&random);
    port.members.insert(port.pvid);
    if (!random.OneIn(8)) port.untagged.insert(port.pvid);
  }
  if (port.mode == OraclePort::Mode::kTrunk) {
    for (uint64_t i = random.Below(4); i > 0; --i) port.members.insert(DrawVid(&random));
    if (random.OneIn(6) && !port.members.empty()) port.untagged.insert(*port.members.begin());
  }
  return port;
}

bridge::PortConfig ConfigOf(const OraclePort& from) {
  bridge::PortConfig port;
  port.switch_index = static_cast<bridge::SwitchIndex>(from.switch_index);
  port.vlan_mode = static_cast<bridge::VlanMode>(from.mode);
  port.pvid = static_cast<bridge::VlanId>(from.pvid);
  port.members = SetOf(from.members);
  port.untagged = SetOf(from.untagged);
  port.mtu = static_cast<uint32_t>(from.mtu);
  port.mac_limit = static_cast<uint32_t>(from.mac_limit);
  port.features = FeaturesOf(from);
  for (size_t i = 0; i < kFloodClasses; ++i)
    port.storm[i] = {RateOf(from.storm_frames[i]), RateOf(from.storm_bits[i])};
  port.receive_rate = RateOf(from.receive_bits);
  port.transmit_rate = RateOf(from.transmit_bits);
  port.bpdu_recovery_s = static_cast<uint32_t>(from.bpdu_recovery_s);
  for (const uint64_t mac : from.source_macs) port.source_guard.macs.emplace_back(mac);
  return port;
}

bridge::SwitchConfig ConfigOf(const OracleSwitch& from) {
  bridge::SwitchConfig config;
  config.vlan_aware = from.vlan_aware;
  config.group_forward_mask = static_cast<uint16_t>(from.group_forward_mask);
  config.ageing_time_s = static_cast<uint32_t>(from.ageing_time_s);
  return config;
}

}  // namespace ringswitch::sim
