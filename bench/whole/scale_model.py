#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What graphs of very many points would take: rates that were measured, and the schedule of shards, step by step.

    scale_model.py [--results bench/results] [--markdown docs/notes/scale.md]   # tables; in the document, too
    scale_model.py --check                                                # does it give what was measured?
    scale_model.py --rows 1e9 --columns 96 -k 10 --bytes 1 --gpus 8 [--hosts 64] [--shards S]
                   [--way pairs|workers|groups]

Reads scale_rates.json (figures with their sources, and what is assumed) and team.csv; fits when it runs. Seconds are of
two growths: `line` takes as many seconds a point as the largest that was measured, `curve` a power of the number of
points through two sizes. The truth is expected between them, and not promised there.
"""
import argparse
import csv
import json
import math
import pathlib
import sys

from scale_schedule import check_schedule, meeting, rounds_of, steps_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("prepare", "start", "rounds", "end")
TEAM_PARTS = ("prepare_seconds", "screen_seconds", "rescore_seconds")
GROWTHS = ("line", "curve")
FIT_ERROR, LEFT_OUT_ERROR, MEMORY_ERROR = 0.03, 0.05, 0.01  # that docs/notes/scale.md names,
GROWTH_ERROR = {"line": 0.20, "curve": 0.10}                # of ten million points by the growths, too
CELL = 512            # points of a cell up to which cells were measured to be small enough, and
MOST_PIVOTS = 65536   # as many as there are at most: src/screen/screen_near_gpu.c


# ---- Rates --------------------------------------------------------------------------------------------


def line_through(points):
    """Least squares of y = a + b x."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    b = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - b * mean_x, b


class Model:
    def __init__(self, results):
        rates = json.loads((results / "scale_rates.json").read_text())
        self.measured, self.counted = rates["measured"], rates["counted"]
        self.assumed = {name: item["value"] for name, item in rates["assumed"].items()}
        self.sources = rates["assumed"]
        with open(results / "team.csv", newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if "--bytes" not in row["command"]]
        newest = {(row["work"], row["rows"], row["k"], row["gpus"]): row for row in rows}
        self.team = [row for key, row in sorted(newest.items(), key=lambda item: (item[0][0], int(item[0][3])))
                     if key[:3] in (("exact", "10000000", "10"), ("descent", "20000000", "32"))]
        small, large = self.measured["descent_10M"], self.measured["descent_100M"]
        decade = math.log(large["rows"] / small["rows"])
        self.powers = {part: max(1.0, math.log(large[part] / small[part]) / decade) for part in PARTS}
        merge = self.measured["merge"]
        self.merge = merge["seconds"] / merge["direct"]
        self.merge_blob = merge["seconds_blob"] / merge["direct_blob"]

    def of(self, work):
        return [row for row in self.team if row["work"] == work]

    def fit(self, work, leave_out=0):
        """{part: (a, b)}: a + b / GPUs seconds."""
        rows = [row for row in self.of(work) if int(row["gpus"]) != leave_out]
        return {part: line_through([(1 / int(row["gpus"]), float(row[part])) for row in rows]) for part in TEAM_PARTS}

    def of_team(self, work, gpus, leave_out=0):
        return {part: a + b / gpus for part, (a, b) in self.fit(work, leave_out).items()}

    def speedup(self, work, gpus):
        return sum(self.of_team(work, 1).values()) / sum(self.of_team(work, gpus).values())

    def descent(self, rows, k, growth):
        """Seconds of one GPU; k = 10: rows on the device, k = 32: on the host."""
        if k <= 10:
            base = self.measured["descent_100M"]
            parts = {part: base[part] for part in PARTS}
            of_rows = base["rows"]
        else:
            prepare, screen, end = self.of_team("descent", 1).values()
            device = self.measured["descent_10M"]
            share = device["start"] / (device["start"] + device["rounds"])
            parts = {"prepare": prepare, "start": share * screen, "rounds": (1 - share) * screen, "end": end}
            of_rows = int(self.of("descent")[0]["rows"])
        return sum(seconds * (rows / of_rows) ** (self.powers[part] if growth == "curve" else 1.0)
                   for part, seconds in parts.items())

    def exact(self, rows, gpus):
        """Pairs grow by the square, what is not divided by the rows."""
        fits = self.fit("exact")
        times = rows / int(self.of("exact")[0]["rows"])
        return sum(a * times + b / gpus * (times ** 2 if part == "screen_seconds" else times)
                   for part, (a, b) in fits.items())

    def most_rows(self, width, k, merges, gpus=1):
        """That fit a device; a member of a team held some more than one GPU alone."""
        item = self.counted["device_bytes_u8_k10" if width == 1 and k <= 10 else "device_bytes_f32_k32"]
        peaks = [float(row["peak_mib"]) for row in self.of("descent")]
        more = max(peaks) / peaks[0] if gpus > 1 else 1.0
        return int(self.assumed["device_gib"] * 2**30 / (more * item["merge" if merges else "value"]))


