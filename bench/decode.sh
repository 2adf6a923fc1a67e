#!/bin/sh
# Prefill and decode of a model's shape with random weights, beside the bound of this machine.
#
#   bench/decode.sh MODEL.lua FORMAT...  >> bench/results/<machine>/decode.csv
#   e.g. bench/decode.sh models/qwen3-30b-a3b-8l.lua q8_0 q4_0 q4_k
#
# One row a test and format, in the columns of `NAME bench -o csv`.  The weights go to out/ and
# are removed again; the memory bandwidth is measured by bench itself, between its repetitions.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { echo "decode.sh: want MODEL.lua FORMAT..., got $# arguments" >&2; exit 2; }
model=$1
shift
head=1
for format in "$@"; do
    id=bench-$(basename "$model" .lua)-$format
    ${LUA:-lua5.4} build.lua "$model" this --set quant="$format" --set id="$id" >&2
    make --no-print-directory ID="$id" build >&2
    bin=out/$id/$(sed -n 's/^BINARY *:= *//p' "out/$id/build.mk")
    "$bin" pack --synth 1 -o "out/$id/w.ingot" >&2
    "$bin" bench -m "out/$id/w.ingot" -p 512 -n 64 -r 5 -o csv >"out/$id/rows"
    rm -f "out/$id/w.ingot"
    if [ "$head" = 1 ]; then sed -n '1s/^/format,/p' "out/$id/rows"; fi
    sed "1d;s/^/$format,/" "out/$id/rows"
    head=0
done
