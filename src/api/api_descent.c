/* SPDX-License-Identifier: Apache-2.0
 * Approximate graphs: arguments, and what they will take; and arguments of walks. */
#include "api/api_check.h"

#include <stdio.h>

enum { USUAL_SAMPLE = 1000, USUAL_AT = 10, MOST_CANDIDATES = 1 << 20 };

/* With a wanted recall rounds end by it, and the rest keeps them from going on for nothing. */
enum { MOST_ROUNDS_TO_RECALL = 60 };
static const double DELTA_TO_RECALL = 1e-4;

kith_status kin_api_take_descent(kith_ctx *ctx, const kith_search_params *params,
                                 kith_descent_params *descent)
{
    *descent = kith_descent_params_default();
    KIN_TRY(kin_check_room(ctx, params->descent_report, "descent_report", "kith_descent_report"));
    return params->descent == NULL ? KITH_OK
                                   : kin_take_params(ctx, KIN_GROWS(kith_descent_params, flags),
                                                     params->descent, descent);
}

/* A share may be 0, its default, up to 1. Written so that NaN is none. */
static kith_status check_share(kith_ctx *ctx, double share, const char *name)
{
    KIN_ALLOW_IF(share >= 0.0 && share <= 1.0, ctx, name, "is %g, must be 0 to 1", share);
}

/* The recall that is wanted. */
static kith_status check_wanted(kith_ctx *ctx, const kith_search_params *params)
{
    KIN_TRY(check_share(ctx, params->recall, "recall"));
    KIN_ALLOW_IF(params->recall_at >= 0 && params->recall_at <= params->k, ctx, "recall_at",
                 "is %lld, must be 0 to k, %lld", (long long)params->recall_at,
                 (long long)params->k);
}

static kith_status check_numbers(kith_ctx *ctx, const kith_search_params *params,
                                 const kith_descent_params *descent)
{
    KIN_TRY(kin_check_flags(ctx, params->flags, KITH_INCLUDE_SELF, "descent"));
    KIN_TRY(check_wanted(ctx, params));
    KIN_TRY(check_share(ctx, descent->delta, "delta"));
    KIN_TRY(check_share(ctx, descent->start_share, "start_share"));
    KIN_REFUSE_IF(descent->sample < -1, ctx, "sample",
                  "is %lld, must be at least 1 (or 0: %d; or -1: none)", (long long)descent->sample,
                  (int)USUAL_SAMPLE);
    KIN_REFUSE_IF(descent->sample == -1 && params->recall > 0.0, ctx, "recall",
                  "is %g and sample is -1, without which nobody knows the recall (leave one out)",
                  params->recall);
    KIN_REFUSE_IF(descent->rounds < -1, ctx, "rounds",
                  "is %d, must be at least 1 (or 0: enough; or -1: the start alone)",
                  (int)descent->rounds);
    KIN_REFUSE_IF(descent->candidates < 0 || descent->candidates > MOST_CANDIDATES, ctx,
                  "candidates", "is %d, must be 1 to %d (left out: by k)", (int)descent->candidates,
                  (int)MOST_CANDIDATES);
    KIN_REFUSE_IF(descent->list != 0 && descent->list <= params->k, ctx, "list",
                  "is %d, must be at least %lld, one more than k (left out: by k)",
                  (int)descent->list, (long long)params->k + 1);
    KIN_ALLOW_IF(descent->all_updates >= -1 && descent->all_updates <= 1, ctx, "all_updates",
                 "is %d, must be 1, -1 or 0", (int)descent->all_updates);
}

/* The largest id of a row, empty slots apart; a loop that the compiler turns into vectors. */
static uint32_t largest_id(const uint32_t *ids, int64_t count)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t id = ids[i] + 1 == 0 ? 0 : ids[i];
        most = id > most ? id : most;
    }
    return most;
}

static kith_status check_init(kith_ctx *ctx, const kith_neighbors *init, int64_t rows)
{
    KIN_REFUSE_IF(init->ids == NULL || init->k < 1 || init->rows != rows, ctx, "init",
                  "is %lld x %lld%s, must be a graph of %lld rows with its ids",
                  (long long)init->rows, (long long)init->k,
                  init->ids == NULL ? " without ids" : "", (long long)rows);
    for (int64_t row = 0; row < rows; row++) {
        const uint32_t most = largest_id(init->ids + row * init->k, init->k);
        KIN_FAIL_IF((int64_t)most >= rows, ctx, KITH_E_DATA, kin_at("init"),
                    "has id %lu in row %lld, must be below %lld, the number of points (give the "
                    "points that the graph was built of)",
                    (unsigned long)most, (long long)row, (long long)rows);
    }
    return KITH_OK;
}

