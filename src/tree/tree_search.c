/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. In few dimensions most points can be proven far without being looked at. The points stand
 * in the leaves of a k-d tree (tree_build.c); queries are sorted by the leaf they fall into
 * (tree_walk.c) and travel in packets of sixteen that share leaves (tree_walk.c), each from its
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

#include "base/base_size.h"
#include "exact/exact_answer.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"
#include "tree/tree_walk.h"

#include <stdio.h>

enum { PACKETS_A_TASK = 4 };

typedef struct worker {
    kin_tree_walk walk;
    kin_answer answer;
} worker;

typedef struct searching {
    kith_ctx *ctx;
    const kin_tree *tree;
    const kin_prepared *corpus;
    const kin_tree_queries *queries; /* NULL: the blocks of the tree, a graph */
    kin_answer_target target;
    const kin_request *request;
    const kin_rows *asked; /* queries, as they came */
    int64_t wanted;        /* points a list */
    int64_t wanted_ids;    /* an answer */
    int64_t packets;
    int32_t threads;
    bool counted; /* a plan's tree is as large as it says */
    worker *workers;
    void *block; /* workers, and all that they have */
} searching;

/* ---- Packets ----------------------------------------------------------------------------------
 */

static int64_t packets_of(const searching *s)
{
    return s->queries != NULL ? kin_ceil_div(s->queries->count, KIN_PACKET) : s->tree->blocks;
}

/* From where a query of the packet begins. */
static float first_reach(const searching *s, int64_t query, float lost)
{
    const kin_tree *tree = s->tree;
    const kin_request *request = s->request;
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
    return kin_tree_reach(tree, key, lost);
}

static void fill_from_queries(const searching *s, kin_tree_walk *w, int64_t packet)
{
    const kin_tree_queries *queries = s->queries;
    const int32_t count = kin_tree_queries_packet(queries, s->tree->cols, packet, w->columns);
    for (int32_t q = 0; q < count; q++) {
        const uint32_t query = queries->order[packet * KIN_PACKET + q];
        const float lost = queries->lost[query];
        kin_tree_list_begin(s->tree, s->wanted, queries->first + query, lost, &w->lists[q]);
        w->reach[q] = first_reach(s, queries->first + query, lost);
    }
    w->waiting = 0xffffu >> (KIN_PACKET - count);
}

static void fill_from_tree(const searching *s, kin_tree_walk *w, int64_t packet)
{
    const kin_tree *tree = s->tree;
    const int64_t first = packet * KIN_PACKET;
    memcpy(w->columns, tree->values + first * tree->cols,
           (size_t)tree->cols * KIN_PACKET * sizeof *w->columns);
    w->waiting = 0;
    for (int32_t q = 0; q < KIN_PACKET && tree->ids[first + q] != KITH_ID_NONE; q++) {
        kin_tree_list_begin(tree, s->wanted, tree->ids[first + q], tree->lost[1], &w->lists[q]);
        w->reach[q] = first_reach(s, tree->ids[first + q], tree->lost[1]);
        w->waiting |= 1u << q;
    }
}

/* Sends a packet through the tree: its lists are complete. */
static kin_tree_walk *walk_packet(const searching *s, int64_t packet, int32_t thread)
{
    kin_tree_walk *walk = &s->workers[thread].walk;
    if (s->queries != NULL) {
        fill_from_queries(s, walk, packet);
    } else {
        fill_from_tree(s, walk, packet);
    }
    kin_tree_walk_run(walk);
    return walk;
}

