/* SPDX-License-Identifier: Apache-2.0
 * kith remove: points leave a graph. */
#include "cli.h"
#include "cli_grow.h"

#include <inttypes.h>

typedef struct removing {
    cli_grown grown;
    cli_ids ids;
    uint8_t *removed; /* a byte a point */
    uint32_t *map;
    int64_t left;
    kith_remove_report report;
} removing;

/* ---- Before --------------------------------------------------------------------------------- */

static int mark(removing *r)
{
    const int64_t rows = r->grown.old[0].points.matrix->rows;
    r->removed = cli_keep((uint64_t)rows, sizeof *r->removed);
    r->map = cli_keep((uint64_t)rows, sizeof *r->map);
    CLI_FAIL_IF(r->removed == NULL || r->map == NULL, r->grown.old[0].points.path,
                "no memory for marks of its rows (5 bytes a row)");
    r->left = rows;
    for (int64_t i = 0; i < r->ids.count; i++) {
        r->left -= r->removed[r->ids.values[i]] == 0;
        r->removed[r->ids.values[i]] = 1;
    }
    CLI_PASS_IF(r->left > 0, r->grown.args.paths[2],
                "names all %" PRId64 " points (leave at least one)", rows);
}

static int choose_k(removing *r)
{
    cli_args *args = &r->grown.args;
    const int64_t have = kith_result_neighbors(r->grown.old[0].result)->k;
    const int64_t most = r->left - (cli_given(args, CLI_OPT_INCLUDE_SELF) ? 0 : 1);
    if (!cli_given(args, CLI_OPT_K)) {
        args->k = have < most ? have : most;
    }
    CLI_FAIL_IF(args->k > have, r->grown.old[0].path,
                "has lists of %" PRId64 ", -k is %" PRId64 " (take -k %" PRId64 ")", have, args->k,
                have);
    return cli_job_check_k(r->grown.old[0].points.path, args->k, most,
                           "other points that are left");
}

static int read_all(removing *r)
{
    cli_grown *g = &r->grown;
    const char *const *paths = g->args.paths;
    CLI_TRY(cli_grow_open(g, paths[0], paths[1], &r->grown.old[0]));
    g->job.corpus.path = paths[1];
    CLI_TRY(cli_ids_read(&g->job.session, paths[2], paths[1], r->grown.old[0].points.matrix->rows,
                         &r->ids));
    CLI_TRY(mark(r));
    CLI_TRY(choose_k(r));
    if (g->args.metric == KITH_METRIC_DEFAULT) {
        g->args.metric = KITH_EUCLIDEAN;
    }
    CLI_TRY(cli_grow_make_points(g, r->left, paths[1], "that are left (free some memory)"));
    (void)cli_grow_copy_points(g, 0, g->old[0].points.matrix, r->removed);
    return CLI_DONE;
}

/* Points, lists, marks, the answer: the library's copies among them. */
static uint64_t need_of(const removing *r)
{
    const uint64_t rows = (uint64_t)r->grown.old[0].points.matrix->rows;
    const uint64_t points = (uint64_t)r->left * (uint64_t)r->grown.points.stride_bytes;
    const uint64_t k = (uint64_t)kith_result_neighbors(r->grown.old[0].result)->k;
    return 2 * points + rows * 17 + (uint64_t)r->left * (4 * k + 8 * (uint64_t)r->grown.args.k);
}

/* ---- Remove --------------------------------------------------------------------------------- */

static int remove_points(removing *r)
{
    cli_grown *g = &r->grown;
    kith_ctx *ctx = g->job.session.ctx;
    kith_remove_params params = kith_remove_params_default();
    params.metric = g->args.metric;
    params.k = g->args.k;
    params.flags = cli_given(&g->args, CLI_OPT_INCLUDE_SELF) ? (uint32_t)KITH_INCLUDE_SELF : 0;
    params.approximate = r->grown.old[0].known.exact == KITH_APPROXIMATE;
    params.removed = r->removed;
    params.map = r->map;
    r->report.struct_size = (uint32_t)sizeof r->report;
    const double start = cli_clock_now();
    const kith_neighbors lists = cli_grow_lists(&r->grown.old[0]);
    const kith_status status = kith_graph_remove(ctx, r->grown.old[0].points.matrix, &lists,
                                                 &params, &g->job.forward, &r->report);
    g->seconds_work = cli_clock_now() - start;
    const bool listed = cli_session_blames(&g->job.session, "graph");
    g->job.report.struct_size = (uint32_t)sizeof g->job.report;
    g->method = r->report.anew == 0 ? "search" : params.approximate == 0 ? "exact" : "descent";
    CLI_TRY(status != KITH_OK && listed
                ? cli_session_check(&g->job.session, status, r->grown.old[0].path)
                : cli_job_check(&g->job, status));
    CLI_TRY(cli_job_check(&g->job, kith_ctx_report(ctx, &g->job.report)));
    g->exact = g->job.report.exact;
    return CLI_DONE;
}

