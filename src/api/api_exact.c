/* SPDX-License-Identifier: Apache-2.0
 * Graphs, exact or as near to it as is wanted; exact search; distances: arguments in, one call of
 * the engine, report out; and the one call of search by walks on a graph. */
#include "api/api_check.h"

#include "file/file_checksum.h"

static const char *const OF_GRAPH = "a point's own id does not count";
static const char *const OF_SEARCH = "the corpus has no more rows";
static const char *const OF_EXCLUDE = "the corpus has no more rows beside the excluded one";

/* ---- Graph ---------------------------------------------------------------------------------- */

kith_status kin_api_check_graph(kith_ctx *ctx, const kith_matrix *points,
                                const kith_search_params *given, const kith_neighbors *out,
                                kin_knn_job *job)
{
    kith_search_params params;
    kin_distance distance;
    *job = (kin_knn_job){.graph = true};
    KIN_TRY(kin_check_search_params(ctx, given, &params));
    KIN_TRY(kin_check_matrix(ctx, points, "points", &job->corpus));
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, &params, job->corpus.cols, &distance));
    KIN_TRY(kin_check_period(ctx, params.period, &distance));
    const bool self = (params.flags & KITH_INCLUDE_SELF) != 0;
    KIN_TRY(kin_check_output(ctx, params.k, job->corpus.rows - (self ? 0 : 1),
                             self ? OF_SEARCH : OF_GRAPH, out, job->corpus.rows));
    KIN_TRY(kin_method_check_height(ctx, params.tree_height, job->corpus.rows));
    KIN_TRY(kin_check_limit(ctx, distance.metric, &params));
    job->request = kin_engine_request(&params, &distance);
    return KITH_OK;
}

/* What is of exact graphs alone. */
static bool is_exacts(const kith_search_params *params)
{
    return (params->flags & ~(uint32_t)KITH_INCLUDE_SELF) != 0 || params->tree_height != 0 ||
           params->pipeline != KITH_PIPELINE_FUSED || params->leaf_buffer != 0 ||
           params->batch != 0;
}

kith_status kin_api_take_choice(kith_ctx *ctx, const kith_search_params *given,
                                kith_search_params *known, kin_choice *choice)
{
    KIN_TRY(KIN_TAKE(ctx, kith_search_params, flags, given, known));
    KIN_TRY(kin_refuse_filter(ctx, known));
    *choice = (kin_choice){.descends = (int)known->method == KITH_METHOD_DESCENT};
    KIN_REFUSE_IF(choice->descends && is_exacts(known), ctx, "method",
                  "is descent, and flags, pipeline or tree_height have what is of exact graphs "
                  "alone (leave one out)");
    KIN_TRY(choice->descends
                ? kin_refuse_period(ctx, known->period, "a descent has none (leave it out)")
                : KITH_OK);
    KIN_REFUSE_IF(!(known->recall >= 0.0 && known->recall <= 1.0), ctx, "recall",
                  "is %g, must be 0 to 1", known->recall);
    choice->open = known->method == KITH_METHOD_AUTO && known->recall < 1.0 &&
                   known->period == NULL && !is_exacts(known);
    return KITH_OK;
}

kith_status kin_api_check_choice(kith_ctx *ctx, const kith_matrix *points,
                                 const kith_search_params *given, uint32_t place,
                                 const kith_neighbors *out, kin_graph_choice *job)
{
    kin_choice *choice = &job->choice;
    *job = (kin_graph_choice){.params = kith_search_params_default()};
    KIN_TRY(kin_api_take_choice(ctx, given, &job->params, choice));
    choice->open &= job->params.recall > 0.0;
    KIN_TRY(choice->open || choice->descends
                ? kin_descent_check(ctx, points, &job->params, place, out, &job->descent)
                : KITH_OK);
    KIN_REFUSE_IF(job->descent.request.start == KIN_GRAPH_START_GGM, ctx, "start",
                  "is ggm, which merges two graphs (leave it out, or merge)");
    return choice->descends || place == KIN_API_SHAPE
               ? KITH_OK
               : kin_api_check_graph(ctx, points, &job->params, out, &job->exact);
}

