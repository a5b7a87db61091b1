# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/tree.md and docs/notes/tree.md: rows of bench/results/tree.csv, tree_buffer.csv, tree_lab.csv."""
from select_rows import ratio
from select_tables import NOTHING, milliseconds, rewrite_pages, table
from tree_rows import right

# What the best peer took on one H200, measured apart: cudaKDTree, or brute force in fp32 (uniform 12, 15).
PEER_SECONDS = {"colour 4": 0.036, "colour 8": 0.152, "colour 10": 0.211, "colour 15": 0.591, "uniform 8": 1.03,
                "uniform 12": 1.09, "uniform 15": 1.34}
WORKS = [*PEER_SECONDS, "colour 27"]
CATALOGUES = {4: "psf colors", 5: "psf mag", 10: "psf model mag", 12: "all colors", 15: "all mag", 27: "all"}
# A multiprocessor starts four instructions of 32 lanes a cycle; a pair takes two a column.
LANES_A_SECOND = 132 * 4 * 32 * 1.755e9
COLUMN_INSTRUCTIONS = 2
PEERS = ["pykdtree", "cKDTree", "sklearn"]


def origin(rows):
    found = sorted({(row["machine"], row["date"], row["commit"]) for row in rows.rows})
    threads = max((row["threads"] for row in rows.rows), default=0)
    wrong = "" if right_everywhere(rows) else " **Some answers were wrong: see the column recall.**"
    return ("*" + "; ".join(f"{machine}, {date}, commit {commit}" for machine, date, commit in found) +
            (f", {threads} threads" if threads else "") + ".*" + wrong)


def right_everywhere(rows):
    if any("checked" in row for row in rows.rows):
        return all(row["checked"] in ("same", "-") for row in rows.rows if "checked" in row)
    return right(type(rows)([row for row in rows.rows if "recall" in row]))


def only(rows):
    """The one row that was asked for, or nothing."""
    return rows.rows[-1] if rows.rows else None


def seconds(value):
    if value is None:
        return ""
    return f"{value:,.1f}" if value >= 100 else f"{value:.3g}"


def count(value):
    return "" if value is None else f"{value:,.0f}"


def short(value):
    return f"{value:,}"


def finish(head, lines, rows):
    return table(head, lines) + "\n\n" + origin(rows) if lines else NOTHING


# ---- One GPU ----------------------------------------------------------------------------------------


def beside_gpu(rows, _lab):
    rows = rows.where(side="cuda", k=10, work=WORKS)
    lines = []
    for work in WORKS:
        some = rows.where(work=work)
        tree, brute = only(some.where(engine="kith-tree")), only(some.where(engine="kith-exact"))
        if tree is None or brute is None:
            continue
        lines.append([work, f"{short(tree['queries'])} × {short(tree['rows'])}", milliseconds(tree["seconds"]),
                      milliseconds(tree["build"]), milliseconds(tree["queries"] * brute["value"] * 1e-9),
                      milliseconds(PEER_SECONDS.get(work))])
    return finish(["points", "queries × points", "kith's tree, ms", "build, ms", "kith's all pairs, ms",
                   "best other, ms"], lines, rows)


def floor(rows, _lab):
    rows = rows.where(side="cuda", k=10, engine="kith-tree", work=WORKS)
    lines = []
    for row in sorted(rows.rows, key=lambda row: (row["work"].split()[0], row["columns"])):
        lanes = row["queries"] * row["pairs"] * COLUMN_INSTRUCTIONS * row["columns"]
        least = lanes / LANES_A_SECOND
        lines.append([row["work"], count(row["pairs"]), f"{100 * row['pairs'] / row['rows']:.2f} %",
                      milliseconds(least), milliseconds(row["seconds"]), f"{100 * least / row['seconds']:.0f} %"])
    return finish(["work", "pairs a query", "of all", "floor, ms", "measured, ms", "floor's share"], lines, rows)


