/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Costs of a few rows of bytes are a read of the columns and hardly anything else; a unit of
 * 128 rows and more, of which all but a few would be padding, is late with its products. So here
 * columns are the long side of a product, straight from memory into registers, and rows the short
 * one, from shared memory:
 *
 *      warp            a tile of columns, 16 of them at a time
 *      lane 4 g + t    16 bytes number t and t + 4 of each slice of columns g and 8 + g: a word of
 *                      each is the fragment of one product, as long as rows come in the same order
 *      8 rows          a product (screen_mma.cuh): none are joined afterwards
 *
 * The next slice is on its way while one is multiplied, from the end of a tile into the next one;
 * the first one comes while the rows do. Two of them ahead, and copies into shared memory three
 * ahead, were no faster for one query and slower for ten.
 *
 * The costs are those of the other bodies, since sums of integers are what they are.
 *
 * Floor. One read of the columns: 128 bytes of a million are 30 microseconds on an H200. */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_cost.cuh"
#include "screen/screen_kernels.h"
#include "screen/screen_mma.cuh"

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    GROUP = 8, /* rows of a product, half of its columns */
    MOST_ROWS = 64,
    CHUNKS = KIN_SCREEN_GPU_SLICE / 16, /* of 16 bytes */
    PAD = 4, /* chunks behind a row in shared memory, so that two of them meet different banks */
    ROW_BYTES = 40 << 10, /* of shared memory */
    BLOCKS_A_PROCESSOR = 4
};

/* Of columns g and 8 + g, this lane's two pieces of a slice, and what it adds to their terms where
 * these are read: of distances they are the squares of what is in registers. */
typedef struct slice {
    uint4 low;
    uint4 low_far;
    uint4 high;
    uint4 high_far;
    uint32_t terms[2];
} slice;

/* Where a warp is in the tiles of a unit: at chunk `at` of columns base .. base + 15. */
typedef struct place {
    uint32_t i;        /* of the unit */
    int32_t number;    /* of the columns; -1: behind the last one */
    int32_t following; /* the warp's next tile */
    int32_t base;
    int32_t at;
} place;

static __device__ __forceinline__ int32_t tile_of(const kin_screen_gpu_screen &job,
                                                  kin_screen_gpu_unit unit, uint32_t i)
{
    return i < unit.count ? (int32_t)job.tiles[unit.first + i] : -1;
}

static __device__ __forceinline__ place first_of(const kin_screen_gpu_screen &job,
                                                 kin_screen_gpu_unit unit)
{
    const uint32_t i = threadIdx.x / 32;
    return place{i, tile_of(job, unit, i), tile_of(job, unit, i + WARPS), 0, 0};
}

static __device__ __forceinline__ void advance(const kin_screen_gpu_screen &job,
                                               kin_screen_gpu_unit unit, place *p)
{
    p->at += CHUNKS;
    if (p->at * 16 < job.cols.frame.row_bytes) {
        return;
    }
    p->at = 0;
    p->base += 2 * GROUP;
    if (p->base == KIN_SCREEN_GPU_TILE) {
        p->base = 0;
        p->i += WARPS;
        p->number = p->following;
        p->following = tile_of(job, unit, p->i + WARPS);
    }
}

/* Nothing behind the last tile. */
static __device__ __forceinline__ slice read_slice(const kin_screen_gpu_screen &job, const place &p)
{
    if (p.number < 0) {
        return slice{};
    }
    const int32_t chunks = job.cols.frame.row_bytes / 16;
    const int32_t lane = (int32_t)threadIdx.x % 32;
    const int64_t first = (int64_t)p.number * KIN_SCREEN_GPU_TILE + p.base + lane / 4;
    const uint4 *low = (const uint4 *)job.cols.rounded + first * chunks + p.at + lane % 4;
    const uint4 *high = low + GROUP * (int64_t)chunks;
    slice x = {__ldcs(low), __ldcs(low + CHUNKS / 2), __ldcs(high), __ldcs(high + CHUNKS / 2), {}};
    if (job.cols.frame.bound != KIN_BOUND_DISTANCE && p.at == 0 && lane % 4 == 0) {
        x.terms[0] = job.cols.facts[first].term.u;
        x.terms[1] = job.cols.facts[first + GROUP].term.u;
    }
    return x;
}

