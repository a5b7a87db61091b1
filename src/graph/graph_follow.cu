/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A walk (graph_walk.cuh) weighs a few hundred rows that lie anywhere in memory. By rounded
 * rows one of 96 columns as bytes is a line of memory, and its cost some 30 instructions of a warp.
 *
 *   lead     queries meet a sample of the points on the tensor cores, 64 by 64 at a time: points
 *            stand in an order in which near ones are together, and each run of it has a row in
 *            the sample. Each chunk of that tells its nearest one: no lists. Where queries are
 *            few, several blocks have a chunk
 *   follow   a warp walks from the nearest of these; of products, from their neighbours
 *   weigh    32 rows at a time: a team of eight threads reads eight of them, 16 bytes a thread, and
 *            sums are turned while they are added up, so that each lane ends with one row's cost
 *
 * Products. The longest rows have the largest products with nearly everybody, and lists of each
 * other: walks that began with them stayed there. The neighbours of a row that has the query's
 * direction, whatever its length, are nearly the query's own.
 *
 * Why every run gives the same bytes. As graph_walk.cu; sums of floats are added in one order, and
 * a position's cost is the walk's alone: what `lead` computed of it decides where to begin.
 *
 * Cost. Memory: a line a row of 128 bytes, and 32 bytes for its term; 10,000 queries that weigh 600
 * rows each are 1 GB. */
#include "graph/graph_join_mma.cuh"
#include "graph/graph_walk.cuh"

/* ---- lead ------------------------------------------------------------------------------------ */

enum {
    LEAD_ROWS = KIN_GRAPH_GPU_LEADS, /* queries of a block, and columns at a time */
    LEAD_WARPS = LEAD_ROWS / JOIN_SLAB,
    LEAD_THREADS = LEAD_WARPS * 32,
    LEAD_CHUNKS = JOIN_SLICE / JOIN_CHUNK,
    LEAD_STAGE = 2 * LEAD_ROWS * JOIN_SLICE,
    LEAD_ACCS = 2 * LEAD_ROWS / 8,
    LEAD_BLOCKS = 6 /* a processor: where queries are few a chunk is divided among some */
};

static __device__ __forceinline__ int64_t lead_position(const kin_graph_gpu_lead &job,
                                                        int64_t place)
{
    return kin_graph_gpu_lead_position(&job, min(place, job.count - 1));
}

/* A slice of LEAD_ROWS rows of a set on its way into shared memory, chunks of eight rows in eight
 * banks. position(i): of row i. */
template <typename POSITION>
static __device__ __forceinline__ void lead_copy(const kin_screen_gpu_set &set, int32_t slice,
                                                 unsigned char *to, POSITION position)
{
    const unsigned char *from = set.rounded + (int64_t)slice * JOIN_SLICE;
#pragma unroll
    for (int32_t i = (int32_t)threadIdx.x; i < LEAD_ROWS * LEAD_CHUNKS; i += LEAD_THREADS) {
        const int32_t row = i / LEAD_CHUNKS;
        const int32_t chunk = i % LEAD_CHUNKS;
        mma_copy<JOIN_CHUNK>(to + row * JOIN_SLICE + (chunk ^ row % 8) * JOIN_CHUNK,
                             from + position(row) * set.frame.row_bytes + chunk * JOIN_CHUNK);
    }
}

/* Of a query, with a position that has these facts. */
template <kin_screen_gpu_type TYPE, typename ACC>
static __device__ __forceinline__ uint32_t lead_order(bool products,
                                                      const kin_screen_gpu_facts &facts,
                                                      ACC product)
{
    kin_screen_gpu_word cost = {0};
    if (!products) {
        return join_order<TYPE>(cost, facts.term, product);
    }
    cost.f = __fdiv_rn(-(float)product, fmaxf(facts.norm, FLT_MIN));
    return kin_screen_gpu_order<KIN_SCREEN_GPU_F16>(cost);
}

