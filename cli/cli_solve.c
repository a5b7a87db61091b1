/* SPDX-License-Identifier: Apache-2.0
 * kith graph and kith search: which call of the library solves a job, and what is written of it. */
#include "cli.h"
#include "cli_descent.h"
#include "cli_output.h"
#include "cli_part.h"

#include <stdlib.h>

/* ---- Graphs ---------------------------------------------------------------------------------- */

static int solve_graph(cli_job *job)
{
    CLI_TRY(cli_job_allocate(job, &job->forward, job->corpus.matrix->rows));
    return cli_graph_solve(job);
}

static uint64_t entries_of(const cli_job *job)
{
    return (uint64_t)job->corpus.matrix->rows * (uint64_t)job->args->k; /* both below 2^32 */
}

/* Doubles of the lists, edges that are turned, and at most twice as many in the answer. */
static int plan_symmetric(cli_job *job)
{
    CLI_TRY(cli_graph_plan(job));
    job->plan.peak_bytes += entries_of(job) * (8 + 8 + 2 * 16);
    return CLI_DONE;
}

/* Edges are ordered by doubles, as lists are. */
static int solve_symmetric(cli_job *job)
{
    CLI_TRY(cli_job_allocate(job, &job->forward, job->corpus.matrix->rows));
    job->forward.distances64 = malloc(entries_of(job) * sizeof(double));
    CLI_FAIL_IF(job->forward.distances64 == NULL, job->corpus.path,
                "no memory for the distances (take a smaller k)");
    return cli_graph_solve(job);
}

/* After the report of the graph was taken. */
static int save_symmetric(cli_job *job)
{
    CLI_TRY(cli_job_check(job,
                          kith_graph_symmetric(job->session.ctx, &job->forward, cli_job_metric(job),
                                               job->args->symmetry, &job->ranges)));
    job->pairs = kith_ranges_lists(job->ranges)->offsets[job->forward.rows];
    return cli_job_save_ranges(job);
}

int cli_graph(const cli_args *args)
{
    static const cli_engine lists = {KITH_FILE_LISTS_OUT,  NULL, cli_graph_plan, solve_graph,
                                     cli_job_save_forward, NULL};
    static const cli_engine symmetric = {KITH_FILE_RANGES_OUT, NULL,           plan_symmetric,
                                         solve_symmetric,      save_symmetric, "edges"};
    if (cli_is_radius_search(args)) {
        return cli_run(args, &cli_engine_radius);
    }
    if (cli_given(args, CLI_OPT_SHARDS)) {
        return cli_run(args, &cli_engine_shards);
    }
    return cli_run(args, cli_given(args, CLI_OPT_SYMMETRIC) ? &symmetric : &lists);
}

/* ---- Searches: one direction, both (--both), pairs that choose each other (--mutual) --------- */

static int plan_search(cli_job *job)
{
    return cli_job_plan(job, job->corpus.matrix, job->queries.matrix);
}

static int solve_search(cli_job *job)
{
    CLI_TRY(cli_job_allocate(job, &job->forward, cli_part_room(job)));
    job->forward.rows = job->queries.matrix->rows;
    const kith_search_params params = cli_job_params(job);
    return cli_job_check_rows(
        job,
        job->prepared != NULL ? kith_index_search(job->session.ctx, job->prepared,
                                                  job->queries.matrix, &params, &job->forward, NULL)
                              : kith_search(job->session.ctx, job->corpus.matrix,
                                            job->queries.matrix, &params, &job->forward, NULL),
        0);
}

static int plan_both(cli_job *job)
{
    CLI_TRY(plan_search(job));
    return cli_job_plan(job, job->queries.matrix, job->corpus.matrix);
}

static int solve_both(cli_job *job)
{
    CLI_TRY(cli_job_allocate(job, &job->forward, job->queries.matrix->rows));
    CLI_TRY(cli_job_allocate(job, &job->back, job->corpus.matrix->rows));
    const kith_search_params params = cli_job_params(job);
    return cli_job_check(job,
                         kith_knn_both(job->session.ctx, job->corpus.matrix, job->queries.matrix,
                                       &params, &job->back, &job->forward));
}

static int save_both(cli_job *job)
{
    const cli_args *args = job->args;
    CLI_TRY(cli_job_save(job, args->output, &job->forward, &job->points));
    return cli_job_save(job, args->output_back, &job->back, &job->asked);
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
    CLI_FAIL_IF(job->pairs == 0, path, "no pair is mutual, nothing was written (give a larger k)");
    double *pairs = malloc((size_t)job->pairs * 2 * sizeof *pairs);
    CLI_FAIL_IF(pairs == NULL, path, "no memory for the pairs (give a smaller k)");
    (void)collect_mutual(job, pairs);
    const kith_matrix matrix = {.data = pairs, .rows = job->pairs, .cols = 2, .dtype = KITH_F64};
    const int code = cli_points_save(&job->session, path, &matrix);
    free(pairs);
    return code;
}

int cli_search(const cli_args *args)
{
    static const cli_engine one = {KITH_FILE_LISTS_OUT,  NULL, plan_search, solve_search,
                                   cli_job_save_forward, NULL};
    static const cli_engine both = {KITH_FILE_LISTS_OUT, NULL,      plan_both,
                                    solve_both,          save_both, NULL};
    static const cli_engine mutual = {0,          CLI_ENDINGS_PAIRS, plan_both,
                                      solve_both, save_mutual,       "mutual pairs"};
    static const cli_engine walk = {KITH_FILE_LISTS_OUT,  NULL, NULL, cli_walk_solve,
                                    cli_job_save_forward, NULL};
    if (args->team != NULL && args->team->divides_corpus) {
        return cli_run(args, &cli_engine_parts);
    }
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
