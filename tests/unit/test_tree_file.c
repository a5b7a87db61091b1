/* SPDX-License-Identifier: Apache-2.0
 * Corpora with a tree: the exact engine's bytes when they are fresh, from a file, on every
 * instruction set, and after rows have come and gone; what is refused. Damaged files are
 * test_tree_lies.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_compare.h"
#include "support/support_files.h"
#include "support/support_gpu.h"
#include "support/support_keys.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const kith_metric METRICS[] = {KITH_EUCLIDEAN, KITH_SQEUCLIDEAN, KITH_MANHATTAN,
                                      KITH_CHEBYSHEV};
enum { METRIC_COUNT = sizeof METRICS / sizeof METRICS[0], QUERIES = 60, K = 7 };

/* ---- Rows that a corpus should have --------------------------------------------------------- */

typedef struct model {
    kith_matrix matrix;
    unsigned char *rows;
} model;

static model model_of(const kith_matrix *m)
{
    model own = {.matrix = *m};
    own.matrix.stride_bytes = (int64_t)m->cols * kith_dtype_bytes(m->dtype);
    own.rows = malloc((size_t)(m->rows * own.matrix.stride_bytes));
    assert_non_null(own.rows);
    for (int64_t i = 0; i < m->rows; i++) {
        memcpy(own.rows + i * own.matrix.stride_bytes,
               (const unsigned char *)m->data + i * m->stride_bytes,
               (size_t)own.matrix.stride_bytes);
    }
    own.matrix.data = own.rows;
    return own;
}

static void model_add(model *own, const kith_matrix *more)
{
    model tail = model_of(more);
    const int64_t stride = own->matrix.stride_bytes;
    own->rows = realloc(own->rows, (size_t)((own->matrix.rows + more->rows) * stride));
    assert_non_null(own->rows);
    memcpy(own->rows + own->matrix.rows * stride, tail.rows, (size_t)(more->rows * stride));
    own->matrix.data = own->rows;
    own->matrix.rows += more->rows;
    free(tail.rows);
}

static void model_remove(model *own, const uint32_t *ids, int64_t count)
{
    const int64_t stride = own->matrix.stride_bytes;
    int64_t kept = 0;
    for (int64_t i = 0; i < own->matrix.rows; i++) {
        bool gone = false;
        for (int64_t j = 0; j < count; j++) {
            gone = gone || (int64_t)ids[j] == i;
        }
        if (!gone) {
            memmove(own->rows + kept++ * stride, own->rows + i * stride, (size_t)stride);
        }
    }
    own->matrix.rows = kept;
}

/* ---- Answers -------------------------------------------------------------------------------- */

static kith_index *make_tree(kith_ctx *ctx, const kith_matrix *points, kith_metric metric,
                             int32_t height)
{
    kith_index *corpus = NULL;
    kith_index_params params = kith_index_params_default();
    params.metric = metric;
    params.method = KITH_METHOD_TREE;
    params.tree_height = height;
    test_works(ctx, kith_index_create(ctx, points, &params, &corpus));
    return corpus;
}

/* The corpus' answers are those of the exact engine for these points; what it holds was planned. */
static void check(kith_ctx *ctx, const kith_index *corpus, const kith_matrix *points,
                  const kith_matrix *queries, const char *what)
{
    kith_search_params params = kith_search_params_default();
    params.k = K < points->rows ? K : points->rows;
    kith_neighbors got = test_answer_make(queries->rows, params.k);
    kith_neighbors wanted = test_answer_make(queries->rows, params.k);
    kith_report report = {.struct_size = sizeof report};
    kith_plan plan = {.struct_size = sizeof plan};
    assert_int_equal(test_index_info(corpus).points.rows, points->rows);
    test_works(ctx, kith_index_plan(ctx, corpus, queries, &params, &plan));
    assert_string_equal(plan.method, "tree");
    const uint64_t held = test_index_info(corpus).bytes;
    test_works(ctx, kith_index_search(ctx, corpus, queries, &params, &got, NULL));
    assert_int_equal(test_index_info(corpus).bytes, held);
    test_works(ctx, kith_ctx_report(ctx, &report));
    assert_string_equal(report.screen, "tree");
    assert_string_equal(report.backend, "cpu");
    params.metric = test_index_info(corpus).metric;
    params.method = KITH_METHOD_EXACT;
    test_works(ctx, kith_search(ctx, points, queries, &params, &wanted, NULL));
    assert_false(test_answers_differ(what, &wanted, &got));
    test_answer_free(&wanted);
    test_answer_free(&got);
}

/* ---- Files ---------------------------------------------------------------------------------- */

