/* SPDX-License-Identifier: Apache-2.0
 * What is made of a graph: whether it is exact, by making it again; its symmetric form; the graph
 * without some points; and two graphs made one. */
#include "api/api_check.h"

#include "file/file_checksum.h"
#include "host/host_threads.h"

/* ---- Exactness ------------------------------------------------------------------------------ */

static void compare(const kith_neighbors *graph, const kith_neighbors *truth, int64_t *wrong,
                    int64_t *first_wrong)
{
    const size_t bytes = (size_t)truth->k * sizeof *truth->ids;
    *wrong = 0;
    *first_wrong = -1;
    for (int64_t row = 0; row < truth->rows; row++) {
        if (memcmp(graph->ids + row * graph->k, truth->ids + row * truth->k, bytes) != 0) {
            *first_wrong = *wrong == 0 ? row : *first_wrong;
            *wrong += 1;
        }
    }
}

static kith_status verify(kith_ctx *ctx, const kith_matrix *points, const kith_neighbors *graph,
                          const kith_search_params *given, int64_t *wrong, int64_t *first_wrong)
{
    kith_matrix matrix;
    kith_search_params params;
    KIN_TRY(kin_check_search_params(ctx, given, &params));
    KIN_TRY(kin_check_matrix(ctx, points, "points", &matrix));
    KIN_TRY(kin_check_graph(ctx, graph, matrix.rows));
    params.metric = params.metric != KITH_METRIC_DEFAULT ? params.metric : KITH_EUCLIDEAN;
    KIN_TRY(kin_fingerprint_check(ctx, graph, "graph", &matrix, params.metric));
    if (wrong == NULL || first_wrong == NULL) {
        return kin_fail(ctx, KITH_E_ARGUMENT, "wrong or first_wrong is NULL (give room for them)");
    }
    KIN_REFUSE_IF(params.k > graph->k, ctx, "k",
                  "is %lld and the graph has lists of %lld (take a k of at most that)",
                  (long long)params.k, (long long)graph->k);
    kith_neighbors truth = {.rows = matrix.rows, .k = params.k};
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, truth.ids, kin_size_mul((uint64_t)truth.rows, (uint64_t)kin_max_i64(truth.k, 0)),
            "true neighbours");
    KIN_TRY(kith_graph(ctx, &matrix, &params, &truth, NULL));
    compare(graph, &truth, wrong, first_wrong);
    ctx->report.exact = *wrong == 0 ? KITH_CERTIFIED : KITH_APPROXIMATE;
    return KITH_OK;
}

kith_status kith_graph_verify(kith_ctx *ctx, const kith_matrix *points, const kith_neighbors *graph,
                              const kith_search_params *params, int64_t *wrong,
                              int64_t *first_wrong)
{
    KIN_CALL(ctx, verify(ctx, points, graph, params, wrong, first_wrong));
}

/* ---- Symmetric graphs ----------------------------------------------------------------------- */

static kith_status check(kith_ctx *ctx, const kith_neighbors *graph, kith_metric *metric,
                         kith_symmetry symmetry)
{
    KIN_TRY(kin_check_neighbors(ctx, graph, "graph"));
    KIN_TRY(kin_check_graph(ctx, graph, graph->rows));
    KIN_REFUSE_IF(graph->distances == NULL && graph->distances64 == NULL, ctx, "graph",
                  "has neither distances nor distances64 (give one of them)");
    *metric = *metric == KITH_METRIC_DEFAULT ? KITH_EUCLIDEAN : *metric;
    KIN_REFUSE_IF(!kin_metric_is(*metric), ctx, "metric",
                  "is %d, which is no metric (use one of kith_metric)", (int)*metric);
    KIN_TRY(kin_fingerprint_check(ctx, graph, "graph", NULL, *metric));
    KIN_ALLOW_IF(symmetry == KITH_SYMMETRY_UNION || symmetry == KITH_SYMMETRY_MUTUAL, ctx,
                 "symmetry", "is %d, must be KITH_SYMMETRY_UNION or KITH_SYMMETRY_MUTUAL",
                 (int)symmetry);
}

static kith_status create(kith_ctx *ctx, const kith_neighbors *graph, kith_metric metric,
                          kith_symmetry symmetry, kith_ranges **out)
{
    kith_ranges *ranges = NULL;
    KIN_TRY(kin_check_out(ctx, out));
    KIN_TRY(check(ctx, graph, &metric, symmetry));
    KIN_TRY(kin_ranges_make(ctx, &ranges));
    return kin_ranges_end(
        ranges, kin_graph_symmetric(ctx, graph, metric, symmetry == KITH_SYMMETRY_MUTUAL, ranges),
        out);
}

