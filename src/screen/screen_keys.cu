/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Canonical keys of all pairs of a tile of queries and a tile of the corpus. Rows are read in
 * chunks of 32 components, converted to double and transformed once, into shared memory; then every
 * team of eight threads computes the pairs of R queries and 4 points, a thread one lane of each:
 *
 *                     32 points of the corpus
 *                  warp 0   warp 1   ...   warp 7
 *      4 R         [4 pts]  [4 pts]       [4 pts]     team g of a warp: queries g, 4 + g, ...
 *      queries     [4 pts]  [4 pts]       [4 pts]     thread l of it: components i with i mod 8 = l
 *
 * so 4 R accumulators a thread, and R + 4 reads of shared memory serve 4 R steps. At the end the
 * lanes of 4 R pairs are joined by halving: each exchange hands half of the pairs over, so that a
 * thread ends with R / 2 keys after 3.5 R exchanges instead of 12 R.
 *
 * Shared memory. A row takes 32 + 8 doubles, so that teams that read neighbouring rows meet
 * different banks; all teams of a warp read the same points.
 *
 * Why it is right. metric_pair.cuh: a thread is a lane, chunks come in rising order, and what
 * stands behind the last component is 0 on both sides, which adds nothing in any metric.
 *
 * Floor. Double operations a pair and component: 1 product, 2 squares and manhattan, 3 chebyshev,
 * hamming and jaccard, about 14 chi2 (a division), about 60 kl (two divisions and a series). On an
 * H200 (about 1.4e13 double instructions a second) 128 columns of squares are 5e10 pairs a second.
 *
 * Limits. Chips with few double units (sm_86, sm_89) are 32 times slower here. */
#include "gpu/gpu_stream.cuh"
#include "metric/metric_pair.cuh"
#include "screen/screen_kernels.h"

enum {
    THREADS = 256,
    TEAMS = 4, /* of a warp */
    POINTS_A_TEAM = 4,
    POINTS = THREADS / 32 * POINTS_A_TEAM, /* of a tile */
    CHUNK = 32,                            /* components at a time: one a thread of a warp */
    PITCH = CHUNK + KIN_METRIC_LANES
};

/* The rows of one side of a tile. */
typedef struct side {
    const char *data[TEAMS * 8 > POINTS ? TEAMS * 8 : POINTS]; /* NULL: there is no such row */
    kin_row_transform transform[TEAMS * 8 > POINTS ? TEAMS * 8 : POINTS];
} side;

static __device__ void enter_row(side *s, int at, const kin_screen_gpu_rows &rows, int64_t row,
                                 bool exists)
{
    s->data[at] = exists ? (const char *)rows.data + row * rows.stride_bytes : NULL;
    s->transform[at] = kin_row_transform{};
    if (exists && rows.transforms != NULL) {
        s->transform[at] = rows.transforms[row];
    }
}

/* Components first .. first + CHUNK of all rows of a side: a warp a row, a thread a component. */
template <kith_dtype DTYPE>
static __device__ __forceinline__ void
stage_side(const side &s, int count, const kin_screen_gpu_rows &rows, int32_t first, double *values)
{
    const int lane = (int)threadIdx.x % 32;
    const int32_t col = first + lane;
#pragma unroll 4
    for (int at = (int)threadIdx.x / 32; at < count; at += THREADS / 32) {
        double x = 0;
        if (col < rows.cols && s.data[at] != NULL) {
            x = kin_pair_value<DTYPE>(rows.dtype, s.data[at], col);
            x = rows.transforms != NULL ? kin_row_apply(&s.transform[at], x) : x;
        }
        values[at * PITCH + lane] = x;
    }
}

static __device__ __forceinline__ void stage(const side &s, int count,
                                             const kin_screen_gpu_rows &rows, kith_dtype dtype,
                                             int32_t first, double *values)
{
#define STAGE(DTYPE) stage_side<DTYPE>(s, count, rows, first, values)
    KIN_PAIR_EACH_DTYPE(dtype, STAGE)
#undef STAGE
}

