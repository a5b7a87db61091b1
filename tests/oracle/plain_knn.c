/* SPDX-License-Identifier: Apache-2.0
 * The oracle. Every line is meant to be read: it is what the fast engines are compared with, byte
 * for byte, so it must be right because it is plain. */
#include "oracle/plain_knn.h"

#include "metric/metric_canonical.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static double half_value(int bits)
{
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    const double magnitude =
        exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -magnitude : magnitude;
}

static double value(const kith_matrix *m, int64_t row, int64_t col)
{
    const int64_t size = kith_dtype_bytes(m->dtype);
    const int64_t stride = m->stride_bytes ? m->stride_bytes : m->cols * size;
    const unsigned char *at = (const unsigned char *)m->data + row * stride + col * size;
    union {
        uint64_t bits;
        double f64;
        float f32;
    } u = {0};
    memcpy(&u, at, (size_t)size);
    switch (m->dtype) {
    case KITH_F64:
        return u.f64;
    case KITH_F32:
        return u.f32;
    case KITH_F16:
        return half_value((int)u.bits);
    case KITH_BF16:
        u.bits <<= 16;
        return u.f32;
    case KITH_U8:
        return (double)u.bits;
    default:
        return (int8_t)u.bits;
    }
}

static double sum_of_lanes(const double s[8])
{
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* Cosine, correlation: x becomes ((x * 2^n) - mean) / |..|. A row whose distance to everything is
 * 1 (zeros under cosine, a constant under correlation) is marked by a NaN in front. */
static void normalise(kith_metric metric, kith_dtype dtype, double *x, int32_t d)
{
    double min = x[0];
    double max = x[0];
    double sums[8] = {0};
    double squares[8] = {0};
    int exponent = 0;
    for (int32_t i = 0; i < d; i++) {
        min = fmin(min, x[i]);
        max = fmax(max, x[i]);
    }
    if (metric == KITH_CORRELATION ? min == max : min == 0 && max == 0) {
        x[0] = NAN;
        return;
    }
    (void)frexp(dtype == KITH_F64 ? fmax(-min, max) : 1.0, &exponent);
    for (int32_t i = 0; i < d; i++) {
        x[i] = ldexp(x[i], 1 - exponent);
        sums[i % 8] += x[i];
    }
    const double mean = metric == KITH_CORRELATION ? sum_of_lanes(sums) / d : 0;
    for (int32_t i = 0; i < d; i++) {
        x[i] -= mean;
        squares[i % 8] = fma(x[i], x[i], squares[i % 8]);
    }
    const double gain = 1 / sqrt(sum_of_lanes(squares));
    for (int32_t i = 0; i < d; i++) {
        x[i] *= gain;
    }
}

/* Row `row` as double, normalised where the metric asks for it. */
static void read_row(kith_metric metric, const kith_matrix *m, int64_t row, double *x)
{
    for (int32_t i = 0; i < m->cols; i++) {
        x[i] = value(m, row, i);
    }
    if (metric == KITH_COSINE || metric == KITH_CORRELATION) {
        normalise(metric, m->dtype, x, m->cols);
    }
}

/* What a component adds to its lane, where that is a plain addition. */
static double term(kith_metric metric, double q, double c)
{
    const double chi2 = q + c == 0 ? 0 : (q - c) * (q - c) / (q + c);
    return metric == KITH_MANHATTAN ? fabs(q - c)
           : metric == KITH_CHI2    ? chi2
           : metric == KITH_HAMMING ? (double)(q != c)
                                    : (double)(q != 0 || c != 0);
}

/* Rows of bytes, whose bits are compared one by one. */
static double key_of_bits(kith_metric metric, const double *q, const double *c, int32_t d)
{
    int64_t differ = 0;
    int64_t both = 0;
    for (int64_t bit = 0; bit < 8 * (int64_t)d; bit++) {
        const int in_q = (int)q[bit / 8] >> bit % 8 & 1;
        const int in_c = (int)c[bit / 8] >> bit % 8 & 1;
        differ += in_q != in_c;
        both += in_q && in_c;
    }
    return metric == KITH_BIT_HAMMING ? (double)differ
           : differ == 0              ? 0
                                      : (double)differ / (double)(differ + both);
}

static double key_of_places(const double *q, const double *c)
{
    const double h = kin_half_sine_squared(c[0] - q[0]) +
                     kin_cosine(q[0]) * kin_cosine(c[0]) * kin_half_sine_squared(c[1] - q[1]);
    return h > 1 ? 1 : h > 0 ? h : 0;
}

static inline __attribute__((always_inline)) double
key_by_definition(kith_metric metric, const double *q, const double *c, int32_t d)
{
    double s[8] = {0};
    double both[8] = {0};
    double most = 0;
    const kin_power power = kin_power_of(metric);
    if (isnan(q[0]) || isnan(c[0])) {
        return 1;
    }
    if (metric == KITH_HAVERSINE) {
        return key_of_places(q, c);
    }
    if (metric == KITH_BIT_HAMMING || metric == KITH_BIT_JACCARD) {
        return key_of_bits(metric, q, c, d);
    }
    for (int32_t i = 0; i < d; i++) {
        const int j = i % 8;
        const double t = q[i] - c[i];
        if (metric <= KITH_SQEUCLIDEAN || metric == KITH_COSINE || metric == KITH_CORRELATION) {
            s[j] = fma(t, t, s[j]);
        } else if (metric == KITH_INNER_PRODUCT) {
            s[j] = fma(q[i], c[i], s[j]);
        } else if (metric == KITH_KL) {
            s[j] = q[i] == 0 ? s[j] : c[i] == 0 ? INFINITY : fma(q[i], kin_ln(q[i] / c[i]), s[j]);
        } else if (power.p != 0) {
            s[j] += kin_raise(fabs(t), power);
        } else {
            s[j] += term(metric, q[i], c[i]);
            both[j] += q[i] != 0 && c[i] != 0;
            most = fmax(most, fabs(t));
        }
    }
    const double sum = sum_of_lanes(s);
    const double key = metric == KITH_INNER_PRODUCT                          ? -sum
                       : metric == KITH_COSINE || metric == KITH_CORRELATION ? sum / 2
                       : metric == KITH_CHEBYSHEV                            ? most
                       : metric == KITH_HAMMING                              ? sum / d
                       : power.p != 0                                        ? kin_root(sum, power)
                       : metric == KITH_JACCARD && sum != 0 ? (sum - sum_of_lanes(both)) / sum
                                                            : sum;
    return key + 0.0; /* -0 becomes +0 */
}

/* fma is one instruction where the processor has it, and half of a test's time where it is a call:
 * the same bits, as it is rounded once. */
#ifdef __x86_64__
__attribute__((target("fma"))) static double key_by_fma(kith_metric metric, const double *q,
                                                        const double *c, int32_t d)
{
    return key_by_definition(metric, q, c, d);
}
#endif

static double key_of(kith_metric metric, const double *q, const double *c, int32_t d)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("fma")) {
        return key_by_fma(metric, q, c, d);
    }
