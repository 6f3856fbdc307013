// The switch, all of it but the kernel below, against an oracle, for as many random steps as one likes.
//
// Theory of operation. A seed decides everything (world.h, baton.h). A run is a sequence of episodes, each a
// switch of its own with some thousand actions; a step is an action. It is carried out by a child process,
// which leaves the actions of the episode in shared memory, so that whatever ends it, an assertion, a crash
// or a hang, what it did is known. The parent then leaves out what it can, runs what is left again and again,
// and prints the shortest script that still fails in the same way.
//
//   switch_sim [--seed N] [--steps N | --minutes N]   or RINGSWITCH_SIM_SEED, RINGSWITCH_SIM_STEPS
//   switch_sim --script FILE      runs a printed script
//   switch_sim --twice ...        runs again in a new process, and demands the same to the last byte
//   switch_sim --plant ...        gives the oracle an error; succeeds if it is found and its script is short
//   switch_sim --no-shrink ...    only says what failed, and where

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/script.h"
#include "tests/sim/world.h"

namespace ringswitch::sim {
namespace {

constexpr uint64_t kStepsDefault = 200'000;
constexpr uint64_t kEpisodeStepsMax = 6000;
constexpr uint64_t kPlantedActionsMax = 12;  // that show a planted error
constexpr time_t kShrinkSecondsMax = 90;
constexpr unsigned kHangSeconds = 120;  // without a step: the run hangs

// What a child leaves to its parent.
struct Summary {
  uint64_t action_count = 0;  // of this episode, the one that starts it included
  uint64_t steps = 0, episodes = 0, frames = 0, copies = 0, digest = 0;
  char what[160] = {}, details[160] = {};
};
struct Record : Summary {
  Action actions[kEpisodeStepsMax + 1];
};
Record* record = nullptr;

struct Options {
  uint64_t seed = 0, steps = kStepsDefault, minutes = 0;
  bool twice = false, plant = false, shrinks = true;
  std::string digest;  // of the same run before; empty: there was none
  std::string script;
};

struct Outcome {
  bool passed = false;
  std::string what;
};

void RunAction(World* world, const Action& action) {
  record->actions[record->action_count++] = action;
  alarm(kHangSeconds);
  world->Run(action);
}

void FinishWorld(World* world) {
  world->Finish();
  record->frames += world->frames();
  record->copies += world->copies();
  record->digest = record->digest * 31 + world->digest();
  ++record->episodes;
}

void RunSeed(const Options& options) {
  const time_t end = time(nullptr) + static_cast<time_t>(options.minutes * 60);
  const auto is_over = [&] {
    return options.minutes != 0 ? time(nullptr) >= end : record->steps >= options.steps;
  };
  for (uint64_t episode = 0; !is_over(); ++episode) {
    Random random(options.seed * 0x1'0000'0001 + episode);
    const Action start = World::DrawStart(&random);
    uint64_t actions = 100 + random.Below(kEpisodeStepsMax - 100);
    if (options.minutes == 0) actions = std::min(actions, options.steps - record->steps);
    record->actions[0] = start;
    record->action_count = 1;
    World world(start, options.plant);
    for (; actions > 0; --actions) {
      RunAction(&world, world.Draw(&random));
      ++record->steps;
    }
    FinishWorld(&world);
  }
}

void RunScript(const std::vector<Action>& script, bool plant) {
  record->actions[0] = script.front();
  record->action_count = 1;
  World world(script.front(), plant);
  for (size_t i = 1; i < script.size(); ++i, ++record->steps) RunAction(&world, script[i]);
  FinishWorld(&world);
}

template <typename Body>
Outcome InChild(Body body) {
  static_cast<Summary&>(*record) = {};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kHangSeconds);
    body();
    std::exit(0);  // what counts executed lines writes them then
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {true, {}};
  if (record->what[0] != 0) return {false, record->what};
  if (WIFSIGNALED(status)) return {false, std::string("ended by ") + strsignal(WTERMSIG(status))};
  return {false, "ended with status " + std::to_string(WEXITSTATUS(status))};
}

// --- shrinking: delta debugging ---

class Shrinker {
 public:
  Shrinker(std::vector<Action> script, const std::string& what, bool plant)
      : script_(std::move(script)), what_(what), plant_(plant), end_(time(nullptr) + kShrinkSecondsMax) {}

  std::vector<Action> Shrink() {
    if (!Fails(script_)) return script_;  // it does not fail again: shown as it is
    script_.resize(std::max<size_t>(1, std::min(script_.size(), static_cast<size_t>(record->action_count))));
    for (size_t size = script_.size() / 2; size >= 1 && time(nullptr) < end_; size /= 2) {
      for (size_t from = 1; from < script_.size() && time(nullptr) < end_;) from = LeaveOut(from, size);
      if (size == 1) Simplify();
    }
    for (size_t from = 1; from < script_.size() && time(nullptr) < end_;) from = LeaveOut(from, 1);
    return script_;
  }

 private:
  bool Fails(const std::vector<Action>& script) {
    const Outcome outcome = InChild([&] { RunScript(script, plant_); });
    return !outcome.passed && outcome.what == what_;
  }
  // The next place to try.
  size_t LeaveOut(size_t from, size_t size) {
    std::vector<Action> shorter = script_;
    const auto begin = shorter.begin() + static_cast<std::ptrdiff_t>(from);
    shorter.erase(begin, begin + static_cast<std::ptrdiff_t>(std::min(size, shorter.size() - from)));
    if (!Fails(shorter)) return from + size;
    script_ = std::move(shorter);
    return from;
  }
  // One worker, plain frames, one at a time, where that is enough.
  void Simplify() {
    for (Action& action : script_) {
      for (size_t i = 0; i < kArguments && time(nullptr) < end_; ++i) {
        const uint64_t before = action.arguments[i];
        if (action.kind == ActionKind::kStart && i == 0) action.arguments[i] = 1;
        if (action.kind == ActionKind::kFrame && i == 4) action.arguments[i] = kPlain;
        if (action.kind == ActionKind::kFrame && i == 5) action.arguments[i] = 60;
        if (action.kind == ActionKind::kFrame && i == 6) action.arguments[i] = 1;
        if (before != action.arguments[i] && !Fails(script_)) action.arguments[i] = before;
      }
    }
  }

