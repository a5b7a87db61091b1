/* SPDX-License-Identifier: Apache-2.0
 * Every value is looked at once, before anything is computed: NaN, infinity, and what a metric
 * cannot take. The error names the lowest row and in it the lowest column, however many threads
 * looked.
 *
 * Idea. Values are judged by their bits, as integers: without the sign, the bits of a number rise
 * with its magnitude, and what is not finite lies above all that is. "Magnitude > most" is then the
 * carry of an addition into the sign's place, and a word of 64 bits holds one, two or four such
 * additions side by side: magnitudes and addends stay below the sign's place, so no carry reaches
 * the neighbour. A row costs a few operations a word and no branch; only a bad row is read again.
 *
 * Why the bounds. Up to 2^500 the squares of 2^20 differences cannot overflow; above 2^-500 the
 * quotients of kl stay normal numbers. Only float64 can leave these bounds. */
#include "metric/metric.h"

#include "base/base_size.h"
#include "host/host_threads.h"
#include "metric/metric_table.h"

#include <inttypes.h>
#include <stdio.h>

static const int64_t PIECE_BYTES = 1 << 20;
enum { WORDS_AT_ONCE = 8, WORD_BYTES = 8 };

/* What is allowed, as addends to the magnitudes in a word: the sign's place of the sum is set where
 * the magnitude is ... */
typedef struct law {
    uint64_t sign;      /* the sign's place of every value in the word */
    uint64_t over;      /* ... beyond the largest that is allowed */
    uint64_t some;      /* ... not 0 */
    uint64_t enough;    /* ... at least the smallest that is allowed but 0 */
    uint64_t negatives; /* sign, where they are refused, else 0 */
} law;

typedef struct check_job {
    kith_matrix matrix;
    law law;
    const double *period; /* of a box */
    int64_t rows_a_piece;
    atomic_int_fast64_t first_bad; /* row, or rows */
} check_job;

/* The law for values of `bits` bits with magnitudes `least` .. `most` or 0. */
static law make_law(int bits, uint64_t least, uint64_t most, bool nonnegative)
{
    const uint64_t every = bits == 64 ? 1 : bits == 32 ? 0x100000001u : 0x1000100010001u;
    const uint64_t sign = UINT64_C(1) << (bits - 1);
    return (law){
        .sign = sign * every,
        .over = (sign - 1 - most) * every,
        .some = (sign - 1) * every,
        .enough = (sign - least) * every,
        .negatives = nonnegative ? sign * every : 0,
    };
}

static law law_of(kith_dtype dtype, kith_metric metric)
{
    const bool nonnegative = kin_metric_get_traits(metric)->nonnegative;
    const uint64_t most = kin_metric_most(dtype, metric);
    switch (dtype) {
    case KITH_F64: {
        const uint64_t least = metric == KITH_KL ? kin_bits_of(0x1p-500) : 1;
        return make_law(64, least, most, nonnegative);
    }
    case KITH_F32:
        return make_law(32, 1, most, nonnegative);
    default:
        return make_law(16, 1, most, nonnegative);
    }
}

/* The sign's place is set for every value that breaks the law. */
KIN_HD uint64_t breaches(const law *l, uint64_t word)
{
    const uint64_t magnitude = word & ~l->sign;
    const uint64_t some = magnitude + l->some;
    const uint64_t small = some & ~(magnitude + l->enough);
    const uint64_t negative = some & word & l->negatives;
    return (magnitude + l->over) | small | negative;
}

/* The inner loop has a fixed length, so that the compiler makes vectors of it. Zeros, which fill
 * the last word, break no law. */
static bool scan_words(const char *data, int64_t bytes, const law *l)
{
    uint64_t bad[WORDS_AT_ONCE] = {0};
    const int64_t step = (int64_t)WORDS_AT_ONCE * WORD_BYTES;
    const int64_t whole = bytes / step * step;
    for (int64_t at = 0; at < whole; at += step) {
        uint64_t words[WORDS_AT_ONCE];
        memcpy(words, data + at, sizeof words);
        for (int j = 0; j < WORDS_AT_ONCE; j++) {
            bad[j] |= breaches(l, words[j]);
        }
    }
    uint64_t any = 0;
    for (int64_t at = whole; at < bytes; at += WORD_BYTES) {
        uint64_t word = 0;
        memcpy(&word, data + at, (size_t)kin_min_i64(WORD_BYTES, bytes - at));
        any |= breaches(l, word);
    }
    for (int j = 0; j < WORDS_AT_ONCE; j++) {
        any |= bad[j];
    }
    return (any & l->sign) != 0;
}

