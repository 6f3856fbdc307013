#!/usr/bin/env bash
# Runs the test suites under Debian 12's own kernel (run.sh boots it): no multishot read, no RWF_NOWAIT on a TAP, but 8021q devices
# and a bridge that filters VLANs.
#
#   suites.sh smoke                 what each change must pass: quickstart, units, frame tables, header verdicts, kernel bridge
#   suites.sh all                   every unit, integration and system test; emulation is slow: an hour and more
#   suites.sh bridge [STEPS]        the comparison with the kernel's bridge alone, 1 000 000 steps unless told otherwise
#
# RINGSWITCH_BIN is where the binaries are (build/bin). A row per suite; what a failed one printed; the exit status says whether
# all passed.
set -uo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../../.." || exit 2
tier=${1:-} steps=${2:-1000000} bin=${RINGSWITCH_BIN:-$PWD/build/bin}
case $tier in
  smoke) limit=900 ;;
  all) limit=14400 ;;
  bridge) limit=14400 ;;
  *) echo "usage: suites.sh smoke | all | bridge [STEPS]" >&2; exit 2 ;;
esac
if [[ ${RINGSWITCH_SUITES_INSIDE:-} != 1 ]]; then
  exec tests/system/vm/run.sh --timeout "$limit" -- env RINGSWITCH_SUITES_INSIDE=1 RINGSWITCH_BIN="$bin" PYTHONDONTWRITEBYTECODE=1 \
    tests/system/vm/suites.sh "$@"
fi

# Bounds on processor time are that many times larger; tests that know the variable say so.
export RINGSWITCH_SLOW=20
ulimit -n 65536  # the dataplane has 1024 ports, and the guest's init no more files
echo "kernel $(uname -r), binaries of $bin, RINGSWITCH_SLOW=$RINGSWITCH_SLOW"
failures=0 log=$(mktemp)
# suite NAME SECONDS COMMAND...
suite() {
  local name=$1 seconds=$2 start=$SECONDS status verdict=passed
  shift 2
  timeout --kill-after=10 "$seconds" "$@" >"$log" 2>&1
  status=$?
  if ((status)); then
    verdict="FAILED ($status)"
    ((failures += 1))
    grep -E '^\[  FAILED|^FAILED|^ERROR|Failure$|^E   ' -A 6 "$log" | tail -n 150
    tail -n 30 "$log"
  fi
  grep -hE '^seed |^RINGSWITCH_SLOW|^\[  SKIPPED|^SKIPPED' "$log" | sort -u
  printf '== %-34s %-12s %5d s  %s\n' "$name" "$verdict" $((SECONDS - start)) \
    "$(grep -oE '^\[  PASSED  \] [0-9]+ test|[0-9]+ passed' "$log" | tail -n 1)"
}
gtest() { suite "$1" "$2" "$bin/$1" --gtest_brief=1 "${@:3}"; }
bridge() { suite "dataplane_kernel_test, $1" "$2" env RINGSWITCH_STEPS="$3" "$bin/dataplane_kernel_test" --gtest_filter="*/$1"; }
verdicts() { suite virtio_net_verdict_test "$1" env RINGSWITCH_STEPS="$2" "$bin/virtio_net_verdict_test"; }
units=(io_test bridge_test capture_test ringctl_test watch_test cni_test agent_codec_test agent_test)

case $tier in
  smoke)
    suite quickstart 240 tests/system/quickstart.sh
    for name in io_test bridge_test capture_test agent_codec_test; do gtest "$name" 180; done
    gtest dataplane_table_test 300 --gtest_filter='-*Auto1*'
    verdicts 120 50000
    bridge VlanAware 400 100000
    ;;
  all)
    suite quickstart 300 tests/system/quickstart.sh
    for name in "${units[@]}"; do gtest "$name" 1200; done
    for name in dataplane_{control,forwarding,lifecycle,load,netdev,table}_test links_test; do gtest "$name" 2400; done
    verdicts 1200 200000
    bridge VlanUnaware 1800 100000
    bridge VlanAware 1800 100000
    suite system 7200 /usr/bin/python3 -m pytest -p no:cacheprovider -q -rfEs --color=no tests/system
    ;;
  bridge) bridge VlanAware "$limit" "$steps" ;;
esac
echo "$failures suites failed"
((failures == 0))
