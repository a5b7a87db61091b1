/* SPDX-License-Identifier: Apache-2.0
 * What every body of the screen does with a pair once its product is known: the coarse test of
 * screen_gate.h as kernels call it, the cost, its place in the order of costs, and the precise test
 * of both ends.
 *
 * A pair arrives as v = product - half_j, and cost = term_i + odd_j - 2 v. For floats that is one
 * rounding, since 2 v is exact: the "final subtraction" of E(q, c) in docs/notes/numerics.md.
 * Whether half_j starts the accumulator or is subtracted behind it does not matter, E covers both.
 * Integers are taken modulo 2^32; the cost itself is below 2^30.
 */
#ifndef KIN_SCREEN_PAIR_CUH
#define KIN_SCREEN_PAIR_CUH

#include "screen/screen_cost.cuh"
#include "screen/screen_gate.h"
#include "screen/screen_kernels.h"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

/* Rows from device memory, the worst of a tile as it lies in shared memory. */
static __device__ __forceinline__ kin_gate_row kin_gate_row_of(const kin_screen_gpu_set &set,
                                                               const kin_screen_gpu_lists &lists,
                                                               uint32_t position)
{
    const kin_screen_gpu_facts facts = set.facts[position];
    /* The half of a row is that of its term; set.half is the same number as a column. */
    return kin_gate_row{set.half[position], facts.norm, facts.lost,
                        kin_gate_far(set.frame.bound,
                                     kin_screen_gpu_reach(&set.frame, lists.reach[position]),
                                     facts.lost)};
}

template <kin_screen_gpu_type TYPE>
static __device__ __forceinline__ kin_gate_test kin_gate_test_of(kin_bound_kind bound, float eps,
                                                                 const kin_gate_row &row,
                                                                 const kin_screen_gpu_worst &tile)
{
    const kin_bound_row worst = {(double)tile.norm, (double)tile.lost};
    return kin_gate_make_test(TYPE, bound, eps, row, worst, tile.far);
}

/* A word as an accumulator of either type, and back. */
static __device__ __forceinline__ float word_of(kin_screen_gpu_word w, float)
{
    return w.f;
}

static __device__ __forceinline__ int32_t word_of(kin_screen_gpu_word w, int32_t)
{
    return w.i;
}

static __device__ __forceinline__ kin_screen_gpu_word to_word(float v)
{
    kin_screen_gpu_word w;
    w.f = v;
    return w;
}

static __device__ __forceinline__ kin_screen_gpu_word to_word(int32_t v)
{
    kin_screen_gpu_word w;
    w.i = v;
    return w;
}

/* Of a row with this term and a column with that one; col_term is read for integers alone. */
template <kin_screen_gpu_type TYPE>
static __device__ __forceinline__ kin_screen_gpu_word kin_screen_gpu_cost(
    kin_screen_gpu_word row_term, kin_screen_gpu_word col_term, kin_screen_gpu_word v)
{
    kin_screen_gpu_word cost;
    if (TYPE == KIN_SCREEN_GPU_S8) {
        cost.u = row_term.u + (col_term.u & 1U) - 2U * v.u;
    } else {
        cost.f = __fmaf_rn(-2.0F, v.f, row_term.f);
    }
    return cost;
}

/* The order of the cost of a row with this term and a position of the columns; the largest order
 * where the position is padding. */
template <kin_screen_gpu_type TYPE>
static __device__ __forceinline__ uint32_t kin_screen_gpu_order_at(const kin_screen_gpu_screen &job,
                                                                   kin_screen_gpu_word row_term,
                                                                   uint32_t position,
                                                                   kin_screen_gpu_word v)
{
    if ((int64_t)position >= job.cols.points) {
        return UINT32_MAX;
    }
    kin_screen_gpu_word col_term = {0};
    if (TYPE == KIN_SCREEN_GPU_S8) {
        col_term = job.cols.facts[position].term;
    }
    return kin_screen_gpu_order<TYPE>(kin_screen_gpu_cost<TYPE>(row_term, col_term, v));
}

/* Beyond the capacity a candidate is counted, not stored: the row is then known to have lost some.
 */
