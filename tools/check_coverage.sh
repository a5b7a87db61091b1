#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which lines of src and cli the tests reach, a line a file, least covered first.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset coverage >/dev/null
cmake --build build-coverage -j "$(nproc)" >/dev/null
find build-coverage -name '*.gcda' -delete
ctest --preset coverage -j "$(nproc)" | tail -n 12
cd build-coverage
# gcov prints "File 'x'", then "Lines executed:NN.NN% of N".
find . -name '*.gcda' -path '*kith*' -exec gcov -n -p {} + 2>/dev/null |
    awk -F"[':%]" -v root="$OLDPWD/" '
        /^File/ { file = $2; next }
        /^Lines executed/ && index(file, root) == 1 {
            name = substr(file, length(root) + 1)
            split($0, part, " of ")
            if (name ~ /^(src|cli)\//) printf "%6.2f %% of %5d lines  %s\n", $2, part[2], name
            file = ""
        }' | sort -n
