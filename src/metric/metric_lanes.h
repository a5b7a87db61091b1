/* SPDX-License-Identifier: Apache-2.0
 * Contract: metric.h. The body for machines with vectors, written once over a small vocabulary of
 * eight lanes (v8) that metric_avx2.c and metric_avx512.c define, behind metric_whole.h, before
 * they include this file:
 *
 *   v8                       eight doubles
 *   v8_set                   all lanes a
 *   v8_add v8_sub v8_mul v8_div v8_fma v8_max v8_min v8_abs      lane by lane, rounded once
 *   v8_select(s, x, y)       x where s is not 0, else y
 *   v8_count_differ(a, b)    1 where a differs from b, else 0
 *   v8_keep_first(x, n)      lanes 0 .. n - 1 of x, +0 behind
 *   v8_sum v8_most           the tree of metric_canonical.h; the largest lane
 *   v8_split(x, &e)          kin_split
 *   v8_two_to(n)             kin_two_to
 *   v8_get v8_put            aligned doubles in memory
 *   v8_load v8_load_first    eight (the first n) components of a row, converted; reads no more
 *
 * Idea. A key is a chain of additions a lane, each waiting for the one before, and the order of the
 * chain is part of the answer. So we take four rows at a time: four chains hide each other's
 * latency, and a load of the query serves four rows. Rows with random ids miss every cache, hence
 * two prefetches: the next four rows, cache line by cache line beside the work on these four, and
 * the beginning of a row (with its transform) some rows before that.
 */
#ifndef KIN_METRIC_LANES_H
#define KIN_METRIC_LANES_H

enum { ROWS_AT_ONCE = 4, ROWS_AHEAD = 16, LINE_BYTES = 64 };

KIN_TEMPLATE v8 v8_zero(void)
{
    return v8_set(0.0);
}

/* kith_dtype_bytes, known while compiling. */
KIN_TEMPLATE int32_t bytes_of(kith_dtype dtype)
{
    return dtype == KITH_F64 ? 8 : dtype == KITH_F32 ? 4 : dtype <= KITH_BF16 ? 2 : 1;
}

/* The running state of the rows in flight. */
typedef struct flight {
    const double *query;
    const char *data[ROWS_AT_ONCE];
    const char *next[ROWS_AT_ONCE]; /* what to prefetch */
    const kin_row_transform *transform[ROWS_AT_ONCE];
    v8 lane[ROWS_AT_ONCE];
    v8 second[ROWS_AT_ONCE]; /* jaccard: the intersection */
    kin_power power;         /* minkowski */
    const double *period;    /* NULL: no column has one */
} flight;

KIN_TEMPLATE bool has_transform(kith_metric metric)
{
    return metric == KITH_COSINE || metric == KITH_CORRELATION;
}

/* What metric_canonical.h calls kin_row_apply. Operations that change no bit are left out: the
 * scale of what is not float64, and cosine's shift. */
KIN_TEMPLATE v8 v8_transform(const kin_row_transform *t, v8 x, kith_metric metric, kith_dtype dtype)
{
    if (dtype == KITH_F64) {
        x = v8_mul(x, v8_set(t->scale));
    }
    if (metric == KITH_CORRELATION) {
        x = v8_sub(x, v8_set(t->shift));
    }
    return v8_mul(x, v8_set(t->gain));
}

/* What metric_functions.h calls kin_ln_series. */
KIN_TEMPLATE v8 v8_ln_series(v8 z)
{
    v8 p = v8_set(1.0 / 25.0);
    KIN_UNROLL
    for (int n = 23; n >= 3; n -= 2) {
        p = v8_fma(p, z, v8_set(1.0 / n));
    }
    return p;
}

KIN_TEMPLATE v8 v8_negative(v8 a)
{
    return v8_sub(v8_zero(), a);
}

#define NUMBER v8
#define OF(word) v8_##word
#define SET(constant) v8_set(constant)
#define FUNCTION KIN_TEMPLATE
#include "metric/metric_series.inc"

