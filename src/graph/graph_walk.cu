/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A warp walks for a query (graph/graph_walk.h); where queries are few, a crew: the warps of
 * a block, of which the first walks, and all weigh. It keeps the `width` nearest rows that it has
 * met as sorted words in shared memory, and in each step
 *
 *   pick    takes the nearest of them whose links it has not looked at, several at once, so that
 *           all lanes have work
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
#include "graph/graph_warp.cuh"

/* The sorted list of a walk (graph_walk.cu) in shared memory, and words that enter it: sorted in
 * registers, then merged in place. Lists hold no position twice. All lanes of a warp call these
 * together. */

/* ---- Words ----------------------------------------------------------------------------------- */

/* The first of `count` ascending words that is not below `word`. */
static __device__ __forceinline__ int32_t kin_graph_gpu_walk_place(const uint64_t *words,
                                                                   int32_t count, uint64_t word)
{
    int32_t low = 0;
    int32_t high = count;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (words[middle] < word) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static __device__ __forceinline__ uint32_t kin_graph_gpu_walk_lanes_below(void)
{
    return (1u << kin_graph_gpu_lane()) - 1u;
}

/* ---- merge ----------------------------------------------------------------------------------- */

/* A sorted list and words that may enter it. */
typedef struct kin_graph_gpu_walk_merging {
    uint64_t *list;
    uint64_t *batch;
    int32_t count; /* of the list */
    int32_t width; /* that it may have */
} kin_graph_gpu_walk_merging;

/* Sorts `kept` words of the batch; those that stand there twice, or in the list, become empty.
 * Returns how many are left. */
template <int R>
static __device__ __forceinline__ int32_t
kin_graph_gpu_walk_sort(const kin_graph_gpu_walk_merging &m, int32_t kept, uint64_t (&words)[R])
{
    const int32_t first = kin_graph_gpu_lane() * R;
#pragma unroll
    for (int r = 0; r < R; r++) {
        words[r] = first + r < kept ? m.batch[first + r] : KIN_GRAPH_EMPTY;
    }
    for (uint32_t found = 1; found != 0;) {
        bool same[R];
        kin_graph_gpu_sort<R>(words);
        kin_graph_gpu_same<R>(words, same);
        bool some = false;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const int32_t at = kin_graph_gpu_walk_place(m.list, m.count, words[r] & ~(uint64_t)1);
            const bool known = at < m.count && (m.list[at] ^ words[r]) < 2;
            if (words[r] != KIN_GRAPH_EMPTY && (same[r] || known)) {
                words[r] = KIN_GRAPH_EMPTY;
                some = true;
            }
        }
        found = __ballot_sync(KIN_GRAPH_GPU_LANES, some);
    }
    int32_t left = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        left += __popc(__ballot_sync(KIN_GRAPH_GPU_LANES, words[r] != KIN_GRAPH_EMPTY));
    }
    __syncwarp(); /* the batch has been read */
#pragma unroll
    for (int r = 0; r < R; r++) {
        m.batch[first + r] = words[r];
    }
    __syncwarp(); /* it is sorted */
    return left;
}

/* Words of the list move behind those of the sorted batch that come before them: from the last ones
 * on, so that none is overwritten before it has moved. */
static __device__ __forceinline__ void
kin_graph_gpu_walk_make_way(const kin_graph_gpu_walk_merging &m, int32_t left)
{
    for (int32_t base = (m.count + 31) / 32 * 32 - 32; base >= 0; base -= 32) {
        const int32_t at = base + kin_graph_gpu_lane();
        const uint64_t word = m.list[at];
        const int32_t away = at < m.count ? kin_graph_gpu_walk_place(m.batch, left, word) : 0;
        __syncwarp(); /* all have read theirs */
        if (away > 0 && at + away < m.width) {
            m.list[at + away] = word;
        }
        if (__ballot_sync(KIN_GRAPH_GPU_LANES, away > 0) == 0) {
            break; /* nor does anybody before */
        }
    }
}

/* Words of the batch enter the list: how many there are then, and the place of the first one that
 * came. */
