/* SPDX-License-Identifier: Apache-2.0
 * What warps do with the samples of one point that lie in shared memory: products, costs, minima,
 * offers. graph_join.cu has the idea, and brings the rows.
 */
#ifndef KIN_GRAPH_GPU_JOIN_MMA_CUH
#define KIN_GRAPH_GPU_JOIN_MMA_CUH

#include "graph/graph_pair.cuh"
#include "screen/screen_cost.cuh"
#include "screen/screen_mma.cuh"

enum {
    JOIN_SLAB = 16, /* rows of a warp, and columns that it loads at once */
    JOIN_SLICE = KIN_SCREEN_GPU_SLICE,
    JOIN_CHUNK = 16, /* bytes */
    JOIN_STEP = 32,  /* bytes of a row that one product takes */
    JOIN_STAGES = 2,
    JOIN_TURNS = 4 /* points whose samples are known; above STAGES */
};
#define JOIN_ALL_LANES 0xffffffffU
#define JOIN_NO_ORDER UINT32_MAX
#define JOIN_NO_ID UINT32_MAX

/* Rows as given that samples stand for, which tell their set: nothing where there is one set. */
template <int CAP, bool ACROSS> struct join_rows {
};
template <int CAP> struct join_rows<CAP, true> {
    uint32_t row[JOIN_TURNS][2 * CAP];
};

/* Rows of a point in shared memory: NEW from 0, OLD from CAP on. A word of the minima is order <<
 * 32 | place, a place being a row of this. ACROSS: samples of one set do not meet. */
template <int CAP, bool ACROSS> struct join_shared : join_rows<CAP, ACROSS> {
    unsigned char ring[JOIN_STAGES][2 * CAP * JOIN_SLICE];
    uint64_t last[JOIN_TURNS][2 * CAP]; /* words of lists */
    uint64_t row_least[2][CAP]; /* of NEW rows: among NEW columns behind them, among OLD ones */
    uint64_t col_least[CAP / JOIN_SLAB][2 * CAP]; /* of columns, among the rows of a warp */
    uint32_t id[JOIN_TURNS][2 * CAP];             /* positions; JOIN_NO_ID: no such sample */
    kin_screen_gpu_word term[JOIN_TURNS][2 * CAP];
    uint32_t counts[JOIN_TURNS];
    unsigned long long evaluations;
};

/* Both counts of a point as one word. */
static __device__ __forceinline__ uint32_t join_counts(uint32_t news, uint32_t olds)
{
    return news | olds << 16;
}

static __device__ __forceinline__ int32_t join_news(uint32_t counts)
{
    return (int32_t)(counts & 0xffffU);
}

