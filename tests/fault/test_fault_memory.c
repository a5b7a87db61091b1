/* SPDX-License-Identifier: Apache-2.0
 * Memory that runs out: for n = 1, 2, 3 ... the n-th allocation fails, until the call succeeds.
 * Each failure is KITH_E_MEMORY with a sentence, leaks nothing and crashes nothing. The same for a
 * memory limit that rises from nothing (KITH_E_LIMIT). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_faulty.h"
#include "support/support_files.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- What is called ------------------------------------------------------------------------- */

typedef struct input {
    test_rows floats;  /* with copies */
    test_rows bytes;   /* with copies */
    test_rows sparse;  /* with zero rows */
    test_rows queries; /* of floats */
    test_rows many;    /* enough for a pilot, an order, covers */
    kith_neighbors out;
    kith_neighbors back;
    uint32_t *exclude;
    double *distances;
    test_folder *folder;
} input;

enum { ROWS = 700, COLS = 9, QUERIES = 50, MANY = 8400, K = 5 };

typedef kith_status (*job_fn)(kith_ctx *ctx, const input *in, int option);

static kith_neighbors view(const kith_neighbors *room, int64_t rows)
{
    kith_neighbors out = *room;
    out.rows = rows;
    return out;
}

static kith_search_params params_of(int metric)
{
    kith_search_params params = kith_search_params_default();
    params.metric = (kith_metric)metric;
    params.k = K;
    return params;
}

static const test_rows *rows_of(const input *in, int metric)
{
    return metric == KITH_COSINE          ? &in->sparse
           : metric == KITH_INNER_PRODUCT ? &in->bytes
                                          : &in->floats;
}

static kith_status do_graph(kith_ctx *ctx, const input *in, int metric)
{
    const kith_search_params params = params_of(metric);
    const kith_neighbors out = view(&in->out, ROWS);
    return kith_graph(ctx, &rows_of(in, metric)->matrix, &params, &out, NULL);
}

static kith_status do_large_graph(kith_ctx *ctx, const input *in, int metric)
{
    const kith_search_params params = params_of(metric);
    const kith_neighbors out = view(&in->out, MANY);
    return kith_graph(ctx, &in->many.matrix, &params, &out, NULL);
}

/* With samples that are solved. */
static kith_status do_descent(kith_ctx *ctx, const input *in, int metric)
{
    kith_search_params params = kith_search_params_default();
    kith_descent_params descent = kith_descent_params_default();
    descent.start = metric == KITH_EUCLIDEAN ? KITH_START_SCREEN : KITH_START_RANDOM;
    descent.sample = 20;
    descent.rounds = 1;
    params.metric = (kith_metric)metric;
    params.k = K;
    params.method = KITH_METHOD_DESCENT;
    params.recall = 1.0;
    params.descent = &descent;
    const kith_neighbors out = view(&in->out, MANY);
    return kith_graph(ctx, &in->many.matrix, &params, &out, NULL);
}

/* A graph of the floats in which each row leads to those behind it. */
static kith_neighbors ring_of(const input *in)
{
    const kith_neighbors graph = view(&in->back, ROWS);
    for (int64_t i = 0; i < ROWS * K; i++) {
        graph.ids[i] = (uint32_t)((i / K + 1 + i % K) % ROWS);
    }
    return graph;
}

/* On a ring: with a wanted recall, for which the exact engine answers at last; or without. */
static kith_status do_walk(kith_ctx *ctx, const input *in, int metric)
{
    test_walk_params params = test_walk_params_default();
    params.metric = (kith_metric)metric;
    params.k = K;
    params.recall = metric == KITH_EUCLIDEAN ? 1.0 : 0.0;
    params.sample = 20;
    const kith_neighbors graph = ring_of(in);
    const kith_neighbors out = view(&in->out, QUERIES);
    return test_walk(ctx, &in->floats.matrix, &graph, &in->queries.matrix, &params, &out, NULL);
}

