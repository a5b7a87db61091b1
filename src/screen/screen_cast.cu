/* SPDX-License-Identifier: Apache-2.0
 * Shadows of rounded rows (screen/screen_corpus.h). Contract: screen_kernels.h.
 *
 * Idea. A product of all rows with a narrow basis: blocks of 64 rows, 32 columns at a time in
 * shared memory, 4 rows x PER axes a thread. What comes in is rounded already, so it is half as
 * long as the rows were, in order and in units; what that rounding lost is part of `off`.
 *
 * Error. The row is x, fp32 less the mean: its rounding is 2^-24 of each component. An image is a
 * sum of 64 products, one behind another, then a sum of those: CHAIN + 2 + columns / CHAIN
 * roundings (kin_bound_shadow_error). |x|^2 is summed in double. The rest is rounded to fp32. Both
 * roundings together are below 2^-22 of the length. */
#include "screen/screen_row.cuh"

enum {
    ROWS = 64,
    COLS = 32,
    CHAIN = 64, /* products of a sum in fp32 */
    TALL = 4,   /* rows of a thread */
    WIDE = 16,  /* threads side by side */
    LOADERS = KIN_SCREEN_GPU_THREADS / ROWS,
    LOADED = COLS / LOADERS /* values of a row that a thread brings */
};
static_assert(TALL * KIN_SCREEN_GPU_THREADS / WIDE == ROWS, "each row has its threads");

typedef struct tile {
    float rows[ROWS][COLS + 1];
    float basis[COLS][KIN_SCREEN_GPU_MOST_AXES];
    double length_sq[ROWS];
} tile;

/* Eight values of a rounded row from column `col` on. */
template <kin_screen_gpu_type TYPE>
KIN_DEVICE void load_values(const kin_screen_gpu_set &set, int64_t position, int32_t col,
                            float *values)
{
    const unsigned char *row = set.rounded + position * set.frame.row_bytes;
    uint4 chunk = make_uint4(0, 0, 0, 0);
    if (TYPE == KIN_SCREEN_GPU_F16) {
        chunk = __ldg((const uint4 *)(row + 2 * (int64_t)col));
    } else {
        const uint2 half = __ldg((const uint2 *)(row + col));
        chunk.x = half.x;
        chunk.y = half.y;
    }
#pragma unroll
    for (int i = 0; i < LOADED; i++) {
        values[i] = kin_screen_gpu_rounded_value<TYPE>(chunk, i);
    }
}

/* Columns col0 .. col0 + COLS - 1 of the block's rows less the mean, zeros behind the last; adds to
 * the squares of the loader's row. */
template <kin_screen_gpu_type TYPE>
KIN_DEVICE void load_rows(const kin_screen_gpu_cast &job, int64_t first, int32_t col0, tile *t,
                          double *length_sq)
{
    const int32_t r = (int32_t)threadIdx.x / LOADERS;
    const int32_t at = (int32_t)threadIdx.x % LOADERS * LOADED;
    float values[LOADED] = {0.0F};
    const bool real = first + r < job.set.points && col0 + at < job.set.frame.cols;
    if (real) {
        load_values<TYPE>(job.set, first + r, col0 + at, values);
    }
#pragma unroll
    for (int i = 0; i < LOADED; i++) {
        const int32_t col = col0 + at + i;
        const bool inside = real && col < job.set.frame.cols;
        const float x = inside ? __fsub_rn(values[i], __ldg(job.mean + col)) : 0.0F;
        t->rows[r][at + i] = x;
        *length_sq += (double)x * (double)x;
    }
}

KIN_DEVICE void load_basis(const kin_screen_gpu_cast &job, int32_t col0, int32_t axes, tile *t)
{
    for (int32_t i = (int32_t)threadIdx.x; i < COLS * axes; i += KIN_SCREEN_GPU_THREADS) {
        const int32_t col = col0 + i / axes;
        t->basis[i / axes][i % axes] =
            col < job.set.frame.cols
                ? __ldg(job.basis + (int64_t)col * KIN_SCREEN_GPU_MOST_AXES + i % axes)
                : 0.0F;
    }
}

template <int PER>
KIN_DEVICE void multiply(const tile &t, int32_t row0, int32_t axis0, float (&part)[TALL][PER])
{
#pragma unroll 8
    for (int32_t c = 0; c < COLS; c++) {
        float b[PER];
#pragma unroll
        for (int j = 0; j < PER; j++) {
            b[j] = t.basis[c][axis0 + j];
        }
#pragma unroll
        for (int i = 0; i < TALL; i++) {
            const float a = t.rows[row0 + i][c];
#pragma unroll
            for (int j = 0; j < PER; j++) {
                part[i][j] = __fmaf_rn(a, b[j], part[i][j]);
            }
        }
    }
}

