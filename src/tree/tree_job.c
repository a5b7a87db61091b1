/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Whatever is asked of a tree on the processor goes the same way:
 *
 *      corpus -> groups of equal rows -> tree            or those that are kept
 *      rows that ask, a stripe at a time, rounded, sorted by the leaf that they fall into
 *      packets of sixteen -> tree_walk.c -> lists -> canonical keys -> answers
 *                                        -> what a job without lists makes of it
 *      a few packets first, where they decide whether the tree pays: counted, and sent again
 *
 * The k nearest, all within a radius (tree_search.c) and the paper's buffers
 * (papers_buffer_tree.c) are jobs. A graph's packets are the blocks of the tree.
 */
#include "tree/tree_cost.h"

#include "host/host_clock.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"
#include "tree/tree_walk.h"

#include <stdio.h>

enum { PACKETS_A_TASK = 4 };

/* ---- Queries, sorted by the leaf they fall into ---------------------------------------------- */

enum { QUERIES_A_TASK = 2048 };
static const uint64_t STRIPE_BYTES = 128u << 20;

static kith_status load(void *arg, int64_t i, int32_t thread)
{
    kin_tree_queries *q = arg;
    float *row = q->rows + i * q->cols;
    const kin_query query =
        kin_metric_load(q->distance, q->asked, q->first + i, q->scratches + thread * q->wide);
    const double lost = kin_tree_round(q->tree, query.values, row);
    q->lost[i] = lost > 0.0 ? kin_tree_up(lost) : 0.0F;
    q->leaves[i] = (uint32_t)kin_tree_leaf_of(q->tree, row);
    return KITH_OK;
}

static void sort_by_leaf(kin_tree_queries *q)
{
    memset(q->starts, 0, (size_t)(q->tree_leaves + 1) * sizeof *q->starts);
    for (int64_t i = 0; i < q->count; i++) {
        q->starts[q->leaves[i] + 1] += 1;
    }
    for (int64_t leaf = 0; leaf < q->tree_leaves; leaf++) {
        q->starts[leaf + 1] += q->starts[leaf];
    }
    for (int64_t i = 0; i < q->count; i++) {
        q->order[q->starts[q->leaves[i]]++] = (uint32_t)i;
    }
}

kith_status kin_tree_queries_load(kith_ctx *ctx, kin_tree_queries *queries, int64_t first,
                                  int64_t count)
{
    queries->first = first;
    queries->count = count;
    KIN_TRY(kin_parallel_rows(ctx, "tree", count, QUERIES_A_TASK, load, queries));
    sort_by_leaf(queries);
    return KITH_OK;
}

static void name_arrays(kin_layout *layout, void *job)
{
    kin_tree_queries *q = job;
    const uint64_t n = (uint64_t)q->most;
    const uint64_t scratches = (uint64_t)q->threads * (uint64_t)q->wide;
    q->rows = kin_layout_array(layout, kin_size_mul(n, (uint64_t)q->cols), sizeof *q->rows);
    q->lost = kin_layout_array(layout, n, sizeof *q->lost);
    q->order = kin_layout_array(layout, n, sizeof *q->order);
    q->leaves = kin_layout_array(layout, n, sizeof *q->leaves);
    q->starts = kin_layout_array(layout, (uint64_t)q->tree_leaves + 1, sizeof *q->starts);
    q->scratches = kin_layout_array(layout, scratches, sizeof *q->scratches);
}

static kin_tree_queries size_of(const kin_tree *tree, int64_t most, int32_t threads)
{
    return (kin_tree_queries){.wide = kin_round_up(tree->cols, KIN_METRIC_LANES),
                              .most = most,
                              .tree_leaves = kin_tree_leaves(tree),
                              .cols = tree->cols,
                              .threads = threads};
}

kith_status kin_tree_queries_make(kith_ctx *ctx, const kin_tree *tree, const kin_distance *distance,
                                  const kin_rows *asked, int64_t most, kin_tree_queries *queries)
{
    *queries = size_of(tree, most, ctx->threads);
    queries->tree = tree;
    queries->distance = distance;
    queries->asked = asked;
    return kin_layout_make(ctx, name_arrays, queries, "queries of a tree", &queries->block);
}

void kin_tree_queries_free(kith_ctx *ctx, kin_tree_queries *queries)
{
    kin_free(ctx, queries->block);
    memset(queries, 0, sizeof *queries);
}

/* ---- Packets --------------------------------------------------------------------------------- */