/* The words of a tile's products: the least of rows g and g + 8 of the warp. */
template <kin_screen_gpu_type TYPE, typename ACC>
static __device__ __forceinline__ void lead_least(const kin_graph_gpu_lead &job, int64_t first,
                                                  const ACC (&acc)[LEAD_ACCS][4],
                                                  uint64_t (&least)[2])
{
    const bool products = job.points.frame.bound == KIN_BOUND_PRODUCT;
#pragma unroll
    for (int n = 0; n < LEAD_ROWS / 8; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int64_t place = first + 8 * n + kin_graph_gpu_lane() % 4 * 2 + e;
            const uint32_t position = (uint32_t)lead_position(job, place);
            const kin_screen_gpu_facts facts = job.points.facts[position];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint32_t order =
                    lead_order<TYPE>(products, facts, acc[LEAD_ROWS / 8 + n][2 * i + e]);
                const uint64_t word = kin_graph_word(order, position, 1);
                least[i] = place < job.count && word < least[i] ? word : least[i];
            }
        }
    }
}

template <kin_screen_gpu_type TYPE, typename ACC>
static __global__ void __launch_bounds__(LEAD_THREADS)
    lead_kernel(const __grid_constant__ kin_graph_gpu_lead job, const int32_t parts)
{
    __shared__ __align__(128) unsigned char ring[JOIN_STAGES][LEAD_STAGE];
    const int32_t slices = job.points.frame.row_bytes / JOIN_SLICE;
    const int32_t blocks = job.chunks * parts; /* of a tile of queries */
    const int32_t part = (int32_t)blockIdx.x % blocks;
    const int64_t row0 = (int64_t)((int32_t)blockIdx.x / blocks) * LEAD_ROWS;
    const int64_t chunk0 = (int64_t)(part / parts) * job.chunk;
    const int32_t share = (job.chunk / LEAD_ROWS + parts - 1) / parts * LEAD_ROWS;
    const int64_t begin = chunk0 + part % parts * share;
    const int64_t end = min(min(begin + share, chunk0 + job.chunk), job.count);
    const int32_t steps = (int32_t)((end - begin + LEAD_ROWS - 1) / LEAD_ROWS) * slices;
    const join_task task = {0xf0U, (int32_t)threadIdx.x / 32 * JOIN_SLAB, 0, 0};
    uint64_t least[2] = {KIN_GRAPH_EMPTY, KIN_GRAPH_EMPTY};
    ACC acc[LEAD_ACCS][4];
    const auto call = [&](int32_t step) {
        unsigned char *to = ring[step % JOIN_STAGES];
        const int64_t first = begin + step / slices * LEAD_ROWS;
        /* Queries stay where a stage always has the same slice of them. */
        if (step < JOIN_STAGES || JOIN_STAGES % slices != 0) {
            lead_copy(job.queries, step % slices, to, [&](int32_t i) { return row0 + i; });
        }
        lead_copy(job.points, step % slices, to + LEAD_ROWS * JOIN_SLICE,
                  [&](int32_t i) { return lead_position(job, first + i); });
    };
    kin_gpu_await();
    for (int32_t step = 0; step < JOIN_STAGES - 1; step++) {
        if (step < steps) {
            call(step);
        }
        mma_close_copies();
    }
    for (int32_t step = 0; step < steps; step++) {
        mma_wait_copies<JOIN_STAGES - 2>();
        __syncthreads(); /* this stage is there, and the one before has been read */
        if (step + JOIN_STAGES - 1 < steps) {
            call(step + JOIN_STAGES - 1);
        }
        mma_close_copies();
        if (step % slices == 0) {
#pragma unroll
            for (int n = 0; n < LEAD_ACCS; n++) {
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    acc[n][c] = 0;
                }
            }
        }
        join_multiply<LEAD_ROWS>(ring[step % JOIN_STAGES], JOIN_SLICE / JOIN_STEP, task, acc);
        if (step % slices == slices - 1) {
            lead_least<TYPE>(job, begin + step / slices * LEAD_ROWS, acc, least);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int away = 1; away < 4; away *= 2) {
            const uint64_t other = __shfl_xor_sync(KIN_GRAPH_GPU_LANES, least[i], away);
            least[i] = other < least[i] ? other : least[i];
        }
        const int64_t row = row0 + task.row0 + 8 * i + kin_graph_gpu_lane() / 4;
        if (kin_graph_gpu_lane() % 4 == 0 && row < job.queries.points) {
            (void)atomicMin((unsigned long long *)&job.words[row * job.chunks + part / parts],
                            (unsigned long long)least[i]);
        }
    }
}

