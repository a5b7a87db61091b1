/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Where rows lie in clusters, a query needs few tiles of them, and which ones a ball around
 * each tells: what is farther from the query than the ball's radius and the query's reach holds
 * nothing for it. Balls are a set of their own, whose rows are the centres and have lost the
 * radius, so that bounds of pairs are those of balls (docs/notes/numerics.md). A tile has several
 * (screen_cover.cu).
 *
 *      aim     products of queries and balls -> the least cost with each 128 balls
 *              a query: the nearest tiles of the nearest of those, their rows -> a reach
 *      meet    the same products -> the tiles that a query of the block can reach -> units
 *
 * Products. A warp has 128 balls, 16 at a time, straight from memory in its registers, the long
 * side of a product as in screen_tile_few.cu; the rows of a block of queries are in shared memory.
 * Costs of all pairs, written by the screen and read again, took twice as long as both products. */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_list.cuh"
#include "screen/screen_mma.cuh"

enum {
    THREADS = KIN_LIST_THREADS,
    WARPS = KIN_LIST_WARPS,
    STEP = 16,                                          /* balls of a product */
    CHUNKS = KIN_SCREEN_GPU_SLICE / 16,                 /* of 16 bytes */
    PAD = 4,                                            /* chunks behind a row in shared memory */
    GROUP = KIN_SCREEN_GPU_TILE / KIN_SCREEN_GPU_BALLS, /* tiles whose balls a warp has */
    GROUPS = 4,                                         /* that are looked at for a reach */
    LANES = THREADS / (GROUPS * GROUP),                 /* threads a tile then */
    PASSES = KIN_SCREEN_GPU_AIMED / 2                   /* of which each looks at two tiles */
};

static_assert(STEP == 4 * KIN_SCREEN_GPU_BALLS,
              "a product has four tiles, whose balls stand together");

/* ---- Products -------------------------------------------------------------------------------- */

/* Rows of a block in shared memory, and of each its term and what is added to a radius. */
typedef struct product_rows {
    uint4 *rows;
    uint32_t *terms;
    float *far;
} product_rows;

static __host__ __device__ size_t product_bytes(int32_t row_bytes, int32_t rows)
{
    return (size_t)rows * ((size_t)row_bytes + PAD * 16 + sizeof(uint32_t) + sizeof(float));
}

/* Rows from `row0` on, zeros behind the last one. reach: NULL, or of these rows. */
static __device__ product_rows stage_rows(const kin_screen_gpu_set &set, int64_t row0, int32_t room,
                                          const double *reach, void *shared)
{
    const int32_t chunks = set.frame.row_bytes / 16;
    const int32_t count = (int32_t)min((int64_t)room, set.points - row0);
    product_rows p;
    p.rows = (uint4 *)shared;
    p.terms = (uint32_t *)(p.rows + room * (chunks + PAD));
    p.far = (float *)(p.terms + room);
    const uint4 *from = (const uint4 *)set.rounded + row0 * chunks;
    for (int32_t i = (int32_t)threadIdx.x; i < room * chunks; i += THREADS) {
        p.rows[i / chunks * (chunks + PAD) + i % chunks] =
            i / chunks < count ? from[i] : make_uint4(0, 0, 0, 0);
    }
    for (int32_t r = (int32_t)threadIdx.x; r < room; r += THREADS) {
        const bool real = r < count;
        p.terms[r] = real ? set.facts[row0 + r].term.u : 0;
        p.far[r] =
            real && reach != NULL
                ? __double2float_ru(__dadd_ru(reach[row0 + r], (double)set.facts[row0 + r].lost))
                : -INFINITY;
    }
    __syncthreads();
    return p;
}

typedef struct product_slice {
    uint4 low;
    uint4 low_far;
    uint4 high;
    uint4 high_far;
} product_slice;

/* Of balls first .. first + 15, from chunk `at` on. */
static __device__ __forceinline__ product_slice read_balls(const kin_screen_gpu_set &balls,
                                                           int64_t first, int32_t at)
{
    const int32_t chunks = balls.frame.row_bytes / 16;
    const int32_t lane = (int32_t)threadIdx.x % 32;
    const uint4 *low = (const uint4 *)balls.rounded + (first + lane / 4) * chunks + at + lane % 4;
    const uint4 *high = low + STEP / 2 * (int64_t)chunks;
    return product_slice{__ldg(low), __ldg(low + CHUNKS / 2), __ldg(high),
                         __ldg(high + CHUNKS / 2)};
}

