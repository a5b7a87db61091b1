# SPDX-License-Identifier: Apache-2.0
"""Others that select: NumPy, std::nth_element; on a GPU PyTorch, RAFT's select_k, and for `today` also
FlashInfer, JAX, CuPy. Who is absent is named. (FAISS' selection on a GPU has no entry in Python of its own.)"""
import ctypes
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy

import report_cupy
from bench_gpu import torch

SOURCE = pathlib.Path(__file__).resolve().parent / "nth_element.cpp"


@functools.cache
def nth_library():
    """std::nth_element compiled, or None."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        print("std::nth_element: absent (no C++ compiler)")
        return None
    folder = tempfile.mkdtemp(prefix="kith-nth-")
    path = pathlib.Path(folder, "nth.so")
    try:
        subprocess.run([compiler, "-O3", "-march=native", "-shared", "-fPIC", "-pthread", str(SOURCE), "-o",
                        str(path)], check=True)
        return ctypes.CDLL(str(path))
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"std::nth_element: absent ({error})")
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def nth_selecting(matrix, k, threads):
    values = numpy.empty((len(matrix), k), dtype=numpy.float32)
    ids = numpy.empty((len(matrix), k), dtype=numpy.uint32)
    sizes = [ctypes.c_int64(n) for n in (*matrix.shape, k)]
    given = [ctypes.c_void_p(matrix.ctypes.data), *sizes, ctypes.c_int32(threads),
             ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(ids.ctypes.data)]

    def run():
        nth_library().nth_rows(*given)
        return values, ids

    run.keeps = matrix  # its address alone would not
    return run


def numpy_selecting(matrix, k):
    def run():
        ids = numpy.argpartition(matrix, k - 1, axis=1)[:, :k]
        values = numpy.take_along_axis(matrix, ids, axis=1)
        order = numpy.argsort(values, axis=1, kind="stable")
        return numpy.take_along_axis(values, order, axis=1), numpy.take_along_axis(ids, order, axis=1)

    return run


@functools.cache
def cuvs_select_k():
    """cuVS' select_k of the Python package, or None."""
    try:
        from pylibraft.matrix import select_k  # pylint: disable=import-outside-toplevel
        return select_k
    except ImportError:
        print("cuVS (select_k of pylibraft): absent")
        return None


def of_host(matrix, k, threads):
    """Peers for a matrix of NumPy: (name, threads, function)."""
    found = [("numpy argpartition+sort", 1, numpy_selecting(matrix, k))] if k < matrix.shape[1] else []
    if nth_library() is not None:
        found += [("std::nth_element+sort", n, nth_selecting(matrix, k, n)) for n in sorted({1, threads})]
    return found


def of_device(matrix, k):
    """Peers for a matrix of PyTorch: (name, threads, function)."""
    found = [("torch.topk", 0, lambda: torch.topk(matrix, k, dim=1, largest=False))]
    if (select_k := cuvs_select_k()) is not None:
        found.append(("cuvs select_k", 0, lambda: select_k(matrix, k=k)))
    return found


# ---- Today's, smallest or largest, of a matrix of PyTorch ---------------------------------------------


def torch_today(matrix, k, largest):
    return lambda: torch.topk(matrix, k, dim=1, largest=largest)


def raft_today(matrix, k, largest):
    """Answers of its own order."""
    from pylibraft.matrix import select_k  # pylint: disable=import-outside-toplevel

    if matrix.dtype != torch.float32:
        raise TypeError("float32 alone")
    distances = torch.empty(len(matrix), k, device="cuda")
    ids = torch.empty(len(matrix), k, dtype=torch.int64, device="cuda")

    def run():
        select_k(matrix, k=k, distances=distances, indices=ids, select_min=not largest)
        return distances, ids

    return run


def flashinfer_today(matrix, k, largest, deterministic=False):
    """By flashinfer_top_k.cu, where KITH_FLASHINFER names its library; else by the package."""
    if not largest:
        raise TypeError("the largest alone")
    if matrix.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise TypeError("float32, float16 and bfloat16 alone")
    if not (path := os.environ.get("KITH_FLASHINFER")):
        import flashinfer  # pylint: disable=import-outside-toplevel

        return lambda: flashinfer.top_k(matrix, k, sorted=True, deterministic=deterministic)
    select = getattr(ctypes.CDLL(path), "top_k_" + str(matrix.dtype).rpartition(".")[2])
    values = torch.empty(len(matrix), k, dtype=matrix.dtype, device="cuda")
    ids = torch.empty(len(matrix), k, dtype=torch.int32, device="cuda")
    states = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda")
    given = [ctypes.c_void_p(each.data_ptr()) for each in (matrix, ids, values)]
    sizes = [ctypes.c_uint32(n) for n in (len(matrix), k, matrix.shape[1])]

    def run():
        if error := select(*given, *sizes, ctypes.c_void_p(states.data_ptr()), ctypes.c_bool(deterministic)):
            raise RuntimeError(f"flashinfer: CUDA says {error}")
        return values, ids

    return run


def jax_today(matrix, k, largest):
    """Compiled before it is timed; the smallest as the largest of what is negated within the same program."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax  # pylint: disable=import-outside-toplevel

    if jax.devices()[0].platform not in ("gpu", "cuda"):
        raise ImportError("its build knows no GPU")
    given = jax.dlpack.from_dlpack(matrix)
    select = jax.jit(lambda x: jax.lax.top_k(x if largest else -x, k))

    def run():
        values, ids = jax.block_until_ready(select(given))
        return (values if largest else -values), ids

    return run


def cupy_today(matrix, k, largest):
    """argpartition, then a sort of the k."""
    if not report_cupy.is_present():
        raise ImportError("no module cupy")
    if matrix.dtype == torch.bfloat16:
        raise TypeError("no bfloat16")
    if matrix.numel() > CUPY_MOST:
        raise TypeError(f"places of 64 bits would take {8 * matrix.numel() >> 30} GiB")

    def run():
        values, ids = report_cupy.select(-matrix if largest else matrix, k)
        return (-values if largest else values), ids

    return run


CUPY_MOST = 1 << 28
TODAY = {"torch.topk": torch_today, "raft select_k": raft_today, "flashinfer.top_k": flashinfer_today,
         "flashinfer.top_k deterministic": functools.partial(flashinfer_today, deterministic=True),
         "jax.lax.top_k": jax_today, "cupy.argpartition+sort": cupy_today}


def as_torch(values):
    """What a peer gave, as a matrix of PyTorch."""
    return values if isinstance(values, torch.Tensor) else torch.from_dlpack(values)