/* int8 under a metric that takes no negatives. */
static bool has_negative_i8(const char *data, int64_t bytes)
{
    char any = 0;
    for (int64_t i = 0; i < bytes; i++) {
        any = (char)(any | data[i]);
    }
    return (int8_t)any < 0;
}

static bool is_bad(kith_dtype dtype, const char *data, int64_t n, const law *l)
{
    const int64_t bytes = n * kith_dtype_bytes(dtype);
    return dtype == KITH_I8 ? has_negative_i8(data, bytes) : scan_words(data, bytes, l);
}

static void note_bad(check_job *job, int64_t row)
{
    int_fast64_t known = atomic_load(&job->first_bad);
    while (row < known && !atomic_compare_exchange_weak(&job->first_bad, &known, row)) {
    }
}

static bool needs_check(kith_dtype dtype, kith_metric metric)
{
    const bool signs = kin_metric_get_traits(metric)->nonnegative;
    return dtype != KITH_U8 && (dtype != KITH_I8 || signs);
}

/* The first column of a row that is outside of its period; cols: there is none. */
static int32_t first_outside(const kith_matrix *m, const double *period, const void *data)
{
    for (int32_t col = 0; period != NULL && col < m->cols; col++) {
        const double x = kin_value(m->dtype, data, col);
        if (period[col] > 0 && !(x >= 0 && x < period[col])) {
            return col;
        }
    }
    return m->cols;
}

static bool is_bad_row(const check_job *job, const char *data)
{
    const kith_matrix *m = &job->matrix;
    return job->period != NULL ? first_outside(m, job->period, data) < m->cols
                               : is_bad(m->dtype, data, m->cols, &job->law);
}

/* Later rows are of no interest once a bad one is known; lower ones still are. */
static kith_status check_piece(void *arg, int64_t piece, int32_t thread)
{
    (void)thread;
    check_job *job = arg;
    const kith_matrix *m = &job->matrix;
    const int64_t begin = piece * job->rows_a_piece;
    const int64_t end = kin_min_i64(begin + job->rows_a_piece, m->rows);
    const bool dense = m->stride_bytes == (int64_t)m->cols * kith_dtype_bytes(m->dtype);
    const char *start = (const char *)m->data + begin * m->stride_bytes;
    /* Short rows are read as one long one; where something is wrong, the row is looked for. */
    if (dense && job->period == NULL &&
        !is_bad(m->dtype, start, (end - begin) * m->cols, &job->law)) {
        return KITH_OK;
    }
    for (int64_t row = begin; row < end && row < atomic_load(&job->first_bad); row++) {
        if (is_bad_row(job, (const char *)m->data + row * m->stride_bytes)) {
            note_bad(job, row);
        }
    }
    return KITH_OK;
}

