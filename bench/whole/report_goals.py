# SPDX-License-Identifier: Apache-2.0
"""What the project set out to reach: one Goal for each figure of the table of targets, and whether a
figure meets it. The peers of a goal are those that were measured when the target was set; those that
run beside kith stand in the results.

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
    peers: str
    floor: str = ""
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
    known = {32: (0.96, 3.1, 0.33), 256: (2.02, 3.3, 0.45), 1024: (3.04, 3.5, 0.9)}
    return [
        Goal(
            f"select-cuda-{k}",
            "cuda",
            f"k-selection, 8192 × 32768 float32, k = {k}",
            H200,
            f"best peer {best} ms; torch.topk {topk} ms",
            "0.25 ms",
            limit=limit / 1e3,
        )
        for k, (best, topk, limit) in known.items()
    ]


def tree_goals():
    known = {
        3: ("pykdtree 0.19 s, cKDTree 0.26 s", 3),
        5: ("pykdtree 0.89 s, cKDTree 1.17 s", 4),
        10: ("pykdtree 14.0 s, cKDTree 32 s", 10),
    }
    cpu = [
        Goal(
            f"tree-cpu-{d}",
            "cpu",
            f"k-d tree, 800,000 image patches, 10⁵ queries, k = 10, " f"{d} columns",
            TWO_CORES,
            peers,
            faster=faster,
        )
        for d, (peers, faster) in known.items()
    ]
    limits = {4: (36, 30), 8: (152, 90), 10: (211, 110), 15: (591, 200)}
    rate = "compare at 1.5·10¹³ pairs/s"
    cuda = [
        Goal(
            f"tree-cuda-{d}",
            "cuda",
            "k-d tree, 10⁷ queries, 2·10⁶ points, k = 10, intrinsic " f"dimension 4, {d} columns",
            H200,
            f"cudaKDTree at its best {peer} ms",
            rate,
            limit=limit / 1e3,
        )
        for d, (peer, limit) in limits.items()
    ]
    return cpu + cuda


GOALS = (
    select_goals()
    + [
        Goal(
            "graph-cuda-262k",
            "cuda",
            "exact graph, 262,144 × 128, k = 10",
            H200,
            "FAISS 0.716 s (tf32 0.464 s, not exact), cuVS 1.20 s, PyTorch 1.47 s",
            "0.022 s fp16",
            limit=0.04,
        ),
        Goal(
            "graph-cuda-1m",
            "cuda",
            "exact graph, 1,000,000 × 128, k = 10: exact, and faster than the "
            "peers' approximation",
            H200,
            "FAISS 10.4 s, cuVS 17.6 s, PyTorch 21 s; cuVS NN-Descent 3.3 s " "for recall@10 0.997",
            "0.33 s fp16, 0.16 s int8, half with symmetry",
            limit=0.4,
            reach=0.2,
            rivals={"cuVS NN-Descent": 3.3},
        ),
        Goal(
            "graph-cuda-10m",
            "cuda",
            "exact graph, 10,000,000 × 96, k = 10",
            H200,
            "cuVS NN-Descent 31.8 s for recall@10 0.857",
            "25 s fp16, half with symmetry",
            limit=30.0,
            reach=15.0,
        ),
        Goal(
            "descent-cuda-1m",
            "cuda",
            "NN-Descent, 1,000,000 × 128, k = 10",
            H200,
            "cuVS 3.3 s (0.902 in 2.35 s; 0.999 in 6.6 s)",
            "≈ 0.05 s",
            limit=0.12,
            reach=0.05,
            recall=0.99,
        ),
        Goal(
            "descent-cuda-10m",
            "cuda",
            "NN-Descent, 10,000,000 × 96, k = 10",
            H200,
            "cuVS more than 31.8 s",
            "≈ 0.5 s",
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
            "FAISS (Debian) 33.8 s, scikit-learn 60 s, pynndescent " "7.1 s for recall 0.990",
            "0.5 s int8 AMX, 0.25 s with symmetry",
            limit=1.0,
            rivals={"pynndescent": 7.1},
        ),
    ]
    + tree_goals()
    + [
        Goal(
            "search-cuda-uniform12",
            "cuda",
            "exact search, 10⁶ queries, 10⁶ points, uniform, 12 columns, " "k = 10",
            H200,
            "fp32 brute force 1.09 s, cudaKDTree 1.96 s",
            "0.07 s",
            limit=0.12,
        ),
        Goal(
            "select-cpu-32",
            "cpu",
            "k-selection, 8192 × 32768 float32, k = 32",
            TWO_CORES,
            "numpy.argpartition 8.0 s (1 thread)",
            "0.04 s at 27 GB/s",
            limit=0.07,
        ),
    ]
)
BY_ID = {goal.id: goal for goal in GOALS}

# The machines' limits as they stand with the targets: name, what, value, unit.
LIMITS = [
    ("cuda", "copy", 4.26e12, "byte/s", "copy within device memory, bytes read and written"),
    ("cuda", "read", 4.29e12, "byte/s", "read of device memory"),
    ("cuda", "f16", 790e12, "flop/s", "fp16 product, large K"),
    ("cuda", "f16_k128", 335e12, "flop/s", "fp16 product, K = 128, written out"),
    ("cuda", "f32", 51e12, "flop/s", "fp32 product, large K"),
    ("cuda", "f32_k128", 38e12, "flop/s", "fp32 product, K = 128, written out"),
    ("cpu", "s8_amx", 2 * 3.0e12, "mac/s", "AMX int8, two cores"),
    ("cpu", "bf16_amx", 2 * 1.5e12, "mac/s", "AMX bf16, two cores"),
    ("cpu", "f32_avx512", 2 * 0.115e12, "mac/s", "AVX-512 fp32, two cores"),
    ("cpu", "read", 27e9, "byte/s", "read of memory, all threads"),
]


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
