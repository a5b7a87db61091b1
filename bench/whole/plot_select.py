#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures and tables of docs/selection.md and docs/notes/selection.md from bench/results/select.csv.

    plot_select.py [--csv bench/results/select.csv] [--pictures docs/pictures] [--quick]
                   [--markdown docs/selection.md docs/notes/selection.md]

Pictures need matplotlib. --markdown rewrites what stands between "<!-- begin NAME -->" and "<!-- end NAME -->",
in these pages, so that no figure there is typed by hand; with it alone (--pictures "") matplotlib is not needed.
"""
import argparse
import pathlib
import sys

import select_tables
from bench_gpu import ROOT
from select_rows import BUFFER_OF, ratio, read
from select_tables import FIRST_OF, HEAP_PARTS, unsorted

WIDE = 8  # a narrower range of values needs no logarithm
MS, US = 1e3, 1e6  # in a second
QUEUE_NAMES = [("insertion", 0), ("heap", 0), ("merge_queue", 1), ("merge_queue", 0)]


def queues_of(rows):
    """Names of the queues that were measured; of the merge queue the aligned one where there is one."""
    has_aligned = bool(rows.where(aligned=1))
    return [(name, aligned) for name, aligned in QUEUE_NAMES
            if name != "merge_queue" or aligned == int(has_aligned)]


def panel(axes, title, across, lines, up="", log_y=True, log_x=True):
    """lines: (label, {x: y}); what is empty is left out. The legend stands beside the axes, never on a line."""
    shown = [(label, points) for label, points in lines if points]
    for label, points in shown:
        axes.plot(list(points), list(points.values()), marker="o", markersize=3, label=label)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(across, fontsize=9)
    axes.set_ylabel(up, fontsize=9)
    axes.tick_params(which="both", labelsize=8)
    axes.grid(alpha=0.3)
    if not shown:
        axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes, fontsize=9)
        return
    if log_x:
        axes.set_xscale("log", base=2)
    if log_y and spread(shown) > WIDE:
        axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,.10g}")
    if len(shown) > 1:
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.03), frameon=False, handlelength=1.2)


def spread(lines):
    """How many times larger the largest value is than the smallest."""
    values = [value for _, points in lines for value in points.values()]
    return max(values) / min(values) if min(values) > 0 else 1.0


def scaled(factor, points):
    return {x: factor * value for x, value in points.items()}


def sheet(plt, rows, columns, title):
    figure, axes = plt.subplots(rows, columns, figsize=(5.0 * columns, 2.9 * rows), squeeze=False,
                                layout="constrained")
    figure.suptitle(title, fontsize=12)
    return figure, list(axes.flat)


def finish(plt, figure, axes, used, path):
    for rest in axes[used:]:
        rest.remove()
    figure.savefig(path, dpi=90)
    plt.close(figure)
    print(path)


# ---- Merge queue ------------------------------------------------------------------------------------


def draw_updates(plt, rows, path):
    counted = rows.where(work="updates", quantity="updates")
    if not counted:
        return
    figure, axes = sheet(plt, 1, 2, "Updates of queues (figure 5 of the merge queue paper), counted")
    names = ("insertion", "heap", "merge_queue")
    places = Places(counted)
    panel(axes[0], "5a  updates at each place, k = 64", "place", [(n, places.of(n)) for n in names], "updates",
          log_y=False, log_x=False)
    totals = counted.where(at="")
    lines = [(n, totals.where(method=n).by("k")) for n in names]
    lines.append(("expected insertions", rows.where(work="updates", method="any").by("k")))
    panel(axes[1], "5b  all updates", "k", lines, "updates")
    finish(plt, figure, axes, 2, path)


class Places:
    """Updates by place; the head of a queue is place 0."""

    def __init__(self, rows):
        self.rows = rows

    def of(self, method):
        return {int(row["at"]): row["value"] for row in self.rows.where(method=method).rows if row["at"] != ""}


def draw_queue(plt, rows, side, path):
    rows = rows.where(work="queue", quantity="seconds").all_threads()
    if not rows:
        return
    figure, axes = sheet(plt, 4, 3, f"Merge queue paper, figures 6 to 9, {side}: plain / improved time")
    cols = middle(rows)
    at = 0
    for name, aligned in queues_of(rows):
        of_n = rows.where(cols=cols)
        plain = of_n.variant(name, aligned=aligned).by("k")
        panel(axes[at], f"6  {name}, buffers, N = {cols}", "k",
              [(b, ratio(plain, of_n.variant(name, b, 0, aligned).by("k"))) for b in ("plain", "full", "sorted")],
              "times faster", False)
        panel(axes[at + 3], f"7  {name}, groups, N = {cols}", "k",
              [(f"G = {g}", ratio(plain, of_n.variant(name, "none", g, aligned).by("k"))) for g in (2, 4, 8)],
              "times faster", False)
        of_k = rows.where(k=256)
        base = of_k.variant(name, aligned=aligned).by("cols")
        panel(axes[at + 6], f"8  {name}, groups, k = 256", "N",
              [(f"G = {g}", ratio(base, of_k.variant(name, "none", g, aligned).by("cols"))) for g in (2, 4, 8)],
              "times faster", False)
        at += 1
    for place, (wanted, across) in enumerate([({"cols": cols}, "k"), ({"k": 256}, "cols")]):
        some = rows.where(**wanted)
        lines = [(name, ratio(some.variant(name, aligned=aligned).by(across),
                              some.variant(name, BUFFER_OF[name], 4, aligned).by(across)))
                 for name, aligned in queues_of(rows)]
        fixed = f"N = {cols}" if across == "k" else "k = 256"
        panel(axes[9 + place], f"9  buffer and groups, {fixed}", "k" if across == "k" else "N", lines,
              "times faster", False)
    finish(plt, figure, axes, 11, path)


def middle(rows):
    """The N with the most different k."""
    return max(rows.different("cols"), key=lambda n: len(rows.where(cols=n).different("k")), default=0)


# ---- Quick multi-select -----------------------------------------------------------------------------


def peer_of(rows):
    names = rows.different("method")
    return next((n for n in ("torch.topk", "std::nth_element+sort", "numpy argpartition+sort") if n in names), "")


def draw_quick(plt, rows, side, path):
    if not rows.where(work=FIRST_OF["quick"]):
        return
    figure, axes = sheet(plt, 2, 3, f"Quick multi-select paper, figures 5 to 10, {side}")
    for place, (work, across, label) in enumerate([("quick.5", "k", "cols"), ("quick.6", "k", "rows"),
                                                   ("quick.7", "cols", "k")]):
        some = rows.where(work=work)
        peer = peer_of(some)
        theirs = some.where(method=peer).all_threads()
        ours = some.where(method="quick", at="unsorted")
        lines = [(f"{peer}, {NAMES[label]} = {value}",
                  ratio(theirs.where(**{label: value}).by(across), ours.where(**{label: value}).by(across)))
                 for value in some.different(label)]
        rival = "bitonic" if work == "quick.7" else "insertion"
        values = some.different(label)
        lines += [(f"{rival}, {NAMES[label]} = {value}",
                   ratio(some.where(method=rival, **{label: value}).by(across),
                         ours.where(**{label: value}).by(across))) for value in values[len(values) > 2::2]]
        panel(axes[place], f"{work[6:]}  rivals / quick", NAMES[across], lines, "times faster")
    some = rows.where(work="quick.8")
    panel(axes[3], "8  time of the k-th alone / of quick's k", "N",
          [(f"{name}, k = {k}", ratio(some.where(method=name, at="kth", k=k).by("cols"),
                                      unsorted(some).where(k=k).by("cols")))
           for name in ("radix", "torch.kthvalue") for k in some.different("k")[::3]], "times")
    some = rows.where(work="quick.9")
    panel(axes[4], "9  time of a row while Q grows", "Q",
          [(f"{name}, k = {k}", {q: US * v / q for q, v in each.where(k=k).by("rows").items()})
           for name, each in (("quick", unsorted(some)), ("auto", some.where(method="auto")))
           for k in some.different("k")[::3]], "µs")
    some = rows.where(work="quick.10")
    panel(axes[5], "10  nth_element, sort on one core / quick, a row", "N",
          [(f"k = {k}", ratio(a_row(some.where(method="std::nth_element+sort", k=k)),
                              a_row(some.where(method="quick", k=k)))) for k in some.different("k")], "times faster")
    finish(plt, figure, axes, 6, path)


NAMES = {"cols": "N", "rows": "Q", "k": "k"}


def a_row(rows):
    return {row["cols"]: row["value"] / row["rows"] for row in sorted(rows.rows, key=lambda row: row["cols"])}


# ---- TH-heap ----------------------------------------------------------------------------------------


def draw_heap(plt, rows, side, path):
    if not rows.where(work=FIRST_OF["heap"]):
        return
    figure, axes = sheet(plt, 4, 3, f"TH-heap paper, figures 5 to 12, {side}")
    place = iter(axes)
    for work, timed, across in (("heap.5", "heap.6", "sample"), ("heap.7", "heap.8", "k"),
                                ("heap.9", "", "queries of a batch")):
        for quantity in ("compression", "threshold ratio"):
            points = rows.where(work=work, quantity=quantity).by("at")
            panel(next(place), f"{work[5:]}  {quantity}", across, [(quantity, points)], "",
                  quantity == "compression")
        some = rows.where(work=timed, method="threshold_heap")
        if some:
            panel(next(place), f"{timed[5:]}  time of the parts", across,
                  [(part, scaled(MS, some.where(quantity=f"part: {part}").by("at"))) for part in HEAP_PARTS], "ms")
    for work, across, name in (("heap.10", "cols", "N"), ("heap.11", "k", "k"), ("heap.12", "rows", "Q")):
        some = rows.where(work=work, quantity="seconds")
        panel(next(place), f"{work[5:]}  time", name,
              [(m, scaled(MS, some.where(method=m).by(across))) for m in some.different("method")], "ms")
    finish(plt, figure, axes, len(axes) - len(list(place)), path)


def draw(rows, folder, marker):
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
        matplotlib.use("Agg")
        from matplotlib import pyplot as plt  # pylint: disable=import-outside-toplevel
    except ImportError:
        sys.exit("plot_select: pictures need matplotlib")
    folder.mkdir(parents=True, exist_ok=True)
    draw_updates(plt, rows, folder / f"select_updates{marker}.png")
    for side in rows.different("side"):
        some = rows.where(side=side)
        draw_queue(plt, some, side, folder / f"select_queue_{side}{marker}.png")
        draw_quick(plt, some, side, folder / f"select_quick_{side}{marker}.png")
        draw_heap(plt, some, side, folder / f"select_heap_{side}{marker}.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=pathlib.Path, default=ROOT / "bench/results/select.csv")
    parser.add_argument("--pictures", default=str(ROOT / "docs/pictures"), help="folder; empty: none")
    parser.add_argument("--markdown", type=pathlib.Path, nargs="+", default=[])
    parser.add_argument("--quick", action="store_true", help="rows that were measured with --quick")
    options = parser.parse_args()
    rows = read(options.csv, options.quick)
    if not rows:
        sys.exit(f"plot_select: no such rows in {options.csv}")
    if options.pictures:
        draw(rows, pathlib.Path(options.pictures), "_quick" if options.quick else "")
    if options.markdown:
        select_tables.rewrite(options.markdown, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
