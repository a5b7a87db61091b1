#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The gallery's pictures, build/gallery, and the documents as a site, build/site/index.html.
#
# site.sh [--python PYTHON] [--gallery]
#
# --python PYTHON   with a Python that has kith; else with kith of build/ and build/site-venv, which is
#                   set up. What is missing in either comes from pip (tools/site/requirements.txt)
# --gallery         the pictures alone
#
# Warnings are errors, and so are links that lead nowhere. Where Chromium is installed each page is looked at as a
# desktop and as a phone show it; build/site-pictures has some of them.
set -euo pipefail
python=""
gallery_alone=no
while [ $# -gt 0 ]; do
    case $1 in
        --python) python=$(realpath -s "$(command -v "$2")") && shift ;;
        --gallery) gallery_alone=yes ;;
        *) echo "site: $1 is no option" >&2 && exit 2 ;;
    esac
    shift
done
cd "$(dirname "$0")/.."
if [ -z "$python" ]; then
    python=build/site-venv/bin/python
    [ -x "$python" ] || python3 -m venv build/site-venv
    export KITH_LIBRARY=$PWD/build/libkith.so PYTHONPATH=$PWD/python
fi
"$python" -m pip -q --disable-pip-version-check install -r tools/site/requirements.txt
export PYTHONDONTWRITEBYTECODE=1

mkdir -p build/gallery
for script in examples/gallery/*.py; do
    name=$(basename "$script" .py)
    [ "$name" = gallery ] && continue
    echo "gallery: $name"
    "$python" "$script" build/gallery >build/gallery/"$name".txt
done
[ $gallery_alone = no ] || exit 0

"$python" tools/site/make_pages.py build/site-source
rm -rf build/site
"$python" -m sphinx -q -W --keep-going -E -b html -d build/site-doctrees -c tools/site build/site-source build/site
"$python" tools/site/check_links.py build/site
timeout 300 "$python" tools/site/check_looks.py build/site build/site-pictures
echo "site: build/site/index.html"
