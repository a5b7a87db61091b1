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
#include "tree/tree_walk.h"

enum { KEYS = 256, SAMPLE_STEP = 16, PILOT_QUERIES = KIN_TREE_PILOT * KIN_PACKET };

typedef struct radius {
    const kin_radius_request *request;
    kin_hits *hits;
    kith_ranges *ranges;
    const kin_tree_cost *cost;
    int64_t step; /* queries are every step-th of those that were asked for */
    bool stands;  /* the tree is the one that would answer */
} radius;

/* Of a thread: what waits for keys. */
typedef struct waiting {
    uint32_t *ids; /* [query][KEYS]: firsts */
    int32_t counts[KIN_PACKET];
    double *query;
    double *keys;
    kith_status status; /* a walk does not end early: nothing more is offered */
} waiting;

/* ---- Hits ------------------------------------------------------------------------------------ */

static kith_status offer(kin_tree_worker *w, waiting *own, int32_t q)
{
    const kin_tree_job *j = w->job;
    const radius *r = j->about;
    const uint32_t *ids = own->ids + (int64_t)q * KEYS;
    const kin_query query = kin_metric_load(j->distance, j->asked, w->rows[q], own->query);
    kin_metric_keys(j->distance, &query, &j->corpus->rows, ids, own->counts[q], own->keys);
    w->walk.keys.computed += own->counts[q];
    for (int32_t i = 0; i < own->counts[q]; i++) {
        KIN_TRY(kin_hits_offer(r->hits, w->thread, w->rows[q], ids[i], own->keys[i]));
    }
    return KITH_OK;
}

static void work_off(kin_tree_worker *w, int32_t q)
{
    waiting *own = w->own;
    if (own->counts[q] > 0 && own->status == KITH_OK) {
        own->status = offer(w, own, q);
    }
    own->counts[q] = 0;
}

static void gather(kin_tree_walk *walk, uint32_t waits)
{
    kin_tree_worker *w = walk->owner;
    waiting *own = w->own;
    for (; waits != 0 && !w->job->trying; waits &= waits - 1) {
        const int32_t q = __builtin_ctz(waits);
        const uint64_t *words = walk->words + (int64_t)q * walk->room;
        uint32_t *ids = own->ids + (int64_t)q * KEYS;
        for (int32_t i = 0; i < walk->found[q]; i++) {
            ids[own->counts[q]++] = walk->tree->ids[(uint32_t)words[i]];
            if (own->counts[q] == KEYS) {
                work_off(w, q);
            }
        }
    }
}

/* ---- A job ----------------------------------------------------------------------------------- */

static float reach_of(const kin_tree_job *j, int64_t row, float lost)
{
    const radius *r = j->about;
    const double key =
        kin_radius_key(j->distance->metric, kin_radius_of(r->request, row * r->step));
    return kin_tree_reach(j->tree, key, lost);
}

static bool wins(const kin_tree_job *j, int64_t queries, double share)
{
    const radius *r = j->about;
    (void)queries;
    return kin_tree_wins(r->cost, share, r->stands);
}

static kith_status end_packet(kin_tree_worker *w)
{
    const waiting *own = w->own;
    for (int32_t q = 0; q < KIN_PACKET; q++) {
        work_off(w, q);
    }
    return own->status;
}

static void name_waiting(kin_layout *layout, kin_tree_worker *w)
{
    waiting spare;
    waiting *room = kin_layout_zeros(layout, 1, sizeof *room);
    waiting *own = kin_layout_item(room, 0, &spare);
    const int64_t wide = kin_round_up(w->job->tree->cols, KIN_METRIC_LANES);
    own->ids = kin_layout_array(layout, (uint64_t)KIN_PACKET * KEYS, sizeof *own->ids);
    own->query = kin_layout_array(layout, (uint64_t)wide, sizeof *own->query);
    own->keys = kin_layout_array(layout, KEYS, sizeof *own->keys);
    w->walk.screened = gather;
    w->own = room;
}

