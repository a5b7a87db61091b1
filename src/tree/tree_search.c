/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. In few dimensions most points can be proven far without being looked at. The points stand
 * in the leaves of a k-d tree (tree_build.c); queries are sorted by the leaf they fall into
 * (tree_job.c) and travel in packets of sixteen that share leaves (tree_walk.c), each from its
 * own leaf outwards. What a leaf leaves of a query is a few candidates by float32 distance
 * (tree_walk.h); at the end canonical keys order them. A graph's packets are the blocks of the
 * tree.
 *
 * Source. Gieseke, Heinermann, Oancea, Igel 2014, "Buffer k-d trees". There a leaf collects a
 * buffer of queries from everywhere before it is solved, because a GPU needs thousands. Here a
 * packet is that buffer, and the mask of a visit says who waits: a core needs as many queries as
 * pay for bringing a leaf into its first cache, and neighbours in the order want the same leaves
 * anyway. Threads share nothing but the tree.
 *
 * Exactness. tree_bound.h has the argument: a point is discarded only where its float32 distance,
 * or that of its box, proves its key to be larger than the k-th.
 *
 * Limits. In many dimensions every box is near and all pairs are computed with more effort than the
 * screen of exact/ needs; tree_cost.c says where.
 */
#include "tree/tree_cost.h"

#include "host/host_clock.h"
#include "tree/tree_walk.h"

/* From where a query begins. */
static float first_reach(const kin_tree_job *j, int64_t query, float lost)
{
    const kin_request *request = j->about;
    const kin_within within = request->within[0];
    if (!request->limited && within.keys == NULL) {
        return INFINITY;
    }
    double key = INFINITY;
    if (request->limited) {
        key = kin_radius_key(request->distance.metric, request->radius);
    }
    if (within.keys != NULL) {
        key = fmin(key, within.keys[query * within.step]);
    }
    return kin_tree_reach(j->tree, key, lost);
}

static bool wins(const kin_tree_job *j, int64_t queries, double share)
{
    const kin_tree_cost cost = kin_tree_cost_of(j->about, j->tree->points, queries, j->by_blocks);
    return kin_tree_wins(&cost, share, true);
}

/* Whose rows they are is known. */
static kith_status open_lists(kin_tree_job *j)
{
    const kin_request *request = j->about;
    const bool graph = j->by_blocks;
    j->wanted_ids = kin_request_ids(request, graph, j->corpus->groups.rows);
    j->target.groups = graph ? &j->corpus->groups : &j->own.asked.groups;
    j->target.exclude = graph ? NULL : request->exclude;
    j->target.leaves_self_out = graph && kin_request_leaves(request, true);
    j->target.may_be_short = request->limited || request->within[0].keys != NULL;
    return KITH_OK;
}

static kin_tree_job job_of(kith_ctx *ctx, const kin_request *request, bool graph,
                           const kith_neighbors *out)
{
    return (kin_tree_job){.ctx = ctx,
                          .distance = &request->distance,
                          .height = request->tree_height,
                          .by_blocks = graph,
                          .about = request,
                          .reach = first_reach,
                          .wins = wins,
                          .open = open_lists,
                          .target.out = out};
}

kith_status kin_tree_search(kith_ctx *ctx, const kin_prepared *corpus, const kin_tree *tree,
                            const kith_matrix *queries, const kin_request *request,
                            const kith_neighbors *out)
{
    bool declined = false;
    kin_tree_job j = job_of(ctx, request, false, out);
    j.corpus = corpus;
    j.tree = tree;
    return kin_tree_job_run(&j, NULL, queries, &declined);
}

/* ---- A small tree before that ---------------------------------------------------------------- */

/* So many rows, spread over a matrix. */
static kith_matrix spread(const kith_matrix *matrix, int64_t rows)
{
    const int64_t some = kin_min_i64(matrix->rows, rows);
    return kin_tree_some(matrix, some, matrix->rows / some);
}

