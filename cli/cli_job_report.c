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
    const kith_ctx_params *used = kith_ctx_get_params(job->session.ctx);
    cli_say_matrix(r, queries == NULL ? "points" : "corpus", job->corpus.path, corpus);
    if (queries != NULL) {
        cli_say_matrix(r, "queries", job->queries.path, queries);
    }
    cli_put(r, TEXT("isa", used->isa), INT("threads", used->threads), INT("n", corpus->rows),
            INT("queries", queries == NULL ? corpus->rows : queries->rows), INT("d", corpus->cols),
            TEXT("dtype", kith_dtype_name(corpus->dtype)));
    cli_tell_text(r, "metric", kith_metric_name(cli_job_metric(job)));
    if (!cli_is_radius_search(job->args)) {
        cli_tell_int(r, "k", job->args->k);
    }
    if (cli_given(job->args, CLI_OPT_RADIUS)) {
        cli_tell(r, "radius: {radius:.17g}\n", NUMBER("radius", job->args->radius));
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
    const bool named = strcmp(backend, "cpu") != 0;
    cli_tell(r, named ? "device: {backend}{and}{gpu}\n" : "", TEXT("backend", backend),
             TEXT(".and", gpu[0] != '\0' ? ", " : ""), TEXT(".gpu", gpu));
}

/* ---- How it is done ------------------------------------------------------------------------- */

static void tell_chunks(cli_report *r, const cli_job *job)
{
    if (job->chunk_rows > 0) {
        cli_tell_object(
            r, "chunks",
            "chunks: {rows} rows each, {solved} solved, {resumed_rows} rows stood already\n",
            INT("rows", job->chunk_rows), INT("solved", job->chunks),
            INT("resumed_rows", job->resumed_rows));
    }
}

static void tell_memory(cli_report *r, const cli_job *job)
{
    const kith_plan *plan = &job->plan;
    const uint64_t least = job->need_bytes - plan->undecided_bytes;
    if (!job->planned) {
        return;
    }
    if (plan->gpu_bytes != 0) {
        cli_tell(r,
                 "gpu memory: planned {planned~} of {budget~} (at least {least~}), batches "
                 "{chunks} x {stripes}\n",
                 UINT(".planned", plan->gpu_bytes), UINT(".budget", plan->gpu_budget_bytes),
                 UINT(".least", plan->gpu_least_bytes), INT(".chunks", plan->gpu_corpus_chunks),
                 INT(".stripes", plan->gpu_query_stripes));
    }
    cli_tell_object(
        r, "plan_bytes",
        least < job->need_bytes
            ? "memory: planned {least~} to {peak~} (prepared {prepared~}, lists {lists~}, result "
              "{result~})\n"
            : "memory: planned {peak~} (prepared {prepared~}, lists {lists~}, result {result~})\n",
        UINT("prepared", plan->prepared_bytes), UINT("lists", plan->state_bytes),
        UINT("result", plan->result_bytes), UINT("peak", job->need_bytes), UINT(".least", least),
        UINT("undecided", plan->undecided_bytes), UINT("gpu", plan->gpu_bytes),
        UINT("gpu_least", plan->gpu_least_bytes), UINT("gpu_budget", plan->gpu_budget_bytes));
}

/* What an exact search has to say of its bounds. */
static void tell_bounds(cli_report *r, const kith_report *report)
{
    cli_tell(r,
             "candidates a row: {candidates:.1f}\nrerun share: {rerun_share:.2%}\n"
             "skipped share: {skipped_share:.2%}\n",
             NUMBER("candidates", report->candidates), NUMBER("rerun_share", report->rerun_share),
             NUMBER("skipped_share", report->skipped_share));
    cli_tell(r,
             report->shadow_axes > 0
                 ? "shadow axes: {shadow_axes}\nlooked share: {looked_share:.2%}\n"
                 : "",
             INT("shadow_axes", report->shadow_axes), NUMBER("looked_share", report->looked_share));
}

/* Where a pipeline divided them. */
static void tell_selected(cli_report *r, const kith_report *report)
{
    if (report->select_cpu_rows + report->select_gpu_rows > 0) {
        cli_tell_object(r, "selected_rows",
                        "rows selected by the processor: {cpu}, by the GPU: {gpu}\n",
                        INT("cpu", report->select_cpu_rows), INT("gpu", report->select_gpu_rows));
    }
}

/* People are told with --verbose. */
static void tell_work(cli_report *r, const cli_job *job)
{
    const kith_report *report = &job->report;
    const kith_ctx_params *used = kith_ctx_get_params(job->session.ctx);
    const bool people = r->people;
    r->people = people && r->verbose;
    tell_backend(r, report->backend, report->gpu);
    cli_tell(r, "method: {method}, screen {screen}, isa {isa}, threads {threads}\n",
             TEXT("method", method_of(job, report->screen)), TEXT("screen", report->screen),
             TEXT("gpu", report->gpu[0] != '\0' ? report->gpu : NULL), TEXT(".isa", used->isa),
             INT(".threads", used->threads));
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
#define UNSAID(what) " (no file says the " what ": it is of unknown exactness to those who read it)"
    return lost[0] != '\0'            ? lost
           : cli_is_filtered(args)    ? UNSAID("filter")
           : cli_job_is_periodic(job) ? UNSAID("period")
           : cli_cuts_lists(args)     ? UNSAID("radius")
                                      : "";
#undef UNSAID
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
        cli_tell(r, "parts: {parts} files beside the one that names them\n",
                 INT(".parts", job->sharded.parts));
    }
    cli_put(r, TEXT("output", args->output));
}

void cli_job_tell(cli_job *job)
{
    const kith_report *of = &job->report;
    cli_report r = cli_report_begin(job->args);
    tell_input(&r, job);
    tell_work(&r, job);
    if (job->engine->pairs != NULL) {
        cli_tell(&r, "{what}: {pairs}\n", TEXT(".what", job->engine->pairs),
                 INT("pairs", job->pairs));
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

void cli_job_tell_plan(cli_job *job)
{
    const kith_plan *plan = &job->plan;
    cli_report r = cli_report_begin(job->args);
    tell_input(&r, job);
    cli_put(&r, BOOL("dry_run", true));
    tell_backend(&r, plan->backend, "");
    cli_tell(&r, "method: {method}, {way}, isa {isa}, threads {threads}\n",
             TEXT("method", method_of(job, plan->method)), TEXT(".way", plan->method),
             TEXT(".isa", plan->isa), INT(".threads", plan->threads));
    cli_descent_tell_choice(&r, job);
    tell_chunks(&r, job);
    tell_memory(&r, job);
    if (job->shard_plan.shards > 0) {
        cli_shards_tell(&r, job, true);
    }
    cli_report_end(&r);
}
