#!/usr/bin/env bash
# From a fresh Debian 12 to two pods that talk through Ringswitch: packages, build, agent, two network namespaces attached by the CNI
# plugin as a container runtime would do it, a ping, and what the switch says about it.
#
#   sudo deploy/quickstart.sh             packages, build, agent, two pods, ping
#   sudo deploy/quickstart.sh --no-build  the same with the binaries that are in build/bin already
#   sudo deploy/quickstart.sh --down      undoes it; build/ and installed packages stay
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."
bin=$PWD/build/bin
runtime=/run/ringswitch socket=/run/ringswitch/ringswitchd.sock durable=/var/lib/ringswitch
mine=/run/ringswitch/quickstart # everything that this script keeps
metrics=http://127.0.0.1:9477/metrics
pods=(pod-1 pod-2)

say() { if [[ -t 1 ]]; then printf '\n\033[1m== %s\033[0m\n' "$*"; else printf '\n== %s\n' "$*"; fi; }
die() { echo "quickstart: $*" >&2; exit 1; }
agent_is_mine() { [[ -s $mine/agent.pid && $(readlink "/proc/$(<"$mine/agent.pid")/exe" 2>/dev/null) == */ringswitchd* ]]; }
socket_answers() { [[ -S $socket ]] && perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => shift)' "$socket"; }
refuse_foreign_agent() { # the files under /run/ringswitch are that agent's too
  agent_is_mine || ! socket_answers || die "an agent that this script did not start answers on $socket; stop it first"
}
ringctl() { echo "\$ ringctl $*"; "$bin/ringctl" "$@"; }

# What a container runtime does: the plugin is run with the call in its environment and the configuration on its standard input.
cni() { # cni ADD|DEL POD
  CNI_COMMAND=$1 CNI_CONTAINERID=quickstart-$2 CNI_NETNS=/run/netns/ringswitch-$2 CNI_IFNAME=eth0 CNI_PATH=$bin:/usr/lib/cni \
    CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=quickstart;K8S_POD_NAME=$2" "$bin/ringswitch" <"$mine/network.json"
}

check_machine() {
  ((EUID == 0)) || die "must be root (it makes namespaces and network devices): sudo deploy/quickstart.sh"
  local id='' version=''
  id=$(sed -n 's/^ID=//p' /etc/os-release) version=$(sed -n 's/^VERSION_ID=//p' /etc/os-release)
  [[ $id == debian && $version == '"12"' ]] ||
    echo "quickstart: this is not Debian 12 but $id $version; its packages may have other names or versions" >&2
  local major minor
  IFS=. read -r major minor _ < <(uname -r)
  minor=${minor%%[!0-9]*}
  ((major * 1000 + minor >= 6001)) || die "Linux $(uname -r) is too old for the io_uring dataplane; 6.1 or later is needed"
  [[ $(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null || echo 0) == 0 ]] ||
    die "io_uring is disabled on this machine; enable it with: sysctl kernel.io_uring_disabled=0"
}

down() {
  local pod pid
  for pod in "${pods[@]}"; do
    if [[ -s $mine/network.json && -x $bin/ringswitch ]] && agent_is_mine; then
      cni DEL "$pod" || echo "quickstart: the plugin could not detach $pod; its namespace goes all the same" >&2
    fi
    [[ ! -e /run/netns/ringswitch-$pod ]] || ip netns delete "ringswitch-$pod"
  done
  if agent_is_mine; then
    pid=$(<"$mine/agent.pid")
    kill "$pid"
    timeout 5 tail --pid="$pid" -f /dev/null || { kill -KILL "$pid"; timeout 5 tail --pid="$pid" -f /dev/null || true; }
  fi
  [[ -d $mine ]] || return 0
  [[ -e $mine/durable-was-there ]] || rm -rf "$durable"
  # `ip netns add` leaves /run/netns behind, a mount point of its own.
  if [[ ! -e $mine/netns-was-there && -d /run/netns && -z $(ls -A /run/netns) ]]; then
    umount /run/netns 2>/dev/null || true
    rmdir /run/netns
  fi
  rm -rf "$runtime"
}

build() {
  say "Packages"
  deploy/packages.sh build run
  say "Build (a few minutes the first time)"
  cmake -B build -G Ninja >/dev/null
  cmake --build build --target bin/ringswitchd bin/ringctl bin/ringswitch
}