/* A slice of balls and of eight rows joins sums: of balls g and 8 + g, of rows 2 t and 2 t + 1. */
static __device__ __forceinline__ void multiply_slice(const product_slice &x, const uint4 *rows,
                                                      int32_t (&sums)[4])
{
    const uint4 near = rows[0];
    const uint4 far = rows[CHUNKS / 2];
    const uint32_t a[4][4] = {{x.low.x, x.high.x, x.low_far.x, x.high_far.x},
                              {x.low.y, x.high.y, x.low_far.y, x.high_far.y},
                              {x.low.z, x.high.z, x.low_far.z, x.high_far.z},
                              {x.low.w, x.high.w, x.low_far.w, x.high_far.w}};
    mma_multiply(sums, a[0], near.x, far.x);
    mma_multiply(sums, a[1], near.y, far.y);
    mma_multiply(sums, a[2], near.z, far.z);
    mma_multiply(sums, a[3], near.w, far.w);
}

/* Products of 16 balls and rows 8 n .. 8 n + 7; x: the balls' first slice. */
static __device__ __forceinline__ void multiply_rows(const kin_screen_gpu_set &balls, int64_t first,
                                                     const product_slice &x, const product_rows &p,
                                                     int32_t n, int32_t (&sums)[4])
{
    const int32_t chunks = balls.frame.row_bytes / 16;
    const int32_t lane = (int32_t)threadIdx.x % 32;
    const uint4 *rows = p.rows + (8 * n + lane / 4) * (chunks + PAD) + lane % 4;
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
    multiply_slice(x, rows, sums);
    for (int32_t at = CHUNKS; at < chunks; at += CHUNKS) {
        multiply_slice(read_balls(balls, first, at), rows + at, sums);
    }
}

/* Eights of rows: 1, 8 or 32. */
static int eights_of(int64_t rows)
{
    return rows <= 8 ? 1 : rows <= 64 ? 8 : KIN_SCREEN_GPU_BLOCK / 8;
}

/* ---- Near groups ----------------------------------------------------------------------------- */

/* minima[row * groups + group]: the order of the least cost with its 128 balls. */
template <int NT>
static __global__ void __launch_bounds__(THREADS)
    near_groups_kernel(const __grid_constant__ kin_screen_gpu_aim job, int64_t pieces)
{
    extern __shared__ uint4 room[];
    const int32_t lane = (int32_t)threadIdx.x % 32;
    const int64_t groups = job.balls.padded / KIN_SCREEN_GPU_TILE;
    const int64_t group = blockIdx.x % pieces * WARPS + threadIdx.x / 32;
    const int64_t row0 = blockIdx.x / pieces * KIN_SCREEN_GPU_BLOCK;
    kin_gpu_await();
    const product_rows p = stage_rows(job.rows, row0, NT * 8, NULL, room);
    if (group >= groups) {
        return;
    }
    int32_t least[NT][2];
#pragma unroll
    for (int n = 0; n < NT; n++) {
        least[n][0] = least[n][1] = INT32_MAX;
    }
#pragma unroll 1
    for (int64_t first = group * KIN_SCREEN_GPU_TILE; first < (group + 1) * KIN_SCREEN_GPU_TILE;
         first += STEP) {
        const product_slice x = read_balls(job.balls, first, 0);
        const int64_t ball = first + lane / 4;
        const bool low = ball < job.balls.points;
        const bool high = ball + STEP / 2 < job.balls.points;
        const int32_t low_term = (int32_t)job.balls.facts[ball].term.u;
        const int32_t high_term = (int32_t)job.balls.facts[ball + STEP / 2].term.u;
#pragma unroll
        for (int n = 0; n < NT; n++) {
            int32_t sums[4];
            multiply_rows(job.balls, first, x, p, n, sums);
#pragma unroll
            for (int e = 0; e < 2; e++) { /* without the row's own term */
                const int32_t one = low ? low_term - 2 * sums[e] : INT32_MAX;
                const int32_t other = high ? high_term - 2 * sums[2 + e] : INT32_MAX;
                least[n][e] = min(least[n][e], min(one, other));
            }
        }
    }
#pragma unroll
    for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            for (int away = 4; away < 32; away *= 2) {
                least[n][e] = min(least[n][e], __shfl_xor_sync(KIN_ALL_LANES, least[n][e], away));
            }
            const int32_t row = 8 * n + 2 * (lane % 4) + e;
            if (lane < 4 && row0 + row < job.rows.points) {
                kin_screen_gpu_word cost;
                cost.u = (uint32_t)least[n][e] + p.terms[row];
                job.minima[(row0 + row) * groups + group] =
                    least[n][e] == INT32_MAX ? KIN_ORDER_PADDING
                                             : kin_screen_gpu_order<KIN_SCREEN_GPU_S8>(cost);
            }
        }
    }
}

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

