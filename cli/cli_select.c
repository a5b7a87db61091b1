/* SPDX-License-Identifier: Apache-2.0
 * k-selection on its own: read, select, write, report. */
#include "cli.h"
#include "cli_job.h"
#include "cli_output.h"
#include "kith/kith_papers.h"

#include <inttypes.h>

typedef struct selecting {
    const cli_args *args;
    cli_session session;
    kith_points *file;
    const kith_values *values;
    kith_select_params params;
    uint64_t result_bytes;
    uint64_t need_bytes; /* the result, and values that had to be read into memory */
    kith_selection out;
    kith_report report;
    double seconds_read;
    double seconds_select;
    double seconds_write;
} selecting;

static bool wants_kth(const selecting *s)
{
    return cli_given(s->args, CLI_OPT_KTH);
}

static const char *path_of(const selecting *s)
{
    return s->args->paths[0];
}

/* ---- Before: output, input, memory ---------------------------------------------------------- */

static void take_params(selecting *s)
{
    const cli_args *args = s->args;
    s->params = kith_select_params_default();
    s->params.method = args->select;
    s->params.k = args->k;
    s->params.buffer = args->buffer;
    s->params.group = args->group;
    s->params.buffer_size = args->buffer_size;
    s->params.level = args->level;
    s->params.sample = args->heap_sample;
    s->params.flags = (cli_given(args, CLI_OPT_LARGEST) ? (uint32_t)KITH_SELECT_LARGEST : 0) |
                      (cli_given(args, CLI_OPT_UNSORTED) ? (uint32_t)KITH_SELECT_UNSORTED : 0) |
                      (cli_given(args, CLI_OPT_ALIGNED) ? (uint32_t)KITH_SELECT_ALIGNED : 0) |
                      (args->merge == 1 ? (uint32_t)KITH_SELECT_MERGE_PATH : 0);
}

static int read_values(selecting *s)
{
    const double start = cli_clock_now();
    s->session.read.use = KITH_USE_VALUES;
    CLI_TRY(cli_session_check(
        &s->session, kith_points_open(s->session.ctx, path_of(s), &s->session.read, &s->file),
        path_of(s)));
    s->seconds_read = cli_clock_now() - start;
    s->values = kith_points_get_source(s->file)->values;
    cli_source_keep(path_of(s), s->file);
    return CLI_DONE;
}

/* Values of the answer; rows and k are both below 2^32. */
static uint64_t count_values(const selecting *s)
{
    return (uint64_t)s->values->rows * (uint64_t)(wants_kth(s) ? 1 : s->params.k);
}

static int plan(selecting *s)
{
    CLI_TRY(cli_job_check_k(path_of(s), s->params.k, s->values->cols, "values in a row"));
    const uint64_t count = count_values(s);
    const uint64_t bytes =
        (uint64_t)kith_dtype_bytes(s->values->dtype) + (wants_kth(s) ? 0 : sizeof *s->out.ids);
    s->result_bytes = count <= UINT64_MAX / 16 ? count * bytes : UINT64_MAX / 2;
    s->need_bytes = s->result_bytes + kith_points_get_source(s->file)->bytes;
    return cli_job_check_memory(path_of(s), s->need_bytes, s->args->memory_bytes);
}

/* ---- The work ------------------------------------------------------------------------------- */

static int allocate(selecting *s)
{
    const uint64_t count = count_values(s);
    const size_t item = (size_t)kith_dtype_bytes(s->values->dtype);
    s->out.kth = wants_kth(s) ? cli_keep(count, item) : NULL;
    s->out.values = wants_kth(s) ? NULL : cli_keep(count, item);
    s->out.ids = wants_kth(s) ? NULL : cli_keep(count, sizeof *s->out.ids);
    CLI_PASS_IF(s->out.kth != NULL || (s->out.values != NULL && s->out.ids != NULL), path_of(s),
                "no memory for the answer, %" PRId64 " rows of %" PRId64 " (take a smaller k)",
                s->values->rows, s->params.k);
}

static int solve(selecting *s)
{
    kith_ctx *ctx = s->session.ctx;
    const double start = cli_clock_now();
    const kith_status status = kith_select(ctx, s->values, &s->params, &s->out);
    s->seconds_select = cli_clock_now() - start;
    CLI_TRY(cli_session_check(&s->session, status, path_of(s)));
    s->report.struct_size = (uint32_t)sizeof s->report;
    return cli_session_check(&s->session, kith_ctx_report(ctx, &s->report), path_of(s));
}

