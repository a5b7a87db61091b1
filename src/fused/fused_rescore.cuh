/* SPDX-License-Identifier: Apache-2.0
 * Canonical keys of a row's candidates, the first of them in order, and what the caller sees: what
 * fused_rescore.cu does with every row, and fused_rescue.cu with those that lost candidates. The
 * idea stands in the former. */
#ifndef KIN_FUSED_RESCORE_CUH
#define KIN_FUSED_RESCORE_CUH

#include "fused/fused_cost.cuh"
#include "fused/fused_kernels.h"
#include "fused/fused_sort.cuh"
#include "gpu/gpu_stream.cuh"
#include "metric/metric_pair.cuh"

enum {
    WARP = 32,
    BLOCK = 256,
    PLACES = 8192,
    CHUNK = 1024,
    TWO = 2,
    UNROLL = 8, /* loads of a thread and candidate in flight */
    BATCH = UNROLL * KIN_METRIC_LANES
};

/* Steps that stand for no metric: keys are costs. */
#define COSTS KITH_METRIC_DEFAULT

/* What a launch decides. */
typedef struct shape {
    int32_t crew;   /* threads a row: WARP or BLOCK */
    int32_t chunk;  /* components of the row in shared memory, a multiple of 8 */
    int32_t places; /* of the buffer */
} shape;

/* A crew's shared memory: chunk doubles, places keys, places ids. */
static __host__ __device__ size_t crew_bytes(shape s)
{
    return (size_t)s.chunk * sizeof(double) +
           (size_t)s.places * (sizeof(double) + sizeof(uint32_t));
}

