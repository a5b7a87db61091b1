/* SPDX-License-Identifier: Apache-2.0
 * What an index is asked: neighbours, all within a radius, and what a search will take. */
#include "host/host_cpu.h"
#include "index/index.h"
#include "kith/kith_cuda.h"
#include "tree/tree_cost.h"

#include <stdio.h>

/* ---- Under a filter -------------------------------------------------------------------------- */

/* Idea. What is prepared of all points is of no use where few may be found; but where an index lies
 * on a GPU
 *
 *     a bitmap for all        is a choice of its rows, which stand in the same order and frame
 *                             (kin_exact_gpu_corpus_some)
 *     small groups, and what  are compared pair by pair with the rows that are there
 *     keeps little            (engine_filter_gpu.c)
 *
 * All else is a search of the points themselves, in host memory. */

/* Rows that lose candidates among a choice are sorted by a block of threads each. */
enum { MOST_K = KIN_SCREEN_GPU_SORTED_K };

/* Whether a choice of rows answers, or all of them; *kept: how many there are. */
static bool takes_some(const kin_exact_gpu_corpus *corpus, const kin_filter_job *job, int64_t *kept)
{
    const kith_filter *filter = &job->filter;
    if (corpus == NULL || filter->rule != KITH_RULE_NONE || kin_filter_has_bitmaps(filter) ||
        job->request.pipeline != NULL) {
        return false;
    }
    *kept = kin_filter_count_allowed(filter, job->corpus.rows);
    return *kept == job->corpus.rows ||
           (corpus->prepared.plain && *kept > job->request.k && job->request.k < MOST_K &&
            kin_exact_gpu_screens(&job->request, *kept, job->queries.rows));
}

/* Many queries of the host are on their way while rows are chosen. */
static void send_queries(kith_ctx *ctx, const kin_filter_job *job, const kin_filter_place *where)
{
    enum { LEAST_BYTES = 1 << 19, SHARE = 8 }; /* of the room, which the chosen rows need */
    const kith_matrix *queries = &job->queries;
    const uint64_t bytes = kin_exact_gpu_ahead_bytes(queries, queries->rows);
    if ((where->place & KIN_GPU_DATA_ON_DEVICE) == 0 && bytes >= LEAST_BYTES &&
        bytes <= kin_gpu_room(where->gpu) / SHARE) {
        kin_screen_gpu_prepare_ahead(ctx, where->gpu, queries, 0, queries->rows);
    }
}

static kith_status search_some(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                               const kin_filter_job *job, int64_t kept,
                               const kin_filter_place *where)
{
    kin_exact_gpu_corpus *again = NULL;
    kin_exact_gpu_corpus *some = NULL;
    KIN_TRY(kin_exact_gpu_corpus_for(ctx, corpus, &job->queries, job->request.k, &again));
    const kin_exact_gpu_corpus *all = again != NULL ? again : corpus;
    kith_status status = KITH_OK;
    if (kept < job->corpus.rows) {
        send_queries(ctx, job, where);
        status = kin_exact_gpu_corpus_some(ctx, all, job->filter.allow, kept, &some);
    }
    KIN_THEN(status, kin_exact_gpu_corpus_search(ctx, some != NULL ? some : all, &job->queries,
                                                 &job->request, where->place, where->out));
    (void)kin_gpu_ahead_end(where->gpu);
    kin_exact_gpu_corpus_free(ctx, some);
    kin_exact_gpu_corpus_free(ctx, again);
    return status;
}

/* By the index' rows on its GPU, which was entered; *done is false where nothing was done. */
static kith_status filter_there(kith_ctx *ctx, const void *arg, const kin_filter_job *job,
                                const kin_filter_place *where, bool *done)
{
    const kith_index *index = arg;
    const kin_exact_gpu_corpus *corpus = index->kept->resident;
    int64_t kept = 0;
    *done = false;
    if (takes_some(corpus, job, &kept)) {
        const kith_status status = search_some(ctx, corpus, job, kept, where);
        *done = status != KITH_E_DEVICE_MEMORY && status != KITH_E_UNSUPPORTED;
        if (*done) {
            return status;
        }
        kin_exact_gpu_make_room(ctx, where->gpu);
    }
    return corpus == NULL ? KITH_OK : kin_engine_filter_on_gpu(ctx, job, where, done);
}

