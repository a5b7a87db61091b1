/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Cross-matching of rows as given: a block takes a point, a team of eight threads a pair of
 * its samples at a time, by canonical keys (metric_pair.cuh). Rows are read where they stand; the
 * few of a point stay in the cache. Kullback-Leibler alone is not symmetric: a team then computes
 * both directions of a pair, and each end gets its own.
 *
 * Pairs of NEW samples lie on circles: number f is i = f mod n and the sample f / n + 1 behind it,
 * modulo n, which meets each of the n (n - 1) / 2 pairs once.
 *
 * Behind the last component both rows are 0, which adds nothing in any metric. */
#include "gpu/gpu_stream.cuh"
#include "graph/graph_pair.cuh"
#include "screen/screen_cost.cuh"

enum {
    THREADS = 256,
    TEAMS = THREADS / KIN_METRIC_LANES,
    TEAMS_A_WARP = 32 / KIN_METRIC_LANES,
    AHEAD = 4, /* components that a thread reads at once */
    MOST = KIN_GRAPH_GPU_MOST_SAMPLES
};

/* Samples of a point: NEW from 0, OLD from MOST on. */
typedef struct shared_state {
    uint32_t id[2 * MOST];       /* positions */
    uint64_t last[2 * MOST];     /* words of lists */
    uint64_t near_new[2 * MOST]; /* offers to each sample, EMPTY where there is none */
    uint64_t near_old[2 * MOST];
    bool below[2 * MOST]; /* where sets are split: of the one below */
} shared_state;

/* A row and its transform. */
typedef struct row_given {
    const char *data;
    kin_row_transform transform;
} row_given;

static __device__ __forceinline__ row_given row_of(const kin_graph_gpu_points &points,
                                                   uint32_t position)
{
    const int64_t row = points.set.ids[position];
    row_given r = {(const char *)points.rows.data + row * points.rows.stride_bytes, {}};
    if (points.rows.transforms != NULL) {
        r.transform = points.rows.transforms[row];
    }
    return r;
}

/* Components first, first + 8, ...; 0 behind the last one. */
static __device__ __forceinline__ void read(const kin_screen_gpu_rows &rows, kith_dtype dtype,
                                            const row_given &row, int32_t first,
                                            double (&values)[AHEAD])
{
#define READ(DTYPE)                                                                         \
    _Pragma("unroll") for (int i = 0; i < AHEAD; i++)                                       \
    {                                                                                       \
        const int32_t col = first + i * KIN_METRIC_LANES;                                   \
        values[i] = col < rows.cols ? kin_pair_value<DTYPE>(rows.dtype, row.data, col) : 0; \
    }
    KIN_PAIR_EACH_DTYPE(dtype, READ)
#undef READ
    if (rows.transforms != NULL) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const bool is_there = first + i * KIN_METRIC_LANES < rows.cols;
            values[i] = is_there ? kin_row_apply(&row.transform, values[i]) : 0;
        }
    }
}

/* Costs of a pair, in all threads of its team: what the first row's list wants for the second one,
 * and the other way round. */
template <kith_metric STEP>
static __device__ __forceinline__ float2 costs_of(const kin_graph_gpu_points &points,
                                                  kith_dtype dtype, uint32_t a, uint32_t b)
{
    const kin_screen_gpu_rows &rows = points.rows;
    const row_given first = row_of(points, a);
    const row_given second = row_of(points, b);
    const kin_power power = kin_power_of(rows.metric);
    double there = 0;
    double back = 0;
    if constexpr (kin_pair_is_whole<STEP>) {
        const float cost = __double2float_rn(
            kin_pair_whole<STEP>({first.data, rows.dtype}, {second.data, rows.dtype}, rows.cols));
        return make_float2(cost, cost);
    } else {
        for (int32_t col = (int32_t)threadIdx.x % KIN_METRIC_LANES; col < rows.cols;
             col += AHEAD * KIN_METRIC_LANES) {
            double q[AHEAD];
            double c[AHEAD];
            read(rows, dtype, first, col, q);
            read(rows, dtype, second, col, c);
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                there = kin_pair_step<STEP>(there, q[i], c[i], power);
                if (STEP == KITH_KL) {
                    back = kin_pair_step<STEP>(back, c[i], q[i]);
                }
            }
        }
        double key = kin_pair_key<STEP>(rows.metric, kin_pair_sum<STEP>(there), rows.cols);
        if (first.transform.degenerate != 0 || second.transform.degenerate != 0) {
            key = KIN_DEGENERATE_KEY;
        }
        const double other =
            STEP == KITH_KL ? kin_pair_key<STEP>(rows.metric, kin_pair_sum<STEP>(back), rows.cols)
                            : key;
        return make_float2(__double2float_rn(key), __double2float_rn(other));
    }
}

static __device__ __forceinline__ uint32_t order_of(float cost)
{
    kin_screen_gpu_word word;
    word.f = cost;
    return kin_screen_gpu_order<KIN_SCREEN_GPU_F16>(word);
}

/* Places of pair number `at`. */
static __device__ __forceinline__ int2 pair_of(int32_t at, int32_t news, int32_t olds)
{
    if (at < news * olds) {
        return make_int2(at / olds, MOST + at % olds);
    }
    const int32_t f = at - news * olds;
    return make_int2(f % news, (f % news + f / news + 1) % news);
}

