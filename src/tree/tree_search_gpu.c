/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The same tree as on the processor (tree/tree_search.c), its packets being warps:
 *
 *      corpus    upload, check, groups of equal rows (fused_prepare.c) -> tree (tree_build_gpu.c)
 *      search    stripes of queries: upload, check, round, sort by leaf -> solve (tree_solve_gpu.c)
 *      kept      the corpus and its tree stay, and are searched as often as wanted
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

#include "host/host_clock.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"

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
    if (kin_place_has(request->distance.metric)) {
        return "a GPU has none of places, the processor does";
    }
    const kin_tree_gpu_way *way = kin_tree_gpu_way_of(request);
    return way != NULL ? way->missing(request) : NULL;
}

/* ---- One call -------------------------------------------------------------------------------- */

typedef struct searching {
    kin_fused_device on;
    kin_tree_gpu_corpus corpus; /* its own, or those arrays that are kept */
    const kith_matrix *queries; /* NULL: a graph */
    const kin_request *request;
    uint32_t place;
    const kith_neighbors *out;
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
    return kin_min_i64(s->request->k + (leaves ? 1 : 0), s->corpus.points.rows);
}

static kin_tree_cost cost_of(const searching *s, int64_t points)
{
    return kin_tree_cost_gpu(s->request, points, s->queries != NULL ? s->queries->rows : points,
                             kin_min_i64(wanted_ids(s), points), s->queries == NULL);
}

bool kin_tree_gpu_worth_trying(const kith_matrix *corpus, const kith_matrix *queries,
                               const kin_request *request)
{
    const searching s = {.corpus.points = *corpus, .queries = queries, .request = request};
    const kin_tree_cost cost = cost_of(&s, corpus->rows);
    return kin_tree_may_win(&cost);
}

/* ---- Tree or all pairs: a small tree is asked ------------------------------------------------ */

/* `count` rows, spread over `rows` of them or over the rows that are listed, are asked. */
static kith_status ask_spread(const kin_tree_gpu_solver *s, const kin_fused_rows *rows,
                              const uint32_t *listed, int64_t of, kin_tree_gpu_asked *a)
{
    uint32_t *ids = NULL;
    KIN_HOLD(hold, s->on.ctx);
    KIN_NEW(&hold, ids, (uint64_t)a->count, "rows of a sample");
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t at = (int64_t)((unsigned __int128)i * (uint64_t)of / (uint64_t)a->count);
        ids[i] = listed != NULL ? listed[at] : (uint32_t)at;
    }
    return kin_tree_gpu_ask(s, rows, ids, a);
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
    const kin_fused_prepared *corpus = &s->corpus.prepared;
    const kin_groups *groups = &corpus->groups;
    const kin_tree_cost cost = cost_of(s, groups->count);
    const int64_t count = kin_min_i64(SAMPLE, groups->count);
    kin_tree_gpu_asked points = {.count = count};
    double pairs = 0.0;
    kin_tree_gpu tree = {0};
    kin_tree_gpu_solver solver = {.on = s->on,
                                  .tree = &tree,
                                  .corpus = corpus,
                                  .wanted = (int32_t)kin_min_i64(wanted_ids(s), count)};
    kith_status status = ask_spread(&solver, NULL, groups->firsts, groups->count, &points);
    KIN_THEN(status, kin_tree_gpu_make(&s->on, &corpus->rows, points.ids, count,
                                       kin_tree_gpu_usual_leaf(corpus->rows.cols), &tree));
    KIN_THEN(status, kin_tree_gpu_solver_make(&solver));
    KIN_THEN(status, walk_sample(&solver, rows, &pairs));
    s->decided =
        status == KITH_OK && kin_tree_judge(&cost, pairs, (double)count) != KIN_TREE_DECLINE;
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

/* ---- The corpus and its tree ----------------------------------------------------------------- */

static void note_preparation(kith_ctx *ctx, const kin_fused_prepared *prepared)
{
    ctx->report.seconds_prepare += prepared->seconds_prepare + prepared->seconds_upload;
}

static kith_status prepare(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_source *source,
                           kin_tree_gpu_corpus *c)
{
    *c = (kin_tree_gpu_corpus){
        .gpu = gpu, .points = kin_fused_source_rows(source), .place = source->place};
    KIN_TRY(kin_fused_prepare_groups(ctx, gpu, source, &c->prepared));
    note_preparation(ctx, &c->prepared);
    return KITH_OK;
}

static kith_status plant(kith_ctx *ctx, int64_t leaf_points, kin_tree_gpu_corpus *c)
{
    const kin_fused_device on = kin_fused_device_of(ctx, c->gpu);
    const int64_t start = kin_clock_ns();
    KIN_TRY(kin_tree_gpu_make(&on, &c->prepared.rows, c->prepared.firsts, c->prepared.groups.count,
                              leaf_points, &c->tree));
    KIN_TRY(kin_gpu_wait(ctx, c->gpu));
    ctx->report.seconds_prepare += kin_clock_since(start);
    return KITH_OK;
}

