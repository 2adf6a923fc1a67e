#!/bin/sh
# Instructions that the AArch64 panel kernels take for 16 rows of weights by 32 columns and one row
# of activations, counted under the emulator: what can be said of them where no such machine is.
# usage: bench/count.sh [ROWS [FORMAT...]] (32 rows, all block formats); CSV
set -eu
rows=${1:-32}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- q8_0 q4_0 q4_1 q5_0 q5_1 iq4_nl mxfp4 q4_k q5_k iq4_xs q6_k q3_k q2_k
log=$(mktemp)
trap 'rm -f "$log"' EXIT
program=out/tools-aarch64/count
mkdir -p "${program%/*}"
make -s CC=aarch64-linux-gnu-gcc out/common-aarch64/libkernels.a
aarch64-linux-gnu-gcc -O2 -std=c11 -o $program bench/count.c out/common-aarch64/libkernels.a -lm
count() { # KERNELS FORMAT TIMES
    qemu-aarch64-static -L /usr/aarch64-linux-gnu -singlestep -d exec,nochain -D "$log" $program "$1" "$2" "$rows" 512 "$3"
    grep -c ^Trace "$log"
}
echo "format,rows,neon,i8mm"
for f; do
    line=$f,$rows
    for k in neon i8mm; do
        line=$line,$(awk "BEGIN { printf \"%.1f\", ($(count $k "$f" 2) - $(count $k "$f" 1)) / ($rows * 16) }")
    done
    echo "$line"
done
