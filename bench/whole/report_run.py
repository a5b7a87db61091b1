# SPDX-License-Identifier: Apache-2.0
"""Runs the jobs of one side in their order, within a time, and writes results after each: what was
measured stays when the rest is cut short."""

import datetime
import os
import pathlib
import time
import traceback

import report_goals
import report_rows
import report_tables

MINUTES = {("cpu", False): 12, ("cpu", True): 3, ("cuda", False): 5, ("cuda", True): 2}


def side_of(name):
    """Every id of a job says its side."""
    return "cuda" if "cuda" in name else "cpu"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def busy_cores(seconds=1.0):
    """Cores that others keep busy while this program rests; None where the system does not tell."""

    def read():
        words = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        times = [int(word) for word in words[1:9]]
        return sum(times), times[3] + times[4]  # all, idle and waiting for a disk

    try:
        total, idle = read()
        time.sleep(seconds)
        total_after, idle_after = read()
    except (OSError, ValueError, IndexError):
        return None
    share = 1.0 - (idle_after - idle) / max(1, total_after - total)
    return round(share * (os.cpu_count() or 1), 2)


def memory_gib():
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def chosen(plan, options):
    """Jobs that are asked for, in the plan's order. With --only also those of its curve."""
    wanted = [name for name in options.only.split(",") if name]
    found = {
        each: [name for name in plan if name == each or name.startswith(each + "-")]
        for each in wanted
    }
    unknown = [each for each, names in found.items() if not names]
    if unknown:
        raise SystemExit(
            f"report: no row is called {', '.join(unknown)} (--list says which there are)"
        )
    if wanted:
        return {
            name: job
            for name, job in plan.items()
            if any(name in names for names in found.values())
        }
    return {name: job for name, job in plan.items() if job[1] or not options.quick}


def head(options, side, bench):
    return {
        "format": report_rows.FORMAT,
        "side": options.device,
        "date": now(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": memory_gib(),
        "others": [busy_cores()],
        "quick": options.quick,
        "scale": options.scale,
        "jobs": [],
        "left_out": {},
        "seconds": 0.0,
        "command": options.command,
    } | side.describe(bench)


def keep(report, options):
    """Jobs of the file that is there already, to be replaced one by one."""
    if options.keep and pathlib.Path(options.json).exists():
        known = report_rows.read(options.json)
        if any(known[name] != report[name] for name in ("side", "machine", "threads", "scale")):
            raise SystemExit(f"report: {options.json} is of another machine (no --keep, or --json)")
        report["jobs"] = known["jobs"]


def put(report, job):
    """At the place of the same job, or behind all others."""
    places = [at for at, each in enumerate(report["jobs"]) if each["id"] == job["id"]]
    if places:
        report["jobs"][places[0]] = job
    else:
        report["jobs"].append(job)


def measure(side, bench, name, call, report):
    """One job: None, or why there is none."""
    start = time.monotonic()
    try:
        job = side.run(bench, name, call)
    except (Exception, SystemExit) as error:  # a row that fails must not take the others with it
        traceback.print_exc()
        return f"failed: {(str(error).splitlines() or [type(error).__name__])[0]}"
    if job is None:
        return "its data is absent (KITH_DATA names no folder that has it)"
    job.update(
        job_seconds=round(time.monotonic() - start, 1),
        date=now(),
        commit=report["commit"],
        command=f"bench/report --only {name}",
    )
    put(report, job)
    print_job(job, report["scale"])
    return None


def print_job(job, scale):
    print(
        f"\n{job['id']}: {job['work']}, {job['rows']:,} x {job['columns']}, k = {job['k']}, "
        f"{job['data']}",
        flush=True,
    )
    best = report_rows.base(job, recall_of(job["id"])) or next(iter(job["engines"]), None)
    for each in job["engines"]:
        share = report_tables.share_text(report_rows.share(job, each))
        print(
            f"  {report_rows.label(each):38} {report_goals.seconds_text(each['seconds']):>9}"
            f"  {each['seconds'] / best['seconds']:8.2f} x  {report_tables.recall_text(each):6}"
            f"  {share + ' of the limit' if share else ''}  {each['note'] or ''}",
            flush=True,
        )
    for name, why in job["absent"].items():
        print(f"  {name:38} {why}", flush=True)
    if job["id"] in report_goals.BY_ID and scale == 1:
        goal = report_goals.BY_ID[job["id"]]
        print(
            f"  target {goal.target()}: "
            f"{report_goals.judge(goal, report_rows.figure(job, goal.recall))[1]}",
            flush=True,
        )


def recall_of(name):
    return report_goals.BY_ID[name].recall if name in report_goals.BY_ID else 1.0


def run_all(side, options):
    """The report, or None where the side is not there."""
    start = time.monotonic()
    jobs = chosen(side.plan(options), options)
    bench = side.start(options)
    if bench is None:
        return None
    report = head(options, side, bench)
    keep(report, options)
    print(
        f"{report['machine']}, commit {report['commit']}, others use {report['others'][0]} cores",
        flush=True,
    )
    for limit in report["limits"]:
        print(f"  {limit['name']:14} {limit['value']:.3g} {limit['unit']} at most", flush=True)
    for name, (expected, _, call) in jobs.items():
        left = 60 * options.minutes - (time.monotonic() - start)
        if expected > left and not options.only:
            why = f"{options.minutes:g} minutes were nearly over (--minutes)"
        else:
            why = measure(side, bench, name, call, report)
        if why:
            print(f"\n{name}: {why}", flush=True)
            report["left_out"][name] = why
        report["seconds"] = round(time.monotonic() - start, 1)
        report_rows.write(options.json, report)
    report["others"].append(busy_cores())
    report_rows.write(options.json, report)
    print(f"\n{len(report['jobs'])} rows, {report['seconds']:.0f} s: {options.json}", flush=True)
    return report
