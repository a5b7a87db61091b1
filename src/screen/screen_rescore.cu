/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. What the screen left of a row gets canonical keys and is sorted. A *crew* works on a row: a
 * warp where lists are short, a block where they have more than SHORT places.
 *
 *   1. words, or the places of a span (exact_pick_gpu.c) -> ids, a thread a word, so that all rows
 * to be read are known at once
 *   2. the row itself as transformed doubles in shared memory, CHUNK components at a time
 *   3. a team of eight threads two candidates at a time (metric_pair.cuh): 16 loads of 32 bytes in
 *      flight a team, 2 KB a warp
 *   4. warp: the place of each pair is how many come before it; block: bitonic sort
 *
 * Lists that are longer than the block's shared memory come in turns: the k best so far stay, new
 * ones fill the rest. For integer bounds the key is the cost (products: half of it, numerics.md),
 * and nothing is read. Where k is more than a block sorts, keys go out as they are, a row beside
 * the other, to be selected from (exact_finish_gpu.c).
 *
 * Cost. Memory: a row of the corpus a candidate. 1,000,000 rows of 128 float32 with 25 candidates
 * each are 12.8 GB, less what the L2 holds of near rows: about 4 ms on an H200; its 6.4e9 double
 * operations and 3.2e9 conversions take about 1.5 ms beside that.
 *
 * What the caller sees is made of sorted pairs by a team of 8, 16 or 32 lanes a row, at once or by
 * a launch of its own: the id that is left out goes, keys become distances, doubles are rounded
 * once to float32. A pair a lane at a time; those behind the id that is left out move up by one, so
 * a ballot tells every lane its place. Rows that are written lie anywhere, so a team waits for
 * memory twice (its row's number, then nothing but pairs, which are asked for at the same time):
 * the smaller the teams, the more rows are under way.
 *
 * Rescue. A search that nobody waits for (exact_batch_gpu.c) has no host that would look at what
 * was lost and go another way. So a launch comes behind it that looks, and as a rule ends: a block
 * reads three numbers, two blocks a processor. A row whose list overflowed, or that has no
 * direction, is compared with the whole corpus, a slice a block: of 1,000,000 x 128 float32 a read
 * of 512 MB.
 *
 * Long because all of it shares keys, buffers and the writing of rows.
 *
 * Limits. k of what is sorted here: KIN_SCREEN_GPU_SORTED_K. A block's shared memory has 8,192
 * places, 4,096 where it may have less than 100 KB, of which a turn fills those behind the k best.
 */
#include "metric/metric_pair.cuh"
#include "screen/screen_cost.cuh"
#include "screen/screen_row.cuh"
#include "screen/screen_sort.cuh"

enum {
    WARP = 32,
    BLOCK = 256,
    CREWS = 4, /* warps of a block, where a warp works on a row */
    SHORT = 128,
    SHORT_SPAN = 256, /* a warp's, of spans: rows that stand together read the same candidates */
    PLACES = 8192,
    CHUNK = 1024,
    TWO = 2,
    UNROLL = 8, /* loads of a thread and candidate in flight */
    BATCH = UNROLL * KIN_METRIC_LANES,
    BLOCKS_A_PROCESSOR = 64
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
static __device__ __forceinline__ void stage_row(const kin_screen_gpu_rows &rows, int64_t row,
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
static __device__ __forceinline__ void keys_of(const kin_screen_gpu_rescore &job, const shape &s,
                                               int64_t row, double *query, const candidates &list)
{
    const int32_t thread = (int32_t)threadIdx.x % s.crew;
    const int32_t team = thread / KIN_METRIC_LANES;
    const int32_t teams = s.crew / KIN_METRIC_LANES;
    const kin_screen_gpu_rows &rows = job.cols_rows;
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
    const double cost = list_cost(KIN_SCREEN_GPU_S8, (uint32_t)(word >> 32));
    return metric == KITH_INNER_PRODUCT ? cost / 2 : cost;
}

/* A candidate that is known without a screen. */
static __device__ __forceinline__ uint32_t id_of_span(const kin_screen_gpu_rescore &job,
                                                      const kin_screen_gpu_span &span, uint32_t at)
{
    return job.listed[span.first + at + (at < span.before ? 0u : span.gap)];
}

/* The pairs of a warp go to their places; equal ones (there are none) would keep their order. */
static __device__ __forceinline__ void write_ranked(const double *keys, const uint32_t *ids,
                                                    int32_t count, int32_t k,
                                                    kin_screen_gpu_pair *pairs)
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
            pairs[rank] = kin_screen_gpu_pair{key, id, 0};
        }
    }
}

