#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy on what ships (src, cli, examples), as the build compiles it; .clang-tidy has the checks.
#
# check_tidy.sh [--brief]
#
# --brief   the analyser, which takes nineteen twentieths of the time, follows each function for 5,000 steps and
#           not for 225,000: the paths that are short. All other checks are whole.
set -euo pipefail
cd "$(dirname "$0")/.."
brief=()
case ${1:-} in
    "") ;;
    --brief) brief=(--extra-arg={-Xclang,-analyzer-config,-Xclang,max-nodes=5000}) ;;
    *) echo "check_tidy: $1 is no option" >&2 && exit 2 ;;
esac
cmake --preset clang >/dev/null
cmake --build build-clang --target kith_commit_header >/dev/null
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# tidy ARGUMENTS... -- FILES...
tidy() {
    local arguments=()
    while [ "$1" != -- ]; do
        arguments+=("$1")
        shift
    done
    shift
    printf '%s\n' "$@" | xargs -P "$(nproc)" -n 2 clang-tidy -p build-clang --quiet "${brief[@]}" "${arguments[@]}" \
        >>"$log" 2>/dev/null
}

# The file that defines kin_fail is read without the model of it.
mapfile -t plain < <(find src/base/base_ctx.c cli examples -name '*.c' | sort)
mapfile -t modelled < <(find src -name '*.c' ! -name '*_hdf5.c' ! -name base_ctx.c | sort)
failed=0
tidy -- "${plain[@]}" || failed=1
tidy --extra-arg-before=-D_GNU_SOURCE= --extra-arg-before=-include --extra-arg-before="$PWD/tools/tidy_model.h" \
    -- "${modelled[@]}" || failed=1
if [ $failed = 1 ]; then
    cat "$log"
    echo "tidy: clang-tidy found what is above"
    exit 1
fi
echo "tidy: $((${#plain[@]} + ${#modelled[@]})) files"