/* The points, on the device where they are there. */
static kith_matrix points_of(const kith_index *index)
{
    const kin_index_kept *kept = index->kept;
    kith_matrix points = kept->prepared.rows.matrix;
    if (kept->resident != NULL) {
        points.data = kept->resident->prepared.rows.data;
        points.stride_bytes = kept->resident->prepared.rows.stride_bytes;
    }
    return points;
}

/* The index' GPU for this thread, until kin_device_leave. */
static void enter_gpu(const kith_index *index)
{
    kin_gpu_enter(index->gpu);
    index->gpu->peak = index->gpu->held;
}

/* auto, or the index' own. */
static kith_status check_method(kith_ctx *ctx, const kith_index *index, kith_method method)
{
    KIN_TRY(index->gpu != NULL ? KITH_OK : kin_index_refuse_gpu(ctx, index->method));
    KIN_PASS_IF(
        method == KITH_METHOD_AUTO || method == index->method, ctx, KITH_E_UNSUPPORTED,
        kin_at("method"),
        "is %s, and the index is one by %s (use auto or %s; or search its points themselves)",
        kin_index_method_name(method), kin_index_method_name(index->method),
        kin_index_method_name(index->method));
}

/* Parameters for the points themselves. */
static kith_status take_params(kith_ctx *ctx, const kith_index *index,
                               const kith_search_params *given, kith_search_params *params)
{
    const kin_distance *own = &index->kept->prepared.distance;
    *params = *given;
    KIN_TRY(kin_check_same_metric(ctx, params->metric, own->metric));
    KIN_TRY(check_method(ctx, index, params->method));
    KIN_TRY(kin_refuse_period(ctx, params->period, KIN_INDEX_HAS_ITS_OWN));
    params->metric = own->metric;
    params->period = index->period;
    params->method = KITH_METHOD_AUTO;
    return KITH_OK;
}

/* queries, out: in host memory. */
static kith_status try_gpu(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                           const kith_search_params *params, const kith_neighbors *out, bool *done)
{
    const kith_matrix points = points_of(index);
    kin_filter_job job = {0};
    kin_limit limit;
    if (index->gpu == NULL || index->kept->resident == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_api_check_filtered(ctx, &points, queries, params, out, &job));
    job.resident = true;
    KIN_TRY(kin_limit_begin(ctx, &job.request, out, &limit));
    enter_gpu(index);
    const kin_filter_place where = {.gpu = index->gpu, .out = &limit.out};
    const kith_status status = filter_there(ctx, index, &job, &where, done);
    kin_device_leave(ctx, index->gpu);
    return *done ? kin_limit_end(&limit, status) : kin_limit_drop(&limit, status);
}

/* kith_index_search of an index, but of a graph on the processor; params: as kin_take_params has
 * them. */
static kith_status search_filtered(kith_ctx *ctx, const kith_index *index,
                                   const kith_matrix *queries, const kith_search_params *given,
                                   const kith_neighbors *out)
{
    const kith_matrix none = {0};
    const kith_matrix *asked = queries != NULL ? queries : &none;
    kith_search_params params;
    kith_matrix points;
    void *copy = NULL;
    bool done = false;
    KIN_TRY(take_params(ctx, index, given, &params));
    KIN_TRY(try_gpu(ctx, index, asked, &params, out, &done));
    if (done) {
        return KITH_OK;
    }
    kith_status status = kin_index_host_rows(ctx, index, &points, &copy);
    KIN_THEN(status, kin_api_search_filtered(ctx, &points, asked, &params, out));
    kin_free(ctx, copy);
    return status;
}

