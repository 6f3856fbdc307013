#!/usr/bin/env bash
# The Debian 12 packages that Ringswitch needs, in one place: what quickstart.sh, tests/run.sh and the container image use.
#
#   packages.sh build run test     installs the packages of these groups that are missing (root); quick when none is
#   packages.sh --list build       prints them, one a line
set -euo pipefail

# Compiler, generators, libraries. libgrpc++-dev and its companions are also what the static CNI plugin is linked from.
build=(cmake ninja-build g++ pkg-config ccache
  libabsl-dev liburing-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libssl-dev libc-ares-dev zlib1g-dev libre2-dev
  prometheus-cpp-dev libmicrohttpd-dev libcli11-dev libspdlog-dev libnl-3-dev libnl-route-3-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev)
# To try it out: namespaces, ping, host-local, a look at the metrics.
run=(iproute2 iputils-ping containernetworking-plugins curl procps util-linux)
# What the tests use beside these: formatter, fuzzer and its symbolizer, Python clients, promtool, a reader of captures, a private
# containerd, an emulated machine, Node.js. On a machine with systemd the packages prometheus and containerd also start a service
# each; the tests use neither.
test=(clang-format-14 clang-14 libclang-rt-14-dev llvm-14 gcovr libbenchmark-dev python3 python3-pytest python3-grpcio python3-protobuf
  prometheus tcpdump ethtool busybox-static containerd runc qemu-system-x86 kmod nodejs npm)

list=0
[[ ${1:-} != --list ]] || { list=1; shift; }
wanted=()
for group in "$@"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    run) wanted+=("${run[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    *) echo "packages.sh: unknown group '$group'; groups are build, run and test" >&2; exit 2 ;;
  esac
done
((${#wanted[@]})) || { echo "usage: packages.sh [--list] build|run|test..." >&2; exit 2; }
if ((list)); then printf '%s\n' "${wanted[@]}"; exit; fi

missing=()
for package in "${wanted[@]}"; do
  # Node.js from elsewhere brings its own npm and conflicts with Debian's.
  [[ $package != nodejs && $package != npm ]] || ! command -v npm >/dev/null || continue
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0
((EUID == 0)) || { echo "packages.sh: not root, and these packages are missing: ${missing[*]}" >&2; exit 1; }
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install -y --no-install-recommends "${missing[@]}"
