/* SPDX-License-Identifier: Apache-2.0
 * kith pairs: every pair of rows within a radius, written as it is found, counted, or made into
 * components and rows to keep. Of two sets the second one is the corpus of a filter. */
#include "cli.h"
#include "cli_job.h"
#include "cli_output.h"

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
    double seconds_pairs;
} pairing;

static bool is_one_set(const pairing *p)
{
    return p->job.args->path_count == 1;
}

static const cli_points *points_of(const pairing *p)
{
    return is_one_set(p) ? &p->job.corpus : &p->job.queries;
}

/* Blamed on the file that the library complains about. */
static int check(pairing *p, kith_status status)
{
    const bool others = cli_session_blames(&p->job.session, "others") ||
                        cli_session_blames(&p->job.session, "groups");
    return cli_session_check(&p->job.session, status,
                             others ? p->job.corpus.path : points_of(p)->path);
}

/* ---- Before --------------------------------------------------------------------------------- */

static int read_all(pairing *p)
{
    cli_job *job = &p->job;
    const cli_args *args = job->args;
    const double start = cli_clock_now();
    CLI_TRY(cli_session_read(&job->session, args->paths[args->path_count - 1], &job->corpus));
    if (!is_one_set(p)) {
        CLI_TRY(cli_session_read(&job->session, args->paths[0], &job->queries));
        CLI_TRY(cli_points_check_like(job->corpus.path, job->corpus.matrix, job->queries.path,
                                      job->queries.matrix, false));
    }
    job->seconds_read = cli_clock_now() - start;
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

static int solve(pairing *p)
{
    kith_ctx *ctx = p->job.session.ctx;
    const char *output = p->job.args->output;
    const kith_matrix *points = points_of(p)->matrix;
    const kith_matrix *others = is_one_set(p) ? NULL : p->job.corpus.matrix;
    const double start = cli_clock_now();
    p->job.session.silent = true;
    p->report.struct_size = (uint32_t)sizeof p->report;
    p->job.report.struct_size = (uint32_t)sizeof p->job.report;
    const kith_status status = kith_pairs_find(ctx, points, others, &p->params, &p->report);
    p->seconds_pairs = cli_clock_now() - start;
    const int code = check(p, status);
    p->job.session.silent = false;
    if (code == CLI_INTERRUPTED) {
        (void)cli_fail(NULL, "interrupted (%s)",
                       output != NULL && stands(output)
                           ? "the same command goes on with the pairs that stand"
                           : "no unfinished file is left");
    }
    CLI_TRY(code);
    if (output != NULL) {
        cli_output_step_aside(output);
    }
    return check(p, kith_ctx_report(ctx, &p->job.report));
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
    double *numbers = cli_keep((uint64_t)rows, sizeof *numbers);
    CLI_FAIL_IF(numbers == NULL, points_of(p)->path,
                "no memory for numbers of rows (8 bytes a row)");
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
    const kith_matrix *others = p->job.corpus.matrix;
    cli_say_matrix(r, "points", points_of(p)->path, points);
    if (!is_one_set(p)) {
        cli_say_matrix(r, "others", p->job.corpus.path, others);
        cli_put(r, INT("others", others->rows));
    }
    cli_say(r, "radius: %.17g, %s\n", p->params.radius, kith_metric_name(p->params.metric));
    cli_put(r, INT("n", points->rows), INT("d", points->cols),
            TEXT("metric", kith_metric_name(p->params.metric)), NUMBER("radius", p->params.radius));
}

static void tell_rows(cli_report *r, const pairing *p)
{
    char text[CLI_GROUPED_BYTES];
    if (p->labels != NULL) {
        cli_say(r, "components: %s\n", cli_grouped(p->components, text));
        cli_put(r, INT("components", p->components));
    }
    if (p->kept != NULL) {
        cli_say(r, "kept: %s rows, %s\n", cli_grouped(p->kept_rows, text),
                cli_option_word(CLI_OPT_KEEP, (int)p->params.keep));
        cli_put(r, INT("kept", p->kept_rows));
    }
}

static void tell(const pairing *p)
{
    const kith_report *report = &p->job.report;
    const cli_args *args = p->job.args;
    char text[CLI_GROUPED_BYTES];
    cli_report r = cli_report_begin(args);
    tell_points(&r, p);
    cli_say(&r, "pairs: %s%s\n", cli_grouped(p->report.count, text),
            p->report.complete != 0 ? "" : ", and more: stopped at --limit");
    cli_put(&r, INT("pairs", p->report.count), BOOL("complete", p->report.complete != 0));
    if (p->report.resumed > 0) {
        cli_say(&r, "resumed: %s pairs stood already\n", cli_grouped(p->report.resumed, text));
    }
    cli_put(&r, INT("resumed", p->report.resumed));
    tell_rows(&r, p);
    cli_say_more(&r, "chunks: %" PRId64 ", divided %" PRId64 ", the largest of %s pairs\n",
                 p->report.chunks, p->report.divided, cli_grouped(p->report.largest_chunk, text));
    cli_say_more(&r, "method: %s, isa %s, device %s\n", report->screen, report->isa,
                 report->backend);
    cli_put(&r, INT("chunks", p->report.chunks), INT("divided", p->report.divided),
            TEXT("screen", report->screen), TEXT("backend", report->backend));
    cli_tell_peak(&r, report->gpu_peak_bytes, 0);
    cli_tell_seconds(&r, p->job.session.start, NUMBER("read", p->job.seconds_read),
                     NUMBER("pairs", p->seconds_pairs));
    cli_tell_output(&r, args->output, "");
    cli_report_end(&r);
}

static void tell_plan(const pairing *p)
{
    enum { FILE_BYTES = 16 };
    char text[2][CLI_SIZE_BYTES];
    char count[3][CLI_GROUPED_BYTES];
    const kith_pairs_plan *plan = &p->plan;
    cli_report r = cli_report_begin(p->job.args);
    tell_points(&r, p);
    cli_say(&r, "pairs: about %s (%s to %s), by %" PRId64 " rows%s\n",
            cli_grouped((int64_t)plan->pairs, count[0]), cli_grouped((int64_t)plan->low, count[1]),
            cli_grouped((int64_t)plan->high, count[2]), plan->sample,
            cli_is_filtered(p->job.args) ? ", before the filter" : "");
    cli_say(&r, "memory: %s for a chunk of pairs, beside what a search takes; %s as .npy\n",
            cli_message_size(plan->chunk_bytes, text[0]),
            cli_message_size((uint64_t)(plan->pairs * FILE_BYTES), text[1]));
    cli_put(&r, BOOL("dry_run", true), NUMBER("pairs", plan->pairs), NUMBER("low", plan->low),
            NUMBER("high", plan->high), INT("sample", plan->sample),
            INT("most_of_a_row", plan->most_of_a_row), UINT("chunk_bytes", plan->chunk_bytes));
    cli_report_end(&r);
}

/* ---- The command ---------------------------------------------------------------------------- */

static int run(pairing *p)
{
    CLI_TRY(cli_session_begin(&p->job.session, p->job.args, CLI_ENDINGS_WITHIN));
    CLI_TRY(read_all(p));
    CLI_TRY(take_params(p));
    if (cli_given(p->job.args, CLI_OPT_DRY_RUN)) {
        p->plan.struct_size = (uint32_t)sizeof p->plan;
        CLI_TRY(check(p, kith_plan_pairs(p->job.session.ctx, points_of(p)->matrix,
                                         is_one_set(p) ? NULL : p->job.corpus.matrix, &p->params,
                                         &p->plan)));
        tell_plan(p);
        return CLI_DONE;
    }
    cli_progress_part(&p->job.session.progress, 0.0, 1.0); /* all rows may be one chunk */
    CLI_TRY(solve(p));
    CLI_TRY(save_rows(p));
    tell(p);
    return CLI_DONE;
}

int cli_pairs(const cli_args *args)
{
    pairing p = {.job.args = args};
    const int code = run(&p);
    cli_job_close(&p.job);
    return code;
}
