/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_check.h"

#include "host/host_threads.h"
#include "papers/papers.h"

#include <stdio.h>

enum {
    MOST_COLS = 1 << 20,
    MOST_SAMPLE = 1024 /* times k */,
    MOST_BATCH = 1 << 22,
    MOST_LEAF_BUFFER = 1 << 22,
    IDS_A_TASK = 1 << 20
};
static const int64_t MOST_ROWS = (int64_t)UINT32_MAX - 1;

kith_status kin_check_matrix(kith_ctx *ctx, const kith_matrix *matrix, const char *name,
                             kith_matrix *checked)
{
    KIN_REFUSE_IF(matrix == NULL, ctx, name, "is NULL (give a matrix)");
    *checked = *matrix;
    const int32_t item = kith_dtype_bytes(matrix->dtype);
    KIN_FAIL_IF(item == 0, ctx, KITH_E_ARGUMENT, kin_at_member(name, "dtype"),
                "is %d, which is no dtype (use one of kith_dtype)", (int)matrix->dtype);
    KIN_FAIL_IF(matrix->rows < 1 || matrix->rows > MOST_ROWS, ctx, KITH_E_ARGUMENT,
                kin_at_member(name, "rows"), "is %lld, must be 1 to %lld", (long long)matrix->rows,
                (long long)MOST_ROWS);
    KIN_FAIL_IF(matrix->cols < 1 || matrix->cols > MOST_COLS, ctx, KITH_E_ARGUMENT,
                kin_at_member(name, "cols"), "is %d, must be 1 to %d", (int)matrix->cols,
                (int)MOST_COLS);
    KIN_FAIL_IF(matrix->data == NULL, ctx, KITH_E_ARGUMENT, kin_at_member(name, "data"),
                "is NULL (let it point to the first row)");
    const int64_t row_bytes = (int64_t)matrix->cols * item;
    KIN_FAIL_IF(matrix->stride_bytes != 0 && matrix->stride_bytes < row_bytes, ctx, KITH_E_ARGUMENT,
                kin_at_member(name, "stride_bytes"),
                "is %lld, must be 0 or at least %lld (cols * bytes)",
                (long long)matrix->stride_bytes, (long long)row_bytes);
    if (matrix->stride_bytes == 0) {
        checked->stride_bytes = row_bytes;
    }
    return KITH_OK;
}

const kith_matrix *kin_check_shape(const kith_matrix *matrix, kith_matrix *shape)
{
    static const char nothing;
    if (matrix == NULL) {
        return NULL;
    }
    *shape = *matrix;
    shape->data = shape->data != NULL ? shape->data : &nothing;
    return shape;
}

kith_status kin_check_cols(kith_ctx *ctx, const kith_matrix *a, const char *a_name,
                           const kith_matrix *b, const char *b_name)
{
    KIN_ALLOW_IF(a->cols == b->cols, ctx, a_name,
                 "has %d columns and %s has %d (both must have the same)", (int)a->cols, b_name,
                 (int)b->cols);
}

kith_status kin_check_metric(kith_ctx *ctx, kith_metric metric, kith_distance_fn custom,
                             void *custom_arg, int32_t cols, kin_distance *distance)
{
    if (metric == KITH_METRIC_DEFAULT) {
        metric = KITH_EUCLIDEAN;
    }
    KIN_REFUSE_IF(metric == KITH_MINKOWSKI, ctx, "metric",
                  "is minkowski without a power (minkowski:3 has one; it is 1 to 3355.4431 in "
                  "steps of 0.0001, or infinity)");
    const bool inside = (int)metric == KIN_HAVERSINE_KEY && ctx->calls > 1;
    KIN_REFUSE_IF(!kin_metric_is(metric) && !inside, ctx, "metric",
                  "is %d, which is no metric (use one of kith_metric)", (int)metric);
    if ((metric == KITH_CUSTOM) != (custom != NULL)) {
        return metric == KITH_CUSTOM
                   ? kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("metric"),
                                 "is custom and the function for it is NULL (set custom)")
                   : kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("custom"),
                                 "is set and the metric is not KITH_CUSTOM (set one or none)");
    }
    *distance = (kin_distance){.metric = metric,
                               .cols = cols,
                               .isa = ctx->isa,
                               .custom = custom,
                               .custom_arg = custom_arg};
    return KITH_OK;
}

