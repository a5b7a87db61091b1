/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A radius is a reach that is known from the start: packets of queries go through the tree
 * as for the k nearest (tree_walk.c), with reaches that never shrink and without lists. What a leaf
 * leaves of a query waits until there are KEYS of it, gets canonical keys, and what is within the
 * radius by them is a hit, of which exact/exact_hits.h makes the table.
 *
 * Why it is right. The reach contains every pair whose canonical distance is within the radius
 * (tree_bound.h, with the key of the radius in the place of the k-th key); the test that decides is
 * on the canonical distance itself. Each row is asked for itself, so equal rows of the queries may
 * have radii of their own; those of the corpus are one point.
 *
 * Limits. Neighbours that cover much of the corpus cost as much as by any other way: each is a hit.
 */
#include "tree/tree_cost.h"

#include "base/base_size.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"
#include "tree/tree_walk.h"

#include <stdio.h>

enum {
    PACKETS_A_TASK = 4,
    KEYS = 256,
    SAMPLE_STEP = 16,
    PILOT_QUERIES = KIN_TREE_PILOT * KIN_PACKET
};

typedef struct run run;

typedef struct worker {
    kin_tree_walk walk;
    run *of;
    int32_t thread;
    uint32_t rows[KIN_PACKET]; /* the packet's queries */
    uint32_t *ids;             /* [query][KEYS]: firsts that wait for their keys */
    int32_t counts[KIN_PACKET];
    double *query;
    double *keys;
    int64_t computed;
    kith_status status; /* a walk does not end early: nothing more is offered */
} worker;

struct run {
    kith_ctx *ctx;
    const kin_radius_request *request;
    const kin_tree *tree;
    const kin_prepared *corpus;
    const kin_prepared *asked;
    kin_tree_queries sorted;
    kin_hits hits;
    const kin_tree_cost *cost;
    int64_t step; /* queries are every step-th of those that were asked for */
    int64_t packets;
    worker *workers;
    void *block; /* workers, and all that they have */
};

/* ---- Hits ------------------------------------------------------------------------------------ */

static kith_status offer(worker *w, int32_t q)
{
    run *r = w->of;
    const kin_distance *distance = &r->request->distance;
    const uint32_t *ids = w->ids + (int64_t)q * KEYS;
    const kin_query query = kin_metric_load(distance, &r->asked->rows, w->rows[q], w->query);
    kin_metric_keys(distance, &query, &r->corpus->rows, ids, w->counts[q], w->keys);
    w->computed += w->counts[q];
    for (int32_t i = 0; i < w->counts[q]; i++) {
        KIN_TRY(kin_hits_offer(&r->hits, w->thread, w->rows[q], ids[i], w->keys[i]));
    }
    return KITH_OK;
}

static void work_off(worker *w, int32_t q)
{
    if (w->counts[q] > 0 && w->status == KITH_OK) {
        w->status = offer(w, q);
    }
    w->counts[q] = 0;
}

static void gather(kin_tree_walk *walk, uint32_t waiting)
{
    worker *w = walk->owner;
    for (; waiting != 0; waiting &= waiting - 1) {
        const int32_t q = __builtin_ctz(waiting);
        const uint64_t *words = walk->words + (int64_t)q * walk->room;
        uint32_t *ids = w->ids + (int64_t)q * KEYS;
        for (int32_t i = 0; i < walk->found[q]; i++) {
            ids[w->counts[q]++] = walk->tree->ids[(uint32_t)words[i]];
            if (w->counts[q] == KEYS) {
                work_off(w, q);
            }
        }
    }
}

/* Of a packet that is sent for its counts. */
static void pass_by(kin_tree_walk *walk, uint32_t waiting)
{
    (void)walk;
    (void)waiting;
}

/* ---- Packets ----------------------------------------------------------------------------------
 */

