/* SPDX-License-Identifier: Apache-2.0
 *
 * kith: nearest neighbours and k-NN graphs, exact and reproducible bit for bit.
 *
 * Read this header from top to bottom; it is written as a course:
 *   1 status   2 context   3 matrices and metrics   4 results
 *   5 search and graphs   6 prepared corpora   7 radius search
 *   8 distances, recall   9 files   10 plans, reports, devices
 * It includes the chapters that follow, and of chapter 9 kith_points.h:
 *   11 prediction, kith_predict.h   12 selection, kith_select.h   13 approximate graphs,
 * kith_descent.h 14 graphs that grow, kith_merge.h   15 graphs from shards, kith_shard.h   16 pairs
 * within a radius, kith_pairs.h   17 ground truth, kith_truth.h. kith_cuda.h adds calls on matrices
 * on a GPU, kith_papers.h ways of published work, to which docs/papers.md leads.
 *
 * Rules that hold everywhere
 *   - A function that can fail returns a kith_status; KITH_OK is 0. The sentence that explains the
 *     last failure is kith_ctx_detail(ctx). Beside the statuses that a call names, whatever is
 *     computed on a GPU may end with KITH_E_DEVICE or KITH_E_DEVICE_MEMORY, and any call with
 *     KITH_E_INTERNAL, which is a bug of kith.
 *   - Inputs are borrowed for the call. What keeps a pointer says so ("keeps").
 *   - Outputs are the caller's where their size is known beforehand, and overlap nothing else; the
 *     library's, with a _free of their own that accepts NULL, where it is not.
 *   - A function that creates something sets *out to NULL when it fails.
 *   - A parameter struct is made by its ..._default() and may grow: 0 always means "the default". A
 *     struct that is filled in (plan, report, info) gets its struct_size from the caller, sizeof of
 *     it, before the call.
 *   - A context serves one thread at a time; different contexts are independent.
 *   - Rows, columns and ids count from 0. Nothing here prints, exits or aborts.
 */
#ifndef KITH_KITH_H
#define KITH_KITH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KITH_API __attribute__((visibility("default")))
#else
#define KITH_API
#endif

#define KITH_VERSION_MAJOR 0
#define KITH_VERSION_MINOR 1
#define KITH_VERSION_PATCH 0

/* "0.1.0", and the commit the library was built from ("unknown" outside a checkout and a
 * source tarball). */
KITH_API const char *kith_version(void);
KITH_API const char *kith_commit(void);

/* ---- 1. Status ------------------------------------------------------------------------------ */

/* X(name, value, text). Values are never reused. */
#define KITH_STATUS_MAP(X)                                                            \
    X(OK, 0, "success")                                                               \
    X(E_ARGUMENT, -1, "an argument is out of its documented range")                   \
    X(E_MEMORY, -2, "host memory could not be allocated")                             \
    X(E_DEVICE_MEMORY, -3, "device memory could not be allocated")                    \
    X(E_DEVICE, -4, "the device reported an error")                                   \
    X(E_FORMAT, -5, "a file is not what its header claims")                           \
    X(E_IO, -6, "reading or writing a file failed")                                   \
    X(E_UNSUPPORTED, -7, "valid, but not available in this build or on this machine") \
    X(E_CANCELLED, -8, "stopped by the caller's progress callback")                   \
    X(E_LIMIT, -9, "the job does not fit into the memory limit")                      \
    X(E_DATA, -10, "the data holds a value that the metric does not allow")           \
    X(E_INTERNAL, -11, "kith found itself in a state that should be impossible")

typedef enum kith_status {
#define KITH_STATUS_ENUM(name, value, text) KITH_##name = (value),
    KITH_STATUS_MAP(KITH_STATUS_ENUM)
#undef KITH_STATUS_ENUM
} kith_status;

/* "E_ARGUMENT", and the sentence of the table. Never NULL, also for a number that is no status. */
KITH_API const char *kith_status_name(kith_status status);
KITH_API const char *kith_status_text(kith_status status);

/* ---- 2. Context ----------------------------------------------------------------------------- */

typedef struct kith_ctx kith_ctx;

/* Called between pieces of work, from the thread that called kith, some ten times a second while a
 * call runs. done/total is the share of `phase`: it rises until done is total, then the phase may
 * begin anew, and when the call ends with success every phase that was told of has come to its end.
 * A result other than 0 cancels the call, which then returns KITH_E_CANCELLED. */
typedef int (*kith_progress_fn)(void *arg, const char *phase, double done, double total);

/* One line without its newline, for a person. level: 0 error, 1 warning, 2 information. Where
 * several GPUs are at work or memory runs out, several threads may call it at the same time. */
typedef void (*kith_log_fn)(void *arg, int level, const char *line);

/* Every block that kith keeps comes from here. allocate returns NULL on failure, at least
 * 64-byte aligned memory otherwise; release gets the same size. Both must be thread-safe. */
typedef void *(*kith_allocate_fn)(void *arg, size_t bytes);
typedef void (*kith_release_fn)(void *arg, void *block, size_t bytes);

/* The same of device memory: of the pool of the program that kith is a part of (PyTorch, RMM),
 * which would otherwise hold what kith lacks. Called with the device current. allocate: at least
 * 256-byte aligned memory of cuda:`device` that work of any stream may use at once, NULL: there is
 * none, which kith answers with smaller batches or KITH_E_DEVICE_MEMORY. release: the same size; no
 * work of kith's reads or writes the block any more. What no index keeps is given back before a
 * call returns. Both must be thread-safe and must not call kith. */
typedef void *(*kith_device_allocate_fn)(void *arg, int32_t device, size_t bytes);
typedef void (*kith_device_release_fn)(void *arg, int32_t device, void *block, size_t bytes);