/* What metric_functions.h calls kin_ln_wide, kin_raise and kin_root, on eight lanes. */
KIN_TEMPLATE v8 v8_ln_wide(v8 x, v8 *rest)
{
    const v8 tiny = v8_max(v8_sub(v8_set(KIN_LEAST_NORMAL), x), v8_zero()); /* not 0: it is */
    v8 e;
    const v8 m = v8_split(v8_select(tiny, v8_mul(x, v8_set(KIN_RAISE_TINY)), x), &e);
    return v8_ln_two(m, v8_select(tiny, v8_sub(e, v8_set(KIN_RAISE_TINY_BY)), e), rest);
}

KIN_TEMPLATE v8 v8_raise(v8 x, kin_power power)
{
    if (power.times != 0) {
        return v8_raise_times(x, power.times);
    }
    const v8 p = v8_set(power.p);
    v8 rest;
    const v8 ln = v8_ln_wide(x, &rest);
    const v8 high = v8_mul(p, ln);
    const v8 low = v8_fma(p, rest, v8_fma(p, ln, v8_sub(v8_zero(), high)));
    return v8_select(x, v8_exp(high, low), v8_zero());
}

KIN_TEMPLATE v8 v8_root(v8 sum, kin_power power)
{
    const v8 p = v8_set(power.p);
    const v8 beyond = v8_max(v8_sub(sum, v8_set(DBL_MAX)), v8_zero()); /* not 0: sum is infinite */
    v8 rest;
    const v8 ln = v8_ln_wide(sum, &rest);
    const v8 high = v8_div(ln, p);
    const v8 left = v8_fma(v8_sub(v8_zero(), high), p, ln);
    const v8 root = v8_exp(high, v8_div(v8_add(left, rest), p));
    return v8_select(sum, v8_select(beyond, sum, root), v8_zero());
}

/* Where q is 0 the term is +0 and adds nothing, else where c is 0 it is infinite. Both are put in
 * after the arithmetic, whose results there are not looked at. */
KIN_TEMPLATE v8 v8_step_kl(v8 lane, v8 q, v8 c)
{
    const v8 ln = v8_ln(v8_div(q, c));
    const v8 finite = v8_select(c, ln, v8_set((double)INFINITY));
    return v8_fma(q, v8_select(q, finite, v8_zero()), lane);
}

KIN_TEMPLATE v8 v8_term_chi2(v8 q, v8 c)
{
    const v8 t = v8_sub(q, c);
    const v8 sum = v8_add(q, c);
    return v8_select(sum, v8_div(v8_mul(t, t), sum), v8_zero());
}

#define NUMBER v8
#define OF(word) v8_##word
#define SET(constant) v8_set(constant)
#define FUNCTION KIN_TEMPLATE
#define STEPS
#include "metric/metric_series.inc"

/* What metric_canonical.h calls kin_wrap. */
KIN_TEMPLATE v8 v8_wrap(v8 q, v8 c, v8 period)
{
    const v8 straight = v8_abs(v8_sub(q, c));
    return v8_select(period, v8_min(v8_sub(period, straight), straight), straight);
}

/* Components col .. col + n - 1 (n <= 8) of all rows in flight. Whole steps pass n = 8, a constant.
 * Behind the end a centred row must be masked again: 0 - mean is not 0. */
KIN_TEMPLATE void fly_step(flight *f, int32_t col, int32_t n, kith_metric metric, kith_dtype dtype,
                           int rows)
{
    const bool wraps = f->period != NULL;
    const v8 q = v8_get(f->query + col);
    const char *box = (const char *)(wraps ? f->period + col : NULL);
    const v8 period = !wraps                  ? v8_zero()
                      : n == KIN_METRIC_LANES ? v8_load(KITH_F64, box)
                                              : v8_load_first(KITH_F64, box, n);
    KIN_UNROLL
    for (int r = 0; r < rows; r++) {
        const char *data = f->data[r] + (int64_t)col * bytes_of(dtype);
        v8 c = n == KIN_METRIC_LANES ? v8_load(dtype, data) : v8_load_first(dtype, data, n);
        if (has_transform(metric)) {
            c = v8_transform(f->transform[r], c, metric, dtype);
            if (metric == KITH_CORRELATION && n != KIN_METRIC_LANES) {
                c = v8_keep_first(c, n);
            }
        }
        v8_step(metric, &f->lane[r], &f->second[r], wraps ? v8_wrap(q, c, period) : q,
                wraps ? v8_zero() : c, f->power);
    }
}

