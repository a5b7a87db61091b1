# SPDX-License-Identifier: Apache-2.0
# Made by tools/python_header.py of include/kith; a test compares them.
# fmt: off
"""The constants, structs and functions of include/kith, as ctypes knows them."""

import ctypes as c

VERSION_MAJOR = 0
VERSION_MINOR = 1
VERSION_PATCH = 0
ID_NONE = 4294967295
OK = 0
E_ARGUMENT = -1
E_MEMORY = -2
E_DEVICE_MEMORY = -3
E_DEVICE = -4
E_FORMAT = -5
E_IO = -6
E_UNSUPPORTED = -7
E_CANCELLED = -8
E_LIMIT = -9
E_DATA = -10
E_INTERNAL = -11
F32 = 1
F64 = 2
F16 = 3
BF16 = 4
U8 = 5
I8 = 6
DTYPE_NONE = 0
DTYPE_LAST = 6
EUCLIDEAN = 1
SQEUCLIDEAN = 2
INNER_PRODUCT = 3
COSINE = 4
CORRELATION = 5
MANHATTAN = 6
CHEBYSHEV = 7
CHI2 = 8
HAMMING = 9
JACCARD = 10
KL = 11
CUSTOM = 12
MINKOWSKI = 13
BIT_HAMMING = 14
BIT_JACCARD = 15
HAVERSINE = 16
METRIC_DEFAULT = 0
METRIC_LAST = 16
POWER_FIRST = 64
POWER_STEPS = 10000
EXACTNESS_UNKNOWN = 0
CERTIFIED = 1
APPROXIMATE = 2
KIND_NONE = 0
KIND_POINTS = 1
KIND_GRAPH = 2
KIND_RESULT = 3
KIND_EXACT_INDEX = 4
KIND_RANGES = 5
KIND_TREE_INDEX = 6
KIND_GRAPH_INDEX = 7
KIND_PAIRS = 8
INCLUDE_SELF = 1
WITHIN_RADIUS = 8
RANGES_ON_DEVICE = 16
PIPELINE_FUSED = 0
METHOD_AUTO = 0
METHOD_EXACT = 1
METHOD_TREE = 2
METHOD_DESCENT = 3
METHOD_GRAPH = 4
SELECT_SCAN = 1
SELECT_QUICK = 2
SELECT_RADIX = 3
SELECT_AUTO = 0
RULE_NONE = 0
RULE_SAME = 1
RULE_OTHER = 2
RULE_EACH = 3
FORMAT_NPZ = 1
FORMAT_CSR = 2
FORMAT_IVECS = 3
FORMAT_IBIN = 4
FORMAT_KNN = 5
FORMAT_KITH = 6
FORMAT_CSV = 7
FORMAT_TSV = 8
FORMAT_CSV_WIDE = 9
FORMAT_TSV_WIDE = 10
FORMAT_AUTO = 0
INDEX_K = 24
FILE_POINTS_IN = 1
FILE_POINTS_OUT = 2
FILE_LISTS_IN = 4
FILE_LISTS_OUT = 8
FILE_RANGES_OUT = 16
FILE_PIECES = 32
FILE_CLAIMS = 64
FILE_PIPE = 128
FILE_TEXT = 256
USE_POINTS = 0
USE_VALUES = 1
USE_COLUMN = 2
HEADER_AUTO = 0
HEADER_YES = 1
HEADER_NO = 2
PREDICT_MEAN = 0
PREDICT_WEIGHTED = 1
PREDICT_MEDIAN = 2
PREDICT_VOTE = 3
PREDICT_WEIGHTED_VOTE = 4
SELECT_LARGEST = 1
SELECT_UNSORTED = 2
START_AUTO = 0
START_RANDOM = 1
START_SCREEN = 2
START_GGM = 3
START_GRAPH = 4
DESCENT_ROUNDS = 128
SYMMETRY_UNION = 1
SYMMETRY_MUTUAL = 2
PARTS_AUTO = -1
PARTS_MAX = 256
KEEP_FIRST = 0
KEEP_CENTRAL = 1
TRUTH_FIND = 0
TRUTH_VERIFY = 1
SELECT_INSERTION = 4
SELECT_HEAP = 5
SELECT_MERGE_QUEUE = 6
SELECT_BITONIC = 7
SELECT_THRESHOLD_HEAP = 8
SWITCH_QUEUE = 1
SWITCH_ALIGNED = 2
SWITCH_SAMPLE = 4
SWITCH_MERGE = 8
SELECT_ALIGNED = 4
SELECT_MERGE_PATH = 8
QUEUE_LEVEL = 8
QUEUE_LEVEL_LEAST = 4
QUEUE_LEVEL_MOST = 64
QUEUE_BUFFER = 16
QUEUE_BUFFER_LEAST = 8
QUEUE_BUFFER_MOST = 64
BUFFER_NONE = 0
BUFFER_PLAIN = 1
BUFFER_FULL = 2
BUFFER_SORTED = 3
PIPELINE_MATRIX = 1
PIPELINE_HYBRID = 2
PIPELINE_BUFFER_TREE = 3
SELECT_METHOD_COUNT = 9
PIPELINE_COUNT = 4
NO_SYMMETRY = 2
NO_SKIP = 4
ENQUEUE = 32

