/* SPDX-License-Identifier: Apache-2.0
 * Calls on matrices and values in device memory (kith/kith_cuda.h). The work runs on the context's
 * own stream, behind what the caller's stream holds; it is complete on return. */
#include "kith/kith_cuda.h"

#include "api/api_check.h"

/* CUDA's own name for "the default stream, as one stream": what NULL means to a caller. */
static void *const DEFAULT_STREAM = (void *)0x1;

enum { ON_DEVICE = KIN_GPU_DATA_ON_DEVICE | KIN_GPU_OUT_ON_DEVICE };

kith_status kin_api_find_device(kith_ctx *ctx, const void *address, const char *name,
                                int32_t *device)
{
    const int32_t own = kin_gpu_index_of(address);
    if (address == NULL) {
        return KITH_OK;
    }
    if (kin_gpu_get_module() == NULL) {
        return kin_fail(ctx, KITH_E_UNSUPPORTED, "no GPU can be used: %s", kin_gpu_reason());
    }
    KIN_REFUSE_IF(own < 0, ctx, name,
                  "is no address in device memory (use the function of kith.h for host memory)");
    KIN_REFUSE_IF(*device >= 0 && own != *device, ctx, name,
                  "lies on cuda:%d and data on cuda:%d (copy one to the other's)", (int)own,
                  (int)*device);
    *device = own;
    return KITH_OK;
}

kith_status kin_api_find_out(kith_ctx *ctx, const kith_neighbors *out, int32_t *device)
{
    KIN_TRY(kin_api_find_device(ctx, out->ids, "out.ids", device));
    KIN_TRY(kin_api_find_device(ctx, out->distances, "out.distances", device));
    return kin_api_find_device(ctx, out->distances64, "out.distances64", device);
}

static kith_status find_all(kith_ctx *ctx, const void *points, const void *queries,
                            const kith_neighbors *out, int32_t *device)
{
    *device = -1;
    KIN_TRY(kin_api_find_device(ctx, points, "data", device));
    KIN_TRY(kin_api_find_device(ctx, queries, "queries.data", device));
    return kin_api_find_out(ctx, out, device);
}

/* Waits for the work, frees what it has read (NULL: nothing), and gives the GPU back. */
static kith_status end(kith_ctx *ctx, kin_gpu *gpu, void *block, kith_status status)
{
    KIN_KEEP(status, kin_gpu_wait(ctx, gpu));
    kin_gpu_free(gpu, block);
    kin_device_leave(ctx, gpu);
    return status;
}

kith_status kin_api_check_device(kith_ctx *ctx, int32_t device)
{
    if (ctx->device == KIN_DEVICE_CPU) {
        return kin_fail(ctx, KITH_E_UNSUPPORTED,
                        "the context was made for the device cpu (make one for auto or cuda)");
    }
    KIN_ALLOW_IF(
        ctx->device != KIN_DEVICE_CUDA || ctx->device_index < 0 || ctx->device_index == device, ctx,
        "points", "lie on cuda:%d, the context is for cuda:%d (use a context of that GPU)",
        (int)device, (int)ctx->device_index);
}

kith_status kin_api_follow(kith_ctx *ctx, kin_gpu *gpu, void *stream)
{
    return kin_gpu_follow(ctx, gpu, stream != NULL ? stream : DEFAULT_STREAM);
}

kith_status kin_api_lead(kith_ctx *ctx, kin_gpu *gpu, void *stream)
{
    return kin_gpu_lead(ctx, gpu, stream != NULL ? stream : DEFAULT_STREAM);
}

/* A GPU that was entered works behind what the caller's stream holds; where it cannot, it is given
 * back, and *gpu NULL. */
static kith_status behind(kith_ctx *ctx, void *stream, kin_gpu **gpu)
{
    kin_gpu *entered = *gpu;
    const kith_status status = kin_api_follow(ctx, entered, stream);
    *gpu = status == KITH_OK ? entered : NULL;
    return status == KITH_OK ? KITH_OK : end(ctx, entered, NULL, status);
}

