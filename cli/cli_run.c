/* SPDX-License-Identifier: Apache-2.0
 * kith graph and kith search from beginning to end. */
#include "cli.h"
#include "cli_descent.h"
#include "cli_output.h"
#include "cli_part.h"
#include "cli_stream.h"

static int read_points(cli_job *job)
{
    const cli_args *args = job->args;
    const double start = cli_clock_now();
    CLI_TRY(cli_is_graph_search(args) ? cli_walk_read(job) : cli_job_read_corpus(job));
    if (args->path_count > 1) {
        CLI_TRY(cli_session_read(&job->session, args->paths[args->path_count - 1], &job->queries));
    }
    job->seconds_read = cli_clock_now() - start;
    CLI_TRY(job->queries.matrix == NULL
                ? CLI_DONE
                : cli_points_check_like(job->queries.path, job->queries.matrix, job->corpus.path,
                                        job->corpus.matrix, false));
    CLI_TRY(cli_period_make(args, job->corpus.matrix->cols, &job->period));
    return cli_filter_read(job);
}

static int solve(cli_job *job, const cli_engine *engine)
{
    CLI_TRY(cli_part_meet(job, NULL));
    if (cli_part_is_empty(job)) {
        return CLI_DONE;
    }
    CLI_TRY(engine->solve(job));
    job->report.struct_size = (uint32_t)sizeof job->report;
    CLI_TRY(cli_job_check(job, kith_ctx_report(job->session.ctx, &job->report)));
    job->exact = job->report.exact;
    CLI_FAIL_IF(job->exact != KITH_CERTIFIED && !job->descends && !cli_is_graph_search(job->args),
                job->corpus.path,
                "the answer was not certified, nothing was written "
                "(this should be impossible, please report it)");
    return CLI_DONE;
}

/* Lists of all, at who leads. */
static int join_parts(cli_job *job)
{
    double *const seconds[] = {&job->seconds_read};
    kith_neighbors *lists = &job->forward;
    const uint64_t k = (uint64_t)job->args->k * (uint64_t)job->lists;
    CLI_TRY(cli_part_collect(job, lists->ids, k * sizeof *lists->ids));
    CLI_TRY(cli_part_collect(job, lists->distances, k * sizeof *lists->distances));
    CLI_TRY(cli_part_report(job, seconds, 1));
    lists->rows = job->part.all != NULL ? job->part.all->rows : lists->rows;
    return CLI_DONE;
}

static int solve_and_save(cli_job *job, const cli_engine *engine)
{
    CLI_TRY(solve(job, engine));
    if (cli_signal_came()) {
        return cli_session_check(&job->session, KITH_E_CANCELLED, job->corpus.path);
    }
    CLI_TRY(join_parts(job));
    if (!cli_part_leads(job)) {
        return CLI_DONE;
    }
    const double start = cli_clock_now();
    CLI_TRY(job->points.rows == 0 ? cli_job_claim(job) : CLI_DONE);
    CLI_TRY(engine->save(job));
    job->seconds_write = cli_clock_now() - start;
    return CLI_DONE;
}

static int run_job(cli_job *job, const cli_engine *engine)
{
    CLI_TRY(cli_session_begin(&job->session, job->args,
                              engine->output_endings != NULL ? engine->output_endings
                                                             : cli_output_endings(engine->holds)));
    CLI_TRY(read_points(job));
    cli_part_take(job);
    if (engine->plan != NULL && !cli_part_is_empty(job)) {
        CLI_TRY(engine->plan(job));
    }
    if (job->part.all != NULL) {
        cli_part_plan(job);
    }
    cli_job_count_need(job);
    const bool streams = cli_stream_wanted(job);
    const bool dry = cli_given(job->args, CLI_OPT_DRY_RUN);
    CLI_TRY(streams
                ? cli_stream_run(job)
                : cli_job_check_memory(job->corpus.path, job->need_bytes, job->args->memory_bytes));
    if (dry) {
        cli_part_return(job);
        cli_job_tell_plan(job);
        return CLI_DONE;
    }
    CLI_TRY(streams ? CLI_DONE : solve_and_save(job, engine));
    if (cli_part_leads(job)) {
        cli_job_tell(job, engine);
    }
    return CLI_DONE;
}

int cli_run(const cli_args *args, const cli_engine *engine)
{
    cli_job job = {.args = args};
    const int code = run_job(&job, engine);
    cli_job_close(&job);
    return code;
}
