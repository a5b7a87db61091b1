/* SPDX-License-Identifier: Apache-2.0
 * What graph and search say when they are done, and what of a plan. */
#include "cli.h"
#include "cli_descent.h"
#include "cli_part.h"

#include <inttypes.h>
#include <string.h>

/* ---- What was asked ------------------------------------------------------------------------- */

static void tell_input(cli_report *r, const cli_job *job)
{
    const kith_matrix *corpus = job->corpus.matrix;
    const kith_matrix *queries = job->queries.matrix;
    cli_say_matrix(r, queries == NULL ? "points" : "corpus", job->corpus.path, corpus);
    if (queries != NULL) {
        cli_say_matrix(r, "queries", job->queries.path, queries);
    }
    cli_put(r, TEXT("isa", kith_ctx_get_params(job->session.ctx)->isa),
            INT("threads", kith_ctx_get_params(job->session.ctx)->threads), INT("n", corpus->rows),
            INT("queries", queries == NULL ? corpus->rows : queries->rows), INT("d", corpus->cols),
            TEXT("dtype", kith_dtype_name(corpus->dtype)));
    cli_tell_text(r, "metric", kith_metric_name(cli_job_metric(job)));
    if (!cli_is_radius_search(job->args)) {
        cli_tell_int(r, "k", job->args->k);
    }
    if (cli_given(job->args, CLI_OPT_RADIUS)) {
        cli_say(r, "radius: %.17g\n", job->args->radius);
        cli_put(r, NUMBER("radius", job->args->radius));
    }
    if (job->args->period != NULL) {
        cli_tell_text(r, "period", job->args->period);
    }
    cli_part_tell(r, job);
}

/* The engine, as --method names it. */
static const char *method_of(const cli_job *job, const char *screen)
{
    return cli_is_graph_search(job->args) ? "graph"
           : job->descends                ? "descent"
           : strcmp(screen, "tree") == 0  ? "tree"
                                          : "exact";
}

/* Nothing where it is the processor: the line of the method names its instruction set. */
static void tell_backend(cli_report *r, const char *backend, const char *gpu)
{
    if (strcmp(backend, "cpu") != 0) {
        cli_say(r, "device: %s%s%s\n", backend, gpu[0] != '\0' ? ", " : "", gpu);
    }
    cli_put(r, TEXT("backend", backend));
}

/* ---- How it is done ------------------------------------------------------------------------- */

static void tell_chunks(cli_report *r, const cli_job *job)
{
    if (job->chunk_rows > 0) {
        cli_say(r,
                "chunks: %" PRId64 " rows each, %" PRId64 " solved, %" PRId64
                " rows stood already\n",
                job->chunk_rows, job->chunks, job->resumed_rows);
        cli_put_object(r, "chunks", INT("rows", job->chunk_rows), INT("solved", job->chunks),
                       INT("resumed_rows", job->resumed_rows));
    }
}

static void tell_memory(cli_report *r, const cli_job *job)
{
    char text[5][CLI_SIZE_BYTES];
    const kith_plan *plan = &job->plan;
    const uint64_t least = job->need_bytes - plan->undecided_bytes;
    if (!job->planned) {
        return;
    }
    if (plan->gpu_bytes != 0) {
        cli_say(r,
                "gpu memory: planned %s of %s (at least %s), batches %" PRId64 " x %" PRId64 "\n",
                cli_message_size(plan->gpu_bytes, text[0]),
                cli_message_size(plan->gpu_budget_bytes, text[1]),
                cli_message_size(plan->gpu_least_bytes, text[2]), plan->gpu_corpus_chunks,
                plan->gpu_query_stripes);
    }
    cli_say(r, "memory: planned %s%s%s (prepared %s, lists %s, result %s)\n",
            least < job->need_bytes ? cli_message_size(least, text[4]) : "",
            least < job->need_bytes ? " to " : "", cli_message_size(job->need_bytes, text[0]),
            cli_message_size(plan->prepared_bytes, text[1]),
            cli_message_size(plan->state_bytes, text[2]),
            cli_message_size(plan->result_bytes, text[3]));
    cli_put_object(r, "plan_bytes", UINT("prepared", plan->prepared_bytes),
                   UINT("lists", plan->state_bytes), UINT("result", plan->result_bytes),
                   UINT("peak", job->need_bytes), UINT("undecided", plan->undecided_bytes),
                   UINT("gpu", plan->gpu_bytes), UINT("gpu_least", plan->gpu_least_bytes),
                   UINT("gpu_budget", plan->gpu_budget_bytes));
}

/* What an exact search has to say of its bounds. */
static void tell_bounds(cli_report *r, const kith_report *report)
{
    cli_say(r, "candidates a row: %.1f\nrerun share: %.2f %%\nskipped share: %.2f %%\n",
            report->candidates, 100.0 * report->rerun_share, 100.0 * report->skipped_share);
    cli_put(r, NUMBER("candidates", report->candidates), NUMBER("rerun_share", report->rerun_share),
            NUMBER("skipped_share", report->skipped_share));
    if (report->shadow_axes > 0) {
        cli_say(r, "shadow axes: %" PRId32 "\nlooked share: %.2f %%\n", report->shadow_axes,
                100.0 * report->looked_share);
    }
    cli_put(r, INT("shadow_axes", report->shadow_axes),
            NUMBER("looked_share", report->looked_share));
}

