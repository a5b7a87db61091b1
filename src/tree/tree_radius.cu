/* SPDX-License-Identifier: Apache-2.0
 * All within a radius. Contract: tree_kernels.h, kin_tree_gpu_radius.
 *
 * Idea. The walk of packets (tree_walk.cuh) with limits that are known from the start and never
 * shrink, so that nothing is asked twice. Points that pass the limit in float32 get their canonical
 * key by the lane that holds them, and what is within the radius by it is counted, or written
 * behind what the query has already: a ballot tells each lane its slot. Both walks find the same,
 * so lists need no spare room, however long they are.
 *
 *        counts: walk -> sums -> offsets: walk again -> each list sorted
 *
 * Why it is right. tree_search.c: the limit keeps every pair whose canonical distance is within the
 * radius, and the canonical distance itself decides.
 *
 * Cost. Of 30 neighbours in three columns a query computes some 40 keys, twice; rows of the corpus
 * that neighbours in the order ask for come from the caches. */
#include "metric/metric_pair.cuh"
#include "screen/screen_sort.cuh"
#include "tree/tree_launch.cuh"
#include "tree/tree_walk.cuh"

#include <cub/block/block_scan.cuh>

/* What stands in for lists. By lane, but for the job. EXACT: rows are as wide as the kernel. WRAPS:
 * some columns have a period. */
template <kith_metric STEP, kith_dtype DTYPE, bool EXACT, bool WRAPS> struct kin_tree_gpu_finder {
    const kin_tree_gpu_radius *job;
    int64_t at; /* what the query has found; where it writes, the slot of the next one */
    double radius;
    uint32_t query; /* its row */
    uint32_t keys;
};

template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
struct kin_tree_gpu_exact<kin_tree_gpu_finder<STEP, DTYPE, true, WRAPS>> {
    enum { YES = 1 };
};
template <kith_metric STEP, kith_dtype DTYPE, bool EXACT>
struct kin_tree_gpu_wraps<kin_tree_gpu_finder<STEP, DTYPE, EXACT, true>> {
    enum { YES = 1 };
};

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Of a row of the queries and one of the corpus, by one thread (metric_canonical.h). */
template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
TREE_DEVICE double radius_key(const kin_tree_gpu_radius &job, uint32_t query, uint32_t id)
{
    const char *q = (const char *)job.queries.data + (int64_t)query * job.queries.stride_bytes;
    const char *x = (const char *)job.corpus.data + (int64_t)id * job.corpus.stride_bytes;
    if constexpr (STEP == KITH_HAVERSINE) {
        return kin_sphere_key(kin_pair_sphere<DTYPE>(job.queries.dtype, q),
                              kin_pair_sphere<DTYPE>(job.corpus.dtype, x));
    }
    const int32_t cols = job.corpus.cols;
    double sums[KIN_METRIC_LANES] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll 1
    for (int32_t c = 0; c < cols; c += KIN_METRIC_LANES) {
#pragma unroll
        for (int j = 0; j < KIN_METRIC_LANES; j++) {
            if (c + j < cols) {
                sums[j] = kin_pair_step_in<STEP, WRAPS>(
                    sums[j], kin_pair_value<DTYPE>(job.queries.dtype, q, c + j),
                    kin_pair_value<DTYPE>(job.corpus.dtype, x, c + j),
                    kin_pair_period<WRAPS>(job.corpus.period, c + j, cols));
            }
        }
    }
    const double sum = STEP == KITH_CHEBYSHEV ? kin_lanes_max(sums) : kin_lanes_sum(sums);
    return kin_pair_key<STEP>(job.corpus.metric, sum, cols);
}

/* kin_within_distance, without what the metrics of a kernel do not need. */
template <kith_metric STEP> TREE_DEVICE double radius_distance(kith_metric metric, double key)
{
    if constexpr (STEP == KITH_HAVERSINE) {
        return kin_within_distance(metric, key);
    }
    return metric == KITH_EUCLIDEAN ? kin_sqrt(key) : key;
}

