/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli_stream.h"

#include "cli.h"
#include "cli_clock.h"
#include "cli_message.h"
#include "cli_output.h"
#include "cli_same.h"
#include "cli_signal.h"
#include "cli_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A chunk's lists where neither --chunk nor --memory asks for fewer. */
static const int64_t lists_bytes = (int64_t)256 << 20;
#define ENDINGS_STREAM ".npz .kith .knn .ibin .ivecs"

/* Who solves a chunk. */
typedef enum solver {
    EACH = 0, /* kith_knn_exact, which prepares the corpus for each chunk */
    PREPARED, /* the corpus, once it is there, as job->prepared or as made here */
    PROBE     /* EACH for the first chunk, which shows whether the tree pays; then PREPARED */
} solver;

typedef struct streaming {
    cli_job *job;
    kith_result_stream *out;
    cli_writer writer;
    solver by;
    kith_method method;  /* of the corpus that is made: TREE or EXACT */
    kith_corpus *corpus; /* made here */
    int64_t first;       /* row that is next */
    bool gpu;            /* planned on one */
} streaming;

bool cli_stream_wanted(const cli_job *job)
{
    const cli_args *args = job->args;
    if (cli_given(args, CLI_OPT_STREAM) || cli_given(args, CLI_OPT_CHUNK) ||
        cli_given(args, CLI_OPT_RESTART)) {
        return true;
    }
    const bool one_table = args->command == CLI_SEARCH && !cli_is_radius_search(args) &&
                           !cli_given(args, CLI_OPT_BOTH) && !cli_given(args, CLI_OPT_MUTUAL) &&
                           !cli_given(args, CLI_OPT_DISTANCES);
    return one_table && args->memory_bytes != 0 && job->need_bytes > args->memory_bytes &&
           args->output != NULL && args->format != KITH_FORMAT_CSR &&
           (args->format != KITH_FORMAT_AUTO || cli_output_ends(args->output, ENDINGS_STREAM));
}

/* ---- Plan ----------------------------------------------------------------------------------- */

/* The library's plan of one chunk, and the lists of another, which is being written. */
static int plan_chunk(cli_job *job)
{
    const kith_matrix queries = cli_job_rows(job->queries.matrix, 0, job->chunk_rows);
    job->planned = false;
    const int code = cli_job_plan(job, job->corpus.matrix, &queries);
    job->plan.peak_bytes += job->plan.result_bytes;
    job->plan.result_bytes *= 2;
    cli_job_count_need(job);
    return code;
}

static int plan(cli_job *job)
{
    const cli_args *args = job->args;
    const int64_t rows = job->queries.matrix->rows;
    const int64_t usual = lists_bytes / (8 * args->k); /* k is below 2^32 */
    job->chunk_rows = cli_given(args, CLI_OPT_CHUNK) ? args->chunk : usual > 0 ? usual : 1;
    job->chunk_rows = job->chunk_rows < rows ? job->chunk_rows : rows;
    int code = plan_chunk(job);
    while (code == CLI_DONE && args->memory_bytes != 0 && job->need_bytes > args->memory_bytes &&
           job->chunk_rows > 1 && !cli_given(args, CLI_OPT_CHUNK)) {
        job->chunk_rows /= 2;
        code = plan_chunk(job);
    }
    return code == CLI_DONE
               ? cli_job_check_memory(job->corpus.path, job->need_bytes, args->memory_bytes)
               : code;
}

/* whole: the plan of all queries at once, which says what pays for them. */
static void choose_solver(streaming *s, const kith_plan *whole)
{
    const cli_job *job = s->job;
    const int64_t left = job->queries.matrix->rows - s->first;
    const bool tree = strcmp(whole->method, "tree") == 0;
    s->gpu = strcmp(whole->backend, "cpu") != 0;
    s->method = tree ? KITH_METHOD_TREE : KITH_METHOD_EXACT;
    if (job->prepared != NULL) {
        s->by = PREPARED;
    } else if (job->args->pipeline != KITH_PIPELINE_FUSED || left <= job->chunk_rows ||
               (tree && s->gpu)) {
        s->by = EACH; /* a GPU keeps no tree: it makes one in the time of some thousand queries */
    } else if (tree && job->args->method == KITH_METHOD_AUTO &&
               strcmp(job->plan.method, "tree") == 0) {
        s->by = PROBE;
    } else {
        s->by = PREPARED;
    }
}

/* ---- Solve ---------------------------------------------------------------------------------- */

/* Makes the corpus. Where a GPU has no room for all of it, or there is no such corpus, each chunk
 * is solved for itself. */