template <int R>
static __device__ __noinline__ int2 kin_graph_gpu_walk_merge(const kin_graph_gpu_walk_merging m,
                                                             int32_t kept)
{
    uint64_t words[R];
    int32_t places[R];
    const int32_t left = kin_graph_gpu_walk_sort<R>(m, kept, words);
    if (left == 0) {
        return make_int2(m.count, m.count);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        places[r] =
            kin_graph_gpu_lane() * R + r + kin_graph_gpu_walk_place(m.list, m.count, words[r]);
    }
    __syncwarp(); /* the list has been read */
    kin_graph_gpu_walk_make_way(m, left);
    __syncwarp(); /* it has made way */
#pragma unroll
    for (int r = 0; r < R; r++) {
        if (words[r] != KIN_GRAPH_EMPTY && places[r] < m.width) {
            m.list[places[r]] = words[r];
        }
    }
    __syncwarp(); /* it is whole */
    return make_int2(min(m.count + left, m.width), __shfl_sync(KIN_GRAPH_GPU_LANES, places[0], 0));
}

enum {
    WARPS = 4, /* of a block, or fewer where a walk is wide */
    THREADS = WARPS * 32,
    BLOCKS = 5,       /* a processor */
    WAVES = 32,       /* blocks in turn, a block that fits */
    TEAMS = 4,        /* of a warp */
    CREW = 16,        /* warps of one: they weigh a batch at once */
    BATCH = 128,      /* rows that are weighed at a time */
    KEPT = 2 * BATCH, /* words that wait to be merged: of a batch, and as many before it */
    FAN = 8,          /* rows that are picked at once, at most */
    STAGED = 1024,    /* components of a query that shared memory holds */
    CREWS = 6,        /* a processor: more queries have a warp each, */
    CREW_WIDTH = 256, /* and so have wider walks */
    LINE = 128,       /* bytes of memory that come together */
    MOST_CALLED = 8 * LINE,
    MARKS_A_WORD = 16, /* places of the table, a word of the list */
    LEAST_MARKS = 1024,
    MOST_MARKS = 8192,
    ENOUGH_BYTES = 48 << 10 /* of a block: more than one warp in no more than that */
};

#define MET_SALT 0x6d6574u

/* What a launch decides. */
typedef struct shape {
    int32_t warps;  /* of a block */
    int32_t staged; /* components of the query in shared memory, a multiple of KIN_GRAPH_GPU_BATCH;
                       0: it is read like the others */
    int32_t room;   /* words of the list, a multiple of 32 */
    int32_t marks; /* places of the table, a power of two, >= 2 room: keys take its place at last */
    int32_t fan;
    int32_t called; /* bytes of a row that a crew calls before it reads them */
} shape;

static __host__ __device__ int32_t warp_bytes(const shape &s)
{
    return s.staged * (int32_t)sizeof(double) + (s.room + KEPT) * (int32_t)sizeof(uint64_t) +
           (BATCH + FAN + s.marks) * (int32_t)sizeof(uint32_t);
}

/* What the first warp of a crew tells the others. */
typedef struct orders {
    uint64_t last;
    int64_t own;
    int32_t waiting; /* -1: there is nothing more to do */
    int32_t kept;
} orders;

/* A walk under way; all lanes hold the same. */
typedef struct walker {
    double *query;
    uint64_t *list; /* sorted; `count` in use, KIN_GRAPH_EMPTY behind */
    uint64_t *batch;
    uint32_t *rows; /* `waiting` of them are to be weighed */
    uint32_t *picked;
    uint32_t *marks;
    int64_t own; /* row of the query */
    int32_t count;
    int32_t next; /* nobody before it is to be looked at */
    int32_t waiting;
    int32_t kept; /* words of the batch */
    uint64_t evaluations;
    orders *crew; /* shared; NULL: the warp is alone */
} walker;

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
                                                        const shape &s, const walker &w,
                                                        kith_dtype dtype, int32_t first,
                                                        double (&values)[KIN_GRAPH_GPU_UNROLL])
{
    if (s.staged == 0) {
        kin_graph_gpu_components(job.queries, dtype, (uint32_t)w.own, first, values);
        return;
    }
#pragma unroll
    for (int u = 0; u < KIN_GRAPH_GPU_UNROLL; u++) {
        values[u] = w.query[first + u * KIN_METRIC_LANES];
    }
}