kith_status kin_api_descend(kith_ctx *ctx, const kin_descent_job *job, const kith_neighbors *out,
                            kith_descent_report *report)
{
    kith_descent_report told;
    KIN_TRY(kin_engine_descent(ctx, job, out, &told));
    kin_fill_room(report, &told, sizeof told);
    return KITH_OK;
}

kith_status kin_api_check_filtered(kith_ctx *ctx, const kith_matrix *corpus,
                                   const kith_matrix *queries, const kith_search_params *given,
                                   const kith_neighbors *out, kin_filter_job *job)
{
    const bool is_graph = queries == NULL;
    const char *name = is_graph ? "points" : "corpus";
    kith_search_params params = *given;
    kin_knn_job plain;
    kith_neighbors lists;
    *job = (kin_filter_job){.there = job->there};
    KIN_TRY(kin_check_matrix(ctx, corpus, name, &job->corpus));
    job->queries = job->corpus;
    KIN_TRY(is_graph ? KITH_OK : kin_check_matrix(ctx, queries, "queries", &job->queries));
    KIN_TRY(kin_api_check_filter(ctx, &params, is_graph, job));
    KIN_TRY(kin_api_check_lists(ctx, job, params.k, out, &lists));
    params.filter = NULL;
    const kith_neighbors *checked = out != NULL ? &lists : NULL;
    KIN_TRY(is_graph ? kin_api_check_graph(ctx, corpus, &params, checked, &plain)
                     : kin_api_check_knn(ctx, corpus, queries, &params, checked, &plain));
    job->request = plain.request;
    return KITH_OK;
}

kith_status kin_api_search_filtered(kith_ctx *ctx, const kith_matrix *corpus,
                                    const kith_matrix *queries, const kith_search_params *params,
                                    const kith_neighbors *out)
{
    const kith_matrix none = {0};
    kin_filter_job job = {0};
    KIN_TRY(
        kin_api_check_filtered(ctx, corpus, queries != NULL ? queries : &none, params, out, &job));
    return kin_engine_filter(ctx, &job, out);
}

static kith_status graph(kith_ctx *ctx, const kith_matrix *points, const kith_search_params *given,
                         const kith_neighbors *out, const kith_report *report)
{
    kin_graph_choice job;
    kin_filter_job under = {0};
    kith_search_params filtered;
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_report"));
    KIN_TRY(KIN_TAKE(ctx, kith_search_params, flags, given, &filtered));
    if (filtered.filter != NULL) {
        KIN_TRY(kin_api_check_filtered(ctx, points, NULL, &filtered, out, &under));
        return kin_engine_filter(ctx, &under, out);
    }
    KIN_TRY(kin_api_check_choice(ctx, points, given, 0, out, &job));
    KIN_TRY(kin_choose(ctx, &job.descent, &job.choice));
    return job.choice.descends ? kin_api_descend(ctx, &job.descent, out, job.params.descent_report)
                               : kin_engine_knn(ctx, &job.exact, out);
}

kith_status kith_graph(kith_ctx *ctx, const kith_matrix *points, const kith_search_params *params,
                       const kith_neighbors *out, kith_report *report)
{
    KIN_CALL_TOLD(ctx, graph(ctx, points, params, out, report), report);
}

/* ---- Search --------------------------------------------------------------------------------- */

kith_status kin_api_check_queries(kith_ctx *ctx, const kith_matrix *queries,
                                  const kith_search_params *params, const kith_neighbors *out,
                                  kin_knn_job *job)
{
    const bool excludes = params->exclude != NULL;
    const kith_matrix *corpus = &job->corpus;
    const kin_distance distance = job->request.distance;
    KIN_TRY(kin_check_matrix(ctx, queries, "queries", &job->queries));
    KIN_TRY(kin_check_cols(ctx, corpus, "the corpus", &job->queries, "queries"));
    KIN_TRY(kin_check_output(ctx, params->k, corpus->rows - (excludes ? 1 : 0),
                             excludes ? OF_EXCLUDE : OF_SEARCH, out, job->queries.rows));
    KIN_TRY(kin_method_check_height(ctx, params->tree_height, corpus->rows));
    KIN_TRY(kin_check_limit(ctx, distance.metric, params));
    job->request = kin_engine_request(params, &distance);
    job->request.distance.isa = ctx->isa;
    return KITH_OK;
}