  std::vector<Action> script_;
  const std::string what_;
  const bool plant_;
  const time_t end_;
};

// --- reporting ---

void PrintRun(const Options& options, const char* verdict) {
  std::printf(
      "%s: seed %llu, %llu steps, %llu switches, %llu frames, %llu copies, digest %016llx\n", verdict,
      static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(record->steps),
      static_cast<unsigned long long>(record->episodes), static_cast<unsigned long long>(record->frames),
      static_cast<unsigned long long>(record->copies), static_cast<unsigned long long>(record->digest));
}

size_t ReportFailure(const Options& options, const std::string& what) {
  const uint64_t step = record->steps;
  std::printf("FAILED: %s%s%s\n", what.c_str(), record->details[0] != 0 ? ": " : "", record->details);
  std::printf("at step %llu; again: switch_sim --seed %llu --steps %llu%s\n",
              static_cast<unsigned long long>(step), static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(step + 1), options.plant ? " --plant" : "");
  if (!options.shrinks) return record->action_count;
  std::printf("shrinking...\n");
  const std::vector<Action> script(record->actions, record->actions + record->action_count);
  const std::vector<Action> shortest = Shrinker(script, what, options.plant).Shrink();
  std::printf("# the script that is left of %zu actions; switch_sim --script FILE%s runs it: %s\n",
              script.size(), options.plant ? " --plant" : "", what.c_str());
  for (const Action& action : shortest) std::printf("%s\n", Print(action).c_str());
  return shortest.size();
}

bool ReadScript(const std::string& path, std::vector<Action>* script) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto action = Parse(line);
    if (!action || (action->kind == ActionKind::kStart) != script->empty()) {
      std::fprintf(stderr, "switch_sim: %s: not a line of a script: %s\n", path.c_str(), line.c_str());
      return false;
    }
    script->push_back(*action);
  }
  return !script->empty() && script->size() <= kEpisodeStepsMax;
}

int Main(const Options& options) {
  if (!options.script.empty()) {
    std::vector<Action> script;
    if (!ReadScript(options.script, &script)) return 2;
    const Outcome outcome = InChild([&] { RunScript(script, options.plant); });
    PrintRun(options, outcome.passed ? "passed" : "FAILED");
    if (!outcome.passed) std::printf("%s: %s\n", outcome.what.c_str(), record->details);
    return outcome.passed ? 0 : 1;
  }
  std::printf("switch_sim --seed %llu --steps %llu\n", static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(options.steps));
  Outcome outcome = InChild([&] { RunSeed(options); });
  if (!outcome.passed) {
    const size_t actions = ReportFailure(options, outcome.what);
    return options.plant && actions <= kPlantedActionsMax ? 0 : 1;
  }
  PrintRun(options, "passed");
  if (options.plant) {
    std::printf("FAILED: the planted error is not found\n");
    return 1;
  }
  char digest[24];
  std::snprintf(digest, sizeof digest, "%016llx", static_cast<unsigned long long>(record->digest));
  if (!options.digest.empty()) return options.digest == digest ? 0 : 1;
  if (!options.twice) return 0;
  // Another process, whose memory lies elsewhere.
  std::fflush(nullptr);
  const std::string seed = std::to_string(options.seed), steps = std::to_string(options.steps);
  execl("/proc/self/exe", "switch_sim", "--seed", seed.c_str(), "--steps", steps.c_str(), "--digest", digest,
        nullptr);
  return 1;
}

uint64_t FromEnvironment(const char* variable, uint64_t otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::strtoull(value, nullptr, 0) : otherwise;
}

}  // namespace

void Fail(const std::string& what, const std::string& details) {
  std::snprintf(record->what, sizeof record->what, "%s", what.c_str());
  std::snprintf(record->details, sizeof record->details, "%s", details.c_str());
  _exit(3);
}

}  // namespace ringswitch::sim

int main(int argc, char** argv) {
  using namespace ringswitch::sim;
  Options options;
  options.seed = FromEnvironment("RINGSWITCH_SIM_SEED", std::random_device{}());
  options.steps = FromEnvironment("RINGSWITCH_SIM_STEPS", kStepsDefault);
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--twice")
      options.twice = true;
    else if (flag == "--plant")
      options.plant = true;
    else if (flag == "--seed")
      options.seed = std::strtoull(value, nullptr, 0), ++i;
    else if (flag == "--steps")
      options.steps = std::strtoull(value, nullptr, 0), ++i;
    else if (flag == "--minutes")
      options.minutes = std::strtoull(value, nullptr, 0), ++i;
    else if (flag == "--no-shrink")
      options.shrinks = false;
    else if (flag == "--digest")
      options.digest = value, ++i;
    else if (flag == "--script")
      options.script = value, ++i;
    else
      return std::fprintf(stderr, "switch_sim: %s? See the head of switch_sim.cc.\n", argv[i]), 2;
  }
  // One thread runs at a time: it goes on sooner where the last one ran.
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
  sched_setaffinity(0, sizeof one, &one);
  record = static_cast<Record*>(
      mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return Main(options);
}
