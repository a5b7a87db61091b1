# SPDX-License-Identifier: Apache-2.0
"""Wide and long matrices that users have: what auto takes, beside the peers (rows of work "goals")."""
import select_peers

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