static __device__ __forceinline__ bool is_degenerate(const kin_fused_rows &rows, int64_t row)
{
    return rows.transforms != NULL && rows.transforms[row].degenerate != 0;
}

/* Canonical keys of two rows, in all threads of a team. */
template <kith_metric STEP>
static __device__ __forceinline__ void keys_of(const kin_graph_gpu_walk &job, const shape &s,
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

/* Words of those that wait and come before the last of a full list go to the batch: those of this
 * warp's turn, one of `turns`; how many the batch has then. */
template <kith_metric STEP>
static __device__ __forceinline__ int32_t weigh(const kin_graph_gpu_walk &job, const shape &s,
                                                const walker &w, const dtypes &types, uint64_t last,
                                                int32_t turn, int32_t turns)
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
            const bool keeps =
                at[c] < w.waiting && word < last && kin_graph_gpu_lane() % KIN_METRIC_LANES == 0;
            const uint32_t all = __ballot_sync(KIN_GRAPH_GPU_LANES, keeps);
            if (turns > 1 && all != 0) {
                const int32_t more =
                    kin_graph_gpu_lane() == 0 ? atomicAdd(&w.crew->kept, __popc(all)) : 0;
                kept = __shfl_sync(KIN_GRAPH_GPU_LANES, more, 0);
            }
            if (keeps) {
                w.batch[kept + __popc(all & kin_graph_gpu_walk_lanes_below())] = word;
            }
            kept += __popc(all);
        }
    }
    return kept;
}

/* All warps of the block, each from where it is. */
static __device__ __forceinline__ void crew_meets(void)
{
    __syncwarp();
    asm volatile("bar.sync 1, %0;" ::"n"(CREW * 32) : "memory");
}

/* As weigh, by all of the crew; its first warp calls it. */
template <kith_metric STEP>
static __device__ __forceinline__ int32_t weigh_together(const kin_graph_gpu_walk &job,
                                                         const shape &s, const walker &w,
                                                         const dtypes &types, uint64_t last)
{
    if (kin_graph_gpu_lane() == 0) {
        *w.crew = {last, w.own, w.waiting, w.kept};
    }
    crew_meets(); /* they know, and see the rows */
    (void)weigh<STEP>(job, s, w, types, last, 0, CREW);
    crew_meets(); /* the batch is there */
    return w.crew->kept;
}

/* What the other warps of a crew do, until the first one has no more queries. */
template <kith_metric STEP>
static __device__ __forceinline__ void serve(const kin_graph_gpu_walk &job, const shape &s,
                                             walker &w, const dtypes &types)
{
    for (;;) {
        crew_meets();
        const orders told = *w.crew;
        if (told.waiting < 0) {
            return;
        }
        w.own = told.own;
        w.waiting = told.waiting;
        (void)weigh<STEP>(job, s, w, types, told.last, (int32_t)threadIdx.x / 32, CREW);
        crew_meets();
    }
}

/* Those that wait go to the batch; they enter the list, where `now` says so or the batch may be too
 * small for more. */
template <kith_metric STEP>
static __device__ __forceinline__ void take(const kin_graph_gpu_walk &job, const shape &s,
                                            walker &w, const dtypes &types, bool now)
{
    const uint64_t last = w.count < job.width ? KIN_GRAPH_EMPTY : w.list[job.width - 1];
    __syncwarp(); /* they are all there */
    w.kept = w.crew != NULL ? weigh_together<STEP>(job, s, w, types, last)
                            : weigh<STEP>(job, s, w, types, last, 0, 1);
    w.evaluations += (uint64_t)w.waiting;
    w.waiting = 0;
    __syncwarp(); /* the batch is there, and rows may be written again */
    if (w.kept > 0 && (now || w.kept > KEPT - BATCH)) {
        const kin_graph_gpu_walk_merging m = {w.list, w.batch, w.count, job.width};
        const int2 merged = w.kept > BATCH ? kin_graph_gpu_walk_merge<KEPT / 32>(m, w.kept)
                            : w.kept > 32  ? kin_graph_gpu_walk_merge<BATCH / 32>(m, w.kept)
                                           : kin_graph_gpu_walk_merge<1>(m, w.kept);
        w.count = merged.x;
        w.next = min(w.next, merged.y);
        w.kept = 0;
    }
}

