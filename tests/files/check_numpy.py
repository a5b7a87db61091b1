#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NumPy, SciPy and h5py read what kith writes, and kith reads what they write.

usage: check_numpy.py LIBKITH.SO        exits with 77 when NumPy or SciPy is missing
"""
import ctypes
import json
import os
import sys
import tempfile

try:
    import numpy as np
    import scipy.sparse
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    import h5py
except ImportError:
    h5py = None


class Matrix(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("rows", ctypes.c_int64),
                ("stride_bytes", ctypes.c_int64), ("cols", ctypes.c_int32),
                ("dtype", ctypes.c_int)]


class Neighbors(ctypes.Structure):
    _fields_ = [("ids", ctypes.c_void_p), ("distances", ctypes.c_void_p),
                ("distances64", ctypes.c_void_p), ("rows", ctypes.c_int64), ("k", ctypes.c_int64),
                ("meta", ctypes.c_void_p)]


class Meta(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("kind", ctypes.c_int), ("metric", ctypes.c_int),
                ("exact", ctypes.c_int32), ("corpus_rows", ctypes.c_int64),
                ("recall", ctypes.c_double), ("recall_at", ctypes.c_int64),
                ("first_row", ctypes.c_int64), ("points_rows", ctypes.c_int64),
                ("points_cols", ctypes.c_int32), ("points_dtype", ctypes.c_int),
                ("points_checksum", ctypes.c_uint64)]


DTYPES = {1: np.float32, 2: np.float64, 3: np.float16, 5: np.uint8, 6: np.int8}
NPZ, CSR = 1, 2

kith = ctypes.CDLL(sys.argv[1])
kith.kith_ctx_detail.restype = ctypes.c_char_p
kith.kith_points_matrix.restype = ctypes.POINTER(Matrix)
kith.kith_result_neighbors.restype = ctypes.POINTER(Neighbors)
context = ctypes.c_void_p()
assert kith.kith_ctx_create(None, ctypes.byref(context)) == 0


def call(function, *arguments):
    if getattr(kith, function)(context, *arguments) != 0:
        raise RuntimeError(kith.kith_ctx_detail(context).decode())


def read_points(path):
    points = ctypes.c_void_p()
    call("kith_points_open", path.encode(), None, ctypes.byref(points))
    m = kith.kith_points_matrix(points).contents
    dtype = np.dtype(DTYPES[m.dtype])
    raw = ctypes.string_at(m.data, (m.rows - 1) * m.stride_bytes + m.cols * dtype.itemsize)
    array = np.ndarray((m.rows, m.cols), dtype, raw, strides=(m.stride_bytes, dtype.itemsize)).copy()
    kith.kith_points_free(points)
    return array


def write_points(path, array):
    dtype = next(code for code, kind in DTYPES.items() if array.dtype == kind)
    m = Matrix(array.ctypes.data, array.shape[0], array.strides[0], array.shape[1], dtype)
    call("kith_points_save", path.encode(), ctypes.byref(m))


def write_result(path, ids, distances, kind=3, form=0, **fields):
    n = Neighbors(ids.ctypes.data, distances.ctypes.data, None, *ids.shape)
    meta = Meta(ctypes.sizeof(Meta), kind, recall=-1.0, **fields)
    call("kith_result_save", path.encode(), form, ctypes.byref(n), ctypes.byref(meta))


def read_result(path):
    result = ctypes.c_void_p()
    call("kith_result_open", path.encode(), ctypes.byref(result))
    n = kith.kith_result_neighbors(result).contents
    meta = Meta.from_address(n.meta)
    count = n.rows * n.k
    ids = np.frombuffer(ctypes.string_at(n.ids, 4 * count), np.uint32).reshape(n.rows, n.k)
    distances = None
    if n.distances:
        distances = np.frombuffer(ctypes.string_at(n.distances, 4 * count), np.float32)
        distances = distances.reshape(n.rows, n.k)
    about = (meta.kind, meta.metric, meta.exact, meta.corpus_rows)
    kith.kith_result_free(result)
    return ids, distances, about


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
    assert a.tobytes() == b.tobytes()


def refused(path, text):
    try:
        read_points(path)
    except RuntimeError as error:
        assert str(error).startswith(path + ": ") and text in str(error), str(error)
    else:
        raise AssertionError(f"{path} was not refused")


random = np.random.default_rng(1)
samples = {kind: (random.integers(0, 100, (37, 5)) * 1.0).astype(kind) for kind in DTYPES.values()}
ids = random.integers(0, 37, (37, 4)).astype(np.uint32)
distances = np.sort(random.random((37, 4)).astype(np.float32), axis=1)


def check_npy(path):
    for sample in samples.values():
        np.save(path, sample)
        same(read_points(path), sample)
        write_points(path, sample)
        same(np.load(path), sample)
        same(np.load(path, mmap_mode="r"), sample)
    for kind in "i2 u2 i4 u4 i8 u8 ?".split():
        np.save(path, samples[np.float64].astype(kind))
        back = read_points(path)
        assert (back == samples[np.float64].astype(kind)).all()
        assert back.dtype == (np.uint8 if kind == "?" else np.float64)
    for version in (1, 0), (2, 0), (3, 0):
        with open(path, "wb") as file:
            np.lib.format.write_array(file, samples[np.float32], version=version)
        same(read_points(path), samples[np.float32])
    np.save(path, np.asfortranarray(samples[np.float32]))
    same(read_points(path), samples[np.float32])
    np.save(path, samples[np.float32].astype(">f4"))
    same(read_points(path), samples[np.float32])
    np.save(path, np.asfortranarray(samples[np.float64].astype(">f8")))
    same(read_points(path), samples[np.float64])
    np.save(path, np.zeros((0, 5), np.float32))
    refused(path, "holds 0 rows")
    np.save(path, np.array([{}], object), allow_pickle=True)
    refused(path, "its header")


def check_text(path):
    values = random.standard_normal((50, 3)) * 10.0 ** random.integers(-300, 300, (50, 3))
    np.savetxt(path, values, delimiter=",", header="x,y,z")
    assert (read_points(path) == np.loadtxt(path, delimiter=",")).all()
    write_points(path, values)
    same(np.loadtxt(path, delimiter=","), values)


def check_npz(path):
    write_result(path, ids, distances, kind=2, metric=1, exact=1, points_rows=37, points_cols=5, points_dtype=5,
                 points_checksum=0x5f3a0c1d92b4e677)
    with np.load(path) as archive:
        assert sorted(archive.files) == ["distances", "ids", "meta"]
        same(archive["ids"], ids.astype(np.int32))
        same(archive["distances"], distances)
        assert json.loads(str(archive["meta"])) == {"kind": "graph", "metric": "euclidean", "k": 4,
                                                    "exact": True, "corpus_rows": 37, "points": {
                                                        "rows": 37, "cols": 5, "dtype": "uint8",
                                                        "checksum": "5f3a0c1d92b4e677"}}
        assert archive["meta"].shape == ()
    for save in np.savez, np.savez_compressed:
        for kind in np.int32, np.int64, np.uint32:
            save(path, ids=ids.astype(kind), distances=distances,
                 meta=json.dumps({"metric": "cosine", "exact": True, "k": 4, "corpus_rows": 37}))
            back, far, about = read_result(path)
            same(back, ids)
            same(far, distances)
            assert about == (3, 4, 0, 37)  # exact, but of unknown points
    large = ids.copy()
    large[3, 2] = 2 ** 32 - 2
    write_result(path, large, distances)
    with np.load(path) as archive:
        same(archive["ids"], large.astype(np.int64))
    large[3, 2] = 2 ** 32 - 1
    write_result(path, large, distances)
    with np.load(path) as archive:
        assert archive["ids"][3, 2] == -1


def check_csr(path):
    write_result(path, ids, distances, kind=3, form=CSR, corpus_rows=50)
    matrix = scipy.sparse.load_npz(path)
    assert matrix.format == "csr" and matrix.shape == (37, 50)
    same(matrix.indices, ids.astype(np.int32).ravel())
    same(matrix.data, distances.ravel())
    for compressed in False, True:
        scipy.sparse.save_npz(path, matrix, compressed=compressed)
        back, far, about = read_result(path)
        same(back, ids)
        same(far, distances)
        assert about[3] == 50
    scipy.sparse.save_npz(path, matrix.tocsc())
    try:
        read_result(path)
    except RuntimeError as error:
        assert "tocsr" in str(error)
    else:
        raise AssertionError("a CSC matrix was not refused")


def check_plain(folder):
    write_result(f"{folder}/a.ibin", ids, distances)
    raw = np.fromfile(f"{folder}/a.ibin", np.int32)
    assert list(raw[:2]) == [37, 4] and (raw[2:] == ids.ravel()).all()
    write_result(f"{folder}/a.ivecs", ids, distances)
    raw = np.fromfile(f"{folder}/a.ivecs", np.int32).reshape(37, 5)
    assert (raw[:, 0] == 4).all() and (raw[:, 1:] == ids).all()
    write_result(f"{folder}/a.knn", ids, distances)
    raw = np.fromfile(f"{folder}/a.knn", np.uint32)
    assert list(raw[:2]) == [37, 4] and (raw[2:150] == ids.ravel()).all()
    same(raw[150:].view(np.float32), distances.ravel())


def check_hdf5(path):
    if h5py is None:
        print("  HDF5: skipped, h5py is missing")
        return
    with h5py.File(path, "w") as file:
        file["train"] = samples[np.float32]
        file.create_dataset("chunked", data=samples[np.float64], chunks=(8, 5), compression="gzip")
        for kind in "f2 i1 u1 i4 i8 u2 >f4 >i4 >f8".split():
            file[kind] = samples[np.float64].astype(kind)
        file["flat"] = np.zeros(5)
        file["names"] = np.array([["a", "b"]], "S1")
    try:
        same(read_points(path + ":train"), samples[np.float32])
    except RuntimeError as error:
        assert "libkith_hdf5" in str(error), str(error)
        print(f"  HDF5: skipped, {error}")
        return
    same(read_points(path + ":chunked"), samples[np.float64])
    for kind in "f2 i1 u1 i4 i8 u2 >f4 >i4 >f8".split():
        back = read_points(f"{path}:{kind}")
        assert (back == samples[np.float64]).all()
        assert back.dtype == {"f2": np.float16, "i1": np.int8, "u1": np.uint8,
                              ">f4": np.float32}.get(kind, np.float64)
    for name, text in (("flat", "1 axes"), ("names", "no integers or floats"),
                       ("absent", "has no dataset 'absent' (there are:"), ("", "which dataset?")):
        try:
            read_points(path + (":" + name if name else ""))
        except RuntimeError as error:
            assert text in str(error) and str(error).startswith(path + ": "), str(error)
        else:
            raise AssertionError(name)


with tempfile.TemporaryDirectory() as place:
    for check, name in ((check_npy, "a.npy"), (check_text, "a.csv"), (check_npz, "a.npz"),
                        (check_csr, "c.npz"), (check_plain, ""), (check_hdf5, "a.hdf5")):
        check(os.path.join(place, name) if name else place)
        print(f"{check.__name__[6:]}: NumPy and kith agree")
