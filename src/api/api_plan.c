/* SPDX-License-Identifier: Apache-2.0
 * What a job will take, before it runs. */
#include "api/api_check.h"
#include "tree/tree_cost.h"
#include "tree/tree_gpu.h"

#include <stdio.h>

static kith_status check_k(kith_ctx *ctx, const kith_search_params *params, bool graph,
                           int64_t rows)
{
    const bool less = graph ? (params->flags & KITH_INCLUDE_SELF) == 0 : params->exclude != NULL;
    const int64_t most = rows - (less ? 1 : 0);
    KIN_ALLOW_IF(params->k >= 1 && params->k <= most, ctx, "k", "is %lld, must be 1 to %lld",
                 (long long)params->k, (long long)most);
}

/* Numbers of rows that tell equal and degenerate ones apart (screen_prepare_gpu.c,
 * exact_finish_gpu.c: less than 48 bytes a row), and pairs of 16 bytes where such rows are
 * expanded, once more where lists of several chunks are merged. */
void kin_api_plan_host(const kith_matrix *corpus, const kith_matrix *queries,
                       const kin_request *request, uint64_t batches, kith_plan *plan)
{
    enum { ROW_BYTES = 48, PAIR_BYTES = 16 };
    const uint64_t asked = queries != NULL ? (uint64_t)queries->rows : 0;
    const uint64_t answers = queries != NULL ? asked : (uint64_t)corpus->rows;
    const uint64_t pairs = kin_size_mul(answers, (uint64_t)request->k + 1);
    plan->prepared_bytes = kin_size_mul((uint64_t)corpus->rows + asked, ROW_BYTES);
    plan->state_bytes = kin_size_add(
        kin_size_mul(pairs, (plan->gpu_corpus_chunks > 1 ? 2 : 1) * PAIR_BYTES), batches);
    plan->peak_bytes =
        kin_size_add(kin_size_add(plan->prepared_bytes, plan->state_bytes), plan->result_bytes);
}

/* A tree that is tried may be given up, also for want of memory. */
static kin_exact_gpu_need gpu_need(const kith_matrix *corpus, const kith_matrix *queries,
                                   const kin_request *request, const kin_gpu *gpu, int32_t threads,
                                   bool tries_tree)
{
    kin_exact_gpu_need tree = {0};
    if (tries_tree) {
        tree = kin_tree_gpu_plan_need(corpus, queries, request, kin_gpu_room(gpu));
    }
    if (kin_tree_gpu_named(request)) {
        return tree;
    }
    kin_exact_gpu_need need = kin_exact_gpu_plan_need(corpus, queries, request, gpu, threads);
    need.whole_bytes = tree.whole_bytes > need.whole_bytes ? tree.whole_bytes : need.whole_bytes;
    return need;
}

/* *tree: a GPU takes the job, by a tree. */
static kith_status plan_gpu(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                            const kin_request *request, kith_plan *plan, bool *tree)
{
    kin_gpu *gpu = NULL;
    *tree = false;
    KIN_TRY(kin_method_enter(ctx, request, corpus, queries, &gpu));
    if (gpu == NULL) {
        return KITH_OK;
    }
    *tree = kin_method_takes_tree_gpu(request, corpus, queries);
    const kin_exact_gpu_need need = gpu_need(corpus, queries, request, gpu, ctx->threads, *tree);
    kin_api_plan_gpu(gpu, &need, plan);
    kin_api_plan_host(corpus, queries, request, need.host_bytes, plan);
    kin_gpu_leave(gpu);
    return KITH_OK;
}

static const char *method_name(const kin_request *request)
{
    return request->pipeline != NULL        ? request->pipeline->name
           : kin_exact_job_screens(request) ? "screen"
                                            : "direct";
}

/* What of a job's data may be asked. */
typedef struct planning {
    kith_ctx *ctx;
    const kith_matrix *corpus;
    const kith_matrix *queries; /* NULL: a graph */
    const kin_request *request;
    bool tree;  /* a tree may answer */
    bool reads; /* the corpus' data are there */
    bool reads_queries;
} planning;

static kith_status know_rows(const planning *p, kin_rows_known *known)
{
    const kin_distance *distance = &p->request->distance;
    *known = kin_prepare_unknown(p->corpus, distance);
    KIN_TRY(p->reads && (p->tree || kin_exact_job_screens(p->request))
                ? kin_prepare_know(p->ctx, p->corpus, distance, known)
                : KITH_OK);
    known->bytes = p->ctx->params.memory_limit == 0;
    return KITH_OK;
}