/* ---- meet ------------------------------------------------------------------------------------ */

/* Its lines are on their way, for a crew, which has too few rows under way to hide how far they
 * are.
 */
static __device__ __forceinline__ void call_row(const kin_graph_gpu_walk &job, const shape &s,
                                                uint32_t row)
{
    const char *data = (const char *)job.points.data + (int64_t)row * job.points.stride_bytes;
    for (int32_t at = 0; at < s.called; at += LINE) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(data + at));
    }
}

/* A row a lane (KITH_ID_NONE: none): those that were not met lately wait from here on. */
static __device__ __forceinline__ void meet(const kin_graph_gpu_walk &job, const shape &s,
                                            walker &w, uint32_t row)
{
    const uint32_t mark = kin_graph_hash(MET_SALT, row) & (uint32_t)(s.marks - 1);
    const bool is_new = row != KITH_ID_NONE && w.marks[mark] != row;
    const uint32_t nobody = 0x80000000u | (uint32_t)kin_graph_gpu_lane();
    const uint32_t rivals = __match_any_sync(KIN_GRAPH_GPU_LANES, is_new ? mark : nobody);
    const int first = __ffs((int)rivals) - 1;
    const bool twin =
        __shfl_sync(KIN_GRAPH_GPU_LANES, row, first) == row && first != kin_graph_gpu_lane();
    __syncwarp(); /* marks have been read */
    if (is_new && first == kin_graph_gpu_lane()) {
        w.marks[mark] = row;
    }
    const bool waits = is_new && !twin;
    const uint32_t all = __ballot_sync(KIN_GRAPH_GPU_LANES, waits);
    if (waits && w.crew != NULL) {
        call_row(job, s, row);
    }
    if (waits) {
        w.rows[w.waiting + __popc(all & kin_graph_gpu_walk_lanes_below())] = row;
    }
    w.waiting += __popc(all);
    __syncwarp(); /* marks have been written */
}

/* Link number i of those that were picked. */
static __device__ __forceinline__ uint32_t link_of(const kin_graph_gpu_walk &job, const walker &w,
                                                   int32_t i, int32_t count)
{
    return i < count ? __ldg(job.links + (int64_t)w.picked[i / job.most] * job.most + i % job.most)
                     : KITH_ID_NONE;
}

/* ---- pick ------------------------------------------------------------------------------------ */

/* The nearest that were not looked at, up to `fan`; how many. */
static __device__ __forceinline__ int32_t pick(walker &w, int32_t fan)
{
    int32_t picked = 0;
    int32_t base = w.next / 32 * 32;
    for (; base < w.count && picked < fan; base += 32) {
        const int32_t at = base + kin_graph_gpu_lane();
        const uint64_t word = w.list[at];
        const bool fresh = at < w.count && kin_graph_is_new(word) != 0;
        const uint32_t all = __ballot_sync(KIN_GRAPH_GPU_LANES, fresh);
        const int32_t place = picked + __popc(all & kin_graph_gpu_walk_lanes_below());
        if (fresh && place < fan) {
            w.picked[place] = kin_graph_position(word);
            w.list[at] = word & ~(uint64_t)1;
        }
        picked += __popc(all);
    }
    /* The last ones that were looked at may have more behind them. */
    w.next = max(0, base - 32);
    __syncwarp(); /* all know who it is */
    return min(picked, fan);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Keys of the first `some` of the list. */
template <kith_metric STEP>
static __device__ __forceinline__ void compute_keys(const kin_graph_gpu_walk &job, const shape &s,
                                                    const walker &w, const dtypes &types,
                                                    int32_t some, double *keys)
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
    return kin_graph_gpu_walk_place(w.list, w.count, (order + 1) << 32);
}