kith_status kin_check_period(kith_ctx *ctx, const double *period, kin_distance *distance)
{
    bool any = false;
    for (int32_t col = 0; period != NULL && col < distance->cols; col++) {
        KIN_FAIL_IF(!(period[col] >= 0.0 && period[col] <= 0x1p500), ctx, KITH_E_ARGUMENT,
                    kin_at_row("period", col),
                    "is %g, must be above 0 and at most 2^500, or 0 where the column has none",
                    period[col]);
        any = any || period[col] > 0.0;
    }
    KIN_REFUSE_IF(any && !kin_metric_get_traits(distance->metric)->wraps, ctx, "metric",
                  "is %s, which has no period (euclidean, sqeuclidean, manhattan, chebyshev and "
                  "minkowski have)",
                  distance->metric == KITH_CUSTOM ? "a function"
                                                  : kith_metric_name(distance->metric));
    distance->period = any ? period : NULL;
    return KITH_OK;
}

kith_status kin_refuse_period(kith_ctx *ctx, const double *period, const char *why)
{
    KIN_PASS_IF(period == NULL, ctx, KITH_E_UNSUPPORTED, kin_at("period"), "is set, and %s", why);
}

kith_status kin_check_output(kith_ctx *ctx, int64_t k, int64_t most, const char *why,
                             const kith_neighbors *out, int64_t rows)
{
    KIN_REFUSE_IF(k < 1, ctx, "k", "is %lld, must be at least 1", (long long)k);
    KIN_REFUSE_IF(k > most, ctx, "k", "is %lld, must be at most %lld (%s)", (long long)k,
                  (long long)most, why);
    KIN_REFUSE_IF(out == NULL, ctx, "out", "is NULL (give room for the neighbours)");
    KIN_ALLOW_IF(out->rows == rows && out->k == k, ctx, "out",
                 "is %lld x %lld, must be %lld x %lld (rows of the answer x k)",
                 (long long)out->rows, (long long)out->k, (long long)rows, (long long)k);
}

kith_status kin_check_radius(kith_ctx *ctx, kith_metric metric, double radius)
{
    KIN_REFUSE_IF(radius != radius, ctx, "radius", "is NaN, must be a number");
    KIN_REFUSE_IF(radius < 0.0 && !kin_metric_get_traits(metric)->below_zero, ctx, "radius",
                  "is %g, must be at least 0 for %s", radius, kith_metric_name(metric));
    return KITH_OK;
}

kith_status kin_check_limit(kith_ctx *ctx, kith_metric metric, const kith_search_params *params)
{
    const bool limited = (params->flags & KITH_WITHIN_RADIUS) != 0;
    KIN_REFUSE_IF(!limited && params->radius != 0.0, ctx, "radius",
                  "is %g without KITH_WITHIN_RADIUS in flags (set both or none)", params->radius);
    return limited ? kin_check_radius(ctx, metric, params->radius) : KITH_OK;
}

kith_status kin_check_path(kith_ctx *ctx, const char *path)
{
    KIN_ALLOW_IF(path != NULL && path[0] != '\0', ctx, "path", "is %s, must be the name of a file",
                 path == NULL ? "NULL" : "empty");
}

kith_status kin_check_same_metric(kith_ctx *ctx, kith_metric metric, kith_metric own)
{
    KIN_ALLOW_IF(metric == KITH_METRIC_DEFAULT || metric == own, ctx, "metric",
                 "is %s and the index was prepared for %s (give 0 or the same)",
                 kith_metric_name(metric), kith_metric_name(own));
}

kith_status kin_check_method(kith_ctx *ctx, int method)
{
    KIN_REFUSE_IF(
        method == KITH_METHOD_DESCENT, ctx, "method",
        "is descent, which makes graphs and is not exact (use kith_graph, or another method)");
    KIN_REFUSE_IF(method == KITH_METHOD_GRAPH, ctx, "method",
                  "is graph, which is not exact (use kith_search or an index, or another method)");
    return method < KITH_METHOD_AUTO || method > KITH_METHOD_TREE
               ? kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("method"),
                             "is %d, which is no method (use one of kith_method)", method)
               : KITH_OK;
}

