/* SPDX-License-Identifier: Apache-2.0
 * The lists of a filtered job: empty, until parts have something for them, and in the end the
 * answer. They are the caller's own arrays where there are such. And lists within a radius, which
 * are found without the filter. */
#include "engine/engine_filter.h"
#include "engine/engine_graph.h"
#include "host/host_threads.h"

enum { ROWS_A_TASK = 1024 };

static kith_status empty_lists(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_filter_run *run = arg;
    const int64_t k = run->request.k;
    const int64_t lists = run->queries->rows.matrix.rows * run->job->lists;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, lists) * k;
    const kith_neighbors slots = {.ids = run->ids, .distances64 = run->far};
    kin_answer_empty(run->request.distance.metric, &slots, task * ROWS_A_TASK * k, last);
    return KITH_OK;
}

/* A list becomes the answer's: its distances, as far as they are within the radius. */
typedef struct telling {
    const kin_filter_run *run;
    const kith_neighbors *out;
} telling;

static kith_status tell_lists(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const telling *t = arg;
    const kin_filter_run *run = t->run;
    const kin_request *asked = &run->job->request;
    const kith_metric metric = asked->distance.metric;
    const int64_t k = run->request.k;
    const int64_t lists = run->queries->rows.matrix.rows * run->job->lists;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, lists) * k;
    for (int64_t i = task * ROWS_A_TASK * k; i < last; i++) {
        double distance = run->far[i];
        if (metric != run->request.distance.metric && run->ids[i] != KITH_ID_NONE) {
            distance = kin_metric_distance(metric, distance);
        }
        if (asked->limited && !kin_metric_within(metric, distance, asked->radius)) {
            run->ids[i] = KITH_ID_NONE;
            distance = kin_filter_nothing(run);
        }
        if (t->out->distances != NULL) {
            t->out->distances[i] = (float)distance;
        }
        run->far[i] = distance;
    }
    return KITH_OK;
}

static kith_status over_lists(kin_filter_run *run, const char *phase, kin_task_fn fn, void *arg)
{
    const int64_t lists = run->queries->rows.matrix.rows * run->job->lists;
    return kin_parallel(run->ctx, phase, kin_ceil_div(lists, ROWS_A_TASK), fn, arg);
}

static kith_status prepare(kin_filter_run *run, const kith_matrix *rows, const char *name,
                           kin_prepared *prepared)
{
    KIN_TRY(kin_prepare_rows(run->ctx, rows, &run->request.distance, name, KIN_ROWS_DISTINCT,
                             prepared));
    kin_prepared_tell(run->ctx, prepared);
    return KITH_OK;
}

kith_status kin_filter_begin(kith_ctx *ctx, const kin_filter_job *job, const kith_neighbors *out,
                             kin_filter_run *run)
{
    *run =
        (kin_filter_run){.ctx = ctx, .job = job, .request = job->request, .threads = ctx->threads};
    run->request.limited = false;
    run->request.distance.metric = kin_metric_of_keys(run->request.distance.metric);
    const double pairs = (double)job->corpus.rows * (double)job->queries.rows;
    const uint64_t entries = kin_size_mul(
        kin_size_mul((uint64_t)job->queries.rows, (uint64_t)job->lists), (uint64_t)job->request.k);
    KIN_TRY(kin_across_is_processors(ctx, &run->request, pairs, &run->knows));
    KIN_TRY(prepare(run, &job->corpus, job->graph ? "points" : "corpus", &run->corpus));
    run->queries = &run->corpus;
    if (!job->graph) {
        run->queries = &run->own_queries;
        KIN_TRY(prepare(run, &job->queries, "queries", &run->own_queries));
    }
    if (out->ids == NULL) {
        KIN_TRY(kin_alloc(ctx, &run->own_ids, entries, sizeof *run->own_ids, "neighbours"));
    }
    if (out->distances64 == NULL) {
        KIN_TRY(kin_alloc(ctx, &run->own_far, entries, sizeof *run->own_far, "neighbours"));
        kin_mem_use_large_pages(ctx, run->own_far);
    }
    run->ids = out->ids != NULL ? out->ids : run->own_ids;
    run->far = out->distances64 != NULL ? out->distances64 : run->own_far;
    return over_lists(run, "prepare", empty_lists, run);
}

static void prepare_plan(kin_layout *plan, const kith_matrix *rows, const kin_distance *distance)
{
    kin_prepare_rows_plan(plan, rows->rows, distance, true, kin_prepare_unknown(rows, distance));
}

void kin_filter_begin_plan(kin_layout *plan, const kin_filter_run *run)
{
    const kin_filter_job *job = run->job;
    const uint64_t entries = kin_size_mul(
        kin_size_mul((uint64_t)job->queries.rows, (uint64_t)job->lists), (uint64_t)job->request.k);
    prepare_plan(plan, &job->corpus, &job->request.distance);
    if (!job->graph) {
        prepare_plan(plan, &job->queries, &job->request.distance);
    }
    kin_layout_alone(plan, entries, sizeof *run->own_ids);
    kin_layout_alone(plan, entries, sizeof *run->own_far);
}

kith_status kin_filter_end(kin_filter_run *run, const kith_neighbors *out, kith_status status)
{
    telling t = {run, out};
    KIN_THEN(status, over_lists(run, "rescore", tell_lists, &t));
    run->ctx->report.exact = KITH_CERTIFIED;
    kin_free(run->ctx, run->own_far);
    kin_free(run->ctx, run->own_ids);
    kin_prepared_free(run->ctx, &run->own_queries);
    kin_prepared_free(run->ctx, &run->corpus);
    return status;
}

/* ---- Within a radius ------------------------------------------------------------------------- */

static void drop_lists(kith_ctx *ctx, kith_lists *lists)
{
    kin_free(ctx, lists->ids);
    kin_free(ctx, lists->distances);
    kin_free(ctx, lists->distances64);
    *lists = (kith_lists){.rows = lists->rows, .offsets = lists->offsets};
}

void kin_filter_ranges(const kith_filter *filter, const int64_t *numbers, bool counts,
                       kith_ranges *ranges)
{
    kith_lists *lists = &ranges->lists;
    int64_t kept = 0;
    int64_t from = 0;
    for (int64_t row = 0; row < lists->rows; row++) {
        const int64_t end = lists->offsets[row + 1];
        for (; from < end; from++) {
            if (kin_filter_admits(filter, numbers, row, lists->ids[from])) {
                lists->ids[kept] = lists->ids[from];
                lists->distances[kept] = lists->distances[from];
                lists->distances64[kept++] = lists->distances64[from];
            }
        }
        lists->offsets[row + 1] = kept;
    }
    if (counts) {
        drop_lists(ranges->ctx, lists);
    }
}
