/* SPDX-License-Identifier: Apache-2.0
 * Descents, walks, graphs that grow, shrink and become symmetric, recall, shards. */
#include "soak/soak_calls.h"
#include "support/support_calls.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static kith_descent_params draw_descent(soak *s, int64_t rows)
{
    kith_descent_params p = kith_descent_params_default();
    p.struct_size = (uint32_t)soak_spoil(s, p.struct_size);
    p.metric = soak_metric(s);
    p.k = soak_spoil(s, soak_between(s, 1, rows < SOAK_K ? rows : SOAK_K));
    p.flags = (uint32_t)soak_spoil(s, soak_below(s, 4) == 0);
    p.start = (kith_start)soak_spoil(s, (int64_t)soak_below(s, 3));
    p.seed = soak_below(s, 1000);
    p.rounds = (int32_t)soak_spoil(s, soak_between(s, -1, 3));
    p.sample = soak_spoil(s, soak_between(s, -1, 30));
    if (soak_below(s, 4) == 0) {
        p.recall = (double)soak_between(s, -1, 5) / 4.0;
        p.recall_at = soak_spoil(s, 0);
        p.candidates = (int32_t)soak_spoil(s, soak_between(s, 0, 20));
        p.list = (int32_t)soak_spoil(s, soak_between(s, 0, 20));
        p.all_updates = (int32_t)soak_spoil(s, soak_between(s, -1, 1));
        p.delta = (double)soak_between(s, -1, 2);
        p.start_share = (double)soak_between(s, -1, 2);
    }
    if (soak_below(s, 8) == 0) {
        p.metric = KITH_CUSTOM;
        p.custom = soak_below(s, 8) == 0 ? NULL : soak_custom;
    }
    return p;
}

static void call_descent(soak *s)
{
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix given = soak_spoiled(s, &points);
    kith_descent_params params = draw_descent(s, points.rows);
    kith_descent_report report = {.struct_size = (uint32_t)soak_spoil(s, sizeof report)};
    kith_neighbors init = {0};
    if (soak_below(s, 3) == 0) {
        init = soak_graph(s, 1, points.rows, soak_between(s, 1, SOAK_K));
        params.init = &init;
        params.start = soak_below(s, 8) == 0 ? params.start : KITH_START_GRAPH;
    }
    const kith_neighbors out = soak_room(s, 0, points.rows, params.k);
    kith_descent_report *told = soak_below(s, 2) == 0 ? NULL : &report;
    const kith_search_params search = test_descends(&params, told);
    const kith_status status =
        kith_graph(s->ctx, soak_null(s, &given), soak_null(s, &search), &out, NULL);
    if (soak_check(s, status) == KITH_OK) {
        soak_check_ids(s, &out, points.rows);
    }
}

static void call_walk(soak *s)
{
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix queries = soak_matrix(s, 1, SOAK_ROWS, points.cols);
    const kith_matrix given[] = {soak_spoiled(s, &points), soak_spoiled(s, &queries)};
    const kith_neighbors graph = soak_graph(s, 1, points.rows, soak_between(s, 1, SOAK_K));
    test_walk_params params = test_walk_params_default();
    kith_walk_report report = {.struct_size = (uint32_t)soak_spoil(s, sizeof report)};
    params.metric = soak_metric(s);
    params.k = soak_spoil(s, soak_between(s, 1, points.rows < SOAK_K ? points.rows : SOAK_K));
    params.width = soak_spoil(s, soak_between(s, 0, 12));
    params.recall = soak_below(s, 4) == 0 ? (double)soak_between(s, -1, 5) / 4.0 : 0.0;
    params.recall_at = soak_spoil(s, 0);
    params.sample = soak_spoil(s, soak_between(s, -1, 30));
    params.seed = soak_below(s, 1000);
    const kith_neighbors out = soak_room(s, 0, queries.rows, params.k);
    params.graph = soak_null(s, &graph);
    kith_walk_params walk;
    kith_search_params search = test_walks(&params, &walk, soak_below(s, 2) ? &report : NULL);
    walk.struct_size = (uint32_t)soak_spoil(s, walk.struct_size);
    search.struct_size = (uint32_t)soak_spoil(s, search.struct_size);
    const kith_status status = kith_search(s->ctx, &given[0], &given[1], &search, &out, NULL);
    if (soak_check(s, status) == KITH_OK) {
        soak_check_ids(s, &out, points.rows);
    }
}

