/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "cli_descent.h"
#include "cli_message.h"
#include "cli_output.h"
#include "cli_run.h"
#include "cli_shards.h"

#include <stdlib.h>

static bool may_descend(const cli_args *args)
{
    return args->method == KITH_METHOD_DESCENT || cli_given(args, CLI_OPT_RECALL);
}

static int plan_exact(cli_job *job)
{
    const int code = cli_job_plan(job, job->corpus.matrix, NULL);
    return code == CLI_DONE ? cli_descent_hint(job) : code;
}

static int plan(cli_job *job)
{
    return may_descend(job->args) ? cli_descent_plan(job) : plan_exact(job);
}

static int solve_allocated(cli_job *job)
{
    if (job->descends) {
        return cli_descent_solve(job);
    }
    const kith_search_params params = cli_job_params(job);
    return cli_job_check(
        job, kith_graph_exact(job->session.ctx, job->corpus.matrix, &params, &job->forward));
}

static int solve(cli_job *job)
{
    const int code = cli_job_allocate(job, &job->forward, job->corpus.matrix->rows);
    return code == CLI_DONE ? solve_allocated(job) : code;
}

/* ---- Symmetric ------------------------------------------------------------------------------- */

static uint64_t entries_of(const cli_job *job)
{
    return (uint64_t)job->corpus.matrix->rows * (uint64_t)job->args->k; /* both below 2^32 */
}

/* Doubles of the lists, edges that are turned, and at most twice as many in the answer. */
static int plan_symmetric(cli_job *job)
{
    const int code = plan(job);
    job->plan.peak_bytes += entries_of(job) * (8 + 8 + 2 * 16);
    return code;
}

/* Edges are ordered by doubles, as lists are. */
static int solve_symmetric(cli_job *job)
{
    const int code = cli_job_allocate(job, &job->forward, job->corpus.matrix->rows);
    if (code != CLI_DONE) {
        return code;
    }
    job->forward.distances64 = malloc(entries_of(job) * sizeof(double));
    if (job->forward.distances64 == NULL) {
        return cli_fail(job->corpus.path, "no memory for the distances (take a smaller k)");
    }
    return solve_allocated(job);
}

/* After the report of the graph was taken. */
static int save_symmetric(cli_job *job)
{
    const int code = cli_job_check(job, kith_graph_symmetric(job->session.ctx, &job->forward,
                                                             cli_job_metric(job),
                                                             job->args->symmetry, &job->ranges));
    if (code != CLI_DONE) {
        return code;
    }
    job->pairs = kith_ranges_offsets(job->ranges)[job->forward.rows];
    return cli_job_save_ranges(job);
}

/* ---- The command ----------------------------------------------------------------------------- */

int cli_graph(const cli_args *args)
{
    static const cli_engine lists = {CLI_ENDINGS_RESULT, plan, solve, cli_job_save_forward, NULL};
    static const cli_engine symmetric = {CLI_ENDINGS_RANGES, plan_symmetric, solve_symmetric,
                                         save_symmetric, "edges"};
    if (cli_is_radius_search(args)) {
        return cli_run(args, &cli_engine_radius);
    }
    if (cli_given(args, CLI_OPT_SHARDS)) {
        return cli_run(args, &cli_engine_shards);
    }
    return cli_run(args, cli_given(args, CLI_OPT_SYMMETRIC) ? &symmetric : &lists);
}
