#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first C examples of README.md and docs/start.md compile without a warning and run. check_readme.sh CC LIBKITH
set -euo pipefail
cc=$1
library=$2
root=$(cd "$(dirname "$0")/.." && pwd)
if ! grep -q '^```c$' "$root/README.md" 2>/dev/null; then
    echo "readme: skipped, no README.md with a C example"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
for page in README.md docs/start.md; do
    awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$page" >"$work/example.c"
    "$cc" -std=c11 -Wall -Wextra -Werror "-I$root/include" "$work/example.c" "$library" \
        "-Wl,-rpath,$(dirname "$library")" -lm -o "$work/example"
    "$work/example"
    echo "readme: the example of $page, $(wc -l <"$work/example.c") lines, compiles and runs"
done
