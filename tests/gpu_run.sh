#!/bin/sh
# Run a bundle (tests/gpu_bundle.sh) on a machine with the GPU:  run.sh [test|sanitize|thresholds|bench [NAME...]]...
#
#   test      every engine's bits against the CPU's
#   sanitize  a few of them under compute-sanitizer, where there is one
#   bench     random weights of real shapes, one CSV row a test; and the planned memory
#   thresholds  from how many rows matrix units, and tiles of attention, are faster (10 s)
# TAP; the last line is "N passed, N failed, N skipped".  WORK: a folder for tens of GB (/dev/shm).
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-/dev/shm}
dir=$(mktemp -d "$work/ingot-XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
if command -v xz >/dev/null; then tar -C "$dir" -xJf "$here/bundle.tar.xz"; else
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$here/bundle.tar.xz" "$dir"
fi || exit 1
all=$(cat "$dir/names")
tap() { ROOT=$dir/engines TROUBLES=$dir/troubles sh "$dir/gpu.sh" "$@"; }
# The suite's slow tool on engines that together have every kernel.
few='xc-odd xc-stream odd-q4_0 odd-bf16 blocks-a blocks-c qwen3-moe qwen2-moe gpt-oss glm4-moe'

sanitize() {
    for tool in memcheck racecheck synccheck; do
        if ! command -v compute-sanitizer >/dev/null; then
            echo "ok 1 - $tool # SKIP no compute-sanitizer on this machine"
            continue
        fi
        for name in $few; do
            [ -d "$dir/engines/$name" ] || continue
            echo "# $tool"
            RUN="compute-sanitizer --tool $tool --error-exitcode 9" BATCHES='7' GREEDY=2 SHORT=20 SANITIZED=1 tap "$name"
        done
    done
}

# One engine: decode after 128, 512 and 1500 tokens, prefill; peak memory within 3 % of the plan's.
bench() {
    bin=$dir/bench/$1/engine
    "$bin" pack --synth=1 -o "$dir/w.ingot" >"$dir/log" 2>&1 || { echo "not ok 1 - $1: pack"; sed 's/^/# /' "$dir/log"; return; }
    for n in "-p 0 -n 128" "-p 0 -n 512" "-p 0 -n 1500" "-p 512 -n 0" "-p 2048 -n 0"; do
        if ! "$bin" bench -m "$dir/w.ingot" $n -r "${REPEAT:-5}" -o csv >"$dir/rows" 2>"$dir/log"; then
            echo "not ok 1 - $1: bench $n"; sed 's/^/# /' "$dir/log"
            continue
        fi
        [ "$n" != "-p 0 -n 128" ] || sed -n 1p "$dir/rows"
        sed -n '2,$p' "$dir/rows"
    done
    # In parentheses: a bare > would send the line to a file of that name.
    awk -F, -v name="$1" 'END { r = $(NF - 1) / $NF
        printf("%s 1 - %s: peak device memory %.4f of the plan\n", (r > 0.97 && r < 1.03) ? "ok" : "not ok", name, r) }' "$dir/rows" ||
        echo "not ok 1 - $1: peak device memory was not compared"
    rm -f "$dir/w.ingot"
}

# The same weights in engines that use matrix units always or never, tiles of attention always or never: ms
# of a prompt of N tokens, and from which N on the first of two is not slower.
THRESHOLD_ROWS='4 8 16 24 32 48 64 96'
ms() { # engine, rows
    "$dir/bench/rows-$1/engine" bench -m "$dir/w.ingot" -p "$2" -n 0 -r 5 -o csv 2>"$dir/log" |
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) { if ($i == "tokens") t = i; if ($i == "ms_median") m = i } }
            NR == 2 { printf "%.3f", $m * $t }'
}
crossing() { # what, its column
    awk -v what="$1" -v c="$2" '{ if ($c <= $4) { if (!from) from = $1 } else from = 0 }
        END { if (from) print "# " what ": not slower from " from " rows on"; else print "# " what ": slower at all sizes tried" }' "$dir/times"
}
thresholds() {
    "$dir/bench/rows-none/engine" pack --synth=1 -o "$dir/w.ingot" >"$dir/log" 2>&1 ||
        { echo "not ok 1 - thresholds: pack"; sed 's/^/# /' "$dir/log"; return; }
    : >"$dir/times"
    echo "# ms of a prompt: rows, matrix units, tiles of attention, neither"
    for n in $THRESHOLD_ROWS; do
        echo "$n $(ms gemm "$n") $(ms tile "$n") $(ms none "$n")" | tee -a "$dir/times" | sed 's/^/# /'
    done
    crossing "matrix units (gemm_rows)" 2
    crossing "tiles of attention (tile_rows)" 3
    awk 'NF != 4 { bad = 1 } END { print bad || NR == 0 ? "not ok 1 - thresholds: a size was not measured" : "ok 1 - thresholds" }' "$dir/times"
    rm -f "$dir/w.ingot"
}

[ $# -gt 0 ] || set -- test
{
    while [ $# -gt 0 ]; do
        what=$1
        shift
        case $what in
        test) tap $all ;;
        sanitize) sanitize ;;
        thresholds) thresholds ;;
        bench)
            [ $# -gt 0 ] || set -- $(ls "$dir/bench" | grep -v "^rows-")
            for name in "$@"; do bench "$name"; done
            set -- ;;
        *) echo "not ok 1 - run.sh: want test, sanitize, thresholds or bench, got $what" ;;
        esac
    done
} | tee "$dir/tap" | grep -v ' passed, '
awk '/^ok .*# SKIP/ { s++; next } /^ok / { p++ } /^not ok / { f++ }
     END { printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 || p == 0 }' "$dir/tap"
