/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "cli_job.h"
#include "cli_output.h"

static int plan(cli_job *job)
{
    return cli_job_plan(job, job->corpus.matrix, NULL);
}

static int solve(cli_job *job)
{
    const int code = cli_job_allocate(job, &job->forward, job->corpus.matrix->rows);
    if (code != CLI_DONE) {
        return code;
    }
    const kith_search_params params = cli_job_params(job);
    return cli_job_check(
        job, kith_graph_exact(job->session.ctx, job->corpus.matrix, &params, &job->forward));
}

int cli_graph(const cli_args *args)
{
    static const cli_engine engine = {CLI_ENDINGS_RESULT, plan, solve, cli_job_save_forward, NULL};
    return cli_job_run(args, cli_is_radius_search(args) ? &cli_engine_radius : &engine);
}
