# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/selection.md and docs/notes/selection.md, made of rows of bench/results/select.csv."""
import re

from select_rows import BUFFER_OF, Rows, ratio

SIDES = ("cuda", "cpu")
NOTHING = "(not measured yet)"
# A picture is drawn where there are rows of this work.
FIRST_OF = {"queue": "queue", "quick": "quick.5", "heap": "heap.5"}
PICTURES = {"queue": "Figures 6 to 9 of the merge queue paper",
            "quick": "Figures 5 to 10 of the quick multi-select paper",
            "heap": "Figures 5 to 12 of the TH-heap paper"}


def table(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] +
                     ["| " + " | ".join(line) + " |" for line in lines])


def milliseconds(value):
    if value is None:
        return ""
    return f"{1e3 * value:,.0f}" if value >= 0.1 else f"{1e3 * value:.3g}"


def where_from(rows):
    """Machines, dates, commits of some rows."""
    found = sorted({(row["machine"], row["date"], row["commit"]) for row in rows.rows})
    threads = max((row["threads"] for row in rows.rows), default=0)
    load = max((float(row["load"]) for row in rows.rows), default=0.0)
    text = "; ".join(f"{machine}, {date}, commit {commit}" for machine, date, commit in found)
    busy = f", {threads} threads, load average up to {load:.1f} while measuring" if threads else ""
    return f"*{text}{busy}.*"


# ---- Table I ----------------------------------------------------------------------------------------


def queue_lines(rows):
    """(name, rows) in the paper's order."""
    most = max((row["threads"] for row in rows.rows), default=0)
    full = rows.where(threads=most)
    lines = [("distance calculation", full.where(method="distances")),
             ("copy to the host", rows.where(method="copy to the host"))]
    if most:
        lines += [(f"{name}, 1 thread", rows.where(threads=1, method=name)) for name in ("heap", "auto")]
    names = [("insertion", 0), ("heap", 0), ("merge_queue", 0), ("merge_queue", 1)]
    for what in ("", " + buffer", " + groups", " + both"):
        for name, aligned in names:
            buffer = BUFFER_OF[name] if what in (" + buffer", " + both") else "none"
            group = 4 if what in (" + groups", " + both") else 0
            label = name + (", aligned" if aligned else "") + what
            lines.append((label, full.variant(name, buffer, group, aligned)))
    lines += [(name, full.where(method=name)) for name in ("bitonic", "quick", "radix", "threshold_heap", "scan",
                                                           "auto")]
    peers = [name for name in rows.different("method") if "." in name or ":" in name or " " in name]
    for name in (p for p in peers if p != "copy to the host"):
        for threads in rows.where(method=name).different("threads"):
            lines.append((name + (f", {threads} threads" if threads else ""),
                          rows.where(method=name, threads=threads)))
    return lines


def table_one(rows):
    rows = rows.where(work="queue", quantity="seconds")
    if not rows:
        return NOTHING
    settings = sorted({(row["cols"], row["k"]) for row in rows.rows if row["k"]})
    many = max({n for n, _ in settings}, key=lambda n: len([1 for m, _ in settings if m == n]))
    columns = [s for s in settings if s[0] == many] + [s for s in settings if s[0] != many]

    def cell(some, n, k):
        found = {(row["cols"], row["k"]): row["value"] for row in some.rows}
        return milliseconds(found.get((n, k), found.get((n, 0))))

    lines = [[name] + [cell(some, n, k) for n, k in columns] for name, some in queue_lines(rows) if some]
    queries = max(rows.different("rows"))
    return table([f"ms, Q = {queries}"] + [f"N {n}, k {k}" for n, k in columns], lines) + "\n\n" + where_from(rows)


# ---- What the papers claim --------------------------------------------------------------------------


def by_setting(rows):
    return {(row["cols"], row["k"]): row["value"] for row in rows.rows}


def least(*many):
    """The smallest of several dictionaries, place by place."""
    places = set().union(*many)
    return {x: min(one[x] for one in many if x in one) for x in places}


def only(values, condition):
    return {x: value for x, value in values.items() if condition(*x)}