/* A number of the pipeline hybrid. */
static kith_status check_hybrids(kith_ctx *ctx, const char *name, int32_t value, int32_t most,
                                 int pipeline)
{
    KIN_REFUSE_IF(value < 0 || value > most, ctx, name, "is %d, must be 0 to %d", (int)value,
                  (int)most);
    KIN_ALLOW_IF(value == 0 || pipeline == KITH_PIPELINE_HYBRID, ctx, name,
                 "is %d, and the pipeline hybrid alone has one (set both or none)", (int)value);
}

static kith_status check_pipeline(kith_ctx *ctx, const kith_search_params *params)
{
    /* As numbers: an enumerator may hold what a careless caller put there. */
    const int pipeline = (int)params->pipeline;
    const int select = (int)params->select;
    const int method = (int)params->method;
    KIN_TRY(kin_check_method(ctx, method));
    const kin_pipeline *known = NULL;
    KIN_REFUSE_IF(!kin_papers_pipeline(pipeline, &known), ctx, "pipeline",
                  "is %d, which is no pipeline (use 0, or one of kith_papers.h)", pipeline);
    KIN_REFUSE_IF(select != KITH_SELECT_AUTO && kin_papers_select_method(select) == NULL, ctx,
                  "select", "is %d, which is no method of selection (use one of KITH_SELECT_MAP)",
                  select);
    KIN_REFUSE_IF(select != KITH_SELECT_AUTO && pipeline != KITH_PIPELINE_MATRIX, ctx, "select",
                  "is %d, and the pipeline matrix alone has a choice (set both or none)", select);
    KIN_TRY(check_hybrids(ctx, "sample", params->sample, MOST_SAMPLE, pipeline));
    KIN_TRY(check_hybrids(ctx, "batch", params->batch, MOST_BATCH, pipeline));
    KIN_REFUSE_IF(params->leaf_buffer != 0 && pipeline != KITH_PIPELINE_BUFFER_TREE, ctx,
                  "leaf_buffer",
                  "is %d, and the pipeline buffer_tree alone has buffers (set both or none)",
                  (int)params->leaf_buffer);
    KIN_REFUSE_IF(params->leaf_buffer < 0 || params->leaf_buffer == 1 ||
                      params->leaf_buffer > MOST_LEAF_BUFFER,
                  ctx, "leaf_buffer",
                  "is %d, must be 2 to %d (0: chosen by the height of the tree)",
                  (int)params->leaf_buffer, (int)MOST_LEAF_BUFFER);
    KIN_REFUSE_IF(params->tree_height != 0 &&
                      (known != NULL ? !known->tree : method == KITH_METHOD_EXACT),
                  ctx, "tree_height",
                  "is %d, and the method exact and the pipelines matrix and hybrid have no tree "
                  "(leave it out, or use the method tree)",
                  (int)params->tree_height);
    return KITH_OK;
}

kith_status kin_check_flags(kith_ctx *ctx, uint32_t flags, uint32_t known, const char *of)
{
    KIN_ALLOW_IF((flags & ~known) == 0, ctx, "flags",
                 "is 0x%x, of which 0x%x is no flag of %s (leave it out)", (unsigned)flags,
                 (unsigned)(flags & ~known), of);
}

static uint32_t size_of(const void *grows)
{
    uint32_t size = 0;
    memcpy(&size, grows, sizeof size);
    return size;
}

kith_status kin_take_params(kith_ctx *ctx, const char *type, size_t least, size_t size,
                            const void *given, void *known)
{
    const uint32_t whole = (uint32_t)size;
    KIN_REFUSE_IF(given == NULL || size_of(given) < least, ctx, "params",
                  "is NULL or was not made by %s_default()", type);
    memcpy(known, given, size_of(given) < whole ? size_of(given) : whole);
    memcpy(known, &whole, sizeof whole);
    return KITH_OK;
}

