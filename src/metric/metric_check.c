/* SPDX-License-Identifier: Apache-2.0
 * Every value is looked at once, before anything is computed: NaN, infinity, and what a metric
 * cannot take. The error names the lowest row and in it the lowest column, however many threads
 * looked.
 *
 * Idea. Values are judged by their bits, as integers: without the sign, the bits of a number rise
 * with its magnitude, and everything that is not finite lies above all that is. A row is scanned
 * for "is there anything bad" without a branch a value; only a bad row is read again.
 *
 * Why the bounds. Up to 2^500 the squares of 2^20 differences cannot overflow; above 2^-500 the
 * quotients of kl stay normal numbers. Only float64 can leave these bounds. */
#include "metric/metric.h"

#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "metric/metric_table.h"
#include "metric/metric_value.h"

#include <inttypes.h>
#include <stdio.h>

static const int64_t PIECE_BYTES = 1 << 20;
enum { VALUES_AT_ONCE = 16 };

/* What is allowed, in terms of bits without the sign. */
typedef struct law {
    uint64_t most;  /* the largest magnitude */
    uint64_t least; /* the smallest magnitude but 0 */
    bool nonnegative;
} law;

typedef struct check_job {
    kith_matrix matrix;
    law law;
    int64_t rows_a_piece;
    atomic_int_fast64_t first_bad; /* row, or rows */
} check_job;

static law law_of(kith_dtype dtype, kith_metric metric)
{
    law l = {.least = 1, .nonnegative = kin_metric_get_traits(metric)->nonnegative};
    switch (dtype) {
    case KITH_F64:
        /* A caller's own function may take any finite number. */
        l.most = kin_bits_of(metric == KITH_CUSTOM ? DBL_MAX : 0x1p500);
        l.least = metric == KITH_KL ? kin_bits_of(0x1p-500) : 1;
        break;
    case KITH_F32:
        l.most = 0x7f7fffffu;
        break;
    case KITH_F16:
        l.most = 0x7bffu;
        break;
    case KITH_BF16:
        l.most = 0x7f7fu;
        break;
    case KITH_U8:
    case KITH_I8:
    case KITH_DTYPE_NONE:
        l.most = UINT64_MAX;
        break;
    }
    return l;
}

/* Each scan_x says whether any of n values breaks the law. The inner loop has a fixed length, so
 * that the compiler makes vectors of it. */
#define SCAN(name, type, SIGN)                                                                    \
    static bool name(const char *data, int32_t n, const law *l)                                   \
    {                                                                                             \
        const type most = (type)l->most;                                                          \
        const type least = (type)(l->least - 1);                                                  \
        const type sign = l->nonnegative ? (SIGN) : 0;                                            \
        type bad = 0;                                                                             \
        for (int32_t i = 0; i < n; i += VALUES_AT_ONCE) {                                         \
            type bits[VALUES_AT_ONCE] = {0};                                                      \
            const int32_t here = n - i < VALUES_AT_ONCE ? n - i : VALUES_AT_ONCE;                 \
            memcpy(bits, data + (int64_t)i * (int64_t)sizeof(type), (size_t)here * sizeof(type)); \
            for (int j = 0; j < VALUES_AT_ONCE; j++) {                                            \
                const type magnitude = (type)(bits[j] & (type) ~(SIGN));                          \
                const type negative = (type)(bits[j] & sign);                                     \
                bad |= (type)(magnitude > most);                                                  \
                bad |= (type)((type)(magnitude - 1) < least);                                     \
                bad |= (type)((magnitude != 0) & (negative != 0));                                \
            }                                                                                     \
        }                                                                                         \
        return bad != 0;                                                                          \
    }

SCAN(scan_64, uint64_t, UINT64_C(1) << 63)
SCAN(scan_32, uint32_t, UINT32_C(1) << 31)
SCAN(scan_16, uint16_t, UINT16_C(1) << 15)

/* int8 under a metric that takes no negatives. */
static bool scan_i8(const char *data, int32_t n)
{
    char any = 0;
    for (int32_t i = 0; i < n; i++) {
        any = (char)(any | data[i]);
    }
    return (int8_t)any < 0;
}