static void call_merge(soak *s)
{
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix given = soak_spoiled(s, &points);
    const int64_t first = soak_between(s, 0, points.rows);
    const int64_t k = soak_between(s, 1, SOAK_K);
    const kith_neighbors graphs[] = {soak_graph(s, 1, first, k),
                                     soak_graph(s, 2, points.rows - first, k)};
    const kith_descent_params params = draw_descent(s, points.rows);
    const kith_neighbors out = soak_room(s, 0, points.rows, params.k);
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    const kith_search_params search = test_descends(&params, NULL);
    (void)soak_check(
        s, kith_plan_merge(s->ctx, &(kith_merge_sets){&given, first, NULL, NULL}, &search, &plan));
    const kith_status status = test_merge_descending(
        s->ctx,
        &(kith_merge_sets){&given, soak_spoil(s, first), soak_null(s, &graphs[0]),
                           soak_null(s, &graphs[1])},
        &params, &out, NULL);
    if (soak_check(s, status) == KITH_OK) {
        soak_check_ids(s, &out, points.rows);
    }
}

/* The graphs of both sets as they should be, or else invented ones. */
static void call_merge_exact(soak *s)
{
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 0);
    const int64_t first = soak_between(s, 1, points.rows);
    const int64_t rows[] = {first, points.rows - first};
    kith_search_params params = kith_search_params_default();
    kith_neighbors graphs[2];
    params.metric = soak_metric(s);
    params.flags = soak_below(s, 2) == 0 ? (uint32_t)KITH_INCLUDE_SELF : 0;
    for (int i = 0; i < 2; i++) {
        const int64_t most = rows[i] - (params.flags == 0);
        kith_matrix part = points;
        part.rows = rows[i];
        part.data = (const char *)points.data +
                    (i == 0 ? 0 : first * points.cols * kith_dtype_bytes(points.dtype));
        params.k = most < 4 ? most : 4;
        graphs[i] = soak_graph(s, 1 + i, rows[i], params.k > 0 ? params.k : 1);
        if (params.k > 0 && soak_below(s, 8) != 0) {
            (void)soak_check(s, kith_graph(s->ctx, &part, &params, &graphs[i], NULL));
        }
    }
    params.k = soak_spoil(s, points.rows > 4 ? 4 : points.rows > 1 ? points.rows - 1 : 1);
    const kith_neighbors out = soak_room(s, 0, points.rows, params.k);
    const kith_status status = test_merge_exactly(
        s->ctx, &(kith_merge_sets){&points, first, &graphs[0], &graphs[1]}, &params, &out);
    if (soak_check(s, status) == KITH_OK) {
        soak_check_ids(s, &out, points.rows);
    }
}

static void call_remove(soak *s)
{
    static const uint8_t none[SOAK_ROWS];
    uint8_t removed[SOAK_ROWS];
    uint32_t map[SOAK_ROWS];
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix given = soak_spoiled(s, &points);
    const kith_neighbors graph = soak_graph(s, 1, points.rows, soak_between(s, 1, SOAK_K));
    kith_remove_params params = kith_remove_params_default();
    kith_remove_report report = {.struct_size = (uint32_t)soak_spoil(s, sizeof report)};
    int64_t left = points.rows;
    const uint64_t share = soak_below(s, 4) + 1;
    memcpy(removed, none, sizeof removed);
    for (int64_t i = 0; i < points.rows; i++) {
        removed[i] = soak_below(s, 8) < share;
        left -= removed[i];
    }
    params.struct_size = (uint32_t)soak_spoil(s, params.struct_size);
    params.metric = soak_metric(s);
    params.k = soak_spoil(s, soak_between(s, 1, graph.k));
    params.flags = (uint32_t)soak_spoil(s, soak_below(s, 4) == 0);
    params.approximate = (int32_t)soak_below(s, 2);
    params.removed = soak_null(s, removed);
    params.map = soak_below(s, 2) == 0 ? NULL : map;
    const kith_neighbors out = soak_room(s, 0, left, params.k);
    const kith_status status =
        kith_graph_remove(s->ctx, &given, soak_null(s, &graph), &params, &out, &report);
    if (soak_check(s, status) == KITH_OK) {
        soak_check_ids(s, &out, left);
    }
}

