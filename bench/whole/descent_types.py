# SPDX-License-Identifier: Apache-2.0
"""Section 13 of kith.h for ctypes."""
import ctypes

from bench_gpu import SearchParams

DESCENT = 3  # KITH_METHOD_DESCENT


class DescentParams(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("metric", ctypes.c_int), ("k", ctypes.c_int64),
                ("flags", ctypes.c_uint32), ("start", ctypes.c_int), ("recall", ctypes.c_double),
                ("recall_at", ctypes.c_int64), ("sample", ctypes.c_int64), ("seed", ctypes.c_uint64),
                ("rounds", ctypes.c_int32), ("candidates", ctypes.c_int32), ("list", ctypes.c_int32),
                ("all_updates", ctypes.c_int32), ("delta", ctypes.c_double),
                ("start_share", ctypes.c_double), ("init", ctypes.c_void_p), ("custom", ctypes.c_void_p),
                ("custom_arg", ctypes.c_void_p)]


class Recall(ctypes.Structure):
    _fields_ = [("recall", ctypes.c_double), ("low", ctypes.c_double), ("high", ctypes.c_double),
                ("equal_ids", ctypes.c_double), ("distance_ratio", ctypes.c_double),
                ("rows", ctypes.c_int64), ("at", ctypes.c_int64)]


class DescentRound(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int32), ("reserved", ctypes.c_int32), ("updates", ctypes.c_int64),
                ("evaluations", ctypes.c_double), ("phi", ctypes.c_double), ("recall", ctypes.c_double),
                ("seconds", ctypes.c_double)]


class DescentReport(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("start", ctypes.c_int), ("exact", ctypes.c_int32),
                ("reached", ctypes.c_int32), ("rounds", ctypes.c_int32), ("round_count", ctypes.c_int32),
                ("list", ctypes.c_int32), ("candidates", ctypes.c_int32), ("evaluations", ctypes.c_double),
                ("seconds_start", ctypes.c_double), ("seconds_rounds", ctypes.c_double), ("recall", Recall),
                ("round", DescentRound * 128)]


def search_of(params, report):
    """kith_search_params of a descent that is like params."""
    same = {name: getattr(params, name) for name in ("metric", "k", "flags", "recall", "recall_at", "seed")}
    search = SearchParams(struct_size=ctypes.sizeof(SearchParams), method=DESCENT, descent=ctypes.addressof(params),
                          descent_report=ctypes.addressof(report), **same)
    search.keep = params, report  # for as long as the parameters live
    return search