def crossover(rows, _lab):
    rows = rows.where(side="cuda", work="crossover")
    lines = []
    for columns in rows.different("columns"):
        some = {row["engine"]: row for row in rows.where(columns=columns).rows}
        if len(some) < 3:
            continue
        tree, brute, auto = some["kith-tree"], some["kith-exact"], some["kith-auto"]
        lines.append([str(columns), milliseconds(tree["whole"]), milliseconds(brute["whole"]),
                      milliseconds(auto["whole"]), auto["way"], f"{auto['whole'] / brute['whole']:.2f}",
                      count(tree["pairs"])])
    return finish(["columns", "tree, ms", "all pairs, ms", "auto, ms", "auto took", "auto / all pairs",
                   "pairs a query of the tree"], lines, rows)


def table_two(rows, lab):
    rows = rows.where(side="cuda", work="table2")
    lines = []
    for columns in rows.different("columns"):
        some = {row["engine"]: row for row in rows.where(columns=columns).rows}
        tree, brute = some["kith-tree"], some["kith-exact"]
        others = {row["method"]: row["value"] * tree["queries"] * 1e-9
                  for row in lab.where(columns=columns, k=10, height=usual_height(lab)).rows}
        lines.append([CATALOGUES[columns], str(columns), seconds(tree["seconds"]),
                      seconds(brute["value"] * tree["queries"] * 1e-9),
                      seconds(others.get("buffered")), seconds(others.get("alone")), seconds(others.get("brute")),
                      f"{brute['value'] / tree['value']:.1f}"])
    return finish(["the paper's catalogue", "columns", "kith's tree, s", "kith's all pairs, s",
                   "the paper's way, s", "a thread a query, s", "fp32 all pairs, s", "all pairs / tree"], lines, rows)


def usual_height(lab):
    """The height with the most rows: figures 3 to 6 are of it."""
    heights = [row["height"] for row in lab.rows]
    return max(sorted(set(heights)), key=heights.count, default=0)


def sweeps(rows, _lab):
    """Figures 5 and 6 and their kin, in numbers."""
    rows = rows.where(side="cuda", work=["sweep m", "sweep n", "sweep d", "sweep k"])
    lines = []
    for work, across in (("sweep m", "queries"), ("sweep n", "rows"), ("sweep d", "columns"), ("sweep k", "k")):
        some = rows.where(work=work)
        for row in sorted(some.where(engine="kith-tree").rows, key=lambda row: row[across]):
            brute = only(some.where(engine="kith-exact", columns=row["columns"], k=row["k"], rows=row["rows"]))
            lines.append([short(row["queries"]), short(row["rows"]), str(row["columns"]), str(row["k"]),
                          milliseconds(row["seconds"]), milliseconds(row["build"]), seconds(row["value"]),
                          seconds(brute["value"]) if brute else "", count(row["pairs"])])
    return finish(["queries", "points", "columns", "k", "search, ms", "build, ms", "ns a query",
                   "all pairs, ns a query", "pairs a query"], lines, rows)


# ---- The paper's opponents --------------------------------------------------------------------------


def by_setting(rows):
    return {(row["work"], row["columns"], row["k"], row["height"]): row["value"] for row in rows.rows}


def claims(rows, lab):
    found = []
    lab = lab.where(bounds="box") if lab.where(bounds="box") else lab
    of = {name: by_setting(lab.where(method=name)) for name in lab.different("method")} if lab else {}
    for slow, fast, claim in (
            ("unbuffered", "buffered", "buffering beats rounds without it (figure 3a)"),
            ("alone", "buffered", "buffers beat one thread a query, in the order of the queries"),
            ("alone sorted", "buffered", "(not in the paper) and where queries are sorted by leaf first"),
            ("brute", "buffered", "buffers beat all pairs in fp32, up to 27 columns (2 to 55 times; table 2)"),
            ("buffered", "packets", "(not in the paper) kith's packets beat the paper's buffers")):
        if slow in of and fast in of:
            found.append((claim, ratio(of[slow], of[fast])))
    for work, claim in (("table2", "the tree beats the best all pairs there are, up to 27 columns (table 2)"),
                        ("sweep n", "and for all numbers of points (figure 6)"),
                        ("sweep k", "and for all k (figure 5)")):
        some = rows.where(side="cuda", work=work)
        place = {row["columns"] * 10**12 + row["rows"] * 10**4 + row["k"]: row["value"]
                 for row in some.where(engine="kith-exact").rows}
        ours = {row["columns"] * 10**12 + row["rows"] * 10**4 + row["k"]: row["value"]
                for row in some.where(engine="kith-tree").rows}
        if ours:
            found.append((claim, ratio(place, ours)))
    lines = []
    for claim, factors in ((claim, factors) for claim, factors in found if factors):
        low, high = min(factors.values()), max(factors.values())
        won = sum(1 for factor in factors.values() if factor > 1)
        lines.append([claim, f"{low:.2f} to {high:.2f}", f"{won} of {len(factors)}",
                      "holds" if low >= 1 else "does not hold" if high <= 1 else "in part"])
    used = rows.where(side="cuda", work=["table2", "sweep n", "sweep k"])
    return finish(["the paper found", "factor here", "settings", "today"], lines, type(rows)(used.rows + lab.rows))


