# SPDX-License-Identifier: Apache-2.0
"""What the project set out to reach: one Goal for each figure of the table of targets, and whether a
figure meets it: what bench/report says to whoever runs it. Peers that run beside kith stand in the results.

A goal is a time, or how many times faster than the best peer of the same run (`faster`)."""

from dataclasses import dataclass, field

H200 = "an NVIDIA H200"
TWO_CORES = "two cores with AMX"
MET, PART, MISSED, NOT_MEASURED = "met", "met in part", "missed", "not measured"


@dataclass(frozen=True)
class Goal:
    """limit, reach: seconds (the target, and what came after "then"); recall: what is asked for."""

    id: str
    side: str
    work: str
    needs: str
    limit: float = 0.0
    reach: float = 0.0
    faster: float = 0.0
    recall: float = 1.0
    rivals: dict = field(default_factory=dict)  # peers that the target names, seconds as known then

    def target(self):
        if self.faster:
            return f"{self.faster:g} times faster"
        text = f"≤ {seconds_text(self.limit)}"
        if self.reach:
            text += f", then ≤ {seconds_text(self.reach)}"
        return text + (f" at recall@10 ≥ {self.recall:g}" if self.recall < 1.0 else "")


def seconds_text(seconds):
    """0.000335 -> 0.335 ms; 17.73 -> 17.7 s."""
    if seconds is None:
        return ""
    if seconds < 0.1:
        return f"{1e3 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def select_goals():
    limits = {32: 0.33, 256: 0.45, 1024: 0.9}
    return [
        Goal(
            f"select-cuda-{k}",
            "cuda",
            f"k-selection, 8192 × 32768 float32, k = {k}",
            H200,
            limit=limit / 1e3,
        )
        for k, limit in limits.items()
    ]


def tree_goals():
    cpu = [
        Goal(
            f"tree-cpu-{d}",
            "cpu",
            f"k-d tree, 800,000 image patches, 10⁵ queries, k = 10, {d} columns",
            TWO_CORES,
            faster=faster,
        )
        for d, faster in {3: 3, 5: 4, 10: 10}.items()
    ]
    cuda = [
        Goal(
            f"tree-cuda-{d}",
            "cuda",
            f"k-d tree, 10⁷ queries, 2·10⁶ points, k = 10, intrinsic dimension 4, {d} columns",
            H200,
            limit=limit / 1e3,
        )
        for d, limit in {4: 30, 8: 90, 10: 110, 15: 200}.items()
    ]
    return cpu + cuda


GOALS = (
    select_goals()
    + [
        Goal("graph-cuda-262k", "cuda", "exact graph, 262,144 × 128, k = 10", H200, limit=0.04),
        Goal(
            "graph-cuda-1m",
            "cuda",
            "exact graph, 1,000,000 × 128, k = 10: exact, and faster than the peers' approximation",
            H200,
            limit=0.4,
            reach=0.2,
            rivals={"cuVS NN-Descent": 3.3},
        ),
        Goal(
            "graph-cuda-10m",
            "cuda",
            "exact graph, 10,000,000 × 96, k = 10",
            H200,
            limit=30.0,
            reach=15.0,
        ),
        Goal(
            "descent-cuda-1m",
            "cuda",
            "NN-Descent, 1,000,000 × 128, k = 10",
            H200,
            limit=0.12,
            reach=0.05,
            recall=0.99,
        ),
        Goal(
            "descent-cuda-10m",
            "cuda",
            "NN-Descent, 10,000,000 × 96, k = 10",
            H200,
            limit=2.0,
            reach=1.0,
            recall=0.95,
        ),
        Goal(
            "graph-cpu-fashion",
            "cpu",
            "exact graph, Fashion-MNIST 60,000 × 784 bytes, k = 10: exact, and "
            "faster than pynndescent",
            TWO_CORES,
            limit=1.0,
            rivals={"pynndescent": 7.1},
        ),
    ]
    + tree_goals()
    + [
        Goal(
            "search-cuda-uniform12",
            "cuda",
            "exact search, 10⁶ queries, 10⁶ points, uniform, 12 columns, k = 10",
            H200,
            limit=0.12,
        ),
        Goal(
            "select-cpu-32",
            "cpu",
            "k-selection, 8192 × 32768 float32, k = 32",
            TWO_CORES,
            limit=0.07,
        ),
    ]
)
BY_ID = {goal.id: goal for goal in GOALS}


def times_text(value):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def judge(goal, figure):
    """(met, met in part, missed or not measured; in words) of {"seconds", "recall", "peers", "near"}:
    seconds of peers by name, of those that find all and of those that find nearly all. figure may
    be None."""
    if figure is None:
        return NOT_MEASURED, f"not measured here: needs {goal.needs}"
    if figure.get("recall") is not None and figure["recall"] < goal.recall - 5e-6:
        return MISSED, f"missed: recall@10 {figure['recall']:.4f}, asked {goal.recall:g}"
    if goal.faster:
        return judge_faster(goal, figure)
    near = figure.get("near") or {}
    slower = [
        name
        for name, known in goal.rivals.items()
        if figure["seconds"]
        >= min((seconds for peer, seconds in near.items() if peer.startswith(name)), default=known)
    ]
    if figure["seconds"] > goal.limit:
        return MISSED, f"missed, {figure['seconds'] / goal.limit:.2f} times the target"
    if slower:
        return MISSED, f"missed: slower than {', '.join(slower)}"
    if not goal.reach:
        return MET, "met"
    if figure["seconds"] <= goal.reach:
        return MET, "both met"
    return PART, f"met; what came then is missed, {figure['seconds'] / goal.reach:.2f} times"


def judge_faster(goal, figure):
    peers = figure.get("peers") or {}
    if not peers:
        return NOT_MEASURED, "not measured: no peer ran beside it"
    name, seconds = min(peers.items(), key=lambda item: item[1])
    found = seconds / figure["seconds"]
    text = f"{times_text(found)} times faster than {name}"
    if found >= goal.faster:
        return MET, f"met: {text}"
    return MISSED, f"missed by {100 * (1 - found / goal.faster):.0f} %: {text}"