extern "C" int kin_graph_gpu_launch_lead(kin_gpu_stream *stream, const kin_graph_gpu_lead *job)
{
    const int64_t tiles = (job->queries.points + LEAD_ROWS - 1) / LEAD_ROWS;
    if (tiles == 0) {
        return 0;
    }
    if (job->count < 1 || job->chunks > KIN_GRAPH_GPU_LEADS) {
        return (int)cudaErrorInvalidValue;
    }
    const int64_t spare = LEAD_BLOCKS * (int64_t)stream->processors / (job->chunks * tiles);
    const int64_t pieces = job->chunk / LEAD_ROWS;
    const int32_t parts = (int32_t)(spare < 1 ? 1 : spare < pieces ? spare : pieces);
    const bool bytes = job->points.frame.type == KIN_SCREEN_GPU_S8;
    const auto kernel =
        bytes ? lead_kernel<KIN_SCREEN_GPU_S8, int32_t> : lead_kernel<KIN_SCREEN_GPU_F16, float>;
    KIN_CUDA_TRY(cudaMemsetAsync(job->words, 0xff,
                                 (size_t)(job->queries.points * job->chunks) * sizeof *job->words,
                                 stream->stream));
    return kin_gpu_launch_behind(
        stream, kernel, {(unsigned)(job->chunks * parts * tiles), LEAD_THREADS, 0}, *job, parts);
}

/* ---- weigh ----------------------------------------------------------------------------------- */

enum {
    BLOCKS = 6, /* a processor */
    CREW = 8,   /* warps */
    TEAM_ROWS = KIN_METRIC_LANES
};

/* 16 bytes of two rows enter a sum. */
static __device__ __forceinline__ void add_products(const uint4 &x, const uint4 &y, float &sum)
{
    sum = kin_graph_gpu_dot_halves(x.x, y.x, sum);
    sum = kin_graph_gpu_dot_halves(x.y, y.y, sum);
    sum = kin_graph_gpu_dot_halves(x.z, y.z, sum);
    sum = kin_graph_gpu_dot_halves(x.w, y.w, sum);
}

static __device__ __forceinline__ void add_products(const uint4 &x, const uint4 &y, int32_t &sum)
{
    sum = __dp4a((int)x.x, (int)y.x, sum);
    sum = __dp4a((int)x.y, (int)y.y, sum);
    sum = __dp4a((int)x.z, (int)y.z, sum);
    sum = __dp4a((int)x.w, (int)y.w, sum);
}

/* Each thread of a team has its part of the sums of eight rows; after that thread i has the whole
 * of row i. */
template <typename ACC> static __device__ __forceinline__ ACC turn_sums(ACC (&sums)[TEAM_ROWS])
{
#pragma unroll
    for (int half = TEAM_ROWS / 2; half > 0; half /= 2) {
        const bool upper = (kin_graph_gpu_lane() & half) != 0;
#pragma unroll
        for (int r = 0; r < half; r++) {
            const ACC given = upper ? sums[r] : sums[r + half];
            const ACC kept = upper ? sums[r + half] : sums[r];
            sums[r] = kept + __shfl_xor_sync(KIN_GRAPH_GPU_LANES, given, half);
        }
    }
    return sums[0];
}