/* The sample at `other`, of this cost, for the one at `to`. */
static __device__ __forceinline__ void meet(const kin_graph_gpu_join &job, shared_state *s,
                                            int32_t to, int32_t other, float cost)
{
    const uint32_t order = order_of(cost);
    if (job.all != 0) {
        join_offer(job, s->id[to], s->last[to], order, s->id[other]);
    } else {
        uint64_t *near = other < MOST ? s->near_new : s->near_old;
        (void)atomicMin((unsigned long long *)&near[to],
                        (unsigned long long)kin_graph_word(order, s->id[other], 1));
    }
}

static __device__ __forceinline__ void offer_nearest(const kin_graph_gpu_join &job,
                                                     const shared_state &s, uint64_t word)
{
    if (word != KIN_GRAPH_EMPTY) {
        join_offer(job, s.id[threadIdx.x], s.last[threadIdx.x], (uint32_t)(word >> 32),
                   kin_graph_position(word));
    }
}

static __device__ __forceinline__ bool enter(const kin_graph_gpu_join &job, shared_state *s,
                                             int64_t point, int32_t news, int32_t olds)
{
    const bool old = threadIdx.x >= MOST;
    const int32_t place = (int32_t)threadIdx.x % MOST;
    const bool is_there = threadIdx.x < 2 * MOST && place < (old ? olds : news);
    if (is_there) {
        const int64_t row = point * (job.samples.forward + job.samples.reverse);
        const uint32_t id = (old ? job.samples.old_ids : job.samples.new_ids)[row + place];
        s->id[threadIdx.x] = id;
        s->last[threadIdx.x] = *join_last(job, id);
        s->below[threadIdx.x] = job.split > 0 && job.points.set.ids[id] < job.split;
        s->near_new[threadIdx.x] = KIN_GRAPH_EMPTY;
        s->near_old[threadIdx.x] = KIN_GRAPH_EMPTY;
    }
    return is_there;
}

template <kith_metric STEP>
static __global__ void __launch_bounds__(THREADS)
    join_direct_kernel(const __grid_constant__ kin_graph_gpu_join job, kith_dtype dtype)
{
    __shared__ shared_state s;
    const int32_t team = (int32_t)threadIdx.x / KIN_METRIC_LANES;
    const int32_t of_warp = team % TEAMS_A_WARP;
    const bool leads = threadIdx.x % KIN_METRIC_LANES == 0;
    uint64_t evaluations = 0; /* of this thread */
    for (int64_t point = job.graph.first + blockIdx.x; point < kin_graph_gpu_behind(&job.graph);
         point += gridDim.x) {
        const int32_t news = job.samples.new_counts[point];
        const int32_t olds = job.samples.old_counts[point];
        const int32_t pairs = news * (news - 1) / 2 + news * olds;
        if (pairs == 0) {
            continue;
        }
        const bool has_sample = enter(job, &s, point, news, olds);
        __syncthreads();
        for (int32_t first = team - of_warp; first < pairs; first += TEAMS) {
            const bool is_there = first + of_warp < pairs; /* the whole warp computes */
            const int2 at = pair_of(is_there ? first + of_warp : 0, news, olds);
            const bool meets = is_there && (job.split == 0 || s.below[at.x] != s.below[at.y]);
            if (!__any_sync(0xffffffffu, meets)) {
                continue;
            }
            const float2 costs = costs_of<STEP>(job.points, dtype, s.id[at.x], s.id[at.y]);
            if (meets && leads) {
                meet(job, &s, at.x, at.y, costs.x);
                meet(job, &s, at.y, at.x, costs.y);
                evaluations += STEP == KITH_KL ? 2 : 1;
            }
        }
        __syncthreads();
        if (has_sample) {
            offer_nearest(job, s, s.near_new[threadIdx.x]);
            offer_nearest(job, s, s.near_old[threadIdx.x]);
        }
        __syncthreads(); /* before the next point's samples are entered */
    }
    if (evaluations != 0) {
        (void)atomicAdd((unsigned long long *)job.evaluations, (unsigned long long)evaluations);
    }
}

template <kith_metric STEP> static int launch(kin_gpu_stream *stream, const kin_graph_gpu_join *job)
{
    int blocks = 0;
    KIN_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, join_direct_kernel<STEP>,
                                                               THREADS, 0));
    if (blocks < 1) {
        return (int)cudaErrorInvalidConfiguration;
    }
    const int64_t most = (int64_t)stream->processors * blocks;
    const int64_t points = kin_graph_gpu_behind(&job->graph) - job->graph.first;
    const kin_screen_gpu_rows *rows = &job->points.rows;
    join_direct_kernel<STEP>
        <<<(unsigned)(points < most ? points : most), THREADS, 0, stream->stream>>>(
            *job, kin_pair_dtype(rows->data, rows->stride_bytes, rows->dtype));
    return kin_gpu_launched();
}

int kin_graph_gpu_join_direct(kin_gpu_stream *stream, const kin_graph_gpu_join *job)
{
#define LAUNCH(NAME, ...) \
    case KITH_##NAME:     \
        return launch<KITH_##NAME>(stream, job);
    KIN_PAIR_EACH_STEP(job->points.rows.metric, LAUNCH)
#undef LAUNCH
}
