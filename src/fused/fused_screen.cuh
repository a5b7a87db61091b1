/* SPDX-License-Identifier: Apache-2.0
 * What every body of the screen does with a pair once its product is known: the cost, its place in
 * the order of costs, and the precise test of both ends. The coarse test before it is
 * fused_gate.cuh.
 *
 * A pair arrives as v = product - half_j, and cost = term_i + odd_j - 2 v. For floats that is one
 * rounding, since 2 v is exact: the "final subtraction" of E(q, c) in docs/notes/numerics.md.
 * Whether half_j starts the accumulator or is subtracted behind it does not matter, E covers both.
 * Integers are taken modulo 2^32; the cost itself is below 2^30.
 */
#ifndef KIN_FUSED_SCREEN_CUH
#define KIN_FUSED_SCREEN_CUH

#include "fused/fused_cost.cuh"
#include "fused/fused_kernels.h"

#include <cuda_runtime.h>

/* A word as an accumulator of either type, and back. */
static __device__ __forceinline__ float word_of(kin_fused_word w, float)
{
    return w.f;
}

static __device__ __forceinline__ int32_t word_of(kin_fused_word w, int32_t)
{
    return w.i;
}

static __device__ __forceinline__ kin_fused_word to_word(float v)
{
    kin_fused_word w;
    w.f = v;
    return w;
}

static __device__ __forceinline__ kin_fused_word to_word(int32_t v)
{
    kin_fused_word w;
    w.i = v;
    return w;
}

/* Of a row with this term and a column with that one; col_term is read for integers alone. */
template <kin_fused_type TYPE>
static __device__ __forceinline__ kin_fused_word kin_fused_cost(kin_fused_word row_term,
                                                                kin_fused_word col_term,
                                                                kin_fused_word v)
{
    kin_fused_word cost;
    if (TYPE == KIN_FUSED_S8) {
        cost.u = row_term.u + (col_term.u & 1U) - 2U * v.u;
    } else {
        cost.f = __fmaf_rn(-2.0F, v.f, row_term.f);
    }
    return cost;
}

/* The order of the cost of a row with this term and a position of the columns; the largest order
 * where the position is padding. */
template <kin_fused_type TYPE>
static __device__ __forceinline__ uint32_t kin_fused_order_at(const kin_fused_screen &job,
                                                              kin_fused_word row_term,
                                                              uint32_t position, kin_fused_word v)
{
    if ((int64_t)position >= job.cols.points) {
        return UINT32_MAX;
    }
    kin_fused_word col_term = {0};
    if (TYPE == KIN_FUSED_S8) {
        col_term = job.cols.facts[position].term;
    }
    return kin_fused_order<TYPE>(kin_fused_cost<TYPE>(row_term, col_term, v));
}

/* Beyond the capacity a candidate is counted, not stored: the row is then known to have lost some.
 */
static __device__ __forceinline__ void kin_fused_push(const kin_fused_lists &lists, uint32_t row,
                                                      uint32_t order, uint32_t candidate)
{
    const int32_t at = atomicAdd(&lists.counts[row], 1);
    if (at < lists.capacity) {
        lists.words[(int64_t)row * lists.capacity + at] = (uint64_t)order << 32 | candidate;
    }
}

/* Whether a cost must be kept for an end of this reach: unless cost > limit, in double
 * (exact_bound.h). A NaN limit keeps the pair. A negative reach of distances is a row that takes
 * nothing, whose limit would be a square. */
static __device__ __forceinline__ bool kin_fused_keeps(const kin_fused_frame &frame, double reach,
                                                       double cost, kin_bound_row own,
                                                       kin_bound_row other)
{
    if (frame.bound == KIN_BOUND_DISTANCE && reach < 0.0) {
        return false;
    }
    return !(cost > kin_bound_limit(frame.bound, reach, frame.kappa, own, other));
}

/* The precise test of a pair, which decides alone what is pushed. Padding is at no end of a pair.
 */
template <kin_fused_type TYPE>
static __device__ void kin_fused_offer(const kin_fused_screen &job, uint32_t row, uint32_t col,
                                       kin_fused_word v)
{
    if ((int64_t)row >= job.rows.points || (int64_t)col >= job.cols.points) {
        return;
    }
    const kin_fused_facts of_row = job.rows.facts[row];
    const kin_fused_facts of_col = job.cols.facts[col];
    const kin_bound_row bound_row = {(double)of_row.norm, (double)of_row.lost};
    const kin_bound_row bound_col = {(double)of_col.norm, (double)of_col.lost};
    const kin_fused_frame &frame = job.rows.frame;
    const kin_fused_word word = kin_fused_cost<TYPE>(of_row.term, of_col.term, v);
    const uint32_t order = kin_fused_order<TYPE>(word);
    const double cost = TYPE == KIN_FUSED_S8 ? (double)word.i : (double)word.f;
    if (kin_fused_keeps(frame, job.row_lists.reach[row], cost, bound_row, bound_col)) {
        kin_fused_push(job.row_lists, row, order, col);
    }
    if (job.col_lists.words != NULL &&
        kin_fused_keeps(frame, job.col_lists.reach[col], cost, bound_col, bound_row)) {
        kin_fused_push(job.col_lists, col, order, row);
    }
}

#endif