ENUMS: dict[str, dict[str, int]] = {
    "kith_status": {"OK": 0, "E_ARGUMENT": -1, "E_MEMORY": -2, "E_DEVICE_MEMORY": -3, "E_DEVICE": -4, "E_FORMAT": -5, "E_IO": -6, "E_UNSUPPORTED": -7, "E_CANCELLED": -8, "E_LIMIT": -9, "E_DATA": -10, "E_INTERNAL": -11},
    "kith_dtype": {"F32": 1, "F64": 2, "F16": 3, "BF16": 4, "U8": 5, "I8": 6, "DTYPE_NONE": 0},
    "kith_metric": {"EUCLIDEAN": 1, "SQEUCLIDEAN": 2, "INNER_PRODUCT": 3, "COSINE": 4, "CORRELATION": 5, "MANHATTAN": 6, "CHEBYSHEV": 7, "CHI2": 8, "HAMMING": 9, "JACCARD": 10, "KL": 11, "CUSTOM": 12, "MINKOWSKI": 13, "BIT_HAMMING": 14, "BIT_JACCARD": 15, "HAVERSINE": 16, "METRIC_DEFAULT": 0},
    "kith_exactness": {"EXACTNESS_UNKNOWN": 0, "CERTIFIED": 1, "APPROXIMATE": 2},
    "kith_kind": {"KIND_NONE": 0, "KIND_POINTS": 1, "KIND_GRAPH": 2, "KIND_RESULT": 3, "KIND_EXACT_INDEX": 4, "KIND_RANGES": 5, "KIND_TREE_INDEX": 6, "KIND_GRAPH_INDEX": 7, "KIND_PAIRS": 8},
    "kith_method": {"METHOD_AUTO": 0, "METHOD_EXACT": 1, "METHOD_TREE": 2, "METHOD_DESCENT": 3, "METHOD_GRAPH": 4},
    "kith_rule": {"RULE_NONE": 0, "RULE_SAME": 1, "RULE_OTHER": 2, "RULE_EACH": 3},
    "kith_format": {"FORMAT_NPZ": 1, "FORMAT_CSR": 2, "FORMAT_IVECS": 3, "FORMAT_IBIN": 4, "FORMAT_KNN": 5, "FORMAT_KITH": 6, "FORMAT_CSV": 7, "FORMAT_TSV": 8, "FORMAT_CSV_WIDE": 9, "FORMAT_TSV_WIDE": 10, "FORMAT_AUTO": 0},
    "kith_points_use": {"USE_POINTS": 0, "USE_VALUES": 1, "USE_COLUMN": 2},
    "kith_header": {"HEADER_AUTO": 0, "HEADER_YES": 1, "HEADER_NO": 2},
    "kith_predict_mode": {"PREDICT_MEAN": 0, "PREDICT_WEIGHTED": 1, "PREDICT_MEDIAN": 2, "PREDICT_VOTE": 3, "PREDICT_WEIGHTED_VOTE": 4},
    "kith_start": {"START_AUTO": 0, "START_RANDOM": 1, "START_SCREEN": 2, "START_GGM": 3, "START_GRAPH": 4},
    "kith_symmetry": {"SYMMETRY_UNION": 1, "SYMMETRY_MUTUAL": 2},
    "kith_keep": {"KEEP_FIRST": 0, "KEEP_CENTRAL": 1},
    "kith_truth_task": {"TRUTH_FIND": 0, "TRUTH_VERIFY": 1},
}

