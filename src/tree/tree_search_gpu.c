/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The same tree as on the processor (tree/tree_job.c), its packets being warps:
 *
 *      corpus    upload, check, groups of equal rows (screen_prepare_gpu.c) -> tree
 * (tree_build_gpu.c) search    stripes of queries: upload, check, round, sort by leaf -> solve
 * (tree_solve_gpu.c) kept      the corpus and its tree stay, and are searched as often as wanted
 *      graph     the tree's own positions, in its order -> solve; in parts where lists do not fit
 *
 *      upload    1 |  2  |  3  | ...     rows of the next stripe, by a thread (gpu/gpu.h)
 *      compute     |  1  |  2  |  3  |    all of them while a tree that
 *                                        was named is made, where there is room
 *
 * Source. Gieseke, Heinermann, Oancea, Igel 2014, "Buffer k-d trees": there a leaf collects queries
 * until they fill a GPU. Sorted queries want the same leaves anyway, so here a warp walks alone.
 *
 * Memory. The corpus and its tree must fit; queries and lists are cut until they do.
 */
#include "tree/tree_cost.h"
#include "tree/tree_gpu.h"

#include "host/host_clock.h"
#include "host/host_threads.h"

/* Fewer are sooner compared with all, for all that was measured. */
enum { FEWEST_QUERIES = 512 };
enum { ASKS = 16384, LEAST_BROUGHT = 1 << 20 /* bytes that are worth a thread */ };

const char *kin_tree_gpu_missing(const kin_request *request)
{
    if (request->distance.cols > KIN_TREE_GPU_MOST_COLS) {
        return "a GPU has none of more than 64 columns, the processor does";
    }
    if (request->k > KIN_TREE_GPU_MOST_K) {
        return "a GPU has none for k above 65536, the processor does";
    }
    if (!kin_tree_allows(request->distance.metric)) {
        return "the metric has none";
    }
    const kin_tree_gpu_way *way = kin_tree_gpu_way_of(request);
    return way != NULL ? way->missing(request) : NULL;
}

/* Columns of a tree of such rows. */
static int32_t tree_cols(const kin_distance *distance)
{
    return kin_place_cols(distance->metric, distance->cols);
}

static int64_t leaf_points_of(const kin_request *request, int64_t points)
{
    const int32_t cols = tree_cols(&request->distance);
    return request->tree_height != 0 ? kin_tree_leaf_points_of(cols, points, request->tree_height)
                                     : kin_tree_gpu_usual_leaf(cols);
}

/* ---- Stripes --------------------------------------------------------------------------------- */

/* How queries of a tree are cut, and what a job takes of a device's memory before it starts: the
 * same sums. */

/* What is cut. */
typedef struct whole_job {
    const kith_matrix *queries;
    const kin_request *request;
    int32_t height;   /* of the tree */
    int32_t capacity; /* of a list, in a first walk */
    uint32_t place;   /* as in exact_search_gpu.h; a graph's is not cut for its answers */
    uint64_t near;    /* bytes of rows by position, where many ask */
    int64_t many;
} whole_job;

/* Queries, their copies in the tree's units, their order, lists and answers, and what another way
 * through the tree takes. */
static uint64_t stripe_bytes(const whole_job *w, int64_t count)
{
    const kin_tree_gpu_way *way = kin_tree_gpu_way_of(w->request);
    const bool here = (w->place & KIN_GPU_DATA_ON_DEVICE) != 0;
    const uint64_t rows = here ? 0 : kin_exact_gpu_ahead_bytes(w->queries, count);
    const uint64_t near = count >= w->many ? w->near : 0;
    const uint64_t own = kin_size_add(
        kin_tree_gpu_places_bytes(count, tree_cols(&w->request->distance), w->capacity),
        kin_size_add(near, way != NULL ? way->bytes(w->height, count) : 0));
    return kin_size_add(kin_size_add(rows, own), kin_exact_gpu_answers_bytes(count, w->request->k));
}

static bool to_host(const whole_job *w)
{
    return (w->place & KIN_GPU_OUT_ON_DEVICE) == 0;
}

/* Queries of a stripe where memory is no matter: the answers of many take long to the host, and go
 * while the next ones are found, if those are enough for whole packets in most leaves. */
