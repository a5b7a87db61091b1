/* SPDX-License-Identifier: Apache-2.0
 * What a progress function hears of every public call that has one, at every single chance: no
 * phase goes beyond its total, none goes back before it has reached it, all have reached it when
 * the call ends. Time runs 60 ms at each look at the clock, so that nothing is left out. */
#define _GNU_SOURCE
#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_files.h"
#include "support/support_shapes.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 3000, COLS = 6, QUERIES = 700, K = 8, PHASES = 256 };

static atomic_long looks;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const long ms = (1 + atomic_fetch_add(&looks, 1)) * 60;
    (void)clock;
    now->tv_sec = ms / 1000;
    now->tv_nsec = ms % 1000 * 1000000;
    return 0;
}

typedef struct heard {
    char name[64];
    double done;
    double total;
    int times;
} heard;

/* Of one call. */
static struct {
    const char *call;
    heard phases[PHASES];
    int count;
} told;

static int hear(void *arg, const char *name, double done, double total)
{
    (void)arg;
    heard *h = NULL;
    for (int i = 0; i < told.count && h == NULL; i++) {
        h = strcmp(told.phases[i].name, name) == 0 ? &told.phases[i] : NULL;
    }
    if (h == NULL) {
        assert_true(told.count < PHASES);
        h = &told.phases[told.count++];
        *h = (heard){.times = 0};
        (void)snprintf(h->name, sizeof h->name, "%s", name);
    }
    const int begins = h->times == 0 || h->done == h->total;
    if (done < 0.0 || done > total || (!begins && (done < h->done || total != h->total))) {
        fail_msg("%s: %s is %g of %g after %g of %g", told.call, name, done, total, h->done,
                 h->total);
    }
    h->done = done;
    h->total = total;
    h->times += 1;
    return 0;
}

static int calls;
static int reports;

static void begin(const char *call)
{
    told.call = call;
    told.count = 0;
}

/* silent: it is too short for a phase. */
static void end(const test_folder *folder, kith_status status, int silent)
{
    if (status != KITH_OK) {
        fail_msg("%s: %s", told.call, kith_ctx_detail(folder->ctx));
    }
    print_message("  %-28s", told.call);
    for (int i = 0; i < told.count; i++) {
        const heard *h = &told.phases[i];
        if (told.count < 8) {
            print_message(" %s %d", h->name, h->times);
        }
        if (h->done != h->total) {
            fail_msg("%s: %s ends at %g of %g", told.call, h->name, h->done, h->total);
        }
        reports += h->times;
    }
    print_message("\n");
    assert_true(silent || told.count > 0);
    calls += 1;
}

#define HEARS(call) (begin(#call), end(folder, call, 0))
#define MAY_HEAR(call) (begin(#call), end(folder, call, 1))

typedef struct input {
    test_rows points;
    test_rows queries;
    kith_neighbors graph;
    kith_neighbors found;
} input;

static input make_input(void)
{
    uint64_t seed = 3;
    input in = {.points = test_rows_make(KITH_F32, ROWS, COLS, 0),
                .queries = test_rows_make(KITH_F32, QUERIES, COLS, 0),
                .graph = test_answer_make(ROWS, K),
                .found = test_answer_make(QUERIES, K)};
    test_shape_fill(&in.points, SHAPE_GAUSS, false, &seed);
    test_shape_fill(&in.queries, SHAPE_GAUSS, false, &seed);
    return in;
}

static void free_input(input *in)
{
    test_rows_free(&in->points);
    test_rows_free(&in->queries);
    test_answer_free(&in->graph);
    test_answer_free(&in->found);
}

static void exact_calls(test_folder *folder, const input *in)
{
    static const kith_method methods[] = {KITH_METHOD_EXACT, KITH_METHOD_TREE, KITH_METHOD_AUTO};
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN};
    const kith_matrix *points = &in->points.matrix;
    const kith_matrix *queries = &in->queries.matrix;
    kith_neighbors back = test_answer_make(ROWS, K);
    kith_ctx *ctx = folder->ctx;
    for (int i = 0; i < 3; i++) {
        kith_search_params params = kith_search_params_default();
        kith_radius_params radius = kith_radius_params_default();
        kith_ranges *ranges = NULL;
        params.k = K;
        params.method = methods[i];
        params.metric = metrics[i % 2];
        radius.radius = 1.0;
        radius.method = methods[i];
        HEARS(kith_graph(ctx, points, &params, &in->graph, NULL));
        HEARS(kith_search(ctx, points, queries, &params, &in->found, NULL));
        HEARS(kith_radius(ctx, points, NULL, &radius, &ranges));
        kith_ranges_free(ranges);
        HEARS(kith_radius(ctx, points, queries, &radius, &ranges));
        kith_ranges_free(ranges);
    }
    kith_search_params both = kith_search_params_default();
    both.k = K;
    HEARS(kith_knn_both(ctx, queries, points, &both, &in->found, &back));
    HEARS(kith_graph(ctx, points, &both, &in->graph, NULL));
    for (int pipeline = KITH_PIPELINE_MATRIX; pipeline <= KITH_PIPELINE_MATRIX; pipeline++) {
        kith_search_params params = kith_search_params_default();
        params.k = K;
        params.pipeline = (kith_pipeline)pipeline;
        HEARS(kith_graph(ctx, points, &params, &in->graph, NULL));
    }
    test_answer_free(&back);
}

