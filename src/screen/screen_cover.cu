/* SPDX-License-Identifier: Apache-2.0
 * A ball around each tile of 128 positions. Contract: screen_kernels.h, screen_set_gpu.h.
 *
 * Idea. Any centre is right; the mean of the rounded rows x^ is a good one, and they are half as
 * long as the rows, in order, and without a transform. |a - centre| <= |x^ - centre| + lost, since
 * lost >= |a - x^| holds everything that rounding and shifting did to a row.
 *
 * Proof of the radius: screen_cover.h.
 *
 * Cost: two reads of the rounded rows, the second from a cache. */
#include "screen/screen_cover.h"
#include "screen/screen_row.cuh"

enum { LANES = KIN_BALL_LANES, MOST_WIDE = 16, ROWS_AT_ONCE = KIN_SCREEN_GPU_THREADS / LANES };

/* Sums of `wide` chunks of columns at a time over the tile's rows: x counts chunks, y rows. */
template <kin_screen_gpu_type TYPE>
KIN_DEVICE void make_centre(const kin_screen_gpu_set &set, const unsigned char *rows, int32_t count,
                            int32_t wide, float *shared, float *centre)
{
    const int values = kin_screen_gpu_rounded<TYPE>::VALUES;
    const int32_t chunks = set.frame.row_bytes / KIN_SCREEN_GPU_CHUNK;
    const int32_t tall = KIN_SCREEN_GPU_THREADS / wide;
    const int32_t x = (int32_t)threadIdx.x % wide;
    const int32_t y = (int32_t)threadIdx.x / wide;
    for (int32_t first = 0; first < chunks; first += wide) {
        float sums[values] = {0.0F};
        for (int32_t r = y; r < count && first + x < chunks; r += tall) {
            const uint4 chunk =
                __ldg((const uint4 *)(rows + (int64_t)r * set.frame.row_bytes) + first + x);
            for (int i = 0; i < values; i++) {
                sums[i] += kin_screen_gpu_rounded_value<TYPE>(chunk, i);
            }
        }
        for (int i = 0; i < values; i++) {
            shared[(y * wide + x) * values + i] = sums[i];
        }
        __syncthreads();
        for (int32_t i = (int32_t)threadIdx.x; i < wide * values; i += KIN_SCREEN_GPU_THREADS) {
            const int32_t col = first * values + i;
            float sum = 0.0F;
            for (int32_t s = 0; s < tall; s++) {
                sum += shared[s * wide * values + i];
            }
            if (col < set.frame.cols) {
                centre[col] = count > 0 ? sum / (float)count : 0.0F;
            }
        }
        __syncthreads();
    }
}

/* |x^ - centre|^2 by eight lanes a row. */
template <kin_screen_gpu_type TYPE>
KIN_DEVICE float distance_sq(const kin_screen_gpu_set &set, const unsigned char *row,
                             const float *centre, int32_t lane)
{
    const int values = kin_screen_gpu_rounded<TYPE>::VALUES;
    const int32_t cols = set.frame.cols;
    float sum = 0.0F;
    for (int32_t col = lane * values; col < cols; col += LANES * values) {
        const uint4 chunk = __ldg((const uint4 *)row + col / values);
        for (int i = 0; i < values; i++) {
            if (col + i < cols) {
                const float t = kin_screen_gpu_rounded_value<TYPE>(chunk, i) - centre[col + i];
                sum += t * t;
            }
        }
    }
    for (int offset = LANES / 2; offset > 0; offset >>= 1) {
        sum += __shfl_xor_sync(KIN_SCREEN_GPU_ALL_LANES, sum, offset);
    }
    return sum;
}

