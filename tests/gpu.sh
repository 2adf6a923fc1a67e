#!/bin/sh
# The device's bits against the CPU's, by the same program (TAP):  tests/gpu.sh [NAME...]
#
# For each engine: hidden rows, routing and logits of a prompt in batches of 1, 7 and 64, and of
# tokens made after it one by one, are equal byte for byte (of gemm=fast, batches that go to the
# matrix units are near the CPU's instead: check_fast).  An engine is out/test/gpu-NAME/, its
# weights are packed here; or it is ROOT/NAME/ of a bundle (tests/gpu_bundle.sh), which has both and
# what another machine's CPU made of them.  RUN is put in front of the device's runs
# (RUN="compute-sanitizer --tool memcheck --error-exitcode 9").
# FLAVOR=-emulated tests the emulation (EMULATE=1), which needs no device.
set -u
root=${ROOT:-out/test}
run=${RUN:-}
RUN_BEFORE=$run
troubles=${TROUBLES:-out/test/troubles}
greedy=${GREEDY:-24}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
n=0
bad=0
report() { # name, what was found wrong
    n=$((n + 1))
    if [ -z "$2" ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; echo "$2" | sed 's/^/# /' | head -20; bad=$((bad + 1)); fi
}
. "$(dirname "$0")/gpu_about.sh"
on() { sed -n 's/^  on: //p'; }

# The device's dump with these options is the CPU's, $tmp/want.
compare() { # name, binary, weights, options
    what=$1 binary=$2 weights=$3
    shift 3
    rm -f "$tmp/got"
    # shellcheck disable=SC2046
    $run "$binary" eval -m "$weights" $(cat "$tmp/ids") --greedy "$greedy" "$@" --dump "$tmp/got" >"$tmp/out" 2>&1
    code=$?
    wrong=
    [ $code -eq 0 ] || wrong="exit code $code: $(tail -15 "$tmp/out")"
    [ -n "$wrong" ] || wrong=$(cmp "$tmp/want" "$tmp/got" 2>&1)
    report "$what" "$wrong"
}

# The numbers of a dump, a line each, behind its header.
numbers() { od -An -v -tf4 -w4 -j "$((8 + $(od -An -tu8 -N8 "$1")))" "$1"; }

# gemm=fast: a small batch has the CPU's bits, a large one has not, but is near (tests/c/fast_test.c has the
# bound of a sum; here a layer's sums, and the router's choices after them, add up).
check_fast() { # name, binary, weights
    compare "$1: batches of 7, $tokens tokens and $greedy more, on $on" "$2" "$3" -b 7
    rm -f "$tmp/want" # of another test
    # shellcheck disable=SC2046
    cpu "$2" eval -m "$3" $(cat "$tmp/ids") --greedy 0 --dump "$tmp/want" >"$tmp/text" 2>"$tmp/out"
    numbers "$tmp/want" >"$tmp/b"
    # About twice what the H200 shows, all values and nine of ten: 0.005 where no router's choice turns.
    case $1 in
    fast-qwen3) whole=0.08 within=0.02 ;;   # 0.041, 0.009
    fast-gpt-oss) whole=0.05 within=0.02 ;; # 0.023, 0.008
    fast-switch) whole=0.06 within=0.06 ;;  # 0.031, 0.039: its scores are not scaled
    *) whole=0.02 within=0.02 ;;
    esac
    for batch in 64 "$tokens"; do
        rm -f "$tmp/got"
        # shellcheck disable=SC2046
        $run "$2" eval -m "$3" $(cat "$tmp/ids") --greedy 0 -b "$batch" --dump "$tmp/got" >>"$tmp/out" 2>&1
        numbers "$tmp/got" >"$tmp/a"
        # How far off all values are, and nine of ten of them: a router's choice between like experts may turn.
        off=$(paste "$tmp/a" "$tmp/b" | awk 'NF == 2 { d += ($1 - $2) ^ 2; s += $2 ^ 2; n++; x = $1 - $2; print (x < 0 ? -x : x) }
            NF != 2 { bad = 1 } END { print (bad || n == 0 ? "nan" : sqrt(d / s)), sqrt(s / n), "all" }' | sort -g |
            awk '$3 == "all" { all = $1; size = $2; next } { x[n++] = $1 } END { print all, (size > 0 ? x[int(0.9 * n)] / size : "nan") }')
        report "$1: batches of $batch are near the CPU's: ${off% *} of the values' size, nine of ten within ${off#* }" \
            "$(echo "${off:-nan nan}" | awk -v all="$whole" -v most="$within" '!($1 > 0 && $1 < all && $2 < most) { print "want above 0 and below " all ", below " most }'; [ -n "$off" ] || tail -5 "$tmp/out")"
    done
}

