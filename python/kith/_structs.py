# SPDX-License-Identifier: Apache-2.0
"""The structs and constants of include/kith, as ctypes knows them (tests/python compares them)."""

from __future__ import annotations

import ctypes as c
from numbers import Integral
from typing import Any, TypeVar

from ._wording import in_python

ID_NONE = 0xFFFFFFFF
INCLUDE_SELF = 1
SELECT_LARGEST = 1
SELECT_UNSORTED = 2
METHOD_TREE = 2
METHOD_DESCENT = 3
KIND_GRAPH = 2
KIND_RESULT = 3
UNKNOWN = 0
CERTIFIED = 1
APPROXIMATE = 2

PROGRESS = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_char_p, c.c_double, c.c_double)
DISTANCE = c.CFUNCTYPE(c.c_double, c.c_void_p, c.c_void_p, c.c_void_p, c.c_int32)

_Struct = TypeVar("_Struct", bound=c.Structure)


def sized(kind: type[_Struct], /, **fields: Any) -> _Struct:
    """A struct whose first field says how large it is; what is not given is 0, "the default"."""
    made = kind(c.sizeof(kind), **fields)
    for name, value in fields.items():  # ctypes drops the bits of a number that do not fit
        if isinstance(value, Integral) and getattr(made, name) != value:
            raise ValueError(in_python(f"{name} is {value}, which is out of range"))
    return made


class CtxParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("threads", c.c_int32),
        ("memory_limit", c.c_uint64),
        ("isa", c.c_char_p),
        ("progress", PROGRESS),
        ("progress_arg", c.c_void_p),
        ("log", c.c_void_p),
        ("log_arg", c.c_void_p),
        ("allocate", c.c_void_p),
        ("release", c.c_void_p),
        ("allocate_arg", c.c_void_p),
        ("device", c.c_char_p),
        ("gpu_memory_limit", c.c_uint64),
    ]


class Matrix(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("rows", c.c_int64),
        ("stride_bytes", c.c_int64),
        ("cols", c.c_int32),
        ("dtype", c.c_int),
    ]


class NeighborTable(c.Structure):
    _fields_ = [
        ("ids", c.c_void_p),
        ("distances", c.c_void_p),
        ("distances64", c.c_void_p),
        ("rows", c.c_int64),
        ("k", c.c_int64),
        ("meta", c.c_void_p),
    ]


class SearchParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("metric", c.c_int),
        ("k", c.c_int64),
        ("flags", c.c_uint32),
        ("reserved", c.c_uint32),
        ("exclude", c.c_void_p),
        ("custom", DISTANCE),
        ("custom_arg", c.c_void_p),
        ("pipeline", c.c_int),
        ("select", c.c_int),
        ("method", c.c_int),
        ("sample", c.c_int32),
        ("tree_height", c.c_int32),
        ("radius", c.c_double),
    ]


class CorpusParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("metric", c.c_int),
        ("method", c.c_int),
        ("tree_height", c.c_int32),
    ]


class RadiusParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("metric", c.c_int),
        ("radius", c.c_double),
        ("radii", c.c_void_p),
        ("flags", c.c_uint32),
        ("count_only", c.c_uint32),
        ("custom", DISTANCE),
        ("custom_arg", c.c_void_p),
        ("method", c.c_int),
    ]


class RecallValues(c.Structure):
    _fields_ = [
        ("recall", c.c_double),
        ("low", c.c_double),
        ("high", c.c_double),
        ("equal_ids", c.c_double),
        ("distance_ratio", c.c_double),
        ("rows", c.c_int64),
        ("at", c.c_int64),
    ]


class DescentParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("metric", c.c_int),
        ("k", c.c_int64),
        ("flags", c.c_uint32),
        ("start", c.c_int),
        ("recall", c.c_double),
        ("recall_at", c.c_int64),
        ("sample", c.c_int64),
        ("seed", c.c_uint64),
        ("rounds", c.c_int32),
        ("candidates", c.c_int32),
        ("list", c.c_int32),
        ("all_updates", c.c_int32),
        ("delta", c.c_double),
        ("start_share", c.c_double),
        ("init", c.c_void_p),
        ("custom", DISTANCE),
        ("custom_arg", c.c_void_p),
    ]


class DescentEstimate(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("pays", c.c_int32),
        ("seconds_exact", c.c_double),
        ("seconds_descent", c.c_double),
    ]


class GraphSearchParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("metric", c.c_int),
        ("k", c.c_int64),
        ("width", c.c_int64),
        ("recall", c.c_double),
        ("recall_at", c.c_int64),
        ("sample", c.c_int64),
        ("seed", c.c_uint64),
        ("custom", DISTANCE),
        ("custom_arg", c.c_void_p),
        ("meets", c.c_int64),
    ]


class WalksParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("metric", c.c_int),
        ("queries", c.c_int),
        ("reserved", c.c_int32),
        ("custom", DISTANCE),
        ("custom_arg", c.c_void_p),
    ]


class Values(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("ids", c.c_void_p),
        ("rows", c.c_int64),
        ("cols", c.c_int64),
        ("stride_bytes", c.c_int64),
        ("ids_stride_bytes", c.c_int64),
        ("dtype", c.c_int),
        ("reserved", c.c_int32),
    ]


class SelectParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("method", c.c_int),
        ("k", c.c_int64),
        ("flags", c.c_uint32),
        ("buffer", c.c_int),
        ("group", c.c_int32),
        ("sample", c.c_int32),
    ]


class SelectionTable(c.Structure):
    _fields_ = [("values", c.c_void_p), ("ids", c.c_void_p)]


class Fingerprint(c.Structure):
    _fields_ = [
        ("rows", c.c_int64),
        ("cols", c.c_int32),
        ("dtype", c.c_int),
        ("checksum", c.c_uint64),
    ]


class ResultMeta(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("kind", c.c_int),
        ("metric", c.c_int),
        ("exact", c.c_int),
        ("corpus_rows", c.c_int64),
        ("recall", c.c_double),
        ("recall_at", c.c_int64),
        ("first_row", c.c_int64),
        ("points", Fingerprint),
    ]


class Plan(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("threads", c.c_int32),
        ("prepared_bytes", c.c_uint64),
        ("state_bytes", c.c_uint64),
        ("result_bytes", c.c_uint64),
        ("peak_bytes", c.c_uint64),
        ("isa", c.c_char * 16),
        ("method", c.c_char * 16),
        ("backend", c.c_char * 16),
        ("gpu_bytes", c.c_uint64),
        ("gpu_least_bytes", c.c_uint64),
        ("gpu_budget_bytes", c.c_uint64),
        ("gpu_corpus_chunks", c.c_int64),
        ("gpu_query_stripes", c.c_int64),
        ("undecided_bytes", c.c_uint64),
    ]


class PredictParams(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("mode", c.c_int)]


class Device(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("available", c.c_int32),
        ("name", c.c_char * 64),
        ("text", c.c_char * 192),
    ]
