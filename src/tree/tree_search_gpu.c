/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The same tree as on the processor (tree/tree_search.c), its packets being warps:
 *
 *      corpus    upload, check, groups of equal rows (fused_prepare.c) -> tree (tree_build_gpu.c)
 *      search    stripes of queries: upload, check, round, sort by leaf -> solve (tree_solve_gpu.c)
 *      graph     the tree's own positions, in its order -> solve; in parts where lists do not fit
 *
 *      upload    1 |  2  |  3  | ...     rows of the next stripe, by a thread (gpu/gpu.h)
 *      compute     |  1  |  2  |  3  |
 *
 * Source. Gieseke, Heinermann, Oancea, Igel 2014, "Buffer k-d trees": there a leaf collects queries
 * until they fill a GPU. Sorted queries want the same leaves anyway, so here a warp walks alone.
 *
 * Memory. The corpus and its tree must fit; queries and lists are cut until they do.
 */
#include "tree/tree_cost.h"
#include "tree/tree_gpu.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "fused/fused_search.h"
#include "gpu/gpu.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"
#include "tree/tree.h"

#include <stdio.h>

enum { SAMPLE = 16384 };

const char *kin_tree_gpu_missing(const kin_request *request)
{
    if (request->distance.cols > KIN_TREE_GPU_MOST_COLS) {
        return "a GPU has none of more than 64 columns, the processor does";
    }
    if (request->k > KIN_TREE_GPU_MOST_K) {
        return "a GPU has none for k above 2048, the processor does";
    }
    if (!kin_tree_allows(request->distance.metric)) {
        return "the metric has none";
    }
    const kin_tree_gpu_way *way = kin_tree_gpu_way_of(request);
    return way != NULL ? way->missing(request) : NULL;
}

/* ---- One call -------------------------------------------------------------------------------- */

typedef struct searching {
    kin_fused_device on;
    const kith_matrix *corpus_matrix;
    const kith_matrix *queries; /* NULL: a graph */
    const kin_request *request;
    uint32_t place;
    const kith_neighbors *out;
    kin_fused_prepared corpus;
    kin_tree_gpu tree;
    kin_tree_gpu_solver solver;
    bool decided; /* the tree was named, or a sample was for it */
} searching;

/* The queries. */
static kin_fused_source source_of(const searching *s)
{
    return (kin_fused_source){.matrix = s->queries,
                              .distance = &s->request->distance,
                              .name = "queries",
                              .place = s->place};
}

static bool leaves_own_out(const kin_request *request)
{
    return (request->flags & KITH_INCLUDE_SELF) == 0;
}

/* Ids of a row's list, of which one may be left out. */
static int64_t wanted_ids(const searching *s)
{
    const bool leaves =
        s->queries == NULL ? leaves_own_out(s->request) : s->request->exclude != NULL;
    return kin_min_i64(s->request->k + (leaves ? 1 : 0), s->corpus_matrix->rows);
}

static kin_tree_cost cost_of(const searching *s, int64_t points)
{
    return kin_tree_cost_gpu(s->request, points, s->queries != NULL ? s->queries->rows : points,
                             kin_min_i64(wanted_ids(s), points), s->queries == NULL);
}

bool kin_tree_gpu_worth_trying(const kith_matrix *corpus, const kith_matrix *queries,
                               const kin_request *request)
{
    const searching s = {.corpus_matrix = corpus, .queries = queries, .request = request};
    const kin_tree_cost cost = cost_of(&s, corpus->rows);
    return kin_tree_may_win(&cost);
}

/* ---- Tree or all pairs: a small tree is asked ------------------------------------------------ */

