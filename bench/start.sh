#!/bin/sh
# Start-up, memory and decode of one model's shape with random weights: mapped against copied.
#
#   bench/start.sh MODEL.lua FORMAT [SCRATCH]  > bench/results/<machine>/start.csv
#   e.g. bench/start.sh models/qwen3-30b-a3b-8l.lua q4_k /tmp
#
# start: seconds of a whole `info`, which opens the engine and ends, weights file in the page cache;
# cold: the same after its pages were dropped; decode: GB/s of weights in 64 steps.  Runs in turn, five
# times, medians; cold once.  peak and plan: bytes, of the runs with a batch of 2048 and 32 k positions.
set -eu
cd "$(dirname "$0")/.."
model=$1 format=$2 scratch=${3:-/tmp}
w=$scratch/start-$$.ingot
trap 'rm -f "$w" "$w".*' EXIT
build() { # id, options
    id=$1
    shift
    ${LUA:-lua5.4} build.lua "$model" this --set quant="$format" --set id="$id" "$@" >&2
    make --no-print-directory ID="$id" build >&2
}
binary() { echo "out/$1/$(sed -n 's/^BINARY *:= *//p' "out/$1/build.mk")"; }
for load in map copy; do
    build "start-$load" --set load=$load
    build "start-long-$load" --set load=$load --set ctx=32768 --set batch=2048
done
"$(binary start-map)" pack --synth 1 -o "$w" >&2
sync

seconds() { # a command's, by the clock
    /bin/sh -c 'a=$(date +%s%N); "$@" >/dev/null; b=$(date +%s%N); echo "$a $b"' sh "$@" | awk '{ printf "%.3f\n", ($2 - $1) / 1e9 }'
}
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for i in 1 2 3 4 5 6; do
    for load in map copy; do
        [ $i = 1 ] && to=/dev/null || to=$w.start-$load
        seconds "$(binary start-$load)" info -m "$w" >>"$to"
    done
done
for i in 1 2 3 4 5; do
    for load in map copy; do
        "$(binary start-$load)" bench -m "$w" -p 0 -n 64 -r 1 -o csv | sed -n '2p' | cut -d, -f12 >>"$w.gbs-$load"
    done
done
echo "load,start_s,cold_s,decode_gb_per_s,peak_bytes,plan_bytes,peak_long_bytes,plan_long_bytes"
for load in map copy; do
    peak=$("$(binary start-$load)" bench -m "$w" -p 512 -n 8 -r 1 -o csv | sed -n '2p' | cut -d, -f14,15)
    long=$("$(binary start-long-$load)" bench -m "$w" -p 2048 -n 8 -r 1 -o csv | sed -n '2p' | cut -d, -f14,15)
    dd of="$w" oflag=nocache conv=notrunc,fdatasync count=0 status=none
    cold=$(seconds "$(binary start-$load)" info -m "$w")
    echo "$load,$(median "$w.start-$load"),$cold,$(median "$w.gbs-$load"),$peak,$long"
done
