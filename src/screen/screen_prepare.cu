/* SPDX-License-Identifier: Apache-2.0
 * Values are looked at, and rows get their transforms. Cost: one read for the check, three for the
 * transforms, of which the first comes from memory. Contract: screen_kernels.h. */
#include "screen/screen_row.cuh"

/* ---- Check ---------------------------------------------------------------------------------- */

/* What is allowed: metric_check.c, where the bounds are explained. */
typedef struct law {
    uint64_t least; /* smallest magnitude but 0, by its bits */
    uint64_t most;
    bool nonnegative;
} law;

static law law_of(kith_dtype dtype, kith_metric metric)
{
    law l = {1, kin_metric_most(dtype, metric), metric == KITH_CHI2 || metric == KITH_KL};
    if (dtype == KITH_F64 && metric == KITH_KL) {
        l.least = kin_bits_of(0x1p-500);
    }
    return l;
}

template <kith_dtype DTYPE> KIN_DEVICE bool breaks(const law &l, uint64_t bits)
{
    const int places = 8 * kin_screen_gpu_dtype<DTYPE>::BYTES;
    const uint64_t sign = (uint64_t)1 << (places - 1);
    if (DTYPE == KITH_I8) {
        return l.nonnegative && (bits & sign) != 0;
    }
    const uint64_t magnitude = bits & (sign - 1);
    return magnitude > l.most || (l.nonnegative && bits > sign) ||
           (DTYPE == KITH_F64 && magnitude != 0 && magnitude < l.least);
}

/* What a thread has seen of floats; a NaN is other than any whole number. */
typedef struct range {
    float least;
    float most;
    bool whole;
} range;

template <kith_dtype DTYPE> KIN_DEVICE void widen(range *seen, uint64_t bits)
{
    const double given = kin_screen_gpu_of_bits<DTYPE>(bits);
    const float x = (float)given;
    seen->least = fminf(seen->least, x);
    seen->most = fmaxf(seen->most, x);
    seen->whole = seen->whole && rintf(x) == x && (DTYPE != KITH_F64 || (double)x == given);
}

KIN_DEVICE uint32_t misfits_of(const range &seen)
{
    const bool is_u8 = seen.whole && seen.least >= 0.0F && seen.most <= (float)UINT8_MAX;
    const bool is_i8 = seen.whole && seen.least >= (float)INT8_MIN && seen.most <= (float)INT8_MAX;
    return (is_u8 ? 0 : KIN_BYTES_U8) | (is_i8 ? 0 : KIN_BYTES_I8);
}

/* One thread for all that came here together; hardly any where another one has told. */
KIN_DEVICE void tell_misfits(uint32_t *misfits, uint32_t own)
{
    const unsigned here = __activemask();
    const bool not_u8 = __any_sync(here, (own & KIN_BYTES_U8) != 0);
    const bool not_i8 = __any_sync(here, (own & KIN_BYTES_I8) != 0);
    const uint32_t found = (not_u8 ? KIN_BYTES_U8 : 0) | (not_i8 ? KIN_BYTES_I8 : 0);
    const bool leads = (threadIdx.x & 31) == (unsigned)(__ffs((int)here) - 1);
    if (leads && (found & ~*(volatile uint32_t *)misfits) != 0) {
        (void)atomicOr(misfits, found);
    }
}

