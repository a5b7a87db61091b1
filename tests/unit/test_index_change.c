/* SPDX-License-Identifier: Apache-2.0
 * Rows that come to an index and go: one by exact gives the bytes of a new one, one by graph keeps
 * its recall; one by graph in a file; mistakes. (test_tree_update.c, test_tree_file.c: by tree.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_files.h"
#include "support/support_keys.h"
#include "support/support_mixture.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

enum { COLS = 12, K = 8, QUERIES = 80, POINTS = 2000, SPARE = 6000 };

/* Rows as they shall be: the first of `all` that are used, in the order of the index. */
typedef struct model {
    kith_ctx *ctx;
    kith_matrix all; /* queries, points, and those to come */
    float *rows;
    int64_t count;
    int64_t next; /* of all */
    uint64_t seed;
} model;

static const float *row_of(const kith_matrix *matrix, int64_t row)
{
    return (const float *)matrix->data + row * COLS;
}

static model model_make(int64_t count, uint64_t seed)
{
    model m = {.ctx = test_ctx(kin_cpu_best(), 2),
               .all = test_mixture_points(QUERIES + POINTS + SPARE, COLS, 5, 12, 0.5, seed),
               .count = count,
               .next = QUERIES + count,
               .seed = seed};
    for (int64_t row = QUERIES + 3; row < m.all.rows; row += 17) { /* some rows are equal */
        test_mixture_copy(&m.all, row, QUERIES + 1);
    }
    m.rows = calloc((size_t)(POINTS + SPARE) * COLS, sizeof *m.rows);
    assert_non_null(m.rows);
    memcpy(m.rows, row_of(&m.all, QUERIES), (size_t)(count * COLS) * sizeof *m.rows);
    return m;
}

static void model_free(model *m)
{
    free(m->rows);
    test_mixture_free(&m->all);
    kith_ctx_free(m->ctx);
}

static kith_matrix matrix_of(const model *m)
{
    return (kith_matrix){.data = m->rows, .rows = m->count, .cols = COLS, .dtype = KITH_F32};
}

static uint32_t draw(model *m, uint32_t below)
{
    m->seed = m->seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(m->seed >> 33) % below;
}

static void add_some(model *m, kith_index *index, int64_t count)
{
    const kith_matrix more = test_part_of(&m->all, m->next, count);
    test_works(m->ctx, kith_index_add(m->ctx, index, &more));
    memcpy(m->rows + m->count * COLS, row_of(&m->all, m->next),
           (size_t)(count * COLS) * sizeof *m->rows);
    m->next += count;
    m->count += count;
}

static void remove_some(model *m, kith_index *index, int64_t count)
{
    uint32_t ids[64];
    assert_true(count <= 64);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = draw(m, (uint32_t)m->count);
    }
    test_works(m->ctx, kith_index_remove(m->ctx, index, ids, count));
    uint8_t *gone = calloc((size_t)m->count, 1);
    assert_non_null(gone);
    for (int64_t i = 0; i < count; i++) {
        gone[ids[i]] = 1;
    }
    int64_t left = 0;
    for (int64_t i = 0; i < m->count; i++) {
        if (gone[i] == 0) {
            memmove(m->rows + left++ * COLS, m->rows + i * COLS, COLS * sizeof *m->rows);
        }
    }
    m->count = left;
    free(gone);
}

static kith_neighbors solve(const model *m, kith_metric metric)
{
    const kith_matrix points = matrix_of(m);
    const kith_matrix queries = test_part_of(&m->all, 0, QUERIES);
    kith_neighbors truth = test_answer_make(QUERIES, K);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    params.metric = metric;
    params.method = KITH_METHOD_EXACT;
    test_works(m->ctx, kith_search(m->ctx, &points, &queries, &params, &truth, NULL));
    return truth;
}

/* The answers of an index beside the truth of its rows. */
static double recall_of(const model *m, const kith_index *index, kith_metric metric, bool *same)
{
    const kith_matrix queries = test_part_of(&m->all, 0, QUERIES);
    kith_neighbors truth = solve(m, metric);
    kith_neighbors out = test_answer_make(QUERIES, K);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    const kith_index_info info = test_index_info(index);
    assert_int_equal(info.points.rows, m->count);
    assert_memory_equal(info.points.data, m->rows, (size_t)(m->count * COLS) * sizeof *m->rows);
    test_works(m->ctx, kith_index_search(m->ctx, index, &queries, &params, &out, NULL));
    *same = test_answers_equal(&out, &truth);
    const double recall = test_graph_recall(metric, &out, &truth, K);
    test_answer_free(&out);
    test_answer_free(&truth);
    return recall;
}

