# SPDX-License-Identifier: Apache-2.0
"""The data of the benchmark: real where KITH_DATA names a folder that has it, else generated."""
import os
import pathlib
from dataclasses import dataclass

import numpy

from peer import read_points

SEED = 20240229


@dataclass
class Work:
    """One job. queries is None for a graph."""

    name: str
    corpus: pathlib.Path
    queries: pathlib.Path | None = None
    k: int = 10

    def shape(self):
        rows, columns = numpy.fromfile(self.corpus, dtype="<u4", count=2)
        asking = rows if self.queries is None else numpy.fromfile(self.queries, dtype="<u4", count=1)[0]
        return int(rows), int(asking), int(columns)

    def macs(self):
        """Multiply-accumulates that nobody can do without who compares every pair once."""
        rows, asking, columns = self.shape()
        pairs = rows * (rows - 1) // 2 if self.queries is None else rows * asking
        return pairs * columns


def write_points(path, points):
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as out:
        numpy.array(points.shape, dtype="<u4").tofile(out)
        numpy.ascontiguousarray(points).tofile(out)
    partial.rename(path)
    return path


def make_mixture(rows, columns, clusters=100):
    """Bytes around cluster centres that live on 16 directions: uneven, like images."""
    random = numpy.random.default_rng(SEED)
    directions = random.normal(size=(16, columns))
    centres = random.normal(size=(clusters, 16))
    label = random.integers(clusters, size=rows)
    place = centres[label] + 0.4 * random.normal(size=(rows, 16))
    values = 110 + 22 * (place @ directions) + random.normal(scale=12, size=(rows, columns))
    return numpy.clip(values, 0, 255).astype(numpy.uint8)


def shared_file(name):
    folder = os.environ.get("KITH_DATA")
    path = pathlib.Path(folder, name) if folder else None
    return path if path and path.is_file() else None


def images(cache):
    if found := shared_file("fashion_mnist_base.u8bin"):
        return "fashion", found
    path = cache / "mixture_60000x784.u8bin"
    if not path.is_file():
        write_points(path, make_mixture(60000, 784))
    return "mixture", path


def make_small(cache):
    path = cache / "small_1000x64.fbin"
    if not path.is_file():
        points = numpy.random.default_rng(SEED).normal(size=(1000, 64))
        write_points(path, points.astype(numpy.float32))
    return Work("small", path)


def make_images_u8(cache):
    name, path = images(cache)
    return Work(name, path)


def make_images_f32(cache):
    """The same points as float32 that are no integers: noise below a grey level, then scaled."""
    name, source = images(cache)
    path = cache / f"{name}_float.fbin"
    if not path.is_file():
        points = read_points(str(source)).astype(numpy.float32)
        points += numpy.random.default_rng(SEED).random(size=points.shape, dtype=numpy.float32)
        write_points(path, points * numpy.float32(0.37))
    return Work(f"{name}-f32", path)


def make_sift(cache):
    base = shared_file("sift_imagenet400k_base.u8bin")
    queries = shared_file("sift_imagenet400k_query.u8bin")
    return Work("sift", base, queries) if base and queries else None


MAKERS = {
    "small": make_small,
    "images": make_images_u8,
    "images-f32": make_images_f32,
    "sift": make_sift,
}