/* The scale of rounded rows (graph_walk.cuh). */
template <kin_screen_gpu_type TYPE, typename ACC> struct rounded {
    const kin_graph_gpu_follow &job;

    /* Products of the query with `TEAM_ROWS` rows a team, one a lane. */
    __device__ __forceinline__ ACC multiply(const walker &w, const uint32_t *rows,
                                            int32_t last) const
    {
        const int32_t chunks = job.points.frame.row_bytes / (int32_t)sizeof(uint4);
        const int32_t lane = kin_graph_gpu_lane();
        const uint4 *own = (const uint4 *)job.queries.rounded + w.own * chunks;
        const uint4 *others[TEAM_ROWS];
        ACC sums[TEAM_ROWS];
#pragma unroll
        for (int r = 0; r < TEAM_ROWS; r++) {
            const uint32_t row = rows[min(lane / TEAM_ROWS * TEAM_ROWS + r, last)];
            others[r] = (const uint4 *)job.points.rounded + (int64_t)row * chunks;
            sums[r] = 0;
        }
        for (int32_t at = lane % KIN_METRIC_LANES; at < chunks; at += KIN_METRIC_LANES) {
            const uint4 x = __ldg(own + at);
            uint4 y[TEAM_ROWS];
#pragma unroll
            for (int r = 0; r < TEAM_ROWS; r++) {
                y[r] = __ldg(others[r] + at);
            }
#pragma unroll
            for (int r = 0; r < TEAM_ROWS; r++) {
                add_products(x, y[r], sums[r]);
            }
        }
        return turn_sums(sums);
    }

    __device__ __forceinline__ int32_t weigh(const walker &w, uint64_t last, int32_t turn,
                                             int32_t turns) const
    {
        const kin_screen_gpu_word own = job.queries.facts[w.own].term;
        int32_t kept = w.kept;
        for (int32_t base = turn * 32; base < w.waiting; base += turns * 32) {
            const int32_t behind = w.waiting - base - 1; /* lanes without a row repeat this one */
            const uint32_t row = w.rows[base + min(kin_graph_gpu_lane(), behind)];
            const kin_screen_gpu_word term = job.points.facts[row].term;
            const ACC product = multiply(w, w.rows + base, behind);
            const uint64_t word = kin_graph_word(join_order<TYPE>(own, term, product), row, 1);
            const bool keeps = kin_graph_gpu_lane() <= behind && word < last;
            kept = walk_keep(job, w, turns > 1, keeps, word, kept);
        }
        return kept;
    }

    __device__ __forceinline__ void call(uint32_t row) const
    {
        walk_call(job.points.rounded + (int64_t)row * job.points.frame.row_bytes,
                  job.points.frame.row_bytes);
        walk_call(job.points.facts + row, sizeof *job.points.facts);
    }
};

/* ---- A walk ---------------------------------------------------------------------------------- */

/* Those that a query was led to, sorted: lane i has some from LEAD_WORDS i on. */
enum { LEAD_WORDS = KIN_GRAPH_GPU_LEADS / 32 };

static __device__ __forceinline__ void sort_leads(const kin_graph_gpu_follow &job, int64_t i,
                                                  uint64_t (&words)[LEAD_WORDS])
{
#pragma unroll
    for (int r = 0; r < LEAD_WORDS; r++) {
        const int32_t at = kin_graph_gpu_lane() * LEAD_WORDS + r;
        words[r] =
            at < job.lead_count ? job.leads[i * job.lead_count + at] : (uint64_t)KIN_GRAPH_EMPTY;
    }
    kin_graph_gpu_sort(words);
}

/* Positions of the leads first .. first + count. */
static __device__ __forceinline__ void put_leads(const uint64_t (&words)[LEAD_WORDS], int32_t first,
                                                 int32_t count, uint32_t *to)
{
#pragma unroll
    for (int r = 0; r < LEAD_WORDS; r++) {
        const int32_t at = kin_graph_gpu_lane() * LEAD_WORDS + r - first;
        if (at >= 0 && at < count) {
            to[at] = kin_graph_position(words[r]);
        }
    }
    __syncwarp(); /* they are all there */
}

/* The nearest leads enter the list, and of products the neighbours of some, which are looked at
 * before anybody is turned away. */