static kith_index *make(const model *m, kith_metric metric, kith_method method, double recall)
{
    const kith_matrix points = matrix_of(m);
    kith_index_params params = kith_index_params_default();
    kith_index *index = NULL;
    params.metric = metric;
    params.method = method;
    params.recall = method == KITH_METHOD_GRAPH ? recall : 0.0;
    params.k = method == KITH_METHOD_GRAPH ? 16 : 0;
    test_works(m->ctx, kith_index_create(m->ctx, &points, &params, &index));
    return index;
}

/* The matrix that an index was made of is its caller's, who changes it here: a copy is not. */
static kith_index *make_own(model *m, kith_metric metric, kith_method method, double recall)
{
    const kith_matrix view = test_part_of(&m->all, QUERIES, m->count);
    const float *rows = m->rows;
    m->rows = (float *)(uintptr_t)view.data;
    kith_index *index = make(m, metric, method, recall);
    m->rows = (float *)(uintptr_t)rows;
    return index;
}

/* ---- Exact ----------------------------------------------------------------------------------- */

static void exact_ones_are_as_new(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_MANHATTAN};
    const int rounds = test_is_slow_build() ? 3 : 12;
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        bool same = false;
        model m = model_make(400, 3 + i);
        kith_index *index = make_own(&m, metrics[i], KITH_METHOD_AUTO, 0.0);
        assert_int_equal(test_index_info(index).method, KITH_METHOD_EXACT);
        for (int round = 0; round < rounds; round++) {
            add_some(&m, index, 1 + draw(&m, 60));
            remove_some(&m, index, draw(&m, 50));
            (void)recall_of(&m, index, metrics[i], &same);
            assert_true(same);
        }
        remove_some(&m, index, 0); /* nobody */
        (void)recall_of(&m, index, metrics[i], &same);
        assert_true(same);
        printf("%s: %d changes, the bytes of a new one each time\n", kith_metric_name(metrics[i]),
               2 * rounds);
        kith_index_free(index);
        model_free(&m);
    }
}

/* ---- By graph -------------------------------------------------------------------------------- */

static void graphs_keep_their_recall(void **state)
{
    (void)state;
    static const struct {
        kith_metric metric;
        double recall;
        int rounds;
    } kinds[] = {{KITH_EUCLIDEAN, 0.95, 100},
                 {KITH_COSINE, 0.99, 15},
                 {KITH_MANHATTAN, 0.95, 15},
                 {KITH_EUCLIDEAN, 1.0, 10}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bool same = false;
        const int rounds = test_is_slow_build() ? 2 : kinds[i].rounds;
        model m = model_make(POINTS, 11 + i);
        kith_index *index = make_own(&m, kinds[i].metric, KITH_METHOD_GRAPH, kinds[i].recall);
        const double before = recall_of(&m, index, kinds[i].metric, &same);
        for (int round = 0; round < rounds; round++) {
            add_some(&m, index, POINTS / 100);
            remove_some(&m, index, POINTS / 100);
        }
        const double after = recall_of(&m, index, kinds[i].metric, &same);
        printf("%s, %g: %d rounds of 1 %% churn, recall of walks %.4f before, %.4f after\n",
               kith_metric_name(kinds[i].metric), kinds[i].recall, rounds, before, after);
        assert_true(after >= before - 0.01 && after >= 0.95);
        assert_int_equal(test_index_info(index).k, 16);
        kith_index_free(index);
        model_free(&m);
    }
}

/* Two rows and their graph of one neighbour grow, one row at a time, and become two again. */
static void graphs_of_few_rows_change(void **state)
{
    (void)state;
    bool same = false;
    model m = model_make(2, 77);
    kith_index *index = make_own(&m, KITH_EUCLIDEAN, KITH_METHOD_GRAPH, 1.0);
    assert_int_equal(test_index_info(index).k, 1);
    for (int i = 0; i < 30; i++) {
        add_some(&m, index, 1);
        assert_int_equal(test_index_info(index).k, i + 2 < 16 ? i + 2 : 16);
    }
    (void)recall_of(&m, index, KITH_EUCLIDEAN, &same);
    assert_true(same);
    while (m.count > 2) {
        remove_some(&m, index, 1);
    }
    const uint32_t all[] = {0, 1};
    test_fails(m.ctx, kith_index_remove(m.ctx, index, all, 1), KITH_E_ARGUMENT,
               "an index by graph has at least 2");
    test_fails(m.ctx, kith_index_remove(m.ctx, index, all, 2), KITH_E_ARGUMENT, "all 2 rows");
    assert_int_equal(test_index_info(index).points.rows, 2);
    printf("a graph grows from two rows, and shrinks to them\n");
    kith_index_free(index);
    model_free(&m);
}