/* The lanes of `PAIRS` pairs are joined with those of the thread `away` from this one, which keeps
 * the other half of the pairs. */
template <kith_metric STEP, int PAIRS>
static __device__ __forceinline__ void halve(double *lanes, int away)
{
    const bool upper = ((int)threadIdx.x & away) != 0;
#pragma unroll
    for (int p = 0; p < PAIRS / 2; p++) {
        const double keeps = upper ? lanes[p + PAIRS / 2] : lanes[p];
        const double gives = upper ? lanes[p] : lanes[p + PAIRS / 2];
        lanes[p] = kin_pair_join<STEP>(keeps, __shfl_xor_sync(0xffffffffu, gives, away));
    }
}

template <kith_metric STEP, int R, bool WRAPS>
static __global__ void __launch_bounds__(THREADS, 2)
    keys_kernel(const kin_screen_gpu_keys job, kith_dtype query_dtype, kith_dtype corpus_dtype)
{
    constexpr int QUERIES = TEAMS * R;
    constexpr int PAIRS = R * POINTS_A_TEAM;
    __shared__ double query_values[QUERIES * PITCH];
    __shared__ double point_values[POINTS * PITCH];
    __shared__ side queries;
    __shared__ side points;

    const int64_t query_tiles = (job.query_count + QUERIES - 1) / QUERIES;
    const int64_t query_base = (int64_t)blockIdx.x % query_tiles * QUERIES;
    const int64_t point_base = (int64_t)blockIdx.x / query_tiles * POINTS;
    const int warp = (int)threadIdx.x / 32;
    const int team = (int)threadIdx.x % 32 / KIN_METRIC_LANES;
    const int lane = (int)threadIdx.x % KIN_METRIC_LANES;

    if (threadIdx.x < QUERIES) {
        const int64_t i = query_base + threadIdx.x;
        const bool exists = i < job.query_count;
        const int64_t row = exists && job.query_ids != NULL ? job.query_ids[i] : job.query0 + i;
        enter_row(&queries, (int)threadIdx.x, job.queries, row, exists);
    } else if (threadIdx.x >= THREADS - POINTS) {
        const int at = (int)threadIdx.x - (THREADS - POINTS);
        const int64_t j = point_base + at;
        enter_row(&points, at, job.corpus, job.corpus0 + j, j < job.corpus_count);
    }

    const kin_power power = kin_power_of(job.corpus.metric);
    double lanes[PAIRS];
#pragma unroll
    for (int p = 0; p < PAIRS; p++) {
        lanes[p] = 0;
    }
    const double *query_lane = query_values + team * PITCH + lane;
    const double *point_lane = point_values + warp * POINTS_A_TEAM * PITCH + lane;
    for (int32_t first = 0; first < job.corpus.cols; first += CHUNK) {
        __syncthreads(); /* the rows are known, the last chunk is used up */
        stage(queries, QUERIES, job.queries, query_dtype, first, query_values);
        stage(points, POINTS, job.corpus, corpus_dtype, first, point_values);
        __syncthreads(); /* the chunk is complete */
        const int left = min((int)CHUNK, job.corpus.cols - first);
#pragma unroll 1
        for (int at = 0; at < left; at += KIN_METRIC_LANES) {
            double q[R];
            double c[POINTS_A_TEAM];
            const double period =
                kin_pair_period<WRAPS>(job.corpus.period, first + at + lane, job.corpus.cols);
#pragma unroll
            for (int r = 0; r < R; r++) {
                q[r] = query_lane[r * TEAMS * PITCH + at];
            }
#pragma unroll
            for (int j = 0; j < POINTS_A_TEAM; j++) {
                c[j] = point_lane[j * PITCH + at];
            }
#pragma unroll
            for (int p = 0; p < PAIRS; p++) {
                lanes[p] = kin_pair_step_in<STEP, WRAPS>(lanes[p], q[p / POINTS_A_TEAM],
                                                         c[p % POINTS_A_TEAM], period, power);
            }
        }
    }

    halve<STEP, PAIRS>(lanes, 4);
    halve<STEP, PAIRS / 2>(lanes, 2);
    halve<STEP, PAIRS / 4>(lanes, 1);
#pragma unroll
    for (int n = 0; n < PAIRS / 8; n++) {
        const int p = lane * (PAIRS / 8) + n;
        const int query = p / POINTS_A_TEAM * TEAMS + team;
        const int point = warp * POINTS_A_TEAM + p % POINTS_A_TEAM;
        const int64_t i = query_base + query;
        const int64_t j = point_base + point;
        const bool degenerate =
            queries.transform[query].degenerate != 0 || points.transform[point].degenerate != 0;
        const double key = kin_pair_key<STEP>(job.corpus.metric, lanes[n], job.corpus.cols);
        if (i < job.query_count && j < job.corpus_count) {
            job.keys[i * job.pitch + j] = degenerate ? KIN_DEGENERATE_KEY : key;
        }
    }
}

