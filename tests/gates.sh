#!/bin/sh
# Gates on what was built (TAP): static linking, symbol prefix, no allocation in per-token code.
set -u
n=0
report() { # name, what was found wrong
    n=$((n + 1))
    if [ -z "$2" ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; echo "$2" | sed 's/^/# /' | head -20; fi
}
id=test/t-demo
bin=out/$id/$(sed -n 's/^BINARY *:= *//p' out/$id/build.mk)

report "the CPU engine is one static file" "$(ldd "$bin" 2>&1 | grep -v 'not a dynamic executable')"
report "the CPU engine names no shared library" "$(readelf -d "$bin" | grep NEEDED)"

report "every global symbol starts with ig_" \
    "$(nm -g --defined-only out/common/libcommon.a out/common/libkernels.a out/$id/obj/runtime/*/*.o out/$id/obj/tables.o |
       awk 'NF == 3 && $3 !~ /^([.]gomp_critical_user_)?(ig_|main$)/ { print $3 }')"

# Files that run between the first and the last token.  out writes what a program says: it alone may format.
hot="device_step device_batch device_args device_encoder device_cache device_hot device_prefill miss miss_hear miss_plan forward attn encoder mla moe route linear team sample generate out stop
     tier tier_ahead mover move_check xcache stride policy_lru policy_lru2 policy_decay policy_echo policy_static
     pick trial predict_cells predict_sense predict_next predict_history predict_hybrid predict_forest predict_mlp"
built=""
missing=""
for f in $hot; do
    before=$built
    for o in out/$id/obj/runtime/*/$f.o out/test/t-tier/obj/runtime/*/$f.o out/test/gpu-*/obj*/runtime/*/$f.o out/common/runtime/*/$f.o; do
        [ -f "$o" ] && built="$built $o"
    done
    [ "$built" != "$before" ] || missing="$missing $f"
done
report "each per-token file was built" "$missing"
# shellcheck disable=SC2086
found=$(nm -uA $built | awk '{ f = $1; sub(/:$/, "", f); sub(/.*\//, "", f) }
    $3 ~ /^(malloc|calloc|realloc|free|mmap|munmap|posix_memalign|aligned_alloc|strdup|fopen|printf|fprintf|vprintf|vfprintf|sprintf|snprintf|vsprintf|vsnprintf|qsort)$/ && !(f == "out.o" && $3 == "vsnprintf") { print f ": " $3 "; " }')
report "per-token files call nothing that allocates" "$found"
report "kernels call nothing that allocates" \
    "$(nm -u out/common/libkernels.a | awk '$2 ~ /^(malloc|calloc|realloc|free|mmap|qsort|printf|fprintf)$/ { print $2 }')"
# The device's program, where one was built: all but libc, libm and the loader is inside.
for bin in out/test/gpu-*/; do
    bin=$bin$(sed -n 's/^BINARY *:= *//p' "$bin/build.mk" 2>/dev/null)
    [ -f "$bin" ] || continue
    report "$bin needs libc, libm and the loader only" \
        "$(readelf -d "$bin" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(libc\.so\.6|libm\.so\.6|ld-linux-x86-64\.so\.2)$')"
done
# What a change of a header makes anew.
remade() { make -n V=1 -W "$1" "$2" "$3" 2>&1 | grep -c -- "-o $4 "; }
report "tests are rebuilt when a header of theirs changes" "$(
    [ "$(remade tests/c/kernels_util.h ID=$id units out/tests/kernels_attn_test)" = 1 ] || echo "kernels_attn_test is not"
    [ "$(remade tests/c/pack_fixture.h ID=$id plan-units out/$id/pack_test)" = 1 ] || echo "pack_test is not"
    [ "$(remade tests/cuda/emulate_run.h ID=$id units out/tests/mma_test)" = 1 ] || echo "mma_test is not")"
# How many jobs a build has: its own make's -j.
jobs() { make -n "$@" ID=$id MODEL=tests/data/tiny-mixtral.gguf 2>&1 | sed -n 's/^make\(.*\) build$/\1/p'; }
report "a build has as many jobs as -j says, or as there are processors" "$(
    case $(jobs) in *" -j"[0-9]*) ;; *) echo "without -j: $(jobs)" ;; esac
    case $(jobs -j1) in *" -j"*) echo "with -j1: $(jobs -j1)" ;; esac)"
echo "1..$n"