/* kith_cuda_index_search, addresses being checked. */
static kith_status search_filtered_there(kith_ctx *ctx, const kith_index *index,
                                         const kith_matrix *queries,
                                         const kith_search_params *given, const kith_neighbors *out,
                                         void *stream)
{
    const kith_matrix *own = &index->kept->prepared.rows.matrix;
    const kith_matrix points = points_of(index);
    kith_search_params params;
    kin_api_filtering f = {.job.there = true,
                           .out = out,
                           .gpu = index->gpu,
                           .stream = stream,
                           .there = filter_there,
                           .arg = index};
    KIN_TRY(take_params(ctx, index, given, &params));
    KIN_TRY(kin_api_check_filtered(ctx, &points, queries, &params, out, &f.job));
    f.job.resident = points.data != own->data || kin_index_rows_on_device(index->kept);
    f.on_host = kin_index_rows_on_device(index->kept) ? NULL : own;
    return kin_api_filter(ctx, &f);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static kith_status refuse_missing(kith_ctx *ctx, const kith_index *index,
                                  const kin_request *request)
{
    const char *why =
        index->kept->planted.gpu != NULL ? kin_tree_gpu_missing(request) : NULL; /* one line */
    KIN_PASS_IF(why == NULL, ctx, KITH_E_UNSUPPORTED, kin_at("k"),
                "is %lld, and of trees %s (ask for fewer, or make the index for the device cpu)",
                (long long)request->k, why);
}

/* Not of a graph. */
static kith_status check_request(kith_ctx *ctx, const kith_index *index, kin_request *request)
{
    KIN_TRY(check_method(ctx, index, request->method));
    KIN_REFUSE_IF(request->tree_height != 0, ctx, "tree_height",
                  "is %d, and an index has its tree already, or none (leave it out)",
                  (int)request->tree_height);
    request->method = index->method;
    return index->method == KITH_METHOD_TREE
               ? kin_method_check(ctx, request)
               : kin_method_refuse_tree(ctx, request, "the index is one by exact");
}

static kith_status check_knn(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                             const kith_search_params *given, const kith_neighbors *out,
                             kin_knn_job *job)
{
    const kin_prepared *prepared = &index->kept->prepared;
    kith_search_params params;
    *job = (kin_knn_job){.corpus = prepared->rows.matrix, .request.distance = prepared->distance};
    KIN_TRY(kin_check_search_params(ctx, given, &params));
    KIN_TRY(kin_check_same_metric(ctx, params.metric, prepared->distance.metric));
    KIN_TRY(kin_refuse_period(ctx, params.period, KIN_INDEX_HAS_ITS_OWN));
    KIN_TRY(kin_api_check_queries(ctx, queries, &params, out, job));
    return check_request(ctx, index, &job->request);
}

/* ---- Neighbours ------------------------------------------------------------------------------ */

/* What a team may divide: queries of an index, and its answers. */
typedef struct asking {
    const kin_index_kept *kept;
    const kin_exact_gpu_query *query;
} asking;

static kith_status ask_member(void *arg, const kin_exact_gpu_member *on)
{
    const asking *a = arg;
    const kin_index_copy *copy = a->kept->copies[on->gpu->number];
    kin_exact_gpu_slice s;
    kin_exact_gpu_slice_of(a->query, on->first, on->count, &s);
    return copy->resident != NULL ? kin_exact_gpu_corpus_search(on->ctx, copy->resident, &s.queries,
                                                                &s.request, s.query.place, &s.out)
                                  : kin_tree_gpu_corpus_search(on->ctx, &copy->planted, &s.query);
}

/* Of one that is there; place as in exact_search_gpu.h. */
static kith_status ask_gpu(kith_ctx *ctx, const kith_index *index, const kin_knn_job *job,
                           uint32_t place, const kith_neighbors *out)
{
    const int64_t rows = job->queries.rows;
    const kin_exact_gpu_query query = {&job->queries, "queries", &job->request, place, out};
    asking a = {index->kept, &query};
    const kin_exact_gpu_division all = {rows, ask_member, &a};
    const bool shared = index->method == KITH_METHOD_TREE
                            ? kin_tree_gpu_team_searches(index->gpu, rows, place)
                            : kin_exact_gpu_team_searches(index->gpu, rows, place);
    return kin_exact_gpu_solve(ctx, index->gpu, shared, &all);
}

static kith_status solve(kith_ctx *ctx, const kith_index *index, const kin_knn_job *job,
                         const kith_neighbors *out)
{
    const kin_index_kept *kept = index->kept;
    if (index->gpu != NULL) {
        enter_gpu(index);
        const kith_status status = ask_gpu(ctx, index, job, 0, out);
        kin_device_leave(ctx, index->gpu);
        return status;
    }
    if (index->method == KITH_METHOD_TREE) {
        return kin_tree_search(ctx, &kept->prepared, &kept->tree, &job->queries, &job->request,
                               out);
    }
    KIN_TRY(kin_pipeline_check_cpu(ctx, &job->request));
    return kin_exact_search(ctx, &kept->prepared, &job->queries, &job->request, out);
}

static kith_status search_exactly(kith_ctx *ctx, const kith_index *index,
                                  const kith_matrix *queries, const kith_search_params *params,
                                  const kith_neighbors *out)
{
    kin_knn_job job;
    kin_limit limit;
    kith_search_params known;
    KIN_TRY(KIN_TAKE(ctx, kith_search_params, flags, params, &known));
    if (known.filter != NULL) {
        return search_filtered(ctx, index, queries, &known, out);
    }
    KIN_TRY(check_knn(ctx, index, queries, params, out, &job));
    KIN_TRY(refuse_missing(ctx, index, &job.request));
    KIN_TRY(kin_limit_begin(ctx, &job.request, out, &limit));
    return kin_limit_end(&limit, solve(ctx, index, &job, &limit.out));
}

static kith_status check_walk(kith_ctx *ctx, const kith_index *index,
                              const kith_search_params *params, const kith_walk_params *walk)
{
    const kin_distance *own = &index->kept->prepared.distance;
    KIN_TRY(kin_check_same_metric(ctx, params->metric, own->metric));
    KIN_REFUSE_IF(walk->graph != NULL, ctx, "graph",
                  "is set, and an index has its own (leave it out)");
    KIN_ALLOW_IF(params->custom == NULL || params->custom == own->custom, ctx, "custom",
                 "is not the function that the index was made for (give NULL or the same)");
}

/* out NULL: an answer that is no table. */
static kith_status check_device(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                                const kith_neighbors *out)
{
    int32_t device = index->gpu->index;
    KIN_TRY(kin_api_check_device(ctx, device));
    KIN_TRY(kin_api_find_device(ctx, queries->data, "queries.data", &device));
    return out == NULL ? KITH_OK : kin_api_find_out(ctx, out, &device);
}

/* Where queries lie on the index' GPU: the stream that fills them. NULL: in host memory. */
typedef void *const *queries_stream;

/* Under a filter a GPU compares all that is allowed. */
static kith_status compare_allowed(kith_ctx *ctx, const kith_index *index,
                                   const kin_walk_call *call, const kith_search_params *given,
                                   queries_stream stream, kith_walk_report *told)
{
    const kith_filter all = kith_filter_default();
    const kith_matrix *queries = &call->job.queries;
    kith_search_params params = *given;
    params.filter = given->filter != NULL ? given->filter : &all;
    params.recall = 0.0;
    params.recall_at = 0;
    *told = (kith_walk_report){.exact = 1,
                               .reached = 1,
                               .width = index->kept->prepared.rows.matrix.rows,
                               .parts = index->kept->graph.walks->made[0]->parts,
                               .recall = kin_recall_exact(queries->rows, call->job.recall_at)};
    KIN_TRY(stream != NULL
                ? search_filtered_there(ctx, index, queries, &params, call->job.out, *stream)
                : search_filtered(ctx, index, queries, &params, call->job.out));
    told->evaluations = ctx->report.candidates * (double)queries->rows;
    return KITH_OK;
}

static kith_status walk(kith_ctx *ctx, const kith_index *index, kin_walks_search *job,
                        queries_stream stream, kith_walk_report *told)
{
    const kin_walks *walks = NULL;
    KIN_TRY(kin_index_walks_for(ctx, index, &job->queries, &walks));
    if (index->gpu == NULL) {
        return kin_walks_answer(ctx, walks, job, told);
    }
    enter_gpu(index);
    job->place = stream != NULL ? KIN_GPU_DATA_ON_DEVICE | KIN_GPU_OUT_ON_DEVICE : 0;
    kith_status status = stream != NULL ? kin_api_follow(ctx, index->gpu, *stream) : KITH_OK;
    KIN_THEN(status, kin_walks_answer(ctx, walks, job, told));
    KIN_KEEP(status, stream != NULL ? kin_gpu_wait(ctx, index->gpu) : KITH_OK);
    kin_device_leave(ctx, index->gpu);
    return status;
}

static kith_status search_by_walks(kith_ctx *ctx, const kith_index *index,
                                   const kith_matrix *queries, const kith_search_params *given,
                                   const kith_neighbors *out, queries_stream stream)
{
    const kith_matrix *points = &index->kept->prepared.rows.matrix;
    kith_search_params params = kith_search_params_default();
    kin_walk_call call;
    kith_walk_report told;
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_search_params, flags), given, &params));
    KIN_TRY(check_method(ctx, index, params.method));
    KIN_TRY(kin_api_check_walk(ctx, points, queries, &params, out, &call));
    KIN_TRY(check_walk(ctx, index, &params, &call.walk));
    KIN_TRY(stream != NULL ? check_device(ctx, index, &call.job.queries, out) : KITH_OK);
    KIN_TRY(index->gpu != NULL && call.job.filter != NULL
                ? compare_allowed(ctx, index, &call, &params, stream, &told)
                : walk(ctx, index, &call.job, stream, &told));
    kin_fill_room(params.walk_report, &told, sizeof told);
    return KITH_OK;
}

