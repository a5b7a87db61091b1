/* SPDX-License-Identifier: Apache-2.0
 * The bodies of metric/: one table a machine, all with the same bits. metric_portable.c picks.
 *
 *   metric_portable.c   the definition, one component at a time
 *   metric_avx2.c       eight lanes in two registers
 *   metric_avx512.c     eight lanes in one
 */
#ifndef KIN_METRIC_TABLE_H
#define KIN_METRIC_TABLE_H

#include "metric/metric.h"
#include "metric/metric_canonical.h"

/* keys[i] = key(query, row r_i), r_i = ids[i] or first + i. Nothing outside the rows is read. */
typedef struct kin_keys_job {
    const double *query; /* expanded, zero padded to whole lanes, not degenerate */
    const char *raw;     /* the same row as given */
    const char *data;    /* corpus row 0 */
    int64_t stride_bytes;
    const kin_row_transform *transforms; /* NULL where the metric has none */
    const uint32_t *ids;
    int64_t first;
    int64_t count;
    double *keys;
    int32_t cols;
    kin_power power; /* of minkowski */
    const double *period;
} kin_keys_job;

static inline int64_t kin_keys_row(const kin_keys_job *job, int64_t i)
{
    return job->ids != NULL ? (int64_t)job->ids[i] : job->first + i;
}

typedef void (*kin_keys_fn)(const kin_keys_job *job);
/* values[0 .. cols rounded up to whole lanes) = the row, transformed if transform is not NULL. */
typedef void (*kin_expand_fn)(const char *row, int32_t cols, const kin_row_transform *transform,
                              double *values);
/* The transform of one row: centred for correlation, not for cosine. */
typedef kin_row_transform (*kin_transform_fn)(const char *row, int32_t cols, bool centred);

/* Smallest and largest value of a row. */
typedef struct kin_row_range {
    double min;
    double max;
} kin_row_range;

/* What a row's transform begins with: all of it where it is degenerate. */
static inline kin_row_transform kin_row_begin(kin_row_range r, bool centred, kith_dtype dtype)
{
    const double largest = kin_max(kin_abs(r.min), kin_abs(r.max));
    return (kin_row_transform){.scale = dtype == KITH_F64 ? kin_row_scale(largest) : 1.0,
                               .degenerate = (centred ? r.min == r.max : largest == 0) ? 1 : 0};
}

enum { KIN_METRIC_COUNT = KITH_METRIC_LAST + 1, KIN_DTYPE_COUNT = KITH_DTYPE_LAST + 1 };

typedef struct kin_metric_table {
    kin_keys_fn keys[KIN_METRIC_COUNT][KIN_DTYPE_COUNT]; /* euclidean's are at sqeuclidean */
    kin_keys_fn wrapped[KIN_METRIC_COUNT]
                       [KIN_DTYPE_COUNT]; /* with a period; likewise, NULL: portable */
    kin_expand_fn expand[KIN_DTYPE_COUNT];
    kin_transform_fn transform[KIN_DTYPE_COUNT];
} kin_metric_table;

KIN_BODIES_OF(kin_metric_table)

/* The widest body that is part of isa. */
const kin_metric_table *kin_metric_pick(kin_isa isa);

/* The instances that every body has: X(name, METRIC, dtype, DTYPE). */
#define KIN_EACH_DTYPE(X, name, METRIC) \
    X(name, METRIC, f32, KITH_F32)      \
    X(name, METRIC, f64, KITH_F64)      \
    X(name, METRIC, f16, KITH_F16)      \
    X(name, METRIC, bf16, KITH_BF16)    \
    X(name, METRIC, u8, KITH_U8)        \
    X(name, METRIC, i8, KITH_I8)

/* Of bytes alone. */
#define KIN_OF_BYTES(X, name, METRIC) X(name, METRIC, u8, KITH_U8)

/* Metrics that have keys of their own: euclidean has those of its square. */
#define KIN_EACH_KEYS(X) KIN_STEP_MAP(X) X(COSINE, cosine, 8) X(CORRELATION, correlation, 8)

/* A body is written once, as functions keys_body(job, METRIC, DTYPE, wraps), expand_body(...,
 * DTYPE) and transform_body(..., DTYPE), and whole_body of metric_whole.h, that are inlined with
 * constant last arguments; these lines make the instances and the table of a file. */