VISITORS = ["packets", "alone", "buffered"]


def visits(_rows, lab):
    """Leaf visits by boxes beside those by planes, the bounds of the classical tree."""
    lab = lab.where(k=10, height=usual_height(lab), method=VISITORS)
    lines = []
    for columns in lab.different("columns"):
        for method in VISITORS:
            row = {row["bounds"]: row for row in lab.where(columns=columns, method=method).rows}
            by = [row.get(bounds) for bounds in ("box", "plane")]
            if any(by):
                lines.append([str(columns), method, *(f"{r['leaves']:,.1f}" if r and r["leaves"] else "" for r in by),
                              *(count(r["pairs"]) if r else "" for r in by),
                              *(seconds(r["value"]) if r else "" for r in by)])
    return finish(["columns", "method", "leaves a query, boxes", "planes", "pairs a query, boxes", "planes",
                   "ns a query, boxes", "planes"], lines, lab)


# ---- Buffer trees of the library ----------------------------------------------------------------------

ENGINES = ["tree-gpu", "buffer-gpu", "tree-all-cores", "buffer-one-core"]
LARGE = 10_000_000  # queries of table 2 on a GPU


def fastest(rows):
    return min(rows.rows, key=lambda row: row["value"], default=None)


def share(row):
    return f"{100 * row['finding']:.0f} %" if row else ""


def heights(buffers):
    """Figures 2, 3b and 4: of each height the best buffer."""
    rows = type(buffers)([row for row in buffers.rows if row["queries"] != LARGE])
    lines = []
    for columns in rows.different("columns"):
        for height in rows.where(columns=columns).different("height"):
            some = rows.where(columns=columns, height=height)
            tree, buffer, cores, core = (fastest(some.where(engine=name)) for name in ENGINES)
            lines.append([str(columns), str(height), *(seconds(row["value"]) if row else "" for row in (tree, buffer)),
                          share(buffer), *(seconds(row["value"]) if row else "" for row in (cores, core)), share(core)])
    return finish(["columns", "height", "kith's tree, GPU", "buffer tree, GPU", "finding leaves",
                   "kith's tree, all threads", "buffer tree, one thread", "finding leaves"], lines, rows)


def buffers_of_table_two(buffers):
    """Each at its best height."""
    lines, used = [], []
    for columns in buffers.where(queries=LARGE).different("columns"):
        some = buffers.where(columns=columns)
        best = [fastest(some.where(engine=name, queries=LARGE)) for name in ENGINES[:2]]
        best += [fastest(some.where(engine=name)) for name in ENGINES[2:]]
        if None in best:
            continue
        used += best
        tree, buffer, cores, core = (row["value"] for row in best)
        lines.append([CATALOGUES[columns], str(columns), *(seconds(ns * LARGE * 1e-9) for ns in (buffer, tree, cores)),
                      str(best[1]["height"]), *(f"{ratio:.1f}" for ratio in (cores / buffer, core / buffer, buffer / tree))])
    return finish(["the paper's catalogue", "columns", "buffer tree, GPU, s", "kith's tree, GPU, s",
                   "kith's tree, all threads, s", "the buffer tree's height", "all threads / buffer tree",
                   "buffer tree on one thread / on the GPU", "buffer tree / kith's tree"], lines, type(buffers)(used))