static int64_t usual_stripe(const whole_job *w)
{
    enum { LEAST = 1 << 20, A_LEAF = 3 * KIN_TREE_GPU_PACKET / 2, STRIPES = 6 };
    const int64_t least = kin_max_i64(LEAST, ((int64_t)1 << w->height) * A_LEAF);
    const int64_t stripes = kin_min_i64(w->queries->rows / least, STRIPES);
    return to_host(w) && stripes > 1 && kin_tree_gpu_way_of(w->request) == NULL
               ? kin_round_up(kin_ceil_div(w->queries->rows, stripes), KIN_EXACT_GPU_LEAST_ROWS)
               : w->queries->rows;
}

/* With the answers of the one before. */
static int64_t stripe_rows(const whole_job *w, uint64_t room, bool ahead)
{
    int64_t stripe = usual_stripe(w);
    while (stripe > KIN_EXACT_GPU_LEAST_ROWS) {
        const bool alone = stripe == w->queries->rows;
        const uint64_t before =
            alone || !to_host(w) ? 0 : kin_exact_gpu_answers_bytes(stripe, w->request->k);
        const uint64_t next = ahead ? kin_exact_gpu_ahead_bytes(w->queries, stripe) : 0;
        if (kin_size_add(kin_exact_gpu_with_slack(stripe_bytes(w, stripe)),
                         kin_size_add(before, next)) <= room) {
            break;
        }
        stripe = kin_exact_gpu_halved(stripe);
    }
    return stripe;
}

/* Queries of a stripe beside the tree. ahead: whether rows may come ahead; then whether the next
 * stripe's find room, too. */
static int64_t cut_queries(const whole_job *whole, uint64_t room, bool *ahead)
{
    const int64_t stripe = stripe_rows(whole, room, false);
    *ahead = *ahead && stripe < whole->queries->rows;
    return *ahead ? stripe_rows(whole, room, true) : stripe;
}

/* ---- Plan ------------------------------------------------------------------------------------ */

/* queries NULL: the tree's own rows. */
static whole_job whole_of(const kith_matrix *points, const kith_matrix *queries,
                          const kin_request *request, int32_t height)
{
    const int64_t ids = kin_min_i64(request->k + 1, points->rows);
    return (whole_job){
        .queries = queries != NULL ? queries : points,
        .request = request,
        .height = height,
        .capacity = kin_tree_gpu_list_room(points->dtype, ids, KIN_TREE_GPU_SHORT),
        .near = kin_tree_gpu_near_bytes(points->dtype, points->cols, request->distance.metric,
                                        kin_round_up(points->rows, KIN_TREE_LANES)),
        .many = kin_tree_gpu_many(points->rows),
        .place = queries != NULL ? 0 : KIN_GPU_DATA_ON_DEVICE | KIN_GPU_OUT_ON_DEVICE};
}

/* beside: what is there before the first stripe; building: the most while it was made. */
static kin_exact_gpu_need need_of(const whole_job *asked, uint64_t beside, uint64_t building,
                                  uint64_t budget)
{
    const int64_t rows = asked->queries->rows;
    const uint64_t whole = kin_size_add(beside, stripe_bytes(asked, rows));
    const uint64_t least =
        kin_size_add(beside, stripe_bytes(asked, kin_min_i64(KIN_EXACT_GPU_LEAST_ROWS, rows)));
    bool ahead = (asked->place & KIN_GPU_DATA_ON_DEVICE) == 0;
    const uint64_t early =
        kin_size_add(building, ahead ? kin_exact_gpu_ahead_bytes(asked->queries, rows) : 0);
    const int64_t stripe = cut_queries(asked, budget > beside ? budget - beside : 0, &ahead);
    return (kin_exact_gpu_need){
        .whole_bytes = kin_exact_gpu_with_slack(whole > early ? whole : early),
        .least_bytes = kin_exact_gpu_with_slack(least > building ? least : building),
        .corpus_chunks = 1,
        .query_stripes = kin_ceil_div(rows, stripe)};
}

