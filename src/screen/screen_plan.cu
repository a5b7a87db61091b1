/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Which tiles of columns a block of rows has to meet: those of its stretch of the schedule
 * (screen_schedule.h), without the ones that balls prove to be too far away
 * (docs/notes/numerics.md, "Tiles that are skipped"). What is left is packed into units for the
 * screen; nothing returns to the host.
 *
 *      thread block    16 blocks of rows (32 tiles) x a piece of the stretch, 64 tiles at a time
 *        slices of 32 columns of both sides' centres -> shared memory
 *        a thread: 4 x 2 distances, one subtraction and one fma a column
 *        -> a bit a (block, tile) -> the block's list of tiles, packed by votes
 *
 * Coarse and fine. Pairs of tiles grow with the square of the points: from some millions on, who is
 * content with near tiles looks for near groups first. A group, the tiles of 16 blocks, is a tile
 * of a coarser set then, and the plan of that set says which groups a plan of the tiles walks
 * through.
 *
 * Proof: screen_cover.h. A sum that overflows, an infinite radius or a NaN skips nothing.
 *
 * Cost. d subtractions and fma a pair of tiles: 10^7 points of 96 columns have 3 * 10^9 pairs, some
 * 30 ms on a device whose screen takes seconds. Without balls, a write a tile.
 */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_cover.h"
#include "screen/screen_kernels.h"
#include "screen/screen_schedule.h"

#include <cuda_runtime.h>

enum {
    THREADS = 256,
    GROUP = KIN_SCREEN_GPU_PLAN_GROUP,     /* blocks of rows of a thread block */
    ROW_TILES = 2 * GROUP,                 /* 32 */
    COL_TILES = KIN_SCREEN_GPU_PLAN_TILES, /* at a time */
    SLICE = 32,                            /* columns of a centre at a time */
    STRIDE = SLICE + 4, /* floats a centre in shared memory: rows of 16 bytes, no bank twice */
    ROWS_A_THREAD = 4,
    COLS_A_THREAD = 2
};
#define ALL_LANES 0xffffffffu

typedef struct plan_args {
    kin_screen_gpu_plan job;
    int64_t blocks;      /* of rows */
    int64_t col_tiles;   /* with points */
    int64_t step;        /* of a search's sequence */
    int64_t tall;        /* blocks of rows of a thread block, GROUP or fewer */
    int64_t groups;      /* in all */
    int64_t first_group; /* of those that are planned, and how far the next one is */
    int64_t group_step;
    int64_t length; /* of a group's stretch, in tiles, where all groups have the same */
    int64_t piece;  /* tiles of it that a thread block takes */
    float shrink;
} plan_args;

/* What a thread block walks through. */
typedef struct plan_walk {
    int64_t first; /* block of rows, of a group of them */
    int64_t own;   /* the same among those that are planned */
    int64_t ahead; /* in a search's sequence */
    int64_t begin; /* offsets or places of the schedule */
    int64_t end;
    int64_t before;         /* tiles of each block that stand before */
    int64_t length;         /* places */
    const uint32_t *groups; /* of columns, NULL: the schedule's tiles */
} plan_walk;

typedef struct plan_shared {
    float rows[ROW_TILES][STRIDE];
    float cols[COL_TILES][STRIDE];
    float row_reach[ROW_TILES]; /* the worst of a tile; +inf: nothing is skipped */
    float row_radius[ROW_TILES];
    float col_reach[COL_TILES];
    float col_radius[COL_TILES];
    int64_t col_tile[COL_TILES]; /* -1: none */
    uint32_t near[GROUP][COL_TILES / 32];
    uint32_t count[GROUP];
    unsigned long long met;
    unsigned long long skipped;
} plan_shared;

/* ---- The schedule ---------------------------------------------------------------------------- */

