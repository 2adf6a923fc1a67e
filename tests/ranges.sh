#!/bin/sh
# The ranges that a build for a profiler names (make RANGES=1), as one that stands in for it sees them (TAP).
set -u
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
dir=out/test/gpu-xc-stream
bin=$dir/$(sed -n 's/^BINARY *:= *//p' "$dir/build.mk")-emulated-ranges
. "$(dirname "$0")/gpu_about.sh"
set_about xc-stream
n=0
bad=0
report() { # name, what was found wrong
    n=$((n + 1))
    if [ -z "$2" ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; echo "$2" | sed 's/^/# /' | head -20; bad=$((bad + 1)); fi
}
"$bin" pack "$source" -o "$tmp/w.ingot" >"$tmp/out" 2>&1 || report pack "$(cat "$tmp/out")"
seen() { # options of the run
    rm -f "$tmp/ranges"
    RANGES="$tmp/ranges" NVTX_INJECTION64_PATH="$PWD/out/test/troubles/ranges.so" \
        "$bin" eval -m "$tmp/w.ingot" -t 1 --tokens "$(ids 40 512)" --greedy 2 --dump "$tmp/dump" "$@" >"$tmp/out" 2>&1
}
# Lines of the file: depth, name, number.
want() { # name, lines that have to be there
    missing=
    for line in $2; do
        grep -qx "$(echo "$line" | tr '_' ' ')" "$tmp/ranges" || missing="$missing $line"
    done
    report "$1" "${missing:+not there:$missing; $(head -8 "$tmp/ranges"; tail -3 "$tmp/out")}"
}
seen -b 40 --link 50
want 'prefill: attention and experts on the device, experts by the CPU, fills' \
    '0_prefill_0 1_attention_0 1_attention_1 1_experts_1 1_experts_by_the_CPU_0 1_fill_1'
want 'decode steps by position' '0_decode_step_40'
seen -b 1 --link 0
want 'misses by the CPU, layer by layer' '0_decode_step_0 1_misses_by_the_CPU_0 1_misses_by_the_CPU_1'
"$bin" eval -m "$tmp/w.ingot" -t 1 --tokens "$(ids 40 512)" --greedy 2 --dump "$tmp/other" -b 40 --link 50 >"$tmp/out" 2>&1
report 'without a profiler: the same bits' "$(cmp "$tmp/dump" "$tmp/other" 2>&1)"
echo "1..$n"
echo "$((n - bad)) passed, $bad failed"
[ $bad = 0 ]