kin_exact_gpu_need kin_tree_gpu_plan_need(const kith_matrix *corpus, const kith_matrix *queries,
                                          const kin_request *request, uint64_t budget)
{
    const int64_t leaf_points = leaf_points_of(request, corpus->rows);
    const int32_t cols = tree_cols(&request->distance);
    const whole_job asked =
        whole_of(corpus, queries, request, kin_tree_height(corpus->rows, leaf_points));
    const kin_screen_gpu_prepared_need rows = kin_screen_gpu_groups_bytes(corpus, 0);
    const uint64_t tree =
        kin_size_add(rows.resident, kin_tree_gpu_bytes(corpus->rows, cols, leaf_points));
    const uint64_t building =
        kin_size_add(rows.resident, kin_tree_gpu_peak_bytes(corpus->rows, cols, leaf_points));
    return need_of(&asked, tree, rows.most > building ? rows.most : building, budget);
}

void kin_tree_gpu_bring(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                        const kin_exact_gpu_query *query, const kith_matrix *queries)
{
    const uint64_t room = kin_gpu_room(gpu);
    if (queries != NULL && (query->place & KIN_GPU_DATA_ON_DEVICE) == 0 &&
        kin_exact_gpu_ahead_bytes(queries, queries->rows) >= LEAST_BROUGHT &&
        kin_tree_gpu_plan_need(corpus, queries, query->request, room).whole_bytes <= room / 2) {
        whole_job whole =
            whole_of(corpus, queries, query->request,
                     kin_tree_height(corpus->rows, leaf_points_of(query->request, corpus->rows)));
        whole.place = query->place;
        kin_screen_gpu_prepare_ahead(ctx, gpu, queries, 0, usual_stripe(&whole));
    }
}

/* ---- Of what is kept ------------------------------------------------------------------------- */

static int64_t kept_leaf(const kin_tree_gpu_corpus *c)
{
    const int32_t cols = tree_cols(&c->prepared.distance);
    return c->leaf_points == kin_tree_leaf_points(cols) ? kin_tree_gpu_usual_leaf(cols)
                                                        : c->leaf_points;
}

uint64_t kin_tree_gpu_corpus_bytes(const kin_tree_gpu_corpus *c)
{
    return kin_size_add(kin_screen_gpu_groups_bytes(&c->points, c->place).resident,
                        kin_tree_gpu_bytes(c->tree.points, c->tree.cols, kept_leaf(c)));
}

kin_exact_gpu_need kin_tree_gpu_corpus_need(const kin_tree_gpu_corpus *c,
                                            const kith_matrix *queries, const kin_request *request,
                                            uint64_t budget)
{
    const whole_job asked = whole_of(&c->points, queries, request, c->tree.height);
    return need_of(&asked, 0, 0, budget);
}

/* ---- Tree or all pairs: a small tree is asked ------------------------------------------------ */

/* corpus: of so many distinct points; queries NULL: a graph. */
static kin_tree_cost cost_of(const kin_request *request, const kith_matrix *corpus, int64_t points,
                             const kith_matrix *queries)
{
    const bool graph = queries == NULL;
    const int64_t wanted = kin_request_ids(request, graph, corpus->rows);
    return kin_tree_cost_gpu(request, points, graph ? points : queries->rows,
                             kin_min_i64(wanted, points), graph);
}

bool kin_tree_gpu_worth_trying(const kith_matrix *corpus, const kith_matrix *queries,
                               const kin_request *request)
{
    const kin_tree_cost cost = cost_of(request, corpus, corpus->rows, queries);
    return cost.queries >= FEWEST_QUERIES &&
           (kin_tree_may_win(&cost) || kin_tree_goes_unasked(&cost));
}

/* `count` rows, spread over `rows` of them or over the rows that are listed, are asked. */
static kith_status ask_spread(const kin_tree_gpu_solver *s, kin_hold *hold,
                              const kin_screen_gpu_rows *rows, const uint32_t *listed, int64_t of,
                              kin_tree_gpu_asked *a)
{
    uint32_t *ids = NULL;
    KIN_HOLD(own, s->on.ctx);
    KIN_NEW(&own, ids, (uint64_t)a->count, "rows of a sample");
    for (int64_t i = 0; i < a->count; i++) {
        const uint64_t at = (uint64_t)i * (uint64_t)of / (uint64_t)a->count; /* both are ids */
        ids[i] = listed != NULL ? listed[at] : (uint32_t)at;
    }
    return kin_tree_gpu_ask(s, hold, rows, ids, a);
}

