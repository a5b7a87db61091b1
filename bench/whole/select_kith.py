# SPDX-License-Identifier: Apache-2.0
"""kith_select for the benchmark of selection: matrices of NumPy on the host, of PyTorch on a GPU."""
import ctypes
import sys

import numpy

from bench_gpu import CtxParams, torch

METHODS = 9  # KITH_SELECT_METHOD_COUNT
BUFFERS = ["none", "plain", "full", "sorted"]
LARGEST, UNSORTED, ALIGNED, MERGE_PATH = 1, 2, 4, 8
DTYPES = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4}


class Values(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("ids", ctypes.c_void_p), ("rows", ctypes.c_int64),
                ("cols", ctypes.c_int64), ("stride_bytes", ctypes.c_int64),
                ("ids_stride_bytes", ctypes.c_int64), ("dtype", ctypes.c_int), ("reserved", ctypes.c_int32)]


class Selection(ctypes.Structure):
    _fields_ = [("values", ctypes.c_void_p), ("ids", ctypes.c_void_p), ("kth", ctypes.c_void_p)]


class SelectParams(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("method", ctypes.c_int), ("k", ctypes.c_int64),
                ("flags", ctypes.c_uint32), ("buffer", ctypes.c_int), ("group", ctypes.c_int32),
                ("sample", ctypes.c_int32), ("level", ctypes.c_int32), ("buffer_size", ctypes.c_int32)]


class Kith:
    """libkith, and a context for each number of threads; the side is "cpu" or "cuda"."""

    def __init__(self, build, side):
        self.lib = ctypes.CDLL(str(build / "libkith.so"))
        for name in ("kith_ctx_detail", "kith_commit", "kith_select_method_name"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        self.side = side
        self.contexts = {}

    def commit(self):
        return self.lib.kith_commit().decode()

    def context(self, threads):
        if threads not in self.contexts:
            params = CtxParams(struct_size=ctypes.sizeof(CtxParams), threads=threads,
                               device=self.side.encode())
            ctx = ctypes.c_void_p()
            if self.lib.kith_ctx_create(ctypes.byref(params), ctypes.byref(ctx)) != 0:
                sys.exit("bench_select: no context")
            self.contexts[threads] = ctx
        return self.contexts[threads]

    def threads(self):
        get = self.lib.kith_ctx_get_params
        get.restype = ctypes.POINTER(CtxParams)
        return get(self.context(0)).contents.threads

    def selecting(self, matrix, k, threads=0, kth=False, method="auto", buffer="none", group=0, sample=0,
                  aligned=False, unsorted=False, level=0, buffer_size=0, path=False, largest=False):
        """A function that selects from the matrix; what it returns are the answers, (values, ids) or
        the k-th values, in memory that is the same each time."""
        values = Values(data=address(matrix), rows=matrix.shape[0], cols=matrix.shape[1],
                        dtype=DTYPES[str(matrix.dtype).removeprefix("torch.")])
        flags = (ALIGNED if aligned else 0) | (UNSORTED if unsorted else 0) | (MERGE_PATH if path else 0)
        flags |= LARGEST if largest else 0
        number = next(i for i in range(METHODS) if self.lib.kith_select_method_name(i) == method.encode())
        params = SelectParams(ctypes.sizeof(SelectParams), number, k, flags,
                              BUFFERS.index(buffer), group, sample, level, buffer_size)
        ctx = self.context(threads)
        if kth:
            found = room_like(matrix, (matrix.shape[0],))
            out = Selection(None, None, address(found))
        else:
            found = (room_like(matrix, (matrix.shape[0], k)), room_like(matrix, (matrix.shape[0], k), True))
            out = Selection(address(found[0]), address(found[1]), None)
        given = [ctypes.byref(values), ctypes.byref(params), ctypes.byref(out)]
        call = self.lib.kith_select if self.side == "cpu" else self.lib.kith_cuda_select
        if self.side == "cuda":
            given.append(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

        def run():
            if call(ctx, *given) != 0:
                sys.exit("bench_select: " + self.lib.kith_ctx_detail(ctx).decode())
            return found

        run.keeps = matrix  # its address alone would not
        return run


def address(matrix):
    return matrix.ctypes.data if isinstance(matrix, numpy.ndarray) else matrix.data_ptr()


def room_like(matrix, shape, ids=False):
    if isinstance(matrix, numpy.ndarray):
        return numpy.zeros(shape, dtype=numpy.uint32 if ids else matrix.dtype)
    return torch.zeros(shape, dtype=torch.int32 if ids else matrix.dtype, device=matrix.device)