static __device__ __forceinline__ void kin_screen_gpu_push(const kin_screen_gpu_lists &lists,
                                                           uint32_t row, uint32_t order,
                                                           uint32_t candidate)
{
    const int32_t at = atomicAdd(&lists.counts[row], 1);
    if (at < lists.capacity) {
        lists.words[(int64_t)row * lists.capacity + at] = (uint64_t)order << 32 | candidate;
    }
}

/* Whether a cost must be kept for an end of this reach: unless cost > limit, in double
 * (screen_bound.h). A NaN limit keeps the pair. A negative reach of distances is a row that takes
 * nothing, whose limit would be a square. */
static __device__ __forceinline__ bool kin_screen_gpu_keeps(const kin_screen_gpu_frame &frame,
                                                            double reach, double cost,
                                                            kin_bound_row own, kin_bound_row other)
{
    if (frame.bound == KIN_BOUND_DISTANCE && reach < 0.0) {
        return false;
    }
    return !(cost > kin_bound_limit(frame.bound, reach, frame.kappa, own, other));
}

/* Which ends of a pair want it, and its place in the order of costs. */
typedef struct kin_screen_gpu_wish {
    bool row;
    bool col;
    uint32_t order;
} kin_screen_gpu_wish;

/* The precise test of a pair, which decides alone. Padding is at no end of a pair. JOB: of a screen
 * or of a look. */
template <kin_screen_gpu_type TYPE, typename JOB>
static __device__ __forceinline__ kin_screen_gpu_wish
kin_screen_gpu_test(const JOB &job, uint32_t row, uint32_t col, kin_screen_gpu_word v)
{
    kin_screen_gpu_wish wish = {false, false, 0};
    if ((int64_t)row >= job.rows.points || (int64_t)col >= job.cols.points) {
        return wish;
    }
    const kin_screen_gpu_facts of_row = job.rows.facts[row];
    const kin_screen_gpu_facts of_col = job.cols.facts[col];
    const kin_bound_row bound_row = {(double)of_row.norm, (double)of_row.lost};
    const kin_bound_row bound_col = {(double)of_col.norm, (double)of_col.lost};
    const kin_screen_gpu_frame &frame = job.rows.frame;
    const kin_screen_gpu_word word = kin_screen_gpu_cost<TYPE>(of_row.term, of_col.term, v);
    const double cost = TYPE == KIN_SCREEN_GPU_S8 ? (double)word.i : (double)word.f;
    wish.order = kin_screen_gpu_order<TYPE>(word);
    wish.row = kin_screen_gpu_keeps(frame, kin_screen_gpu_reach(&frame, job.row_lists.reach[row]),
                                    cost, bound_row, bound_col);
    wish.col = job.col_lists.words != NULL &&
               kin_screen_gpu_keeps(frame, kin_screen_gpu_reach(&frame, job.col_lists.reach[col]),
                                    cost, bound_col, bound_row);
    return wish;
}

template <typename JOB>
static __device__ __forceinline__ void kin_screen_gpu_grant(const JOB &job, uint32_t row,
                                                            uint32_t col, kin_screen_gpu_wish wish)
{
    if (wish.row) {
        kin_screen_gpu_push(job.row_lists, row, wish.order, col);
    }
    if (wish.col) {
        kin_screen_gpu_push(job.col_lists, col, wish.order, row);
    }
}

/* ---- Shadows: what passes is looked at in full ----------------------------------------------- */

/* Products of 16 bytes of two rounded rows: eight halves, or sixteen bytes. */
static __device__ __forceinline__ float kin_screen_gpu_multiply(uint4 a, uint4 b, float sum)
{
    const __half2 *x = (const __half2 *)&a;
    const __half2 *y = (const __half2 *)&b;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 p = __half22float2(x[i]);
        const float2 q = __half22float2(y[i]);
        sum = __fmaf_rn(p.x, q.x, sum);
        sum = __fmaf_rn(p.y, q.y, sum);
    }
    return sum;
}

static __device__ __forceinline__ int32_t kin_screen_gpu_multiply(uint4 a, uint4 b, int32_t sum)
{
    sum = __dp4a((int32_t)a.x, (int32_t)b.x, sum);
    sum = __dp4a((int32_t)a.y, (int32_t)b.y, sum);
    sum = __dp4a((int32_t)a.z, (int32_t)b.z, sum);
    return __dp4a((int32_t)a.w, (int32_t)b.w, sum);
}