static __device__ __forceinline__ int32_t join_olds(uint32_t counts)
{
    return (int32_t)(counts >> 16);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* What a warp does of a point. */
typedef struct join_task {
    uint32_t slabs; /* bit i: columns 16 i .. 16 i + 15 are met */
    int32_t row0;
    int32_t news;
    int32_t olds;
} join_task;

template <int CAP> static __device__ __forceinline__ join_task join_task_of(uint32_t counts)
{
    const uint32_t warp = threadIdx.x / 32;
    join_task t = {0, (int32_t)warp * JOIN_SLAB, join_news(counts), join_olds(counts)};
    if (t.row0 < t.news) {
        const uint32_t of_new = (1U << (t.news + JOIN_SLAB - 1) / JOIN_SLAB) - (1U << warp);
        const uint32_t of_old = (1U << (t.olds + JOIN_SLAB - 1) / JOIN_SLAB) - 1U;
        t.slabs = of_new | of_old << CAP / JOIN_SLAB;
    }
    return t;
}

/* Accumulators of columns 8 n .. 8 n + 7 are acc[n]; screen_mma.cuh tells whose they are. */
template <int CAP, typename ACC>
static __device__ __forceinline__ void join_multiply(const unsigned char *rows, int32_t steps,
                                                     const join_task &t, ACC (&acc)[2 * CAP / 8][4])
{
    const int lane = (int)threadIdx.x % 32;
    const uint32_t a_at = mma_shared(rows) + (uint32_t)((t.row0 + lane % 16) * JOIN_SLICE);
    const uint32_t b_at = mma_shared(rows) + (uint32_t)((lane / 16 * 8 + lane % 8) * JOIN_SLICE);
    const uint32_t a_chunk = (uint32_t)((lane / 16) ^ lane % 8) * JOIN_CHUNK;
    const uint32_t b_chunk = (uint32_t)((lane / 8 % 2) ^ lane % 8) * JOIN_CHUNK;
#pragma unroll
    for (int k = 0; k < JOIN_SLICE / JOIN_STEP; k++) {
        if (k >= steps) {
            break;
        }
        uint32_t a[4];
        mma_load(a, a_at + (a_chunk ^ k * JOIN_STEP));
#pragma unroll
        for (int slab = 0; slab < 2 * CAP / JOIN_SLAB; slab++) {
            if ((t.slabs >> slab & 1) != 0) {
                uint32_t b[4];
                mma_load(b, b_at + (uint32_t)(slab * JOIN_SLAB * JOIN_SLICE) +
                                (b_chunk ^ k * JOIN_STEP));
                mma_multiply(acc[2 * slab], a, b[0], b[1]);
                mma_multiply(acc[2 * slab + 1], a, b[2], b[3]);
            }
        }
    }
}

template <kin_screen_gpu_type TYPE>
static __device__ __forceinline__ uint32_t join_order(kin_screen_gpu_word a, kin_screen_gpu_word b,
                                                      float product)
{
    kin_screen_gpu_word cost;
    cost.f = __fmaf_rn(-2.0F, product, __fadd_rn(a.f, b.f));
    return kin_screen_gpu_order<TYPE>(cost);
}

/* Modulo 2^32: the cost itself fits, the sum of the terms need not. */
template <kin_screen_gpu_type TYPE>
static __device__ __forceinline__ uint32_t join_order(kin_screen_gpu_word a, kin_screen_gpu_word b,
                                                      int32_t product)
{
    kin_screen_gpu_word cost;
    cost.u = a.u + b.u - 2U * (uint32_t)product;
    return kin_screen_gpu_order<TYPE>(cost);
}

/* Orders of the pairs of a slab, JOIN_NO_ORDER where there is no such pair: order[c][h] of column
 * join_column(slab, c) and row row0 + 8 h + lane / 4. */
static __device__ __forceinline__ int32_t join_column(int slab, int c)
{
    return slab * JOIN_SLAB + c / 2 * 8 + (int32_t)(threadIdx.x % 4 * 2) + c % 2;
}

template <kin_screen_gpu_type TYPE, int CAP, typename ACC>
static __device__ __forceinline__ void
join_orders(const kin_screen_gpu_word *term, const join_task &t, int slab,
            const ACC (&acc)[2 * CAP / 8][4], const kin_screen_gpu_word (&row_term)[2],
            uint32_t (&order)[4][2])
{
    const bool old = slab >= CAP / JOIN_SLAB;
    const int32_t row = t.row0 + (int32_t)(threadIdx.x % 32 / 4);
#pragma unroll
    for (int c = 0; c < 4; c++) {
        const int32_t col = join_column(slab, c);
        const kin_screen_gpu_word col_term = term[col];
        const bool is_there = col < (old ? CAP + t.olds : t.news);
        const int32_t end = old ? t.news : col; /* rows are before this */
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t own =
                join_order<TYPE>(row_term[h], col_term, acc[2 * slab + c / 2][2 * h + c % 2]);
            order[c][h] = is_there && row + 8 * h < end ? own : JOIN_NO_ORDER;
        }
    }
}

/* Of two sets: pairs within one of them are none. Returns how many are left to this thread. */
template <int CAP>
static __device__ __forceinline__ uint32_t join_part(const join_shared<CAP, true> *s, int32_t turn,
                                                     int64_t split, const join_task &t, int slab,
                                                     uint32_t (&order)[4][2])
{
    const int32_t row = t.row0 + (int32_t)(threadIdx.x % 32 / 4);
    uint32_t left = 0;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        const bool col_below = s->row[turn][join_column(slab, c)] < split;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const bool row_below = s->row[turn][row + 8 * h] < split;
            order[c][h] = row_below != col_below ? order[c][h] : JOIN_NO_ORDER;
            left += order[c][h] != JOIN_NO_ORDER ? 1 : 0;
        }
    }
    return left;
}

/* ---- Minima ---------------------------------------------------------------------------------- */

/* Places come in rising order, so that the first of equals stays. */
static __device__ __forceinline__ void join_take(uint64_t *least, uint32_t order, int32_t place)
{
    if (order < (uint32_t)(*least >> 32)) {
        *least = (uint64_t)order << 32 | (uint32_t)place;
    }
}

/* COUNT words are joined with those of the lane `away` from this one; the upper of both keeps the
 * second half of them, the lower one the first. */
template <int COUNT> static __device__ __forceinline__ void join_halve(uint64_t *words, int away)
{
    const bool upper = ((int)threadIdx.x & away) != 0;
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++) {
        const uint64_t keeps = upper ? words[i + COUNT / 2] : words[i];
        const uint64_t gives = upper ? words[i] : words[i + COUNT / 2];
        const uint64_t other = __shfl_xor_sync(JOIN_ALL_LANES, gives, away);
        words[i] = other < keeps ? other : keeps;
    }
}

/* rows: of row0 + lane / 4 and of the one 8 below, among NEW columns, then the same among OLD ones.
 */