# ---- A job --------------------------------------------------------------------------------------------


class Job:
    """Points in shards; seconds of its steps."""

    def __init__(self, model, rows, columns, k, width, growth, shards, gpus_a_worker):
        self.model, self.k = model, k
        self.shards, self.gpus = shards, gpus_a_worker
        self.size = math.ceil(rows / shards)
        id_bytes = 4 if rows < 2**32 else 8
        self.row_bytes = columns * width
        self.own_bytes = k * id_bytes
        self.list_bytes = k * (id_bytes + 8)
        self.found_bytes = k * 12
        speedup = model.speedup("descent", gpus_a_worker)
        self.build = model.descent(self.size, k, growth) / speedup
        self.pair = model.merge * model.descent(2 * self.size, k, growth) / speedup

    def link(self, rows, builds):
        """Of the rows to the device and back, where the rates do not have it in them. Members share the upload."""
        if self.k > 10:
            return 0.0
        up = self.row_bytes + (0 if builds else self.own_bytes)
        return rows * (up / self.gpus + self.found_bytes) / self.model.assumed["host_link"]

    def disk(self, shards, with_rows=0):
        """Seconds for lists of so many shards, and for rows of so many."""
        count = shards * (self.list_bytes + self.own_bytes) + with_rows * self.row_bytes
        return self.size * count / self.model.assumed["disk"]


def pairs_in_turn(job, on_disk=True):
    """One shard or pair after the other; the disk beside them (src/shard/shard_run.h)."""
    time = {"gpu": 0.0, "link": 0.0, "disk": 0.0, "wall": 0.0}
    steps = list(steps_of(job.shards))
    dirty, held = 0, set()
    for number, (a, b) in enumerate(steps):
        builds = a == b
        gpu = job.build if builds else job.pair
        link = job.link(job.size if builds else 2 * job.size, builds)
        following = steps[number + 1] if number + 1 < len(steps) else (a, b)
        held = {a, b}
        to_read = 0 if following[0] == following[1] else len(set(following) - held)
        rows_read = len(set(following) - held)
        disk = job.disk(dirty + to_read, rows_read) if on_disk else 0.0
        dirty = len(held)
        add(time, gpu, link, disk, max(gpu + link, disk))
    last = job.disk(dirty) if on_disk else 0.0
    add(time, 0.0, 0.0, last, last)
    return time


def add(time, gpu, link, other, wall, name="disk"):
    for key, seconds in (("gpu", gpu), ("link", link), (name, other), ("wall", wall)):
        time[key] += seconds