/* Of the row and a position; padding where there is none. */
static __device__ uint32_t order_of_pair(const kin_screen_gpu_aim &job,
                                         const kin_screen_gpu_set &set, int64_t position)
{
    if (position >= set.points) {
        return KIN_ORDER_PADDING;
    }
    const int32_t chunks = set.frame.row_bytes / 16;
    const uint4 *a = (const uint4 *)job.rows.rounded + (int64_t)blockIdx.x * chunks;
    const uint4 *b = (const uint4 *)set.rounded + position * chunks;
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
    kin_screen_gpu_word cost;
    cost.u = job.rows.facts[blockIdx.x].term.u + set.facts[position].term.u - 2U * (uint32_t)sum;
    return kin_screen_gpu_order<KIN_SCREEN_GPU_S8>(cost);
}

/* A tile of every LANES threads, of the GROUPS groups that have the nearest balls: the order of its
 * nearest one above the tile, for the first of them; UINT64_MAX: none. */
static __device__ uint64_t near_tile(const kin_screen_gpu_aim &job, int64_t tiles,
                                     aim_shared *shared)
{
    const int64_t groups = job.balls.padded / KIN_SCREEN_GPU_TILE;
    const uint32_t *minima = job.minima + blockIdx.x * groups;
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
        own = (int)threadIdx.x / (GROUP * LANES) == g ? least : own;
    }
    const int part = (int)threadIdx.x % LANES;
    const int64_t tile = (int64_t)(uint32_t)own * GROUP + (int)threadIdx.x / LANES % GROUP;
    const bool exists = own != UINT64_MAX && tile < tiles;
    uint32_t order = KIN_ORDER_PADDING;
    for (int b = part; b < KIN_SCREEN_GPU_BALLS && exists; b += LANES) {
        order = min(order, order_of_pair(job, job.balls, KIN_SCREEN_GPU_BALLS * tile + b));
    }
    for (int away = 1; away < LANES; away *= 2) {
        order = min(order, __shfl_xor_sync(KIN_ALL_LANES, order, away));
    }
    return exists && part == 0 ? (uint64_t)order << 32 | (uint64_t)tile : UINT64_MAX;
}

/* A thread has the least of every THREADS-th column of the tiles that are taken: the k-th of those
 * is the cost of k different columns. */
static __global__ void __launch_bounds__(THREADS)
    aim_kernel(const __grid_constant__ kin_screen_gpu_aim job)
{
    __shared__ aim_shared shared;
    kin_gpu_await();
    const int64_t tiles = (job.cols.points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE;
    uint64_t own = near_tile(job, tiles, &shared);
    uint32_t order = KIN_ORDER_PADDING;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; pass++) {
        uint64_t mine = UINT64_MAX;
        for (int half = 0; half < 2; half++) {
            const uint64_t least = block_least(own, &shared);
            own = own == least ? UINT64_MAX : own;
            mine = (int)threadIdx.x / KIN_SCREEN_GPU_TILE == half ? least : mine;
        }
        if (mine != UINT64_MAX) {
            const int64_t first = (int64_t)(uint32_t)mine * KIN_SCREEN_GPU_TILE;
            order =
                min(order, order_of_pair(job, job.cols, first + threadIdx.x % KIN_SCREEN_GPU_TILE));
        }
    }
    shared.words[threadIdx.x] = order;
    order = block_kth_of_groups(shared.words, 1, job.lists.k, &shared.list);
    if (threadIdx.x == 0) {
        const kin_screen_gpu_frame &frame = job.rows.frame;
        job.lists.reach[blockIdx.x] =
            order == KIN_ORDER_PADDING
                ? (double)INFINITY
                : list_proven(kin_bound_reach_of_cost(
                      frame.bound, list_cost(frame.type, order), frame.kappa, frame.scale,
                      list_row(job.rows, blockIdx.x), job.cols.worst));
    }
}

