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
    const cli_points *points = &r->grown.old[0].points;
    const int64_t rows = points->matrix->rows;
    CLI_KEEP(r->removed, rows, points->path, "no memory for marks of its rows (5 bytes a row)");
    CLI_KEEP(r->map, rows, points->path, "no memory for marks of its rows (5 bytes a row)");
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
    const int64_t have = r->grown.old[0].lists->k;
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

static int read_all(cli_job *job)
{
    removing *r = job->own;
    cli_grown *g = &r->grown;
    const char *const *paths = job->args->paths;
    CLI_TRY(cli_grow_open(g, paths[0], paths[1], &g->old[0]));
    job->corpus.path = paths[1];
    CLI_TRY(
        cli_ids_read(&job->session, paths[2], paths[1], g->old[0].points.matrix->rows, &r->ids));
    CLI_TRY(mark(r));
    CLI_TRY(choose_k(r));
    CLI_TRY(cli_grow_make_points(g, r->left, paths[1], "that are left (free some memory)"));
    (void)cli_grow_copy_points(g, 0, g->old[0].points.matrix, r->removed);
    return CLI_DONE;
}

/* Points, lists, marks, the answer: the library's copies among them. */
static uint64_t need_of(const removing *r)
{
    const uint64_t rows = (uint64_t)r->grown.old[0].points.matrix->rows;
    const uint64_t points = (uint64_t)r->left * (uint64_t)r->grown.points.stride_bytes;
    const uint64_t k = (uint64_t)r->grown.old[0].lists->k;
    return 2 * points + rows * 17 + (uint64_t)r->left * (4 * k + 8 * (uint64_t)r->grown.args.k);
}

/* ---- Remove --------------------------------------------------------------------------------- */

static int remove_points(removing *r)
{
    cli_grown *g = &r->grown;
    cli_job *job = &g->job;
    const cli_old_graph *old = &g->old[0];
    const kith_neighbors lists = cli_grow_lists(old);
    kith_remove_params params = kith_remove_params_default();
    kith_status status = KITH_OK;
    params.metric = g->args.metric;
    params.k = g->args.k;
    params.flags = cli_self(&g->args);
    params.approximate = old->known.exact == KITH_APPROXIMATE;
    params.removed = r->removed;
    params.map = r->map;
    r->report.struct_size = (uint32_t)sizeof r->report;
    CLI_TIMED(job->seconds_work,
              status = kith_graph_remove(job->session.ctx, old->points.matrix, &lists, &params,
                                         &job->forward, &r->report));
    g->method = r->report.anew == 0 ? "search" : params.approximate == 0 ? "exact" : "descent";
    CLI_TRY(
        cli_session_check_files(&job->session, status, old->points.path, {"graph", old->path, 0}));
    CLI_TRY(cli_job_take_report(job));
    job->exact = job->report.exact;
    return CLI_DONE;
}

static int solve(cli_job *job)
{
    removing *r = job->own;
    cli_grown *g = &r->grown;
    CLI_TRY(cli_job_check_memory(job->corpus.path, need_of(r), g->args.memory_bytes));
    CLI_TRY(cli_grow_verify(g, &g->old[0]));
    CLI_TRY(cli_job_allocate(job, &job->forward, r->left));
    CLI_TRY(remove_points(r));
    return cli_grow_estimate(g);
}

/* New ids as numbers of a file, -1 of rows that left; behind the graph, which may find no room. */
static int save(cli_job *job)
{
    removing *r = job->own;
    const char *path = r->grown.args.map;
    const int64_t rows = path != NULL ? r->grown.old[0].points.matrix->rows : 0;
    double *numbers = NULL;
    CLI_KEEP(numbers, rows, path, "no memory for the map (8 bytes a row)");
    for (int64_t i = 0; i < rows; i++) {
        numbers[i] = r->map[i] == KITH_ID_NONE ? -1.0 : (double)r->map[i];
    }
    CLI_TRY(cli_grow_save(&r->grown));
    const kith_matrix matrix = {.data = numbers, .rows = rows, .cols = 1, .dtype = KITH_F64};
    return cli_points_save(&job->session, path, &matrix);
}

static void tell_plan(cli_job *job)
{
    const removing *r = job->own;
    const int64_t rows = r->grown.old[0].points.matrix->rows;
    cli_report to = cli_report_begin(job->args);
    cli_tell(&to, "removed: {removed} of {rows} points\n", INT("removed", rows - r->left),
             INT(".rows", rows), BOOL("dry_run", true), INT("n", r->left));
    cli_tell_int(&to, "k", job->args->k);
    cli_tell_object(&to, "plan_bytes", "memory: planned {peak~}, and what a search takes\n",
                    UINT("peak", need_of(r)));
    cli_report_end(&to);
}

static void tell(cli_job *job)
{
    const removing *r = job->own;
    const cli_old_graph *old = &r->grown.old[0];
    const bool anew = r->report.anew == 1;
    cli_report to = cli_report_begin(job->args);
    cli_tell(&to, "removed: {removed} of {rows} points, {repaired} rows {way}\n",
             INT("removed", old->points.matrix->rows - r->left),
             INT(".rows", old->points.matrix->rows), INT("repaired", r->report.repaired),
             TEXT(".way", anew ? "made anew" : "searched for again"), BOOL("anew", anew));
    if (old->verified.graph != NULL) {
        cli_put_open(&to, "verified", '[');
        cli_tell_verified(&to, "", &old->verified);
        cli_put_close(&to, ']');
    }
    cli_grow_tell(&to, &r->grown);
    cli_report_end(&to);
}

int cli_remove(const cli_args *args)
{
    static const cli_work work = {.holds = KITH_FILE_LISTS_OUT,
                                  .read = read_all,
                                  .tell_plan = tell_plan,
                                  .solve = solve,
                                  .save = save,
                                  .tell = tell};
    removing r = {.grown.method = NULL};
    return cli_grow_run(args, &r.grown, &r, &work);
}