template <kith_metric STEP>
static __device__ __forceinline__ void finish(const kin_graph_gpu_walk &job, const shape &s,
                                              const walker &w, const dtypes &types, int64_t i)
{
    double *keys = (double *)w.marks;
    const int32_t some = contenders(job, w);
    compute_keys<STEP>(job, s, w, types, some, keys);
    for (int32_t j = kin_graph_gpu_lane(); j < some; j += 32) {
        const int32_t rank = rank_of(w, keys, some, j);
        if (rank < job.k) {
            job.pairs[i * job.k + rank] = kin_fused_pair{keys[j], kin_graph_position(w.list[j]), 0};
        }
    }
    if (kin_graph_gpu_lane() == 0) {
        job.found[i] = min(w.count, job.k);
    }
}

/* ---- A walk ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ void begin(const kin_graph_gpu_walk &job, const shape &s,
                                             kith_dtype dtype, int64_t i, walker &w)
{
    __syncwarp(); /* the walk before is over */
    w.own = job.query0 + i;
    w.count = 0;
    w.next = 0;
    w.waiting = 0;
    w.kept = 0;
    for (int32_t first = 0; first < s.staged; first += KIN_GRAPH_GPU_BATCH) {
        double values[KIN_GRAPH_GPU_UNROLL];
        const int32_t at = first + kin_graph_gpu_lane() % KIN_METRIC_LANES;
        kin_graph_gpu_components(job.queries, dtype, (uint32_t)w.own, at, values);
#pragma unroll
        for (int u = 0; u < KIN_GRAPH_GPU_UNROLL; u++) {
            w.query[at + u * KIN_METRIC_LANES] = values[u];
        }
    }
    for (int32_t j = kin_graph_gpu_lane(); j < s.room; j += 32) {
        w.list[j] = KIN_GRAPH_EMPTY;
    }
    for (int32_t j = kin_graph_gpu_lane(); j < s.marks; j += 32) {
        w.marks[j] = KITH_ID_NONE;
    }
    __syncwarp();
}

/* Nobody is marked: those that stay are few, and found again in the list. */
template <kith_metric STEP>
static __device__ __forceinline__ void enter(const kin_graph_gpu_walk &job, const shape &s,
                                             walker &w, const dtypes &types)
{
    for (int32_t base = 0; base < job.entry_count; base += BATCH) {
        w.waiting = min((int32_t)BATCH, job.entry_count - base);
        for (int32_t i = kin_graph_gpu_lane(); i < w.waiting; i += 32) {
            w.rows[i] = __ldg(job.entries + base + i);
        }
        take<STEP>(job, s, w, types, base + BATCH >= job.entry_count);
    }
}

template <kith_metric STEP>
static __device__ __forceinline__ void go(const kin_graph_gpu_walk &job, const shape &s, walker &w,
                                          const dtypes &types)
{
    const int32_t lane = kin_graph_gpu_lane();
    enter<STEP>(job, s, w, types);
    for (int32_t count = 0; (count = pick(w, s.fan) * job.most) > 0;) {
        uint32_t row = link_of(job, w, lane, count);
        for (int32_t base = 0; base < count; base += 32) {
            const uint32_t following = link_of(job, w, base + 32 + lane, count);
            meet(job, s, w, row);
            row = following;
            if (w.waiting > BATCH - 32 || base + 32 >= count) {
                take<STEP>(job, s, w, types, base + 32 >= count);
            }
        }
    }
}

static __device__ __forceinline__ walker walker_of(const shape &s, char *room)
{
    walker w;
    w.query = (double *)room;
    w.list = (uint64_t *)(w.query + s.staged);
    w.batch = w.list + s.room;
    w.marks = (uint32_t *)(w.batch + KEPT);
    w.rows = w.marks + s.marks;
    w.picked = w.rows + BATCH;
    w.kept = 0;
    w.evaluations = 0;
    w.crew = NULL;
    return w;
}

/* Queries first, first + step ... */
template <kith_metric STEP>
static __device__ __forceinline__ void walk_each(const kin_graph_gpu_walk &job, const shape &s,
                                                 walker &w, const dtypes &types, int64_t first,
                                                 int64_t step)
{
    for (int64_t i = first; i < job.count; i += step) {
        begin(job, s, types.queries, i, w);
        go<STEP>(job, s, w, types);
        finish<STEP>(job, s, w, types, i);
    }
    if (kin_graph_gpu_lane() == 0 && w.evaluations > 0) {
        (void)atomicAdd((unsigned long long *)job.evaluations, (unsigned long long)w.evaluations);
    }
}

