/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_grow.h"

#include "cli.h"
#include "cli_descent.h"
#include "cli_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Before --------------------------------------------------------------------------------- */

static int check_metric(cli_grown *g, const cli_old_graph *old)
{
    const kith_metric own = old->lists->meta->metric;
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
    CLI_TRY(cli_session_result(session, graph, &old->lists));
    CLI_TRY(check_metric(g, old));
    CLI_TRY(cli_session_read(session, points, &old->points));
    old->known = *old->lists->meta;
    if (old->lists->rows == old->points.matrix->rows) {
        return cli_claim_check(session, graph, &old->known, &old->points);
    }
    return cli_fail(graph,
                    "has %" PRId64 " rows, %s has %" PRId64
                    " (give the points that the graph was built of)",
                    old->lists->rows, points, old->points.matrix->rows);
}

int cli_grow_make_points(cli_grown *g, int64_t rows, const char *path, const char *what)
{
    const kith_matrix *like = g->old[0].points.matrix;
    if (g->args.metric == KITH_METRIC_DEFAULT) {
        g->args.metric = KITH_EUCLIDEAN;
    }
    const int64_t row_bytes = (int64_t)like->cols * kith_dtype_bytes(like->dtype);
    g->points = (kith_matrix){.data = cli_keep((uint64_t)rows, (size_t)row_bytes),
                              .rows = rows,
                              .stride_bytes = row_bytes,
                              .cols = like->cols,
                              .dtype = like->dtype};
    g->job.corpus.matrix = &g->points;
    CLI_PASS_IF(g->points.data != NULL, path, "no memory for the points %s", what);
}

int64_t cli_grow_copy_points(cli_grown *g, int64_t to, const kith_matrix *from,
                             const uint8_t *removed)
{
    const size_t row_bytes = (size_t)g->points.stride_bytes;
    const size_t stride = from->stride_bytes != 0 ? (size_t)from->stride_bytes : row_bytes;
    char *copy = (char *)(uintptr_t)g->points.data;
    for (int64_t row = 0; row < from->rows; row++) {
        if (removed == NULL || removed[row] == 0) {
            memcpy(copy + (size_t)to * row_bytes, (const char *)from->data + (size_t)row * stride,
                   row_bytes);
            to++;
        }
    }
    return to;
}

int cli_grow_run(const cli_args *args, cli_grown *g, void *own, const cli_work *work)
{
    g->args = *args;
    g->job.args = &g->args;
    g->job.own = own;
    return cli_work_run(&g->job, work);
}

/* ---- What is known -------------------------------------------------------------------------- */

kith_neighbors cli_grow_lists(const cli_old_graph *old)
{
    kith_neighbors lists = *old->lists;
    lists.meta = &old->known;
    return lists;
}

int cli_verify(cli_session *session, const char *graph, const kith_neighbors *lists,
               const cli_points *points, kith_metric metric, bool self, cli_verified *found)
{
    const int64_t most = lists->rows - (self ? 0 : 1);
    kith_neighbors bare = *lists;
    bare.meta = NULL; /* was looked at */
    kith_search_params params = kith_search_params_default();
    params.metric = metric;
    params.k = lists->k < most ? lists->k : most;
    params.flags = self ? (uint32_t)KITH_INCLUDE_SELF : 0;
    found->graph = graph;
    found->rows = lists->rows;
    return cli_session_check_files(session,
                                   kith_graph_verify(session->ctx, points->matrix, &bare, &params,
                                                     &found->wrong, &found->first_wrong),
                                   graph, {"points", points->path, 0});
}

void cli_tell_verified(cli_report *r, const char *key, const cli_verified *found)
{
    if (found->graph == NULL) {
        return;
    }
    cli_tell_object(
        r, key,
        found->wrong == 0
            ? "verified: {graph}, all {rows,} lists are exact\n"
            : "verified: {graph}, {wrong,} of {rows,} lists are not exact, the first of "
              "row {first_wrong}\n",
        TEXT("graph", found->graph), INT("rows", found->rows), INT("wrong", found->wrong),
        INT("first_wrong", found->first_wrong));
}

