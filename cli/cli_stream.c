/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli_stream.h"

#include "cli.h"
#include "cli_output.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Chunks ---------------------------------------------------------------------------------- */

int cli_chunks_plan(cli_job *job, int64_t *rows, int64_t least, void (*beside)(cli_job *job))
{
    const int64_t all = job->queries.matrix->rows;
    const uint64_t limit = job->args->memory_bytes;
    job->whole = job->plan;
    job->screened = strcmp(job->plan.method, "screen") == 0;
    for (*rows = *rows < all ? *rows : all;; *rows /= 2) {
        const kith_matrix queries = cli_job_rows(job->queries.matrix, 0, *rows);
        job->planned = false;
        CLI_TRY(cli_job_plan(job, job->corpus.matrix, &queries));
        beside(job);
        cli_job_count_need(job);
        if (limit == 0 || job->need_bytes <= limit || *rows <= least) {
            return cli_job_check_memory(job->corpus.path, job->need_bytes, limit);
        }
    }
}

static void choose_solver(cli_chunks *c)
{
    const cli_job *job = c->job;
    const kith_plan *whole = &job->whole;
    const int64_t left = job->queries.matrix->rows - c->first;
    const bool tree = strcmp(whole->method, "tree") == 0;
    c->gpu = strcmp(whole->backend, "cpu") != 0;
    c->method = tree ? KITH_METHOD_TREE : KITH_METHOD_EXACT;
    if (job->prepared != NULL) {
        c->by = CLI_CHUNKS_PREPARED;
    } else if (job->args->pipeline != KITH_PIPELINE_FUSED || left <= c->rows || (tree && c->gpu)) {
        c->by = CLI_CHUNKS_EACH; /* a GPU makes a tree in the time of some thousand queries */
    } else if (tree && job->args->method == KITH_METHOD_AUTO &&
               strcmp(job->plan.method, "tree") == 0) {
        c->by = CLI_CHUNKS_PROBE;
    } else {
        c->by = CLI_CHUNKS_PREPARED;
    }
}

/* Makes the corpus. Where there is no room for all of it, or no such corpus, each chunk is solved
 * for itself: that is what the plan was made for. */
