#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Places on a sphere by the great circle: kith's tree beside scikit-learn's BallTree, one thread each.

    KITH_LIBRARY=build/libkith.so python3 bench/whole/bench_places.py --csv bench/results/places.csv

Places are uniform on the sphere; each query is 1e-4 radians from some place. float64, k = 10. The least of --runs
searches counts, runs of both alternate; a tree is made once. That the distances are the same is checked.
"""
import argparse
import csv
import datetime
import pathlib
import platform
import subprocess
import sys
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
K = 10
COLUMNS = ["date", "commit", "machine", "places", "queries", "engine", "version", "build_seconds", "search_seconds"]


def places_of(count, generator):
    latitude = numpy.arcsin(generator.uniform(-1.0, 1.0, count))
    return numpy.column_stack([latitude, generator.uniform(-numpy.pi, numpy.pi, count)])


def timed(function):
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def compare(count, queries, runs):
    import kith
    import sklearn
    from sklearn.neighbors import BallTree

    generator = numpy.random.default_rng(7)
    places = places_of(count, generator)
    asked = places[generator.integers(0, count, queries)] + 1e-4 * generator.uniform(-1.0, 1.0, (queries, 2))
    asked[:, 0] = numpy.clip(asked[:, 0], -numpy.pi / 2, numpy.pi / 2)
    built = {"kith": timed(lambda: kith.Index(places, "haversine", method="tree", device="cpu", n_jobs=1)),
             "BallTree": timed(lambda: BallTree(places, metric="haversine"))}
    searches = {"kith": lambda: built["kith"][1].search(asked, K)[0],
                "BallTree": lambda: built["BallTree"][1].query(asked, K)[0]}
    least, found = {}, {}
    for _ in range(runs):
        for name, search in searches.items():
            seconds, found[name] = timed(search)
            least[name] = min(least.get(name, seconds), seconds)
    if not numpy.allclose(found["kith"], found["BallTree"], rtol=1e-9, atol=1e-15):
        raise SystemExit("the distances differ")
    versions = {"kith": kith.__version__, "BallTree": f"scikit-learn {sklearn.__version__}"}
    return [[name, versions[name], f"{built[name][0]:.3g}", f"{least[name]:.3g}"] for name in searches]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--csv", help="rows are added to this file")
    options = parser.parse_args()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            check=False).stdout.strip()
    models = [line.partition(":")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    machine = models[0] if models else platform.machine()
    for count in options.places:
        rows = [[datetime.date.today().isoformat(), commit, machine, count, options.queries, *row]
                for row in compare(count, options.queries, options.runs)]
        for row in rows:
            print(dict(zip(COLUMNS, row)))
        if options.csv:
            path = pathlib.Path(options.csv)
            new = not path.exists()
            with path.open("a", newline="") as out:
                csv.writer(out, lineterminator="\n").writerows(([COLUMNS] if new else []) + rows)


if __name__ == "__main__":
    main()