static __device__ plan_walk walk_of(const plan_args &a)
{
    plan_walk w = {};
    const int64_t group = a.first_group + (int64_t)blockIdx.x * a.group_step;
    w.own = (int64_t)blockIdx.x * a.tall;
    w.first = group * a.tall;
    w.ahead = a.job.dealt != 0 ? kin_screen_gpu_sequence_ahead(a.col_tiles, a.groups, group) : 0;
    w.begin = blockIdx.z == 0 ? a.job.first : a.job.far_first;
    w.end = blockIdx.z == 0 ? a.job.last : a.job.far_last;
    w.before = blockIdx.z == 0 ? 0 : 2 * (a.job.last - a.job.first);
    w.length = a.length - (blockIdx.z == 0 ? 0 : w.before - 2 * (w.end - w.begin));
    const kin_screen_gpu_coarse &coarse = a.job.coarse;
    if (coarse.groups != NULL) {
        const int64_t count = coarse.counts[group];
        const int64_t begin = count * a.job.first / KIN_SCREEN_GPU_COARSE_PARTS;
        const int64_t end = count * a.job.last / KIN_SCREEN_GPU_COARSE_PARTS;
        w.groups = coarse.groups + group * coarse.room + begin;
        w.length = (end - begin) * coarse.tiles;
    }
    return w;
}

/* The tile at place q, or -1. */
static __device__ int64_t tile_at(const plan_args &a, const plan_walk &w, int64_t q)
{
    if (q >= w.length) {
        return -1;
    }
    if (a.job.graph == 0) {
        return kin_screen_gpu_sequence_tile(a.col_tiles, a.step,
                                            (w.ahead + w.begin + q) % a.col_tiles);
    }
    const int64_t wide = a.job.coarse.tiles;
    const int64_t tile = w.groups != NULL ? (int64_t)w.groups[q / wide] * wide + q % wide
                                          : (w.first + w.begin + q / 2) % a.blocks * 2 + q % 2;
    return tile < a.col_tiles ? tile : -1;
}

/* Whether block w.first + g meets the tile, which stands at place q. */
static __device__ bool meets(const plan_args &a, const plan_walk &w, int64_t g, int64_t q,
                             int64_t tile)
{
    const int64_t block = w.first + g;
    if (g >= a.tall || block >= a.blocks) {
        return false;
    }
    if (a.job.graph == 0) {
        return true;
    }
    if (w.groups != NULL) {
        const int64_t ahead = tile / 2 >= block ? tile / 2 - block : tile / 2 - block + a.blocks;
        return ahead > a.job.reach && a.blocks - ahead > a.job.reach &&
               kin_screen_gpu_takes(a.blocks, block, ahead);
    }
    const int64_t offset = w.begin + q / 2 - g;
    return offset >= w.begin && offset < w.end && kin_screen_gpu_takes(a.blocks, block, offset);
}

/* Where in the tiles of the g-th block those begin that a thread block may write which starts at
 * place q: behind all that earlier pieces can have. */
static __device__ uint32_t slots_before(const plan_args &a, const plan_walk &w, int64_t g,
                                        int64_t q)
{
    return (uint32_t)(a.job.graph == 0 ? q : w.before + max(q - 2 * g, (int64_t)0));
}

/* ---- Balls ----------------------------------------------------------------------------------- */

/* The worst reach of a tile as a distance, rounded up. */
static __device__ float tile_reach(const kin_screen_gpu_plan &job,
                                   const kin_screen_gpu_worst *worst, int64_t tile)
{
    if (job.rows.frame.bound != KIN_BOUND_INTEGER) {
        return worst[tile].far; /* reach + lost: more than is needed */
    }
    const int32_t reach = worst[tile].integer;
    if (reach == INT32_MAX) {
        return INFINITY;
    }
    return reach > 0 ? __fsqrt_ru(__int2float_ru(reach)) : 0.0F;
}

static __device__ void load_rows(const plan_args &a, int64_t first, plan_shared *shared)
{
    const kin_screen_gpu_set &set = a.job.rows;
    for (int t = (int)threadIdx.x; t < ROW_TILES; t += THREADS) {
        const int64_t tile = first * 2 + t;
        const bool exists = tile * KIN_SCREEN_GPU_TILE < set.points;
        /* A tile without points is apart from everything. */
        shared->row_radius[t] = exists ? set.radii[tile] : -INFINITY;
        shared->row_reach[t] = exists ? tile_reach(a.job, a.job.row_worst, tile) : 0.0F;
    }
}

