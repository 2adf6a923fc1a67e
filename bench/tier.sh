#!/bin/sh
# Experts behind slots against plain mmap of the same file, at 25, 50, 75 and 100 % of the experts in
# RAM, both replaying recorded routing; beside the bound and the plan's prediction.
#
#   bench/tier.sh TRACE [WEIGHTS]   > bench/results/<machine>/tier.csv
#
# MODEL (default models/qwen3-30b-a3b-top6.lua) must route as TRACE did.  WEIGHTS: a file packed by
# any of the engines (they share a layout); left out, random ones go to out/ and are removed.  One
# row a size and engine: medians of ROUNDS (5) interleaved runs.  Ours is limited by the plan; mmap
# by a cgroup of as many bytes as our plan's arena (needs root and the memory controller), with the
# file dropped from the page cache before each run, so that its pages are charged there.
# ROWS of the trace are measured after as many that warm; mmap, where it is slow, gets MMAP_ROWS.
set -eu
cd "$(dirname "$0")/.."
trace=$(realpath "$1")
model=${MODEL:-models/qwen3-30b-a3b-top6.lua}
lua=${LUA:-lua5.4}
rounds=${ROUNDS:-5} rows=${ROWS:-78} few=${MMAP_ROWS:-13}
sizes=${SIZES:-25 50 75 100}
group=/sys/fs/cgroup/memory/ingot-tier-$$
[ -d /sys/fs/cgroup/memory ] || group=/sys/fs/cgroup/ingot-tier-$$

engine() { # ID OPTIONS...
    id=$1
    shift
    sets=
    for o in "$@"; do sets="$sets --set $o"; done
    $lua build.lua "$model" this --set id="$id" $sets >&2
    make --no-print-directory ID="$id" build >&2
}
binary() { echo "out/$1/$(sed -n 's/^BINARY *:= *//p' "out/$1/build.mk")"; }
for s in $sizes; do engine "bench-tier-$s" experts_ram="$s" io=direct trace="$trace"; done
engine bench-tier-mmap tier=mmap
file=${2:-out/bench-tier-mmap/w.ingot}
[ -e "$file" ] || "$(binary bench-tier-mmap)" pack --synth 1 -o "$file" >&2
tmp=$(mktemp -d)
mkdir "$group"
trap 'rm -rf "$tmp"; rmdir "$group" 2>/dev/null || :; [ $# -gt 1 ] || rm -f out/bench-tier-mmap/w.ingot' EXIT

run() { # WHERE ENGINE ROWS: appends a line of JSON
    "$(binary "$2")" bench -m "$file" -p 0 -n "$3" -r 1 --route "$trace" -o json 2>/dev/null | tr -d '\n' >>"$1"
    echo >>"$1"
}
limited() { # BYTES COMMAND...: in the group, with the file out of the page cache
    dd if="$file" iflag=nocache count=0 status=none
    for f in memory.limit_in_bytes memory.max; do [ ! -e "$group/$f" ] || echo "$1" >"$group/$f"; done
    shift
    (sh -c 'echo "$PPID"' >"$group/cgroup.procs" && "$@")
}
i=0
while [ $i -lt "$rounds" ]; do
    i=$((i + 1))
    for s in $sizes; do
        echo "round $i of $rounds, $s %" >&2
        n=$few
        [ "$s" = 25 ] || n=$((rows / 2))
        bytes=$(sed -n 's/.*IG_MEM_BYTES *UINT64_C(\([0-9]*\)).*/\1/p' "out/bench-tier-$s/config.h")
        run "$tmp/ours-$s" "bench-tier-$s" "$rows"
        limited "$((bytes + (64 << 20)))" run "$tmp/mmap-$s" bench-tier-mmap "$n"
    done
done
$lua bench/tier_table.lua "$tmp" $sizes