static kith_status check_start(kith_ctx *ctx, const kith_descent_params *params,
                               const kin_distance *distance, int64_t rows, kin_graph_start *start)
{
    const int given = (int)params->start; /* an enumerator may hold anything */
    KIN_REFUSE_IF(given < KITH_START_AUTO || given > KITH_START_GRAPH, ctx, "start",
                  "is %d, which is no start (use one of kith_start)", given);
    const bool graph = given == KITH_START_GRAPH;
    if (graph ? params->init == NULL : params->init != NULL && given != KITH_START_AUTO) {
        return graph ? kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("start"),
                                   "is KITH_START_GRAPH and init is NULL (set both or none)")
                     : kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("init"),
                                   "is set and start is neither KITH_START_GRAPH nor auto (set "
                                   "both or none)");
    }
    KIN_REFUSE_IF(given == KITH_START_SCREEN && !kin_is_screened(distance), ctx, "start",
                  "is screen and the metric is %s, which has none (use auto or random)",
                  kith_metric_name(distance->metric));
    KIN_REFUSE_IF(
        params->start_share != 0.0 && (given == KITH_START_RANDOM || given == KITH_START_GGM ||
                                       graph || params->init != NULL),
        ctx, "start_share", "is %g, and the start is no screen, which alone has one (leave it out)",
        params->start_share);
    static const kin_graph_start starts[] = {[KITH_START_AUTO] = KIN_GRAPH_START_AUTO,
                                             [KITH_START_RANDOM] = KIN_GRAPH_START_RANDOM,
                                             [KITH_START_SCREEN] = KIN_GRAPH_START_SCREEN,
                                             [KITH_START_GGM] = KIN_GRAPH_START_GGM,
                                             [KITH_START_GRAPH] = KIN_GRAPH_START_GRAPH};
    *start = params->init != NULL ? KIN_GRAPH_START_GRAPH : starts[given];
    return params->init != NULL ? check_init(ctx, params->init, rows) : KITH_OK;
}

static void take_job(const kith_search_params *params, const kith_descent_params *descent,
                     const kin_distance *distance, kin_graph_start start, kin_descent_job *job)
{
    const bool wants = params->recall > 0.0;
    const int64_t sample = descent->sample == 0 ? USUAL_SAMPLE : descent->sample;
    job->request = (kin_graph_request){
        .distance = *distance,
        .k = params->k,
        .flags = params->flags,
        .list = descent->list,
        .candidates = descent->candidates,
        .rounds = descent->rounds == 0 && wants ? (int32_t)MOST_ROUNDS_TO_RECALL : descent->rounds,
        .delta = descent->delta == 0.0 && wants ? DELTA_TO_RECALL : descent->delta,
        .share = descent->start_share,
        .seed = params->seed,
        .start = start,
        .all_updates = descent->all_updates,
        .init = descent->init};
    job->recall = params->recall;
    job->at =
        params->recall_at != 0 ? params->recall_at : kin_min_i64((int64_t)USUAL_AT, params->k);
    job->sample = sample < 0 ? 0 : kin_min_i64(sample, job->points.rows);
    job->may_lengthen = wants && descent->list == 0 && descent->rounds == 0;
}

kith_status kin_descent_check(kith_ctx *ctx, const kith_matrix *points,
                              const kith_search_params *params, uint32_t place,
                              const kith_neighbors *out, kin_descent_job *job)
{
    kith_descent_params descent;
    kin_distance distance;
    kin_graph_start start = KIN_GRAPH_START_AUTO;
    kith_matrix shape = {0};
    kith_neighbors none;
    if (place == KIN_API_SHAPE) {
        points = kin_check_shape(points, &shape);
        none = (kith_neighbors){.rows = shape.rows, .k = params->k};
        out = &none;
    }
    KIN_TRY(kin_api_take_descent(ctx, params, &descent));
    KIN_TRY(kin_check_matrix(ctx, points, "points", &job->points));
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, params, job->points.cols, &distance));
    const bool self = (params->flags & KITH_INCLUDE_SELF) != 0;
    KIN_TRY(
        kin_check_output(ctx, params->k, job->points.rows - (self ? 0 : 1),
                         self ? "the points have no more rows" : "a point's own id does not count",
                         out, job->points.rows));
    KIN_TRY(check_numbers(ctx, params, &descent));
    KIN_FAIL_IF((place & KIN_GPU_DATA_ON_DEVICE) != 0 && descent.init != NULL, ctx,
                KITH_E_UNSUPPORTED, kin_at("init"),
                "is set, and calls on device memory have none (leave it out)");
    KIN_TRY(check_start(ctx, &descent, &distance, job->points.rows, &start));
    take_job(params, &descent, &distance, start, job);
    return KITH_OK;
}