/* Places of rows that were asked in the order of the tree. */
static kin_tree_gpu_places places_of(const kin_screen_gpu_rows *rows, const kin_tree_gpu_asked *a)
{
    return (kin_tree_gpu_places){.rows = *rows,
                                 .rounded = a->rounded,
                                 .lost = a->lost,
                                 .order = a->order,
                                 .ids = a->order,
                                 .count = a->count};
}

/* pairs: that a query looked at. */
static kith_status walk_sample(kin_tree_gpu_solver *s, const kin_screen_gpu_rows *rows,
                               double *pairs)
{
    kin_tree_gpu_asked a = {.ordered = true};
    kin_tree_gpu_places places = {
        .rows = s->corpus->rows, .ids = s->tree->ids, .count = s->tree->blocks * KIN_TREE_LANES};
    double queries = (double)s->tree->points;
    KIN_HOLD(hold, s->on.ctx);
    if (rows != NULL) {
        a.count = kin_min_i64(ASKS, rows->rows);
        KIN_TRY(ask_spread(s, &hold, rows, NULL, rows->rows, &a));
        places = places_of(rows, &a);
        queries = (double)a.count;
    }
    KIN_TRY(kin_tree_gpu_look(s, &places));
    *pairs = s->tally.pairs / queries;
    return KITH_OK;
}

/* A small tree of the corpus, asked by its own points (NULL) or by some of the rows that ask. */
static kith_status ask_small_tree(const kin_screen_gpu_device *on, const kin_tree_gpu_corpus *c,
                                  const kin_tree_cost *cost, const kin_screen_gpu_rows *rows,
                                  int64_t count, kin_tree_seen *seen)
{
    const kin_screen_gpu_prepared *corpus = &c->prepared;
    const kin_groups *groups = &corpus->groups;
    kin_tree_gpu_asked points = {.count = count};
    kin_tree_gpu tree = {0};
    kin_tree_gpu_solver solver = {.on = *on,
                                  .tree = &tree,
                                  .corpus = corpus,
                                  .wanted = (int32_t)kin_tree_sample_ids(cost, count)};
    KIN_HOLD(hold, on->ctx);
    kith_status status = ask_spread(&solver, &hold, NULL, groups->firsts, groups->count, &points);
    KIN_THEN(status,
             kin_tree_gpu_make(on, &corpus->rows, points.ids, count,
                               kin_tree_gpu_usual_leaf(tree_cols(&corpus->distance)), &tree));
    KIN_THEN(status, kin_tree_gpu_solver_make(&hold, &solver));
    KIN_THEN(status, walk_sample(&solver, rows, &seen->pairs));
    seen->points = (double)count;
    kin_tree_gpu_free(on, &tree);
    return status;
}

/* A larger one where that costs little and the least does not win by far: what a query looks at
 * grows the slower the more points there are. */
static kith_status ask_small_trees(const kin_screen_gpu_device *on, const kin_tree_gpu_corpus *c,
                                   const kin_tree_cost *cost, const kin_screen_gpu_rows *rows,
                                   bool *takes)
{
    const int64_t points = c->prepared.groups.count;
    const int64_t least = kin_min_i64(cost->least_sample, points);
    const int64_t most = kin_min_i64(kin_tree_sample_of(cost), points);
    kin_tree_seen seen;
    KIN_TRY(ask_small_tree(on, c, cost, rows, least, &seen));
    kin_tree_verdict verdict = kin_tree_judge(cost, &seen);
    if (verdict != KIN_TREE_TAKE && most > least) {
        const kith_status status = ask_small_tree(on, c, cost, rows, most, &seen);
        if (status == KITH_E_DEVICE_MEMORY) { /* its lists found no room: the first word stands */
            kin_forgive(on->ctx);
        } else {
            KIN_TRY(status);
            verdict = kin_tree_judge(cost, &seen);
        }
    }
    *takes = verdict != KIN_TREE_DECLINE;
    return KITH_OK;
}

static kin_screen_gpu_source source_of(const kin_exact_gpu_query *query, int64_t first,
                                       int64_t count)
{
    return (kin_screen_gpu_source){.matrix = query->queries,
                                   .distance = &query->request->distance,
                                   .name = "queries",
                                   .place = query->place,
                                   .first = first,
                                   .count = count};
}