/* ---- What passes ----------------------------------------------------------------------------- */

/* The ids of each lane's group (KITH_ID_NONE: none) that query q, whose row this is, may have. */
template <typename FINDER>
TREE_DEVICE void radius_take(FINDER &s, int32_t q, uint32_t row, uint32_t id, double key)
{
    const kin_tree_gpu_radius &job = *s.job;
    const uint32_t before = (1u << tree_lane_id()) - 1;
    int64_t at = __shfl_sync(TREE_ALL_LANES, s.at, q);
    for (;;) {
        const uint32_t found = __ballot_sync(TREE_ALL_LANES, id != KITH_ID_NONE);
        if (found == 0) {
            break;
        }
        if (job.offsets != NULL && id != KITH_ID_NONE) {
            const int64_t slot = at + __popc(found & before);
            job.ids[slot] = id;
            job.keys[slot] = key;
        }
        at += __popc(found);
        id = kin_within_following(&job.within, row, id);
    }
    s.at = tree_lane_id() == q ? at : s.at;
}

template <int POINTS, kith_metric STEP, kith_dtype DTYPE, bool EXACT, bool WRAPS>
TREE_DEVICE void tree_offer(kin_tree_gpu_finder<STEP, DTYPE, EXACT, WRAPS> &s,
                            kin_tree_gpu_lane &own, int32_t q, const float (&values)[POINTS],
                            uint32_t position)
{
    const kin_tree_gpu_radius &job = *s.job;
    const float limit = __shfl_sync(TREE_ALL_LANES, own.keep, q);
    const uint32_t row = __shfl_sync(TREE_ALL_LANES, s.query, q);
    const double radius = __shfl_sync(TREE_ALL_LANES, s.radius, q);
    if (job.counts == NULL && job.offsets == NULL) {
        return;
    }
#pragma unroll 1
    for (int p = 0; p < POINTS; p++) {
        const float value = p == 0 ? values[0] : values[POINTS - 1];
        uint32_t id = KITH_ID_NONE;
        double key = 0.0;
        if (value <= limit) {
            id = __ldg(job.walk.tree.ids + position + (uint32_t)(p * KIN_TREE_GPU_PACKET));
            key = radius_key<STEP, DTYPE, WRAPS>(job, row, id);
            s.keys += 1;
            id = radius_distance<STEP>(job.within.metric, key) <= radius
                     ? kin_within_next(&job.within, row, id)
                     : KITH_ID_NONE;
        }
        radius_take(s, q, row, id, key);
    }
}

template <kith_metric STEP, kith_dtype DTYPE, bool EXACT, bool WRAPS>
TREE_DEVICE void tree_settle(kin_tree_gpu_finder<STEP, DTYPE, EXACT, WRAPS> &, kin_tree_gpu_lane &)
{
}

/* ---- Packets --------------------------------------------------------------------------------- */

/* The row of the queries that a place asks with. */
TREE_DEVICE uint32_t radius_row(const kin_tree_gpu_walk &walk, int64_t place)
{
    return walk.rows == NULL    ? walk.tree.ids[place]
           : walk.order != NULL ? walk.order[place]
                                : (uint32_t)place;
}

template <typename FINDER>
TREE_DEVICE void radius_begin(kin_tree_gpu_packet<FINDER> &p, const kin_tree_gpu_radius &job,
                              int64_t place, bool active)
{
    const kin_tree_gpu &tree = job.walk.tree;
    p.pairs = 0;
    p.leaves = 0;
    p.own = kin_tree_gpu_lane{};
    p.own.keep = TREE_NO_QUERY;
    p.period = tree.period;
    p.lists.job = &job;
    p.lists.at = 0;
    p.lists.keys = 0;
    p.lists.radius = 0.0;
    p.lists.query = 0;
    if (active) {
        const uint32_t row = radius_row(job.walk, place);
        const kin_tree_ring ring = kin_within_ring(&job.within, row);
        const double scale = kin_place_scale(kin_place_has(job.within.metric), tree.scale);
        const float reach = kin_tree_reach_of_key(
            tree.norm, ring.key, scale, (double)tree_row_lost(job.walk, place), tree.floor);
        p.own.keep = kin_tree_limit(tree.norm, reach, tree.most_lost, tree.widen);
        p.lists.radius = ring.radius;
        p.lists.query = row;
        p.lists.at = job.offsets != NULL ? job.offsets[row] - job.first : 0;
    }
}

