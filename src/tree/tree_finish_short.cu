/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A *team* of lanes finishes a place, a lane a candidate, or two: so a row of the output is
 * written as one piece, and what a warp waits for are the rows of one or a few places. The
 * canonical key is the eight sums of metric_canonical.h, one after the other. Walks leave short
 * lists sorted by value, so (key, id) nearly always stand in order already; where they do not,
 * every candidate counts those before it.
 *
 *   query   [column][place]     doubles in shared memory; of a sphere's place latitude, longitude
 *                               and the cosine
 *   keys    [team][slot]
 *   ids     [slot][place of 33] written by places, read by teams
 *
 * Cost. Neighbours in the order have candidates in common, so rows of the corpus come from the
 * caches; rows of 16-byte alignment in loads of 16 bytes. All ids are read before the first key is
 * computed, eight loads at a time.
 *
 * Limits. A list takes 132 bytes of shared memory a slot and warp, and 8 a team; a query 256 a
 * column. */
#include "tree/tree_finish.cuh"

enum {
    WARPS = 4,
    PITCH = KIN_TREE_GPU_PACKET + 1,
    LANES = KIN_METRIC_LANES,
    CHUNK = 16,
    AT_ONCE = 8,
    EACH = 2 /* candidates a lane */
};

/* Eight components of a row from column c on, zeros behind the last one. chunks: rows may be read
 * in pieces of 16 bytes. */
template <kith_dtype DTYPE>
static __device__ __forceinline__ void load_lanes(kith_dtype given, const char *row, int32_t c,
                                                  int32_t cols, bool chunks, double x[LANES])
{
    if constexpr (DTYPE == KITH_F32) {
        if (chunks && cols % (CHUNK / (int)sizeof(float)) == 0) {
            const float4 zeros = {0.0F, 0.0F, 0.0F, 0.0F};
            const float4 *from = (const float4 *)row + c / 4;
            const float4 low = __ldg(from);
            const float4 high = c + LANES <= cols ? __ldg(from + 1) : zeros;
            const float parts[LANES] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (int j = 0; j < LANES; j++) {
                x[j] = (double)parts[j];
            }
            return;
        }
    }
#pragma unroll
    for (int j = 0; j < LANES; j++) {
        x[j] = c + j < cols ? kin_pair_value<DTYPE>(given, row, c + j) : 0.0;
    }
}

/* Candidates of one row of few floats: where rows stand in the order of the tree, those of a packet
 * are near each other, and one load has all of a row and its id. */
template <kith_metric STEP, kith_dtype DTYPE>
static __host__ __device__ __forceinline__ bool reads_near(const kin_tree_gpu_finish &job)
{
    return STEP != KITH_HAVERSINE && DTYPE == KITH_F32 && job.near != NULL &&
           job.corpus.cols < KIN_TREE_GPU_WIDE;
}

static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    bring_near_kernel(const kin_tree_gpu_finish job)
{
    const int64_t position = kin_tree_gpu_my_thread();
    if (position >= job.tree.blocks * KIN_TREE_LANES) {
        return;
    }
    const uint32_t id = job.tree.ids[position];
    uint32_t words[KIN_TREE_GPU_WIDE] = {0, 0, 0, id};
#pragma unroll
    for (int c = 0; c < KIN_TREE_GPU_WIDE - 1; c++) {
        if (id != KITH_ID_NONE && c < job.corpus.cols) {
            words[c] = __ldg((const uint32_t *)finish_row(job, id) + c);
        }
    }
    ((uint4 *)job.near)[position] = make_uint4(words[0], words[1], words[2], words[3]);
}

/* query: its place's column. at: a position, which becomes the id. */
template <kith_metric STEP, bool WRAPS>
static __device__ __forceinline__ double near_key(const kin_tree_gpu_finish &job,
                                                  const double *query, uint32_t *at)
{
    const int32_t cols = job.corpus.cols;
    const uint4 four = __ldg((const uint4 *)job.near + *at);
    const uint32_t words[KIN_TREE_GPU_WIDE] = {four.x, four.y, four.z, four.w};
    double sums[LANES] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll
    for (int c = 0; c < KIN_TREE_GPU_WIDE - 1; c++) {
        if (c < cols) {
            sums[c] = kin_pair_step_in<STEP, WRAPS>(
                sums[c], query[c * KIN_TREE_GPU_PACKET], (double)__uint_as_float(words[c]),
                kin_pair_period<WRAPS>(job.corpus.period, c, cols));
        }
    }
    *at = four.w;
    const double sum = STEP == KITH_CHEBYSHEV ? kin_lanes_max(sums) : kin_lanes_sum(sums);
    return kin_pair_key<STEP>(job.corpus.metric, sum, cols);
}

