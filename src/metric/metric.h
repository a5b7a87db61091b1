/* SPDX-License-Identifier: Apache-2.0
 * Canonical distances: the one definition of how far two rows are apart, to the last bit.
 *
 * A key is an IEEE double that depends on the two rows and the metric alone: same bits on every
 * body, thread and block size (docs/notes/numerics.md, "Canonical distance"). Neighbours are
 * ordered by (key, id). The distance that a user sees is kin_metric_distance(metric, key).
 *
 * The arithmetic stands in metric_canonical.h, which host and device compilers both read; a body
 * per instruction set (metric_portable.c, metric_avx2.c, metric_avx512.c) computes the same bits
 * faster. metric_portable.c picks.
 *
 *   query     one row, expanded: cols rounded up to KIN_METRIC_LANES doubles, transformed
 *             (normalised for cosine, centred and normalised for correlation), zeros behind
 *   corpus    rows of any dtype and stride, transformed while they are read
 *   keys      never NaN for checked input, except from a caller's own function
 *   threads   everything here is read-only after creation
 *   mode      the caller's thread is in the standard floating-point mode (host/host_cpu.h)
 */
#ifndef KIN_METRIC_METRIC_H
#define KIN_METRIC_METRIC_H

#include "base/base_ctx.h"
#include "metric/metric_arith.h"

/* The key of haversine as a metric of its own, inside the library: for whoever compares distances
 * where keys are meant, as squares are compared for euclidean. Its name is haversine's; a public
 * call takes it from inside another one alone (api_check.c). */
enum { KIN_HAVERSINE_KEY = KITH_HAVERSINE + KITH_POWER_FIRST };

/* The metric whose distances are the keys of this one, but for their sign: two different keys may
 * have one root, or one angle. */
static inline kith_metric kin_metric_of_keys(kith_metric metric)
{
    return metric == KITH_EUCLIDEAN   ? KITH_SQEUCLIDEAN
           : metric == KITH_HAVERSINE ? (kith_metric)KIN_HAVERSINE_KEY
                                      : metric;
}

/* How a metric can be screened (exact/): by the distance or the product of transformed rows. */
typedef enum kin_screen_kind {
    KIN_SCREEN_DIRECT = 0, /* no matrix product: keys are computed one by one */
    KIN_SCREEN_DISTANCE,   /* key = key_scale * |t(q) - t(c)|^2, t the transform */
    KIN_SCREEN_PRODUCT     /* key = -q.c */
} kin_screen_kind;

typedef struct kin_metric_traits {
    kin_screen_kind screen;
    double key_scale;    /* 1, or 1/2 for cosine and correlation */
    bool symmetric;      /* key(i, j) and key(j, i) have the same bits */
    bool transforms;     /* rows need a kin_row_transform */
    bool nonnegative;    /* components must be >= 0 */
    bool below_zero;     /* distances may be */
    kith_dtype dtype;    /* the only one that it takes, or NONE: any */
    int32_t cols;        /* the only number of columns, or 0: any */
    bool wraps;          /* columns may have a period */
    const char *aliases; /* with blanks between */
} kin_metric_traits;

/* Whether a number is a metric: one of the enumerators but DEFAULT, with a power where it is
 * minkowski. */
static inline bool kin_metric_is(int64_t number)
{
    const int64_t base = number % KITH_POWER_FIRST;
    return base > KITH_METRIC_DEFAULT && base <= KITH_METRIC_LAST && number <= INT32_MAX &&
           (base == KITH_MINKOWSKI ? number / KITH_POWER_FIRST > KITH_POWER_STEPS
                                   : number < KITH_POWER_FIRST);
}

/* Of a metric, and of minkowski without a power. */
const kin_metric_traits *kin_metric_get_traits(kith_metric metric);

/* A matrix whose stride is filled in, and its rows' transforms (metric_arith.h; NULL where the
 * metric has none). */
typedef struct kin_rows {
    kith_matrix matrix;
    const kin_row_transform *transforms;
} kin_rows;

/* A query made ready by kin_metric_load. */
typedef struct kin_query {
    double *values; /* the caller's buffer */
    const void *raw;
    bool degenerate;
} kin_query;

/* A metric bound to a number of columns and to a body. Small; copy freely. */
typedef struct kin_distance {
    kith_metric metric;
    int32_t cols;
    kin_isa isa;
    kith_distance_fn custom;
    void *custom_arg;
    const double *period; /* by column, 0: it has none; NULL: none has */
} kin_distance;