static bool is_bad(kith_dtype dtype, const char *data, int32_t n, const law *l)
{
    switch (kith_dtype_bytes(dtype)) {
    case 8:
        return scan_64(data, n, l);
    case 4:
        return scan_32(data, n, l);
    case 2:
        return scan_16(data, n, l);
    default:
        return dtype == KITH_I8 && l->nonnegative && scan_i8(data, n);
    }
}

/* Later rows are of no interest once a bad one is known; lower ones still are. */
static kith_status check_piece(void *arg, int64_t piece, int32_t thread)
{
    (void)thread;
    check_job *job = arg;
    const kith_matrix *m = &job->matrix;
    const int64_t begin = piece * job->rows_a_piece;
    const int64_t end = kin_min_i64(begin + job->rows_a_piece, m->rows);
    for (int64_t row = begin; row < end && row < atomic_load(&job->first_bad); row++) {
        const char *data = (const char *)m->data + row * m->stride_bytes;
        if (is_bad(m->dtype, data, m->cols, &job->law)) {
            int_fast64_t known = atomic_load(&job->first_bad);
            while (row < known && !atomic_compare_exchange_weak(&job->first_bad, &known, row)) {
            }
        }
    }
    return KITH_OK;
}

/* The sentence for the first bad value of a row. */
static kith_status explain(kith_ctx *ctx, const check_job *job, kith_metric metric, int64_t row,
                           const char *name)
{
    const kith_matrix *m = &job->matrix;
    const char *data = (const char *)m->data + row * m->stride_bytes;
    const int64_t bytes = kith_dtype_bytes(m->dtype);
    int32_t col = 0;
    while (col + 1 < m->cols && !is_bad(m->dtype, data + col * bytes, 1, &job->law)) {
        col += 1;
    }
    const double x = kin_value(m->dtype, data, col);
    char place[128];
    (void)snprintf(place, sizeof place, "%.64s[%" PRId64 ", %" PRId32 "]", name, row, col);
    if (isnan(x)) {
        return kin_fail(ctx, KITH_E_DATA, "%s is NaN (remove or replace it)", place);
    }
    if (isinf(x)) {
        return kin_fail(ctx, KITH_E_DATA, "%s is %sinfinite (remove or replace it)", place,
                        x < 0 ? "negatively " : "");
    }
    if (fabs(x) > 0x1p500) {
        return kin_fail(ctx, KITH_E_DATA,
                        "%s is %.17g, beyond 2^500 in magnitude, where squares overflow (scale the "
                        "data down)",
                        place, x);
    }
    if (x < 0) {
        return kin_fail(ctx, KITH_E_DATA,
                        "%s is %.17g, but %s needs values that are not negative (choose another "
                        "metric, or shift the data)",
                        place, x, kith_metric_name(metric));
    }
    return kin_fail(ctx, KITH_E_DATA,
                    "%s is %.17g, but %s needs 0 or at least 2^-500 (set it to 0)", place, x,
                    kith_metric_name(metric));
}

/* An 8-bit number is always finite; only its sign can be wrong. */
static bool needs_check(kith_dtype dtype, kith_metric metric)
{
    const bool signs = kin_metric_get_traits(metric)->nonnegative;
    return dtype != KITH_U8 && (dtype != KITH_I8 || signs);
}

kith_status kin_metric_check(kith_ctx *ctx, const kith_matrix *matrix, kith_metric metric,
                             const char *name)
{
    if (!needs_check(matrix->dtype, metric)) {
        return KITH_OK;
    }
    const int64_t row_bytes = (int64_t)matrix->cols * kith_dtype_bytes(matrix->dtype);
    check_job job = {
        .matrix = *matrix,
        .law = law_of(matrix->dtype, metric),
        .rows_a_piece = kin_ceil_div(PIECE_BYTES, row_bytes),
    };
    atomic_init(&job.first_bad, matrix->rows);
    const int64_t pieces = kin_ceil_div(matrix->rows, job.rows_a_piece);
    KIN_TRY(kin_parallel(ctx, "check", pieces, check_piece, &job));
    const int64_t row = atomic_load(&job.first_bad);
    return row < matrix->rows ? explain(ctx, &job, metric, row, name) : KITH_OK;
}
