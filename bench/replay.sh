#!/bin/sh
# Makes the tables and plots of docs/POLICIES.md in bench/results/replay, but for the predictors'
# (bench/predict.sh).  About a minute.
#   bench/replay.sh REPLAY_BINARY [SHARED_FOLDER]
set -eu
[ $# -ge 1 ] || { echo "replay.sh: want REPLAY_BINARY (make replay), got none" >&2; exit 2; }
replay=$1
traces=${2:-../shared}/traces
out=bench/results/replay
fine=$traces/fine-moe.trace
tune='--docs 0,1,2,3,8'
judge='--docs 4,5,6,7,9 --train 0,1,2,3,8'
mkdir -p $out

# The known numbers.
"$replay" "$traces/qwen.route.csv" --sets layers,global --policies lru,lru2,decay,belady,belady-bypass \
    -o csv --svg $out/qwen.svg >$out/qwen.csv
"$replay" "$traces/gptoss.route.csv" --sets layers,global --policies lru,decay,decay:4,mix:2:64:0.7,belady \
    -o csv >$out/gptoss.csv
"$replay" "$fine" --pool 25,50 --sets layers,global --policies lru,lru2,decay,decay:32,belady \
    -o csv >$out/fine-moe.csv

# Policies: tuned, judged, and with fewer sets.
"$replay" "$fine" $tune --pool 25,37.5,50 -o csv --policies \
lru,decay:8,decay:16,decay:24,decay:32,decay:64,\
score:32:0.25,score:32:0.5,score:32:1,mix:6:64:0.5,mix:6:64:0.3,mix:8:128:0.3,mix:4:64:0.3,\
arc,lirs:0.3,lirs:0.5,lirs:0.7,tinylfu:16,tinylfu:32,tokid:32:1,tokid:32:2,tokid:32:1:1,tokid:32:1:3,\
echo:8,echo:16,echo:32,echo:16:0.2,echo:16:0.8,echo:16:0.4:256,echo:16:0.4:4096,echo-admit,belady \
    >$out/tune.csv
"$replay" "$fine" $judge --pool 18.75,25,37.5,50,75 -o csv --svg $out/judge.svg --policies \
lru,lru2,decay,echo,echo-admit,mix:6:64:0.3,score:32:0.25,arc,lirs:0.3,tinylfu:32,tokid:32:2,tokid:32:1:3,\
pred:32:2:2,static,belady,belady-bypass >$out/judge.csv
"$replay" "$fine" $judge --pool 25,50 --sets layers,8,4,2,global --policies lru,decay,echo -o csv \
    >$out/sets.csv

# Two-level LRU: what predictions change.
{
    "$replay" "$fine" $judge --pool 25,50 --sets global --policies lru,lru2 -o csv
    "$replay" "$fine" $judge --pool 25,50 --sets global --policies lru,lru2 -o csv --predict hybrid --distance 2 \
        --no-prefetch
    "$replay" "$fine" $judge --pool 25,50 --policies lru,lru2 -o csv --predict hybrid
} | awk 'NR == 1 || /,lru/' >$out/lru2.csv

# The stride while the link is four times slower for a third of the time.
for predict in hybrid perfect; do
    for p in "" "--stride 1:4"; do
        "$replay" "$fine" $judge --pool 50 --policies echo --predict $predict --least 0.4 --layer-us 400 \
            --drop 4:0.33:0.66 $p --svg $out/stride-$predict.svg -o csv
    done
done | awk 'NR == 1 || /,echo,/' >$out/stride.csv
mv $out/stride-hybrid.svg $out/stride.svg
rm $out/stride-perfect.svg