static void corpus_calls(test_folder *folder, const input *in)
{
    const kith_matrix *points = &in->points.matrix;
    const uint32_t gone[] = {0, 17, 200, 2999};
    kith_ctx *ctx = folder->ctx;
    const char *path = test_path(folder, "corpus.kith");
    for (int tree = 0; tree < 2; tree++) {
        kith_index_params params = kith_index_params_default();
        kith_search_params search = kith_search_params_default();
        kith_index *corpus = NULL;
        search.k = K;
        params.method = tree ? KITH_METHOD_TREE : KITH_METHOD_EXACT;
        HEARS(kith_index_create(ctx, points, &params, &corpus));
        HEARS(kith_index_save(ctx, corpus, path));
        HEARS(kith_index_search(ctx, corpus, &in->queries.matrix, &search, &in->found, NULL));
        if (tree) {
            MAY_HEAR(kith_index_add(ctx, corpus, &in->queries.matrix));
            MAY_HEAR(kith_index_remove(ctx, corpus, gone, 4));
        }
        kith_index_free(corpus);
        MAY_HEAR(kith_index_open(ctx, path, &corpus));
        HEARS(kith_index_search(ctx, corpus, &in->queries.matrix, &search, &in->found, NULL));
        kith_index_free(corpus);
    }
}

static void graph_calls(test_folder *folder, const input *in)
{
    const kith_matrix *points = &in->points.matrix;
    kith_matrix first = *points;
    kith_matrix second = *points;
    kith_neighbors graphs[2];
    kith_neighbors merged = test_answer_make(ROWS, K);
    kith_descent_params descent = kith_descent_params_default();
    test_walk_params walks = test_walk_params_default();
    const kith_index_params kept = test_graph_index_params(&in->graph, KITH_EUCLIDEAN);
    kith_search_params exact = kith_search_params_default();
    kith_remove_params remove = kith_remove_params_default();
    kith_index *w = NULL;
    kith_ranges *ranges = NULL;
    kith_ctx *ctx = folder->ctx;
    kith_recall recall;
    uint8_t *removed = calloc(ROWS, 1);
    assert_non_null(removed);
    descent.k = K;
    exact.k = K;
    walks.k = K;
    remove.k = K;
    HEARS(test_descend(ctx, points, &descent, &merged, NULL));
    HEARS(test_walk(ctx, points, &in->graph, &in->queries.matrix, &walks, &in->found, NULL));
    MAY_HEAR(kith_index_create(ctx, points, &kept, &w));
    HEARS(test_index_walk(ctx, w, &in->queries.matrix, &walks, &in->found, NULL));
    kith_index_free(w);
    first.rows = ROWS / 2;
    second.rows = ROWS - first.rows;
    second.data = (const unsigned char *)points->data + first.rows * points->stride_bytes;
    if (points->stride_bytes == 0) {
        second.data = (const float *)points->data + first.rows * COLS;
    }
    graphs[0] = test_answer_exact(ctx, &first, KITH_EUCLIDEAN, K, 0);
    graphs[1] = test_answer_exact(ctx, &second, KITH_EUCLIDEAN, K, 0);
    HEARS(test_merge_exactly(ctx, &(kith_merge_sets){points, first.rows, &graphs[0], &graphs[1]},
                             &exact, &merged));
    HEARS(test_merge_descending(ctx, &(kith_merge_sets){points, first.rows, &graphs[0], &graphs[1]},
                                &descent, &merged, NULL));
    for (int i = 0; i < ROWS; i += 7) {
        removed[i] = 1;
    }
    merged.rows = ROWS - (ROWS + 6) / 7;
    remove.removed = removed;
    HEARS(kith_graph_remove(ctx, points, &in->graph, &remove, &merged, NULL));
    merged.rows = ROWS;
    MAY_HEAR(kith_graph_symmetric(ctx, &in->graph, KITH_EUCLIDEAN, KITH_SYMMETRY_UNION, &ranges));
    kith_ranges_free(ranges);
    HEARS(kith_recall_estimate(ctx, points, &in->graph,
                               TEST_RECALL_PARAMS(KITH_EUCLIDEAN, K, 1000, 1), &recall));
    for (int i = 0; i < 2; i++) {
        test_answer_free(&graphs[i]);
    }
    test_answer_free(&merged);
    free(removed);
}