/* query: its place's column. */
template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static __device__ __forceinline__ double key_of(const kin_screen_gpu_rows &corpus, const char *row,
                                                const double *query, bool chunks)
{
    const int32_t cols = corpus.cols;
    double sums[LANES] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll 1
    for (int32_t c = 0; c < cols; c += LANES) {
        double x[LANES];
        load_lanes<DTYPE>(corpus.dtype, row, c, cols, chunks, x);
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            if (c + j < cols) {
                sums[j] = kin_pair_step_in<STEP, WRAPS>(
                    sums[j], query[(c + j) * KIN_TREE_GPU_PACKET], x[j],
                    kin_pair_period<WRAPS>(corpus.period, c + j, cols));
            }
        }
    }
    const double sum = STEP == KITH_CHEBYSHEV ? kin_lanes_max(sums) : kin_lanes_sum(sums);
    return kin_pair_key<STEP>(corpus.metric, sum, cols);
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* This lane's place: the row that asks. */
template <kith_metric STEP>
static __device__ __forceinline__ void load_query(const kin_tree_gpu_finish &job, int64_t place,
                                                  double *query)
{
    const char *row = finish_query(job, place);
    if constexpr (STEP == KITH_HAVERSINE) {
        const kin_sphere_place own = kin_pair_sphere<KITH_DTYPE_NONE>(job.queries.dtype, row);
        query[0] = own.lat;
        query[KIN_TREE_GPU_PACKET] = own.lon;
        query[2 * KIN_TREE_GPU_PACKET] = own.cosine;
    } else {
        for (int32_t c = 0; c < job.queries.cols; c++) {
            query[c * KIN_TREE_GPU_PACKET] = kin_value(job.queries.dtype, row, c);
        }
    }
}

/* And the ids of its `count` candidates, at least one; near: their positions. */
static __device__ __forceinline__ void load_ids(const kin_tree_gpu_finish &job, int64_t place,
                                                int32_t count, bool near, uint32_t *ids)
{
    const uint64_t *words = finish_words(job, place);
    for (int32_t first = 0; first < count; first += AT_ONCE) {
        uint32_t some[AT_ONCE];
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            const int32_t i = min(first + s, count - 1);
            some[s] = (uint32_t)__ldg(words + i * KIN_TREE_GPU_PACKET);
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            some[s] = near ? some[s] : __ldg(job.tree.ids + some[s]);
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            ids[min(first + s, count - 1) * PITCH] = some[s];
        }
    }
}

/* ---- Teams ----------------------------------------------------------------------------------- */

/* A lane of a team, and what it has of the place at hand: slots first, first + lanes. */
struct team {
    int32_t lanes;
    int32_t first;
    uint32_t mask; /* all of the team */
    int32_t count; /* candidates of the place */
    double keys[EACH];
    uint32_t ids[EACH];
};

/* Lanes of a team: two slots of a list are a lane's at most. */
static __host__ __device__ __forceinline__ int32_t team_lanes(const kin_tree_gpu_lists &lists)
{
    const int32_t half = (lists.capacity + EACH - 1) / EACH;
    const int32_t lanes = lists.wanted > half ? lists.wanted : half;
    return lanes < KIN_TREE_GPU_PACKET ? lanes : (int32_t)KIN_TREE_GPU_PACKET;
}

/* id: a position where rows are read near. */
template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static __device__ __forceinline__ double candidate_key(const kin_tree_gpu_finish &job, uint32_t *id,
                                                       const double *query, bool chunks)
{
    if constexpr (STEP == KITH_HAVERSINE) {
        const kin_sphere_place own = {query[0], query[KIN_TREE_GPU_PACKET],
                                      query[2 * KIN_TREE_GPU_PACKET]};
        return kin_sphere_key(own, finish_sphere<DTYPE>(job, *id));
    } else {
        return reads_near<STEP, DTYPE>(job)
                   ? near_key<STEP, WRAPS>(job, query, id)
                   : key_of<STEP, DTYPE, WRAPS>(job.corpus, finish_row(job, *id), query, chunks);
    }
}

/* Whether a candidate of this lane comes before the one that stands before it. */
static __device__ __forceinline__ bool team_disordered(const team &t, const double *keys,
                                                       const uint32_t *ids)
{
    bool wrong = false;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int32_t slot = t.first + e * t.lanes;
        if (slot > 0 && slot < t.count) {
            wrong |= kin_sort_before(t.keys[e], t.ids[e], keys[slot - 1], ids[(slot - 1) * PITCH]);
        }
    }
    return wrong;
}

