# SPDX-License-Identifier: Apache-2.0
"""Finds libkith.so, opens it, and says how its functions are called."""

from __future__ import annotations

import ctypes as c
import os
import pathlib

from . import _structs as s


def _open() -> c.CDLL:
    """The library that KITH_LIBRARY names, else the one of this package, else the system's."""
    beside = pathlib.Path(__file__).with_name("libkith.so")
    path = os.environ.get("KITH_LIBRARY") or (str(beside) if beside.exists() else "libkith.so.1")
    try:
        return c.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"kith's library cannot be opened: {error} (install the package again, or let "
            "KITH_LIBRARY name libkith.so)"
        ) from error


_P = c.c_void_p
_SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "kith_version": (c.c_char_p, ()),
    "kith_commit": (c.c_char_p, ()),
    "kith_status_text": (c.c_char_p, (c.c_int,)),
    "kith_ctx_create": (c.c_int, (_P, _P)),
    "kith_ctx_free": (None, (_P,)),
    "kith_ctx_detail": (c.c_char_p, (_P,)),
    "kith_metric_parse": (c.c_int, (c.c_char_p,)),
    "kith_metric_name": (c.c_char_p, (c.c_int,)),
    "kith_knn_exact": (c.c_int, (_P, _P, _P, _P, _P)),
    "kith_graph_exact": (c.c_int, (_P, _P, _P, _P)),
    "kith_graph_descent": (c.c_int, (_P, _P, _P, _P, _P)),
    "kith_graph_merge": (c.c_int, (_P, _P, c.c_int64, _P, _P, _P, _P, _P)),
    "kith_fingerprint_make": (c.c_int, (_P, _P, _P)),
    "kith_graph_verify": (c.c_int, (_P, _P, _P, _P, _P, _P)),
    "kith_graph_merge_estimate": (c.c_int, (_P, _P, c.c_int64, _P, _P)),
    "kith_graph_merge_exact": (c.c_int, (_P, _P, c.c_int64, _P, _P, _P, _P)),
    "kith_graph_search": (c.c_int, (_P, _P, _P, _P, _P, _P, _P)),
    "kith_plan_exact": (c.c_int, (_P, _P, _P, _P, _P)),
    "kith_plan_descent": (c.c_int, (_P, _P, _P, _P, _P)),
    "kith_walks_create": (c.c_int, (_P, _P, _P, _P, _P)),
    "kith_walks_search": (c.c_int, (_P, _P, _P, _P, _P, _P)),
    "kith_walks_bytes": (c.c_uint64, (_P,)),
    "kith_walks_free": (None, (_P,)),
    "kith_corpus_create_with": (c.c_int, (_P, _P, _P, _P)),
    "kith_corpus_search": (c.c_int, (_P, _P, _P, _P, _P)),
    "kith_corpus_add": (c.c_int, (_P, _P, _P)),
    "kith_corpus_remove": (c.c_int, (_P, _P, _P, c.c_int64)),
    "kith_corpus_radius": (c.c_int, (_P, _P, _P, _P, _P)),
    "kith_corpus_save": (c.c_int, (_P, _P, c.c_char_p)),
    "kith_corpus_open": (c.c_int, (_P, c.c_char_p, _P)),
    "kith_corpus_plan": (c.c_int, (_P, _P, _P, _P, _P)),
    "kith_corpus_points": (c.POINTER(s.Matrix), (_P,)),
    "kith_corpus_metric": (c.c_int, (_P,)),
    "kith_corpus_free": (None, (_P,)),
    "kith_radius": (c.c_int, (_P, _P, _P, _P, _P)),
    "kith_ranges_rows": (c.c_int64, (_P,)),
    "kith_ranges_offsets": (_P, (_P,)),
    "kith_ranges_ids": (_P, (_P,)),
    "kith_ranges_distances": (_P, (_P,)),
    "kith_ranges_distances64": (_P, (_P,)),
    "kith_ranges_free": (None, (_P,)),
    "kith_recall_measure": (c.c_int, (_P, _P, _P, c.c_int, c.c_int64, _P)),
    "kith_recall_estimate": (
        c.c_int,
        (_P, _P, _P, c.c_int, c.c_int64, c.c_int64, c.c_uint64, _P),
    ),
    "kith_result_save": (c.c_int, (_P, c.c_char_p, c.c_int, _P, _P)),
    "kith_result_open": (c.c_int, (_P, c.c_char_p, _P)),
    "kith_result_neighbors": (c.POINTER(s.NeighborTable), (_P,)),
    "kith_result_get_meta": (c.POINTER(s.ResultMeta), (_P,)),
    "kith_result_free": (None, (_P,)),
    "kith_format_parse": (c.c_int, (c.c_char_p,)),
    "kith_select": (c.c_int, (_P, _P, _P, _P)),
    "kith_select_method_name": (c.c_char_p, (c.c_int32,)),
    "kith_select_method_parse": (c.c_int32, (c.c_char_p,)),
    "kith_predict": (c.c_int, (_P, _P, _P, c.c_int64, _P, _P)),
    "kith_device_count": (c.c_int32, ()),
    "kith_device_get": (c.c_int, (c.c_int32, _P)),
    "kith_cuda_knn_exact": (c.c_int, (_P, _P, _P, _P, _P, _P)),
    "kith_cuda_graph_exact": (c.c_int, (_P, _P, _P, _P, _P)),
    "kith_cuda_graph_descent": (c.c_int, (_P, _P, _P, _P, _P, _P)),
    "kith_cuda_select": (c.c_int, (_P, _P, _P, _P, _P)),
}

lib = _open()
for _name, (_result, _arguments) in _SIGNATURES.items():
    _function = getattr(lib, _name)
    _function.restype = _result
    _function.argtypes = _arguments

version: str = lib.kith_version().decode()