static int prepare(streaming *s)
{
    cli_job *job = s->job;
    kith_corpus_params params = kith_corpus_params_default();
    params.metric = cli_job_metric(job);
    params.method = s->method;
    params.tree_height = s->method == KITH_METHOD_TREE ? job->args->tree_height : 0;
    const kith_status status =
        kith_corpus_create_with(job->session.ctx, job->corpus.matrix, &params, &s->corpus);
    if (status == KITH_E_DEVICE_MEMORY || status == KITH_E_UNSUPPORTED) {
        s->by = EACH;
        return CLI_DONE;
    }
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    const int code = cli_job_check(job, status);
    if (code == CLI_DONE && kith_ctx_report(job->session.ctx, &report) == KITH_OK) {
        job->report.seconds_check += report.seconds_check;
        job->report.seconds_prepare += report.seconds_prepare;
        job->report.distinct_rows = report.distinct_rows;
    }
    return code;
}

static kith_status search(streaming *s, const kith_matrix *queries, const kith_neighbors *table)
{
    cli_job *job = s->job;
    kith_search_params params = cli_job_params(job);
    const kith_corpus *corpus = job->prepared != NULL ? job->prepared : s->corpus;
    if (s->by != PREPARED) {
        return kith_knn_exact(job->session.ctx, job->corpus.matrix, queries, &params, table);
    }
    params.method = KITH_METHOD_AUTO; /* the corpus has its way, and its height */
    params.tree_height = 0;
    return kith_corpus_search(job->session.ctx, corpus, queries, &params, table);
}

/* Sums of times, averages over rows, the most of memory. */
static void add_report(streaming *s, const kith_report *one, int64_t rows)
{
    kith_report *all = &s->job->report;
    const double share = (double)rows / (double)(s->first + rows - s->job->resumed_rows);
    kith_report sum = *one;
    sum.seconds_check += all->seconds_check;
    sum.seconds_prepare += all->seconds_prepare;
    sum.seconds_screen += all->seconds_screen;
    sum.seconds_rescore += all->seconds_rescore;
    sum.seconds_select += all->seconds_select;
    sum.select_cpu_rows += all->select_cpu_rows;
    sum.select_gpu_rows += all->select_gpu_rows;
    sum.rerun_share = all->rerun_share + (one->rerun_share - all->rerun_share) * share;
    sum.skipped_share = all->skipped_share + (one->skipped_share - all->skipped_share) * share;
    sum.candidates = all->candidates + (one->candidates - all->candidates) * share;
    if (sum.distinct_rows < all->distinct_rows) {
        sum.distinct_rows = all->distinct_rows;
    }
    if (sum.gpu_peak_bytes < all->gpu_peak_bytes) {
        sum.gpu_peak_bytes = all->gpu_peak_bytes;
    }
    *all = sum;
}

/* What the first chunk has shown. */
static void learn(streaming *s)
{
    const kith_report *report = &s->job->report;
    if (s->by == PROBE) {
        s->by = PREPARED;
        s->method = strcmp(report->screen, "tree") == 0 ? KITH_METHOD_TREE : KITH_METHOD_EXACT;
    } else if (s->by == PREPARED && s->gpu && strcmp(report->backend, "cpu") == 0) {
        kith_corpus_free(s->corpus); /* it thought of fewer queries, and stayed on the processor */
        s->corpus = NULL;
        s->by = EACH;
    }
}

/* A mapped file's pages that are not needed any more, so that they do not count as memory. */
static void drop_pages(const cli_points *points, const kith_matrix *rows)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start = (uintptr_t)rows->data;
    const uintptr_t skip = (page - start % page) % page;
    const uintptr_t bytes = (uintptr_t)(rows->rows * rows->stride_bytes);
    const char *first = (const char *)rows->data + skip;
    void *pages = NULL;
    memcpy(&pages, &first, sizeof pages); /* madvise changes nothing that is const */
    if (kith_points_mapped(points->handle) && bytes >= skip + page) {
        (void)madvise(pages, (bytes - skip) / page * page, MADV_DONTNEED);
    }
}

static int solve_chunk(streaming *s, int64_t count)
{
    cli_job *job = s->job;
    kith_neighbors *table = cli_writer_table(&s->writer);
    const kith_matrix queries = cli_job_rows(job->queries.matrix, s->first, count);
    const double rows = (double)job->queries.matrix->rows;
    int code = CLI_DONE;
    cli_progress_part(&job->session.progress, (double)s->first / rows, (double)count / rows);
    if (s->by == PREPARED && job->prepared == NULL && s->corpus == NULL) {
        code = prepare(s);
    }
    table->rows = count;
    if (code == CLI_DONE) {
        code = cli_job_check_rows(job, search(s, &queries, table), s->first);
    }
    if (code != CLI_DONE) {
        return code;
    }
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    code = cli_job_check(job, kith_ctx_report(job->session.ctx, &report));
    if (code == CLI_DONE && report.exact != 1) {
        return cli_fail(job->corpus.path, "the answer was not certified, it was not written "
                                          "(this should be impossible, please report it)");
    }
    add_report(s, &report, count);
    drop_pages(&job->queries, &queries);
    learn(s);
    s->first += count;
    return code;
}

