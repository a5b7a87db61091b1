# SPDX-License-Identifier: Apache-2.0
"""Did kith become slower? New results beside accepted ones of the same machine, as ratios alone: how many
times faster than a peer of the same run, which share of the machine's limit of the same run, recall, and
memory as a multiple of the points. Seconds of two runs are never compared."""

from dataclasses import dataclass

import report_rows

TOLERANCE = {"cpu": 0.25, "cuda": 0.08}  # bench/README.md says where they come from
MOST = 0.60  # however much the runs of an engine vary
RECALL, MEMORY, MEMORY_MIB = 0.005, 0.15, 8.0
SHORT = {"cpu": 0.02, "cuda": 0.0001}  # seconds: a shorter time is shown and not judged
WORSE, SAME, BETTER, OPEN = "WORSE", "as before", "better", "not judged"
ALONE = "worse alone"


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


def together(findings):
    """Ratios that all hold one time of kith's: worse where at least half of the judged ones are."""
    judged_ones = [each for each in findings if each.verdict != OPEN]
    worse = [each for each in judged_ones if each.verdict == WORSE]
    if 2 * len(worse) < len(judged_ones):
        for each in worse:
            each.verdict = ALONE
    return findings


def compare_times(side, before, now, old, new):
    """One engine of kith beside each peer, and beside the limit."""
    job, name = before["id"], report_rows.label(old)
    peers = by_label(now, False)
    found = []
    for peer, other in by_label(before, False).items():
        if peer not in peers:
            continue
        fresh = peers[peer]
        versions = f"{peer} {other['version']} is {fresh['version']} now"
        changed = "" if other["version"] == fresh["version"] else versions
        found.append(
            judged(
                job,
                f"{name}: times faster than {peer}",
                other["seconds"] / old["seconds"],
                fresh["seconds"] / new["seconds"],
                allowed_loss(side, (old, new, other, fresh)),
                changed or too_short(side, old, new, other, fresh),
            )
        )
    shares = report_rows.share(before, old), report_rows.share(now, new)
    if None not in shares:
        allowed = allowed_loss(side, (old, new))
        short = too_short(side, old, new)
        found.append(judged(job, f"{name}: share of the limit", *shares, allowed, short))
    return together(found)


def compare_answers(job, old, new):
    """What was exact stays so; a recall may vary a little."""
    name = report_rows.label(old)
    if old["exact"] and not new["exact"]:
        yield Finding(job, f"{name}: exact", 1.0, 0.0, 0.0, WORSE)
    elif not old["exact"] and None not in (old["recall"], new["recall"]):
        verdict = WORSE if old["recall"] - new["recall"] > RECALL else SAME
        yield Finding(job, f"{name}: recall", old["recall"], new["recall"], RECALL, verdict)


def compare_memory(before, old, new):
    if old["peak_mib"] and new["peak_mib"] and before["bytes"]:
        points = before["bytes"] / 2**20
        ratios = points / old["peak_mib"], points / new["peak_mib"]
        little = "" if old["peak_mib"] > MEMORY_MIB else "too little"
        what = f"{report_rows.label(old)}: points by peak memory"
        yield judged(before["id"], what, *ratios, MEMORY, little)


def compare_job(side, before, now):
    fresh = by_label(now, True)
    for name, old in by_label(before, True).items():
        if name in fresh:
            yield from compare_times(side, before, now, old, fresh[name])
            yield from compare_answers(before["id"], old, fresh[name])
            yield from compare_memory(before, old, fresh[name])


def obstacle(accepted, fresh):
    """Why these cannot be compared, or nothing."""
    for name in ("side", "machine", "threads"):
        if accepted[name] != fresh[name]:
            return f"another {name}: {accepted[name]} was accepted, this is {fresh[name]}"
    for each in (accepted, fresh):
        others = report_rows.busiest(each)
        if each["side"] == "cpu" and others > report_rows.QUIET:
            return f"others had {others:.1f} cores beside the run of {each['date']}"
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
