# SPDX-License-Identifier: Apache-2.0
"""What one GPU reaches at most: memory by PyTorch, matrix units by loops of their own instruction (bench_units),
and by PyTorch's products; and the least time of some works."""

import json
import subprocess
import time

import torch

RUNS = 10
STEP = 32  # bytes of a row that one instruction takes


def best_seconds(call):
    """Of some runs: a limit is what was reached once."""
    call()
    found = float("inf")
    for _ in range(RUNS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        found = min(found, time.perf_counter() - start)
    return found


def product_rate(rows, inner, dtype):
    """Operations a second of a square product, its result written out."""
    left = torch.ones(rows, inner, dtype=dtype, device="cuda")
    right = torch.ones(inner, rows, dtype=dtype, device="cuda")
    if dtype == torch.int8:
        right = right.t().contiguous().t()  # by columns, as its kernels want it
        seconds = best_seconds(lambda: torch._int_mm(left, right))
    else:
        left.normal_()
        right.normal_()
        out = torch.empty(rows, rows, dtype=dtype, device="cuda")
        seconds = best_seconds(lambda: torch.mm(left, right, out=out))
    return 2.0 * rows * rows * inner / seconds


def copy_rate(size):
    """Bytes a second, read and written ones."""
    source = torch.ones(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2.0 * size / best_seconds(lambda: target.copy_(source))


def read_rate(size):
    source = torch.ones(size // 4, dtype=torch.float32, device="cuda")
    return size / best_seconds(source.sum)


def unit_rates(build):
    """{unit: operations a second} by bench_units; nothing where it was not built (make CUDA=ON, ARGS of make bench)."""
    program = build / "bench_units"
    if not program.exists():
        print("limits of the units: not measured (bench_units is built with nvcc)", flush=True)
        return {}
    done = subprocess.run([program, "--json"], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def measure(build, scale=1):
    """{name: rate}; scale divides the sizes, for trying out. What a device cannot do is left out."""
    side, size = 8192 // scale, (4 << 30) // scale**2
    wanted = {
        "copy": lambda: copy_rate(size),
        "read": lambda: read_rate(2 * size),
        "f16": lambda: product_rate(2 * side, 8192 // scale, torch.float16),
        "f16_k128": lambda: product_rate(4 * side, 128, torch.float16),
        "s8": lambda: product_rate(2 * side, 8192 // scale, torch.int8),
        "f32": lambda: product_rate(side, 8192 // scale, torch.float32),
        "f32_k128": lambda: product_rate(2 * side, 128, torch.float32),
    }
    found = unit_rates(build)
    for name, call in wanted.items():
        try:
            found[name] = call()
        except RuntimeError as error:
            print(f"limit {name}: not measured ({str(error).splitlines()[0]})", flush=True)
        torch.cuda.empty_cache()
    if "copy" in found:  # a copy reads and writes at the same memory: no less can be read alone
        found["read"] = max(found["copy"], found.get("read", 0.0))
    return found


def product_floor(limits, pairs, columns):
    """Seconds that the products of so many pairs take at least, as bytes: most rows are screened so, whatever they
    are given as; and of what that was computed. A step of the unit has 32 bytes."""
    rate = max((limits[name] for name in ("s8_wgmma", "s8_mma") if name in limits), default=0.0)
    if rate == 0.0:
        return None, None
    padded = -(-columns // STEP) * STEP
    return 2.0 * pairs * padded / rate, "products of all pairs once, as bytes, at the rate of the unit"


def read_floor(limits, size):
    return (
        (size / limits["read"], "one read of the matrix at the measured rate")
        if "read" in limits
        else (None, None)
    )