static bool same_files(const char *a, const char *b)
{
    size_t sizes[2];
    unsigned char *files[2] = {test_read(a, &sizes[0]), test_read(b, &sizes[1])};
    const bool same = sizes[0] == sizes[1] && memcmp(files[0], files[1], sizes[0]) == 0;
    free(files[0]);
    free(files[1]);
    return same;
}

static void round_trip(test_folder *folder, kith_metric metric, kith_dtype dtype, test_shape shape,
                       int64_t rows, int32_t cols)
{
    uint64_t seed = (uint64_t)(rows * 31 + cols);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    test_rows points = test_rows_make(dtype, rows, cols, 12);
    test_rows asked = test_rows_make(dtype, QUERIES, cols, 0);
    test_shape_fill(&points, shape, false, &seed);
    test_shape_fill(&asked, shape, false, &seed);
    kith_index *corpus = make_tree(ctx, &points.matrix, metric, 0);
    check(ctx, corpus, &points.matrix, &asked.matrix, "fresh");
    const char *path = test_path(folder, "tree.kith");
    test_works(ctx, kith_index_save(ctx, corpus, path));
    kith_index_free(corpus);
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        if (!kin_cpu_has((kin_isa)isa)) {
            continue;
        }
        kith_ctx *other = test_ctx((kin_isa)isa, 1 + isa % 3);
        test_works(other, kith_index_open(other, path, &corpus));
        assert_int_equal(test_index_info(corpus).metric, metric);
        check(other, corpus, &points.matrix, &asked.matrix, "opened");
        check(ctx, corpus, &points.matrix, &asked.matrix, "searched by another context");
        const char *second = test_path(folder, "again.kith");
        test_works(other, kith_index_save(other, corpus, second));
        assert_true(same_files(path, second));
        kith_index_free(corpus);
        corpus = make_tree(other, &points.matrix, metric, 0);
        test_works(other, kith_index_save(other, corpus, second));
        assert_true(same_files(path, second)); /* built by this one: the same tree */
        kith_index_free(corpus);
        kith_ctx_free(other);
    }
    test_rows_free(&asked);
    test_rows_free(&points);
    kith_ctx_free(ctx);
}

static void answers_survive_the_file(void **state)
{
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_U8, KITH_F16};
    test_folder *folder = *state;
    int count = 0;
    for (int shape = 0; shape < SHAPE_COUNT; shape += test_is_slow_build() ? 4 : 1) {
        const kith_metric metric = METRICS[shape % METRIC_COUNT];
        const kith_dtype dtype = dtypes[shape % 4];
        round_trip(folder, metric, dtype, (test_shape)shape, 700, 1 + shape);
        round_trip(folder, metric, KITH_F64, (test_shape)shape, 1 + shape, 3);
        count += 2;
    }
    round_trip(folder, KITH_EUCLIDEAN, KITH_F32, SHAPE_GAUSS, 20000, 4);
    printf("%d trees: the same file and the exact engine's bytes, whoever made, opened or searched "
           "them\n",
           count + 1);
}

static void a_file_says_what_it_is(void **state)
{
    test_folder *folder = *state;
    uint64_t seed = 5;
    test_rows points = test_rows_make(KITH_F32, 1000, 3, 0);
    test_shape_fill(&points, SHAPE_COPIES, false, &seed);
    const char *path = test_path(folder, "tree.kith");
    int heights = 0;
    for (int32_t height = 0; height <= 5; height++, heights++) {
        kith_file_info info = {.struct_size = sizeof info};
        kith_index *corpus = make_tree(folder->ctx, &points.matrix, KITH_MANHATTAN, height);
        check(folder->ctx, corpus, &points.matrix, &points.matrix, "its own points");
        test_works(folder->ctx, kith_index_save(folder->ctx, corpus, path));
        kith_index_free(corpus);
        test_works(folder->ctx, kith_file_inspect(folder->ctx, path, NULL, &info));
        assert_int_equal(info.kind, KITH_KIND_TREE_INDEX);
        assert_int_equal(info.metric, KITH_MANHATTAN);
        assert_true(info.rows == 1000 && info.cols == 3 && info.dtype == KITH_F32);
        assert_true(height == 0 || info.tree_height == height);
        assert_true(info.tree_rows > 300 && info.tree_rows < 1000);
        assert_true(info.tree_slack >= 0 && info.tree_slack < 16);
        kith_points *read = NULL;
        test_works(folder->ctx, kith_points_open(folder->ctx, path, NULL, &read));
        assert_true(kith_points_matrix(read)->rows == 1000 && kith_points_get_source(read)->mapped);
        kith_points_free(read);
    }
    test_rows_free(&points);
    printf("trees of %d heights: a file tells its height and slack, and is a file of points\n",
           heights);
}

