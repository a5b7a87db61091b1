# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/nn-descent.md and docs/notes/descent.md, made of rows of bench/results/descent.csv,
descent_rounds.csv and descent_interval.csv."""
from select_tables import NOTHING, rewrite_pages, table
from tree_tables import origin as origin_of, short

# Works of one H200 and the least recall@10 that a setting must have; the seconds of cuVS 26.06 at a recall, measured
# apart, on such a GPU.
WORKS = [("mixture1m", 0.99), ("mixture1m", 0.999), ("blob1m", 0.99), ("mixture10m", 0.95), ("bytes100m", 0.95),
         ("sift", 0.99)]
PEER_GPU = {"mixture1m": "3.3 s, 0.997", "blob1m": "6.6 s, 0.998", "mixture10m": "31.8 s, 0.857"}
PEERS = ["pynndescent", "faiss"]
CPU_RECALL = 0.99


def finish(head, lines, rows):
    return table(head, lines) + "\n\n" + origin(rows) if lines else NOTHING


def origin(rows):
    """tree_tables.origin says that kith's answers were wrong where they are not exact: not meant here."""
    return origin_of(type(rows)([{key: value for key, value in row.items() if key != "recall"} for row in rows.rows]))


def seconds(value):
    if value is None:
        return ""
    return f"{value:,.1f}" if value >= 100 else f"{value:.3g}"


def recall(value):
    return "" if value is None else f"{value:.4f}"


def best(rows, least):
    """The fastest row of at least that recall, or None."""
    return min((row for row in rows.rows if row["recall"] >= least), key=lambda row: row["seconds"], default=None)


def exact_seconds(rows):
    """Of kith's exact graph of the same points: what times of two cores are told in, since those of other runs differ."""
    exact = rows.where(engine="kith-exact").rows
    return exact[-1]["seconds"] if exact else None


def share(value, unit):
    return "" if value is None or unit is None else f"{value / unit:.2f}"


def shown(row, unit):
    return f"{share(row['seconds'], unit)} ({recall(row['recall'])})" if row else ""


def said(row):
    if row["said"] is None:
        return ""
    return f"{row['said']:.4f} ({row['said_low']:.4f} to {row['said_high']:.4f})"


def in_order(rows):
    """Works as they are listed where they are made, smaller first."""
    return sorted({(row["rows"], row["work"]) for row in rows.rows})


# ---- Beside others ----------------------------------------------------------------------------------


def beside_gpu(rows, _rounds, _intervals):
    rows = rows.where(side="cuda", k=10)
    lines, used = [], []
    for work, least in WORKS:
        some = rows.where(work=work)
        row = best(some.where(engine="kith-descent"), least)
        if row:
            lines.append([work, f"{short(row['rows'])} × {row['columns']}", f"{least:g}", seconds(row["seconds"]),
                          recall(row["recall"]), row["setting"], PEER_GPU.get(work, "")])
            used += some.rows
    return finish(["points", "rows × columns", "at least", "kith, s", "recall@10", "setting", "cuVS nn_descent"], lines,
                  type(rows)(used))


def beside_cpu(rows, _rounds, _intervals):
    rows = rows.where(side="cpu", k=10)
    lines, used = [], []
    for count, work in in_order(rows):
        some = rows.where(work=work, rows=count)
        if count < max(row["rows"] for row in rows.where(work=work).rows):
            continue  # a part of the same points, for another table
        kith = best(some.where(engine="kith-descent"), CPU_RECALL)
        peers = [best(some.where(engine=name), CPU_RECALL) for name in PEERS]
        exact = some.where(engine="kith-exact").rows
        unit = exact_seconds(some)
        lines.append([work, shown(kith, unit), *(shown(peer, unit) for peer in peers),
                      *(f"{peer['seconds'] / kith['seconds']:.1f}" if peer and kith else "" for peer in peers),
                      faster_than(exact, kith, peers)])
        used += some.rows
    return finish(["work", "kith (recall)", "pynndescent (recall)", "FAISS (recall)", "times faster",
                   "than FAISS", "exact is faster than"],
                  lines, type(rows)(used))


def faster_than(exact, kith, peers):
    """Whose graph of that recall takes longer than the exact one."""
    known = [(name, row) for name, row in zip(["kith's descent", *PEERS], [kith, *peers]) if row is not None]
    names = [name for name, row in known if exact and exact[-1]["seconds"] < row["seconds"]]
    return ", ".join(names) or "none"


# ---- Curves and phases ------------------------------------------------------------------------------


def curve(rows, side):
    """Seconds of a GPU, which repeat; of two cores shares of the exact graph's."""
    rows = rows.where(side=side)
    rows = type(rows)([row for row in rows.rows if not row["setting"].startswith(("random", "screen")) and
                       SHAPES not in row["work"]])
    lines = []
    for count, work in in_order(rows):
        unit = exact_seconds(rows.where(work=work, rows=count))
        tell = seconds if side == "cuda" else lambda value, unit=unit: share(value, unit)
        for row in sorted(rows.where(work=work, rows=count).rows,
                          key=lambda row: (row["engine"] in PEERS, row["engine"], row["recall"], row["seconds"])):
            lines.append([work, f"{short(count)} × {row['columns']}", row["engine"], row["setting"],
                          tell(row["seconds"]), recall(row["recall"]), said(row),
                          "" if row["rounds"] is None else str(row["rounds"]), tell(row["prepare_seconds"]),
                          tell(row["start_seconds"]), tell(row["rounds_seconds"]), tell(row["end_seconds"])])
    time = "s" if side == "cuda" else "time, exact graph = 1"
    return finish(["work", "points", "engine", "setting", time, "recall@10", "what kith said", "rounds", "prepare",
                   "start", "rounds", "end"], lines, rows)