/* A lane's part of both columns' terms. */
static __device__ __forceinline__ void add_terms(const kin_screen_gpu_screen &job, const slice &x,
                                                 uint32_t (&terms)[2])
{
    const uint32_t words[] = {x.low.x,      x.low.y,      x.low.z,      x.low.w,
                              x.low_far.x,  x.low_far.y,  x.low_far.z,  x.low_far.w,
                              x.high.x,     x.high.y,     x.high.z,     x.high.w,
                              x.high_far.x, x.high_far.y, x.high_far.z, x.high_far.w};
    terms[0] += x.terms[0];
    terms[1] += x.terms[1];
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int word = job.cols.frame.bound == KIN_BOUND_DISTANCE ? (int)words[i] : 0;
        terms[i / 8] = (uint32_t)__dp4a(word, word, (int)terms[i / 8]);
    }
}

/* The same slice of rows 8 n + g joins sums[n]. */
template <int NT>
static __device__ __forceinline__ void multiply(const slice &x, const uint4 *rows, int32_t pitch,
                                                int32_t (&sums)[NT][4])
{
    const uint32_t a[4][4] = {{x.low.x, x.high.x, x.low_far.x, x.high_far.x},
                              {x.low.y, x.high.y, x.low_far.y, x.high_far.y},
                              {x.low.z, x.high.z, x.low_far.z, x.high_far.z},
                              {x.low.w, x.high.w, x.low_far.w, x.high_far.w}};
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const uint4 near = rows[n * GROUP * pitch];
        const uint4 far = rows[n * GROUP * pitch + CHUNKS / 2];
        mma_multiply(sums[n], a[0], near.x, far.x);
        mma_multiply(sums[n], a[1], near.y, far.y);
        mma_multiply(sums[n], a[2], near.z, far.z);
        mma_multiply(sums[n], a[3], near.w, far.w);
    }
}

/* Whole products of 16 columns, from column `base` of tile `number`, which is `tile` of the unit's
 * block, on, and terms, of which four lanes have a part each; the next ones begin. */
template <int NT>
static __device__ __forceinline__ void write_costs(const kin_screen_gpu_screen &job, int64_t tile,
                                                   const place &p, uint32_t (&terms)[2],
                                                   int32_t (&sums)[NT][4], uint32_t (&least)[NT][2])
{
    const int32_t lane = (int32_t)threadIdx.x % 32;
    const int32_t g = lane / 4;
    const int32_t t = lane % 4;
    const int64_t first = (int64_t)p.number * KIN_SCREEN_GPU_TILE + g;
    for (int away = 1; away < 4; away *= 2) {
        terms[0] += __shfl_xor_sync(0xffffffffu, terms[0], away);
        terms[1] += __shfl_xor_sync(0xffffffffu, terms[1], away);
    }
#pragma unroll
    for (int i = 0; i < NT * 4; i++) {
        const int32_t row = i / 4 * GROUP + 2 * t + i % 2;
        const int32_t column = p.base + i % 4 / 2 * GROUP;
        if (row < job.rows.points) {
            kin_screen_gpu_word cost;
            cost.u =
                job.rows.facts[row].term.u + terms[i % 4 / 2] - 2U * (uint32_t)sums[i / 4][i % 4];
            const uint32_t order = first + column < job.cols.points
                                       ? kin_screen_gpu_order<KIN_SCREEN_GPU_S8>(cost)
                                       : KIN_ORDER_PADDING;
            least[i / 4][i % 2] = min(least[i / 4][i % 2], order);
            if (job.matrix != NULL) {
                job.matrix[row * job.pitch + tile * KIN_SCREEN_GPU_TILE + column + g] = order;
            }
        }
        sums[i / 4][i % 4] = 0;
    }
    terms[0] = terms[1] = 0;
}

/* The least cost of each row with a tile; the next one begins. */
template <int NT>
static __device__ __forceinline__ void write_minima(const kin_screen_gpu_screen &job, int64_t tile,
                                                    uint32_t (&least)[NT][2])
{
    const int32_t g = (int32_t)threadIdx.x % 32 / 4;
    const int32_t t = (int32_t)threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < NT * 2; i++) {
        const int32_t row = i / 2 * GROUP + 2 * t + i % 2;
        uint32_t order = least[i / 2][i % 2];
        for (int away = 4; away < 32; away *= 2) {
            order = min(order, __shfl_xor_sync(0xffffffffu, order, away));
        }
        if (g == 0 && row < job.rows.points && job.minima != NULL) {
            job.minima[row * (job.pitch / KIN_SCREEN_GPU_TILE) + tile] = order;
        }
        least[i / 2][i % 2] = KIN_ORDER_PADDING;
    }
}

