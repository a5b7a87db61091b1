/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A warp walks for a query (graph/graph_walk.h); where queries are few, a crew: the warps of
 * a block, of which the first walks, and all weigh (graph_walk.cuh). It keeps the `width` nearest
 * rows that it has met as sorted words in shared memory, and in each step
 *
 *   pick    takes the nearest of them whose links it has not looked at, several at once, so that
 *           all lanes have work, and twice as many in the next step, up to eight: each step waits
 *           for memory twice, and after the first ones nearly all of the list will be looked at
 *   meet    reads their links; who was met lately is left out
 *   weigh   computes canonical keys, a team of eight threads two rows at a time
 *   merge   sorts what is near enough in registers, and merges it into the list in place
 *
 * until there is nobody to pick. Entries come first: they are weighed as they come, and merged when
 * many are near enough. At the end the keys of the first k are computed once more, which
 * words do not hold in full, and decide their order.
 *
 *   word    high half of the double key, ascending << 32 | row << 1 | not looked at yet
 *
 * Who was met lately. A table of rows, each in the place that its hash names, where a later one
 * replaces it: small, and it forgets. A row that was forgotten is weighed again, and is then either
 * in the list, where merge finds its word, or no nearer than the last of it, since lists only get
 * nearer.
 *
 * Why every run gives the same bytes. A walk depends on its own query alone. Where lanes want one
 * place of the table the lowest lane has it. When it picks, its list is the nearest of all that
 * were met, however they were dealt out to warps and merged.
 *
 * Cost. Memory: a row a key, and the links of a row that was picked. An H200 reads 512-byte rows
 * 8e9 times a second. A key of 128 columns takes some 75 instructions of a warp, a fourth of them
 * in double: chips that have few double units (sm_86, sm_89) are slow here.
 *
 * Limits. Rows below 2^31; width up to KIN_GRAPH_GPU_MOST_WIDTH. */
#include "graph/graph_pair.cuh"
#include "graph/graph_walk.cuh"

enum {
    BLOCKS = 5, /* a processor */
    TEAMS = 4,  /* of a warp */
    CREW = 16,
    STAGED = 1024 /* components of a query that shared memory holds */
};

/* Of components, as loads need them (kin_pair_dtype). */
typedef struct dtypes {
    kith_dtype queries;
    kith_dtype points;
} dtypes;

/* ---- weigh ----------------------------------------------------------------------------------- */

/* The high half of a double, ascending as an unsigned number; -0 and +0 have one order. */
static __device__ __forceinline__ uint32_t order_of(double key)
{
    const uint32_t bits = (uint32_t)__double2hiint(key + 0.0);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

/* Components of the query as kin_graph_gpu_components has them. */
static __device__ __forceinline__ void query_components(const kin_graph_gpu_walk &job,
                                                        const walk_shape &s, const walker &w,
                                                        kith_dtype dtype, int32_t first,
                                                        double (&values)[KIN_GRAPH_GPU_UNROLL])
{
    if (s.staged == 0) {
        kin_graph_gpu_components(job.queries, dtype, (uint32_t)w.own, first, values);
        return;
    }
#pragma unroll
    for (int u = 0; u < KIN_GRAPH_GPU_UNROLL; u++) {
        values[u] = w.staged[first + u * KIN_METRIC_LANES];
    }
}

static __device__ __forceinline__ bool is_degenerate(const kin_screen_gpu_rows &rows, int64_t row)
{
    return rows.transforms != NULL && rows.transforms[row].degenerate != 0;
}

/* Canonical keys of two rows, in all threads of a team. */
template <kith_metric STEP>
static __device__ __forceinline__ void keys_of(const kin_graph_gpu_walk &job, const walk_shape &s,
                                               const walker &w, const dtypes &types,
                                               const uint32_t (&rows)[2], double (&keys)[2])
{
    const int32_t lane = (int32_t)threadIdx.x % KIN_METRIC_LANES;
    const int32_t cols = job.points.cols;
    const kin_power power = kin_power_of(job.points.metric);
    double sums[2] = {0, 0};
    if constexpr (kin_pair_is_whole<STEP>) {
        const char *own = (const char *)job.queries.data + w.own * job.queries.stride_bytes;
        for (int c = 0; c < 2; c++) {
            const char *row = (const char *)job.points.data + rows[c] * job.points.stride_bytes;
            keys[c] = kin_pair_whole<STEP>({own, job.queries.dtype}, {row, job.points.dtype}, cols);
        }
        return;
    } else {
        for (int32_t first = 0; first < cols; first += KIN_GRAPH_GPU_BATCH) {
            double q[KIN_GRAPH_GPU_UNROLL];
            double a[KIN_GRAPH_GPU_UNROLL];
            double b[KIN_GRAPH_GPU_UNROLL];
            kin_graph_gpu_components(job.points, types.points, rows[0], first + lane, a);
            kin_graph_gpu_components(job.points, types.points, rows[1], first + lane, b);
            query_components(job, s, w, types.queries, first + lane, q);
#pragma unroll
            for (int u = 0; u < KIN_GRAPH_GPU_UNROLL; u++) {
                sums[0] = kin_pair_step<STEP>(sums[0], q[u], a[u], power);
                sums[1] = kin_pair_step<STEP>(sums[1], q[u], b[u], power);
            }
        }
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const double sum = kin_pair_sum<STEP>(sums[c]);
            const bool degenerate =
                is_degenerate(job.queries, w.own) || is_degenerate(job.points, (int64_t)rows[c]);
            keys[c] =
                degenerate ? KIN_DEGENERATE_KEY : kin_pair_key<STEP>(job.points.metric, sum, cols);
        }
    }
}