/* ---- Changes -------------------------------------------------------------------------------- */

static kith_index *through_file(test_folder *folder, kith_ctx *ctx, kith_index *corpus)
{
    const char *path = test_path(folder, "changed.kith");
    test_works(ctx, kith_index_save(ctx, corpus, path));
    kith_index_free(corpus);
    corpus = NULL;
    test_works(ctx, kith_index_open(ctx, path, &corpus));
    return corpus;
}

static void change(test_folder *folder, kith_metric metric, kith_dtype dtype, test_shape shape,
                   int32_t cols, int steps)
{
    uint64_t seed = (uint64_t)shape * 7 + 1;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    test_rows points = test_rows_make(dtype, 300, cols, 4);
    test_rows asked = test_rows_make(dtype, QUERIES, cols, 0);
    test_shape_fill(&points, shape, false, &seed);
    test_shape_fill(&asked, shape, false, &seed);
    model rows = model_of(&points.matrix);
    kith_index *corpus = make_tree(ctx, &points.matrix, metric, 0);
    for (int step = 0; step < steps; step++) {
        if (step % 3 != 2) {
            const int64_t count = 1 + (int64_t)(test_uniform(&seed) * (step % 4 == 0 ? 400 : 30));
            test_rows more = test_rows_make(dtype, count, cols, 8);
            test_shape_fill(&more, step % 5 == 4 ? SHAPE_LINE : shape, false, &seed);
            test_works(ctx, kith_index_add(ctx, corpus, &more.matrix));
            model_add(&rows, &more.matrix);
            test_rows_free(&more);
        } else {
            uint32_t ids[200];
            const int64_t count = (int64_t)(test_uniform(&seed) * 200);
            for (int64_t i = 0; i < count; i++) {
                ids[i] = (uint32_t)(test_uniform(&seed) * (double)rows.matrix.rows);
            }
            test_works(ctx, kith_index_remove(ctx, corpus, ids, count));
            model_remove(&rows, ids, count);
        }
        const kith_index_info now_info = test_index_info(corpus);
        const kith_matrix *now = &now_info.points;
        assert_int_equal(now->rows, rows.matrix.rows);
        assert_memory_equal(now->data, rows.rows, (size_t)(now->rows * rows.matrix.stride_bytes));
        check(ctx, corpus, &rows.matrix, &asked.matrix, "changed");
        if (step % 2 == 1) {
            corpus = through_file(folder, ctx, corpus);
            check(ctx, corpus, &rows.matrix, &asked.matrix, "changed and opened");
        }
    }
    kith_index_free(corpus);
    free(rows.rows);
    test_rows_free(&asked);
    test_rows_free(&points);
    kith_ctx_free(ctx);
}

static void rows_come_and_go(void **state)
{
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_I8};
    test_folder *folder = *state;
    const int steps = test_is_slow_build() ? 5 : 12;
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        change(folder, METRICS[shape % METRIC_COUNT], dtypes[shape % 3], (test_shape)shape,
               2 + shape % 6, steps);
    }
    printf("%d trees changed %d times each, every second time in a file: a fresh search's bytes\n",
           (int)SHAPE_COUNT, steps);
}

/* A corpus that was changed holds about what a fresh one of its rows does, points apart. */
static void check_bytes(kith_ctx *ctx, const kith_index *corpus, const kith_matrix *rows)
{
    kith_index *fresh = make_tree(ctx, rows, test_index_info(corpus).metric, 0);
    const uint64_t wanted = test_index_info(fresh).bytes;
    const uint64_t held = test_index_info(corpus).bytes;
    assert_in_range(held, wanted / 4 * 3, wanted / 4 * 5);
    kith_index_free(fresh);
}

/* All but one go, and more come than ever were. */
static void down_to_one_and_up(void **state)
{
    test_folder *folder = *state;
    uint64_t seed = 9;
    test_rows points = test_rows_make(KITH_F32, 500, 4, 0);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    model rows = model_of(&points.matrix);
    kith_index *corpus = make_tree(folder->ctx, &points.matrix, KITH_EUCLIDEAN, 0);
    uint32_t ids[499];
    for (uint32_t i = 0; i < 499; i++) {
        ids[i] = 499 - i;
    }
    test_works(folder->ctx, kith_index_remove(folder->ctx, corpus, ids, 499));
    model_remove(&rows, ids, 499);
    check(folder->ctx, corpus, &rows.matrix, &points.matrix, "one row");
    corpus = through_file(folder, folder->ctx, corpus);
    check(folder->ctx, corpus, &rows.matrix, &points.matrix, "one row of a file");
    for (int i = 0; i < 3; i++) {
        test_works(folder->ctx, kith_index_add(folder->ctx, corpus, &points.matrix));
        model_add(&rows, &points.matrix);
        check(folder->ctx, corpus, &rows.matrix, &points.matrix, "up again");
        check_bytes(folder->ctx, corpus, &rows.matrix);
    }
    assert_int_equal(rows.matrix.rows, 1501);
    kith_index_free(corpus);
    free(rows.rows);
    test_rows_free(&points);
    printf("down to one row, and up to 1501 of which most are equal; bytes as of a fresh tree\n");
}