/* `count` rows, spread over `rows` of them or over the rows that are listed, are asked. */
static kith_status ask_spread(const kin_tree_gpu_solver *s, const kin_fused_rows *rows,
                              const uint32_t *listed, int64_t of, kin_tree_gpu_asked *a)
{
    kith_ctx *ctx = s->on.ctx;
    uint32_t *ids = NULL;
    KIN_TRY(kin_alloc(ctx, &ids, (uint64_t)a->count, sizeof *ids, "rows of a sample"));
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t at = (int64_t)((unsigned __int128)i * (uint64_t)of / (uint64_t)a->count);
        ids[i] = listed != NULL ? listed[at] : (uint32_t)at;
    }
    const kith_status status = kin_tree_gpu_ask(s, rows, ids, a);
    kin_free(ctx, ids);
    return status;
}

/* Places of rows that were asked in the order of the tree. */
static kin_tree_gpu_places places_of(const kin_fused_rows *rows, const kin_tree_gpu_asked *a)
{
    return (kin_tree_gpu_places){.rows = *rows,
                                 .rounded = a->rounded,
                                 .lost = a->lost,
                                 .order = a->order,
                                 .ids = a->order,
                                 .count = a->count};
}

/* pairs: that a query looked at. */
static kith_status walk_sample(kin_tree_gpu_solver *s, const kin_fused_rows *rows, double *pairs)
{
    kin_tree_gpu_asked a = {.ordered = true};
    kin_tree_gpu_lists lists = {0};
    int64_t lost = 0;
    kith_status status = KITH_OK;
    kin_tree_gpu_places places = {
        .rows = s->corpus->rows, .ids = s->tree->ids, .count = s->tree->blocks * KIN_TREE_LANES};
    double queries = (double)s->tree->points;
    if (rows != NULL) {
        a.count = kin_min_i64(SAMPLE, rows->rows);
        KIN_TRY_GOTO(status, ask_spread(s, rows, NULL, rows->rows, &a), done);
        places = places_of(rows, &a);
        queries = (double)a.count;
    }
    KIN_TRY_GOTO(status, kin_tree_gpu_walk_places(s, &places, &lists, &lost), done);
    *pairs = s->tally.pairs / queries;
done:
    kin_tree_gpu_lists_free(s, &lists);
    kin_tree_gpu_asked_free(s, &a);
    return status;
}

/* A small tree of the corpus, asked by its own points or by some of the rows that ask. */
static kith_status try_sample(searching *s, const kin_fused_rows *rows)
{
    const kin_groups *groups = &s->corpus.groups;
    const kin_tree_cost cost = cost_of(s, groups->count);
    const int64_t count = kin_min_i64(SAMPLE, groups->count);
    kin_tree_gpu_asked points = {.count = count};
    double pairs = 0.0;
    kin_tree_gpu tree = {0};
    kin_tree_gpu_solver solver = {.on = s->on,
                                  .tree = &tree,
                                  .corpus = &s->corpus,
                                  .wanted = (int32_t)kin_min_i64(wanted_ids(s), count)};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, ask_spread(&solver, NULL, groups->firsts, groups->count, &points), done);
    KIN_TRY_GOTO(status,
                 kin_tree_gpu_make(&s->on, &s->corpus.rows, points.ids, count,
                                   kin_tree_gpu_usual_leaf(s->corpus.rows.cols), &tree),
                 done);
    KIN_TRY_GOTO(status, kin_tree_gpu_solver_make(&solver), done);
    KIN_TRY_GOTO(status, walk_sample(&solver, rows, &pairs), done);
    s->decided = kin_tree_judge(&cost, pairs, (double)count) != KIN_TREE_DECLINE;
done:
    kin_tree_gpu_solver_free(&solver);
    kin_tree_gpu_free(&s->on, &tree);
    kin_tree_gpu_asked_free(&solver, &points);
    return status;
}

/* rows: that ask, NULL: a graph. A tree that was named needs no sample. */
static kith_status decide(searching *s, const kin_fused_rows *rows)
{
    return s->decided ? KITH_OK : try_sample(s, rows);
}

/* ---- The tree -------------------------------------------------------------------------------- */