template <typename FINDER>
TREE_DEVICE void radius_report(const kin_tree_gpu_packet<FINDER> &p, const kin_tree_gpu_radius &job,
                               bool active)
{
    const uint32_t keys = __reduce_add_sync(TREE_ALL_LANES, p.lists.keys);
    if (active && job.counts != NULL) {
        job.counts[p.lists.query] = p.lists.at;
    }
    if (tree_lane_id() == 0) {
        unsigned long long *met = (unsigned long long *)job.walk.met;
        (void)atomicAdd(met, (unsigned long long)p.pairs);
        (void)atomicAdd(met + 1, (unsigned long long)p.leaves);
        (void)atomicAdd(met + 2, (unsigned long long)keys);
    }
}

template <kin_tree_norm NORM, int WIDE, typename FINDER>
static __global__ void __launch_bounds__(TREE_WARPS *KIN_TREE_GPU_PACKET,
                                         kin_tree_gpu_blocks<WIDE>::MOST)
    radius_kernel(const __grid_constant__ kin_tree_gpu_radius job,
                  const __grid_constant__ kin_tree_gpu_shape shape)
{
    extern __shared__ uint4 tree_shared[];
    const kin_tree_gpu_walk &walk = job.walk;
    const int32_t warps = (int32_t)blockDim.x / KIN_TREE_GPU_PACKET;
    const int32_t warp = (int32_t)threadIdx.x / KIN_TREE_GPU_PACKET;
    const int32_t lane = tree_lane_id();
    const int64_t packet = walk.place0 / KIN_TREE_GPU_PACKET + (int64_t)blockIdx.x * warps + warp;
    const int64_t place = packet * KIN_TREE_GPU_PACKET + lane;
    if (packet * KIN_TREE_GPU_PACKET >= walk.place0 + walk.count) {
        return;
    }
    char *shared = (char *)tree_shared + (int64_t)warp * (shape.rows + shape.stack);
    float *rows = (float *)shared;
    const bool active = tree_active(walk, place);
    kin_tree_gpu_packet<FINDER> p;
    p.rows = rows;
    p.stack = (uint16_t *)(shared + shape.rows) + lane;
    radius_begin(p, job, place, active);
    tree_load<WIDE>(walk, place, active, rows + lane * kin_tree_gpu_stride<WIDE>::FLOATS);
    __syncwarp(); /* all rows are there */
    tree_walk<NORM, WIDE>(p, walk.tree);
    radius_report(p, job, active);
}

/* ---- Launch ---------------------------------------------------------------------------------- */

template <kin_tree_norm NORM>
constexpr kith_metric radius_step = NORM == KIN_NORM_TWO   ? KITH_SQEUCLIDEAN
                                    : NORM == KIN_NORM_ONE ? KITH_MANHATTAN
                                                           : KITH_CHEBYSHEV;

template <kin_tree_norm NORM, int WIDE, kith_dtype DTYPE, bool WRAPS,
          kith_metric STEP = radius_step<NORM>>