kith_status kith_graph_symmetric(kith_ctx *ctx, const kith_neighbors *graph, kith_metric metric,
                                 kith_symmetry symmetry, kith_ranges **out)
{
    kin_clear_out(out);
    KIN_CALL(ctx, create(ctx, graph, metric, symmetry, out));
}

/* ---- Without some points --------------------------------------------------------------------- */

/* Lists without them, canonical distances of what is left, and rows that lost neighbours are
 * searched for again. */

/* An exact graph looks at every pair once, a search at each of its own: beyond this share of the
 * rows a graph is the sooner way. */
static const double MOST_REPAIRED = 0.5;

typedef struct removal {
    kith_ctx *ctx;
    kin_hold *hold;
    kith_remove_params params;
    kith_matrix points;
    kin_distance distance;
    kin_remove_job lists;
    kith_matrix rest; /* a copy of the points that are left */
} removal;

/* ---- Arguments ------------------------------------------------------------------------------ */

static kith_status take_params(kith_ctx *ctx, const kith_remove_params *given,
                               kith_remove_params *params)
{
    KIN_TRY(KIN_TAKE(ctx, kith_remove_params, flags, given, params));
    KIN_ALLOW_IF((params->flags & ~(uint32_t)KITH_INCLUDE_SELF) == 0, ctx, "flags",
                 "is 0x%x, of which only KITH_INCLUDE_SELF is a flag here",
                 (unsigned)params->flags);
}

static kith_status check_removal(removal *r, const kith_matrix *points, const kith_neighbors *graph,
                                 const kith_remove_params *given, const kith_remove_report *report)
{
    kith_ctx *ctx = r->ctx;
    KIN_TRY(take_params(ctx, given, &r->params));
    KIN_TRY(kin_check_matrix(ctx, points, "points", &r->points));
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, &r->params, r->points.cols, &r->distance));
    KIN_TRY(kin_check_graph(ctx, graph, r->points.rows));
    KIN_TRY(kin_fingerprint_check(ctx, graph, "graph", &r->points, r->distance.metric));
    r->lists = (kin_remove_job){
        .graph = graph, .wanted = r->params.k, .self = (r->params.flags & KITH_INCLUDE_SELF) != 0};
    KIN_REFUSE_IF(r->params.removed == NULL, ctx, "removed",
                  "is NULL (give a byte for each point)");
    KIN_REFUSE_IF(r->params.k > graph->k, ctx, "k",
                  "is %lld and the graph has lists of %lld (take a k of at most that)",
                  (long long)r->params.k, (long long)graph->k);
    return kin_check_room(ctx, report, "report", "kith_remove_report");
}

/* ---- What is left --------------------------------------------------------------------------- */

static kith_status keep(removal *r, const kith_neighbors *out)
{
    kith_ctx *ctx = r->ctx;
    kin_remove_job *lists = &r->lists;
    const uint64_t rows = (uint64_t)r->points.rows;
    KIN_NEW(r->hold, lists->map, rows, "new ids");
    KIN_NEW(r->hold, lists->rows, rows, "rows that are left");
    lists->left = kin_remove_map(r->params.removed, r->points.rows, lists->map, lists->rows);
    if (lists->left == 0) {
        return kin_fail(ctx, KITH_E_ARGUMENT, "all %lld points are removed (leave at least one)",
                        (long long)r->points.rows);
    }
    const uint64_t left = (uint64_t)lists->left;
    KIN_TRY(kin_check_output(ctx, r->params.k, lists->left - (lists->self ? 0 : 1),
                             "so many neighbours has a point of those that are left", out,
                             lists->left));
    KIN_TRY(kin_hold_rows(r->hold, &r->points, lists->rows, lists->left, "points that are left",
                          &r->rest));
    KIN_NEW(r->hold, lists->ids, kin_size_mul(left, (uint64_t)lists->graph->k),
            "lists that are left");
    KIN_NEW(r->hold, lists->lacking, left, "rows that lost neighbours");
    return kin_remove_lists(ctx, lists);
}

static kith_status write_lists(const removal *r, const kith_neighbors *out)
{
    kin_prepared points = {0};
    const kith_neighbors graph = {
        .ids = r->lists.ids, .rows = r->lists.left, .k = r->lists.graph->k};
    const kith_neighbors nobody = {.rows = r->lists.left};
    const kin_merge_side side = {
        .name = "graph", .graph = &graph, .across = &nobody, .may_be_short = true};
    KIN_HOLD(hold, r->ctx);
    kin_prepared_hold(&hold, &points);
    KIN_TRY(kin_prepare_rows(r->ctx, &r->rest, &r->distance, "points", KIN_ROWS_DISTINCT, &points));
    return kin_merge_write(r->ctx, &points, &side, r->params.flags, out);
}

