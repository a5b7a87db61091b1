/* SPDX-License-Identifier: Apache-2.0
 * What walks on a GPU are made of, whatever their rows cost (graph_walk.cu: canonical keys of rows;
 * graph_follow.cu: costs of positions): the list, who was met, who is picked, the crew.
 *
 * A *scale* weighs:
 *
 *   weigh(w, last, turn, turns)   words of those of this warp's turn that wait and come before
 *                                 `last` go to the batch; how many it has then
 *   call(row)                     its lines are on their way
 *
 * All lanes of a warp call these together. */
#ifndef KIN_GRAPH_GPU_WALK_CUH
#define KIN_GRAPH_GPU_WALK_CUH

#include "graph/graph_kernels.h"
#include "graph/graph_warp.cuh"

/* ---- Words ----------------------------------------------------------------------------------- */

/* The first of `count` ascending words that is not below `word`. */
static __device__ __forceinline__ int32_t walk_place(const uint64_t *words, int32_t count,
                                                     uint64_t word)
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

static __device__ __forceinline__ uint32_t walk_lanes_below(void)
{
    return (1u << kin_graph_gpu_lane()) - 1u;
}

/* ---- merge ----------------------------------------------------------------------------------- */

/* A sorted list and words that may enter it. */
typedef struct walk_merging {
    uint64_t *list;
    uint64_t *batch;
    int32_t count; /* of the list */
    int32_t width; /* that it may have */
} walk_merging;

/* Sorts `kept` words of the batch, without those that stand there twice, or in the list. Returns
 * how many are left. */
template <int R>
static __device__ __forceinline__ int32_t walk_sort(const walk_merging &m, int32_t kept,
                                                    uint64_t (&words)[R])
{
    const int32_t first = kin_graph_gpu_lane() * R;
    bool same[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        words[r] = first + r < kept ? m.batch[first + r] : KIN_GRAPH_EMPTY;
    }
    kin_graph_gpu_sort<R>(words);
    kin_graph_gpu_same<R>(words, same);
    int32_t own = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int32_t at = walk_place(m.list, m.count, words[r] & ~(uint64_t)1);
        const bool known = at < m.count && (m.list[at] ^ words[r]) < 2;
        words[r] = same[r] || known ? (uint64_t)KIN_GRAPH_EMPTY : words[r];
        own += words[r] != KIN_GRAPH_EMPTY ? 1 : 0;
    }
    int32_t end = own; /* of this lane's among all that are left */
#pragma unroll
    for (int away = 1; away < 32; away *= 2) {
        const int32_t before = __shfl_up_sync(KIN_GRAPH_GPU_LANES, end, away);
        end += kin_graph_gpu_lane() >= away ? before : 0;
    }
    const int32_t left = __shfl_sync(KIN_GRAPH_GPU_LANES, end, 31);
    __syncwarp(); /* the batch has been read */
#pragma unroll
    for (int r = R - 1; r >= 0; r--) {
        if (words[r] != KIN_GRAPH_EMPTY) {
            m.batch[--end] = words[r];
        }
    }
    __syncwarp(); /* it is sorted */
#pragma unroll
    for (int r = 0; r < R; r++) {
        words[r] = first + r < left ? m.batch[first + r] : KIN_GRAPH_EMPTY;
    }
    return left;
}

/* Words of the list move behind those of the sorted batch that come before them: from the last ones
 * on, so that none is overwritten before it has moved. */