static int radius_launch(kin_gpu_stream *stream, const kin_tree_gpu_radius *job)
{
    typedef kin_tree_gpu_finder<STEP, DTYPE, (WIDE <= 2 * KIN_TREE_GPU_WIDE), WRAPS> finder;
    kin_tree_gpu_shape shape = {};
    shape.rows = (int32_t)(KIN_TREE_GPU_PACKET * kin_tree_gpu_stride<WIDE>::FLOATS * sizeof(float));
    shape.stack = (int32_t)((job->walk.tree.height + 1) * KIN_TREE_GPU_PACKET * sizeof(uint16_t));
    const int64_t packets = (job->walk.count + KIN_TREE_GPU_PACKET - 1) / KIN_TREE_GPU_PACKET;
    const int64_t bytes = (int64_t)shape.rows + shape.stack;
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, radius_kernel<NORM, WIDE, finder>));
    radius_kernel<NORM, WIDE, finder>
        <<<(unsigned)((packets + TREE_WARPS - 1) / TREE_WARPS), TREE_WARPS * KIN_TREE_GPU_PACKET,
           (size_t)(TREE_WARPS * bytes), stream->stream>>>(*job, shape);
    return kin_gpu_launched();
}

/* What components are read as: the type of both sides, or byte by byte. */
static inline kith_dtype radius_dtype(const kin_tree_gpu_radius *job)
{
    const kin_screen_gpu_rows *q = &job->queries;
    const kin_screen_gpu_rows *c = &job->corpus;
    const kith_dtype dtype = kin_pair_dtype(c->data, c->stride_bytes, c->dtype);
    return kin_pair_dtype(q->data, q->stride_bytes, q->dtype) == dtype ? dtype : KITH_DTYPE_NONE;
}

template <kith_dtype DTYPE>
static int launch_two(kin_gpu_stream *stream, const kin_tree_gpu_radius *job)
{
    const int32_t wide = job->walk.tree.wide;
    return wide <= 4    ? radius_launch<KIN_NORM_TWO, 4, DTYPE, false>(stream, job)
           : wide <= 8  ? radius_launch<KIN_NORM_TWO, 8, DTYPE, false>(stream, job)
           : wide <= 16 ? radius_launch<KIN_NORM_TWO, 16, DTYPE, false>(stream, job)
           : wide <= 32 ? radius_launch<KIN_NORM_TWO, 32, DTYPE, false>(stream, job)
                        : radius_launch<KIN_NORM_TWO, 64, DTYPE, false>(stream, job);
}

/* The rarer norms have fewer kernels. */
template <kin_tree_norm NORM>
static int launch_norm(kin_gpu_stream *stream, const kin_tree_gpu_radius *job)
{
    const int32_t wide = job->walk.tree.wide;
    return wide <= 4    ? radius_launch<NORM, 4, KITH_DTYPE_NONE, false>(stream, job)
           : wide <= 8  ? radius_launch<NORM, 8, KITH_DTYPE_NONE, false>(stream, job)
           : wide <= 16 ? radius_launch<NORM, 16, KITH_DTYPE_NONE, false>(stream, job)
                        : radius_launch<NORM, 64, KITH_DTYPE_NONE, false>(stream, job);
}

/* A periodic box (tree_walk_box.cu). */
template <kin_tree_norm NORM>
static int launch_box(kin_gpu_stream *stream, const kin_tree_gpu_radius *job)
{
    return job->walk.tree.wide <= 8 ? radius_launch<NORM, 8, KITH_DTYPE_NONE, true>(stream, job)
                                    : radius_launch<NORM, 64, KITH_DTYPE_NONE, true>(stream, job);
}

static int launch_in_box(kin_gpu_stream *stream, const kin_tree_gpu_radius *job)
{
    const kith_dtype dtype = radius_dtype(job);
    const kin_tree_norm norm = job->walk.tree.norm;
    if (norm == KIN_NORM_TWO && job->walk.tree.wide <= 4) {
        return dtype == KITH_F32 ? radius_launch<KIN_NORM_TWO, 4, KITH_F32, true>(stream, job)
               : dtype == KITH_F64
                   ? radius_launch<KIN_NORM_TWO, 4, KITH_F64, true>(stream, job)
                   : radius_launch<KIN_NORM_TWO, 4, KITH_DTYPE_NONE, true>(stream, job);
    }
    return norm == KIN_NORM_TWO   ? launch_box<KIN_NORM_TWO>(stream, job)
           : norm == KIN_NORM_ONE ? launch_box<KIN_NORM_ONE>(stream, job)
                                  : launch_box<KIN_NORM_MOST>(stream, job);
}