/* Sorts a place's candidates by (key, id). All lanes call it. */
static __device__ __forceinline__ void team_sort(team &t, double *keys, uint32_t *ids)
{
    int32_t ranks[EACH] = {0};
    for (int32_t i = 0; i < t.count; i++) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            ranks[e] += kin_sort_before(keys[i], ids[i * PITCH], t.keys[e], t.ids[e]) ? 1 : 0;
        }
    }
    __syncwarp(); /* all have read */
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        if (t.first + e * t.lanes < t.count) {
            keys[ranks[e]] = t.keys[e];
            ids[ranks[e] * PITCH] = t.ids[e];
        }
    }
    __syncwarp(); /* sorted */
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int32_t slot = t.first + e * t.lanes;
        if (slot < t.count) {
            t.keys[e] = keys[slot];
            t.ids[e] = ids[slot * PITCH];
        }
    }
}

/* Of one place; pairs: where its list stands. */
static __device__ __forceinline__ void write_list(const team &t, int32_t count,
                                                  kin_screen_gpu_pair *pairs)
{
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int32_t slot = t.first + e * t.lanes;
        if (slot < count) {
            const uint64_t bits = kin_bits_of(t.keys[e]);
            *(uint4 *)(pairs + slot) =
                make_uint4((uint32_t)bits, (uint32_t)(bits >> 32), t.ids[e], 0);
        }
    }
}

/* The same as an answer; row: its place's, or KITH_ID_NONE. Whoever is left out leaves a gap. */
static __device__ __forceinline__ void write_answer(const team &t, int32_t count, uint32_t row,
                                                    const kin_screen_gpu_write &job)
{
    const bool real = row != KITH_ID_NONE;
    const uint32_t own = job.leaves_own_out ? row : KITH_ID_NONE;
    const uint32_t left_out = real && job.left_out != NULL ? job.left_out[row] : own;
    int32_t gap = count;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int32_t slot = t.first + e * t.lanes;
        const uint32_t here =
            __ballot_sync(0xffffffffu, slot < count && t.ids[e] == left_out) & t.mask;
        gap = here != 0 ? __ffs((int)here) - __ffs((int)t.mask) + e * t.lanes : gap;
    }
    const int32_t kept = gap < count ? count - 1 : count;
    if (real && t.first == 0 && kept < job.k_out) {
        (void)atomicAdd((unsigned long long *)job.short_rows, 1ull);
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int32_t slot = t.first + e * t.lanes;
        const int32_t to = slot - (slot > gap ? 1 : 0);
        if (real && slot < count && slot != gap && to < job.k_out) {
            kin_screen_gpu_put(job, (int64_t)row * job.k_out + to, t.ids[e],
                               kin_pair_distance(job.metric, t.keys[e]));
        }
    }
}

/* ---- A packet -------------------------------------------------------------------------------- */

/* Shared memory of a warp, and what a lane knows of its place. */
struct packet {
    double *query;
    double *keys;
    uint32_t *ids;
    int64_t first; /* of its places in the job's */
    int32_t have;  /* candidates */
    uint32_t row;  /* that asks; KITH_ID_NONE: nobody */
};

/* All places, as many at a time as there are teams. */
template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static __device__ __forceinline__ void finish_places(const kin_tree_gpu_finish &job,
                                                     const packet &p, bool chunks)
{
    const int32_t lane = (int32_t)threadIdx.x % KIN_TREE_GPU_PACKET;
    team t;
    t.lanes = team_lanes(job.lists);
    t.first = lane % t.lanes;
    const int32_t teams = KIN_TREE_GPU_PACKET / t.lanes;
    const int32_t mine = lane / t.lanes; /* `teams`: none */
    t.mask = 0xffffffffu >> (KIN_TREE_GPU_PACKET - t.lanes) << (mine < teams ? mine * t.lanes : 0);
    double *keys = p.keys + (mine < teams ? mine : 0) * job.lists.capacity;
#pragma unroll 1
    for (int32_t place0 = 0; place0 < KIN_TREE_GPU_PACKET; place0 += teams) {
        const bool takes = mine < teams && place0 + mine < KIN_TREE_GPU_PACKET;
        const int32_t place = takes ? place0 + mine : place0;
        const int32_t have = __shfl_sync(0xffffffffu, p.have, place);
        const uint32_t row = __shfl_sync(0xffffffffu, p.row, place);
        t.count = takes ? have : 0;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int32_t slot = t.first + e * t.lanes;
            t.keys[e] = INFINITY;
            t.ids[e] = KITH_ID_NONE;
            if (slot < t.count) {
                t.ids[e] = p.ids[slot * PITCH + place];
                t.keys[e] =
                    candidate_key<STEP, DTYPE, WRAPS>(job, &t.ids[e], p.query + place, chunks);
                keys[slot] = t.keys[e];
                p.ids[slot * PITCH + place] = t.ids[e];
            }
        }
        __syncwarp(); /* keys are known */
        if (__any_sync(0xffffffffu, team_disordered(t, keys, p.ids + place))) {
            team_sort(t, keys, p.ids + place);
        }
        const int32_t count = min(t.count, job.lists.wanted);
        if (job.answers.rows != 0) {
            write_answer(t, count, takes ? row : KITH_ID_NONE, job.answers);
        } else {
            write_list(t, count, job.pairs + (p.first + place) * job.lists.wanted);
        }
        __syncwarp(); /* keys are read */
    }
}