int cli_grow_verify(cli_grown *g, cli_old_graph *old)
{
    const bool self = cli_given(&g->args, CLI_OPT_INCLUDE_SELF);
    const kith_neighbors *lists = old->lists;
    if (!cli_given(&g->args, CLI_OPT_VERIFY) || old->known.exact == KITH_CERTIFIED ||
        (lists->rows == 1 && !self)) {
        return CLI_DONE;
    }
    CLI_TRY(cli_verify(&g->job.session, old->path, lists, &old->points, g->args.metric, self,
                       &old->verified));
    old->known.exact = old->verified.wrong == 0 ? KITH_CERTIFIED : KITH_APPROXIMATE;
    return CLI_DONE;
}

/* ---- After ---------------------------------------------------------------------------------- */

int cli_grow_estimate(cli_grown *g)
{
    cli_session *session = &g->job.session;
    kith_recall *recall = &g->job.descent.recall;
    const int64_t others = g->args.k - (cli_given(&g->args, CLI_OPT_INCLUDE_SELF) ? 1 : 0);
    if (g->job.exact == KITH_CERTIFIED || recall->rows > 0 || g->args.sample == 0 || others == 0) {
        return CLI_DONE;
    }
    kith_recall_params params = kith_recall_params_default();
    params.metric = g->args.metric;
    params.at = g->args.recall_at < others ? g->args.recall_at : others;
    params.sample = g->args.sample;
    params.seed = g->args.seed;
    CLI_TRY(cli_job_check(
        &g->job, kith_recall_estimate(session->ctx, &g->points, &g->job.forward, &params, recall)));
    if (recall->recall < 1.0) {
        g->job.exact = KITH_APPROXIMATE; /* a neighbour is missing: that much is known */
    }
    return CLI_DONE;
}

int cli_grow_save(cli_grown *g)
{
    cli_session *session = &g->job.session;
    CLI_TRY(cli_session_check(
        session, kith_fingerprint_make(session->ctx, &g->points, &g->job.points), g->args.output));
    CLI_TRY(cli_job_save(&g->job, g->args.output, &g->job.forward, &g->job.points));
    return cli_points_save(session, g->args.points_out, &g->points);
}

void cli_grow_tell(cli_report *r, const cli_grown *g)
{
    const cli_job *job = &g->job;
    const bool rounds = job->descent.round_count > 0 && g->job.exact != KITH_CERTIFIED;
    cli_say_matrix(r, "points", NULL, &g->points);
    cli_put(r, INT("n", g->points.rows), INT("d", g->points.cols),
            TEXT("dtype", kith_dtype_name(g->points.dtype)));
    cli_tell_text(r, "metric", kith_metric_name(g->args.metric));
    cli_tell_int(r, "k", g->args.k);
    cli_tell_more(r, "method: {method}\n", TEXT("method", g->method),
                  TEXT("backend", job->report.backend),
                  INT("threads", kith_ctx_get_params(job->session.ctx)->threads));
    if (rounds) {
        cli_descent_tell(r, job);
    } else if (g->job.exact != KITH_CERTIFIED && job->descent.recall.rows > 0) {
        cli_put_estimate(r, &job->descent.recall);
    }
    cli_tell_peak(r, job->report.gpu_peak_bytes, 0);
    cli_tell_claim(r, g->job.exact, &job->points);
    if (g->job.exact != KITH_CERTIFIED) {
        cli_descent_say_missed(r, job);
        cli_say_estimate(r, &job->descent.recall, "points");
    }
    cli_tell_seconds(r, job->session.start, NUMBER("read", job->seconds_read),
                     NUMBER("build", g->seconds_build),
                     NUMBER(g->args.command == CLI_REMOVE ? "remove" : "merge", job->seconds_work),
                     NUMBER("write", job->seconds_write));
    cli_tell_output(r, g->args.output, cli_claim_lost(g->args.output, g->args.format));
}
