/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Cross-matching of rounded rows on the tensor cores' portable instruction (mma.sync). A
 * block is as small as a point's samples: a thread for each of CAP NEW and CAP OLD ones, a warp for
 * every 16 NEW ones. Many such blocks share a processor, so that some wait for rows while others
 * multiply.
 *
 *                   16 NEW  16 NEW | 16 OLD  16 OLD      CAP = 32
 *      warp 0        upper    x    |    x       x        a warp multiplies its 16 NEW rows by all
 *      warp 1          .    upper  |    x       x        columns but those before them
 *
 * A step is a slice of 128 bytes of all samples of a point, in shared memory as in
 * screen_tile_mma.cu. Steps follow each other across slices and points, the copies of the next one
 * under way (cp.async): ids come two points ahead, in registers, then rows, terms and the last
 * words of lists.
 *
 *      point        n + 2: ids are read    n + 1: rows are copied    n: multiplied, offered
 *
 * Minima. In a warp every row and column of products keeps (order, place) of its least by exchanges
 * that halve; columns of several warps meet in shared memory. Then each thread offers what its own
 * sample found. Ties go to the lower place, which is the lower position: ids ascend.
 *
 * Places beyond the counts hold whatever was there before: a product depends on its own row and
 * column alone, and theirs are not looked at.
 *
 * Two sets. Where samples of one set do not meet (the merge as published), each brings its row
 * with it, which tells its set, and what such a pair costs is no order: products of a slab come as
 * a whole. The kernel is another, so that joins without sets have nothing of it.
 *
 * Floor. Gathering rows: of 48 samples of 256 bytes 12 KB a point, most of it from L2. */
#include "gpu/gpu_stream.cuh"
#include "graph/graph_join_mma.cuh"

/* ---- Rows as given --------------------------------------------------------------------------- */

/* Idea. Cross-matching of rows as given: a block takes a point, a team of eight threads a pair of
 * its samples at a time, by canonical keys (metric_pair.cuh). Rows are read where they stand; the
 * few of a point stay in the cache. Kullback-Leibler alone is not symmetric: a team then computes
 * both directions of a pair, and each end gets its own.
 *
 * Pairs of NEW samples lie on circles: number f is i = f mod n and the sample f / n + 1 behind it,
 * modulo n, which meets each of the n (n - 1) / 2 pairs once.
 *
 * Behind the last component both rows are 0, which adds nothing in any metric. */

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

/* Rows as given, by canonical keys. */
static int join_direct(kin_gpu_stream *stream, const kin_graph_gpu_join *job)
{
#define LAUNCH(NAME, ...) \
    case KITH_##NAME:     \
        return launch<KITH_##NAME>(stream, job);
    KIN_PAIR_EACH_STEP(job->points.rows.metric, LAUNCH)
#undef LAUNCH
}

/* ---- Rounded rows ---------------------------------------------------------------------------- */

enum {
    CHUNKS = JOIN_SLICE / JOIN_CHUNK,
    MOST_RUN = 32,
    RUNS_A_BLOCK = 32 /* so that all blocks end at about the same time */
};

typedef struct params {
    kin_graph_gpu_join job;
    int32_t slices;     /* of a rounded row */
    int32_t last_steps; /* of the last slice; what lies behind is zero */
    int32_t run;        /* points that a block takes one after the other */
    uint32_t end;       /* behind the last point */
} params;

/* ---- Which points a block takes -------------------------------------------------------------- */

/* The same in all threads of a block, but for `counts`. */
typedef struct walk {
    uint32_t first;  /* of the run */
    uint32_t left;   /* bit i: point first + i is to come */
    uint32_t counts; /* of point first + lane */
} walk;

/* The point that is next: its counts, 0 where there is none, and this thread's sample. */
typedef struct arrival {
    uint32_t counts;
    uint32_t id;
} arrival;

static __device__ __forceinline__ void read_run(const params &p, walk *w)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t point = w->first + lane;
    const bool is_there = lane < (uint32_t)p.run && point < p.end;
    const uint32_t news = is_there ? (uint32_t)p.job.samples.new_counts[point] : 0;
    const uint32_t olds = is_there ? (uint32_t)p.job.samples.old_counts[point] : 0;
    w->counts = join_counts(news, olds);
    w->left = __ballot_sync(JOIN_ALL_LANES, news > 0 && news + olds > 1);
}

