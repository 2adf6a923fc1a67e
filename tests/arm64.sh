#!/bin/sh
# Run a test program that was made for AArch64, under an emulator (TAP).  What was not built (make
# setup-arm64, make arm64) counts as one skipped test.
# usage: tests/arm64.sh PROGRAM
if [ -x "$1" ] && command -v qemu-aarch64-static >/dev/null; then
    exec qemu-aarch64-static -L /usr/aarch64-linux-gnu "$1"
fi
echo "1..1"
echo "ok 1 - $1 # SKIP not built: it needs a cross compiler and an emulator (make setup-arm64)"