/* The GPU, behind what the caller's stream holds; after success there is an end(). */
static kith_status begin(kith_ctx *ctx, int32_t device, void *stream, kin_gpu **gpu)
{
    KIN_TRY(kin_api_check_device(ctx, device));
    KIN_TRY(kin_device_enter_gpu(ctx, device, gpu));
    return behind(ctx, stream, gpu);
}

static kith_status check_exact(kith_ctx *ctx, const kin_request *request)
{
    KIN_TRY(kin_method_check(ctx, request));
    return kin_method_check_gpu(ctx, request);
}

/* ---- The k nearest within a radius ---------------------------------------------------------- */

static void name_table(kin_layout *layout, void *job)
{
    kin_api_limit *limit = job;
    kin_exact_gpu_outputs_name(layout, limit->out, limit->out->rows, &limit->table);
}

kith_status kin_api_limit_begin(kith_ctx *ctx, const kin_request *request,
                                const kith_neighbors *out, bool by_host, kin_api_limit *limit)
{
    *limit = (kin_api_limit){.out = out, .table = *out, .place = ON_DEVICE};
    if (request->limited || by_host) {
        limit->place = KIN_GPU_DATA_ON_DEVICE;
        KIN_TRY(kin_layout_make(ctx, name_table, limit, "neighbours on their way to the device",
                                &limit->block));
    }
    const kith_status status = kin_limit_begin(ctx, request, &limit->table, &limit->cut);
    if (status != KITH_OK) {
        kin_free(ctx, limit->block);
    }
    return status;
}

/* Nothing was answered. Hands the status on. */
static kith_status limit_drop(kith_ctx *ctx, kin_api_limit *limit, kith_status status)
{
    kin_free(ctx, limit->block);
    return kin_limit_drop(&limit->cut, status);
}

kith_status kin_api_limit_end(kith_ctx *ctx, kin_gpu *gpu, kin_api_limit *limit, kith_status status)
{
    status = kin_limit_end(&limit->cut, status);
    if (status == KITH_OK && limit->block != NULL) {
        status = kin_exact_gpu_outputs_send(ctx, gpu, limit->out, &limit->table);
    }
    kin_free(ctx, limit->block);
    return status;
}

/* ---- Under a filter, whose groups may lie there, too ---------------------------------------- */

static kith_status begin_filter(kith_ctx *ctx, const kin_api_filtering *f, kin_gpu **gpu)
{
    if (f->gpu == NULL) {
        return begin(ctx, f->device, f->stream, gpu);
    }
    kin_gpu_enter(f->gpu);
    f->gpu->peak = f->gpu->held;
    *gpu = f->gpu;
    return behind(ctx, f->stream, gpu);
}

/* A side's numbers of groups lie on the host, or on the device that works. */
static kith_status check_place(kith_ctx *ctx, const kin_gpu *gpu, const int64_t *numbers,
                               const char *name)
{
    int32_t device = gpu->index;
    return kin_gpu_index_of(numbers) < 0 ? KITH_OK
                                         : kin_api_find_device(ctx, numbers, name, &device);
}

static kith_status filter_there(kith_ctx *ctx, kin_gpu *gpu, const kin_api_filtering *f, bool *done)
{
    kin_api_limit limit;
    kin_filter_job job = f->job;
    kin_knn_job asked = kin_filter_without(&job);
    uint32_t *excluded = NULL;
    KIN_TRY(check_place(ctx, gpu, job.filter.groups, "groups"));
    KIN_TRY(check_place(ctx, gpu, job.filter.query_groups, "query_groups"));
    KIN_TRY(kin_api_limit_begin(ctx, &job.request, f->out, false, &limit));
    kith_status status = job.graph ? KITH_OK : kin_api_bring_excluded(ctx, gpu, &asked, &excluded);
    job.request.exclude = asked.request.exclude;
    const kin_filter_place where = {gpu, limit.place, &limit.cut.out};
    KIN_THEN(status, f->there(ctx, f->arg, &job, &where, done));
    KIN_KEEP(status, kin_gpu_wait(ctx, gpu));
    kin_gpu_free(gpu, excluded);
    return *done ? kin_api_limit_end(ctx, gpu, &limit, status) : limit_drop(ctx, &limit, status);
}

