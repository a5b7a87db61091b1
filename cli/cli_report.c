/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_report.h"

#include "cli_descent.h"
#include "cli_message.h"
#include "cli_seconds.h"
#include "cli_shards.h"
#include "cli_source.h"
#include "cli_walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_verbose(const cli_job *job)
{
    return cli_given(job->args, CLI_OPT_VERBOSE);
}

/* The steps of a job that have a time. */
enum { STEPS = 8 };

static void list_steps(const cli_job *job, cli_step steps[STEPS])
{
    const kith_report *r = &job->report;
    int count = 0;
    steps[count++] = (cli_step){"read", job->seconds_read};
    steps[count++] = (cli_step){"check", r->seconds_check};
    steps[count++] = (cli_step){"prepare", r->seconds_prepare};
    steps[count++] = (cli_step){"screen", r->seconds_screen};
    if (r->seconds_select > 0.0) {
        steps[count++] = (cli_step){"select", r->seconds_select};
    }
    steps[count++] = (cli_step){"rescore", r->seconds_rescore};
    steps[count++] = (cli_step){"write", job->seconds_write};
    steps[count] = (cli_step){NULL, 0.0};
}

/* ---- For people ----------------------------------------------------------------------------- */

static void print_points(const char *name, const cli_points *points)
{
    (void)printf("%s: %s, %" PRId64 " x %" PRId32 " %s\n", name, cli_message_safe(points->path),
                 points->matrix->rows, points->matrix->cols,
                 kith_dtype_name(points->matrix->dtype));
}

static void print_input(const cli_job *job)
{
    cli_source_print();
    if (job->queries.matrix == NULL) {
        print_points("points", &job->corpus);
    } else {
        print_points("corpus", &job->corpus);
        print_points("queries", &job->queries);
    }
    (void)printf("metric: %s\n", kith_metric_name(cli_job_metric(job)));
    if (!cli_is_radius_search(job->args)) {
        (void)printf("k: %" PRId64 "\n", job->args->k);
    }
    if (cli_given(job->args, CLI_OPT_RADIUS)) {
        (void)printf("radius: %.17g\n", job->args->radius);
    }
}

static void print_memory(const cli_job *job)
{
    char text[5][CLI_SIZE_BYTES];
    const uint64_t least = job->need_bytes - job->plan.undecided_bytes;
    if (job->planned && job->plan.gpu_bytes != 0) {
        (void)printf("gpu memory: planned %s of %s (at least %s), batches %" PRId64 " x %" PRId64
                     "\n",
                     cli_message_size(job->plan.gpu_bytes, text[0]),
                     cli_message_size(job->plan.gpu_budget_bytes, text[1]),
                     cli_message_size(job->plan.gpu_least_bytes, text[2]),
                     job->plan.gpu_corpus_chunks, job->plan.gpu_query_stripes);
    }
    if (job->planned) {
        (void)printf("memory: planned %s%s%s (prepared %s, lists %s, result %s)\n",
                     least < job->need_bytes ? cli_message_size(least, text[4]) : "",
                     least < job->need_bytes ? " to " : "",
                     cli_message_size(job->need_bytes, text[0]),
                     cli_message_size(job->plan.prepared_bytes, text[1]),
                     cli_message_size(job->plan.state_bytes, text[2]),
                     cli_message_size(job->plan.result_bytes, text[3]));
    }
}

static void print_chunks(const cli_job *job)
{
    if (job->chunk_rows > 0) {
        (void)printf("chunks: %" PRId64 " rows each, %" PRId64 " solved, %" PRId64
                     " rows stood already\n",
                     job->chunk_rows, job->chunks, job->resumed_rows);
    }
}

/* Nothing where it is the processor: the line of the method names its instruction set. */
static void print_backend(const char *backend, const char *gpu)
{
    if (strcmp(backend, "cpu") != 0) {
        (void)printf("device: %s%s%s\n", backend, gpu[0] != '\0' ? ", " : "", gpu);
    }
}