static kith_status search(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                          const kith_search_params *params, const kith_neighbors *out,
                          const kith_report *report)
{
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_report"));
    return index->method == KITH_METHOD_GRAPH
               ? search_by_walks(ctx, index, queries, params, out, NULL)
               : search_exactly(ctx, index, queries, params, out);
}

kith_status kith_index_search(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                              const kith_search_params *params, const kith_neighbors *out,
                              kith_report *report)
{
    KIN_INDEX_CALL(ctx, index, search(ctx, index, queries, params, out, report), report);
}

/* ---- What nobody has waited for -------------------------------------------------------------- */

/* The stream has ended; the word that was left is taken away. */
static kith_status read_notes(kith_ctx *ctx, const kith_index *index)
{
    const int64_t cols = index->kept->prepared.rows.matrix.cols;
    uint64_t *notes = NULL;
    KIN_TRY(kin_gpu_notes(ctx, index->gpu, &notes));
    const uint64_t bad = notes[KIN_EXACT_GPU_NOTE_BAD];
    const bool few = notes[KIN_EXACT_GPU_NOTE_FEW] != UINT64_MAX;
    notes[KIN_EXACT_GPU_NOTE_BAD] = notes[KIN_EXACT_GPU_NOTE_FEW] = UINT64_MAX;
    KIN_FAIL_IF(few, ctx, KITH_E_INTERNAL, kin_at("queries"),
                "have fewer neighbours than were asked for (a bound is wrong; please report it)");
    KIN_PASS_IF(bad == UINT64_MAX, ctx, KITH_E_DATA,
                kin_at_cell("queries", (int64_t)bad / cols, (int64_t)bad % cols),
                "of a search that was enqueued is NaN, infinite, or no value for the metric (its "
                "list is empty; remove or replace it)");
}