/* ---- What it will take ---------------------------------------------------------------------- */

/* Rows of the samples: ids, a K-th and K distances each. */
static uint64_t sample_bytes(const kin_descent_job *job)
{
    enum { ROW_BYTES = 32 };
    return kin_size_mul(2 * (uint64_t)job->sample, ROW_BYTES + 8 * (uint64_t)job->at);
}

/* On the processor; known: of the rows. */
static void plan_cpu(const kith_ctx *ctx, const kin_descent_job *job,
                     const kin_graph_request *given, kin_rows_known known, kith_plan *plan)
{
    kin_graph_request request = *given;
    kin_recall_control control = {.count = job->sample, .at = job->at};
    request.control = job->sample > 0 ? &control : NULL;
    const uint64_t most = kin_graph_bytes(&job->points, &request, known, ctx->threads, false);
    const uint64_t least = kin_graph_bytes(&job->points, &request, known, ctx->threads, true);
    plan->state_bytes = kin_size_add(plan->state_bytes, most);
    plan->undecided_bytes = most > least ? most - least : 0;
}

kith_status kin_descent_plan(kith_ctx *ctx, const kin_descent_job *job, bool reads, kith_plan *plan)
{
    const kin_distance *distance = &job->request.distance;
    kin_gpu *gpu = NULL;
    kin_graph_request request = job->request;
    kin_rows_known known = kin_prepare_unknown(&job->points, distance);
    KIN_TRY(kin_cost_finds_gpu(ctx, job, &gpu));
    kin_descent_complete(gpu, job->points.rows, &request);
    *plan = kin_api_plan_begin(ctx, job->points.rows, job->request.k, "descent");
    plan->state_bytes = sample_bytes(job);
    if (gpu == NULL) {
        if (reads && distance->metric != KITH_CUSTOM) {
            KIN_TRY(kin_prepare_know(ctx, &job->points, distance, &known));
        }
        known.bytes = ctx->params.memory_limit == 0;
        plan_cpu(ctx, job, &request, known, plan);
    } else {
        const uint64_t bytes = kin_graph_gpu_bytes_on(gpu, &job->points, &request);
        const kin_exact_gpu_need need = {bytes, bytes, 1, 1, 0};
        kin_api_plan_gpu(gpu, &need, plan);
    }
    plan->peak_bytes = kin_size_add(plan->state_bytes, plan->result_bytes);
    return KITH_OK;
}

/* ---- Walks on a graph ------------------------------------------------------------------------ */

/* Arguments of one call and of an index. */

enum { USUAL_WIDTH = 64 };

static kith_status check_recall(kith_ctx *ctx, const kith_search_params *params,
                                const kith_walk_params *walk)
{
    KIN_TRY(check_wanted(ctx, params));
    KIN_REFUSE_IF(params->recall > 0.0 && walk->width != 0, ctx, "recall",
                  "is %g and width is %lld, which a recall chooses (leave one out)", params->recall,
                  (long long)walk->width);
    KIN_REFUSE_IF(walk->sample < -1 || (walk->sample == -1 && params->recall > 0.0), ctx, "sample",
                  "is %lld, must be at least 1 (or 0: %d; or, where no recall is wanted, -1: none)",
                  (long long)walk->sample, (int)USUAL_SAMPLE);
    return KITH_OK;
}

static kith_status check_walk(kith_ctx *ctx, const kith_walk_params *walk, int64_t k)
{
    KIN_REFUSE_IF(walk->width != 0 && walk->width < k, ctx, "width",
                  "is %lld, must be at least k, %lld (left out: by k, or by a recall)",
                  (long long)walk->width, (long long)k);
    KIN_ALLOW_IF(walk->meets >= 0, ctx, "meets",
                 "is %lld, must be at least 1 (or 0: what serves many queries at once)",
                 (long long)walk->meets);
}