static int prepare(cli_chunks *c)
{
    cli_job *job = c->job;
    kith_index_params params = kith_index_params_default();
    params.metric = cli_job_metric(job);
    params.method = c->method;
    params.tree_height = c->method == KITH_METHOD_TREE ? job->args->tree_height : 0;
    params.period = job->period;
    const kith_status status =
        kith_index_create(job->session.ctx, job->corpus.matrix, &params, &c->corpus);
    if (status == KITH_E_DEVICE_MEMORY || status == KITH_E_MEMORY || status == KITH_E_UNSUPPORTED) {
        c->by = CLI_CHUNKS_EACH;
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

static kith_status search(cli_chunks *c, const kith_matrix *queries, const kith_neighbors *table)
{
    cli_job *job = c->job;
    kith_search_params params = cli_job_params(job);
    const kith_index *corpus = job->prepared != NULL ? job->prepared : c->corpus;
    if (c->by != CLI_CHUNKS_PREPARED) {
        return kith_search(job->session.ctx, job->corpus.matrix, queries, &params, table, NULL);
    }
    params.method = KITH_METHOD_AUTO; /* the corpus has its way, and its height */
    params.tree_height = 0;
    params.period = c->corpus != NULL ? NULL : params.period;
    return kith_index_search(job->session.ctx, corpus, queries, &params, table, NULL);
}

static void add_report(cli_chunks *c, const kith_report *one, int64_t rows)
{
    kith_report *all = &c->job->report;
    const double share = (double)rows / (double)(c->first + rows - c->job->resumed_rows);
    kith_report sum = *one;
    cli_job_add_report(all, one, share, true, &sum);
    *all = sum;
}

/* What the first chunk has shown. */
static void learn(cli_chunks *c)
{
    const kith_report *report = &c->job->report;
    if (c->by == CLI_CHUNKS_PROBE) {
        c->by = CLI_CHUNKS_PREPARED;
        c->method = strcmp(report->screen, "tree") == 0 ? KITH_METHOD_TREE : KITH_METHOD_EXACT;
    } else if (c->by == CLI_CHUNKS_PREPARED && c->gpu && strcmp(report->backend, "cpu") == 0) {
        kith_index_free(c->corpus); /* it thought of fewer queries, and stayed on the processor */
        c->corpus = NULL;
        c->by = CLI_CHUNKS_EACH;
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
    if (kith_points_get_source(points->handle)->mapped && bytes >= skip + page) {
        (void)madvise(pages, (bytes - skip) / page * page, MADV_DONTNEED);
    }
}

int cli_chunks_solve(cli_chunks *c, kith_neighbors *table)
{
    cli_job *job = c->job;
    const int64_t all = job->queries.matrix->rows;
    const int64_t count = all - c->first < c->rows ? all - c->first : c->rows;
    const kith_matrix queries = cli_job_rows(job->queries.matrix, c->first, count);
    cli_progress_part(&job->session.progress, (double)c->first / (double)all,
                      (double)count / (double)all);
    if (c->by == CLI_CHUNKS_PREPARED && job->prepared == NULL && c->corpus == NULL) {
        CLI_TRY(prepare(c));
    }
    table->rows = count;
    job->first_query = job->part.first + c->first;
    CLI_TRY(cli_job_check(job, search(c, &queries, table)));
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    CLI_TRY(cli_job_check(job, kith_ctx_report(job->session.ctx, &report)));
    CLI_FAIL_IF(report.exact != 1, job->corpus.path,
                "the answer was not certified, it was not written "
                "(this should be impossible, please report it)");
    add_report(c, &report, count);
    drop_pages(&job->queries, &queries);
    learn(c);
    c->first += count;
    return CLI_DONE;
}

void cli_chunks_begin(cli_chunks *c)
{
    const kith_plan *whole = &c->job->whole;
    kith_report *report = &c->job->report;
    report->exact = 1; /* of a job with no chunk left to solve */
    memcpy(report->screen, whole->method, sizeof report->screen);
    memcpy(report->backend, whole->backend, sizeof report->backend);
    choose_solver(c);
}

void cli_chunks_end(cli_chunks *c)
{
    kith_index_free(c->corpus);
    c->corpus = NULL;
}

/* ---- Chunks on their way to disk ------------------------------------------------------------- */

/* A thread writes one chunk while the next is computed. Two tables, so that never more than two
 * chunks are in memory. */
typedef struct writer {
    kith_ctx *ctx; /* the thread's own */
    kith_result_stream *stream;
    kith_neighbors tables[2];
    int next;     /* the one that may be filled; */
    bool running; /*   the other one is on its way */
    pthread_t thread;
    kith_status status; /* of the last piece */
    double seconds;     /* of writing */
} writer;

static void *write_chunk(void *arg)
{
    writer *w = arg;
    CLI_TIMED(w->seconds,
              w->status = kith_result_stream_put(w->ctx, w->stream, &w->tables[1 - w->next]));
    return NULL;
}

/* Ctrl-C belongs to the thread that computes. */
static bool start_thread(writer *w)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&w->thread, NULL, write_chunk, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

static bool allocate_table(kith_neighbors *table, int64_t rows, int64_t k)
{
    const uint64_t count = (uint64_t)rows * (uint64_t)k; /* both below 2^32 */
    table->rows = rows;
    table->k = k;
    table->ids = cli_keep(count, sizeof *table->ids);
    table->distances = cli_keep(count, sizeof *table->distances);
    return table->ids != NULL && table->distances != NULL;
}

/* Tables of rows x k: 1 where there is one chunk alone, else 2. False: there is no memory. */
static bool begin_writer(writer *w, int64_t rows, int64_t k, int tables)
{
    bool there = true;
    for (int i = 0; i < tables && there; i++) {
        there = allocate_table(&w->tables[i], rows, k);
    }
    return there && kith_ctx_create(NULL, &w->ctx) == KITH_OK;
}

/* Until nothing is on its way. */
static kith_status wait_idle(writer *w)
{
    if (w->running) {
        (void)pthread_join(w->thread, NULL);
        w->running = false;
    }
    return w->status;
}

/* Hands the table that may be filled over, as soon as the one before is written. What comes back is
 * the status of what was written until now; kith_ctx_detail(writer.ctx) explains it. */
static kith_status give_table(writer *w)
{
    if (wait_idle(w) != KITH_OK) {
        return w->status;
    }
    w->next = 1 - w->next;
    w->running = start_thread(w);
    if (!w->running) {
        (void)write_chunk(w);
    }
    return w->running ? KITH_OK : w->status;
}

/* ---- The search ------------------------------------------------------------------------------ */

/* A chunk's lists where neither --chunk nor --memory asks for fewer. A search by the tree on the
 * processor is not slower for it, and little is lost where a job ends; what a GPU makes anew for a
 * chunk (its tree) is then little beside the search. */
static const int64_t lists_bytes = (int64_t)32 << 20;
static const int64_t lists_bytes_gpu = (int64_t)1 << 30;

typedef struct streaming {
    cli_job *job;
    kith_result_stream *out;
    writer writer;
    cli_chunks chunks;
} streaming;

bool cli_stream_wanted(const cli_job *job)
{
    const cli_args *args = job->args;
    if (cli_given(args, CLI_OPT_SHARDS) || job->part.all != NULL) {
        return false; /* pieces of another kind */
    }
    if (cli_given(args, CLI_OPT_STREAM) || cli_given(args, CLI_OPT_CHUNK) ||
        cli_given(args, CLI_OPT_RESTART)) {
        return true;
    }
    const bool one_table = args->command == CLI_SEARCH && !cli_is_radius_search(args) &&
                           !cli_is_graph_search(args) && !cli_given(args, CLI_OPT_BOTH) &&
                           !cli_given(args, CLI_OPT_MUTUAL) && !cli_given(args, CLI_OPT_DISTANCES);
    return one_table && args->memory_bytes != 0 && job->need_bytes > args->memory_bytes &&
           args->output != NULL && args->format != KITH_FORMAT_CSR &&
           (args->format != KITH_FORMAT_AUTO ||
            (cli_output_holds(args->output) & KITH_FILE_PIECES) != 0);
}

/* ---- Plan ----------------------------------------------------------------------------------- */

/* The lists of another chunk, which is being written. */
static void add_written(cli_job *job)
{
    if (job->chunk_rows < job->queries.matrix->rows) {
        job->plan.peak_bytes += job->plan.result_bytes;
        job->plan.result_bytes *= 2;
    }
}

int cli_stream_plan(cli_job *job)
{
    const cli_args *args = job->args;
    const bool given = cli_given(args, CLI_OPT_CHUNK);
    const int64_t lists = strcmp(job->plan.backend, "cpu") == 0 ? lists_bytes : lists_bytes_gpu;
    const int64_t usual = lists / (8 * args->k); /* k is below 2^32 */
    job->chunk_rows = given ? args->chunk : usual > 0 ? usual : 1;
    return cli_chunks_plan(job, &job->chunk_rows, given ? INT64_MAX : 1, add_written);
}

/* ---- Solve ---------------------------------------------------------------------------------- */

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
    while (s->chunks.first < rows && code == CLI_DONE) {
        code = cli_chunks_solve(&s->chunks, &s->writer.tables[s->writer.next]);
        if (code == CLI_DONE) {
            code = check_written(s, give_table(&s->writer));
            job->chunks += 1;
        }
    }
    const kith_status written = wait_idle(&s->writer);
    job->seconds_write += s->writer.seconds;
    return code == CLI_DONE ? check_written(s, written) : code;
}

/* ---- The output ----------------------------------------------------------------------------- */

static int open_output(streaming *s)
{
    cli_job *job = s->job;
    const cli_args *args = job->args;
    char same[CLI_SAME_BYTES];
    CLI_TRY(cli_same_describe(args, same));
    CLI_TRY(cli_job_claim(job));
    job->exact = KITH_CERTIFIED; /* each chunk is, or the job fails */
    const kith_result_meta meta = cli_job_meta(job, &job->points);
    kith_result_stream_params params = kith_result_stream_params_default();
    params.format = args->format;
    params.rows = job->queries.matrix->rows;
    params.k = args->k;
    params.job = same;
    params.restart = cli_given(args, CLI_OPT_RESTART);
    CLI_TRY(cli_session_check(
        &job->session,
        kith_result_stream_open(job->session.ctx, args->output, &params, &meta, &s->out),
        args->output));
    s->chunks.first = kith_result_stream_get_state(s->out)->rows;
    job->resumed_rows = s->chunks.first;
    if (s->chunks.first > 0 && !cli_given(args, CLI_OPT_QUIET)) {
        (void)fprintf(stderr, "kith: %s: %" PRId64 " of %" PRId64 " rows stand, going on there\n",
                      cli_message_safe(kith_result_stream_get_state(s->out)->path), s->chunks.first,
                      params.rows);
    }
    return CLI_DONE;
}

/* After the last chunk: the file gets its name. */
static int finish(streaming *s)
{
    cli_job *job = s->job;
    kith_status status = KITH_OK;
    CLI_TIMED(job->seconds_write, status = kith_result_stream_finish(job->session.ctx, s->out));
    return cli_session_check(&job->session, status, job->args->output);
}

/* What Ctrl-C leaves is said after the writer has stopped. */
static void tell_interrupted(const streaming *s)
{
    const int64_t stand = s->out != NULL ? kith_result_stream_get_state(s->out)->rows : 0;
    if (s->out == NULL) {
        (void)cli_fail(NULL, "interrupted (before a chunk was solved)");
    } else if (stand == 0) {
        (void)cli_fail(NULL, "interrupted (no unfinished file is left)");
    } else {
        (void)cli_fail(NULL,
                       "interrupted (%s has %" PRId64 " of %" PRId64 " rows; the same command goes "
                       "on there)",
                       kith_result_stream_get_state(s->out)->path, stand,
                       s->job->queries.matrix->rows);
    }
}

static int solve(streaming *s)
{
    cli_job *job = s->job;
    CLI_TRY(open_output(s));
    const int64_t left = job->queries.matrix->rows - s->chunks.first;
    const int tables = left > job->chunk_rows ? 2 : 1;
    cli_chunks_begin(&s->chunks);
    s->writer.stream = s->out;
    CLI_FAIL_IF(left > 0 && !begin_writer(&s->writer, job->chunk_rows, job->args->k, tables),
                job->corpus.path,
                "no memory for chunks of %" PRId64 " rows (give a smaller --chunk)",
                job->chunk_rows);
    CLI_TRY(solve_all(s));
    return cli_signal_came() ? CLI_INTERRUPTED : finish(s);
}

int cli_stream_solve(cli_job *job)
{
    streaming s = {.job = job, .chunks = {.job = job, .rows = job->chunk_rows}};
    job->session.silent = true;
    const int code = solve(&s);
    if (code == CLI_INTERRUPTED) {
        tell_interrupted(&s);
    }
    (void)wait_idle(&s.writer);
    kith_ctx_free(s.writer.ctx);
    kith_result_stream_free(s.out);
    cli_chunks_end(&s.chunks);
    return code;
}