template <kith_dtype DTYPE, bool ALIGNED>
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    check_rows_kernel(const __grid_constant__ kin_screen_gpu_check job, law l, int32_t team)
{
    const int values = kin_screen_gpu_dtype<DTYPE>::VALUES;
    const kin_screen_gpu_place me = kin_screen_gpu_my_place(team);
    if (me.row >= job.rows.rows) {
        return;
    }
    const char *row = kin_screen_gpu_row(job.rows, me.row);
    const int64_t bytes = (int64_t)job.rows.cols * kin_screen_gpu_dtype<DTYPE>::BYTES;
    const bool asked = DTYPE != KITH_U8 && DTYPE != KITH_I8 && job.misfits != NULL;
    int32_t lowest = INT32_MAX;
    range seen = {0.0F, 0.0F, true};
#pragma unroll 4
    for (int64_t at = (int64_t)me.lane * KIN_SCREEN_GPU_CHUNK; at < bytes;
         at += (int64_t)team * KIN_SCREEN_GPU_CHUNK) {
        const uint4 chunk = kin_screen_gpu_short_chunk<ALIGNED>(row, at, bytes);
        const int32_t col = (int32_t)(at / kin_screen_gpu_dtype<DTYPE>::BYTES);
        for (int i = values - 1; i >= 0; i--) {
            const bool bad = breaks<DTYPE>(l, kin_screen_gpu_chunk_bits<DTYPE>(chunk, i));
            lowest = bad && col + i < lowest ? col + i : lowest;
        }
        for (int i = 0; i < values && asked; i++) {
            widen<DTYPE>(&seen, kin_screen_gpu_chunk_bits<DTYPE>(chunk, i));
        }
    }
    if (asked) {
        tell_misfits(job.misfits, misfits_of(seen));
    }
    if (lowest != INT32_MAX && job.marks != NULL) {
        job.marks[me.row] = 1;
    }
    const uint64_t place =
        (uint64_t)(job.first + me.row) * (uint64_t)job.rows.cols + (uint64_t)lowest;
    if (lowest != INT32_MAX && place < *(volatile uint64_t *)job.bad) {
        (void)atomicMin((unsigned long long *)job.bad, (unsigned long long)place);
    }
}

/* A thread a row: boxes have few columns. */
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    check_box_kernel(const __grid_constant__ kin_screen_gpu_check job)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    bool inside = true;
    for (int32_t c = 0; i < job.rows.rows && c < job.rows.cols; c++) {
        const double x = kin_value(job.rows.dtype, kin_screen_gpu_row(job.rows, i), c);
        const double period = __ldg(job.rows.period + c);
        inside = inside && (!(period > 0.0) || (x >= 0.0 && x < period));
    }
    if (!inside && job.marks != NULL) {
        job.marks[i] = 1;
    }
    if (!inside) {
        (void)atomicMin((unsigned long long *)job.bad,
                        (unsigned long long)(KIN_SCREEN_GPU_OUTSIDE |
                                             (uint64_t)((job.first + i) * job.rows.cols)));
    }
}

int kin_screen_gpu_launch_check(kin_gpu_stream *stream, const kin_screen_gpu_check *job)
{
    const kin_screen_gpu_rows *rows = &job->rows;
    const law l = law_of(rows->dtype, rows->metric);
    const bool eight = rows->dtype == KITH_U8 || rows->dtype == KITH_I8;
    if (rows->rows > 0 && rows->period != NULL) {
        check_box_kernel<<<kin_screen_gpu_team_blocks(rows->rows, 1), KIN_SCREEN_GPU_THREADS, 0,
                           stream->stream>>>(*job);
        KIN_CUDA_TRY_LAUNCH();
    }
    if (rows->rows == 0 || rows->dtype == KITH_U8 || (eight && !l.nonnegative)) {
        return 0; /* always finite, and the sign does not matter */
    }
    const int32_t team = kin_screen_gpu_short_team(kin_screen_gpu_row_bytes(rows));
    const unsigned blocks = kin_screen_gpu_team_blocks(rows->rows, team);
#define LAUNCH_CHECK(DTYPE, ALIGNED)  \
    check_rows_kernel<DTYPE, ALIGNED> \
        <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, l, team)
    KIN_SCREEN_GPU_LAUNCH_DTYPE(
        rows->dtype, kin_screen_gpu_rows_aligned(rows, KIN_SCREEN_GPU_CHUNK), LAUNCH_CHECK)
#undef LAUNCH_CHECK
    return kin_gpu_launched();
}

/* ---- Transforms ----------------------------------------------------------------------------- */

/* ((0+4)+(2+6))+((1+5)+(3+7)) over eight lanes; addition commutes, so all of them have it. */
KIN_DEVICE double lanes_sum(double x)
{
    return kin_screen_gpu_team_sum(x, KIN_METRIC_LANES);
}