/* ---- What is refused ------------------------------------------------------------------------ */

static test_rows hundred_rows(void)
{
    uint64_t seed = 4;
    test_rows points = test_rows_make(KITH_F32, 100, 3, 0);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    return points;
}

static void making_is_refused(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = folder->ctx;
    test_rows points = hundred_rows();
    const kith_matrix *m = &points.matrix;
    kith_index_params made = kith_index_params_default();
    kith_index *corpus = NULL;
    made.method = KITH_METHOD_TREE;
    test_fails(ctx, kith_index_create(ctx, m, NULL, &corpus), KITH_E_ARGUMENT, "params is NULL");
    made.tree_height = 3;
    test_fails(ctx, kith_index_create(ctx, m, &made, &corpus), KITH_E_ARGUMENT,
               "tree_height is 3, must be 0 to 2 for 100 rows");
    made.tree_height = -1;
    test_fails(ctx, kith_index_create(ctx, m, &made, &corpus), KITH_E_ARGUMENT, "is -1");
    made.tree_height = 1;
    made.method = KITH_METHOD_EXACT;
    test_fails(ctx, kith_index_create(ctx, m, &made, &corpus), KITH_E_ARGUMENT, "is 1 and the");
    made.method = (kith_method)7;
    test_fails(ctx, kith_index_create(ctx, m, &made, &corpus), KITH_E_ARGUMENT, "no method");
    made.method = KITH_METHOD_TREE;
    made.metric = KITH_COSINE;
    test_fails(ctx, kith_index_create(ctx, m, &made, &corpus), KITH_E_ARGUMENT, "cosine");
    assert_null(corpus);
    test_rows_free(&points);
    printf("trees that cannot be made are refused with a reason\n");
}

static void searches_are_refused(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = folder->ctx;
    test_rows points = hundred_rows();
    const kith_matrix *m = &points.matrix;
    kith_neighbors out = test_answer_make(100, 2);
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = sizeof plan};
    kith_index *corpus = make_tree(ctx, m, KITH_EUCLIDEAN, 1);
    params.k = 2;
    params.method = KITH_METHOD_EXACT;
    test_fails(ctx, kith_index_search(ctx, corpus, m, &params, &out, NULL), KITH_E_UNSUPPORTED,
               "exact");
    params.method = KITH_METHOD_AUTO;
    params.tree_height = 1;
    test_fails(ctx, kith_index_search(ctx, corpus, m, &params, &out, NULL), KITH_E_ARGUMENT,
               "already");
    test_fails(ctx, kith_index_plan(ctx, corpus, m, &params, &plan), KITH_E_ARGUMENT, "already");
    params.tree_height = 0;
    params.pipeline = KITH_PIPELINE_MATRIX;
    test_fails(ctx, kith_index_search(ctx, corpus, m, &params, &out, NULL), KITH_E_ARGUMENT,
               "the pipeline matrix is another way");
    params.pipeline = KITH_PIPELINE_FUSED;
    params.metric = KITH_MANHATTAN;
    test_fails(ctx, kith_index_search(ctx, corpus, m, &params, &out, NULL), KITH_E_ARGUMENT,
               "manhattan");
    check(ctx, corpus, m, m, "after all that was refused");
    kith_index_free(corpus);
    test_answer_free(&out);
    test_rows_free(&points);
    printf("what a tree cannot search is refused with a reason\n");
}

