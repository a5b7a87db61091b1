/* SPDX-License-Identifier: Apache-2.0
 * Pairs within a radius: arguments, checked. */
#include "api/api_check.h"
#include "base/base_try.h"
#include "engine/engine_call.h"
#include "engine/engine_exact.h"
#include "file/file_result.h"

static kith_status check_number(kith_ctx *ctx, const char *name, int64_t number, int64_t most)
{
    KIN_PASS_IF(number >= 0 && number <= most, ctx, KITH_E_ARGUMENT, kin_at(name),
                "is %lld, must be 0 to %lld", (long long)number, (long long)most);
}

static kith_status check_numbers(kith_ctx *ctx, const kith_pairs_params *params, int64_t rows)
{
    KIN_TRY(check_number(ctx, "limit", params->limit, INT64_MAX));
    KIN_TRY(check_number(ctx, "first_row", params->first_row, rows));
    KIN_TRY(check_number(ctx, "chunk_rows", params->chunk_rows, INT64_MAX));
    KIN_TRY(check_number(ctx, "chunk_pairs", params->chunk_pairs, INT64_MAX));
    KIN_TRY(check_number(ctx, "sample", params->sample, INT64_MAX));
    KIN_FAIL_IF(params->keep != KITH_KEEP_FIRST && params->keep != KITH_KEEP_CENTRAL, ctx,
                KITH_E_ARGUMENT, kin_at("keep"), "is %d, which is no kith_keep (use one of those)",
                (int)params->keep);
    return KITH_OK;
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
    KIN_PASS_IF(job->filter.rule != KITH_RULE_EACH, ctx, KITH_E_ARGUMENT, kin_at("rule"),
                "is each, which is of lists (pairs have same and other)");
}

static kith_status check(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *others,
                         const kith_pairs_params *given, kin_pairs_job *job)
{
    kith_pairs_params *params = &job->params;
    *job = (kin_pairs_job){.one_set = others == NULL};
    *params = kith_pairs_params_default();
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_pairs_params, seed), given, params));
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
    KIN_TRY(kin_metric_check(ctx, &job->points, job->distance.metric, "points"));
    KIN_TRY(kin_metric_check_box(ctx, &job->points, &job->distance, "points"));
    if (job->one_set) {
        return KITH_OK;
    }
    KIN_TRY(kin_metric_check(ctx, &job->others, job->distance.metric, "others"));
    return kin_metric_check_box(ctx, &job->others, &job->distance, "others");
}

/* ---- To a file ------------------------------------------------------------------------------- */

typedef struct saving {
    kin_pairs_file file;
    const kith_pairs_params *params; /* the caller's */
    kith_status status;
} saving;

static int save_chunk(void *arg, const kith_pairs *pairs, const double *distances)
{
    saving *s = arg;
    s->status = kin_pairs_file_put(&s->file, pairs, distances);
    return s->status != KITH_OK ||
           (s->params->take != NULL && s->params->take(s->params->take_arg, pairs, distances) != 0);
}

static kith_status find_and_save(kith_ctx *ctx, const kin_pairs_job *job, kith_pairs_report *known)
{
    saving s = {.params = &job->params};
    kin_pairs_job own = *job;
    own.params.take = save_chunk;
    own.params.take_arg = &s;
    KIN_TRY(kin_check_path(ctx, job->params.path));
    KIN_TRY(kin_pairs_file_open(ctx, job->params.path, &s.file));
    const kith_status status = kin_engine_pairs(ctx, &own, known);
    return kin_pairs_file_close(&s.file, status != KITH_OK ? status : s.status);
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