/* ---- What the caller sees -------------------------------------------------------------------- */

/* Row i of the job, by all lanes of a team. */
template <int TEAM>
static __device__ __forceinline__ void write_row(const kin_screen_gpu_write &job, int64_t i)
{
    const int32_t lane = (int32_t)threadIdx.x % TEAM;
    const uint32_t team = (uint32_t)((1ull << TEAM) - 1) << (threadIdx.x % 32 / TEAM * TEAM);
    const kin_screen_gpu_pair *pairs = job.pairs + i * job.k;
    const int32_t count = job.count != NULL ? min(job.count[i], job.k) : job.k;
    kin_screen_gpu_pair pair =
        lane < count ? pairs[lane] : kin_screen_gpu_pair{0.0, KITH_ID_NONE, 0};
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
            kin_screen_gpu_put(job, (row - job.out_row0) * job.k_out + place, pair.id,
                               kin_pair_distance(job.metric, pair.key));
        }
    }
    for (int64_t place = written + lane; job.fills != 0 && place < job.k_out; place += TEAM) {
        kin_screen_gpu_put(job, (row - job.out_row0) * job.k_out + place, KITH_ID_NONE,
                           job.metric == KITH_INNER_PRODUCT ? -(double)INFINITY : (double)INFINITY);
    }
    if (lane == 0 && written < job.k_out && job.short_rows != NULL) {
        (void)atomicAdd((unsigned long long *)job.short_rows, 1ull);
    }
}

/* ---- Keys, and what they are for ------------------------------------------------------------- */

/* Who a crew works for. */
typedef struct asker {
    int64_t i;   /* of the job */
    int64_t row; /* of its matrix */
    const uint64_t *words;
    kin_screen_gpu_span span; /* of words count alone, which are NULL where it has all */
} asker;

/* Candidates used .. used + added of a row, whose keys are complete. The whole block calls it. */
static __device__ void hand_over(const kin_screen_gpu_unsorted &all, int64_t at, int32_t added,
                                 const double *keys, const uint32_t *ids)
{
    for (int32_t j = (int32_t)threadIdx.x; j < added; j += BLOCK) {
        all.keys[at + j] = keys[j];
        all.ids[at + j] = ids[j];
    }
    __syncthreads(); /* the buffer is free again */
}

static __device__ void pad(const kin_screen_gpu_unsorted &all, int64_t i, int32_t count)
{
    for (int64_t j = count + (int64_t)threadIdx.x; j < all.pitch; j += BLOCK) {
        all.keys[i * all.pitch + j] = (double)INFINITY;
        all.ids[i * all.pitch + j] = KITH_ID_NONE;
    }
}

/* All candidates in turns: how many of the least are then sorted at the front of the crew's buffer
 * behind `query`; of a warp's, which has room for all, all of them in any order. Where they go out
 * unsorted: 0. */
template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static __device__ __forceinline__ int32_t find_best(const kin_screen_gpu_rescore &job,
                                                    const shape &s, const asker &a, double *query)
{
    const uint64_t *words = a.words;
    const int32_t count = (int32_t)a.span.count;
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
                                          : id_of_span(job, a.span, (uint32_t)(used + j));
        }
        crew_sync(s.crew); /* row and ids are known */
        if constexpr (STEP != COSTS) {
            keys_of<STEP, DTYPE, TRANSFORMS>(job, s, a.row, query, {ids, keys, kept, kept + added});
            crew_sync(s.crew); /* keys are complete */
        }
        if (job.all.keys != NULL) {
            hand_over(job.all, a.i * job.all.pitch + used, added, keys, ids);
            used += added;
            continue;
        }
        used += added;
        kept += added;
        if (s.crew == BLOCK) {
            kin_sort_block(keys, ids, kept);
            kept = min(kept, job.lists.k);
        }
    }
    if (job.all.keys != NULL) {
        pad(job.all, a.i, count);
    }
    return kept;
}

