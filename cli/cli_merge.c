/* SPDX-License-Identifier: Apache-2.0
 * kith merge: two graphs made one. kith add: a graph of new points is built, and merged. */
#include "cli.h"
#include "cli_descent.h"
#include "cli_grow.h"

#include <inttypes.h>

enum { SETS = 2 };

typedef struct merging {
    cli_grown grown; /* of kith add the second old graph has no lists */
    kith_neighbors lists[SETS];
    uint32_t *built; /* ids of the graph of new points */
    kith_result_meta built_known;
} merging;

static bool adds(const merging *m)
{
    return m->grown.args.command == CLI_ADD;
}

/* ---- Read ----------------------------------------------------------------------------------- */

static int64_t neighbours_of(const merging *m, int set)
{
    return m->grown.old[set].points.matrix->rows -
           (cli_given(&m->grown.args, CLI_OPT_INCLUDE_SELF) ? 0 : 1);
}

/* The longest lists that both graphs have; of a set that has not more a shorter one is complete. */
static int choose_k(merging *m)
{
    cli_args *args = &m->grown.args;
    const cli_old_graph *old = m->grown.old;
    const int64_t most = neighbours_of(m, 0) + old[1].points.matrix->rows;
    int64_t least = INT64_MAX;
    int64_t longest = 0;
    for (int i = 0; i < SETS && old[i].lists != NULL; i++) {
        const int64_t k = old[i].lists->k;
        longest = k > longest ? k : longest;
        least = k < neighbours_of(m, i) && k < least ? k : least;
    }
    if (!cli_given(args, CLI_OPT_K)) {
        args->k = least < longest ? least : longest;
        args->k = args->k < most ? args->k : most;
    }
    for (int i = 0; i < SETS && old[i].lists != NULL; i++) {
        const int64_t k = old[i].lists->k;
        CLI_FAIL_IF(args->k > k && k < neighbours_of(m, i), old[i].path,
                    "has lists of %" PRId64 ", -k is %" PRId64 " (take -k %" PRId64
                    ", or a graph with longer lists)",
                    k, args->k, k);
    }
    return cli_job_check_k(old[1].points.path, args->k, most, "other points");
}

static int join_points(merging *m)
{
    cli_grown *g = &m->grown;
    const kith_matrix *second = g->old[1].points.matrix;
    const int64_t first = g->old[0].points.matrix->rows;
    CLI_TRY(cli_grow_make_points(g, first + second->rows, g->old[1].points.path,
                                 "of both files (free some memory, or give fewer)"));
    (void)cli_grow_copy_points(g, 0, g->old[0].points.matrix, NULL);
    (void)cli_grow_copy_points(g, first, second, NULL);
    g->job.corpus.path = g->old[0].points.path;
    return CLI_DONE;
}

static int read_all(cli_job *job)
{
    merging *m = job->own;
    cli_grown *g = &m->grown;
    cli_old_graph *old = g->old;
    const char *const *paths = g->args.paths;
    CLI_TRY(cli_grow_open(g, paths[0], paths[1], &old[0]));
    CLI_TRY(adds(m) ? cli_session_read(&job->session, paths[2], &old[1].points)
                    : cli_grow_open(g, paths[2], paths[3], &old[1]));
    CLI_TRY(cli_points_check_like(old[1].points.path, old[1].points.matrix, old[0].points.path,
                                  old[0].points.matrix, true));
    CLI_TRY(choose_k(m));
    return join_points(m);
}

/* ---- Plan ----------------------------------------------------------------------------------- */

/* What only a descent does. */
static bool asks_for_descent(const cli_args *args)
{
    return (args->recall > 0.0 && args->recall < 1.0) || cli_given(args, CLI_OPT_ROUNDS) ||
           cli_given(args, CLI_OPT_START);
}

static kith_search_params params_of(const merging *m, const kith_descent_params *descent)
{
    const cli_args *args = &m->grown.args;
    kith_search_params params = cli_graph_params(&m->grown.job, descent);
    if (cli_given(args, CLI_OPT_EXACT)) {
        params.recall = 1.0;
    } else if (asks_for_descent(args)) {
        params.method = KITH_METHOD_DESCENT;
    }
    return params;
}

