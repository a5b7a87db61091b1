#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An installed kith is found by pkg-config and by CMake, and its command runs from where it was put.
# check_install.sh BUILD_FOLDER CC
set -euo pipefail
build=$1
cc=$2
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A build folder that was not installed can be moved, too.
mkdir "$work/elsewhere"
cp -P "$build"/kith "$build"/libkith.so* "$work/elsewhere/"
case $(readelf -d "$work/elsewhere/kith") in *"$build"*) echo "install: build/kith names its folder" && exit 1 ;; esac
"$work/elsewhere/kith" --version
# What lies in the folder where a command is called is none of its libraries.
mkdir "$work/foreign"
: >"$work/foreign/libm.so.6"
for command in "$build"/kith "$build"/kith-mpi; do
    [ ! -x "$command" ] || (cd "$work/foreign" && "$command" --version >/dev/null) || exit 1
done

cmake --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/prefix" "$work/moved" # nothing may depend on where it was installed first, but for kith.pc
ln -s moved "$work/prefix"
libdir=$(dirname "$(find "$work/moved" -name kith.pc)")/..

export PKG_CONFIG_PATH="$libdir/pkgconfig"
if command -v pkg-config >/dev/null; then
    flags=$(pkg-config --cflags --libs kith)
else
    echo "install: pkg-config is missing, its file is not tried"
    flags="-I$work/moved/include -L$libdir -lkith"
fi
example=$root/examples/01_exact.c
# shellcheck disable=SC2086 # flags are words
"$cc" -std=c11 "$example" $flags "-Wl,-rpath,$libdir" -lm -o "$work/by_pkg_config"
(cd "$root" && "$work/by_pkg_config" examples/data/digits.u8bin >/dev/null)

mkdir "$work/user"
cat >"$work/user/CMakeLists.txt" <<C
cmake_minimum_required(VERSION 3.25)
project(user C)
add_executable(example $example)
$(sed -n '/^```cmake$/,/^```$/p' "$root/README.md" | grep -v '^```')
target_link_libraries(example PRIVATE m)
C
grep -q 'find_package(kith' "$work/user/CMakeLists.txt" # README's lines
cmake -S "$work/user" -B "$work/user/build" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log"
cmake --build "$work/user/build" >"$work/log" || { cat "$work/log"; exit 1; }
(cd "$root" && "$work/user/build/example" examples/data/digits.u8bin >/dev/null)

"$work/moved/bin/kith" --version
version=$(sed -n 's/^Version: //p' "$libdir/pkgconfig/kith.pc")
[ "$version" = "$("$root/tools/version.sh")" ]
if [ -n "$(find "$libdir" -name libkith_hdf5.so)" ]; then
    printf 'no such file' >"$work/no.hdf5"
    ! "$work/moved/bin/kith" info "$work/no.hdf5" 2>"$work/said" || exit 1
    grep -q 'is not an HDF5 file' "$work/said" || { cat "$work/said"; exit 1; } # the module's words
fi
find "$work/moved" -type f -o -type l | sed "s|$work/moved/||" | sort
echo "install: found by pkg-config and find_package; the command runs after the tree was moved"