static int64_t packets_of(const kin_tree_job *j)
{
    return j->by_blocks ? j->tree->blocks : kin_ceil_div(j->sorted.count, KIN_PACKET);
}

/* Query q of the packet at hand is this row of those that ask. */
static void begin_query(kin_tree_worker *w, int32_t q, int64_t row, float lost)
{
    const kin_tree_job *j = w->job;
    w->rows[q] = (uint32_t)row;
    if (j->wanted > 0) {
        kin_tree_list_begin(j->tree, j->wanted, row, lost, &w->walk.lists[q]);
    }
    w->walk.reach[q] = j->reach(j, row, lost);
}

/* The last packet may have fewer than sixteen. */
static void fill_from_queries(kin_tree_worker *w, int64_t packet)
{
    const kin_tree_queries *queries = &w->job->sorted;
    const int64_t first = packet * KIN_PACKET;
    const int32_t count = (int32_t)kin_min_i64(KIN_PACKET, queries->count - first);
    for (int32_t q = 0; q < count; q++) {
        const uint32_t query = queries->order[first + q];
        const float *row = queries->rows + (int64_t)query * queries->cols;
        for (int32_t c = 0; c < queries->cols; c++) {
            w->walk.columns[(int64_t)c * KIN_PACKET + q] = row[c];
        }
        begin_query(w, q, queries->first + query, queries->lost[query]);
    }
    w->walk.waiting = 0xffffu >> (KIN_PACKET - count);
}

static void fill_from_tree(kin_tree_worker *w, int64_t packet)
{
    const kin_tree *tree = w->job->tree;
    const int64_t first = packet * KIN_PACKET;
    memcpy(w->walk.columns, tree->values + first * tree->cols,
           (size_t)tree->cols * KIN_PACKET * sizeof *w->walk.columns);
    w->walk.waiting = 0;
    for (int32_t q = 0; q < KIN_PACKET && tree->ids[first + q] != KITH_ID_NONE; q++) {
        begin_query(w, q, tree->ids[first + q], tree->lost[1]);
        w->walk.waiting |= 1u << q;
    }
}

/* Sends a packet through the tree: its lists are complete. */
static void walk_packet(kin_tree_worker *w, int64_t packet)
{
    if (w->job->by_blocks) {
        fill_from_tree(w, packet);
    } else {
        fill_from_queries(w, packet);
    }
    kin_tree_walk_run(&w->walk);
}

kith_status kin_tree_job_write(const kin_tree_job *j, kin_tree_worker *w, const kin_tree_list *list)
{
    const int64_t count = kin_tree_list_finish(list, &w->walk.keys);
    kin_answer_expand(&w->answer, w->walk.keys.pairs, count);
    return kin_answer_write_group(j->ctx, &j->target, &w->answer, (uint32_t)list->query);
}

static kith_status write_packet(kin_tree_worker *w)
{
    for (uint32_t rest = w->walk.waiting; rest != 0; rest &= rest - 1) {
        KIN_TRY(kin_tree_job_write(w->job, w, &w->walk.lists[__builtin_ctz(rest)]));
    }
    return KITH_OK;
}

static kith_status send_packet(void *arg, int64_t packet, int32_t thread)
{
    const kin_tree_job *j = arg;
    kin_tree_worker *w = &j->workers[thread];
    walk_packet(w, packet);
    return j->wanted > 0 ? write_packet(w) : j->end(w);
}

/* ---- A few packets first --------------------------------------------------------------------- */

static kith_status try_packet(void *arg, int64_t task, int32_t thread)
{
    const kin_tree_job *j = arg;
    walk_packet(&j->workers[thread], task * j->packets / KIN_TREE_PILOT);
    return KITH_OK;
}

/* pairs: that a query of those packets looked at. Leaves the counts of the walks as they were. */
static kith_status send_pilot(kin_tree_job *j, int64_t rows, double *pairs)
{
    double sum = 0.0;
    j->trying = true;
    KIN_TRY(kin_parallel(j->ctx, "tree", KIN_TREE_PILOT, try_packet, j));
    j->trying = false;
    for (int32_t t = 0; t < j->threads; t++) {
        sum += j->workers[t].walk.pairs;
        j->workers[t].walk.pairs = 0.0;
        j->workers[t].walk.keys.computed = 0;
    }
    const double a_packet = (double)rows / (double)j->packets;
    *pairs = sum / (KIN_TREE_PILOT * a_packet);
    return KITH_OK;
}