template <int CAP> static __device__ __forceinline__ arrival next_point(const params &p, walk *w)
{
    arrival a = {0, JOIN_NO_ID};
    while (w->left == 0) {
        w->first += gridDim.x * (uint32_t)p.run;
        if (w->first >= p.end) {
            return a;
        }
        read_run(p, w);
    }
    const int at = __ffs((int)w->left) - 1;
    w->left &= w->left - 1;
    a.counts = __shfl_sync(JOIN_ALL_LANES, w->counts, at);
    const kin_graph_gpu_samples &samples = p.job.samples;
    const bool old = threadIdx.x >= CAP;
    const int32_t place = (int32_t)threadIdx.x % CAP;
    if (place < (old ? join_olds(a.counts) : join_news(a.counts))) {
        const int64_t point = w->first + (uint32_t)at;
        const int64_t row = point * (samples.forward + samples.reverse);
        a.id = (old ? samples.old_ids : samples.new_ids)[row + place];
    }
    return a;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* A step: points are numbered as the block meets them. */
typedef struct cursor {
    uint32_t number;
    int32_t slice;
    int32_t stage;
} cursor;

static __device__ __forceinline__ void advance(const params &p, cursor *at)
{
    if (++at->slice == p.slices) {
        at->slice = 0;
        at->number++;
    }
    at->stage = at->stage + 1 == JOIN_STAGES ? 0 : at->stage + 1;
}

static __device__ __forceinline__ int32_t steps_of(const params &p, int32_t slice)
{
    return slice + 1 == p.slices ? p.last_steps : JOIN_SLICE / JOIN_STEP;
}

template <int CAP, bool ACROSS>
static __device__ __forceinline__ void copy_step(const params &p, join_shared<CAP, ACROSS> *s,
                                                 const cursor &at)
{
    constexpr int ROWS_AT_ONCE = 2 * CAP / CHUNKS;
    const int thread = (int)threadIdx.x;
    const uint32_t *id = s->id[at.number % JOIN_TURNS];
    const kin_screen_gpu_set &set = p.job.points.set;
    const int chunk = thread % CHUNKS;
    if (chunk < steps_of(p, at.slice) * (JOIN_STEP / JOIN_CHUNK)) {
        const unsigned char *from = set.rounded + at.slice * JOIN_SLICE + chunk * JOIN_CHUNK;
        unsigned char *to = s->ring[at.stage];
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const int row = thread / CHUNKS + i * ROWS_AT_ONCE;
            if (id[row] != JOIN_NO_ID) {
                mma_copy<JOIN_CHUNK>(to + row * JOIN_SLICE + (chunk ^ row % 8) * JOIN_CHUNK,
                                     from + (int64_t)id[row] * set.frame.row_bytes);
            }
        }
    }
    if (at.slice == 0 && id[thread] != JOIN_NO_ID) {
        mma_copy<4>(&s->term[at.number % JOIN_TURNS][thread], &set.facts[id[thread]].term);
        mma_copy<8>(&s->last[at.number % JOIN_TURNS][thread], join_last(p.job, id[thread]));
        if constexpr (ACROSS) {
            mma_copy<4>(&s->row[at.number % JOIN_TURNS][thread], &set.ids[id[thread]]);
        }
    }
}

/* ---- The kernel ------------------------------------------------------------------------------ */

/* Blocks that a processor can hold at all: 16 on sm_86, 24 on sm_89, 32 on the others. */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890)
enum { MOST_BLOCKS = 16 };
#else
enum { MOST_BLOCKS = 32 };
#endif

/* Blocks that a processor shall hold: what registers leave without spilling in earnest. */
static constexpr int blocks_for(int cap)
{
    return cap == 64 ? 4 : cap * MOST_BLOCKS < 320 ? MOST_BLOCKS : 320 / cap;
}

template <kin_screen_gpu_type TYPE, int CAP, bool ACROSS, typename ACC>
static __global__ void __launch_bounds__(2 * CAP, blocks_for(CAP))
    join_kernel(const __grid_constant__ params p)
{
    __shared__ __align__(128) join_shared<CAP, ACROSS> s;
    walk w = {(uint32_t)p.job.graph.first + blockIdx.x * (uint32_t)p.run, 0, 0};
    read_run(p, &w);
    arrival next = next_point<CAP>(p, &w);
    uint32_t entered = 0;
    if (threadIdx.x == 0) {
        s.evaluations = 0;
    }
    const auto enter = [&]() {
        if (next.counts != 0) {
            s.id[entered % JOIN_TURNS][threadIdx.x] = next.id;
            if (threadIdx.x == 0) {
                s.counts[entered % JOIN_TURNS] = next.counts;
                const int32_t news = join_news(next.counts);
                const int32_t pairs = news * (news - 1) / 2 + news * join_olds(next.counts);
                s.evaluations += ACROSS ? 0 : (uint32_t)pairs;
            }
            entered++;
            next = next_point<CAP>(p, &w);
        }
    };
    cursor ahead = {0, 0, 0};
    const auto copy_ahead = [&]() {
        if (ahead.number < entered) {
            copy_step<CAP, ACROSS>(p, &s, ahead);
        }
        mma_close_copies(); /* one group a step, if empty, so that waiting can count */
        advance(p, &ahead);
        if (ahead.slice == 0) {
            enter();
        }
    };
    enter();
    for (int i = 0; i + 1 < JOIN_STAGES; i++) {
        __syncthreads(); /* ids that were entered are seen */
        copy_ahead();
    }

    ACC acc[2 * CAP / 8][4];
    join_task t = {};
    unsigned long long across = 0; /* pairs of this thread that met, where some do not */
    for (cursor at = {0, 0, 0}; at.number < entered; advance(p, &at)) {
        const int32_t turn = (int32_t)(at.number % JOIN_TURNS);
        mma_wait_copies<JOIN_STAGES - 2>();
        __syncthreads(); /* the slice has landed, the one before it is used up, ids are seen */
        copy_ahead();
        if (at.slice == 0) {
            t = join_task_of<CAP>(s.counts[turn]);
#pragma unroll
            for (int i = 0; i < 2 * CAP / 8 * 4; i++) {
                acc[i / 4][i % 4] = 0;
            }
        }
        if (t.slabs != 0) {
            join_multiply<CAP>(s.ring[at.stage], steps_of(p, at.slice), t, acc);
        }
        if (at.slice + 1 < p.slices) {
            continue;
        }
        if (p.job.all != 0) {
            __syncthreads(); /* the slice is used up: its room becomes scratch */
        }
        if (t.slabs != 0) {
            uint32_t *scratch = (uint32_t *)s.ring[at.stage] + t.row0 * JOIN_SLAB;
            across += join_use<TYPE, CAP, ACROSS>(p.job, &s, turn, t, scratch, acc);
        }
        if (p.job.all == 0) {
            __syncthreads(); /* all minima are there */
            join_offer_least<CAP, ACROSS>(p.job, &s, turn, t.news);
        }
    }
    if (ACROSS && across != 0) {
        (void)atomicAdd((unsigned long long *)p.job.evaluations, across);
    }
    if (threadIdx.x == 0 && s.evaluations != 0) {
        (void)atomicAdd((unsigned long long *)p.job.evaluations, s.evaluations);
    }
}