/* All components, in pieces of one cache line of the rows. */
KIN_TEMPLATE void fly(flight *f, const kin_keys_job *job, kith_metric metric, kith_dtype dtype,
                      int rows)
{
    const int32_t whole = job->cols / KIN_METRIC_LANES * KIN_METRIC_LANES;
    const int32_t line = LINE_BYTES / bytes_of(dtype);
    for (int32_t begin = 0; begin < job->cols; begin += line) {
        KIN_UNROLL
        for (int r = 0; r < rows; r++) {
            __builtin_prefetch(f->next[r] + (int64_t)begin * bytes_of(dtype));
        }
        const int32_t end = whole < begin + line ? whole : begin + line;
        for (int32_t col = begin; col < end; col += KIN_METRIC_LANES) {
            fly_step(f, col, KIN_METRIC_LANES, metric, dtype, rows);
        }
    }
    if (whole < job->cols) {
        fly_step(f, whole, job->cols - whole, metric, dtype, rows);
    }
}

KIN_TEMPLATE void keys_of_rows(const kin_keys_job *job, int64_t at, kith_metric metric,
                               kith_dtype dtype, int rows, bool wraps)
{
    flight f;
    f.query = job->query;
    f.power = job->power;
    f.period = wraps ? job->period : NULL;
    KIN_UNROLL
    for (int r = 0; r < rows; r++) {
        const int64_t row = kin_keys_row(job, at + r);
        const int64_t after = at + r + rows < job->count ? at + r + rows : at + r;
        f.data[r] = job->data + row * job->stride_bytes;
        f.next[r] = job->data + kin_keys_row(job, after) * job->stride_bytes;
        f.transform[r] = has_transform(metric) ? &job->transforms[row] : NULL;
        f.lane[r] = v8_zero();
        f.second[r] = v8_zero();
    }
    fly(&f, job, metric, dtype, rows);
    KIN_UNROLL
    for (int r = 0; r < rows; r++) {
        const double sum = metric == KITH_CHEBYSHEV ? v8_most(f.lane[r]) : v8_sum(f.lane[r]);
        const double second = metric == KITH_JACCARD ? v8_sum(f.second[r]) : 0;
        const bool degenerate = has_transform(metric) && f.transform[r]->degenerate != 0;
        job->keys[at + r] =
            degenerate ? KIN_DEGENERATE_KEY : kin_key(metric, sum, second, job->cols);
    }
}

/* The first line of row i, if there is one. Rows in storage order need no help. */
KIN_TEMPLATE void announce(const kin_keys_job *job, int64_t i, kith_metric metric)
{
    if (job->ids != NULL && i < job->count) {
        const int64_t row = job->ids[i];
        __builtin_prefetch(job->data + row * job->stride_bytes);
        if (has_transform(metric)) {
            __builtin_prefetch(&job->transforms[row]);
        }
    }
}

/* The keys of sums of powers, eight pairs at a time. */
static __attribute__((noinline)) void take_roots(const kin_keys_job *job)
{
    _Alignas(64) double some[KIN_METRIC_LANES] = {0};
    for (int64_t at = 0; at < job->count; at += KIN_METRIC_LANES) {
        const int64_t left = job->count - at;
        const size_t bytes =
            (size_t)(left < KIN_METRIC_LANES ? left : KIN_METRIC_LANES) * sizeof *some;
        memcpy(some, job->keys + at, bytes);
        v8_put(some, v8_root(v8_get(some), job->power));
        memcpy(job->keys + at, some, bytes);
    }
}

KIN_TEMPLATE void keys_of_all(const kin_keys_job *job, kith_metric metric, kith_dtype dtype,
                              bool wraps)
{
    int64_t at = 0;
    for (int64_t i = 0; i < ROWS_AHEAD; i++) {
        announce(job, i, metric);
    }
    for (; at + ROWS_AT_ONCE <= job->count; at += ROWS_AT_ONCE) {
        for (int r = 0; r < ROWS_AT_ONCE; r++) {
            announce(job, at + ROWS_AHEAD + r, metric);
        }
        keys_of_rows(job, at, metric, dtype, ROWS_AT_ONCE, wraps);
    }
    for (; at < job->count; at++) {
        keys_of_rows(job, at, metric, dtype, 1, wraps);
    }
}