template <typename SCALE>
static __device__ __forceinline__ void enter(const SCALE &scale, const walk_shape &s, int64_t i,
                                             walker &w)
{
    const kin_graph_gpu_follow &job = scale.job;
    const int32_t alike = job.points.frame.bound == KIN_BOUND_PRODUCT
                              ? min(job.lead_count, (int32_t)KIN_GRAPH_GPU_ALIKE)
                              : 0;
    uint64_t words[LEAD_WORDS];
    sort_leads(job, i, words);
    w.waiting = min(job.lead_count, (int32_t)KIN_GRAPH_GPU_ENTRIES);
    put_leads(words, 0, w.waiting, w.rows);
    walk_take(scale, s, w, true);
    for (int32_t first = 0; first < alike; first += s.fan) {
        const int32_t count = min(s.fan, alike - first);
        put_leads(words, first, count, w.picked);
        walk_look(scale, s, job.links, w, count * s.most);
    }
}

static __device__ __forceinline__ void tell(const kin_graph_gpu_follow &job, int64_t i,
                                            const walker &w)
{
    const int32_t count = min(w.count, job.lists.capacity);
    for (int32_t j = kin_graph_gpu_lane(); j < count; j += 32) {
        const uint64_t word = w.list[j];
        job.lists.words[i * job.lists.capacity + j] =
            (word & 0xffffffff00000000ULL) | kin_graph_position(word);
    }
    if (kin_graph_gpu_lane() == 0) {
        job.lists.counts[i] = count;
    }
}

template <typename SCALE>
static __device__ __forceinline__ void follow_each(const kin_graph_gpu_follow &job,
                                                   const walk_shape &s, walker &w, int64_t first,
                                                   int64_t step)
{
    const SCALE scale = {job};
    for (int64_t i = first; i < job.queries.points; i += step) {
        walk_begin(s, i, w);
        enter(scale, s, i, w);
        walk_on(scale, s, job.links, w);
        tell(job, i, w);
    }
    walk_count(w, job.evaluations);
}

template <typename SCALE>
static __global__ void __launch_bounds__(WALK_THREADS, BLOCKS)
    follow_kernel(const __grid_constant__ kin_graph_gpu_follow job,
                  const __grid_constant__ walk_shape s)
{
    extern __shared__ double shared[];
    const int32_t warp = (int32_t)threadIdx.x / 32;
    walker w = walker_of(s, (char *)shared + (size_t)warp * (size_t)walk_warp_bytes(s));
    follow_each<SCALE>(job, s, w, (int64_t)blockIdx.x * s.warps + warp,
                       (int64_t)gridDim.x * s.warps);
}

/* A crew a query. */
template <typename SCALE>
static __global__ void __launch_bounds__(CREW * 32)
    crew_kernel(const __grid_constant__ kin_graph_gpu_follow job,
                const __grid_constant__ walk_shape s)
{
    extern __shared__ double shared[];
    __shared__ walk_orders told;
    walker w = walker_of(s, (char *)shared);
    w.crew = &told;
    if (threadIdx.x >= 32) {
        walk_serve(SCALE{job}, s, w);
        return;
    }
    follow_each<SCALE>(job, s, w, (int64_t)blockIdx.x, (int64_t)gridDim.x);
    walk_dismiss(w);
}

/* ---- Launch ---------------------------------------------------------------------------------- */

template <typename SCALE>
static int follow_launch(kin_gpu_stream *stream, const kin_graph_gpu_follow *job)
{
    const int64_t count = job->queries.points;
    const walk_shape s = walk_shape_of(stream, count, job->width, job->most, 0, CREW);
    const auto kernel = s.crew > 0 ? crew_kernel<SCALE> : follow_kernel<SCALE>;
    return walk_launch_all(stream, s, count, BLOCKS, kernel, *job);
}

extern "C" int kin_graph_gpu_launch_follow(kin_gpu_stream *stream, const kin_graph_gpu_follow *job)
{
    if (job->queries.points == 0) {
        return 0;
    }
    if (job->width > KIN_GRAPH_GPU_MOST_WIDTH || job->width < job->lists.capacity ||
        job->most < 1 || job->lead_count < 1 || job->lead_count > KIN_GRAPH_GPU_LEADS) {
        return (int)cudaErrorInvalidValue;
    }
    return job->points.frame.type == KIN_SCREEN_GPU_S8
               ? follow_launch<rounded<KIN_SCREEN_GPU_S8, int32_t>>(stream, job)
               : follow_launch<rounded<KIN_SCREEN_GPU_F16, float>>(stream, job);
}