static shape shape_of(const kin_gpu_stream *stream, const kin_screen_gpu_rescore *job, bool costs,
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

template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static __global__ void __launch_bounds__(BLOCK, 2)
    rescore_kernel(const kin_screen_gpu_rescore job, const shape s)
{
    extern __shared__ double shared[];
    const int32_t crews = (int32_t)blockDim.x / s.crew;
    const int32_t crew = (int32_t)threadIdx.x / s.crew;
    const int32_t thread = (int32_t)threadIdx.x % s.crew;
    const int32_t k = job.lists.k;
    double *query = shared + (size_t)crew * (crew_bytes(s) / sizeof(double));
    double *keys = query + s.chunk;
    uint32_t *ids = (uint32_t *)(keys + s.places);
    uint64_t computed = 0;

    kin_gpu_await();
    for (int64_t i = (int64_t)blockIdx.x * crews + crew; i < job.rows;
         i += (int64_t)gridDim.x * crews) {
        const int64_t position = job.row0 + i;
        const int64_t row = (int64_t)job.set.ids[position];
        if (row == (int64_t)KITH_ID_NONE) {
            if (thread == 0) {
                job.count[i] = 0;
            }
            continue; /* with its whole crew; what is selected from has no such rows */
        }
        asker a = {i, row, NULL, {}};
        if (job.spans == NULL) {
            a.words = job.lists.words + position * job.lists.capacity;
            a.span.count = (uint32_t)min(job.lists.counts[position], job.lists.capacity);
        } else {
            a.span = job.spans[job.owners[position]];
        }
        kin_screen_gpu_pair *pairs = job.pairs + i * k;
        crew_sync(s.crew); /* the row before is written */
        if (STEP != COSTS && job.set_rows.cols <= s.chunk) {
            stage_row<TRANSFORMS>(job.set_rows, row, 0, job.set_rows.cols, s.crew, query);
        }
        const int32_t kept = find_best<STEP, DTYPE, TRANSFORMS>(job, s, a, query);
        if (s.crew == WARP) {
            write_ranked(keys, ids, kept, k, pairs);
        } else {
            for (int32_t j = thread; j < kept; j += BLOCK) {
                pairs[j] = kin_screen_gpu_pair{keys[j], ids[j], 0};
            }
        }
        if (thread == 0) {
            job.count[i] = min(job.all.keys != NULL ? (int32_t)a.span.count : kept, k);
            computed += STEP == COSTS ? 0 : (uint64_t)a.span.count;
        }
        if (job.answers.rows > 0) {
            crew_sync(s.crew); /* the pairs are written */
            if (thread < WARP) {
                write_row<WARP>(job.answers, i);
            }
        }
    }
    if (thread == 0 && job.keys != NULL && computed != 0) {
        (void)atomicAdd((unsigned long long *)job.keys, (unsigned long long)computed);
    }
}

static int32_t crew_of(const kin_screen_gpu_rescore *job)
{
    return job->lists.capacity <= (job->spans != NULL ? SHORT_SPAN : SHORT) ? WARP : BLOCK;
}

template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static int rescore_launch(kin_gpu_stream *stream, const kin_screen_gpu_rescore *job)
{
    const shape s = shape_of(stream, job, STEP == COSTS, crew_of(job));
    const bool sorts = s.places > job->lists.k || s.places >= job->lists.capacity;
    if (job->all.keys != NULL ? s.crew != BLOCK : !sorts) { /* a block hands unsorted keys over */
        return (int)cudaErrorInvalidValue;
    }
    const int32_t crews = s.crew == WARP ? CREWS : 1;
    const size_t bytes = crew_bytes(s) * (size_t)crews;
    const int64_t wished = (job->rows + crews - 1) / crews;
    const int64_t most = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, rescore_kernel<STEP, DTYPE, TRANSFORMS>));
    const kin_gpu_grid grid = {(unsigned)(wished < most ? wished : most),
                               (unsigned)(s.crew * crews), bytes};
    return kin_gpu_launch_behind(stream, rescore_kernel<STEP, DTYPE, TRANSFORMS>, grid, *job, s);
}