/* Walks are made, and asked one query after another. */
static kith_status do_kept_walks(kith_ctx *ctx, const input *in, int metric)
{
    test_walk_params params = test_walk_params_default();
    kith_index *walks = NULL;
    kith_neighbors out = view(&in->out, 1);
    kith_matrix query = in->queries.matrix;
    const kith_neighbors graph = ring_of(in);
    const kith_index_params made = test_graph_index_params(&graph, (kith_metric)metric);
    params.k = K;
    query.rows = 1;
    kith_status status = kith_index_create(ctx, &in->floats.matrix, &made, &walks);
    assert_int_equal(status == KITH_OK, walks != NULL);
    for (int i = 0; i < 2 && status == KITH_OK; i++) {
        status = test_index_walk(ctx, walks, &query, &params, &out, NULL);
    }
    kith_index_free(walks);
    return status;
}

static kith_status do_search(kith_ctx *ctx, const input *in, int metric)
{
    kith_search_params params = params_of(metric);
    params.exclude = in->exclude;
    const kith_neighbors out = view(&in->out, QUERIES);
    return kith_search(ctx, &rows_of(in, metric)->matrix, &in->queries.matrix, &params, &out, NULL);
}

static kith_status do_tree_graph(kith_ctx *ctx, const input *in, int metric)
{
    kith_search_params params = params_of(metric);
    params.method = KITH_METHOD_TREE;
    const kith_neighbors out = view(&in->out, MANY);
    return kith_graph(ctx, &in->many.matrix, &params, &out, NULL);
}

static kith_status do_tree_search(kith_ctx *ctx, const input *in, int metric)
{
    kith_search_params params = params_of(metric);
    params.exclude = in->exclude;
    params.method = KITH_METHOD_TREE;
    const kith_neighbors out = view(&in->out, QUERIES);
    return kith_search(ctx, &rows_of(in, metric)->matrix, &in->queries.matrix, &params, &out, NULL);
}

static kith_status do_both(kith_ctx *ctx, const input *in, int metric)
{
    const kith_search_params params = params_of(metric);
    const kith_neighbors out = view(&in->out, ROWS);
    const kith_neighbors back = view(&in->back, QUERIES);
    return kith_knn_both(ctx, &rows_of(in, metric)->matrix, &in->queries.matrix, &params, &out,
                         &back);
}

static kith_status do_distances(kith_ctx *ctx, const input *in, int metric)
{
    return kith_distances(ctx, &rows_of(in, metric)->matrix, &in->queries.matrix,
                          (kith_metric)metric, &(kith_pairs){QUERIES, in->exclude, in->exclude},
                          in->distances);
}

static kith_status do_recall(kith_ctx *ctx, const input *in, int metric)
{
    kith_recall recall;
    const kith_neighbors out = view(&in->back, ROWS);
    for (int64_t i = 0; i < ROWS * K; i++) {
        out.ids[i] = (uint32_t)((i / K + 1 + i % K) % ROWS);
    }
    return kith_recall_estimate(ctx, &rows_of(in, metric)->matrix, &out,
                                TEST_RECALL_PARAMS((kith_metric)metric, K, 100, 1), &recall);
}

static const char *const extensions[] = {"npy", "csv", "fbin", "fvecs"};
static const char *const results[] = {"npz", "kith", "csr.npz", "ivecs"};
static const kith_format formats[] = {KITH_FORMAT_NPZ, KITH_FORMAT_KITH, KITH_FORMAT_CSR,
                                      KITH_FORMAT_IVECS};

static kith_status do_save_points(kith_ctx *ctx, const input *in, int option)
{
    char name[64];
    (void)snprintf(name, sizeof name, "points.%s", extensions[option]);
    return kith_points_save(ctx, test_path(in->folder, name), &in->floats.matrix);
}

static kith_status do_open_points(kith_ctx *ctx, const input *in, int option)
{
    char name[64];
    (void)snprintf(name, sizeof name, "points.%s", extensions[option]);
    kith_points *points = NULL;
    const kith_status status = kith_points_open(ctx, test_path(in->folder, name), NULL, &points);
    assert_int_equal(status == KITH_OK, points != NULL);
    kith_points_free(points);
    return status;
}