kith_status kin_tree_gpu_corpus_judge(kith_ctx *ctx, const kin_tree_gpu_corpus *corpus,
                                      const kin_exact_gpu_query *query, bool *takes)
{
    enum { ASKED_FIRST = 65536 };
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, corpus->gpu);
    const kith_matrix *queries = query->queries;
    const kin_tree_cost cost =
        cost_of(query->request, &corpus->points, corpus->prepared.groups.count, queries);
    *takes = kin_tree_gpu_named(query->request) || kin_tree_goes_unasked(&cost);
    if (*takes || queries == NULL) {
        return *takes ? KITH_OK : ask_small_trees(&on, corpus, &cost, NULL, takes);
    }
    kin_screen_gpu_prepared prepared;
    const kin_screen_gpu_source source =
        source_of(query, 0, kin_min_i64(queries->rows, ASKED_FIRST));
    KIN_TRY(kin_screen_gpu_prepare_queries(&on, &source, NULL, &prepared));
    const kith_status status = ask_small_trees(&on, corpus, &cost, &prepared.rows, takes);
    kin_screen_gpu_prepared_free(ctx, corpus->gpu, &prepared);
    return status;
}

/* ---- The corpus and its tree ----------------------------------------------------------------- */

static kith_status prepare(kith_ctx *ctx, kin_gpu *gpu, const kin_screen_gpu_source *source,
                           kin_tree_gpu_corpus *c)
{
    *c = (kin_tree_gpu_corpus){
        .gpu = gpu, .points = kin_screen_gpu_source_rows(source), .place = source->place};
    return kin_screen_gpu_prepare_groups(ctx, gpu, source, &c->prepared);
}

static kith_status plant(kith_ctx *ctx, int64_t leaf_points, kin_tree_gpu_corpus *c)
{
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, c->gpu);
    const int64_t start = kin_clock_ns();
    KIN_TRY(kin_tree_gpu_make(&on, &c->prepared.rows, c->prepared.firsts, c->prepared.groups.count,
                              leaf_points, &c->tree));
    KIN_TRY(kin_gpu_wait(ctx, c->gpu));
    ctx->report.seconds_prepare += kin_clock_since(start);
    return KITH_OK;
}

void kin_tree_gpu_corpus_free(kith_ctx *ctx, kin_tree_gpu_corpus *c)
{
    const kin_screen_gpu_device on = {.ctx = ctx, .gpu = c->gpu};
    if (c->gpu != NULL) {
        kin_tree_gpu_free(&on, &c->tree);
        kin_screen_gpu_prepared_free(ctx, c->gpu, &c->prepared);
    }
    *c = (kin_tree_gpu_corpus){0};
}

/* ---- By a tree that stands ------------------------------------------------------------------- */

typedef struct searching {
    kin_screen_gpu_device on;
    const kin_tree_gpu_corpus *corpus;
    const kin_exact_gpu_query *query;
    bool behind; /* answers of a stripe go to the host beside the next one */
    kin_tree_gpu_solver solver;
} searching;

/* Answers of the places, to the query's outputs; parts: as many at a time as fit. */
static kith_status solve(searching *s, const kin_exact_gpu_query *query, const kin_groups *asked,
                         const kin_tree_gpu_places *places, bool parts)
{
    const bool on_device = (query->place & KIN_GPU_OUT_ON_DEVICE) != 0;
    kin_exact_gpu_answers a =
        kin_exact_gpu_answers_of(&s->on, query, &s->corpus->prepared.groups, asked);
    a.by_host = parts && !on_device;
    a.behind = s->behind;
    KIN_TRY(kin_exact_gpu_answers_make(&a, on_device, false));
    kith_status status = kin_tree_gpu_solve(&s->solver, &a, places, parts);
    KIN_THEN(status, kin_exact_gpu_answers_finish(&a, query->out, s->corpus->points.rows));
    kin_exact_gpu_answers_free(&a);
    return status;
}

