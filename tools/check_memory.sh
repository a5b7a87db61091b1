#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# valgrind memcheck on the test programs of build/ that took under half a second in `make check`
# (ctest keeps the times). valgrind knows AVX2 and nothing above it, and shows that to the program.
# It computes long double in double, so test_metric_log and test_metric_sphere, which measure with long double, are left out.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
costs=build/Testing/Temporary/CTestCostData.txt
if [ ! -s "$costs" ]; then
    echo "memory: $costs is missing; run make check first" >&2
    exit 1
fi
failed=0
count=0
while read -r name _ seconds; do
    [ "$name" = --- ] && break
    [ -x "build/$name" ] || continue
    awk -v s="$seconds" 'BEGIN { exit !(s < 0.5) }' || continue
    case $name in fail_always | test_metric_log | test_metric_sphere) continue ;; esac
    count=$((count + 1))
    if ! timeout 600 valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect \
        "build/$name" >build/valgrind.log 2>&1; then
        echo "memory: $name"
        tail -n 40 build/valgrind.log
        failed=1
    fi
done <"$costs"
echo "memory: $count programs under valgrind"
exit $failed
