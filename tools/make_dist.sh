#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The source of the last commit as dist/kith-VERSION.tar.gz: make_dist.sh [FOLDER]
#
# The same commit gives the same bytes: names, times and modes come from git, and gzip keeps neither.
# git writes the commit into cmake/commit.txt (.gitattributes), so that `kith --version` knows it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/dist}
git -C "$root" rev-parse HEAD >/dev/null || { echo "dist: a source tarball is made in a git checkout" >&2; exit 1; }
if [ -n "$(git -C "$root" status --porcelain --untracked-files=no)" ]; then
    echo "dist: what is not committed is not in the tarball" >&2
fi
version=$(git -C "$root" show HEAD:include/kith/kith.h |
    sed -nE 's/^#define KITH_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$/\2/p' | paste -sd.)
mkdir -p "$folder"
tarball=$folder/kith-$version.tar.gz
git -C "$root" -c tar.umask=0022 -c core.autocrlf=false archive --format=tar --prefix="kith-$version/" HEAD |
    gzip -9n >"$tarball.part"
mv "$tarball.part" "$tarball"
echo "dist: $tarball, $(stat -c %s "$tarball") bytes, sha256 $(sha256sum "$tarball" | cut -c1-64)"