kith_status kin_check_room(kith_ctx *ctx, const void *room, const char *name, const char *type)
{
    KIN_PASS_IF(room == NULL || size_of(room) >= sizeof(uint32_t), ctx, KITH_E_ARGUMENT,
                kin_at_member(name, "struct_size"), "is %lu, must be sizeof(%s)",
                (unsigned long)size_of(room), type);
}

kith_status kin_check_told(kith_ctx *ctx, const void *room, const char *name, const char *type)
{
    return room == NULL ? kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at(name),
                                      "is NULL (give a %s, its struct_size set)", type)
                        : kin_check_room(ctx, room, name, type);
}

void kin_fill_room(void *room, const void *said, size_t size)
{
    if (room != NULL) {
        const uint32_t theirs = size_of(room);
        memcpy(room, said, theirs < size ? theirs : size);
        memcpy(room, &theirs, sizeof theirs);
    }
}

kith_status kin_api_tell(const kin_call *call, kith_status status, kith_report *report)
{
    if (status == KITH_OK) {
        kin_fill_room(report, &call->report, sizeof call->report);
    }
    return status;
}

kith_status kin_refuse_filter(kith_ctx *ctx, const kith_search_params *params)
{
    KIN_PASS_IF(params->filter == NULL, ctx, KITH_E_UNSUPPORTED, kin_at("filter"),
                "is set, and only a search of a corpus that is not prepared, and an exact graph, "
                "of points in host memory, have one (leave it out)");
}

kith_status kin_check_search_params(kith_ctx *ctx, const kith_search_params *params,
                                    kith_search_params *known)
{
    KIN_TRY(KIN_TAKE(ctx, kith_search_params, flags, params, known));
    KIN_TRY(kin_refuse_filter(ctx, known));
    const uint32_t flags = KITH_INCLUDE_SELF | KITH_WITHIN_RADIUS | KITH_NO_SYMMETRY | KITH_NO_SKIP;
    KIN_TRY(kin_check_flags(ctx, known->flags, flags, "a search"));
    return check_pipeline(ctx, known);
}

kith_status kin_check_neighbors(kith_ctx *ctx, const kith_neighbors *neighbors, const char *name)
{
    KIN_FAIL_IF(neighbors == NULL || neighbors->ids == NULL, ctx, KITH_E_ARGUMENT,
                kin_at_member(name, neighbors == NULL ? NULL : "ids"),
                "is NULL (give neighbours with their ids)");
    KIN_ALLOW_IF(neighbors->rows >= 1 && neighbors->k >= 1, ctx, name,
                 "is %lld x %lld, must be at least 1 x 1", (long long)neighbors->rows,
                 (long long)neighbors->k);
}

typedef struct ids_check {
    kith_ctx *ctx;
    const kith_neighbors *graph;
    const char *name;
} ids_check;

static kith_status check_some_ids(void *arg, int64_t task, int32_t thread)
{
    const ids_check *c = arg;
    const kith_neighbors *graph = c->graph;
    const int64_t last = kin_min_i64((task + 1) * IDS_A_TASK, graph->rows * graph->k);
    (void)thread;
    for (int64_t i = task * IDS_A_TASK; i < last; i++) {
        KIN_FAIL_IF((int64_t)graph->ids[i] >= graph->rows && graph->ids[i] != KITH_ID_NONE, c->ctx,
                    KITH_E_DATA, kin_at_cell(c->name, (i / graph->k), (i % graph->k)),
                    "is id %lu, must be below %lld, the number of points (give the points that the "
                    "graph was built of)",
                    (unsigned long)graph->ids[i], (long long)graph->rows);
    }
    return KITH_OK;
}

kith_status kin_check_ids(kith_ctx *ctx, const kith_neighbors *graph, const char *name)
{
    ids_check c = {ctx, graph, name};
    return kin_parallel(ctx, NULL, kin_ceil_div(graph->rows * graph->k, IDS_A_TASK), check_some_ids,
                        &c);
}

kith_status kin_check_graph(kith_ctx *ctx, const kith_neighbors *graph, int64_t rows)
{
    KIN_TRY(kin_check_neighbors(ctx, graph, "graph"));
    KIN_REFUSE_IF(
        graph->rows != rows, ctx, "graph",
        "has %lld rows and there are %lld points (give the points that the graph was built of)",
        (long long)graph->rows, (long long)rows);
    return kin_check_ids(ctx, graph, "graph");
}

