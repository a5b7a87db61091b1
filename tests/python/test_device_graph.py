# SPDX-License-Identifier: Apache-2.0
"""An index by graph of arrays on a GPU, as test_device_arrays.py pretends that there is one."""

import unittest

import kith
import numpy as np
import test_device_arrays as there
from test_device_arrays import Maker, Pretended


@there.pretended
class DeviceGraph(there.OnDevice):
    def test_a_graph_is_where_its_points_are(self):
        asked, graph = Pretended(self.q), kith.knn_graph(self.x, 20)
        arrays = Pretended(np.asarray(graph[0])), Pretended(np.asarray(graph[1]))
        some, of = np.arange(400) % 3 > 0, np.arange(30) % 4
        for made, same in (
            ({"k": 20}, {"k": 20}),
            ({"graph": graph}, {"graph": graph}),
            ({"graph": arrays}, {"graph": graph}),
        ):
            Maker.copies.clear()
            index = kith.Index(self.on_gpu, method="graph", device="cpu", **made)
            self.assertNotIn(self.x.nbytes, Maker.copies)
            Maker.copies.clear()
            truth = kith.Index(self.x, method="graph", device="cpu", **same)
            for options in (
                {"random_state": 1},
                {"width": 7},
                {"exclude": np.arange(30)},
                {"allow": some},
                {"groups": np.arange(400) % 4, "query_groups": of},
            ):
                found = index.search(asked, 3, **options)
                self.assert_same(found, truth.search(self.q, 3, **options))
                filtered = "allow" in options or "groups" in options
                self.assertIs(found.exact, None if filtered else False)
            self.assertEqual((there.streams[-1], Maker.copies), (7, []))
            index.width = truth.width = 9
            self.assert_same(index.search(asked, 3), truth.search(self.q, 3))
            self.assertEqual(index.tune(asked, 3, 0.9).recall, truth.tune(self.q, 3, 0.9).recall)
            self.assertEqual(index.width, truth.width)


if __name__ == "__main__":
    unittest.main()
