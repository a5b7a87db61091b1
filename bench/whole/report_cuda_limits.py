# SPDX-License-Identifier: Apache-2.0
"""What one GPU reaches at most, by PyTorch: memory and matrix units, and the least time of some works."""

import time

import torch

RUNS = 10
PADDED = 128  # bytes that rounded rows are a multiple of


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


def measure(scale=1):
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
    found = {}
    for name, call in wanted.items():
        try:
            found[name] = call()
        except RuntimeError as error:
            print(f"limit {name}: not measured ({str(error).splitlines()[0]})", flush=True)
        torch.cuda.empty_cache()
    if "copy" in found:  # a copy reads and writes at the same memory: no less can be read alone
        found["read"] = max(found["copy"], found.get("read", 0.0))
    return found


def product_floor(limits, pairs, columns, itemsize):
    """Seconds that the products of so many pairs take at least, and of what that was computed. Rows are
    padded as kith's rounded ones are; bytes are multiplied as bytes, all else as halves. Units for bytes
    do two products where those for halves do one; PyTorch's own product of bytes reaches less."""
    if "f16" not in limits:
        return None, None
    size = 1 if itemsize == 1 else 2
    rate = max(limits.get("s8", 0.0), 2.0 * limits["f16"]) if size == 1 else limits["f16"]
    name = "s8 rate, or twice the f16 rate" if size == 1 else "f16 rate"
    padded = -(-columns * size // PADDED) * PADDED // size
    return 2.0 * pairs * padded / rate, f"products of all pairs once at the measured {name}"


def read_floor(limits, size):
    return (
        (size / limits["read"], "one read of the matrix at the measured rate")
        if "read" in limits
        else (None, None)
    )
