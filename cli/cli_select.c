/* SPDX-License-Identifier: Apache-2.0
 * k-selection on its own: read, select, write, report. */
#include "cli.h"
#include "cli_clock.h"
#include "cli_devices.h"
#include "cli_job.h"
#include "cli_message.h"
#include "cli_output.h"
#include "cli_seconds.h"
#include "cli_signal.h"
#include "cli_source.h"
#include "kith/kith_papers.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct selecting {
    const cli_args *args;
    cli_session session;
    kith_points *file;
    const kith_values *values;
    kith_select_params params;
    uint64_t result_bytes;
    uint64_t need_bytes; /* the result, and values that had to be read into memory */
    kith_selection out;  /* owned */
    void *kth;           /* owned; with --kth instead of out */
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

static int check_output(const cli_args *args)
{
    const bool kth = cli_given(args, CLI_OPT_KTH);
    const int code = cli_output_check(args->output, kth ? CLI_ENDINGS_KTH : CLI_ENDINGS_SELECTION);
    return code == CLI_DONE ? cli_output_check_input(args->output, args->paths[0]) : code;
}

static void take_params(selecting *s)
{
    const cli_args *args = s->args;
    s->params = kith_select_params_default();
    s->params.method = args->select;
    s->params.k = args->k;
    s->params.buffer = args->buffer;
    s->params.group = args->group;
    s->params.sample = args->heap_sample;
    s->params.flags = (cli_given(args, CLI_OPT_LARGEST) ? (uint32_t)KITH_SELECT_LARGEST : 0) |
                      (cli_given(args, CLI_OPT_UNSORTED) ? (uint32_t)KITH_SELECT_UNSORTED : 0) |
                      (cli_given(args, CLI_OPT_ALIGNED) ? (uint32_t)KITH_SELECT_ALIGNED : 0);
}

static int read_values(selecting *s)
{
    const double start = cli_clock_now();
    s->session.read.use = KITH_USE_VALUES;
    const kith_status status =
        kith_points_open(s->session.ctx, path_of(s), &s->session.read, &s->file);
    s->seconds_read = cli_clock_now() - start;
    s->values = status == KITH_OK ? kith_points_values(s->file) : NULL;
    if (status == KITH_OK) {
        cli_source_keep(path_of(s), s->file);
    }
    return cli_session_check(&s->session, status, path_of(s));
}

/* Values of the answer; rows and k are both below 2^32. */
static uint64_t count_values(const selecting *s)
{
    return (uint64_t)s->values->rows * (uint64_t)(wants_kth(s) ? 1 : s->params.k);
}

static int plan(selecting *s)
{
    const int code = cli_job_check_k(path_of(s), s->params.k, s->values->cols, "values in a row");
    if (code != CLI_DONE) {
        return code;
    }
    const uint64_t count = count_values(s);
    const uint64_t bytes =
        (uint64_t)kith_dtype_bytes(s->values->dtype) + (wants_kth(s) ? 0 : sizeof *s->out.ids);
    s->result_bytes = count <= UINT64_MAX / 16 ? count * bytes : UINT64_MAX / 2;
    s->need_bytes = s->result_bytes + kith_points_bytes(s->file);
    return cli_job_check_memory(path_of(s), s->need_bytes, s->args->memory_bytes);
}

/* ---- The work ------------------------------------------------------------------------------- */

static int allocate(selecting *s)
{
    const uint64_t count = count_values(s);
    const uint64_t item = (uint64_t)kith_dtype_bytes(s->values->dtype);
    bool had = s->result_bytes <= SIZE_MAX / 2;
    if (had && wants_kth(s)) {
        s->kth = malloc(count * item);
        had = s->kth != NULL;
    } else if (had) {
        s->out.values = malloc(count * item);
        s->out.ids = malloc(count * sizeof *s->out.ids);
        had = s->out.values != NULL && s->out.ids != NULL;
    }
    return had ? CLI_DONE
               : cli_fail(path_of(s),
                          "no memory for the answer, %" PRId64 " rows of %" PRId64
                          " (take a smaller k)",
                          s->values->rows, s->params.k);
}

static int solve(selecting *s)
{
    kith_ctx *ctx = s->session.ctx;
    const double start = cli_clock_now();
    const kith_status status = wants_kth(s) ? kith_select_kth(ctx, s->values, &s->params, s->kth)
                                            : kith_select(ctx, s->values, &s->params, &s->out);
    s->seconds_select = cli_clock_now() - start;
    const int code = cli_session_check(&s->session, status, path_of(s));
    if (code != CLI_DONE) {
        return code;
    }
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
        wants_kth(s)
            ? kith_selection_save_kth(s->session.ctx, path, s->kth, values->rows, values->dtype)
            : kith_selection_save(s->session.ctx, path, &s->out, values->rows, values->dtype,
                                  &s->params);
    s->seconds_write = cli_clock_now() - start;
    return cli_session_check(&s->session, status, path);
}

/* ---- What was done -------------------------------------------------------------------------- */

static void print_input(const selecting *s)
{
    cli_source_print();
    (void)printf("matrix: %s, %" PRId64 " x %" PRId64 " %s\n", cli_message_safe(path_of(s)),
                 s->values->rows, s->values->cols, kith_dtype_name(s->values->dtype));
    (void)printf("k: %" PRId64 ", %s%s\n", s->params.k,
                 cli_given(s->args, CLI_OPT_LARGEST) ? "largest" : "smallest",
                 wants_kth(s)                           ? ", the k-th alone"
                 : cli_given(s->args, CLI_OPT_UNSORTED) ? ", in any order"
                                                        : "");
}

