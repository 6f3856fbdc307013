#pragma once

namespace ringswitch::agent {

// From the build.
inline constexpr char kVersion[] = RINGSWITCH_VERSION;

}  // namespace ringswitch::agent
