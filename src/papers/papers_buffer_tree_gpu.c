/* SPDX-License-Identifier: Apache-2.0
 *
 * Source. Gieseke, Heinermann, Oancea, Igel 2014, "Buffer k-d trees", algorithms 1 to 4 on a GPU;
 * papers_buffer_tree.c is the same program on the processor, and names its parts.
 *
 *      input ----+   find: algorithm 2, a thread a query     buffers       empty: 3 and 4
 *                +-> the next leaf, or none: it is done  ->  a leaf each  ->  a warp a packet
 *      ring -----+                                                              |
 *       ^                                                                       |
 *       +-----------------------------------------------------------------------+
 *
 * The host takes queries from ring and input, and reads 16 bytes after each batch: how many wait,
 * and whether a buffer is half full. Everything else is on the device. Around it are the tree's own
 * parts: rows, lists, canonical keys, answers (tree_search_gpu.c, tree_solve_gpu.c).
 *
 * What differs from the processor's. The limit of a query is that of its list in any leaf
 * (tree_list.cuh). A batch is five buffers where a buffer was asked for, else at least what fills a
 * GPU of today, for which the paper's is small. A buffer is a count and a place in what all leaves
 * share, so it never overflows within a batch. The few that remain get a warp each.
 *
 * Memory. 44 bytes a query of a chunk, an eighth of a packet's 16 at least; 8 bytes a leaf. Lists
 * are the tree's.
 */
#include "papers/papers.h"

#include "host/host_clock.h"
#include "host/host_threads.h"

enum { MOST_COLS = 32, MOST_K = 1024 };
enum {
    CHUNK = 1 << KIN_BUFFERED_LOG,
    LEAST_BATCH = 1 << 18, /* threads of some 130 processors */
    MOST_FEW = 1 << 14,    /* queries that go on alone: warps of the same; and not more than */
    SHARE_OF_FEW = 16      /* a sixteenth of a chunk */
};

typedef struct rounds {
    const kin_tree_gpu_solver *solver;
    const kin_papers_buffer_kernels *kernels;
    kin_papers_buffers of;
    int64_t full;  /* of a buffer */
    int64_t batch; /* queries that are taken at a time */
    /* Of a chunk: the input queue from `begun` on, the reinsert queue, and who waits. */
    int64_t begun;
    int64_t head;
    int64_t queued;
    int64_t waiting;
} rounds;

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Of so many queries before a tree of this height. */
typedef struct sized {
    kin_papers_buffers *of;
    int32_t height;
} sized;

static void name_room(kin_layout *layout, void *job)
{
    const sized *size = job;
    kin_papers_buffers *b = size->of;
    const uint64_t most = (uint64_t)b->length;
    const uint64_t leaves = (uint64_t)1 << size->height;
    const uint64_t filled = leaves < most ? leaves : most;
    b->queries = kin_layout_array(layout, most, sizeof *b->queries);
    b->waits = kin_layout_array(layout, most, sizeof *b->waits);
    b->slots = kin_layout_array(layout, most, sizeof *b->slots);
    b->ring = kin_layout_array(layout, most, sizeof *b->ring);
    b->fill = kin_layout_array(layout, leaves, sizeof *b->fill);
    b->first = kin_layout_array(layout, leaves, sizeof *b->first);
    b->packets = kin_layout_array(layout, most / KIN_TREE_GPU_PACKET + filled, sizeof *b->packets);
    b->counts = kin_layout_array(layout, 1, sizeof *b->counts);
}

static int64_t chunk_of(int64_t places)
{
    return kin_min_i64(kin_round_up(places, KIN_TREE_GPU_PACKET), CHUNK);
}

static uint64_t bytes_of(int32_t height, int64_t places)
{
    kin_papers_buffers of = {.length = chunk_of(places)};
    sized size = {.of = &of, .height = height};
    return kin_gpu_block_bytes(kin_gpu_layout_bytes(name_room, &size));
}

/* ---- Algorithm 1 ----------------------------------------------------------------------------- */

/* The next leaves of a batch, those that go on before those that begin. *full: a buffer is half
 * full. */