/* What is of exact searches alone. */
static kith_status refuse_exact(kith_ctx *ctx, const kith_search_params *params)
{
    static const char *const why = "%s, and walks on a graph have none (leave it out)";
    KIN_FAIL_IF(params->flags != 0 || params->pipeline != KITH_PIPELINE_FUSED, ctx,
                KITH_E_UNSUPPORTED, kin_at(params->flags != 0 ? "flags" : "pipeline"), why,
                "is not 0");
    KIN_PASS_IF(params->tree_height == 0 && params->leaf_buffer == 0 && params->batch == 0, ctx,
                KITH_E_UNSUPPORTED,
                kin_at(params->tree_height != 0   ? "tree_height"
                       : params->leaf_buffer != 0 ? "leaf_buffer"
                                                  : "batch"),
                why, "is not 0");
}

/* With the zeros that mean a default. */
static void take_walk(const kith_search_params *params, const kith_walk_params *walk,
                      int64_t points, kin_walks_search *job)
{
    const bool wants = params->recall > 0.0;
    const int64_t usual = kin_max_i64((int64_t)USUAL_WIDTH, 2 * params->k);
    const int64_t width = wants ? params->k : usual;
    const int64_t sample = walk->sample != 0 ? walk->sample : wants ? (int64_t)USUAL_SAMPLE : -1;
    job->width = kin_min_i64(walk->width == 0 ? width : walk->width, points);
    job->recall = params->recall;
    job->recall_at =
        params->recall_at == 0 ? kin_min_i64((int64_t)USUAL_AT, params->k) : params->recall_at;
    job->sample = sample < 0 ? 0 : kin_min_i64(sample, job->queries.rows);
    job->seed = params->seed;
    job->meets = walk->meets;
    job->place = 0;
    job->open = walk->width == 0 && !wants;
}

/* Under a filter, or where ids are left out, the same search as an exact one; *lists: out as lists
 * of k. */
static kith_status take_filter(kith_ctx *ctx, const kith_matrix *points,
                               const kith_search_params *params, kin_walk_call *call,
                               kith_neighbors *lists)
{
    kin_filter_job *filter = &call->filter;
    kith_search_params exact = *params;
    const kin_distance nothing = {0};
    const kith_filter all = kith_filter_default();
    call->job.filter = NULL;
    if (params->filter == NULL && params->exclude == NULL) {
        return KITH_OK;
    }
    *filter =
        (kin_filter_job){.corpus = *points, .queries = call->job.queries, .threads = ctx->threads};
    KIN_TRY(
        kin_api_take_filter(ctx, params->filter != NULL ? params->filter : &all, false, filter));
    KIN_TRY(kin_api_check_lists(ctx, filter, params->k, call->job.out, lists));
    exact.method = KITH_METHOD_AUTO;
    filter->request = kin_engine_request(&exact, &nothing);
    call->job.filter = filter;
    return KITH_OK;
}

kith_status kin_api_check_walk(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *queries,
                               const kith_search_params *params, const kith_neighbors *out,
                               kin_walk_call *call)
{
    kin_walks_search *job = &call->job;
    call->walk = kith_walk_params_default();
    KIN_TRY(params->walk == NULL ? KITH_OK
                                 : kin_take_params(ctx, KIN_GROWS(kith_walk_params, width),
                                                   params->walk, &call->walk));
    KIN_TRY(kin_check_matrix(ctx, queries, "queries", &job->queries));
    KIN_TRY(kin_check_cols(ctx, points, "the corpus", &job->queries, "queries"));
    job->out = out;
    kith_neighbors lists = out != NULL ? *out : (kith_neighbors){0};
    KIN_TRY(take_filter(ctx, points, params, call, &lists));
    const bool excludes = params->exclude != NULL;
    KIN_TRY(kin_check_output(ctx, params->k, points->rows - (excludes ? 1 : 0),
                             excludes ? "the corpus has no more rows beside the excluded one"
                                      : "the corpus has no more rows",
                             out != NULL ? &lists : NULL, job->queries.rows));
    KIN_TRY(refuse_exact(ctx, params));
    KIN_TRY(kin_refuse_period(ctx, params->period, "walks have none (leave it out)"));
    KIN_TRY(check_recall(ctx, params, &call->walk));
    KIN_TRY(check_walk(ctx, &call->walk, params->k));
    KIN_TRY(kin_check_room(ctx, params->walk_report, "walk_report", "kith_walk_report"));
    take_walk(params, &call->walk, points->rows, job);
    return KITH_OK;
}