static void changes_are_refused(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = folder->ctx;
    test_rows points = hundred_rows();
    test_rows wide = test_rows_make(KITH_F32, 100, 4, 0);
    test_rows doubles = test_rows_make(KITH_F64, 2, 3, 0);
    uint32_t all[100];
    const kith_matrix *m = &points.matrix;
    kith_index *corpus = make_tree(ctx, m, KITH_EUCLIDEAN, 1);
    for (uint32_t i = 0; i < 100; i++) {
        all[i] = i;
    }
    test_fails(ctx, kith_index_add(ctx, corpus, &wide.matrix), KITH_E_ARGUMENT, "4");
    test_fails(ctx, kith_index_add(ctx, corpus, &doubles.matrix), KITH_E_ARGUMENT, "float64");
    test_rows_set(&wide, 0, 0, NAN);
    const kith_matrix with_nan = {wide.matrix.data, 5, 0, 3, KITH_F32};
    test_fails(ctx, kith_index_add(ctx, corpus, &with_nan), KITH_E_DATA, "points[0, 0]");
    test_fails(ctx, kith_index_add(ctx, corpus, NULL), KITH_E_ARGUMENT, "points is NULL");
    test_fails(ctx, kith_index_remove(ctx, corpus, (uint32_t[]){5, 100}, 2), KITH_E_ARGUMENT,
               "ids[1] is 100, must be below 100");
    test_fails(ctx, kith_index_remove(ctx, corpus, NULL, 2), KITH_E_ARGUMENT, "ids NULL");
    test_fails(ctx, kith_index_remove(ctx, corpus, all, 100), KITH_E_ARGUMENT, "all 100 rows");
    kith_ctx *other = test_ctx(KIN_ISA_PORTABLE, 1);
    test_fails(other, kith_index_remove(other, corpus, (uint32_t[]){100}, 1), KITH_E_ARGUMENT,
               "ids[0] is 100, must be below 100"); /* told to whoever asks */
    test_fails(other, kith_index_add(other, NULL, m), KITH_E_ARGUMENT, "index is NULL");
    kith_ctx_free(other);
    test_works(ctx, kith_index_remove(ctx, corpus, NULL, 0));
    check(ctx, corpus, m, m, "after all that was refused");
    kith_index_free(corpus);
    test_rows_free(&doubles);
    test_rows_free(&wide);
    test_rows_free(&points);
    printf(
        "what cannot be added or removed is refused with a reason, and leaves a tree as it was\n");
}

static void corpora_without_a_tree(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = folder->ctx;
    test_rows points = hundred_rows();
    const kith_matrix *m = &points.matrix;
    kith_neighbors out = test_answer_make(100, 2);
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = sizeof plan};
    kith_index *corpus = NULL;
    params.k = 2;
    params.pipeline = KITH_PIPELINE_FUSED;
    test_works(ctx, test_index_create(ctx, m, KITH_EUCLIDEAN, &corpus));
    test_fails(ctx, kith_index_plan(ctx, corpus, m, &params, &plan), KITH_E_UNSUPPORTED,
               "only that by tree has a plan");
    params.method = KITH_METHOD_TREE;
    test_fails(ctx, kith_index_search(ctx, corpus, m, &params, &out, NULL), KITH_E_UNSUPPORTED,
               "tree");
    kith_index_free(corpus);
    test_answer_free(&out);
    test_rows_free(&points);
    printf("an index without a tree has no plan, and is not asked by one\n");
}

static void named_gpus_are_refused(void **state)
{
    (void)state;
    kith_ctx_params params = kith_ctx_params_default();
    kith_index_params made = kith_index_params_default();
    kith_ctx *ctx = NULL;
    kith_index *corpus = NULL;
    const float values[4] = {1, 2, 3, 4};
    const kith_matrix points = {values, 4, 0, 1, KITH_F32};
    params.device = "cuda";
    made.method = KITH_METHOD_TREE;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    test_fails(ctx, kith_index_create(ctx, &points, &made, &corpus), KITH_E_UNSUPPORTED,
               "no GPU can be used");
    kith_ctx *cpu = test_cpu_ctx();
    kith_search_params asked = kith_search_params_default();
    kith_neighbors out = test_answer_make(points.rows, 1);
    asked.k = 1;
    test_works(cpu, kith_index_create(cpu, &points, &made, &corpus));
    test_fails(ctx, kith_index_search(ctx, corpus, &points, &asked, &out, NULL), KITH_E_UNSUPPORTED,
               "is the processor's");
    test_answer_free(&out);
    kith_index_free(corpus);
    kith_ctx_free(cpu);
    kith_ctx_free(ctx);
    printf("a GPU that was named is missed, and does not search the processor's tree\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {TEST(answers_survive_the_file),
                                       TEST(a_file_says_what_it_is),
                                       TEST(rows_come_and_go),
                                       TEST(down_to_one_and_up),
                                       TEST(making_is_refused),
                                       TEST(searches_are_refused),
                                       TEST(changes_are_refused),
                                       TEST(corpora_without_a_tree),
                                       cmocka_unit_test(named_gpus_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
