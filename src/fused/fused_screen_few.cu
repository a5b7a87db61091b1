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
 *      8 rows          a product (fused_mma.cuh): none are joined afterwards
 *
 * The costs are those of the other bodies, since sums of integers are what they are.
 *
 * Floor. One read of the columns: 128 bytes of a million are 30 microseconds on an H200. */
#include "fused/fused_cost.cuh"
#include "fused/fused_kernels.h"
#include "fused/fused_mma.cuh"
#include "gpu/gpu_stream.cuh"

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    GROUP = 8, /* rows of a product, half of its columns */
    MOST_ROWS = 32,
    CHUNKS = KIN_FUSED_SLICE / 16, /* of 16 bytes */
    PAD = 4, /* chunks behind a row in shared memory, so that two of them meet different banks */
    SHARED_BYTES = 40 << 10,
    BLOCKS_A_PROCESSOR = 4
};

/* Of columns g and 8 + g, this lane's two pieces of a slice. */
typedef struct pieces {
    uint4 low;
    uint4 low_far;
    uint4 high;
    uint4 high_far;
} pieces;

static __device__ __forceinline__ pieces read_slice(const uint4 *columns, int32_t chunks)
{
    return pieces{__ldcs(columns), __ldcs(columns + CHUNKS / 2),
                  __ldcs(columns + GROUP * (int64_t)chunks),
                  __ldcs(columns + GROUP * (int64_t)chunks + CHUNKS / 2)};
}

/* The same slice of rows 8 n + g joins sums[n]. */
template <int NT>
static __device__ __forceinline__ void multiply(const pieces &x, const uint4 *rows, int32_t pitch,
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

/* Whole products of columns base + g and base + 8 + g of a tile; the next ones begin. */
template <int NT>
static __device__ __forceinline__ void
write_costs(const kin_fused_screen &job, int64_t tile, int64_t first, int32_t base,
            const uint32_t (&terms)[2], int32_t (&sums)[NT][4], uint32_t (&least)[NT][2])
{
    const int32_t g = (int32_t)threadIdx.x % 32 / 4;
    const int32_t t = (int32_t)threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < NT * 4; i++) {
        const int32_t row = i / 4 * GROUP + 2 * t + i % 2;
        const int32_t column = base + i % 4 / 2 * GROUP;
        if (row < job.rows.points) {
            kin_fused_word cost;
            cost.u =
                job.rows.facts[row].term.u + terms[i % 4 / 2] - 2U * (uint32_t)sums[i / 4][i % 4];
            const uint32_t order = first + column < job.cols.points
                                       ? kin_fused_order<KIN_FUSED_S8>(cost)
                                       : KIN_ORDER_PADDING;
            least[i / 4][i % 2] = min(least[i / 4][i % 2], order);
            if (job.matrix != NULL) {
                job.matrix[row * job.pitch + tile * KIN_FUSED_TILE + column + g] = order;
            }
        }
        sums[i / 4][i % 4] = 0;
    }
}