static kith_status wait_for(kith_ctx *ctx, const kith_index *index)
{
    if (index->gpu == NULL) {
        return KITH_OK;
    }
    enter_gpu(index);
    kith_status status = kin_gpu_wait(ctx, index->gpu);
    KIN_THEN(status, read_notes(ctx, index));
    kin_device_leave(ctx, index->gpu);
    return status;
}

/* ---- Neighbours of rows in device memory ----------------------------------------------------- */

static kith_status refuse_cpu(kith_ctx *ctx, const kith_index *index)
{
    KIN_PASS_IF(index->gpu != NULL, ctx, KITH_E_UNSUPPORTED, kin_at("index"),
                "is the processor's (make it of points on the GPU, or for the device cuda)");
}

/* enqueue: KIN_GPU_ENQUEUE, or 0. */
static kith_status solve_on_device(kith_ctx *ctx, const kith_index *index, const kin_knn_job *job,
                                   uint32_t enqueue, const kith_neighbors *out)
{
    kin_api_limit limit;
    KIN_TRY(kin_api_limit_begin(ctx, &job->request, out, false, &limit));
    const uint32_t place = limit.place | (limit.block == NULL ? enqueue : 0);
    const kith_status status = ask_gpu(ctx, index, job, place, &limit.cut.out);
    return kin_api_limit_end(ctx, index->gpu, &limit, status);
}