/* Where a pipeline divided them. */
static void tell_selected(cli_report *r, const kith_report *report)
{
    if (report->select_cpu_rows + report->select_gpu_rows > 0) {
        cli_say(r, "rows selected by the processor: %" PRId64 ", by the GPU: %" PRId64 "\n",
                report->select_cpu_rows, report->select_gpu_rows);
        cli_put_object(r, "selected_rows", INT("cpu", report->select_cpu_rows),
                       INT("gpu", report->select_gpu_rows));
    }
}

/* People are told with --verbose. */
static void tell_work(cli_report *r, const cli_job *job)
{
    const kith_report *report = &job->report;
    const bool people = r->people;
    r->people = people && r->verbose;
    tell_backend(r, report->backend, report->gpu);
    cli_say(r, "method: %s, screen %s, isa %s, threads %" PRId32 "\n",
            method_of(job, report->screen), report->screen,
            kith_ctx_get_params(job->session.ctx)->isa,
            kith_ctx_get_params(job->session.ctx)->threads);
    cli_put(r, TEXT("method", method_of(job, report->screen)), TEXT("screen", report->screen),
            TEXT("gpu", report->gpu[0] != '\0' ? report->gpu : NULL));
    tell_chunks(r, job);
    tell_memory(r, job);
    cli_tell_peak(r, report->gpu_peak_bytes, 0);
    cli_descent_tell_choice(r, job);
    if (cli_is_graph_search(job->args)) {
        cli_walk_tell(r, job);
    } else if (job->sharded.shards > 0) {
        cli_shards_tell(r, job, false);
    } else if (job->descends) {
        cli_descent_tell(r, job);
    } else {
        tell_bounds(r, report);
    }
    tell_selected(r, report);
    cli_put(r, INT("distinct_rows", report->distinct_rows));
    r->people = people;
}

/* ---- The answer ----------------------------------------------------------------------------- */

static const char *lost_in(const cli_job *job, const char *path)
{
    const cli_args *args = job->args;
    const char *lost = cli_claim_lost(path, args->format);
    if (lost[0] == '\0' && cli_is_filtered(args)) {
        return " (no file says the filter: it is of unknown exactness to those who read it)";
    }
    if (lost[0] == '\0' && cli_job_is_periodic(job)) {
        return " (no file says the period: it is of unknown exactness to those who read it)";
    }
    return lost[0] == '\0' && cli_cuts_lists(args)
               ? " (no file says the radius: it is of unknown exactness to those who read it)"
               : lost;
}

static void tell_output(cli_report *r, const cli_job *job)
{
    const cli_args *args = job->args;
    const char *const paths[] = {args->output, args->output_back, args->distances};
    for (int i = 0; i < 3; i++) {
        if (paths[i] != NULL) {
            cli_say(r, "output: %s%s\n", cli_message_safe(paths[i]),
                    i < 2 ? lost_in(job, paths[i]) : "");
        }
    }
    if (paths[0] == NULL && paths[2] == NULL) {
        cli_say(r, "output: none (-o FILE keeps the answer)\n");
    }
    if (job->sharded.parts > 0) {
        cli_say(r, "parts: %" PRId32 " files beside the one that names them\n", job->sharded.parts);
    }
    cli_put(r, TEXT("output", args->output));
}

void cli_job_tell(const cli_job *job, const cli_engine *engine)
{
    const kith_report *of = &job->report;
    cli_report r = cli_report_begin(job->args);
    tell_input(&r, job);
    tell_work(&r, job);
    if (engine->pairs != NULL) {
        cli_say(&r, "%s: %" PRId64 "\n", engine->pairs, job->pairs);
        cli_put(&r, INT("pairs", job->pairs));
    }
    cli_tell_claim(&r, job->exact, &job->points);
    if (cli_is_graph_search(job->args)) {
        cli_walk_say_recall(&r, job);
    } else if (job->descends) {
        cli_descent_say_recall(&r, job);
    }
    cli_tell_seconds(&r, job->session.start, NUMBER("read", job->seconds_read),
                     NUMBER("check", of->seconds_check), NUMBER("prepare", of->seconds_prepare),
                     NUMBER("screen", of->seconds_screen),
                     NUMBER(of->seconds_select > 0.0 ? "select" : NULL, of->seconds_select),
                     NUMBER("rescore", of->seconds_rescore), NUMBER("write", job->seconds_write));
    tell_output(&r, job);
    cli_report_end(&r);
}

void cli_job_tell_plan(const cli_job *job)
{
    const kith_plan *plan = &job->plan;
    cli_report r = cli_report_begin(job->args);
    tell_input(&r, job);
    cli_put(&r, BOOL("dry_run", true));
    tell_backend(&r, plan->backend, "");
    cli_say(&r, "method: %s, %s, isa %s, threads %" PRId32 "\n", method_of(job, plan->method),
            plan->method, plan->isa, plan->threads);
    cli_put(&r, TEXT("method", method_of(job, plan->method)));
    cli_descent_tell_choice(&r, job);
    tell_chunks(&r, job);
    tell_memory(&r, job);
    if (job->shard_plan.shards > 0) {
        cli_shards_tell(&r, job, true);
    }
    cli_report_end(&r);
}