start_agent() {
  say "Agent"
  local durable_mark='' netns_mark=''
  [[ ! -e $durable ]] || durable_mark=$mine/durable-was-there
  [[ ! -e /run/netns ]] || netns_mark=$mine/netns-was-there
  mkdir -p "$mine"
  touch "$mine/started" ${durable_mark:+"$durable_mark"} ${netns_mark:+"$netns_mark"}
  setsid "$bin/ringswitchd" </dev/null >"$runtime/quickstart.log" 2>&1 &
  echo $! >"$mine/agent.pid"
  local tries
  for ((tries = 0; tries < 100; tries++)); do
    "$bin/ringctl" status >/dev/null 2>&1 && break
    agent_is_mine || { cat "$runtime/quickstart.log" >&2; down; die "the agent did not start; its words are above"; }
    sleep 0.1
  done
  ringctl status || { cat "$runtime/quickstart.log" >&2; die "the agent does not answer on $socket"; }
}

# One configuration for every pod, as it would stand in a conflist: host-local hands out the addresses.
attach_pods() {
  say "Two pods, attached by the CNI plugin"
  cat >"$mine/network.json" <<JSON
{"cniVersion": "1.0.0", "name": "quickstart", "type": "ringswitch", "bridge": "demo",
 "ipam": {"type": "host-local", "dataDir": "$mine/ipam", "ranges": [[{"subnet": "10.99.0.0/24"}]]}}
JSON
  local pod
  for pod in "${pods[@]}"; do
    ip netns add "ringswitch-$pod"
    ip -n "ringswitch-$pod" link set lo up
    cni ADD "$pod" >"$mine/$pod.json" || { cat "$mine/$pod.json" >&2; die "the CNI plugin could not attach $pod; its answer is above"; }
    echo "$pod: $(address_of "$pod") on eth0 in the namespace ringswitch-$pod"
  done
}

address_of() { ip -n "ringswitch-$1" -4 -o address show dev eth0 | awk '{sub("/.*", "", $4); print $4}'; }

try() {
  say "Flooded frames before the first ping"
  ringctl floods --switch demo
  say "Ping from ${pods[0]} to ${pods[1]}"
  local lost=0
  ip netns exec "ringswitch-${pods[0]}" ping -c 4 -i 0.2 -W 2 "$(address_of "${pods[1]}")" || lost=1
  say "Ports"
  ringctl port list
  say "Flooded frames after it: one more broadcast of ${pods[0]}, the question (ARP) who has the address of ${pods[1]}"
  echo "(multicast is the pods' IPv6 looking for neighbours and routers; frames sent while nobody else was there are among the drops)"
  ringctl floods --switch demo
  say "Who is behind which port"
  ringctl fdb list --switch demo
  ((!lost)) || die "the pods do not reach each other; the agent's log is $runtime/quickstart.log"
}

farewell() {
  cat <<TXT

It works. To look around:
  build/bin/ringctl status                    the agent and its dataplane
  build/bin/ringctl port list --output json   the same as above for programs
  ip netns exec ringswitch-pod-1 bash         a shell in the first pod
  curl $metrics     what Prometheus sees
  less $runtime/quickstart.log         what the agent says
To undo it:
  sudo deploy/quickstart.sh --down
TXT
}

case ${1:-} in
  --down)
    ((EUID == 0)) || die "must be root: sudo deploy/quickstart.sh --down"
    refuse_foreign_agent
    down
    echo "quickstart: all gone; build/ and the installed packages are left"
    ;;
  '' | --no-build)
    check_machine
    if agent_is_mine; then
      echo "quickstart: it is up already; starting anew"
      down
    else
      refuse_foreign_agent
      [[ ! -d $mine ]] || down # what a killed agent of ours left
    fi
    [[ ${1:-} == --no-build ]] || build
    for program in ringswitchd ringctl ringswitch; do
      [[ -x $bin/$program ]] || die "build/bin/$program is missing; run it without --no-build"
    done
    start_agent
    attach_pods
    try
    farewell
    ;;
  *) die "usage: sudo deploy/quickstart.sh [--no-build|--down]" ;;
esac
