# SPDX-License-Identifier: Apache-2.0
"""Points of bench_descent.py, real where KITH_DATA names a folder that has them, else generated.

  fashion   60,000 x 784 bytes of images                      sift     400,000 x 128 bytes of descriptors
  words     50,000 x 100, word vectors of film reviews, cosine
  mixture   Gaussian clusters of intrinsic dimension 12 (as bench_gpu.py's), 1,000 of them
  blob      one Gaussian of intrinsic dimension 24: no clusters, many hubs
  vectors   in the manner of word vectors, for cosine: a common direction, a spectrum that falls, lengths
            that vary
"""
from dataclasses import dataclass, field

import numpy

import bench_data
from peer import read_points

CLUSTERS, INTRINSIC = 1000, 12
BLOB_INTRINSIC = 24
NOISE = 0.01
SCALE = 0.5 / INTRINSIC**0.5


@dataclass
class Work:
    """Points of which a graph is made."""

    name: str
    points: numpy.ndarray = field(repr=False)
    metric: str = "euclidean"

    @property
    def dtype(self):
        return "u8" if self.points.dtype == numpy.uint8 else "f32"


def shared(name, file, metric="euclidean"):
    path = bench_data.shared_file(file)
    if path is None:
        print(f"{name}: absent, KITH_DATA names no folder that has it")
        return None
    return Work(name, read_points(str(path)), metric)


def make_mixture(rows, columns=128):
    random = numpy.random.default_rng(bench_data.SEED)
    centres = random.standard_normal((CLUSTERS, columns), dtype=numpy.float32)
    frames = random.standard_normal((CLUSTERS, INTRINSIC, columns), dtype=numpy.float32)
    label = random.integers(CLUSTERS, size=rows)
    points = NOISE * random.standard_normal((rows, columns), dtype=numpy.float32) + centres[label]
    for cluster in range(CLUSTERS):
        mine = numpy.flatnonzero(label == cluster)
        place = random.standard_normal((len(mine), INTRINSIC), dtype=numpy.float32)
        points[mine] += numpy.float32(SCALE) * (place @ frames[cluster])
    return Work("mixture", points)


def make_blob(rows, columns=128):
    random = numpy.random.default_rng(bench_data.SEED)
    frame = random.standard_normal((BLOB_INTRINSIC, columns), dtype=numpy.float32)
    points = random.standard_normal((rows, BLOB_INTRINSIC), dtype=numpy.float32) @ frame
    return Work("blob", points + NOISE * random.standard_normal(points.shape, dtype=numpy.float32))


def make_vectors(rows, columns=100):
    random = numpy.random.default_rng(bench_data.SEED)
    spectrum = numpy.arange(1, columns + 1, dtype=numpy.float32) ** -0.5
    points = random.standard_normal((rows, columns), dtype=numpy.float32) * spectrum
    points += 0.5 * random.standard_normal(columns, dtype=numpy.float32) * spectrum
    lengths = numpy.exp(0.4 * random.standard_normal((rows, 1), dtype=numpy.float32))
    return Work("vectors", points * lengths, "cosine")


MAKERS = {
    "fashion": lambda rows: shared("fashion", "fashion_mnist_base.u8bin"),
    "sift": lambda rows: shared("sift", "sift_imagenet400k_base.u8bin"),
    "words": lambda rows: shared("words", "imdb_word2vec100_base.fbin", "cosine"),
    "mixture": make_mixture,
    "blob": make_blob,
    "vectors": make_vectors,
}
USUAL_ROWS = 200_000


def make(name, rows=None):
    """None where its file is absent. rows: at most so many of a file, so many generated."""
    work = MAKERS[name](rows or USUAL_ROWS)
    if work is not None and rows and len(work.points) > rows:
        work.points = numpy.ascontiguousarray(work.points[:rows])
    return work