template <int NT> static int launch_near(kin_gpu_stream *stream, const kin_screen_gpu_aim *job)
{
    const int64_t blocks = (job->rows.points + KIN_SCREEN_GPU_BLOCK - 1) / KIN_SCREEN_GPU_BLOCK;
    const int64_t pieces = (job->balls.padded / KIN_SCREEN_GPU_TILE + WARPS - 1) / WARPS;
    const size_t bytes = product_bytes(job->rows.frame.row_bytes, NT * 8);
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, near_groups_kernel<NT>));
    return kin_gpu_launch_behind(stream, near_groups_kernel<NT>,
                                 kin_gpu_grid{(unsigned)(blocks * pieces), THREADS, bytes}, *job,
                                 pieces);
}

int kin_screen_gpu_launch_aim(kin_gpu_stream *stream, const kin_screen_gpu_aim *job)
{
    if (job->rows.frame.type != KIN_SCREEN_GPU_S8 || job->lists.k > KIN_SCREEN_GPU_AIMED_K) {
        return (int)cudaErrorInvalidValue;
    }
    if (job->rows.points == 0) {
        return 0;
    }
    const int eights = eights_of(job->rows.points);
    const int launched = eights == 1   ? launch_near<1>(stream, job)
                         : eights == 8 ? launch_near<8>(stream, job)
                                       : launch_near<KIN_SCREEN_GPU_BLOCK / 8>(stream, job);
    return launched != 0
               ? launched
               : kin_gpu_launch_behind(stream, aim_kernel,
                                       kin_gpu_grid{(unsigned)job->rows.points, THREADS, 0}, *job);
}

/* ---- Meet ------------------------------------------------------------------------------------ */

/* Whether a ball of this loss may hold what the row needs: kin_bound_limit, rounded up. */
static __device__ __forceinline__ bool reaches(int32_t cost, float far, float lost)
{
    const float both = __fadd_ru(far, lost);
    const float limit = __fmul_ru(__fmul_ru(both, both), 1.0F + 0x1p-20F);
    return far != -INFINITY && !(__int2float_rd(cost) > limit);
}

/* The tiles of a warp's balls that any of the rows can reach, a bit each. */
template <int NT>
static __device__ uint32_t find_near(const kin_screen_gpu_meet &job, const product_rows &p,
                                     int64_t group)
{
    const int32_t lane = (int32_t)threadIdx.x % 32;
    uint32_t found = 0;
#pragma unroll 1
    for (int32_t step = 0; step < KIN_SCREEN_GPU_TILE / STEP; step++) {
        const int64_t first = group * KIN_SCREEN_GPU_TILE + step * STEP;
        const product_slice x = read_balls(job.balls, first, 0);
        const kin_screen_gpu_facts low = job.balls.facts[first + lane / 4];
        const kin_screen_gpu_facts high = job.balls.facts[first + lane / 4 + STEP / 2];
        bool near[2] = {false, false};
#pragma unroll 4
        for (int n = 0; n < NT; n++) {
            int32_t sums[4];
            multiply_rows(job.balls, first, x, p, n, sums);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int32_t row = 8 * n + 2 * (lane % 4) + e;
                const uint32_t term = p.terms[row];
                const float far = p.far[row];
                const int32_t one = (int32_t)(term + low.term.u - 2U * (uint32_t)sums[e]);
                const int32_t other = (int32_t)(term + high.term.u - 2U * (uint32_t)sums[2 + e]);
                near[0] = near[0] || reaches(one, far, low.lost);
                near[1] = near[1] || reaches(other, far, high.lost);
            }
        }
        /* The balls of a tile are those of 4 KIN_SCREEN_GPU_BALLS lanes. */
        const uint32_t votes[2] = {__ballot_sync(KIN_ALL_LANES, near[0]),
                                   __ballot_sync(KIN_ALL_LANES, near[1])};
        const uint32_t bits =
            ((votes[0] & 0xffffu) != 0 ? 1u : 0u) | (votes[0] >> 16 != 0 ? 2u : 0u) |
            ((votes[1] & 0xffffu) != 0 ? 4u : 0u) | (votes[1] >> 16 != 0 ? 8u : 0u);
        found |= bits << step * (STEP / KIN_SCREEN_GPU_BALLS);
    }
    return found;
}

