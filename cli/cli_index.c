/* SPDX-License-Identifier: Apache-2.0
 * Indexes: made of points, and kept while rows are added and removed. */
#include "cli.h"
#include "cli_job.h"
#include "cli_output.h"

#include <inttypes.h>

typedef struct growing {
    cli_args args; /* of the command, on the processor: a file holds its preparation */
    cli_session session;
    kith_index *index;
    cli_points points; /* what it is made of, or what is added */
    cli_ids ids;
    kith_index_params params; /* of build */
    double *period;
    kith_file_info info; /* of the output */
    uint64_t planned_bytes;
    double seconds_read;
    double seconds_work;
    double seconds_write;
} growing;

/* ---- Before --------------------------------------------------------------------------------- */

static int open_index(growing *g)
{
    const char *path = g->args.paths[1];
    kith_file_info info;
    CLI_TRY(cli_session_inspect(&g->session, path, NULL, &info));
    CLI_FAIL_IF(info.kind != KITH_KIND_EXACT_INDEX && info.kind != KITH_KIND_TREE_INDEX &&
                    info.kind != KITH_KIND_GRAPH_INDEX,
                path, "is no index (kith index build makes one)");
    return cli_session_check(&g->session, kith_index_open(g->session.ctx, path, &g->index), path);
}

static kith_matrix points_of(const growing *g)
{
    kith_index_info info = {.struct_size = (uint32_t)sizeof info};
    (void)kith_index_inspect(g->index, &info);
    return info.points;
}

/* ---- Actions -------------------------------------------------------------------------------- */

/* What preparing takes, and for a graph what making it takes. */
static int plan_build(growing *g)
{
    const bool graph = g->args.method == KITH_METHOD_GRAPH;
    const kith_matrix *points = g->points.matrix;
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    params.metric = g->args.metric;
    params.period = g->period;
    params.method = graph ? KITH_METHOD_AUTO : g->args.method;
    params.tree_height = g->args.tree_height;
    params.flags = KITH_INCLUDE_SELF;
    params.k = 1;
    if (graph) {
        const int64_t wanted = g->params.k != 0 ? g->params.k : KITH_INDEX_K;
        params.recall = g->params.recall != 0.0 ? g->params.recall : KITH_INDEX_RECALL;
        params.k = wanted < points->rows ? wanted : points->rows;
    }
    CLI_TRY(cli_session_check(
        &g->session, cli_job_plan_exact(g->session.ctx, &g->args, points, NULL, &params, &plan),
        g->points.path));
    g->planned_bytes = plan.peak_bytes - (graph ? 0 : plan.result_bytes) +
                       kith_points_get_source(g->points.handle)->bytes;
    return cli_job_check_memory(g->points.path, g->planned_bytes, g->args.memory_bytes);
}

static int build(growing *g)
{
    const double start = cli_clock_now();
    CLI_TRY(cli_session_read(&g->session, g->args.paths[1], &g->points));
    g->seconds_read = cli_clock_now() - start;
    g->params = kith_index_params_default();
    g->params.metric = g->args.metric;
    g->params.method = g->args.method;
    g->params.tree_height = g->args.tree_height;
    g->params.k = g->args.k;
    g->params.recall = cli_given(&g->args, CLI_OPT_RECALL) ? g->args.recall : 0.0;
    g->params.seed = g->args.seed;
    CLI_TRY(cli_period_make(&g->args, g->points.matrix->cols, &g->period));
    g->params.period = g->period;
    CLI_TRY(plan_build(g));
    const double made = cli_clock_now();
    CLI_TRY(cli_session_check(
        &g->session, kith_index_create(g->session.ctx, g->points.matrix, &g->params, &g->index),
        g->points.path));
    g->seconds_work = cli_clock_now() - made;
    return CLI_DONE;
}