/* ---- Repair --------------------------------------------------------------------------------- */

static kith_search_params search_params(const removal *r)
{
    kith_search_params params = kith_search_params_default();
    params.metric = r->params.metric;
    params.k = r->params.k;
    params.custom = r->params.custom;
    params.custom_arg = r->params.custom_arg;
    return params;
}

static kith_status make_anew(const removal *r, const kith_neighbors *out)
{
    kith_search_params params = search_params(r);
    kith_descent_params descent = kith_descent_params_default();
    descent.sample = -1;
    params.flags = r->params.flags;
    params.method = r->params.approximate == 0 ? KITH_METHOD_AUTO : KITH_METHOD_DESCENT;
    params.descent = &descent;
    return kith_graph(r->ctx, &r->rest, &params, out, NULL);
}

static void put_back(const removal *r, const kith_neighbors *found, const kith_neighbors *out)
{
    for (int64_t i = 0; i < found->rows * out->k; i++) {
        kin_answer_put(out, (int64_t)r->lists.lacking[i / out->k] * out->k + i % out->k,
                       found->ids[i], found->distances64[i]);
    }
}

static kith_status repair(const removal *r, const kith_neighbors *out)
{
    kith_ctx *ctx = r->ctx;
    const uint64_t rows = (uint64_t)r->lists.lacking_count;
    const uint64_t entries = kin_size_mul(rows, (uint64_t)out->k);
    kith_neighbors found = {.rows = r->lists.lacking_count, .k = out->k};
    kith_matrix queries;
    bool few = false;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_rows(&hold, &r->rest, r->lists.lacking, r->lists.lacking_count,
                          "rows that lost neighbours", &queries));
    KIN_NEW(&hold, found.ids, entries, "neighbours");
    KIN_NEW(&hold, found.distances64, entries, "neighbours");
    kith_search_params params = search_params(r);
    params.exclude = r->lists.self ? NULL : r->lists.lacking;
    KIN_TRY(kin_across_few(ctx, &r->rest, &queries, &params, &found, &few));
    if (!few) {
        KIN_TRY(kith_search(ctx, &r->rest, &queries, &params, &found, NULL));
    }
    put_back(r, &found, out);
    return KITH_OK;
}

static kith_status remove_points(kith_ctx *ctx, const kith_matrix *points,
                                 const kith_neighbors *graph, const kith_remove_params *params,
                                 const kith_neighbors *out, kith_remove_report *report)
{
    KIN_HOLD(hold, ctx);
    removal removed = {.ctx = ctx, .hold = &hold};
    removal *r = &removed;
    KIN_TRY(check_removal(r, points, graph, params, report));
    KIN_TRY(keep(r, out));
    const bool anew = (double)r->lists.lacking_count > MOST_REPAIRED * (double)r->lists.left;
    if (anew) {
        KIN_TRY(make_anew(r, out));
    } else {
        KIN_TRY(write_lists(r, out));
        KIN_TRY(r->lists.lacking_count > 0 ? repair(r, out) : KITH_OK);
    }
    ctx->report.exact = !anew                        ? kin_exactness_of(r->lists.graph)
                        : r->params.approximate == 0 ? KITH_CERTIFIED
                                                     : KITH_APPROXIMATE;
    if (r->params.map != NULL) {
        memcpy(r->params.map, r->lists.map, (size_t)r->points.rows * sizeof *r->params.map);
    }
    const kith_remove_report own = {.anew = anew,
                                    .left = r->lists.left,
                                    .repaired = anew ? r->lists.left : r->lists.lacking_count};
    kin_fill_room(report, &own, sizeof own);
    return KITH_OK;
}

kith_status kith_graph_remove(kith_ctx *ctx, const kith_matrix *points, const kith_neighbors *graph,
                              const kith_remove_params *params, const kith_neighbors *out,
                              kith_remove_report *report)
{
    KIN_CALL(ctx, remove_points(ctx, points, graph, params, out, report));
}

/* ---- Two graphs made one --------------------------------------------------------------------- */

/* Two graphs made one: exactly, or by a descent that begins with both. */

/* ---- Arguments ------------------------------------------------------------------------------ */

static const char *const NAMES[] = {"graph1", "graph2"};

/* What is asked of the graphs. */
typedef struct wanted_lists {
    int64_t k;
    bool self;
    uint32_t place; /* of exact_search_gpu.h */
} wanted_lists;

