/* SPDX-License-Identifier: Apache-2.0
 * kNN models: the labels of each query's neighbours in a catalogue make one number. Queries are
 * taken in chunks, so that no lists of all of them are ever held. */
#include "cli.h"
#include "cli_chunks.h"
#include "cli_clock.h"
#include "cli_devices.h"
#include "cli_errors.h"
#include "cli_job.h"
#include "cli_message.h"
#include "cli_output.h"
#include "cli_report.h"
#include "cli_seconds.h"
#include "cli_signal.h"
#include "cli_source.h"

#include <inttypes.h>
#include <stdlib.h>

/* Lists of a chunk where --memory asks for no fewer: what a GPU makes of the catalogue anew for
 * each chunk (its tree) is then little beside the search. Below the least rows a chunk is not
 * divided. */
static const int64_t lists_bytes = (int64_t)512 << 20;
enum { LEAST_ROWS = 1024, CATALOGUE = 0, LABELS, QUERIES };

typedef struct predicting {
    cli_job job;     /* its corpus is the catalogue, its plan that of a chunk */
    kith_plan whole; /* of all queries */
    cli_labels labels;
    cli_labels truth;
    int64_t chunk_rows;
    double *out;   /* owned; one for each query */
    float *narrow; /* owned; the same where float32 is written */
    cli_errors errors;
    double seconds_search;
    double seconds_predict;
} predicting;

/* Bytes of one neighbour in a list. */
static int64_t item_bytes(const cli_args *args)
{
    return (int64_t)sizeof(uint32_t) + (cli_weighs(args) ? (int64_t)sizeof(double) : 0);
}

static int64_t chunks(const predicting *p)
{
    return (p->job.queries.matrix->rows + p->chunk_rows - 1) / p->chunk_rows;
}

/* ---- Before: output, input, plan ------------------------------------------------------------ */

static int check_output(const cli_args *args)
{
    int code = cli_output_check(args->output,
                                cli_votes(args) ? CLI_ENDINGS_CLASSES : CLI_ENDINGS_PREDICTION);
    for (int i = 0; i < args->path_count && code == CLI_DONE; i++) {
        code = cli_output_check_input(args->output, args->paths[i]);
    }
    return code == CLI_DONE ? cli_output_check_input(args->output, args->truth) : code;
}

/* A prediction of no rows looks at the labels alone: their mistakes are told before the search. */
static int check_labels(predicting *p, const cli_labels *labels)
{
    uint32_t id = 0;
    double distance = 0.0;
    const kith_neighbors nobody = {.ids = &id, .distances64 = &distance, .k = 1};
    kith_predict_params params = kith_predict_params_default();
    params.mode = p->job.args->mode;
    return cli_session_check(
        &p->job.session,
        kith_predict(p->job.session.ctx, &nobody, labels->values, labels->count, &params, NULL),
        labels->path);
}

static int read_labels(predicting *p, const char *path, const cli_points *of, cli_labels *labels)
{
    const int code = cli_labels_read(&p->job.session, path, of, labels);
    return code == CLI_DONE ? check_labels(p, labels) : code;
}

static int read_all(predicting *p)
{
    cli_job *job = &p->job;
    const cli_args *args = job->args;
    const double start = cli_clock_now();
    int code = cli_job_read_corpus(job);
    if (code == CLI_DONE) {
        code = cli_session_read(&job->session, args->paths[QUERIES], &job->queries);
    }
    if (code == CLI_DONE) {
        code = read_labels(p, args->paths[LABELS], &job->corpus, &p->labels);
    }
    if (code == CLI_DONE && args->truth != NULL) {
        code = read_labels(p, args->truth, &job->queries, &p->truth);
    }
    job->seconds_read = cli_clock_now() - start;
    return code;
}