# With 8 threads one of them starts copies and computes nothing.  Few tokens: they wait for each other.
check_copier() { # name, binary, weights
    mv "$tmp/ids" "$tmp/all_ids"
    mv "$tmp/want" "$tmp/all_want"
    echo "--tokens $(ids 8 "$vocab")" >"$tmp/ids"
    all_greedy=$greedy greedy=6
    # shellcheck disable=SC2046
    cpu "$2" eval -m "$3" $(cat "$tmp/ids") --greedy "$greedy" --dump "$tmp/want" >"$tmp/text" 2>"$tmp/err"
    compare "$1: 8 threads, --link 50 --behind 1 --ahead 1, 8 tokens and 6 more, on $on" "$2" "$3" -b 1 -t 8 --link 50 --behind 1 --ahead 1
    greedy=$all_greedy
    mv "$tmp/all_ids" "$tmp/ids"
    mv "$tmp/all_want" "$tmp/want"
}

# Whoever computes a miss, however much is pinned, row by row and in a batch; and there are hits and misses.
check_cache() { # name, binary, weights
    # An emulated kernel and a thread that waits for it share the cores: fewer cases, one thread in most.
    less=$("$2" info -m "$3" -o json 2>"$tmp/err" | sed -n 's/.*"planned_bytes": *\([0-9]*\).*/\1/p')
    hows="--vram $((${less:-0} - 1)),--link-bw 20000000,"'--link 100,--link 0,--link 50,,--link 0 --behind 1,--link 100 --ahead 1,--link 50 --behind 1 --ahead 2,--behind 0,--pin 50,--pin 10,--pin 0' batches="1 $tokens"
    [ "${FLAVOR:-}" != -emulated ] || hows="--vram $((${less:-0} - 1)) -t 1,"'--link 100 -t 1,--link 0 --behind 1 -t 1,--link 50 --behind 1 --ahead 1 -t 1,--link-bw 20000000 -t 1,--pin 50 -t 1' batches=1
    [ -z "$run" ] || hows='--link 100,--link 50 --behind 1 --ahead 1' batches=1 # a tool that is slow
    while [ -n "$hows" ]; do
        how=${hows%%,*}
        for batch in $batches; do
            # shellcheck disable=SC2086
            compare "$1: ${how:-as measured}, batches of $batch, $tokens tokens and $greedy more, on $on" "$2" "$3" -b "$batch" $how
        done
        case $hows in *,*) hows=${hows#*,} ;; *) hows= ;; esac
    done
    # A batch's layers over the link, on the CPU, and in turn.
    for how in ${BATCH_LINKS:-100 0 50}; do
        [ "$batches" != 1 ] || compare "$1: one batch of $tokens, --link $how, on $on" "$2" "$3" -b "$tokens" -t 1 --link "$how"
    done
    [ "$1" != xc-switch ] || says "$1: too few slots for the encoder's layers to pass are refused" \
        'want slots of [0-9]+ bytes or more, through which the encoder' "$2" info -m "$3" --vram $((${less:-0} - 100000))
    if [ "${FLAVOR:-}" = -emulated ]; then # pinning goes on while it decodes: a page more a step
        run="env INGOT_PIN_CHUNK=4096" compare "$1: experts pinned page by page, on $on" "$2" "$3" -b 1 -t 1
        says "$1: while it goes on, info says so" 'pinned: 0 of the experts. 0 MiB in RAM so far; it goes on beside the work$' \
            env INGOT_PIN_CHUNK=4096 "$2" info -m "$3"
        run=$RUN_BEFORE
    fi
    [ "$1" != xc-stream ] || check_copier "$@"
    if [ "$1" = xc-stream ]; then # its set has more ways than a row has experts
        says "$1: what the CPU computed is in its slot next time" '^decode: [1-9][0-9]* copied into slots behind the work, [1-9][0-9]* of them used' \
            "$2" bench -m "$3" -p 0 -n 64 -r 1 --link 0 --behind 1
        says "$1: what a router guessed is prefetched, and used" '^experts: .* [1-9][0-9]* prefetched \([1-9][0-9]* used' \
            "$2" bench -m "$3" -p 0 -n 64 -r 1 --link 100 --ahead 1
    fi
    hit=$("$2" bench -m "$3" -p 0 -n 32 -r 1 --link 100 2>"$tmp/err" | sed -n 's/^decode: \([0-9.]*\) % of the chosen.*/\1/p')
    report "$1: some experts are in their slots, some are not: ${hit:-none} %" \
        "$(awk -v h="${hit:--1}" 'BEGIN { if (!(h > 0 && h < 100)) print "want between 0 and 100 %, got " h }' </dev/null; [ -n "$hit" ] || cat "$tmp/err")"
}

