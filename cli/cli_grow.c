/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_grow.h"

#include "cli.h"
#include "cli_clock.h"
#include "cli_descent.h"
#include "cli_message.h"
#include "cli_output.h"
#include "cli_seconds.h"
#include "cli_signal.h"
#include "cli_source.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Before --------------------------------------------------------------------------------- */

int cli_grow_check_outputs(const cli_args *args)
{
    const char *const outputs[] = {args->output, args->points_out, args->map};
    const char *const endings[] = {cli_given(args, CLI_OPT_FORMAT) ? NULL : CLI_ENDINGS_RESULT,
                                   CLI_ENDINGS_POINTS, CLI_ENDINGS_MAP};
    int code = CLI_DONE;
    for (int i = 0; i < 3 && code == CLI_DONE; i++) {
        code = cli_output_check(outputs[i], endings[i]);
        for (int j = 0; outputs[i] != NULL && j < args->path_count && code == CLI_DONE; j++) {
            code = cli_output_check_input(outputs[i], args->paths[j]);
        }
        for (int j = 0; j < i && code == CLI_DONE; j++) {
            code = cli_output_check_other(outputs[i], outputs[j]);
        }
    }
    return code;
}

static int check_metric(cli_grown *g, const cli_old_graph *old)
{
    const kith_metric own = kith_result_get_meta(old->result)->metric;
    if (own == KITH_METRIC_DEFAULT || own == g->args.metric) {
        return CLI_DONE;
    }
    if (g->args.metric == KITH_METRIC_DEFAULT) {
        g->args.metric = own;
        return CLI_DONE;
    }
    return cli_fail(old->path,
                    cli_given(&g->args, CLI_OPT_METRIC)
                        ? "is a graph of the metric %s, --metric is %s (leave --metric out)"
                        : "is a graph of the metric %s, the other one is of %s (give graphs of one "
                          "metric)",
                    kith_metric_name(own), kith_metric_name(g->args.metric));
}

int cli_grow_open(cli_grown *g, const char *graph, const char *points, cli_old_graph *old)
{
    cli_session *session = &g->job.session;
    old->path = graph;
    int code =
        cli_session_check(session, kith_result_open(session->ctx, graph, &old->result), graph);
    if (code == CLI_DONE) {
        code = check_metric(g, old);
    }
    if (code == CLI_DONE) {
        code = cli_session_read(session, points, &old->points);
    }
    if (code != CLI_DONE) {
        return code;
    }
    old->known = *kith_result_get_meta(old->result);
    if (kith_result_neighbors(old->result)->rows == old->points.matrix->rows) {
        return cli_claim_check(session, graph, &old->known, &old->points);
    }
    return cli_fail(graph,
                    "has %" PRId64 " rows, %s has %" PRId64
                    " (give the points that the graph was built of)",
                    kith_result_neighbors(old->result)->rows, points, old->points.matrix->rows);
}

void cli_grow_close(cli_old_graph *old)
{
    kith_result_free(old->result);
    cli_points_close(&old->points);
}

int cli_grow_check_points(const cli_points *first, const cli_points *second)
{
    const kith_matrix *a = first->matrix;
    const kith_matrix *b = second->matrix;
    if (a->cols != b->cols) {
        return cli_fail(second->path,
                        "has %" PRId32 " columns, %s has %" PRId32
                        " (give points of one dimension)",
                        b->cols, first->path, a->cols);
    }
    return a->dtype == b->dtype
               ? CLI_DONE
               : cli_fail(second->path, "holds %s, %s holds %s (kith convert changes the type)",
                          kith_dtype_name(b->dtype), first->path, kith_dtype_name(a->dtype));
}

/* ---- What is known -------------------------------------------------------------------------- */

kith_neighbors cli_grow_lists(const cli_old_graph *old)
{
    kith_neighbors lists = *kith_result_neighbors(old->result);
    lists.meta = &old->known;
    return lists;
}

int cli_grow_verify(cli_grown *g, cli_old_graph *old)
{
    const bool self = cli_given(&g->args, CLI_OPT_INCLUDE_SELF);
    const kith_neighbors *lists = kith_result_neighbors(old->result);
    const int64_t most = lists->rows - (self ? 0 : 1);
    kith_search_params params = kith_search_params_default();
    if (!cli_given(&g->args, CLI_OPT_VERIFY) || old->known.exact == KITH_CERTIFIED || most < 1) {
        return CLI_DONE;
    }
    kith_neighbors bare = *lists;
    bare.meta = NULL; /* was looked at */
    params.metric = g->args.metric;
    params.k = lists->k < most ? lists->k : most;
    params.flags = self ? (uint32_t)KITH_INCLUDE_SELF : 0;
    const kith_status status = kith_graph_verify(g->job.session.ctx, old->points.matrix, &bare,
                                                 &params, &old->wrong, &old->first_wrong);
    old->verified = status == KITH_OK;
    old->known.exact = old->wrong == 0 ? KITH_CERTIFIED : KITH_APPROXIMATE;
    return cli_session_check(&g->job.session, status, old->points.path);
}