/* The library's plan of one chunk, with the lists, labels and predictions that are held here. */
static int plan_chunk(predicting *p)
{
    cli_job *job = &p->job;
    const kith_matrix queries = cli_job_rows(job->queries.matrix, 0, p->chunk_rows);
    job->planned = false;
    const int code = cli_job_plan(job, job->corpus.matrix, &queries);
    const int64_t numbers = p->labels.count + p->truth.count + job->queries.matrix->rows;
    const uint64_t held =
        (uint64_t)p->chunk_rows * (uint64_t)job->args->k * (uint64_t)item_bytes(job->args) +
        (uint64_t)numbers * sizeof(double);
    job->plan.peak_bytes += held - job->plan.result_bytes;
    job->plan.result_bytes = held;
    cli_job_count_need(job);
    return code;
}

static int plan(predicting *p)
{
    cli_job *job = &p->job;
    const uint64_t limit = job->args->memory_bytes;
    const int64_t row_bytes = item_bytes(job->args);
    int code = cli_job_plan(job, job->corpus.matrix, job->queries.matrix);
    if (code != CLI_DONE) {
        return code;
    }
    p->whole = job->plan;
    const int64_t most = lists_bytes / (row_bytes * job->args->k); /* k is below 2^32 */
    p->chunk_rows = most < LEAST_ROWS ? LEAST_ROWS : most;
    if (p->chunk_rows > job->queries.matrix->rows) {
        p->chunk_rows = job->queries.matrix->rows;
    }
    code = plan_chunk(p);
    while (code == CLI_DONE && limit != 0 && job->need_bytes > limit &&
           p->chunk_rows > LEAST_ROWS) {
        p->chunk_rows /= 2;
        code = plan_chunk(p);
    }
    return code == CLI_DONE ? cli_job_check_memory(job->corpus.path, job->need_bytes, limit) : code;
}

/* ---- The work ------------------------------------------------------------------------------- */

static int allocate(predicting *p)
{
    cli_job *job = &p->job;
    const uint64_t slots = (uint64_t)p->chunk_rows * (uint64_t)job->args->k;
    kith_neighbors *lists = &job->forward;
    lists->k = job->args->k;
    if (slots <= SIZE_MAX / sizeof *lists->distances64) {
        lists->ids = malloc(slots * sizeof *lists->ids);
        lists->distances64 =
            cli_weighs(job->args) ? malloc(slots * sizeof *lists->distances64) : NULL;
        p->out = malloc((size_t)job->queries.matrix->rows * sizeof *p->out);
    }
    return lists->ids != NULL && (lists->distances64 != NULL || !cli_weighs(job->args)) &&
                   p->out != NULL
               ? CLI_DONE
               : cli_fail(job->queries.path,
                          "no memory for lists of %" PRId64 " rows and %" PRId64 " predictions "
                          "(take a smaller k)",
                          p->chunk_rows, job->queries.matrix->rows);
}

static int predict(predicting *p, int64_t first)
{
    cli_job *job = &p->job;
    kith_predict_params params = kith_predict_params_default();
    params.mode = job->args->mode;
    const double start = cli_clock_now();
    const kith_status status = kith_predict(job->session.ctx, &job->forward, p->labels.values,
                                            p->labels.count, &params, p->out + first);
    p->seconds_predict += cli_clock_now() - start;
    return cli_job_check_rows(&p->job, status, first);
}

static int solve_chunks(predicting *p, cli_chunks *chunks)
{
    const int64_t rows = p->job.queries.matrix->rows;
    int code = CLI_DONE;
    cli_chunks_begin(chunks, &p->whole);
    while (chunks->first < rows && code == CLI_DONE) {
        const int64_t first = chunks->first;
        const double start = cli_clock_now();
        code = cli_chunks_solve(chunks, &p->job.forward);
        p->seconds_search += cli_clock_now() - start;
        if (code == CLI_DONE) {
            code = predict(p, first);
        }
    }
    return code;
}