static kith_select_params params_of_selection(int method)
{
    kith_select_params params = kith_select_params_default();
    params.method = (kith_select_method)method;
    params.k = K;
    return params;
}

/* The rows of a file of floats, which save .npy wrote, and what is selected from them. */
static kith_status do_select(kith_ctx *ctx, const input *in, int method)
{
    kith_points *points = NULL;
    const kith_select_params params = params_of_selection(method);
    const kith_selection out = {in->out.distances, in->out.ids, NULL};
    kith_points_params read = kith_points_params_default();
    read.use = KITH_USE_VALUES;
    kith_status status = kith_points_open(ctx, test_path(in->folder, "points.npy"), &read, &points);
    assert_int_equal(status == KITH_OK, points != NULL);
    if (status == KITH_OK) {
        status = kith_select(ctx, kith_points_get_source(points)->values, &params, &out);
    }
    kith_points_free(points);
    return status;
}

static kith_status do_save_selection(kith_ctx *ctx, const input *in, int kth)
{
    const kith_select_params params = params_of_selection(KITH_SELECT_AUTO);
    const kith_selection made = {in->out.distances, in->out.ids, NULL};
    return kth != 0 ? kith_selection_save(ctx, test_path(in->folder, "kth.npy"),
                                          &(kith_selection){.kth = in->out.distances}, ROWS,
                                          KITH_F32, NULL)
                    : kith_selection_save(ctx, test_path(in->folder, "selection.npz"), &made, ROWS,
                                          KITH_F32, &params);
}

static kith_status do_save_result(kith_ctx *ctx, const input *in, int option)
{
    char name[64];
    (void)snprintf(name, sizeof name, "result.%s", results[option]);
    kith_result_meta meta = kith_result_meta_default();
    meta.kind = KITH_KIND_RESULT;
    meta.metric = KITH_EUCLIDEAN;
    meta.exact = KITH_APPROXIMATE;
    meta.corpus_rows = ROWS;
    const kith_neighbors out = view(&in->out, QUERIES);
    return kith_result_save(ctx, test_path(in->folder, name), formats[option], &out, &meta);
}

static kith_status do_open_result(kith_ctx *ctx, const input *in, int option)
{
    char name[64];
    (void)snprintf(name, sizeof name, "result.%s", results[option]);
    kith_result *result = NULL;
    const kith_status status = kith_result_open(ctx, test_path(in->folder, name), &result);
    assert_int_equal(status == KITH_OK, result != NULL);
    kith_result_free(result);
    return status;
}

/* An index of some rows gets the others, and loses some. */
static kith_status change_index(kith_ctx *ctx, const input *in, const kith_index_params *made)
{
    static const uint32_t gone[] = {3, 0, 11};
    kith_matrix points = in->floats.matrix;
    kith_matrix more = points;
    kith_index *index = NULL;
    points.rows -= 9;
    more.data = (const char *)more.data + points.rows * more.stride_bytes;
    more.rows = 9;
    kith_status status = kith_index_create(ctx, &points, made, &index);
    if (status == KITH_OK) {
        status = kith_index_add(ctx, index, &more);
        assert_int_equal(test_index_info(index).points.rows, points.rows + (status ? 0 : 9));
    }
    if (status == KITH_OK) {
        status = kith_index_remove(ctx, index, gone, 3);
    }
    kith_index_free(index);
    return status;
}

static kith_status do_change_exact(kith_ctx *ctx, const input *in, int metric)
{
    kith_index_params params = kith_index_params_default();
    params.metric = (kith_metric)metric;
    return change_index(ctx, in, &params);
}

static kith_status do_change_graph(kith_ctx *ctx, const input *in, int metric)
{
    kith_index_params params = test_graph_index_params(NULL, (kith_metric)metric);
    params.k = K;
    return change_index(ctx, in, &params);
}