static kith_status check_side(kith_ctx *ctx, const kith_neighbors *graph, const char *name,
                              int64_t rows, const wanted_lists *wanted, kith_neighbors *checked)
{
    const int64_t others = rows - (wanted->self ? 0 : 1);
    if (wanted->place == KIN_API_SHAPE) { /* only what is known of it matters */
        *checked = (kith_neighbors){.rows = rows, .meta = graph != NULL ? graph->meta : NULL};
        return KITH_OK;
    }
    if (rows == 0 && graph == NULL) {
        *checked = (kith_neighbors){.k = wanted->k};
        return KITH_OK;
    }
    if (rows > 0) {
        KIN_TRY(kin_check_neighbors(ctx, graph, name));
    }
    KIN_REFUSE_IF(graph->rows != rows, ctx, name,
                  "has %lld rows and its set %lld points (first_rows of points.rows are set 1, the "
                  "others set 2)",
                  (long long)graph->rows, (long long)rows);
    KIN_REFUSE_IF(
        graph->k < kin_min_i64(wanted->k, others), ctx, name,
        "has lists of %lld and k is %lld (take a k of at most that, or a graph with longer lists)",
        (long long)graph->k, (long long)wanted->k);
    *checked = *graph;
    return (wanted->place & KIN_GPU_OUT_ON_DEVICE) == 0 ? kin_check_ids(ctx, graph, name) : KITH_OK;
}

static kith_status merge_check(kith_ctx *ctx, const kith_merge_sets *given,
                               const wanted_lists *wanted, kin_merge_sets *sets)
{
    const int64_t first = given->first_rows;
    const bool shape = wanted->place == KIN_API_SHAPE;
    kith_matrix like;
    const kith_matrix *points = shape ? kin_check_shape(given->points, &like) : given->points;
    KIN_TRY(kin_check_matrix(ctx, points, "points", &sets->points));
    const int64_t rows = sets->points.rows;
    KIN_REFUSE_IF(first < 0 || first > rows, ctx, "first_rows",
                  "is %lld, must be 0 to %lld (the rows of points)", (long long)first,
                  (long long)rows);
    sets->first_rows = first;
    KIN_TRY(check_side(ctx, given->graph1, NAMES[0], first, wanted, &sets->graph[0]));
    return check_side(ctx, given->graph2, NAMES[1], rows - first, wanted, &sets->graph[1]);
}

static kith_status merge_check_known(kith_ctx *ctx, const kin_merge_sets *sets, kith_metric metric,
                                     uint32_t place)
{
    const int64_t first = sets->first_rows;
    const kith_matrix part[2] = {kin_matrix_part(&sets->points, 0, first),
                                 kin_matrix_part(&sets->points, first, sets->points.rows - first)};
    for (int i = 0; i < 2; i++) {
        const kith_matrix *points = (place & KIN_GPU_DATA_ON_DEVICE) == 0 ? &part[i] : NULL;
        if (part[i].rows > 0) {
            KIN_TRY(kin_fingerprint_check(ctx, &sets->graph[i], NAMES[i], points, metric));
        }
    }
    return KITH_OK;
}

/* ---- By a descent --------------------------------------------------------------------------- */

static kith_status check_start(kith_ctx *ctx, const kith_search_params *params)
{
    kith_descent_params descent;
    KIN_TRY(kin_api_take_descent(ctx, params, &descent));
    KIN_ALLOW_IF(descent.init == NULL && (int)descent.start != KITH_START_GRAPH, ctx,
                 descent.init != NULL ? "init" : "start",
                 "is %s, and a merge begins with its two graphs (leave it out)",
                 descent.init != NULL ? "set" : "KITH_START_GRAPH");
}

static void begin_with_both(kin_merge_job *job)
{
    kin_graph_request *request = &job->descent.request;
    const int64_t first_rows = job->sets.first_rows;
    const bool one_sided = first_rows == 0 || first_rows == job->sets.points.rows;
    const bool ggm = request->start == KIN_GRAPH_START_GGM;
    request->by_chance = request->start == KIN_GRAPH_START_RANDOM || ggm;
    request->ggm = ggm && !one_sided;
    job->descent.may_lengthen &= !ggm;
    request->start = KIN_GRAPH_START_GRAPH;
    request->init = first_rows == 0 ? &job->sets.graph[1] : &job->sets.graph[0];
    request->init2 = one_sided ? NULL : &job->sets.graph[1];
    request->split = one_sided ? 0 : first_rows;
}

/* ---- Exactly -------------------------------------------------------------------------------- */

