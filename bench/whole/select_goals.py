# SPDX-License-Identifier: Apache-2.0
"""Wide and long matrices that users have: what auto takes, beside the peers (rows of work "goals").

Work "today", on a GPU alone: the same matrices (the smallest are asked for), and scores of language models, a row
a sequence, a column a token or a document (the largest): beside everybody who can be imported. `at` of a row is
the type and which end. Answers are sorted, but RAFT's; values of each must be those of torch.topk. Short calls are
timed several in a row, as they follow each other in a stream. kith takes float32, float64, float16, bfloat16; no
integers, no 8-bit floats.
"""
import math

import select_peers
from bench_gpu import torch

ON_CUDA = [(8192, 32768, 32), (8192, 32768, 64), (8192, 32768, 256), (8192, 32768, 1024),
           (8192, 65536, 256), (1000, 1000000, 10), (1000, 1000000, 100), (128, 8388608, 32),
           (1, 1 << 28, 100)]
ON_CPU = [(8192, 32768, 32), (8192, 32768, 256), (1000, 200000, 10), (1, 1 << 26, 100)]
QUICK = [(512, 4096, 32), (1, 1 << 20, 100)]


def measure(bench):
    for rows, cols, k in QUICK if bench.quick else ON_CUDA if bench.side == "cuda" else ON_CPU:
        matrix = bench.uniform(rows, cols)
        for threads in {1, bench.threads} if bench.side == "cpu" else {0}:
            bench.try_kith("goals", matrix, k, runs=5, threads=threads, method="auto")
        if bench.side == "cpu":
            peers = select_peers.of_host(matrix, k, bench.threads)
        else:
            peers = select_peers.of_device(matrix, k)
        for name, threads, call in peers:
            bench.add("goals", bench.seconds(call), matrix.shape, k, threads=threads, method=name)
        del matrix, peers


# ---- Today ------------------------------------------------------------------------------------------

SCORES = [(rows, cols, k) for rows in (1, 8, 64) for cols in (128256, 1000000) for k in (64, 512, 2048)]
HALF = (64, 128256, 512)  # the one shape that is also measured as float16
QUICK_SCORES = [(2, 4096, 64)]
SHORT, MOST_CALLS = 2e-3, 32  # seconds that several short calls should take together


def measure_today(bench):
    if bench.side != "cuda":
        print("today: left out, its peers are of a GPU")
        return
    absent = {}
    for rows, cols, k in QUICK if bench.quick else ON_CUDA:
        beside(bench, bench.uniform(rows, cols), k, False, absent)
    for rows, cols, k in QUICK_SCORES if bench.quick else SCORES:
        scores = made_scores(rows, cols)
        for dtype in (torch.float32, torch.bfloat16) + ((torch.float16,) if (rows, cols, k) == HALF else ()):
            beside(bench, scores.to(dtype), k, True, absent)
    for name, reason in absent.items():
        print(f"{name}: absent ({reason})", flush=True)


def made_scores(rows, cols):
    random = torch.Generator(device="cuda").manual_seed(3)
    return 4.0 * torch.randn(rows, cols, generator=random, device="cuda")


def beside(bench, matrix, k, largest, absent):
    """A row for kith and for each peer; who does not take this matrix, or fails, is a line."""
    at = f"{str(matrix.dtype).removeprefix('torch.')} {'largest' if largest else 'smallest'}"
    right = torch.topk(matrix, k, dim=1, largest=largest).values
    ways = {"auto": lambda *_: bench.kith.selecting(matrix, k, largest=largest)}
    ways |= {name: make for name, make in select_peers.TODAY.items() if name in bench.peers}
    line = []
    for name, make in ways.items():
        if name in absent:
            continue
        try:
            call = make(matrix, k, largest)
            found = select_peers.as_torch(call()[0])
            if not torch.equal(found.sort(dim=1, descending=largest).values, right):
                raise ValueError("its values are not torch.topk's")
            values = in_a_row(bench, call)
        except ImportError as error:
            absent[name] = error
            continue
        except Exception as error:  # pylint: disable=broad-exception-caught # a peer that fails is no failure of ours
            line.append(f"{name} - ({str(error).splitlines()[0][:60] if str(error) else type(error).__name__})")
            continue
        bench.add("today", values, matrix.shape, k, at, method=name)
        line.append(f"{name} {1e3 * sorted(values)[len(values) // 2]:.3f}")
        call = found = None
    torch.cuda.empty_cache()
    print(f"  {matrix.shape[0]} x {matrix.shape[1]} k {k} {at}, ms: " + ", ".join(line), flush=True)


def in_a_row(bench, call, runs=5):
    """Seconds of a call, of so many runs."""
    count = max(1, min(MOST_CALLS, math.ceil(SHORT / max(bench.once(call), 1e-6))))

    def several():
        for _ in range(count):
            call()

    return [seconds / count for seconds in bench.seconds(several, runs)]