static __device__ void load_cols(const plan_args &a, const plan_walk &w, int64_t q, bool balls,
                                 plan_shared *shared)
{
    if (threadIdx.x < COL_TILES) {
        const int64_t tile = tile_at(a, w, q + threadIdx.x);
        shared->col_tile[threadIdx.x] = tile;
        if (balls) {
            const bool reaches = tile >= 0 && a.job.col_worst != NULL;
            shared->col_radius[threadIdx.x] = tile >= 0 ? a.job.cols.radii[tile] : 0.0F;
            shared->col_reach[threadIdx.x] =
                reaches ? tile_reach(a.job, a.job.col_worst, tile) : 0.0F;
        }
    }
}

/* A thread's share of a slice: every THREADS-th number. */
template <int TILES> struct plan_slice {
    float values[TILES * SLICE / THREADS];

    /* From column `col` on; zeros where there is no tile or no column. */
    __device__ __forceinline__ void fetch(const float *centres, const int64_t *tiles,
                                          int64_t first_tile, int64_t limit, int32_t cols,
                                          int32_t col)
    {
#pragma unroll
        for (int i = 0; i < TILES * SLICE / THREADS; i++) {
            const int at = i * THREADS + (int)threadIdx.x;
            const int64_t tile = tiles != NULL ? tiles[at / SLICE] : first_tile + at / SLICE;
            const int32_t c = col + at % SLICE;
            values[i] = 0.0F;
            if (tile >= 0 && tile < limit && c < cols) {
                values[i] = __ldg(centres + tile * cols + c);
            }
        }
    }
    __device__ __forceinline__ void store(float (*to)[STRIDE]) const
    {
#pragma unroll
        for (int i = 0; i < TILES * SLICE / THREADS; i++) {
            const int at = i * THREADS + (int)threadIdx.x;
            to[at / SLICE][at % SLICE] = values[i];
        }
    }
};

/* squares[i][j]: between row tile i * 8 + threadIdx / 32 and column tile j * 32 + threadIdx % 32.
 * A slice is on its way while the one before is worked on. */
static __device__ void measure(const plan_args &a, int64_t first, plan_shared *shared,
                               float (&squares)[ROWS_A_THREAD][COLS_A_THREAD])
{
    const int32_t cols = a.job.rows.frame.cols;
    const int64_t row_tiles = (a.job.rows.points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE;
    const int warp = (int)threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    plan_slice<ROW_TILES> rows;
    plan_slice<COL_TILES> others;
    rows.fetch(a.job.rows.centres, NULL, first * 2, row_tiles, cols, 0);
    others.fetch(a.job.cols.centres, shared->col_tile, 0, a.col_tiles, cols, 0);
#pragma unroll 1
    for (int32_t col = 0; col < cols; col += SLICE) {
        __syncthreads();
        rows.store(shared->rows);
        others.store(shared->cols);
        __syncthreads();
        rows.fetch(a.job.rows.centres, NULL, first * 2, row_tiles, cols, col + SLICE);
        others.fetch(a.job.cols.centres, shared->col_tile, 0, a.col_tiles, cols, col + SLICE);
#pragma unroll
        for (int c = 0; c < SLICE; c += 4) {
            float4 other[COLS_A_THREAD];
#pragma unroll
            for (int j = 0; j < COLS_A_THREAD; j++) {
                other[j] = *(const float4 *)&shared->cols[j * 32 + lane][c];
            }
#pragma unroll
            for (int i = 0; i < ROWS_A_THREAD; i++) {
                const float4 own = *(const float4 *)&shared->rows[i * 8 + warp][c];
#pragma unroll
                for (int j = 0; j < COLS_A_THREAD; j++) {
                    const float x = own.x - other[j].x;
                    const float y = own.y - other[j].y;
                    const float z = own.z - other[j].z;
                    const float w = own.w - other[j].w;
                    squares[i][j] = __fmaf_rn(x, x, squares[i][j]);
                    squares[i][j] = __fmaf_rn(y, y, squares[i][j]);
                    squares[i][j] = __fmaf_rn(z, z, squares[i][j]);
                    squares[i][j] = __fmaf_rn(w, w, squares[i][j]);
                }
            }
        }
    }
}

/* Whether no pair of row tile i and column tile j can matter to either side. */
static __device__ bool apart(const plan_args &a, const plan_shared *shared, int i, int j,
                             float square)
{
    const float reach = fmaxf(shared->row_reach[i], shared->col_reach[j]);
    return kin_ball_apart(square, a.shrink, reach, shared->row_radius[i], shared->col_radius[j]) !=
           0;
}

/* Bits of the tiles that are near enough: a warp has whole rows of tiles, 32 columns at a time. */
static __device__ void mark_near(const plan_args &a, int64_t first, plan_shared *shared)
{
    float squares[ROWS_A_THREAD][COLS_A_THREAD] = {};
    measure(a, first, shared, squares);
    const int warp = (int)threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < ROWS_A_THREAD; i++) {
#pragma unroll
        for (int j = 0; j < COLS_A_THREAD; j++) {
            const int tile = i * 8 + warp;
            const bool near = !apart(a, shared, tile, j * 32 + lane, squares[i][j]);
            const uint32_t vote = __ballot_sync(ALL_LANES, near);
            if (lane == 0) {
                atomicOr(&shared->near[tile / 2][j], vote);
            }
        }
    }
}