/* Places of a sphere. */
template <kith_dtype DTYPE>
static int launch_places(kin_gpu_stream *stream, const kin_tree_gpu_radius *job)
{
    return radius_launch<KIN_NORM_TWO, 4, DTYPE, false, KITH_HAVERSINE>(stream, job);
}

int kin_tree_launch_radius(kin_gpu_stream *stream, const kin_tree_gpu_radius *job)
{
    const kin_tree_gpu_walk *walk = &job->walk;
    const kith_dtype dtype = radius_dtype(job);
    if (walk->count == 0) {
        return 0;
    }
    if (walk->tree.wide > KIN_TREE_GPU_MOST_COLS || walk->tree.wide % KIN_TREE_GPU_WIDE != 0 ||
        walk->place0 % KIN_TREE_GPU_PACKET != 0) {
        return (int)cudaErrorInvalidValue;
    }
    if (walk->tree.period != NULL) {
        return launch_in_box(stream, job);
    }
    if (kin_place_has(job->within.metric)) {
        return dtype == KITH_F32   ? launch_places<KITH_F32>(stream, job)
               : dtype == KITH_F64 ? launch_places<KITH_F64>(stream, job)
                                   : launch_places<KITH_DTYPE_NONE>(stream, job);
    }
    if (walk->tree.norm == KIN_NORM_ONE) {
        return launch_norm<KIN_NORM_ONE>(stream, job);
    }
    if (walk->tree.norm == KIN_NORM_MOST) {
        return launch_norm<KIN_NORM_MOST>(stream, job);
    }
    return dtype == KITH_F32   ? launch_two<KITH_F32>(stream, job)
           : dtype == KITH_F64 ? launch_two<KITH_F64>(stream, job)
                               : launch_two<KITH_DTYPE_NONE>(stream, job);
}

/* ---- From what walks found to lists ---------------------------------------------------------- */

/* Where each list begins, and its order. Contract: tree_kernels.h, kin_tree_gpu_sums,
 * kin_tree_gpu_ranges.
 *
 *   sums     a block a slice: its sum; one block: the sums before each; a block a slice again
 *   short    up to SHORT: a warp a list, in shared memory; an entry's slot is how many of the
 *            others come before it, n / 32 comparisons a lane for each of n
 *   middle   up to MIDDLE: a block a list, bitonic, in shared memory
 *   long     beyond: the same where the list lies
 *
 * Bitonic with all exchanges rising (the first of each size mirrors its half), so that nothing
 * behind the end takes part, and no list needs room for a power of two.
 *
 * Cost. 30 million entries in lists of 30: 1.3 GB of memory, and 200 instructions of a warp a list.
 * Limits. A list of a million entries is 210 passes of one block. */

enum {
    SHORT = 128,
    MIDDLE = 3072,
    LIST_WARPS = 8,
    LIST_THREADS = 256,
    BLOCK = 256,
    SCAN = KIN_TREE_GPU_SUMS
};

/* ---- Sums ------------------------------------------------------------------------------------ */

typedef cub::BlockScan<int64_t, SCAN> kin_tree_scan;

KIN_DEVICE int64_t slice_of(const kin_tree_gpu_sums &job)
{
    return (job.count + gridDim.x - 1) / gridDim.x;
}

static __global__ void __launch_bounds__(SCAN) slices_kernel(const kin_tree_gpu_sums job)
{
    __shared__ typename kin_tree_scan::TempStorage room;
    const int64_t slice = slice_of(job);
    const int64_t first = (int64_t)blockIdx.x * slice;
    const int64_t last = min(first + slice, job.count);
    int64_t sum = 0;
    int64_t before = 0;
    int64_t whole = 0;
    for (int64_t i = first + threadIdx.x; i < last; i += SCAN) {
        sum += job.counts[i];
    }
    kin_tree_scan(room).ExclusiveSum(sum, before, whole);
    if (threadIdx.x == 0) {
        job.scratch[blockIdx.x] = whole;
    }
}

