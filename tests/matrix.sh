#!/bin/sh
# Every models/*.lua on every hw/*.lua: generate, and compile what knows the plan where no GPU
# engine is needed (TAP).  A pair that cannot fit must be refused with its numbers; kernels for another
# architecture are compiled with its cross compiler, or refused where there is none.
# usage: tests/matrix.sh LUA [MODEL.lua...]; without models, all of them.
set -u
lua=${1:-lua5.4}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- models/*.lua
n=0
for m in "$@"; do
    for h in hw/*.lua; do
        case "$m$h" in *TEMPLATE*|*hw/this.lua) continue ;; esac
        id=x-$(basename "$m" .lua)-$(basename "$h" .lua)
        n=$((n + 1))
        if out=$($lua build.lua "$m" "$h" --out out/test --set id="$id" 2>&1); then
            arch=$(sed -n 's/^NEEDS_ARCH *:= *//p' "out/test/$id/build.mk") cc=gcc
            [ "${arch:-$(uname -m)}" = "$(uname -m)" ] || cc=$arch-linux-gnu-gcc
            if ! command -v "$cc" >/dev/null; then
                msg=$(make --no-print-directory ID="test/$id" check 2>&1)
                case "$msg" in *"need a compiler for $arch"*) echo "ok $n - $id: says that it needs a compiler for $arch" ;;
                *) echo "not ok $n - $id: $msg" ;; esac
            elif ! msg=$(make --no-print-directory CC="$cc" ID="test/$id" check 2>&1); then
                echo "not ok $n - $id"; echo "$msg" | tail -20 | sed 's/^/# /'
            elif ! grep -q 'ON_DEVICE *:= *1' "out/test/$id/build.mk"; then
                echo "ok $n - $id: compiles ($cc)"
            # Kernels for the profile's architecture, by NVRTC, where the toolkit is.
            elif [ ! -f "${CUDA:-/usr/local/cuda}/include/nvrtc.h" ]; then
                case "$(make --no-print-directory CC="$cc" ID="test/$id" build 2>&1)" in
                *"no CUDA toolkit"*) echo "ok $n - $id: says why not" ;;
                *) echo "not ok $n - $id: want a build without the toolkit to say so" ;; esac
            elif msg=$(make --no-print-directory ID="test/$id" cubins 2>&1); then
                echo "ok $n - $id: compiles ($cc), with the device's kernels"
            else
                echo "not ok $n - $id"; echo "$msg" | tail -20 | sed 's/^/# /'
            fi
        else
            case "$out" in *GiB*|*MiB*|*"device's kernels do not know"*) echo "ok $n - $id: refused: $(echo "$out" | tail -1)" ;;
            *) echo "not ok $n - $id: $out" ;; esac
        fi
        rm -rf "out/test/$id"
    done
done
echo "1..$n"