/* Of copies in host memory. */
static kith_status filter_here(kith_ctx *ctx, const kin_api_filtering *f,
                               const kin_filter_job *copies)
{
    kin_api_limit limit;
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_api_limit_begin(ctx, &copies->request, f->out, true, &limit));
    kith_status status = kin_engine_filter(ctx, copies, &limit.cut.out);
    KIN_THEN(status, begin_filter(ctx, f, &gpu));
    return gpu == NULL ? limit_drop(ctx, &limit, status)
                       : end(ctx, gpu, NULL, kin_api_limit_end(ctx, gpu, &limit, status));
}

kith_status kin_api_filter(kith_ctx *ctx, const kin_api_filtering *f)
{
    kin_gpu *gpu = NULL;
    kin_filter_job copies = f->job;
    void *corpus = NULL;
    void *queries = NULL;
    bool done = false;
    KIN_HOLD(hold, ctx);
    KIN_TRY(begin_filter(ctx, f, &gpu));
    kith_status status = filter_there(ctx, gpu, f, &done);
    if (!done) {
        copies.corpus = f->on_host != NULL ? *f->on_host : copies.corpus;
        KIN_THEN(status, f->on_host != NULL
                             ? KITH_OK
                             : kin_gpu_fetch_rows(ctx, gpu, &copies.corpus, &corpus));
        KIN_THEN(status,
                 copies.graph ? KITH_OK : kin_gpu_fetch_rows(ctx, gpu, &copies.queries, &queries));
        KIN_THEN(status, kin_filter_fetch(&hold, gpu, &copies));
        KIN_THEN(status, kin_api_check_groups(ctx, &copies));
    }
    copies.queries = copies.graph ? copies.corpus : copies.queries;
    copies.resident = false;
    copies.declined = true;
    status = end(ctx, gpu, NULL, status);
    if (!done) {
        KIN_THEN(status, filter_here(ctx, f, &copies));
    }
    kin_free(ctx, queries);
    kin_free(ctx, corpus);
    return status;
}

/* Where nothing is forbidden, or all is sooner compared pair by pair. */
static kith_status pick_there(kith_ctx *ctx, const void *arg, const kin_filter_job *job,
                              const kin_filter_place *where, bool *done)
{
    const kin_knn_job plain = kin_filter_without(job);
    (void)arg;
    *done = kin_filter_allows_all(&job->filter, job->corpus.rows);
    return *done ? kin_method_knn_on_gpu(ctx, where->gpu, &plain, where->place, where->out)
                 : kin_engine_filter_on_gpu(ctx, job, where, done);
}

/* queries NULL: a graph; params: as kin_take_params has them. */
static kith_status filtered(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                            const kith_search_params *params, const kith_neighbors *out,
                            void *stream)
{
    kin_api_filtering f = {.job.there = true, .out = out, .stream = stream, .there = pick_there};
    KIN_TRY(kin_api_check_filtered(ctx, corpus, queries, params, out, &f.job));
    KIN_TRY(check_exact(ctx, &f.job.request));
    KIN_TRY(find_all(ctx, f.job.corpus.data, f.job.queries.data, out, &f.device));
    KIN_TRY(kin_device_refuse(ctx, &f.job.request.distance));
    return kin_api_filter(ctx, &f);
}

/* ---- Graphs --------------------------------------------------------------------------------- */

static kith_status descend(kith_ctx *ctx, kin_gpu *gpu, const kin_descent_job *job,
                           const kith_neighbors *out, kith_descent_report *report)
{
    kith_descent_report own;
    KIN_TRY(kin_descent_run(ctx, gpu, job, ON_DEVICE, out, &own));
    kin_fill_room(report, &own, sizeof own);
    return KITH_OK;
}

static kith_status solve_knn(kith_ctx *ctx, kin_gpu *gpu, const kin_knn_job *job,
                             const kith_neighbors *out)
{
    kin_api_limit limit;
    KIN_TRY(kin_api_limit_begin(ctx, &job->request, out, false, &limit));
    const kith_status status = kin_method_knn_on_gpu(ctx, gpu, job, limit.place, &limit.cut.out);
    return kin_api_limit_end(ctx, gpu, &limit, status);
}

