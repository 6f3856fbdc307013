#!/usr/bin/env bash
# Fuzzing: builds the targets with clang 14's libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer, and runs each for a time
# from the seeds and finds of the repository, two at a time.
#
#   tests/fuzz/run.sh                          every target, 60 s each
#   tests/fuzz/run.sh --seconds 3600 pipeline  one of them, for an hour
#   tests/fuzz/run.sh --keep FOLDER ...        what a target has made of its seeds goes on in FOLDER/TARGET, and stays
#
# A target that ends its process, or takes too long, is a failure: the input that did it is made smaller, printed and kept as
# tests/fuzz/finds/TARGET/NAME.hex, which every build replays from then on (ctest -R fuzz.replay_TARGET). Nothing else is left behind
# but the build folder.
set -uo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../.." || exit 2
usage() { echo "usage: tests/fuzz/run.sh [--seconds N] [--keep FOLDER] [target...]" >&2; exit 2; }
seconds=60 keep=''
while [[ ${1:-} == -* ]]; do
  case $1 in
    --seconds) seconds=${2:-} ;;
    --keep) keep=$(realpath -m "${2:-}") ;;
    *) usage ;;
  esac
  [[ ${2:-} ]] || usage
  shift 2
done
[[ $seconds =~ ^[0-9]+$ ]] || usage
targets=("$@")
(($#)) || targets=(pipeline segmentation receiver request cni state guard text)
for target in "${targets[@]}"; do
  [[ -f tests/fuzz/${target}_fuzz.cc ]] || { echo "run.sh: no target $target" >&2; exit 2; }
done

build=build-fuzz
export CC=clang-14 CXX=clang++-14
log=$(mktemp)
{ cmake -S . -B $build -G Ninja -DRINGSWITCH_FUZZ=ON && cmake --build $build --target "${targets[@]/#/fuzz_}"; } >"$log" 2>&1 ||
  { tail -n 40 "$log" >&2; rm -f "$log"; exit 1; }
rm -f "$log"
unset CC CXX

# Corpora, artifacts and what the targets write; in memory, where it can be.
work=$(mktemp -d "$([[ -w /dev/shm ]] && echo /dev/shm || echo /tmp)/ringswitch-fuzz-run-XXXXXX")
trap 'jobs -p | xargs -r kill 2>/dev/null; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# inputs TARGET FOLDER: the repository's, each line of a *.hex as the bytes that it stands for.
inputs() {
  python3 - "$2" "tests/fuzz/seeds/$1" "tests/fuzz/finds/$1" <<'PYTHON'
import pathlib, re, sys
out = pathlib.Path(sys.argv[1])
for path in (p for folder in sys.argv[2:] for p in sorted(pathlib.Path(folder).glob("*"))):
    data = path.read_bytes()
    lines = [bytes.fromhex(re.sub("#.*", "", line)) for line in data.decode().splitlines()] if path.suffix == ".hex" else [data]
    for number, line in enumerate(lines, 1):
        (out / f"{path.parent.parent.name}-{path.name}-{number}").write_bytes(line)
PYTHON
}

# fuzz TARGET: 0, or what the fuzzer ended with. What it prints is in $work/TARGET.log.
fuzz() {
  local target=$1 folder=$work/$1 corpus
  mkdir -p "$folder"/{inputs,corpus,tmp,found}
  corpus=$folder/corpus
  [[ -z $keep ]] || { corpus=$keep/$target; mkdir -p "$corpus"; }
  inputs "$target" "$folder/inputs" || return 1
  # In place of the shell, so that ending this job ends the fuzzer. Long inputs from the start: the first bytes of many are
  # configuration, and what is done with it comes behind.
  exec env TMPDIR="$folder/tmp" UBSAN_OPTIONS=print_stacktrace=1 \
    "$build/bin/fuzz_$target" -max_total_time="$seconds" -max_len=2048 -len_control=0 -timeout=20 -print_final_stats=1 \
    -artifact_prefix="$folder/found/" "$corpus" "$folder/inputs" >"$work/$target.log" 2>&1
}

# keep_find TARGET: makes the input smaller and keeps it.
keep_find() {
  local target=$1 folder=$work/$1 found small kept
  for found in "$folder"/found/*; do
    [[ -f $found ]] || continue
    small=$folder/small
    [[ $found == */timeout-* ]] || TMPDIR=$folder/tmp timeout 120 "$build/bin/fuzz_$target" -minimize_crash=1 -max_total_time=30 \
      -exact_artifact_path="$small" "$found" >/dev/null 2>&1
    [[ -s $small ]] || small=$found
    kept=tests/fuzz/finds/$target/$(basename "$found" | cut -c1-20).hex
    mkdir -p "$(dirname "$kept")"
    python3 -c 'import sys; print(open(sys.argv[1], "rb").read().hex())' "$small" >"$kept"
    echo "  kept as $kept ($(stat -c %s "$small") bytes); every build replays it: ctest -R fuzz.replay_$target"
  done
}

failed=0
report() { # report TARGET STATUS
  local target=$1 status=$2 text=$work/$1.log verdict=ok executions edges
  ((status == 0)) || { verdict=FAILED; failed=1; }
  executions=$(sed -nE 's/^stat::number_of_executed_units: *//p' "$text")
  edges=$(grep -oE 'cov: [0-9]+' "$text" | tail -n 1 | cut -d' ' -f2)
  printf '%-14s %9s executions %6s edges  %s\n' "$target" "${executions:-?}" "${edges:-?}" "$verdict"
  ((status)) || return 0
  grep -E 'does not hold|ERROR:|runtime error|SUMMARY|^ +#[0-9]+ .* in .*(ringswitch|dataplane|server|cni)' "$text" | head -n 14
  keep_find "$target"
}

running=()
finish_one() { # waits for the first of them
  local target=${running[0]} pid=${running[1]}
  wait "$pid"
  report "$target" $?
  running=("${running[@]:2}")
}
for target in "${targets[@]}"; do
  ((${#running[@]} < 4)) || finish_one
  fuzz "$target" &
  running+=("$target" $!)
done
while ((${#running[@]})); do finish_one; done
exit $failed
