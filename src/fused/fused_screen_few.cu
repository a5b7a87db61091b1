/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Costs of a few rows of bytes are a read of the columns and hardly anything else: a tensor
 * core's product has 64 rows and more, of which all but a few would be padding. So a warp takes a
 * tile of columns, 16 of them at a time, and multiplies four bytes an instruction:
 *
 *      team of 8 lanes        4 columns, 16 bytes of each a lane and slice
 *      all rows               in shared memory, read once for 4 columns
 *      4 Q sums a lane        (Q rows) are joined by halving: each exchange hands half of them
 *                             over, so that a lane ends with Q / 2 pairs that are complete
 *
 * The costs are those of the tensor units, since sums of integers are what they are.
 *
 * Floor. One read of the columns: 128 bytes of a million are 30 microseconds on an H200. A pair and
 * 16 bytes takes four instructions of a lane, so ten rows still take less than the read.
 */
#include "fused/fused_cost.cuh"
#include "fused/fused_launch.cuh"
#include "gpu/gpu_stream.cuh"

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    TEAM = 8,
    AT_ONCE = 4,                   /* columns of a team */
    COLUMNS = 32 / TEAM * AT_ONCE, /* of a warp at a time */
    MOST_ROWS = 16,
    SHARED_BYTES = 40 << 10, /* of rows, at most */
    BLOCKS_A_PROCESSOR = 8
};
static_assert(KIN_FUSED_SLICE == TEAM * sizeof(uint4), "a team reads a slice of a row at once");

/* A lane ends with pairs of ROWS_OF rows, SIDE_BY_SIDE columns each; LANES_A_ROW lanes of a team
 * have those of one row. */
template <int Q> static constexpr int ROWS_OF = Q > TEAM ? Q / TEAM : 1;
template <int Q> static constexpr int SIDE_BY_SIDE = Q >= TEAM ? AT_ONCE : Q > 2 ? Q / 2 : 1;
template <int Q> static constexpr int LANES_A_ROW = Q < TEAM ? TEAM / Q : 1;

/* sums[row * AT_ONCE + column] of a slice of each. */
template <int Q>
static __device__ __forceinline__ void add_slice(const uint4 (&column)[AT_ONCE], const uint4 *rows,
                                                 int32_t row_chunks, int32_t (&sums)[Q * AT_ONCE])
{
#pragma unroll
    for (int q = 0; q < Q; q++) {
        const uint4 row = rows[q * row_chunks];
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            int32_t sum = sums[q * AT_ONCE + r];
            sum = __dp4a((int)row.x, (int)column[r].x, sum);
            sum = __dp4a((int)row.y, (int)column[r].y, sum);
            sum = __dp4a((int)row.z, (int)column[r].z, sum);
            sums[q * AT_ONCE + r] = __dp4a((int)row.w, (int)column[r].w, sum);
        }
    }
}

/* What lanes `away` apart have of COUNT pairs: each keeps half of them, whole; of one, both do. */
template <int COUNT> static __device__ __forceinline__ void halve(int32_t *sums, int away)
{
    if constexpr (COUNT == 1) {
        sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], away);
    } else {
        const bool upper = ((int)threadIdx.x & away) != 0;
#pragma unroll
        for (int p = 0; p < COUNT / 2; p++) {
            const int32_t keeps = upper ? sums[p + COUNT / 2] : sums[p];
            const int32_t gives = upper ? sums[p] : sums[p + COUNT / 2];
            sums[p] = keeps + __shfl_xor_sync(0xffffffffu, gives, away);
        }
    }
}

/* 16 columns from `position` on against all rows: this lane's pairs are complete. */
template <int Q>
static __device__ __forceinline__ void multiply(const kin_fused_screen &job, const uint4 *rows,
                                                int64_t position, int32_t (&sums)[Q * AT_ONCE])
{
    const int32_t chunks = job.cols.frame.row_bytes / (int32_t)sizeof(uint4);
    const int32_t place = (int32_t)threadIdx.x % TEAM;
    const uint4 *columns = (const uint4 *)job.cols.rounded + position * chunks + place;
#pragma unroll
    for (int i = 0; i < Q * AT_ONCE; i++) {
        sums[i] = 0;
    }
    for (int32_t c = 0; c < chunks; c += TEAM) {
        uint4 column[AT_ONCE];
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            column[r] = __ldcs(columns + r * chunks + c);
        }
        add_slice<Q>(column, rows + c + place, chunks, sums);
    }
    constexpr int ALL = Q * AT_ONCE;
    halve<ALL>(sums, 4);
    halve<ALL / 2>(sums, 2);
    halve<(ALL / 4 > 0 ? ALL / 4 : 1)>(sums, 1);
}

/* The least orders of a tile, of this lane's rows. */
template <int Q>
static __device__ __forceinline__ void write_minima(const kin_fused_screen &job, int64_t tile,
                                                    const uint32_t (&least)[ROWS_OF<Q>])
{
    const int32_t place = (int32_t)threadIdx.x % TEAM;
#pragma unroll
    for (int i = 0; i < ROWS_OF<Q>; i++) {
        uint32_t order = least[i];
#pragma unroll
        for (int away = 1; away < LANES_A_ROW<Q>; away *= 2) {
            order = min(order, __shfl_xor_sync(0xffffffffu, order, away));
        }
        order = min(order, __shfl_xor_sync(0xffffffffu, order, TEAM));
        order = min(order, __shfl_xor_sync(0xffffffffu, order, 2 * TEAM));
        const int32_t q = place * Q / TEAM + i;
        if (threadIdx.x % 32 < TEAM && place % LANES_A_ROW<Q> == 0 && q < job.rows.points) {
            job.minima[q * (job.pitch / KIN_FUSED_TILE) + tile] = order;
        }
    }
}

