#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prove that check_rooms.py notices each thing that it is there for."""
import pathlib
import sys
import tempfile

import check_rooms

LAW = "base\nhost base\nselect base  # and nothing else\n"
CASES = [
    ({"src/host/host_a.c": '#include "base/base_a.h"\n'}, None),
    ({"src/base/base_a.c": '#include "host/host_a.h"\n'}, "may not include 'host'"),
    ({"src/select/select_a.c": '#  include "host/host_a.h"\n'}, "may not include 'host'"),
    ({"src/select/select_a.c": '#include "../host/host_a.h"\n'}, "not '..'"),
    ({"src/attic/attic_a.c": "\n"}, "not in src/ROOMS"),
    ({"src/host/host_a.c": "#include <cuda_runtime.h>\n"}, "CUDA header"),
    ({"src/host/host_a.cu": "#include <cuda_runtime.h>\n"}, None),
    ({"cli/cli_a.c": '#include "base/base_a.h"\n'}, "cli may include"),
    ({"cli/cli_a.c": '#include "kith/kith.h"\n#include "cli_b.h"\n'}, None),
    ({"src/host/a.c": "\n", "tests/unit/a.c": "\n"}, "the same file name"),
]


def verdict(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in ({"src/ROOMS": LAW} | files).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return list(check_rooms.complaints(root))


def main():
    wrong = 0
    for files, expected in CASES:
        found = verdict(files)
        right = len(found) == 1 and expected in found[0] if expected else not found
        if not right:
            print(f"{files}: expected {expected!r}, got {found}")
            wrong += 1
    print(f"check_rooms.py: {len(CASES) - wrong} of {len(CASES)} cases as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