#endif
    return key_by_definition(metric, q, c, d);
}

void oracle_keys(kith_metric metric, const kith_matrix *q, int64_t qi, const kith_matrix *c,
                 double *keys)
{
    double *x = malloc(2 * (size_t)q->cols * sizeof *x);
    assert(x != NULL);
    double *y = x + q->cols;
    read_row(metric, q, qi, x);
    for (int64_t i = 0; i < c->rows; i++) {
        read_row(metric, c, i, y);
        keys[i] = key_of(metric, x, y, q->cols);
    }
    free(x);
}

double oracle_key(kith_metric metric, const kith_matrix *q, int64_t qi, const kith_matrix *c,
                  int64_t ci)
{
    const int64_t stride = c->stride_bytes ? c->stride_bytes : c->cols * kith_dtype_bytes(c->dtype);
    kith_matrix one = *c;
    double key = 0.0;
    one.data = (const char *)c->data + ci * stride;
    one.rows = 1;
    oracle_keys(metric, q, qi, &one, &key);
    return key;
}

double oracle_distance(kith_metric metric, double key)
{
    return metric == KITH_EUCLIDEAN       ? sqrt(key)
           : metric == KITH_INNER_PRODUCT ? -key + 0.0
           : metric == KITH_HAVERSINE     ? kin_haversine_angle(key)
                                          : key;
}

static bool is_farther(double key, uint32_t id, double than_key, uint32_t than_id)
{
    return key != than_key ? key > than_key : id > than_id;
}

/* Into a heap whose top, the farthest, goes. */
static void replace_top(uint32_t *ids, double *keys, int64_t count, uint32_t id, double key)
{
    int64_t at = 0;
    for (int64_t child = 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count &&
                 is_farther(keys[child + 1], ids[child + 1], keys[child], ids[child]);
        if (!is_farther(keys[child], ids[child], key, id)) {
            break;
        }
        ids[at] = ids[child];
        keys[at] = keys[child];
        at = child;
    }
    ids[at] = id;
    keys[at] = key;
}

/* A heap becomes a list, the nearest first. */
static void sort_heap(uint32_t *ids, double *keys, int64_t count)
{
    for (int64_t last = count - 1; last > 0; last--) {
        const uint32_t id = ids[last];
        const double key = keys[last];
        ids[last] = ids[0];
        keys[last] = keys[0];
        replace_top(ids, keys, last, id, key);
    }
}

void oracle_knn(kith_metric metric, const kith_matrix *queries, const kith_matrix *corpus,
                int64_t k, int exclude_self, uint32_t *ids, double *keys)
{
    const int32_t d = queries->cols;
    double *x = malloc((size_t)(queries->rows + 1) * (size_t)d * sizeof *x);
    assert(x != NULL);
    double *y = x + queries->rows * d;
    for (int64_t i = 0; i < queries->rows; i++) {
        read_row(metric, queries, i, x + i * d);
    }
    for (int64_t i = 0; i < queries->rows * k; i++) {
        ids[i] = KITH_ID_NONE; /* farther than all: k of these are a heap */
        keys[i] = (double)INFINITY;
    }
    for (int64_t j = 0; j < corpus->rows; j++) {
        read_row(metric, corpus, j, y);
        for (int64_t i = 0; i < queries->rows; i++) {
            if (!exclude_self || i != j) {
                const double key = key_of(metric, x + i * d, y, d);
                if (is_farther(keys[i * k], ids[i * k], key, (uint32_t)j)) {
                    replace_top(ids + i * k, keys + i * k, k, (uint32_t)j, key);
                }
            }
        }
    }
    for (int64_t i = 0; i < queries->rows; i++) {
        sort_heap(ids + i * k, keys + i * k, k);
    }
    free(x);
}
