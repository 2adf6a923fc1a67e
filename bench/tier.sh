#!/bin/sh
# Experts behind slots against plain mmap of the same file, at 25, 50, 75 and 100 % of the experts in
# RAM, both replaying recorded routing; beside the bound and the plan's prediction.
#
#   bench/tier.sh TRACE [WEIGHTS]   > bench/results/<machine>/tier.csv
#
# MODEL (default models/qwen3-30b-a3b-top6.lua) must route as TRACE, a route CSV, did.  WEIGHTS: a file
# packed by any of the engines (they share a layout); left out, random ones go to out/ and are
# removed.  Medians of ROUNDS (5) interleaved runs; 15 minutes on two cores.
#
# A run is a fresh process: as many rows of the trace warm as are then measured (ROWS, 78).  Ours is
# limited by the plan; mmap by a cgroup of as many bytes as our plan's arena (needs root and the memory
# controller), with the file dropped from the page cache before, so that its pages are charged there.
# mmap is slow where little fits, and gets fewer rows (MMAP_ROWS: a number a size); the ratio then is of
# runs of ours with as few.  PREDICT: sizes that also run with prefetch, told the predictions that
# bench/predictions.lua draws (their accuracy is stated there).
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] && [ -f "$1" ] || { echo "tier.sh: want TRACE, a route CSV of $(basename "${MODEL:-models/qwen3-30b-a3b-top6.lua}" .lua), got ${1:-none}" >&2; exit 2; }
trace=$(realpath "$1")
model=${MODEL:-models/qwen3-30b-a3b-top6.lua}
lua=${LUA:-lua5.4}
rounds=${ROUNDS:-5} rows=${ROWS:-78}
sizes=${SIZES:-25 50 75 100} few=${MMAP_ROWS:-13 39 78 78} predict=${PREDICT-25}
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
for s in $sizes; do engine "bench-tier-$s" experts_ram="$s" io=direct predict=none trace="$trace"; done
for s in $predict; do engine "bench-tier-next-$s" experts_ram="$s" io=direct predict=hybrid trace="$trace"; done
engine bench-tier-mmap tier=mmap
file=${2:-out/bench-tier-mmap/w.ingot}
[ -e "$file" ] || "$(binary bench-tier-mmap)" pack --synth 1 -o "$file" >&2
tmp=$(mktemp -d)
mkdir "$group"
trap 'rm -rf "$tmp"; rmdir "$group" 2>/dev/null || :; [ $# -gt 1 ] || rm -f out/bench-tier-mmap/w.ingot' EXIT
$lua bench/predictions.lua "$trace" >"$tmp/next.trace"

run() { # WHERE ENGINE ROWS TRACE: appends a line of JSON
    "$(binary "$2")" bench -m "$file" -p 0 -n "$3" -r 1 --route "$4" -o json 2>/dev/null | tr -d '\n' >>"$1"
    echo >>"$1"
}
drop() { # the file out of the page cache; proved, where the system can say
    dd if="$file" iflag=nocache count=0 status=none
    left=$(fincore -b -n -o RES "$file" 2>/dev/null || echo 0)
    [ "$left" -lt 16777216 ] || { echo "tier.sh: $file: want it out of the page cache, got $left bytes left in it" >&2; exit 1; }
}
limited() { # BYTES COMMAND...: in the group
    drop
    for f in memory.limit_in_bytes memory.max; do [ ! -e "$group/$f" ] || echo "$1" >"$group/$f"; done
    shift
    (sh -c 'echo "$PPID"' >"$group/cgroup.procs" && "$@")
}
round() { # SIZE MMAP_ROWS
    bytes=$(sed -n 's/.*IG_MEM_BYTES *UINT64_C(\([0-9]*\)).*/\1/p' "out/bench-tier-$1/config.h")
    run "$tmp/ours-$1" "bench-tier-$1" "$rows" "$trace"
    case " $predict " in *" $1 "*) run "$tmp/next-$1" "bench-tier-next-$1" "$rows" "$tmp/next.trace" ;; esac
    if [ "$2" = "$rows" ]; then tail -n 1 "$tmp/ours-$1" >>"$tmp/few-$1"; else
        run "$tmp/few-$1" "bench-tier-$1" "$2" "$trace"
    fi
    limited "$((bytes + (64 << 20)))" run "$tmp/mmap-$1" bench-tier-mmap "$2" "$trace"
}
i=0
while [ $i -lt "$rounds" ]; do
    i=$((i + 1))
    set -- $few
    for s in $sizes; do
        echo "round $i of $rounds, $s %" >&2
        round "$s" "$1"
        [ $# -eq 1 ] || shift
    done
done
$lua bench/tier_table.lua "$tmp" $sizes