template <int CAP, bool ACROSS>
static __device__ __forceinline__ void join_least(join_shared<CAP, ACROSS> *s, const join_task &t,
                                                  int slab, const uint32_t (&order)[4][2],
                                                  uint64_t (&rows)[4])
{
    const int lane = (int)threadIdx.x % 32;
    uint64_t cols[4];
#pragma unroll
    for (int c = 0; c < 4; c++) {
        cols[c] = UINT64_MAX;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            join_take(&rows[(slab >= CAP / JOIN_SLAB ? 2 : 0) + h], order[c][h],
                      join_column(slab, c));
            join_take(&cols[c], order[c][h], t.row0 + 8 * h + lane / 4);
        }
    }
    join_halve<4>(cols, 16);
    join_halve<2>(cols, 8);
    const uint64_t other = __shfl_xor_sync(JOIN_ALL_LANES, cols[0], 4);
    if ((lane & 4) == 0) {
        const int32_t col = join_column(slab, (lane & 24) / 8);
        s->col_least[t.row0 / JOIN_SLAB][col] = other < cols[0] ? other : cols[0];
    }
}

/* Each thread offers to its own sample. */
template <int CAP, bool ACROSS>
static __device__ __forceinline__ void join_offer_least(const kin_graph_gpu_join &job,
                                                        const join_shared<CAP, ACROSS> *s,
                                                        int32_t turn, int32_t news)
{
    const int thread = (int)threadIdx.x;
    const uint32_t id = s->id[turn][thread];
    if (id == JOIN_NO_ID) {
        return;
    }
    const uint64_t last = s->last[turn][thread];
    const auto offer = [&](uint64_t least) {
        const uint32_t order = (uint32_t)(least >> 32);
        if (order != JOIN_NO_ORDER) {
            join_offer(job, id, last, order, s->id[turn][(uint32_t)least]);
        }
    };
    uint64_t among_new = UINT64_MAX;
    if (thread < CAP) {
        among_new = s->row_least[0][thread];
        offer(s->row_least[1][thread]);
    }
    const int32_t before = thread < CAP ? thread + 1 : news; /* rows that the column met */
#pragma unroll
    for (int warp = 0; warp < CAP / JOIN_SLAB; warp++) {
        if (warp * JOIN_SLAB < before) {
            const uint64_t other = s->col_least[warp][thread];
            among_new = other < among_new ? other : among_new;
        }
    }
    offer(among_new);
}

/* Every pair of a slab to both ends. Orders go through `scratch`, 256 words of this warp, so that
 * the code of an offer stands once and takes few registers. */
template <int CAP, bool ACROSS>
static __device__ __forceinline__ void
join_offer_slab(const kin_graph_gpu_join &job, const join_shared<CAP, ACROSS> *s, int32_t turn,
                const join_task &t, int slab, const uint32_t (&order)[4][2], uint32_t *scratch)
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int c = 0; c < 4; c++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            scratch[(8 * h + lane / 4) * JOIN_SLAB + join_column(0, c)] = order[c][h];
        }
    }
    __syncwarp();
#pragma unroll 1
    for (int i = lane; i < JOIN_SLAB * JOIN_SLAB; i += 32) {
        const int32_t row = t.row0 + i / JOIN_SLAB;
        const int32_t col = slab * JOIN_SLAB + i % JOIN_SLAB;
        if (scratch[i] != JOIN_NO_ORDER) {
            join_offer(job, s->id[turn][row], s->last[turn][row], scratch[i], s->id[turn][col]);
            join_offer(job, s->id[turn][col], s->last[turn][col], scratch[i], s->id[turn][row]);
        }
    }
    __syncwarp();
}

/* What a warp does with its products. Returns how many pairs this thread had of those that met; 0
 * where there is one set, since counts tell it. */
template <kin_screen_gpu_type TYPE, int CAP, bool ACROSS, typename ACC>
static __device__ __forceinline__ uint32_t join_use(const kin_graph_gpu_join &job,
                                                    join_shared<CAP, ACROSS> *s, int32_t turn,
                                                    const join_task &t, uint32_t *scratch,
                                                    const ACC (&acc)[2 * CAP / 8][4])
{
    uint32_t pairs = 0;
    const int lane = (int)threadIdx.x % 32;
    const int32_t row = t.row0 + lane / 4;
    const kin_screen_gpu_word row_term[2] = {s->term[turn][row], s->term[turn][row + 8]};
    uint64_t rows[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
#pragma unroll
    for (int slab = 0; slab < 2 * CAP / JOIN_SLAB; slab++) {
        if ((t.slabs >> slab & 1) == 0) {
            continue;
        }
        uint32_t order[4][2];
        join_orders<TYPE, CAP>(s->term[turn], t, slab, acc, row_term, order);
        if constexpr (ACROSS) {
            pairs += join_part<CAP>(s, turn, job.split, t, slab, order);
        }
        if (job.all != 0) {
            join_offer_slab<CAP, ACROSS>(job, s, turn, t, slab, order, scratch);
        } else {
            join_least<CAP, ACROSS>(s, t, slab, order, rows);
        }
    }
    join_halve<4>(rows, 1);
    join_halve<2>(rows, 2);
    s->row_least[lane & 1][t.row0 + (lane & 2) * 4 + lane / 4] = rows[0];
    return pairs;
}

#endif
