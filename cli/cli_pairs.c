/* SPDX-License-Identifier: Apache-2.0
 * kith pairs: every pair of rows within a radius, written as it is found, counted, or made into
 * components and rows to keep. Of two sets the second one is the corpus of a filter. */
#include "cli.h"
#include "cli_output.h"
#include "cli_work.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct pairing {
    cli_job job; /* corpus: the last file; queries: the first one of two */
    kith_pairs_params params;
    kith_pairs_report report;
    kith_pairs_plan plan;
    uint32_t *labels; /* NULL: nobody asks for components */
    uint8_t *kept;    /* NULL: nobody asks */
    int64_t components;
    int64_t kept_rows;
} pairing;

static bool is_one_set(const pairing *p)
{
    return p->job.args->path_count == 1;
}

static const cli_points *points_of(const pairing *p)
{
    return is_one_set(p) ? &p->job.corpus : &p->job.queries;
}

/* NULL: of one set there are none. */
static const kith_matrix *others_of(const pairing *p)
{
    return is_one_set(p) ? NULL : p->job.corpus.matrix;
}

static int check(pairing *p, kith_status status)
{
    const char *last = p->job.corpus.path;
    return cli_session_check_files(&p->job.session, status, points_of(p)->path, {"others", last, 0},
                                   {"groups", last, 0});
}

/* ---- Before --------------------------------------------------------------------------------- */

static int read_all(cli_job *job)
{
    const cli_args *args = job->args;
    CLI_TRY(cli_session_read(&job->session, args->paths[args->path_count - 1], &job->corpus));
    if (!is_one_set(job->own)) {
        CLI_TRY(cli_session_read(&job->session, args->paths[0], &job->queries));
        CLI_TRY(cli_points_check_like(job->corpus.path, job->corpus.matrix, job->queries.path,
                                      job->queries.matrix, false));
    }
    CLI_TRY(cli_period_make(args, job->corpus.matrix->cols, &job->period));
    return cli_filter_read(job);
}

/* Told of each chunk. The next one takes about as long, or is the last. */
static int show(void *arg, const kith_pairs *pairs, const double *distances)
{
    (void)distances;
    pairing *p = arg;
    const double rows = (double)points_of(p)->matrix->rows;
    const double left = 1.0 - ((double)pairs->query_ids[pairs->count - 1] + 1.0) / rows;
    const double ahead = is_one_set(p) ? left * left : left;
    const double last = 1.0 - ahead - p->job.session.progress.done;
    cli_progress_part(&p->job.session.progress, 1.0 - ahead, fmin(last, ahead));
    return 0;
}

static int take_params(pairing *p)
{
    const cli_args *args = p->job.args;
    const size_t rows = (size_t)points_of(p)->matrix->rows;
    const bool keeps = cli_given(args, CLI_OPT_KEEP);
    p->params = kith_pairs_params_default();
    p->params.metric = cli_job_metric(&p->job);
    p->params.radius = args->radius;
    p->params.method = args->method;
    p->params.filter = cli_is_filtered(args) ? &p->job.filter : NULL;
    p->params.period = p->job.period;
    p->params.path = args->output;
    p->params.limit = args->limit;
    p->params.keep = args->keep;
    p->params.sample = cli_given(args, CLI_OPT_SAMPLE) ? args->sample : 0;
    p->params.seed = args->seed;
    p->params.restart = cli_given(args, CLI_OPT_RESTART);
    p->params.take = args->output != NULL || keeps || args->components != NULL ? show : NULL;
    p->params.take_arg = p;
    p->labels = args->components != NULL ? cli_keep(rows, sizeof *p->labels) : NULL;
    p->kept = keeps ? cli_keep(rows, 1) : NULL;
    p->params.labels = p->labels;
    p->params.kept = p->kept;
    CLI_PASS_IF((p->labels == NULL) == (args->components == NULL) && (p->kept == NULL) == !keeps,
                points_of(p)->path, "no memory for numbers of rows (free some memory)");
}

/* ---- The work ------------------------------------------------------------------------------- */

/* Whether an interrupted job has left what the next one goes on with. */
static bool stands(const char *output)
{
    const size_t room = strlen(output) + sizeof ".partial";
    char *partial = malloc(room);
    const bool known = partial != NULL && snprintf(partial, room, "%s.partial", output) > 0;
    const bool there = known && access(partial, F_OK) == 0;
    free(partial);
    return there;
}

static int find(pairing *p)
{
    cli_job *job = &p->job;
    const char *output = job->args->output;
    kith_status status = KITH_OK;
    job->session.silent = true;
    cli_progress_part(&job->session.progress, 0.0, 1.0); /* all rows may be one chunk */
    p->report.struct_size = (uint32_t)sizeof p->report;
    CLI_TIMED(job->seconds_work, status = kith_pairs_find(job->session.ctx, points_of(p)->matrix,
                                                          others_of(p), &p->params, &p->report));
    const int code = check(p, status);
    job->session.silent = false;
    if (code == CLI_INTERRUPTED) {
        (void)cli_fail(NULL, "interrupted (%s)",
                       output != NULL && stands(output)
                           ? "the same command goes on with the pairs that stand"
                           : "no unfinished file is left");
    }
    CLI_TRY(code);
    cli_output_step_aside(output);
    return check(p, kith_ctx_report(job->session.ctx, &job->report));
}

/* Whole numbers as a column. */
static int save_numbers(pairing *p, const char *path, const double *numbers, int64_t count)
{
    const kith_matrix matrix = {.data = numbers, .rows = count, .cols = 1, .dtype = KITH_F64};
    return cli_points_save(&p->job.session, path, &matrix);
}