static void send_packet(const run *r, worker *w, int64_t packet)
{
    const kin_tree *tree = r->tree;
    const kin_tree_queries *sorted = &r->sorted;
    kin_tree_walk *walk = &w->walk;
    const int32_t count = kin_tree_queries_packet(sorted, tree->cols, packet, walk->columns);
    const kith_metric metric = r->request->distance.metric;
    for (int32_t q = 0; q < count; q++) {
        const uint32_t query = sorted->order[packet * KIN_PACKET + q];
        w->rows[q] = (uint32_t)(sorted->first + query);
        const double radius = kin_radius_of(r->request, w->rows[q] * r->step);
        const double key = kin_radius_key(metric, radius);
        walk->reach[q] = kin_tree_reach(tree, key, sorted->lost[query]);
    }
    walk->waiting = 0xffffu >> (KIN_PACKET - count);
    kin_tree_walk_run(walk);
}

static kith_status solve(void *arg, int64_t task, int32_t thread)
{
    const run *r = arg;
    worker *w = &r->workers[thread];
    w->walk.screened = gather;
    const int64_t last = kin_min_i64((task + 1) * PACKETS_A_TASK, r->packets);
    for (int64_t packet = task * PACKETS_A_TASK; packet < last; packet++) {
        send_packet(r, w, packet);
        for (int32_t q = 0; q < KIN_PACKET; q++) {
            work_off(w, q);
        }
        KIN_TRY(w->status);
    }
    return KITH_OK;
}

/* ---- A few packets first ----------------------------------------------------------------------
 */

static kith_status try_packet(void *arg, int64_t task, int32_t thread)
{
    const run *r = arg;
    worker *w = &r->workers[thread];
    w->walk.screened = pass_by;
    send_packet(r, w, task * r->packets / KIN_TREE_PILOT);
    return KITH_OK;
}

/* Leaves the counts of the walks as they were. stands: this tree is the one that would answer. */
static kith_status decide(run *r, bool stands, bool *declined)
{
    double pairs = 0.0;
    if (r->packets < KIN_TREE_PILOT) {
        return KITH_OK;
    }
    KIN_TRY(kin_parallel(r->ctx, "tree", KIN_TREE_PILOT, try_packet, r));
    for (int32_t t = 0; t < r->ctx->threads; t++) {
        pairs += r->workers[t].walk.pairs;
        r->workers[t].walk.pairs = 0.0;
    }
    const double share = pairs / PILOT_QUERIES / (double)r->tree->points;
    *declined = !kin_tree_wins(r->cost, share, stands);
    return KITH_OK;
}

/* ---- Threads ----------------------------------------------------------------------------------
 */

static void name_workers(kin_layout *layout, void *job)
{
    run *r = job;
    const kin_distance *distance = &r->request->distance;
    const int64_t wide = kin_round_up(r->tree->cols, KIN_METRIC_LANES);
    r->workers = kin_layout_zeros(layout, (uint64_t)r->ctx->threads, sizeof *r->workers);
    for (int32_t t = 0; t < r->ctx->threads; t++) {
        worker spare;
        worker *w = kin_layout_item(r->workers, t, &spare);
        w->of = r;
        w->thread = t;
        w->walk.owner = w;
        kin_tree_walk_name(layout, r->tree, distance->isa, 0, &w->walk);
        w->ids = kin_layout_array(layout, (uint64_t)KIN_PACKET * KEYS, sizeof *w->ids);
        w->query = kin_layout_array(layout, (uint64_t)wide, sizeof *w->query);
        w->keys = kin_layout_array(layout, KEYS, sizeof *w->keys);
    }
}

