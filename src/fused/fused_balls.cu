/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Where rows lie in clusters, a query needs few tiles of them, and which ones a ball around
 * each tells: what is farther from the query than the ball's radius and the query's reach holds
 * nothing for it. Balls are a set of their own, whose rows are the centres and have lost the
 * radius; so a screen of that set says how far each query is from each, and the bounds of pairs
 * say the rest (docs/notes/numerics.md). A tile has several (fused_cover.cu).
 *
 *      screen    costs of the queries with all balls                    fused_screen_*.cu
 *      aim       a query: the nearest tiles, their rows -> a reach      a block of threads each
 *      meet      a block of queries: the tiles that any of them can     a thread a tile
 *                reach -> units
 *
 * Cost. Four words of four bytes a query and tile are written; a warp reads those of 32 tiles only
 * if the nearest of their balls is near enough for the largest of them. */
#include "fused/fused_kernels.h"
#include "fused/fused_list.cuh"
#include "gpu/gpu_stream.cuh"

enum {
    THREADS = KIN_LIST_THREADS,
    WARPS = KIN_LIST_WARPS,
    GROUP = KIN_FUSED_TILE / KIN_FUSED_BALLS, /* tiles whose balls share a minimum: a warp */
    GROUPS = 4,                               /* that are looked at */
    PASSES = KIN_FUSED_AIMED / 2              /* of which each looks at two tiles */
};

/* ---- Aim ------------------------------------------------------------------------------------- */

typedef struct aim_shared {
    list_shared list;
    uint32_t words[THREADS];
    uint64_t least[WARPS];
} aim_shared;

/* Of all threads' words; all have it. */
static __device__ uint64_t block_least(uint64_t word, aim_shared *shared)
{
    for (int away = 16; away > 0; away /= 2) {
        const uint64_t other = __shfl_xor_sync(KIN_ALL_LANES, word, away);
        word = other < word ? other : word;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        shared->least[threadIdx.x / 32] = word;
    }
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
        word = shared->least[w] < word ? shared->least[w] : word;
    }
    return word;
}

/* A tile of each thread, of the GROUPS groups that have the nearest balls: the order of the nearest
 * one above the tile; UINT64_MAX: none. */
static __device__ uint64_t near_tile(const kin_fused_aim &job, int64_t tiles, aim_shared *shared)
{
    const int64_t groups = (tiles + GROUP - 1) / GROUP;
    const uint32_t *minima = job.minima + blockIdx.x * (job.pitch / KIN_FUSED_TILE);
    uint64_t own = UINT64_MAX;
    uint64_t above = 0;
    for (int g = 0; g < GROUPS; g++) {
        uint64_t least = UINT64_MAX;
        for (int64_t i = threadIdx.x; i < groups; i += THREADS) {
            const uint64_t word = (uint64_t)__ldg(minima + i) << 32 | (uint64_t)i;
            least = word >= above && word < least ? word : least;
        }
        least = block_least(least, shared);
        above = least + 1;
        if (least == UINT64_MAX) {
            break;
        }
        own = (int)threadIdx.x / GROUP == g ? least : own;
    }
    const int64_t tile = (int64_t)(uint32_t)own * GROUP + threadIdx.x % GROUP;
    if (own == UINT64_MAX || tile >= tiles) {
        return UINT64_MAX;
    }
    const uint4 orders =
        *(const uint4 *)(job.matrix + blockIdx.x * job.pitch + KIN_FUSED_BALLS * tile);
    const uint32_t least = min(min(orders.x, orders.y), min(orders.z, orders.w));
    return (uint64_t)least << 32 | (uint64_t)tile;
}

/* Of the row and a column; padding where there is none. */
static __device__ uint32_t order_of_pair(const kin_fused_aim &job, int64_t column)
{
    if (column >= job.cols.points) {
        return KIN_ORDER_PADDING;
    }
    const int32_t chunks = job.cols.frame.row_bytes / 16;
    const uint4 *a = (const uint4 *)job.rows.rounded + (int64_t)blockIdx.x * chunks;
    const uint4 *b = (const uint4 *)job.cols.rounded + column * chunks;
    int32_t sum = 0;
#pragma unroll 8
    for (int32_t i = 0; i < chunks; i++) {
        const uint4 x = __ldg(a + i);
        const uint4 y = __ldg(b + i);
        sum = __dp4a((int)x.x, (int)y.x, sum);
        sum = __dp4a((int)x.y, (int)y.y, sum);
        sum = __dp4a((int)x.z, (int)y.z, sum);
        sum = __dp4a((int)x.w, (int)y.w, sum);
    }
    kin_fused_word cost;
    cost.u = job.rows.facts[blockIdx.x].term.u + job.cols.facts[column].term.u - 2U * (uint32_t)sum;
    return kin_fused_order<KIN_FUSED_S8>(cost);
}