/* Rows first .. first + count - 1, where they are. */
static inline kith_matrix kin_matrix_part(const kith_matrix *matrix, int64_t first, int64_t count)
{
    kith_matrix part = *matrix;
    part.data = (const char *)matrix->data + first * matrix->stride_bytes;
    part.rows = count;
    return part;
}

/* Whether the metric takes rows of this type and width; E_ARGUMENT names `name` and what it takes.
 * kin_metric_check asks first. */
kith_status kin_metric_takes(kith_ctx *ctx, const kith_matrix *matrix, kith_metric metric,
                             const char *name);

/* Every value once: NaN, infinity, float64 beyond 2^500 (a caller's own function takes any finite
 * one), beyond 2^20 for haversine, negatives for chi2 and kl, float64 in (0, 2^-500) for kl. E_DATA
 * names `name`, the lowest row, then the lowest column: "points[17, 3] is NaN (remove or replace
 * it)". Parallel. */
kith_status kin_metric_check(kith_ctx *ctx, const kith_matrix *matrix, kith_metric metric,
                             const char *name);

/* The same, and then whether every component of a column with a period is in [0, period). */
kith_status kin_metric_check_box(kith_ctx *ctx, const kith_matrix *matrix,
                                 const kin_distance *distance, const char *name);
/* A caller's own distance is no number. */
kith_status kin_metric_fail_nan(kith_ctx *ctx, int64_t query, int64_t point);

/* The error for the first bad value of a row that has one, else for the first that is outside of
 * its period: row `row` of the matrix, whose values are at `data`; the matrix's own data are not
 * read. */
kith_status kin_metric_complain(kith_ctx *ctx, const kith_matrix *matrix, const void *data,
                                int64_t row, const kin_distance *distance, const char *name);

/* Transforms of all rows (matrix.rows of them, the caller's array). Parallel. Not called for
 * metrics that have none. */
kith_status kin_metric_transforms(kith_ctx *ctx, const kith_matrix *matrix, kith_metric metric,
                                  kin_row_transform *transforms);

/* values: room for cols rounded up to KIN_METRIC_LANES doubles, 64-byte aligned (KITH_CUSTOM: not
 * touched, may be NULL). */
kin_query kin_metric_load(const kin_distance *distance, const kin_rows *rows, int64_t row,
                          double *values);

/* keys[i] = key(query, corpus row ids[i]). */
void kin_metric_keys(const kin_distance *distance, const kin_query *query, const kin_rows *corpus,
                     const uint32_t *ids, int64_t count, double *keys);
/* keys[i] = key(query, corpus row first + i). */
void kin_metric_keys_run(const kin_distance *distance, const kin_query *query,
                         const kin_rows *corpus, int64_t first, int64_t count, double *keys);

/* Rows of a corpus that are compared with many queries are expanded once, as kin_metric_load does
 * it. Which metrics can, kin_metric_expands says. */
typedef struct kin_expanded {
    const uint32_t *ids;
    int64_t count;
    double *values; /* room for so many, kin_metric_wide apart; aligned as those of a query */
} kin_expanded;

bool kin_metric_expands(const kin_distance *distance);
static inline int64_t kin_metric_wide(const kin_distance *distance)
{
    return ((int64_t)distance->cols + KIN_METRIC_LANES - 1) / KIN_METRIC_LANES * KIN_METRIC_LANES;
}
void kin_metric_expand(const kin_distance *distance, const kin_rows *corpus,
                       const kin_expanded *rows);
/* keys[i] = key(query, corpus row rows.ids[i]). */
void kin_metric_keys_expanded(const kin_distance *distance, const kin_query *query,
                              const kin_rows *corpus, const kin_expanded *rows, double *keys);

/* What the user sees of a key, as double: its root, its negative, or itself. Monotone in the order
 * of keys (inner_product: falling). Never -0. */
double kin_metric_distance(kith_metric metric, double key);

/* Whether a distance is within a radius in the metric's own sense (inner_product: at least). */
bool kin_metric_within(kith_metric metric, double distance, double radius);

/* Once a process, thread-safe: rounding mode, fused multiply-add, no other fusion. KITH_E_INTERNAL
 * when the build or the machine would compute other bits. */
kith_status kin_metric_selftest(kith_ctx *ctx);

#endif
