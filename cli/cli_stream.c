/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_stream.h"

#include "cli.h"
#include "cli_output.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Chunks on their way to disk ------------------------------------------------------------- */

static void *write_chunks(void *arg)
{
    cli_writer *w = arg;
    (void)pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->given == NULL && !w->ending) {
            (void)pthread_cond_wait(&w->changed, &w->lock);
        }
        if (w->given == NULL) {
            break;
        }
        const kith_neighbors *piece = w->given;
        kith_status status = w->status;
        (void)pthread_mutex_unlock(&w->lock);
        const double start = cli_clock_now();
        if (status == KITH_OK) {
            status = kith_result_stream_put(w->ctx, w->stream, piece);
        }
        (void)pthread_mutex_lock(&w->lock);
        w->seconds += cli_clock_now() - start;
        w->status = status;
        w->given = NULL;
        (void)pthread_cond_broadcast(&w->changed);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Ctrl-C belongs to the thread that computes. */
static int start_thread(cli_writer *w)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&w->thread, NULL, write_chunks, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static bool allocate_table(kith_neighbors *table, int64_t rows, int64_t k)
{
    const uint64_t count = (uint64_t)rows * (uint64_t)k; /* both below 2^32 */
    table->rows = rows;
    table->k = k;
    if (count <= SIZE_MAX / sizeof *table->ids) {
        table->ids = malloc(count * sizeof *table->ids);
        table->distances = malloc(count * sizeof *table->distances);
    }
    return table->ids != NULL && table->distances != NULL;
}

kith_status cli_writer_start(cli_writer *writer, kith_result_stream *stream, int64_t rows,
                             int64_t k, int tables)
{
    writer->stream = stream;
    for (int i = 0; i < tables; i++) {
        if (!allocate_table(&writer->tables[i], rows, k)) {
            return KITH_E_MEMORY;
        }
    }
    const kith_status status = kith_ctx_create(NULL, &writer->ctx);
    if (status != KITH_OK) {
        return status;
    }
    (void)pthread_mutex_init(&writer->lock, NULL);
    (void)pthread_cond_init(&writer->changed, NULL);
    writer->running = start_thread(writer) == 0;
    return writer->running ? KITH_OK : KITH_E_MEMORY;
}

kith_neighbors *cli_writer_table(cli_writer *writer)
{
    return &writer->tables[writer->next];
}

/* With the lock: until nothing is on its way. */
static kith_status wait_idle(cli_writer *w)
{
    while (w->given != NULL) {
        (void)pthread_cond_wait(&w->changed, &w->lock);
    }
    return w->status;
}

kith_status cli_writer_give(cli_writer *writer)
{
    (void)pthread_mutex_lock(&writer->lock);
    const kith_status status = wait_idle(writer);
    if (status == KITH_OK) {
        writer->given = &writer->tables[writer->next];
        writer->next = 1 - writer->next;
        (void)pthread_cond_broadcast(&writer->changed);
    }
    (void)pthread_mutex_unlock(&writer->lock);
    return status;
}

kith_status cli_writer_end(cli_writer *writer)
{
    if (!writer->running) {
        return writer->status;
    }
    (void)pthread_mutex_lock(&writer->lock);
    const kith_status status = wait_idle(writer);
    writer->ending = true;
    (void)pthread_cond_broadcast(&writer->changed);
    (void)pthread_mutex_unlock(&writer->lock);
    (void)pthread_join(writer->thread, NULL);
    writer->running = false;
    return status;
}

void cli_writer_free(cli_writer *writer)
{
    (void)cli_writer_end(writer);
    for (int i = 0; i < 2; i++) {
        free(writer->tables[i].ids);
        free(writer->tables[i].distances);
    }
    if (writer->ctx != NULL) { /* the lock was made behind it */
        (void)pthread_cond_destroy(&writer->changed);
        (void)pthread_mutex_destroy(&writer->lock);
    }
    kith_ctx_free(writer->ctx);
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
    cli_writer writer;
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
static void add_written(cli_job *job, const void *unused)
{
    (void)unused;
    if (job->chunk_rows < job->queries.matrix->rows) {
        job->plan.peak_bytes += job->plan.result_bytes;
        job->plan.result_bytes *= 2;
    }
}

static int plan(cli_job *job)
{
    const cli_args *args = job->args;
    const bool given = cli_given(args, CLI_OPT_CHUNK);
    const int64_t lists = strcmp(job->plan.backend, "cpu") == 0 ? lists_bytes : lists_bytes_gpu;
    const int64_t usual = lists / (8 * args->k); /* k is below 2^32 */
    job->chunk_rows = given ? args->chunk : usual > 0 ? usual : 1;
    return cli_chunks_plan(job, &job->chunk_rows, given ? INT64_MAX : 1, add_written, NULL);
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
        code = cli_chunks_solve(&s->chunks, cli_writer_table(&s->writer));
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
    const double start = cli_clock_now();
    const int code = cli_session_check(
        &job->session, kith_result_stream_finish(job->session.ctx, s->out), job->args->output);
    job->seconds_write += cli_clock_now() - start;
    return code;
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
    const int64_t left = job->queries.matrix->rows - s->chunks.first;
    CLI_FAIL_IF(left > 0 && cli_writer_start(&s->writer, s->out, job->chunk_rows, job->args->k,
                                             left > job->chunk_rows ? 2 : 1) != KITH_OK,
                job->corpus.path,
                "no memory for chunks of %" PRId64 " rows (give a smaller --chunk)",
                job->chunk_rows);
    CLI_TRY(solve_all(s));
    return cli_signal_came() ? CLI_INTERRUPTED : finish(s);
}

int cli_stream_run(cli_job *job)
{
    streaming s = {.job = job, .chunks = {.job = job}};
    const kith_plan whole = job->plan;
    int code = plan(job);
    if (code != CLI_DONE || cli_given(job->args, CLI_OPT_DRY_RUN)) {
        return code;
    }
    job->session.silent = true;
    code = open_output(&s);
    if (code == CLI_DONE) {
        s.chunks.rows = job->chunk_rows;
        cli_chunks_begin(&s.chunks, &whole);
        code = solve(&s);
    }
    if (code == CLI_INTERRUPTED) {
        tell_interrupted(&s);
    }
    cli_writer_free(&s.writer);
    kith_result_stream_free(s.out);
    cli_chunks_end(&s.chunks);
    return code;
}
