/* SPDX-License-Identifier: Apache-2.0
 * What a frame is made of: column means, the largest component, the largest norm. Contract:
 * screen_kernels.h.
 *
 * Idea. The rows are cut into pieces; a block of threads sums a stretch of columns over a piece and
 * leaves (sum, least, most) of each column; a second kernel adds the pieces in their order. No sum
 * depends on which block came first, so a run repeats the bits of the last one.
 *
 *   thread block    x: chunks of a row, up to 32      y: rows, every (512 / x)th of the piece
 *
 * Cost: one read, two where norms are wanted. */
#include "screen/screen_row.cuh"

#include <float.h>

enum { THREADS = 512, MOST_WIDE = 32, SUM = 0, LEAST = 1, MOST = 2, KINDS = 3, SLICES = 32 };

typedef struct piece {
    int64_t first;
    int64_t last;
} piece;

KIN_DEVICE piece piece_of(int64_t rows, int32_t parts)
{
    const int64_t a_part = (rows + parts - 1) / parts;
    const int64_t first = (int64_t)blockIdx.x * a_part;
    return {first, first + a_part < rows ? first + a_part : rows};
}

typedef struct column {
    double sum;
    double least;
    double most;
} column;

KIN_DEVICE column joined(const column &a, const column &b)
{
    return {a.sum + b.sum, b.least < a.least ? b.least : a.least,
            b.most > a.most ? b.most : a.most};
}

template <kith_dtype DTYPE, bool ALIGNED>
static __global__ void __launch_bounds__(THREADS)
    sum_columns_kernel(const __grid_constant__ kin_screen_gpu_measure job, int32_t wide)
{
    const int values = kin_screen_gpu_dtype<DTYPE>::VALUES;
    __shared__ column shared[THREADS];
    const int32_t cols = job.rows.cols;
    const int64_t bytes = (int64_t)cols * kin_screen_gpu_dtype<DTYPE>::BYTES;
    const int32_t x = (int32_t)threadIdx.x % wide;
    const int32_t y = (int32_t)threadIdx.x / wide;
    const int32_t tall = THREADS / wide;
    const int64_t at = ((int64_t)blockIdx.y * wide + x) * KIN_SCREEN_GPU_CHUNK;
    const int32_t col = (int32_t)(at / kin_screen_gpu_dtype<DTYPE>::BYTES);
    const piece mine = piece_of(job.rows.rows, job.parts);

    column columns[values];
    for (int i = 0; i < values; i++) {
        columns[i] = {0.0, DBL_MAX, -DBL_MAX};
    }
    if (at < bytes) {
#pragma unroll 4
        for (int64_t r = mine.first + y; r < mine.last; r += tall) {
            const uint4 chunk =
                kin_screen_gpu_chunk<ALIGNED>(kin_screen_gpu_row(job.rows, r), at, bytes);
            for (int i = 0; i < values; i++) {
                double v = kin_screen_gpu_chunk_value<DTYPE>(chunk, i);
                v = job.rows.transforms != NULL ? kin_row_apply(&job.rows.transforms[r], v) : v;
                columns[i] = joined(columns[i], {v, v, v});
            }
        }
    }
    for (int i = 0; i < values; i++) {
        __syncthreads();
        shared[threadIdx.x] = columns[i];
        for (int32_t half = tall / 2; half > 0; half /= 2) {
            __syncthreads();
            if (y < half) {
                shared[threadIdx.x] =
                    joined(shared[threadIdx.x], shared[(int32_t)threadIdx.x + half * wide]);
            }
        }
        if (y == 0 && col + i < cols) {
            double *out = job.scratch + (int64_t)blockIdx.x * KINDS * cols + col + i;
            out[(int64_t)SUM * cols] = shared[threadIdx.x].sum;
            out[(int64_t)LEAST * cols] = shared[threadIdx.x].least;
            out[(int64_t)MOST * cols] = shared[threadIdx.x].most;
        }
    }
}

/* A warp for 32 columns in each of SLICES slices of the pieces, then the slices in their order. */
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_WARP *SLICES)
    join_pieces_kernel(const __grid_constant__ kin_screen_gpu_measure job)
{
    __shared__ column shared[SLICES][KIN_SCREEN_GPU_WARP];
    const int32_t cols = job.rows.cols;
    const int32_t col = (int32_t)(blockIdx.x * KIN_SCREEN_GPU_WARP + threadIdx.x);
    column all = {0.0, DBL_MAX, -DBL_MAX};
    for (int32_t p = (int32_t)threadIdx.y; p < job.parts && col < cols; p += SLICES) {
        const double *in = job.scratch + (int64_t)p * KINDS * cols + col;
        all = joined(
            all, {in[(int64_t)SUM * cols], in[(int64_t)LEAST * cols], in[(int64_t)MOST * cols]});
    }
    shared[threadIdx.y][threadIdx.x] = all;
    __syncthreads();
    if (threadIdx.y != 0) {
        return;
    }
    for (int s = 1; s < SLICES; s++) {
        all = joined(all, shared[s][threadIdx.x]);
    }
    double far = 0.0;
    if (col < cols) {
        const double mean = job.shifts != 0 ? all.sum / (double)job.rows.rows : 0.0;
        job.mean[col] = mean;
        far = fmax(0.0, fmax(all.most - mean, mean - all.least));
    }
    kin_screen_gpu_raise(&job.largest[0], far);
}

