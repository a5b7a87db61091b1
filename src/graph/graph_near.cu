/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. How far the count-th nearest centre of each tile is, so that a plan with this reach and no
 * radii meets about `count` tiles. A block of threads has ROWS tiles and walks over columns, a
 * column a thread and step; squares below a row's threshold go to the row's room in shared memory.
 * Where that may overflow, a warp a row finds the wanted one among what is there, which is the
 * threshold from then on, and keeps what is not above.
 *
 *      columns   |  256  |  256  |  256  | ...   slices of 16 components in shared memory
 *      room      | kept ... | pushed ...    |    4 KB or more a row
 *
 * Which columns. With many tiles a sample at even strides is enough, LEAST_SAMPLE tiles or as many
 * as hold EXPECTED of the wanted ones, whichever is more, and then the wanted one is the
 * count x sample / tiles -th. Fewer tiles than that are all looked at, and the answer is exact (but
 * for fp32). Either the sample is LEAST_SAMPLE, and the room holds it all, or about EXPECTED are
 * wanted of a longer one, and the room is nearly empty after it was tightened.
 *
 * Where near groups are known (screen_kernels.h: kin_screen_gpu_coarse), their tiles are the
 * columns, all of them, and cost no more for many points than for few.
 *
 * The order of a room depends on who came first; the wanted number does not.
 *
 * Cost. One subtraction and one fma a component, tile and column. On an H200 all columns of 78,125
 * tiles of 96 components take 0.34 s, a fourteenth of them 25 ms: a dozen expected ones are enough,
 * since the wanted number is a budget, not a bound.
 */
#include "gpu/gpu_stream.cuh"
#include "graph/graph_kernels.h"

#include <cuda_runtime.h>
#include <float.h>

enum {
    ROWS = 8, /* tiles of a block: a warp each when rooms are tightened */
    THREADS = 32 * ROWS,
    SLICE = 16,          /* components at a time */
    STRIDE = SLICE + 4,  /* floats a centre in shared memory: rows of 16 bytes, no bank twice */
    LEAST_SAMPLE = 2048, /* and most of a room that is kept */
    ROOM = LEAST_SAMPLE + THREADS,
    EXPECTED = 12
};
#define ALL_LANES 0xffffffffu

typedef struct near_args {
    kin_graph_gpu_near job;
    int64_t tiles;  /* with points */
    int64_t sample; /* columns that are looked at */
    int32_t wanted; /* of them; 0: all tiles are near */
} near_args;

typedef struct near_shared {
    float rows[ROWS][STRIDE];
    float cols[THREADS][STRIDE];
    float room[ROWS][ROOM];
    float threshold[ROWS];
    int32_t count[ROWS];
    int32_t tile[THREADS]; /* of each column; -1: none */
} near_shared;

/* Components [col, col + SLICE) of a tile's centre, zeros where there is none. */
static __device__ __forceinline__ float component(const near_args &a, int64_t tile, int32_t col)
{
    const int32_t cols = a.job.set.frame.cols;
    const bool exists = tile >= 0 && tile < a.tiles && col < cols;
    return exists ? __ldg(a.job.set.centres + tile * cols + col) : 0.0F;
}

/* squares[i]: of tile first + i and the column of this thread. */
static __device__ __forceinline__ void measure(const near_args &a, int64_t first,
                                               near_shared *shared, float (&squares)[ROWS])
{
    const int part = (int)threadIdx.x % SLICE;
    for (int32_t col = 0; col < a.job.set.frame.cols; col += SLICE) {
        __syncthreads(); /* the last slice is used up */
#pragma unroll
        for (int i = 0; i < SLICE; i++) {
            const int column = i * (THREADS / SLICE) + (int)threadIdx.x / SLICE;
            shared->cols[column][part] = component(a, shared->tile[column], col + part);
        }
        if (threadIdx.x < ROWS * SLICE) {
            const int row = (int)threadIdx.x / SLICE;
            shared->rows[row][part] = component(a, first + row, col + part);
        }
        __syncthreads(); /* the slice is complete */
#pragma unroll
        for (int c = 0; c < SLICE; c += 4) {
            const float4 other = *(const float4 *)&shared->cols[threadIdx.x][c];
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                const float4 own = *(const float4 *)&shared->rows[i][c];
                const float x = own.x - other.x;
                const float y = own.y - other.y;
                const float z = own.z - other.z;
                const float w = own.w - other.w;
                squares[i] = __fmaf_rn(x, x, squares[i]);
                squares[i] = __fmaf_rn(y, y, squares[i]);
                squares[i] = __fmaf_rn(z, z, squares[i]);
                squares[i] = __fmaf_rn(w, w, squares[i]);
            }
        }
    }
}