static int add(growing *g)
{
    const double start = cli_clock_now();
    CLI_TRY(open_index(g));
    CLI_TRY(cli_session_read(&g->session, g->args.paths[2], &g->points));
    const kith_matrix points = points_of(g);
    CLI_TRY(
        cli_points_check_like(g->points.path, g->points.matrix, g->args.paths[1], &points, true));
    g->seconds_read = cli_clock_now() - start;
    const double added = cli_clock_now();
    CLI_TRY(cli_session_check(
        &g->session, kith_index_add(g->session.ctx, g->index, g->points.matrix), g->points.path));
    g->seconds_work = cli_clock_now() - added;
    return CLI_DONE;
}

static int remove_rows(growing *g)
{
    const double start = cli_clock_now();
    CLI_TRY(open_index(g));
    CLI_TRY(
        cli_ids_read(&g->session, g->args.paths[2], g->args.paths[1], points_of(g).rows, &g->ids));
    g->seconds_read = cli_clock_now() - start;
    const double removed = cli_clock_now();
    CLI_TRY(cli_session_check(
        &g->session, kith_index_remove(g->session.ctx, g->index, g->ids.values, g->ids.count),
        g->args.paths[2]));
    g->seconds_work = cli_clock_now() - removed;
    return CLI_DONE;
}

/* ---- After ---------------------------------------------------------------------------------- */

static int save(growing *g)
{
    const char *path = g->args.output;
    if (cli_signal_came()) {
        return cli_session_check(&g->session, KITH_E_CANCELLED, path);
    }
    const double start = cli_clock_now();
    CLI_TRY(cli_session_check(&g->session, kith_index_save(g->session.ctx, g->index, path), path));
    g->seconds_write = cli_clock_now() - start;
    return cli_session_inspect(&g->session, path, NULL, &g->info);
}

static void tell(const growing *g)
{
    char text[CLI_SIZE_BYTES];
    const kith_file_info *info = &g->info;
    cli_report r = cli_report_begin(&g->args);
    cli_say(&r, "points: %" PRId64 " x %" PRId64 " %s\n", info->rows, info->cols,
            kith_dtype_name(info->dtype));
    cli_put(&r, TEXT("action", g->args.paths[0]), TEXT("backend", "cpu"),
            INT("threads", kith_ctx_get_params(g->session.ctx)->threads), INT("n", info->rows),
            INT("d", info->cols), TEXT("dtype", kith_dtype_name(info->dtype)));
    cli_tell_text(&r, "metric", kith_metric_name(info->metric));
    if (info->kind == KITH_KIND_TREE_INDEX) {
        cli_tell_tree(&r, info);
    }
    if (g->planned_bytes != 0) {
        cli_say_planned(&r, g->planned_bytes);
    }
    cli_tell_peak(&r, 0, 0);
    cli_tell_seconds(&r, g->session.start, NUMBER("read", g->seconds_read),
                     NUMBER(g->args.paths[0], g->seconds_work), NUMBER("write", g->seconds_write));
    cli_say(&r, "output: %s, %s\n", cli_message_safe(g->args.output),
            cli_message_size(info->file_bytes, text));
    cli_put(&r, UINT("bytes", info->file_bytes), TEXT("output", g->args.output));
    cli_report_end(&r);
}

static int run(growing *g)
{
    const char *action = g->args.paths[0];
    CLI_TRY(cli_session_begin(&g->session, &g->args, CLI_ENDINGS_INDEX));
    CLI_TRY(strcmp(action, "build") == 0 ? build(g)
            : strcmp(action, "add") == 0 ? add(g)
                                         : remove_rows(g));
    CLI_TRY(save(g));
    tell(g);
    return CLI_DONE;
}

int cli_index(const cli_args *args)
{
    growing g = {.args = *args};
    g.args.device = "cpu";
    const int code = run(&g);
    cli_points_close(&g.points);
    kith_index_free(g.index);
    cli_session_close(&g.session);
    return code;
}