/* A thread has the least of every THREADS-th column of the tiles that are taken: the k-th of those
 * is the cost of k different columns. */
static __global__ void __launch_bounds__(THREADS)
    aim_kernel(const __grid_constant__ kin_fused_aim job)
{
    __shared__ aim_shared shared;
    kin_gpu_await();
    const int64_t tiles = (job.cols.points + KIN_FUSED_TILE - 1) / KIN_FUSED_TILE;
    uint64_t own = near_tile(job, tiles, &shared);
    uint32_t order = KIN_ORDER_PADDING;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; pass++) {
        uint64_t mine = UINT64_MAX;
        for (int half = 0; half < 2; half++) {
            const uint64_t least = block_least(own, &shared);
            own = own == least ? UINT64_MAX : own;
            mine = (int)threadIdx.x / KIN_FUSED_TILE == half ? least : mine;
        }
        if (mine != UINT64_MAX) {
            const int64_t first = (int64_t)(uint32_t)mine * KIN_FUSED_TILE;
            order = min(order, order_of_pair(job, first + threadIdx.x % KIN_FUSED_TILE));
        }
    }
    shared.words[threadIdx.x] = order;
    order = block_kth_of_groups(shared.words, 1, job.lists.k, &shared.list);
    if (threadIdx.x == 0) {
        const kin_fused_frame &frame = job.rows.frame;
        job.lists.reach[blockIdx.x] =
            order == KIN_ORDER_PADDING
                ? (double)INFINITY
                : list_proven(kin_bound_reach_of_cost(
                      frame.bound, list_cost(frame.type, order), frame.kappa, frame.scale,
                      list_row(job.rows, blockIdx.x), job.cols.worst));
    }
}

int kin_fused_launch_aim(kin_gpu_stream *stream, const kin_fused_aim *job)
{
    if (job->rows.frame.type != KIN_FUSED_S8 || job->lists.k > KIN_FUSED_AIMED_K) {
        return (int)cudaErrorInvalidValue;
    }
    return job->rows.points == 0
               ? 0
               : kin_gpu_launch_behind(stream, aim_kernel,
                                       kin_gpu_grid{(unsigned)job->rows.points, THREADS, 0}, *job);
}

/* ---- Meet ------------------------------------------------------------------------------------ */

enum { ROWS_AT_ONCE = 8 /* whose costs are asked for before one is looked at */ };

typedef struct meet_shared {
    double reach[KIN_FUSED_BLOCK];
    kin_bound_row rows[KIN_FUSED_BLOCK];
    bool is_last;
} meet_shared;

static __device__ __forceinline__ bool reaches(const kin_fused_meet &job, const meet_shared &shared,
                                               int32_t row, uint32_t order, kin_bound_row ball)
{
    const kin_fused_frame &frame = job.rows.frame;
    return !(list_cost(frame.type, order) >
             kin_bound_limit(frame.bound, shared.reach[row], frame.kappa, shared.rows[row], ball));
}

/* Whether any of `count` rows of a block can reach a tile. A warp has those whose balls share a
 * minimum, and stops where all of them are reached. */