/* The wanted-th of a room that holds as many, by a warp: bit by bit, since numbers that are not
 * negative rise like their bits. */
static __device__ float wanted_of(const float *room, int32_t count, int32_t wanted)
{
    const int lane = (int)threadIdx.x % 32;
    uint32_t found = 0;
    for (int bit = 30; bit >= 0; bit--) {
        const uint32_t trial = found | 1u << bit;
        int32_t below = 0;
        for (int32_t i = lane; i < count; i += 32) {
            below += __float_as_uint(room[i]) < trial ? 1 : 0;
        }
        below = __reduce_add_sync(ALL_LANES, below);
        found = below < wanted ? trial : found;
    }
    return __uint_as_float(found);
}

/* The warp's row keeps the `wanted` least of its room, which become its threshold. */
static __device__ void tighten(int32_t wanted, near_shared *shared)
{
    const int row = (int)threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    float *room = shared->room[row];
    const int32_t count = shared->count[row];
    if (count < wanted) {
        return;
    }
    const float last = wanted_of(room, count, wanted);
    int32_t kept = 0;
    for (int32_t first = 0; first < count; first += 32) {
        const float square = first + lane < count ? room[first + lane] : INFINITY;
        const uint32_t below = __ballot_sync(ALL_LANES, square < last);
        if (square < last) {
            room[kept + __popc(below & ((1u << lane) - 1))] = square;
        }
        kept += __popc(below);
        __syncwarp();
    }
    /* Of those that equal the last one as many as are wanted: new ones must be less. */
    for (int32_t i = kept + lane; i < wanted; i += 32) {
        room[i] = last;
    }
    if (lane == 0) {
        shared->count[row] = wanted;
        shared->threshold[row] = last;
    }
}

/* Whether one step more might overflow a room. */
static __device__ __forceinline__ bool rooms_are_full(const near_shared *shared)
{
    bool full = false;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        full = full || shared->count[i] > ROOM - THREADS;
    }
    return full;
}

static __device__ void write_worst(const near_args &a, int64_t tile, float square)
{
    /* The plan sums in another order: what is as far as the wanted tile shall be met. */
    const float wide = __fmul_ru(square, 1.0F + 0x1p-10F);
    kin_screen_gpu_worst worst = {};
    worst.far = __fsqrt_ru(wide);
    worst.integer = wide < 0x1p30F ? (int32_t)ceilf(wide) : INT32_MAX;
    a.job.worst[tile] = worst;
}

/* Columns of a block, and the tile of each. A block's rows are of one pair of groups. */
static __device__ __forceinline__ int64_t columns_of(const near_args &a, int64_t first)
{
    const kin_screen_gpu_coarse &coarse = a.job.coarse;
    return coarse.groups == NULL
               ? a.sample
               : (int64_t)coarse.counts[first / (2 * coarse.tiles)] * coarse.tiles;
}

static __device__ __forceinline__ int64_t tile_of(const near_args &a, int64_t first, int64_t place)
{
    const kin_screen_gpu_coarse &coarse = a.job.coarse;
    if (coarse.groups == NULL) {
        return place * a.tiles / a.sample;
    }
    const uint32_t *groups = coarse.groups + first / (2 * coarse.tiles) * coarse.room;
    const int64_t tile =
        (int64_t)groups[place / coarse.tiles] * coarse.tiles + place % coarse.tiles;
    return tile < a.tiles ? tile : -1;
}