/* A corpus is made, asked and saved. */
static kith_status do_corpus(kith_ctx *ctx, const input *in, int metric)
{
    kith_search_params params = params_of(0);
    params.exclude = in->exclude;
    const kith_neighbors out = view(&in->out, QUERIES);
    kith_index *corpus = NULL;
    kith_status status =
        test_index_create(ctx, &rows_of(in, metric)->matrix, (kith_metric)metric, &corpus);
    assert_int_equal(status == KITH_OK, corpus != NULL);
    if (status == KITH_OK) {
        status = kith_index_search(ctx, corpus, &in->queries.matrix, &params, &out, NULL);
    }
    if (status == KITH_OK) {
        status = kith_index_save(ctx, corpus, test_path(in->folder, "corpus.kith"));
    }
    kith_index_free(corpus);
    return status;
}

static kith_status do_open_corpus(kith_ctx *ctx, const input *in, int option)
{
    (void)option;
    const kith_search_params params = params_of(0);
    const kith_neighbors out = view(&in->out, QUERIES);
    kith_index *corpus = NULL;
    kith_status status = kith_index_open(ctx, test_path(in->folder, "corpus.kith"), &corpus);
    assert_int_equal(status == KITH_OK, corpus != NULL);
    if (status == KITH_OK) {
        status = kith_index_search(ctx, corpus, &in->queries.matrix, &params, &out, NULL);
    }
    kith_index_free(corpus);
    return status;
}

static kith_status radius_by(kith_ctx *ctx, const input *in, int metric, kith_method method)
{
    kith_radius_params params = kith_radius_params_default();
    params.metric = (kith_metric)metric;
    params.method = method;
    params.radius = 0.7;
    kith_ranges *ranges = NULL;
    kith_status status = kith_radius(ctx, &rows_of(in, metric)->matrix, NULL, &params, &ranges);
    assert_int_equal(status == KITH_OK, ranges != NULL);
    if (status == KITH_OK) {
        kith_result_meta meta = kith_result_meta_default();
        meta.kind = KITH_KIND_RANGES;
        meta.metric = (kith_metric)metric;
        meta.exact = KITH_APPROXIMATE;
        meta.corpus_rows = ROWS;
        status = kith_ranges_save(ctx, test_path(in->folder, "ranges.npz"), ranges, &meta);
    }
    kith_ranges_free(ranges);
    return status;
}

static kith_status do_radius(kith_ctx *ctx, const input *in, int metric)
{
    return radius_by(ctx, in, metric, KITH_METHOD_AUTO);
}

static kith_status do_tree_radius(kith_ctx *ctx, const input *in, int metric)
{
    return radius_by(ctx, in, metric, KITH_METHOD_TREE);
}

typedef struct job {
    const char *name;
    job_fn fn;
    int option;
} job;

