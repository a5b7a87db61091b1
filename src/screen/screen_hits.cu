/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. What a radius search found becomes a flat list of (key, query, point), so that the host
 * fetches hits and nothing else.
 *
 *   hits     candidate lists: their places in the flat list are known, since counts are. A team of
 *            eight threads takes RUN consecutive places: it searches the row of the first, then
 *            walks on; keys as in metric_pair.cuh, of integer bounds the cost
 *   within   a matrix of keys: a warp tests 32 keys of a row and reserves the places of those that
 *            are within with one addition to a counter
 *
 * Cost. hits: a row of the corpus and one of the queries (from L1, its neighbours in the list have
 * the same) a place. within: 8 bytes read a pair. Limits: sets hold no degenerate rows, so no key
 * is made for them here. */
#include "gpu/gpu_stream.cuh"
#include "metric/metric_pair.cuh"
#include "screen/screen_list.cuh"

enum {
    THREADS = 256,
    RUN = 16,
    TEAMS = 32 / KIN_METRIC_LANES, /* of a warp */
    BLOCKS_A_PROCESSOR = 32
};

/* Steps that stand for no metric: keys are costs. */
#define COSTS KITH_METRIC_DEFAULT

/* The row whose places [places[row], places[row + 1]) contain `place`. */
static __device__ __forceinline__ int64_t row_of(const kin_screen_gpu_hits &job, int64_t place)
{
    int64_t low = 0;
    int64_t high = job.rows; /* places[low] <= place < places[high] */
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (job.places[middle] <= place) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* All threads of the warp take part. */
template <kith_metric STEP, bool TRANSFORMS>
static __device__ __forceinline__ double key_of(const kin_screen_gpu_hits &job, uint32_t query,
                                                uint32_t point)
{
    const kin_screen_gpu_rows &q = job.set_rows;
    const kin_screen_gpu_rows &c = job.cols_rows;
    const char *own = (const char *)q.data + (int64_t)query * q.stride_bytes;
    const char *other = (const char *)c.data + (int64_t)point * c.stride_bytes;
    kin_row_transform of_own = {};
    kin_row_transform of_other = {};
    if (TRANSFORMS) {
        of_own = q.transforms[query];
        of_other = c.transforms[point];
    }
    double sum = 0;
#pragma unroll 4
    for (int32_t i = (int32_t)threadIdx.x % KIN_METRIC_LANES; i < c.cols; i += KIN_METRIC_LANES) {
        const double x = kin_value(q.dtype, own, i);
        const double y = kin_value(c.dtype, other, i);
        sum = kin_pair_step<STEP>(sum, TRANSFORMS ? kin_row_apply(&of_own, x) : x,
                                  TRANSFORMS ? kin_row_apply(&of_other, y) : y);
    }
    return kin_pair_key<STEP>(c.metric, kin_pair_sum<STEP>(sum), c.cols);
}

/* The key that an exact cost is: key_of_cost of the CPU engine. */
static __device__ __forceinline__ double key_of_word(const kin_screen_gpu_hits &job, uint64_t word)
{
    const double cost = list_cost(KIN_SCREEN_GPU_S8, (uint32_t)(word >> 32));
    return job.cols_rows.metric == KITH_INNER_PRODUCT ? cost / 2 : cost;
}

template <kith_metric STEP, bool TRANSFORMS>
static __global__ void __launch_bounds__(THREADS)
    hits_kernel(const __grid_constant__ kin_screen_gpu_hits job)
{
    const int64_t total = job.total;
    const int64_t warps = (int64_t)gridDim.x * (THREADS / 32);
    const int64_t warp = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    const int64_t team = (int64_t)(threadIdx.x % 32 / KIN_METRIC_LANES);
    for (int64_t base = warp * TEAMS * RUN; base < total; base += warps * TEAMS * RUN) {
        const int64_t first = base + team * RUN;
        int64_t row = row_of(job, min(first, total - 1));
        for (int i = 0; i < RUN; i++) {
            /* A team without work repeats the last place, so that warps stay whole. */
            const int64_t place = min(first + i, total - 1);
            while (job.places[row + 1] <= place) {
                row++;
            }
            const int64_t position = job.row0 + row;
            const uint64_t word =
                job.lists.words[position * job.lists.capacity + place - job.places[row]];
            kin_screen_gpu_hit hit = {0, job.set.ids[position], job.cols_set.ids[(uint32_t)word]};
            if constexpr (STEP == COSTS) {
                hit.key = key_of_word(job, word);
            } else {
                hit.key = key_of<STEP, TRANSFORMS>(job, hit.query, hit.first);
            }
            if (first + i < total && threadIdx.x % KIN_METRIC_LANES == 0) {
                job.hits[place] = hit;
            }
        }
    }
}

static __global__ void __launch_bounds__(THREADS)
    within_kernel(const __grid_constant__ kin_screen_gpu_within job)
{
    const int32_t lane = (int32_t)threadIdx.x % 32;
    const int64_t pieces = (job.columns + 31) / 32;
    const int64_t warps = (int64_t)gridDim.x * (THREADS / 32);
    for (int64_t task = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
         task < job.rows * pieces; task += warps) {
        const int64_t row = task / pieces;
        const int64_t col = task % pieces * 32 + lane;
        const double key = col < job.columns ? job.keys[row * job.pitch + col] : (double)NAN;
        const bool is_hit = key <= job.most[row];
        const uint32_t vote = __ballot_sync(KIN_ALL_LANES, is_hit);
        if (vote == 0) {
            continue;
        }
        unsigned long long begin = 0;
        if (lane == 0) {
            begin = atomicAdd((unsigned long long *)job.count, (unsigned long long)__popc(vote));
        }
        begin = __shfl_sync(KIN_ALL_LANES, begin, 0);
        const int64_t place = (int64_t)begin + __popc(vote & ((1u << lane) - 1));
        if (is_hit && place < job.room) {
            job.hits[place] =
                kin_screen_gpu_hit{key, job.query0 + (uint32_t)row, job.corpus0 + (uint32_t)col};
        }
    }
}

/* ---- Launch --------------------------------------------------------------------------------- */

static unsigned blocks_of(const kin_gpu_stream *stream, int64_t wished)
{
    const int64_t most = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    return (unsigned)(wished < most ? wished : most);
}

template <kith_metric STEP, bool TRANSFORMS>
static int hits_launch(kin_gpu_stream *stream, const kin_screen_gpu_hits *job)
{
    const int64_t a_block = (int64_t)THREADS / KIN_METRIC_LANES * RUN;
    const unsigned blocks = blocks_of(stream, (job->total + a_block - 1) / a_block);
    hits_kernel<STEP, TRANSFORMS><<<blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

int kin_screen_gpu_launch_hits(kin_gpu_stream *stream, const kin_screen_gpu_hits *job)
{
    if (job->total == 0) {
        return 0;
    }
    if (job->set.frame.bound == KIN_BOUND_INTEGER) {
        return hits_launch<COSTS, false>(stream, job);
    }
    if (job->cols_rows.metric == KITH_INNER_PRODUCT) {
        return hits_launch<KITH_INNER_PRODUCT, false>(stream, job);
    }
    return job->cols_rows.transforms != NULL ? hits_launch<KITH_SQEUCLIDEAN, true>(stream, job)
                                             : hits_launch<KITH_SQEUCLIDEAN, false>(stream, job);
}

int kin_screen_gpu_launch_within(kin_gpu_stream *stream, const kin_screen_gpu_within *job)
{
    if (job->rows == 0 || job->columns == 0) {
        return 0;
    }
    const int64_t tasks = job->rows * ((job->columns + 31) / 32);
    const unsigned blocks = blocks_of(stream, (tasks + THREADS / 32 - 1) / (THREADS / 32));
    within_kernel<<<blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}