static __device__ bool any_reaches(const kin_fused_meet &job, const meet_shared &shared,
                                   int64_t row0, int32_t count, int64_t tile)
{
    const bool exists = KIN_FUSED_BALLS * tile < job.balls.points;
    const int64_t ball = exists ? KIN_FUSED_BALLS * tile : 0;
    const uint32_t *words = job.matrix + row0 * job.pitch + ball;
    const int64_t minima_pitch = job.pitch / KIN_FUSED_TILE;
    const uint32_t *minima = job.minima + row0 * minima_pitch + min(tile / GROUP, minima_pitch - 1);
    kin_bound_row balls[KIN_FUSED_BALLS];
    kin_bound_row worst = {0.0, 0.0};
#pragma unroll
    for (int b = 0; b < KIN_FUSED_BALLS; b++) {
        balls[b] = list_row(job.balls, ball + b);
        worst.norm = balls[b].norm > worst.norm ? balls[b].norm : worst.norm;
        worst.lost = balls[b].lost > worst.lost ? balls[b].lost : worst.lost;
    }
    worst.norm = warp_max(worst.norm);
    worst.lost = warp_max(worst.lost);
    bool near = !exists;
    for (int32_t first = 0; first < count; first += ROWS_AT_ONCE) {
        uint32_t least[ROWS_AT_ONCE];
#pragma unroll
        for (int r = 0; r < ROWS_AT_ONCE; r++) {
            least[r] = __ldg(minima + min(first + r, count - 1) * minima_pitch);
        }
#pragma unroll
        for (int r = 0; r < ROWS_AT_ONCE; r++) {
            const int32_t row = min(first + r, count - 1);
            if (reaches(job, shared, row, least[r], worst)) {
                const uint4 orders = __ldcs((const uint4 *)(words + row * job.pitch));
                near = near || reaches(job, shared, row, orders.x, balls[0]) ||
                       reaches(job, shared, row, orders.y, balls[1]) ||
                       reaches(job, shared, row, orders.z, balls[2]) ||
                       reaches(job, shared, row, orders.w, balls[3]);
            }
        }
        if (__all_sync(KIN_ALL_LANES, near)) {
            break;
        }
    }
    return exists && near;
}

/* By the last block of threads, when all others have counted. */
static __device__ void make_units(const kin_fused_meet &job, int64_t blocks)
{
    const int64_t tiles = job.balls.points / KIN_FUSED_BALLS;
    uint32_t made = 0;
    uint64_t met = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const uint32_t count = __ldcg(job.counts + b);
        const bool fits = count <= job.tiles_a_block;
        const uint32_t units = fits ? min(count, job.units_a_block) : 0;
        for (uint32_t i = threadIdx.x; i < units; i += THREADS) {
            const uint32_t begin = (uint32_t)((uint64_t)count * i / units);
            const uint32_t end = (uint32_t)((uint64_t)count * (i + 1) / units);
            job.units[made + i] = kin_fused_unit{
                (uint32_t)b, (uint32_t)b * job.tiles_a_block + begin, end - begin, 0};
        }
        if (threadIdx.x == 0) {
            job.columns[b] = count * KIN_FUSED_TILE;
        }
        made += units;
        met += count;
    }
    if (threadIdx.x == 0) {
        *job.unit_count = made;
        if (job.met != NULL) {
            job.met[0] += met;
            job.met[1] += (uint64_t)(blocks * tiles) - met;
        }
    }
}

static __global__ void __launch_bounds__(THREADS)
    meet_kernel(const __grid_constant__ kin_fused_meet job, int64_t pieces)
{
    __shared__ meet_shared shared;
    const int64_t block = blockIdx.x / pieces;
    const int64_t row0 = block * KIN_FUSED_BLOCK;
    const int32_t count = (int32_t)min((int64_t)KIN_FUSED_BLOCK, job.rows.points - row0);
    kin_gpu_await();
    for (int32_t r = (int32_t)threadIdx.x; r < count; r += THREADS) {
        shared.reach[r] = job.lists.reach[row0 + r];
        shared.rows[r] = list_row(job.rows, row0 + r);
    }
    __syncthreads();
    const int64_t tile = blockIdx.x % pieces * THREADS + threadIdx.x;
    const bool near = any_reaches(job, shared, row0, count, tile);
    const uint32_t vote = __ballot_sync(KIN_ALL_LANES, near);
    uint32_t place = 0;
    if (threadIdx.x % 32 == 0 && vote != 0) {
        place = atomicAdd(job.counts + block, (uint32_t)__popc(vote));
    }
    place = __shfl_sync(KIN_ALL_LANES, place, 0) +
            (uint32_t)__popc(vote & ((1u << threadIdx.x % 32) - 1));
    if (near && place < job.tiles_a_block) {
        job.tiles[block * job.tiles_a_block + place] = (uint32_t)tile;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        shared.is_last = atomicAdd(job.arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (shared.is_last) {
        make_units(job, gridDim.x / pieces);
    }
}

int kin_fused_launch_meet(kin_gpu_stream *stream, const kin_fused_meet *job)
{
    const int64_t blocks = (job->rows.points + KIN_FUSED_BLOCK - 1) / KIN_FUSED_BLOCK;
    const int64_t pieces = (job->balls.points / KIN_FUSED_BALLS + THREADS - 1) / THREADS;
    return blocks * pieces == 0
               ? 0
               : kin_gpu_launch_behind(stream, meet_kernel,
                                       kin_gpu_grid{(unsigned)(blocks * pieces), THREADS, 0}, *job,
                                       pieces);
}