typedef struct kith_ctx_params {
    uint32_t struct_size;  /* set by kith_ctx_params_default() */
    int32_t threads;       /* 0 = KITH_THREADS, else all processors of this process */
    uint64_t memory_limit; /* bytes of memory that a call may take; 0 = no limit */
    const char *isa;       /* "portable", "avx2" ... (docs/overview.md has all);
                              NULL = KITH_ISA, else the best that the processor has */
    kith_progress_fn progress;
    void *progress_arg;
    kith_log_fn log;
    void *log_arg;
    kith_allocate_fn allocate; /* NULL = the C library's; give both or none */
    kith_release_fn release;
    void *allocate_arg;
    const char *device; /* "cpu", "cuda" (the first that can be used), "cuda:N", "cuda:0,2" or
                           "cuda:all" (several of one model: graphs, merges, searches and indices
                           of rows on the host are divided), or "auto": a GPU where there is one and
                           the job is large enough that it is the faster way; NULL = KITH_DEVICE,
                           else "auto". Answers are the same bytes everywhere */
    uint64_t gpu_memory_limit; /* bytes of device memory; 0 = what the driver says is free, less a
                                  margin: what idles in a pool of the caller's is not */
    kith_device_allocate_fn device_allocate; /* NULL = the driver's, kept from call to call; give
                                                both or none */
    kith_device_release_fn device_release;
    void *device_allocate_arg;
} kith_ctx_params;

