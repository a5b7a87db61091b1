/* SPDX-License-Identifier: Apache-2.0
 * Prepared trees: made of points, and kept while points are added and removed. */
#include "cli_tree.h"

#include "cli.h"
#include "cli_clock.h"
#include "cli_ids.h"
#include "cli_job.h"
#include "cli_message.h"
#include "cli_output.h"
#include "cli_seconds.h"
#include "cli_signal.h"
#include "cli_source.h"

#include <inttypes.h>

typedef struct growing {
    cli_args args; /* of the command, on the processor, which alone has prepared trees */
    cli_session session;
    kith_corpus *corpus;
    cli_points points; /* what it is made of, or what is added */
    cli_ids ids;
    kith_file_info info; /* of the output */
    uint64_t planned_bytes;
    double seconds_read;
    double seconds_work;
    double seconds_write;
} growing;

void cli_tree_print(const kith_file_info *info)
{
    (void)printf("height: %" PRId32 "\nleaves: %" PRId64 "\ndistinct rows: %" PRId64
                 "\nslack: %" PRId64 " free places\n",
                 info->tree_height, (int64_t)1 << info->tree_height, info->tree_rows,
                 info->tree_slack);
}

void cli_tree_put(const kith_file_info *info, cli_json *json)
{
    cli_json_open(json, "tree");
    cli_json_int(json, "height", info->tree_height);
    cli_json_int(json, "leaves", (int64_t)1 << info->tree_height);
    cli_json_int(json, "distinct_rows", info->tree_rows);
    cli_json_int(json, "slack", info->tree_slack);
    cli_json_close(json);
}

/* ---- Before --------------------------------------------------------------------------------- */

static int check_output(const cli_args *args)
{
    int code = cli_output_check(args->output, CLI_ENDINGS_TREE);
    for (int i = 1; i < args->path_count && code == CLI_DONE; i++) {
        code = cli_output_check_input(args->output, args->paths[i]);
    }
    return code;
}

/* A corpus without a tree could be opened, too, and would be prepared first. */
static int open_tree(growing *g)
{
    const char *path = g->args.paths[1];
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    int code =
        cli_session_check(&g->session, kith_file_inspect(g->session.ctx, path, NULL, &info), path);
    if (code == CLI_DONE && info.kind != KITH_KIND_TREE) {
        return cli_fail(path, "is no prepared tree (kith tree build makes one)");
    }
    return code == CLI_DONE
               ? cli_session_check(&g->session, kith_corpus_open(g->session.ctx, path, &g->corpus),
                                   path)
               : code;
}

/* What the library says about two matrices is told with their files' names. */
static int check_added(const growing *g)
{
    const kith_matrix *have = kith_corpus_points(g->corpus);
    const kith_matrix *more = g->points.matrix;
    if (more->cols != have->cols) {
        return cli_fail(g->points.path,
                        "has %" PRId32 " columns, %s has %" PRId32
                        " (give points of one dimension)",
                        more->cols, g->args.paths[1], have->cols);
    }
    return more->dtype == have->dtype
               ? CLI_DONE
               : cli_fail(g->points.path, "holds %s, %s holds %s (kith convert changes the type)",
                          kith_dtype_name(more->dtype), g->args.paths[1],
                          kith_dtype_name(have->dtype));
}

/* ---- Actions -------------------------------------------------------------------------------- */

static int plan_build(growing *g)
{
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    params.metric = g->args.metric;
    params.method = KITH_METHOD_TREE;
    params.tree_height = g->args.tree_height;
    params.flags = KITH_INCLUDE_SELF;
    params.k = 1;
    const int code = cli_session_check(
        &g->session,
        cli_job_plan_exact(g->session.ctx, &g->args, g->points.matrix, NULL, &params, &plan),
        g->points.path);
    g->planned_bytes = plan.peak_bytes - plan.result_bytes + kith_points_bytes(g->points.handle);
    return code == CLI_DONE
               ? cli_job_check_memory(g->points.path, g->planned_bytes, g->args.memory_bytes)
               : code;
}

static int build(growing *g)
{
    double start = cli_clock_now();
    int code = cli_session_read(&g->session, g->args.paths[1], &g->points);
    g->seconds_read = cli_clock_now() - start;
    if (code == CLI_DONE) {
        code = plan_build(g);
    }
    if (code != CLI_DONE) {
        return code;
    }
    kith_corpus_params params = kith_corpus_params_default();
    params.metric = g->args.metric;
    params.method = KITH_METHOD_TREE;
    params.tree_height = g->args.tree_height;
    start = cli_clock_now();
    code = cli_session_check(
        &g->session, kith_corpus_create_with(g->session.ctx, g->points.matrix, &params, &g->corpus),
        g->points.path);
    g->seconds_work = cli_clock_now() - start;
    return code;
}

