#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prove that check_house.py notices each thing that it is there for."""
import pathlib
import subprocess
import sys
import tempfile

import check_house

LAW = "base\nhost base\nselect base  # and nothing else\n"
ROOMS = [
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
    ({"tests/unit/test_a.c": "\n" * 801}, "801 lines"),
]
LINE = "int x;\n"
SEVEN = "int a, int b, int c, int d, int e, int f, int (*g)(int, int)"
COUNTS = [
    ("code_lines_src", {"src/base/base_a.c": "/* one\ntwo */\nint x;\n\n// no\nchar *y = \"/*\";\n"}, 2),
    ("files_src", {"src/base/base_a.c": LINE, "src/base/base_b.h": LINE, "cli/cli_a.c": LINE}, 2),
    ("files_below_40_lines", {"src/base/base_a.c": LINE * 39, "src/base/base_b.c": LINE * 40}, 1),
    ("files_of_odd_length", {"src/base/base_a.c": LINE * 59, "src/base/base_b.c": LINE * 60}, 1),
    ("files_of_odd_length", {"src/base/base_a.c": LINE * 601, "src/base/base_b.c": LINE * 600}, 1),
    ("files_of_odd_length", {"src/base/base_a.c": "/* A body. It is short because its text is another's. */\n"}, 0),
    ("kernels_of_other_names", {"src/base/base_a.cu": "__global__ void __launch_bounds__(f(1), 2)\n    a(int b)\n{\n}\n"
                                                      "static __global__ void c_kernel(int b)\n{\n}\n"}, 1),
    ("headers_src", {"src/base/base_a.h": LINE, "src/base/base_b.cuh": LINE, "src/base/base_c.c": LINE}, 2),
    ("circles_src", {"src/base/base_a.c": '#include "base/base_b.h"\n', "src/base/base_b.h": '#include "base/base_a.h"\n'},
     1),
    ("circles_src", {"src/base/base_a.c": '#include "base/base_a.h"\n', "src/base/base_a.h": LINE}, 0),
    ("circles_src", {"src/base/base_a.c": '#include "base/base_b.h"\n', "src/base/base_b.h": '#include "base/base_c.h"\n',
                     "src/base/base_c.h": LINE}, 0),
    ("circles_cli", {"cli/cli_a.c": '#include "cli_b.h"\n', "cli/cli_b.h": '#include "cli_a.h"\n'}, 1),
    ("circles_python", {"python/kith/_a.py": "from ._b import x\n", "python/kith/_b.py": "def f():\n    from . import _a\n"},
     1),
    ("call_circles_src", {"src/base/base_a.c": "int kin_a(void)\n{\n    return kin_b();\n}\n",
                          "src/base/base_b.c": "int kin_b(void)\n{\n    return kin_a();\n}\n"}, 1),
    ("call_circles_src", {"src/base/base_a.c": "int kin_a(void)\n{\n    return kin_b();\n}\n",
                          "src/base/base_b.c": "int kin_a(void);\nint kin_b(void)\n{\n    return 0;\n}\n"}, 0),
    ("functions_with_more_than_6_parameters", {"src/base/base_a.c": f"int f({SEVEN})\n{{\n}}\n"}, 1),
    ("functions_with_more_than_6_parameters", {"src/base/base_a.c": "int f(int (*g)(int, int, int, int, int, int))\n{\n}\n"}, 0),
    ("functions_with_more_than_6_parameters", {"src/base/base_a.cu": f"void __launch_bounds__(9)\n    f({SEVEN[9:]})\n{{\n}}\n"},
     0),
    ("public_functions", {"include/kith/kith.h": "KITH_API int kith_a(void);\nKITH_API void kith_b(int x);\n"}, 2),
    ("public_functions_with_more_than_6_parameters", {"include/kith/kith.h": f"KITH_API int kith_a({SEVEN});\n"}, 1),
    ("functions_used_by_one_file_percent", {"src/base/base_a.c": "int kin_a(void)\n{\n}\nint kin_b(void)\n{\n}\n",
                                            "src/base/base_b.c": "int x = kin_a();\n"}, 50),
    ("functions_used_by_one_file_percent", {"src/base/base_a.c": "int kin_a(void)\n{\n}\n", "src/base/base_b.c": "int x = kin_a();\n",
                                    "src/base/base_c.c": "int y = kin_a();\n"}, 0),
    ("names_of_no_file", {"src/base/base_a.c": "/* as base_b.c does, not base_a.c or base_x_body.inc */\n",
                          "docs/notes/tour.md": "`host_c.h` and `graph.c`\n"}, 2),
    ("long_lines_of_pages", {"README.md": "x" * 121 + "\n" + "é" * 120 + "\n| " + "x" * 120 + "\n    " + "x" * 120,
                             "docs/a.md": "```\n" + "x" * 121 + "\n```\n- " + "x" * 119 + "\n"}, 2),
    ("sentences_that_are_read", {"cli/cli_a.c": 'if (strstr(kith_ctx_detail(ctx), "NaN") != NULL) {\n',
                                 "src/base/base_a.c": "if (strcmp(f->reason, other) == 0) {\nputs(kith_ctx_detail(ctx));\n",
                                 "python/kith/_a.py": "if 'NaN' in str(error):\n    error.args = (1,)\n"}, 3),
    ("functions_used_by_no_file", {"src/base/base_a.c": "int kin_a(void)\n{\n}\n", "src/base/base_a.h": "int kin_a(void);\n"},
     1),
    ("functions_used_by_no_file", {"src/base/base_a.c": "int kin_a(void)\n{\n}\nint kin_b(void)\n{\n}\n",
                                   "tests/unit/test_a.c": "int x = kin_a();\n"}, 1),
    ("functions_used_by_no_file", {"src/base/base_a.c": "int kin_a(void)\n{\n}\n",
                                   "src/base/base_a.h": "int kin_a(void);\nstatic inline int b(void)\n{\n    kin_a();\n}\n"}, 0),
    ("functions_used_by_no_file", {"src/base/base_a.c": "int kin_base_scan(void)\n{\n}\nint kin_base_no(void)\n{\n}\n",
                                   "src/base/base_b.c": "MAP(kin_base_##name)\n",
                                   "include/kith/kith.h": "#define MAP(X) X(SCAN, 1, scan)\n"}, 1),
    ("includes_said_twice", {"src/base/base_a.h": '#ifndef KIN_A_H\n#define KIN_A_H\n#include "base/base_b.h"\n#endif\n',
                             "src/base/base_b.h": "int b;\n",
                             "src/base/base_c.c": '#include "base/base_a.h"\n#include "base/base_b.h"\n',
                             "src/base/base_d.c": '#include "base/base_b.h"\n#include "base/base_a.h"\n'}, 1),
    ("includes_said_twice", {"src/base/base_a.h": '#if A\n#include "base/base_b.h"\n#endif\n', "src/base/base_b.h": "int b;\n",
                             "src/base/base_c.c": '#include "base/base_a.h"\n#include "base/base_b.h"\n'}, 0),
]