def curve_cpu(rows, _rounds, _intervals):
    return curve(rows, "cpu")


def curve_gpu(rows, _rounds, _intervals):
    return curve(rows, "cuda")


# ---- The paper's figures ----------------------------------------------------------------------------

ABLATION = ["random", "random, all updates", "screen", "screen, all updates"]


def ablation(rounds, side):
    """By round: phi as a share of what it is at last, recall; the time of all."""
    rounds = rounds.where(side=side, setting=ABLATION)
    lines = []
    for count, work in in_order(rounds):
        some = rounds.where(work=work, rows=count)
        least = min((row["phi"] for row in some.rows if row["phi"]), default=None)
        for setting in ABLATION:
            mine = {row["number"]: row for row in some.where(setting=setting).rows}
            if not mine or least is None:
                continue
            last = mine[max(mine)]
            lines.append([work, setting, *(f"{mine[i]['phi'] / least:.4f}" if i in mine and mine[i]["phi"] else ""
                                           for i in (0, 1, 2, 4, 8)),
                          recall(last["recall"]), str(last["number"]), f"{last['evaluations'] / count:,.0f}",
                          seconds(last["seconds"])])
    return finish(["work", "start and updates", "phi, start", "round 1", "2", "4", "8", "recall@10 at last", "rounds",
                   "distances a row", "s"], lines, rounds)


def ablation_cpu(_rows, rounds, _intervals):
    return ablation(rounds, "cpu")


def ablation_gpu(_rows, rounds, _intervals):
    return ablation(rounds, "cuda")


SHAPES = "-shape"  # works of table 1's sizes


def table_one(rows, _rounds, _intervals):
    """Sizes and columns of the paper's table 1; cuVS' lists are longer than 10, of which the nearest 10 count."""
    rows = type(rows)([row for row in rows.where(side="cuda", k=10).rows if SHAPES in row["work"]])
    lines = []
    for count, work in in_order(rows):
        for row in sorted(rows.where(work=work, rows=count).rows, key=lambda row: (row["engine"], row["seconds"])):
            lines.append([work, f"{short(count)} × {row['columns']}", row["dtype"], row["metric"], row["engine"],
                          row["setting"], seconds(row["seconds"]), recall(row["recall"])])
    return finish(["generated, in the shape of", "rows × columns", "type", "metric", "engine", "setting", "s",
                   "recall@10"], lines, rows)


# ---- Intervals --------------------------------------------------------------------------------------


def intervals(_rows, _rounds, found):
    lines = [[row["work"], short(row["rows"]), row["setting"], str(row["sample"]), f"{row['inside']} of {row['seeds']}",
              f"{row['recall_min']:.4f} to {row['recall_max']:.4f}", f"{row['width']:.4f}"] for row in found.rows]
    return finish(["work", "points", "setting", "sample", "contain the true recall", "true recalls", "mean width"],
                  lines, found)


# ---- One thread -------------------------------------------------------------------------------------

THREAD_RECALLS = (0.9, 0.95, 0.99)


def one_thread(found):
    """descent_thread.csv: the fastest of a recall on one thread, as published and kith's own, and on a GPU."""
    lines, used = [], []
    for count, work in in_order(found):
        some = found.where(work=work, rows=count)
        published = type(some)([row for row in some.where(side="cpu").rows if row["setting"].startswith("random, all")])
        for least in THREAD_RECALLS:
            one, gpu = best(published, least), best(some.where(side="cuda"), least)
            own = best(some.where(side="cpu"), least)
            if one and gpu and own:
                cells = [f"{seconds(row['seconds'])} ({recall(row['recall'])}), {row['setting']}"
                         for row in (one, own, gpu)]
                lines.append([work, f"{short(count)} × {gpu['columns']}", f"{least:g}", *cells,
                              f"{one['seconds'] / gpu['seconds']:.0f}", f"{own['seconds'] / gpu['seconds']:.0f}"])
                used += [one, own, gpu]
    return finish(["work", "points", "at least", "NN-Descent, one thread, s (recall@10)", "kith's fastest, one thread",
                   "GPU", "times NN-Descent", "times kith's"], lines, type(found)(used))


TABLES = {"beside cuda": beside_gpu, "beside cpu": beside_cpu, "curve cuda": curve_gpu, "curve cpu": curve_cpu,
          "ablation cuda": ablation_gpu, "ablation cpu": ablation_cpu, "intervals": intervals, "table 1": table_one}


def rewrite(paths, rows, rounds, found, threads, pictures):
    """pictures: markdown of those that were drawn, by name."""
    made = {name: make(rows, rounds, found) for name, make in TABLES.items()} | {"one thread": one_thread(threads)}
    rewrite_pages(paths, made | {f"picture {name}": markdown for name, markdown in pictures.items()})
