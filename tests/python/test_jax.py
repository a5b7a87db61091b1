# SPDX-License-Identifier: Apache-2.0
"""JAX arrays in host memory: read in place, and answered by JAX arrays. Skipped without JAX."""

import importlib.util
import subprocess
import sys
import unittest

import kith
import numpy as np
import support
from kith._arrays import as_matrix
from kith._places import on_device

# JAX has threads, and other tests fork: its tests are in a process of their own.
IN_OWN_PROCESS = __name__ == "__main__"
if IN_OWN_PROCESS:
    import jax
    import jax.numpy as jnp


@unittest.skipIf(IN_OWN_PROCESS, "this is that process")
class Process(unittest.TestCase):
    @unittest.skipIf(importlib.util.find_spec("jax") is None, "JAX is missing")
    def test_jax(self):
        ran = subprocess.run([sys.executable, "-B", __file__], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)


def on_cpu(array, dtype=None):
    return jax.device_put(jnp.asarray(array, dtype), jax.devices("cpu")[0])


@unittest.skipUnless(IN_OWN_PROCESS, "runs in a process of its own")
class JaxArrays(unittest.TestCase):
    def test_every_type_is_read_in_place_and_the_answer_is_numpys(self):
        for dtype in (
            jnp.float32,
            jnp.float16,
            jnp.bfloat16,
            jnp.uint8,
            jnp.int8,
        ):
            x = on_cpu(np.abs(support.points(120, 6)) * 20, dtype)
            self.assertFalse(on_device(x))
            self.assertEqual(as_matrix(x, "x").struct.data, x.unsafe_buffer_pointer())
            found = kith.knn_graph(x, 4)
            truth = kith.knn_graph(np.asarray(x).astype(np.float64), 4)
            for part, same in zip(found, truth, strict=True):
                self.assertIsInstance(part, jax.Array)
                self.assertEqual(part.devices(), x.devices())
                np.testing.assert_array_equal(np.asarray(part), same.astype(part.dtype))

    def test_every_function_answers_where_the_points_live(self):
        x, q = on_cpu(support.points(200, 5)), on_cpu(support.points(7, 5, seed=1))
        given = np.asarray(x), np.asarray(q)
        for ours, theirs in (
            (kith.knn(x, q, 3), kith.knn(*given, 3)),
            (kith.Index(x).search(q, 3), kith.knn(*given, 3)),
            (
                kith.radius_neighbors(x, q, radius=1.5)[3],
                kith.radius_neighbors(*given, radius=1.5)[3],
            ),
            (kith.select_k(x, 2), kith.select_k(given[0], 2)),
            (
                kith.merge(x, kith.knn_graph(x[:99], 3), kith.knn_graph(x[99:], 3)),
                kith.knn_graph(given[0], 3),
            ),
        ):
            for part, same in zip(ours, theirs, strict=True):
                self.assertIsInstance(part, jax.Array)
                np.testing.assert_array_equal(np.asarray(part), same)
        low = kith.select_k(x.astype(jnp.bfloat16), 2).values
        self.assertEqual(low.dtype, jnp.bfloat16)
        self.assertEqual(kith.recall(kith.knn_graph(x, 3), X=x).recall, 1.0)

    def test_64_bits_are_kept_where_jax_has_them(self):
        with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
            x = on_cpu(support.points(50, 3, np.float64))
            found = kith.knn_graph(x, 2)
            self.assertEqual((found.distances.dtype, found.indices.dtype), (jnp.float64, jnp.int64))
        self.assertEqual(kith.knn_graph(on_cpu(support.points(50, 3)), 2).indices.dtype, jnp.int32)

    def test_out_stays_the_callers_and_a_traced_array_is_refused(self):
        x = on_cpu(support.points(60, 4))
        out = np.empty((60, 3), np.float32), np.empty((60, 3), np.int64)
        self.assertIs(kith.knn_graph(x, 3, out=out).indices, out[1])
        with self.assertRaises(jax.errors.TracerArrayConversionError):
            jax.jit(lambda traced: kith.knn_graph(traced, 3).distances)(x)


if __name__ == "__main__":
    unittest.main()
