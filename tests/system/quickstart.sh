#!/usr/bin/env bash
# Runs deploy/quickstart.sh twice with the binaries that are built, checks what it shows, takes it down and demands that nothing is
# left. On the host call it with --apart: namespaces of its own keep it away from a real agent. In the emulated machine
# (vm/run.sh) it runs as it is.
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../.."
if [[ ${1:-} == --apart ]]; then
  # shellcheck disable=SC2016
  exec unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private bash -c '
    mount -t tmpfs -o mode=755 none /run && mount -t tmpfs none /var/lib && mount --make-shared /run && ip link set lo up && exec "$0"' \
    "$PWD/tests/system/quickstart.sh"
fi
fail() { echo "quickstart test: $*" >&2; exit 1; }
# Everything that --down has to remove: namespaces, links, processes, files.
left() {
  find /run /var/lib/ringswitch -xdev 2>/dev/null || true
  ip -o link show | awk -F': ' '{print $2}'
  # shellcheck disable=SC2009 # pgrep takes no pattern of more than 15 characters
  ps -e -o comm= | grep -E '^(ringswitchd|ringswitch|ringctl)$' || true
  grep -c /run /proc/mounts
}
shown() { grep -qE -- "$1" <<<"$output" || fail "'$1' was not shown"; }

# Broadcasts of the first pod as `ringctl floods` showed them, once before and once after the ping.
broadcasts() { awk '/^\$ ringctl / {here = $3 == "floods"} here && $1 == "quickstart-pod-1:eth0" {print $3}' <<<"$output"; }

before=$(left)
echo "kernel $(uname -r)"
for round in first second; do
  output=$(deploy/quickstart.sh --no-build 2>&1) || { printf '%s\n' "$output"; fail "the $round run failed"; }
  shown ' 0% packet loss'
  shown 'quickstart-pod-1:eth0'
  read -r first_count second_count < <(broadcasts | xargs)
  ((second_count == first_count + 1)) || fail "the ping is to flood one broadcast: $first_count before, $second_count after"
done
printf '%s\n' "$output"
deploy/quickstart.sh --down
after=$(left)
[[ $before == "$after" ]] || { diff <(echo "$before") <(echo "$after") >&2 || true; fail "--down left something behind"; }
deploy/quickstart.sh --down >/dev/null || fail "--down a second time failed"
echo "quickstart test: passed"