static kith_status decide(kin_tree_job *j, int64_t rows, bool *declined)
{
    double pairs = 0.0;
    j->packets = packets_of(j);
    *declined = false;
    if (!j->tries || j->packets < KIN_TREE_PILOT) {
        return KITH_OK;
    }
    KIN_TRY(send_pilot(j, rows, &pairs));
    *declined = !j->wins(j, rows, pairs / (double)j->tree->points);
    return KITH_OK;
}

/* ---- A job ----------------------------------------------------------------------------------- */

static void name_room(kin_layout *layout, void *arg)
{
    kin_tree_job *j = arg;
    j->wanted = kin_min_i64(j->wanted_ids, j->tree->points);
    if (j->room != NULL) {
        j->room(layout, j);
    }
    j->workers = kin_layout_zeros(layout, (uint64_t)j->threads, sizeof *j->workers);
    for (int32_t t = 0; t < j->threads; t++) {
        kin_tree_worker spare;
        kin_tree_worker *w = kin_layout_item(j->workers, t, &spare);
        w->job = j;
        w->thread = t;
        w->walk.owner = w;
        w->walk.keys = (kin_tree_keys){.tree = j->tree,
                                       .distance = j->distance,
                                       .corpus = &j->corpus->rows,
                                       .queries = j->asked};
        kin_tree_walk_name(layout, j->tree, j->distance->isa, j->wanted, &w->walk);
        if (j->wanted > 0) {
            w->answer = (kin_answer){.groups = &j->corpus->groups,
                                     .metric = j->distance->metric,
                                     .wanted = j->wanted_ids};
            kin_answer_name(layout, &w->answer);
        } else {
            j->name(layout, w);
        }
    }
}

static kith_status make_workers(kin_tree_job *j)
{
    j->threads = j->ctx->threads;
    return kin_layout_make(j->ctx, name_room, j, "packets of queries", &j->block);
}

static kith_status plant(kin_tree_job *j, const kith_matrix *points, const char *name)
{
    if (j->corpus == NULL) {
        KIN_TRY(kin_prepare_rows(j->ctx, points, j->distance, name, 0, &j->own.corpus));
        kin_prepared_tell(j->ctx, &j->own.corpus);
        j->corpus = &j->own.corpus;
    }
    if (j->tree == NULL) {
        const int64_t start = kin_clock_ns();
        const int64_t leaf =
            kin_tree_leaf_points_of(j->distance->cols, j->corpus->groups.count, j->height);
        KIN_TRY(kin_tree_make(j->ctx, j->corpus, leaf, &j->own.tree));
        j->ctx->report.seconds_prepare += kin_clock_since(start);
        j->tree = &j->own.tree;
    }
    return KITH_OK;
}

/* Each row is asked for itself. NULL: the rows of the corpus, which were checked. */
static kith_status ask(kin_tree_job *j, const kith_matrix *queries)
{
    const bool own = queries == NULL;
    kin_prepared *asked = &j->own.asked;
    if (j->asked == NULL && own && j->by_blocks) {
        j->asked = &j->corpus->rows;
    }
    if (j->asked == NULL) {
        KIN_TRY(kin_prepare_rows(j->ctx, own ? &j->corpus->rows.matrix : queries, j->distance,
                                 "queries", KIN_ROWS_DISTINCT | (own ? KIN_ROWS_CHECKED : 0),
                                 asked));
        kin_prepared_tell(j->ctx, asked);
        j->asked = &asked->rows;
    }
    return KITH_OK;
}

/* Queries that are taken at a time. */
static int64_t stripe_of(const kin_tree_job *j, int64_t rows)
{
    const int64_t a_query = ((int64_t)j->tree->cols + 3) * (int64_t)sizeof(float);
    return j->most != 0
               ? j->most
               : kin_min_i64(rows, kin_max_i64((int64_t)STRIPE_BYTES / a_query, KIN_PACKET));
}

static kith_status make_queries(kin_tree_job *j, int64_t most)
{
    return kin_tree_queries_make(j->ctx, j->tree, &j->corpus->distance, j->asked, most, &j->sorted);
}

/* All that stand before the tree, `rows` queries; the first ones may decide. */
static kith_status send_packets(kin_tree_job *j, int64_t rows, bool first, bool *declined)
{
    const int64_t start = kin_clock_ns();
    if (first) {
        KIN_TRY(decide(j, rows, declined));
    }
    if (!*declined) {
        j->packets = packets_of(j);
        KIN_TRY(kin_parallel_rows(j->ctx, "screen", j->packets, PACKETS_A_TASK, send_packet, j));
    }
    j->ctx->report.seconds_screen += kin_clock_since(start);
    return KITH_OK;
}

