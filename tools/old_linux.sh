#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A compiler for every Linux since glibc 2.28, of this machine or of another: old_linux.sh FOLDER x86_64|aarch64
#
# It is zig's, from the package index, in FOLDER/venv. What CMake has to be told is printed, a line each, without -D.
set -euo pipefail
folder=$1
machine=$2
if [ ! -x "$folder/venv/bin/python-zig" ]; then
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/python" -m pip -q --disable-pip-version-check install ziglang
fi
zig=$folder/venv/bin/python-zig
for language in cc c++; do
    printf '#!/bin/sh\nexec "%s" %s -target %s-linux-gnu.2.28 "$@"\n' "$zig" $language "$machine" >"$folder/$language"
done
printf '#!/bin/sh\nexec "%s" ar "$@"\n' "$zig" >"$folder/ar"
printf '#!/bin/sh\nexec "%s" ranlib "$@"\n' "$zig" >"$folder/ranlib"
chmod +x "$folder/cc" "$folder/c++" "$folder/ar" "$folder/ranlib"

# zlib is there on every Linux, but perhaps not that of the other machine on this one: what is linked with
# has its names, and nothing behind them.
mkdir -p "$folder/zlib"
for header in zlib.h zconf.h; do
    found=$(echo "#include <$header>" | cc -E -x c - | sed -n "s|^# 1 \"\(.*/$header\)\".*|\1|p" | head -n 1)
    [ -n "$found" ] || { echo "old_linux: $header is missing (Debian: zlib1g-dev)" >&2; exit 1; }
    cp "$found" "$folder/zlib/"
done
grep -oE '\b(deflate|inflate|crc32|adler32|compress|uncompress|gz)[A-Za-z0-9_]*\b' "$folder/zlib/zlib.h" | sort -u |
    sed 's/.*/void &(void);\nvoid &(void) {}/' >"$folder/zlib/names.c"
"$folder/cc" -shared -fPIC -w -Wl,-soname,libz.so.1 "$folder/zlib/names.c" -o "$folder/zlib/libz.so"

printf '%s\n' "CMAKE_C_COMPILER=$folder/cc" "CMAKE_CXX_COMPILER=$folder/c++" "CMAKE_AR=$folder/ar" "CMAKE_RANLIB=$folder/ranlib" KITH_WERROR=OFF \
    "ZLIB_INCLUDE_DIR=$folder/zlib" "ZLIB_LIBRARY=$folder/zlib/libz.so"
[ "$machine" = "$(uname -m)" ] || printf '%s\n' CMAKE_SYSTEM_NAME=Linux "CMAKE_SYSTEM_PROCESSOR=$machine"
