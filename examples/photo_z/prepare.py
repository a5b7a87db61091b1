#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PHAT0 from the two files of the R package CosmoPhotoz to what kith reads.

    pip install rdata
    prepare.py PHAT0test.RData PHAT0train.RData FOLDER

Writes the magnitudes and the redshifts of both, float32, as .fbin: uint32 rows, uint32 columns, rows.
"""
import hashlib
import pathlib
import sys

import numpy
import rdata


def write_fbin(path, frame):
    values = numpy.ascontiguousarray(frame.to_numpy(), dtype="<f4")
    content = numpy.array(values.shape, dtype="<u4").tobytes() + values.tobytes()
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    print(f"{digest[:16]}  {path.name}  {values.shape[0]} x {values.shape[1]}")


def main():
    folder = pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for file, name in ((sys.argv[1], "catalogue"), (sys.argv[2], "query")):
        (frame,) = rdata.read_rda(file).values()
        write_fbin(folder / f"{name}.fbin", frame.drop(columns="redshift"))
        write_fbin(folder / f"{name}_redshift.fbin", frame[["redshift"]])


if __name__ == "__main__":
    main()