static void shard_calls(test_folder *folder, const input *in)
{
    kith_search_params exact = kith_search_params_default();
    kith_descent_params descent = kith_descent_params_default();
    exact.k = K;
    descent.k = K;
    for (int i = 0; i < 3; i++) {
        kith_shard_params params = kith_shard_params_default();
        params.exact = i < 2 ? &exact : NULL;
        params.descent = i < 2 ? NULL : &descent;
        params.shards = i == 0 ? 1 : 4;
        HEARS(kith_graph_shards(folder->ctx, &in->points.matrix, &params, test_path(folder, "work"),
                                test_path(folder, "shards.kith"), NULL));
    }
}

static void file_calls(test_folder *folder, const input *in)
{
    static const char *const points[] = {"p.fvecs", "p.fbin", "p.npy", "p.csv", "p.tsv", "p.kith"};
    static const char *const results[] = {"r.npz", "r.ivecs", "r.ibin", "r.knn", "r.kith"};
    kith_result_meta meta = kith_result_meta_default();
    kith_ctx *ctx = folder->ctx;
    test_rows wide = test_rows_make(KITH_F32, 60000, COLS, 0);
    kith_neighbors long_graph = test_answer_make(60000, K);
    uint64_t seed = 1;
    test_shape_fill(&wide, SHAPE_GAUSS, false, &seed);
    for (int64_t i = 0; i < 60000 * K; i++) {
        long_graph.ids[i] = (uint32_t)i % 60000;
        long_graph.distances[i] = 1.0F;
    }
    meta.kind = KITH_KIND_GRAPH;
    meta.metric = KITH_EUCLIDEAN;
    meta.corpus_rows = 60000;
    for (int i = 0; i < 6; i++) {
        kith_points *opened = NULL;
        const char *path = test_path(folder, points[i]);
        HEARS(kith_points_save(ctx, path, &wide.matrix));
        MAY_HEAR(kith_points_open(ctx, path, NULL, &opened));
        kith_points_free(opened);
    }
    for (int i = 0; i < 5; i++) {
        kith_result *opened = NULL;
        const char *path = test_path(folder, results[i]);
        HEARS(kith_result_save(ctx, path, KITH_FORMAT_AUTO, &long_graph, &meta));
        MAY_HEAR(kith_result_open(ctx, path, &opened));
        kith_result_free(opened);
    }
    const char *csr = test_path(folder, "csr.npz");
    HEARS(kith_result_save(ctx, csr, KITH_FORMAT_CSR, &long_graph, &meta));
    kith_result_stream_params params = kith_result_stream_params_default();
    kith_result_stream *stream = NULL;
    kith_neighbors half = long_graph;
    const char *path = test_path(folder, "stream.kith");
    params.rows = 60000;
    params.k = K;
    half.rows = 30000;
    MAY_HEAR(kith_result_stream_open(ctx, path, &params, &meta, &stream));
    MAY_HEAR(kith_result_stream_put(ctx, stream, &half));
    kith_result_stream_free(stream);
    HEARS(kith_result_stream_open(ctx, path, &params, &meta, &stream));
    MAY_HEAR(kith_result_stream_put(ctx, stream, &half));
    MAY_HEAR(kith_result_stream_finish(ctx, stream));
    kith_result_stream_free(stream);
    (void)in;
    test_rows_free(&wide);
    test_answer_free(&long_graph);
}

static void select_calls(test_folder *folder, const input *in)
{
    const kith_values values = {
        .data = in->points.matrix.data, .rows = ROWS, .cols = COLS, .dtype = KITH_F32};
    kith_select_params params = kith_select_params_default();
    float *best = calloc(ROWS * 3, sizeof *best);
    uint32_t *ids = calloc(ROWS * 3, sizeof *ids);
    const kith_selection out = {best, ids, NULL};
    kith_predict_params predict = kith_predict_params_default();
    double *labels = calloc(ROWS, sizeof *labels);
    double *answers = calloc(ROWS, sizeof *answers);
    kith_ctx *ctx = folder->ctx;
    assert_true(best != NULL && ids != NULL && labels != NULL && answers != NULL);
    params.k = 3;
    MAY_HEAR(kith_select(ctx, &values, &params, &out));
    MAY_HEAR(kith_select(ctx, &values, &params, &(kith_selection){.kth = best}));
    MAY_HEAR(kith_selection_save(ctx, test_path(folder, "s.npz"), &out, ROWS, KITH_F32, &params));
    MAY_HEAR(kith_predict(ctx, &in->graph, labels, ROWS, &predict, answers));
    free(best);
    free(ids);
    free(labels);
    free(answers);
}

