#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_figures.py notices a figure of another run, a recall that is another's, and a graph without its source."""
import check_figures

JOBS = [{"engines": [{"seconds": 0.8407, "recall": 1.0}, {"seconds": 18.585, "recall": 1.0}, {"seconds": 2.199, "recall": 0.9893}]},
        {"engines": [{"seconds": 0.0255, "recall": None}]}]
SOURCE = "[evidence](docs/evidence.md)"
ROWS = [
    (f"| graph, Fashion-MNIST | 0.84 s | 18.6 s; 2.2 s for 0.989 | {SOURCE} |", True),
    (f"| graph, Fashion-MNIST | 0.841 s | theirs 71.2 s\\* for 0.9 | {SOURCE} |", True),
    (f"| graph, Fashion-MNIST | 0.78 s | 18.6 s | {SOURCE} |", False),
    (f"| graph, Fashion-MNIST | 0.84 s | 71.2 s | {SOURCE} |", False),
    (f"| graph, Fashion-MNIST | 0.84 s | 2.2 s for 0.996 | {SOURCE} |", False),
    (f"| graph, Fashion-MNIST | 0.84 s | 25.5 ms | {SOURCE} |", False),
    ("| graph 262,144 × 128 † | 40 ms | **25.5 ms** | |", True),
    ("| graph 262,144 × 128 † | 40 ms | **25.4 ms** | |", False),
    ("| graph 262,144 × 128 | 40 ms | **25.5 ms** | |", False),
    ("| exact graph, Fashion-MNIST | 1.2 times | |", True),
    ("| search, SIFT | 0.76 s | |", True),
    ("In prose 0.78 s are not looked at.", True),
]

if __name__ == "__main__":
    for row, right in ROWS:
        found = check_figures.check("page", row, JOBS)
        assert (not found) == right, (row, found)
    print(f"figures: {len(ROWS)} rows are judged as they should be")