/* ---- Lists of tiles and units ---------------------------------------------------------------- */

/* A warp appends what its blocks of the group have to meet among the tiles from place q on. */
static __device__ void append(const plan_args &a, const plan_walk &w, int64_t from, int64_t q,
                              bool balls, plan_shared *shared)
{
    const int lane = (int)threadIdx.x % 32;
    for (int g = (int)threadIdx.x / 32; g < a.tall; g += THREADS / 32) {
        const uint32_t before = slots_before(a, w, g, from);
        const uint32_t room = a.job.tiles_a_block > before ? a.job.tiles_a_block - before : 0;
        uint32_t *tiles = a.job.tiles + (w.own + g) * a.job.tiles_a_block + before;
        uint32_t count = shared->count[g];
        uint32_t left_out = 0;
        for (int part = 0; part < COL_TILES / 32; part++) {
            const int64_t tile = shared->col_tile[part * 32 + lane];
            const bool meeting = tile >= 0 && meets(a, w, g, q + part * 32 + lane, tile);
            const bool near = !balls || (shared->near[g][part] >> lane & 1) != 0;
            const uint32_t vote = __ballot_sync(ALL_LANES, meeting && near);
            const uint32_t place = count + (uint32_t)__popc(vote & ((1u << lane) - 1));
            if (meeting && near && place < room) {
                tiles[place] = (uint32_t)tile;
            }
            const uint32_t wanted = count + (uint32_t)__popc(vote);
            count = min(wanted, room);
            left_out += (uint32_t)__popc(__ballot_sync(ALL_LANES, meeting && !near));
            left_out += wanted - count;
        }
        __syncwarp();
        if (lane == 0) {
            shared->count[g] = count;
            atomicAdd(&shared->skipped, (unsigned long long)left_out);
        }
    }
}

/* The tiles of each block as units of nearly equal size. */
static __device__ void make_units(const plan_args &a, const plan_walk &w, int64_t from,
                                  plan_shared *shared)
{
    const int g = (int)threadIdx.x;
    if (g >= a.tall) {
        return;
    }
    const uint32_t count = shared->count[g];
    if (a.job.counts != NULL && w.first + g < a.blocks) {
        a.job.counts[w.own + g] = count;
    }
    if (count == 0 || a.job.units == NULL) {
        return;
    }
    const uint32_t units = (count + a.job.unit_tiles - 1) / a.job.unit_tiles;
    const uint32_t place = atomicAdd(a.job.unit_count, units);
    const uint32_t slot =
        (uint32_t)((w.own + g) * a.job.tiles_a_block) + slots_before(a, w, g, from);
    for (uint32_t i = 0; i < units; i++) {
        const uint32_t begin = (uint32_t)((uint64_t)count * i / units);
        const uint32_t end = (uint32_t)((uint64_t)count * (i + 1) / units);
        a.job.units[place + i] =
            kin_screen_gpu_unit{(uint32_t)(w.first + g), slot + begin, end - begin, 0};
    }
    atomicAdd(&shared->met, (unsigned long long)count);
}

