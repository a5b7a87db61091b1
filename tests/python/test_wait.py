# SPDX-License-Identifier: Apache-2.0
"""Searches of an index on a GPU that return before the work is done, and the short way to one, where
there is none: as in test_device_arrays.py. check_cuda.py has the true ones."""

import unittest
from unittest import mock

import kith
import numpy as np
import support
from kith import _context, _cuda, _places, _small
from support import Maker, Pretended
from test_device_arrays import OnDevice, enqueued, pretended, streams


class Tensor(Pretended):
    """What the short way asks a tensor of PyTorch."""

    is_cuda, requires_grad = True, False

    @property
    def dtype(self):
        return f"torch.{self.array.dtype.name}"

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def data_ptr(self):
        return self.array.ctypes.data


Tensor.__module__ = "torch"


def current(array):
    """An array that its library's current stream fills."""
    made = Pretended(array)
    made.__cuda_array_interface__["stream"] = None
    return made


class TensorMaker(Maker):
    def empty(self, shape, name):
        return Tensor(np.empty(shape, name))


@pretended
class Waiting(OnDevice):
    def test_a_search_need_not_wait(self):
        index = kith.Index(self.on_gpu, device="cpu")
        truth = kith.knn(self.x, self.q, 4)
        asked = Pretended(self.q)
        for stream, wait, returns in (5, True, False), (5, False, True), (7, False, False):
            asked.__cuda_array_interface__["stream"] = stream
            self.assert_same(index.search(asked, 4, wait=wait), truth)
            self.assertEqual((enqueued[-1], streams[-1]), (returns, stream))
        index.wait()
        for first, other, same in (0, 1, True), (1, 0, True), (0, 2, False), (3, 3, True):
            matrix = _cuda.as_device_matrix(asked, "asked")
            maker = mock.Mock(stream=other)
            self.assertEqual(matrix._replace(stream=first, maker=maker).is_current, same)
        on_host = kith.Index(self.x, device="cpu").search(self.q, 4, wait=False)
        np.testing.assert_array_equal(on_host.indices, truth.indices)

    def test_few_arrays_go_a_short_way(self):
        long_way = mock.Mock(side_effect=AssertionError("the long way"))
        for there, maker in (Tensor, TensorMaker), (current, Maker):
            with (
                mock.patch.object(_places, "maker", maker),
                mock.patch.object(_cuda, "index_search", long_way),
                mock.patch.object(_small, "_take", self.seat),
            ):
                self.search_few(there)

    def search_few(self, there):
        for dtype in np.float32, np.float64, np.uint8:
            x, q = support.points(400, 8, dtype), support.points(30, 8, dtype, seed=1)
            index = kith.Index(x, device="cpu")
            with index._handle as kept:
                kept._device = 0  # it says that it is there
                for asked in q, q[:1], q[:7]:
                    truth = kith.knn(x, asked, 5)
                    for wait in True, False:
                        found = index.search(there(asked), 5, wait=wait)
                        self.assert_same(found, truth)
                        said = enqueued[-1], streams[-1], found.exact
                        self.assertEqual(said, (not wait, 5, True))
                    self.assert_same(index.search(Pretended(asked), 5, wait=False), truth)
                    self.assertEqual((enqueued[-1], streams[-1]), (False, 7))  # another stream
                with self.assertRaisesRegex(ValueError, "columns"):
                    index.search(there(q[:, :5].copy()), 5)
                for long in (there(q[:, ::2]), 5), (there(q), 401), (there(q.astype("i4")), 5):
                    with self.assertRaisesRegex(AssertionError, "the long way"):
                        index.search(*long)

    @staticmethod
    def seat(wanted, take=_small._take):
        """One of the processor for what names the tensor's device."""
        there = wanted == (None, "cuda:0", None)
        return _small._Seat(_context.Settings(device="cpu")) if there else take(wanted)


if __name__ == "__main__":
    unittest.main()
