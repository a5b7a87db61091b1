/* SPDX-License-Identifier: Apache-2.0
 * Canonical keys on a device: the operations of metric_canonical.h, dealt to eight threads a pair.
 *
 *   thread      0  1  2  3  4  5  6  7      of a team of eight neighbours in a warp
 *   component   0  1  2  3  4  5  6  7 | 8  9 ...
 *
 * Why it is right. A lane of the definition is a thread here, and takes its components in rising
 * order. Additions are commutative to the bit, so the three exchanges with the threads 4, 2 and 1
 * away give every thread the sum ((0+4)+(2+6))+((1+5)+(3+7)). A maximum is the same in any order.
 *
 * Metrics share their steps (kin_pair_step_of): the squares of all distances are one, and the key
 * is made of the sum by the metric itself. For jaccard both counts travel in one double, union +
 * 2^24 * intersection: at most 2^20 of each, so all sums are exact whole numbers.
 *
 * Components are read by their type, converted to double exactly and transformed where the metric
 * transforms. KITH_DTYPE_NONE stands for rows that are not aligned to their type: their components
 * are put together from bytes. */
#ifndef KIN_METRIC_PAIR_CUH
#define KIN_METRIC_PAIR_CUH

#include "metric/metric_canonical.h"

#define KIN_PAIR_BOTH 0x1p24 /* jaccard: a component that both rows have */

/* The metric whose steps a metric takes. */
static inline kith_metric kin_pair_step_of(kith_metric metric)
{
    switch (metric) {
    case KITH_METRIC_DEFAULT:
    case KITH_EUCLIDEAN:
    case KITH_COSINE:
    case KITH_CORRELATION:
        return KITH_SQEUCLIDEAN;
    default:
        return kin_metric_base(metric);
    }
}

/* power: minkowski's, made once in front of the loop. */
template <kith_metric STEP>
static __device__ __forceinline__ double kin_pair_step(double lane, double q, double c,
                                                       kin_power power = kin_power{})
{
    if constexpr (STEP == KITH_JACCARD) {
        const double either = q != 0 || c != 0 ? 1.0 : 0.0;
        return kin_add(lane, q != 0 && c != 0 ? KIN_PAIR_BOTH + 1.0 : either);
    } else {
        double second = 0;
        kin_step(STEP, &lane, &second, q, c, power);
        return lane;
    }
}

/* The same where the column may have a period (kin_wrap). */
template <kith_metric STEP, bool WRAPS>
static __device__ __forceinline__ double
kin_pair_step_in(double lane, double q, double c, double period, kin_power power = kin_power{})
{
    return WRAPS ? kin_pair_step<STEP>(lane, kin_wrap(q, c, period), 0.0, power)
                 : kin_pair_step<STEP>(lane, q, c, power);
}

/* The period of column c, 0 behind the last one; not WRAPS: 0. */
template <bool WRAPS>
static __device__ __forceinline__ double kin_pair_period(const double *period, int32_t c,
                                                         int32_t cols)
{
    return WRAPS && c < cols ? __ldg(period + c) : 0.0;
}

/* Two lanes become one. */
template <kith_metric STEP>
static __device__ __forceinline__ double kin_pair_join(double a, double b)
{
    return STEP == KITH_CHEBYSHEV ? kin_max(a, b) : kin_add(a, b);
}

/* The sum of the lanes of a team, in all its threads. All threads of the warp take part. */
template <kith_metric STEP> static __device__ __forceinline__ double kin_pair_sum(double lane)
{
    lane = kin_pair_join<STEP>(lane, __shfl_xor_sync(0xffffffffu, lane, 4));
    lane = kin_pair_join<STEP>(lane, __shfl_xor_sync(0xffffffffu, lane, 2));
    return kin_pair_join<STEP>(lane, __shfl_xor_sync(0xffffffffu, lane, 1));
}

template <kith_metric STEP>
static __device__ __forceinline__ double kin_pair_key(kith_metric metric, double sum, int32_t cols)
{
    if constexpr (STEP == KITH_JACCARD) {
        const double both = floor(kin_mul(sum, 1.0 / KIN_PAIR_BOTH));
        return kin_key(metric, kin_sub(sum, kin_mul(both, KIN_PAIR_BOTH)), both, cols);
    } else if constexpr (STEP == KITH_MINKOWSKI) {
        return kin_root(kin_add(sum, 0.0), kin_power_of(metric));
    } else {
        return kin_key(metric, sum, 0.0, cols);
    }
}

/* ---- Whole rows ------------------------------------------------------------------------------ */

template <kith_metric METRIC>
constexpr bool kin_pair_is_whole =
    METRIC == KITH_BIT_HAMMING || METRIC == KITH_BIT_JACCARD || METRIC == KITH_HAVERSINE;

/* A row as given. */
typedef struct kin_pair_row {
    const char *data;
    kith_dtype dtype;
} kin_pair_row;

/* The eight bytes from `at` on of a row of `bytes`; zeros behind its end. */
static __device__ __forceinline__ uint64_t kin_pair_word(const char *row, int32_t at, int32_t bytes)
{
    const char *place = row + at;
    uint64_t word = 0;
    if (((uint64_t)(uintptr_t)place % sizeof word) == 0 && at + (int32_t)sizeof word <= bytes) {
        return __ldg((const unsigned long long *)place);
    }
    for (int i = 0; i < (int)sizeof word && at + i < bytes; i++) {
        word |= (uint64_t)__ldg((const unsigned char *)place + i) << 8 * i;
    }
    return word;
}