template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static __global__ void __launch_bounds__(WARPS *KIN_TREE_GPU_PACKET)
    finish_kernel(const kin_tree_gpu_finish job, const int32_t bytes, const bool chunks)
{
    extern __shared__ double finish_shared[];
    const int32_t lane = (int32_t)threadIdx.x % KIN_TREE_GPU_PACKET;
    const int32_t warp = (int32_t)threadIdx.x / KIN_TREE_GPU_PACKET;
    const int32_t warps = (int32_t)blockDim.x / KIN_TREE_GPU_PACKET;
    const int32_t capacity = job.lists.capacity;
    packet p;
    p.first = ((int64_t)blockIdx.x * warps + warp) * KIN_TREE_GPU_PACKET;
    if (p.first >= job.count) {
        return;
    }
    const bool real = p.first + lane < job.count;
    const int64_t place = job.place0 + p.first + lane;
    p.query = finish_shared + (int64_t)warp * (bytes / (int32_t)sizeof(double));
    p.keys = p.query + (job.corpus.cols + 1) * KIN_TREE_GPU_PACKET;
    p.ids = (uint32_t *)(p.keys + KIN_TREE_GPU_PACKET / team_lanes(job.lists) * capacity);
    p.have = real ? min(job.lists.counts[place], capacity) : 0;
    p.row = real ? finish_asked(job, place) : KITH_ID_NONE;
    if (p.have > 0) {
        load_query<STEP>(job, place, p.query + lane);
        load_ids(job, place, p.have, reads_near<STEP, DTYPE>(job), p.ids + lane);
    }
    __syncwarp(); /* queries and ids are there */
    finish_places<STEP, DTYPE, WRAPS>(job, p, chunks);
    if (real && job.answers.rows == 0) {
        job.counts[p.first + lane] = min(p.have, job.lists.wanted);
    }
    const uint32_t computed = __reduce_add_sync(0xffffffffu, (uint32_t)p.have);
    if (lane == 0) {
        finish_count(job, computed);
    }
}

/* ---- Launch ---------------------------------------------------------------------------------- */

static int64_t warp_bytes(const kin_tree_gpu_finish *job)
{
    const int64_t capacity = job->lists.capacity;
    const int64_t keys = KIN_TREE_GPU_PACKET / team_lanes(job->lists) * capacity;
    const int64_t ids = (capacity * PITCH + 1) / 2 * 2 * (int64_t)sizeof(uint32_t);
    return (((int64_t)job->corpus.cols + 1) * KIN_TREE_GPU_PACKET + keys) *
               (int64_t)sizeof(double) +
           ids;
}

template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static int finish_launch(kin_gpu_stream *stream, const kin_tree_gpu_finish *job)
{
    const int64_t bytes = warp_bytes(job);
    const int64_t packets = (job->count + KIN_TREE_GPU_PACKET - 1) / KIN_TREE_GPU_PACKET;
    const bool chunks =
        ((uint64_t)(uintptr_t)job->corpus.data | (uint64_t)job->corpus.stride_bytes) % CHUNK == 0;
    int32_t warps = WARPS;
    while (warps > 1 && warps * bytes > stream->shared_bytes) {
        warps /= 2;
    }
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, finish_kernel<STEP, DTYPE, WRAPS>));
    if (reads_near<STEP, DTYPE>(*job) && job->place0 == 0) {
        bring_near_kernel<<<kin_tree_gpu_blocks_for(job->tree.blocks * KIN_TREE_LANES,
                                                    KIN_SCREEN_GPU_THREADS),
                            KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job);
        KIN_CUDA_TRY_LAUNCH();
    }
    finish_kernel<STEP, DTYPE, WRAPS>
        <<<(unsigned)((packets + warps - 1) / warps), (unsigned)(warps * KIN_TREE_GPU_PACKET),
           (size_t)(warps * bytes), stream->stream>>>(*job, (int32_t)bytes, chunks);
    return kin_gpu_launched();
}

int kin_tree_gpu_finish_short(kin_gpu_stream *stream, const kin_tree_gpu_finish *job)
{
#define LAUNCH(STEP, DTYPE, WRAPS) finish_launch<STEP, DTYPE, WRAPS>(stream, job)
    FINISH_LAUNCH(LAUNCH)
#undef LAUNCH
}