/* In this order: what is opened has been saved. */
static const job jobs[] = {
    {"graph, euclidean", do_graph, KITH_EUCLIDEAN},
    {"graph, cosine", do_graph, KITH_COSINE},
    {"graph, bytes", do_graph, KITH_INNER_PRODUCT},
    {"graph, manhattan", do_graph, KITH_MANHATTAN},
    {"large graph", do_large_graph, KITH_EUCLIDEAN},
    {"graph by a tree", do_tree_graph, KITH_EUCLIDEAN},
    {"graph by descent, euclidean", do_descent, KITH_EUCLIDEAN},
    {"graph by descent, chebyshev", do_descent, KITH_CHEBYSHEV},
    {"search on a graph, euclidean", do_walk, KITH_EUCLIDEAN},
    {"search on a graph, manhattan", do_walk, KITH_MANHATTAN},
    {"kept walks, cosine", do_kept_walks, KITH_COSINE},
    {"search by a tree", do_tree_search, KITH_CHEBYSHEV},
    {"both, euclidean", do_both, KITH_EUCLIDEAN},
    {"both, cosine", do_both, KITH_COSINE},
    {"both, chebyshev", do_both, KITH_CHEBYSHEV},
    {"search, cosine", do_search, KITH_COSINE},
    {"search, bytes asked with floats", do_search, KITH_INNER_PRODUCT},
    {"search, manhattan", do_search, KITH_MANHATTAN},
    {"search, euclidean", do_search, KITH_EUCLIDEAN},
    {"distances, correlation", do_distances, KITH_CORRELATION},
    {"recall, euclidean", do_recall, KITH_EUCLIDEAN},
    {"radius, cosine", do_radius, KITH_COSINE},
    {"radius, manhattan", do_radius, KITH_MANHATTAN},
    {"radius, euclidean", do_radius, KITH_EUCLIDEAN},
    {"radius by a tree", do_tree_radius, KITH_MANHATTAN},
    {"an exact index changes", do_change_exact, KITH_COSINE},
    {"a graph index changes", do_change_graph, KITH_EUCLIDEAN},
    {"corpus of bytes", do_corpus, KITH_INNER_PRODUCT},
    {"open corpus of bytes", do_open_corpus, 0},
    {"corpus, cosine", do_corpus, KITH_COSINE},
    {"open corpus, cosine", do_open_corpus, 0},
    {"corpus, euclidean", do_corpus, KITH_EUCLIDEAN},
    {"open corpus, euclidean", do_open_corpus, 0},
    {"save .npy", do_save_points, 0},
    {"save .csv", do_save_points, 1},
    {"save .fbin", do_save_points, 2},
    {"save .fvecs", do_save_points, 3},
    {"open .npy", do_open_points, 0},
    {"open .csv", do_open_points, 1},
    {"open .fbin", do_open_points, 2},
    {"open .fvecs", do_open_points, 3},
    {"select, auto", do_select, KITH_SELECT_AUTO},
    {"select, scan", do_select, KITH_SELECT_SCAN},
    {"select, merge_queue", do_select, KITH_SELECT_MERGE_QUEUE},
    {"select, threshold_heap", do_select, KITH_SELECT_THRESHOLD_HEAP},
    {"save selection .npz", do_save_selection, 0},
    {"save selection .npy", do_save_selection, 1},
    {"save result .npz", do_save_result, 0},
    {"save result .kith", do_save_result, 1},
    {"save result .csr", do_save_result, 2},
    {"save result .ivecs", do_save_result, 3},
    {"open result .npz", do_open_result, 0},
    {"open result .kith", do_open_result, 1},
    {"open result .csr", do_open_result, 2},
    {"open result .ivecs", do_open_result, 3},
};

/* ---- Input ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
    uint64_t seed = 1;
    input *in = calloc(1, sizeof *in);
    assert_non_null(in);
    void *folder = NULL;
    test_folder_setup(&folder);
    in->folder = folder;
    in->floats = test_rows_make(KITH_F32, ROWS, COLS, 0);
    in->bytes = test_rows_make(KITH_U8, ROWS, COLS, 0);
    in->sparse = test_rows_make(KITH_F64, ROWS, COLS, 0);
    in->queries = test_rows_make(KITH_F32, QUERIES, COLS, 0);
    in->many = test_rows_make(KITH_F32, MANY, 3, 0);
    test_shape_fill(&in->floats, SHAPE_COPIES, false, &seed);
    test_shape_fill(&in->bytes, SHAPE_COPIES, false, &seed);
    test_shape_fill(&in->sparse, SHAPE_SPARSE, false, &seed);
    test_shape_fill(&in->queries, SHAPE_SPARSE, false, &seed);
    test_shape_fill(&in->many, SHAPE_CLUSTERS, false, &seed);
    in->out = test_answer_make(MANY, K);
    in->back = test_answer_make(ROWS, K);
    in->exclude = malloc(QUERIES * sizeof *in->exclude);
    in->distances = malloc(QUERIES * sizeof *in->distances);
    assert_true(in->exclude != NULL && in->distances != NULL);
    for (uint32_t i = 0; i < QUERIES; i++) {
        in->exclude[i] = i;
    }
    *state = in;
    return 0;
}

static int teardown(void **state)
{
    input *in = *state;
    void *folder = in->folder;
    test_folder_teardown(&folder);
    test_rows_free(&in->floats);
    test_rows_free(&in->bytes);
    test_rows_free(&in->sparse);
    test_rows_free(&in->queries);
    test_rows_free(&in->many);
    test_answer_free(&in->out);
    test_answer_free(&in->back);
    free(in->exclude);
    free(in->distances);
    free(in);
    return 0;
}

/* ---- The two sweeps ------------------------------------------------------------------------- */