kith_status kin_metric_complain(kith_ctx *ctx, const kith_matrix *matrix, const void *data,
                                int64_t row, const kin_distance *distance, const char *name)
{
    const kith_dtype dtype = matrix->dtype;
    const kith_metric metric = distance->metric;
    const law l = law_of(dtype, metric);
    const int64_t bytes = kith_dtype_bytes(dtype);
    const bool bad = needs_check(dtype, metric) && is_bad(dtype, data, matrix->cols, &l);
    int32_t col = first_outside(matrix, distance->period, data);
    KIN_FAIL_IF(!bad && col < matrix->cols, ctx, KITH_E_DATA, kin_at_cell(name, row, col),
                "is %.17g, must be at least 0 and below its column's period, %.17g (wrap it into "
                "the box first)",
                kin_value(dtype, data, col), distance->period[col]);
    col = 0;
    while (col + 1 < matrix->cols && !is_bad(dtype, (const char *)data + col * bytes, 1, &l)) {
        col += 1;
    }
    const double x = kin_value(dtype, data, col);
    const kin_place place = kin_at_cell(name, row, col);
    KIN_FAIL_IF(isnan(x), ctx, KITH_E_DATA, place, "is NaN (remove or replace it)");
    KIN_FAIL_IF(isinf(x), ctx, KITH_E_DATA, place, "is %sinfinite (remove or replace it)",
                x < 0 ? "negatively " : "");
    KIN_FAIL_IF(kin_metric_base(metric) == KITH_HAVERSINE && fabs(x) > KIN_MOST_RADIANS, ctx,
                KITH_E_DATA, place,
                "is %.17g, beyond 2^20 in magnitude (give latitude and longitude in radians)", x);
    KIN_FAIL_IF(fabs(x) > 0x1p500, ctx, KITH_E_DATA, place,
                "is %.17g, beyond 2^500 in magnitude, where squares overflow (scale the data down)",
                x);
    KIN_FAIL_IF(x < 0, ctx, KITH_E_DATA, place,
                "is %.17g, but %s needs values that are not negative (choose another metric, or "
                "shift the data)",
                x, kith_metric_name(metric));
    return kin_fail_at(ctx, KITH_E_DATA, place,
                       "is %.17g, but %s needs 0 or at least 2^-500 (set it to 0)", x,
                       kith_metric_name(metric));
}

kith_status kin_metric_takes(kith_ctx *ctx, const kith_matrix *matrix, kith_metric metric,
                             const char *name)
{
    const kin_metric_traits *traits = kin_metric_get_traits(metric);
    KIN_FAIL_IF(traits->dtype != KITH_DTYPE_NONE && matrix->dtype != traits->dtype, ctx,
                KITH_E_ARGUMENT, kin_at_member(name, "dtype"),
                "is %s, and %s takes uint8 alone, eight bits each (pack them)",
                kith_dtype_name(matrix->dtype), kith_metric_name(metric));
    KIN_FAIL_IF(traits->cols != 0 && matrix->cols != traits->cols, ctx, KITH_E_ARGUMENT,
                kin_at_member(name, "cols"),
                "is %d, and %s takes 2 (latitude and longitude in radians)", (int)matrix->cols,
                kith_metric_name(metric));
    return KITH_OK;
}

static kith_status check_rows(kith_ctx *ctx, check_job *job, const kin_distance *distance,
                              const char *name)
{
    const kith_matrix *m = &job->matrix;
    const int64_t row_bytes = (int64_t)m->cols * kith_dtype_bytes(m->dtype);
    job->rows_a_piece = kin_ceil_div(PIECE_BYTES, row_bytes);
    atomic_init(&job->first_bad, m->rows);
    KIN_TRY(kin_parallel(ctx, "check", kin_ceil_div(m->rows, job->rows_a_piece), check_piece, job));
    const int64_t row = atomic_load(&job->first_bad);
    return row == m->rows
               ? KITH_OK
               : kin_metric_complain(ctx, m, (const char *)m->data + row * m->stride_bytes, row,
                                     distance, name);
}

kith_status kin_metric_check(kith_ctx *ctx, const kith_matrix *matrix, kith_metric metric,
                             const char *name)
{
    check_job job = {.matrix = *matrix, .law = law_of(matrix->dtype, metric)};
    KIN_TRY(kin_metric_takes(ctx, matrix, metric, name));
    return needs_check(matrix->dtype, metric)
               ? check_rows(ctx, &job, &(kin_distance){.metric = metric}, name)
               : KITH_OK;
}

kith_status kin_metric_check_box(kith_ctx *ctx, const kith_matrix *matrix,
                                 const kin_distance *distance, const char *name)
{
    check_job job = {.matrix = *matrix, .period = distance->period};
    KIN_TRY(kin_metric_check(ctx, matrix, distance->metric, name));
    return distance->period != NULL ? check_rows(ctx, &job, distance, name) : KITH_OK;
}

kith_status kin_metric_fail_nan(kith_ctx *ctx, int64_t query, int64_t point)
{
    return kin_fail_at(ctx, KITH_E_DATA, kin_at("custom"),
                       "gave NaN for query %lld and point %lld (a distance must be a number)",
                       (long long)query, (long long)point);
}