# ---- Processor --------------------------------------------------------------------------------------


def beside_cpu(rows, _lab):
    rows = rows.where(side="cpu", work="patches", k=10)
    lines = []
    for columns in rows.different("columns"):
        some = {row["engine"]: row for row in rows.where(columns=columns).rows}
        peers = {name: some[name] for name in PEERS if name in some}
        if "kith-tree" not in some or "pykdtree" not in some:
            continue
        tree = some["kith-tree"]
        best = min(row["seconds"] for row in peers.values())
        lines.append([str(columns), *(seconds(peers[name]["seconds"]) if name in peers else "" for name in PEERS),
                      seconds(tree["seconds"]), f"{best / tree['seconds']:.1f}",
                      *(seconds(row["build"]) for row in [*peers.values()][:1]), seconds(tree["build"])])
    return finish(["columns", *(f"{name}, s" for name in PEERS), "kith, s", "times faster",
                   "build of pykdtree, s", "of kith, s"], lines, rows)


def beside_peers(rows, works):
    rows = rows.where(side="cpu", work=works)
    lines = []
    for work, n, m, columns, k in sorted({(row["work"], row["rows"], row["queries"], row["columns"], row["k"])
                                          for row in rows.where(engine="kith-tree").rows}):
        some = {row["engine"]: row for row in rows.where(work=work, rows=n, queries=m, columns=columns, k=k).rows}
        peers = [some[name] for name in PEERS if name in some]
        tree = some["kith-tree"]
        both = tree["seconds"] + tree["build"]
        best = min((row["seconds"] + row["build"] for row in peers), default=None)
        lines.append([work.removeprefix("catalogue "), f"{short(m)} × {short(n)}", str(columns), str(k),
                      f"{seconds(tree['build'])} + {seconds(tree['seconds'])}",
                      *(f"{seconds(some[name]['build'])} + {seconds(some[name]['seconds'])}" if name in some else ""
                        for name in PEERS), f"{best / both:.1f}" if best else ""])
    return finish(["work", "queries × points", "columns", "k", "kith, s", *(f"{name}, s" for name in PEERS),
                   "times faster"], lines, rows)


def generated(rows, _lab):
    return beside_peers(rows, ["colour", "uniform"])


def catalogues(rows, _lab):
    return beside_peers(rows, [work for work in rows.different("work") if work.startswith("catalogue ")])


def auto(rows, _lab):
    """Whole processes of auto and of all pairs, beside each other."""
    rows = rows.where(side="cpu", engine=["kith-auto", "kith-exact"])
    lines = []
    for row in sorted(rows.where(engine="kith-auto").rows,
                      key=lambda row: (row["work"], row["columns"], row["k"], row["queries"])):
        brute = only(rows.where(engine="kith-exact", work=row["work"], rows=row["rows"], queries=row["queries"],
                                columns=row["columns"], k=row["k"]))
        if brute is not None:
            lines.append([row["work"].removeprefix("catalogue "), f"{short(row['queries'])} × {short(row['rows'])}",
                          str(row["columns"]), str(row["k"]), row["way"], seconds(row["whole"]),
                          seconds(brute["whole"]), f"{row['whole'] / brute['whole']:.2f}"])
    return finish(["work", "queries × points", "columns", "k", "auto took", "auto, s", "all pairs, s",
                   "auto / all pairs"], lines, rows)


TABLES = {"beside cuda": beside_gpu, "floor cuda": floor, "crossover cuda": crossover, "table-2 cuda": table_two,
          "sweeps cuda": sweeps, "claims cuda": claims, "visits cuda": visits, "beside cpu": beside_cpu,
          "generated cpu": generated, "catalogues cpu": catalogues, "auto cpu": auto}


def rewrite(paths, rows, lab, buffers, pictures):
    """pictures: names of files that were drawn, with what they show."""
    made = {name: make(rows, lab) for name, make in TABLES.items()}
    made |= {"heights": heights(buffers), "table-2 buffers": buffers_of_table_two(buffers)}
    rewrite_pages(paths, made | {f"picture {name}": shown for name, shown in pictures.items()})