static __device__ __forceinline__ void crew_sync(int32_t crew)
{
    if (crew == WARP) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

/* Components first .. first + count of the row. */
template <bool TRANSFORMS>
static __device__ __forceinline__ void stage_row(const kin_fused_rows &rows, int64_t row,
                                                 int32_t first, int32_t count, int32_t crew,
                                                 double *values)
{
    const char *data = (const char *)rows.data + row * rows.stride_bytes;
    const kin_row_transform transform = TRANSFORMS ? rows.transforms[row] : kin_row_transform{};
    for (int32_t i = (int32_t)threadIdx.x % crew; i < count; i += crew) {
        const double x = kin_value(rows.dtype, data, first + i);
        values[i] = TRANSFORMS ? kin_row_apply(&transform, x) : x;
    }
}

/* Components first .. first + count of two candidates enter this thread's lanes. */
template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static __device__ __forceinline__ void
advance(const double *query, const char *const data[TWO], const kin_row_transform transform[TWO],
        kith_dtype given, int32_t first, int32_t count, double lanes[TWO])
{
    const int32_t lane = (int32_t)threadIdx.x % KIN_METRIC_LANES;
    const int32_t whole = count / BATCH * BATCH;
    for (int32_t at = lane; at < whole; at += BATCH) {
        double x[TWO][UNROLL];
#pragma unroll
        for (int c = 0; c < TWO; c++) {
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                x[c][u] = kin_pair_value<DTYPE>(given, data[c], first + at + u * KIN_METRIC_LANES);
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const double q = query[at + u * KIN_METRIC_LANES];
#pragma unroll
            for (int c = 0; c < TWO; c++) {
                const double y = TRANSFORMS ? kin_row_apply(&transform[c], x[c][u]) : x[c][u];
                lanes[c] = kin_pair_step<STEP>(lanes[c], q, y);
            }
        }
    }
    for (int32_t at = whole + lane; at < count; at += KIN_METRIC_LANES) {
#pragma unroll
        for (int c = 0; c < TWO; c++) {
            const double x = kin_pair_value<DTYPE>(given, data[c], first + at);
            const double y = TRANSFORMS ? kin_row_apply(&transform[c], x) : x;
            lanes[c] = kin_pair_step<STEP>(lanes[c], query[at], y);
        }
    }
}

/* Candidates of a row, of which those in [first, last) have no keys yet. */
typedef struct candidates {
    const uint32_t *ids;
    double *keys;
    int32_t first;
    int32_t last;
} candidates;

/* Gives them theirs. The whole crew calls it. */
template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static __device__ __forceinline__ void keys_of(const kin_fused_rescore &job, const shape &s,
                                               int64_t row, double *query, const candidates &list)
{
    const int32_t thread = (int32_t)threadIdx.x % s.crew;
    const int32_t team = thread / KIN_METRIC_LANES;
    const int32_t teams = s.crew / KIN_METRIC_LANES;
    const kin_fused_rows &rows = job.cols_rows;
    const int32_t cols = rows.cols;
    for (int32_t base = list.first; base < list.last; base += teams * TWO) {
        const char *data[TWO];
        kin_row_transform transform[TWO];
        double lanes[TWO];
        int32_t at[TWO];
#pragma unroll
        for (int c = 0; c < TWO; c++) {
            at[c] = base + c * teams + team;
            /* A team without work repeats the last candidate, so that warps stay whole. */
            const uint32_t candidate = list.ids[min(at[c], list.last - 1)];
            const int64_t id = candidate == KITH_ID_NONE ? 0 : (int64_t)candidate;
            data[c] = (const char *)rows.data + id * rows.stride_bytes;
            transform[c] = TRANSFORMS ? rows.transforms[id] : kin_row_transform{};
            lanes[c] = 0;
        }
        for (int32_t from = 0; from < cols; from += s.chunk) {
            const int32_t count = min(s.chunk, cols - from);
            if (cols > s.chunk) {
                crew_sync(s.crew); /* the last chunk is used up */
                stage_row<TRANSFORMS>(job.set_rows, row, from, count, s.crew, query);
                crew_sync(s.crew); /* the chunk is complete */
            }
            advance<STEP, DTYPE, TRANSFORMS>(query, data, transform, rows.dtype, from, count,
                                             lanes);
        }
#pragma unroll
        for (int c = 0; c < TWO; c++) {
            double key = kin_pair_key<STEP>(rows.metric, kin_pair_sum<STEP>(lanes[c]), cols);
            if (TRANSFORMS &&
                (transform[c].degenerate != 0 || job.set_rows.transforms[row].degenerate != 0)) {
                key = KIN_DEGENERATE_KEY;
            }
            if (at[c] < list.last && thread % KIN_METRIC_LANES == 0) {
                list.keys[at[c]] = list.ids[at[c]] == KITH_ID_NONE ? (double)INFINITY : key;
            }
        }
    }
}

/* The key that an exact cost is: kin_lists_finish of the CPU engine. */
static __device__ __forceinline__ double key_of_word(uint64_t word, kith_metric metric)
{
    const double cost = list_cost(KIN_FUSED_S8, (uint32_t)(word >> 32));
    return metric == KITH_INNER_PRODUCT ? cost / 2 : cost;
}

/* A candidate that is known without a screen. */
static __device__ __forceinline__ uint32_t id_of_span(const kin_fused_rescore &job,
                                                      const kin_fused_span &span, uint32_t at)
{
    return job.listed[span.first + at + (at < span.before ? 0u : span.gap)];
}

/* The pairs of a warp go to their places; equal ones (there are none) would keep their order. */
static __device__ __forceinline__ void write_ranked(const double *keys, const uint32_t *ids,
                                                    int32_t count, int32_t k, kin_fused_pair *pairs)
{
    for (int32_t i = (int32_t)threadIdx.x % WARP; i < count; i += WARP) {
        const double key = keys[i];
        const uint32_t id = ids[i];
        int32_t rank = 0;
        for (int32_t j = 0; j < count; j++) {
            const bool same = keys[j] == key && ids[j] == id;
            rank += kin_sort_before(keys[j], ids[j], key, id) || (same && j < i) ? 1 : 0;
        }
        if (rank < k) {
            pairs[rank] = kin_fused_pair{key, id, 0};
        }
    }
}

/* ---- What the caller sees -------------------------------------------------------------------- */

/* kin_metric_distance (metric.h), the same operations. */
static __device__ __forceinline__ double distance_of(kith_metric metric, double key)
{
    if (metric == KITH_EUCLIDEAN) {
        return kin_sqrt(key);
    }
    if (metric == KITH_HAVERSINE) {
        return kin_haversine_angle(key);
    }
    return metric == KITH_INNER_PRODUCT ? kin_add(-key, 0.0) : key;
}

/* A slot of the outputs. */
static __device__ __forceinline__ void put(const kin_fused_write &job, int64_t to, uint32_t id,
                                           double distance)
{
    if (job.out_ids != NULL) {
        job.out_ids[to] = id;
    }
    if (job.out_distances != NULL) {
        job.out_distances[to] = __double2float_rn(distance);
    }
    if (job.out_distances64 != NULL) {
        job.out_distances64[to] = distance;
    }
}

/* Row i of the job, by all lanes of a team. */
template <int TEAM>
static __device__ __forceinline__ void write_row(const kin_fused_write &job, int64_t i)
{
    const int32_t lane = (int32_t)threadIdx.x % TEAM;
    const uint32_t team = (uint32_t)((1ull << TEAM) - 1) << (threadIdx.x % 32 / TEAM * TEAM);
    const kin_fused_pair *pairs = job.pairs + i * job.k;
    const int32_t count = job.count != NULL ? min(job.count[i], job.k) : job.k;
    kin_fused_pair pair = lane < count ? pairs[lane] : kin_fused_pair{0.0, KITH_ID_NONE, 0};
    const int64_t position = job.row0 + i;
    const int64_t row = job.ids != NULL ? (int64_t)job.ids[position] : position;
    if (row == (int64_t)KITH_ID_NONE) {
        return; /* a place of a tree where no point is */
    }
    uint32_t left_out = job.leaves_own_out ? (uint32_t)row : KITH_ID_NONE;
    if (job.left_out != NULL) {
        left_out = job.left_out[row];
    }
    int64_t written = 0;
    for (int32_t first = 0; first < count && written < job.k_out; first += TEAM) {
        const int32_t at = first + lane;
        if (first > 0 && at < count) {
            pair = pairs[at];
        }
        const bool stays = at < count && pair.id != left_out;
        const uint32_t staying = __ballot_sync(team, stays) & team;
        const uint32_t before = (1u << threadIdx.x % 32) - 1u;
        const int64_t place = written + __popc(staying & before);
        written += __popc(staying);
        if (stays && place < job.k_out) {
            put(job, (row - job.out_row0) * job.k_out + place, pair.id,
                distance_of(job.metric, pair.key));
        }
    }
    for (int64_t place = written + lane; job.fills != 0 && place < job.k_out; place += TEAM) {
        put(job, (row - job.out_row0) * job.k_out + place, KITH_ID_NONE,
            job.metric == KITH_INNER_PRODUCT ? -(double)INFINITY : (double)INFINITY);
    }
    if (lane == 0 && written < job.k_out && job.short_rows != NULL) {
        (void)atomicAdd((unsigned long long *)job.short_rows, 1ull);
    }
}

/* ---- Keys, and what they are for --------------------------------------------------------------
 */

/* Of `count` candidates, words or (NULL) a span, in turns: how many of the least are then sorted at
 * the front of the crew's buffer behind `query`; of a warp's, which has room for all, all of them
 * in any order. */
template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static __device__ __forceinline__ int32_t find_best(const kin_fused_rescore &job, const shape &s,
                                                    int64_t row, const uint64_t *words,
                                                    const kin_fused_span &span, int32_t count,
                                                    double *query)
{
    const int32_t thread = (int32_t)threadIdx.x % s.crew;
    double *keys = query + s.chunk;
    uint32_t *ids = (uint32_t *)(keys + s.places);
    int32_t kept = 0;
    for (int32_t used = 0; used < count;) {
        const int32_t added = min(count - used, s.places - kept);
        for (int32_t j = thread; j < added; j += s.crew) {
            if (STEP == COSTS) {
                keys[kept + j] = key_of_word(words[used + j], job.set_rows.metric);
            }
            ids[kept + j] = words != NULL ? job.cols_set.ids[(uint32_t)words[used + j]]
                                          : id_of_span(job, span, (uint32_t)(used + j));
        }
        crew_sync(s.crew); /* row and ids are known */
        if constexpr (STEP != COSTS) {
            keys_of<STEP, DTYPE, TRANSFORMS>(job, s, row, query, {ids, keys, kept, kept + added});
            crew_sync(s.crew); /* keys are complete */
        }
        used += added;
        kept += added;
        if (s.crew == BLOCK) {
            kin_sort_block(keys, ids, kept);
            kept = min(kept, job.lists.k);
        }
    }
    return kept;
}

static shape shape_of(const kin_gpu_stream *stream, const kin_fused_rescore *job, bool costs,
                      int32_t crew)
{
    shape s;
    s.crew = crew;
    s.chunk = 0;
    if (!costs) {
        const int32_t cols = job->set_rows.cols;
        s.chunk = cols < CHUNK ? (cols + KIN_METRIC_LANES - 1) / KIN_METRIC_LANES * KIN_METRIC_LANES
                               : CHUNK;
    }
    s.places = kin_sort_width(job->lists.capacity);
    s.places = s.places < PLACES ? s.places : PLACES;
    while (crew == BLOCK && crew_bytes(s) > (size_t)stream->shared_bytes) {
        s.places /= 2;
    }
    return s;
}

#endif