/* Tile number `tile` of the unit's block, which is `number` of the columns, by a warp. */
template <int NT>
static __device__ __forceinline__ void screen_tile(const kin_fused_screen &job, const uint4 *rows,
                                                   int64_t tile, int64_t number)
{
    const int32_t chunks = job.cols.frame.row_bytes / 16;
    const int32_t g = (int32_t)threadIdx.x % 32 / 4;
    const int32_t t = (int32_t)threadIdx.x % 4;
    const int64_t first = number * KIN_FUSED_TILE + g;
    const uint4 *columns = (const uint4 *)job.cols.rounded + first * chunks + t;
    const uint4 *own = rows + g * (chunks + PAD) + t;
    uint32_t least[NT][2];
    int32_t sums[NT][4];
#pragma unroll
    for (int n = 0; n < NT; n++) {
        least[n][0] = least[n][1] = KIN_ORDER_PADDING;
        sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0;
    }
    const kin_fused_facts *facts = job.cols.facts + first;
    pieces next = read_slice(columns, chunks);
    uint32_t next_terms[2] = {facts[0].term.u, facts[GROUP].term.u};
    int32_t base = 0;
    int32_t at = 0; /* in the columns */
    while (base < KIN_FUSED_TILE) {
        const pieces now = next;
        const uint32_t terms[2] = {next_terms[0], next_terms[1]};
        const int32_t used = at;
        at = at + CHUNKS < chunks ? at + CHUNKS : 0;
        const int32_t coming = at == 0 ? base + 2 * GROUP : base;
        if (coming < KIN_FUSED_TILE) { /* while this one is multiplied */
            next = read_slice(columns + (int64_t)coming * chunks + at, chunks);
            next_terms[0] = facts[coming].term.u;
            next_terms[1] = facts[coming + GROUP].term.u;
        }
        multiply<NT>(now, own + used, chunks + PAD, sums);
        if (at == 0) {
            write_costs<NT>(job, tile, first, base, terms, sums, least);
        }
        base = coming;
    }
#pragma unroll
    for (int i = 0; i < NT * 2 && job.minima != NULL; i++) {
        const int32_t row = i / 2 * GROUP + 2 * t + i % 2;
        uint32_t order = least[i / 2][i % 2];
        for (int away = 4; away < 32; away *= 2) {
            order = min(order, __shfl_xor_sync(0xffffffffu, order, away));
        }
        if (g == 0 && row < job.rows.points) {
            job.minima[row * (job.pitch / KIN_FUSED_TILE) + tile] = order;
        }
    }
}

/* Blocks of a processor at a time, a divisor of a batch's units for it (fused_corpus.c). */
template <int NT> static constexpr int RESIDENT = NT == 1 ? 4 : NT == 2 ? 2 : 1;

template <int NT>
static __global__ void __launch_bounds__(THREADS, RESIDENT<NT>)
    screen_few(const __grid_constant__ kin_fused_screen job)
{
    extern __shared__ uint4 rows[]; /* NT x GROUP rounded rows, zeros behind the last one */
    const int32_t chunks = job.cols.frame.row_bytes / 16;
    for (int32_t i = (int32_t)threadIdx.x; i < NT * GROUP * chunks; i += THREADS) {
        const bool real = i / chunks < job.rows.points;
        rows[i / chunks * (chunks + PAD) + i % chunks] =
            real ? ((const uint4 *)job.rows.rounded)[i] : make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    const uint32_t units = *job.unit_count;
    for (uint32_t u = blockIdx.x; u < units; u += gridDim.x) {
        const kin_fused_unit unit = job.units[u];
        for (uint32_t i = threadIdx.x / 32; i < unit.count; i += WARPS) {
            screen_tile<NT>(job, rows, unit.first + i, job.tiles[unit.first + i]);
        }
    }
}

/* Products side by side: 1, 2 or 4. */
static int products_of(int64_t rows)
{
    int products = 1;
    while (products * GROUP < rows) {
        products *= 2;
    }
    return products;
}

static size_t shared_bytes(const kin_fused_screen *job)
{
    return (size_t)(products_of(job->rows.points) * GROUP) *
           (size_t)(job->cols.frame.row_bytes + PAD * 16);
}

bool kin_fused_screen_is_few(const kin_fused_screen *job)
{
    return job->mode == KIN_FUSED_MATRIX && job->cols.frame.type == KIN_FUSED_S8 &&
           job->rows.points <= MOST_ROWS && shared_bytes(job) <= SHARED_BYTES;
}

template <int NT> static int launch(kin_gpu_stream *stream, const kin_fused_screen *job)
{
    const unsigned blocks = (unsigned)(stream->processors * BLOCKS_A_PROCESSOR);
    screen_few<NT><<<blocks, THREADS, shared_bytes(job), stream->stream>>>(*job);
    return kin_gpu_launched();
}

int kin_fused_screen_few(kin_gpu_stream *stream, const kin_fused_screen *job)
{
    if (job->rows.points == 0) {
        return 0;
    }
    switch (products_of(job->rows.points)) {
    case 1:
        return launch<1>(stream, job);
    case 2:
        return launch<2>(stream, job);
    default:
        return launch<4>(stream, job);
    }
}
