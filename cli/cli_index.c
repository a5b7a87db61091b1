/* SPDX-License-Identifier: Apache-2.0
 * Indexes: made of points, and kept while rows are added and removed. */
#include "cli.h"
#include "cli_output.h"
#include "cli_work.h"

#include <inttypes.h>
#include <string.h>

typedef struct growing {
    cli_args args; /* of the command, on the processor: a file holds its preparation */
    cli_job job;   /* prepared: the index; corpus: what it is made of, or what is added */
    cli_ids ids;
    kith_index_params params; /* of build */
    kith_file_info info;      /* of the output */
} growing;

static bool is_action(const cli_job *job, const char *action)
{
    return strcmp(job->args->paths[0], action) == 0;
}

/* ---- Before --------------------------------------------------------------------------------- */

static int open_index(cli_job *job, const char *path)
{
    kith_file_info info;
    CLI_TRY(cli_session_inspect(&job->session, path, NULL, &info));
    CLI_FAIL_IF(info.kind != KITH_KIND_EXACT_INDEX && info.kind != KITH_KIND_TREE_INDEX &&
                    info.kind != KITH_KIND_GRAPH_INDEX,
                path, "is no index (kith index build makes one)");
    return cli_job_open_index(job, path);
}

static int read_build(cli_job *job)
{
    growing *g = job->own;
    CLI_TRY(cli_session_read(&job->session, job->args->paths[1], &job->corpus));
    CLI_TRY(cli_period_make(job->args, job->corpus.matrix->cols, &job->period));
    g->params = kith_index_params_default();
    g->params.metric = job->args->metric;
    g->params.method = job->args->method;
    g->params.tree_height = job->args->tree_height;
    g->params.k = job->args->k;
    g->params.recall = cli_given(job->args, CLI_OPT_RECALL) ? job->args->recall : 0.0;
    g->params.seed = job->args->seed;
    g->params.period = job->period;
    return CLI_DONE;
}

static int read_files(cli_job *job)
{
    growing *g = job->own;
    const char *const *paths = job->args->paths;
    if (is_action(job, "build")) {
        return read_build(job);
    }
    CLI_TRY(open_index(job, paths[1]));
    const kith_matrix *points = &job->prepared_info.points;
    if (is_action(job, "remove")) {
        return cli_ids_read(&job->session, paths[2], paths[1], points->rows, &g->ids);
    }
    CLI_TRY(cli_session_read(&job->session, paths[2], &job->corpus));
    return cli_points_check_like(paths[2], job->corpus.matrix, paths[1], points, true);
}

/* What preparing takes, and for a graph what making it takes. */
static int plan(cli_job *job)
{
    const growing *g = job->own;
    const bool graph = job->args->method == KITH_METHOD_GRAPH;
    kith_search_params params = kith_search_params_default();
    if (!is_action(job, "build")) {
        return CLI_DONE;
    }
    params.metric = job->args->metric;
    params.period = job->period;
    params.method = graph ? KITH_METHOD_AUTO : job->args->method;
    params.tree_height = job->args->tree_height;
    params.flags = KITH_INCLUDE_SELF;
    params.k = 1;
    if (graph) {
        const int64_t wanted = g->params.k != 0 ? g->params.k : KITH_INDEX_K;
        params.recall = g->params.recall != 0.0 ? g->params.recall : KITH_INDEX_RECALL;
        params.k = wanted < job->corpus.matrix->rows ? wanted : job->corpus.matrix->rows;
    }
    CLI_TRY(cli_job_check(job, cli_job_plan_exact(job->session.ctx, job->args, job->corpus.matrix,
                                                  NULL, &params, &job->plan)));
    job->need_bytes = job->plan.peak_bytes - (graph ? 0 : job->plan.result_bytes) +
                      kith_points_get_source(job->corpus.handle)->bytes;
    return cli_job_check_memory(job->corpus.path, job->need_bytes, job->args->memory_bytes);
}

/* ---- Work ----------------------------------------------------------------------------------- */

static kith_status work_on(cli_job *job)
{
    const growing *g = job->own;
    kith_ctx *ctx = job->session.ctx;
    return is_action(job, "build")
               ? kith_index_create(ctx, job->corpus.matrix, &g->params, &job->prepared)
           : is_action(job, "add")
               ? kith_index_add(ctx, job->prepared, job->corpus.matrix)
               : kith_index_remove(ctx, job->prepared, g->ids.values, g->ids.count);
}

static int solve(cli_job *job)
{
    kith_status status = KITH_OK;
    CLI_TIMED(job->seconds_work, status = work_on(job));
    return cli_session_check(&job->session, status, job->args->paths[job->args->path_count - 1]);
}

static int save(cli_job *job)
{
    growing *g = job->own;
    const char *path = job->args->output;
    CLI_TRY(cli_session_check(&job->session, kith_index_save(job->session.ctx, job->prepared, path),
                              path));
    return cli_session_inspect(&job->session, path, NULL, &g->info);
}

static void tell(cli_job *job)
{
    const growing *g = job->own;
    const kith_file_info *info = &g->info;
    cli_report r = cli_report_begin(job->args);
    cli_tell(&r, "points: {n} x {d} {dtype}\n", TEXT("action", job->args->paths[0]),
             TEXT("backend", "cpu"), INT("threads", kith_ctx_get_params(job->session.ctx)->threads),
             INT("n", info->rows), INT("d", info->cols),
             TEXT("dtype", kith_dtype_name(info->dtype)));
    cli_tell_text(&r, "metric", kith_metric_name(info->metric));
    if (info->kind == KITH_KIND_TREE_INDEX) {
        cli_tell_tree(&r, info);
    }
    cli_tell_more(&r, job->need_bytes != 0 ? "memory: planned {need~}\n" : "",
                  UINT(".need", job->need_bytes));
    cli_tell_peak(&r, 0, 0);
    cli_tell_seconds(&r, job->session.start, NUMBER("read", job->seconds_read),
                     NUMBER(job->args->paths[0], job->seconds_work),
                     NUMBER("write", job->seconds_write));
    cli_tell(&r, "output: {output}, {bytes~}\n", UINT("bytes", info->file_bytes),
             TEXT("output", job->args->output));
    cli_report_end(&r);
}

int cli_index(const cli_args *args)
{
    static const cli_work work = {.endings = CLI_ENDINGS_INDEX,
                                  .read = read_files,
                                  .plan = plan,
                                  .solve = solve,
                                  .save = save,
                                  .tell = tell};
    growing g = {.args = *args, .job = {.args = &g.args, .own = &g}};
    g.args.device = "cpu";
    return cli_work_run(&g.job, &work);
}