# 6 ways filled at start, and nothing copied since: as many hits as the trace's own table foretells.  Policy static
# copies nothing whatever is asked for, and fills them again when a batch passed through.
check_hot() { # name, binary, weights, options
    awk -f "$(dirname "$0")/skewed.awk" </dev/null >"$tmp/skewed.csv"
    want=$(awk -F, -v ways=6 '!/^#/ && $1 != "turn" { n[$4 "," $6]++; chosen[++all] = $4 "," $6 }
        END { for (l = 0; l < 3; l++)
                  for (w = 0; w < ways; w++) {
                      best = -1
                      for (x = 0; x < 8; x++)
                          if (!((l "," x) in kept) && (best < 0 || n[l "," x] > n[l "," best])) best = x
                      kept[l "," best]
                  }
              for (i = 1; i <= all; i++) hit += chosen[i] in kept
              printf "%.2f", 100 * hit / all }' "$tmp/skewed.csv")
    for p in 0 20; do
        # shellcheck disable=SC2086
        got=$("$2" bench -m "$3" -p $p -n 32 -r 1 -t 1 $4 --route "$tmp/skewed.csv" 2>"$tmp/err" |
            sed -n 's/^decode: \([0-9.]*\) % of the chosen.*/\1/p')
        report "$1: after a batch of $p rows, $want % of the chosen experts are in their slots" \
            "$([ "$got" = "$want" ] || { echo "got: $got %"; cat "$tmp/err"; })"
    done
}

# What the program says and does without a device; with one, what it took.
check_info() { # name, binary, weights
    cpu "$2" info -m "$3" >"$tmp/out" 2>&1
    wrong=$(grep '^downgrade: device: ' "$tmp/out" >/dev/null || cat "$tmp/out")
    [ "$(on <"$tmp/out")" = CPU ] || wrong="$(cat "$tmp/out")"
    report "$1: without a device it says so and takes the CPU" "$wrong"
}

# A machine whose device is in trouble (tests/cuda/driver.c, hog.c): each time a line that says it, and
# the CPU's work, or a refusal with numbers.
says() { # what, what has to be found, the command
    what=$1 want=$2
    shift 2
    "$@" >"$tmp/out" 2>&1
    code=$?
    report "$what" "$(grep -E "$want" "$tmp/out" >/dev/null || echo "want: $want, exit code $code, got:" "$(tail -5 "$tmp/out")")"
}
check_no_driver() { # binary, weights: where no device is
    says 'no driver: info says so' '^    - device: this machine has no CUDA driver; the CPU does the work$' \
        env LD_LIBRARY_PATH=/nonexistent "$1" info -m "$2"
    check_old_driver "$1" "$2"
}
check_old_driver() { # binary, weights: anywhere
    says 'an older driver: info says so' '^    - device: want a driver for CUDA [0-9.]+ or newer, got one for 11.0; the CPU does the work$' \
        env LD_LIBRARY_PATH="$troubles" "$1" info -m "$2"
}
check_trouble() { # name, binary, weights: on a device
    shim="env LD_PRELOAD=$troubles/driver.so"
    check_old_driver "$2" "$3"
    says 'another architecture: info says so' '^    - device: want architecture sm_[0-9]+, got sm_123 \(.*\); the CPU does the work$' \
        $shim DRIVER_ARCH=123 "$2" info -m "$3"
    run="$shim DRIVER_ARCH=123" compare "another architecture: the CPU's bits" "$2" "$3"
    says 'too little free memory: start refuses, with numbers' \
        'device: the plan needs [0-9]+ MiB of its memory, 1 of [0-9]+ MiB are free' $shim DRIVER_FREE=1048576 "$2" info -m "$3"
    case $1 in xc-*)
        says 'a limit of pinned memory: info says so' '^    - pinned: 0 % of the experts; the CPU computes the others. misses$' \
            $shim DRIVER_PIN=65536 "$2" info -m "$3"
        run="$shim DRIVER_PIN=65536" compare "a limit of pinned memory: the CPU's bits" "$2" "$3" ;;
    esac
    run=$RUN_BEFORE
    says 'memory locked at most 64 MiB (ulimit -l): it runs on the device' '^  on: .*sm_' \
        sh -c "ulimit -l 65536; $2 info -m $3"
    mkfifo "$tmp/hold"
    "$troubles/hog" 64 <"$tmp/hold" >"$tmp/hog" 2>&1 &
    hog=$!
    exec 9>"$tmp/hold"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do grep -q ready "$tmp/hog" && break; sleep 1; done
    says 'memory that another program has: start refuses' 'device: .*out of memory|device: the plan needs' "$2" info -m "$3"
    exec 9>&-
    wait "$hog"
    rm -f "$tmp/hold"
}