/* The scale of rows as given (graph_walk.cuh). */
template <kith_metric STEP> struct keyed {
    const kin_graph_gpu_walk &job;
    const walk_shape &s;
    const dtypes &types;

    __device__ __forceinline__ int32_t weigh(const walker &w, uint64_t last, int32_t turn,
                                             int32_t turns) const
    {
        const int32_t team = kin_graph_gpu_lane() / KIN_METRIC_LANES;
        int32_t kept = w.kept;
        for (int32_t base = turn * 2 * TEAMS; base < w.waiting; base += turns * 2 * TEAMS) {
            const int32_t at[2] = {base + team, base + TEAMS + team};
            /* A team without work repeats the last row, so that warps stay whole. */
            const uint32_t rows[2] = {w.rows[min(at[0], w.waiting - 1)],
                                      w.rows[min(at[1], w.waiting - 1)]};
            double keys[2];
            keys_of<STEP>(job, s, w, types, rows, keys);
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const uint64_t word = kin_graph_word(order_of(keys[c]), rows[c], 1);
                const bool keeps = at[c] < w.waiting && word < last &&
                                   kin_graph_gpu_lane() % KIN_METRIC_LANES == 0;
                kept = walk_keep(job, w, turns > 1, keeps, word, kept);
            }
        }
        return kept;
    }

    __device__ __forceinline__ void call(uint32_t row) const
    {
        walk_call((const char *)job.points.data + (int64_t)row * job.points.stride_bytes,
                  (int64_t)job.points.cols * kin_value_bytes(job.points.dtype));
    }
};

/* ---- The end --------------------------------------------------------------------------------- */

/* Keys of the first `some` of the list. */
template <kith_metric STEP>
static __device__ __forceinline__ void compute_keys(const kin_graph_gpu_walk &job,
                                                    const walk_shape &s, const walker &w,
                                                    const dtypes &types, int32_t some, double *keys)
{
    const int32_t team = kin_graph_gpu_lane() / KIN_METRIC_LANES;
    for (int32_t base = 0; base < some; base += 2 * TEAMS) {
        const int32_t at[2] = {base + team, base + TEAMS + team};
        const uint32_t rows[2] = {kin_graph_position(w.list[min(at[0], some - 1)]),
                                  kin_graph_position(w.list[min(at[1], some - 1)])};
        double pair[2];
        keys_of<STEP>(job, s, w, types, rows, pair);
#pragma unroll
        for (int c = 0; c < 2; c++) {
            if (at[c] < some && kin_graph_gpu_lane() % KIN_METRIC_LANES == 0) {
                keys[at[c]] = pair[c];
            }
        }
    }
    __syncwarp(); /* keys are complete */
}

/* Words of one order may stand in another one than their keys: a place is where their run begins,
 * and how many of it come before. */
static __device__ __forceinline__ int32_t rank_of(const walker &w, const double *keys, int32_t some,
                                                  int32_t i)
{
    const uint32_t order = (uint32_t)(w.list[i] >> 32);
    int32_t rank = i;
    for (int32_t j = i - 1; j >= 0 && (uint32_t)(w.list[j] >> 32) == order; j--) {
        rank -= keys[i] < keys[j] ? 1 : 0; /* rows of a run ascend */
    }
    for (int32_t j = i + 1; j < some && (uint32_t)(w.list[j] >> 32) == order; j++) {
        rank += keys[j] < keys[i] ? 1 : 0;
    }
    return rank;
}

/* The k first, and those behind that have the order of the last of them. */
static __device__ __forceinline__ int32_t contenders(const kin_graph_gpu_walk &job, const walker &w)
{
    if (w.count <= job.k) {
        return w.count;
    }
    const uint64_t order = w.list[job.k - 1] >> 32;
    return walk_place(w.list, w.count, (order + 1) << 32);
}

template <kith_metric STEP>
static __device__ __forceinline__ void finish(const kin_graph_gpu_walk &job, const walk_shape &s,
                                              const walker &w, const dtypes &types, int64_t i)
{
    double *keys = (double *)w.marks;
    const int32_t some = contenders(job, w);
    compute_keys<STEP>(job, s, w, types, some, keys);
    for (int32_t j = kin_graph_gpu_lane(); j < some; j += 32) {
        const int32_t rank = rank_of(w, keys, some, j);
        if (rank < job.k) {
            job.pairs[i * job.k + rank] =
                kin_screen_gpu_pair{keys[j], kin_graph_position(w.list[j]), 0};
        }
    }
    if (kin_graph_gpu_lane() == 0) {
        job.found[i] = min(w.count, job.k);
    }
}