static int save(selecting *s)
{
    const char *path = s->args->output;
    const kith_values *values = s->values;
    if (cli_signal_came()) {
        return cli_session_check(&s->session, KITH_E_CANCELLED, path_of(s));
    }
    if (path == NULL) {
        return CLI_DONE;
    }
    const double start = cli_clock_now();
    const kith_status status =
        kith_selection_save(s->session.ctx, path, &s->out, values->rows, values->dtype, &s->params);
    s->seconds_write = cli_clock_now() - start;
    return cli_session_check(&s->session, status, path);
}

/* ---- What was done -------------------------------------------------------------------------- */

/* method: as it was asked for, or what auto stood for. */
static void tell_input(cli_report *r, const selecting *s, const char *method)
{
    const kith_values *values = s->values;
    const bool largest = cli_given(s->args, CLI_OPT_LARGEST);
    const bool unsorted = cli_given(s->args, CLI_OPT_UNSORTED);
    cli_say(r, "matrix: %s, %" PRId64 " x %" PRId64 " %s\n", cli_message_safe(path_of(s)),
            values->rows, values->cols, kith_dtype_name(values->dtype));
    cli_say(r, "k: %" PRId64 ", %s%s\n", s->params.k, largest ? "largest" : "smallest",
            wants_kth(s) ? ", the k-th alone"
            : unsorted   ? ", in any order"
                         : "");
    cli_put(r, TEXT("method", method), TEXT("isa", kith_ctx_get_params(s->session.ctx)->isa),
            INT("threads", kith_ctx_get_params(s->session.ctx)->threads), INT("n", values->rows),
            INT("d", values->cols), TEXT("dtype", kith_dtype_name(values->dtype)),
            INT("k", s->params.k), BOOL("largest", largest), BOOL("sorted", !unsorted),
            BOOL("kth", wants_kth(s)));
}

static void say_method(const cli_report *r, const selecting *s, const char *method)
{
    cli_say(r, "method: %s, isa %s, threads %" PRId32 "\n", method,
            kith_ctx_get_params(s->session.ctx)->isa, kith_ctx_get_params(s->session.ctx)->threads);
}

static void tell(const selecting *s)
{
    const kith_report *report = &s->report;
    cli_report r = cli_report_begin(s->args);
    tell_input(&r, s, report->screen);
    cli_put(&r, TEXT("backend", report->backend),
            TEXT("gpu", report->gpu[0] != '\0' ? report->gpu : NULL));
    if (report->gpu[0] != '\0') {
        cli_say_more(&r, "device: %s, %s\n", report->backend, report->gpu);
    }
    if (r.verbose) {
        say_method(&r, s, report->screen);
    }
    cli_tell_peak(&r, report->gpu_peak_bytes, 0);
    cli_tell_seconds(&r, s->session.start, NUMBER("read", s->seconds_read),
                     NUMBER("select", s->seconds_select), NUMBER("write", s->seconds_write));
    cli_tell_output(&r, s->args->output, "");
    cli_report_end(&r);
}

static void tell_plan(const selecting *s)
{
    char text[2][CLI_SIZE_BYTES];
    const char *method = kith_select_method_name(s->params.method);
    cli_report r = cli_report_begin(s->args);
    tell_input(&r, s, method);
    say_method(&r, s, method);
    cli_say(&r, "memory: at least %s (result %s)\n", cli_message_size(s->need_bytes, text[0]),
            cli_message_size(s->result_bytes, text[1]));
    cli_put(&r, BOOL("dry_run", true));
    cli_put_object(&r, "plan_bytes", UINT("result", s->result_bytes), UINT("least", s->need_bytes));
    cli_report_end(&r);
}

/* ---- The command ---------------------------------------------------------------------------- */

static int run(selecting *s)
{
    CLI_TRY(cli_session_begin(&s->session, s->args,
                              wants_kth(s) ? CLI_ENDINGS_KTH : CLI_ENDINGS_SELECTION));
    CLI_TRY(read_values(s));
    take_params(s);
    CLI_TRY(plan(s));
    if (cli_given(s->args, CLI_OPT_DRY_RUN)) {
        tell_plan(s);
        return CLI_DONE;
    }
    CLI_TRY(allocate(s));
    CLI_TRY(solve(s));
    CLI_TRY(save(s));
    tell(s);
    return CLI_DONE;
}

int cli_select(const cli_args *args)
{
    selecting s = {.args = args};
    const int code = run(&s);
    kith_points_free(s.file);
    cli_session_close(&s.session);
    return code;
}