/* New ids as numbers of a file, -1 of rows that left. */
static int save_map(removing *r)
{
    const char *path = r->grown.args.map;
    const int64_t rows = r->grown.old[0].points.matrix->rows;
    if (path == NULL) {
        return CLI_DONE;
    }
    double *numbers = cli_keep((uint64_t)rows, sizeof *numbers);
    CLI_FAIL_IF(numbers == NULL, path, "no memory for the map (8 bytes a row)");
    for (int64_t i = 0; i < rows; i++) {
        numbers[i] = r->map[i] == KITH_ID_NONE ? -1.0 : (double)r->map[i];
    }
    const kith_matrix matrix = {.data = numbers, .rows = rows, .cols = 1, .dtype = KITH_F64};
    return cli_points_save(&r->grown.job.session, path, &matrix);
}

static int solve(removing *r)
{
    cli_grown *g = &r->grown;
    CLI_TRY(cli_job_check_memory(g->job.corpus.path, need_of(r), g->args.memory_bytes));
    CLI_TRY(cli_grow_verify(g, &r->grown.old[0]));
    CLI_TRY(cli_job_allocate(&g->job, &g->job.forward, r->left));
    CLI_TRY(remove_points(r));
    CLI_TRY(cli_grow_estimate(g));
    CLI_TRY(save_map(r));
    return cli_grow_save(g);
}

static void tell_plan(const removing *r)
{
    const cli_grown *g = &r->grown;
    const int64_t rows = r->grown.old[0].points.matrix->rows;
    char text[CLI_SIZE_BYTES];
    cli_report to = cli_report_begin(&g->args);
    cli_say(&to, "removed: %" PRId64 " of %" PRId64 " points\n", rows - r->left, rows);
    cli_put(&to, INT("removed", rows - r->left), BOOL("dry_run", true), INT("n", r->left));
    cli_tell_int(&to, "k", g->args.k);
    cli_say(&to, "memory: planned %s, and what a search takes\n",
            cli_message_size(need_of(r), text));
    cli_put_object(&to, "plan_bytes", UINT("peak", need_of(r)));
    cli_report_end(&to);
}

static void tell(const removing *r)
{
    const int64_t rows = r->grown.old[0].points.matrix->rows;
    cli_report to = cli_report_begin(&r->grown.args);
    cli_say(&to, "removed: %" PRId64 " of %" PRId64 " points, %" PRId64 " rows %s\n",
            rows - r->left, rows, r->report.repaired,
            r->report.anew == 1 ? "made anew" : "searched for again");
    cli_put(&to, INT("removed", rows - r->left), INT("repaired", r->report.repaired),
            BOOL("anew", r->report.anew == 1));
    if (r->grown.old[0].verified.graph != NULL) {
        cli_put_open_array(&to, "verified");
        cli_tell_verified(&to, NULL, &r->grown.old[0].verified);
        cli_put_close_array(&to);
    }
    cli_grow_tell(&to, &r->grown);
    cli_report_end(&to);
}

static int run(void *command)
{
    removing *r = command;
    const double start = cli_clock_now();
    CLI_TRY(read_all(r));
    r->grown.seconds_read = cli_clock_now() - start;
    if (cli_given(&r->grown.args, CLI_OPT_DRY_RUN)) {
        tell_plan(r);
        return CLI_DONE;
    }
    CLI_TRY(solve(r));
    tell(r);
    return CLI_DONE;
}

int cli_remove(const cli_args *args)
{
    removing r = {.grown.method = NULL};
    return cli_grow_run(args, &r.grown, run, &r);
}