static __device__ __forceinline__ kin_screen_gpu_word
kin_screen_gpu_less_half(float product, kin_screen_gpu_word half)
{
    return to_word(__fsub_rn(product, half.f));
}

static __device__ __forceinline__ kin_screen_gpu_word
kin_screen_gpu_less_half(int32_t product, kin_screen_gpu_word half)
{
    return to_word(product - half.i);
}

/* A pair that finds no room to wait, by one thread. Four sums have fewer roundings than kappa
 * stands for. */
template <kin_screen_gpu_type TYPE, typename ACC>
static __device__ __noinline__ void kin_screen_gpu_look_now(const kin_screen_gpu_screen &job,
                                                            uint32_t row, uint32_t col)
{
    const int32_t bytes = job.full_rows.frame.row_bytes; /* a multiple of 128 */
    const uint4 *a = (const uint4 *)(job.full_rows.rounded + (int64_t)row * bytes);
    const uint4 *b = (const uint4 *)(job.full_cols.rounded + (int64_t)col * bytes);
    ACC sum[4] = {0, 0, 0, 0};
    for (int32_t at = 0; at < bytes / 16; at += 4) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sum[i] = kin_screen_gpu_multiply(__ldg(a + at + i), __ldg(b + at + i), sum[i]);
        }
    }
    kin_screen_gpu_look full;
    full.rows = job.full_rows;
    full.cols = job.full_cols;
    full.row_lists = job.row_lists;
    full.col_lists = job.col_lists;
    const kin_screen_gpu_word v =
        kin_screen_gpu_less_half((sum[0] + sum[1]) + (sum[2] + sum[3]), full.cols.half[col]);
    kin_screen_gpu_grant(full, row, col, kin_screen_gpu_test<TYPE>(full, row, col, v));
}

/* Places for so many pairs of each lane, one behind the other; all lanes of the warp come. */
static __device__ __forceinline__ uint64_t
kin_screen_gpu_reserve(const kin_screen_gpu_passed &passed, uint32_t wanted)
{
    const uint32_t lane = threadIdx.x % 32;
    uint32_t sum = wanted;
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        const uint32_t before = __shfl_up_sync(0xffffffffu, sum, step);
        sum += lane >= step ? before : 0;
    }
    unsigned long long first = 0;
    if (lane == 31 && sum > 0) {
        first = atomicAdd((unsigned long long *)passed.count, (unsigned long long)sum);
    }
    return __shfl_sync(0xffffffffu, first, 31) + sum - wanted;
}

/* A pair that passed, into its place. */
static __device__ __forceinline__ void kin_screen_gpu_defer(const kin_screen_gpu_screen &job,
                                                            uint64_t at, uint32_t row, uint32_t col)
{
    if (at < job.passed.room) {
        job.passed.pairs[at] = (uint64_t)row << 32 | col;
    } else if (job.full_rows.frame.type == KIN_SCREEN_GPU_S8) {
        kin_screen_gpu_look_now<KIN_SCREEN_GPU_S8, int32_t>(job, row, col);
    } else {
        kin_screen_gpu_look_now<KIN_SCREEN_GPU_F16, float>(job, row, col);
    }
}

/* A pair of each lane that `has` one, after the coarse test; all lanes of the warp come. */
template <kin_screen_gpu_type TYPE>
static __device__ __forceinline__ void kin_screen_gpu_offer(const kin_screen_gpu_screen &job,
                                                            bool has, uint32_t row, uint32_t col,
                                                            kin_screen_gpu_word v)
{
    kin_screen_gpu_wish wish = {false, false, 0};
    if (has) {
        wish = kin_screen_gpu_test<TYPE>(job, row, col, v);
    }
    if (job.passed.pairs == NULL) {
        kin_screen_gpu_grant(job, row, col, wish);
        return;
    }
    const uint64_t at = kin_screen_gpu_reserve(job.passed, wish.row || wish.col ? 1 : 0);
    if (wish.row || wish.col) {
        kin_screen_gpu_defer(job, at, row, col);
    }
}

#endif