static void call_symmetric(soak *s)
{
    const int64_t rows = soak_between(s, 1, SOAK_ROWS);
    const kith_neighbors graph = soak_graph(s, 0, rows, soak_between(s, 1, SOAK_K));
    kith_ranges *ranges = NULL;
    const kith_status status =
        kith_graph_symmetric(s->ctx, soak_null(s, &graph), soak_metric(s),
                             (kith_symmetry)soak_spoil(s, soak_between(s, 1, 2)), &ranges);
    soak_require(s, (soak_check(s, status) == KITH_OK) == (ranges != NULL), "ranges exactly then");
    kith_ranges_free(ranges);
}

static void call_recall(soak *s)
{
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 0);
    const int64_t k = soak_between(s, 1, SOAK_K);
    const kith_neighbors found = soak_graph(s, 0, points.rows, k);
    const kith_neighbors truth = soak_graph(s, 1, points.rows, k);
    const kith_metric metric = soak_metric(s);
    kith_recall recall;
    (void)soak_check(s, kith_recall_measure(s->ctx, soak_null(s, &found), &truth, metric,
                                            soak_spoil(s, soak_between(s, 0, k)), &recall));
    (void)soak_check(s, kith_recall_estimate(
                            s->ctx, &points, &found,
                            TEST_RECALL_PARAMS(metric, 0, soak_spoil(s, 10), soak_below(s, 100)),
                            &recall));
}

/* Calls on to the end, or stops the job so that the next one goes on with what it has left. */
static int stop_later(void *arg, const char *phase, double done, double total)
{
    (void)phase;
    (void)done;
    (void)total;
    int *calls = arg;
    return *calls > 0 && --*calls == 0;
}

static void call_shards(soak *s)
{
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 4);
    const kith_matrix given = soak_spoiled(s, &points);
    kith_search_params exact = kith_search_params_default();
    kith_descent_params descent = draw_descent(s, points.rows);
    kith_shard_params params = kith_shard_params_default();
    kith_shard_report report = {.struct_size = (uint32_t)soak_spoil(s, sizeof report)};
    exact.metric = soak_metric(s);
    exact.k = soak_spoil(s, soak_between(s, 1, 4));
    params.struct_size = (uint32_t)soak_spoil(s, params.struct_size);
    params.shards = (int32_t)soak_spoil(s, soak_between(s, 0, 4));
    params.exact = soak_below(s, 2) == 0 ? &exact : NULL;
    params.descent = params.exact == NULL || soak_below(s, 16) == 0 ? &descent : NULL;
    params.format = (kith_format)soak_spoil(s, soak_between(s, 0, 6));
    params.keep = soak_below(s, 4) == 0;
    params.restart = soak_below(s, 2) == 0;
    params.job = soak_below(s, 2) == 0 ? "another\nwith two lines" : NULL;
    const char *folder = soak_path(s, "work");
    const char *path = soak_path(s, "shards.npz");
    const int32_t odd = soak_below(s, 32) == 0;
    if (odd) { /* what lies in the way */
        (void)soak_check(
            s, kith_points_save(s->ctx, soak_path(s, "work/shard-00000.000000.kith"), &points));
    }
    (void)soak_check(s,
                     kith_graph_shards(s->ctx, &given, &params, soak_null(s, folder),
                                       soak_null(s, path), soak_below(s, 2) == 0 ? NULL : &report));
}

/* By a context of its own, which is told to stop somewhere. */
static void call_stopped(soak *s)
{
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 4);
    kith_search_params exact = kith_search_params_default();
    kith_shard_params params = kith_shard_params_default();
    kith_ctx_params own = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    int calls = (int)soak_between(s, 1, 12);
    own.threads = 1;
    own.device = "cpu";
    own.progress = stop_later;
    own.progress_arg = &calls;
    soak_require(s, kith_ctx_create(&own, &ctx) == KITH_OK, "a context can be made");
    exact.k = 1;
    params.exact = &exact;
    params.shards = 2;
    params.restart = 1;
    char path[320];
    (void)snprintf(path, sizeof path, "%s/stopped", s->folder);
    const kith_status status =
        kith_graph_shards(ctx, &points, &params, path, soak_path(s, "stopped.kith"), NULL);
    soak_require(s, (status == KITH_OK) == (kith_ctx_detail(ctx)[0] == '\0'), "it is explained");
    kith_ctx_free(ctx);
}

const soak_call soak_graphs[] = {call_descent,     call_walk,   call_merge,
                                 call_merge_exact, call_remove, call_symmetric,
                                 call_recall,      call_shards, call_stopped};
const int soak_graph_count = sizeof soak_graphs / sizeof soak_graphs[0];
