/* SPDX-License-Identifier: Apache-2.0
 * Two graphs made one: exactly, or by a descent that begins with both. */
#include "api/api_check.h"

#include "file/file_checksum.h"

/* ---- Arguments ------------------------------------------------------------------------------ */

static const char *const NAMES[] = {"graph1", "graph2"};

/* What is asked of the graphs. */
typedef struct wanted_lists {
    int64_t k;
    bool self;
    uint32_t place; /* of fused_search.h */
} wanted_lists;

static kith_status check_side(kith_ctx *ctx, const kith_neighbors *graph, const char *name,
                              int64_t rows, const wanted_lists *wanted, kith_neighbors *checked)
{
    const int64_t others = rows - (wanted->self ? 0 : 1);
    if (rows == 0 && graph == NULL) {
        *checked = (kith_neighbors){.k = wanted->k};
        return KITH_OK;
    }
    if (rows > 0) {
        KIN_TRY(kin_check_neighbors(ctx, graph, name));
    }
    KIN_FAIL_IF(graph->rows != rows, ctx, KITH_E_ARGUMENT, kin_at(name),
                "has %lld rows and its set %lld points (first_rows of points.rows are "
                "set 1, the others set 2)",
                (long long)graph->rows, (long long)rows);
    KIN_FAIL_IF(graph->k < kin_min_i64(wanted->k, others), ctx, KITH_E_ARGUMENT, kin_at(name),
                "has lists of %lld and k is %lld (take a k of at most that, or a graph "
                "with longer lists)",
                (long long)graph->k, (long long)wanted->k);
    *checked = *graph;
    return (wanted->place & KIN_FUSED_OUT_ON_DEVICE) == 0 ? kin_check_ids(ctx, graph, name)
                                                          : KITH_OK;
}

/* A graph of which only what is known of it matters. */
static kith_neighbors shape_of(const kith_neighbors *graph, int64_t rows)
{
    return (kith_neighbors){.rows = rows, .meta = graph != NULL ? graph->meta : NULL};
}

static kith_status check_first(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows)
{
    KIN_FAIL_IF(first_rows < 0 || first_rows > points->rows, ctx, KITH_E_ARGUMENT,
                kin_at("first_rows"), "is %lld, must be 0 to %lld (the rows of points)",
                (long long)first_rows, (long long)points->rows);
    return KITH_OK;
}

static kith_status merge_check(kith_ctx *ctx, const kith_merge_sets *given,
                               const wanted_lists *wanted, kin_merge_sets *sets)
{
    const int64_t first = given->first_rows;
    KIN_TRY(kin_check_matrix(ctx, given->points, "points", &sets->points));
    KIN_TRY(check_first(ctx, &sets->points, first));
    sets->first_rows = first;
    KIN_TRY(check_side(ctx, given->graph1, NAMES[0], first, wanted, &sets->graph[0]));
    return check_side(ctx, given->graph2, NAMES[1], sets->points.rows - first, wanted,
                      &sets->graph[1]);
}

static kith_status merge_check_known(kith_ctx *ctx, const kin_merge_sets *sets, kith_metric metric,
                                     uint32_t place)
{
    kith_matrix part[2] = {sets->points, sets->points};
    part[0].rows = sets->first_rows;
    part[1].rows = sets->points.rows - sets->first_rows;
    part[1].data = (const char *)sets->points.data + sets->first_rows * sets->points.stride_bytes;
    for (int i = 0; i < 2; i++) {
        const kith_matrix *points = (place & KIN_FUSED_DATA_ON_DEVICE) == 0 ? &part[i] : NULL;
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
    KIN_FAIL_IF(descent.init != NULL || (int)descent.start == KITH_START_GRAPH, ctx,
                KITH_E_ARGUMENT, kin_at(descent.init != NULL ? "init" : "start"),
                "is %s, and a merge begins with its two graphs (leave it out)",
                descent.init != NULL ? "set" : "KITH_START_GRAPH");
    return KITH_OK;
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

static kith_status take_params(kith_ctx *ctx, const kith_merge_sets *sets,
                               const kith_search_params *given, kin_merge_job *job)
{
    memset(job, 0, sizeof *job);
    KIN_TRY(sets != NULL ? KITH_OK
                         : kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("sets"),
                                       "is NULL (give points and two graphs)"));
    KIN_TRY(kin_api_take_choice(ctx, given, &job->params, &job->choice));
    const bool excludes = job->params.exclude != NULL;
    KIN_PASS_IF((job->params.flags & KITH_WITHIN_RADIUS) == 0 && !excludes, ctx, KITH_E_ARGUMENT,
                kin_at(excludes ? "exclude" : "radius"),
                "is set, and a merge has none (leave it out)");
}

/* A recall below 1 is a descent's; where none is wanted, graphs that are certified stay so. *may:
 * it is one, or may be. */
static kith_status take_way(kith_ctx *ctx, uint32_t place, kin_merge_job *job, bool *may)
{
    kin_choice *choice = &job->choice;
    const bool wants = job->params.recall > 0.0 || place != 0;
    choice->descends |= choice->open && wants;
    choice->open &= !wants && kin_merge_exactness(&job->sets) != KITH_CERTIFIED;
    *may = choice->open || choice->descends;
    KIN_FAIL_IF(place != 0 && !choice->descends, ctx, KITH_E_UNSUPPORTED, kin_at("method"),
                "asks for an exact merge, and graphs in device memory are merged by a "
                "descent (leave it out, or give host memory)");
    return *may ? check_start(ctx, &job->params) : KITH_OK;
}

kith_status kin_api_check_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                                const kith_search_params *given, uint32_t place,
                                const kith_neighbors *out, kin_merge_job *job)
{
    const kith_search_params *params = &job->params;
    bool may = false;
    KIN_TRY(take_params(ctx, sets, given, job));
    const wanted_lists wanted = {params->k, (params->flags & KITH_INCLUDE_SELF) != 0, place};
    KIN_TRY(merge_check(ctx, sets, &wanted, &job->sets));
    KIN_TRY(take_way(ctx, place, job, &may));
    if (may) {
        KIN_TRY(kin_descent_check(ctx, sets->points, params, place, out, &job->descent));
        begin_with_both(job);
    }
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, params, job->sets.points.cols, &job->distance));
    KIN_TRY(merge_check_known(ctx, &job->sets, job->distance.metric, place));
    return job->choice.descends ? KITH_OK : check_exact(ctx, out, job);
}

kith_status kin_api_check_merge_shape(kith_ctx *ctx, const kith_merge_sets *sets,
                                      const kith_search_params *given, kin_merge_job *job)
{
    kith_matrix shape;
    bool may = false;
    KIN_TRY(take_params(ctx, sets, given, job));
    KIN_TRY(
        kin_check_matrix(ctx, kin_check_shape(sets->points, &shape), "points", &job->sets.points));
    KIN_TRY(check_first(ctx, &job->sets.points, sets->first_rows));
    job->sets.first_rows = sets->first_rows;
    job->sets.graph[0] = shape_of(sets->graph1, sets->first_rows);
    job->sets.graph[1] = shape_of(sets->graph2, job->sets.points.rows - sets->first_rows);
    KIN_TRY(take_way(ctx, 0, job, &may));
    KIN_TRY(may ? kin_descent_check_shape(ctx, sets->points, &job->params, &job->descent)
                : KITH_OK);
    if (may && job->descent.request.start == KIN_GRAPH_START_GGM) {
        begin_with_both(job); /* halves of lists are memory that others do not take */
    }
    return KITH_OK;
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