enum { STEPS = 4 };

static void list_steps(const selecting *s, cli_step steps[STEPS])
{
    steps[0] = (cli_step){"read", s->seconds_read};
    steps[1] = (cli_step){"select", s->seconds_select};
    steps[2] = (cli_step){"write", s->seconds_write};
    steps[3] = (cli_step){NULL, 0.0};
}

static void print_done(const selecting *s)
{
    const kith_report *report = &s->report;
    const bool verbose = cli_given(s->args, CLI_OPT_VERBOSE);
    cli_step steps[STEPS];
    if (verbose && report->gpu[0] != '\0') {
        (void)printf("device: %s, %s\n", report->backend, report->gpu);
    }
    if (verbose) {
        (void)printf("method: %s, isa %s, threads %" PRId32 "\n", report->screen,
                     kith_ctx_isa(s->session.ctx), kith_ctx_threads(s->session.ctx));
        cli_peak_print(report->gpu_peak_bytes);
    }
    list_steps(s, steps);
    cli_seconds_print(steps, s->session.start, verbose);
    if (s->args->output != NULL) {
        (void)printf("output: %s\n", cli_message_safe(s->args->output));
    }
}

static void put_input(const selecting *s, const char *method, cli_json *json)
{
    cli_json_text(json, "method", method);
    cli_json_text(json, "isa", kith_ctx_isa(s->session.ctx));
    cli_json_int(json, "threads", kith_ctx_threads(s->session.ctx));
    cli_json_int(json, "n", s->values->rows);
    cli_json_int(json, "d", s->values->cols);
    cli_json_text(json, "dtype", kith_dtype_name(s->values->dtype));
    cli_json_int(json, "k", s->params.k);
    cli_json_bool(json, "largest", cli_given(s->args, CLI_OPT_LARGEST));
    cli_json_bool(json, "sorted", !cli_given(s->args, CLI_OPT_UNSORTED));
    cli_json_bool(json, "kth", wants_kth(s));
}

static void put_done(const selecting *s, cli_json *json)
{
    const kith_report *report = &s->report;
    cli_step steps[STEPS];
    cli_json_text(json, "backend", report->backend);
    cli_json_text(json, "gpu", report->gpu[0] != '\0' ? report->gpu : NULL);
    list_steps(s, steps);
    cli_seconds_put(steps, s->session.start, json);
    cli_peak_put(report->gpu_peak_bytes, json);
    cli_json_text(json, "output", s->args->output);
}

static void print_report(const selecting *s)
{
    if (cli_given(s->args, CLI_OPT_JSON)) {
        cli_json json;
        cli_json_begin(&json, "select");
        put_input(s, s->report.screen, &json);
        put_done(s, &json);
        cli_source_put(&json);
        cli_json_end(&json);
    } else if (!cli_given(s->args, CLI_OPT_QUIET)) {
        print_input(s);
        print_done(s);
    }
}

/* The method as it was asked for: what auto stands for, the library says when it has run. */
static void print_plan(const selecting *s)
{
    const char *method = kith_select_method_name(s->params.method);
    if (cli_given(s->args, CLI_OPT_JSON)) {
        cli_json json;
        cli_json_begin(&json, "select");
        put_input(s, method, &json);
        cli_json_bool(&json, "dry_run", true);
        cli_json_open(&json, "plan_bytes");
        cli_json_uint(&json, "result", s->result_bytes);
        cli_json_uint(&json, "least", s->need_bytes);
        cli_json_close(&json);
        cli_source_put(&json);
        cli_json_end(&json);
        return;
    }
    char text[2][CLI_SIZE_BYTES];
    print_input(s);
    (void)printf("method: %s, isa %s, threads %" PRId32 "\n", method, kith_ctx_isa(s->session.ctx),
                 kith_ctx_threads(s->session.ctx));
    (void)printf("memory: at least %s (result %s)\n", cli_message_size(s->need_bytes, text[0]),
                 cli_message_size(s->result_bytes, text[1]));
}

/* ---- The command ---------------------------------------------------------------------------- */

static int run(selecting *s)
{
    int code = read_values(s);
    if (code == CLI_DONE) {
        take_params(s);
        code = plan(s);
    }
    if (code == CLI_DONE && cli_given(s->args, CLI_OPT_DRY_RUN)) {
        print_plan(s);
        return CLI_DONE;
    }
    if (code == CLI_DONE) {
        code = allocate(s);
    }
    if (code == CLI_DONE) {
        code = solve(s);
    }
    if (code == CLI_DONE) {
        code = save(s);
    }
    if (code == CLI_DONE) {
        print_report(s);
    }
    return code;
}

int cli_select(const cli_args *args)
{
    selecting s = {.args = args};
    int code = cli_device_check(args->device);
    if (code == CLI_DONE) {
        code = check_output(args);
    }
    if (code != CLI_DONE) {
        return code;
    }
    code = cli_session_open(&s.session, args);
    if (code == CLI_DONE) {
        code = run(&s);
    }
    free(s.out.values);
    free(s.out.ids);
    free(s.kth);
    kith_points_free(s.file);
    cli_session_close(&s.session);
    return code;
}