void cli_grow_print_verified(const cli_old_graph *old)
{
    char rows[CLI_GROUPED_BYTES];
    char wrong[CLI_GROUPED_BYTES];
    const int64_t all = old->verified ? kith_result_neighbors(old->result)->rows : 0;
    if (old->verified && old->wrong == 0) {
        (void)printf("verified: %s, all %s lists are exact\n", cli_message_safe(old->path),
                     cli_claim_grouped(all, rows));
    } else if (old->verified) {
        (void)printf("verified: %s, %s of %s lists are not exact, the first of row %" PRId64 "\n",
                     cli_message_safe(old->path), cli_claim_grouped(old->wrong, wrong),
                     cli_claim_grouped(all, rows), old->first_wrong);
    }
}

void cli_grow_put_verified(const cli_old_graph *old, cli_json *json)
{
    if (old->verified) {
        cli_json_open(json, NULL);
        cli_json_text(json, "graph", old->path);
        cli_json_int(json, "rows", kith_result_neighbors(old->result)->rows);
        cli_json_int(json, "wrong", old->wrong);
        cli_json_int(json, "first_wrong", old->first_wrong);
        cli_json_close(json);
    }
}

/* ---- After ---------------------------------------------------------------------------------- */

int cli_grow_estimate(cli_grown *g)
{
    cli_session *session = &g->job.session;
    kith_recall *recall = &g->job.descent.recall;
    if (g->exact == KITH_CERTIFIED || recall->rows > 0 || g->args.sample == 0) {
        return CLI_DONE;
    }
    const int code = cli_job_check(
        &g->job, kith_recall_estimate(session->ctx, &g->points, &g->job.forward, g->args.metric,
                                      g->args.recall_at, g->args.sample, g->args.seed, recall));
    if (code == CLI_DONE && recall->recall < 1.0) {
        g->exact = KITH_APPROXIMATE; /* a neighbour is missing: that much is known */
    }
    return code;
}

int cli_grow_save(cli_grown *g)
{
    cli_session *session = &g->job.session;
    const char *points = g->args.points_out;
    if (cli_signal_came()) {
        return cli_session_check(session, KITH_E_CANCELLED, g->args.output);
    }
    const double start = cli_clock_now();
    g->job.exact = g->exact;
    int code = cli_session_check(
        session, kith_fingerprint_make(session->ctx, &g->points, &g->job.points), g->args.output);
    if (code == CLI_DONE) {
        code = cli_job_save(&g->job, g->args.output, &g->job.forward, &g->job.points);
    }
    if (code == CLI_DONE && points != NULL) {
        code =
            cli_session_check(session, kith_points_save(session->ctx, points, &g->points), points);
    }
    g->seconds_write = cli_clock_now() - start;
    return code;
}

enum { STEPS = 5 };

static void list_steps(const cli_grown *g, cli_step steps[STEPS])
{
    steps[0] = (cli_step){"read", g->seconds_read};
    steps[1] = (cli_step){"build", g->seconds_build};
    steps[2] = (cli_step){g->args.command == CLI_REMOVE ? "remove" : "merge", g->seconds_work};
    steps[3] = (cli_step){"write", g->seconds_write};
    steps[4] = (cli_step){NULL, 0.0};
}

void cli_grow_print(const cli_grown *g)
{
    const bool verbose = cli_given(&g->args, CLI_OPT_VERBOSE);
    cli_step steps[STEPS];
    list_steps(g, steps);
    cli_source_print();
    (void)printf("points: %" PRId64 " x %" PRId32 " %s\nmetric: %s\nk: %" PRId64 "\n",
                 g->points.rows, g->points.cols, kith_dtype_name(g->points.dtype),
                 kith_metric_name(g->args.metric), g->args.k);
    if (verbose) {
        (void)printf("method: %s\n", g->method);
        if (g->job.descent.round_count > 0 && g->exact != KITH_CERTIFIED) {
            cli_descent_print_rounds(&g->job);
        }
        cli_peak_print(g->job.report.gpu_peak_bytes);
    }
    cli_claim_print(g->exact, &g->job.points);
    if (g->exact != KITH_CERTIFIED) {
        cli_descent_print_missed(&g->job);
        cli_descent_print_estimate(&g->job.descent.recall, "points");
    }
    cli_seconds_print(steps, g->job.session.start, verbose);
    (void)printf("output: %s%s\n", cli_message_safe(g->args.output),
                 cli_claim_lost(g->args.output, g->args.format));
}

void cli_grow_put(const cli_grown *g, cli_json *json)
{
    cli_step steps[STEPS];
    list_steps(g, steps);
    cli_json_text(json, "method", g->method);
    cli_json_text(json, "backend", g->job.report.backend);
    cli_json_int(json, "threads", kith_ctx_threads(g->job.session.ctx));
    cli_json_int(json, "n", g->points.rows);
    cli_json_int(json, "d", g->points.cols);
    cli_json_text(json, "dtype", kith_dtype_name(g->points.dtype));
    cli_json_int(json, "k", g->args.k);
    cli_json_text(json, "metric", kith_metric_name(g->args.metric));
    cli_claim_put(g->exact, &g->job.points, json);
    if (g->job.descent.round_count > 0 && g->exact != KITH_CERTIFIED) {
        cli_descent_put(&g->job, json);
    } else if (g->exact != KITH_CERTIFIED && g->job.descent.recall.rows > 0) {
        cli_descent_put_estimate(&g->job.descent.recall, json);
    }
    cli_seconds_put(steps, g->job.session.start, json);
    cli_peak_put(g->job.report.gpu_peak_bytes, json);
    cli_json_text(json, "output", g->args.output);
}
