#!/bin/sh
# Everything that a machine with the GPU needs, as one folder:  tests/gpu_bundle.sh DEST NAME... -- BENCH...
#
# NAME: engines out/test/gpu-NAME/, tested there with the weights and the CPU's bits made here.
# BENCH: engines that are measured with random weights, made there.  DEST gets run.sh and one archive; the
# machine needs a driver, a shell, tar, xz or Python, and no network, toolkit, Lua or library.
set -eu
dest=$1
shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$dest" "$tmp/engines" "$tmp/bench"
engine() { # name, where it goes
    b=out/test/gpu-$1/$(sed -n 's/^BINARY *:= *//p' "out/test/gpu-$1/build.mk")
    mkdir -p "$2"
    strip -o "$2/engine" "$b"
}
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    to=$tmp/engines/$1
    engine "$1" "$to"
    # What gpu.sh knows of an engine, and its recipe for ids.
    . tests/gpu_about.sh
    set_about "$1"
    "$to/engine" pack "$source" -o "$to/weights.ingot" 2>"$tmp/log" || { cat "$tmp/log" >&2; exit 1; }
    prompt >"$tmp/ids"
    # shellcheck disable=SC2046
    cpu "$to/engine" eval -m "$to/weights.ingot" $(cat "$tmp/ids") --greedy "${GREEDY:-24}" --dump "$tmp/want" >"$tmp/log" 2>&1 ||
        { cat "$tmp/log" >&2; exit 1; }
    sha256sum <"$tmp/want" >"$to/want.sha256"
    echo "$1" >>"$tmp/names"
    shift
done
[ $# -eq 0 ] || shift
for name in "$@"; do engine "$name" "$tmp/bench/$name"; done
cp -r out/test/troubles "$tmp/"
cp tests/gpu.sh tests/gpu_about.sh tests/skewed.awk "$tmp/"
cp tests/gpu_run.sh "$dest/run.sh"
git rev-parse --short HEAD >"$tmp/commit" 2>/dev/null || echo unknown >"$tmp/commit"
tar -C "$tmp" --exclude=./log --exclude=./ids --exclude=./want -c . | xz -9 -T1 >"$dest/bundle.tar.xz"
du -k "$dest/bundle.tar.xz" | awk '{ printf "%s: %.1f MiB\n", $2, $1 / 1024 }'