def claims_of_queue(rows):
    """(what the paper found, {setting: factor that should exceed 1})."""
    rows = rows.where(work="queue", quantity="seconds").all_threads()
    if not rows:
        return []
    aligned = int(bool(rows.where(aligned=1)))

    def of(name, buffer="none", group=0):
        mine = aligned if name == "merge_queue" else 0
        return by_setting(rows.variant(name, buffer, group, mine))

    def both(name):
        return of(name, BUFFER_OF[name], 4)

    names = ("insertion", "heap", "merge_queue")
    found = [("the heap beats the insertion queue", ratio(of("insertion"), of("heap")))]
    if aligned:
        loose = by_setting(rows.variant("merge_queue"))
        found += [("unaligned, the merge queue loses to the heap", ratio(loose, of("heap"))),
                  ("aligning speeds the merge queue up (to 10.5 times)", ratio(loose, of("merge_queue")))]
    found.append((f"the merge queue{', aligned,' if aligned else ''} beats the heap from k = 2^7 on",
                  only(ratio(of("heap"), of("merge_queue")), lambda n, k: k >= 128)))
    for name in names if aligned else ():  # without warps both are one schedule
        found.append((f"{name}: a buffer that a warp empties together beats a plain one",
                      ratio(of(name, "plain"), of(name, "full"))))
    for name, peak in zip(names, ("7.4", "3.4", "5.7")):
        found.append((f"{name}: groups of 4 help (at N = 2^15 up to {peak} times with the best G)",
                      ratio(of(name), of(name, "none", 4))))
    for name, peak in zip(names, ("16.9", "3.6", "7.5")):
        found.append((f"{name}: buffer and groups help (up to {peak} times)", ratio(of(name), both(name))))
    found.append(("with both, the merge queue is the fastest queue for k = 2^9 and above",
                  only(ratio(least(both("insertion"), both("heap")), both("merge_queue")),
                       lambda n, k: k >= 512)))
    best = least(both("heap"), both("merge_queue"))
    found.append(("improved queues beat truncated bitonic sort (2.4 to 7.5 times)", ratio(of("bitonic"), best)))
    found.append(("and quick multi-select where k is at most 2^8 (up to 4.2 times)",
                  only(ratio(of("quick"), best), lambda n, k: k <= 256)))
    return found


def unsorted(rows):
    """Rows of quick in no order, as the paper's answers are; sorted ones where no others were measured."""
    quick = rows.where(method="quick")
    return quick.where(at="unsorted") or quick


def by_shape(rows):
    return {(row["rows"], row["cols"], row["k"]): row["value"] for row in rows.rows}


def claims_of_insertion(rows):
    """Figures 5 and 6 beside the paper's own rival, and whether what is gained grows from one k to the next."""
    some = rows.where(work=["quick.5", "quick.6"]).all_threads()
    gain = ratio(by_shape(some.where(method="insertion")), by_shape(unsorted(some)))
    ks = sorted({k for _, _, k in gain})
    grows = {(n, m, k): gain[n, m, k] / gain[n, m, ks[ks.index(k) - 1]] for n, m, k in gain
             if k != ks[0] and (n, m, ks[ks.index(k) - 1]) in gain}
    return [("quick multi-select beats insertion, a thread a row (Garcia et al.)", gain),
            ("and what it gains grows with k (from one k to the next)", grows)]


def claims_of_others(rows):
    found = claims_of_insertion(rows)
    seven = rows.where(work="quick.7")
    ours = by_setting(seven.where(method="quick", at="unsorted"))
    if ours:
        found.append(("quick multi-select beats truncated bitonic sort",
                      ratio(by_setting(seven.where(method="bitonic")), ours)))
    eight = rows.where(work="quick.8")
    if eight:
        found.append(("quick finds k neighbours sooner than radix select the k-th alone",
                      ratio(by_setting(eight.where(method="radix", at="kth")),
                            by_setting(unsorted(eight)))))
    for work, name in (("heap.10", "the points"), ("heap.11", "k"), ("heap.12", "the queries")):
        some = rows.where(work=work, quantity="seconds").all_threads()
        at = {"heap.12": "rows", "heap.11": "k", "heap.10": "cols"}[work]
        if some:
            found.append((f"the threshold heap beats truncated bitonic sort (about 10 times), while {name} vary",
                          ratio(some.where(method="bitonic").by(at), some.where(method="threshold_heap").by(at))))
    return found


