#pragma once

// Configurations of ports: drawn, and as the dataplane wants them.

#include "dataplane/bridge/forwarding_config.h"
#include "tests/sim/oracle.h"
#include "tests/sim/random.h"

namespace ringswitch::sim {

int DrawVid(Random* random);
uint64_t DrawStation(Random* random);
// The configuration that a seed stands for.
OraclePort DrawPort(int switch_index, uint64_t detail);
bridge::PortConfig ConfigOf(const OraclePort& port);
bridge::SwitchConfig ConfigOf(const OracleSwitch& from);

}  // namespace ringswitch::sim