static kith_status solve(kith_ctx *ctx, kin_gpu *gpu, kin_graph_choice *job,
                         const kith_neighbors *out)
{
    kin_choose_on(ctx, gpu, &job->descent, &job->choice);
    return job->choice.descends ? descend(ctx, gpu, &job->descent, out, job->params.descent_report)
                                : solve_knn(ctx, gpu, &job->exact, out);
}

static kith_status graph(kith_ctx *ctx, const kith_matrix *points, const kith_search_params *given,
                         const kith_neighbors *out, const kith_report *report, void *stream)
{
    kin_graph_choice job;
    kin_gpu *gpu = NULL;
    int32_t index = -1;
    kith_search_params known;
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_report"));
    KIN_TRY(KIN_TAKE(ctx, kith_search_params, flags, given, &known));
    if (known.filter != NULL) {
        return filtered(ctx, points, NULL, &known, out, stream);
    }
    KIN_TRY(kin_api_check_choice(ctx, points, given, ON_DEVICE, out, &job));
    KIN_TRY(job.choice.descends ? KITH_OK : check_exact(ctx, &job.exact.request));
    KIN_TRY(find_all(ctx, points->data, NULL, out, &index));
    KIN_TRY(kin_device_refuse(ctx, job.choice.descends ? &job.descent.request.distance
                                                       : &job.exact.request.distance));
    KIN_TRY(begin(ctx, index, stream, &gpu));
    return end(ctx, gpu, NULL, solve(ctx, gpu, &job, out));
}

kith_status kith_cuda_graph(kith_ctx *ctx, const kith_matrix *points,
                            const kith_search_params *params, const kith_neighbors *out,
                            kith_report *report, void *stream)
{
    KIN_CALL_TOLD(ctx, graph(ctx, points, params, out, report, stream), report);
}

/* ---- Search --------------------------------------------------------------------------------- */

kith_status kin_api_bring_excluded(kith_ctx *ctx, kin_gpu *gpu, kin_knn_job *job, uint32_t **copy)
{
    const uint64_t rows = (uint64_t)job->queries.rows;
    if (job->request.exclude == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_alloc(ctx, gpu, copy, rows, sizeof **copy, "excluded ids"));
    KIN_TRY(kin_gpu_upload(ctx, gpu, *copy, job->request.exclude, rows * sizeof **copy));
    job->request.exclude = *copy;
    return KITH_OK;
}

static kith_status knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                       const kith_search_params *given, const kith_neighbors *out, void *stream)
{
    kin_knn_job job;
    kin_gpu *gpu = NULL;
    uint32_t *excluded = NULL;
    int32_t index = -1;
    kith_search_params known;
    const kith_matrix none = {0};
    KIN_TRY(KIN_TAKE(ctx, kith_search_params, flags, given, &known));
    if (known.filter != NULL) {
        return filtered(ctx, corpus, queries != NULL ? queries : &none, &known, out, stream);
    }
    KIN_TRY(kin_api_check_knn(ctx, corpus, queries, given, out, &job));
    KIN_TRY(check_exact(ctx, &job.request));
    KIN_TRY(find_all(ctx, job.corpus.data, job.queries.data, out, &index));
    KIN_TRY(kin_device_refuse(ctx, &job.request.distance));
    KIN_TRY(begin(ctx, index, stream, &gpu));
    kith_status status = kin_api_bring_excluded(ctx, gpu, &job, &excluded);
    KIN_THEN(status, solve_knn(ctx, gpu, &job, out));
    return end(ctx, gpu, excluded, status);
}

kith_status kith_cuda_search(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                             const kith_search_params *params, const kith_neighbors *out,
                             void *stream)
{
    KIN_CALL(ctx, knn(ctx, corpus, queries, params, out, stream));
}

/* ---- All within a radius -------------------------------------------------------------------- */

static kith_status check_radius(kith_ctx *ctx, const kin_radius_call *call, int32_t *device)
{
    const kin_radius_job *job = &call->job;
    const kin_request like = {.distance = job->request.distance, .method = job->method};
    *device = -1;
    KIN_TRY(kin_method_check(ctx, &like));
    KIN_TRY(kin_method_check_gpu(ctx, &like));
    KIN_TRY(kin_api_find_device(ctx, job->corpus.data, "data", device));
    KIN_TRY(kin_api_find_device(ctx, call->asked.data, "queries.data", device));
    return kin_device_refuse(ctx, &job->request.distance);
}