static void graphs_survive_the_file(void **state)
{
    test_folder *folder = *state;
    bool same = false;
    model m = model_make(POINTS / 2, 5);
    char path[300];
    (void)snprintf(path, sizeof path, "%s", test_path(folder, "graph.kith"));
    kith_index *index = make_own(&m, KITH_SQEUCLIDEAN, KITH_METHOD_GRAPH, 0.99);
    kith_index *opened = NULL;
    add_some(&m, index, 30);
    test_works(m.ctx, kith_index_save(m.ctx, index, path));
    test_works(m.ctx, kith_index_open(m.ctx, path, &opened));
    const double there = recall_of(&m, index, KITH_SQEUCLIDEAN, &same);
    const double back = recall_of(&m, opened, KITH_SQEUCLIDEAN, &same);
    assert_true(there == back && there >= 0.95);
    assert_int_equal(test_index_info(opened).method, KITH_METHOD_GRAPH);
    assert_int_equal(test_index_info(opened).metric, KITH_SQEUCLIDEAN);
    add_some(&m, opened, 20); /* leaves the file */
    remove_some(&m, opened, 20);
    assert_true(recall_of(&m, opened, KITH_SQEUCLIDEAN, &same) >= 0.95);
    kith_file_info info = {.struct_size = sizeof info};
    test_works(m.ctx, kith_file_inspect(m.ctx, path, NULL, &info));
    assert_int_equal(info.kind, KITH_KIND_GRAPH_INDEX);
    assert_int_equal(info.cols, COLS);
    kith_index_free(opened);
    kith_index_free(index);
    model_free(&m);
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static void mistakes_are_named(void **state)
{
    (void)state;
    model m = model_make(50, 9);
    const kith_matrix queries = test_part_of(&m.all, 0, QUERIES);
    kith_neighbors out = test_answer_make(QUERIES, K);
    kith_search_params params = kith_search_params_default();
    kith_radius_params radius = kith_radius_params_default();
    kith_ranges *ranges = NULL;
    kith_index *index = make_own(&m, KITH_EUCLIDEAN, KITH_METHOD_GRAPH, 0.9);
    params.k = K;
    params.flags = KITH_WITHIN_RADIUS;
    test_fails(m.ctx, kith_index_search(m.ctx, index, &queries, &params, &out, NULL),
               KITH_E_UNSUPPORTED, "flags is not 0");
    params.flags = 0;
    params.method = KITH_METHOD_TREE;
    test_fails(m.ctx, kith_index_search(m.ctx, index, &queries, &params, &out, NULL),
               KITH_E_UNSUPPORTED, "method is tree, and the index is one by graph");
    test_fails(m.ctx, kith_index_radius(m.ctx, index, &queries, &radius, &ranges),
               KITH_E_UNSUPPORTED, "an index by graph has no radius");
    kith_matrix other = queries;
    other.dtype = KITH_F64;
    other.cols = COLS / 2;
    test_fails(m.ctx, kith_index_add(m.ctx, index, &other), KITH_E_ARGUMENT, "12 columns");
    const uint32_t none[] = {50};
    test_fails(m.ctx, kith_index_remove(m.ctx, index, none, 1), KITH_E_ARGUMENT,
               "ids[0] is 50, must be below 50");
    test_fails(m.ctx, kith_index_remove(m.ctx, index, NULL, 2), KITH_E_ARGUMENT, "ids NULL");
    kith_index_info info = {.struct_size = 0};
    assert_int_equal(kith_index_inspect(index, &info), KITH_E_ARGUMENT);
    assert_int_equal(kith_index_inspect(NULL, &info), KITH_E_ARGUMENT);
    kith_index_free(index);
    test_answer_free(&out);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_ones_are_as_new),
        cmocka_unit_test(graphs_keep_their_recall),
        cmocka_unit_test(graphs_of_few_rows_change),
        cmocka_unit_test_setup_teardown(graphs_survive_the_file, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