/* A radius is not among what a plan's request has of a job (engine_exact.h). */
static kith_status foresee(const planning *p, kin_tree_verdict *verdict)
{
    *verdict = p->request->method == KITH_METHOD_TREE ? KIN_TREE_TAKE : KIN_TREE_TRY;
    return p->reads && p->reads_queries
               ? kin_tree_foresee(p->ctx, p->corpus, p->queries, p->request, verdict)
               : KITH_OK;
}

/* A tree that is tried may be given up: what both ways need. *by_tree: it is likely to answer. */
static kith_status plan_cpu(const planning *p, kith_plan *plan, bool *by_tree)
{
    kin_rows_known known;
    const int32_t threads = p->ctx->threads;
    const int64_t rows = p->queries != NULL ? p->queries->rows : p->corpus->rows;
    kin_tree_verdict verdict = KIN_TREE_DECLINE;
    kin_plan made = {.screens = true};
    KIN_TRY(know_rows(p, &known));
    if (p->tree) {
        KIN_TRY(foresee(p, &verdict));
        made = kin_tree_plan(p->corpus, p->queries, p->request, known, threads);
    }
    if (verdict != KIN_TREE_TAKE) {
        const kin_plan pairs = kin_plan_exact(p->corpus, p->queries, p->request, known, threads);
        const uint64_t peak = made.peak_bytes;
        made = p->tree ? made : pairs;
        made.peak_bytes = pairs.peak_bytes > peak ? pairs.peak_bytes : peak;
        made.least_bytes =
            pairs.least_bytes < made.least_bytes ? pairs.least_bytes : made.least_bytes;
    }
    plan->prepared_bytes = made.prepared_bytes;
    plan->state_bytes = made.state_bytes;
    plan->peak_bytes = kin_size_add(made.peak_bytes, plan->result_bytes);
    plan->undecided_bytes = made.peak_bytes - made.least_bytes;
    const kin_tree_cost cost =
        kin_tree_cost_of(p->request, p->corpus->rows, rows, p->queries == NULL);
    *by_tree = verdict == KIN_TREE_TAKE ||
               (verdict == KIN_TREE_TRY && kin_tree_chance_of(&cost) == KIN_TREE_LIKELY);
    return KITH_OK;
}

static kith_status plan_exact(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                              const kith_search_params *given, kith_plan *plan)
{
    kith_search_params params;
    kith_matrix matrix;
    kith_matrix asked;
    kin_distance distance;
    KIN_TRY(kin_check_search_params(ctx, given, &params));
    KIN_TRY(kin_check_matrix(ctx, kin_check_shape(corpus, &matrix), "corpus", &matrix));
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, &params, matrix.cols, &distance));
    KIN_TRY(kin_check_period(ctx, params.period, &distance));
    if (queries != NULL) {
        KIN_TRY(kin_check_matrix(ctx, kin_check_shape(queries, &asked), "queries", &asked));
        KIN_TRY(kin_check_cols(ctx, &matrix, "the corpus", &asked, "queries"));
    }
    KIN_TRY(check_k(ctx, &params, queries == NULL, matrix.rows));
    KIN_TRY(kin_method_check_height(ctx, params.tree_height, matrix.rows));
    KIN_TRY(kin_check_limit(ctx, distance.metric, &params));
    kin_request request = kin_engine_request(&params, &distance);
    const int64_t rows = queries != NULL ? asked.rows : matrix.rows;
    const kith_matrix *other = queries != NULL ? &asked : NULL;
    KIN_TRY(kin_method_check(ctx, &request));
    const bool tree = kin_method_takes_tree(&request, &matrix, other);
    *plan = kin_api_plan_begin(ctx, rows, params.k, "tree");
    const planning p = {.ctx = ctx,
                        .corpus = &matrix,
                        .queries = other,
                        .request = &request,
                        .tree = tree,
                        .reads = corpus->data != NULL,
                        .reads_queries = queries == NULL || queries->data != NULL};
    bool by_tree = false;
    KIN_TRY(plan_gpu(ctx, &matrix, other, &request, plan, &by_tree));
    if (plan->gpu_bytes == 0) {
        if (other != NULL) {
            kin_method_set_few(&request, &matrix, other);
        }
        KIN_TRY(plan_cpu(&p, plan, &by_tree));
    }
    kin_api_plan_add(plan, kin_limit_bytes(&request, rows));
    if (!by_tree || request.pipeline != NULL) {
        (void)snprintf(plan->method, sizeof plan->method, "%s", method_name(&request));
    }
    return KITH_OK;
}

static kith_status plan_way(kith_ctx *ctx, const kith_matrix *points, const kin_choice *choice,
                            const kin_descent_job *descent, const kith_search_params *exact,
                            kith_plan *plan)
{
    KIN_TRY(choice->descends ? kin_descent_plan(ctx, descent, points->data != NULL, plan)
                             : plan_exact(ctx, points, NULL, exact, plan));
    plan->estimated_exact = choice->exact_seconds;
    plan->estimated_descent = choice->descent_seconds;
    return KITH_OK;
}