/* ---- A filter, and answers under it ---------------------------------------------------------- */

/* The fields of a filter, and the shape of an answer under it, checked. */

static kith_status check_rule(kith_ctx *ctx, const kith_filter *filter, bool graph)
{
    const int rule = (int)filter->rule;
    const bool asks = rule == KITH_RULE_SAME || rule == KITH_RULE_OTHER;
    KIN_REFUSE_IF(rule < KITH_RULE_NONE || rule > KITH_RULE_EACH, ctx, "rule",
                  "is %d, which is no rule (use one of kith_rule)", rule);
    KIN_REFUSE_IF((filter->groups != NULL) != (rule != KITH_RULE_NONE), ctx, "groups",
                  filter->groups != NULL
                      ? "is set without a rule for them (same, other or each)"
                      : "is NULL, and the rule is of groups (give a number for each row)");
    KIN_REFUSE_IF(
        !graph && asks && filter->query_groups == NULL, ctx, "query_groups",
        "is NULL, and the rule compares groups of queries and rows (give a number for each query)");
    KIN_ALLOW_IF(filter->query_groups == NULL || (!graph && asks), ctx, "query_groups",
                 "is set, and %s (leave it out)",
                 graph ? "a graph's queries are its points"
                       : "only the rules same and other read it");
}

enum { NUMBERS_A_TASK = 1 << 16 };

typedef struct numbers_to_check {
    kith_ctx *ctx;
    const int64_t *numbers;
    int64_t rows;
    const char *name;
} numbers_to_check;

static kith_status check_some_numbers(void *arg, int64_t task, int32_t thread)
{
    const numbers_to_check *c = arg;
    const int64_t last = kin_min_i64(c->rows, (task + 1) * NUMBERS_A_TASK);
    (void)thread;
    for (int64_t i = task * NUMBERS_A_TASK; i < last; i++) {
        if (c->numbers[i] < 0) {
            return kin_filter_refuse_number(c->ctx, c->name, i, c->numbers[i]);
        }
    }
    return KITH_OK;
}

static kith_status check_numbers(kith_ctx *ctx, const int64_t *numbers, int64_t rows,
                                 const char *name)
{
    numbers_to_check check = {.ctx = ctx, .numbers = numbers, .rows = rows, .name = name};
    const int64_t tasks = numbers == NULL ? 0 : kin_ceil_div(rows, NUMBERS_A_TASK);
    return kin_parallel(ctx, NULL, tasks, check_some_numbers, &check);
}

/* On a GPU whoever reads them looks. */
static kith_status check_side(kith_ctx *ctx, const kin_filter_job *job, const int64_t *numbers,
                              int64_t rows, const char *name)
{
    if (!job->there || kin_gpu_index_of(numbers) < 0) {
        return check_numbers(ctx, numbers, rows, name);
    }
    KIN_PASS_IF(job->filter.rule != KITH_RULE_EACH, ctx, KITH_E_UNSUPPORTED, kin_at(name),
                "lies on a GPU, and the rule each reads numbers on the host (copy them)");
}

kith_status kin_api_check_groups(kith_ctx *ctx, const kin_filter_job *job)
{
    KIN_TRY(check_side(ctx, job, job->filter.groups, job->corpus.rows, "groups"));
    return check_side(ctx, job, job->filter.query_groups, job->queries.rows, "query_groups");
}

static kith_status check_bitmap(kith_ctx *ctx, const kith_filter *filter, int64_t rows)
{
    const int64_t stride = filter->allow_stride_bytes;
    const int64_t least = kin_ceil_div(rows, 8);
    KIN_REFUSE_IF(filter->allow == NULL && stride != 0, ctx, "allow_stride_bytes",
                  "is %lld, and allow is NULL (set both or none)", (long long)stride);
    KIN_ALLOW_IF(stride == 0 || stride >= least, ctx, "allow_stride_bytes",
                 "is %lld, must be 0 or at least %lld (a bit for each row of the corpus)",
                 (long long)stride, (long long)least);
}

