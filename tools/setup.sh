#!/bin/sh
# Install what building and testing need, on Debian or Ubuntu.  Does nothing when all is there.
set -eu
packages="gcc make binutils lua5.4 lua-dkjson lua-unit libjansson-dev libpcre2-dev libxxhash-dev liburing-dev libcmocka-dev"
missing=""
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
    echo "setup: needs these (Debian names):$missing" >&2
    exit 1
fi
sudo=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup: run as root: apt-get install$missing" >&2; exit 1; }
    sudo=sudo
fi
echo "setup: installing$missing" >&2
$sudo apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
