/* SPDX-License-Identifier: Apache-2.0
 * Radius search, and the tables that it gives. A table keeps the context that made it. */
#include "api/api_check.h"

static kith_status check_radii(kith_ctx *ctx, kith_metric metric, const double *radii, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        KIN_FAIL_IF(radii[i] != radii[i] || (radii[i] < 0.0 && !kin_radius_may_be_negative(metric)),
                    ctx, KITH_E_ARGUMENT, kin_at_row("radii", i), "is %g, must be %s", radii[i],
                    kin_radius_may_be_negative(metric) ? "a number" : "a number of at least 0");
    }
    return KITH_OK;
}

/* Lists are found whole, and what the filter forbids is left out. */
static kith_status take_filter(kith_ctx *ctx, const kith_filter *given, kin_radius_call *call)
{
    const bool graph = call->job.queries == NULL;
    kin_filter_job like = {.corpus = call->job.corpus,
                           .queries = graph ? call->job.corpus : call->asked};
    KIN_TRY(kin_api_take_filter(ctx, given, graph, &like));
    KIN_FAIL_IF(like.filter.rule == KITH_RULE_EACH, ctx, KITH_E_ARGUMENT, kin_at("rule"),
                "is each, which is of lists of k (a radius has same and other)");
    call->filter = like.filter;
    call->counts = call->job.request.count_only;
    call->job.request.count_only = false;
    return KITH_OK;
}

kith_status kin_api_filter_ranges(const kin_radius_call *call, kith_status status,
                                  kith_ranges *ranges)
{
    const kith_filter *filter = &call->filter;
    if (status == KITH_OK && filter->struct_size != 0) {
        kin_filter_ranges(filter, call->job.queries == NULL ? filter->groups : filter->query_groups,
                          call->counts, ranges);
    }
    return status;
}

kith_status kin_api_check_radius(kith_ctx *ctx, const kith_matrix *corpus,
                                 const kith_matrix *queries, const kith_radius_params *given,
                                 kith_metric kept, kin_radius_call *call)
{
    kith_radius_params params = kith_radius_params_default();
    kin_radius_job *job = &call->job;
    kin_radius_request *request = &job->request;
    const bool graph = queries == NULL;
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_radius_params, radii), given, &params));
    KIN_TRY(kin_check_flags(ctx, params.flags,
                            KITH_INCLUDE_SELF | (call->there ? KITH_RANGES_ON_DEVICE : 0),
                            "a radius"));
    call->stays = (params.flags & KITH_RANGES_ON_DEVICE) != 0;
    KIN_TRY(kin_check_method(ctx, (int)params.method));
    if (kept == KITH_METRIC_DEFAULT) {
        KIN_TRY(kin_check_matrix(ctx, corpus, graph ? "points" : "corpus", &job->corpus));
        KIN_TRY(KIN_CHECK_METRIC_OF(ctx, &params, job->corpus.cols, &request->distance));
        KIN_TRY(kin_check_period(ctx, params.period, &request->distance));
    } else {
        KIN_TRY(kin_check_same_metric(ctx, params.metric, kept));
        KIN_TRY(kin_refuse_period(ctx, params.period, "an index has its own (leave it out)"));
    }
    if (!graph) {
        KIN_TRY(kin_check_matrix(ctx, queries, "queries", &call->asked));
        KIN_TRY(kin_check_cols(ctx, &job->corpus, "the corpus", &call->asked, "queries"));
        job->queries = &call->asked;
    }
    const kith_metric metric = request->distance.metric;
    if (params.radii == NULL) {
        KIN_TRY(kin_check_radius(ctx, metric, params.radius));
    } else {
        KIN_TRY(
            check_radii(ctx, metric, params.radii, graph ? job->corpus.rows : call->asked.rows));
    }
    request->radius = params.radius;
    request->radii = params.radii;
    request->leaves_self_out = graph && (params.flags & KITH_INCLUDE_SELF) == 0;
    request->count_only = params.count_only != 0;
    job->method = params.method;
    return params.filter == NULL ? KITH_OK : take_filter(ctx, params.filter, call);
}

kith_status kin_ranges_make(kith_ctx *ctx, kith_ranges **ranges)
{
    KIN_TRY(kin_alloc_zero(ctx, ranges, 1, sizeof **ranges, "ranges"));
    (*ranges)->ctx = ctx;
    return KITH_OK;
}

