#include "tests/sim/script.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace ringswitch::sim {
namespace {

struct Row {
  const char* name;
  const char* arguments;
};
constexpr Row kRows[] = {
#define RINGSWITCH_ROW(name, text, arguments) {text, arguments},
    RINGSWITCH_ACTIONS(RINGSWITCH_ROW)
#undef RINGSWITCH_ROW
};

std::string Hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, value < 10 ? "%llx" : "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

std::string Print(const Action& action) {
  const Row& row = kRows[static_cast<size_t>(action.kind)];
  std::string line = row.name;
  std::istringstream names(row.arguments);
  std::string name;
  for (size_t i = 0; names >> name; ++i) line += " " + name + "=" + Hex(action.arguments[i]);
  return line + " seed=" + Hex(action.seed);
}

std::optional<Action> Parse(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  for (size_t kind = 0; kind < std::size(kRows); ++kind) {
    if (word != kRows[kind].name) continue;
    Action action;
    action.kind = static_cast<ActionKind>(kind);
    std::istringstream names(std::string(kRows[kind].arguments) + " seed");
    std::string name;
    for (size_t i = 0; names >> name; ++i) {
      if (!(words >> word) || word.rfind(name + "=", 0) != 0) return std::nullopt;
      const uint64_t value = std::strtoull(word.c_str() + name.size() + 1, nullptr, 0);
      (name == "seed" ? action.seed : action.arguments[i]) = value;
    }
    return action;
  }
  return std::nullopt;
}

}  // namespace ringswitch::sim