static __device__ __forceinline__ void walk_make_way(const walk_merging &m, int32_t left)
{
    for (int32_t base = (m.count + 31) / 32 * 32 - 32; base >= 0; base -= 32) {
        const int32_t at = base + kin_graph_gpu_lane();
        const uint64_t word = m.list[at];
        const int32_t away = at < m.count ? walk_place(m.batch, left, word) : 0;
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
template <int R> static __device__ __noinline__ int2 walk_merge(const walk_merging m, int32_t kept)
{
    uint64_t words[R];
    int32_t places[R];
    const int32_t left = walk_sort<R>(m, kept, words);
    if (left == 0) {
        return make_int2(m.count, m.count);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        places[r] = kin_graph_gpu_lane() * R + r + walk_place(m.list, m.count, words[r]);
    }
    __syncwarp(); /* the list has been read */
    walk_make_way(m, left);
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

/* ---- A walk ---------------------------------------------------------------------------------- */

enum {
    WALK_WARPS = 4, /* of a block, or fewer where a walk is wide */
    WALK_THREADS = WALK_WARPS * 32,
    WALK_WAVES = 32,       /* blocks in turn, a block that fits */
    WALK_BATCH = 128,      /* rows that are weighed at a time, */
    WALK_CREW_BATCH = 512, /* by a crew; as many words again may wait to be merged */
    WALK_MERGED = 128,     /* words that are merged at a time */
    WALK_AHEAD = 128,      /* links that are asked for at once */
    WALK_FAN = 8,          /* rows that are picked at once, at most */
    WALK_CREWS = 6,        /* a processor: more queries have a warp each, */
    WALK_CREW_WIDTH = 256, /* and so have wider walks */
    WALK_LINE = 128,       /* bytes of memory that come together */
    WALK_MOST_CALLED = 8 * WALK_LINE,
    WALK_MARKS_A_WORD = 16, /* places of the table, a word of the list */
    WALK_LEAST_MARKS = 1024,
    WALK_MOST_MARKS = 8192,
    WALK_ENOUGH_BYTES = 48 << 10 /* of a block: more than one warp in no more than that */
};

#define WALK_MET_SALT 0x6d6574u

/* What a launch decides. */
typedef struct walk_shape {
    int32_t warps;  /* of a block, that walk */
    int32_t crew;   /* warps of one: they weigh a batch at once; 0: none */
    int32_t batch;  /* rows that are weighed at a time, at most */
    int32_t width;  /* words that the list may have */
    int32_t staged; /* doubles of shared memory in front of it, the scale's */
    int32_t room;   /* words of the list, a multiple of 32 */
    int32_t marks;  /* places of the table, a power of two, >= 2 room */
    int32_t most;   /* links of a row */
    int32_t fan;    /* rows that are picked at once, at first */
} walk_shape;

static __host__ __device__ int32_t walk_warp_bytes(const walk_shape &s)
{
    return s.staged * (int32_t)sizeof(double) + (s.room + 2 * s.batch) * (int32_t)sizeof(uint64_t) +
           (s.batch + WALK_FAN + s.marks) * (int32_t)sizeof(uint32_t);
}

static int32_t walk_at_least(int32_t least, int32_t step)
{
    return (least + step - 1) / step * step;
}

/* Of `count` walks that keep `width` on a graph of `most` links a row; crew: warps of one. */
static walk_shape walk_shape_of(const kin_gpu_stream *stream, int64_t count, int32_t width,
                                int32_t most, int32_t staged, int32_t crew)
{
    const bool crews =
        count <= (int64_t)stream->processors * WALK_CREWS && width <= WALK_CREW_WIDTH;
    walk_shape s;
    s.warps = crews ? 1 : WALK_WARPS;
    s.crew = crews ? crew : 0;
    s.batch = crews ? (int32_t)WALK_CREW_BATCH : (int32_t)WALK_BATCH;
    s.width = width;
    s.staged = staged;
    s.room = walk_at_least(width, 32);
    s.marks = crews ? 4 * WALK_LEAST_MARKS : WALK_LEAST_MARKS;
    while (s.marks < WALK_MOST_MARKS && s.marks < s.room * WALK_MARKS_A_WORD) {
        s.marks *= 2;
    }
    s.most = most;
    s.fan = WALK_BATCH / most;
    s.fan = s.fan < 1 ? 1 : s.fan > WALK_FAN ? (int32_t)WALK_FAN : s.fan;
    while (s.warps > 1 && walk_warp_bytes(s) * s.warps > WALK_ENOUGH_BYTES) {
        s.warps /= 2;
    }
    return s;
}

/* What the first warp of a crew tells the others. */
typedef struct walk_orders {
    uint64_t last;
    int64_t own;
    int32_t waiting; /* -1: there is nothing more to do */
    int32_t kept;
} walk_orders;

/* A walk under way; all lanes hold the same. */
typedef struct walker {
    double *staged;
    uint64_t *list; /* sorted; `count` in use, KIN_GRAPH_EMPTY behind */
    uint64_t *batch;
    uint32_t *rows; /* `waiting` of them are to be weighed */
    uint32_t *picked;
    uint32_t *marks;
    int64_t own; /* of the query: row or position */
    int32_t count;
    int32_t next; /* nobody before it is to be looked at */
    int32_t waiting;
    int32_t kept; /* words of the batch */
    uint64_t evaluations;
    walk_orders *crew; /* shared; NULL: the warp is alone */
} walker;

static __device__ __forceinline__ walker walker_of(const walk_shape &s, char *room)
{
    walker w;
    kin_gpu_await(); /* a launch begins here */
    w.staged = (double *)room;
    w.list = (uint64_t *)(w.staged + s.staged);
    w.batch = w.list + s.room;
    w.marks = (uint32_t *)(w.batch + 2 * s.batch);
    w.rows = w.marks + s.marks;
    w.picked = w.rows + s.batch;
    w.kept = 0;
    w.evaluations = 0;
    w.crew = NULL;
    return w;
}

/* The walk before is over; this one has met nobody. */
static __device__ __forceinline__ void walk_begin(const walk_shape &s, int64_t own, walker &w)
{
    __syncwarp();
    w.own = own;
    w.count = 0;
    w.next = 0;
    w.waiting = 0;
    w.kept = 0;
    for (int32_t j = kin_graph_gpu_lane(); j < s.room; j += 32) {
        w.list[j] = KIN_GRAPH_EMPTY;
    }
    for (int32_t j = kin_graph_gpu_lane(); j < s.marks; j += 32) {
        w.marks[j] = KITH_ID_NONE;
    }
    __syncwarp();
}

/* ---- weigh ----------------------------------------------------------------------------------- */

/* The lines of `bytes` of memory are on their way. A crew calls them: it has too few rows under way
 * to hide how far they are. */
static __device__ __forceinline__ void walk_call(const void *data, int64_t bytes)
{
    for (int32_t at = 0; at < bytes && at < WALK_MOST_CALLED; at += WALK_LINE) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)data + at));
    }
}

