/* SPDX-License-Identifier: Apache-2.0
 * Meetings on AVX2. Contract: graph_join.h. */
#if defined(__x86_64__)
#include "graph/graph_join_x86.h"

#include <immintrin.h>

#include "graph/graph_join_x86.inc"

/* ---- Who is nearest, and what is within limits ----------------------------------------------- */

/* What follows a product, 8 numbers at a time: who is nearest in a join, which pairs are within
 * their limits. Contract: graph_join.h. */

enum { LANES = 8 };

/* Lanes that were not met, all ones: the largest orders. */
static inline __m256i load_first(const uint32_t *costs, int64_t count)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i behind =
        _mm256_cmpgt_epi32(lanes, _mm256_set1_epi32((int32_t)kin_min_i64(count, LANES) - 1));
    return _mm256_or_si256(_mm256_loadu_si256((const __m256i *)costs), behind);
}

static inline uint32_t least_lane(__m256i v)
{
    __m128i low = _mm_min_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    low = _mm_min_epu32(low, _mm_shuffle_epi32(low, 0x4e));
    low = _mm_min_epu32(low, _mm_shuffle_epi32(low, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(low);
}

static uint32_t find(const uint32_t *costs, int64_t count, uint32_t order)
{
    const __m256i least = _mm256_set1_epi32((int32_t)order);
    for (int64_t j = 0; j < count; j += LANES) {
        const __m256i equal = _mm256_cmpeq_epi32(load_first(costs + j, count - j), least);
        const uint32_t mask = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(equal));
        if (mask != 0) {
            return (uint32_t)j + (uint32_t)__builtin_ctz(mask);
        }
    }
    return 0;
}

static inline void take_row(__m256i row, int64_t i, __m256i *best, __m256i *who)
{
    const __m256i lower = _mm256_min_epu32(*best, row);
    /* Nearer, where the lower one is not the best so far. */
    const __m256i kept = _mm256_cmpeq_epi32(lower, *best);
    *who = _mm256_blendv_epi8(_mm256_set1_epi32((int32_t)i), *who, kept);
    *best = lower;
}

#define U32 __m256i
#define least_of_two _mm256_min_epu32
#define SPLAT(x) _mm256_set1_epi32(x)
#define STORE(at, v) _mm256_storeu_si256((__m256i *)(at), v)
#include "graph/graph_least_body.inc"

static int64_t hits_of(const kin_graph_orders *of, uint32_t *hits)
{
    int64_t count = 0;
    for (int64_t i = 0; i < of->rows; i++) {
        const __m256i own = _mm256_set1_epi32((int32_t)of->row_limits[i]);
        for (int64_t j = 0; j < of->cols; j += LANES) {
            const __m256i order =
                _mm256_loadu_si256((const __m256i *)(of->orders + i * of->stride + j));
            const __m256i limit =
                _mm256_max_epu32(own, _mm256_loadu_si256((const __m256i *)(of->col_limits + j)));
            const __m256i within = _mm256_cmpeq_epi32(_mm256_min_epu32(order, limit), order);
            uint32_t mask = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(within));
            for (; mask != 0; mask &= mask - 1) {
                hits[count++] = (uint32_t)i << 16 | ((uint32_t)j + (uint32_t)__builtin_ctz(mask));
            }
        }
    }
    return count;
}

const kin_graph_words kin_graph_words_avx2 = {least_of, hits_of, kin_graph_put_portable};

#endif