static kith_status plant(searching *s)
{
    kith_ctx *ctx = s->on.ctx;
    const int64_t start = kin_clock_ns();
    const int64_t points = s->corpus.groups.count;
    KIN_TRY(kin_tree_gpu_make(&s->on, &s->corpus.rows, s->corpus.firsts, points,
                              kin_tree_gpu_leaf_points(s->request, points), &s->tree));
    s->solver = (kin_tree_gpu_solver){.on = s->on,
                                      .tree = &s->tree,
                                      .corpus = &s->corpus,
                                      .request = s->request,
                                      .wanted = (int32_t)kin_min_i64(wanted_ids(s), points)};
    KIN_TRY(kin_tree_gpu_solver_make(&s->solver));
    KIN_TRY(kin_gpu_wait(ctx, s->on.gpu));
    ctx->report.seconds_prepare += kin_clock_since(start);
    return KITH_OK;
}

static void note_preparation(kith_ctx *ctx, const kin_fused_prepared *prepared)
{
    ctx->report.seconds_prepare += prepared->seconds_prepare + prepared->seconds_upload;
}

static void report(const searching *s, int64_t rows)
{
    kith_report *r = &s->on.ctx->report;
    const kin_fused_tally *tally = &s->solver.tally;
    const double n = (double)kin_max_i64(rows, 1);
    const double share = 1.0 - tally->pairs / (n * (double)s->tree.points);
    r->exact = KITH_CERTIFIED;
    r->skipped_share = share > 0.0 ? share : 0.0;
    r->rerun_share = tally->reruns / n;
    r->candidates = tally->keys / n;
    r->distinct_rows = s->corpus.groups.count;
    (void)snprintf(r->screen, sizeof r->screen, "%s",
                   s->request->pipeline != NULL ? s->request->pipeline->name : "tree");
    (void)snprintf(r->isa, sizeof r->isa, "%s", kin_isa_name(s->on.ctx->isa));
}

static kith_status answers_of(const searching *s, const kin_groups *groups, const uint32_t *exclude,
                              const kith_neighbors *out, bool by_host, kin_fused_answers *a)
{
    *a = (kin_fused_answers){
        .on = s->on,
        .metric = s->request->distance.metric,
        .groups = &s->corpus.groups,
        .target = {.groups = groups,
                   .exclude = exclude,
                   .leaves_self_out = s->queries == NULL && leaves_own_out(s->request),
                   .out = out},
        .exclude_on_device = (s->place & KIN_FUSED_DATA_ON_DEVICE) != 0,
        .by_host = by_host,
        .wanted = wanted_ids(s)};
    return kin_fused_answers_make(a, (s->place & KIN_FUSED_OUT_ON_DEVICE) != 0, false);
}

/* ---- Graph ----------------------------------------------------------------------------------- */

/* The ids of the tree's positions, without holes. */
static kith_status read_ids(const searching *s, uint32_t **ids, int64_t *count)
{
    kith_ctx *ctx = s->on.ctx;
    const int64_t places = s->tree.blocks * KIN_TREE_LANES;
    const uint64_t bytes = (uint64_t)places * sizeof **ids;
    KIN_TRY(kin_alloc(ctx, ids, bytes, 1, "the order of the points"));
    KIN_TRY(kin_gpu_download(ctx, s->on.gpu, *ids, s->tree.ids, bytes));
    *count = 0;
    for (int64_t p = 0; p < places; p++) {
        if ((*ids)[p] != KITH_ID_NONE) {
            (*ids)[(*count)++] = (*ids)[p];
        }
    }
    return KITH_OK;
}

static kith_status solve_graph_parts(searching *s, kin_fused_answers *a,
                                     const kin_tree_gpu_places *places)
{
    uint32_t *ids = NULL;
    int64_t count = 0;
    kith_status status = read_ids(s, &ids, &count);
    if (status == KITH_OK) {
        status = kin_tree_gpu_solve_ids(&s->solver, a, places, ids, count);
    }
    kin_free(s->on.ctx, ids);
    return status;
}