/* Words that lanes keep go to the batch; how many it has then. shares: with other warps, which have
 * too little under way to hide how far links are: they are called. */
template <typename JOB>
static __device__ __forceinline__ int32_t walk_keep(const JOB &job, const walker &w, bool shares,
                                                    bool keeps, uint64_t word, int32_t kept)
{
    if (shares && keeps) {
        walk_call(job.links + (int64_t)kin_graph_position(word) * job.most,
                  job.most * (int64_t)sizeof *job.links);
    }
    const uint32_t all = __ballot_sync(KIN_GRAPH_GPU_LANES, keeps);
    if (shares && all != 0) {
        const int32_t more = kin_graph_gpu_lane() == 0 ? atomicAdd(&w.crew->kept, __popc(all)) : 0;
        kept = __shfl_sync(KIN_GRAPH_GPU_LANES, more, 0);
    }
    if (keeps) {
        w.batch[kept + __popc(all & walk_lanes_below())] = word;
    }
    return kept + __popc(all);
}

/* All warps of the block, each from where it is. */
static __device__ __forceinline__ void walk_crew_meets(void)
{
    __syncwarp();
    asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x) : "memory");
}

/* As the scale weighs, by all of the crew; its first warp calls it. */
template <typename SCALE>
static __device__ __forceinline__ int32_t walk_weigh_together(const SCALE &scale,
                                                              const walk_shape &s, const walker &w,
                                                              uint64_t last)
{
    if (kin_graph_gpu_lane() == 0) {
        *w.crew = {last, w.own, w.waiting, w.kept};
    }
    walk_crew_meets(); /* they know, and see the rows */
    (void)scale.weigh(w, last, 0, s.crew);
    walk_crew_meets(); /* the batch is there */
    return w.crew->kept;
}

/* What the other warps of a crew do, until the first one has no more queries. */
template <typename SCALE>
static __device__ __forceinline__ void walk_serve(const SCALE &scale, const walk_shape &s,
                                                  walker &w)
{
    for (;;) {
        walk_crew_meets();
        const walk_orders told = *w.crew;
        if (told.waiting < 0) {
            return;
        }
        w.own = told.own;
        w.waiting = told.waiting;
        (void)scale.weigh(w, told.last, (int32_t)threadIdx.x / 32, s.crew);
        walk_crew_meets();
    }
}

static __device__ __forceinline__ void walk_dismiss(const walker &w)
{
    if (kin_graph_gpu_lane() == 0) {
        w.crew->waiting = -1;
    }
    walk_crew_meets(); /* they go home */
}

/* Those that wait go to the batch; they enter the list, where `now` says so or the batch may be too
 * small for more. */
template <typename SCALE>
static __device__ __forceinline__ void walk_take(const SCALE &scale, const walk_shape &s, walker &w,
                                                 bool now)
{
    const uint64_t last = w.count < s.width ? KIN_GRAPH_EMPTY : w.list[s.width - 1];
    __syncwarp(); /* they are all there */
    w.kept = w.crew != NULL ? walk_weigh_together(scale, s, w, last) : scale.weigh(w, last, 0, 1);
    w.evaluations += (uint64_t)w.waiting;
    w.waiting = 0;
    __syncwarp(); /* the batch is there, and rows may be written again */
    if (!now && w.kept <= s.batch) {
        return;
    }
    for (int32_t first = 0; first < w.kept; first += WALK_MERGED) {
        const walk_merging m = {w.list, w.batch + first, w.count, s.width};
        const int32_t some = min(w.kept - first, (int32_t)WALK_MERGED);
        const int2 merged = some > 64   ? walk_merge<WALK_MERGED / 32>(m, some)
                            : some > 32 ? walk_merge<2>(m, some)
                                        : walk_merge<1>(m, some);
        w.count = merged.x;
        w.next = min(w.next, merged.y);
    }
    w.kept = 0;
}