/* Of a GPU that was entered: what was enqueued is followed by the caller's stream, all else is
 * complete. */
static kith_status leave_device(kith_ctx *ctx, const kith_index *index, void *stream,
                                kith_status status)
{
    kin_gpu *gpu = index->gpu;
    KIN_THEN(status, gpu->enqueued ? kin_api_lead(ctx, gpu, stream) : KITH_OK);
    if (status != KITH_OK || !gpu->enqueued) {
        KIN_KEEP(status, kin_gpu_wait(ctx, gpu));
    }
    gpu->enqueued = false;
    return status;
}

static kith_status search_on_device(kith_ctx *ctx, const kith_index *index,
                                    const kith_matrix *queries, const kith_search_params *params,
                                    const kith_neighbors *out, void *stream)
{
    kin_knn_job job;
    uint32_t *excluded = NULL;
    kith_search_params known;
    kith_matrix asked;
    KIN_TRY(refuse_cpu(ctx, index));
    KIN_TRY(KIN_TAKE(ctx, kith_search_params, flags, params, &known));
    const uint32_t enqueue = (known.flags & KITH_ENQUEUE) != 0 ? KIN_GPU_ENQUEUE : 0;
    known.flags &= ~(uint32_t)KITH_ENQUEUE;
    if (index->method == KITH_METHOD_GRAPH) {
        return search_by_walks(ctx, index, queries, &known, out, &stream);
    }
    if (known.filter != NULL) {
        KIN_TRY(kin_check_matrix(ctx, queries, "queries", &asked));
        KIN_TRY(check_device(ctx, index, &asked, out));
        return search_filtered_there(ctx, index, &asked, &known, out, stream);
    }
    KIN_TRY(check_knn(ctx, index, queries, &known, out, &job));
    KIN_TRY(check_device(ctx, index, &job.queries, out));
    KIN_TRY(refuse_missing(ctx, index, &job.request));
    enter_gpu(index);
    kith_status status = kin_api_follow(ctx, index->gpu, stream);
    KIN_THEN(status, kin_api_bring_excluded(ctx, index->gpu, &job, &excluded));
    KIN_THEN(status, solve_on_device(ctx, index, &job, enqueue, out));
    status = leave_device(ctx, index, stream, status);
    kin_gpu_free(index->gpu, excluded);
    kin_device_leave(ctx, index->gpu);
    return status;
}

