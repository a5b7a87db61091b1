/* SPDX-License-Identifier: Apache-2.0
 * Meetings on NEON. Contract: graph_join.h. */
#if defined(__aarch64__)
#include "graph/graph_join_neon.h"

#include <arm_neon.h>

#define TILE_NAME s16
#define VEC_POINT load_points_s16
#include "graph/graph_join_body.inc"
#define TILE_NAME f32
#include "graph/graph_join_body.inc"

/* ---- Who is nearest, and what is within limits ----------------------------------------------- */

/* What follows a product, 4 numbers at a time: who is nearest in a join, which pairs are within
 * their limits. Contract: graph_join.h. Lists are kept in order by plain C: what it counts, the
 * compiler counts in vectors. */

enum { LANES = 4 };

/* Lanes that were not met, all ones: the largest orders. */
static inline uint32x4_t load_first(const uint32_t *costs, int64_t count)
{
    static const uint32_t lanes[LANES] = {0, 1, 2, 3};
    const uint32x4_t met = vdupq_n_u32((uint32_t)kin_max_i64(kin_min_i64(count, LANES), 0));
    return vorrq_u32(vld1q_u32(costs), vcgeq_u32(vld1q_u32(lanes), met));
}

static uint32_t find(const uint32_t *costs, int64_t count, uint32_t order)
{
    int64_t j = 0;
    while (j < count && costs[j] != order) {
        j += 1;
    }
    return j < count ? (uint32_t)j : 0;
}

static inline void take_row(uint32x4_t row, int64_t i, uint32x4_t *best, uint32x4_t *who)
{
    const uint32x4_t nearer = vcltq_u32(row, *best);
    *who = vbslq_u32(nearer, vdupq_n_u32((uint32_t)i), *who);
    *best = vminq_u32(*best, row);
}

#define U32 uint32x4_t
#define least_of_two vminq_u32
#define least_lane vminvq_u32
#define SPLAT(x) vdupq_n_u32((uint32_t)(x))
#define STORE(at, v) vst1q_u32(at, v)
#include "graph/graph_least_body.inc"

static int64_t hits_of(const kin_graph_orders *of, uint32_t *hits)
{
    int64_t count = 0;
    for (int64_t i = 0; i < of->rows; i++) {
        const uint32x4_t own = vdupq_n_u32(of->row_limits[i]);
        for (int64_t j = 0; j < of->cols; j += LANES) {
            const uint32x4_t limit = vmaxq_u32(own, vld1q_u32(of->col_limits + j));
            const uint32x4_t within = vcleq_u32(vld1q_u32(of->orders + i * of->stride + j), limit);
            const uint64_t words = vget_lane_u64(vreinterpret_u64_u16(vshrn_n_u32(within, 16)), 0);
            for (uint64_t mask = words & 0x0001000100010001u; mask != 0; mask &= mask - 1) {
                const uint32_t lane = (uint32_t)__builtin_ctzll(mask) / 16;
                hits[count++] = (uint32_t)i << 16 | ((uint32_t)j + lane);
            }
        }
    }
    return count;
}

const kin_graph_words kin_graph_words_neon = {least_of, hits_of, kin_graph_put_portable};

#endif