/* R: as many accumulators as registers hold; metrics with divisions have more use for the registers
 * themselves, and their steps are long. */
template <kith_metric STEP, int R, bool WRAPS>
static int keys_launch(cudaStream_t stream, const kin_screen_gpu_keys *job)
{
    const int64_t tiles = (job->query_count + TEAMS * R - 1) / (TEAMS * R) *
                          ((job->corpus_count + POINTS - 1) / POINTS);
    if (tiles > INT32_MAX) {
        return (int)cudaErrorInvalidConfiguration;
    }
    keys_kernel<STEP, R, WRAPS><<<(unsigned)tiles, THREADS, 0, stream>>>(
        *job, kin_pair_dtype(job->queries.data, job->queries.stride_bytes, job->queries.dtype),
        kin_pair_dtype(job->corpus.data, job->corpus.stride_bytes, job->corpus.dtype));
    return kin_gpu_launched();
}

/* ---- Whole rows ------------------------------------------------------------------------------ */

/* A thread a point, WHOLE_QUERIES queries a block: bits by words, of which a chunk of the queries
 * is in shared memory; of places the query's coordinates and the cosine of its latitude. Counts and
 * keys stay in registers; keys of a query are written side by side. */
enum { WHOLE_QUERIES = 16, WORDS = 4, WORD_BYTES = 8 };

static __device__ __forceinline__ const char *whole_query(const kin_screen_gpu_keys &job, int64_t i)
{
    const int64_t row = job.query_ids != NULL ? (int64_t)job.query_ids[i] : job.query0 + i;
    return (const char *)job.queries.data + row * job.queries.stride_bytes;
}

template <kith_metric METRIC>
static __global__ void __launch_bounds__(THREADS) bits_kernel(const kin_screen_gpu_keys job)
{
    __shared__ uint64_t query_words[WORDS][WHOLE_QUERIES];
    const int64_t tiles = (job.query_count + WHOLE_QUERIES - 1) / WHOLE_QUERIES;
    const int64_t query0 = (int64_t)blockIdx.x % tiles * WHOLE_QUERIES;
    const int64_t j = (int64_t)blockIdx.x / tiles * THREADS + threadIdx.x;
    const bool exists = j < job.corpus_count;
    const int32_t cols = job.corpus.cols;
    const char *row =
        (const char *)job.corpus.data + (job.corpus0 + (exists ? j : 0)) * job.corpus.stride_bytes;
    kin_bit_counts counts[WHOLE_QUERIES] = {};
    for (int32_t first = 0; first < cols; first += WORDS * WORD_BYTES) {
        uint64_t own[WORDS];
        __syncthreads(); /* the last chunk is used up */
        if (threadIdx.x < WORDS * WHOLE_QUERIES) {
            const int64_t i = query0 + threadIdx.x % WHOLE_QUERIES;
            const int32_t at = first + (int32_t)threadIdx.x / WHOLE_QUERIES * WORD_BYTES;
            query_words[threadIdx.x / WHOLE_QUERIES][threadIdx.x % WHOLE_QUERIES] =
                i < job.query_count ? kin_pair_word(whole_query(job, i), at, cols) : 0;
        }
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            own[w] = kin_pair_word(row, first + w * WORD_BYTES, cols);
        }
        __syncthreads(); /* the chunk is complete */
#pragma unroll
        for (int q = 0; q < WHOLE_QUERIES; q++) {
#pragma unroll
            for (int w = 0; w < WORDS; w++) {
                kin_pair_count<METRIC>(&counts[q], query_words[w][q], own[w]);
            }
        }
    }