/* The rows, by all threads. */
static __device__ __forceinline__ void stage_rows(const kin_screen_gpu_screen &job, int32_t count,
                                                  uint4 *rows)
{
    const int32_t chunks = job.cols.frame.row_bytes / 16;
    for (int32_t i = (int32_t)threadIdx.x; i < count * chunks; i += THREADS) {
        const bool real = i / chunks < job.rows.points;
        rows[i / chunks * (chunks + PAD) + i % chunks] =
            real ? ((const uint4 *)job.rows.rounded)[i] : make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
}

/* Blocks of a processor at a time, a divisor of a batch's units for it (exact_corpus_gpu.c). */
template <int NT> static constexpr int RESIDENT = NT < 4 ? 2 : 1;

template <int NT>
static __global__ void __launch_bounds__(THREADS, RESIDENT<NT>)
    screen_few_kernel(const __grid_constant__ kin_screen_gpu_screen job)
{
    extern __shared__ uint4 rows[]; /* NT x GROUP rounded rows, zeros behind the last one */
    const int32_t pitch = job.cols.frame.row_bytes / 16 + PAD;
    const uint4 *own = rows + (int32_t)threadIdx.x % 32 / 4 * pitch + threadIdx.x % 4;
    uint32_t least[NT][2];
    int32_t sums[NT][4];
    uint32_t terms[2] = {};
#pragma unroll
    for (int n = 0; n < NT; n++) {
        least[n][0] = least[n][1] = KIN_ORDER_PADDING;
        sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0;
    }
    kin_gpu_await();
    const uint32_t units = *job.unit_count;
    for (uint32_t u = blockIdx.x; u < units; u += gridDim.x) {
        const kin_screen_gpu_unit unit = job.units[u];
        place now = first_of(job, unit);
        slice next = read_slice(job, now);
        if (u == blockIdx.x) {
            stage_rows(job, NT * GROUP, rows);
        }
        while (now.number >= 0) {
            const slice x = next;
            const place used = now;
            advance(job, unit, &now);
            next = read_slice(job, now);
            add_terms(job, x, terms);
            multiply<NT>(x, own + used.at, pitch, sums);
            if (now.at == 0) {
                write_costs<NT>(job, unit.first + used.i, used, terms, sums, least);
            }
            if (now.at == 0 && now.base == 0) {
                write_minima<NT>(job, unit.first + used.i, least);
            }
        }
    }
}

/* Products side by side: 1, 2, 4 or 8. */
static int products_of(int64_t rows)
{
    int products = 1;
    while (products * GROUP < rows) {
        products *= 2;
    }
    return products;
}

static size_t row_bytes(const kin_screen_gpu_screen *job)
{
    return (size_t)(products_of(job->rows.points) * GROUP) *
           (size_t)(job->cols.frame.row_bytes + PAD * 16);
}

bool kin_screen_gpu_screen_is_few(const kin_screen_gpu_screen *job)
{
    return job->mode == KIN_SCREEN_GPU_MATRIX && job->parts == NULL &&
           job->cols.frame.type == KIN_SCREEN_GPU_S8 && job->rows.points <= MOST_ROWS &&
           row_bytes(job) <= ROW_BYTES;
}

template <int NT> static int launch(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    const unsigned blocks = (unsigned)(stream->processors * BLOCKS_A_PROCESSOR);
    return kin_gpu_launch_behind(stream, screen_few_kernel<NT>,
                                 kin_gpu_grid{blocks, THREADS, row_bytes(job)}, *job);
}

int kin_screen_gpu_screen_few(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    if (job->rows.points == 0) {
        return 0;
    }
    const int products = products_of(job->rows.points);
    return products == 1   ? launch<1>(stream, job)
           : products == 2 ? launch<2>(stream, job)
           : products == 4 ? launch<4>(stream, job)
                           : launch<8>(stream, job);
}