static kith_status find_leaves(rounds *r, bool *full)
{
    kith_ctx *ctx = r->solver->on.ctx;
    const int64_t start = kin_clock_ns();
    const int64_t taken = kin_min_i64(r->batch, r->queued);
    const int64_t fresh = kin_min_i64(r->batch - taken, r->of.walk.count - r->begun);
    const kin_papers_batch job = {.of = r->of,
                                  .head = r->head,
                                  .taken = taken,
                                  .begun = r->begun,
                                  .fresh = fresh,
                                  .half = kin_ceil_div(r->full, 2)};
    kin_papers_counts seen;
    KIN_TRY(kin_screen_gpu_launched(&r->solver->on, r->kernels->find(r->solver->on.stream, &job),
                                    "finding leaves"));
    KIN_TRY(kin_gpu_download(ctx, r->solver->on.gpu, &seen, r->of.counts, sizeof seen));
    r->head = (r->head + taken) % r->of.length;
    r->queued -= taken;
    r->begun += fresh;
    r->waiting = seen.waiting;
    *full = seen.full != 0;
    const double seconds = kin_clock_since(start);
    ctx->report.seconds_select += seconds;
    ctx->report.seconds_screen -= seconds;
    return KITH_OK;
}

/* All who wait meet their leaves, and go to the reinsert queue. */
static kith_status empty_buffers(rounds *r)
{
    const int64_t tail = (r->head + r->queued) % r->of.length;
    const kin_papers_emptying job = {.of = r->of, .tail = tail, .count = r->waiting};
    KIN_TRY(kin_screen_gpu_launched(&r->solver->on, r->kernels->empty(r->solver->on.stream, &job),
                                    "buffers against leaves"));
    r->queued += r->waiting;
    r->waiting = 0;
    return kin_gpu_wait(r->solver->on.ctx, r->solver->on.gpu);
}

static bool none_is_left(const rounds *r)
{
    return r->queued == 0 && r->begun == r->of.walk.count;
}

static kith_status search_chunk(rounds *r, int64_t all)
{
    kith_ctx *ctx = r->solver->on.ctx;
    kin_gpu_stream *stream = r->solver->on.stream;
    const kin_tree_gpu_walk *walk = &r->of.walk;
    const int64_t few = kin_min_i64(MOST_FEW, walk->count / SHARE_OF_FEW);
    r->begun = r->head = r->queued = r->waiting = 0;
    KIN_TRY(kin_screen_gpu_launched(&r->solver->on, r->kernels->begin(stream, &r->of),
                                    "queries before a tree"));
    do {
        bool full = false;
        KIN_TRY(find_leaves(r, &full));
        if (full || none_is_left(r)) {
            KIN_TRY(empty_buffers(r));
        }
        KIN_TRY(kin_progress(ctx, "screen", (double)(walk->place0 + r->begun), (double)all));
    } while (r->begun < walk->count || r->queued > few || r->waiting > 0);
    const kin_papers_rest rest = {.of = r->of, .head = r->head, .count = r->queued};
    KIN_TRY(kin_screen_gpu_launched(&r->solver->on, r->kernels->alone(stream, &rest),
                                    "the last queries of a tree"));
    return kin_screen_gpu_launched(&r->solver->on, r->kernels->end(stream, &r->of),
                                   "the lists of a tree");
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

static kith_status search_chunks(rounds *r, const kin_tree_gpu_walk *whole)
{
    for (int64_t place0 = 0; place0 < whole->count; place0 += r->of.length) {
        r->of.walk.place0 = place0;
        r->of.walk.count = kin_min_i64(r->of.length, whole->count - place0);
        KIN_TRY(search_chunk(r, whole->count));
    }
    return KITH_OK;
}

static kith_status walk(const kin_tree_gpu_solver *s, const kin_tree_gpu_walk *whole)
{
    const kin_request *request = s->request;
    const int32_t height = whole->tree.height;
    rounds r = {.solver = s,
                .kernels = s->on.gpu->module->papers->buffers,
                .of = {.walk = *whole, .length = chunk_of(whole->count)},
                .full = kin_buffer_full(request->leaf_buffer, height)};
    sized size = {.of = &r.of, .height = height};
    r.batch = kin_max_i64(KIN_BATCH_OF_BUFFER * r.full,
                          request->leaf_buffer != 0 ? 0 : (int64_t)LEAST_BATCH);
    if (whole->count == 0) {
        return KITH_OK;
    }
    KIN_HOLD(hold, s->on.ctx);
    KIN_TRY(kin_gpu_hold_layout(&hold, s->on.gpu, name_room, &size, "buffers of a tree"));
    KIN_TRY(search_chunks(&r, whole));
    return kin_gpu_wait(s->on.ctx, s->on.gpu);
}

static const char *missing(const kin_request *request)
{
    if (request->distance.cols > MOST_COLS) {
        return "a GPU has none with buffers for more than 32 columns, the processor does";
    }
    return request->k > MOST_K ? "a GPU has none with buffers for k above 1024, the processor does"
                               : NULL;
}

const kin_tree_gpu_way kin_papers_buffer_tree = {
    .missing = missing, .walk = walk, .bytes = bytes_of};