template <kith_dtype DTYPE, bool ALIGNED>
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    norm_rows_kernel(const __grid_constant__ kin_screen_gpu_measure job, int32_t team)
{
    const int values = kin_screen_gpu_dtype<DTYPE>::VALUES;
    const kin_screen_gpu_place me = kin_screen_gpu_my_place(team);
    const int64_t last =
        job.rows.rows - 1; /* teams behind it repeat it, which changes no maximum */
    const int64_t r = me.row < last ? me.row : last;
    const char *row = kin_screen_gpu_row(job.rows, r);
    const int32_t cols = job.rows.cols;
    const int64_t bytes = (int64_t)cols * kin_screen_gpu_dtype<DTYPE>::BYTES;
    double sum = 0.0;
    for (int64_t at = (int64_t)me.lane * KIN_SCREEN_GPU_CHUNK; at < bytes;
         at += (int64_t)team * KIN_SCREEN_GPU_CHUNK) {
        const uint4 chunk = kin_screen_gpu_chunk<ALIGNED>(row, at, bytes);
        const int32_t col = (int32_t)(at / kin_screen_gpu_dtype<DTYPE>::BYTES);
        for (int i = 0; i < values; i++) {
            if (col + i < cols) {
                double v = kin_screen_gpu_chunk_value<DTYPE>(chunk, i);
                v = job.rows.transforms != NULL ? kin_row_apply(&job.rows.transforms[r], v) : v;
                const double a = v - job.mean[col + i];
                sum += a * a;
            }
        }
    }
    kin_screen_gpu_raise(&job.largest[1], sqrt(kin_screen_gpu_team_sum(sum, team)));
}

int kin_screen_gpu_launch_measure(kin_gpu_stream *stream, const kin_screen_gpu_measure *job)
{
    const kin_screen_gpu_rows *rows = &job->rows;
    if (rows->rows == 0 || rows->cols == 0) {
        return (int)cudaErrorInvalidValue;
    }
    KIN_CUDA_TRY(cudaMemsetAsync(job->largest, 0, 2 * sizeof(double), stream->stream));
    const int64_t bytes = kin_screen_gpu_row_bytes(rows);
    const int64_t chunks = (bytes + KIN_SCREEN_GPU_CHUNK - 1) / KIN_SCREEN_GPU_CHUNK;
    int32_t wide = 1;
    while (wide < MOST_WIDE && wide < chunks) {
        wide *= 2;
    }
    /* At most 2^20 columns of 8 bytes: 2^14 stretches. */
    const dim3 grid((unsigned)job->parts, (unsigned)((chunks + wide - 1) / wide));
    const bool aligned = kin_screen_gpu_rows_aligned(rows, KIN_SCREEN_GPU_CHUNK);
#define LAUNCH_SUMS(DTYPE, ALIGNED) \
    sum_columns_kernel<DTYPE, ALIGNED><<<grid, THREADS, 0, stream->stream>>>(*job, wide)
    KIN_SCREEN_GPU_LAUNCH_DTYPE(rows->dtype, aligned, LAUNCH_SUMS)
#undef LAUNCH_SUMS
    KIN_CUDA_TRY_LAUNCH();
    const unsigned joins = (unsigned)((rows->cols + KIN_SCREEN_GPU_WARP - 1) / KIN_SCREEN_GPU_WARP);
    join_pieces_kernel<<<joins, dim3(KIN_SCREEN_GPU_WARP, SLICES), 0, stream->stream>>>(*job);
    KIN_CUDA_TRY_LAUNCH();
    if (job->norms == 0) {
        return 0;
    }
    const int32_t team = kin_screen_gpu_team(bytes);
    const unsigned blocks = kin_screen_gpu_team_blocks(rows->rows, team);
#define LAUNCH_NORMS(DTYPE, ALIGNED) \
    norm_rows_kernel<DTYPE, ALIGNED> \
        <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, team)
    KIN_SCREEN_GPU_LAUNCH_DTYPE(rows->dtype, aligned, LAUNCH_NORMS)
#undef LAUNCH_NORMS
    return kin_gpu_launched();
}
