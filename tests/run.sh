#!/usr/bin/env bash
# Every test: packages, three builds, unit to system tests, the contract, a fresh machine's kernel, a container runtime.
#
#   sudo tests/run.sh         what every change must pass, 22 minutes on two cores, and the builds
#   sudo tests/run.sh --long  adds what needs hours or millions
#
# Every stage is run even if one before it failed; what a failed one printed is shown, and everything is kept in build/test-logs/.
# With CI=true a skip that `skips_allowed` does not name is a failure.
set -uo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.." || exit 2
((EUID == 0)) || { echo "tests/run.sh: must be root (network namespaces, TAP devices, packages): sudo tests/run.sh" >&2; exit 2; }
long=0
case ${1:-} in
  '') ;;
  --long) long=1 ;;
  *) echo "usage: sudo tests/run.sh [--long]" >&2; exit 2 ;;
esac
# Names of tests, as extended regular expressions, that a kernel without 8021q devices, VLAN filtering in the bridge, netem and the like cannot run.
skips_allowed=('needs minutes: --long' '^ctest: .*KernelBridge.*/VlanAware')

export RINGSWITCH_LONG=$long RINGSWITCH_BIN=$PWD/build/bin PYTHONDONTWRITEBYTECODE=1
logs=$PWD/build/test-logs
rm -rf "$logs" && mkdir -p "$logs"
rows=() failed_stages=() passed=0 failed=0 skips=()
declare -A pids=() starts=() # of the stages that run
begin=$SECONDS stage_seconds=$((long ? 36000 : 1500))

# A stage has a process group of its own (timeout makes it). An interrupted run ends all of it; the tests' own clean-up does the rest.
stop() {
  local pid
  for pid in "${pids[@]}"; do kill -TERM -- "-$pid" 2>/dev/null; done
  for pid in "${pids[@]}"; do timeout 20 tail --pid="$pid" -f /dev/null || kill -KILL -- "-$pid"; done
  exit 130
}
trap stop INT TERM HUP

begin_stage() { # NAME COMMAND...
  local name=$1
  shift
  printf '== %s\n' "$name"
  timeout --kill-after=30 "$stage_seconds" "$@" </dev/null >"$logs/$name" 2>&1 &
  pids[$name]=$! starts[$name]=$SECONDS
}
end_stage() { # NAME COUNTER: waits for it; COUNTER says how to count tests in its output
  local name=$1 counter=$2 status good=0 bad=0 verdict=passed
  wait "${pids[$name]}"
  status=$?
  unset "pids[$name]"
  case $counter in
    ctest)
      read -r bad good < <(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+).*/\1 \2/p' "$logs/$name")
      good=$((${good:-0} - ${bad:-0}))
      ;;
    pytest)
      local closing
      closing=$(grep -E '^(=+ )?[0-9]+ (passed|failed|error).* in [0-9.]+s' "$logs/$name" | tail -n 1)
      good=$(grep -oE '[0-9]+ passed' <<<"$closing" | cut -d' ' -f1)
      bad=$(grep -oE '[0-9]+ (failed|errors?)' <<<"$closing" | awk '{n += $1} END {print n + 0}')
      ;;
    one) ((status)) && bad=1 || good=1 ;;
  esac
  good=${good:-0} bad=${bad:-0}
  # A stage that fails without a failed test, or passes without a test, did not do what it is for.
  ((status == 0 || bad > 0)) || bad=1
  [[ $counter == none ]] || ((good + bad > 0)) || bad=1
  ((passed += good, failed += bad))
  if ((bad)); then
    verdict=FAILED
    failed_stages+=("$name")
    tail -n 60 "$logs/$name" | sed "s/^/$name | /"
  fi
  rows+=("$(printf '%-12s %-7s %5d s  %4d passed, %d failed' "$name" "$verdict" $((SECONDS - starts[$name])) "$good" "$bad")")
  echo "${rows[-1]}"
}

stage() { # NAME COUNTER COMMAND...
  begin_stage "$1" "${@:3}"
  end_stage "$1" "$2"
}