static kith_status ask_small_tree(kith_ctx *ctx, const kith_matrix *corpus,
                                  const kith_matrix *queries, const kin_request *request,
                                  const kin_tree_cost *cost, kin_tree_verdict *verdict)
{
    kin_tree_tried tried;
    /* Where the tree is likely anyway, the least: it says whether to keep to it. */
    const int64_t sample =
        kin_tree_chance_of(cost) == KIN_TREE_LIKELY ? cost->least_sample : kin_tree_sample_of(cost);
    kin_request like = *request; /* of other rows */
    memset(like.within, 0, sizeof like.within);
    const kith_matrix some = spread(corpus, sample);
    const bool graph = queries == NULL;
    const kith_matrix few = graph ? some : spread(queries, sample);
    kin_tree_job j = job_of(ctx, &like, graph, NULL);
    j.wanted_ids = kin_tree_sample_ids(cost, some.rows);
    const kith_status status = kin_tree_job_try(&j, &some, graph ? NULL : &few, &tried);
    const kin_tree_seen seen = {tried.points, tried.pairs};
    *verdict = kin_tree_judge(cost, &seen);
    return status;
}

kith_status kin_tree_foresee(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                             const kin_request *request, kin_tree_verdict *verdict)
{
    const int64_t rows = queries != NULL ? queries->rows : corpus->rows;
    const kin_tree_cost cost = kin_tree_cost_of(request, corpus->rows, rows, queries == NULL);
    *verdict = KIN_TREE_TAKE;
    if (request->method != KITH_METHOD_AUTO || kin_tree_cannot_lose(&cost)) {
        return KITH_OK;
    }
    const kin_tree_chance chance = kin_tree_chance_of(&cost);
    if (chance == KIN_TREE_NO_CHANCE) {
        *verdict = KIN_TREE_DECLINE;
        return KITH_OK;
    }
    const kith_status status = ask_small_tree(ctx, corpus, queries, request, &cost, verdict);
    if (status == KITH_E_DATA) { /* the whole matrix names what is wrong, by its own rows */
        kin_forgive(ctx);
        *verdict = KIN_TREE_TRY;
        return KITH_OK;
    }
    KIN_TRY(status);
    if (*verdict == KIN_TREE_DECLINE && chance == KIN_TREE_LIKELY) {
        *verdict = KIN_TREE_TRY;
    }
    return KITH_OK;
}

/* ---- Engine ---------------------------------------------------------------------------------- */

