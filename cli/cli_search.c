/* SPDX-License-Identifier: Apache-2.0
 * Search: the queries' neighbours in a corpus; with --both also the corpus' among the queries; with
 * --mutual the pairs that choose each other. */
#include "cli.h"
#include "cli_job.h"
#include "cli_message.h"
#include "cli_output.h"
#include "cli_run.h"
#include "cli_walk.h"

#include <stdlib.h>

static int plan(cli_job *job)
{
    return cli_job_plan(job, job->corpus.matrix, job->queries.matrix);
}

static int solve(cli_job *job)
{
    const int code = cli_job_allocate(job, &job->forward, job->queries.matrix->rows);
    if (code != CLI_DONE) {
        return code;
    }
    const kith_search_params params = cli_job_params(job);
    return cli_job_check(job, job->prepared != NULL
                                  ? kith_corpus_search(job->session.ctx, job->prepared,
                                                       job->queries.matrix, &params, &job->forward)
                                  : kith_knn_exact(job->session.ctx, job->corpus.matrix,
                                                   job->queries.matrix, &params, &job->forward));
}

static int plan_both(cli_job *job)
{
    const int code = plan(job);
    return code != CLI_DONE ? code : cli_job_plan(job, job->queries.matrix, job->corpus.matrix);
}

static int solve_both(cli_job *job)
{
    int code = cli_job_allocate(job, &job->forward, job->queries.matrix->rows);
    if (code == CLI_DONE) {
        code = cli_job_allocate(job, &job->back, job->corpus.matrix->rows);
    }
    if (code != CLI_DONE) {
        return code;
    }
    const kith_search_params params = cli_job_params(job);
    return cli_job_check(job,
                         kith_knn_both(job->session.ctx, job->corpus.matrix, job->queries.matrix,
                                       &params, &job->back, &job->forward));
}

static int save_both(cli_job *job)
{
    const cli_args *args = job->args;
    const int code = cli_job_save(job, args->output, &job->forward, &job->points);
    return code != CLI_DONE ? code : cli_job_save(job, args->output_back, &job->back, &job->asked);
}

static bool chooses(const kith_neighbors *table, int64_t row, uint32_t id)
{
    const uint32_t *ids = table->ids + row * table->k;
    for (int64_t i = 0; i < table->k; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Visits the mutual pairs by row of the corpus, then nearest first; writes them where pairs is not
 * NULL, two numbers each. Returns how many there are. */
static int64_t collect_mutual(const cli_job *job, double *pairs)
{
    const kith_neighbors *back = &job->back;
    int64_t count = 0;
    for (int64_t row = 0; row < back->rows; row++) {
        for (int64_t i = 0; i < back->k; i++) {
            const uint32_t query = back->ids[row * back->k + i];
            if (!chooses(&job->forward, query, (uint32_t)row)) {
                continue;
            }
            if (pairs != NULL) {
                pairs[2 * count] = (double)row;
                pairs[2 * count + 1] = query;
            }
            count++;
        }
    }
    return count;
}

static int save_mutual(cli_job *job)
{
    const char *path = job->args->output;
    job->pairs = collect_mutual(job, NULL);
    if (path == NULL) {
        return CLI_DONE;
    }
    if (job->pairs == 0) {
        return cli_fail(path, "no pair is mutual, nothing was written (give a larger k)");
    }
    double *pairs = malloc((size_t)job->pairs * 2 * sizeof *pairs);
    if (pairs == NULL) {
        return cli_fail(path, "no memory for the pairs (give a smaller k)");
    }
    (void)collect_mutual(job, pairs);
    const kith_matrix matrix = {.data = pairs, .rows = job->pairs, .cols = 2, .dtype = KITH_F64};
    const int code =
        cli_session_saved(&job->session, kith_points_save(job->session.ctx, path, &matrix), path);
    free(pairs);
    return code;
}

int cli_search(const cli_args *args)
{
    static const cli_engine one = {CLI_ENDINGS_RESULT, plan, solve, cli_job_save_forward, NULL};
    static const cli_engine both = {CLI_ENDINGS_RESULT, plan_both, solve_both, save_both, NULL};
    static const cli_engine mutual = {CLI_ENDINGS_PAIRS, plan_both, solve_both, save_mutual,
                                      "mutual pairs"};
    static const cli_engine walk = {CLI_ENDINGS_RESULT, NULL, cli_walk_solve, cli_job_save_forward,
                                    NULL};
    if (cli_is_graph_search(args)) {
        return cli_run(args, &walk);
    }
    if (cli_is_radius_search(args)) {
        return cli_run(args, &cli_engine_radius);
    }
    if (cli_given(args, CLI_OPT_MUTUAL)) {
        return cli_run(args, &mutual);
    }
    return cli_run(args, cli_given(args, CLI_OPT_BOTH) ? &both : &one);
}