# collect_skips LABEL FILE: GoogleTest's lines from ctest's log, pytest's summary lines.
collect_skips() {
  local line
  while IFS= read -r line; do
    [[ -z $line ]] || skips+=("$1: $line")
  done < <(grep -E '^\[  SKIPPED \] [A-Za-z_/0-9]+\.[^ ]+( \(.*)?$|^SKIPPED \[' "$2" 2>/dev/null | sed -E 's/ \([0-9]+ ms\)$//' | sort -u)
}

build() { # build FOLDER OPTIONS...
  local folder=$1
  shift
  cmake -S . -B "$folder" -G Ninja "$@" && cmake --build "$folder"
}
# Two at a time, but for those that say RUN_SERIAL.
run_ctest() { ctest --test-dir "$1" -j 2 --output-on-failure --no-tests=error --timeout 300; }
npm_packages() { # exactly those of the lock file
  [[ tests/npm/node_modules/.package-lock.json -nt tests/npm/package-lock.json ]] ||
    npm --prefix tests/npm ci --no-audit --no-fund --ignore-scripts
}
system_tests() {
  local options=()
  ((!long)) || options+=(--long)
  /usr/bin/python3 -m pytest -p no:cacheprovider -q -rfEs --durations=8 --color=no "${options[@]}" tests/system
}
# Stages are processes of their own, so functions reach them by export.
export long
export -f build run_ctest npm_packages system_tests

stage packages none deploy/packages.sh build run test
stage npm none bash -c npm_packages
stage build one bash -c 'build build'
stage build-asan one bash -c 'build build-asan -DRINGSWITCH_ASAN=ON'
stage build-tsan one bash -c 'build build-tsan -DRINGSWITCH_TSAN=ON'
stage contract one bash -c 'cd proto && ../tests/npm/node_modules/.bin/buf lint'
stage ctest ctest bash -c 'run_ctest build'
stage ctest-asan ctest bash -c 'run_ctest build-asan'
stage ctest-tsan ctest bash -c 'run_ctest build-tsan'
stage system pytest bash -c system_tests
stage quickstart one tests/system/quickstart.sh --apart
stage bench one /usr/bin/python3 tests/bench/compare.py --smoke
# Side by side: an emulated machine has one processor, and fuzzing goes by time.
begin_stage debian-6.1 tests/system/vm/suites.sh smoke
stage fuzz one tests/fuzz/run.sh
end_stage debian-6.1 one
if ((long)); then
  stage sim one build/bin/switch_sim --minutes 120
  stage bridge one env RINGSWITCH_STEPS=1000000 build/bin/dataplane_kernel_test --gtest_filter='*/VlanUnaware'
  stage suites-6.1 one tests/system/vm/suites.sh all
  stage bridge-6.1 one tests/system/vm/suites.sh bridge
  stage faults one tests/faults/run.py
  stage coverage one tests/coverage/run.sh
fi

for kind in '' -asan -tsan; do collect_skips "ctest$kind" "build$kind/Testing/Temporary/LastTest.log"; done
collect_skips system "$logs/system"
collect_skips debian-6.1 "$logs/debian-6.1"
echo
printf '%s\n' "${rows[@]}"
echo "log files: $logs; $((SECONDS - begin)) s in all"
unexpected=0
if ((${#skips[@]})); then
  printf '\n*** SKIPPED ***\n'
  for skip in "${skips[@]}"; do
    mark=' (allowed)'
    grep -qE "$(IFS='|'; echo "${skips_allowed[*]}")" <<<"$skip" || { mark='' && ((unexpected += 1)); }
    echo "$skip$mark"
  done
  if ((unexpected)) && [[ ${CI:-} == true ]]; then
    echo "$unexpected skips that are not allowed: failures, since CI=true"
    ((failed += unexpected))
    failed_stages+=(skips)
  fi
fi
if ((${#failed_stages[@]})); then
  printf '\nFAILED: %s\n' "${failed_stages[*]}"
  for name in "${failed_stages[@]}"; do # the last lines say what, also where only the end of the output is kept
    grep -hE '^(FAILED|ERROR) |^E   |^\[  FAILED  \]|\*\*\*Failed|: error:|: Failure$' "$logs/$name" 2>/dev/null | head -n 25
  done
fi
echo
echo "$passed passed, $failed failed, ${#skips[@]} skipped"
((failed == 0))
