/* SPDX-License-Identifier: Apache-2.0
 * kith merge: two graphs made one. kith add: a graph of new points is built, and merged. */
#include "cli.h"
#include "cli_descent.h"
#include "cli_grow.h"

#include <inttypes.h>

enum { SETS = 2 };

typedef struct merging {
    cli_grown grown; /* of kith add the second old graph has no result */
    kith_neighbors lists[SETS];
    uint32_t *built; /* ids of the graph of new points */
    kith_result_meta built_known;
    bool across; /* the exact engine looks at all pairs across */
    kith_plan plan;
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
    const int64_t most = neighbours_of(m, 0) + m->grown.old[1].points.matrix->rows;
    int64_t least = INT64_MAX;
    int64_t longest = 0;
    for (int i = 0; i < SETS && m->grown.old[i].result != NULL; i++) {
        const int64_t k = kith_result_neighbors(m->grown.old[i].result)->k;
        longest = k > longest ? k : longest;
        least = k < neighbours_of(m, i) && k < least ? k : least;
    }
    if (!cli_given(args, CLI_OPT_K)) {
        args->k = least < longest ? least : longest;
        args->k = args->k < most ? args->k : most;
    }
    for (int i = 0; i < SETS && m->grown.old[i].result != NULL; i++) {
        const int64_t k = kith_result_neighbors(m->grown.old[i].result)->k;
        CLI_FAIL_IF(args->k > k && k < neighbours_of(m, i), m->grown.old[i].path,
                    "has lists of %" PRId64 ", -k is %" PRId64 " (take -k %" PRId64
                    ", or a graph with longer lists)",
                    k, args->k, k);
    }
    return cli_job_check_k(m->grown.old[1].points.path, args->k, most, "other points");
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

static int read_all(merging *m)
{
    cli_grown *g = &m->grown;
    const char *const *paths = g->args.paths;
    CLI_TRY(cli_grow_open(g, paths[0], paths[1], &m->grown.old[0]));
    CLI_TRY(adds(m) ? cli_session_read(&g->job.session, paths[2], &m->grown.old[1].points)
                    : cli_grow_open(g, paths[2], paths[3], &m->grown.old[1]));
    CLI_TRY(cli_points_check_like(m->grown.old[1].points.path, m->grown.old[1].points.matrix,
                                  m->grown.old[0].points.path, m->grown.old[0].points.matrix,
                                  true));
    CLI_TRY(choose_k(m));
    if (g->args.metric == KITH_METRIC_DEFAULT) {
        g->args.metric = KITH_EUCLIDEAN;
    }
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
static int choose_way(merging *m)
{
    cli_grown *g = &m->grown;
    kith_ctx *ctx = g->job.session.ctx;
    const bool reads = cli_given(&g->args, CLI_OPT_DRY_RUN) || g->args.memory_bytes != 0;
    const kith_descent_params descent = cli_descent_params(&g->job);
    const kith_search_params params = params_of(m, &descent);
    const kith_neighbors known[SETS] = {{.meta = &g->old[0].known},
                                        {.meta = adds(m) ? &m->built_known : &g->old[1].known}};
    kith_matrix points = g->points;
    points.data = reads ? points.data : NULL;
    m->built_known = kith_result_meta_default();
    m->built_known.exact = KITH_CERTIFIED;
    m->plan.struct_size = (uint32_t)sizeof m->plan;
    const kith_merge_sets sets = {&points, g->old[0].points.matrix->rows, &known[0], &known[1]};
    CLI_TRY(cli_job_check(&g->job, kith_plan_merge(ctx, &sets, &params, &m->plan)));
    m->across = !cli_plan_descends(&m->plan);
    return CLI_DONE;
}

static uint64_t need_of(const merging *m)
{
    const kith_matrix *points = &m->grown.points;
    return m->plan.peak_bytes + (uint64_t)points->rows * (uint64_t)points->stride_bytes;
}

static void tell_choice(cli_report *r, const merging *m)
{
    if (m->plan.estimated_exact > 0.0) {
        cli_say(r, "choice: %s, all pairs across take %.2f seconds or less, a descent about %.2f\n",
                m->across ? "exact" : "descent", m->plan.estimated_exact,
                m->plan.estimated_descent);
        cli_descent_put_choice(r, &m->plan);
    }
}

static void tell_plan(const merging *m)
{
    const cli_grown *g = &m->grown;
    char text[CLI_SIZE_BYTES];
    cli_report r = cli_report_begin(&g->args);
    cli_say_matrix(&r, "points", NULL, &g->points);
    cli_put(&r, BOOL("dry_run", true), INT("n", g->points.rows), INT("d", g->points.cols));
    cli_tell_text(&r, "metric", kith_metric_name(g->args.metric));
    cli_tell_int(&r, "k", g->args.k);
    cli_tell_text(&r, "method", g->method);
    cli_tell_text(&r, "backend", m->plan.backend);
    tell_choice(&r, m);
    cli_say(&r, "memory: planned %s\n", cli_message_size(need_of(m), text));
    cli_put_object(&r, "plan_bytes", UINT("peak", need_of(m)), UINT("gpu", m->plan.gpu_bytes));
    cli_report_end(&r);
}

/* ---- Merge ---------------------------------------------------------------------------------- */

/* The graph of new points: exact where they are met exactly, or are few. */
static int build(merging *m)
{
    cli_grown *g = &m->grown;
    const kith_matrix *points = m->grown.old[1].points.matrix;
    const int64_t has = neighbours_of(m, 1) < g->args.k ? neighbours_of(m, 1) : g->args.k;
    const int64_t wide = has > 0 ? has : 1;
    m->built = cli_keep((uint64_t)(points->rows * wide), sizeof *m->built);
    CLI_FAIL_IF(m->built == NULL, m->grown.old[1].points.path,
                "no memory for a graph of the new points (free some memory, or add fewer)");
    m->lists[1] =
        (kith_neighbors){.ids = m->built, .rows = points->rows, .k = wide, .meta = &m->built_known};
    if (has == 0) {
        m->built[0] = KITH_ID_NONE;
        return CLI_DONE;
    }
    const double start = cli_clock_now();
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
    chosen.recall = m->across ? 1.0 : params.recall > 0.0 ? params.recall : 0.99;
    chosen.descent = NULL;
    kith_status status = kith_plan_search(ctx, &shape, NULL, &chosen, &plan);
    if (status == KITH_OK) {
        cli_graph_name_way(cli_plan_descends(&plan), &params);
        status = kith_graph(ctx, points, &params, &m->lists[1], &report);
        m->built_known.exact = report.exact;
    }
    g->seconds_build = cli_clock_now() - start;
    return cli_session_check(&g->job.session, status, m->grown.old[1].points.path);
}

/* Its points are those of both files. */
static int check_merge(merging *m, kith_status status)
{
    cli_session *session = &m->grown.job.session;
    const kith_where told = cli_session_where(session);
    const int64_t first_rows = m->grown.old[0].points.matrix->rows;
    char where[512];
    if (status == KITH_OK) {
        return CLI_DONE;
    }
    if (strcmp(told.argument, "graph1") == 0 ||
        (strcmp(told.argument, "graph2") == 0 && !adds(m))) {
        return cli_session_check(session, status, m->grown.old[told.argument[5] - '1'].path);
    }
    if (strcmp(told.argument, "points") == 0 && told.row >= first_rows) {
        (void)snprintf(where, sizeof where, "%s, whose rows count from %" PRId64 " on",
                       m->grown.old[1].points.path, first_rows);
        return cli_session_check(session, status, where);
    }
    return cli_job_check(&m->grown.job, status);
}

static int merge(merging *m)
{
    cli_grown *g = &m->grown;
    kith_ctx *ctx = g->job.session.ctx;
    const kith_merge_sets sets = {&g->points, m->grown.old[0].points.matrix->rows, &m->lists[0],
                                  &m->lists[1]};
    const kith_descent_params descent = cli_descent_params(&g->job);
    kith_search_params params = cli_graph_params(&g->job, &descent);
    const double start = cli_clock_now();
    g->job.report.struct_size = (uint32_t)sizeof g->job.report;
    g->job.descent.struct_size = (uint32_t)sizeof g->job.descent;
    params.descent_report = &g->job.descent;
    cli_graph_name_way(!m->across, &params);
    const kith_status status =
        kith_graph_merge(ctx, &sets, &params, &g->job.forward, &g->job.report);
    g->seconds_work = cli_clock_now() - start;
    CLI_TRY(check_merge(m, status));
    g->exact = g->job.report.exact;
    return CLI_DONE;
}

static void tell(const merging *m)
{
    const cli_grown *g = &m->grown;
    const cli_points *first = &m->grown.old[0].points;
    const cli_points *second = &m->grown.old[1].points;
    cli_report r = cli_report_begin(&g->args);
    cli_say(&r, "first: %s, %s, %" PRId64 " points\nsecond: %s, %s, %" PRId64 " points\n",
            cli_message_safe(m->grown.old[0].path), cli_message_safe(first->path),
            first->matrix->rows, adds(m) ? "new" : cli_message_safe(m->grown.old[1].path),
            cli_message_safe(second->path), second->matrix->rows);
    cli_put(&r, INT("first", first->matrix->rows), INT("second", second->matrix->rows));
    if (r.verbose || r.programs) {
        tell_choice(&r, m);
    }
    if (cli_given(&g->args, CLI_OPT_VERIFY)) {
        cli_put_open_array(&r, "verified");
        for (int i = 0; i < SETS; i++) {
            cli_tell_verified(&r, NULL, &m->grown.old[i].verified);
        }
        cli_put_close_array(&r);
    }
    cli_grow_tell(&r, g);
    cli_report_end(&r);
}

static int solve(merging *m)
{
    cli_grown *g = &m->grown;
    m->lists[0] = cli_grow_lists(&m->grown.old[0]);
    CLI_TRY(cli_job_check_memory(g->job.corpus.path, need_of(m), g->args.memory_bytes));
    CLI_TRY(cli_job_allocate(&g->job, &g->job.forward, g->points.rows));
    if (adds(m)) {
        CLI_TRY(build(m));
    } else {
        m->lists[1] = cli_grow_lists(&m->grown.old[1]);
    }
    CLI_TRY(merge(m));
    CLI_TRY(cli_grow_estimate(g));
    return cli_grow_save(g);
}

static int run(void *command)
{
    merging *m = command;
    cli_grown *g = &m->grown;
    const bool dry = cli_given(&g->args, CLI_OPT_DRY_RUN);
    const double start = cli_clock_now();
    CLI_TRY(read_all(m));
    g->seconds_read = cli_clock_now() - start;
    for (int i = 0; i < SETS && !dry; i++) {
        CLI_TRY(m->grown.old[i].result != NULL ? cli_grow_verify(g, &m->grown.old[i]) : CLI_DONE);
    }
    CLI_TRY(choose_way(m));
    g->method = m->across ? "exact" : "descent";
    if (dry) {
        tell_plan(m);
        return CLI_DONE;
    }
    CLI_TRY(solve(m));
    tell(m);
    return CLI_DONE;
}

int cli_merge(const cli_args *args)
{
    merging m = {.grown.method = NULL};
    return cli_grow_run(args, &m.grown, run, &m);
}
