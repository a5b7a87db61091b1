/* SPDX-License-Identifier: Apache-2.0
 * Rows for a tree: the extremes of their columns, their copies in its units, the order in which
 * queries stand before it. Contract: tree_kernels.h.
 *
 * A thread rounds a row: what a row lost is a sum in the order of its columns, to the last bit the
 * processor's. Rows are short, so the lines that neighbours share stay in the first cache. */
#include "tree/tree_launch.cuh"

#include <cub/device/device_radix_sort.cuh>

enum { BLOCKS_A_PROCESSOR = 8, MOST_BITS = 6 };

/* KITH_DTYPE_NONE: rows that start anywhere, of the dtype that they say. */
template <kith_dtype DTYPE>
KIN_DEVICE double value_at(const kin_screen_gpu_rows &rows, const char *row, int32_t c)
{
    if constexpr (DTYPE == KITH_DTYPE_NONE) {
        return kin_value(rows.dtype, row, c);
    } else {
        return kin_screen_gpu_value<DTYPE, true>(row, c);
    }
}

/* Calls LAUNCH(DTYPE) for aligned rows of a dtype, LAUNCH(KITH_DTYPE_NONE) for all others. */
#define LAUNCH_DTYPE(rows, LAUNCH)                                                                 \
    switch (kin_screen_gpu_rows_aligned(rows, kin_value_bytes((rows)->dtype)) ? (rows)->dtype      \
                                                                              : KITH_DTYPE_NONE) { \
    case KITH_F64:                                                                                 \
        LAUNCH(KITH_F64);                                                                          \
        break;                                                                                     \
    case KITH_F32:                                                                                 \
        LAUNCH(KITH_F32);                                                                          \
        break;                                                                                     \
    case KITH_F16:                                                                                 \
        LAUNCH(KITH_F16);                                                                          \
        break;                                                                                     \
    case KITH_BF16:                                                                                \
        LAUNCH(KITH_BF16);                                                                         \
        break;                                                                                     \
    case KITH_U8:                                                                                  \
        LAUNCH(KITH_U8);                                                                           \
        break;                                                                                     \
    case KITH_I8:                                                                                  \
        LAUNCH(KITH_I8);                                                                           \
        break;                                                                                     \
    case KITH_DTYPE_NONE:                                                                          \
        LAUNCH(KITH_DTYPE_NONE);                                                                   \
        break;                                                                                     \
    }

/* A place's vector. */
KIN_DEVICE void place_at(const kin_screen_gpu_rows &rows, const char *row,
                         double vector[KIN_PLACE_COLS])
{
    vector[0] = kin_value(rows.dtype, row, 0);
    vector[1] = kin_value(rows.dtype, row, 1);
    kin_place_turn(vector);
}

/* ---- Extremes -------------------------------------------------------------------------------- */

/* Integers that rise like the numbers, and back: the same bits are turned. */
KIN_DEVICE long long turned(long long bits)
{
    return bits < 0 ? bits ^ 0x7fffffffffffffffLL : bits;
}

static __global__ void begin_extremes_kernel(const __grid_constant__ kin_tree_gpu_measure job)
{
    const int32_t c = (int32_t)threadIdx.x;
    ((long long *)job.low)[c] = turned(__double_as_longlong(INFINITY));
    ((long long *)job.high)[c] = turned(__double_as_longlong(-INFINITY));
}

/* A thread keeps to its column, neighbours take neighbouring columns of a row. PLACES: those of its
 * vector. */
