#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Debian packages of the last commit, source and binary, into dist/: make_debs.sh [--built FOLDER | --no-cuda]
#
# They are built from the source tarball, in a folder of its own. The GPU module's package is made where
# nvcc is found, or from the libkith_cuda.so of a build folder, which saves the minutes of compiling it;
# KITH_CUDA_ARCHS=90 compiles it for one chip.
# DEB_BUILD_OPTIONS is passed on; without it, "noautodbgsym" (no packages of debug symbols) and all processors.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
built=""
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true)
case ${1:-} in
    "") ;;
    --built) built=$(realpath "$2/libkith_cuda.so") ;;
    --no-cuda) nvcc="" ;;
    *) echo "debs: $1 is no option" >&2 && exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$root/tools/make_dist.sh" "$work"
tarball=$(echo "$work"/kith-*.tar.gz)
version=$(basename "$tarball" .tar.gz | cut -d- -f2)
cp "$tarball" "$work/kith_$version.orig.tar.gz"
tar -xzf "$tarball" -C "$work"
profiles=()
if [ -f "$built" ]; then
    profiles=(--build-profiles=pkg.kith.cuda)
    export KITH_BUILT_CUDA=$built
elif [ -n "$nvcc" ] && "$nvcc" --version >/dev/null 2>&1; then
    profiles=(--build-profiles=pkg.kith.cuda)
else
    echo "debs: libkith1-cuda is left out, no nvcc that is wanted"
fi
# Sanitized and prefixed flags of this shell are no part of a package.
unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS
export DEB_BUILD_OPTIONS=${DEB_BUILD_OPTIONS:-noautodbgsym parallel=$(nproc)}
if ! (cd "$work/kith-$version" && dpkg-buildpackage -us -uc "${profiles[@]}") >"$work/log" 2>&1; then
    tail -n 40 "$work/log" >&2
    echo "debs: not built (tools/setup.sh deb installs what building needs)" >&2
    exit 1
fi
mkdir -p "$root/dist"
rm -f "$root"/dist/*.deb "$root"/dist/kith_*
mv "$tarball" "$work"/kith_*[!b] "$work"/*.deb "$root/dist/"
for package in "$root"/dist/*.deb; do
    echo "debs: $(basename "$package"), $(stat -c %s "$package") bytes"
done