template <kin_screen_gpu_type TYPE>
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    cover_tiles_kernel(const __grid_constant__ kin_screen_gpu_cover job, int32_t wide)
{
    __shared__ float shared[KIN_SCREEN_GPU_THREADS * kin_screen_gpu_rounded<TYPE>::VALUES];
    __shared__ float most;
    const kin_screen_gpu_set &set = job.set;
    const int64_t first = (int64_t)blockIdx.x * KIN_SCREEN_GPU_TILE;
    const int64_t left = set.points - first;
    const int32_t count = (int32_t)(left < 0                     ? 0
                                    : left < KIN_SCREEN_GPU_TILE ? left
                                                                 : KIN_SCREEN_GPU_TILE);
    const unsigned char *rows = set.rounded + first * set.frame.row_bytes;
    float *centre = job.centres + (int64_t)blockIdx.x * set.frame.cols;
    if (threadIdx.x == 0) {
        most = 0.0F;
    }
    make_centre<TYPE>(set, rows, count, wide, shared, centre);

    const int32_t lane = (int32_t)threadIdx.x % LANES;
    float far = 0.0F;
    for (int32_t r = (int32_t)threadIdx.x / LANES; r < KIN_SCREEN_GPU_TILE; r += ROWS_AT_ONCE) {
        const int32_t own = r < count ? r : 0; /* of an empty tile: padding, zeros */
        const float square =
            distance_sq<TYPE>(set, rows + (int64_t)own * set.frame.row_bytes, centre, lane);
        if (r < count) {
            far = fmaxf(far, kin_ball_radius(square, set.frame.cols, set.facts[first + r].lost));
        }
    }
    kin_screen_gpu_raise(&most, far);
    __syncthreads();
    if (threadIdx.x == 0) {
        job.radii[blockIdx.x] = most;
    }
}

/* ---- Several balls --------------------------------------------------------------------------- */

enum { SPLITS = 2 /* means of all sides, again and again */ };

typedef struct split_shared {
    uint64_t farthest;                  /* distance by its bits, row */
    uint32_t side[KIN_SCREEN_GPU_TILE]; /* by row, its ball */
    float most[KIN_SCREEN_GPU_BALLS];
} split_shared;

/* Each ball's centre becomes the mean of its rows, if it has some; by a thread a column. */
KIN_DEVICE void find_means(const kin_screen_gpu_set &set, const unsigned char *rows, int32_t count,
                           const split_shared &shared, float *centres)
{
    for (int32_t c = (int32_t)threadIdx.x; c < set.frame.cols; c += KIN_SCREEN_GPU_THREADS) {
        int32_t sums[KIN_SCREEN_GPU_BALLS] = {};
        int32_t found[KIN_SCREEN_GPU_BALLS] = {};
        for (int32_t r = 0; r < count; r++) {
            const int32_t value = (int8_t)rows[(int64_t)r * set.frame.row_bytes + c];
#pragma unroll
            for (int b = 0; b < KIN_SCREEN_GPU_BALLS; b++) {
                sums[b] += shared.side[r] == (uint32_t)b ? value : 0;
                found[b] += shared.side[r] == (uint32_t)b ? 1 : 0;
            }
        }
#pragma unroll
        for (int b = 0; b < KIN_SCREEN_GPU_BALLS; b++) {
            if (found[b] > 0) {
                centres[b * set.frame.cols + c] = (float)sums[b] / (float)found[b];
            }
        }
    }
}

/* The nearest of the first `balls` centres, by the lanes of a row; the square of its distance. */
KIN_DEVICE float find_side(const kin_screen_gpu_set &set, const unsigned char *row,
                           const float *centres, int32_t balls, uint32_t *side)
{
    const int32_t lane = (int32_t)threadIdx.x % LANES;
    float least = INFINITY;
    *side = 0;
    for (int32_t b = 0; b < balls; b++) {
        const float square =
            distance_sq<KIN_SCREEN_GPU_S8>(set, row, centres + b * set.frame.cols, lane);
        *side = square < least ? (uint32_t)b : *side;
        least = fminf(least, square);
    }
    return least;
}

/* One more centre: the row that is farthest from those that there are. */
KIN_DEVICE void add_centre(const kin_screen_gpu_set &set, const unsigned char *rows, int32_t count,
                           int32_t balls, split_shared *shared, float *centres)
{
    if (threadIdx.x == 0) {
        shared->farthest = 0;
    }
    __syncthreads();
    for (int32_t r = (int32_t)threadIdx.x / LANES; r < KIN_SCREEN_GPU_TILE; r += ROWS_AT_ONCE) {
        const int64_t own = (int64_t)(r < count ? r : 0) * set.frame.row_bytes;
        uint32_t side = 0;
        const float square = find_side(set, rows + own, centres, balls, &side);
        if (r < count && threadIdx.x % LANES == 0) {
            atomicMax((unsigned long long *)&shared->farthest,
                      (unsigned long long)__float_as_uint(square) << 32 | (uint32_t)r);
        }
    }
    __syncthreads();
    const int64_t row = (int64_t)(uint32_t)shared->farthest * set.frame.row_bytes;
    for (int32_t c = (int32_t)threadIdx.x; c < set.frame.cols; c += KIN_SCREEN_GPU_THREADS) {
        centres[balls * set.frame.cols + c] = (float)(int8_t)rows[row + c];
    }
    __syncthreads();
}