def tournament(job, workers, workers_a_host, network):
    """Workers take tables of a round; what a worker had in the round before need not come again. Shards lie in the
    hosts' memory; between rounds lists, own graphs and rows of those that come go over the network."""
    time = {"gpu": 0.0, "link": 0.0, "network": 0.0, "wall": 0.0}
    turns = math.ceil(job.shards / workers)
    gpu, link = turns * job.build, turns * job.link(job.size, True)
    add(time, gpu, link, 0.0, gpu + link, "network")
    tables = job.shards // 2 + job.shards % 2
    bytes_a_shard = job.size * (job.row_bytes + job.own_bytes + job.list_bytes)
    held = {}
    for number in range(rounds_of(job.shards)):
        now, most = {}, 0
        for table in range(tables):
            pair = meeting(job.shards, number, table)
            if pair:
                worker = table * workers // tables  # neighbours at neighbouring tables
                now.setdefault(worker, []).append(pair)
        hosts = {}
        for worker, pairs in now.items():
            most = max(most, len(pairs))
            hosts.setdefault(worker // workers_a_host, set()).update(shard for pair in pairs for shard in pair)
        come = max(len(shards - held.get(host, set())) for host, shards in hosts.items())
        held = hosts
        gpu, link = most * job.pair, most * job.link(2 * job.size, False)
        sent = come * bytes_a_shard / job.model.assumed["network"] if network and number > 0 else 0.0
        add(time, gpu, link, sent, gpu + link + sent, "network")
    return time


def overlapping(job, workers, on_disk=True):
    """Groups that overlap, built alone (src/shard/shard_follow.c): at most every point is in two of them."""
    turns = math.ceil(job.shards / workers)
    gpu, link = turns * job.build, turns * job.link(job.size, True)
    disk = job.size * job.shards * (job.row_bytes + 2 * job.list_bytes) / job.model.assumed["disk"] if on_disk else 0.0
    return {"gpu": gpu, "link": link, "disk": disk, "wall": max(gpu + link, disk)}


# ---- Tables -------------------------------------------------------------------------------------------


def table(head, lines):
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |"
                     for line in [head, ["---"] * len(head), *lines])


def said(seconds):
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 180 else f"{seconds:.3g} s"


def percent(ours, true):
    return f"{100 * (ours / true - 1):+.1f} %"


def show_fit(model):
    lines = []
    for work in ("exact", "descent"):
        for row in model.of(work):
            gpus = int(row["gpus"])
            parts = model.of_team(work, gpus)
            ours, true = sum(parts.values()), float(row["seconds"])
            left = sum(model.of_team(work, gpus, leave_out=gpus).values())
            lines.append([f"{work}, {int(row['rows']):,} × {row['columns']}, k = {row['k']}", gpus, f"{true:.3f}",
                          f"{ours:.3f}", percent(ours, true), percent(left, true) if gpus == 4 else ""])
    return table(["work", "GPUs", "measured, s", "fitted, s", "error", "from 1 and 2 GPUs alone"], lines)


def show_rates(model):
    lines = []
    names = {"prepare_seconds": "prepare", "screen_seconds": "screen, or start and rounds",
             "rescore_seconds": "rescore, write"}
    for work in ("exact", "descent"):
        for part, (a, b) in model.fit(work).items():
            lines.append([work, names[part], f"{a:.3f}", f"{b:.3f}", f"{100 * a / (a + b):.1f} %"])
    return table(["work", "part", "not divided, s", "divided by GPUs, s", "share not divided"], lines)


def show_teams(model):
    lines = []
    for gpus in (1, 2, 4, 8, 16):
        mark = "" if gpus <= 4 else " (predicted)"
        exact = [model.exact(10e6, gpus), model.exact(10e6, 1)]
        descent = sum(model.of_team("descent", gpus).values())
        lines.append([f"{gpus}{mark}", f"{exact[0]:.2f}", f"{exact[1] / exact[0]:.2f}", f"{descent:.2f}",
                      f"{model.speedup('descent', gpus):.2f}"])
    return table(["GPUs", "exact 10M × 96, s", "times one", "descent 20M × 96, k = 32, s", "times one"], lines)


def show_growth(model):
    lines = []
    for part in PARTS:
        small, large = model.measured["descent_10M"][part], model.measured["descent_100M"][part]
        lines.append([part, f"{1e9 * small / 1e7:.0f}", f"{1e9 * large / 1e8:.0f}", f"{model.powers[part]:.2f}"])
    return table(["part", "10M × 96 float32: ns a point", "100M × 96 bytes: ns a point", "power of the curve"], lines)


def times(values):
    return " to ".join(dict.fromkeys(said(value) for value in values))


def bottleneck(time):
    name = max((key for key in time if key != "wall"), key=lambda key: time[key])
    return f"{name}, {100 * time[name] / time['wall']:.0f} %"


def show_ways(ways):
    lines = []
    for name, shards, rows, make in ways:
        found = [make(growth) for growth in GROWTHS]
        other = [time.get("disk", time.get("network", 0.0)) for time in found]
        lines.append([name, shards, f"{rows / 1e6:.1f}M", times(time["gpu"] for time in found),
                      times(time["link"] for time in found), times(other), times(time["wall"] for time in found),
                      ", ".join(dict.fromkeys(bottleneck(time) for time in found))])
    return table(["way", "shards", "points a shard", "GPUs", "host link", "disk or network", "wall",
                  "the most of it"], lines)


