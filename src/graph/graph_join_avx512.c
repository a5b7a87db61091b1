/* SPDX-License-Identifier: Apache-2.0
 * Meetings on AVX-512 without VNNI. Contract: graph_join.h. */
#if defined(__x86_64__)
#include "graph/graph_join_x86.h"

#include <immintrin.h>

#include "graph/graph_join_x86.inc"

/* ---- Who is nearest, and what is within limits ----------------------------------------------- */

/* What follows a product, 16 numbers at a time: who is nearest in a join, which pairs are within
 * their limits, short lists in order. Contract: graph_join.h. */

enum { LANES = 16 };

/* The first `count` lanes, where it is not negative. */
static inline __mmask16 first_lanes(int64_t count)
{
    return (__mmask16)(count >= LANES ? 0xffffu : count <= 0 ? 0u : (1u << count) - 1);
}

static inline __m512i load_first(const uint32_t *costs, int64_t count)
{
    return _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), first_lanes(count), costs);
}

static uint32_t find(const uint32_t *costs, int64_t count, uint32_t order)
{
    for (int64_t j = 0; j < count; j += LANES) {
        const uint32_t equal =
            _mm512_mask_cmpeq_epu32_mask(first_lanes(count - j), _mm512_loadu_si512(costs + j),
                                         _mm512_set1_epi32((int32_t)order));
        if (equal != 0) {
            return (uint32_t)j + (uint32_t)__builtin_ctz(equal);
        }
    }
    return 0;
}

static inline void take_row(__m512i row, int64_t i, __m512i *best, __m512i *who)
{
    const __mmask16 nearer = _mm512_cmplt_epu32_mask(row, *best);
    *best = _mm512_min_epu32(*best, row);
    *who = _mm512_mask_set1_epi32(*who, nearer, (int32_t)i);
}

#define U32 __m512i
#define least_of_two _mm512_min_epu32
#define least_lane _mm512_reduce_min_epu32
#define SPLAT(x) _mm512_set1_epi32(x)
#define STORE(at, v) _mm512_storeu_si512(at, v)
#include "graph/graph_least_body.inc"

static int64_t hits_of(const kin_graph_orders *of, uint32_t *hits)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int64_t count = 0;
    for (int64_t i = 0; i < of->rows; i++) {
        const __m512i own = _mm512_set1_epi32((int32_t)of->row_limits[i]);
        for (int64_t j = 0; j < of->cols; j += KIN_PANEL) {
            const __m512i limit = _mm512_max_epu32(own, _mm512_loadu_si512(of->col_limits + j));
            const __mmask16 within =
                _mm512_cmple_epu32_mask(_mm512_loadu_si512(of->orders + i * of->stride + j), limit);
            if (within != 0) {
                const __m512i pairs =
                    _mm512_add_epi32(lanes, _mm512_set1_epi32((int32_t)(i << 16 | j)));
                _mm512_mask_compressstoreu_epi32(hits + count, within, pairs);
                count += __builtin_popcount(within);
            }
        }
    }
    return count;
}

/* Eight words at a time: each becomes the larger of the one before it and of the smaller of itself
 * and what comes. */
enum { WORDS = 8 };

static __mmask8 lanes_of(int64_t left)
{
    return (__mmask8)(left < WORDS ? (1u << left) - 1 : 0xff);
}

static void put(uint64_t *words, int64_t length, uint64_t word)
{
    const __m512i comes = _mm512_set1_epi64((int64_t)word);
    __m512i before = _mm512_setzero_si512();
    __mmask8 there = 0;
    for (int64_t i = 0; i < length; i += WORDS) {
        const __mmask8 lanes = lanes_of(length - i);
        const __m512i own = _mm512_maskz_loadu_epi64(lanes, words + i);
        there |= _mm512_mask_cmpeq_epi64_mask(lanes, own, comes);
    }
    for (int64_t i = 0; i < length && there == 0; i += WORDS) {
        const __mmask8 lanes = lanes_of(length - i);
        const __m512i own = _mm512_maskz_loadu_epi64(lanes, words + i);
        const __m512i last = _mm512_alignr_epi64(own, before, WORDS - 1);
        _mm512_mask_storeu_epi64(words + i, lanes,
                                 _mm512_max_epu64(last, _mm512_min_epu64(own, comes)));
        before = own;
    }
}

const kin_graph_words kin_graph_words_avx512 = {least_of, hits_of, put};

#endif