kith_status kith_cuda_index_search(kith_ctx *ctx, const kith_index *index,
                                   const kith_matrix *queries, const kith_search_params *params,
                                   const kith_neighbors *out, void *stream)
{
    const bool waits = queries == NULL && params == NULL && out == NULL;
    KIN_INDEX_CALL(ctx, index,
                   waits ? wait_for(ctx, index)
                         : search_on_device(ctx, index, queries, params, out, stream),
                   NULL);
}

/* ---- Radius ---------------------------------------------------------------------------------- */

static kith_status find_member(void *arg, const kin_exact_gpu_member *on,
                               const kin_exact_gpu_radius_query *query, kith_ranges *ranges)
{
    const kin_index_kept *kept = arg;
    const kin_index_copy *copy = kept->copies[on->gpu->number];
    return copy->resident != NULL
               ? kin_exact_gpu_corpus_radius(on->ctx, copy->resident, query, ranges)
               : kin_tree_gpu_corpus_radius(on->ctx, &copy->planted, query, ranges);
}

/* Its own points ask all pairs, which serve both ends, together. */
static kith_status ask_ranges(kith_ctx *ctx, const kith_index *index,
                              const kin_exact_gpu_radius_query *query, kith_ranges *ranges)
{
    const kith_matrix *points = &index->kept->prepared.rows.matrix;
    const bool graph = query->queries == NULL;
    const kith_matrix *asked = graph ? points : query->queries;
    const kin_exact_gpu_radius_division all = {points, query, find_member, index->kept};
    const bool shared =
        index->method == KITH_METHOD_TREE
            ? kin_tree_gpu_team_radii(index->gpu, asked, query->place)
            : !graph && kin_exact_gpu_team_searches(index->gpu, asked->rows, query->place);
    return kin_exact_gpu_radius_solve(ctx, index->gpu, shared, &all, ranges);
}

static kith_status find_on_gpu(kith_ctx *ctx, const kith_index *index, const kin_radius_call *call,
                               queries_stream stream, kith_ranges *ranges)
{
    const kin_exact_gpu_radius_query query = {call->job.queries, &call->job.request,
                                              kin_radius_place(call)};
    enter_gpu(index);
    kith_status status = stream != NULL ? kin_api_follow(ctx, index->gpu, *stream) : KITH_OK;
    KIN_THEN(status, ask_ranges(ctx, index, &query, ranges));
    status = kin_api_filter_ranges(call, status, ranges);
    KIN_THEN(status, kin_api_send_ranges(ctx, index->gpu, call, ranges));
    KIN_KEEP(status, kin_gpu_wait(ctx, index->gpu));
    kin_device_leave(ctx, index->gpu);
    return status;
}

static kith_status find_ranges(kith_ctx *ctx, const kith_index *index, const kin_radius_call *call,
                               queries_stream stream, kith_ranges *ranges)
{
    const kin_index_kept *kept = index->kept;
    const kin_radius_job *job = &call->job;
    if (index->gpu != NULL) {
        return find_on_gpu(ctx, index, call, stream, ranges);
    }
    const kith_status status =
        index->method == KITH_METHOD_TREE
            ? kin_tree_radius_search(ctx, &kept->prepared, &kept->tree, job->queries, &job->request,
                                     ranges)
            : kin_radius_search(ctx, &kept->prepared, job->queries, &job->request, ranges);
    return kin_api_filter_ranges(call, status, ranges);
}

