#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NOTICE names every library that what was built is linked with: check_notice.sh FILE...
set -euo pipefail
notice=$(dirname "$0")/../NOTICE
wrong=0
count=0
for file in "$@"; do
    section=$(readelf -d "$file")
    for needed in $(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$section"); do
        name=${needed%%.so*} # libhdf5_serial is Debian's libhdf5
        [ "${name#ld-linux}" = "$name" ] || name=ld-linux # one for each architecture
        count=$((count + 1))
        if ! grep -q "${name%_serial}" "$notice" && [ "$name" != libkith ]; then
            echo "notice: $(basename "$file") needs $needed, which NOTICE does not name"
            wrong=1
        fi
    done
done
[ $wrong = 0 ] && echo "notice: names all $count that $# files need"
exit $wrong