/* The first centre is the mean, each other one the row that is farthest from those before; then
 * rows go to the nearest, and all become means of what they have. */
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    split_tiles_kernel(const __grid_constant__ kin_screen_gpu_split job)
{
    __shared__ split_shared shared;
    const kin_screen_gpu_set &set = job.set;
    const int64_t first = (int64_t)blockIdx.x * KIN_SCREEN_GPU_TILE;
    const int64_t left = set.points - first;
    const int32_t count = (int32_t)(left < KIN_SCREEN_GPU_TILE ? left : KIN_SCREEN_GPU_TILE);
    const unsigned char *rows = set.rounded + first * set.frame.row_bytes;
    float *centres = job.centres + (int64_t)blockIdx.x * KIN_SCREEN_GPU_BALLS * set.frame.cols;
    if (threadIdx.x < KIN_SCREEN_GPU_TILE) {
        shared.side[threadIdx.x] = 0;
        shared.most[threadIdx.x % KIN_SCREEN_GPU_BALLS] = 0.0F;
    }
    __syncthreads();
    find_means(set, rows, count, shared, centres);
    __syncthreads();
    for (int32_t balls = 1; balls < KIN_SCREEN_GPU_BALLS; balls++) {
        add_centre(set, rows, count, balls, &shared, centres);
    }
    for (int turn = 0; turn <= SPLITS; turn++) {
        for (int32_t r = (int32_t)threadIdx.x / LANES; r < KIN_SCREEN_GPU_TILE; r += ROWS_AT_ONCE) {
            const int64_t own = (int64_t)(r < count ? r : 0) * set.frame.row_bytes;
            uint32_t side = 0;
            const float square = find_side(set, rows + own, centres, KIN_SCREEN_GPU_BALLS, &side);
            if (r < count && threadIdx.x % LANES == 0 && turn < SPLITS) {
                shared.side[r] = side;
            } else if (r < count && threadIdx.x % LANES == 0) {
                const float radius =
                    kin_ball_radius(square, set.frame.cols, set.facts[first + r].lost);
                atomicMax((unsigned *)&shared.most[side], __float_as_uint(radius));
            }
        }
        __syncthreads();
        if (turn < SPLITS) {
            find_means(set, rows, count, shared, centres);
            __syncthreads();
        }
    }
    if (threadIdx.x < KIN_SCREEN_GPU_BALLS) {
        job.radii[(int64_t)blockIdx.x * KIN_SCREEN_GPU_BALLS + threadIdx.x] =
            shared.most[threadIdx.x];
    }
}

/* ---- Launch ---------------------------------------------------------------------------------- */

int kin_screen_gpu_launch_split(kin_gpu_stream *stream, const kin_screen_gpu_split *job)
{
    const int64_t tiles = (job->set.points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE;
    if (job->set.frame.type != KIN_SCREEN_GPU_S8) {
        return (int)cudaErrorInvalidValue;
    }
    if (tiles > 0) {
        split_tiles_kernel<<<(unsigned)tiles, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job);
    }
    return kin_gpu_launched();
}

int kin_screen_gpu_launch_cover(kin_gpu_stream *stream, const kin_screen_gpu_cover *job)
{
    const unsigned tiles = (unsigned)(job->set.padded / KIN_SCREEN_GPU_TILE);
    const int32_t chunks = job->set.frame.row_bytes / KIN_SCREEN_GPU_CHUNK; /* a multiple of 8 */
    const int32_t wide = chunks < MOST_WIDE ? 8 : MOST_WIDE;
    if (tiles == 0) {
        return 0;
    }
    if (job->set.frame.type == KIN_SCREEN_GPU_F16) {
        cover_tiles_kernel<KIN_SCREEN_GPU_F16>
            <<<tiles, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, wide);
    } else {
        cover_tiles_kernel<KIN_SCREEN_GPU_S8>
            <<<tiles, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, wide);
    }
    return kin_gpu_launched();
}