def claims(rows):
    lines = []
    for claim, factors in claims_of_queue(rows) + claims_of_others(rows):
        if not factors:
            continue
        low, high = min(factors.values()), max(factors.values())
        holds = "holds" if low >= 1 else "does not hold" if high <= 1 else "in part"
        won = sum(1 for factor in factors.values() if factor > 1)
        lines.append([claim, f"{low:.2f} to {high:.2f}", f"{won} of {len(factors)}", holds])
    if not lines:
        return NOTHING
    used = rows.where(work=["queue", "quick.7", "quick.8", "heap.10", "heap.11", "heap.12"])
    return table(["the papers found", "factor here", "settings", "today"], lines) + "\n\n" + where_from(used)


# ---- The rest ---------------------------------------------------------------------------------------


def table_two(rows):
    rows = rows.where(work="quick.table2")
    if not rows:
        return NOTHING
    lines = [[str(row["rows"]), str(row["cols"]), str(row["k"]), str(row["runs"]), milliseconds(row["value"]),
              milliseconds(float(row["deviation"])), f"{100 * float(row['deviation']) / row['value']:.1f} %"]
             for row in rows.rows]
    head = ["rows", "columns", "k", "trials", "mean ms", "deviation ms", "share"]
    return table(head, lines) + "\n\n" + where_from(rows)


HEAP_PARTS = ("threshold", "compression", "heap", "rest")


def heap_parts(rows):
    """Figures 6 and 8 of the TH-heap paper: the method's own parts."""
    lines, used = [], []
    for work, figure in (("heap.6", "6"), ("heap.8", "8")):
        some = rows.where(work=work, method="threshold_heap")
        measured = some.where(quantity=[f"part: {part}" for part in HEAP_PARTS])
        for at in sorted({int(row["at"]) for row in measured.rows}):
            cells = {row["quantity"]: row for row in some.where(at=str(at)).rows}
            parts = [cells[f"part: {part}"]["value"] if f"part: {part}" in cells else None for part in HEAP_PARTS]
            one = cells["part: heap"]
            # On a processor parts are seconds that threads worked, a call is what passed: not to be compared.
            whole = cells.get("seconds") if one["side"] == "cuda" else None
            lines.append([figure, f"{one['rows']} x {one['cols']}", str(one["sample"] * one["k"]), str(one["k"]),
                          *map(milliseconds, parts), milliseconds(sum(part or 0.0 for part in parts)),
                          milliseconds(whole and whole["value"])])
            used += [row for row in cells.values() if row["quantity"].startswith("part: ") or row is whole]
    if not lines:
        return NOTHING
    head = ["figure", "rows x columns", "sample", "k", *(f"{part}, ms" for part in HEAP_PARTS), "together, ms",
            "a call, ms"]
    return table(head, lines) + "\n\n" + where_from(Rows(used))


def today(rows):
    """One GPU's selections beside everybody's; what a peer does not take is an empty cell."""
    rows = rows.where(work="today")
    if not rows:
        return NOTHING
    names = ["auto"] + [name for name in rows.different("method") if name != "auto"]
    settings = sorted({(row["at"].split()[1], row["rows"], row["cols"], row["k"], row["at"]) for row in rows.rows})
    lines = []
    for end, count, cols, k, at in settings:
        cells = {row["method"]: row["value"] for row in rows.where(rows=count, cols=cols, k=k, at=at).rows}
        others = [cells[name] for name in names[1:] if name in cells]
        factor = f"{min(others) / cells['auto']:.2f}" if others and "auto" in cells else ""
        lines.append([f"{count} x {cols}", at.split()[0], end, str(k)] +
                     [milliseconds(cells.get(name)) for name in names] + [factor])
    head = ["rows x columns", "type", "wanted", "k"] + [f"{'kith ' if n == 'auto' else ''}{n}, ms" for n in names]
    return table(head + ["best peer / kith"], lines) + "\n\n" + where_from(rows)


