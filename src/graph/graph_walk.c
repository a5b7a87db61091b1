/* SPDX-License-Identifier: Apache-2.0
 *
 *      stripe      queries that are rounded together, in an order in which near ones follow each
 *                  other
 *      block       a task: its queries go through the gate together, then walk one by one */
#include "graph/graph_walk.h"

#include "base/base_random.h"
#include "host/host_threads.h"

#include <math.h>

/* Queries of a stripe; of a block, a multiple of the last; words that lists of a block may take;
 * blocks a thread, that none is idle for long. */
enum { STRIPE = 1 << 16, BLOCK_STEP = 32, BLOCK_WORDS = 1 << 20, BLOCKS_A_THREAD = 4 };
/* Random entries of a walk of this width, in roots of the positions, and for each of these so many
 * may be parts of the graph; wider ones have more in proportion. */
enum { NARROW = 64, ROOTS = 2, PARTS = 2 };

/* ---- Entries -------------------------------------------------------------------------------- */

kin_graph_entries kin_graph_count_entries(int64_t count, int64_t part_count, int64_t width)
{
    const double wide = fmax(1.0, (double)width / NARROW);
    const double some = ceil(ROOTS * sqrt((double)count) * wide);
    return (kin_graph_entries){.parts = (int64_t)fmin(some * PARTS, (double)part_count),
                               .random = (int64_t)fmin(some, (double)count)};
}

void kin_graph_draw_entries(const kin_graph_entries *entries, int64_t count, const uint32_t *parts,
                            uint64_t seed, uint32_t *ids)
{
    for (int64_t i = 0; i < entries->parts + entries->random; i++) {
        ids[i] = i < entries->parts ? parts[i] : (uint32_t)kin_random_below(&seed, (uint64_t)count);
    }
}

/* ---- A block -------------------------------------------------------------------------------- */

typedef struct worker {
    KIN_APART kin_graph_way walker;
    kin_graph_guide guide;
    uint64_t *lists;
} worker;

typedef struct walking {
    kith_ctx *ctx;
    const kin_graph_walk *walk;
    const kith_neighbors *out;
    bool walks; /* else all positions are looked at */
    int64_t block;
    int32_t threads; /* that blocks are for */
    uint32_t *entries;
    int64_t entry_count;
    worker *workers; /* by thread */

    /* The stripe. */
    uint32_t *ids; /* its rows of the queries */
    int64_t first; /* of what is asked */
    int64_t count;
    kin_prepared rounded;
    kin_graph_points asked;
} walking;

static kith_status walk_one(walking *w, worker *own, int64_t i, int64_t begin)
{
    const kin_graph_walk *walk = w->walk;
    kin_graph_way *walker = &own->walker;
    uint64_t *list = own->lists + (i - begin) * walk->width;
    const int64_t at = walk->rows != NULL ? w->first + i : (int64_t)w->ids[i];
    kin_graph_way_ask(walker, walk->queries, w->ids[i], &w->asked, i, list);
    if (!w->walks || walker->query.degenerate) {
        return kin_graph_way_write(w->ctx, walker, true, w->out, at);
    }
    if (walk->ground->has_gate) {
        const uint32_t *runs = own->guide.runs + (i - begin) * own->guide.most;
        for (uint32_t r = 0; r < own->guide.counts[i - begin]; r++) {
            kin_graph_way_has_met(walker, runs[r]);
        }
    } else {
        memset(list, 0xff, (size_t)walk->width * sizeof *list);
        KIN_TRY(kin_graph_way_meet(w->ctx, walker, w->entries, w->entry_count));
    }
    KIN_TRY(kin_graph_way_go(w->ctx, walker));
    return kin_graph_way_write(w->ctx, walker, false, w->out, at);
}

static kith_status walk_block(void *arg, int64_t task, int32_t thread)
{
    walking *w = arg;
    worker *own = &w->workers[thread];
    const int64_t begin = task * w->block;
    const int64_t last = kin_min_i64(begin + w->block, w->count);
    if (w->walks && w->walk->ground->has_gate) {
        kin_graph_guide_lead(&own->guide, &w->asked, begin, (int32_t)(last - begin), own->lists,
                             w->walk->width);
    }
    for (int64_t i = begin; i < last; i++) {
        KIN_TRY(walk_one(w, own, i, begin));
    }
    return KITH_OK;
}

/* ---- A stripe ------------------------------------------------------------------------------- */

/* Queries as rows in the frame of the points. */
static kith_status round_stripe(walking *w)
{
    kith_ctx *ctx = w->ctx;
    const kin_prepared *prepared = w->walk->ground->prepared;
    w->rounded = (kin_prepared){.rows = *w->walk->queries,
                                .distance = prepared->distance,
                                .groups = {.rows = w->count, .count = w->count},
                                .order = w->ids,
                                .frame = prepared->frame};
    if (w->walk->rows == NULL) {
        KIN_TRY(
            kin_order_make(ctx, w->walk->queries, &prepared->distance, w->count, false, w->ids));
    }
    KIN_TRY(kin_set_make(ctx, kin_set_shape(&w->rounded.frame, w->count), w->walk->queries, w->ids,
                         &w->rounded.set));
    return kin_graph_points_make(ctx, &w->rounded, &w->asked);
}