kith_status kin_api_check_knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                              const kith_search_params *given, const kith_neighbors *out,
                              kin_knn_job *job)
{
    kith_search_params params;
    *job = (kin_knn_job){.graph = false};
    KIN_TRY(kin_check_search_params(ctx, given, &params));
    KIN_TRY(kin_check_matrix(ctx, corpus, "corpus", &job->corpus));
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, &params, job->corpus.cols, &job->request.distance));
    KIN_TRY(kin_check_period(ctx, params.period, &job->request.distance));
    return kin_api_check_queries(ctx, queries, &params, out, job);
}

/* kith_search of that method. */
static kith_status walk_graph(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                              const kith_search_params *params, const kith_neighbors *out)
{
    kin_walks_source source = {.name = "corpus"};
    kin_walk_call call;
    kith_walk_report told;
    KIN_TRY(kin_check_matrix(ctx, corpus, "corpus", &source.points));
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, params, source.points.cols, &source.distance));
    KIN_TRY(kin_api_check_walk(ctx, &source.points, queries, params, out, &call));
    source.graph = call.walk.graph;
    KIN_TRY(kin_check_graph(ctx, source.graph, source.points.rows));
    KIN_TRY(
        kin_fingerprint_check(ctx, source.graph, "graph", &source.points, source.distance.metric));
    source.asked = call.job.queries.dtype;
    source.k = params->k;
    KIN_TRY(kin_engine_walks(ctx, &source, &call.job, &told));
    kin_fill_room(params->walk_report, &told, sizeof told);
    return KITH_OK;
}

static kith_status knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                       const kith_search_params *given, const kith_neighbors *out,
                       const kith_report *report)
{
    kin_knn_job job;
    kith_search_params filtered;
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_report"));
    KIN_TRY(KIN_TAKE(ctx, kith_search_params, flags, given, &filtered));
    if ((int)filtered.method == KITH_METHOD_GRAPH) {
        return walk_graph(ctx, corpus, queries, &filtered, out);
    }
    if (filtered.filter != NULL) {
        return kin_api_search_filtered(ctx, corpus, queries, &filtered, out);
    }
    KIN_TRY(kin_api_check_knn(ctx, corpus, queries, given, out, &job));
    return kin_engine_knn(ctx, &job, out);
}

kith_status kith_search(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                        const kith_search_params *params, const kith_neighbors *out,
                        kith_report *report)
{
    KIN_CALL_TOLD(ctx, knn(ctx, corpus, queries, params, out, report), report);
}

/* ---- Both directions ------------------------------------------------------------------------ */

static kith_status both(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                        const kith_search_params *given, const kith_neighbors *ab,
                        const kith_neighbors *ba)
{
    kin_both_job job;
    kith_search_params params;
    kin_distance distance;
    KIN_TRY(kin_check_search_params(ctx, given, &params));
    KIN_TRY(kin_check_matrix(ctx, a, "a", &job.a));
    KIN_TRY(kin_check_matrix(ctx, b, "b", &job.b));
    KIN_TRY(kin_check_cols(ctx, &job.a, "a", &job.b, "b"));
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, &params, job.a.cols, &distance));
    KIN_TRY(kin_check_period(ctx, params.period, &distance));
    KIN_TRY(kin_check_output(ctx, params.k, job.b.rows, OF_SEARCH, ab, job.a.rows));
    KIN_TRY(kin_check_output(ctx, params.k, job.a.rows, OF_SEARCH, ba, job.b.rows));
    KIN_REFUSE_IF(params.exclude != NULL, ctx, "exclude",
                  "has no meaning in both directions at once (leave it out)");
    KIN_TRY(kin_check_limit(ctx, distance.metric, &params));
    job.request = kin_engine_request(&params, &distance);
    KIN_TRY(kin_method_refuse_tree(ctx, &job.request, "both directions at once have none"));
    return kin_engine_both(ctx, &job, ab, ba);
}