/* ---- A stop ---------------------------------------------------------------------------------- */

/* Says stop once, at the at-th chance. on: there was work to do behind it. */
typedef struct stopper {
    long at;
    long heard;
    bool on;
} stopper;

static int stop_once(void *arg, const char *name, double done, double total)
{
    stopper *s = arg;
    (void)name;
    s->heard += 1;
    s->on = s->on || (s->heard > s->at && s->at > 0 && done < total);
    return s->heard == s->at;
}

static kith_status remove_some(test_folder *folder, const input *in)
{
    kith_remove_params params = kith_remove_params_default();
    kith_neighbors left = test_answer_make(ROWS, K);
    uint8_t *removed = calloc(ROWS, 1);
    assert_non_null(removed);
    for (int i = 0; i < ROWS; i += 3) {
        removed[i] = 1;
    }
    left.rows = ROWS - (ROWS + 2) / 3;
    params.k = K;
    params.removed = removed;
    const kith_status status =
        kith_graph_remove(folder->ctx, &in->points.matrix, &in->graph, &params, &left, NULL);
    left.rows = ROWS;
    test_answer_free(&left);
    free(removed);
    return status;
}

static kith_status make_shards(test_folder *folder, const input *in)
{
    kith_search_params exact = kith_search_params_default();
    kith_shard_params params = kith_shard_params_default();
    exact.k = K;
    params.exact = &exact;
    params.shards = 3;
    return kith_graph_shards(folder->ctx, &in->points.matrix, &params, test_path(folder, "work"),
                             test_path(folder, "shards.kith"), NULL);
}

/* Calls that make others end soon after a stop, wherever it is said: also at the end of one of
 * those. */
static void one_stop_is_heard(void **state)
{
    static kith_status (*const works[])(test_folder *, const input *) = {remove_some, make_shards};
    enum { TRIES = 60 };
    test_folder *folder = *state;
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *plain = folder->ctx;
    stopper s = {0};
    input in = make_input();
    int stopped = 0;
    params.device = "cpu";
    params.threads = 1;
    params.progress = stop_once;
    params.progress_arg = &s;
    test_answer_free(&in.graph);
    in.graph = test_answer_exact(plain, &in.points.matrix, KITH_EUCLIDEAN, K, 0);
    assert_int_equal(kith_ctx_create(&params, &folder->ctx), KITH_OK);
    for (size_t w = 0; w < sizeof works / sizeof *works; w++) {
        s = (stopper){0};
        assert_int_equal(works[w](folder, &in), KITH_OK);
        const long chances = s.heard;
        assert_true(chances > 2);
        for (long i = 0; i < TRIES; i++) {
            s = (stopper){.at = 1 + i * (chances - 1) / (TRIES - 1)};
            const kith_status status = works[w](folder, &in);
            assert_true(status == KITH_E_CANCELLED || (status == KITH_OK && !s.on));
            stopped += status == KITH_E_CANCELLED;
            s = (stopper){0};
            assert_int_equal(works[w](folder, &in), KITH_OK); /* and the folder is empty again */
        }
    }
    print_message("%d jobs were told once to stop, and did\n", stopped);
    assert_true(stopped > TRIES);
    kith_ctx_free(folder->ctx);
    folder->ctx = plain;
    free_input(&in);
}

static void every_call(void **state)
{
    test_folder *folder = *state;
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *plain = folder->ctx;
    input in = make_input();
    params.device = "cpu";
    params.threads = 2;
    params.progress = hear;
    assert_int_equal(kith_ctx_create(&params, &folder->ctx), KITH_OK);
    exact_calls(folder, &in);
    corpus_calls(folder, &in);
    graph_calls(folder, &in);
    shard_calls(folder, &in);
    select_calls(folder, &in);
    file_calls(folder, &in);
    kith_ctx_free(folder->ctx);
    folder->ctx = plain;
    free_input(&in);
    print_message("%d calls, %d reports: done never exceeds total, rises, and ends at it\n", calls,
                  reports);
    assert_true(reports > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_call, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(one_stop_is_heard, test_folder_setup,
                                        test_folder_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