/* Runs the job once; the context must hold nothing but itself afterwards. */
static kith_status run_job(const input *in, const job *j, test_faulty *f, uint64_t limit,
                           long fails_at)
{
    kith_ctx *ctx = test_faulty_ctx("cpu", f, limit);
    const long own_blocks = atomic_load(&f->blocks);
    atomic_store(&f->asked, 0);
    f->fails_at = fails_at;
    const kith_status status = j->fn(ctx, in, j->option);
    f->fails_at = 0;
    if ((status != KITH_OK) != (kith_ctx_detail(ctx)[0] != '\0')) {
        fail_msg("%s: status %s explained with \"%s\"", j->name, kith_status_name(status),
                 kith_ctx_detail(ctx));
    }
    if (atomic_load(&f->blocks) != own_blocks) {
        fail_msg("%s, failure %ld, limit %llu: %ld blocks leak", j->name, fails_at,
                 (unsigned long long)limit, atomic_load(&f->blocks) - own_blocks);
    }
    kith_ctx_free(ctx);
    assert_int_equal(atomic_load(&f->blocks), 0);
    assert_int_equal(atomic_load(&f->bytes), 0);
    return status;
}

static void nth_allocation_fails(void **state)
{
    const input *in = *state;
    const long step = test_is_slow_build() ? 9 : 1;
    long failures = 0;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        kith_status status = KITH_E_MEMORY;
        for (long n = 1; status != KITH_OK; n += step) {
            test_faulty f = {0};
            status = run_job(in, &jobs[i], &f, 0, n);
            if (status != KITH_OK && status != KITH_E_MEMORY) {
                fail_msg("%s, allocation %ld: %s", jobs[i].name, n, kith_status_name(status));
            }
            failures += status != KITH_OK;
        }
    }
    printf("%ld allocations of %d calls failed one by one: KITH_E_MEMORY, no leak, no crash\n",
           failures, (int)(sizeof jobs / sizeof *jobs));
}

static void limit_rises(void **state)
{
    const input *in = *state;
    long failures = 0;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        kith_status status = KITH_E_LIMIT;
        for (uint64_t limit = 64; status != KITH_OK; limit += limit / 4) {
            test_faulty f = {0};
            status = run_job(in, &jobs[i], &f, limit, 0);
            if (status != KITH_OK && status != KITH_E_LIMIT) {
                fail_msg("%s, limit %llu: %s", jobs[i].name, (unsigned long long)limit,
                         kith_status_name(status));
            }
            failures += status != KITH_OK;
            assert_true(limit < 1u << 30);
        }
    }
    printf("%ld calls under rising memory limits: KITH_E_LIMIT until they fit, no leak\n",
           failures);
}

/* What a context of limited memory holds is really within the limit. */
static void limit_is_kept(void **state)
{
    const input *in = *state;
    for (uint64_t limit = 1u << 16; limit < 1u << 24; limit *= 2) {
        test_faulty f = {0};
        kith_ctx *ctx = test_faulty_ctx("cpu", &f, limit);
        const kith_status status = do_graph(ctx, in, KITH_EUCLIDEAN);
        kith_report report = {.struct_size = sizeof report};
        assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
        assert_true(status == KITH_OK || status == KITH_E_LIMIT);
        assert_true(report.peak_bytes <= limit);
        kith_ctx_free(ctx);
    }
    printf("the peak that is reported is within the limit\n");
}

static void context_fails(void **state)
{
    (void)state;
    test_faulty f = {.fails_at = 1};
    kith_ctx_params params = kith_ctx_params_default();
    params.allocate = test_faulty_allocate;
    params.release = test_faulty_release;
    params.allocate_arg = &f;
    kith_ctx *ctx = (kith_ctx *)&f;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_E_MEMORY);
    assert_null(ctx);
    assert_int_equal(atomic_load(&f.blocks), 0);
    printf("a context for which there is no memory is NULL\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nth_allocation_fails), cmocka_unit_test(limit_rises),
        cmocka_unit_test(limit_is_kept), cmocka_unit_test(context_fails)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
