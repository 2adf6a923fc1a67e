#!/bin/sh
# Install what building and testing engines for AArch64 on another machine needs, on Debian or Ubuntu:
# the cross compiler, an emulator, and in out/arm64 the libraries (this machine's packages stay as
# they are: no foreign architecture is added).  Some 110 MB of downloads, 550 MB installed.
set -eu
[ "$(uname -m)" != aarch64 ] || exit 0 # its engines run as they are
tools="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static"
libraries="libjansson-dev libpcre2-dev libpcre2-8-0 libxxhash-dev liburing-dev libcmocka-dev libcmocka0"
quick="-o Acquire::Retries=1 -o Acquire::http::Timeout=20" # without a network, an answer soon
missing=""
for p in $tools; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
if [ -n "$missing" ]; then
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    echo "setup-arm64: installing$missing" >&2
    # shellcheck disable=SC2086
    $sudo apt-get $quick update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $sudo apt-get $quick install -y -qq --no-install-recommends $missing >/dev/null
fi
root=$PWD/out/arm64
[ -d "$root/usr" ] && exit 0

# A package state of its own, for that architecture only.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/usr"
touch "$work/status"
apt() {
    # shellcheck disable=SC2086
    apt-get $quick -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root \
        -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" "$@"
}
echo "setup-arm64: unpacking libraries into out/arm64" >&2
apt update
# shellcheck disable=SC2086
(cd "$work" && apt download $libraries >/dev/null)
for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
mkdir -p "$root"
mv "$work/root/usr" "$root/usr"