static kith_status send_stripes(kin_tree_job *j, bool *declined)
{
    const int64_t count = j->asked->matrix.rows;
    const int64_t stripe = stripe_of(j, count);
    KIN_TRY(make_queries(j, stripe));
    for (int64_t first = 0; first < count && !*declined; first += stripe) {
        const int64_t start = kin_clock_ns();
        KIN_TRY(
            kin_tree_queries_load(j->ctx, &j->sorted, first, kin_min_i64(stripe, count - first)));
        j->ctx->report.seconds_prepare += kin_clock_since(start);
        KIN_TRY(j->send != NULL ? j->send(j)
                                : send_packets(j, j->sorted.count, first == 0, declined));
    }
    return KITH_OK;
}

void kin_tree_report(kith_ctx *ctx, int64_t points, const kin_tree_sums *sums,
                     const kin_pipeline *pipeline)
{
    kith_report *r = &ctx->report;
    const double rows = (double)kin_max_i64(sums->rows, 1);
    r->exact = KITH_CERTIFIED;
    r->candidates = sums->keys / rows;
    r->rerun_share = sums->reruns / rows;
    r->skipped_share = fmax(0.0, 1.0 - sums->pairs / (rows * (double)points));
    r->distinct_rows = points;
    (void)snprintf(r->screen, sizeof r->screen, "%s", pipeline != NULL ? pipeline->name : "tree");
    (void)snprintf(r->isa, sizeof r->isa, "%s", kin_isa_name(ctx->isa));
}

static void report(const kin_tree_job *j)
{
    kin_tree_sums sums = {.rows = j->by_blocks ? j->tree->points : j->asked->matrix.rows};
    for (int32_t t = 0; t < j->threads; t++) {
        sums.pairs += j->workers[t].walk.pairs;
        sums.keys += (double)j->workers[t].walk.keys.computed;
    }
    kin_tree_report(j->ctx, j->tree->points, &sums, j->pipeline);
}

static kith_status send(kin_tree_job *j, bool *declined)
{
    KIN_TRY(make_workers(j));
    KIN_TRY(j->by_blocks ? send_packets(j, j->tree->points, true, declined)
                         : send_stripes(j, declined));
    if (*declined) {
        return KITH_OK;
    }
    report(j);
    return j->close != NULL ? j->close(j) : KITH_OK;
}

static void free_job(kin_tree_job *j)
{
    kin_free(j->ctx, j->block);
    kin_tree_queries_free(j->ctx, &j->sorted);
    kin_prepared_free(j->ctx, &j->own.asked);
    kin_tree_free(j->ctx, &j->own.tree);
    kin_prepared_free(j->ctx, &j->own.corpus);
}

kith_status kin_tree_job_run(kin_tree_job *j, const kith_matrix *points, const kith_matrix *queries,
                             bool *declined)
{
    *declined = false;
    kith_status status = plant(j, points, queries == NULL ? "points" : "corpus");
    KIN_THEN(status, ask(j, queries));
    KIN_THEN(status, j->open(j));
    KIN_THEN(status, send(j, declined));
    free_job(j);
    return status;
}

static kith_status try_some(kin_tree_job *j, const kith_matrix *points, const kith_matrix *queries,
                            kin_tree_tried *tried)
{
    KIN_TRY(plant(j, points, "corpus"));
    KIN_TRY(ask(j, queries));
    int64_t rows = j->tree->points;
    tried->points = (double)rows;
    if (!j->by_blocks) {
        rows = queries->rows;
        KIN_TRY(make_queries(j, rows));
        KIN_TRY(kin_tree_queries_load(j->ctx, &j->sorted, 0, rows));
    }
    KIN_TRY(make_workers(j));
    j->packets = packets_of(j);
    return send_pilot(j, rows, &tried->pairs); /* the same ones again where there are few */
}

kith_status kin_tree_job_try(kin_tree_job *j, const kith_matrix *points, const kith_matrix *queries,
                             kin_tree_tried *tried)
{
    *tried = (kin_tree_tried){0};
    const kith_status status = try_some(j, points, queries, tried);
    free_job(j);
    return status;
}

void kin_tree_job_plan(kin_layout *plan, kin_tree_job *j, int64_t rows)
{
    kin_layout_block(plan, name_room, j);
    if (!j->by_blocks) {
        kin_tree_queries queries = size_of(j->tree, stripe_of(j, rows), j->threads);
        kin_layout_block(plan, name_arrays, &queries);
    }
}