void kin_tree_gpu_corpus_free(kith_ctx *ctx, kin_tree_gpu_corpus *c)
{
    const kin_fused_device on = {.ctx = ctx, .gpu = c->gpu};
    if (c->gpu != NULL) {
        kin_tree_gpu_free(&on, &c->tree);
        kin_fused_prepared_free(ctx, c->gpu, &c->prepared);
    }
    *c = (kin_tree_gpu_corpus){0};
}

static kith_status make_solver(searching *s)
{
    const kin_fused_prepared *corpus = &s->corpus.prepared;
    s->solver =
        (kin_tree_gpu_solver){.on = s->on,
                              .tree = &s->corpus.tree,
                              .corpus = corpus,
                              .request = s->request,
                              .wanted = (int32_t)kin_min_i64(wanted_ids(s), corpus->groups.count)};
    return kin_tree_gpu_solver_make(&s->solver);
}

/* In the middle of a one-shot job. */
static kith_status plant_own(searching *s)
{
    const int64_t points = s->corpus.prepared.groups.count;
    KIN_TRY(plant(s->on.ctx, kin_tree_gpu_leaf_points(s->request, points), &s->corpus));
    return make_solver(s);
}

static void report(const searching *s, int64_t rows)
{
    kith_report *r = &s->on.ctx->report;
    const kin_fused_tally *tally = &s->solver.tally;
    const double n = (double)kin_max_i64(rows, 1);
    const double share = 1.0 - tally->pairs / (n * (double)s->corpus.tree.points);
    r->exact = KITH_CERTIFIED;
    r->skipped_share = share > 0.0 ? share : 0.0;
    r->rerun_share = tally->reruns / n;
    r->candidates = tally->keys / n;
    r->distinct_rows = s->corpus.prepared.groups.count;
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
        .groups = &s->corpus.prepared.groups,
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
    const int64_t places = s->corpus.tree.blocks * KIN_TREE_LANES;
    const uint64_t bytes = (uint64_t)places * sizeof **ids;
    KIN_TRY(kin_alloc(ctx, ids, bytes, 1, "the order of the points"));
    KIN_TRY(kin_gpu_download(ctx, s->on.gpu, *ids, s->corpus.tree.ids, bytes));
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
    KIN_THEN(status, kin_tree_gpu_solve_ids(&s->solver, a, places, ids, count));
    kin_free(s->on.ctx, ids);
    return status;
}

/* at_once: one walk of all points, answers on the device. */
static kith_status solve_graph(searching *s, bool at_once)
{
    kin_fused_answers a;
    const kin_tree_gpu_places places = {.rows = s->corpus.prepared.rows,
                                        .ids = s->corpus.tree.ids,
                                        .count = s->corpus.tree.blocks * KIN_TREE_LANES};
    const bool on_device = (s->place & KIN_FUSED_OUT_ON_DEVICE) != 0;
    KIN_TRY(answers_of(s, &s->corpus.prepared.groups, NULL, s->out, !at_once && !on_device, &a));
    kith_status status =
        at_once ? kin_tree_gpu_solve(&s->solver, &a, &places) : solve_graph_parts(s, &a, &places);
    KIN_THEN(status, kin_fused_answers_finish(&a, s->out, s->corpus.points.rows));
    kin_fused_answers_free(&a);
    return status;
}

