/* SPDX-License-Identifier: Apache-2.0
 * Two graphs made one: approximate ones by a descent that begins with both, exact ones exactly; and
 * how long either takes. */
#include "api/api_check.h"

#include "base/base_size.h"
#include "base/base_try.h"
#include "engine/engine_call.h"
#include "engine/engine_job.h"
#include "engine/engine_merge.h"
#include "file/file_checksum.h"
#include "fused/fused_search.h"

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
    if (graph->rows != rows) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at(name),
                           "has %lld rows and its set %lld points (first_rows of points.rows are "
                           "set 1, the others set 2)",
                           (long long)graph->rows, (long long)rows);
    }
    if (graph->k < kin_min_i64(wanted->k, others)) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at(name),
                           "has lists of %lld and k is %lld (take a k of at most that, or a graph "
                           "with longer lists)",
                           (long long)graph->k, (long long)wanted->k);
    }
    *checked = *graph;
    return (wanted->place & KIN_FUSED_OUT_ON_DEVICE) == 0 ? kin_check_ids(ctx, graph, name)
                                                          : KITH_OK;
}

static kith_status check_sets(kith_ctx *ctx, const kith_merge_sets *given)
{
    return given != NULL ? KITH_OK
                         : kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("sets"),
                                       "is NULL (give points and two graphs)");
}

static kith_status check_first(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows)
{
    if (first_rows < 0 || first_rows > points->rows) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("first_rows"),
                           "is %lld, must be 0 to %lld (the rows of points)", (long long)first_rows,
                           (long long)points->rows);
    }
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

/* ---- Approximate graphs --------------------------------------------------------------------- */

/* What the caller gave is a descent's, but for its start. */
static kith_status check_params(kith_ctx *ctx, const kith_descent_params *given,
                                kith_descent_params *params)
{
    *params = kith_descent_params_default();
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_descent_params, flags), given, params));
    if (params->init != NULL || (int)params->start == KITH_START_GRAPH) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at(params->init != NULL ? "init" : "start"),
                           "is %s, and a merge begins with its two graphs (leave it out)",
                           params->init != NULL ? "set" : "KITH_START_GRAPH");
    }
    return KITH_OK;
}

kith_status kin_merge_check_job(kith_ctx *ctx, const kith_merge_sets *sets,
                                const kith_descent_params *given, uint32_t place,
                                const kith_neighbors *out, kin_merge_job *job)
{
    kith_descent_params params;
    kin_graph_request *request = &job->descent.request;
    KIN_TRY(check_sets(ctx, sets));
    KIN_TRY(check_params(ctx, given, &params));
    const wanted_lists wanted = {params.k, (params.flags & KITH_INCLUDE_SELF) != 0, place};
    KIN_TRY(kin_descent_check(ctx, sets->points, &params, place, out, &job->descent));
    KIN_TRY(merge_check(ctx, sets, &wanted, &job->sets));
    KIN_TRY(merge_check_known(ctx, &job->sets, request->distance.metric, place));
    const int64_t first_rows = sets->first_rows;
    const bool one_sided = first_rows == 0 || first_rows == job->sets.points.rows;
    request->by_chance = request->start == KIN_GRAPH_START_RANDOM;
    request->start = KIN_GRAPH_START_GRAPH;
    request->init = first_rows == 0 ? &job->sets.graph[1] : &job->sets.graph[0];
    request->init2 = one_sided ? NULL : &job->sets.graph[1];
    request->split = one_sided ? 0 : first_rows;
    return KITH_OK;
}

static kith_status merge(kith_ctx *ctx, const kin_merge_job *m, const kith_neighbors *out,
                         kith_descent_report *report)
{
    kith_descent_report own;
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_descent_report"));
    KIN_TRY(kin_engine_descent(ctx, &m->descent, out, &own));
    kin_fill_room(report, &own, sizeof own);
    return KITH_OK;
}

kith_status kith_graph_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                             const kith_descent_params *params, const kith_neighbors *out,
                             kith_descent_report *report)
{
    kin_call call;
    kin_merge_job m;
    memset(&m, 0, sizeof m);
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = kin_merge_check_job(ctx, sets, params, 0, out, &m);
    if (status == KITH_OK) {
        status = merge(ctx, &m, out, report);
    }
    return kin_call_end(&call, status);
}

/* ---- Exact graphs --------------------------------------------------------------------------- */

static kith_status check_exact(kith_ctx *ctx, const kith_merge_sets *sets,
                               const kith_search_params *given, const kith_neighbors *out,
                               kin_merge_exact *m)
{
    kith_search_params *params = &m->params;
    KIN_TRY(check_sets(ctx, sets));
    KIN_TRY(kin_check_search_params(ctx, given, params));
    const bool self = (params->flags & KITH_INCLUDE_SELF) != 0;
    const wanted_lists wanted = {.k = params->k, .self = self};
    KIN_TRY(merge_check(ctx, sets, &wanted, &m->sets));
    KIN_TRY(kin_check_metric(ctx, params->metric, params->custom, params->custom_arg,
                             m->sets.points.cols, &m->distance));
    KIN_TRY(merge_check_known(ctx, &m->sets, m->distance.metric, 0));
    KIN_TRY(
        kin_check_output(ctx, params->k, m->sets.points.rows - (self ? 0 : 1),
                         self ? "the points have no more rows" : "a point's own id does not count",
                         out, m->sets.points.rows));
    if ((params->flags & KITH_WITHIN_RADIUS) != 0 || params->exclude != NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT,
                           kin_at(params->exclude != NULL ? "exclude" : "radius"),
                           "is set, and a merge has none (leave it out)");
    }
    const int64_t fewer = kin_min_i64(m->sets.first_rows, m->sets.points.rows - m->sets.first_rows);
    if (fewer > 0) { /* each set has a tree of its own */
        KIN_TRY(kin_method_check_height(ctx, params->tree_height, fewer));
    }
    m->flags = params->flags;
    params->flags &= ~(uint32_t)KITH_INCLUDE_SELF;
    params->metric = m->distance.metric == KITH_EUCLIDEAN ? KITH_SQEUCLIDEAN : m->distance.metric;
    return KITH_OK;
}

kith_status kith_graph_merge_exact(kith_ctx *ctx, const kith_merge_sets *sets,
                                   const kith_search_params *params, const kith_neighbors *out)
{
    kin_call call;
    kin_merge_exact m;
    memset(&m, 0, sizeof m);
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = check_exact(ctx, sets, params, out, &m);
    if (status == KITH_OK) {
        status = kin_engine_merge(ctx, &m, out);
    }
    return kin_call_end(&call, status);
}

/* ---- Seconds -------------------------------------------------------------------------------- */

static kith_status estimate(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                            const kith_descent_params *params, kith_descent_estimate *out)
{
    kin_descent_job job;
    kith_descent_estimate own;
    KIN_TRY(kin_descent_check_shape(ctx, points, params, &job));
    KIN_TRY(check_first(ctx, &job.points, first_rows));
    KIN_TRY(kin_check_told(ctx, out, "estimate", "kith_descent_estimate"));
    KIN_TRY(kin_cost_merge(ctx, &job, first_rows, &own));
    kin_fill_room(out, &own, sizeof own);
    return KITH_OK;
}

kith_status kith_graph_merge_estimate(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                                      const kith_descent_params *params, kith_descent_estimate *out)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, estimate(ctx, points, first_rows, params, out));
}