static int solve(predicting *p)
{
    int code = allocate(p);
    if (code == CLI_DONE) {
        cli_chunks chunks = {.job = &p->job, .rows = p->chunk_rows};
        code = solve_chunks(p, &chunks);
        cli_chunks_end(&chunks);
    }
    return code == CLI_DONE && p->truth.values != NULL
               ? cli_errors_measure(p->out, &p->truth, cli_votes(p->job.args), &p->errors)
               : code;
}

/* What is written: doubles, but where the format has float32 alone, predictions rounded once.
 * Labels that were voted for are never rounded: the library refuses those that do not fit. */
static int take_output(predicting *p, kith_matrix *matrix)
{
    const int64_t rows = p->job.queries.matrix->rows;
    const char *path = p->job.args->output;
    *matrix = (kith_matrix){.data = p->out, .rows = rows, .cols = 1, .dtype = KITH_F64};
    if (cli_votes(p->job.args) || !cli_output_ends(path, ".fbin")) {
        return CLI_DONE;
    }
    p->narrow = malloc((size_t)rows * sizeof *p->narrow);
    if (p->narrow == NULL) {
        return cli_fail(path, "no memory for %" PRId64 " predictions (write .npy)", rows);
    }
    for (int64_t i = 0; i < rows; i++) {
        p->narrow[i] = (float)p->out[i];
    }
    matrix->data = p->narrow;
    matrix->dtype = KITH_F32;
    return CLI_DONE;
}

static int save(predicting *p)
{
    cli_job *job = &p->job;
    if (cli_signal_came()) {
        return cli_session_check(&job->session, KITH_E_CANCELLED, job->corpus.path);
    }
    const char *path = job->args->output;
    if (path == NULL) {
        return CLI_DONE;
    }
    kith_matrix matrix;
    const double start = cli_clock_now();
    int code = take_output(p, &matrix);
    if (code == CLI_DONE) {
        code = cli_session_saved(&job->session, kith_points_save(job->session.ctx, path, &matrix),
                                 path);
    }
    job->seconds_write = cli_clock_now() - start;
    return code;
}

/* ---- What was done -------------------------------------------------------------------------- */

enum { STEPS = 6 };

static void list_steps(const predicting *p, cli_step steps[STEPS])
{
    steps[0] = (cli_step){"read", p->job.seconds_read};
    steps[1] = (cli_step){"search", p->seconds_search};
    steps[2] = (cli_step){"prepare", p->job.report.seconds_prepare}; /* a part of the search */
    steps[3] = (cli_step){"predict", p->seconds_predict};
    steps[4] = (cli_step){"write", p->job.seconds_write};
    steps[5] = (cli_step){NULL, 0.0};
}

static void print_work(const predicting *p)
{
    const cli_job *job = &p->job;
    const kith_report *report = &job->report;
    char text[CLI_SIZE_BYTES];
    if (report->gpu[0] != '\0') {
        (void)printf("device: %s, %s\n", report->backend, report->gpu);
    }
    (void)printf("search: %s, isa %s, threads %" PRId32 ", %" PRId64 " chunk%s\n", report->screen,
                 kith_ctx_isa(job->session.ctx), kith_ctx_threads(job->session.ctx), chunks(p),
                 chunks(p) == 1 ? "" : "s");
    (void)printf("memory: planned %s\n", cli_message_size(job->need_bytes, text));
    cli_peak_print(report->gpu_peak_bytes);
}

static void print_text(const predicting *p)
{
    const cli_job *job = &p->job;
    const bool verbose = cli_given(job->args, CLI_OPT_VERBOSE);
    cli_step steps[STEPS];
    cli_source_print();
    (void)printf("catalogue: %s, %" PRId64 " x %" PRId32 " %s\n",
                 cli_message_safe(job->corpus.path), job->corpus.matrix->rows,
                 job->corpus.matrix->cols, kith_dtype_name(job->corpus.matrix->dtype));
    (void)printf("labels: %s\nqueries: %s, %" PRId64 "\n", cli_message_safe(p->labels.path),
                 cli_message_safe(job->queries.path), job->queries.matrix->rows);
    (void)printf("mode: %s\nmetric: %s\nk: %" PRId64 "\n", kith_predict_mode_name(job->args->mode),
                 kith_metric_name(cli_job_metric(job)), job->args->k);
    if (verbose) {
        print_work(p);
    }
    if (p->truth.values != NULL) {
        cli_errors_print(&p->errors);
    }
    list_steps(p, steps);
    cli_seconds_print(steps, job->session.start, verbose);
    if (job->args->output != NULL) {
        (void)printf("output: %s\n", cli_message_safe(job->args->output));
    }
}