#define KIN_KEYS_INSTANCES(NAME, name, at_once) KIN_EACH_DTYPE(KIN_KEYS_INSTANCE, name, KITH_##NAME)
#define KIN_KEYS_ENTRIES(NAME, name, at_once) KIN_EACH_DTYPE(KIN_KEYS_ENTRY, name, KITH_##NAME)
#define KIN_KEYS_INSTANCE(name, METRIC, dtype, DTYPE)          \
    static void keys_##name##_##dtype(const kin_keys_job *job) \
    {                                                          \
        keys_body(job, METRIC, DTYPE, false);                  \
    }
#define KIN_WHOLE_INSTANCES(NAME, name, EACH) EACH(KIN_WHOLE_INSTANCE, name, KITH_##NAME)
#define KIN_WHOLE_ENTRIES(NAME, name, EACH) EACH(KIN_KEYS_ENTRY, name, KITH_##NAME)
#define KIN_WHOLE_INSTANCE(name, METRIC, dtype, DTYPE)         \
    static void keys_##name##_##dtype(const kin_keys_job *job) \
    {                                                          \
        whole_body(job, METRIC, DTYPE);                        \
    }
/* Boxes have floats and doubles, as a rule: other types go through the portable table, which has
 * all. */
#ifndef KIN_WRAP_DTYPES
#define KIN_WRAP_DTYPES(X, name, METRIC) \
    X(name, METRIC, f32, KITH_F32) X(name, METRIC, f64, KITH_F64)
#endif
#define KIN_WRAP_INSTANCES(NAME, name, at_once) \
    KIN_WRAP_DTYPES(KIN_WRAP_INSTANCE, name, KITH_##NAME)
#define KIN_WRAP_ENTRIES(NAME, name, at_once) KIN_WRAP_DTYPES(KIN_WRAP_ENTRY, name, KITH_##NAME)
#define KIN_WRAP_INSTANCE(name, METRIC, dtype, DTYPE)          \
    static void wrap_##name##_##dtype(const kin_keys_job *job) \
    {                                                          \
        keys_body(job, METRIC, DTYPE, true);                   \
    }
#define KIN_WRAP_ENTRY(name, METRIC, dtype, DTYPE) [METRIC][DTYPE] = wrap_##name##_##dtype,
#define KIN_ROW_INSTANCE(name, METRIC, dtype, DTYPE)                                              \
    static void expand_##dtype(const char *row, int32_t cols, const kin_row_transform *transform, \
                               double *values)                                                    \
    {                                                                                             \
        expand_body(row, cols, transform, values, DTYPE);                                         \
    }                                                                                             \
    static kin_row_transform transform_##dtype(const char *row, int32_t cols, bool centred)       \
    {                                                                                             \
        return transform_body(row, cols, centred, DTYPE);                                         \
    }
#define KIN_KEYS_ENTRY(name, METRIC, dtype, DTYPE) [METRIC][DTYPE] = keys_##name##_##dtype,
#define KIN_EXPAND_ENTRY(name, METRIC, dtype, DTYPE) [DTYPE] = expand_##dtype,
#define KIN_TRANSFORM_ENTRY(name, METRIC, dtype, DTYPE) [DTYPE] = transform_##dtype,

#define KIN_METRIC_TABLE(table)                                                     \
    KIN_EACH_KEYS(KIN_KEYS_INSTANCES)                                               \
    KIN_WHOLE_MAP(KIN_WHOLE_INSTANCES)                                              \
    KIN_WRAP_MAP(KIN_WRAP_INSTANCES)                                                \
    KIN_EACH_DTYPE(KIN_ROW_INSTANCE, row, 0)                                        \
    const kin_metric_table table = {                                                \
        .keys = {KIN_EACH_KEYS(KIN_KEYS_ENTRIES) KIN_WHOLE_MAP(KIN_WHOLE_ENTRIES)}, \
        .wrapped = {KIN_WRAP_MAP(KIN_WRAP_ENTRIES)},                                \
        .expand = {KIN_EACH_DTYPE(KIN_EXPAND_ENTRY, row, 0)},                       \
        .transform = {KIN_EACH_DTYPE(KIN_TRANSFORM_ENTRY, row, 0)},                 \
    };

#endif