ProgressFn = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_char_p, c.c_double, c.c_double)
LogFn = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)
AllocateFn = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_size_t)
ReleaseFn = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_size_t)
DeviceAllocateFn = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_int32, c.c_size_t)
DeviceReleaseFn = c.CFUNCTYPE(None, c.c_void_p, c.c_int32, c.c_void_p, c.c_size_t)
DistanceFn = c.CFUNCTYPE(c.c_double, c.c_void_p, c.c_void_p, c.c_void_p, c.c_int32)
PairsFn = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_void_p)
TruthFn = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int64)


class CtxParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("threads", c.c_int32), ("memory_limit", c.c_uint64), ("isa", c.c_char_p),
        ("progress", ProgressFn), ("progress_arg", c.c_void_p), ("log", LogFn), ("log_arg", c.c_void_p),
        ("allocate", AllocateFn), ("release", ReleaseFn), ("allocate_arg", c.c_void_p), ("device", c.c_char_p),
        ("gpu_memory_limit", c.c_uint64), ("device_allocate", DeviceAllocateFn), ("device_release", DeviceReleaseFn),
        ("device_allocate_arg", c.c_void_p),
    ]


class Where(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("status", c.c_int), ("argument", c.c_char_p), ("member", c.c_char_p),
        ("file", c.c_char_p), ("reason", c.c_char_p), ("row", c.c_int64), ("column", c.c_int64),
    ]


class Matrix(c.Structure):
    _fields_ = [
        ("data", c.c_void_p), ("rows", c.c_int64), ("stride_bytes", c.c_int64), ("cols", c.c_int32),
        ("dtype", c.c_int),
    ]


class Fingerprint(c.Structure):
    _fields_ = [
        ("rows", c.c_int64), ("cols", c.c_int32), ("dtype", c.c_int), ("checksum", c.c_uint64),
    ]


class ResultMeta(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("kind", c.c_int), ("metric", c.c_int), ("exact", c.c_int),
        ("corpus_rows", c.c_int64), ("recall", c.c_double), ("recall_at", c.c_int64), ("first_row", c.c_int64),
        ("points", Fingerprint),
    ]


class Neighbors(c.Structure):
    _fields_ = [
        ("ids", c.c_void_p), ("distances", c.c_void_p), ("distances64", c.c_void_p), ("rows", c.c_int64),
        ("k", c.c_int64), ("meta", c.c_void_p),
    ]


class Recall(c.Structure):
    _fields_ = [
        ("recall", c.c_double), ("low", c.c_double), ("high", c.c_double), ("equal_ids", c.c_double),
        ("distance_ratio", c.c_double), ("rows", c.c_int64), ("at", c.c_int64), ("own_rows", c.c_int64),
    ]


class Report(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("exact", c.c_int), ("seconds_total", c.c_double), ("seconds_check", c.c_double),
        ("seconds_prepare", c.c_double), ("seconds_screen", c.c_double), ("seconds_rescore", c.c_double),
        ("rerun_share", c.c_double), ("skipped_share", c.c_double), ("looked_share", c.c_double),
        ("candidates", c.c_double), ("distinct_rows", c.c_int64), ("peak_bytes", c.c_uint64), ("isa", c.c_char * 16),
        ("screen", c.c_char * 16), ("backend", c.c_char * 16), ("gpu", c.c_char * 64), ("gpu_peak_bytes", c.c_uint64),
        ("seconds_select", c.c_double), ("select_cpu_rows", c.c_int64), ("select_gpu_rows", c.c_int64),
        ("recall", Recall), ("reached", c.c_int32), ("shadow_axes", c.c_int32), ("estimated_exact", c.c_double),
        ("estimated_descent", c.c_double),
    ]


class Filter(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("rule", c.c_int), ("allow", c.c_void_p), ("allow_stride_bytes", c.c_int64),
        ("groups", c.c_void_p), ("query_groups", c.c_void_p),
    ]


class SearchParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("metric", c.c_int), ("k", c.c_int64), ("flags", c.c_uint32),
        ("leaf_buffer", c.c_int32), ("exclude", c.c_void_p), ("custom", DistanceFn), ("custom_arg", c.c_void_p),
        ("pipeline", c.c_int32), ("select", c.c_int32), ("method", c.c_int), ("sample", c.c_int32),
        ("tree_height", c.c_int32), ("batch", c.c_int32), ("radius", c.c_double), ("recall", c.c_double),
        ("recall_at", c.c_int64), ("seed", c.c_uint64), ("descent", c.c_void_p), ("descent_report", c.c_void_p),
        ("walk", c.c_void_p), ("walk_report", c.c_void_p), ("filter", c.c_void_p), ("period", c.c_void_p),
    ]


class RadiusParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("metric", c.c_int), ("radius", c.c_double), ("radii", c.c_void_p),
        ("flags", c.c_uint32), ("count_only", c.c_uint32), ("custom", DistanceFn), ("custom_arg", c.c_void_p),
        ("method", c.c_int), ("filter", c.c_void_p), ("period", c.c_void_p),
    ]


class Lists(c.Structure):
    _fields_ = [
        ("rows", c.c_int64), ("offsets", c.c_void_p), ("ids", c.c_void_p), ("distances", c.c_void_p),
        ("distances64", c.c_void_p),
    ]


class Pairs(c.Structure):
    _fields_ = [
        ("count", c.c_int64), ("query_ids", c.c_void_p), ("corpus_ids", c.c_void_p),
    ]


class RecallParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("metric", c.c_int), ("at", c.c_int64), ("sample", c.c_int64),
        ("seed", c.c_uint64),
    ]


class FileInfo(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("kind", c.c_int), ("format", c.c_char * 16), ("dtype", c.c_int),
        ("metric", c.c_int), ("exact", c.c_int), ("reserved", c.c_int32), ("rows", c.c_int64), ("cols", c.c_int64),
        ("file_bytes", c.c_uint64), ("tree_height", c.c_int32), ("periodic", c.c_int32), ("tree_rows", c.c_int64),
        ("tree_slack", c.c_int64), ("recall", c.c_double), ("recall_at", c.c_int64), ("parts", c.c_int32),
        ("part", c.c_int32), ("first_row", c.c_int64), ("points", Fingerprint), ("header", c.c_int32),
        ("delimiter", c.c_int32),
    ]


class Plan(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("threads", c.c_int32), ("prepared_bytes", c.c_uint64),
        ("state_bytes", c.c_uint64), ("result_bytes", c.c_uint64), ("peak_bytes", c.c_uint64), ("isa", c.c_char * 16),
        ("method", c.c_char * 16), ("backend", c.c_char * 16), ("gpu_bytes", c.c_uint64),
        ("gpu_least_bytes", c.c_uint64), ("gpu_budget_bytes", c.c_uint64), ("gpu_corpus_chunks", c.c_int64),
        ("gpu_query_stripes", c.c_int64), ("undecided_bytes", c.c_uint64), ("estimated_exact", c.c_double),
        ("estimated_descent", c.c_double),
    ]


class Device(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("available", c.c_int32), ("name", c.c_char * 64), ("text", c.c_char * 192),
    ]


class IndexParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("metric", c.c_int), ("method", c.c_int), ("tree_height", c.c_int32),
        ("graph", c.c_void_p), ("k", c.c_int64), ("recall", c.c_double), ("seed", c.c_uint64), ("custom", DistanceFn),
        ("custom_arg", c.c_void_p), ("period", c.c_void_p),
    ]


class IndexInfo(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("metric", c.c_int), ("method", c.c_int), ("device", c.c_int32),
        ("points", Matrix), ("k", c.c_int64), ("bytes", c.c_uint64), ("period", c.c_void_p),
    ]


class PointsParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("use", c.c_int), ("header", c.c_int), ("delimiter", c.c_int32),
        ("columns", c.c_char_p), ("rows", c.c_int64),
    ]


class PointsSource(c.Structure):
    _fields_ = [
        ("values", c.c_void_p), ("header", c.c_int32), ("delimiter", c.c_int32), ("compressed", c.c_int32),
        ("fortran_order", c.c_int32), ("big_endian", c.c_int32), ("mapped", c.c_int32), ("file_cols", c.c_int64),
        ("bytes", c.c_uint64), ("names", c.c_char_p),
    ]


class ResultStreamParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("format", c.c_int), ("rows", c.c_int64), ("k", c.c_int64), ("job", c.c_char_p),
        ("restart", c.c_uint32), ("reserved", c.c_uint32),
    ]


class ResultStreamState(c.Structure):
    _fields_ = [
        ("rows", c.c_int64), ("path", c.c_char_p),
    ]


class PredictParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("mode", c.c_int),
    ]


class SelectParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("method", c.c_int32), ("k", c.c_int64), ("flags", c.c_uint32),
        ("buffer", c.c_int32), ("group", c.c_int32), ("sample", c.c_int32), ("level", c.c_int32),
        ("buffer_size", c.c_int32),
    ]


class Values(c.Structure):
    _fields_ = [
        ("data", c.c_void_p), ("ids", c.c_void_p), ("rows", c.c_int64), ("cols", c.c_int64),
        ("stride_bytes", c.c_int64), ("ids_stride_bytes", c.c_int64), ("dtype", c.c_int), ("reserved", c.c_int32),
    ]


class Selection(c.Structure):
    _fields_ = [
        ("values", c.c_void_p), ("ids", c.c_void_p), ("kth", c.c_void_p),
    ]


class DescentParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("metric", c.c_int), ("k", c.c_int64), ("flags", c.c_uint32), ("start", c.c_int),
        ("recall", c.c_double), ("recall_at", c.c_int64), ("sample", c.c_int64), ("seed", c.c_uint64),
        ("rounds", c.c_int32), ("candidates", c.c_int32), ("list", c.c_int32), ("all_updates", c.c_int32),
        ("delta", c.c_double), ("start_share", c.c_double), ("init", c.c_void_p), ("custom", DistanceFn),
        ("custom_arg", c.c_void_p),
    ]


class DescentRound(c.Structure):
    _fields_ = [
        ("number", c.c_int32), ("reserved", c.c_int32), ("updates", c.c_int64), ("evaluations", c.c_double),
        ("phi", c.c_double), ("recall", c.c_double), ("seconds", c.c_double),
    ]


class DescentReport(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("start", c.c_int), ("exact", c.c_int32), ("reached", c.c_int32),
        ("rounds", c.c_int32), ("round_count", c.c_int32), ("list", c.c_int32), ("candidates", c.c_int32),
        ("evaluations", c.c_double), ("seconds_start", c.c_double), ("seconds_rounds", c.c_double),
        ("recall", Recall), ("round", DescentRound * 128),
    ]


class WalkParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("reserved", c.c_int32), ("graph", c.c_void_p), ("width", c.c_int64),
        ("sample", c.c_int64), ("meets", c.c_int64),
    ]


class WalkReport(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("exact", c.c_int32), ("reached", c.c_int32), ("reserved", c.c_int32),
        ("width", c.c_int64), ("parts", c.c_int64), ("evaluations", c.c_double), ("recall", Recall),
    ]


class MergeSets(c.Structure):
    _fields_ = [
        ("points", c.c_void_p), ("first_rows", c.c_int64), ("graph1", c.c_void_p), ("graph2", c.c_void_p),
    ]


class RemoveParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("metric", c.c_int), ("k", c.c_int64), ("flags", c.c_uint32),
        ("approximate", c.c_int32), ("custom", DistanceFn), ("custom_arg", c.c_void_p), ("removed", c.c_void_p),
        ("map", c.c_void_p),
    ]


class RemoveReport(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("anew", c.c_int32), ("left", c.c_int64), ("repaired", c.c_int64),
    ]


class ShardTeam(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("workers", c.c_int32), ("worker", c.c_int32), ("combine", c.c_void_p),
        ("arg", c.c_void_p),
    ]


class ShardParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("shards", c.c_int32), ("exact", c.c_void_p), ("descent", c.c_void_p),
        ("format", c.c_int), ("keep", c.c_uint32), ("mapped", c.c_uint32), ("restart", c.c_uint32),
        ("job", c.c_char_p), ("team", c.c_void_p), ("parts", c.c_int32), ("reserved", c.c_int32),
    ]


class ShardPlan(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("shards", c.c_int32), ("rows", c.c_int64), ("steps", c.c_int64),
        ("peak_bytes", c.c_uint64), ("gpu_bytes", c.c_uint64), ("folder_bytes", c.c_uint64),
        ("result_bytes", c.c_uint64), ("backend", c.c_char * 16), ("groups", c.c_int32), ("group_rows", c.c_int64),
    ]


