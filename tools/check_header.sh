#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each public header stands alone in C11 and C++ without a warning, and two files that include them link
# into one program. check_header.sh CC LIBKITH
set -euo pipefail
cc=$1
library=$2
root=$(cd "$(dirname "$0")/.." && pwd)
case $(basename "$cc") in
    clang*) cxx=${cc/clang/clang++} ;;
    *) cxx=g++ ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Werror "-I$root/include")

cat >"$work/one.c" <<'C'
#include "kith/kith.h"
kith_search_params one(void);
kith_search_params one(void)
{
    return kith_search_params_default();
}
C
cat >"$work/two.c" <<'C'
#include "kith/kith.h"
#include "kith/kith.h"
kith_search_params one(void);
int main(void)
{
    return one().struct_size == sizeof(kith_search_params) && kith_version()[0] != 0 ? 0 : 1;
}
C
"$cc" -std=c11 "${warnings[@]}" -c "$work/one.c" -o "$work/one.o"
"$cc" -std=c11 "${warnings[@]}" -c "$work/two.c" -o "$work/two.o"
for header in "$root"/include/kith/*.h; do
    echo "#include \"kith/$(basename "$header")\"" >"$work/alone.c"
    cp "$work/alone.c" "$work/alone.cpp"
    "$cc" -std=c11 "${warnings[@]}" -fsyntax-only "$work/alone.c"
    ! command -v "$cxx" >/dev/null || "$cxx" -std=c++11 "${warnings[@]}" -fsyntax-only "$work/alone.cpp"
done
link=("$work/one.o" "$work/two.o" "$library" "-Wl,-rpath,$(dirname "$library")" -Wl,--allow-shlib-undefined)
"$cc" "${link[@]}" -o "$work/program"
"$work/program"
if ! command -v "$cxx" >/dev/null; then
    echo "header: C only, $cxx is missing"
    exit 77
fi
sed 's/(void)/()/' "$work/two.c" >"$work/two.cpp"
sed -i 's/^kith_search_params one/extern "C" &/' "$work/two.cpp"
# Whoever includes it chooses the warnings: the functions that fill structs have none, nor {}.
{
    echo '#include "kith/kith.h"'
    echo 'int main()'
    echo '{'
    grep -oh 'kith_[a-z_]*_default(' "$root"/include/kith/*.h | sort -u | sed 's/.*/    (void)&);/'
    echo '    const kith_matrix matrix{};'
    echo '    const kith_neighbors neighbors{};'
    echo '    kith_report report{};'
    echo '    report.struct_size = sizeof report;'
    echo '    return matrix.rows == 0 && neighbors.k == 0 && report.struct_size > 0 ? 0 : 1;'
    echo '}'
} >"$work/defaults.cpp"
strict=("${warnings[@]}" -Wmissing-field-initializers -Wold-style-cast -Wsign-conversion
    -Wzero-as-null-pointer-constant)
for each in "$cxx" clang++; do
    for standard in c++11 c++14 c++17 c++20; do
        ! command -v "$each" >/dev/null ||
            "$each" -std=$standard "${strict[@]}" -fsyntax-only "$work/defaults.cpp" "$root/examples/05_cpp.cpp"
    done
done
for standard in c++11 c++17 c++20; do
    "$cxx" -std=$standard "${warnings[@]}" -c "$work/two.cpp" -o "$work/two.o"
    "$cc" "${link[@]}" -o "$work/program"
    "$work/program"
done
echo "header: each alone in C11 and C++11; kith.h in C11, C++11, C++17, C++20; defaults and {} without warnings; two files link"