/* Metrics with so much to do for a component that asking for its dtype is nothing beside it. */
static __attribute__((noinline)) void keys_of_kl(const kin_keys_job *job, kith_dtype dtype)
{
    keys_of_all(job, KITH_KL, dtype, false);
}

static __attribute__((noinline)) void keys_of_powers(const kin_keys_job *job, kith_dtype dtype,
                                                     bool wraps)
{
    keys_of_all(job, KITH_MINKOWSKI, dtype, wraps);
    take_roots(job);
}

KIN_TEMPLATE void keys_body(const kin_keys_job *job, kith_metric metric, kith_dtype dtype,
                            bool wraps)
{
    if (metric == KITH_KL) {
        keys_of_kl(job, dtype);
    } else if (metric == KITH_MINKOWSKI) {
        keys_of_powers(job, dtype, wraps);
    } else {
        keys_of_all(job, metric, dtype, wraps);
    }
}

/* ---- One row: expanded, and its transform --------------------------------------------------- */

KIN_TEMPLATE v8 row_piece(const char *row, int32_t col, int32_t cols, kith_dtype dtype)
{
    const char *data = row + (int64_t)col * bytes_of(dtype);
    const int32_t n = cols - col;
    return n >= KIN_METRIC_LANES ? v8_load(dtype, data) : v8_load_first(dtype, data, n);
}

/* kin_row_centre, and zeros behind the end. */
KIN_TEMPLATE v8 centred_piece(const char *row, int32_t col, int32_t cols,
                              const kin_row_transform *t, kith_dtype dtype)
{
    const v8 x = v8_mul(row_piece(row, col, cols, dtype), v8_set(t->scale));
    const v8 y = v8_sub(x, v8_set(t->shift));
    return cols - col >= KIN_METRIC_LANES ? y : v8_keep_first(y, cols - col);
}

KIN_TEMPLATE void expand_body(const char *row, int32_t cols, const kin_row_transform *transform,
                              double *values, kith_dtype dtype)
{
    for (int32_t col = 0; col < cols; col += KIN_METRIC_LANES) {
        v8 x = row_piece(row, col, cols, dtype);
        if (transform != NULL) {
            const v8 y = centred_piece(row, col, cols, transform, dtype);
            x = v8_mul(y, v8_set(transform->gain));
        }
        v8_put(values + col, x);
    }
}

/* Smallest and largest value of a row. The tail goes one by one: zeros behind it are no values. */
KIN_TEMPLATE kin_row_range range_of(const char *row, int32_t cols, kith_dtype dtype)
{
    const int32_t whole = cols / KIN_METRIC_LANES * KIN_METRIC_LANES;
    const double first = kin_value(dtype, row, 0);
    v8 min = v8_set(first);
    v8 max = min;
    for (int32_t col = 0; col < whole; col += KIN_METRIC_LANES) {
        const v8 x = row_piece(row, col, cols, dtype);
        min = v8_min(min, x);
        max = v8_max(max, x);
    }
    kin_row_range r = {-v8_most(v8_sub(v8_zero(), min)), v8_most(max)};
    for (int32_t col = whole; col < cols; col++) {
        const double x = kin_value(dtype, row, col);
        r.min = x < r.min ? x : r.min;
        r.max = x > r.max ? x : r.max;
    }
    return r;
}

KIN_TEMPLATE kin_row_transform transform_body(const char *row, int32_t cols, bool centred,
                                              kith_dtype dtype)
{
    kin_row_transform t = kin_row_begin(range_of(row, cols, dtype), centred, dtype);
    if (t.degenerate != 0) {
        return t;
    }
    if (centred) {
        v8 lane = v8_zero();
        for (int32_t col = 0; col < cols; col += KIN_METRIC_LANES) {
            const v8 x = row_piece(row, col, cols, dtype);
            lane = v8_add(lane, v8_mul(x, v8_set(t.scale)));
        }
        t.shift = kin_row_shift(v8_sum(lane), cols);
    }
    v8 lane = v8_zero();
    for (int32_t col = 0; col < cols; col += KIN_METRIC_LANES) {
        const v8 y = centred_piece(row, col, cols, &t, dtype);
        lane = v8_fma(y, y, lane);
    }
    t.gain = kin_row_gain(v8_sum(lane));
    return t;
}

#endif