static int add(growing *g)
{
    double start = cli_clock_now();
    int code = open_tree(g);
    if (code == CLI_DONE) {
        code = cli_session_read(&g->session, g->args.paths[2], &g->points);
    }
    if (code == CLI_DONE) {
        code = check_added(g);
    }
    g->seconds_read = cli_clock_now() - start;
    if (code != CLI_DONE) {
        return code;
    }
    start = cli_clock_now();
    code = cli_session_check(
        &g->session, kith_corpus_add(g->session.ctx, g->corpus, g->points.matrix), g->points.path);
    g->seconds_work = cli_clock_now() - start;
    return code;
}

static int remove_rows(growing *g)
{
    double start = cli_clock_now();
    int code = open_tree(g);
    if (code == CLI_DONE) {
        code = cli_ids_read(&g->session, g->args.paths[2], g->args.paths[1],
                            kith_corpus_points(g->corpus)->rows, &g->ids);
    }
    g->seconds_read = cli_clock_now() - start;
    if (code != CLI_DONE) {
        return code;
    }
    start = cli_clock_now();
    code = cli_session_check(
        &g->session, kith_corpus_remove(g->session.ctx, g->corpus, g->ids.values, g->ids.count),
        g->args.paths[2]);
    g->seconds_work = cli_clock_now() - start;
    return code;
}

/* ---- After ---------------------------------------------------------------------------------- */

static int save(growing *g)
{
    const char *path = g->args.output;
    if (cli_signal_came()) {
        return cli_session_check(&g->session, KITH_E_CANCELLED, path);
    }
    const double start = cli_clock_now();
    int code =
        cli_session_check(&g->session, kith_corpus_save(g->session.ctx, g->corpus, path), path);
    g->seconds_write = cli_clock_now() - start;
    g->info.struct_size = (uint32_t)sizeof g->info;
    return code == CLI_DONE
               ? cli_session_check(&g->session,
                                   kith_file_inspect(g->session.ctx, path, NULL, &g->info), path)
               : code;
}

enum { STEPS = 4 };

static void list_steps(const growing *g, cli_step steps[STEPS])
{
    steps[0] = (cli_step){"read", g->seconds_read};
    steps[1] = (cli_step){g->args.paths[0], g->seconds_work};
    steps[2] = (cli_step){"write", g->seconds_write};
    steps[3] = (cli_step){NULL, 0.0};
}

static void print_text(const growing *g)
{
    char text[CLI_SIZE_BYTES];
    const bool verbose = cli_given(&g->args, CLI_OPT_VERBOSE);
    cli_step steps[STEPS];
    cli_source_print();
    (void)printf("points: %" PRId64 " x %" PRId64 " %s\nmetric: %s\n", g->info.rows, g->info.cols,
                 kith_dtype_name(g->info.dtype), kith_metric_name(g->info.metric));
    cli_tree_print(&g->info);
    if (verbose && g->planned_bytes != 0) {
        (void)printf("memory: planned %s\n", cli_message_size(g->planned_bytes, text));
    }
    if (verbose) {
        cli_peak_print(0);
    }
    list_steps(g, steps);
    cli_seconds_print(steps, g->session.start, verbose);
    (void)printf("output: %s, %s\n", cli_message_safe(g->args.output),
                 cli_message_size(g->info.file_bytes, text));
}

static void print_json(const growing *g)
{
    cli_step steps[STEPS];
    cli_json json;
    cli_json_begin(&json, "tree");
    cli_json_text(&json, "action", g->args.paths[0]);
    cli_json_text(&json, "backend", "cpu");
    cli_json_int(&json, "threads", kith_ctx_threads(g->session.ctx));
    cli_json_int(&json, "n", g->info.rows);
    cli_json_int(&json, "d", g->info.cols);
    cli_json_text(&json, "dtype", kith_dtype_name(g->info.dtype));
    cli_json_text(&json, "metric", kith_metric_name(g->info.metric));
    cli_tree_put(&g->info, &json);
    list_steps(g, steps);
    cli_seconds_put(steps, g->session.start, &json);
    cli_peak_put(0, &json);
    cli_json_uint(&json, "bytes", g->info.file_bytes);
    cli_json_text(&json, "output", g->args.output);
    cli_source_put(&json);
    cli_json_end(&json);
}

static int run(growing *g)
{
    const char *action = g->args.paths[0];
    int code = strcmp(action, "build") == 0 ? build(g)
               : strcmp(action, "add") == 0 ? add(g)
                                            : remove_rows(g);
    if (code == CLI_DONE) {
        code = save(g);
    }
    if (code == CLI_DONE && cli_given(&g->args, CLI_OPT_JSON)) {
        print_json(g);
    } else if (code == CLI_DONE && !cli_given(&g->args, CLI_OPT_QUIET)) {
        print_text(g);
    }
    return code;
}

int cli_tree(const cli_args *args)
{
    growing g = {.args = *args};
    g.args.device = "cpu";
    int code = check_output(args);
    if (code == CLI_DONE) {
        code = cli_session_open(&g.session, &g.args);
        if (code == CLI_DONE) {
            code = run(&g);
        }
        cli_ids_free(&g.ids);
        cli_points_close(&g.points);
        kith_corpus_free(g.corpus);
        cli_session_close(&g.session);
    }
    return code;
}