/* Labels of rows, and the ids of those that are kept. */
static int save_rows(pairing *p)
{
    const cli_args *args = p->job.args;
    const int64_t rows = points_of(p)->matrix->rows;
    double *numbers = NULL;
    CLI_KEEP(numbers, rows, points_of(p)->path, "no memory for numbers of rows (8 bytes a row)");
    for (int64_t i = 0; p->labels != NULL && i < rows; i++) {
        numbers[i] = p->labels[i];
        p->components += p->labels[i] == i;
    }
    CLI_TRY(p->labels != NULL ? save_numbers(p, args->components, numbers, rows) : CLI_DONE);
    for (int64_t i = 0; p->kept != NULL && i < rows; i++) {
        numbers[p->kept_rows] = (double)i;
        p->kept_rows += p->kept[i];
    }
    return p->kept != NULL ? save_numbers(p, args->kept, numbers, p->kept_rows) : CLI_DONE;
}

/* ---- What was done -------------------------------------------------------------------------- */

static void tell_points(cli_report *r, const pairing *p)
{
    const kith_matrix *points = points_of(p)->matrix;
    cli_say_matrix(r, "points", points_of(p)->path, points);
    if (!is_one_set(p)) {
        cli_say_matrix(r, "others", p->job.corpus.path, others_of(p));
        cli_put(r, INT("others", others_of(p)->rows));
    }
    cli_tell(r, "radius: {radius:.17g}, {metric}\n", INT("n", points->rows), INT("d", points->cols),
             TEXT("metric", kith_metric_name(p->params.metric)),
             NUMBER("radius", p->params.radius));
}

static void tell_rows(cli_report *r, const pairing *p)
{
    if (p->labels != NULL) {
        cli_tell(r, "components: {components,}\n", INT("components", p->components));
    }
    if (p->kept != NULL) {
        cli_tell(r, "kept: {kept,} rows, {keep}\n", INT("kept", p->kept_rows),
                 TEXT(".keep", cli_option_word(CLI_OPT_KEEP, (int)p->params.keep)));
    }
}

static void tell(cli_job *job)
{
    const pairing *p = job->own;
    const kith_report *report = &job->report;
    cli_report r = cli_report_begin(job->args);
    tell_points(&r, p);
    cli_tell(&r, "pairs: {pairs,}{more}\n", INT("pairs", p->report.count),
             TEXT(".more", p->report.complete != 0 ? "" : ", and more: stopped at --limit"),
             BOOL("complete", p->report.complete != 0));
    cli_tell(&r, p->report.resumed > 0 ? "resumed: {resumed,} pairs stood already\n" : "",
             INT("resumed", p->report.resumed));
    tell_rows(&r, p);
    cli_tell_more(&r,
                  "chunks: {chunks}, divided {divided}, the largest of {largest,} pairs\n"
                  "method: {screen}, isa {isa}, device {backend}\n",
                  INT("chunks", p->report.chunks), INT("divided", p->report.divided),
                  INT(".largest", p->report.largest_chunk), TEXT("screen", report->screen),
                  TEXT(".isa", report->isa), TEXT("backend", report->backend));
    cli_tell_peak(&r, report->gpu_peak_bytes, 0);
    cli_tell_seconds(&r, job->session.start, NUMBER("read", job->seconds_read),
                     NUMBER("pairs", job->seconds_work));
    cli_tell_output(&r, job->args->output, "");
    cli_report_end(&r);
}

static void tell_plan(cli_job *job)
{
    enum { FILE_BYTES = 16 };
    const pairing *p = job->own;
    const kith_pairs_plan *plan = &p->plan;
    cli_report r = cli_report_begin(job->args);
    tell_points(&r, p);
    cli_put(&r, BOOL("dry_run", true), NUMBER("pairs", plan->pairs), NUMBER("low", plan->low),
            NUMBER("high", plan->high));
    cli_tell(&r,
             "pairs: about {pairs,} ({low,} to {high,}), by {sample} rows{filter}\n"
             "memory: {chunk_bytes~} for a chunk of pairs, beside what a search takes; {file~} as "
             ".npy\n",
             INT(".pairs", (int64_t)plan->pairs), INT(".low", (int64_t)plan->low),
             INT(".high", (int64_t)plan->high),
             TEXT(".filter", cli_is_filtered(job->args) ? ", before the filter" : ""),
             INT("sample", plan->sample), INT("most_of_a_row", plan->most_of_a_row),
             UINT("chunk_bytes", plan->chunk_bytes),
             UINT(".file", (uint64_t)(plan->pairs * FILE_BYTES)));
    cli_report_end(&r);
}

/* ---- The command ---------------------------------------------------------------------------- */

static int plan(cli_job *job)
{
    pairing *p = job->own;
    CLI_TRY(take_params(p));
    p->plan.struct_size = (uint32_t)sizeof p->plan;
    return cli_given(job->args, CLI_OPT_DRY_RUN)
               ? check(p, kith_plan_pairs(job->session.ctx, points_of(p)->matrix, others_of(p),
                                          &p->params, &p->plan))
               : CLI_DONE;
}

static int solve(cli_job *job)
{
    CLI_TRY(find(job->own));
    return save_rows(job->own);
}

int cli_pairs(const cli_args *args)
{
    static const cli_work work = {.endings = CLI_ENDINGS_WITHIN,
                                  .read = read_all,
                                  .plan = plan,
                                  .tell_plan = tell_plan,
                                  .solve = solve,
                                  .tell = tell};
    pairing p = {.job = {.args = args, .own = &p}};
    return cli_work_run(&p.job, &work);
}