template <kith_dtype DTYPE, bool PLACES>
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    find_extremes_kernel(const __grid_constant__ kin_tree_gpu_measure job)
{
    __shared__ double lows[KIN_SCREEN_GPU_THREADS];
    __shared__ double highs[KIN_SCREEN_GPU_THREADS];
    const int32_t cols = PLACES ? (int32_t)KIN_PLACE_COLS : job.rows.cols;
    const int32_t tall = KIN_SCREEN_GPU_THREADS / cols; /* rows at a time */
    const int32_t mine = (int32_t)threadIdx.x / cols;
    const int32_t c = (int32_t)threadIdx.x % cols;
    double low = INFINITY;
    double high = -INFINITY;
    for (int64_t i = (int64_t)blockIdx.x * tall + mine; mine < tall && i < job.count;
         i += (int64_t)gridDim.x * tall) {
        const char *row = kin_screen_gpu_row(job.rows, job.ids != NULL ? (int64_t)job.ids[i] : i);
        double value;
        if constexpr (PLACES) {
            double vector[KIN_PLACE_COLS];
            place_at(job.rows, row, vector);
            value = c == 0 ? vector[0] : c == 1 ? vector[1] : vector[2];
        } else {
            value = value_at<DTYPE>(job.rows, row, c);
        }
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    lows[threadIdx.x] = low;
    highs[threadIdx.x] = high;
    __syncthreads();
    if (mine != 0) {
        return;
    }
    for (int32_t other = 1; other < tall; other++) {
        low = fmin(low, lows[other * cols + c]);
        high = fmax(high, highs[other * cols + c]);
    }
    (void)atomicMin((long long *)job.low + c, turned(__double_as_longlong(low)));
    (void)atomicMax((long long *)job.high + c, turned(__double_as_longlong(high)));
}

static __global__ void end_extremes_kernel(const __grid_constant__ kin_tree_gpu_measure job)
{
    const int32_t c = (int32_t)threadIdx.x;
    job.low[c] = __longlong_as_double(turned(((const long long *)job.low)[c]));
    job.high[c] = __longlong_as_double(turned(((const long long *)job.high)[c]));
}

int kin_tree_launch_measure(kin_gpu_stream *stream, const kin_tree_gpu_measure *job)
{
    const bool places = kin_place_has(job->rows.metric);
    const int32_t cols = kin_place_cols(job->rows.metric, job->rows.cols);
    if (cols < 1 || cols > KIN_TREE_GPU_MOST_COLS) {
        return (int)cudaErrorInvalidValue;
    }
    const int64_t tall = KIN_SCREEN_GPU_THREADS / cols;
    const int64_t most = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    const int64_t wanted = (job->count + tall - 1) / tall;
    const unsigned blocks = (unsigned)(wanted < most ? wanted : most);
    begin_extremes_kernel<<<1, (unsigned)cols, 0, stream->stream>>>(*job);
    KIN_CUDA_TRY_LAUNCH();
    if (blocks > 0 && places) {
        find_extremes_kernel<KITH_DTYPE_NONE, true>
            <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job);
        KIN_CUDA_TRY_LAUNCH();
    } else if (blocks > 0) {
#define LAUNCH(DTYPE) \
    find_extremes_kernel<DTYPE, false><<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job)
        LAUNCH_DTYPE(&job->rows, LAUNCH)
#undef LAUNCH
        KIN_CUDA_TRY_LAUNCH();
    }
    end_extremes_kernel<<<1, (unsigned)cols, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

/* ---- Rounding -------------------------------------------------------------------------------- */

/* A place, in the units of a tree of vectors: what it lost. */
KIN_DEVICE double round_place(const kin_tree_gpu_round &job, const char *row, float4 *out)
{
    const double lost_before =
        kin_place_lost(kin_value(job.rows.dtype, row, 0), kin_value(job.rows.dtype, row, 1));
    double vector[KIN_PLACE_COLS];
    float four[KIN_TREE_GPU_WIDE] = {0.0F, 0.0F, 0.0F, 0.0F};
    double sum = 0.0;
    place_at(job.rows, row, vector);
#pragma unroll
    for (int c = 0; c < KIN_PLACE_COLS; c++) {
        double lost = 0.0;
        four[c] = kin_tree_round_value(vector[c], __ldg(job.shift + c), job.scale, &lost);
        sum = kin_tree_lost_add(job.norm, sum, lost);
    }
    *out = make_float4(four[0], four[1], four[2], four[3]);
    return kin_add(kin_tree_lost_whole(job.norm, sum), kin_mul(lost_before, job.scale));
}

template <kith_dtype DTYPE>
KIN_DEVICE double round_row(const kin_tree_gpu_round &job, const char *row, float4 *out)
{
    double sum = 0.0;
    for (int32_t c = 0; c < job.wide; c += KIN_TREE_GPU_WIDE) {
        float four[KIN_TREE_GPU_WIDE] = {0.0F, 0.0F, 0.0F, 0.0F};
#pragma unroll
        for (int j = 0; j < KIN_TREE_GPU_WIDE; j++) {
            if (c + j < job.rows.cols) {
                double lost = 0.0;
                four[j] = kin_tree_round_value(value_at<DTYPE>(job.rows, row, c + j),
                                               __ldg(job.shift + c + j), job.scale, &lost);
                sum = kin_tree_lost_add(job.norm, sum, lost);
            }
        }
        out[c / KIN_TREE_GPU_WIDE] = make_float4(four[0], four[1], four[2], four[3]);
    }
    return kin_add(kin_tree_lost_whole(job.norm, sum), job.slack);
}

template <kith_dtype DTYPE, bool PLACES>
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    round_rows_kernel(const __grid_constant__ kin_tree_gpu_round job)
{
    const int64_t i = kin_tree_gpu_my_thread();
    float kept = 0.0F;
    if (i < job.count) {
        const char *row = kin_screen_gpu_row(job.rows, job.ids != NULL ? (int64_t)job.ids[i] : i);
        float4 *out = (float4 *)(job.out + i * job.wide);
        const double lost = PLACES ? round_place(job, row, out) : round_row<DTYPE>(job, row, out);
        kept = kin_tree_lost_kept(lost);
        job.lost[i] = kept;
    }
    if (job.most_lost != NULL) {
        kin_screen_gpu_raise(job.most_lost, kept);
    }
}

int kin_tree_launch_round(kin_gpu_stream *stream, const kin_tree_gpu_round *job)
{
    const unsigned blocks = kin_tree_gpu_blocks_for(job->count, KIN_SCREEN_GPU_THREADS);
    if (job->count == 0) {
        return 0;
    }
    if (kin_place_has(job->rows.metric)) {
        round_rows_kernel<KITH_DTYPE_NONE, true>
            <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job);
        return kin_gpu_launched();
    }