/* Of the graph that kith_graph would make. */
static kith_status plan_graph(kith_ctx *ctx, const kith_matrix *points,
                              const kith_search_params *given, kith_plan *plan)
{
    kin_graph_choice job;
    KIN_TRY(kin_api_check_choice(ctx, points, given, KIN_API_SHAPE, NULL, &job));
    KIN_TRY(kin_choose(ctx, &job.descent, &job.choice));
    return plan_way(ctx, points, &job.choice, &job.descent, &job.params, plan);
}

/* A GPU may take all groups at once. */
static kith_status plan_groups(kith_ctx *ctx, const kin_filter_job *job, kith_plan *plan)
{
    uint64_t bytes = 0;
    KIN_TRY(kin_filter_gpu_bytes(ctx, job, &bytes));
    if (bytes > 0) {
        plan->gpu_bytes = bytes;
        plan->gpu_least_bytes = plan->gpu_least_bytes < bytes ? plan->gpu_least_bytes : bytes;
    }
    return KITH_OK;
}

/* An engine's share of the whole job, at most, and what its parts are made of. */
static kith_status plan_filtered(kith_ctx *ctx, const kith_matrix *corpus,
                                 const kith_matrix *queries, const kith_search_params *given,
                                 kith_plan *plan)
{
    kith_search_params params = *given;
    kin_filter_job job = {.threads = ctx->threads};
    kith_matrix shape;
    kith_matrix other;
    const kith_matrix *asked = kin_check_shape(queries != NULL ? queries : corpus, &other);
    KIN_TRY(kin_check_matrix(ctx, kin_check_shape(corpus, &shape), "corpus", &job.corpus));
    KIN_TRY(kin_check_matrix(ctx, asked, "queries", &job.queries));
    KIN_TRY(kin_api_check_filter(ctx, &params, queries == NULL, &job));
    params.filter = NULL;
    KIN_TRY(plan_exact(ctx, corpus, queries, &params, plan));
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, &params, job.corpus.cols, &job.request.distance));
    KIN_TRY(kin_check_period(ctx, params.period, &job.request.distance));
    job.request.k = params.k;
    job.request.flags = params.flags;
    job.request.method = params.method;
    KIN_TRY(plan_groups(ctx, &job, plan));
    const uint64_t own = kin_filter_bytes(&job);
    const uint64_t lists = kin_size_mul(plan->result_bytes, (uint64_t)job.lists);
    plan->peak_bytes =
        kin_size_add(plan->peak_bytes - plan->result_bytes, kin_size_add(lists, own));
    plan->state_bytes = kin_size_add(plan->state_bytes, own);
    plan->undecided_bytes = kin_size_add(plan->undecided_bytes, own);
    plan->result_bytes = lists;
    return KITH_OK;
}

static kith_status plan_search(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                               const kith_search_params *params, kith_plan *out)
{
    kith_plan own;
    kith_search_params known = kith_search_params_default();
    KIN_TRY(kin_check_told(ctx, out, "plan", "kith_plan"));
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_search_params, flags), params, &known));
    KIN_TRY(known.filter != NULL ? plan_filtered(ctx, corpus, queries, &known, &own)
            : queries != NULL    ? plan_exact(ctx, corpus, queries, params, &own)
                                 : plan_graph(ctx, corpus, params, &own));
    kin_fill_room(out, &own, sizeof own);
    return KITH_OK;
}

kith_status kith_plan_search(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                             const kith_search_params *params, kith_plan *plan)
{
    KIN_CALL(ctx, plan_search(ctx, corpus, queries, params, plan));
}

/* A graph of all points, and what a merge holds beside it. */
static kith_status plan_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                              const kith_search_params *given, kith_plan *out)
{
    kin_merge_job job;
    kith_plan own;
    KIN_TRY(kin_check_told(ctx, out, "plan", "kith_plan"));
    KIN_TRY(kin_api_check_merge(ctx, sets, given, KIN_API_SHAPE, NULL, &job));
    KIN_TRY(kin_choose_merge(ctx, &job.descent, job.sets.first_rows, &job.choice));
    KIN_TRY(plan_way(ctx, sets->points, &job.choice, &job.descent, &job.params, &own));
    kin_api_plan_add(&own, kin_merge_bytes(&job));
    kin_fill_room(out, &own, sizeof own);
    return KITH_OK;
}

kith_status kith_plan_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                            const kith_search_params *params, kith_plan *plan)
{
    KIN_CALL(ctx, plan_merge(ctx, sets, params, plan));
}