static kith_status solve(void *arg, int64_t task, int32_t thread)
{
    const searching *s = arg;
    worker *own = &s->workers[thread];
    const int64_t last = kin_min_i64((task + 1) * PACKETS_A_TASK, s->packets);
    for (int64_t packet = task * PACKETS_A_TASK; packet < last; packet++) {
        for (uint32_t rest = walk_packet(s, packet, thread)->waiting; rest != 0; rest &= rest - 1) {
            const kin_tree_list *list = &own->walk.lists[__builtin_ctz(rest)];
            const int64_t count = kin_tree_list_finish(list, &own->walk.keys);
            kin_answer_expand(&own->answer, own->walk.keys.pairs, count);
            KIN_TRY(
                kin_answer_write_group(s->ctx, &s->target, &own->answer, (uint32_t)list->query));
        }
    }
    return KITH_OK;
}

/* ---- Threads ----------------------------------------------------------------------------------
 */

static void name_workers(kin_layout *layout, void *job)
{
    searching *s = job;
    s->workers = kin_layout_zeros(layout, (uint64_t)s->threads, sizeof *s->workers);
    for (int32_t t = 0; t < s->threads; t++) {
        worker spare;
        worker *w = kin_layout_item(s->workers, t, &spare);
        w->walk.keys = (kin_tree_keys){.tree = s->tree,
                                       .distance = &s->request->distance,
                                       .corpus = &s->corpus->rows,
                                       .queries = s->asked};
        w->answer = (kin_answer){.groups = &s->corpus->groups,
                                 .metric = s->request->distance.metric,
                                 .wanted = s->wanted_ids};
        kin_tree_walk_name(layout, s->tree, s->request->distance.isa, s->wanted, &w->walk);
        kin_answer_name(layout, &w->answer);
    }
}

/* Queries, workers, and the queries of a stripe, in the order of kin_tree_search. rows: ids. */
static void plan_search(kin_layout *plan, searching *s, const kith_matrix *queries, int64_t rows)
{
    const kin_request *request = s->request;
    s->wanted_ids = kin_min_i64(request->k + 1, rows);
    s->wanted = kin_min_i64(s->wanted_ids, s->tree->points);
    if (queries != NULL) {
        kin_prepare_rows_plan(plan, queries->rows, &request->distance, true,
                              kin_prepare_unknown(queries, &request->distance));
    }
    kin_layout_block(plan, name_workers, s);
    if (!s->counted) {
        /* A tree of fewer points may have larger leaves. */
        kin_layout_alone(plan, (uint64_t)s->threads * KIN_PACKET * sizeof(uint64_t),
                         (uint64_t)s->tree->leaf_points + KIN_TREE_LANES);
    }
    if (queries != NULL) {
        const int64_t stripe = kin_tree_queries_stripe(queries->rows, s->tree->cols);
        kin_tree_queries_plan(plan, s->tree, stripe, s->threads);
    }
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
    searching s = {.tree = &tree,
                   .corpus = &prepared,
                   .request = request,
                   .threads = threads,
                   .counted = known.counted};
    kin_prepare_rows_plan(&plan, corpus->rows, &request->distance, false, known);
    kin_tree_plan_make(&plan, &tree, threads);
    const uint64_t made = kin_layout_mark(&plan);
    plan_search(&plan, &s, queries, corpus->rows);
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
    searching s = {
        .tree = tree, .corpus = &prepared, .request = request, .threads = threads, .counted = true};
    plan_search(&plan, &s, queries, rows);
    return (kin_plan){.screens = true, .state_bytes = plan.at, .peak_bytes = plan.peak};
}

static kith_status make_workers(searching *s)
{
    s->threads = s->ctx->threads;
    return kin_layout_make(s->ctx, name_workers, s, "packets of queries", &s->block);
}

static void report(const searching *s, int64_t rows)
{
    kith_report *r = &s->ctx->report;
    double pairs = 0.0;
    double keys = 0.0;
    for (int32_t t = 0; t < s->ctx->threads; t++) {
        pairs += s->workers[t].walk.pairs;
        keys += (double)s->workers[t].walk.keys.computed;
    }
    r->exact = KITH_CERTIFIED;
    r->candidates = keys / (double)rows;
    r->skipped_share = fmax(0.0, 1.0 - pairs / ((double)rows * (double)s->tree->points));
    r->distinct_rows = s->corpus->groups.count;
    (void)snprintf(r->screen, sizeof r->screen, "tree");
    (void)snprintf(r->isa, sizeof r->isa, "%s", kin_isa_name(s->ctx->isa));
}