template <kith_metric STEP>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    walk_kernel(const __grid_constant__ kin_graph_gpu_walk job, const __grid_constant__ shape s,
                const __grid_constant__ dtypes types)
{
    extern __shared__ double shared[];
    const int32_t warp = (int32_t)threadIdx.x / 32;
    walker w = walker_of(s, (char *)shared + (size_t)warp * (size_t)warp_bytes(s));
    walk_each<STEP>(job, s, w, types, (int64_t)blockIdx.x * s.warps + warp,
                    (int64_t)gridDim.x * s.warps);
}

/* A crew a query. */
template <kith_metric STEP>
static __global__ void __launch_bounds__(CREW * 32, 1)
    crew_kernel(const __grid_constant__ kin_graph_gpu_walk job, const __grid_constant__ shape s,
                const __grid_constant__ dtypes types)
{
    extern __shared__ double shared[];
    __shared__ orders told;
    walker w = walker_of(s, (char *)shared);
    w.crew = &told;
    if (threadIdx.x >= 32) {
        serve<STEP>(job, s, w, types);
        return;
    }
    walk_each<STEP>(job, s, w, types, (int64_t)blockIdx.x, (int64_t)gridDim.x);
    if (threadIdx.x == 0) {
        told.waiting = -1;
    }
    crew_meets(); /* they go home */
}

/* ---- Launch ---------------------------------------------------------------------------------- */

static int32_t at_least(int32_t least, int32_t step)
{
    return (least + step - 1) / step * step;
}

static shape shape_of(const kin_graph_gpu_walk *job)
{
    shape s;
    s.warps = WARPS;
    s.staged = at_least(job->points.cols, KIN_GRAPH_GPU_BATCH);
    s.staged = s.staged <= STAGED ? s.staged : 0;
    s.room = at_least(job->width, 32);
    s.marks = LEAST_MARKS;
    while (s.marks < MOST_MARKS && s.marks < s.room * MARKS_A_WORD) {
        s.marks *= 2;
    }
    s.fan = BATCH / job->most;
    s.fan = s.fan < 1 ? 1 : s.fan > FAN ? (int32_t)FAN : s.fan;
    const int64_t row_bytes = (int64_t)job->points.cols * kin_value_bytes(job->points.dtype);
    s.called = (int32_t)(row_bytes < MOST_CALLED ? row_bytes : (int64_t)MOST_CALLED);
    while (s.warps > 1 && warp_bytes(s) * s.warps > ENOUGH_BYTES) {
        s.warps /= 2;
    }
    return s;
}

template <kith_metric STEP>
static int walk_launch(kin_gpu_stream *stream, const kin_graph_gpu_walk *job)
{
    const kin_fused_rows *queries = &job->queries;
    const kin_fused_rows *points = &job->points;
    const shape s = shape_of(job);
    const bool few = job->count <= (int64_t)stream->processors * CREWS && job->width <= CREW_WIDTH;
    const int32_t walks = few ? 1 : s.warps; /* of a block */
    const int32_t bytes = warp_bytes(s) * walks;
    const int64_t wished = (job->count + walks - 1) / walks;
    const int64_t most = (int64_t)stream->processors * BLOCKS * WAVES;
    if (bytes > stream->shared_bytes) {
        return (int)cudaErrorInvalidConfiguration;
    }
    const dtypes types = {kin_pair_dtype(queries->data, queries->stride_bytes, queries->dtype),
                          kin_pair_dtype(points->data, points->stride_bytes, points->dtype)};
    const unsigned blocks = (unsigned)(wished < most ? wished : most);
    const auto kernel = few ? crew_kernel<STEP> : walk_kernel<STEP>;
    KIN_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<blocks, (unsigned)(few ? CREW * 32 : s.warps * 32), (size_t)bytes, stream->stream>>>(
        *job, s, types);
    return kin_gpu_launched();
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
