# SPDX-License-Identifier: Apache-2.0
"""Did kith become slower? New results beside accepted ones of the same machine, as ratios alone: how many
times faster than a peer of the same run, which share of the machine's limit of the same run, recall, and
memory as a multiple of the points. Seconds of two runs are never compared."""

from dataclasses import dataclass

import report_rows

TOLERANCE = {"cpu": 0.25, "cuda": 0.08}  # EXPLAINED says where they come from
MOST = 0.60  # however much the runs of an engine vary
RECALL, MEMORY, MEMORY_MIB = 0.005, 0.15, 8.0
SHORT = {"cpu": 0.05, "cuda": 0.0001}  # seconds: a shorter time is shown and not judged
WORSE, SAME, BETTER, OPEN = "WORSE", "as before", "better", "not judged"

EXPLAINED = f"""## The gate

    bench/report --device cpu --quick --gate bench/results/report-cpu.json

measures, and compares with the accepted results: times faster than each peer of the same run, share
of the limit measured in the same run, recall, and peak memory as a multiple of the points. Absolute
times of two runs are never compared. A ratio is worse if it fell by more than
{100 * TOLERANCE['cpu']:.0f} % (a GPU: {100 * TOLERANCE['cuda']:.0f} %), or by more than the runs of
either engine differ among themselves where that is more; beyond {100 * MOST:.0f} % it is worse in any
case. Of recall {RECALL:g} may be lost, of memory {100 * MEMORY:.0f} % more be used. Times below
{1e3 * SHORT['cpu']:.0f} ms on the processor, and ratios to a peer of another version, are shown and
not judged. The exit status is 1 where a ratio got worse, 2 where the results cannot be compared:
another machine, other threads, no row in common.
"""


@dataclass
class Finding:
    """One ratio, before and now; more is better."""

    job: str
    what: str
    before: float
    now: float
    allowed: float
    verdict: str
    why: str = ""


def times_varied(each):
    """1.1: the slowest run took 10 % longer than the fastest."""
    return each["high"] / each["low"] if each.get("low") and each.get("high") else 1.0


def allowed_loss(side, engines):
    """The share of a ratio that may be lost."""
    varied = max(times_varied(each) for each in engines)
    return min(MOST, max(TOLERANCE[side], 1.0 - 1.0 / varied))


def judged(job, what, before, now, allowed, open_because=""):
    if open_because:
        verdict = OPEN
    elif now < before * (1.0 - allowed):
        verdict = WORSE
    else:
        verdict = BETTER if now * (1.0 - allowed) > before else SAME
    return Finding(job, what, before, now, allowed, verdict, open_because)


def by_label(job, kith):
    return {report_rows.label(each): each for each in job["engines"] if each["kith"] == kith}


def too_short(side, *engines):
    shortest = min(each["seconds"] for each in engines)
    return "too short" if shortest < SHORT[side] else ""


def compare_engine(side, job, name, before, now, peers_before, peers_now):
    """One engine of kith."""
    for peer in (each for each in peers_before if each in peers_now):
        old, new = peers_before[peer], peers_now[peer]
        changed = (
            ""
            if old["version"] == new["version"]
            else f"{peer} {old['version']} is {new['version']} now"
        )
        yield judged(
            job,
            f"{name}: times faster than {peer}",
            old["seconds"] / before["seconds"],
            new["seconds"] / now["seconds"],
            allowed_loss(side, (before, now, old, new)),
            changed or too_short(side, before, now, old, new),
        )
    if before["exact"] and not now["exact"]:
        yield Finding(job, f"{name}: exact", 1.0, 0.0, 0.0, WORSE)
    elif not before["exact"] and None not in (before["recall"], now["recall"]):
        lost = before["recall"] - now["recall"]
        yield Finding(
            job,
            f"{name}: recall",
            before["recall"],
            now["recall"],
            RECALL,
            WORSE if lost > RECALL else SAME,
        )


def compare_limits(side, job, before, now):
    """Share of the limit, memory: of kith's first engine."""
    old, new = (
        next((each for each in work["engines"] if each["kith"]), None) for work in (before, now)
    )
    if old is None or new is None:
        return
    name = report_rows.label(old)
    if before["floor"] and now["floor"]:
        yield judged(
            job,
            f"{name}: share of the limit",
            before["floor"] / old["seconds"],
            now["floor"] / new["seconds"],
            allowed_loss(side, (old, new)),
            too_short(side, old, new),
        )
    if old["peak_mib"] and new["peak_mib"] and before["bytes"]:
        points = before["bytes"] / 2**20
        yield judged(
            job,
            f"{name}: points by peak memory",
            points / old["peak_mib"],
            points / new["peak_mib"],
            MEMORY,
            "" if old["peak_mib"] > MEMORY_MIB else "too little",
        )


def compare_job(side, before, now):
    old_peers, new_peers = by_label(before, False), by_label(now, False)
    new_kith = by_label(now, True)
    for name, old in by_label(before, True).items():
        if name in new_kith:
            yield from compare_engine(
                side, before["id"], name, old, new_kith[name], old_peers, new_peers
            )
    yield from compare_limits(side, before["id"], before, now)


def obstacle(accepted, fresh):
    """Why these cannot be compared, or nothing."""
    for name in ("side", "machine", "threads"):
        if accepted[name] != fresh[name]:
            return f"another {name}: {accepted[name]} was accepted, this is {fresh[name]}"
    if accepted.get("scale", 1) != fresh.get("scale", 1):
        return "other sizes (--scale)"
    return ""


def compare(accepted, fresh):
    """Findings of all jobs that both have, and jobs that failed now."""
    found = []
    for before in accepted["jobs"]:
        now = report_rows.find(fresh, before["id"])
        if now is not None and report_rows.point_of(now) == report_rows.point_of(before):
            found += compare_job(accepted["side"], before, now)
        elif fresh.get("left_out", {}).get(before["id"], "").startswith("failed"):
            found.append(
                Finding(before["id"], fresh["left_out"][before["id"]], 1.0, 0.0, 0.0, WORSE)
            )
    return found


def show(findings):
    print(
        f"\n{'row':26} {'ratio':58} {'accepted':>9} {'now':>9} {'change':>8} {'allowed':>8}  verdict"
    )
    for each in findings:
        change = f"{100 * (each.now / each.before - 1):+.0f} %" if each.before else ""
        allowed = (
            f"-{each.allowed:g}" if each.what.endswith("recall") else f"-{100 * each.allowed:.0f} %"
        )
        print(
            f"{each.job:26} {each.what:58} {each.before:9.3g} {each.now:9.3g} {change:>8} {allowed:>8}  "
            f"{each.verdict}{': ' + each.why if each.why else ''}"
        )


def run(accepted, fresh):
    """Exit status."""
    hindrance = obstacle(accepted, fresh)
    found = [] if hindrance else compare(accepted, fresh)
    if hindrance or not found:
        print(f"gate: cannot be compared: {hindrance or 'no row in common'}")
        return 2
    show(found)
    worse = [each for each in found if each.verdict == WORSE]
    print(
        f"\ngate: {len(found)} ratios, {len(worse)} worse than accepted "
        f"({accepted['commit']}, {accepted['date']}; "
        f"now {fresh['commit']}, {fresh['date']})"
    )
    return 1 if worse else 0