/* ---- Launch ---------------------------------------------------------------------------------- */

static params make_params(const kin_graph_gpu_join *job)
{
    const kin_screen_gpu_frame *frame = &job->points.set.frame;
    params p = {*job, frame->row_bytes / JOIN_SLICE, 0, MOST_RUN,
                (uint32_t)kin_graph_gpu_behind(&job->graph)};
    const int64_t used = (int64_t)frame->cols * (frame->type == KIN_SCREEN_GPU_S8 ? 1 : 2);
    const int64_t last = used - (int64_t)(p.slices - 1) * JOIN_SLICE;
    p.last_steps = (int32_t)((last + JOIN_STEP - 1) / JOIN_STEP);
    return p;
}

template <kin_screen_gpu_type TYPE, int CAP, bool ACROSS, typename ACC>
static int launch(kin_gpu_stream *stream, const kin_graph_gpu_join *job)
{
    params p = make_params(job);
    const int64_t points = kin_graph_gpu_behind(&job->graph) - job->graph.first;
    int blocks = 0;
    KIN_CUDA_TRY(cudaFuncSetAttribute(join_kernel<TYPE, CAP, ACROSS, ACC>,
                                      cudaFuncAttributePreferredSharedMemoryCarveout,
                                      (int)cudaSharedmemCarveoutMaxShared));
    KIN_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, join_kernel<TYPE, CAP, ACROSS, ACC>, 2 * CAP, 0));
    if (blocks < 1) {
        return (int)cudaErrorInvalidConfiguration;
    }
    const int64_t most = (int64_t)stream->processors * blocks;
    while (p.run > 1 && points < most * p.run * RUNS_A_BLOCK) {
        p.run /= 2;
    }
    const int64_t runs = (points + p.run - 1) / p.run;
    join_kernel<TYPE, CAP, ACROSS, ACC>
        <<<(unsigned)(runs < most ? runs : most), 2 * CAP, 0, stream->stream>>>(p);
    return kin_gpu_launched();
}

template <kin_screen_gpu_type TYPE, bool ACROSS, typename ACC>
static int launch_cap(kin_gpu_stream *stream, const kin_graph_gpu_join *job)
{
    const int32_t most = job->samples.forward + job->samples.reverse;
    if (most <= 16) {
        return launch<TYPE, 16, ACROSS, ACC>(stream, job);
    }
    return most <= 32 ? launch<TYPE, 32, ACROSS, ACC>(stream, job)
                      : launch<TYPE, 64, ACROSS, ACC>(stream, job);
}

template <bool ACROSS> static int launch_type(kin_gpu_stream *stream, const kin_graph_gpu_join *job)
{
    return job->points.set.frame.type == KIN_SCREEN_GPU_S8
               ? launch_cap<KIN_SCREEN_GPU_S8, ACROSS, int32_t>(stream, job)
               : launch_cap<KIN_SCREEN_GPU_F16, ACROSS, float>(stream, job);
}

extern "C" int kin_graph_gpu_launch_join(kin_gpu_stream *stream, const kin_graph_gpu_join *job)
{
    const int32_t most = job->samples.forward + job->samples.reverse;
    if (most < 1 || most > KIN_GRAPH_GPU_MOST_SAMPLES || job->graph.length < 1) {
        return (int)cudaErrorInvalidValue;
    }
    if (job->graph.points == 0) {
        return 0;
    }
    if (job->points.set.rounded == NULL) {
        return join_direct(stream, job);
    }
    return job->split > 0 ? launch_type<true>(stream, job) : launch_type<false>(stream, job);
}
