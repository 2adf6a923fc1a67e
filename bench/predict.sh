#!/bin/sh
# Makes the predictor tables of docs/POLICIES.md in bench/results/replay: recall, and what prefetch makes of
# it.  ENGINE is a binary of tiny-mixtral, WEIGHTS its file; PYTHON has numpy and scikit-learn.  About
# fifteen minutes.
#   bench/predict.sh REPLAY ENGINE WEIGHTS [PYTHON] [SHARED]
set -eu
replay=$1 engine=$2 weights=$3 python=${4:-python3} shared=${5:-../shared}
out=bench/results/replay
work=${TMPDIR:-/tmp}/ingot-predict.$$
mkdir -p "$work" $out
trap 'rm -rf "$work"' EXIT

# Trained on some documents, judged on the others.
fine="$shared/traces/fine-moe.trace" fine_train=0,1,2,3,8 fine_judge=4,5,6,7,9
tiny="$work/tiny.trace" tiny_train=0,1,2,3,4,5,6,7,8,9,10 tiny_judge=11,12,13,14,15,16,17,18,19,20
"$engine" trace -m "$weights" -f "$shared/goldens/tiny-mixtral/eval-text.txt" -c 512 -o "$tiny" \
    --hidden "$work/tiny.hidden"
"$python" tools/train_predictor.py "$fine" --docs $fine_train --replay "$replay" -o "$work/fine.predictor"
"$python" tools/train_predictor.py "$tiny" --docs $tiny_train --every 1 --hidden "$work/tiny.hidden" \
    --replay "$replay" -o "$work/tiny.predictor"

fine() { "$replay" "$fine" --docs $fine_judge --train $fine_train --predictor "$work/fine.predictor" -o csv "$@"; }
tiny() {
    "$replay" "$tiny" --docs $tiny_judge --train $tiny_train --predictor "$work/tiny.predictor" \
        --hidden "$work/tiny.hidden" -o csv "$@"
}

fine --recall >$out/recall.csv
tiny --recall >$out/recall-tiny.csv
"$replay" "$fine" --recall -o csv | grep -e predictor -e next >$out/recall-all.csv

# Every predictor at distance 1 by the least chance, then at 2 and 4; arguments: the run, the machine.
stalls() {
    run=$1
    shift
    $run --policies echo "$@"
    for p in next-router history hybrid forest mlp perfect; do
        for least in 0 0.2 0.4 0.6 0.8 0.9; do
            [ $p = perfect ] && [ $least != 0 ] && continue
            $run --policies echo --predict $p --least $least "$@" | grep ,echo,
        done
        for d in 2 4; do
            $run --policies echo --predict $p --least 0.4 --distance $d "$@" | grep ,echo,
        done
    done
}
for us in 40 200 800; do
    stalls fine --pool 25,50 --layer-us $us
done | awk 'NR == 1 || !/^predict,/' >$out/prefetch.csv
# The tiny model's experts in BF16: a disk of 0.8 GB/s and two cores, then a link that keeps up.
{
    stalls tiny --pool 25,50 --bw-link 0.8 --bw-mem 30 --layer-us 20 --expert-bytes 491520
    stalls tiny --pool 25,50 --bw-link 25 --bw-mem 100 --layer-us 20 --expert-bytes 491520
} | awk 'NR == 1 || !/^predict,/' >$out/prefetch-tiny.csv