static kith_status graph(searching *s)
{
    KIN_TRY(decide(s, NULL));
    if (!s->decided) {
        return KITH_OK;
    }
    KIN_TRY(plant_own(s));
    kith_status status = solve_graph(s, true);
    if (status == KITH_E_DEVICE_MEMORY) {
        kin_forgive(s->on.ctx);
        kin_gpu_trim(s->on.gpu);
        status = solve_graph(s, false);
    }
    KIN_TRY(status);
    report(s, s->corpus.tree.points);
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
    KIN_THEN(status, kin_fused_answers_finish(&a, &out, s->corpus.points.rows));
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
static kith_status decide_by_queries(searching *s)
{
    enum { ASKED_FIRST = 65536 };
    if (s->decided) {
        return KITH_OK;
    }
    kin_fused_prepared prepared;
    kin_fused_source source = source_of(s);
    source.count = kin_min_i64(s->queries->rows, ASKED_FIRST);
    KIN_TRY(kin_fused_prepare_queries(&s->on, &source, NULL, &prepared));
    const kith_status status = decide(s, &prepared.rows);
    kin_fused_prepared_free(s->on.ctx, s->on.gpu, &prepared);
    return status;
}

/* By a tree that stands. */
static kith_status search_all(searching *s)
{
    const bool may_ahead =
        (s->place & KIN_FUSED_DATA_ON_DEVICE) == 0 && kin_gpu_ahead_wanted(s->on.gpu);
    const kin_tree_gpu_whole whole = {.queries = s->queries,
                                      .request = s->request,
                                      .height = s->corpus.tree.height,
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

static kith_status search(searching *s)
{
    KIN_TRY(decide_by_queries(s));
    if (!s->decided) {
        return KITH_OK;
    }
    KIN_TRY(plant_own(s));
    return search_all(s);
}

/* ---- Both ------------------------------------------------------------------------------------ */

static searching searching_of(const kin_fused_query *query)
{
    return (searching){.queries = query->queries,
                       .request = query->request,
                       .place = query->place,
                       .out = query->out};
}

static kith_status attempt(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus, searching *s)
{
    s->on = kin_fused_device_of(ctx, gpu);
    s->decided = kin_tree_gpu_named(s->request);
    const kin_fused_source source = {.matrix = corpus,
                                     .distance = &s->request->distance,
                                     .name = s->queries == NULL ? "points" : "corpus",
                                     .place = s->place};
    kith_status status = prepare(ctx, gpu, &source, &s->corpus);
    KIN_THEN(status, s->queries == NULL ? graph(s) : search(s));
    kin_tree_gpu_solver_free(&s->solver);
    kin_tree_gpu_corpus_free(ctx, &s->corpus);
    return status;
}

static kith_status too_large(kith_ctx *ctx, const char *argument, const kith_matrix *corpus)
{
    kin_forgive(ctx);
    return kin_fail_at(ctx, KITH_E_DEVICE_MEMORY, kin_at(argument),
                       "asks for a tree, and that of %lld points in %ld columns does not fit into "
                       "the memory of the GPU (give it more of it, or compare all pairs)",
                       (long long)corpus->rows, (long)corpus->cols);
}

/* A tree that was not named is worth one try, in the scope that there is. */
kith_status kin_tree_gpu_search_alone(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                      const kin_fused_query *query, bool *declined)
{
    const bool named = kin_tree_gpu_named(query->request);
    const kith_report before = ctx->report;
    kith_status status = KITH_OK;
    searching s;
    *declined = false;
    do {
        s = searching_of(query);
        ctx->report = before;
        status = attempt(ctx, gpu, corpus, &s);
    } while (named && kin_fused_again(ctx, gpu, status));
    if (status == KITH_E_DEVICE_MEMORY && named) {
        return too_large(ctx, query->request->pipeline != NULL ? "pipeline" : "method", corpus);
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

/* ---- Kept ------------------------------------------------------------------------------------ */

kith_status kin_tree_gpu_corpus_make(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_source *source,
                                     int32_t height, int64_t leaf_points, kin_tree_gpu_corpus *c)
{
    const kith_report before = ctx->report;
    kith_status status = KITH_OK;
    do {
        ctx->report = before;
        status = prepare(ctx, gpu, source, c);
        if (status == KITH_OK) {
            const int64_t points = c->prepared.groups.count;
            ctx->report.distinct_rows = points;
            c->leaf_points = leaf_points != 0
                                 ? leaf_points
                                 : kin_tree_leaf_points_of(c->points.cols, points, height);
            status = plant(ctx, kin_tree_gpu_kept_leaf(c), c);
        }
        if (status != KITH_OK) {
            kin_tree_gpu_corpus_free(ctx, c);
        }
    } while (kin_fused_again(ctx, gpu, status));
    return status == KITH_E_DEVICE_MEMORY ? too_large(ctx, "method", source->matrix) : status;
}

kith_status kin_tree_gpu_corpus_search(kith_ctx *ctx, const kin_tree_gpu_corpus *corpus,
                                       const kin_fused_query *query)
{
    const kith_report before = ctx->report;
    kith_status status = KITH_OK;
    do {
        searching s = searching_of(query);
        s.on = kin_fused_device_of(ctx, corpus->gpu);
        s.corpus = *corpus;
        ctx->report = before;
        status = make_solver(&s);
        KIN_THEN(status, search_all(&s));
        kin_tree_gpu_solver_free(&s.solver);
    } while (kin_fused_again(ctx, corpus->gpu, status));
    return status;
}

kith_status kin_tree_gpu_corpus_judge(kith_ctx *ctx, const kin_tree_gpu_corpus *corpus,
                                      const kin_fused_query *query, bool *takes)
{
    searching s = searching_of(query);
    s.on = kin_fused_device_of(ctx, corpus->gpu);
    s.corpus = *corpus;
    s.decided = kin_tree_gpu_named(s.request);
    KIN_TRY(query->queries == NULL ? decide(&s, NULL) : decide_by_queries(&s));
    *takes = s.decided;
    return KITH_OK;
}
