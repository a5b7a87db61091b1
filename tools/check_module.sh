#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What libkith_cuda.so is: check_module.sh LIBKITH_CUDA
#   1  it exports kith_cuda_module and nothing else
#   2  it needs libraries of libc alone, so that it loads wherever libkith does
#   3  it is smaller than 20 MB
set -euo pipefail
module=$1
most=$((20 * 1000 * 1000))
wrong=0
exported=$(nm -D --defined-only "$module" | awk '{ print $3 }' | sort -u | tr '\n' ' ')
if [ "$exported" != "kith_cuda_module " ]; then
    echo "module: exports $exported"
    wrong=1
fi
needed=$(readelf -d "$module" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
if foreign=$(grep -vE '^(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux-x86-64)\.so' <<<"$needed"); then
    echo "module: needs" $foreign
    wrong=1
fi
bytes=$(stat -c %s "$module")
if [ "$bytes" -ge $most ]; then
    echo "module: $bytes bytes, must be below $most"
    wrong=1
fi
[ $wrong = 0 ] && echo "module: $bytes bytes, one symbol, needs" $needed
exit $wrong
