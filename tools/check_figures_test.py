#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_figures.py notices a figure of another run or of none, a recall that is another's, and a graph without its source."""
import check_figures

JOBS = [{"engines": [{"seconds": 0.8407, "recall": 1.0}, {"seconds": 18.585, "recall": 1.0}, {"seconds": 2.199, "recall": 0.9893}]},
        {"engines": [{"seconds": 0.0255, "recall": None}]}]
SOURCE = "[benchmarks](docs/benchmarks.md)"
ROWS = [
    (f"| graph, Fashion-MNIST | 0.84 s | 18.6 s; 2.2 s for 0.989 | {SOURCE} |", True),
    (f"| graph, Fashion-MNIST | 0.841 s | theirs 71.2 s\\* for 0.9 | {SOURCE} |", True),
    (f"| graph, Fashion-MNIST | 0.78 s | 18.6 s | {SOURCE} |", False),
    (f"| graph, Fashion-MNIST | 0.84 s | 71.2 s | {SOURCE} |", False),
    (f"| graph, Fashion-MNIST | 0.84 s | 2.2 s for 0.996 | {SOURCE} |", False),
    (f"| graph, Fashion-MNIST | 0.84 s | 25.5 ms | {SOURCE} |", False),
    ("| graph 262,144 × 128 † | **25.5 ms** | | 11 ms |", True),
    ("| graph 262,144 × 128 † | **25.4 ms** | | 11 ms |", False),
    ("| graph 262,144 × 128 | **25.5 ms** | | 11 ms |", False),
    ("| exact graph, Fashion-MNIST | 1.2 times | |", True),
    ("| search, SIFT | 0.76 s | |", True),
    ("In prose 0.78 s are looked at by another rule.", True),
]
TIMES = {"a.csv": [0.0123, 4.56], "b.json": [0.78, 7.0]}
DESCENT = [{"id": "descent-cuda-1m", "engines": [{"setting": "1 round", "seconds": 0.04914, "recall": 0.9938}]}]
PROSE = [
    ("It takes 12.3 ms, and all 4.56 s.", True),
    ("It takes 12.3 ms, and all 0.78 s.", False),  # of two files
    ("It takes 12.4 ms.", False),
    ("It takes 12 ms, some 5 s in all.", True),
    ("It takes 3 s.", True),  # one digit tells no measurement
    ("Theirs takes 99 s\\*; the limit is ≤ 88 s.", True),
    ("Run `sleep 33 s` first.", True),
    ("<!-- begin table -->\n| 33 s |\n<!-- end table -->\n\n```\n44 s\n```\n\n    55 s\n", True),
    ("| work | kith |\n|---|---|\n| a | 4.56 s |", True),
    ("| work | kith |\n|---|---|\n| a | 4.57 s |", False),
    ("| mixture1m | 1 round | 0.0491 | 0.9938 |", True),
    ("| mixture1m | 1 round | 49.1 | 0.9938 |", True),
    ("| mixture1m | 1 round | 0.048 | 0.9938 |", False),
    ("| mixture1m | 2 rounds | 0.048 | 0.9938 |", True),  # another setting
    ("<!-- begin t -->\n| mixture1m | 1 round | 0.048 | 0.9938 |\n<!-- end t -->", False),
    ("mixture1m has 0.9938 after 0.0480.", False),
]

if __name__ == "__main__":
    for row, right in ROWS:
        found = check_figures.check("page", row, JOBS)
        assert (not found) == right, (row, found)
    for text, right in PROSE:
        found = check_figures.check_prose("page", text, TIMES, DESCENT)
        assert (not found) == right, (text, found)
    print(f"figures: {len(ROWS)} rows and {len(PROSE)} texts are judged as they should be")
