/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_run.h"

#include "cli.h"
#include "cli_clock.h"
#include "cli_devices.h"
#include "cli_message.h"
#include "cli_output.h"
#include "cli_report.h"
#include "cli_signal.h"
#include "cli_stream.h"
#include "cli_walk.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- Before --------------------------------------------------------------------------------- */

static int check_outputs(const cli_args *args, const cli_engine *engine)
{
    const char *endings = cli_given(args, CLI_OPT_FORMAT) ? NULL : engine->output_endings;
    const char *outputs[] = {args->output, args->output_back, args->distances};
    const char *allowed[] = {endings, endings, CLI_ENDINGS_DISTANCES};
    int code = CLI_DONE;
    for (int i = 0; i < 3 && code == CLI_DONE; i++) {
        code = cli_output_check(outputs[i], allowed[i]);
        for (int j = 0; j < args->path_count && code == CLI_DONE; j++) {
            code = cli_output_check_input(outputs[i], args->paths[j]);
        }
        if (code == CLI_DONE) {
            code = cli_output_check_input(outputs[i], args->init);
        }
        for (int j = 0; j < i && code == CLI_DONE; j++) {
            code = cli_output_check_other(outputs[i], outputs[j]);
        }
    }
    return code;
}

static int read_points(cli_job *job)
{
    const cli_args *args = job->args;
    const double start = cli_clock_now();
    int code = cli_is_graph_search(args) ? cli_walk_read(job) : cli_job_read_corpus(job);
    if (code == CLI_DONE && args->path_count > 1) {
        code = cli_session_read(&job->session, args->paths[args->path_count - 1], &job->queries);
    }
    job->seconds_read = cli_clock_now() - start;
    if (code != CLI_DONE || job->queries.matrix == NULL ||
        job->queries.matrix->cols == job->corpus.matrix->cols) {
        return code;
    }
    return cli_fail(job->queries.path,
                    "has %" PRId32 " columns, %s has %" PRId32 " (give points of one dimension)",
                    job->queries.matrix->cols, job->corpus.path, job->corpus.matrix->cols);
}

/* ---- The work ------------------------------------------------------------------------------- */

static int solve_and_save(cli_job *job, const cli_engine *engine)
{
    int code = engine->solve(job);
    if (code != CLI_DONE) {
        return code;
    }
    job->report.struct_size = (uint32_t)sizeof job->report;
    code = cli_job_check(job, kith_ctx_report(job->session.ctx, &job->report));
    if (code != CLI_DONE) {
        return code;
    }
    job->exact = job->report.exact;
    if (job->exact != KITH_CERTIFIED && !job->descends && job->graph == NULL) {
        return cli_fail(job->corpus.path, "the answer was not certified, nothing was written "
                                          "(this should be impossible, please report it)");
    }
    if (cli_signal_came()) {
        return cli_session_check(&job->session, KITH_E_CANCELLED, job->corpus.path);
    }
    const double start = cli_clock_now();
    code = job->points.rows == 0 ? cli_job_claim(job) : CLI_DONE;
    if (code == CLI_DONE) {
        code = engine->save(job);
    }
    job->seconds_write = cli_clock_now() - start;
    return code;
}

static int run(cli_job *job, const cli_engine *engine)
{
    int code = read_points(job);
    if (code == CLI_DONE && engine->plan != NULL) {
        code = engine->plan(job);
    }
    if (code != CLI_DONE) {
        return code;
    }
    cli_job_count_need(job);
    const bool streams = cli_stream_wanted(job);
    const bool dry = cli_given(job->args, CLI_OPT_DRY_RUN);
    code = streams
               ? cli_stream_run(job)
               : cli_job_check_memory(job->corpus.path, job->need_bytes, job->args->memory_bytes);
    if (code == CLI_DONE && dry) {
        cli_report_print_plan(job);
        return CLI_DONE;
    }
    if (code == CLI_DONE && !streams) {
        code = solve_and_save(job, engine);
    }
    if (code == CLI_DONE) {
        cli_report_print(job, engine);
    }
    return code;
}

static void close_job(cli_job *job)
{
    kith_ranges_free(job->ranges);
    kith_result_free(job->init);
    kith_result_free(job->graph);
    kith_corpus_free(job->prepared);
    free(job->forward.ids);
    free(job->forward.distances);
    free(job->forward.distances64);
    free(job->back.ids);
    free(job->back.distances);
    cli_points_close(&job->queries);
    cli_points_close(&job->corpus);
    cli_session_close(&job->session);
}

int cli_run(const cli_args *args, const cli_engine *engine)
{
    cli_job job = {.args = args};
    int code = cli_device_check(args->device);
    if (code == CLI_DONE) {
        code = check_outputs(args, engine);
    }
    if (code == CLI_DONE) {
        code = cli_session_open(&job.session, args);
        if (code == CLI_DONE) {
            code = run(&job, engine);
        }
        close_job(&job);
    }
    return code;
}