/* ---- meet ------------------------------------------------------------------------------------ */

/* A row a lane (KITH_ID_NONE: none): those that were not met lately wait from here on. */
template <typename SCALE>
static __device__ __forceinline__ void walk_meet(const SCALE &scale, const walk_shape &s, walker &w,
                                                 uint32_t row)
{
    const uint32_t mark = kin_graph_hash(WALK_MET_SALT, row) & (uint32_t)(s.marks - 1);
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
        scale.call(row);
    }
    if (waits) {
        w.rows[w.waiting + __popc(all & walk_lanes_below())] = row;
    }
    w.waiting += __popc(all);
    __syncwarp(); /* marks have been written */
}

/* ---- pick ------------------------------------------------------------------------------------ */

/* The nearest that were not looked at, up to `fan`; how many. */
static __device__ __forceinline__ int32_t walk_pick(walker &w, int32_t fan)
{
    int32_t picked = 0;
    int32_t base = w.next / 32 * 32;
    for (; base < w.count && picked < fan; base += 32) {
        const int32_t at = base + kin_graph_gpu_lane();
        const uint64_t word = w.list[at];
        const bool fresh = at < w.count && kin_graph_is_new(word) != 0;
        const uint32_t all = __ballot_sync(KIN_GRAPH_GPU_LANES, fresh);
        const int32_t place = picked + __popc(all & walk_lanes_below());
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

/* Link number i of those that were picked. */
static __device__ __forceinline__ uint32_t walk_link(const uint32_t *links, const walk_shape &s,
                                                     const walker &w, int32_t i, int32_t count)
{
    return i < count ? __ldg(links + (int64_t)w.picked[i / s.most] * s.most + i % s.most)
                     : KITH_ID_NONE;
}

/* At the links of those that are picked, `count` in all. */
template <typename SCALE>
static __device__ __forceinline__ void walk_look(const SCALE &scale, const walk_shape &s,
                                                 const uint32_t *links, walker &w, int32_t count)
{
    for (int32_t first = 0; first < count; first += WALK_AHEAD) {
        const bool last = first + WALK_AHEAD >= count;
        uint32_t rows[WALK_AHEAD / 32];
#pragma unroll
        for (int32_t i = 0; i < WALK_AHEAD / 32; i++) {
            rows[i] = walk_link(links, s, w, first + 32 * i + kin_graph_gpu_lane(), count);
        }
#pragma unroll
        for (int32_t i = 0; i < WALK_AHEAD / 32; i++) {
            if (first + 32 * i < count) {
                walk_meet(scale, s, w, rows[i]);
            }
        }
        if (last || w.waiting > s.batch - WALK_AHEAD) {
            walk_take(scale, s, w, last);
        }
    }
}

/* From what the list has, until nobody is left to be picked. After the first steps most of the list
 * will be looked at, whatever comes: twice as many at once wait for memory together. */
template <typename SCALE>
static __device__ __forceinline__ void walk_on(const SCALE &scale, const walk_shape &s,
                                               const uint32_t *links, walker &w)
{
    int32_t fan = s.fan;
    for (int32_t count = 0; (count = walk_pick(w, fan) * s.most) > 0;) {
        walk_look(scale, s, links, w, count);
        fan = min(2 * fan, (int32_t)WALK_FAN);
    }
}

/* After the last one. */
static __device__ __forceinline__ void walk_count(const walker &w, uint64_t *evaluations)
{
    if (kin_graph_gpu_lane() == 0 && w.evaluations > 0) {
        (void)atomicAdd((unsigned long long *)evaluations, (unsigned long long)w.evaluations);
    }
}

/* ---- Launch ---------------------------------------------------------------------------------- */

/* `count` walks, at `blocks` blocks a processor. */
template <typename Job, typename... More>
static int walk_launch_all(kin_gpu_stream *stream, const walk_shape &s, int64_t count,
                           int32_t blocks, void (*kernel)(Job, walk_shape, More...), const Job &job,
                           const More &...more)
{
    const int64_t wished = (count + s.warps - 1) / s.warps;
    const int64_t most = (int64_t)stream->processors * blocks * WALK_WAVES;
    const int32_t bytes = walk_warp_bytes(s) * s.warps;
    const kin_gpu_grid grid = {(unsigned)(wished < most ? wished : most),
                               (unsigned)(s.crew > 0 ? s.crew : s.warps) * 32, (size_t)bytes};
    if (bytes > stream->shared_bytes) {
        return (int)cudaErrorInvalidConfiguration;
    }
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, kernel));
    return kin_gpu_launch_behind(stream, kernel, grid, job, s, more...);
}

#endif
