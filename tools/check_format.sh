#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C and CUDA file is as clang-format 14 writes it. check_format.sh [--fix]; exits with 77 without the tool.
set -euo pipefail
cd "$(dirname "$0")/.."
formatter=""
for name in clang-format-14 clang-format; do
    if command -v "$name" >/dev/null && "$name" --version | grep 'version 14\.' >/dev/null; then
        formatter=$name
        break
    fi
done
if [ -z "$formatter" ]; then
    echo "format: skipped, clang-format 14 is missing (other versions format differently)"
    exit 77
fi
mapfile -t files < <(find src include cli tests bench examples \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) | sort)
if [ "${1:-}" = --fix ]; then
    "$formatter" -i "${files[@]}"
else
    "$formatter" --dry-run --Werror "${files[@]}"
fi
echo "format: ${#files[@]} files"
