#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What libkith.so shows and does when it is loaded: check_symbols.sh LIBKITH
#   1  every defined dynamic symbol is kith_..., and every KITH_API function of the headers is there
#   2  it has a soname
#   3  Debian's list of symbols has each of them
#   4  no start-up code sets the floating-point mode (crtfastmath.o, which -ffast-math links in)
set -euo pipefail
library=$1
headers=("$(dirname "$0")"/../include/kith/*.h)
wrong=0

symbols=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sed 's/@.*//' | sort -u)
if foreign=$(grep -v '^kith_' <<<"$symbols"); then
    echo "symbols: exported, but not kith_: $foreign"
    wrong=1
fi
declared=$(cat "${headers[@]}" | tr '\n' ' ' | grep -oE 'KITH_API [^;(]*\(' | grep -oE 'kith_[a-z0-9_]+ *\($' |
    tr -d ' (' | sort -u)
if missing=$(comm -23 <(echo "$declared") <(echo "$symbols") | grep .); then
    echo "symbols: declared in a header, but not in the library:" $missing
    wrong=1
fi
if extra=$(comm -13 <(echo "$declared") <(echo "$symbols") | grep .); then
    echo "symbols: exported, but not declared in a header:" $extra
    wrong=1
fi
if ! readelf -d "$library" | grep 'SONAME.*libkith\.so\.[0-9]' >/dev/null; then
    echo "symbols: no soname"
    wrong=1
fi
listed=$(sed -nE 's/^ (kith_[a-z0-9_]+)@Base .*/\1/p' "$(dirname "$0")"/../debian/libkith*.symbols | sort)
if unlisted=$(comm -3 <(echo "$listed") <(echo "$symbols") | tr -d '\t' | grep .); then
    echo "symbols: in the library or in debian/libkith*.symbols, and not in both (a new function is a line ' NAME@Base VERSION'" \
        "there; one that is gone raises KITH_ABI):" $unlisted
    wrong=1
fi
if nm "$library" | grep 'set_fast_math' >/dev/null; then
    echo "symbols: set_fast_math is linked in: loading kith would change the process' floating point"
    wrong=1
fi
[ $wrong = 0 ] && echo "symbols: $(wc -l <<<"$symbols") exported, all kith_, declared and listed"
exit $wrong