static void put_input(const predicting *p, cli_json *json)
{
    const cli_job *job = &p->job;
    cli_json_text(json, "mode", kith_predict_mode_name(job->args->mode));
    cli_json_text(json, "screen", job->report.screen);
    cli_json_text(json, "backend", job->report.backend);
    cli_json_text(json, "gpu", job->report.gpu[0] != '\0' ? job->report.gpu : NULL);
    cli_json_text(json, "isa", kith_ctx_isa(job->session.ctx));
    cli_json_int(json, "threads", kith_ctx_threads(job->session.ctx));
    cli_json_int(json, "n", job->corpus.matrix->rows);
    cli_json_int(json, "queries", job->queries.matrix->rows);
    cli_json_int(json, "chunks", chunks(p));
    cli_json_int(json, "d", job->corpus.matrix->cols);
    cli_json_text(json, "dtype", kith_dtype_name(job->corpus.matrix->dtype));
    cli_json_int(json, "k", job->args->k);
    cli_json_text(json, "metric", kith_metric_name(cli_job_metric(job)));
}

static void print_json(const predicting *p)
{
    const cli_job *job = &p->job;
    cli_step steps[STEPS];
    cli_json json;
    cli_json_begin(&json, "predict");
    put_input(p, &json);
    if (p->truth.values != NULL) {
        cli_errors_put(&p->errors, &json);
    }
    list_steps(p, steps);
    cli_seconds_put(steps, job->session.start, &json);
    cli_json_open(&json, "peak_bytes");
    cli_json_uint(&json, "host", cli_clock_peak_bytes());
    cli_json_uint(&json, "gpu", job->report.gpu_peak_bytes);
    cli_json_uint(&json, "planned", job->need_bytes);
    cli_json_close(&json);
    cli_json_text(&json, "output", job->args->output);
    cli_source_put(&json);
    cli_json_end(&json);
}

/* ---- The command ---------------------------------------------------------------------------- */

static int run(predicting *p)
{
    int code = read_all(p);
    if (code == CLI_DONE) {
        code = plan(p);
    }
    if (code == CLI_DONE && cli_given(p->job.args, CLI_OPT_DRY_RUN)) {
        cli_report_print_plan(&p->job);
        return CLI_DONE;
    }
    if (code == CLI_DONE) {
        code = solve(p);
    }
    if (code == CLI_DONE) {
        code = save(p);
    }
    if (code == CLI_DONE && cli_given(p->job.args, CLI_OPT_JSON)) {
        print_json(p);
    } else if (code == CLI_DONE && !cli_given(p->job.args, CLI_OPT_QUIET)) {
        print_text(p);
    }
    return code;
}

static void close_all(predicting *p)
{
    free(p->narrow);
    free(p->out);
    free(p->job.forward.distances64);
    free(p->job.forward.ids);
    cli_labels_free(&p->truth);
    cli_labels_free(&p->labels);
    kith_corpus_free(p->job.prepared);
    cli_points_close(&p->job.queries);
    cli_points_close(&p->job.corpus);
    cli_session_close(&p->job.session);
}

int cli_predict(const cli_args *args)
{
    predicting p = {.job = {.args = args}};
    int code = cli_device_check(args->device);
    if (code == CLI_DONE) {
        code = check_output(args);
    }
    if (code == CLI_DONE) {
        code = cli_session_open(&p.job.session, args);
        if (code == CLI_DONE) {
            code = run(&p);
        }
        close_all(&p);
    }
    return code;
}