static __global__ void __launch_bounds__(SCAN)
    starts_kernel(const kin_tree_gpu_sums job, const int32_t slices)
{
    __shared__ typename kin_tree_scan::TempStorage room;
    const int32_t thread = (int32_t)threadIdx.x;
    int64_t before = 0;
    kin_tree_scan(room).ExclusiveSum(thread < slices ? job.scratch[thread] : 0, before);
    if (thread < slices) {
        job.scratch[thread] = before;
    }
}

static __global__ void __launch_bounds__(SCAN) offsets_kernel(const kin_tree_gpu_sums job)
{
    __shared__ typename kin_tree_scan::TempStorage room;
    const int64_t slice = slice_of(job);
    const int64_t first = (int64_t)blockIdx.x * slice;
    const int64_t last = min(first + slice, job.count);
    int64_t start = job.scratch[blockIdx.x];
    for (int64_t base = first; base < last; base += SCAN) {
        const int64_t i = base + threadIdx.x;
        const int64_t mine = i < last ? job.counts[i] : 0;
        int64_t before = 0;
        int64_t whole = 0;
        __syncthreads(); /* the room is free */
        kin_tree_scan(room).ExclusiveSum(mine, before, whole);
        if (i < last) {
            job.offsets[i] = start + before;
        }
        if (i == job.count - 1) {
            job.offsets[job.count] = start + before + mine;
        }
        start += whole;
    }
}

int kin_tree_launch_sums(kin_gpu_stream *stream, const kin_tree_gpu_sums *job)
{
    const int64_t wished = (job->count + SCAN - 1) / SCAN;
    const unsigned slices = (unsigned)(wished < SCAN ? wished : SCAN);
    if (job->count == 0) {
        return (int)cudaErrorInvalidValue;
    }
    slices_kernel<<<slices, SCAN, 0, stream->stream>>>(*job);
    KIN_CUDA_TRY_LAUNCH();
    starts_kernel<<<1, SCAN, 0, stream->stream>>>(*job, (int32_t)slices);
    KIN_CUDA_TRY_LAUNCH();
    offsets_kernel<<<slices, SCAN, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

/* ---- Lists ----------------------------------------------------------------------------------- */

KIN_DEVICE void put(const kin_tree_gpu_ranges &job, int64_t at, double key, uint32_t id)
{
    const double distance = kin_within_distance(job.metric, key);
    job.ids[at] = id;
    job.distances64[at] = distance;
    job.distances[at] = __double2float_rn(distance);
}

static __global__ void __launch_bounds__(LIST_THREADS)
    short_lists_kernel(const kin_tree_gpu_ranges job)
{
    __shared__ double all_keys[LIST_WARPS][SHORT];
    __shared__ uint32_t all_ids[LIST_WARPS][SHORT];
    const int32_t warp = (int32_t)threadIdx.x / KIN_SCREEN_GPU_WARP;
    const int32_t lane = kin_tree_gpu_my_lane();
    const int64_t row = (int64_t)blockIdx.x * LIST_WARPS + warp;
    if (row >= job.rows) {
        return;
    }
    const int64_t first = job.offsets[row] - job.first;
    const int64_t count = job.offsets[row + 1] - job.first - first;
    if (count > SHORT) {
        return;
    }
    double *keys = all_keys[warp];
    uint32_t *ids = all_ids[warp];
    const int32_t n = (int32_t)count;
    for (int32_t i = lane; i < n; i += KIN_SCREEN_GPU_WARP) {
        keys[i] = job.distances64[first + i];
        ids[i] = job.ids[first + i];
    }
    __syncwarp();
    for (int32_t i = lane; i < n; i += KIN_SCREEN_GPU_WARP) {
        const double key = keys[i];
        const uint32_t id = ids[i];
        int32_t slot = 0;
        for (int32_t j = 0; j < n; j++) {
            slot += kin_sort_before(keys[j], ids[j], key, id) ? 1 : 0;
        }
        put(job, first + slot, key, id);
    }
}

/* The lesser of two to the lower place. */
KIN_DEVICE void exchange(double *keys, uint32_t *ids, int64_t low, int64_t high)
{
    const double a = keys[low];
    const double b = keys[high];
    const uint32_t id_a = ids[low];
    const uint32_t id_b = ids[high];
    if (kin_sort_before(b, id_b, a, id_a)) {
        keys[low] = b;
        keys[high] = a;
        ids[low] = id_b;
        ids[high] = id_a;
    }
}

/* Begins and ends with a barrier. */
KIN_DEVICE void sort_list(double *keys, uint32_t *ids, int64_t n)
{
    for (int64_t half = 1; half < n; half *= 2) {
        for (int64_t stride = half; stride > 0; stride /= 2) {
            __syncthreads(); /* the last step is complete */
            for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
                const int64_t at = i & (stride - 1);
                const int64_t low = 2 * i - at;
                const int64_t high = low + (stride == half ? 2 * (stride - at) - 1 : stride);
                if (high < n) {
                    exchange(keys, ids, low, high);
                }
            }
        }
    }
    __syncthreads();
}

