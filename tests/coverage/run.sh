#!/usr/bin/env bash
# How much of dataplane/ all tests together execute, and what they do not.
#
#   sudo tests/coverage/run.sh             unit, fuzz (what is kept), simulation and integration tests
#   sudo tests/coverage/run.sh --system    and system tests of forwarding, captures and devices
#
# Theory of operation. build-coverage/ has the dataplane's libraries with counters and without optimisation (RINGSWITCH_COVERAGE), in the
# same test programs as ever; a program adds its counts to the files beside the objects when it ends, and what is killed adds nothing. A
# failed test is shown and changes nothing: counts are counts. report.py prints lines and branches per file and every line that was not
# executed, and fails where such a line is not explained in explained.toml. Lines of headers count where the dataplane's own files use them.
set -uo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../.." || exit 2
((EUID == 0)) || { echo "tests/coverage/run.sh: must be root, as for tests/run.sh" >&2; exit 2; }
system=0
case ${1:-} in
  '') ;;
  --system) system=1 ;;
  *) echo "usage: sudo tests/coverage/run.sh [--system]" >&2; exit 2 ;;
esac
build=$PWD/build-coverage
tests='^(unit\.(bridge|io|capture|dataplane)_test|fuzz\..*|sim\..*|integration\..*)$'
system_tests=(tests/system/test_{forwarding,capture,devices,attributes,lifecycle}.py)

cmake -S . -B "$build" -G Ninja -DRINGSWITCH_COVERAGE=ON >/dev/null || exit 2
# The programs of those tests, as ctest has them: add_test([=[NAME]=] "PROGRAM" ...
mapfile -t programs < <(find "$build" -name CTestTestfile.cmake -exec sed -nE 's/^add_test\(\[=\[(.*)\]=\] "([^"]+)".*/\1 \2/p' {} + |
  while read -r name program; do [[ $name =~ $tests && $program == "$build"/* ]] && basename "$program"; done | sort -u)
((!system)) || programs+=(ringswitchd ringctl traffic ringswitch)
ninja -C "$build" "${programs[@]}" >"$build/build.log" || { tail -n 40 "$build/build.log"; exit 2; }
find "$build" -name '*.gcda' -delete

ctest --test-dir "$build" -R "$tests" -j 2 --timeout 600 --output-on-failure >"$build/tests.log" 2>&1
grep -E '\*\*\*(Failed|Exception|Timeout|Not Run)|tests passed' "$build/tests.log"
if ((system)); then
  RINGSWITCH_BIN=$build/bin PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest -p no:cacheprovider -q "${system_tests[@]}" 2>&1 |
    tee "$build/system.log" | tail -n 12
fi
gcovr --root . --filter 'dataplane/' --exclude-throw-branches --exclude-unreachable-branches --json "$build/coverage.json" "$build" ||
  exit 2
/usr/bin/python3 tests/coverage/report.py "$build/coverage.json"
