/* SPDX-License-Identifier: Apache-2.0
 * Radius search, for graph and search alike: all neighbours within a distance. */
#include "cli.h"
#include "cli_job.h"
#include "cli_output.h"

static int solve(cli_job *job)
{
    const cli_args *args = job->args;
    kith_radius_params params = kith_radius_params_default();
    params.metric = cli_job_metric(job);
    params.radius = args->radius;
    params.method = args->method;
    params.flags = cli_given(args, CLI_OPT_INCLUDE_SELF) ? (uint32_t)KITH_INCLUDE_SELF : 0;
    params.count_only = args->output == NULL;
    kith_ctx *ctx = job->session.ctx;
    const int code = cli_job_check(
        job,
        job->prepared != NULL
            ? kith_corpus_radius(ctx, job->prepared, job->queries.matrix, &params, &job->ranges)
            : kith_radius(ctx, job->corpus.matrix, job->queries.matrix, &params, &job->ranges));
    if (code == CLI_DONE) {
        job->pairs = kith_ranges_offsets(job->ranges)[kith_ranges_rows(job->ranges)];
    }
    return code;
}

int cli_job_save_ranges(cli_job *job)
{
    const char *path = job->args->output;
    if (path == NULL) {
        return CLI_DONE;
    }
    kith_result_meta meta = cli_job_meta(job, &job->points);
    meta.kind = KITH_KIND_RANGES;
    return cli_session_saved(&job->session,
                             kith_ranges_save(job->session.ctx, path, job->ranges, &meta), path);
}

const cli_engine cli_engine_radius = {CLI_ENDINGS_RANGES, NULL, solve, cli_job_save_ranges,
                                      "neighbours within the radius"};
