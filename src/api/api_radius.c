/* SPDX-License-Identifier: Apache-2.0
 * Radius search, and the tables that it gives; and pairs within a distance. A table keeps the
 * context that made it. */
#include "api/api_check.h"

#include "file/file_stream.h"

#include <inttypes.h>

static kith_status check_radii(kith_ctx *ctx, kith_metric metric, const double *radii, int64_t rows)
{
    const bool below_zero = kin_metric_get_traits(metric)->below_zero;
    for (int64_t i = 0; i < rows; i++) {
        KIN_FAIL_IF(radii[i] != radii[i] || (radii[i] < 0.0 && !below_zero), ctx, KITH_E_ARGUMENT,
                    kin_at_row("radii", i), "is %g, must be %s", radii[i],
                    below_zero ? "a number" : "a number of at least 0");
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
    KIN_REFUSE_IF(like.filter.rule == KITH_RULE_EACH, ctx, "rule",
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

/* ---- Pairs within a radius ------------------------------------------------------------------- */

/* Pairs within a radius: arguments, checked. */

static kith_status check_number(kith_ctx *ctx, const char *name, int64_t number, int64_t most)
{
    KIN_ALLOW_IF(number >= 0 && number <= most, ctx, name, "is %lld, must be 0 to %lld",
                 (long long)number, (long long)most);
}

static kith_status check_numbers(kith_ctx *ctx, const kith_pairs_params *params, int64_t rows)
{
    KIN_TRY(check_number(ctx, "limit", params->limit, INT64_MAX));
    KIN_TRY(check_number(ctx, "first_row", params->first_row, rows));
    KIN_TRY(check_number(ctx, "chunk_rows", params->chunk_rows, INT64_MAX));
    KIN_TRY(check_number(ctx, "chunk_pairs", params->chunk_pairs, INT64_MAX));
    KIN_TRY(check_number(ctx, "sample", params->sample, INT64_MAX));
    KIN_ALLOW_IF(params->keep == KITH_KEEP_FIRST || params->keep == KITH_KEEP_CENTRAL, ctx, "keep",
                 "is %d, which is no kith_keep (use one of those)", (int)params->keep);
}

/* Who asks for components, or for rows to keep. */
static kith_status check_components(kith_ctx *ctx, const kin_pairs_job *job)
{
    const kith_pairs_params *params = &job->params;
    if (params->labels == NULL && params->kept == NULL) {
        return KITH_OK;
    }
    const kin_place place = kin_at(params->labels != NULL ? "labels" : "kept");
    KIN_FAIL_IF(!job->one_set, ctx, KITH_E_ARGUMENT, place,
                "is set, and pairs are of two sets (components are of one)");
    KIN_PASS_IF(params->first_row == 0, ctx, KITH_E_ARGUMENT, place,
                "is set, and first_row is %lld (they need all pairs: leave one out)",
                (long long)params->first_row);
}

static kith_status check_filter(kith_ctx *ctx, kin_pairs_job *job)
{
    kin_filter_job like = {.corpus = job->others, .queries = job->points};
    if (job->params.filter == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_api_take_filter(ctx, job->params.filter, job->one_set, &like));
    job->filters = true;
    job->filter = like.filter;
    KIN_ALLOW_IF(job->filter.rule != KITH_RULE_EACH, ctx, "rule",
                 "is each, which is of lists (pairs have same and other)");
}

static kith_status check(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *others,
                         const kith_pairs_params *given, kin_pairs_job *job)
{
    kith_pairs_params *params = &job->params;
    *job = (kin_pairs_job){.one_set = others == NULL};
    KIN_TRY(KIN_TAKE(ctx, kith_pairs_params, seed, given, params));
    KIN_TRY(kin_check_method(ctx, (int)params->method));
    KIN_TRY(kin_check_matrix(ctx, points, "points", &job->points));
    KIN_TRY(kin_check_matrix(ctx, others != NULL ? others : points, "others", &job->others));
    KIN_TRY(kin_check_cols(ctx, &job->points, "points", &job->others, "others"));
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, params, job->points.cols, &job->distance));
    KIN_TRY(kin_check_period(ctx, params->period, &job->distance));
    KIN_TRY(kin_check_radius(ctx, job->distance.metric, params->radius));
    KIN_TRY(check_numbers(ctx, params, job->points.rows));
    KIN_TRY(check_components(ctx, job));
    KIN_TRY(check_filter(ctx, job));
    KIN_TRY(kin_metric_check_box(ctx, &job->points, &job->distance, "points"));
    return job->one_set ? KITH_OK
                        : kin_metric_check_box(ctx, &job->others, &job->distance, "others");
}

/* ---- To a file ------------------------------------------------------------------------------- */

/* What the bytes of the file depend on. */
typedef struct identity {
    kith_fingerprint points;
    kith_fingerprint others;
    uint64_t filter;
    uint64_t period;
    char *text;
} identity;

static kith_status describe(kith_ctx *ctx, const kin_pairs_job *job, identity *id)
{
    char points[KIN_FINGERPRINT_TEXT];
    char others[KIN_FINGERPRINT_TEXT];
    char radius[32] = "";
    const kith_pairs_params *p = &job->params;
    const char *more = p->job != NULL ? p->job : "";
    const double *period = job->distance.period;
    if (job->filters) {
        id->filter = kin_filter_sum(&job->filter, job->others.rows, job->points.rows);
    }
    if (period != NULL) {
        id->period = kin_checksum_of(period, (uint64_t)job->points.cols * sizeof *period);
    }
    KIN_C_NUMBERS();
    (void)kin_number_print(radius, sizeof radius, p->radius, false);
    return kin_alloc_text(ctx, &id->text, "a job's lines",
                          "kith %s, pairs of %s within %s %s\npoints %s\nothers %s\n"
                          "filter %d, rule %d, %016" PRIx64 "\nperiod %016" PRIx64 "\n"
                          "first row %" PRId64 ", limit %" PRId64 "\n%s%s",
                          kith_version(), job->one_set ? "one set" : "two sets", radius,
                          kith_metric_name(job->distance.metric),
                          kin_fingerprint_print(&id->points, points),
                          kin_fingerprint_print(&id->others, others), job->filters,
                          (int)job->filter.rule, id->filter, id->period, p->first_row, p->limit,
                          more, more[0] != '\0' && more[strlen(more) - 1] != '\n' ? "\n" : "");
}

static kith_status open_file(kith_ctx *ctx, const kin_pairs_job *job, kin_pairs_file *file)
{
    const char *path = job->params.path;
    /* A function of the caller's cannot be told from another, unless he says so. */
    const bool is_unknown = job->distance.metric == KITH_CUSTOM && job->params.job == NULL;
    kin_pairs_about about = {.job = "",
                             .rows = job->points.rows,
                             .first_row = job->params.first_row,
                             .meta = kith_result_meta_default(),
                             .one_set = job->one_set,
                             .restart = job->params.restart != 0 || is_unknown};
    identity id = {.text = NULL};
    KIN_HOLD(hold, ctx);
    KIN_REFUSE_IF(job->params.restart != 0 && !kin_pairs_file_resumes(path), ctx, "restart",
                  "is set, and text begins anew in any case: .npy and .kith go on (leave it out)");
    if (kin_pairs_file_resumes(path)) {
        KIN_TRY(kin_fingerprint_make(ctx, &job->points, &id.points));
        id.others = id.points;
        KIN_TRY(job->one_set ? KITH_OK : kin_fingerprint_make(ctx, &job->others, &id.others));
        KIN_TRY(describe(ctx, job, &id));
        kin_hold_block(&hold, id.text);
        about.job = id.text;
    }
    about.meta.metric = job->distance.metric;
    about.meta.corpus_rows = job->others.rows;
    about.meta.points = id.others;
    return kin_pairs_file_open(ctx, path, &about, file);
}

static kith_status find_and_save(kith_ctx *ctx, const kin_pairs_job *job, kith_pairs_report *known)
{
    kin_pairs_file file;
    kin_pairs_job own = *job;
    own.file = &file;
    KIN_TRY(kin_check_path(ctx, job->params.path));
    KIN_TRY(open_file(ctx, job, &file));
    const kith_status status = kin_engine_pairs(ctx, &own, known);
    if (known->complete != 0 && !job->filters && job->params.first_row == 0) {
        file.about.meta.exact = KITH_CERTIFIED; /* these are all pairs */
    }
    return kin_pairs_file_close(&file, status);
}

static kith_status find(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *others,
                        const kith_pairs_params *params, kith_pairs_report *report)
{
    kin_pairs_job job;
    kith_pairs_report known = {.struct_size = sizeof known};
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_pairs_report"));
    KIN_TRY(check(ctx, points, others, params, &job));
    KIN_TRY(job.params.path != NULL ? find_and_save(ctx, &job, &known)
                                    : kin_engine_pairs(ctx, &job, &known));
    kin_fill_room(report, &known, sizeof known);
    return KITH_OK;
}

kith_status kith_pairs_find(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *others,
                            const kith_pairs_params *params, kith_pairs_report *report)
{
    KIN_CALL(ctx, find(ctx, points, others, params, report));
}

/* ---- The plan ------------------------------------------------------------------------------- */

static kith_status plan_pairs(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *others,
                              const kith_pairs_params *params, kith_pairs_plan *plan)
{
    kin_pairs_job job;
    kith_pairs_plan known = {.struct_size = sizeof known};
    KIN_TRY(kin_check_told(ctx, plan, "plan", "kith_pairs_plan"));
    KIN_TRY(check(ctx, points, others, params, &job));
    KIN_TRY(kin_engine_pairs_plan(ctx, &job, &known));
    kin_fill_room(plan, &known, sizeof known);
    return KITH_OK;
}

kith_status kith_plan_pairs(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *others,
                            const kith_pairs_params *params, kith_pairs_plan *plan)
{
    KIN_CALL(ctx, plan_pairs(ctx, points, others, params, plan));
}

/* ---- From a file ----------------------------------------------------------------------------- */

static kith_status read_pairs(kith_ctx *ctx, const char *path, kith_pairs_fn take, void *take_arg,
                              kith_pairs_report *report)
{
    kith_pairs_report known = {.struct_size = sizeof known};
    KIN_TRY(kin_check_path(ctx, path));
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_pairs_report"));
    KIN_TRY(kin_pairs_read(ctx, path, take, take_arg, &known));
    kin_fill_room(report, &known, sizeof known);
    return KITH_OK;
}

kith_status kith_pairs_read(kith_ctx *ctx, const char *path, kith_pairs_fn take, void *take_arg,
                            kith_pairs_report *report)
{
    KIN_CALL(ctx, read_pairs(ctx, path, take, take_arg, report));
}