static kith_status refuse_others(kith_ctx *ctx, const kith_search_params *params)
{
    KIN_FAIL_IF((int)params->method == KITH_METHOD_DESCENT, ctx, KITH_E_UNSUPPORTED,
                kin_at("method"),
                "is descent, and neighbours under a filter are exact (leave one out)");
    KIN_FAIL_IF(
        params->pipeline != KITH_PIPELINE_FUSED, ctx, KITH_E_UNSUPPORTED, kin_at("pipeline"),
        "is %d, and ways of published work have no filter (leave one out)", (int)params->pipeline);
    KIN_PASS_IF(params->tree_height == 0, ctx, KITH_E_UNSUPPORTED, kin_at("tree_height"),
                "is %d, and trees under a filter have their own heights (leave it out)",
                (int)params->tree_height);
}

kith_status kin_api_take_filter(kith_ctx *ctx, const kith_filter *given, bool graph,
                                kin_filter_job *job)
{
    kith_filter *filter = &job->filter;
    const int64_t rows = job->corpus.rows;
    *filter = kith_filter_default();
    KIN_REFUSE_IF(given->struct_size < offsetof(kith_filter, allow), ctx, "filter",
                  "was not made by kith_filter_default()");
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_filter, allow), given, filter));
    KIN_TRY(check_rule(ctx, filter, graph));
    KIN_TRY(check_bitmap(ctx, filter, rows));
    KIN_TRY(kin_api_check_groups(ctx, job));
    job->graph = graph;
    return kin_filter_count_lists(ctx, filter, rows, &job->lists);
}

kith_status kin_api_check_filter(kith_ctx *ctx, const kith_search_params *params, bool graph,
                                 kin_filter_job *job)
{
    KIN_TRY(refuse_others(ctx, params));
    return kin_api_take_filter(ctx, params->filter, graph, job);
}

kith_status kin_api_check_lists(kith_ctx *ctx, const kin_filter_job *job, int64_t k,
                                const kith_neighbors *out, kith_neighbors *lists)
{
    const int64_t wide = job->lists > 1 && k > 0 && k <= job->corpus.rows ? k * job->lists : k;
    if (out == NULL) {
        return KITH_OK;
    }
    *lists = *out;
    KIN_FAIL_IF(wide != k && out->k != wide, ctx, KITH_E_ARGUMENT, kin_at_member("out", "k"),
                "is %lld, must be %lld (k = %lld of each of %lld groups)", (long long)out->k,
                (long long)wide, (long long)k, (long long)job->lists);
    lists->k = wide != k ? k : out->k;
    return KITH_OK;
}

/* ---- What all plans say ---------------------------------------------------------------------- */

kith_plan kin_api_plan_begin(const kith_ctx *ctx, int64_t rows, int64_t k, const char *method)
{
    const uint64_t answers = kin_size_mul((uint64_t)rows, (uint64_t)k);
    kith_plan plan = {.threads = ctx->threads,
                      .result_bytes = kin_size_mul(answers, sizeof(uint32_t) + sizeof(float)),
                      .backend = "cpu"};
    (void)snprintf(plan.isa, sizeof plan.isa, "%s", kin_isa_name(ctx->isa));
    (void)snprintf(plan.method, sizeof plan.method, "%s", method);
    return plan;
}

void kin_api_plan_gpu(kin_gpu *gpu, const kin_exact_gpu_need *need, kith_plan *plan)
{
    plan->gpu_bytes = need->whole_bytes;
    plan->gpu_least_bytes = need->least_bytes;
    plan->gpu_budget_bytes = kin_gpu_room(gpu);
    plan->gpu_corpus_chunks = need->corpus_chunks;
    plan->gpu_query_stripes = need->query_stripes;
    kin_device_name(gpu, plan->backend, sizeof plan->backend);
}

void kin_api_plan_add(kith_plan *plan, uint64_t bytes)
{
    plan->state_bytes = kin_size_add(plan->state_bytes, bytes);
    plan->peak_bytes = kin_size_add(plan->peak_bytes, bytes);
}
