#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the Python package on a library that was built, without installing it.

usage: run.py LIBKITH.SO|--installed [TEST...]        exits with 77 when NumPy is missing

--installed: on the package that this Python has, for example out of a wheel.
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

sys.path.insert(0, str(HERE))
if sys.argv[1] != "--installed":
    package = str(HERE.parent.parent / "python")
    library = pathlib.Path(sys.argv[1]).resolve()
    os.environ["KITH_LIBRARY"] = str(library)
    if library.with_name("kith").is_file():
        os.environ.setdefault("KITH_PROGRAM", str(library.with_name("kith")))
    os.environ["PYTHONPATH"] = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    sys.path.insert(0, package)
loader = unittest.TestLoader()
if len(sys.argv) > 2:
    tests = loader.loadTestsFromNames(sys.argv[2:])
else:
    tests = loader.discover(str(HERE))
sys.exit(not unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful())