KIN_DEVICE void sort_row(const kin_tree_gpu_ranges &job, int64_t row, double *keys, uint32_t *ids)
{
    const int64_t first = job.offsets[row] - job.first;
    const int64_t n = job.offsets[row + 1] - job.first - first;
    const bool here = n <= MIDDLE;
    double *list = here ? keys : job.distances64 + first;
    uint32_t *names = here ? ids : job.ids + first;
    for (int64_t i = threadIdx.x; here && i < n; i += BLOCK) {
        keys[i] = job.distances64[first + i];
        ids[i] = job.ids[first + i];
    }
    sort_list(list, names, n);
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
        put(job, first + i, list[i], names[i]);
    }
    __syncthreads(); /* the next list may come */
}

/* BLOCK rows at a time are asked whether one of them has a list that is not short. */
static __global__ void __launch_bounds__(BLOCK) long_lists_kernel(const kin_tree_gpu_ranges job)
{
    __shared__ double keys[MIDDLE];
    __shared__ uint32_t ids[MIDDLE];
    __shared__ uint32_t long_rows[BLOCK];
    __shared__ int32_t count;
    for (int64_t base = (int64_t)blockIdx.x * BLOCK; base < job.rows;
         base += (int64_t)gridDim.x * BLOCK) {
        const int64_t row = base + threadIdx.x;
        if (threadIdx.x == 0) {
            count = 0;
        }
        __syncthreads();
        if (row < job.rows && job.offsets[row + 1] - job.offsets[row] > SHORT) {
            long_rows[atomicAdd(&count, 1)] = threadIdx.x;
        }
        __syncthreads();
        for (int32_t i = 0; i < count; i++) {
            sort_row(job, base + long_rows[i], keys, ids);
        }
        __syncthreads(); /* all have read the count */
    }
}

int kin_tree_launch_ranges(kin_gpu_stream *stream, const kin_tree_gpu_ranges *job)
{
    if (job->rows == 0) {
        return 0;
    }
    const unsigned warps = kin_tree_gpu_blocks_for(job->rows, LIST_WARPS);
    const unsigned wished = kin_tree_gpu_blocks_for(job->rows, BLOCK);
    const unsigned most = (unsigned)stream->processors * 4;
    const unsigned blocks = wished < most ? wished : most;
    short_lists_kernel<<<warps, LIST_THREADS, 0, stream->stream>>>(*job);
    KIN_CUDA_TRY_LAUNCH();
    long_lists_kernel<<<blocks, BLOCK, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}