class ShardReport(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("shards", c.c_int32), ("exact", c.c_int32), ("rebuilt", c.c_int32),
        ("steps", c.c_int64), ("steps_stood", c.c_int64), ("steps_done", c.c_int64), ("seconds_total", c.c_double),
        ("seconds_compute", c.c_double), ("seconds_wait", c.c_double), ("seconds_result", c.c_double),
        ("bytes_read", c.c_uint64), ("bytes_written", c.c_uint64), ("peak_bytes", c.c_uint64),
        ("gpu_peak_bytes", c.c_uint64), ("recall", Recall), ("groups", c.c_int32), ("groups_cover", c.c_double),
        ("groups_wanted", c.c_double), ("groups_overlap", c.c_double), ("seconds_sample", c.c_double),
        ("seconds_group", c.c_double), ("seconds_rows", c.c_double), ("seconds_check", c.c_double),
        ("pairs_met", c.c_int64), ("pairs_skipped", c.c_int64), ("rows_skipped", c.c_double), ("parts", c.c_int32),
        ("reserved", c.c_int32), ("points", Fingerprint),
    ]


class PairsParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("metric", c.c_int), ("radius", c.c_double), ("method", c.c_int),
        ("keep", c.c_int), ("take", PairsFn), ("take_arg", c.c_void_p), ("path", c.c_char_p), ("filter", c.c_void_p),
        ("custom", DistanceFn), ("custom_arg", c.c_void_p), ("limit", c.c_int64), ("first_row", c.c_int64),
        ("chunk_rows", c.c_int64), ("chunk_pairs", c.c_int64), ("labels", c.c_void_p), ("kept", c.c_void_p),
        ("sample", c.c_int64), ("seed", c.c_uint64), ("period", c.c_void_p), ("job", c.c_char_p),
        ("restart", c.c_int32), ("reserved", c.c_int32),
    ]


class PairsReport(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("complete", c.c_int32), ("count", c.c_int64), ("next_row", c.c_int64),
        ("chunk_rows", c.c_int64), ("chunks", c.c_int64), ("divided", c.c_int64), ("largest_chunk", c.c_int64),
        ("resumed", c.c_int64),
    ]


class PairsPlan(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("reserved", c.c_int32), ("pairs", c.c_double), ("low", c.c_double),
        ("high", c.c_double), ("sample", c.c_int64), ("most_of_a_row", c.c_int64), ("chunk_bytes", c.c_uint64),
    ]


class TruthParams(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("metric", c.c_int), ("k", c.c_int64), ("method", c.c_int), ("task", c.c_int),
        ("filter", c.c_void_p), ("path", c.c_char_p), ("format", c.c_int), ("restart", c.c_uint32),
        ("ties_path", c.c_char_p), ("names", c.c_void_p), ("job", c.c_char_p), ("mapped", c.c_uint32),
        ("reserved", c.c_uint32), ("part_rows", c.c_int64), ("first_id", c.c_uint64), ("ids", c.c_void_p),
        ("distances", c.c_void_p), ("ties", c.c_void_p), ("take", TruthFn), ("take_arg", c.c_void_p),
        ("sample", c.c_int64), ("seed", c.c_uint64), ("flags", c.c_uint32), ("reserved2", c.c_uint32),
        ("radius", c.c_double), ("ranges", c.c_void_p),
    ]


class TruthReport(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32), ("matrix", c.c_int32), ("k", c.c_int64), ("metric", c.c_int),
        ("files", c.c_int32), ("queries", c.c_int64), ("rows", c.c_int64), ("parts", c.c_int64),
        ("resumed", c.c_int64), ("full", c.c_int64), ("tied", c.c_int64), ("tied_beyond", c.c_int64),
        ("most_ties", c.c_int64), ("recounted", c.c_int64), ("sample", c.c_int64), ("seconds_search", c.c_double),
        ("seconds_wait", c.c_double), ("seconds_merge", c.c_double), ("seconds_write", c.c_double),
        ("backend", c.c_char * 16), ("screen", c.c_char * 16), ("radius", c.c_double), ("found", c.c_int64),
        ("most_found", c.c_int64), ("within", c.c_uint32), ("reserved", c.c_uint32),
    ]


