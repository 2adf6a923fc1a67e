#!/bin/sh
# The device's bits against the CPU's, by the same program (TAP):  tests/gpu.sh [NAME...]
#
# For each engine out/test/gpu-NAME/: hidden rows, routing and logits of a prompt in batches of
# 1, 7 and 64, and of tokens made after it one by one, are equal byte for byte.  RUN is put in
# front of the device's runs (RUN="compute-sanitizer --tool memcheck --error-exitcode 9").
# FLAVOR=-emulated tests the emulation (EMULATE=1), which needs no device.
set -u
root=${ROOT:-out/test}
run=${RUN:-}
greedy=${GREEDY:-24}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
n=0
bad=0
report() { # name, what was found wrong
    n=$((n + 1))
    if [ -z "$2" ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; echo "$2" | sed 's/^/# /' | head -20; bad=1; fi
}
ids() { # count, vocabulary
    awk -v n="$1" -v v="$2" 'BEGIN { x = 12345
        for (i = 0; i < n; i++) { x = (x * 1103515245 + 12345) % 2147483648
            printf "%s%d", i ? "," : "", int(x / 65536) % v } }'
}
# checkpoint, vocabulary, tokens of each engine; --synth makes random weights
about() {
    case $1 in
    mixtral) echo tests/golden/mixtral 512 150 ;;
    mixtral-swa) echo tests/golden/mixtral-swa 512 150 ;;
    mixtral-bf16) echo tests/golden/mixtral-bf16-sharded 512 150 ;;
    qwen3-moe|olmoe|qwen2-moe|granitemoe|glm4-moe|phimoe|dbrx|gpt-oss)
        for g in "tests/golden/$1" "${INGOT_SHARED:-../shared}/goldens/$1"; do
            [ -d "$g" ] && echo "$g" 512 "${SHORT:-100}"
        done ;;
    demo) echo tests/data/tiny-mixtral.gguf 4096 "${LONG:-1150}" ;;
    odd-long) echo --synth=7 37 1060 ;;
    blocks-*) echo --synth=7 64 20 ;;
    *) echo --synth=7 37 100 ;;
    esac
}
cpu() { CUDA_VISIBLE_DEVICES='' INGOT_NO_DEVICE=1 "$@"; }

for name in "$@"; do
    dir=$root/gpu-$name
    bin=$dir/$(sed -n 's/^BINARY *:= *//p' "$dir/build.mk")${FLAVOR:-}
    set -- $(about "$name")
    source=$1 vocab=$2 tokens=$3
    w=$tmp/$name.ingot
    "$bin" pack "$source" -o "$w" 2>"$tmp/err" || { report "$name: pack" "$(cat "$tmp/err")"; continue; }
    on=$("$bin" info -m "$w" 2>/dev/null | sed -n 's/^  on: //p')
    case $on in
    CPU) report "$name: runs on a device" "it runs on the CPU"; rm -f "$w"; continue ;;
    esac
    ids "$tokens" "$vocab" >"$tmp/ids"
    cpu "$bin" eval -m "$w" --tokens "$(cat "$tmp/ids")" --greedy "$greedy" --dump "$tmp/want" >"$tmp/text" 2>"$tmp/err" ||
        report "$name: CPU" "$(cat "$tmp/err")"
    for batch in ${BATCHES:-1 7 64}; do
        rm -f "$tmp/got"
        $run "$bin" eval -m "$w" --tokens "$(cat "$tmp/ids")" --greedy "$greedy" -b "$batch" --dump "$tmp/got" >"$tmp/out" 2>&1
        code=$?
        wrong=
        [ $code -eq 0 ] || wrong="exit code $code: $(tail -15 "$tmp/out")"
        [ -n "$wrong" ] || wrong=$(cmp "$tmp/want" "$tmp/got" 2>&1)
        report "$name: batches of $batch, $tokens tokens and $greedy more, on $on" "$wrong"
    done
    rm -f "$w"
done
echo "1..$n"
exit $bad