kith_status kith_knn_both(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                          const kith_search_params *params, const kith_neighbors *ab,
                          const kith_neighbors *ba)
{
    KIN_CALL(ctx, both(ctx, a, b, params, ab, ba));
}

/* ---- Distances ------------------------------------------------------------------------------ */

static kith_status check_ids(kith_ctx *ctx, const uint32_t *ids, int64_t count, int64_t rows,
                             const char *name)
{
    for (int64_t i = 0; i < count; i++) {
        KIN_FAIL_IF((int64_t)ids[i] >= rows, ctx, KITH_E_ARGUMENT, kin_at_row(name, i),
                    "is %lu, must be below %lld (rows count from 0)", (unsigned long)ids[i],
                    (long long)rows);
    }
    return KITH_OK;
}

static kith_status pair_distances(kith_ctx *ctx, const kin_prepared *corpus,
                                  const kin_prepared *queries, const kith_pairs *p, double *out)
{
    const kin_distance *distance = &corpus->distance;
    double *values = NULL;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, values, (uint64_t)distance->cols + KIN_METRIC_LANES, "a query");
    int64_t last = 0;
    for (int64_t first = 0; first < p->count; first = last) { /* runs of the same query */
        const uint32_t id = p->query_ids[first];
        for (last = first + 1; last < p->count && p->query_ids[last] == id; last++) {
        }
        const kin_query query = kin_metric_load(distance, &queries->rows, id, values);
        kin_metric_keys(distance, &query, &corpus->rows, p->corpus_ids + first, last - first,
                        out + first);
    }
    for (int64_t i = 0; i < p->count; i++) {
        out[i] = kin_metric_distance(distance->metric, out[i]);
    }
    return KITH_OK;
}

static kith_status distances(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                             kith_metric metric, const kith_pairs *p, double *out)
{
    kith_matrix cm;
    kith_matrix qm;
    kin_distance distance;
    KIN_TRY(kin_check_matrix(ctx, corpus, "corpus", &cm));
    KIN_TRY(kin_check_matrix(ctx, queries, "queries", &qm));
    KIN_TRY(kin_check_cols(ctx, &cm, "the corpus", &qm, "queries"));
    KIN_TRY(kin_check_metric(ctx, metric, NULL, NULL, cm.cols, &distance));
    KIN_REFUSE_IF(p == NULL, ctx, "pairs", "is NULL (give pairs of rows)");
    KIN_REFUSE_IF(p->count < 0 || (p->count > 0 &&
                                   (p->query_ids == NULL || p->corpus_ids == NULL || out == NULL)),
                  ctx, "count", "is %lld with ids or out NULL (give arrays of that length)",
                  (long long)p->count);
    KIN_TRY(check_ids(ctx, p->query_ids, p->count, qm.rows, "query_ids"));
    KIN_TRY(check_ids(ctx, p->corpus_ids, p->count, cm.rows, "corpus_ids"));
    kin_prepared pc = {0};
    kin_prepared pq = {0};
    KIN_HOLD(hold, ctx);
    kin_prepared_hold(&hold, &pc);
    kin_prepared_hold(&hold, &pq);
    KIN_TRY(kin_prepare_rows(ctx, &cm, &distance, "corpus", KIN_ROWS_DISTINCT, &pc));
    KIN_TRY(kin_prepare_rows(ctx, &qm, &distance, "queries", KIN_ROWS_DISTINCT, &pq));
    return pair_distances(ctx, &pc, &pq, p, out);
}

kith_status kith_distances(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           kith_metric metric, const kith_pairs *pairs, double *out)
{
    KIN_CALL(ctx, distances(ctx, corpus, queries, metric, pairs, out));
}