static __global__ void __launch_bounds__(THREADS, 2)
    near_tiles_kernel(const __grid_constant__ near_args a)
{
    extern __shared__ __align__(16) unsigned char memory[];
    near_shared *shared = (near_shared *)memory;
    const int64_t first = a.job.first + (int64_t)blockIdx.x * ROWS;
    const int row = (int)threadIdx.x / 32;
    if (threadIdx.x < ROWS) {
        shared->threshold[threadIdx.x] = INFINITY;
        shared->count[threadIdx.x] = 0;
    }
    __syncthreads(); /* where there are no columns they are read at once */
    const int64_t columns = columns_of(a, first);
    for (int64_t at = 0; at < columns; at += THREADS) {
        const int64_t place = at + threadIdx.x;
        const int64_t tile = place < columns ? tile_of(a, first, place) : -1;
        shared->tile[threadIdx.x] = (int32_t)tile;
        float squares[ROWS] = {};
        measure(a, first, shared, squares);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            if (tile >= 0 && tile != first + i && squares[i] < shared->threshold[i]) {
                shared->room[i][atomicAdd(&shared->count[i], 1)] = squares[i];
            }
        }
        __syncthreads(); /* all have pushed */
        if (rooms_are_full(shared)) {
            __syncthreads(); /* all have seen it */
            tighten(a.wanted, shared);
            __syncthreads();
        }
    }
    __syncthreads(); /* all have seen that the rooms are not full */
    tighten(a.wanted, shared);
    __syncwarp();
    const int64_t tile = first + row;
    if (threadIdx.x % 32 == 0 && tile < a.job.set.padded / KIN_SCREEN_GPU_TILE) {
        write_worst(a, tile, tile < a.tiles ? shared->threshold[row] : 0.0F);
    }
}

/* All tiles are near. */
static __global__ void __launch_bounds__(THREADS)
    near_all_kernel(const __grid_constant__ near_args a)
{
    const int64_t tile = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (tile < a.job.set.padded / KIN_SCREEN_GPU_TILE) {
        write_worst(a, tile, tile < a.tiles ? INFINITY : 0.0F);
    }
}

extern "C" int kin_graph_gpu_launch_near_tiles(kin_gpu_stream *stream,
                                               const kin_graph_gpu_near *job)
{
    const int64_t all = job->set.padded / KIN_SCREEN_GPU_TILE;
    const int64_t rows = (job->end > 0 ? job->end : all) - job->first;
    if (rows <= 0) {
        return 0;
    }
    near_args a = {};
    a.job = *job;
    a.tiles = (job->set.points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE;
    if (job->coarse.groups == NULL && job->count >= a.tiles - 1) {
        const unsigned blocks = (unsigned)((all + THREADS - 1) / THREADS);
        near_all_kernel<<<blocks, THREADS, 0, stream->stream>>>(a);
        return kin_gpu_launched();
    }
    const int64_t count = job->count > 1 ? job->count : 1;
    const int64_t holding = (EXPECTED * a.tiles + count - 1) / count;
    a.sample = min(max(holding, (int64_t)LEAST_SAMPLE), a.tiles);
    a.wanted = (int32_t)min((count * a.sample + a.tiles - 1) / a.tiles, a.sample - 1);
    if (job->coarse.groups != NULL) {
        a.wanted = (int32_t)min(count, (int64_t)LEAST_SAMPLE);
    }
    const int bytes = (int)sizeof(near_shared);
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, near_tiles_kernel));
    near_tiles_kernel<<<(unsigned)((rows + ROWS - 1) / ROWS), THREADS, (size_t)bytes,
                        stream->stream>>>(a);
    return kin_gpu_launched();
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* A thread block a group, a thread a component. */
static __global__ void group_centres_kernel(const __grid_constant__ kin_graph_gpu_groups job)
{
    const int64_t tiles = (job.set.points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE;
    const int32_t cols = job.set.frame.cols;
    const int64_t first = (int64_t)blockIdx.x * job.tiles;
    const int64_t end = min(first + job.tiles, tiles);
    for (int32_t col = (int32_t)threadIdx.x; col < cols; col += (int32_t)blockDim.x) {
        float sum = 0.0F;
        for (int64_t tile = first; tile < end; tile++) {
            sum += job.set.centres[tile * cols + col];
        }
        job.centres[(int64_t)blockIdx.x * cols + col] = sum / (float)(end - first);
    }
}

extern "C" int kin_graph_gpu_launch_group_centres(kin_gpu_stream *stream,
                                                  const kin_graph_gpu_groups *job)
{
    const int64_t tiles = (job->set.points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE;
    const int64_t groups = (tiles + job->tiles - 1) / job->tiles;
    if (groups > 0) {
        group_centres_kernel<<<(unsigned)groups, 128, 0, stream->stream>>>(*job);
    }
    return kin_gpu_launched();
}