/* ---- A few packets first -----------------------------------------------------------------------
 */

static kith_status try_packet(void *arg, int64_t task, int32_t thread)
{
    const searching *s = arg;
    (void)walk_packet(s, task * s->packets / KIN_TREE_PILOT, thread);
    return KITH_OK;
}

/* pairs: that a query of those packets looked at. Leaves the counts of the walks as they were. */
static kith_status send_pilot(searching *s, int64_t rows, double *pairs)
{
    double sum = 0.0;
    KIN_TRY(kin_parallel(s->ctx, "tree", KIN_TREE_PILOT, try_packet, s));
    for (int32_t t = 0; t < s->ctx->threads; t++) {
        sum += s->workers[t].walk.pairs;
        s->workers[t].walk.pairs = 0.0;
        s->workers[t].walk.keys.computed = 0;
    }
    const double a_packet = (double)rows / (double)s->packets;
    *pairs = sum / (KIN_TREE_PILOT * a_packet);
    return KITH_OK;
}

static kith_status decide(searching *s, int64_t rows, bool *declined)
{
    double pairs = 0.0;
    const int64_t points = s->tree->points;
    s->packets = packets_of(s);
    *declined = false;
    if (s->request->method != KITH_METHOD_AUTO || s->packets < KIN_TREE_PILOT) {
        return KITH_OK;
    }
    KIN_TRY(send_pilot(s, rows, &pairs));
    const kin_tree_cost cost = kin_tree_cost_of(s->request, points, rows, s->queries == NULL);
    *declined = !kin_tree_wins(&cost, pairs / (double)points, true);
    return KITH_OK;
}

static kith_status run_packets(searching *s)
{
    s->packets = packets_of(s);
    return kin_parallel(s->ctx, "screen", kin_ceil_div(s->packets, PACKETS_A_TASK), solve, s);
}

/* ---- Prepared ---------------------------------------------------------------------------------
 */

static kith_status prepare(kith_ctx *ctx, const kith_matrix *points, const kin_request *request,
                           const char *name, kin_prepared *prepared, kin_tree *tree)
{
    KIN_TRY(kin_prepare_rows(ctx, points, &request->distance, name, 0, prepared));
    const int64_t start = kin_clock_ns();
    const int64_t leaf_points =
        kin_tree_leaf_points_of(points->cols, prepared->groups.count, request->tree_height);
    const kith_status status = kin_tree_make(ctx, prepared, leaf_points, tree);
    ctx->report.seconds_check += prepared->seconds_check;
    ctx->report.seconds_prepare += prepared->seconds_prepare + kin_clock_since(start);
    if (status != KITH_OK) {
        kin_prepared_free(ctx, prepared);
    }
    return status;
}

/* ---- A small tree before that ------------------------------------------------------------------
 */

/* So many rows, spread over a matrix. */
static kith_matrix spread(const kith_matrix *matrix, int64_t rows)
{
    kith_matrix some = *matrix;
    some.rows = kin_min_i64(matrix->rows, rows);
    some.stride_bytes = matrix->rows / some.rows * matrix->stride_bytes;
    return some;
}