FUNCTIONS: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "kith_version": (c.c_char_p, ()),
    "kith_commit": (c.c_char_p, ()),
    "kith_status_name": (c.c_char_p, (c.c_int,)),
    "kith_status_text": (c.c_char_p, (c.c_int,)),
    "kith_ctx_create": (c.c_int, (c.c_void_p, c.c_void_p)),
    "kith_ctx_free": (None, (c.c_void_p,)),
    "kith_ctx_detail": (c.c_char_p, (c.c_void_p,)),
    "kith_ctx_where": (c.c_int, (c.c_void_p, c.c_void_p)),
    "kith_ctx_get_params": (c.POINTER(CtxParams), (c.c_void_p,)),
    "kith_dtype_bytes": (c.c_int32, (c.c_int,)),
    "kith_dtype_name": (c.c_char_p, (c.c_int,)),
    "kith_metric_parse": (c.c_int, (c.c_char_p,)),
    "kith_metric_name": (c.c_char_p, (c.c_int,)),
    "kith_fingerprint_make": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_search": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_graph": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_knn_both": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_ranges_lists": (c.POINTER(Lists), (c.c_void_p,)),
    "kith_radius": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_ranges_free": (None, (c.c_void_p,)),
    "kith_distances": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_int, c.c_void_p, c.c_void_p)),
    "kith_recall_measure": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_int, c.c_int64, c.c_void_p)),
    "kith_recall_estimate": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_result_save": (c.c_int, (c.c_void_p, c.c_char_p, c.c_int, c.c_void_p, c.c_void_p)),
    "kith_ranges_save": (c.c_int, (c.c_void_p, c.c_char_p, c.c_void_p, c.c_void_p)),
    "kith_result_open": (c.c_int, (c.c_void_p, c.c_char_p, c.c_void_p)),
    "kith_result_neighbors": (c.POINTER(Neighbors), (c.c_void_p,)),
    "kith_result_free": (None, (c.c_void_p,)),
    "kith_file_inspect": (c.c_int, (c.c_void_p, c.c_char_p, c.c_void_p, c.c_void_p)),
    "kith_plan_search": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_ctx_report": (c.c_int, (c.c_void_p, c.c_void_p)),
    "kith_device_get": (c.c_int, (c.c_int32, c.c_void_p)),
    "kith_index_create": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_index_search": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_index_radius": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_index_plan": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_index_add": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_index_remove": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_int64)),
    "kith_index_save": (c.c_int, (c.c_void_p, c.c_void_p, c.c_char_p)),
    "kith_index_open": (c.c_int, (c.c_void_p, c.c_char_p, c.c_void_p)),
    "kith_index_inspect": (c.c_int, (c.c_void_p, c.c_void_p)),
    "kith_index_free": (None, (c.c_void_p,)),
    "kith_points_open": (c.c_int, (c.c_void_p, c.c_char_p, c.c_void_p, c.c_void_p)),
    "kith_points_matrix": (c.POINTER(Matrix), (c.c_void_p,)),
    "kith_points_get_source": (c.POINTER(PointsSource), (c.c_void_p,)),
    "kith_points_free": (None, (c.c_void_p,)),
    "kith_points_save": (c.c_int, (c.c_void_p, c.c_char_p, c.c_void_p)),
    "kith_result_stream_open": (c.c_int, (c.c_void_p, c.c_char_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_result_stream_get_state": (c.POINTER(ResultStreamState), (c.c_void_p,)),
    "kith_result_stream_put": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_result_stream_finish": (c.c_int, (c.c_void_p, c.c_void_p)),
    "kith_result_stream_free": (None, (c.c_void_p,)),
    "kith_predict": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_int64, c.c_void_p, c.c_void_p)),
    "kith_select_method_name": (c.c_char_p, (c.c_int32,)),
    "kith_select": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_selection_save": (c.c_int, (c.c_void_p, c.c_char_p, c.c_void_p, c.c_int64, c.c_int, c.c_void_p)),
    "kith_graph_symmetric": (c.c_int, (c.c_void_p, c.c_void_p, c.c_int, c.c_int, c.c_void_p)),
    "kith_graph_merge": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_plan_merge": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_graph_verify": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_graph_remove": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_plan_shards": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_graph_shards": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_char_p, c.c_char_p, c.c_void_p)),
    "kith_pairs_find": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_pairs_read": (c.c_int, (c.c_void_p, c.c_char_p, PairsFn, c.c_void_p, c.c_void_p)),
    "kith_plan_pairs": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_truth": (c.c_int, (c.c_void_p, c.c_void_p, c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_cuda_graph": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_cuda_search": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_cuda_radius": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_cuda_index_create": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_cuda_index_search": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_cuda_index_radius": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_cuda_graph_merge": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
    "kith_cuda_select": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)),
}