/* One walk of all points; in parts where their lists do not fit. */
static kith_status graph(searching *s)
{
    const kin_tree_gpu_corpus *c = s->corpus;
    const kin_tree_gpu_places places = {
        .rows = c->prepared.rows, .ids = c->tree.ids, .count = c->tree.blocks * KIN_TREE_LANES};
    const kith_status status = solve(s, s->query, &c->prepared.groups, &places, false);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(s->on.ctx);
    kin_gpu_trim(s->on.gpu);
    return solve(s, s->query, &c->prepared.groups, &places, true);
}

static kith_status solve_stripe(searching *s, const kin_screen_gpu_prepared *prepared,
                                int64_t first)
{
    const int64_t count = prepared->rows.rows;
    kin_exact_gpu_slice slice;
    kin_exact_gpu_slice_of(s->query, first, count, &slice);
    kin_tree_gpu_asked asked = {
        .count = count, .ordered = true, .plain = kin_tree_gpu_way_of(&slice.request) != NULL};
    KIN_HOLD(hold, s->on.ctx);
    KIN_TRY(kin_tree_gpu_ask(&s->solver, &hold, &prepared->rows, NULL, &asked));
    const kin_tree_gpu_places places = places_of(&prepared->rows, &asked);
    return solve(s, &slice.query, &prepared->groups, &places, false);
}

static kith_status search_stripe(void *arg, int64_t first, int64_t count, int64_t next)
{
    searching *s = arg;
    kith_ctx *ctx = s->on.ctx;
    const kith_matrix *queries = s->query->queries;
    const kin_screen_gpu_source source = source_of(s->query, first, count);
    kin_screen_gpu_prepared prepared;
    KIN_TRY(kin_screen_gpu_prepare_queries(&s->on, &source, NULL, &prepared));
    if (next > 0) {
        kin_screen_gpu_prepare_ahead(ctx, s->on.gpu, queries, first + count, next);
    }
    kith_status status = solve_stripe(s, &prepared, first);
    KIN_THEN(status, kin_progress(ctx, "screen", (double)(first + count), (double)queries->rows));
    kin_screen_gpu_prepared_free(ctx, s->on.gpu, &prepared);
    return status;
}

static kith_status search(searching *s)
{
    const kith_matrix *queries = s->query->queries;
    whole_job whole =
        whole_of(&s->corpus->points, queries, s->query->request, s->corpus->tree.height);
    whole.capacity = kin_tree_gpu_capacity(&s->solver);
    whole.many = kin_tree_gpu_many(s->corpus->tree.points); /* equal rows are one */
    whole.place = s->query->place;
    kin_exact_gpu_stripes all = {.ctx = s->on.ctx,
                                 .gpu = s->on.gpu,
                                 .rows = queries->rows,
                                 .ahead = (whole.place & KIN_GPU_DATA_ON_DEVICE) == 0 &&
                                          kin_gpu_ahead_wanted(s->on.gpu),
                                 .solve = search_stripe,
                                 .arg = s};
    all.stripe = cut_queries(&whole, kin_gpu_room(s->on.gpu), &all.ahead);
    s->behind = to_host(&whole) && all.stripe < all.rows;
    kith_status status = kin_exact_gpu_each_stripe(&all);
    KIN_KEEP(status, kin_gpu_behind_end(s->on.ctx, s->on.gpu, status == KITH_OK));
    return status;
}

static kith_status run(kith_ctx *ctx, const kin_tree_gpu_corpus *c,
                       const kin_exact_gpu_query *query)
{
    const bool is_graph = query->queries == NULL;
    const kin_groups *groups = &c->prepared.groups;
    const int64_t wanted = kin_request_ids(query->request, is_graph, c->points.rows);
    searching s = {.on = kin_screen_gpu_device_of(ctx, c->gpu), .corpus = c, .query = query};
    s.solver = (kin_tree_gpu_solver){.on = s.on,
                                     .tree = &c->tree,
                                     .corpus = &c->prepared,
                                     .request = query->request,
                                     .wanted = (int32_t)kin_min_i64(wanted, groups->count)};
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_tree_gpu_solver_make(&hold, &s.solver));
    KIN_TRY(is_graph ? graph(&s) : search(&s));
    const kin_screen_gpu_tally *tally = &s.solver.tally;
    const kin_tree_sums sums = {.rows = is_graph ? groups->count : query->queries->rows,
                                .pairs = tally->pairs,
                                .keys = tally->keys,
                                .reruns = tally->reruns};
    kin_tree_report(ctx, groups->count, &sums, query->request->pipeline);
    return KITH_OK;
}