template <kith_metric METRIC>
static __device__ __forceinline__ void kin_pair_count(kin_bit_counts *n, uint64_t q, uint64_t c)
{
    n->either += (uint32_t)__popcll(METRIC == KITH_BIT_JACCARD ? q | c : q ^ c);
    if constexpr (METRIC == KITH_BIT_JACCARD) {
        n->both += (uint32_t)__popcll(q & c);
    }
}

/* Threads 0 and 1 of four take the squares, 2 and 3 the cosines: one sine each. */
static __device__ __forceinline__ double kin_pair_haversine(kin_pair_row q, kin_pair_row c)
{
    const int part = (int)threadIdx.x % 4;
    const int col = part == 1 ? 1 : 0;
    const double own = kin_value(q.dtype, q.data, col);
    const double other = kin_value(c.dtype, c.data, col);
    double n;
    const double x = part < 2 ? kin_mul(0.5, kin_sub(other, own)) : part == 2 ? own : other;
    const double s = kin_sine_of(x, part < 2 ? 0.0 : 0.5, &n);
    const double signed_s = kin_is_odd(n) ? -s : s;
    const double value = part < 2 ? kin_mul(s, s) : signed_s;
    double of[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        of[i] = __shfl_sync(0xffffffffu, value, i, 4);
    }
    return kin_haversine_sum(of[0], of[1], of[2], of[3]);
}

/* The key of two rows in all threads of a team; all threads of the warp take part. Words are dealt
 * to the threads of a team as components are; counts are exact in any order. */
template <kith_metric METRIC>
static __device__ __forceinline__ double kin_pair_whole(kin_pair_row q, kin_pair_row c,
                                                        int32_t cols)
{
    if constexpr (METRIC == KITH_HAVERSINE) {
        return kin_pair_haversine(q, c);
    } else {
        kin_bit_counts n = {0, 0};
        const int32_t word = (int32_t)sizeof(uint64_t);
        for (int32_t at = (int32_t)threadIdx.x % KIN_METRIC_LANES * word; at < cols;
             at += KIN_METRIC_LANES * word) {
            kin_pair_count<METRIC>(&n, kin_pair_word(q.data, at, cols),
                                   kin_pair_word(c.data, at, cols));
        }
        for (int away = KIN_METRIC_LANES / 2; away > 0; away /= 2) {
            n.either += __shfl_xor_sync(0xffffffffu, n.either, away);
            n.both += __shfl_xor_sync(0xffffffffu, n.both, away);
        }
        return kin_bits_key(METRIC, n);
    }
}

/* Whether components may be read by their type: else their dtype is NONE below. */
static inline kith_dtype kin_pair_dtype(const void *data, int64_t stride_bytes, kith_dtype dtype)
{
    const uint64_t bytes = dtype == KITH_F64                         ? 8
                           : dtype == KITH_F32                       ? 4
                           : dtype == KITH_F16 || dtype == KITH_BF16 ? 2
                                                                     : 1;
    const bool aligned = ((uint64_t)(uintptr_t)data | (uint64_t)stride_bytes) % bytes == 0;
    return aligned ? dtype : KITH_DTYPE_NONE;
}

/* Component i of a row, as double. `given`: the true dtype, for KITH_DTYPE_NONE. */
template <kith_dtype DTYPE>
static __device__ __forceinline__ double kin_pair_value(kith_dtype given, const char *row,
                                                        int64_t i)
{
    if constexpr (DTYPE == KITH_F64) {
        return __ldg((const double *)row + i);
    } else if constexpr (DTYPE == KITH_F32) {
        return (double)__ldg((const float *)row + i);
    } else if constexpr (DTYPE == KITH_F16) {
        const unsigned short half = __ldg((const unsigned short *)row + i);
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
        return (double)value;
    } else if constexpr (DTYPE == KITH_BF16) {
        return kin_value_of_bf16(__ldg((const unsigned short *)row + i));
    } else if constexpr (DTYPE == KITH_U8) {
        return (double)__ldg((const unsigned char *)row + i);
    } else if constexpr (DTYPE == KITH_I8) {
        return (double)__ldg((const signed char *)row + i);
    } else {
        return kin_value(given, row, i);
    }
}

/* Latitude and longitude of a row. */
template <kith_dtype DTYPE>
static __device__ __forceinline__ kin_sphere_place kin_pair_sphere(kith_dtype given,
                                                                   const char *row)
{
    return kin_sphere_place_of(kin_pair_value<DTYPE>(given, row, 0),
                               kin_pair_value<DTYPE>(given, row, 1));
}

/* ROW(NAME, ...) for the steps that a metric takes, or for a metric by whole rows: a case. */
#define KIN_PAIR_EACH_STEP(metric, ROW)    \
    switch (kin_pair_step_of(metric)) {    \
        KIN_STEP_MAP(ROW)                  \
        KIN_WHOLE_MAP(ROW)                 \
    default:                               \
        return (int)cudaErrorInvalidValue; \
    }

/* Runs call(DTYPE) with the dtype as a constant. */
#define KIN_PAIR_CASE(CONSTANT, call) \
    case CONSTANT:                    \
        call(CONSTANT);               \
        break;
#define KIN_PAIR_EACH_DTYPE(dtype, call) \
    switch (dtype) {                     \
        KIN_PAIR_CASE(KITH_F32, call)    \
        KIN_PAIR_CASE(KITH_F64, call)    \
        KIN_PAIR_CASE(KITH_F16, call)    \
        KIN_PAIR_CASE(KITH_BF16, call)   \
        KIN_PAIR_CASE(KITH_U8, call)     \
        KIN_PAIR_CASE(KITH_I8, call)     \
    default:                             \
        call(KITH_DTYPE_NONE);           \
        break;                           \
    }

#endif