#pragma unroll
    for (int q = 0; q < WHOLE_QUERIES; q++) {
        if (exists && query0 + q < job.query_count) {
            job.keys[(query0 + q) * job.pitch + j] = kin_bits_key(METRIC, counts[q]);
        }
    }
}

static __global__ void __launch_bounds__(THREADS) haversine_kernel(const kin_screen_gpu_keys job)
{
    __shared__ kin_sphere_place query[WHOLE_QUERIES];
    const int64_t tiles = (job.query_count + WHOLE_QUERIES - 1) / WHOLE_QUERIES;
    const int64_t query0 = (int64_t)blockIdx.x % tiles * WHOLE_QUERIES;
    const int64_t j = (int64_t)blockIdx.x / tiles * THREADS + threadIdx.x;
    const int64_t left = job.query_count - query0;
    if (threadIdx.x < WHOLE_QUERIES && threadIdx.x < left) {
        const char *data = whole_query(job, query0 + threadIdx.x);
        query[threadIdx.x] = kin_sphere_place_of(kin_value(job.queries.dtype, data, 0),
                                                 kin_value(job.queries.dtype, data, 1));
    }
    __syncthreads();
    if (j >= job.corpus_count) {
        return;
    }
    const char *row = (const char *)job.corpus.data + (job.corpus0 + j) * job.corpus.stride_bytes;
    const kin_sphere_place own = kin_sphere_place_of(kin_value(job.corpus.dtype, row, 0),
                                                     kin_value(job.corpus.dtype, row, 1));
#pragma unroll 4
    for (int q = 0; q < WHOLE_QUERIES && q < left; q++) {
        job.keys[(query0 + q) * job.pitch + j] = kin_sphere_key(query[q], own);
    }
}

template <kith_metric METRIC>
static int whole_launch(cudaStream_t stream, const kin_screen_gpu_keys *job)
{
    const int64_t tiles = (job->query_count + WHOLE_QUERIES - 1) / WHOLE_QUERIES *
                          ((job->corpus_count + THREADS - 1) / THREADS);
    if (tiles > INT32_MAX) {
        return (int)cudaErrorInvalidConfiguration;
    }
    if constexpr (METRIC == KITH_HAVERSINE) {
        haversine_kernel<<<(unsigned)tiles, THREADS, 0, stream>>>(*job);
    } else {
        bits_kernel<METRIC><<<(unsigned)tiles, THREADS, 0, stream>>>(*job);
    }
    return kin_gpu_launched();
}

int kin_screen_gpu_launch_keys(kin_gpu_stream *stream, const kin_screen_gpu_keys *job)
{
    if (job->query_count == 0 || job->corpus_count == 0) {
        return 0;
    }
    const cudaStream_t s = stream->stream;
#define KEYS_LAUNCH(NAME, name, at_once) \
    case KITH_##NAME:                    \
        return keys_launch<KITH_##NAME, at_once, false>(s, job);
#define WRAP_LAUNCH(NAME, name, at_once) \
    case KITH_##NAME:                    \
        return keys_launch<KITH_##NAME, at_once, true>(s, job);
#define WHOLE_LAUNCH(NAME, ...) \
    case KITH_##NAME:           \
        return whole_launch<KITH_##NAME>(s, job);
    const kith_metric step = kin_pair_step_of(job->corpus.metric);
    if (job->corpus.period != NULL) {
        switch (step) {
            KIN_WRAP_MAP(WRAP_LAUNCH)
        default:
            return (int)cudaErrorInvalidValue;
        }
    }
    switch (step) {
        KIN_STEP_MAP(KEYS_LAUNCH)
        KIN_WHOLE_MAP(WHOLE_LAUNCH)
    default:
        return (int)cudaErrorInvalidValue;
    }
}