static kith_status make_workers(run *r)
{
    return kin_layout_make(r->ctx, name_workers, r, "packets of queries", &r->block);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void write_report(const run *r)
{
    kith_report *report = &r->ctx->report;
    const double rows = (double)r->asked->rows.matrix.rows;
    double pairs = 0.0;
    double keys = 0.0;
    for (int32_t t = 0; t < r->ctx->threads; t++) {
        pairs += r->workers[t].walk.pairs;
        keys += (double)r->workers[t].computed;
    }
    report->exact = KITH_CERTIFIED;
    report->candidates = keys / rows;
    report->skipped_share = fmax(0.0, 1.0 - pairs / (rows * (double)r->tree->points));
    report->distinct_rows = r->corpus->groups.count;
    (void)snprintf(report->screen, sizeof report->screen, "tree");
    (void)snprintf(report->isa, sizeof report->isa, "%s", kin_isa_name(r->ctx->isa));
}

/* declined NULL: nothing is tried first. */
static kith_status search_stripes(run *r, bool *declined)
{
    kith_ctx *ctx = r->ctx;
    const kin_rows *rows = &r->asked->rows;
    const int64_t count = rows->matrix.rows;
    const int64_t stripe = kin_tree_queries_stripe(count, r->tree->cols);
    KIN_TRY(kin_tree_queries_make(ctx, r->tree, &r->asked->distance, rows, stripe, &r->sorted));
    for (int64_t first = 0; first < count; first += stripe) {
        const int64_t start = kin_clock_ns();
        KIN_TRY(kin_tree_queries_load(ctx, &r->sorted, first, kin_min_i64(stripe, count - first)));
        const int64_t loaded = kin_clock_ns();
        r->packets = kin_ceil_div(r->sorted.count, KIN_PACKET);
        if (first == 0 && declined != NULL) {
            KIN_TRY(decide(r, true, declined));
        }
        if (declined != NULL && *declined) {
            return KITH_OK;
        }
        KIN_TRY(kin_parallel(ctx, "screen", kin_ceil_div(r->packets, PACKETS_A_TASK), solve, r));
        ctx->report.seconds_prepare += (double)(loaded - start) * 1e-9;
        ctx->report.seconds_screen += kin_clock_since(loaded);
    }
    return KITH_OK;
}

static kith_status search(run *r, kith_ranges *ranges, bool *declined)
{
    kith_status status = KITH_OK;
    KIN_TRY(kin_hits_make(r->ctx, r->request, &r->corpus->groups, &r->asked->rows, &r->hits));
    KIN_TRY_GOTO(status, make_workers(r), done);
    KIN_TRY_GOTO(status, search_stripes(r, declined), done);
    if (declined == NULL || !*declined) {
        const int64_t start = kin_clock_ns();
        KIN_TRY_GOTO(status, kin_hits_finish(&r->hits, ranges), done);
        r->ctx->report.seconds_rescore += kin_clock_since(start);
        write_report(r);
    }
done:
    kin_free(r->ctx, r->block);
    kin_tree_queries_free(r->ctx, &r->sorted);
    kin_hits_free(&r->hits);
    return status;
}

/* What both matrices become. */
typedef struct made {
    kin_prepared corpus;
    kin_prepared asked;
    kin_tree tree;
} made;

static void free_made(kith_ctx *ctx, made *m)
{
    kin_tree_free(ctx, &m->tree);
    kin_prepared_free(ctx, &m->asked);
    kin_prepared_free(ctx, &m->corpus);
}

/* Each row is asked for itself. `own`: the queries are the corpus, which was checked. */
static kith_status make_asked(run *r, const kith_matrix *asked, bool own, kin_prepared *prepared)
{
    kith_report *report = &r->ctx->report;
    KIN_TRY(kin_prepare_rows(r->ctx, asked, &r->request->distance, "queries",
                             KIN_ROWS_DISTINCT | (own ? KIN_ROWS_CHECKED : 0), prepared));
    report->seconds_check += prepared->seconds_check;
    report->seconds_prepare += prepared->seconds_prepare;
    r->asked = prepared;
    return KITH_OK;
}

static kith_status make(run *r, const kith_matrix *corpus, const kith_matrix *queries, made *m)
{
    kith_ctx *ctx = r->ctx;
    const bool graph = queries == NULL;
    KIN_TRY(kin_prepare_rows(ctx, corpus, &r->request->distance, graph ? "points" : "corpus", 0,
                             &m->corpus));
    KIN_TRY(make_asked(r, graph ? corpus : queries, graph, &m->asked));
    const int64_t start = kin_clock_ns();
    KIN_TRY(kin_tree_make(ctx, &m->corpus, kin_tree_leaf_points(corpus->cols), &m->tree));
    ctx->report.seconds_check += m->corpus.seconds_check;
    ctx->report.seconds_prepare += m->corpus.seconds_prepare + kin_clock_since(start);
    r->corpus = &m->corpus;
    r->tree = &m->tree;
    return KITH_OK;
}

kith_status kin_tree_radius_search(kith_ctx *ctx, const kin_prepared *corpus, const kin_tree *tree,
                                   const kith_matrix *queries, const kin_radius_request *request,
                                   kith_ranges *ranges)
{
    const kith_matrix *asked = queries != NULL ? queries : &corpus->rows.matrix;
    kin_prepared prepared;
    run r = {.ctx = ctx, .request = request, .corpus = corpus, .tree = tree, .step = 1};
    KIN_TRY(make_asked(&r, asked, queries == NULL, &prepared));
    const kith_status status = search(&r, ranges, NULL);
    kin_prepared_free(ctx, &prepared);
    return status;
}

/* ---- Before there is a tree -------------------------------------------------------------------
 */

static kith_matrix every(const kith_matrix *matrix, int64_t step)
{
    kith_matrix few = *matrix;
    few.rows = kin_ceil_div(matrix->rows, step);
    few.stride_bytes *= step;
    return few;
}

static kith_status try_sample(run *r, const kith_matrix *corpus, const kith_matrix *asked, made *m,
                              bool *declined)
{
    const kith_matrix few = every(corpus, SAMPLE_STEP);
    r->step = asked->rows / PILOT_QUERIES;
    const kith_matrix some = every(asked, r->step);
    KIN_TRY(make(r, &few, &some, m));
    KIN_TRY(make_workers(r));
    KIN_TRY(kin_tree_queries_make(r->ctx, r->tree, &r->asked->distance, &r->asked->rows, some.rows,
                                  &r->sorted));
    KIN_TRY(kin_tree_queries_load(r->ctx, &r->sorted, 0, some.rows));
    r->packets = kin_ceil_div(some.rows, KIN_PACKET);
    return decide(r, false, declined);
}

/* A tree of few points has the larger leaves, so queries look at a larger share of it: where that
 * is small, the whole one wins. Values that are not allowed are the exact engine's to name. */
static kith_status foresee(const run *job, const kith_matrix *corpus, const kith_matrix *asked,
                           bool *declined)
{
    kith_ctx *ctx = job->ctx;
    *declined = !job->cost->allowed;
    if (*declined || kin_tree_is_cheap(job->cost)) {
        return KITH_OK;
    }
    *declined = asked->rows < PILOT_QUERIES;
    if (*declined) {
        return KITH_OK;
    }
    made m = {.tree = {0}};
    run r = *job;
    kith_status status = try_sample(&r, corpus, asked, &m, declined);
    kin_free(ctx, r.block);
    kin_tree_queries_free(ctx, &r.sorted);
    free_made(ctx, &m);
    if (status == KITH_E_DATA) {
        kin_forgive(ctx);
        *declined = true;
        status = KITH_OK;
    }
    return status;
}

kith_status kin_tree_radius(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                            const kin_radius_request *request, kith_ranges *ranges, bool *declined)
{
    const kith_matrix *asked = queries != NULL ? queries : corpus;
    const kin_tree_cost cost = kin_tree_cost_radius(&request->distance, corpus->rows, asked->rows);
    made m = {.tree = {0}};
    run r = {.ctx = ctx, .request = request, .cost = &cost, .step = 1};
    bool declines = false;
    if (declined != NULL) {
        KIN_TRY(foresee(&r, corpus, asked, &declines));
        *declined = declines;
    }
    if (declines) {
        return KITH_OK;
    }
    kith_status status = make(&r, corpus, queries, &m);
    KIN_THEN(status, search(&r, ranges, declined));
    free_made(ctx, &m);
    return status;
}