/* A new graph is made exactly where it is met exactly. */
static int plan(cli_job *job)
{
    merging *m = job->own;
    cli_grown *g = &m->grown;
    kith_ctx *ctx = job->session.ctx;
    const bool dry = cli_given(&g->args, CLI_OPT_DRY_RUN);
    for (int i = 0; i < SETS && !dry; i++) {
        CLI_TRY(g->old[i].lists != NULL ? cli_grow_verify(g, &g->old[i]) : CLI_DONE);
    }
    const bool reads = dry || g->args.memory_bytes != 0;
    const kith_descent_params descent = cli_descent_params(&g->job);
    const kith_search_params params = params_of(m, &descent);
    const kith_neighbors known[SETS] = {{.meta = &g->old[0].known},
                                        {.meta = adds(m) ? &m->built_known : &g->old[1].known}};
    kith_matrix points = g->points;
    points.data = reads ? points.data : NULL;
    m->built_known = kith_result_meta_default();
    m->built_known.exact = KITH_CERTIFIED;
    const kith_merge_sets sets = {&points, g->old[0].points.matrix->rows, &known[0], &known[1]};
    CLI_TRY(cli_job_check(&g->job, kith_plan_merge(ctx, &sets, &params, &job->plan)));
    job->descends = cli_plan_descends(&job->plan); /* else all pairs across are looked at */
    job->need_bytes = job->plan.peak_bytes + (uint64_t)points.rows * (uint64_t)points.stride_bytes;
    g->method = job->descends ? "descent" : "exact";
    return CLI_DONE;
}

static void tell_choice(cli_report *r, const cli_job *job)
{
    if (job->plan.estimated_exact > 0.0) {
        cli_tell_object(
            r, "choice",
            "choice: {way}, all pairs across take {exact_seconds:.2f} seconds or less, a "
            "descent about {descent_seconds:.2f}\n",
            TEXT(".way", job->descends ? "descent" : "exact"),
            NUMBER("exact_seconds", job->plan.estimated_exact),
            NUMBER("descent_seconds", job->plan.estimated_descent));
    }
}

static void tell_plan(cli_job *job)
{
    const merging *m = job->own;
    const cli_grown *g = &m->grown;
    cli_report r = cli_report_begin(job->args);
    cli_say_matrix(&r, "points", NULL, &g->points);
    cli_put(&r, BOOL("dry_run", true), INT("n", g->points.rows), INT("d", g->points.cols));
    cli_tell_text(&r, "metric", kith_metric_name(g->args.metric));
    cli_tell_int(&r, "k", g->args.k);
    cli_tell_text(&r, "method", g->method);
    cli_tell_text(&r, "backend", job->plan.backend);
    tell_choice(&r, job);
    cli_tell_object(&r, "plan_bytes", "memory: planned {peak~}\n", UINT("peak", job->need_bytes),
                    UINT("gpu", job->plan.gpu_bytes));
    cli_report_end(&r);
}

/* ---- Merge ---------------------------------------------------------------------------------- */

/* The graph of new points: exact where they are met exactly, or are few. */
static int build(merging *m)
{
    cli_grown *g = &m->grown;
    const cli_points *new = &g->old[1].points;
    const kith_matrix *points = new->matrix;
    const int64_t has = neighbours_of(m, 1) < g->args.k ? neighbours_of(m, 1) : g->args.k;
    const int64_t wide = has > 0 ? has : 1;
    CLI_KEEP(m->built, points->rows * wide, new->path,
             "no memory for a graph of the new points (free some memory, or add fewer)");
    m->lists[1] =
        (kith_neighbors){.ids = m->built, .rows = points->rows, .k = wide, .meta = &m->built_known};
    if (has == 0) {
        m->built[0] = KITH_ID_NONE;
        return CLI_DONE;
    }
    kith_ctx *ctx = g->job.session.ctx;
    kith_descent_params descent = cli_descent_params(&g->job);
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    kith_matrix shape = *points;
    shape.data = NULL;
    descent.k = has;
    descent.sample = g->args.recall > 0.0 ? descent.sample : -1;
    descent.list = descent.list > has ? descent.list : 0;
    descent.recall_at = descent.recall_at > has ? has : descent.recall_at;
    kith_search_params params = cli_graph_params(&g->job, &descent);
    kith_search_params chosen = params;
    /* Where none is wanted a descent ends when rounds change little, and takes as long. */
    chosen.recall = !g->job.descends ? 1.0 : params.recall > 0.0 ? params.recall : 0.99;
    chosen.descent = NULL;
    kith_status status = kith_plan_search(ctx, &shape, NULL, &chosen, &plan);
    if (status == KITH_OK) {
        cli_graph_name_way(cli_plan_descends(&plan), &params);
        CLI_TIMED(g->seconds_build,
                  status = kith_graph(ctx, points, &params, &m->lists[1], &report));
        m->built_known.exact = report.exact;
    }
    return cli_session_check(&g->job.session, status, new->path);
}