def billion(model):
    rows, columns, k, width = 1_000_000_000, 96, 10, 1

    def job(growth, shards, gpus, copies=1):
        return Job(model, copies * rows, columns, k, width, growth, shards, gpus)
    team, fit = (math.ceil(2 * rows / model.most_rows(width, k, True, gpus)) for gpus in (8, 1))
    fit += fit % 2
    cells = math.ceil(2 * rows / (CELL * MOST_PIVOTS))
    cells += cells % 2
    groups = 8 * math.ceil(2 * rows / model.most_rows(width, k, False) / 8)
    return [
        ("(c) pairs in turn, each by the team of 8, lists on disk", team, rows / team,
         lambda g: pairs_in_turn(job(g, team, 8))),
        ("(c) the same, lists in host memory", team, rows / team,
         lambda g: pairs_in_turn(job(g, team, 8), False)),
        ("(d) tournament, each GPU its pairs, lists in host memory", fit, rows / fit,
         lambda g: tournament(job(g, fit, 1), 8, 8, False)),
        (f"(d) the same, pairs with cells of {CELL} points", cells, rows / cells,
         lambda g: tournament(job(g, cells, 1), 8, 8, False)),
        ("(e) groups that overlap, every point in two, a GPU each, disk", groups, 2 * rows / groups,
         lambda g: overlapping(job(g, groups, 1, 2), 8)),
    ]


def ten_billion(model):
    rows, columns, k, width, hosts = 10_000_000_000, 96, 10, 1, 64

    def job(growth, shards, gpus, copies=1):
        return Job(model, copies * rows, columns, k, width, growth, shards, gpus)
    teams = 2 * hosts * math.ceil(2 * rows / model.most_rows(width, k, True, 8) / (2 * hosts))
    groups = 8 * hosts
    return [
        ("(d) tournament of 64 hosts, a pair by a team of 8", teams, rows / teams,
         lambda g: tournament(job(g, teams, 8), hosts, 1, True)),
        ("(d) tournament of 512 GPUs", 16 * hosts, rows / (16 * hosts),
         lambda g: tournament(job(g, 16 * hosts, 1), 8 * hosts, 8, True)),
        ("(e) groups that overlap, every point in two, a GPU each; disks of 64 hosts", groups, 2 * rows / groups,
         lambda g: spread(overlapping(job(g, groups, 1, 2), 8 * hosts), hosts)),
    ]


def spread(time, hosts):
    disk = time["disk"] / hosts
    return time | {"disk": disk, "wall": max(time["gpu"] + time["link"], disk)}


def show_billion(model):
    return show_ways(billion(model))


def show_ten_billion(model):
    return show_ways(ten_billion(model))


def show_exact(model):
    return table(["exact graph", "GPUs", "predicted"],
                 [["40,000,000 × 96", 8, said(model.exact(40e6, 8))],
                  ["10⁹ × 96, without shards", 8, said(model.exact(1e9, 8))],
                  ["10¹⁰ × 96, without shards", 512, said(model.exact(1e10, 512))]])