static kith_status radius(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                          const kith_radius_params *params, queries_stream stream,
                          kith_ranges **out)
{
    const kin_prepared *prepared = &index->kept->prepared;
    kin_radius_call call = {
        .job = {.corpus = prepared->rows.matrix, .request.distance = prepared->distance},
        .there = stream != NULL};
    kith_ranges *ranges = NULL;
    KIN_TRY(kin_check_out(ctx, out));
    KIN_FAIL_IF(index->method == KITH_METHOD_GRAPH, ctx, KITH_E_UNSUPPORTED, kin_at(NULL),
                "an index by graph has no radius (use kith_radius, or an index by exact or tree)");
    KIN_TRY(stream != NULL ? refuse_cpu(ctx, index) : KITH_OK);
    KIN_TRY(kin_api_check_radius(ctx, NULL, queries, params, prepared->distance.metric, &call));
    KIN_TRY(check_method(ctx, index, call.job.method));
    KIN_TRY(stream != NULL ? check_device(ctx, index, &call.asked, NULL) : KITH_OK);
    call.job.request.distance.isa = ctx->isa;
    KIN_TRY(kin_ranges_make(ctx, &ranges));
    return kin_ranges_end(ranges, find_ranges(ctx, index, &call, stream, ranges), out);
}

static kith_status call_radius(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                               const kith_radius_params *params, queries_stream stream,
                               kith_ranges **out)
{
    kin_clear_out(out);
    KIN_INDEX_CALL(ctx, index, radius(ctx, index, queries, params, stream, out), NULL);
}

kith_status kith_index_radius(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                              const kith_radius_params *params, kith_ranges **out)
{
    return call_radius(ctx, index, queries, params, NULL, out);
}

kith_status kith_cuda_index_radius(kith_ctx *ctx, const kith_index *index,
                                   const kith_matrix *queries, const kith_radius_params *params,
                                   kith_ranges **out, void *stream)
{
    return call_radius(ctx, index, queries, params, &stream, out);
}

/* ---- Planned --------------------------------------------------------------------------------- */

static void plan_cpu(const kith_ctx *ctx, const kith_index *index, const kin_knn_job *job,
                     kith_plan *plan)
{
    const kin_plan need = kin_tree_search_plan(&index->kept->tree, job->corpus.rows, &job->queries,
                                               &job->request, ctx->threads);
    plan->prepared_bytes = need.prepared_bytes;
    plan->state_bytes = need.state_bytes;
    plan->peak_bytes = kin_size_add(need.peak_bytes, plan->result_bytes);
}

static void plan_gpu(const kith_index *index, const kin_knn_job *job, kith_plan *plan)
{
    const kith_matrix none = {.rows = 0}; /* the corpus is there */
    kin_gpu_enter(index->gpu);
    const kin_exact_gpu_need need = kin_tree_gpu_corpus_need(
        &index->kept->planted, &job->queries, &job->request, kin_gpu_room(index->gpu));
    kin_api_plan_gpu(index->gpu, &need, plan);
    kin_gpu_leave(index->gpu);
    kin_api_plan_host(&none, &job->queries, &job->request, 0, plan);
}

static kith_status plan(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                        const kith_search_params *params, kith_plan *out)
{
    kin_knn_job job;
    KIN_TRY(kin_check_told(ctx, out, "plan", "kith_plan"));
    KIN_FAIL_IF(index->method != KITH_METHOD_TREE, ctx, KITH_E_UNSUPPORTED, kin_at(NULL),
                "the index is one by %s, and only that by tree has a plan",
                kin_index_method_name(index->method));
    const kith_neighbors shape = {.rows = queries != NULL ? queries->rows : 0,
                                  .k = params != NULL ? params->k : 0};
    KIN_TRY(check_knn(ctx, index, queries, params, &shape, &job));
    kith_plan own = kin_api_plan_begin(ctx, shape.rows, shape.k, "tree");
    KIN_TRY(refuse_missing(ctx, index, &job.request));
    if (index->gpu != NULL) {
        plan_gpu(index, &job, &own);
    } else {
        plan_cpu(ctx, index, &job, &own);
    }
    kin_api_plan_add(&own, kin_limit_bytes(&job.request, shape.rows));
    kin_fill_room(out, &own, sizeof own);
    return KITH_OK;
}

kith_status kith_index_plan(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                            const kith_search_params *params, kith_plan *out)
{
    KIN_INDEX_CALL(ctx, index, plan(ctx, index, queries, params, out), NULL);
}