template <kith_metric STEP, bool TRANSFORMS>
static int rescore_by_dtype(kin_gpu_stream *stream, const kin_screen_gpu_rescore *job)
{
    const kin_screen_gpu_rows *rows = &job->cols_rows;
#define LAUNCH(DTYPE) return rescore_launch<STEP, DTYPE, TRANSFORMS>(stream, job)
    KIN_PAIR_EACH_DTYPE(kin_pair_dtype(rows->data, rows->stride_bytes, rows->dtype), LAUNCH)
#undef LAUNCH
    return (int)cudaErrorInvalidValue; /* not reached */
}

int kin_screen_gpu_launch_rescore(kin_gpu_stream *stream, const kin_screen_gpu_rescore *job)
{
    if (job->rows == 0) {
        return 0;
    }
    if (job->set.frame.bound == KIN_BOUND_INTEGER) {
        return rescore_launch<COSTS, KITH_DTYPE_NONE, false>(stream, job);
    }
    if (job->set_rows.metric == KITH_INNER_PRODUCT) {
        return rescore_by_dtype<KITH_INNER_PRODUCT, false>(stream, job);
    }
    return job->cols_rows.transforms != NULL
               ? rescore_by_dtype<KITH_SQEUCLIDEAN, true>(stream, job)
               : rescore_by_dtype<KITH_SQEUCLIDEAN, false>(stream, job);
}

/* ---- What nobody waits for ------------------------------------------------------------------- */

/* A row's slices come together: the first k of what all blocks have found. All threads of the block
 * that was the last one to come. */
static __device__ void join_slices(const kin_screen_gpu_rescue &job, const shape &s, int64_t i,
                                   double *keys)
{
    const int32_t k = job.done.lists.k;
    const int32_t count = job.slices * k;
    const volatile kin_screen_gpu_pair *parts = job.parts + i * count;
    uint32_t *ids = (uint32_t *)(keys + s.places);
    int32_t kept = 0;
    for (int32_t used = 0; used < count;) {
        const int32_t added = min(count - used, s.places - kept);
        for (int32_t j = (int32_t)threadIdx.x; j < added; j += BLOCK) {
            keys[kept + j] = parts[used + j].key;
            ids[kept + j] = parts[used + j].id;
        }
        __syncthreads(); /* pairs are known */
        used += added;
        kept += added;
        kin_sort_block(keys, ids, kept);
        kept = min(kept, k);
    }
    for (int32_t j = (int32_t)threadIdx.x; j < kept; j += BLOCK) {
        job.done.pairs[i * k + j] = kin_screen_gpu_pair{keys[j], ids[j], 0};
    }
    if (threadIdx.x == 0) {
        job.done.count[i] = kept;
    }
    __syncthreads(); /* the pairs are written */
    if (threadIdx.x < WARP) {
        write_row<WARP>(job.done.answers, i);
    }
}

/* Whether this block is the last one of its row to come; what the others wrote before is seen. */
static __device__ bool comes_last(const kin_screen_gpu_rescue &job, int64_t i)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads(); /* the slice is written */
    if (threadIdx.x == 0) {
        last = atomicAdd(&job.arrived[i], 1u) + 1u == (uint32_t)job.slices;
    }
    __syncthreads();
    __threadfence();
    return last;
}

static __device__ void write_nothing(const kin_screen_gpu_write &job, int64_t i)
{
    for (int32_t j = (int32_t)threadIdx.x; j < job.k_out; j += BLOCK) {
        kin_screen_gpu_put(job, i * job.k_out + j, KITH_ID_NONE, (double)NAN);
    }
}