/* By the last block of threads, when all others have counted. */
static __device__ void make_units(const kin_screen_gpu_meet &job, int64_t blocks)
{
    const int64_t tiles = job.balls.points / KIN_SCREEN_GPU_BALLS;
    uint32_t made = 0;
    uint64_t met = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const uint32_t count = __ldcg(job.counts + b);
        const bool fits = count <= job.tiles_a_block;
        const uint32_t units = fits ? min(count, job.units_a_block) : 0;
        for (uint32_t i = threadIdx.x; i < units; i += THREADS) {
            const uint32_t begin = (uint32_t)((uint64_t)count * i / units);
            const uint32_t end = (uint32_t)((uint64_t)count * (i + 1) / units);
            job.units[made + i] = kin_screen_gpu_unit{
                (uint32_t)b, (uint32_t)b * job.tiles_a_block + begin, end - begin, 0};
        }
        if (threadIdx.x == 0) {
            job.columns[b] = count * KIN_SCREEN_GPU_TILE;
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

template <int NT>
static __global__ void __launch_bounds__(THREADS)
    meet_kernel(const __grid_constant__ kin_screen_gpu_meet job, int64_t pieces)
{
    extern __shared__ uint4 room[];
    __shared__ bool is_last;
    const int64_t block = blockIdx.x / pieces;
    const int64_t group = blockIdx.x % pieces * WARPS + threadIdx.x / 32;
    const int64_t tile = group * GROUP + threadIdx.x % 32;
    kin_gpu_await();
    const product_rows p =
        stage_rows(job.rows, block * KIN_SCREEN_GPU_BLOCK, NT * 8, job.lists.reach, room);
    uint32_t found = 0;
    if (group < job.balls.padded / KIN_SCREEN_GPU_TILE) {
        found = find_near<NT>(job, p, group);
    }
    const bool near =
        (found >> threadIdx.x % 32 & 1) != 0 && KIN_SCREEN_GPU_BALLS * tile < job.balls.points;
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
        is_last = atomicAdd(job.arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last) {
        make_units(job, gridDim.x / pieces);
    }
}

template <int NT> static int launch_meet(kin_gpu_stream *stream, const kin_screen_gpu_meet *job)
{
    const int64_t blocks = (job->rows.points + KIN_SCREEN_GPU_BLOCK - 1) / KIN_SCREEN_GPU_BLOCK;
    const int64_t pieces = (job->balls.padded / KIN_SCREEN_GPU_TILE + WARPS - 1) / WARPS;
    const size_t bytes = product_bytes(job->rows.frame.row_bytes, NT * 8);
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, meet_kernel<NT>));
    return kin_gpu_launch_behind(stream, meet_kernel<NT>,
                                 kin_gpu_grid{(unsigned)(blocks * pieces), THREADS, bytes}, *job,
                                 pieces);
}

int kin_screen_gpu_launch_meet(kin_gpu_stream *stream, const kin_screen_gpu_meet *job)
{
    if (job->rows.points == 0 || job->balls.points == 0) {
        return 0;
    }
    const int eights = eights_of(job->rows.points);
    return eights == 1   ? launch_meet<1>(stream, job)
           : eights == 8 ? launch_meet<8>(stream, job)
                         : launch_meet<KIN_SCREEN_GPU_BLOCK / 8>(stream, job);
}