static kith_status check_exact(kith_ctx *ctx, const kith_neighbors *out, kin_merge_job *job)
{
    const kith_search_params given = job->params;
    kith_search_params *params = &job->params;
    const bool self = (given.flags & KITH_INCLUDE_SELF) != 0;
    const int64_t rows = job->sets.points.rows;
    KIN_TRY(kin_check_search_params(ctx, &given, params));
    KIN_TRY(kin_refuse_period(ctx, params->period, "merges have none (make a new graph)"));
    KIN_TRY(kin_check_output(
        ctx, params->k, rows - (self ? 0 : 1),
        self ? "the points have no more rows" : "a point's own id does not count", out, rows));
    const int64_t fewer = kin_min_i64(job->sets.first_rows, rows - job->sets.first_rows);
    if (fewer > 0) { /* each set has a tree of its own */
        KIN_TRY(kin_method_check_height(ctx, params->tree_height, fewer));
    }
    job->flags = params->flags;
    params->flags &= ~(uint32_t)KITH_INCLUDE_SELF;
    params->metric = kin_metric_of_keys(job->distance.metric);
    return KITH_OK;
}

/* ---- Either --------------------------------------------------------------------------------- */

static kith_status take_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                              const kith_search_params *given, kin_merge_job *job)
{
    memset(job, 0, sizeof *job);
    KIN_REFUSE_IF(sets == NULL, ctx, "sets", "is NULL (give points and two graphs)");
    KIN_TRY(kin_api_take_choice(ctx, given, &job->params, &job->choice));
    const bool excludes = job->params.exclude != NULL;
    KIN_ALLOW_IF((job->params.flags & KITH_WITHIN_RADIUS) == 0 && !excludes, ctx,
                 excludes ? "exclude" : "radius", "is set, and a merge has none (leave it out)");
}

/* A recall below 1 is a descent's; where none is wanted, graphs that are certified stay so. *may:
 * it is one, or may be. */
static kith_status take_way(kith_ctx *ctx, uint32_t place, kin_merge_job *job, bool *may)
{
    kin_choice *choice = &job->choice;
    const bool there = (place & KIN_GPU_DATA_ON_DEVICE) != 0;
    const bool wants = job->params.recall > 0.0 || there;
    choice->descends |= choice->open && wants;
    choice->open &= !wants && kin_merge_exactness(&job->sets) != KITH_CERTIFIED;
    *may = choice->open || choice->descends;
    KIN_FAIL_IF(there && !choice->descends, ctx, KITH_E_UNSUPPORTED, kin_at("method"),
                "asks for an exact merge, and graphs in device memory are merged by a descent "
                "(leave it out, or give host memory)");
    return *may ? check_start(ctx, &job->params) : KITH_OK;
}

kith_status kin_api_check_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                                const kith_search_params *given, uint32_t place,
                                const kith_neighbors *out, kin_merge_job *job)
{
    const kith_search_params *params = &job->params;
    bool may = false;
    KIN_TRY(take_merge(ctx, sets, given, job));
    const wanted_lists wanted = {params->k, (params->flags & KITH_INCLUDE_SELF) != 0, place};
    KIN_TRY(merge_check(ctx, sets, &wanted, &job->sets));
    KIN_TRY(take_way(ctx, place, job, &may));
    KIN_TRY(may ? kin_descent_check(ctx, sets->points, params, place, out, &job->descent)
                : KITH_OK);
    /* Of a shape: halves of lists are memory that others do not take. */
    if (may && (place != KIN_API_SHAPE || job->descent.request.start == KIN_GRAPH_START_GGM)) {
        begin_with_both(job);
    }
    if (place == KIN_API_SHAPE) {
        return KITH_OK;
    }
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, params, job->sets.points.cols, &job->distance));
    KIN_TRY(merge_check_known(ctx, &job->sets, job->distance.metric, place));
    return job->choice.descends ? KITH_OK : check_exact(ctx, out, job);
}

static kith_status merge(kith_ctx *ctx, const kith_merge_sets *sets,
                         const kith_search_params *params, const kith_neighbors *out,
                         const kith_report *report)
{
    kin_merge_job job;
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_report"));
    KIN_TRY(kin_api_check_merge(ctx, sets, params, 0, out, &job));
    KIN_TRY(kin_choose_merge(ctx, &job.descent, sets->first_rows, &job.choice));
    return job.choice.descends ? kin_api_descend(ctx, &job.descent, out, job.params.descent_report)
                               : kin_engine_merge(ctx, &job, out);
}

kith_status kith_graph_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                             const kith_search_params *params, const kith_neighbors *out,
                             kith_report *report)
{
    KIN_CALL_TOLD(ctx, merge(ctx, sets, params, out, report), report);
}
