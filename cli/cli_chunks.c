/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli_stream.h"

#include "cli.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int cli_chunks_plan(cli_job *job, int64_t *rows, int64_t least,
                    void (*beside)(cli_job *job, const void *arg), const void *arg)
{
    const int64_t all = job->queries.matrix->rows;
    const uint64_t limit = job->args->memory_bytes;
    job->screened = strcmp(job->plan.method, "screen") == 0;
    for (*rows = *rows < all ? *rows : all;; *rows /= 2) {
        const kith_matrix queries = cli_job_rows(job->queries.matrix, 0, *rows);
        job->planned = false;
        CLI_TRY(cli_job_plan(job, job->corpus.matrix, &queries));
        beside(job, arg);
        cli_job_count_need(job);
        if (limit == 0 || job->need_bytes <= limit || *rows <= least) {
            return cli_job_check_memory(job->corpus.path, job->need_bytes, limit);
        }
    }
}

static void choose_solver(cli_chunks *c, const kith_plan *whole)
{
    const cli_job *job = c->job;
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

/* Times are sums. */
static void add_report(cli_chunks *c, const kith_report *one, int64_t rows)
{
    kith_report *all = &c->job->report;
    const double share = (double)rows / (double)(c->first + rows - c->job->resumed_rows);
    kith_report sum = *one;
    sum.seconds_check += all->seconds_check;
    sum.seconds_prepare += all->seconds_prepare;
    sum.seconds_screen += all->seconds_screen;
    sum.seconds_rescore += all->seconds_rescore;
    sum.seconds_select += all->seconds_select;
    cli_job_add_report(all, one, share, &sum);
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
    CLI_TRY(cli_job_check_rows(job, search(c, &queries, table), c->first));
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

void cli_chunks_begin(cli_chunks *c, const kith_plan *whole)
{
    kith_report *report = &c->job->report;
    report->struct_size = (uint32_t)sizeof *report; /* that of a job with no chunk left to solve */
    report->exact = 1;
    memcpy(report->screen, whole->method, sizeof report->screen);
    memcpy(report->backend, whole->backend, sizeof report->backend);
    choose_solver(c, whole);
}

void cli_chunks_end(cli_chunks *c)
{
    kith_index_free(c->corpus);
    c->corpus = NULL;
}
