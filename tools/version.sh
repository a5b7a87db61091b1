#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The version, which stands in include/kith/kith.h.
#
#   version.sh            prints it
#   version.sh --check    everything that is written by hand names it: man pages, CHANGELOG.md, debian
#   version.sh --set V    writes it into the header and into what is checked; what changed is still to be told
#                         in CHANGELOG.md
#
# CMake, pkg-config file, CMake package, `kith --version`, kith_version(), the wheel and Python's
# kith.__version__ are made from the header.
set -euo pipefail
cd "$(dirname "$0")/.."
header=include/kith/kith.h
version=$(sed -nE 's/^#define KITH_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$/\2/p' $header | paste -sd.)
abi=$(sed -nE 's/^set\(KITH_ABI ([0-9]+)\)$/\1/p' CMakeLists.txt)

set_version() {
    local parts=(${1//./ })
    [[ $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "version: $1 is not MAJOR.MINOR.PATCH" >&2; exit 2; }
    sed -i -E -e "s/^(#define KITH_VERSION_MAJOR) .*/\1 ${parts[0]}/" -e "s/^(#define KITH_VERSION_MINOR) .*/\1 ${parts[1]}/" \
        -e "s/^(#define KITH_VERSION_PATCH) .*/\1 ${parts[2]}/" -e "s/\"$version\", and the commit/\"$1\", and the commit/" $header
    sed -i -E "s/^(\.TH [A-Z-]+ 1 \"\" \"kith) [0-9.]+\"/\1 $1\"/" docs/man/*.1
    sed -i "s/^version: .*/version: $1/" CITATION.cff
    sed -i "0,/^## /s//## $1\n\n- What a user notices.\n\n## /" CHANGELOG.md
    {
        printf 'kith (%s-1) unstable; urgency=medium\n\n  * Version %s; CHANGELOG.md says what a user gets.\n\n' "$1" "$1"
        printf ' -- kith maintainers <maintainers@kith.example>  %s\n\n' "$(LC_ALL=C date -uR)"
        cat debian/changelog
    } >debian/changelog.new
    mv debian/changelog.new debian/changelog
}

check() {
    local wrong=0 place
    differs() { echo "version: $version in $header, but $1" && wrong=1; }
    for place in docs/man/*.1; do
        grep -qE "^\.TH [A-Z-]+ 1 \"\" \"kith ${version//./\\.}\"" "$place" || differs "not in the .TH line of $place"
    done
    grep -q "^version: ${version//./\\.}\$" CITATION.cff || differs "not in CITATION.cff"
    [ "$(sed -n 's/^## //p' CHANGELOG.md | head -n 1)" = "$version" ] || differs "not in the first heading of CHANGELOG.md"
    [[ $(head -n 1 debian/changelog) == "kith ($version-"* ]] || differs "debian/changelog begins with $(head -n 1 debian/changelog)"
    grep -q "\"$version\", and the commit" $header || differs "not in the comment there"
    grep -q "^Package: libkith$abi\$" debian/control || differs "debian/control has no libkith$abi, CMakeLists.txt has KITH_ABI $abi"
    grep -q "^libkith.so.$abi libkith$abi" debian/libkith"$abi".symbols || differs "debian/libkith$abi.symbols is not of libkith.so.$abi"
    grep -q "\"libkith.so.$abi\"" python/kith/_library.py || differs "python/kith/_library.py does not open libkith.so.$abi"
    for place in "$@"; do # programs, and files that were made
        case $place in
            *.pc) [ "$(sed -n 's/^Version: //p' "$place")" = "$version" ] ;;
            *.cmake) grep -q "PACKAGE_VERSION \"$version\"" "$place" ;;
            *) [[ $("$place" --version) == "kith $version ("* ]] ;;
        esac || differs "$place is of another one"
    done
    [ $wrong = 0 ] && echo "version: $version, libkith.so.$abi, everywhere"
    return $wrong
}

case ${1:-} in
    "") echo "$version" ;;
    --check) check "${@:2}" ;;
    --set) set_version "$2" ;;
    *) echo "version: $1 is no option" >&2 && exit 2 ;;
esac