static int merge(merging *m)
{
    cli_grown *g = &m->grown;
    cli_job *job = &g->job;
    const cli_old_graph *old = g->old;
    const kith_merge_sets sets = {&g->points, old[0].points.matrix->rows, &m->lists[0],
                                  &m->lists[1]};
    const kith_descent_params descent = cli_descent_params(job);
    kith_search_params params = cli_graph_params(job, &descent);
    kith_status status = KITH_OK;
    params.descent_report = &job->descent;
    cli_graph_name_way(job->descends, &params);
    CLI_TIMED(job->seconds_work, status = kith_graph_merge(job->session.ctx, &sets, &params,
                                                           &job->forward, &job->report));
    CLI_TRY(cli_session_check_files(
        &job->session, status, old[0].points.path, {"points", old[0].points.path, 0},
        {"points", old[1].points.path, old[0].points.matrix->rows}, {"graph1", old[0].path, 0},
        {adds(m) ? NULL : "graph2", old[1].path, 0}));
    job->exact = job->report.exact;
    return CLI_DONE;
}

static int solve(cli_job *job)
{
    merging *m = job->own;
    cli_grown *g = &m->grown;
    m->lists[0] = cli_grow_lists(&g->old[0]);
    CLI_TRY(cli_job_check_memory(job->corpus.path, job->need_bytes, g->args.memory_bytes));
    CLI_TRY(cli_job_allocate(job, &job->forward, g->points.rows));
    if (adds(m)) {
        CLI_TRY(build(m));
    } else {
        m->lists[1] = cli_grow_lists(&g->old[1]);
    }
    CLI_TRY(merge(m));
    return cli_grow_estimate(g);
}

static int save(cli_job *job)
{
    merging *m = job->own;
    return cli_grow_save(&m->grown);
}

static void tell(cli_job *job)
{
    const merging *m = job->own;
    const cli_old_graph *old = m->grown.old;
    cli_report r = cli_report_begin(job->args);
    cli_tell(&r,
             "first: {graph1}, {points1}, {first} points\n"
             "second: {graph2}, {points2}, {second} points\n",
             TEXT(".graph1", old[0].path), TEXT(".points1", old[0].points.path),
             INT("first", old[0].points.matrix->rows),
             TEXT(".graph2", adds(m) ? "new" : old[1].path), TEXT(".points2", old[1].points.path),
             INT("second", old[1].points.matrix->rows));
    if (r.verbose || r.programs) {
        tell_choice(&r, job);
    }
    if (cli_given(job->args, CLI_OPT_VERIFY)) {
        cli_put_open(&r, "verified", '[');
        cli_tell_verified(&r, "", &old[0].verified);
        cli_tell_verified(&r, "", &old[1].verified);
        cli_put_close(&r, ']');
    }
    cli_grow_tell(&r, &m->grown);
    cli_report_end(&r);
}

int cli_merge(const cli_args *args)
{
    static const cli_work work = {.holds = KITH_FILE_LISTS_OUT,
                                  .read = read_all,
                                  .plan = plan,
                                  .tell_plan = tell_plan,
                                  .solve = solve,
                                  .save = save,
                                  .tell = tell};
    merging m = {.grown.method = NULL};
    return cli_grow_run(args, &m.grown, &m, &work);
}
