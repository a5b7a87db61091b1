#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the Python package on a library that was built, without installing it.

usage: run.py LIBKITH.SO [TEST...]        exits with 77 when NumPy is missing
"""

import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent

try:
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

package = str(HERE.parent.parent / "python")
os.environ["KITH_LIBRARY"] = str(pathlib.Path(sys.argv[1]).resolve())
os.environ["PYTHONPATH"] = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
sys.path[:0] = [package, str(HERE)]
loader = unittest.TestLoader()
if len(sys.argv) > 2:
    tests = loader.loadTestsFromNames(sys.argv[2:])
else:
    tests = loader.discover(str(HERE))
sys.exit(not unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful())
