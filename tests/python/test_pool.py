# SPDX-License-Identifier: Apache-2.0
"""Device memory of the caller's, on the reference device; check_cuda.py has PyTorch's on a GPU."""

import gc
import os
import pathlib
import subprocess
import sys
import unittest

import kith
import numpy as np
import support
from kith import _pool
from kith._library import lib

REFERENCE = pathlib.Path(lib._name).parent / "stubs" / "libkith_reference.so"
ON_REFERENCE = "KITH_TEST_POOL"


def same(found, truth):
    for part, other in zip(found, truth):
        np.testing.assert_array_equal(part, other)


class Pool:
    """Blocks, who has them, and how many there were."""

    def __init__(self, most=1 << 40):
        self.blocks, self.made, self.most, self.broken = {}, 0, most, False

    def allocate(self, device, size):
        if self.broken:
            raise KeyError("no such pool")
        if sum(len(block) for block, _ in self.blocks.values()) + size > self.most:
            raise MemoryError
        block = np.empty(size + 256, np.uint8)
        at = -(-block.ctypes.data // 256) * 256
        assert device == 0
        self.blocks[at] = block, size
        self.made += 1
        return at

    def release(self, device, address, size):
        block, given = self.blocks.pop(address)
        assert (device, size) == (0, given)
        block[:] = 0xEE  # who still reads it finds out

    def pair(self):
        return self.allocate, self.release


@unittest.skipUnless(os.environ.get(ON_REFERENCE), "has a process of its own")
class OnReference(unittest.TestCase):
    def setUp(self):
        self.x, self.q = support.points(3000, 24), support.points(50, 24, seed=1)
        self.addCleanup(kith.set_device_allocator, None)

    def test_answers_and_blocks(self):
        truth = kith.knn(self.x, self.q, 7, device="cpu")
        pool = Pool()
        kith.set_device_allocator(pool.pair())
        same(kith.knn(self.x, self.q, 7, device="cuda"), truth)
        self.assertGreater(pool.made, 0)
        self.assertEqual(pool.blocks, {})
        made = pool.made
        kith.set_device_allocator(None)
        same(kith.knn(self.x, self.q, 7, device="cuda"), truth)
        self.assertEqual(pool.made, made)

    def test_an_index_keeps_to_its_memory(self):
        truth = kith.knn(self.x, self.q, 7, device="cpu")
        pool = Pool()
        kith.set_device_allocator(pool.pair())
        index = kith.Index(self.x, method="exact", device="cuda")
        kept = len(pool.blocks)
        self.assertGreater(kept, 0)
        kith.set_device_allocator(None)
        same(index.search(self.q, 7), truth)
        self.assertEqual(len(pool.blocks), kept)
        del index
        gc.collect()
        kith.set_device_allocator(pool.pair())
        kith.knn(self.x, self.q, 7, device="cuda")
        self.assertEqual(pool.blocks, {})

    def test_too_little(self):
        pool = Pool(most=1000)
        kith.set_device_allocator(pool.pair())
        with self.assertRaises(MemoryError):
            kith.knn(self.x, self.q, 7, device="cuda")
        self.assertEqual(pool.blocks, {})
        pool.most = 1 << 40
        same(
            kith.knn(self.x, self.q, 7, device="cuda"), kith.knn(self.x, self.q, 7, device="cpu")
        )

    def test_what_a_function_raises_goes_on(self):
        pool = Pool()
        kith.set_device_allocator(pool.pair())
        pool.broken = True
        with self.assertRaisesRegex(KeyError, "no such pool"):
            kith.knn(self.x, self.q, 7, device="cuda")
        pool.broken = False
        kith.knn(self.x, self.q, 7, device="cuda")
        self.assertEqual(pool.blocks, {})
        kith.set_device_allocator((lambda device, size: "here", pool.release))
        with self.assertRaises(TypeError):
            kith.knn(self.x, self.q, 7, device="cuda")


class DeviceAllocator(unittest.TestCase):
    def test_wrong_ones(self):
        for wrong in "cupy", 1, (print,), (print, 1), [print, print]:
            with self.assertRaisesRegex(ValueError, "must be 'torch', a pair of functions"):
                kith.set_device_allocator(wrong)
        self.assertIsNone(_pool.current)

    @unittest.skipUnless(REFERENCE.exists(), "the reference device was not built")
    def test_on_the_reference_device(self):
        known = {**os.environ, "KITH_CUDA_MODULE": str(REFERENCE), ON_REFERENCE: "1"}
        known["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        found = subprocess.run(
            [sys.executable, "-B", "-m", "unittest", f"{__name__}.OnReference"],
            cwd=pathlib.Path(__file__).parent,
            env=known,
            capture_output=True,
            text=True,
        )
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertIn("Ran 4 tests", found.stderr)


if __name__ == "__main__":
    unittest.main()