static kith_status open_hits(kin_tree_job *j)
{
    const radius *r = j->about;
    return kin_hits_make(j->ctx, r->request, &j->corpus->groups, j->asked, r->hits);
}

static kith_status close_hits(kin_tree_job *j)
{
    const radius *r = j->about;
    const int64_t start = kin_clock_ns();
    const kith_status status = kin_hits_finish(r->hits, r->ranges);
    j->ctx->report.seconds_rescore += kin_clock_since(start);
    return status;
}

static kin_tree_job job_of(kith_ctx *ctx, const radius *r)
{
    return (kin_tree_job){.ctx = ctx,
                          .distance = &r->request->distance,
                          .about = r,
                          .reach = reach_of,
                          .wins = wins,
                          .open = open_hits,
                          .name = name_waiting,
                          .end = end_packet,
                          .close = close_hits};
}

kith_status kin_tree_radius_search(kith_ctx *ctx, const kin_prepared *corpus, const kin_tree *tree,
                                   const kith_matrix *queries, const kin_radius_request *request,
                                   kith_ranges *ranges)
{
    bool declined = false;
    kin_hits hits = {.ctx = ctx};
    const radius r = {.request = request, .hits = &hits, .ranges = ranges, .step = 1};
    kin_tree_job j = job_of(ctx, &r);
    j.corpus = corpus;
    j.tree = tree;
    const kith_status status = kin_tree_job_run(&j, NULL, queries, &declined);
    kin_hits_free(&hits);
    return status;
}

/* ---- Before there is a tree -------------------------------------------------------------------
 */

static kith_matrix every(const kith_matrix *matrix, int64_t step)
{
    return kin_tree_some(matrix, kin_ceil_div(matrix->rows, step), step);
}

/* A tree of few points has the larger leaves, so queries look at a larger share of it: where that
 * is small, the whole one wins. Values that are not allowed are the exact engine's to name. */
static kith_status foresee(kith_ctx *ctx, const radius *like, const kith_matrix *corpus,
                           const kith_matrix *asked, bool *declined)
{
    *declined = !like->cost->allowed;
    if (*declined || kin_tree_is_cheap(like->cost)) {
        return KITH_OK;
    }
    *declined = asked->rows < PILOT_QUERIES;
    if (*declined) {
        return KITH_OK;
    }
    kin_tree_tried tried;
    radius r = *like;
    r.step = asked->rows / PILOT_QUERIES;
    const kith_matrix few = every(corpus, SAMPLE_STEP);
    const kith_matrix some = every(asked, r.step);
    kin_tree_job j = job_of(ctx, &r);
    kith_status status = kin_tree_job_try(&j, &few, &some, &tried);
    *declined = status != KITH_OK || !wins(&j, some.rows, tried.pairs / tried.points);
    if (status == KITH_E_DATA) {
        kin_forgive(ctx);
        status = KITH_OK;
    }
    return status;
}

kith_status kin_tree_radius(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                            const kin_radius_request *request, kith_ranges *ranges, bool *declined)
{
    const kith_matrix *asked = queries != NULL ? queries : corpus;
    const kin_tree_cost cost = kin_tree_cost_radius(&request->distance, corpus->rows, asked->rows);
    kin_hits hits = {.ctx = ctx};
    radius r = {.request = request, .hits = &hits, .ranges = ranges, .cost = &cost, .step = 1};
    kin_tree_job j = job_of(ctx, &r);
    bool declines = false;
    if (declined != NULL) {
        KIN_TRY(foresee(ctx, &r, corpus, asked, &declines));
    }
    r.stands = true;
    j.tries = declined != NULL;
    const kith_status status =
        declines ? KITH_OK : kin_tree_job_run(&j, corpus, queries, &declines);
    kin_hits_free(&hits);
    if (declined != NULL) {
        *declined = declines;
    }
    return status;
}