static kith_status find_ranges(kith_ctx *ctx, const kin_radius_call *call, int32_t device,
                               void *stream, kith_ranges *ranges)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(begin(ctx, device, stream, &gpu));
    kith_status status =
        kin_engine_radius_on_gpu(ctx, gpu, &call->job, kin_radius_place(call), ranges);
    status = kin_api_filter_ranges(call, status, ranges);
    KIN_THEN(status, kin_api_send_ranges(ctx, gpu, call, ranges));
    return end(ctx, gpu, NULL, status);
}

static kith_status radius(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                          const kith_radius_params *params, kith_ranges **out, void *stream)
{
    kin_radius_call call = {.there = true};
    kith_ranges *ranges = NULL;
    int32_t index = -1;
    KIN_TRY(kin_check_out(ctx, out));
    KIN_TRY(kin_api_check_radius(ctx, corpus, queries, params, KITH_METRIC_DEFAULT, &call));
    KIN_TRY(check_radius(ctx, &call, &index));
    KIN_TRY(kin_ranges_make(ctx, &ranges));
    return kin_ranges_end(ranges, find_ranges(ctx, &call, index, stream, ranges), out);
}

kith_status kith_cuda_radius(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                             const kith_radius_params *params, kith_ranges **out, void *stream)
{
    kin_clear_out(out);
    KIN_CALL(ctx, radius(ctx, corpus, queries, params, out, stream));
}

/* ---- Graphs that grow ----------------------------------------------------------------------- */

static kith_status merge(kith_ctx *ctx, const kith_merge_sets *sets,
                         const kith_search_params *params, const kith_neighbors *out,
                         const kith_report *report, void *stream)
{
    kin_merge_job job;
    kin_gpu *gpu = NULL;
    int32_t index = -1;
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_report"));
    KIN_TRY(kin_api_check_merge(ctx, sets, params, ON_DEVICE, out, &job));
    KIN_TRY(find_all(ctx, job.sets.points.data, NULL, out, &index));
    KIN_TRY(kin_api_find_device(ctx, job.sets.graph[0].ids, "graph1.ids", &index));
    KIN_TRY(kin_api_find_device(ctx, job.sets.graph[1].ids, "graph2.ids", &index));
    KIN_TRY(kin_device_refuse(ctx, &job.descent.request.distance));
    KIN_TRY(begin(ctx, index, stream, &gpu));
    return end(ctx, gpu, NULL, descend(ctx, gpu, &job.descent, out, job.params.descent_report));
}

kith_status kith_cuda_graph_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                                  const kith_search_params *params, const kith_neighbors *out,
                                  kith_report *report, void *stream)
{
    KIN_CALL_TOLD(ctx, merge(ctx, sets, params, out, report, stream), report);
}

/* ---- Selection ------------------------------------------------------------------------------ */

static kith_status select_lists(kith_ctx *ctx, const kith_values *values,
                                const kith_select_params *params, const kith_selection *out,
                                void *stream)
{
    kin_select_job job;
    kin_gpu *gpu = NULL;
    int32_t index = -1;
    KIN_TRY(kin_api_check_select(ctx, values, params, out, &job));
    if (job.rows == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_api_find_device(ctx, job.values, "data", &index));
    KIN_TRY(kin_api_find_device(ctx, job.ids, "values.ids", &index));
    KIN_TRY(kin_api_find_device(ctx, job.out_values, "out.values", &index));
    KIN_TRY(kin_api_find_device(ctx, job.out_ids, "out.ids", &index));
    KIN_TRY(kin_api_find_device(ctx, job.out_kth, "out.kth", &index));
    KIN_TRY(begin(ctx, index, stream, &gpu));
    KIN_TRY(end(ctx, gpu, NULL, kin_select_device(ctx, gpu, &job, true)));
    kin_api_select_report(ctx, gpu, &job);
    return KITH_OK;
}

kith_status kith_cuda_select(kith_ctx *ctx, const kith_values *values,
                             const kith_select_params *params, const kith_selection *out,
                             void *stream)
{
    KIN_CALL(ctx, select_lists(ctx, values, params, out, stream));
}