template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static __global__ void __launch_bounds__(BLOCK, 2)
    rescue_kernel(const kin_screen_gpu_rescue job, const shape s)
{
    extern __shared__ double query[];
    const kin_screen_gpu_rescore &done = job.done;
    const int32_t k = done.lists.k;
    const int64_t i = (int64_t)blockIdx.x / job.slices;
    const int32_t slice = (int32_t)((int64_t)blockIdx.x % job.slices);
    kin_gpu_await();
    if (job.marks[i] != 0) {
        if (slice == 0) {
            write_nothing(done.answers, i);
        }
        return;
    }
    if (job.told[i] >= 0 && (job.degenerate == NULL || job.degenerate[i] == 0)) {
        if (slice == 0 && threadIdx.x == 0 && done.count[i] < k) {
            *job.few = 0;
        }
        return;
    }
    const int64_t row = (int64_t)done.set.ids[i];
    const int64_t first = job.points * slice / job.slices;
    const int32_t count = (int32_t)(job.points * (slice + 1) / job.slices - first);
    const asker a = {i, row, NULL, {(uint32_t)first, (uint32_t)count, (uint32_t)count, 0}};
    if (done.set_rows.cols <= s.chunk) {
        stage_row<TRANSFORMS>(done.set_rows, row, 0, done.set_rows.cols, BLOCK, query);
    }
    const int32_t kept = find_best<STEP, DTYPE, TRANSFORMS>(done, s, a, query);
    double *keys = query + s.chunk;
    const uint32_t *ids = (const uint32_t *)(keys + s.places);
    kin_screen_gpu_pair *part = job.parts + (i * job.slices + slice) * k;
    for (int32_t j = (int32_t)threadIdx.x; j < k; j += BLOCK) {
        part[j] = j < kept ? kin_screen_gpu_pair{keys[j], ids[j], 0}
                           : kin_screen_gpu_pair{(double)INFINITY, KITH_ID_NONE, 0};
    }
    if (comes_last(job, i)) {
        join_slices(job, s, i, keys);
    }
}

template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static int rescue_launch(kin_gpu_stream *stream, const kin_screen_gpu_rescue *job)
{
    const shape s = shape_of(stream, &job->done, false, BLOCK);
    const size_t bytes = crew_bytes(s);
    if (s.places <= job->done.lists.k) {
        return (int)cudaErrorInvalidValue;
    }
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, rescue_kernel<STEP, DTYPE, TRANSFORMS>));
    const kin_gpu_grid grid = {(unsigned)(job->done.rows * job->slices), BLOCK, bytes};
    return kin_gpu_launch_behind(stream, rescue_kernel<STEP, DTYPE, TRANSFORMS>, grid, *job, s);
}

template <kith_metric STEP, bool TRANSFORMS>
static int rescue_by_dtype(kin_gpu_stream *stream, const kin_screen_gpu_rescue *job)
{
    const kin_screen_gpu_rows *rows = &job->done.cols_rows;
#define LAUNCH(DTYPE) return rescue_launch<STEP, DTYPE, TRANSFORMS>(stream, job)
    KIN_PAIR_EACH_DTYPE(kin_pair_dtype(rows->data, rows->stride_bytes, rows->dtype), LAUNCH)
#undef LAUNCH
    return (int)cudaErrorInvalidValue; /* not reached */
}

int kin_screen_gpu_launch_rescue(kin_gpu_stream *stream, const kin_screen_gpu_rescue *job)
{
    if (job->done.rows == 0) {
        return 0;
    }
    if (job->done.set_rows.metric == KITH_INNER_PRODUCT) {
        return rescue_by_dtype<KITH_INNER_PRODUCT, false>(stream, job);
    }
    return job->done.cols_rows.transforms != NULL
               ? rescue_by_dtype<KITH_SQEUCLIDEAN, true>(stream, job)
               : rescue_by_dtype<KITH_SQEUCLIDEAN, false>(stream, job);
}

template <int TEAM>
static __global__ void __launch_bounds__(BLOCK) write_kernel(const kin_screen_gpu_write job)
{
    const int64_t i = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / TEAM;
    if (i < job.rows) { /* a whole team */
        write_row<TEAM>(job, i);
    }
}

template <int TEAM> static int launch(kin_gpu_stream *stream, const kin_screen_gpu_write *job)
{
    const int64_t blocks = (job->rows + BLOCK / TEAM - 1) / (BLOCK / TEAM);
    if (blocks == 0) {
        return 0;
    }
    if (blocks > INT32_MAX) {
        return (int)cudaErrorInvalidConfiguration;
    }
    write_kernel<TEAM><<<(unsigned)blocks, BLOCK, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

int kin_screen_gpu_launch_write(kin_gpu_stream *stream, const kin_screen_gpu_write *job)
{
    if (job->k <= 8) {
        return launch<8>(stream, job);
    }
    return job->k <= 16 ? launch<16>(stream, job) : launch<32>(stream, job);
}