# Steady decode: a graph a token and a wait for its end, no copy and no memory taken.
check_calls() { # name, binary, weights
    "$2" bench -m "$3" -p 0 -n 16 -r 2 -o json >"$tmp/out" 2>"$tmp/err"
    got=$(tr -d ' \n' <"$tmp/out" | sed -n 's/.*"device_calls":{\([^}]*\),"copies_behind":[^}]*}.*/\1/p')
    report "$1: a decode step asks the device for one graph and one wait, and for no memory" \
        "$([ "$got" = '"graphs":1.0,"kernels":0.0,"copies":0.0,"waits":1.0,"memory_taken":0.0' ] || { echo "got: $got"; tail -5 "$tmp/err"; })"
}

# Routing recorded on the device is the CPU's, and takes the routers' place when replayed.
check_route() { # name, binary, weights
    echo "Once upon a time there was a small fox who lived in the forest." >"$tmp/words"
    cpu "$2" trace -m "$3" -f "$tmp/words" -o "$tmp/cpu.csv" >"$tmp/out" 2>&1
    $run "$2" trace -m "$3" -f "$tmp/words" -o "$tmp/device.csv" >>"$tmp/out" 2>&1
    report "$1: recorded routing" "$(cmp "$tmp/cpu.csv" "$tmp/device.csv" 2>&1 || tail -3 "$tmp/out")"
    $run "$2" bench -m "$3" -p 0 -n 4 -r 1 --route "$tmp/device.csv" >"$tmp/out" 2>&1
    report "$1: replayed routing" "$(grep -q 'decode took its experts from' "$tmp/out" || cat "$tmp/out")"
}

for name in "$@"; do
    dir=$root/gpu-$name
    set_about "$name"
    w=$tmp/$name.ingot
    if [ -f "$root/$name/engine" ]; then
        bin=$root/$name/engine
        w=$root/$name/weights.ingot
    else
        bin=$dir/$(sed -n 's/^BINARY *:= *//p' "$dir/build.mk")${FLAVOR:-}
        "$bin" pack "$source" -o "$w" 2>"$tmp/err" || { report "$name: pack" "$(cat "$tmp/err")"; continue; }
    fi
    on=$("$bin" info -m "$w" 2>"$tmp/err" | on)
    case $name$on in xc-mixtralCPU) check_no_driver "$bin" "$w"; rm -f "$tmp/$name.ingot"; continue ;; esac
    case $on in
    CPU | '') report "$name: runs on a device" "it runs on the CPU: $(cat "$tmp/err")"; rm -f "$tmp/$name.ingot"; continue ;;
    esac
    prompt >"$tmp/ids"
    # shellcheck disable=SC2046
    cpu "$bin" eval -m "$w" $(cat "$tmp/ids") --greedy "$greedy" --dump "$tmp/want" >"$tmp/text" 2>"$tmp/err" ||
        report "$name: CPU" "$(cat "$tmp/err")"
    if [ -f "$root/$name/want.sha256" ] && [ -z "${SANITIZED:-}" ]; then
        report "$name: this CPU's bits are the other machine's" \
            "$([ "$(sha256sum <"$tmp/want")" = "$(cat "$root/$name/want.sha256")" ] || echo "want $(cat "$root/$name/want.sha256"), got $(sha256sum <"$tmp/want")")"
    fi
    case $name in
    # Its start differs from xc-stream's, and what it does over a slow link.
    xc-traced) compare "$name: --link-bw 20000000, batches of 1, $tokens tokens and $greedy more, on $on" "$bin" "$w" -b 1 -t 1 --link-bw 20000000 ;;
    xc-*) check_cache "$name" "$bin" "$w" ;;
    fast-*) check_fast "$name" "$bin" "$w" ;;
    *) for batch in ${BATCHES:-1 7 64}; do
        compare "$name: batches of $batch, $tokens tokens and $greedy more, on $on" "$bin" "$w" -b "$batch"
    done ;;
    esac
    case $name in
    demo | xc-mixtral) [ "${FLAVOR:-}" = -emulated ] || [ -n "$run" ] || check_trouble "$name" "$bin" "$w" ;;
    esac
    case $name in
    xc-static) [ -n "$run" ] || check_hot "$name" "$bin" "$w" '--link 100' ;;
    xc-traced)
        [ -n "$run" ] || check_hot "$name" "$bin" "$w" '--link 0'
        says "$name: info says that nothing is prefetched over a slow link" 'off, because the link is slow' "$bin" info -m "$w" --link-bw 4000000 ;;
    esac
    case $name in xc-* | demo | latent-q8_0) [ -n "$run" ] || check_calls "$name" "$bin" "$w" ;; esac
    case $name in
    demo)
        check_info "$name" "$bin" "$w"
        check_route "$name" "$bin" "$w" ;;
    esac
    rm -f "$tmp/$name.ingot"
done
echo "1..$n"
echo "$((n - bad)) passed, $bad failed"
[ $bad = 0 ]