static void print_output(const cli_job *job)
{
    const char *const paths[] = {job->args->output, job->args->output_back, job->args->distances};
    for (int i = 0; i < 3; i++) {
        if (paths[i] != NULL) {
            (void)printf("output: %s%s\n", cli_message_safe(paths[i]),
                         i < 2 ? cli_claim_lost(paths[i], job->args->format) : "");
        }
    }
    if (job->sharded.parts > 0) {
        (void)printf("parts: %" PRId32 " files beside the one that names them\n",
                     job->sharded.parts);
    }
}

/* The engine, as --method names it. */
static const char *method_of(const cli_job *job, const char *screen)
{
    return job->graph != NULL            ? "graph"
           : job->descends               ? "descent"
           : strcmp(screen, "tree") == 0 ? "tree"
                                         : "exact";
}

/* What an exact search has to say of its bounds. */
static void print_bounds(const kith_report *report)
{
    (void)printf("candidates a row: %.1f\n", report->candidates);
    (void)printf("rerun share: %.2f %%\n", 100.0 * report->rerun_share);
    (void)printf("skipped share: %.2f %%\n", 100.0 * report->skipped_share);
}

/* With --verbose: how it was done, and what that took. */
static void print_work(const cli_job *job)
{
    const kith_report *report = &job->report;
    print_backend(report->backend, report->gpu);
    (void)printf("method: %s, screen %s, isa %s, threads %" PRId32 "\n",
                 method_of(job, report->screen), report->screen, kith_ctx_isa(job->session.ctx),
                 kith_ctx_threads(job->session.ctx));
    print_chunks(job);
    print_memory(job);
    cli_peak_print(report->gpu_peak_bytes);
    cli_descent_print_choice(job);
    if (job->graph != NULL) {
        cli_walk_print(job);
    } else if (job->sharded.shards > 0) {
        cli_shards_print(job, false);
    } else if (job->descends) {
        cli_descent_print_rounds(job);
    } else {
        print_bounds(report);
    }
    if (report->select_cpu_rows + report->select_gpu_rows > 0) {
        (void)printf("rows selected by the processor: %" PRId64 ", by the GPU: %" PRId64 "\n",
                     report->select_cpu_rows, report->select_gpu_rows);
    }
}

static void print_exactness(const cli_job *job)
{
    cli_claim_print(job->exact, &job->points);
    if (job->graph != NULL) {
        cli_walk_print_recall(job);
    } else if (job->descends) {
        cli_descent_print_recall(job);
    }
}

static void print_done(const cli_job *job, const cli_engine *engine)
{
    cli_step steps[STEPS];
    if (is_verbose(job)) {
        print_work(job);
    }
    if (engine->pairs != NULL) {
        (void)printf("%s: %" PRId64 "\n", engine->pairs, job->pairs);
    }
    print_exactness(job);
    list_steps(job, steps);
    cli_seconds_print(steps, job->session.start, is_verbose(job));
    print_output(job);
}

/* ---- For programs --------------------------------------------------------------------------- */

static void put_input(const cli_job *job, const char *backend, const char *screen, cli_json *json)
{
    const kith_matrix *corpus = job->corpus.matrix;
    const kith_matrix *queries = job->queries.matrix;
    cli_json_text(json, "method", method_of(job, screen));
    cli_json_text(json, "backend", backend);
    cli_json_text(json, "isa", kith_ctx_isa(job->session.ctx));
    cli_json_int(json, "threads", kith_ctx_threads(job->session.ctx));
    cli_json_int(json, "n", corpus->rows);
    cli_json_int(json, "queries", queries == NULL ? corpus->rows : queries->rows);
    cli_json_int(json, "d", corpus->cols);
    cli_json_text(json, "dtype", kith_dtype_name(corpus->dtype));
    if (!cli_is_radius_search(job->args)) {
        cli_json_int(json, "k", job->args->k);
    }
    if (cli_given(job->args, CLI_OPT_RADIUS)) {
        cli_json_number(json, "radius", job->args->radius);
    }
    cli_json_text(json, "metric", kith_metric_name(cli_job_metric(job)));
}