/* A thread is a lane of the canonical sum (metric_canonical.h), so order and bits are those of
 * metric_portable.c. Rows behind the last one repeat it and are not stored. */
template <kith_dtype DTYPE, bool ALIGNED>
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    transform_rows_kernel(const __grid_constant__ kin_screen_gpu_transform job, bool centred)
{
    const kin_screen_gpu_place me = kin_screen_gpu_my_place(KIN_METRIC_LANES);
    const bool stored = me.row < job.rows.rows;
    const char *row = kin_screen_gpu_row(job.rows, stored ? me.row : job.rows.rows - 1);
    const int32_t cols = job.rows.cols;

    double least = kin_screen_gpu_value<DTYPE, ALIGNED>(row, 0);
    double most = least;
#pragma unroll 4
    for (int32_t i = me.lane; i < cols; i += KIN_METRIC_LANES) {
        const double x = kin_screen_gpu_value<DTYPE, ALIGNED>(row, i);
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    for (int offset = KIN_METRIC_LANES / 2; offset > 0; offset >>= 1) {
        const double low = __shfl_xor_sync(KIN_SCREEN_GPU_ALL_LANES, least, offset);
        const double high = __shfl_xor_sync(KIN_SCREEN_GPU_ALL_LANES, most, offset);
        least = low < least ? low : least;
        most = high > most ? high : most;
    }
    const double largest = kin_max(kin_abs(least), kin_abs(most));
    kin_row_transform t = {1.0, 0.0, 0.0, 0.0};
    if (DTYPE == KITH_F64) {
        t.scale = kin_row_scale(largest);
    }
    const bool degenerate = centred ? least == most : largest == 0;
    if (centred) {
        double lane = 0.0;
#pragma unroll 4
        for (int32_t i = me.lane; i < cols; i += KIN_METRIC_LANES) {
            lane = kin_add(lane, kin_mul(kin_screen_gpu_value<DTYPE, ALIGNED>(row, i), t.scale));
        }
        t.shift = kin_row_shift(lanes_sum(lane), cols);
    }
    double lane = 0.0;
#pragma unroll 4
    for (int32_t i = me.lane; i < cols; i += KIN_METRIC_LANES) {
        const double y = kin_row_centre(&t, kin_screen_gpu_value<DTYPE, ALIGNED>(row, i));
        lane = kin_fma(y, y, lane);
    }
    t.gain = kin_row_gain(lanes_sum(lane));
    if (degenerate) {
        t.shift = 0.0;
        t.gain = 0.0;
        t.degenerate = 1.0;
    }
    const bool mine = stored && me.lane == 0;
    if (mine) {
        job.transforms[me.row] = t;
        job.degenerate[me.row] = degenerate ? 1 : 0;
    }
    const unsigned found = __ballot_sync(KIN_SCREEN_GPU_ALL_LANES, mine && degenerate);
    if (found != 0 && (threadIdx.x & (KIN_SCREEN_GPU_WARP - 1)) == 0) {
        (void)atomicAdd((unsigned long long *)job.count, (unsigned long long)__popc(found));
    }
}

int kin_screen_gpu_launch_transform(kin_gpu_stream *stream, const kin_screen_gpu_transform *job)
{
    const kin_screen_gpu_rows *rows = &job->rows;
    if (rows->rows == 0) {
        return 0;
    }
    const bool centred = rows->metric == KITH_CORRELATION;
    const bool aligned = kin_screen_gpu_rows_aligned(rows, kin_value_bytes(rows->dtype));
    const unsigned blocks = kin_screen_gpu_team_blocks(rows->rows, KIN_METRIC_LANES);
#define LAUNCH_TRANSFORM(DTYPE, ALIGNED)  \
    transform_rows_kernel<DTYPE, ALIGNED> \
        <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, centred)
    KIN_SCREEN_GPU_LAUNCH_DTYPE(rows->dtype, aligned, LAUNCH_TRANSFORM)
#undef LAUNCH_TRANSFORM
    return kin_gpu_launched();
}