/* at_once: one walk of all points, answers on the device. */
static kith_status solve_graph(searching *s, bool at_once)
{
    kin_fused_answers a;
    const kin_tree_gpu_places places = {
        .rows = s->corpus.rows, .ids = s->tree.ids, .count = s->tree.blocks * KIN_TREE_LANES};
    const bool on_device = (s->place & KIN_FUSED_OUT_ON_DEVICE) != 0;
    KIN_TRY(answers_of(s, &s->corpus.groups, NULL, s->out, !at_once && !on_device, &a));
    kith_status status =
        at_once ? kin_tree_gpu_solve(&s->solver, &a, &places) : solve_graph_parts(s, &a, &places);
    if (status == KITH_OK) {
        status = kin_fused_answers_finish(&a, s->out, s->corpus_matrix->rows);
    }
    kin_fused_answers_free(&a);
    return status;
}

static kith_status graph(searching *s)
{
    KIN_TRY(decide(s, NULL));
    if (!s->decided) {
        return KITH_OK;
    }
    KIN_TRY(plant(s));
    kith_status status = solve_graph(s, true);
    if (status == KITH_E_DEVICE_MEMORY) {
        kin_forgive(s->on.ctx);
        kin_gpu_trim(s->on.gpu);
        status = solve_graph(s, false);
    }
    KIN_TRY(status);
    report(s, s->tree.points);
    return KITH_OK;
}

/* ---- Search ---------------------------------------------------------------------------------- */

static kith_status solve_stripe(searching *s, const kin_fused_prepared *prepared, int64_t first)
{
    kin_fused_answers a;
    const int64_t count = prepared->rows.rows;
    const kith_neighbors out = kin_fused_rows_of(s->out, first, count);
    const uint32_t *exclude = s->request->exclude != NULL ? s->request->exclude + first : NULL;
    kin_tree_gpu_asked asked = {
        .count = count, .ordered = true, .plain = kin_tree_gpu_way_of(s->request) != NULL};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, kin_tree_gpu_ask(&s->solver, &prepared->rows, NULL, &asked), done);
    KIN_TRY_GOTO(status, answers_of(s, &prepared->groups, exclude, &out, false, &a), done);
    const kin_tree_gpu_places places = places_of(&prepared->rows, &asked);
    status = kin_tree_gpu_solve(&s->solver, &a, &places);
    if (status == KITH_OK) {
        status = kin_fused_answers_finish(&a, &out, s->corpus_matrix->rows);
    }
    kin_fused_answers_free(&a);
done:
    kin_tree_gpu_asked_free(&s->solver, &asked);
    return status;
}

static kith_status search_stripe(void *arg, int64_t first, int64_t count, int64_t next)
{
    kin_fused_source source = source_of(arg);
    searching *s = arg;
    kith_ctx *ctx = s->on.ctx;
    kin_fused_prepared q = {0};
    kith_status status = KITH_OK;
    source.first = first;
    source.count = count;
    KIN_TRY_GOTO(status, kin_fused_prepare_queries(&s->on, &source, NULL, &q), done);
    note_preparation(ctx, &q);
    if (next > 0) {
        kin_fused_prepare_ahead(ctx, s->on.gpu, s->queries, first + count, next);
    }
    KIN_TRY_GOTO(status, solve_stripe(s, &q, first), done);
    status = kin_progress(ctx, "screen", (double)(first + count), (double)s->queries->rows);
done:
    kin_fused_prepared_free(ctx, s->on.gpu, &q);
    return status;
}

/* The first queries tell whether a tree pays; a tree that was named needs no sample. */
static kith_status decide_by_queries(searching *s, int64_t count)
{
    if (s->decided) {
        return KITH_OK;
    }
    kin_fused_prepared prepared;
    kin_fused_source source = source_of(s);
    source.count = count;
    KIN_TRY(kin_fused_prepare_queries(&s->on, &source, NULL, &prepared));
    const kith_status status = decide(s, &prepared.rows);
    kin_fused_prepared_free(s->on.ctx, s->on.gpu, &prepared);
    return status;
}