static void put_plan(const cli_job *job, cli_json *json)
{
    if (job->planned) {
        cli_json_open(json, "plan_bytes");
        cli_json_uint(json, "prepared", job->plan.prepared_bytes);
        cli_json_uint(json, "lists", job->plan.state_bytes);
        cli_json_uint(json, "result", job->plan.result_bytes);
        cli_json_uint(json, "peak", job->need_bytes);
        cli_json_uint(json, "undecided", job->plan.undecided_bytes);
        cli_json_uint(json, "gpu", job->plan.gpu_bytes);
        cli_json_uint(json, "gpu_least", job->plan.gpu_least_bytes);
        cli_json_uint(json, "gpu_budget", job->plan.gpu_budget_bytes);
        cli_json_close(json);
    }
}

static void put_chunks(const cli_job *job, cli_json *json)
{
    if (job->chunk_rows > 0) {
        cli_json_open(json, "chunks");
        cli_json_int(json, "rows", job->chunk_rows);
        cli_json_int(json, "solved", job->chunks);
        cli_json_int(json, "resumed_rows", job->resumed_rows);
        cli_json_close(json);
    }
}

/* Where a pipeline divided them. */
static void put_selected(const cli_job *job, cli_json *json)
{
    if (job->report.select_cpu_rows + job->report.select_gpu_rows > 0) {
        cli_json_open(json, "selected_rows");
        cli_json_int(json, "cpu", job->report.select_cpu_rows);
        cli_json_int(json, "gpu", job->report.select_gpu_rows);
        cli_json_close(json);
    }
}

static void put_done(const cli_job *job, const cli_engine *engine, cli_json *json)
{
    cli_step steps[STEPS];
    cli_claim_put(job->exact, &job->points, json);
    cli_json_text(json, "screen", job->report.screen);
    cli_json_text(json, "gpu", job->report.gpu[0] != '\0' ? job->report.gpu : NULL);
    list_steps(job, steps);
    cli_seconds_put(steps, job->session.start, json);
    cli_peak_put(job->report.gpu_peak_bytes, json);
    put_chunks(job, json);
    put_plan(job, json);
    put_selected(job, json);
    cli_descent_put_choice(job, json);
    if (job->graph != NULL) {
        cli_walk_put(job, json);
    } else if (job->sharded.shards > 0) {
        cli_shards_put(job, false, json);
    } else if (job->descends) {
        cli_descent_put(job, json);
    } else {
        cli_json_number(json, "candidates", job->report.candidates);
        cli_json_number(json, "rerun_share", job->report.rerun_share);
        cli_json_number(json, "skipped_share", job->report.skipped_share);
    }
    cli_json_int(json, "distinct_rows", job->report.distinct_rows);
    if (engine->pairs != NULL) {
        cli_json_int(json, "pairs", job->pairs);
    }
    cli_json_text(json, "output", job->args->output);
}

void cli_report_print(const cli_job *job, const cli_engine *engine)
{
    if (cli_given(job->args, CLI_OPT_JSON)) {
        cli_json json;
        cli_json_begin(&json, cli_command_get(job->args->command)->name);
        put_input(job, job->report.backend, job->report.screen, &json);
        put_done(job, engine, &json);
        cli_source_put(&json);
        cli_json_end(&json);
    } else if (!cli_given(job->args, CLI_OPT_QUIET)) {
        print_input(job);
        print_done(job, engine);
    }
}

void cli_report_print_plan(const cli_job *job)
{
    if (cli_given(job->args, CLI_OPT_JSON)) {
        cli_json json;
        cli_json_begin(&json, cli_command_get(job->args->command)->name);
        put_input(job, job->plan.backend, job->plan.method, &json);
        cli_json_bool(&json, "dry_run", true);
        cli_descent_put_choice(job, &json);
        put_chunks(job, &json);
        put_plan(job, &json);
        if (job->shard_plan.shards > 0) {
            cli_shards_put(job, true, &json);
        }
        cli_source_put(&json);
        cli_json_end(&json);
        return;
    }
    print_input(job);
    print_backend(job->plan.backend, "");
    (void)printf("method: %s, %s, isa %s, threads %" PRId32 "\n", method_of(job, job->plan.method),
                 job->plan.method, job->plan.isa, job->plan.threads);
    cli_descent_print_choice(job);
    print_chunks(job);
    print_memory(job);
    if (job->shard_plan.shards > 0) {
        cli_shards_print(job, true);
    }
}