kith_status kin_tree_knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                         const kin_request *request, const kith_neighbors *out, bool *declined)
{
    kin_tree_verdict verdict;
    kin_tree_job j = job_of(ctx, request, queries == NULL, out);
    KIN_TRY(kin_tree_foresee(ctx, corpus, queries, request, &verdict));
    *declined = verdict == KIN_TREE_DECLINE;
    j.tries = verdict == KIN_TREE_TRY;
    return *declined ? KITH_OK : kin_tree_job_run(&j, corpus, queries, declined);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

/* What kin_tree_search holds. rows: ids; counted: a plan's tree is as large as it says. */
static void plan_search(kin_layout *plan, kin_tree_job *j, const kith_matrix *queries, int64_t rows,
                        bool counted)
{
    const kin_request *request = j->about;
    j->by_blocks = queries == NULL;
    j->wanted_ids = kin_min_i64(request->k + 1, rows);
    if (queries != NULL) {
        kin_prepare_rows_plan(plan, queries->rows, &request->distance, true,
                              kin_prepare_unknown(queries, &request->distance));
    }
    if (!counted) {
        /* A tree of fewer points may have larger leaves. */
        kin_layout_alone(plan, (uint64_t)j->threads * KIN_PACKET * sizeof(uint64_t),
                         (uint64_t)j->tree->leaf_points + KIN_TREE_LANES);
    }
    kin_tree_job_plan(plan, j, queries != NULL ? queries->rows : 0);
}

/* Of a tree of which the shape is known. */
static kin_tree_job planned(const kin_tree *tree, const kin_prepared *corpus,
                            const kin_request *request, int32_t threads)
{
    kin_tree_job j = job_of(NULL, request, false, NULL);
    j.tree = tree;
    j.corpus = corpus;
    j.threads = threads;
    return j;
}

kin_plan kin_tree_plan(const kith_matrix *corpus, const kith_matrix *queries,
                       const kin_request *request, kin_rows_known known, int32_t threads)
{
    const int32_t cols = kin_place_cols(request->distance.metric, corpus->cols);
    kin_layout plan = {.block = NULL};
    kin_tree tree = kin_tree_shape(
        known.distinct, cols, kin_tree_leaf_points_of(cols, known.distinct, request->tree_height));
    tree.wraps = request->distance.period != NULL;
    const kin_prepared prepared = {.groups = {.count = known.distinct}};
    kin_tree_job j = planned(&tree, &prepared, request, threads);
    kin_prepare_rows_plan(&plan, corpus->rows, &request->distance, false, known);
    kin_tree_plan_make(&plan, &tree, threads);
    const uint64_t made = kin_layout_mark(&plan);
    plan_search(&plan, &j, queries, corpus->rows, known.counted);
    return (kin_plan){.screens = true,
                      .prepared_bytes = made,
                      .state_bytes = kin_layout_mark(&plan) - made,
                      .peak_bytes = plan.peak,
                      .least_bytes = plan.peak};
}

kin_plan kin_tree_search_plan(const kin_tree *tree, int64_t rows, const kith_matrix *queries,
                              const kin_request *request, int32_t threads)
{
    kin_layout plan = {.block = NULL};
    const kin_prepared prepared = {.groups = {.count = tree->points}};
    kin_tree_job j = planned(tree, &prepared, request, threads);
    plan_search(&plan, &j, queries, rows, true);
    return (kin_plan){.screens = true, .state_bytes = plan.at, .peak_bytes = plan.peak};
}

/* ---- All within a radius --------------------------------------------------------------------- */

/* Idea. A radius is a reach that is known from the start: packets of queries go through the tree
 * as for the k nearest (tree_walk.c), with reaches that never shrink and without lists. What a leaf
 * leaves of a query waits until there are KEYS of it, gets canonical keys, and what is within the
 * radius by them is a hit, of which exact/exact_search.h makes the table.
 *
 * Why it is right. The reach contains every pair whose canonical distance is within the radius
 * (tree_bound.h, with the key of the radius in the place of the k-th key); the test that decides is
 * on the canonical distance itself. Each row is asked for itself, so equal rows of the queries may
 * have radii of their own; those of the corpus are one point.
 *
 * Limits. Neighbours that cover much of the corpus cost as much as by any other way: each is a hit.
 */

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

static bool radius_wins(const kin_tree_job *j, int64_t queries, double share)
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

static kin_tree_job radius_job_of(kith_ctx *ctx, const radius *r)
{
    return (kin_tree_job){.ctx = ctx,
                          .distance = &r->request->distance,
                          .about = r,
                          .reach = reach_of,
                          .wins = radius_wins,
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
    kin_tree_job j = radius_job_of(ctx, &r);
    j.corpus = corpus;
    j.tree = tree;
    const kith_status status = kin_tree_job_run(&j, NULL, queries, &declined);
    kin_hits_free(&hits);
    return status;
}

/* ---- Before there is a tree ------------------------------------------------------------------ */

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
    kin_tree_job j = radius_job_of(ctx, &r);
    kith_status status = kin_tree_job_try(&j, &few, &some, &tried);
    *declined = status != KITH_OK || !radius_wins(&j, some.rows, tried.pairs / tried.points);
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
    kin_tree_job j = radius_job_of(ctx, &r);
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