template <int PER> KIN_DEVICE void close_sums(float (&part)[TALL][PER], float (&sum)[TALL][PER])
{
#pragma unroll
    for (int i = 0; i < TALL; i++) {
#pragma unroll
        for (int j = 0; j < PER; j++) {
            sum[i][j] = __fadd_rn(sum[i][j], part[i][j]);
            part[i][j] = 0.0F;
        }
    }
}

/* Values and off of a row whose images WIDE threads have; all of them come. */
template <int PER>
KIN_DEVICE void write_row(const kin_screen_gpu_cast &job, int64_t position, int32_t axis0,
                          double length_sq, const float (&image)[PER])
{
    const int32_t wide = job.axes + 1;
    const bool real = position < job.set.points;
    double image_sq = 0.0;
#pragma unroll
    for (int j = 0; j < PER; j++) {
        image_sq += (double)image[j] * (double)image[j];
        if (real && axis0 + j < job.axes) {
            job.values[position * wide + axis0 + j] = image[j];
        }
    }
    image_sq = kin_screen_gpu_team_sum(image_sq, WIDE);
    if (real && axis0 == 0) {
        const int32_t roundings = CHAIN + 2 + (job.set.frame.cols + CHAIN - 1) / CHAIN;
        const double rest = kin_bound_shadow_rest(length_sq, image_sq);
        const double error = kin_bound_shadow_error(length_sq, rest, job.skew, job.axes, roundings);
        job.values[position * wide + job.axes] = __double2float_rn(rest);
        job.off[position] = __double2float_ru(error + 0x1p-22 * sqrt(length_sq) +
                                              (double)job.set.facts[position].lost);
    }
}

template <kin_screen_gpu_type TYPE, int PER>
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    cast_rows_kernel(const __grid_constant__ kin_screen_gpu_cast job)
{
    __shared__ tile t;
    const int64_t first = (int64_t)blockIdx.x * ROWS;
    const int32_t row0 = (int32_t)threadIdx.x / WIDE * TALL;
    const int32_t axis0 = (int32_t)threadIdx.x % WIDE * PER;
    float sum[TALL][PER] = {{0.0F}};
    float part[TALL][PER] = {{0.0F}};
    double length_sq = 0.0;
    for (int32_t col0 = 0; col0 < job.set.frame.cols; col0 += COLS) {
        load_rows<TYPE>(job, first, col0, &t, &length_sq);
        load_basis(job, col0, WIDE * PER, &t);
        __syncthreads();
        multiply<PER>(t, row0, axis0, part);
        if ((col0 + COLS) % CHAIN == 0) {
            close_sums<PER>(part, sum);
        }
        __syncthreads();
    }
    close_sums<PER>(part, sum);
    length_sq = kin_screen_gpu_team_sum(length_sq, LOADERS);
    if (threadIdx.x % LOADERS == 0) {
        t.length_sq[threadIdx.x / LOADERS] = length_sq;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TALL; i++) {
        write_row<PER>(job, first + row0 + i, axis0, t.length_sq[row0 + i], sum[i]);
    }
}

template <kin_screen_gpu_type TYPE>
static int launch(kin_gpu_stream *stream, const kin_screen_gpu_cast *job)
{
    const unsigned blocks = (unsigned)((job->set.points + ROWS - 1) / ROWS);
    if (job->axes <= 2 * WIDE) {
        cast_rows_kernel<TYPE, 2><<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job);
    } else if (job->axes <= 4 * WIDE) {
        cast_rows_kernel<TYPE, 4><<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job);
    } else if (job->axes <= 6 * WIDE) {
        cast_rows_kernel<TYPE, 6><<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job);
    } else {
        cast_rows_kernel<TYPE, 8><<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job);
    }
    return kin_gpu_launched();
}

int kin_screen_gpu_launch_cast(kin_gpu_stream *stream, const kin_screen_gpu_cast *job)
{
    if (job->set.points == 0) {
        return 0;
    }
    return job->set.frame.type == KIN_SCREEN_GPU_F16 ? launch<KIN_SCREEN_GPU_F16>(stream, job)
                                                     : launch<KIN_SCREEN_GPU_S8>(stream, job);
}