/* COUNT orders, aligned to as many. */
template <int COUNT>
static __device__ __forceinline__ void write_orders(uint32_t *to, const uint32_t *orders)
{
    if constexpr (COUNT == 4) {
        *(uint4 *)to = make_uint4(orders[0], orders[1], orders[2], orders[3]);
    } else if constexpr (COUNT == 2) {
        *(uint2 *)to = make_uint2(orders[0], orders[1]);
    } else {
        *to = orders[0];
    }
}

/* Tile number `tile` of the unit's block, which is `number` of the columns, by a warp. */
template <int Q>
static __device__ __forceinline__ void screen_tile(const kin_fused_screen &job, const uint4 *rows,
                                                   int64_t tile, int64_t number)
{
    constexpr int COLS = SIDE_BY_SIDE<Q>;
    const int32_t lane = (int32_t)threadIdx.x % 32;
    const int32_t first_pair = lane % TEAM * (Q * AT_ONCE) / TEAM;
    const int32_t first_row = first_pair / AT_ONCE;
    const int32_t own = lane / TEAM * AT_ONCE + first_pair % AT_ONCE;
    uint32_t least[ROWS_OF<Q>];
    for (uint32_t &order : least) {
        order = KIN_ORDER_PADDING;
    }
    for (int32_t base = 0; base < KIN_FUSED_TILE; base += COLUMNS) {
        const int64_t position = number * KIN_FUSED_TILE + base;
        int32_t sums[Q * AT_ONCE];
        uint32_t terms[COLS];
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            terms[c] = job.cols.facts[position + own + c].term.u;
        }
        multiply<Q>(job, rows, position + lane / TEAM * AT_ONCE, sums);
#pragma unroll
        for (int i = 0; i < ROWS_OF<Q>; i++) {
            if (first_row + i >= job.rows.points) {
                break;
            }
            const uint32_t row_term = job.rows.facts[first_row + i].term.u;
            uint32_t orders[COLS];
#pragma unroll
            for (int c = 0; c < COLS; c++) {
                kin_fused_word cost;
                cost.u = row_term + terms[c] - 2U * (uint32_t)sums[i * AT_ONCE + c];
                orders[c] = position + own + c < job.cols.points
                                ? kin_fused_order<KIN_FUSED_S8>(cost)
                                : KIN_ORDER_PADDING;
                least[i] = min(least[i], orders[c]);
            }
            if (job.matrix != NULL) {
                write_orders<COLS>(job.matrix + (first_row + i) * job.pitch +
                                       tile * KIN_FUSED_TILE + base + own,
                                   orders);
            }
        }
    }
    if (job.minima != NULL) {
        write_minima<Q>(job, tile, least);
    }
}

template <int Q>
static __global__ void __launch_bounds__(THREADS)
    screen_few(const __grid_constant__ kin_fused_screen job)
{
    extern __shared__ uint4 rows[]; /* Q rounded rows */
    const int32_t chunks = job.cols.frame.row_bytes / (int32_t)sizeof(uint4);
    for (int32_t i = (int32_t)threadIdx.x; i < Q * chunks; i += THREADS) {
        const bool real = i / chunks < job.rows.points;
        rows[i] = real ? ((const uint4 *)job.rows.rounded)[i] : make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    const uint32_t units = *job.unit_count;
    for (uint32_t u = blockIdx.x; u < units; u += gridDim.x) {
        const kin_fused_unit unit = job.units[u];
        for (uint32_t i = threadIdx.x / 32; i < unit.count; i += WARPS) {
            screen_tile<Q>(job, rows, unit.first + i, job.tiles[unit.first + i]);
        }
    }
}

bool kin_fused_screen_is_few(const kin_fused_screen *job)
{
    return job->mode == KIN_FUSED_MATRIX && job->cols.frame.type == KIN_FUSED_S8 &&
           job->rows.points <= MOST_ROWS && job->cols.frame.row_bytes <= SHARED_BYTES / MOST_ROWS;
}

template <int Q> static int launch(kin_gpu_stream *stream, const kin_fused_screen *job)
{
    const unsigned blocks = (unsigned)(stream->processors * BLOCKS_A_PROCESSOR);
    const size_t bytes = (size_t)Q * (size_t)job->cols.frame.row_bytes;
    screen_few<Q><<<blocks, THREADS, bytes, stream->stream>>>(*job);
    return kin_gpu_launched();
}

int kin_fused_screen_few(kin_gpu_stream *stream, const kin_fused_screen *job)
{
    switch (job->rows.points) {
    case 0:
        return 0;
    case 1:
        return launch<1>(stream, job);
    case 2:
        return launch<2>(stream, job);
    case 3:
    case 4:
        return launch<4>(stream, job);
    default:
        return job->rows.points <= 8 ? launch<8>(stream, job) : launch<16>(stream, job);
    }
}