def write(folder, files):
    root = pathlib.Path(folder)
    for name, text in ({"src/ROOMS": LAW} | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def room_cases():
    for files, expected in ROOMS:
        with tempfile.TemporaryDirectory() as folder:
            root = write(folder, files)
            found = [*check_house.wrong_rooms(root), *check_house.wrong_lengths(root)]
        right = len(found) == 1 and expected in found[0] if expected else not found
        yield right, f"{files}: expected {expected!r}, got {found}"


def count_cases():
    for name, files, expected in COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            counts, behind = check_house.measure(write(folder, files))
        limit, goal = check_house.LIMITS[name]
        above = list(check_house.wrong_counts({key: 0 for key in counts} | {name: limit + 1}, {}))
        at = list(check_house.wrong_counts({key: 0 for key in counts} | {name: limit}, {}))
        right = counts[name] == expected and len(above) == 1 and name in above[0] and not at and goal <= limit
        yield right, f"{name} of {files}: expected {expected}, got {counts[name]} {behind.get(name)}; {above} {at}"


def link_cases():
    for named, expected in ((None, 0), ("src/base_a", 1)):
        with tempfile.TemporaryDirectory() as folder:
            root = write(folder, {})
            if named:
                (root / named).symlink_to("/nowhere")
            subprocess.run(["git", "init", "-q", root], check=True)
            subprocess.run(["git", "-C", root, "add", "."], check=True)
            found = list(check_house.committed_links(root))
        yield len(found) == expected, f"{expected} links: {found}"


def main():
    results = [*room_cases(), *link_cases(), *count_cases()]
    for right, text in results:
        if not right:
            print(text)
    unproved = set(check_house.LIMITS) - {name for name, _, _ in COUNTS}
    if unproved:
        print("no case for", *sorted(unproved))
    right = sum(right for right, _ in results)
    print(f"check_house.py: {right} of {len(results)} cases as expected, {len(check_house.LIMITS)} counts")
    return 0 if right == len(results) and not unproved else 1


if __name__ == "__main__":
    sys.exit(main())
