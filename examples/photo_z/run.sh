#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Photometric redshifts: run.sh CATALOGUE REDSHIFTS QUERIES TRUE_REDSHIFTS FOLDER [K]
# Three kNN models, their errors, and a picture if Matplotlib is there. KITH and PYTHON name the programs.
set -euo pipefail
if [ $# -lt 5 ]; then
    sed -n '3,4s/^# //p' "$0"
    exit 2
fi
catalogue=$1 redshifts=$2 queries=$3 truth=$4 folder=$5 k=${6:-10}
here=$(cd "$(dirname "$0")" && pwd)
kith=${KITH:-$here/../../build/kith}
python=${PYTHON:-python3}
mkdir -p "$folder"
for mode in mean weighted median; do
    echo "== $mode, k = $k"
    "$kith" predict "$catalogue" "$redshifts" "$queries" -k "$k" --mode $mode --truth "$truth" \
        -o "$folder/$mode.fbin" | grep -E '^(error|search|seconds)'
done
if "$python" -c 'import numpy, matplotlib' 2>/dev/null; then
    "$python" "$here/plot.py" "$folder/weighted.fbin" "$truth" "$folder/photo_z.png"
else
    echo "no picture, Matplotlib is missing; the predictions are in $folder"
fi