static kith_status run_stripe(walking *w, int64_t first)
{
    kith_ctx *ctx = w->ctx;
    const kin_graph_walk *walk = w->walk;
    kith_status status = KITH_OK;
    w->first = first;
    w->count = kin_min_i64(STRIPE, walk->count - first);
    for (int64_t i = 0; i < w->count; i++) {
        w->ids[i] = walk->rows != NULL ? walk->rows[first + i] : (uint32_t)(first + i);
    }
    if (walk->ground->points.kernel != NULL) {
        status = round_stripe(w);
    }
    KIN_THEN(status, kin_parallel(ctx, "search", kin_ceil_div(w->count, w->block), walk_block, w));
    kin_graph_points_free(ctx, &w->asked);
    kin_set_free(ctx, &w->rounded.set);
    return status;
}

/* ---- All of them ---------------------------------------------------------------------------- */

/* As large as lists allow, and so small that every thread has some. */
static int64_t block_of(const kin_graph_walk *walk, int32_t threads)
{
    const int64_t count = kin_min_i64(walk->count, STRIPE);
    const int64_t shared = kin_ceil_div(count, (int64_t)threads * BLOCKS_A_THREAD);
    const int64_t room = kin_min_i64(KIN_GRAPH_LED, BLOCK_WORDS / walk->width);
    return kin_max_i64(kin_min_i64(kin_round_up(shared, BLOCK_STEP), room), 1);
}

static kith_status choose_entries(walking *w)
{
    const kin_graph_links *links = &w->walk->ground->links;
    const kin_graph_entries entries =
        kin_graph_count_entries(links->count, links->part_count, w->walk->width);
    w->entry_count = entries.parts + entries.random;
    KIN_TRY(kin_alloc(w->ctx, &w->entries, (uint64_t)w->entry_count, sizeof *w->entries,
                      "entries of walks"));
    kin_graph_draw_entries(&entries, links->count, links->parts, w->walk->seed, w->entries);
    return KITH_OK;
}

static kith_status make_workers(walking *w)
{
    kith_ctx *ctx = w->ctx;
    const kin_graph_walk *walk = w->walk;
    const uint64_t words = w->walks ? kin_size_mul((uint64_t)w->block, (uint64_t)walk->width) : 1;
    KIN_TRY(kin_alloc_zero(ctx, &w->workers, (uint64_t)w->threads, sizeof *w->workers, "threads"));
    for (int32_t t = 0; t < w->threads; t++) {
        worker *own = &w->workers[t];
        KIN_TRY(kin_graph_way_make(ctx, walk->ground, w->walks ? walk->width : 0, walk->k,
                                   &own->walker));
        own->walker.allowed = walk->allowed;
        KIN_TRY(kin_alloc(ctx, &own->lists, words, sizeof *own->lists, "candidates"));
        if (w->walks && walk->ground->has_gate) {
            KIN_TRY(
                kin_graph_guide_make(ctx, &walk->ground->gate, w->block, walk->meets, &own->guide));
        }
    }
    return KITH_OK;
}

static void free_workers(walking *w, kin_graph_effort *effort)
{
    for (int32_t t = 0; w->workers != NULL && t < w->threads; t++) {
        worker *own = &w->workers[t];
        effort->met += own->guide.evaluations;
        effort->walked += own->walker.evaluations;
        kin_free(w->ctx, own->guide.block);
        kin_free(w->ctx, own->lists);
        kin_graph_way_free(w->ctx, &own->walker);
    }
    kin_free(w->ctx, w->workers);
}

kith_status kin_graph_walk_run(kith_ctx *ctx, const kin_graph_walk *walk, const kith_neighbors *out,
                               kin_graph_effort *effort)
{
    walking w = {.ctx = ctx,
                 .walk = walk,
                 .out = out,
                 .walks = walk->width < walk->ground->points.count,
                 .block = block_of(walk, ctx->threads)};
    kith_status status = KITH_OK;
    const int64_t blocks = kin_ceil_div(kin_min_i64(walk->count, STRIPE), w.block);
    w.threads = (int32_t)kin_min_i64(ctx->threads, blocks);
    *effort = (kin_graph_effort){0};
    if (w.walks && !walk->ground->has_gate) {
        KIN_TRY_GOTO(status, choose_entries(&w), done);
    }
    KIN_TRY_GOTO(status, make_workers(&w), done);
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &w.ids, (uint64_t)kin_min_i64(STRIPE, walk->count), sizeof *w.ids,
                           "queries"),
                 done);
    for (int64_t first = 0; first < walk->count && status == KITH_OK; first += STRIPE) {
        status = run_stripe(&w, first);
    }
done:
    kin_free(ctx, w.ids);
    free_workers(&w, effort);
    kin_free(ctx, w.entries);
    return status;
}
