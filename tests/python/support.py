# SPDX-License-Identifier: Apache-2.0
"""Points of the Python tests, and answers that NumPy computes in double."""

import numpy as np
from kith import _radius


def points(rows=200, cols=8, dtype=np.float32, seed=0):
    """Points without ties."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return random.integers(low, high, (rows, cols), dtype)
    return random.standard_normal((rows, cols)).astype(dtype)


def distances_between(queries, corpus):
    """All euclidean distances, in double."""
    difference = queries[:, None, :].astype(np.float64) - corpus[None, :, :].astype(np.float64)
    return np.sqrt((difference**2).sum(axis=2))


def first(distances, k):
    """Indices of the k smallest of each row by (distance, index)."""
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


def graph(x, k):
    """Indices of each point's k nearest among the others."""
    distances = distances_between(x, x)
    np.fill_diagonal(distances, np.inf)
    return first(distances, k)


class Pretended:
    """A NumPy array that says that it lies on a GPU, and can be read by nobody but its maker."""

    def __init__(self, array, index=0):
        self.array = array
        self.index = index
        self.shape, self.ndim, self.nbytes = array.shape, array.ndim, array.nbytes
        contiguous = array.flags.c_contiguous
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "strides": None if contiguous else array.strides,
            "version": 3,
            "stream": 7,
        }

    def __array__(self, *arguments, **options):
        raise TypeError("it lies on a GPU")

    def __len__(self):
        return len(self.array)

    def __getitem__(self, which):
        part = self.array[which]
        return Pretended(part, self.index) if isinstance(part, np.ndarray) else part


class Maker:
    """What CuPy is for its arrays."""

    stream = 5
    copies = []  # of what came to the host

    def __init__(self, array):
        self.index = array.index

    def empty(self, shape, name):
        return Pretended(np.empty(shape, name))

    def wide(self, ids, may_be_empty=False, signed=False):
        wide = (ids.array.view(np.int32) if signed else ids.array).astype(np.int64)
        if may_be_empty and not signed:
            wide[wide == 0xFFFFFFFF] = -1
        return Pretended(wide)

    def settle(self):
        pass

    def complete(self, stream):
        assert stream == 7

    def take(self, *said):
        return Pretended(_radius._Here.take(*said), self.index)

    def whole(self, numbers):
        wide = np.ascontiguousarray(numbers.array, np.int64)
        return Pretended(wide, self.index) if numbers.array.dtype.kind in "iu" else None

    def to_host(self, array):
        self.copies.append(array.array.nbytes)
        return array.array

    def from_host(self, array):
        return Pretended(array, self.index)

    def ends(self, ids):
        return int(ids.array.min()), int(ids.array.max())

    def narrow(self, ids):
        return Pretended(np.ascontiguousarray(ids.array.astype(np.uint32)))