static inline kith_ctx_params kith_ctx_params_default(void)
{
    kith_ctx_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* params may be NULL. An instruction set that does not exist or that the processor lacks, a device
 * that does not exist, and a negative thread count do not fail here but in the first call that
 * computes, which then has a context to explain itself with. A GPU is opened by the first call that
 * wants it and closed with the context. A device that was named ("cuda") and cannot be used is
 * KITH_E_UNSUPPORTED with the reason; "auto" then computes on the processor.
 * Returns KITH_E_ARGUMENT (out is NULL, one function of an allocator without the other),
 * KITH_E_MEMORY.
 */
KITH_API kith_status kith_ctx_create(const kith_ctx_params *params, kith_ctx **out);
KITH_API void kith_ctx_free(kith_ctx *ctx);

/* Why the last call on this context failed: what is wrong, with the values, and what to do; "" when
 * it did not fail. Valid until the next call. */
KITH_API const char *kith_ctx_detail(const kith_ctx *ctx);

/* The same as fields, for programs that tell it in their own words or know which of their inputs is
 * meant. Texts are never NULL ("" is none) and valid until the next call. */
typedef struct kith_where {
    uint32_t struct_size;
    kith_status status;   /* of the last call on this context */
    const char *argument; /* what is wrong, as this header names it: "points", "graph1", "k" */
    const char *member;   /* and which part of it: "cols", "ids" */
    const char *file;     /* or the file that is */
    const char *reason; /* the sentence of kith_ctx_detail without the place that it begins with */
    int64_t row;        /* of the argument or the file, from 0; -1 where none is to blame */
    int64_t column;
} kith_where;
/* KITH_E_ARGUMENT: an argument is NULL, or struct_size is not set to sizeof(kith_where). */
KITH_API kith_status kith_ctx_where(const kith_ctx *ctx, kith_where *where);
/* The parameters as they are in use: isa and threads are those that were chosen where none were
 * given. device is NULL: a call's report names it. Valid as long as the context. */
KITH_API const kith_ctx_params *kith_ctx_get_params(const kith_ctx *ctx);

/* ---- 3. Matrices and metrics ---------------------------------------------------------------- */

#define KITH_DTYPE_MAP(X)                              \
    X(F32, 1, float32)                                 \
    X(F64, 2, float64)                                 \
    X(F16, 3, float16)   /* IEEE binary16 */           \
    X(BF16, 4, bfloat16) /* upper half of a float32 */ \
    X(U8, 5, uint8)                                    \
    X(I8, 6, int8)
#define KITH_DTYPE_ROW(NAME, number, name) KITH_##NAME = number,
typedef enum kith_dtype { KITH_DTYPE_MAP(KITH_DTYPE_ROW) KITH_DTYPE_NONE = 0 } kith_dtype;
#define KITH_ROWS_ONE(NAME, number, name) +1
enum { KITH_DTYPE_LAST = KITH_DTYPE_MAP(KITH_ROWS_ONE) };

KITH_API int32_t kith_dtype_bytes(kith_dtype dtype);    /* 0 for what is no dtype */
KITH_API const char *kith_dtype_name(kith_dtype dtype); /* "float32" ... */

/* A borrowed row-major matrix: row i starts at data + i * stride_bytes. The library never frees
 * data and never writes to it. 1 <= cols <= 2^20; 1 <= rows <= 2^32 - 2. data and stride_bytes are
 * multiples of a value's size. */
typedef struct kith_matrix {
    const void *data;
    int64_t rows;
    int64_t stride_bytes; /* 0 = rows are contiguous; else >= cols * size of dtype */
    int32_t cols;
    kith_dtype dtype;
} kith_matrix;

/* Canonical distances: computed in double from the values as given, in one fixed order of
 * operations (docs/notes/numerics.md), so that they are the same bits everywhere. q: a component of
 * the query, c: of the corpus. Neighbours are ordered by (key, id); the key is the distance unless
 * brackets say otherwise. NAME, number, name: */
#define KITH_METRIC_MAP(X)                                                                        \
    X(EUCLIDEAN, 1, euclidean)         /* root of the sum of squared differences [its square] */  \
    X(SQEUCLIDEAN, 2, sqeuclidean)     /* its square */                                           \
    X(INNER_PRODUCT, 3, inner_product) /* the product itself, largest first [its negative] */     \
    X(COSINE, 4, cosine)               /* 1 - cos, 0 to 2; 1 to and from a row of zeros */        \
    X(CORRELATION, 5, correlation)     /* Pearson: 1 - r; 1 to and from a constant row */         \
    X(MANHATTAN, 6, manhattan)         /* sum |q - c| */                                          \
    X(CHEBYSHEV, 7, chebyshev)         /* max |q - c| */                                          \
    X(CHI2, 8, chi2)                   /* sum (q - c)^2 / (q + c), components >= 0 */             \
    X(HAMMING, 9, hamming)             /* share of components that differ */                      \
    X(JACCARD, 10, jaccard)            /* of the sets of non-zero components: 1 - common / all */ \
    X(KL, 11, kl)                      /* sum q ln(q / c), components >= 0; not symmetric */      \
    X(CUSTOM, 12, custom)              /* the caller's own function, on the CPU */                \
    X(MINKOWSKI, 13, minkowski)        /* (sum |q - c|^p)^(1/p): kith_minkowski(p) */             \
    X(BIT_HAMMING, 14, bit_hamming)    /* uint8, packed bits: how many differ */                  \
    X(BIT_JACCARD, 15, bit_jaccard)    /* uint8, of the sets of bits: 1 - common / all */         \
    X(HAVERSINE, 16, haversine)        /* latitude, longitude in radians: angle [its haversine] */
#define KITH_METRIC_ROW(NAME, number, name) KITH_##NAME = number,
#if defined(__cplusplus) && __cplusplus >= 201103L
#define KITH_METRIC_TYPE : unsigned int /* what C takes; there are numbers between the names */
#else
#define KITH_METRIC_TYPE
#endif
#if defined(__cplusplus)
#define KITH_CAST(type, value) static_cast<type>(value)
#else
#define KITH_CAST(type, value) ((type)(value))
#endif
typedef enum kith_metric KITH_METRIC_TYPE {
    KITH_METRIC_MAP(KITH_METRIC_ROW) KITH_METRIC_DEFAULT = 0
} kith_metric;
enum { KITH_METRIC_LAST = KITH_METRIC_MAP(KITH_ROWS_ONE) };

/* A Minkowski distance is a metric of its own for each power p, with a number of its own, so that
 * whatever takes or keeps a metric takes or keeps its power. p is 1 to 3355.4431 in steps of
 * 0.0001, or infinity; for 1, 2 and infinity it is KITH_MANHATTAN, KITH_EUCLIDEAN, KITH_CHEBYSHEV.
 * For any other p, NaN too, it is KITH_MINKOWSKI, which has no power: calls refuse it with
 * KITH_E_ARGUMENT. |q - c|^p is infinite beyond the doubles, and 0 below: beyond 2^(1024/p) all
 * distances are equal, and so are those of differences below 2^(-1074/p). */
enum { KITH_POWER_FIRST = 64, KITH_POWER_STEPS = 10000 };
static inline kith_metric kith_minkowski(double p)
{
    const double whole = p >= 1.0 && p <= 3355.4431 ? p * 10000.0 + 0.5 : 0.0;
    const uint32_t steps = KITH_CAST(uint32_t, whole);
    const uint32_t power = steps / 10000.0 == p ? steps * KITH_POWER_FIRST : 0u;
    return p > 1.7976931348623157e308 ? KITH_CHEBYSHEV
           : p == 1.0                 ? KITH_MANHATTAN
           : p == 2.0                 ? KITH_EUCLIDEAN
                                      : KITH_CAST(kith_metric, KITH_MINKOWSKI + power);
}

/* By name or alias, in capitals, too (l2, ip, cos, ...; minkowski:3), 0 if unknown; the name that
 * files have, a minkowski's until its thread has asked for eight more. */
KITH_API kith_metric kith_metric_parse(const char *name);
KITH_API const char *kith_metric_name(kith_metric metric);

/* A caller's own distance between two rows of `cols` components in the matrix' own dtype. Called
 * from several threads at once. NaN is an error (KITH_E_DATA), others are ordered as they are. */
typedef double (*kith_distance_fn)(void *arg, const void *query, const void *point, int32_t cols);

/* ---- 4. Results ----------------------------------------------------------------------------- */

/* Marks an empty slot of a list: exact engines leave them behind a radius limit alone. */
#define KITH_ID_NONE UINT32_MAX

/* What may be said of neighbours. Nobody claims by default. */
typedef enum kith_exactness {
    KITH_EXACTNESS_UNKNOWN = 0,
    KITH_CERTIFIED = 1,  /* the true ones: every discarded pair was discarded by proof */
    KITH_APPROXIMATE = 2 /* a true one may be missing */
} kith_exactness;

/* Which points: their shape, their type and a checksum of their values, row by row
 * (docs/format.md). Points that differ in any bit have another one; who wants to deceive can. */
typedef struct kith_fingerprint {
    int64_t rows; /* 0: unknown */
    int32_t cols;
    kith_dtype dtype;
    uint64_t checksum;
} kith_fingerprint;

/* Reads all points once, on all threads; the same for any stride and number of threads. Not of
 * points on a GPU. Returns KITH_E_ARGUMENT, E_MEMORY, E_CANCELLED; out->rows is 0 then. */
KITH_API kith_status kith_fingerprint_make(kith_ctx *ctx, const kith_matrix *points,
                                           kith_fingerprint *out);

typedef enum kith_kind {
    KITH_KIND_NONE = 0,
    KITH_KIND_POINTS = 1,
    KITH_KIND_GRAPH = 2,  /* each point's neighbours among the same points */
    KITH_KIND_RESULT = 3, /* queries' neighbours in a corpus */
    KITH_KIND_EXACT_INDEX = 4,
    KITH_KIND_RANGES = 5,
    KITH_KIND_TREE_INDEX = 6,
    KITH_KIND_GRAPH_INDEX = 7,
    KITH_KIND_PAIRS = 8 /* pairs within a radius */
} kith_kind;

/* What is known of neighbours. */
typedef struct kith_result_meta {
    uint32_t struct_size; /* set by kith_result_meta_default() */
    kith_kind kind;
    kith_metric metric;   /* KITH_METRIC_DEFAULT = unknown */
    kith_exactness exact; /* certified: of stated points */
    int64_t corpus_rows;  /* 0 = unknown */
    double recall;        /* when approximate: estimate, < 0 = unknown */
    int64_t recall_at;
    int64_t first_row;       /* of a part of a graph that was opened alone; is not saved */
    kith_fingerprint points; /* that the ids are rows of: a graph's points, a search's corpus */
} kith_result_meta;

static inline kith_result_meta kith_result_meta_default(void)
{
    kith_result_meta meta;
    memset(&meta, 0, sizeof meta);
    meta.struct_size = sizeof meta;
    meta.recall = -1.0;
    return meta;
}

/* A borrowed rows x k table of neighbours that the caller owns; row i begins at entry i * k. A row
 * is ascending by (key, id). Of an output any of the three pointers may be NULL: that part is then
 * not written; of an input the call says which it reads. distances64 is the canonical distance,
 * distances the same rounded once to float32. */
typedef struct kith_neighbors {
    uint32_t *ids;
    float *distances;
    double *distances64;
    int64_t rows;
    int64_t k;
    /* Of an input, what is known of it; NULL = nothing. A call that is given points with a graph
     * refuses a graph of other points or of another metric (KITH_E_ARGUMENT, both are named). Of an
     * output it is not read: kith_report.exact says what that is. */
    const kith_result_meta *meta;
} kith_neighbors;

typedef struct kith_recall {
    double recall;    /* share of the first K whose distance is at most the true K-th */
    double low;       /* 95 % interval over rows (Wilson's, with the variance that rows have; */
    double high;      /*   also of a recall of 1); equal to recall if all rows were compared */
    double equal_ids; /* share of the first K true ids that were found */
    double distance_ratio; /* mean of found K-th / true K-th distance, where the latter is not 0 */
    int64_t rows;          /* rows compared */
    int64_t at;            /* K */
    int64_t own_rows;      /* 1: kith_recall_estimate has left rows out of their own lists */
} kith_recall;

/* What a call did. */
typedef struct kith_report {
    uint32_t struct_size; /* set by the caller to sizeof(kith_report) */
    kith_exactness exact; /* of what was found. Of a graph that was made of others: certified where
                             they are (kith_neighbors.meta), unknown where one is */
    double seconds_total;
    double seconds_check;   /* reading every value once: NaN, infinity, range */
    double seconds_prepare; /* mean, order, equal rows, rounded copies */
    double seconds_screen;
    double seconds_rescore; /* canonical distances and final order */
    double rerun_share;     /* share of rows whose bound did not close in the first pass */
    double skipped_share;   /* share of pairs in tiles that were skipped by their bounds */
    double looked_share;    /* share of pairs that a screen of fewer columns let pass; 0 without */
    double candidates;      /* canonical distances a row */
    int64_t distinct_rows;  /* distinct rows of the corpus */
    uint64_t peak_bytes;    /* most memory that kith held at once in this call */
    char isa[16];
    char screen[16];         /* "s8", "s16", "f16", "bf16", "f32", "direct": of full rows; or
                                "matrix", "hybrid", "buffer_tree", "tree" */
    char backend[16];        /* "cpu", "cuda:0": where it was computed */
    char gpu[64];            /* "NVIDIA H200"; "" on the processor */
    uint64_t gpu_peak_bytes; /* most device memory that this call held at once */
    double seconds_select;   /* selection of the pipelines matrix and hybrid, where it was waited
                                for; finding leaves of buffer_tree. The screen's seconds are
                                without it */
    int64_t select_cpu_rows; /* hybrid: rows whose k the processor selected, and the GPU; each */
    int64_t select_gpu_rows; /*   counts once for every chunk of the corpus */
    kith_recall recall;      /* of what is approximate, by a sample; rows 0: it was not estimated */
    int32_t reached;         /* 1: it is the recall that was wanted, or the answer is certified */
    int32_t shadow_axes;    /* columns of that screen of fewer, less one, or all where it was one of
                               bytes of all; 0: full rows were screened */
    double estimated_exact; /* seconds by which the way of a graph, or of a merge, was chosen; */
    double estimated_descent; /*   0: there was no choice */
} kith_report;

/* ---- 5. Search and graphs ------------------------------------------------------------------- */

enum {
    KITH_INCLUDE_SELF = 1u << 0, /* graph: a point competes for its own list like any other */
    KITH_WITHIN_RADIUS =
        1u << 3, /* the k nearest within params.radius; without it that must be 0 */
    KITH_RANGES_ON_DEVICE = 1u << 4 /* of kith_cuda_radius and kith_cuda_index_radius alone */
};

/* How neighbours are found. FUSED: distances are compared where they are computed, not written.
 * kith_papers.h has the other ways, for comparison: the answers are the same bytes. */
typedef int32_t kith_pipeline;
enum { KITH_PIPELINE_FUSED = 0 };

/* By which engine; AUTO may compare a few queries with all rows, too. Exact ones give the same
 * bytes. The tree is for euclidean, sqeuclidean, manhattan, chebyshev and haversine: far faster in
 * few dimensions (up to some 10), slower in many. A GPU has it for up to 64 columns and k = 65536
 * (beyond, KITH_E_UNSUPPORTED where a GPU was named).
 * KITH_METHOD_DESCENT is kith_graph's alone, KITH_METHOD_GRAPH kith_search's and that of an index;
 * calls that are exact refuse both with KITH_E_ARGUMENT. */
typedef enum kith_method {
    KITH_METHOD_AUTO = 0,    /* the one that will be faster, with the recall that is wanted */
    KITH_METHOD_EXACT = 1,   /* all pairs, screened */
    KITH_METHOD_TREE = 2,    /* a buffer k-d tree */
    KITH_METHOD_DESCENT = 3, /* NN-Descent, approximate (chapter 13) */
    KITH_METHOD_GRAPH = 4    /* walks on a graph of the corpus, approximate (chapter 13) */
} kith_method;

/* Methods of k-selection (chapter 12): NAME, number, name. kith_papers.h has more of them, for
 * comparison; numbers are one sequence. 0 is the fastest one here, by a measured table. */
#define KITH_SELECT_MAP(X)                                                               \
    X(SCAN, 1, scan)   /* reads the row once, against a threshold from a sample */       \
    X(QUICK, 2, quick) /* quick multi-select: partitions, on a GPU by votes of a warp */ \
    X(RADIX, 3, radix) /* histograms of digits, then one collection */
#define KITH_SELECT_NUMBER(NAME, number, name) KITH_SELECT_##NAME = number,
typedef int32_t kith_select_method;
enum { KITH_SELECT_MAP(KITH_SELECT_NUMBER) KITH_SELECT_AUTO = 0 };

/* Of numbers that rows and queries have: whose rows a query may find. */
typedef enum kith_rule {
    KITH_RULE_NONE = 0,  /* there are no numbers */
    KITH_RULE_SAME = 1,  /* those of its own group */
    KITH_RULE_OTHER = 2, /* those of all groups but its own */
    KITH_RULE_EACH = 3   /* k of every group: lists side by side, groups by rising number */
} kith_rule;

/* Which rows of the corpus a query may find: those that both parts allow. Borrowed for the call. */
typedef struct kith_filter {
    uint32_t struct_size; /* set by kith_filter_default() */
    kith_rule rule;
    const uint8_t *allow;        /* row r if byte r / 8 has the bit 1 << r % 8; NULL = all rows */
    int64_t allow_stride_bytes;  /* 0 = one bitmap for all queries; else, at least rows / 8 rounded
                                    up, from that of a query to that of the next one */
    const int64_t *groups;       /* with a rule: one for each row of the corpus, at least 0 */
    const int64_t *query_groups; /* of a search by same or other: one for each query; else NULL */
} kith_filter;

static inline kith_filter kith_filter_default(void)
{
    kith_filter filter;
    memset(&filter, 0, sizeof filter);
    filter.struct_size = sizeof filter;
    return filter;
}

struct kith_descent_params; /* chapter 13, and */
struct kith_descent_report;
struct kith_walk_params;
struct kith_walk_report;

typedef struct kith_search_params {
    uint32_t struct_size; /* set by kith_search_params_default() */
    kith_metric metric;   /* 0 = KITH_EUCLIDEAN; of an index: 0, or its own */
    int64_t k;            /* neighbours a row; no default, 0 is an error */
    uint32_t flags;       /* KITH_INCLUDE_SELF ... */
    int32_t leaf_buffer;  /* for KITH_PIPELINE_BUFFER_TREE of kith_papers.h: queries that may wait
                             for a leaf, 2 .. 2^22; 0 = 2^(22 - height), at least 16. Else 0 */
    const uint32_t *exclude; /* search: exclude[i] is the one corpus id that query i may not get
                                (KITH_ID_NONE: none); NULL = nobody is excluded */
    kith_distance_fn custom; /* for KITH_CUSTOM */
    void *custom_arg;
    kith_pipeline pipeline;    /* 0, or one of kith_papers.h */
    kith_select_method select; /* for KITH_PIPELINE_MATRIX of kith_papers.h; 0 = the fastest */
    kith_method method;        /* tree: KITH_E_UNSUPPORTED in both directions at once. Of an index:
                                  auto, or its own */
    int32_t sample;            /* for KITH_PIPELINE_HYBRID of kith_papers.h; else 0 */
    int32_t tree_height; /* of the tree that this call makes: 2^height leaves, of at least 16 rows
                            each, so at most log2(rows / 16), and 28; lower where rows are equal.
                            0 = the one that is fastest for so many columns */
    int32_t batch;       /* for KITH_PIPELINE_HYBRID of kith_papers.h; else 0 */
    double radius; /* with KITH_WITHIN_RADIUS: a distance is at most this (inner_product: at least).
                      Where fewer than k are, the row's last slots are empty: ids KITH_ID_NONE,
                      distances infinity (inner_product: its negative). By the tree a small radius
                      saves time. KITH_E_UNSUPPORTED for what lies on a GPU */
    double
        recall;        /* kith_graph: 0 .. 1. 1 and 0 = exact; below 1 and with the method auto a
                          descent until a sample has this recall, where that will be faster. With
                          KITH_METHOD_DESCENT always one, and 0 = until rounds change little. Of walks on a
                          graph: 0 .. 1, they become wider, from k on, until a sample has this recall; 0
                          = nothing is wanted. Not read elsewhere: what is exact has every recall */
    int64_t recall_at; /* K of recall@K; 0 = min(10, k) */
    uint64_t seed;     /* of a descent, of walks, and of their samples */
    const struct kith_descent_params *descent;  /* kith_graph: what a descent shall have beside what
                       stands here (its metric, k, flags, recall, recall_at, seed and custom are not
                       read); NULL = its defaults */
    struct kith_descent_report *descent_report; /* kith_graph: NULL, or its struct_size is set; what
                      a descent did. Where the graph is exact it is left as it is */
    const struct kith_walk_params *walk;  /* KITH_METHOD_GRAPH: the graph to walk on, and how */
    struct kith_walk_report *walk_report; /* NULL, or its struct_size is set; what walks did */
    const kith_filter *filter; /* kith_search, kith_graph, kith_cuda_ these two, their plan,
                      kith_index_search; else KITH_E_UNSUPPORTED. NULL = all rows. A row allowed
                      fewer than k ends with empty slots, as behind a radius. The bytes of comparing
                      with allowed rows alone, but for walks (chapter 13); all values are checked.
                      By each, out.k is k times the number of groups. No descent, no pipeline, no
                      tree_height */
    const double *period; /* one for each column: its points lie on a circle of this length, all of
                      them in [0, period), and their difference is the shorter way round; 0: not
                      this column; NULL = none. Host memory. Of euclidean, sqeuclidean, manhattan,
                      chebyshev and minkowski, exact; of an index its own counts, and this is NULL.
                      No descent, no walks, no pipeline */
} kith_search_params;

static inline kith_search_params kith_search_params_default(void)
{
    kith_search_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* For each query the k corpus rows that come first in the order (canonical key, id): exact, unless
 * params.method is KITH_METHOD_GRAPH (chapter 13).
 * out: queries.rows x k; k is at most corpus.rows, one less with params.exclude. Both matrices
 * have the same cols; dtypes may differ. report: NULL, or its struct_size is set; on success it is
 * what kith_ctx_report says.
 * Cost: corpus.rows * queries.rows * cols multiply-accumulates in the narrowest type that the
 * processor or GPU has and the data allow, and canonical distances of the few pairs that are left;
 * for metrics without matrix products (manhattan and those behind it) a canonical distance for
 * every pair; by a tree far fewer pairs. kith_plan_search tells the memory.
 * Returns KITH_E_ARGUMENT, E_DATA (names row and column), E_MEMORY, E_LIMIT, E_UNSUPPORTED,
 * E_CANCELLED; out then holds nothing of use. */
KITH_API kith_status kith_search(kith_ctx *ctx, const kith_matrix *corpus,
                                 const kith_matrix *queries, const kith_search_params *params,
                                 const kith_neighbors *out, kith_report *report);

/* The k-NN graph: each point against all others; exact, unless params.recall or params.method ask
 * for less, and then report says what was chosen, and its recall. out: points.rows x k; k is at
 * most points.rows - 1 (KITH_INCLUDE_SELF: points.rows). params.exclude is not read. A point leaves
 * itself out by its id: rows equal to it are neighbours at distance 0. A radius, a pipeline, a
 * tree's height and the flags of kith_papers.h are of exact graphs: with the method auto the graph
 * is one then, with KITH_METHOD_DESCENT they are KITH_E_ARGUMENT. Cost: half of a search's, since
 * each pair is computed once for both ends; a descent's: chapter 13. Statuses as kith_search; of a
 * descent KITH_E_DATA also for an id of params.descent->init that is no row. */
KITH_API kith_status kith_graph(kith_ctx *ctx, const kith_matrix *points,
                                const kith_search_params *params, const kith_neighbors *out,
                                kith_report *report);

/* Neighbours of a in b (ab: a.rows x k, ids of b) and of b in a (ba: b.rows x k, ids of a); on the
 * processor from one product, on a GPU from two. k is at most the rows of either; params.exclude is
 * NULL. Statuses as kith_search; both outputs then hold nothing of use. */
KITH_API kith_status kith_knn_both(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                                   const kith_search_params *params, const kith_neighbors *ab,
                                   const kith_neighbors *ba);

/* ---- 6. Points that are kept: kith_index.h -------------------------------------------------- */

/* ---- 7. Radius search ----------------------------------------------------------------------- */

typedef struct kith_radius_params {
    uint32_t struct_size; /* set by kith_radius_params_default() */
    kith_metric metric;   /* 0 = KITH_EUCLIDEAN */
    double radius;        /* a distance is at most this (inner_product: at least); < by nextafter */
    const double *radii;  /* one radius for each query instead; NULL = radius for all */
    uint32_t flags;       /* KITH_INCLUDE_SELF, KITH_RANGES_ON_DEVICE */
    uint32_t count_only;  /* 1: offsets alone, no ids and distances */
    kith_distance_fn custom;
    void *custom_arg;
    kith_method method;
    const kith_filter *filter; /* rows that may be found, but for rule each; NULL = all. What it
                                  forbids is found, too, and left out: it saves neither time nor
                                  memory */
    const double *period;      /* as in kith_search_params */
} kith_radius_params;

static inline kith_radius_params kith_radius_params_default(void)
{
    kith_radius_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* Rows of different lengths: the neighbours of query i are entries offsets[i] .. offsets[i + 1] -
 * 1, ascending by (key, id). Owned by the library, as are its arrays, until kith_ranges_free; keeps
 * ctx. */
typedef struct kith_ranges kith_ranges;
/* The view is read-only although its pointers are not const. */
typedef struct kith_lists {
    int64_t rows;
    int64_t *offsets; /* rows + 1 of them */
    uint32_t *ids;    /* this and the next: NULL if count_only */
    float *distances;
    double *distances64;
} kith_lists;
KITH_API const kith_lists *kith_ranges_lists(const kith_ranges *ranges);
/* All corpus rows within the radius of each query; queries NULL: of each point of the corpus, all
 * others (KITH_INCLUDE_SELF: itself, too). Cost as kith_search, and a canonical distance for
 * each neighbour; while it is put together the answer is held twice.
 * Statuses as kith_search. */
KITH_API kith_status kith_radius(kith_ctx *ctx, const kith_matrix *corpus,
                                 const kith_matrix *queries, const kith_radius_params *params,
                                 kith_ranges **out);
KITH_API void kith_ranges_free(kith_ranges *ranges);

/* ---- 8. Distances, recall ------------------------------------------------------------------- */

/* Pairs of rows, borrowed. */
typedef struct kith_pairs {
    int64_t count;
    const uint32_t *query_ids;
    const uint32_t *corpus_ids;
} kith_pairs;

/* out[i] = canonical distance of row query_ids[i] of queries and row corpus_ids[i] of corpus, for
 * i in 0 .. pairs.count - 1, on the processor. Not KITH_CUSTOM. All values of both matrices are
 * checked first; runs of the same query are fastest.
 * Returns KITH_E_ARGUMENT (also for an id beyond its matrix), E_DATA, E_MEMORY, E_LIMIT. */
KITH_API kith_status kith_distances(kith_ctx *ctx, const kith_matrix *corpus,
                                    const kith_matrix *queries, kith_metric metric,
                                    const kith_pairs *pairs, double *out);

/* Compares a result with the truth: as many rows, both with ids and distances (doubles where they
 * have them). at: K, 0 = min(10, k). Returns KITH_E_ARGUMENT, E_MEMORY, E_LIMIT, E_CANCELLED. */
KITH_API kith_status kith_recall_measure(kith_ctx *ctx, const kith_neighbors *found,
                                         const kith_neighbors *truth, kith_metric metric,
                                         int64_t at, kith_recall *out);
typedef struct kith_recall_params {
    uint32_t struct_size; /* set by kith_recall_params_default() */
    kith_metric metric;   /* 0 = KITH_EUCLIDEAN; not KITH_CUSTOM */
    int64_t at;           /* K of recall@K; 0 = min(10, k) */
    int64_t sample; /* rows to solve exactly; 0 = 1,000; all of them where there are no more */
    uint64_t seed;  /* which rows */
} kith_recall_params;

static inline kith_recall_params kith_recall_params_default(void)
{
    kith_recall_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* Estimates the recall of a graph of points from a sample of its rows, solved exactly on the
 * processor. Of the graph the ids alone are read, and their distances computed canonically; empty
 * slots are misses, a point's own id is left out (`at` is then at most k - 1). Returns
 * KITH_E_ARGUMENT, E_DATA, E_MEMORY, E_LIMIT, E_CANCELLED. */
KITH_API kith_status kith_recall_estimate(kith_ctx *ctx, const kith_matrix *points,
                                          const kith_neighbors *graph,
                                          const kith_recall_params *params, kith_recall *out);

/* ---- 9. Files ------------------------------------------------------------------------------- */

/* Calls of this chapter return KITH_E_ARGUMENT, E_IO (the system refused, with its reason),
 * E_FORMAT (the file is not what its name or header claims), E_DATA (a value that the format or
 * kith cannot hold, with row and column), E_MEMORY, E_LIMIT, E_UNSUPPORTED (.hdf5 without its
 * module). Files are written whole or not at all (temporary file, fsync, rename): after a failure
 * what was there before is there still. Sizes are checked when a file is opened; one that is mapped
 * and shortened by others afterwards ends the process (SIGBUS). Formats byte by byte:
 * docs/format.md. */

/* What neighbours are saved in: NAME, number, name. */
#define KITH_FORMAT_MAP(X)                                                                        \
    X(NPZ, 1, "npz") /* ids, distances, meta */                                                   \
    X(CSR, 2, "csr") /* a SciPy sparse matrix in .npz */                                          \
    X(IVECS, 3, "ivecs")                                                                          \
    X(IBIN, 4, "ibin")                                                                            \
    X(KNN, 5, "knn") /* big-ann-benchmarks */                                                     \
    X(KITH, 6, "kith")                                                                            \
    X(CSV, 7, "csv")           /* text to look at: a line a neighbour, "id,neighbour,distance" */ \
    X(TSV, 8, "tsv")           /* the same between tabs */                                        \
    X(CSV_WIDE, 9, "csv-wide") /* a line a row: id, its neighbours, their distances */            \
    X(TSV_WIDE, 10, "tsv-wide")
typedef enum kith_format {
#define KITH_FORMAT_NUMBER(NAME, number, name) KITH_FORMAT_##NAME = (number),
    KITH_FORMAT_MAP(KITH_FORMAT_NUMBER)
#undef KITH_FORMAT_NUMBER
        KITH_FORMAT_AUTO = 0 /* by the extension of the path */
} kith_format;

/* neighbors: ids, and distances where the format holds them; ivecs and ibin hold ids alone. Ranges
 * are written as .npz (csr), .kith, .range (big-ann-benchmarks), .csv or .tsv; text also goes to
 * pipes and, "-", to standard output. meta: .npz, csr and .kith hold it, ivecs, ibin, knn and text
 * cannot, and what is opened from them is unknown. KITH_E_ARGUMENT where it is certified of unknown
 * points, or of another number of rows than corpus_rows. No file says a radius: save lists that one
 * has cut (empty slots) as of unknown exactness. neighbors.meta is not read. Equal answers are
 * equal files: no date, host or backend is stored. */
KITH_API kith_status kith_result_save(kith_ctx *ctx, const char *path, kith_format format,
                                      const kith_neighbors *neighbors,
                                      const kith_result_meta *meta);
KITH_API kith_status kith_ranges_save(kith_ctx *ctx, const char *path, const kith_ranges *ranges,
                                      const kith_result_meta *meta);
typedef struct kith_result kith_result;
/* A .kith file that names parts (kith_shard.h) is the whole graph: ids and distances of all parts
 * stand one behind the other, mapped from their files, whose checksums are right. */
KITH_API kith_status kith_result_open(kith_ctx *ctx, const char *path, kith_result **out);
/* ids always; distances NULL where the format has none; meta is never NULL. Valid as long as the
 * result. The view is read-only although its pointers are not const: it may lie in a mapped file.
 */
KITH_API const kith_neighbors *kith_result_neighbors(const kith_result *result);
KITH_API void kith_result_free(kith_result *result);

typedef struct kith_file_info {
    uint32_t struct_size; /* set by the caller to sizeof(kith_file_info) */
    kith_kind kind;
    char format[16]; /* "fvecs", "npy" ... */
    kith_dtype dtype;
    kith_metric metric;   /* 0 when the file does not say */
    kith_exactness exact; /* what the file says; unknown where it says nothing */
    int32_t reserved;
    int64_t rows;
    int64_t cols; /* d of points, k of results */
    uint64_t file_bytes;
    int32_t tree_height; /* of a tree: 2^height leaves */
    int32_t periodic;    /* 1: of an index: columns have a period */
    int64_t tree_rows;   /* distinct rows, which stand in its leaves */
    int64_t tree_slack;  /* places that are free for more of them */
    double recall;       /* of an approximate graph or result: the estimate; < 0 = not known */
    int64_t recall_at;
    int32_t parts;     /* a graph in so many files, or of so many; 0: in one. file_bytes: of all */
    int32_t part;      /* this file is one of them, counted from 1; 0: it names them all */
    int64_t first_row; /* of a part: the row of the graph that its first one is */
    kith_fingerprint points; /* of a graph or result: what its ids are rows of; rows 0: not known */
    int32_t header;          /* of text, 1: its first line names the columns */
    int32_t delimiter;       /* of text: see kith_points_source */
} kith_file_info;
struct kith_points_params; /* kith_points.h */
/* What a file holds, from its header and size alone (of text, its lines); params as for
 * kith_points_open, NULL: the default. Of one that names parts, theirs too: a part
 * that is missing, or not the one that was written with the others, is an error. */
KITH_API kith_status kith_file_inspect(kith_ctx *ctx, const char *path,
                                       const struct kith_points_params *params,
                                       kith_file_info *info);

/* ---- 10. Plans, reports, devices ------------------------------------------------------------ */

/* What a job will need, before it runs. Bytes of host memory; mapped input is not counted. On a GPU
 * prepared and state are what the host holds beside it. */
typedef struct kith_plan {
    uint32_t struct_size; /* set by the caller to sizeof(kith_plan) */
    int32_t threads;
    uint64_t prepared_bytes; /* rounded copies, norms, order */
    uint64_t state_bytes;    /* candidate lists while the job runs */
    uint64_t result_bytes;   /* ids and float32 distances */
    uint64_t peak_bytes;     /* all of it and the working memory of the threads */
    char isa[16];
    char method[16];           /* "screen", "direct", "matrix", "hybrid", "buffer_tree", "tree",
                                  "descent" */
    char backend[16];          /* "cpu", "cuda:0": where the job would run */
    uint64_t gpu_bytes;        /* device memory that it wants at its best; 0 on the processor */
    uint64_t gpu_least_bytes;  /* the least that it runs in, with the smallest batches */
    uint64_t gpu_budget_bytes; /* what it may take */
    int64_t gpu_corpus_chunks; /* within the budget: pieces of the corpus, one after another, */
    int64_t gpu_query_stripes; /*   each met by so many batches of queries */
    uint64_t undecided_bytes;  /* of the peak: not held where the cheapest way and type will do; all
                                  that a filter's parts may take beside the job without it */
    double estimated_exact;    /* seconds by which the call would choose between the two; 0: it */
    double estimated_descent;  /*   has no choice. Of one machine, elsewhere within a factor of 2 */
} kith_plan;
/* queries NULL: a graph of the corpus, and then method tells what kith_graph would choose for these
 * params. Lists of a descent that become longer for the sake of a recall are not in the plan: they
 * are given up where there is no memory for them; nor are those that bitmaps a query ask for. The
 * data of either may be NULL: then shapes and types alone say what a job holds at most. Data are
 * read once on the processor: equal rows are stored once, and where `auto` may take a tree a small
 * one is asked. peak_bytes is never below what the job holds, and with data, not all degenerate, at
 * most a fourth above it, but for undecided_bytes. Returns KITH_E_ARGUMENT, and what the call
 * itself would refuse by shapes alone.
 */
KITH_API kith_status kith_plan_search(kith_ctx *ctx, const kith_matrix *corpus,
                                      const kith_matrix *queries, const kith_search_params *params,
                                      kith_plan *plan);
/* What the last search or graph call of this context did. KITH_E_ARGUMENT: an argument is NULL, or
 * struct_size is not set. */
KITH_API kith_status kith_ctx_report(const kith_ctx *ctx, kith_report *report);

typedef struct kith_device {
    uint32_t struct_size; /* set by the caller to sizeof(kith_device) */
    int32_t available;    /* 1: kith can use it */
    char name[64];        /* "cpu", "cuda:0" */
    char text[192];       /* what it is, or the reason why it is not used */
} kith_device;
/* Device 0 is the processor; then comes every GPU, or one entry "cuda" that says why there is none.
 * KITH_E_ARGUMENT behind the last one. Needs no context, so the status alone explains a failure. */
KITH_API kith_status kith_device_get(int32_t index, kith_device *device);

#ifdef __cplusplus
}
#endif

#include "kith/kith_descent.h"
#include "kith/kith_index.h"
#include "kith/kith_merge.h"
#include "kith/kith_pairs.h"
#include "kith/kith_points.h"
#include "kith/kith_predict.h"
#include "kith/kith_select.h"
#include "kith/kith_shard.h"
#include "kith/kith_truth.h"

#endif