def show_shards(model):
    """One GPU, 20M x 96 f32, k = 32: what cutting costs, without any disk."""
    lines = []
    for shards in (1, 2, 3, 4, 8, 16):
        cost = [1 + ratio * (shards - 1) for ratio in (model.merge, model.merge_blob)]
        lines.append([shards, shards * (shards - 1) // 2, *(f"{value:.2f}" for value in cost)])
    return table(["shards", "pairs", f"times direct, merge = {model.merge:.2f} of a build",
                  f"without clusters, {model.merge_blob:.2f}"], lines)


def show_memory(model):
    lines = []
    for item in model.counted.values():
        if "merge" in item:
            most = [int(model.assumed["device_gib"] * 2**30 / item[key]) for key in ("value", "merge")]
            lines.append([item["source"], f"{item['value']:,}", f"{item['merge']:,}",
                          *(f"{rows / 1e6:.0f}M" for rows in most)])
    return table(["counted of", "bytes a point, descent", "merge", "points of a descent that fit", "of a merge"], lines)


def show_assumed(model):
    return table(["", "value", "what it is"],
                 [[name, f"{item['value']:g}", item["source"]] for name, item in model.sources.items()])


TABLES = {"fit": show_fit, "rates": show_rates, "teams": show_teams, "growth": show_growth, "memory": show_memory,
          "shards": show_shards, "billion": show_billion, "ten billion": show_ten_billion, "exact": show_exact,
          "assumed": show_assumed}


def rewrite(path, model):
    text = path.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, found, rest = text.partition(begin)
        if not found or end not in rest:
            sys.exit(f"scale_model: {path} has no place for '{name}'")
        text = before + begin + "\n" + make(model) + "\n" + end + rest.partition(end)[2]
    path.write_text(text, encoding="utf-8")


# ---- Does it hold? ------------------------------------------------------------------------------------


def check(model):
    worst = {"fit": 0.0, "left out": 0.0}
    for work in ("exact", "descent"):
        for row in model.of(work):
            gpus, true = int(row["gpus"]), float(row["seconds"])
            error = abs(sum(model.of_team(work, gpus).values()) / true - 1)
            worst["fit"] = max(worst["fit"], error)
            if gpus == 4:
                left = abs(sum(model.of_team(work, 4, leave_out=4).values()) / true - 1)
                worst["left out"] = max(worst["left out"], left)
    peak = max(float(row["peak_mib"]) for row in model.of("descent") if row["gpus"] == "1")
    item = model.counted["device_bytes_f32_k32_20M"]
    worst["memory"] = abs(item["value"] * item["rows"] / 2**20 / peak - 1)
    for name, limit in (("fit", FIT_ERROR), ("left out", LEFT_OUT_ERROR), ("memory", MEMORY_ERROR)):
        print(f"{name}: error at most {100 * worst[name]:.1f} %, {100 * limit:.0f} % are allowed")
        assert worst[name] <= limit, name
    for name in ("descent_10M", "descent_100M"):
        row = model.measured[name]
        true = sum(row[part] for part in PARTS)
        for growth in GROWTHS:
            error = model.descent(row["rows"], row["k"], growth) / true - 1
            limit = GROWTH_ERROR[growth] if name == "descent_10M" else FIT_ERROR
            print(f"{name} by the {growth}: {100 * error:+.0f} % of {true:.3f} s, {100 * limit:.0f} % are allowed")
            assert abs(error) <= limit, name
    print("schedule: " + check_schedule())


def one_job(model, options):
    gpus = options.gpus * options.hosts
    merges = options.way != "groups"
    copies = 1 if merges else 2
    rows = int(options.rows)
    per_device = model.most_rows(options.bytes, options.k, merges, options.gpus if options.way == "pairs" else 1)
    shards = options.shards or math.ceil((2 if merges else copies) * rows / per_device)
    for growth in GROWTHS:
        job = Job(model, copies * rows, options.columns, options.k, options.bytes, growth, shards,
                  options.gpus if options.way == "pairs" else 1)
        time = {"pairs": lambda job=job: pairs_in_turn(job),
                "workers": lambda job=job: tournament(job, gpus, options.gpus, options.hosts > 1),
                "groups": lambda job=job: overlapping(job, gpus)}[options.way]()
        print(f"{growth:6} {shards} shards of {job.size:,}: " + ", ".join(
            f"{name} {said(seconds)} ({100 * seconds / time['wall']:.0f} %)" for name, seconds in time.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rows", type=float, default=0)
    parser.add_argument("--columns", type=int, default=96)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--bytes", type=int, default=1, help="of a value")
    parser.add_argument("--gpus", type=int, default=8, help="of a host")
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--shards", type=int, default=0)
    parser.add_argument("--way", choices=["pairs", "workers", "groups"], default="pairs")
    options = parser.parse_args()
    model = Model(options.results)
    if options.check:
        check(model)
    elif options.rows:
        one_job(model, options)
    elif options.markdown:
        rewrite(options.markdown, model)
    else:
        for name, make in TABLES.items():
            print(f"\n{name}\n\n{make(model)}")


if __name__ == "__main__":
    main()
