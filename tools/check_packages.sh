#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Source tarball and Debian packages are what a user can live with: check_packages.sh [--built FOLDER | --no-cuda]
#
# The tarball is the same bytes twice, the packages are built from it (and so without git), lintian finds
# nothing, and in a machine that has none of them they are installed, tried by debian/tests, and purged.
# For that machine the packages are installed into this one: it is for CI, and wants root. The options
# are those of make_debs.sh.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >"$work/apt" 2>&1 || { tail -n 20 "$work/apt"; return 1; }; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
purge() { apt purge 'libkith*' kith kith-mpi python3-kith; }

command -v apt-get >/dev/null || { echo "packages: skipped, no Debian"; exit 0; }
if dpkg -l 'libkith*' kith 'kith-mpi' python3-kith 2>/dev/null | grep '^ii' >/dev/null; then
    echo "packages: kith is installed on this machine; remove it first" >&2
    exit 1
fi

tools/make_dist.sh "$work/one"
(umask 077 && TZ=Asia/Tokyo LC_ALL=C tools/make_dist.sh "$work/two") >/dev/null
cmp "$work"/one/*.tar.gz "$work"/two/*.tar.gz
echo "packages: the tarball is the same bytes twice"

tools/make_debs.sh "$@"
# No package of Debian yet, so there is no bug that its first upload closes.
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs dist/*.changes
echo "packages: lintian finds nothing"

version=$(tools/version.sh)
packages=(dist/*_"$version"-*.deb)
trap 'purge; rm -rf "$work"' EXIT
apt install --no-install-recommends "${packages[@]/#/./}"
said=$(kith --version)
if [ "$said" != "kith $version ($(git rev-parse HEAD | cut -c1-7))" ]; then
    echo "packages: the last commit is another one than $said"
    exit 1
fi
for test in debian/tests/{command,library,python,mpi}; do
    sh "$test" examples/data
done
if [ -n "$(find dist -name 'libkith1-cuda_*')" ]; then
    kith devices >"$work/devices" || true # why no GPU is used; not, that the module is missing
    cat "$work/devices"
    ! grep -q 'module cannot be opened' "$work/devices" || exit 1
fi
purge
trap 'rm -rf "$work"' EXIT
left=$(find /usr/lib /usr/bin /usr/include /usr/share/man /usr/share/doc -path '*kith*' 2>/dev/null | head -n 5)
[ -z "$left" ] || { echo "packages: left behind: $left"; exit 1; }
echo "packages: ${#packages[@]} installed, tried and purged"