/* ---- A walk ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ void begin(const kin_graph_gpu_walk &job, const walk_shape &s,
                                             kith_dtype dtype, int64_t i, walker &w)
{
    walk_begin(s, job.query0 + i, w);
    for (int32_t first = 0; first < s.staged; first += KIN_GRAPH_GPU_BATCH) {
        double values[KIN_GRAPH_GPU_UNROLL];
        const int32_t at = first + kin_graph_gpu_lane() % KIN_METRIC_LANES;
        kin_graph_gpu_components(job.queries, dtype, (uint32_t)w.own, at, values);
#pragma unroll
        for (int u = 0; u < KIN_GRAPH_GPU_UNROLL; u++) {
            w.staged[at + u * KIN_METRIC_LANES] = values[u];
        }
    }
    __syncwarp();
}

/* Nobody is marked: those that stay are few, and found again in the list. */
template <kith_metric STEP>
static __device__ __forceinline__ void enter(const keyed<STEP> &scale, const walk_shape &s,
                                             walker &w)
{
    const kin_graph_gpu_walk &job = scale.job;
    for (int32_t base = 0; base < job.entry_count; base += s.batch) {
        w.waiting = min(s.batch, job.entry_count - base);
        for (int32_t i = kin_graph_gpu_lane(); i < w.waiting; i += 32) {
            w.rows[i] = __ldg(job.entries + base + i);
        }
        walk_take(scale, s, w, base + s.batch >= job.entry_count);
    }
}

/* Queries first, first + step ... */
template <kith_metric STEP>
static __device__ __forceinline__ void walk_each(const kin_graph_gpu_walk &job, const walk_shape &s,
                                                 walker &w, const dtypes &types, int64_t first,
                                                 int64_t step)
{
    const keyed<STEP> scale = {job, s, types};
    for (int64_t i = first; i < job.count; i += step) {
        begin(job, s, types.queries, i, w);
        enter<STEP>(scale, s, w);
        walk_on(scale, s, job.links, w);
        finish<STEP>(job, s, w, types, i);
    }
    walk_count(w, job.evaluations);
}

template <kith_metric STEP>
static __global__ void __launch_bounds__(WALK_THREADS, BLOCKS)
    walk_kernel(const __grid_constant__ kin_graph_gpu_walk job,
                const __grid_constant__ walk_shape s, const __grid_constant__ dtypes types)
{
    extern __shared__ double shared[];
    const int32_t warp = (int32_t)threadIdx.x / 32;
    walker w = walker_of(s, (char *)shared + (size_t)warp * (size_t)walk_warp_bytes(s));
    walk_each<STEP>(job, s, w, types, (int64_t)blockIdx.x * s.warps + warp,
                    (int64_t)gridDim.x * s.warps);
}

/* A crew a query. */
template <kith_metric STEP>
static __global__ void __launch_bounds__(CREW * 32, 1)
    crew_kernel(const __grid_constant__ kin_graph_gpu_walk job,
                const __grid_constant__ walk_shape s, const __grid_constant__ dtypes types)
{
    extern __shared__ double shared[];
    __shared__ walk_orders told;
    walker w = walker_of(s, (char *)shared);
    w.crew = &told;
    if (threadIdx.x >= 32) {
        walk_serve(keyed<STEP>{job, s, types}, s, w);
        return;
    }
    walk_each<STEP>(job, s, w, types, (int64_t)blockIdx.x, (int64_t)gridDim.x);
    walk_dismiss(w);
}

/* ---- Launch ---------------------------------------------------------------------------------- */

template <kith_metric STEP>
static int walk_launch(kin_gpu_stream *stream, const kin_graph_gpu_walk *job)
{
    const kin_screen_gpu_rows *queries = &job->queries;
    const kin_screen_gpu_rows *points = &job->points;
    const int32_t staged = walk_at_least(points->cols, KIN_GRAPH_GPU_BATCH);
    const walk_shape s = walk_shape_of(stream, job->count, job->width, job->most,
                                       staged <= STAGED ? staged : 0, CREW);
    const dtypes types = {kin_pair_dtype(queries->data, queries->stride_bytes, queries->dtype),
                          kin_pair_dtype(points->data, points->stride_bytes, points->dtype)};
    const auto kernel = s.crew > 0 ? crew_kernel<STEP> : walk_kernel<STEP>;
    return walk_launch_all(stream, s, job->count, BLOCKS, kernel, *job, types);
}

extern "C" int kin_graph_gpu_launch_walk(kin_gpu_stream *stream, const kin_graph_gpu_walk *job)
{
    if (job->count == 0) {
        return 0;
    }
    if (job->width > KIN_GRAPH_GPU_MOST_WIDTH || job->width < job->k || job->most < 1) {
        return (int)cudaErrorInvalidValue;
    }
#define LAUNCH(NAME, ...) \
    case KITH_##NAME:     \
        return walk_launch<KITH_##NAME>(stream, job);
    KIN_PAIR_EACH_STEP(job->points.metric, LAUNCH)
#undef LAUNCH
}
