# SPDX-License-Identifier: Apache-2.0
"""Markdown of one machine's results: its limits, its jobs side by side, its curves."""

import report_goals
import report_rows
from report_goals import seconds_text

LIMITS = {
    ("cuda", "copy"): "copy within device memory, bytes read and written",
    ("cuda", "read"): "read of device memory",
    ("cuda", "f16"): "fp16 product, large K, by PyTorch",
    ("cuda", "f16_k128"): "fp16 product, K = 128, written out, by PyTorch",
    ("cuda", "s8"): "int8 product, large K, by PyTorch",
    ("cuda", "s8_wgmma"): "int8, wgmma: a loop of nothing else",
    ("cuda", "s8_tested"): "the same, and the largest of 32 products compared",
    ("cuda", "f16_wgmma"): "fp16, wgmma: a loop of nothing else",
    ("cuda", "f16_tested"): "the same, and the largest of 32 products compared",
    ("cuda", "s8_mma"): "int8, mma: a loop of nothing else",
    ("cuda", "f16_mma"): "fp16, mma: a loop of nothing else",
    ("cuda", "f32"): "fp32 product, large K",
    ("cuda", "f32_k128"): "fp32 product, K = 128, written out",
    ("cpu", "f32_avx2"): "AVX2 fp32, all threads",
    ("cpu", "s16_avx2"): "AVX2 int16, all threads",
    ("cpu", "s8_avx2vnni"): "AVX-VNNI int8, all threads",
    ("cpu", "s16_avx512"): "AVX-512 int16, all threads",
    ("cpu", "s8_avx512vnni"): "AVX-512 VNNI int8, all threads",
    ("cpu", "s8_amx"): "AMX int8, all threads",
    ("cpu", "bf16_amx"): "AMX bf16, all threads",
    ("cpu", "f32_avx512"): "AVX-512 fp32, all threads",
    ("cpu", "read"): "read of memory, all threads",
}
SERIES = {"n": "points", "d": "columns", "k": "neighbours", "threads": "threads"}


def table(head, lines):
    return "\n".join(
        ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        + ["| " + " | ".join(line) + " |" for line in lines]
    )


def rate_text(value, unit):
    for size, name in ((1e12, "T"), (1e9, "G")):
        if value >= size:
            return f"{value / size:.3g} {name}{unit}"
    return f"{value:.3g} {unit}"


def range_text(each):
    """Median, and what the runs were between."""
    text = seconds_text(each["seconds"])
    if each.get("runs", 1) > 1 and each.get("low") is not None:
        text += f" ({seconds_text(each['low'])} to {seconds_text(each['high'])})"
    return text


def share_text(share):
    return f"{100 * share:.0f} %" if share else ""


def recall_text(each):
    return "exact" if each["exact"] else "" if each["recall"] is None else f"{each['recall']:.4f}"


def origin(report, with_commit=True):
    """Machine, versions, date, commit in a line."""
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    threads = f", {report['threads']} threads" if report["threads"] else ""
    others = report_rows.busiest(report)
    busy = report["threads"] and others > report_rows.QUIET
    busy = " **Others had the processor, too: times are too long.**" if busy else ""
    commit = f", commit {report['commit']}" if with_commit else ""
    load = f", other programs used at most {others:.1f} cores before and after"
    tried = (
        f" **Sizes divided by {report['scale']}: a trial, no results.**"
        if report.get("scale", 1) > 1
        else ""
    )
    return (
        f"*{report['machine']}{threads}, {report['cores']} cores, {report['memory_gib']:g} GiB{load}; "
        f"{report['date']}{commit}; {versions}.*{busy}{tried}"
    )


def limits(report):
    return table(
        ["limit", "what", "measured in this run"],
        (
            [
                each["name"],
                LIMITS.get((report["side"], each["name"]), ""),
                rate_text(each["value"], each["unit"]),
            ]
            for each in report["limits"]
        ),
    )


def job_lines(job):
    """An engine a line; how many times kith's figure it takes."""
    goal = report_goals.BY_ID.get(job["id"])
    best = report_rows.base(job, goal.recall if goal else 1.0) or next(
        (each for each in job["engines"] if each["kith"]), None
    )
    for each in job["engines"]:
        name = report_rows.label(each)
        yield [
            f"**{name}**" if each is best else name,
            range_text(each),
            f"{each['seconds'] / best['seconds']:.2f}" if best else "",
            recall_text(each),
            share_text(report_rows.share(job, each)),
            f"{each['peak_mib']:,.0f}" if each["peak_mib"] else "",
            seconds_text(each["build"]),
            each["note"] or "",
        ]


def shape_text(job):
    asked = f"{job['queries']:,} queries, " if job["queries"] not in (0, job["rows"]) else ""
    return (
        f"{asked}{job['rows']:,} × {job['columns']:,} {job['dtype']}, k = {job['k']}, {job['data']}"
    )


def side_by_side(report):
    head = [
        "engine",
        "time (least to most)",
        "times kith",
        "recall",
        "share of the limit",
        "peak MiB",
        "build",
        "",
    ]
    found = []
    for job in report["jobs"]:
        if job["series"] is None:
            found.append(
                f"`{job['id']}`: {job['work']}, {shape_text(job)}\n\n{table(head, job_lines(job))}"
            )
            absent = "; ".join(f"{name}: {why}" for name, why in job["absent"].items())
            found += [f"Not beside it: {absent}."] if absent else []
    return "\n\n".join(found)


def curve(report, series):
    """Jobs as lines, engines as columns; None where there are none."""
    jobs = sorted(
        (job for job in report["jobs"] if job["series"] == series), key=lambda job: job["x"]
    )
    names = list(dict.fromkeys(report_rows.label(each) for job in jobs for each in job["engines"]))
    if not jobs:
        return None
    lines = []
    for job in jobs:
        by_name = {report_rows.label(each): each for each in job["engines"]}
        best = report_rows.base(job)
        lines.append(
            [f"{job['x']}: {shape_text(job)}" if series == "threads" else shape_text(job)]
            + [cell(by_name.get(name)) for name in names]
            + [
                share_text(report_rows.share(job, best)) if best else "",
                f"{best['peak_mib']:,.0f}" if best and best["peak_mib"] else "",
            ]
        )
    return table([SERIES[series], *names, "kith's share of the limit", "kith's peak MiB"], lines)


def cell(each):
    if each is None:
        return ""
    recall = recall_text(each)
    return seconds_text(each["seconds"]) + (
        f", {recall}" if recall not in ("", "exact", "1.0000") else ""
    )


def left_out(report):
    lines = [f"- `{name}`: {why}" for name, why in report["left_out"].items()]
    lines += [f"- {name} (peer): {why}" for name, why in report["absent"].items()]
    return "Left out:\n\n" + "\n".join(lines) if lines else ""


def whole(report, level="##"):
    """All of one report."""
    parts = [
        origin(report),
        f"{level} Limits",
        limits(report),
        f"{level} Side by side",
        side_by_side(report),
    ]
    for series, name in SERIES.items():
        found = curve(report, series)
        parts += [f"{level} By {name}", found] if found else []
    return "\n\n".join(part for part in [*parts, left_out(report)] if part) + "\n"
