/* SPDX-License-Identifier: Apache-2.0
 * k-selection on its own: read, select, write, report. */
#include "cli.h"
#include "cli_output.h"
#include "cli_work.h"
#include "kith/kith_papers.h"

#include <inttypes.h>

typedef struct selecting {
    cli_job job; /* its corpus is the matrix */
    const kith_values *values;
    kith_select_params params;
    uint64_t result_bytes;
    kith_selection out;
} selecting;

static bool wants_kth(const selecting *s)
{
    return cli_given(s->job.args, CLI_OPT_KTH);
}

/* ---- Before: input, memory ------------------------------------------------------------------ */

static kith_select_params params_of(const cli_args *args)
{
    kith_select_params params = kith_select_params_default();
    params.method = args->select;
    params.k = args->k;
    params.buffer = args->buffer;
    params.group = args->group;
    params.buffer_size = args->buffer_size;
    params.level = args->level;
    params.sample = args->heap_sample;
    params.flags = (cli_given(args, CLI_OPT_LARGEST) ? (uint32_t)KITH_SELECT_LARGEST : 0) |
                   (cli_given(args, CLI_OPT_UNSORTED) ? (uint32_t)KITH_SELECT_UNSORTED : 0) |
                   (cli_given(args, CLI_OPT_ALIGNED) ? (uint32_t)KITH_SELECT_ALIGNED : 0) |
                   (args->merge == 1 ? (uint32_t)KITH_SELECT_MERGE_PATH : 0);
    return params;
}

static int read_values(cli_job *job)
{
    selecting *s = job->own;
    job->session.read.use = KITH_USE_VALUES;
    CLI_TRY(cli_session_read(&job->session, job->args->paths[0], &job->corpus));
    s->values = kith_points_get_source(job->corpus.handle)->values;
    s->params = params_of(job->args);
    return CLI_DONE;
}

/* Values of the answer; rows and k are both below 2^32. */
static uint64_t count_values(const selecting *s)
{
    return (uint64_t)s->values->rows * (uint64_t)(wants_kth(s) ? 1 : s->params.k);
}

/* The result, and values that had to be read into memory. */
static int plan(cli_job *job)
{
    selecting *s = job->own;
    const char *path = job->corpus.path;
    CLI_TRY(cli_job_check_k(path, s->params.k, s->values->cols, "values in a row"));
    const uint64_t count = count_values(s);
    const uint64_t bytes =
        (uint64_t)kith_dtype_bytes(s->values->dtype) + (wants_kth(s) ? 0 : sizeof *s->out.ids);
    s->result_bytes = count <= UINT64_MAX / 16 ? count * bytes : UINT64_MAX / 2;
    job->need_bytes = s->result_bytes + kith_points_get_source(job->corpus.handle)->bytes;
    return cli_job_check_memory(path, job->need_bytes, job->args->memory_bytes);
}

/* ---- The work ------------------------------------------------------------------------------- */

static int allocate(selecting *s)
{
    const uint64_t count = count_values(s);
    const size_t item = (size_t)kith_dtype_bytes(s->values->dtype);
    s->out.kth = wants_kth(s) ? cli_keep(count, item) : NULL;
    s->out.values = wants_kth(s) ? NULL : cli_keep(count, item);
    s->out.ids = wants_kth(s) ? NULL : cli_keep(count, sizeof *s->out.ids);
    CLI_PASS_IF(s->out.kth != NULL || (s->out.values != NULL && s->out.ids != NULL),
                s->job.corpus.path,
                "no memory for the answer, %" PRId64 " rows of %" PRId64 " (take a smaller k)",
                s->values->rows, s->params.k);
}

static int solve(cli_job *job)
{
    selecting *s = job->own;
    kith_status status = KITH_OK;
    CLI_TRY(allocate(s));
    CLI_TIMED(job->seconds_work,
              status = kith_select(job->session.ctx, s->values, &s->params, &s->out));
    CLI_TRY(cli_job_check(job, status));
    return cli_job_take_report(job);
}

static int save(cli_job *job)
{
    const selecting *s = job->own;
    const char *path = job->args->output;
    return path == NULL ? CLI_DONE
                        : cli_session_check(&job->session,
                                            kith_selection_save(job->session.ctx, path, &s->out,
                                                                s->values->rows, s->values->dtype,
                                                                &s->params),
                                            path);
}

/* ---- What was done -------------------------------------------------------------------------- */

/* method: as it was asked for, or what auto stood for. */
static void tell_input(cli_report *r, const selecting *s, const char *method)
{
    const kith_values *values = s->values;
    const kith_ctx_params *used = kith_ctx_get_params(s->job.session.ctx);
    const bool largest = cli_given(s->job.args, CLI_OPT_LARGEST);
    const bool unsorted = cli_given(s->job.args, CLI_OPT_UNSORTED);
    cli_tell(r, "matrix: {file}, {n} x {d} {dtype}\n", TEXT(".file", s->job.corpus.path),
             TEXT("method", method), TEXT("isa", used->isa), INT("threads", used->threads),
             INT("n", values->rows), INT("d", values->cols),
             TEXT("dtype", kith_dtype_name(values->dtype)));
    cli_tell(r, "k: {k}, {order}{form}\n", INT("k", s->params.k),
             TEXT(".order", largest ? "largest" : "smallest"),
             TEXT(".form", wants_kth(s) ? ", the k-th alone"
                           : unsorted   ? ", in any order"
                                        : ""),
             BOOL("largest", largest), BOOL("sorted", !unsorted), BOOL("kth", wants_kth(s)));
}

static void say_method(cli_report *r, const cli_job *job, const char *method)
{
    const kith_ctx_params *used = kith_ctx_get_params(job->session.ctx);
    cli_say(r, "method: %s, isa %s, threads %" PRId32 "\n", method, used->isa, used->threads);
}

static void tell(cli_job *job)
{
    const kith_report *report = &job->report;
    cli_report r = cli_report_begin(job->args);
    tell_input(&r, job->own, report->screen);
    cli_tell_more(&r, report->gpu[0] != '\0' ? "device: {backend}, {gpu}\n" : "",
                  TEXT("backend", report->backend),
                  TEXT("gpu", report->gpu[0] != '\0' ? report->gpu : NULL));
    if (r.verbose) {
        say_method(&r, job, report->screen);
    }
    cli_tell_peak(&r, report->gpu_peak_bytes, 0);
    cli_tell_seconds(&r, job->session.start, NUMBER("read", job->seconds_read),
                     NUMBER("select", job->seconds_work), NUMBER("write", job->seconds_write));
    cli_tell_output(&r, job->args->output, "");
    cli_report_end(&r);
}

static void tell_plan(cli_job *job)
{
    const selecting *s = job->own;
    const char *method = kith_select_method_name(s->params.method);
    cli_report r = cli_report_begin(job->args);
    tell_input(&r, s, method);
    say_method(&r, job, method);
    cli_put(&r, BOOL("dry_run", true));
    cli_tell_object(&r, "plan_bytes", "memory: at least {least~} (result {result~})\n",
                    UINT("result", s->result_bytes), UINT("least", job->need_bytes));
    cli_report_end(&r);
}

int cli_select(const cli_args *args)
{
    const cli_work work = {.endings = cli_given(args, CLI_OPT_KTH) ? CLI_ENDINGS_KTH
                                                                   : CLI_ENDINGS_SELECTION,
                           .read = read_values,
                           .plan = plan,
                           .tell_plan = tell_plan,
                           .solve = solve,
                           .save = save,
                           .tell = tell};
    selecting s = {.job = {.args = args, .own = &s}};
    return cli_work_run(&s.job, &work);
}
