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
        return kin_graph_gpu_join_direct(stream, job);
    }
    return job->split > 0 ? launch_type<true>(stream, job) : launch_type<false>(stream, job);
}
