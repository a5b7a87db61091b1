/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_walk.h"

#include "cli.h"
#include "cli_descent.h"
#include "cli_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- The job -------------------------------------------------------------------------------- */

static int check_graph(cli_job *job)
{
    const char *path = job->args->paths[0];
    const kith_result_meta *meta = kith_result_get_meta(job->graph);
    const kith_metric asked = job->args->metric;
    const int64_t rows = kith_result_neighbors(job->graph)->rows;
    if (meta->kind == KITH_KIND_RESULT && meta->metric != KITH_METRIC_DEFAULT) {
        return cli_fail(path, "holds neighbours of queries, and no graph (give one that kith graph "
                              "has written)");
    }
    if (asked != KITH_METRIC_DEFAULT && meta->metric != KITH_METRIC_DEFAULT &&
        asked != meta->metric) {
        return cli_fail(path, "is a graph for %s, --metric says %s (leave it out)",
                        kith_metric_name(meta->metric), kith_metric_name(asked));
    }
    if (rows != job->corpus.matrix->rows) {
        return cli_fail(path,
                        "has %" PRId64 " rows, %s has %" PRId64 " (give a graph of the points)",
                        rows, job->corpus.path, job->corpus.matrix->rows);
    }
    job->own_metric = meta->metric;
    const int code = cli_claim_check(&job->session, path, meta, &job->corpus);
    return code == CLI_DONE ? cli_job_check_k(job->corpus.path, job->args->k, rows, "points")
                            : code;
}

int cli_walk_read(cli_job *job)
{
    const char *path = job->args->paths[0];
    int code = cli_session_check(&job->session,
                                 kith_result_open(job->session.ctx, path, &job->graph), path);
    if (code == CLI_DONE) {
        code = cli_session_read(&job->session, job->args->paths[1], &job->corpus);
    }
    return code == CLI_DONE ? check_graph(job) : code;
}

int cli_walk_solve(cli_job *job)
{
    const cli_args *args = job->args;
    kith_graph_search_params params = kith_graph_search_params_default();
    params.metric = cli_job_metric(job);
    params.k = args->k;
    params.width = args->width;
    params.recall = args->recall;
    params.recall_at = args->recall_at;
    params.sample = args->sample == 0 ? -1 : args->sample;
    params.seed = args->seed;
    const int code = cli_job_allocate(job, &job->forward, job->queries.matrix->rows);
    if (code != CLI_DONE) {
        return code;
    }
    job->walk.struct_size = (uint32_t)sizeof job->walk;
    kith_neighbors graph = *kith_result_neighbors(job->graph);
    graph.meta = NULL; /* check_graph has looked at it */
    const kith_status status =
        kith_graph_search(job->session.ctx, job->corpus.matrix, &graph, job->queries.matrix,
                          &params, &job->forward, &job->walk);
    return cli_session_blames(&job->session, "graph")
               ? cli_session_check(&job->session, status, args->paths[0])
               : cli_job_check(job, status);
}

/* ---- For people ----------------------------------------------------------------------------- */

void cli_walk_print(const cli_job *job)
{
    const kith_graph_search_report *walk = &job->walk;
    const double distances = walk->evaluations / (double)job->queries.matrix->rows;
    (void)printf("graph: %s, %" PRId64 " neighbours a row, connected parts: %" PRId64 "\n",
                 cli_message_safe(job->args->paths[0]), kith_result_neighbors(job->graph)->k,
                 walk->parts);
    if (walk->exact == 0) {
        (void)printf("width: %" PRId64 "\n", walk->width);
    }
    (void)printf("distances a query: %.1f (%.3f %% of all points)\n", distances,
                 100.0 * distances / (double)job->corpus.matrix->rows);
}

void cli_walk_print_recall(const cli_job *job)
{
    if (job->walk.exact == 1) {
        (void)printf("walks would have taken longer than to compare all points\n");
    } else {
        cli_descent_print_estimate(&job->walk.recall, "queries");
    }
}

/* ---- For programs --------------------------------------------------------------------------- */

void cli_walk_put(const cli_job *job, cli_json *json)
{
    const kith_graph_search_report *walk = &job->walk;
    if (walk->exact == 0 && walk->recall.rows > 0) {
        cli_descent_put_estimate(&walk->recall, json);
    }
    if (job->args->recall > 0.0) {
        cli_json_number(json, "recall_wanted", job->args->recall);
        cli_json_bool(json, "reached", walk->reached == 1);
    }
    cli_json_int(json, "width", walk->width);
    cli_json_int(json, "parts", walk->parts);
    cli_json_number(json, "evaluations", walk->evaluations);
}