/* ---- Engines --------------------------------------------------------------------------------- */

static kith_status too_large(kith_ctx *ctx, const char *argument, const kith_matrix *corpus)
{
    kin_forgive(ctx);
    return kin_fail_at(ctx, KITH_E_DEVICE_MEMORY, kin_at(argument),
                       "asks for a tree, and that of %lld points in %ld columns does not fit into "
                       "the memory of the GPU (give it more of it, or compare all pairs)",
                       (long long)corpus->rows, (long)corpus->cols);
}

static kith_status attempt(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                           const kin_exact_gpu_query *query, bool *takes)
{
    const kin_request *request = query->request;
    const kin_screen_gpu_source source = {.matrix = corpus,
                                          .distance = &request->distance,
                                          .name = query->queries == NULL ? "points" : "corpus",
                                          .place = query->place};
    kin_tree_gpu_corpus c;
    if (kin_tree_gpu_named(request)) {
        kin_tree_gpu_bring(ctx, gpu, corpus, query, query->queries);
    }
    kith_status status = prepare(ctx, gpu, &source, &c);
    KIN_THEN(status, kin_tree_gpu_corpus_judge(ctx, &c, query, takes));
    if (*takes) {
        const int64_t leaf = leaf_points_of(request, c.prepared.groups.count);
        KIN_THEN(status, plant(ctx, leaf, &c));
        KIN_THEN(status, run(ctx, &c, query));
    }
    kin_gpu_ahead_leave(gpu);
    kin_tree_gpu_corpus_free(ctx, &c);
    return status;
}

/* A tree that was not named is worth one try, in the scope that there is. */
kith_status kin_tree_gpu_search_alone(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                      const kin_exact_gpu_query *query, bool *declined)
{
    const bool named = kin_tree_gpu_named(query->request);
    const kith_report before = ctx->report;
    kith_status status = KITH_OK;
    bool takes = false;
    *declined = false;
    do {
        ctx->report = before;
        status = attempt(ctx, gpu, corpus, query, &takes);
    } while (named && kin_exact_gpu_again(ctx, gpu, status));
    if (status == KITH_E_DEVICE_MEMORY && named) {
        return too_large(ctx, query->request->pipeline != NULL ? "pipeline" : "method", corpus);
    }
    if (status == KITH_E_DEVICE_MEMORY) {
        kin_forgive(ctx);
        kin_gpu_trim(gpu);
        status = KITH_OK;
        takes = false;
    }
    *declined = status == KITH_OK && !takes;
    if (*declined) {
        ctx->report = before;
    }
    return status;
}

/* ---- Kept ------------------------------------------------------------------------------------ */

kith_status kin_tree_gpu_corpus_make(kith_ctx *ctx, kin_gpu *gpu,
                                     const kin_screen_gpu_source *source, int32_t height,
                                     int64_t leaf_points, kin_tree_gpu_corpus *c)
{
    const kith_report before = ctx->report;
    kith_status status = KITH_OK;
    do {
        ctx->report = before;
        status = prepare(ctx, gpu, source, c);
        if (status == KITH_OK) {
            const int64_t points = c->prepared.groups.count;
            ctx->report.distinct_rows = points;
            c->leaf_points = leaf_points != 0 ? leaf_points
                                              : kin_tree_leaf_points_of(tree_cols(source->distance),
                                                                        points, height);
            status = plant(ctx, kept_leaf(c), c);
        }
        if (status != KITH_OK) {
            kin_tree_gpu_corpus_free(ctx, c);
        }
    } while (kin_exact_gpu_again(ctx, gpu, status));
    return status == KITH_E_DEVICE_MEMORY ? too_large(ctx, "method", source->matrix) : status;
}

kith_status kin_tree_gpu_corpus_search(kith_ctx *ctx, const kin_tree_gpu_corpus *corpus,
                                       const kin_exact_gpu_query *query)
{
    const kith_report before = ctx->report;
    kith_status status = KITH_OK;
    do {
        ctx->report = before;
        status = run(ctx, corpus, query);
    } while (kin_exact_gpu_again(ctx, corpus->gpu, status));
    return status;
}
