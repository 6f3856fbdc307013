#!/usr/bin/env bash
# Runs one command as root under Debian 12's own kernel, the one a fresh machine of the README has, in an emulated machine (qemu, no
# KVM needed, about 10 s).
#
#   run.sh [--timeout SECONDS] -- COMMAND ARGUMENT...
#
# The guest sees this machine's files read-only beneath an overlay in memory: the command finds the same paths, what it writes is
# gone afterwards. It has no network but lo. /run is fresh, the tun module is loaded. Output is printed when the command has ended.
# Exit status: the command's; 124 when time is up; 125 when the machine itself failed, with its console.
# The kernel package is downloaded once and unpacked, never installed: VM_CACHE, default /var/cache/ringswitch-vm.
# Needs: qemu-system-x86 busybox-static kmod (deploy/packages.sh test).
set -euo pipefail
limit=240
[[ ${1:-} != --timeout ]] || { limit=$2; shift 2; }
[[ ${1:-} == -- && $# -gt 1 ]] || { echo "usage: run.sh [--timeout SECONDS] -- COMMAND ARGUMENT..." >&2; exit 125; }
shift
cache=${VM_CACHE:-/var/cache/ringswitch-vm}
run=$(mktemp -d /tmp/ringswitch-vm.XXXXXX)
qemu=
# shellcheck disable=SC2317
cleanup() {
  [[ -z $qemu ]] || kill "$qemu" 2>/dev/null || true
  wait
  rm -rf "$run"
}
trap cleanup EXIT
trap 'exit 143' INT TERM HUP

fetch_kernel() {
  local package
  package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-[0-9]/ {print $2; exit}')
  [[ $package ]] || { apt-get -q update && package=$(apt-cache depends linux-image-amd64 |
    awk '/Depends: linux-image-[0-9]/ {print $2; exit}'); }
  mkdir "$run/fetch"
  (cd "$run/fetch" && { apt-get -q -o APT::Sandbox::User=root download "$package" ||
    { apt-get -q update && apt-get -q -o APT::Sandbox::User=root download "$package"; }; })
  dpkg -x "$run"/fetch/*.deb "$run/unpacked"
  rm -rf "$cache/kernel"
  mv "$run/unpacked" "$cache/kernel"
}
mkdir -p "$cache"
(
  flock 9
  compgen -G "$cache/kernel/boot/vmlinuz-*" >/dev/null || fetch_kernel >&2
) 9>"$cache/lock" || { echo "run.sh: the kernel package could not be had" >&2; exit 125; }
kernel=$(compgen -G "$cache/kernel/boot/vmlinuz-*")
version=${kernel#*/vmlinuz-}
modules=$cache/kernel/lib/modules/$version
[[ -s $modules/modules.dep ]] || depmod -b "$cache/kernel" "$version"

# The first root: busybox and the modules that reach the real one.
mkdir -p "$run/first"/{bin,modules,proc,lower,memory,root} "$run/exchange"
cp "$(command -v busybox)" "$run/first/bin/busybox"
for module in virtio_pci 9pnet_virtio 9p overlay; do
  modprobe -d "$cache/kernel" -S "$version" --show-depends "$module" | awk '/^insmod/ {print $2}'
done | awk '!seen[$0]++' >"$run/order"
while read -r file; do cp "$file" "$run/first/modules/"; echo "/modules/${file##*/}"; done <"$run/order" >"$run/first/order"
cat >"$run/first/init" <<'INIT'
#!/bin/busybox sh
PATH=/bin; /bin/busybox --install -s /bin
while read -r module; do insmod "$module"; done </order
options=trans=virtio,version=9p2000.L,msize=262144
mount -t 9p -o ro,cache=loose,$options machine /lower
mount -t tmpfs none /memory && mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work none /root
cd /root
mount -t proc proc proc && mount -t sysfs sysfs sys && mount -t devtmpfs dev dev
mount -t tmpfs -o mode=755 none run && mkdir -p dev/pts dev/shm run/exchange run/lock
mount -t devpts devpts dev/pts && mount -t tmpfs none dev/shm && mount -t cgroup2 none sys/fs/cgroup
ln -s /proc/self/fd dev/fd; ln -s fd/0 dev/stdin; ln -s fd/1 dev/stdout; ln -s fd/2 dev/stderr
mount -t 9p -o cache=none,$options exchange run/exchange
exec switch_root /root /bin/bash /run/exchange/guest.sh
INIT
chmod +x "$run/first/init"
(cd "$run/first" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$run/initrd"

# Modules load on demand from PID 1's root, so that is where the kernel's own are put.
{
  printf 'modules=%q version=%q folder=%q command=(' "$modules" "$version" "$PWD"
  printf '%q ' "$@"
  cat <<'GUEST'
)
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mkdir -p "/lib/modules/$version" && mount --bind "$modules" "/lib/modules/$version"
modprobe tun; ip link set lo up
cd "$folder"
setsid -w "${command[@]}" </dev/null >/run/exchange/output 2>&1
echo $? >/run/exchange/status
sync -f /run/exchange
echo b >/proc/sysrq-trigger
sleep 60
GUEST
} >"$run/exchange/guest.sh"

timeout --kill-after=5 "$limit" qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
  -machine pc -accel tcg,thread=multi -cpu max,la57=off -smp 2 -m 2048 \
  -kernel "$kernel" -initrd "$run/initrd" -serial "file:$run/console" \
  -append "console=ttyS0 quiet panic=-1 oops=panic mitigations=off tsc=reliable no_timer_check nowatchdog random.trust_cpu=on" \
  -virtfs local,path=/,mount_tag=machine,security_model=none,readonly=on,multidevs=remap \
  -virtfs "local,path=$run/exchange,mount_tag=exchange,security_model=none" </dev/null >"$run/qemu" 2>&1 &
qemu=$!
result=0
wait "$qemu" || result=$?
qemu=
[[ ! -e $run/exchange/output ]] || cat "$run/exchange/output"
[[ ! -s $run/exchange/status ]] || exit "$(<"$run/exchange/status")"
{ cat "$run/qemu"; tail -n 40 "$run/console"; echo "run.sh: no result from the machine (qemu: $result)"; } >&2
((result != 124 && result != 137)) || exit 124
exit 125