/* The writer's failure in the words of its own context. */
static int check_written(streaming *s, kith_status status)
{
    if (status == KITH_OK) {
        return CLI_DONE;
    }
    cli_progress_clear(&s->job->session.progress);
    const char *detail = kith_ctx_detail(s->writer.ctx);
    return detail[0] != '\0' ? cli_fail(NULL, "%s", detail)
                             : cli_fail(s->job->args->output, "%s", kith_status_text(status));
}

static int solve_all(streaming *s)
{
    cli_job *job = s->job;
    const int64_t rows = job->queries.matrix->rows;
    int code = CLI_DONE;
    while (s->first < rows && code == CLI_DONE) {
        const int64_t left = rows - s->first;
        code = solve_chunk(s, left < job->chunk_rows ? left : job->chunk_rows);
        if (code == CLI_DONE) {
            code = check_written(s, cli_writer_give(&s->writer));
            job->chunks += 1;
        }
    }
    const kith_status written = cli_writer_end(&s->writer);
    job->seconds_write += s->writer.seconds;
    return code == CLI_DONE ? check_written(s, written) : code;
}

/* ---- The output ----------------------------------------------------------------------------- */

static int open_output(streaming *s)
{
    cli_job *job = s->job;
    const cli_args *args = job->args;
    char same[CLI_SAME_BYTES];
    int code = cli_same_describe(args, same);
    if (code != CLI_DONE) {
        return code;
    }
    const kith_result_meta meta = cli_job_meta(job, job->corpus.matrix->rows);
    kith_result_stream_params params = kith_result_stream_params_default();
    params.format = args->format;
    params.rows = job->queries.matrix->rows;
    params.k = args->k;
    params.job = same;
    params.restart = cli_given(args, CLI_OPT_RESTART);
    code = cli_session_check(
        &job->session,
        kith_result_stream_open(job->session.ctx, args->output, &params, &meta, &s->out),
        args->output);
    if (code == CLI_DONE) {
        s->first = kith_result_stream_rows(s->out);
        job->resumed_rows = s->first;
    }
    if (s->first > 0 && !cli_given(args, CLI_OPT_QUIET)) {
        (void)fprintf(stderr, "kith: %s: %" PRId64 " of %" PRId64 " rows stand, going on there\n",
                      kith_result_stream_path(s->out), s->first, params.rows);
    }
    return code;
}

/* After the last chunk: the file gets its name. */
static int finish(streaming *s)
{
    cli_job *job = s->job;
    const double start = cli_clock_now();
    const int code = cli_session_check(
        &job->session, kith_result_stream_finish(job->session.ctx, s->out), job->args->output);
    job->seconds_write += cli_clock_now() - start;
    return code;
}

/* What Ctrl-C leaves is said after the writer has stopped. */
static void tell_interrupted(const streaming *s)
{
    const int64_t stand = s->out != NULL ? kith_result_stream_rows(s->out) : 0;
    if (s->out == NULL) {
        (void)cli_fail(NULL, "interrupted (nothing was changed)");
    } else if (stand == 0) {
        (void)cli_fail(NULL, "interrupted (no unfinished file is left)");
    } else {
        (void)cli_fail(NULL,
                       "interrupted (%s has %" PRId64 " of %" PRId64 " rows; the same command goes "
                       "on there)",
                       kith_result_stream_path(s->out), stand, s->job->queries.matrix->rows);
    }
}

static int solve(streaming *s)
{
    cli_job *job = s->job;
    if (s->first < job->queries.matrix->rows &&
        cli_writer_start(&s->writer, s->out, job->chunk_rows, job->args->k) != KITH_OK) {
        return cli_fail(job->corpus.path,
                        "no memory for two chunks of %" PRId64 " rows (give a smaller --chunk)",
                        job->chunk_rows);
    }
    const int code = solve_all(s);
    if (code != CLI_DONE) {
        return code;
    }
    return cli_signal_came() ? CLI_INTERRUPTED : finish(s);
}

/* The report where no chunk is left to solve. */
static void begin_report(cli_job *job, const kith_plan *whole)
{
    kith_report *report = &job->report;
    report->struct_size = (uint32_t)sizeof *report;
    report->exact = 1;
    memcpy(report->screen, whole->method, sizeof report->screen);
    memcpy(report->backend, whole->backend, sizeof report->backend);
}

int cli_stream_run(cli_job *job)
{
    streaming s = {.job = job};
    const kith_plan whole = job->plan;
    int code = plan(job);
    if (code != CLI_DONE || cli_given(job->args, CLI_OPT_DRY_RUN)) {
        return code;
    }
    job->session.silent = true;
    code = open_output(&s);
    if (code == CLI_DONE) {
        begin_report(job, &whole);
        choose_solver(&s, &whole);
        code = solve(&s);
    }
    if (code == CLI_INTERRUPTED) {
        tell_interrupted(&s);
    }
    cli_writer_free(&s.writer);
    kith_result_stream_free(s.out);
    kith_corpus_free(s.corpus);
    return code;
}