static kith_status search(searching *s)
{
    enum { ASKED_FIRST = 65536 };
    KIN_TRY(decide_by_queries(s, kin_min_i64(s->queries->rows, ASKED_FIRST)));
    if (!s->decided) {
        return KITH_OK;
    }
    KIN_TRY(plant(s));
    const bool may_ahead =
        (s->place & KIN_FUSED_DATA_ON_DEVICE) == 0 && kin_gpu_ahead_wanted(s->on.gpu);
    const kin_tree_gpu_whole whole = {.queries = s->queries,
                                      .request = s->request,
                                      .height = s->tree.height,
                                      .capacity = kin_tree_gpu_capacity(&s->solver),
                                      .place = s->place};
    const kin_tree_gpu_cut cut =
        kin_tree_gpu_cut_queries(&whole, kin_gpu_room(s->on.gpu), may_ahead);
    kin_fused_stripes all = {.ctx = s->on.ctx,
                             .gpu = s->on.gpu,
                             .rows = s->queries->rows,
                             .stripe = cut.stripe,
                             .ahead = cut.ahead,
                             .solve = search_stripe,
                             .arg = s};
    KIN_TRY(kin_fused_each_stripe(&all));
    report(s, s->queries->rows);
    return KITH_OK;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static kith_status attempt(kith_ctx *ctx, kin_gpu *gpu, searching *s)
{
    s->on = kin_fused_device_of(ctx, gpu);
    s->decided = kin_tree_gpu_named(s->request);
    const kin_fused_source source = {.matrix = s->corpus_matrix,
                                     .distance = &s->request->distance,
                                     .name = s->queries == NULL ? "points" : "corpus",
                                     .place = s->place};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, kin_fused_prepare_groups(ctx, gpu, &source, &s->corpus), done);
    note_preparation(ctx, &s->corpus);
    status = s->queries == NULL ? graph(s) : search(s);
done:
    kin_tree_gpu_solver_free(&s->solver);
    kin_tree_gpu_free(&s->on, &s->tree);
    kin_fused_prepared_free(ctx, gpu, &s->corpus);
    return status;
}

static kith_status too_large(kith_ctx *ctx, const kin_request *request, const kith_matrix *corpus)
{
    kin_forgive(ctx);
    return kin_fail_at(ctx, KITH_E_DEVICE_MEMORY,
                       kin_at(request->pipeline != NULL ? "pipeline" : "method"),
                       "asks for a tree, and that of %lld points in %ld columns does not fit into "
                       "the memory of the GPU (give it more of it, or compare all pairs)",
                       (long long)corpus->rows, (long)corpus->cols);
}

/* A tree that was not named is worth one try, in the scope that there is. */
static kith_status run(kith_ctx *ctx, kin_gpu *gpu, const searching *job, bool *declined)
{
    const bool named = kin_tree_gpu_named(job->request);
    const kith_report before = ctx->report;
    kith_status status = KITH_OK;
    searching s;
    *declined = false;
    do {
        s = *job;
        ctx->report = before;
        status = attempt(ctx, gpu, &s);
    } while (named && kin_fused_again(ctx, gpu, status));
    if (status == KITH_E_DEVICE_MEMORY && named) {
        return too_large(ctx, job->request, job->corpus_matrix);
    }
    if (status == KITH_E_DEVICE_MEMORY) {
        kin_forgive(ctx);
        kin_gpu_trim(gpu);
        status = KITH_OK;
        s.decided = false;
    }
    *declined = status == KITH_OK && !s.decided;
    if (*declined) {
        ctx->report = before;
    }
    return status;
}

kith_status kin_tree_gpu_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                const kin_fused_query *query, bool *declined)
{
    const searching job = {.corpus_matrix = corpus,
                           .queries = query->queries,
                           .request = query->request,
                           .place = query->place,
                           .out = query->out};
    return run(ctx, gpu, &job, declined);
}