def of_threads(count):
    return f", {count} thread{'' if count == 1 else 's'}" if count else ""


def beside(rows):
    rows = rows.where(work="goals")
    if not rows:
        return NOTHING
    columns = sorted({(row["method"], row["threads"]) for row in rows.rows})
    lines = []
    for shape in sorted({(row["rows"], row["cols"], row["k"]) for row in rows.rows}):
        some = rows.where(rows=shape[0], cols=shape[1], k=shape[2])
        cells = {(row["method"], row["threads"]): row["value"] for row in some.rows}
        lines.append([f"{shape[0]} x {shape[1]}", str(shape[2])] + [milliseconds(cells.get(c)) for c in columns])
    head = ["rows x columns", "k"] + [f"{'kith ' if m == 'auto' else ''}{m}{of_threads(t)}, ms" for m, t in columns]
    return table(head, lines) + "\n\n" + where_from(rows)


def fastest(rows):
    """The named method that wins, and how far auto is from it."""
    rows = rows.where(work="queue", quantity="seconds").all_threads()
    named = {}
    for row in rows.rows:
        peer = any(mark in row["method"] for mark in " .:") or row["method"] in ("distances", "auto")
        if row["k"] and not peer:
            place = (row["cols"], row["k"])
            if place not in named or row["value"] < named[place]["value"]:
                named[place] = row
    auto = by_setting(rows.where(method="auto"))
    lines = []
    for (n, k), row in sorted(named.items()):
        more = (f", buffer {row['buffer']}" if row["buffer"] != "none" else "") + \
            (f", groups of {row['group']}" if row["group"] else "") + (", aligned" if row["aligned"] else "")
        lines.append([str(n), str(k), row["method"] + more, milliseconds(row["value"]),
                      milliseconds(auto.get((n, k)))])
    if not lines:
        return NOTHING
    return table(["N", "k", "fastest named method", "ms", "auto, ms"], lines) + "\n\n" + where_from(rows)


def figures(rows):
    side = rows.rows[0]["side"]
    found = [f"![{text}](pictures/select_{name}_{side}.png)\n\n{where_from(rows.where(work=works_of(rows, name)))}"
             for name, text in PICTURES.items() if rows.where(work=FIRST_OF[name])]
    return "\n\n".join(found) if found else NOTHING


def works_of(rows, name):
    return [work for work in rows.different("work") if work.split(".")[0] == name]


TABLES = {"beside": beside, "table-1": table_one, "claims": claims, "fastest": fastest, "table-2": table_two,
          "figures": figures, "heap-parts": heap_parts, "today": today}


def fill(text, name, made):
    """The text of a page with something new between the marks of that name."""
    marks = (f"<!-- begin {name} -->", f"<!-- end {name} -->")
    return re.sub(re.escape(marks[0]) + ".*?" + re.escape(marks[1]),
                  lambda _: f"{marks[0]}\n{made}\n{marks[1]}", text, flags=re.DOTALL)


def for_page(path, made):
    """As a page has it: notes lie a folder below the pictures; the guide names no commits, and each origin once."""
    if path.parent.name == "notes":
        return made.replace("](pictures/", "](../pictures/")
    lines = []
    for line in re.sub(r", commit [0-9a-f]{7,8}", "", made).split("\n"):
        parts = line.strip("*").split("; ") if line.startswith("*") else [line]
        once = [part for at, part in enumerate(parts) if not any(rest.startswith(part) for rest in parts[at + 1:])]
        lines.append(f"*{'; '.join(once)}*" if line.startswith("*") else line)
    return "\n".join(lines)


def rewrite_pages(paths, made):
    """Fills in what stands between the marks of pages; made: {name: markdown}."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for name, markdown in made.items():
            text = fill(text, name, for_page(path, markdown or NOTHING))
        path.write_text(text, encoding="utf-8")
        print(path)


def rewrite(paths, rows):
    made = {}
    for side in SIDES:
        some = rows.where(side=side)
        made |= {f"{name} {side}": make(some) if some else NOTHING for name, make in TABLES.items()}
    rewrite_pages(paths, made)