/* Queries of the sample; NULL: its own points. */
static kith_status ask_sample(searching *s, const kith_matrix *queries, kin_prepared *asked,
                              kin_tree_queries *sorted, double *pairs)
{
    int64_t rows = s->tree->points;
    if (queries != NULL) {
        rows = queries->rows;
        KIN_TRY(kin_prepare_rows(s->ctx, queries, &s->request->distance, "queries",
                                 KIN_ROWS_DISTINCT, asked));
        KIN_TRY(kin_tree_queries_make(s->ctx, s->tree, &s->corpus->distance, &asked->rows, rows,
                                      sorted));
        KIN_TRY(kin_tree_queries_load(s->ctx, sorted, 0, rows));
        s->queries = sorted;
    }
    s->asked = queries != NULL ? &asked->rows : &s->corpus->rows;
    KIN_TRY(make_workers(s));
    s->packets = packets_of(s);
    return send_pilot(s, rows, pairs); /* the same ones again where there are few */
}

static kith_status ask_small_tree(kith_ctx *ctx, const kith_matrix *corpus,
                                  const kith_matrix *queries, const kin_request *request,
                                  const kin_tree_cost *cost, kin_tree_verdict *verdict)
{
    double pairs = 0.0;
    kin_prepared prepared;
    kin_prepared asked = {0};
    kin_tree_queries sorted = {0};
    kin_tree tree;
    const int64_t sample = kin_tree_sample_of(cost);
    kin_request like = *request; /* of other rows */
    memset(like.within, 0, sizeof like.within);
    const kith_matrix some = spread(corpus, sample);
    const kith_matrix few = queries != NULL ? spread(queries, sample) : some;
    KIN_TRY(prepare(ctx, &some, &like, "corpus", &prepared, &tree));
    searching s = {.ctx = ctx,
                   .tree = &tree,
                   .corpus = &prepared,
                   .request = &like,
                   .wanted = kin_min_i64(request->k, tree.points)};
    s.wanted_ids = s.wanted;
    const kith_status status =
        ask_sample(&s, queries != NULL ? &few : NULL, &asked, &sorted, &pairs);
    *verdict = kin_tree_judge(cost, pairs, (double)tree.points);
    kin_free(ctx, s.block);
    kin_tree_queries_free(ctx, &sorted);
    kin_prepared_free(ctx, &asked);
    kin_tree_free(ctx, &tree);
    kin_prepared_free(ctx, &prepared);
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

/* ---- Engines ----------------------------------------------------------------------------------
 */

kith_status kin_tree_graph(kith_ctx *ctx, const kith_matrix *points, const kin_request *request,
                           const kith_neighbors *out, bool *declined)
{
    kin_prepared prepared;
    kin_tree tree;
    kin_tree_verdict verdict;
    KIN_TRY(kin_tree_foresee(ctx, points, NULL, request, &verdict));
    *declined = verdict == KIN_TREE_DECLINE;
    if (*declined) {
        return KITH_OK;
    }
    KIN_TRY(prepare(ctx, points, request, "points", &prepared, &tree));
    const int64_t start = kin_clock_ns();
    const bool leaves_out = (request->flags & KITH_INCLUDE_SELF) == 0;
    const int64_t wanted = kin_min_i64(request->k + (leaves_out ? 1 : 0), points->rows);
    searching s = {.ctx = ctx,
                   .tree = &tree,
                   .corpus = &prepared,
                   .request = request,
                   .target = {.groups = &prepared.groups,
                              .leaves_self_out = leaves_out,
                              .may_be_short = request->limited,
                              .out = out},
                   .asked = &prepared.rows,
                   .wanted = kin_min_i64(wanted, tree.points),
                   .wanted_ids = wanted};
    kith_status status = make_workers(&s);
    if (status == KITH_OK && verdict == KIN_TREE_TRY) {
        status = decide(&s, tree.points, declined);
    }
    const bool done = status == KITH_OK && !*declined;
    if (done) {
        status = run_packets(&s);
    }
    if (done && status == KITH_OK) {
        report(&s, tree.points);
    }
    kin_free(ctx, s.block);
    kin_tree_free(ctx, &tree);
    kin_prepared_free(ctx, &prepared);
    ctx->report.seconds_screen += kin_clock_since(start);
    return status;
}

static kith_status search_stripes(searching *s, kin_tree_queries *queries, bool *declined)
{
    const int64_t count = s->asked->matrix.rows;
    const int64_t stripe = kin_tree_queries_stripe(count, s->tree->cols);
    KIN_TRY(
        kin_tree_queries_make(s->ctx, s->tree, &s->corpus->distance, s->asked, stripe, queries));
    for (int64_t first = 0; first < count; first += stripe) {
        const int64_t start = kin_clock_ns();
        KIN_TRY(kin_tree_queries_load(s->ctx, queries, first, kin_min_i64(stripe, count - first)));
        const int64_t loaded = kin_clock_ns();
        if (first == 0) {
            KIN_TRY(decide(s, queries->count, declined));
        }
        if (*declined) {
            return KITH_OK;
        }
        KIN_TRY(run_packets(s));
        s->ctx->report.seconds_prepare += (double)(loaded - start) * 1e-9;
        s->ctx->report.seconds_screen += kin_clock_since(loaded);
    }
    return KITH_OK;
}

/* job: ctx, tree, corpus and request. */
static kith_status search(const searching *job, const kith_matrix *queries,
                          const kith_neighbors *out, bool *declined)
{
    kith_ctx *ctx = job->ctx;
    const kin_request *request = job->request;
    searching s = *job;
    kin_prepared asked = {0};
    kin_tree_queries sorted = {0};
    kith_status status = KITH_OK;
    s.queries = &sorted;
    KIN_TRY_GOTO(
        status,
        kin_prepare_rows(ctx, queries, &request->distance, "queries", KIN_ROWS_DISTINCT, &asked),
        done);
    ctx->report.seconds_check += asked.seconds_check;
    ctx->report.seconds_prepare += asked.seconds_prepare;
    s.asked = &asked.rows;
    s.wanted_ids = kin_min_i64(request->k + (request->exclude != NULL), s.corpus->groups.rows);
    s.wanted = kin_min_i64(s.wanted_ids, s.tree->points);
    s.target =
        (kin_answer_target){.groups = &asked.groups,
                            .exclude = request->exclude,
                            .may_be_short = request->limited || request->within[0].keys != NULL,
                            .out = out};
    KIN_TRY_GOTO(status, make_workers(&s), done);
    KIN_TRY_GOTO(status, search_stripes(&s, &sorted, declined), done);
    if (!*declined) {
        report(&s, queries->rows);
    }
done:
    kin_free(ctx, s.block);
    kin_tree_queries_free(ctx, &sorted);
    kin_prepared_free(ctx, &asked);
    return status;
}

kith_status kin_tree_search(kith_ctx *ctx, const kin_prepared *corpus, const kin_tree *tree,
                            const kith_matrix *queries, const kin_request *request,
                            const kith_neighbors *out)
{
    kin_request named = *request;
    bool declined = false;
    named.method = KITH_METHOD_TREE;
    const searching job = {.ctx = ctx, .tree = tree, .corpus = corpus, .request = &named};
    return search(&job, queries, out, &declined);
}

kith_status kin_tree_knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                         const kin_request *request, const kith_neighbors *out, bool *declined)
{
    kin_prepared prepared;
    kin_tree tree;
    kin_tree_verdict verdict;
    KIN_TRY(kin_tree_foresee(ctx, corpus, queries, request, &verdict));
    *declined = verdict == KIN_TREE_DECLINE;
    if (*declined) {
        return KITH_OK;
    }
    kin_request sure = *request;
    sure.method = verdict == KIN_TREE_TAKE ? KITH_METHOD_TREE : request->method;
    KIN_TRY(prepare(ctx, corpus, request, "corpus", &prepared, &tree));
    const searching job = {.ctx = ctx, .tree = &tree, .corpus = &prepared, .request = &sure};
    const kith_status status = search(&job, queries, out, declined);
    kin_tree_free(ctx, &tree);
    kin_prepared_free(ctx, &prepared);
    return status;
}