#define LAUNCH(DTYPE) \
    round_rows_kernel<DTYPE, false><<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job)
    LAUNCH_DTYPE(&job->rows, LAUNCH)
#undef LAUNCH
    return kin_gpu_launched();
}

/* ---- Order of queries ------------------------------------------------------------------------ */

static int sort_bytes(int64_t count, size_t *bytes)
{
    *bytes = 0;
    KIN_CUDA_TRY(cub::DeviceRadixSort::SortPairs((void *)NULL, *bytes, (const uint32_t *)NULL,
                                                 (uint32_t *)NULL, (const uint32_t *)NULL,
                                                 (uint32_t *)NULL, count, 0, 32));
    return 0;
}

typedef struct order_scratch {
    uint32_t *keys;
    uint32_t *sorted;
    uint32_t *queries;
    void *radix;
    size_t radix_bytes;
} order_scratch;

/* Which of 2^bits cells of a leaf's box a row is in: the `bits` widest columns are halved, the
 * widest one first, of equal ones the first. bits is at most the number of columns. */
KIN_DEVICE uint32_t cell_of(const kin_tree_gpu &tree, uint32_t node, const float *row, int32_t bits)
{
    const float *low = tree.boxes + (int64_t)node * 2 * tree.wide;
    const float *high = low + tree.wide;
    uint32_t cell = 0;
    float last = INFINITY; /* width and number of the column that was halved last */
    int32_t before = -1;
    for (int32_t bit = 0; bit < bits; bit++) {
        float widest = -1.0F;
        int32_t column = 0;
        for (int32_t c = 0; c < tree.cols; c++) {
            const float width = __ldg(high + c) - __ldg(low + c);
            const bool left = width < last || (width == last && c > before);
            column = left && width > widest ? c : column;
            widest = left && width > widest ? width : widest;
        }
        const float middle = 0.5F * __ldg(low + column) + 0.5F * __ldg(high + column);
        cell = 2 * cell + (row[column] < middle ? 0 : 1);
        last = widest;
        before = column;
    }
    return cell;
}

/* keys NULL: a tree of one leaf and cell, whose order is that of the queries. */
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    find_cells_kernel(const __grid_constant__ kin_tree_gpu_order job, int32_t bits, uint32_t *keys,
                      uint32_t *queries)
{
    const int64_t i = kin_tree_gpu_my_thread();
    if (i >= job.count) {
        return;
    }
    queries[i] = (uint32_t)i;
    if (keys == NULL) {
        return;
    }
    const float *row = job.rows + i * job.tree.wide;
    uint32_t node = 1;
    for (int32_t level = 0; level < job.tree.height; level++) {
        const float split = __ldg(job.tree.splits + node);
        node = 2 * node + (row[__ldg(job.tree.planes + node)] < split ? 0 : 1);
    }
    keys[i] = (node - (1u << job.tree.height)) << bits | cell_of(job.tree, node, row, bits);
}

/* So many that about a packet falls into a cell. */
static int32_t cell_bits(const kin_tree_gpu_order *job)
{
    const int64_t leaves = (int64_t)1 << job->tree.height;
    const int32_t most = job->tree.cols < MOST_BITS ? job->tree.cols : MOST_BITS;
    int32_t bits = 0;
    while (bits < most && leaves * KIN_TREE_GPU_PACKET << bits < job->count) {
        bits += 1;
    }
    return bits;
}

int kin_tree_launch_order(kin_gpu_stream *stream, const kin_tree_gpu_order *job)
{
    const size_t array = ((size_t)job->count * sizeof(uint32_t) + 255) / 256 * 256;
    order_scratch scratch;
    const int laid_out = sort_bytes(job->count, &scratch.radix_bytes);
    if (laid_out != 0) {
        return laid_out;
    }
    if (job->scratch == NULL) {
        *job->scratch_bytes = 3 * array + scratch.radix_bytes;
        return 0;
    }
    if (job->count == 0) {
        return 0;
    }
    unsigned char *base = (unsigned char *)job->scratch;
    scratch.keys = (uint32_t *)base;
    scratch.sorted = (uint32_t *)(base + array);
    scratch.queries = (uint32_t *)(base + 2 * array);
    scratch.radix = base + 3 * array;
    const int32_t bits = cell_bits(job);
    const bool alone = job->tree.height + bits == 0;
    find_cells_kernel<<<kin_tree_gpu_blocks_for(job->count, KIN_SCREEN_GPU_THREADS),
                        KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(
        *job, bits, alone ? NULL : scratch.keys, alone ? job->order : scratch.queries);
    KIN_CUDA_TRY_LAUNCH();
    if (!alone) {
        KIN_CUDA_TRY(cub::DeviceRadixSort::SortPairs(
            scratch.radix, scratch.radix_bytes, scratch.keys, scratch.sorted, scratch.queries,
            job->order, job->count, 0, job->tree.height + bits, stream->stream));
    }
    return kin_gpu_launched();
}
