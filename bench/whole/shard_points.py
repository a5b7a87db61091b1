# SPDX-License-Identifier: Apache-2.0
"""Points of bench_shards.py, made once and kept as a file: clusters of which half the variance, or in bytes nearly all
of it, lies in twelve directions.

float32 rows are made block after block, each with clusters of its own. Bytes are made for graphs of 10⁸ points and
more: every block has rows of all clusters, whose directions are one of 1,024 frames, and blocks are made by all GPUs
and written by many threads, each from a seed of its own, so that the file is the same for any number of them."""
import concurrent.futures
import os
import sys

DIRECTIONS = 12
BLOCK = 1_000_000
CLUSTER = 1000
HEAD_BYTES = 8
FRAMES = 1024
ROWS_A_FRAME = 1024
ROWS_AT_ONCE = FRAMES * ROWS_A_FRAME
NOISE = 0.01
MIDDLE, UNIT = 128, 30  # of a byte: where the origin lies, and one
WRITERS_A_GPU = 8
ITEM_BYTES = {"f32": 4, "u8": 1}
SUFFIX = {"f32": "fbin", "u8": "u8bin"}


def blocks_torch(rows, columns):
    import torch
    if not torch.cuda.is_available():
        raise ImportError("no GPU")
    made = torch.Generator("cuda").manual_seed(1)
    basis = torch.randn(DIRECTIONS, columns, generator=made, device="cuda")
    for first in range(0, rows, BLOCK):
        count = min(BLOCK, rows - first)
        clusters = max(1, count // CLUSTER)
        centers = torch.randn(clusters, columns, generator=made, device="cuda") * 3
        picked = torch.randint(clusters, (count,), generator=made, device="cuda")
        spread = torch.randn(count, DIRECTIONS, generator=made, device="cuda") @ basis
        noise = torch.randn(count, columns, generator=made, device="cuda")
        yield (centers[picked] + spread * 0.3 + noise).float().cpu().numpy()


def blocks_numpy(rows, columns):
    import numpy
    made = numpy.random.Generator(numpy.random.SFC64(1))
    basis = made.standard_normal((DIRECTIONS, columns), numpy.float32)
    for first in range(0, rows, BLOCK):
        count = min(BLOCK, rows - first)
        clusters = max(1, count // CLUSTER)
        centers = made.standard_normal((clusters, columns), numpy.float32) * 3
        spread = made.standard_normal((count, DIRECTIONS), numpy.float32) @ basis
        yield (centers[made.integers(clusters, size=count)] + spread * numpy.float32(0.3) +
               made.standard_normal((count, columns), numpy.float32))


def write_floats(path, rows, columns):
    for blocks in (blocks_torch, blocks_numpy):
        try:
            with open(path, "wb") as file:
                file.write(rows.to_bytes(4, "little") + columns.to_bytes(4, "little"))
                for block in blocks(rows, columns):
                    block.tofile(file)
                os.fsync(file.fileno())
            return
        except ImportError:
            continue
    sys.exit("bench_shards: neither PyTorch with a GPU nor NumPy is there")


class ByteMaker:
    """Blocks of bytes on one GPU."""

    def __init__(self, device, clusters, columns):
        import torch
        self.torch = torch
        self.device = torch.device("cuda", device)
        shared = torch.Generator(self.device).manual_seed(11)
        self.of_a_frame = max(1, clusters // FRAMES)
        options = {"generator": shared, "device": self.device}
        self.centers = torch.randn(FRAMES, self.of_a_frame, columns, **options)
        self.frames = torch.randn(FRAMES, DIRECTIONS, columns, **options) * (0.5 / DIRECTIONS**0.5)
        self.columns = columns

    def make(self, number):
        torch, columns = self.torch, self.columns
        random = torch.Generator(self.device).manual_seed(1000 + number)
        options = {"generator": random, "device": self.device}
        label = torch.randint(self.of_a_frame, (FRAMES, ROWS_A_FRAME, 1), **options).expand(-1, -1, columns)
        rows = torch.gather(self.centers, 1, label)
        rows += torch.bmm(torch.randn(FRAMES, ROWS_A_FRAME, DIRECTIONS, **options), self.frames)
        rows += NOISE * torch.randn(FRAMES, ROWS_A_FRAME, columns, **options)
        order = torch.randperm(ROWS_AT_ONCE, **options)
        bytes_of = (MIDDLE + UNIT * rows).clamp_(0, 255).to(torch.uint8)
        return bytes_of.view(-1, columns)[order].cpu().numpy()


def write_bytes(path, rows, columns, clusters):
    try:
        import torch
    except ImportError:
        sys.exit("bench_shards: --type u8 needs PyTorch with a GPU")
    gpus = torch.cuda.device_count()
    if gpus == 0:
        sys.exit("bench_shards: --type u8 needs PyTorch with a GPU")
    makers = [ByteMaker(gpu, clusters, columns) for gpu in range(gpus)]
    each = ROWS_AT_ONCE
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.pwrite(file, rows.to_bytes(4, "little") + columns.to_bytes(4, "little"), 0)

    def put(number):
        block = makers[number % gpus].make(number)[:rows - number * each]
        os.pwrite(file, memoryview(block).cast("B"), HEAD_BYTES + number * each * columns)

    with concurrent.futures.ThreadPoolExecutor(WRITERS_A_GPU * gpus) as team:
        list(team.map(put, range(-(-rows // each))))
    os.close(file)
    del makers
    torch.cuda.empty_cache()


def make_points(path, rows, columns, kind, clusters):
    if path.exists() and path.stat().st_size == HEAD_BYTES + ITEM_BYTES[kind] * rows * columns:
        return
    if kind == "u8":
        write_bytes(path, rows, columns, clusters)
    else:
        write_floats(path, rows, columns)
