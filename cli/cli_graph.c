/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "cli_descent.h"
#include "cli_output.h"
#include "cli_shards.h"

static int plan_exact(cli_job *job)
{
    const int code = cli_job_plan(job, job->corpus.matrix, NULL);
    return code == CLI_DONE ? cli_descent_hint(job) : code;
}

static int solve(cli_job *job)
{
    const int code = cli_job_allocate(job, &job->forward, job->corpus.matrix->rows);
    if (code != CLI_DONE) {
        return code;
    }
    if (job->descends) {
        return cli_descent_solve(job);
    }
    const kith_search_params params = cli_job_params(job);
    return cli_job_check(
        job, kith_graph_exact(job->session.ctx, job->corpus.matrix, &params, &job->forward));
}

int cli_graph(const cli_args *args)
{
    static const cli_engine exact = {CLI_ENDINGS_RESULT, plan_exact, solve, cli_job_save_forward,
                                     NULL};
    static const cli_engine either = {CLI_ENDINGS_RESULT, cli_descent_plan, solve,
                                      cli_job_save_forward, NULL};
    if (cli_is_radius_search(args)) {
        return cli_job_run(args, &cli_engine_radius);
    }
    if (cli_given(args, CLI_OPT_SHARDS)) {
        return cli_job_run(args, &cli_engine_shards);
    }
    const bool may_descend = args->method == KITH_METHOD_DESCENT || cli_given(args, CLI_OPT_RECALL);
    return cli_job_run(args, may_descend ? &either : &exact);
}
