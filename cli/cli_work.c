/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_work.h"

#include "cli.h"
#include "cli_output.h"
#include "cli_part.h"

static int begin(cli_job *job, const cli_work *work)
{
    const char *endings =
        work->endings != NULL || work->holds == 0 ? work->endings : cli_output_endings(work->holds);
    const bool chooses = cli_option_is_plain(cli_option_get(CLI_OPT_DEVICE), job->args->command);
    CLI_TRY(chooses ? cli_device_check(job->args->device) : CLI_DONE);
    CLI_TRY(work->check != NULL ? work->check(job) : cli_output_check_args(job->args, endings));
    return cli_session_open(&job->session, job->args);
}

static int save(cli_job *job, const cli_work *work)
{
    int code = CLI_DONE;
    if (work->save == NULL || job->saved) {
        return CLI_DONE;
    }
    if (cli_signal_came()) {
        return cli_session_check(&job->session, KITH_E_CANCELLED, NULL);
    }
    CLI_TIMED(job->seconds_write, code = work->save(job));
    return code;
}

static int run(cli_job *job, const cli_work *work)
{
    int code = begin(job, work);
    if (code == CLI_DONE) {
        CLI_TIMED(job->seconds_read, code = work->read(job));
    }
    CLI_THEN(code, work->plan != NULL ? work->plan(job) : CLI_DONE);
    CLI_TRY(code);
    if (cli_given(job->args, CLI_OPT_DRY_RUN)) {
        cli_part_return(job);
        work->tell_plan(job);
        return CLI_DONE;
    }
    CLI_TRY(work->solve(job));
    if (cli_part_leads(job)) {
        CLI_TRY(save(job, work));
        work->tell(job);
    }
    return CLI_DONE;
}

int cli_work_run(cli_job *job, const cli_work *work)
{
    job->lists = 1;
    job->plan.struct_size = (uint32_t)sizeof job->plan;
    job->report.struct_size = (uint32_t)sizeof job->report;
    job->descent.struct_size = (uint32_t)sizeof job->descent;
    job->walk.struct_size = (uint32_t)sizeof job->walk;
    job->shard_plan.struct_size = (uint32_t)sizeof job->shard_plan;
    job->sharded.struct_size = (uint32_t)sizeof job->sharded;
    job->prepared_info.struct_size = (uint32_t)sizeof job->prepared_info;
    const int code = run(job, work);
    kith_ranges_free(job->ranges);
    kith_index_free(job->prepared);
    cli_session_close(&job->session);
    return code;
}