/* What lies on the host as it shall lie on the device. */
typedef struct sending {
    kith_lists lists;
    int64_t total;
    bool counts; /* offsets alone */
} sending;

static void name_lists(kin_layout *layout, void *job)
{
    sending *s = job;
    const uint64_t total = (uint64_t)s->total;
    s->lists.offsets =
        kin_layout_array(layout, (uint64_t)s->lists.rows + 1, sizeof *s->lists.offsets);
    if (!s->counts) {
        s->lists.distances64 = kin_layout_array(layout, total, sizeof *s->lists.distances64);
        s->lists.distances = kin_layout_array(layout, total, sizeof *s->lists.distances);
        s->lists.ids = kin_layout_array(layout, total, sizeof *s->lists.ids);
    }
}

static kith_status send_lists(kith_ctx *ctx, kin_gpu *gpu, const kith_lists *to,
                              const kith_lists *from)
{
    const uint64_t total = (uint64_t)from->offsets[from->rows];
    KIN_TRY(kin_gpu_upload(ctx, gpu, to->offsets, from->offsets,
                           ((uint64_t)from->rows + 1) * sizeof *to->offsets));
    if (from->ids == NULL || total == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_upload(ctx, gpu, to->ids, from->ids, total * sizeof *to->ids));
    KIN_TRY(
        kin_gpu_upload(ctx, gpu, to->distances, from->distances, total * sizeof *to->distances));
    return kin_gpu_upload(ctx, gpu, to->distances64, from->distances64,
                          total * sizeof *to->distances64);
}

kith_status kin_api_send_ranges(kith_ctx *ctx, kin_gpu *gpu, const kin_radius_call *call,
                                kith_ranges *ranges)
{
    if (!call->stays || ranges->gpu != NULL) {
        return KITH_OK;
    }
    sending s = {.lists = ranges->lists,
                 .total = ranges->lists.offsets[ranges->lists.rows],
                 .counts = ranges->lists.ids == NULL};
    void *block = NULL;
    KIN_TRY(kin_gpu_layout_make(ctx, gpu, name_lists, &s, "neighbours within reach", &block));
    kith_status status = send_lists(ctx, gpu, &s.lists, &ranges->lists);
    KIN_THEN(status, kin_gpu_wait(ctx, gpu));
    if (status != KITH_OK) {
        kin_gpu_free(gpu, block);
        return status;
    }
    kin_ranges_clear(ctx, ranges);
    ranges->gpu = gpu;
    ranges->blocks[0] = block;
    ranges->lists = s.lists;
    return KITH_OK;
}

kith_status kin_ranges_end(kith_ranges *ranges, kith_status status, kith_ranges **out)
{
    if (status == KITH_OK) {
        *out = ranges;
    } else {
        kith_ranges_free(ranges);
    }
    return status;
}

static kith_status solve(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                         const kith_radius_params *params, kith_ranges **out)
{
    kin_radius_call call = {0};
    kith_ranges *ranges = NULL;
    KIN_TRY(kin_check_out(ctx, out));
    KIN_TRY(kin_api_check_radius(ctx, corpus, queries, params, KITH_METRIC_DEFAULT, &call));
    KIN_TRY(kin_ranges_make(ctx, &ranges));
    const kith_status status = kin_engine_radius(ctx, &call.job, ranges);
    return kin_ranges_end(ranges, kin_api_filter_ranges(&call, status, ranges), out);
}

kith_status kith_radius(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                        const kith_radius_params *params, kith_ranges **out)
{
    kin_clear_out(out);
    KIN_CALL(ctx, solve(ctx, corpus, queries, params, out));
}

const kith_lists *kith_ranges_lists(const kith_ranges *ranges)
{
    return &ranges->lists;
}

void kith_ranges_free(kith_ranges *ranges)
{
    if (ranges == NULL) {
        return;
    }
    if (ranges->gpu != NULL) {
        kin_gpu_enter(ranges->gpu);
        kin_gpu_free(ranges->gpu, ranges->blocks[0]);
        kin_gpu_free(ranges->gpu, ranges->blocks[1]);
        kin_gpu_leave(ranges->gpu);
        ranges->lists = (kith_lists){0};
    }
    kin_ranges_clear(ranges->ctx, ranges);
    kin_free(ranges->ctx, ranges);
}