static __global__ void __launch_bounds__(THREADS)
    plan_tiles_kernel(const __grid_constant__ plan_args a)
{
    __shared__ __align__(16) plan_shared shared;
    const plan_walk w = walk_of(a);
    const int64_t from = (int64_t)blockIdx.y * a.piece;
    const int64_t to = min(from + a.piece, w.length);
    const bool balls =
        a.job.rows.centres != NULL && a.job.cols.centres != NULL && a.job.row_worst != NULL;
    if (threadIdx.x < GROUP) {
        shared.count[threadIdx.x] = 0;
    }
    if (threadIdx.x == 0) {
        shared.met = 0;
        shared.skipped = 0;
    }
    if (balls) {
        load_rows(a, w.first, &shared);
    }
    for (int64_t q = from; q < to; q += COL_TILES) {
        __syncthreads();
        load_cols(a, w, q, balls, &shared);
        if (threadIdx.x < GROUP * COL_TILES / 32) {
            shared.near[threadIdx.x / 2][threadIdx.x % 2] = 0;
        }
        __syncthreads();
        if (balls) {
            mark_near(a, w.first, &shared);
            __syncthreads();
        }
        append(a, w, from, q, balls, &shared);
    }
    __syncthreads();
    make_units(a, w, from, &shared);
    __syncthreads();
    if (threadIdx.x == 0 && a.job.met != NULL) {
        atomicAdd((unsigned long long *)&a.job.met[0], shared.met);
        atomicAdd((unsigned long long *)&a.job.met[1], shared.skipped);
    }
}

/* ---- Launch ---------------------------------------------------------------------------------- */

int kin_screen_gpu_launch_plan(kin_gpu_stream *stream, const kin_screen_gpu_plan *job)
{
    plan_args a = {};
    a.job = *job;
    a.blocks = job->rows.padded / KIN_SCREEN_GPU_BLOCK;
    a.col_tiles = (job->cols.points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE;
    const int64_t stretch = job->last - job->first;
    if (a.blocks == 0 || a.col_tiles == 0 || stretch <= 0) {
        return 0;
    }
    a.step = kin_sequence_step(a.col_tiles);
    a.length = job->graph != 0 ? 2 * (stretch + GROUP - 1) : stretch;
    const int64_t parts = job->parts > 1 ? job->parts : 1;
    a.tall = job->coarse.groups != NULL ? job->coarse.tiles : GROUP;
    const int64_t all = (a.blocks + a.tall - 1) / a.tall;
    a.groups = all;
    a.first_group = job->adjoining != 0 ? all * job->part / parts : job->part;
    a.group_step = job->adjoining != 0 ? 1 : parts;
    const int64_t groups = job->adjoining != 0 ? all * (job->part + 1) / parts - a.first_group
                                               : (all - job->part + parts - 1) / parts;
    if (groups <= 0) {
        return 0;
    }
    /* Lists of bounded room are filled in one order. */
    const bool whole = job->coarse.groups != NULL || job->counts != NULL;
    const int64_t pieces = whole ? 1 : kin_screen_gpu_plan_pieces(groups, a.length);
    a.piece = whole ? INT64_MAX / 2
                    : ((a.length + pieces - 1) / pieces + COL_TILES - 1) / COL_TILES * COL_TILES;
    a.shrink = kin_ball_shrink(job->rows.frame.cols);
    const dim3 grid((unsigned)groups, (unsigned)(whole ? 1 : (a.length + a.piece - 1) / a.piece),
                    job->far_first < job->far_last ? 2 : 1);
    plan_tiles_kernel<<<grid, THREADS, 0, stream->stream>>>(a);
    return kin_gpu_launched();
}
