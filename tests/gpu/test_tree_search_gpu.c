/* SPDX-License-Identifier: Apache-2.0
 * The tree on a GPU against the processor's exact engine, byte for byte: the processor's own suite
 * (cases_tree.c), columns up to all that a GPU has a tree of, larger sets, device arrays, budgets
 * that cut queries and points, many runs, what auto takes; real data in few columns with KITH_DATA.
 */
#include "kith/kith_cuda.h"
#include "support/cases.h"
#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_corpora.h"
#include "support/support_engines.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"
#include "support/support_trees.h"
#include "tree/tree_gpu.h"
#include "tree/tree_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Larger sets ----------------------------------------------------------------------------- */

static void columns(void **state)
{
    (void)state;
    static const int32_t widths[] = {1, 2, 3, 4, 5, 8, 9, 12, 16, 17, 24, 30, 32, 33, 47, 63, 64};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_U8, KITH_F16};
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_CLUSTERS, SHAPE_COPIES, SHAPE_TIGHT};
    const int64_t rows = test_is_slow_build() ? 2000 : 9000;
    test_trees t = test_trees_make(0);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        for (size_t d = 0; d < 4; d++) {
            const test_shape shape = data[(w + d) % 4];
            test_rows points = test_trees_rows(dtypes[d], rows, widths[w], shape, 21 + w);
            test_rows queries = test_trees_rows(dtypes[d], 700, widths[w], shape, 121 + w);
            test_trees_four(&t, &points, &queries, test_tree_metrics[(w + d) % TEST_TREE_METRICS],
                            10, test_shape_name(shape));
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    test_trees_end(&t, "1 to 64 columns, four types");
    test_trees_free(&t);
}

static void many(void **state)
{
    (void)state;
    static const struct {
        test_shape shape;
        int32_t cols;
        int64_t k;
    } sets[] = {{SHAPE_GAUSS, 3, 10},    {SHAPE_CLUSTERS, 5, 32}, {SHAPE_LINE, 4, 10},
                {SHAPE_OUTLIER, 3, 100}, {SHAPE_COPIES, 6, 17},   {SHAPE_GAUSS, 10, 1}};
    const int64_t rows = test_is_slow_build() ? 6000 : 60000;
    test_trees t = test_trees_make(0);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        test_rows points =
            test_trees_rows(i % 2 == 0 ? KITH_F32 : KITH_F64, rows, sets[i].cols, sets[i].shape, i);
        const test_job job = {.name = test_shape_name(sets[i].shape),
                              .points = &points.matrix,
                              .metric = test_tree_metrics[i % 2],
                              .k = sets[i].k};
        test_trees_compare(&t, job);
        test_rows_free(&points);
    }
    test_trees_end(&t, "graphs of many points");
    test_trees_free(&t);
}

/* Lists that are too short, again and again: whole numbers in few places, all neighbours tie. */
static void ties(void **state)
{
    (void)state;
    static const int64_t ks[] = {1, 8, 30, 60, 64, 200, 1024};
    test_trees t = test_trees_make(0);
    test_rows points = test_rows_make(KITH_U8, test_is_slow_build() ? 5000 : 24000, 3, 0);
    uint64_t seed = 31;
    for (int64_t i = 0; i < points.matrix.rows; i++) {
        for (int32_t c = 0; c < 3; c++) {
            test_rows_set(&points, i, c, (double)(int)(29.0 * test_uniform(&seed)));
        }
    }
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        test_trees_four(&t, &points, &points, test_tree_metrics[i % TEST_TREE_METRICS], ks[i],
                        "29^3 places");
    }
    /* Of 3,000 points 2,990 within the last bits of float32. */
    test_rows fine = test_rows_make(KITH_F64, 3000, 2, 0);
    for (int64_t i = 0; i < fine.matrix.rows; i++) {
        const double far = i < 10 ? 1e6 * (double)i : 0.0;
        test_rows_set(&fine, i, 0, far + 1e-9 * test_gauss(&seed));
        test_rows_set(&fine, i, 1, 1e-9 * test_gauss(&seed));
    }
    test_trees_four(&t, &fine, &fine, KITH_EUCLIDEAN, 12, "finer than float32");
    test_trees_end(&t, "ties and clusters that no list has room for");
    test_rows_free(&fine);
    test_rows_free(&points);
    test_trees_free(&t);
}

/* ---- Device arrays --------------------------------------------------------------------------- */

static int differs_on_device(const test_caller *c, kith_ctx *cpu, kith_ctx *gpu,
                             const test_job *job)
{
    const int64_t rows = job->queries != NULL ? job->queries->rows : job->points->rows;
    kith_search_params params = kith_search_params_default();
    params.metric = job->metric;
    params.k = job->k;
    params.method = KITH_METHOD_TREE;
    kith_neighbors wanted;
    assert_int_equal(test_trees_solve(cpu, job, KITH_METHOD_EXACT, &wanted), KITH_OK);
    kith_matrix points = test_caller_copy(c, job->points);
    kith_matrix queries = test_caller_copy(c, job->queries != NULL ? job->queries : job->points);
    kith_neighbors out = test_caller_answer(c, rows, job->k);
    const kith_status status =
        job->queries != NULL ? kith_cuda_search(gpu, &points, &queries, &params, &out, c->handle)
                             : kith_cuda_graph(gpu, &points, &params, &out, NULL, c->handle);
    if (status != KITH_OK) {
        printf("    %s: %s\n", job->name, kith_ctx_detail(gpu));
    }
    kith_neighbors got = test_caller_fetch(c, &out);
    const int wrong = status != KITH_OK || test_answers_differ(job->name, &wanted, &got);
    test_caller_release(c, points.data);
    test_caller_release(c, queries.data);
    test_answer_free(&got);
    test_answer_free(&wanted);
    return wrong;
}

static void device_arrays(void **state)
{
    (void)state;
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_COPIES, SHAPE_GRID};
    test_caller c = test_caller_open();
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    int wrong = 0;
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        for (int dtype = KITH_F32; dtype <= KITH_I8; dtype++) {
            test_rows points = test_trees_rows((kith_dtype)dtype, 5000, 5, data[i], 41);
            test_rows queries = test_trees_rows((kith_dtype)dtype, 300, 5, data[i], 42);
            test_job job = {.name = test_shape_name(data[i]),
                            .points = &points.matrix,
                            .metric = test_tree_metrics[(size_t)dtype % TEST_TREE_METRICS],
                            .k = 9};
            wrong += differs_on_device(&c, cpu, gpu, &job);
            job.queries = &queries.matrix;
            wrong += differs_on_device(&c, cpu, gpu, &job);
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    assert_int_equal(wrong, 0);
    printf("arrays in device memory, rows apart: the bytes of the processor\n");
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    test_caller_close(&c);
}

/* ---- Little memory --------------------------------------------------------------------------- */

typedef struct budgets {
    int worked;
    int lacking;
    int wrong;
    int64_t stripes; /* most that a plan spoke of where the job worked */
} budgets;

static kith_plan plan_of(kith_ctx *ctx, const test_job *job)
{
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = sizeof plan};
    params.metric = job->metric;
    params.k = job->k;
    params.method = KITH_METHOD_TREE;
    assert_int_equal(kith_plan_search(ctx, job->points, job->queries, &params, &plan), KITH_OK);
    assert_string_equal(plan.method, "tree");
    return plan;
}

static void with_budget(budgets *b, const test_job *job, const kith_neighbors *wanted,
                        uint64_t bytes)
{
    kith_ctx *ctx = test_gpu_ctx(2, bytes);
    kith_neighbors got;
    const kith_plan plan = plan_of(ctx, job);
    const kith_status status = test_trees_solve(ctx, job, KITH_METHOD_TREE, &got);
    kith_report report = {.struct_size = sizeof report};
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    if (status == KITH_OK) {
        b->worked += 1;
        b->wrong += test_answers_differ(job->name, wanted, &got);
        b->stripes = plan.gpu_query_stripes > b->stripes ? plan.gpu_query_stripes : b->stripes;
        assert_true(report.gpu_peak_bytes <= bytes);
    } else {
        assert_int_equal(status, KITH_E_DEVICE_MEMORY);
        assert_non_null(strstr(kith_ctx_detail(ctx), "compare all pairs"));
        b->lacking += 1;
        if (bytes >= plan.gpu_least_bytes) {
            fail_msg("%s: %llu bytes do not do, the plan says %llu", job->name,
                     (unsigned long long)bytes, (unsigned long long)plan.gpu_least_bytes);
        }
    }
    test_answer_free(&got);
    kith_ctx_free(ctx);
}

static void little_memory(void **state)
{
    (void)state;
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_COPIES, SHAPE_GRID};
    kith_ctx *cpu = test_cpu_ctx();
    budgets b = {0};
    for (int i = 0; i < 6; i++) {
        const int64_t k = i % 2 == 0 ? 10 : 300;
        test_rows points = test_trees_rows(KITH_F32, 6000, 5, data[i / 2], 51);
        test_rows queries = test_trees_rows(KITH_F32, 9000, 5, data[i / 2], 52);
        test_job job = {.name = test_shape_name(data[i / 2]),
                        .points = &points.matrix,
                        .metric = KITH_EUCLIDEAN,
                        .k = k};
        for (int search = 0; search < 2; search++) {
            kith_neighbors wanted;
            job.queries = search == 1 ? &queries.matrix : NULL;
            assert_int_equal(test_trees_solve(cpu, &job, KITH_METHOD_EXACT, &wanted), KITH_OK);
            for (uint64_t bytes = (uint64_t)64 << 20; bytes >= 256 << 10; bytes = bytes / 5 * 2) {
                with_budget(&b, &job, &wanted, bytes);
            }
            test_answer_free(&wanted);
        }
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    kith_ctx_free(cpu);
    printf("64 MiB to 256 KiB of device memory: %d jobs are the same bytes, in up to %lld stripes; "
           "%d say that their tree does not fit\n",
           b.worked, (long long)b.stripes, b.lacking);
    assert_int_equal(b.wrong, 0);
    assert_true(b.worked > 0 && b.lacking > 0 && b.stripes > 1);
}

/* ---- Again and again ------------------------------------------------------------------------- */

static void many_runs(void **state)
{
    (void)state;
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_GRID, SHAPE_TIGHT};
    const int times = test_is_slow_build() ? 2 : 20;
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    int differ = 0;
    for (int s = 0; s < 3; s++) {
        test_rows points = test_trees_rows(KITH_F32, 40000, 6, data[s], 71);
        const test_job job = {.name = test_shape_name(data[s]),
                              .points = &points.matrix,
                              .metric = KITH_EUCLIDEAN,
                              .k = 15};
        kith_neighbors first;
        assert_int_equal(test_trees_solve(gpu, &job, KITH_METHOD_TREE, &first), KITH_OK);
        for (int i = 1; i < times; i++) {
            kith_neighbors again;
            assert_int_equal(test_trees_solve(gpu, &job, KITH_METHOD_TREE, &again), KITH_OK);
            differ += test_answers_differ(job.name, &first, &again);
            test_answer_free(&again);
        }
        test_answer_free(&first);
        test_rows_free(&points);
    }
    kith_ctx_free(gpu);
    assert_int_equal(differ, 0);
    printf("%d runs of each of three graphs: the same bytes each time\n", times);
}

/* ---- What is taken, and what is not ---------------------------------------------------------- */

static void auto_takes(void **state)
{
    (void)state;
    static const struct {
        test_shape shape;
        int32_t cols;
        bool tree;
    } sets[] = {{SHAPE_GAUSS, 3, true}, {SHAPE_LINE, 20, true}, {SHAPE_GAUSS, 24, false}};
    enum { ROWS = 1000000, K = 10, ASKED = 200 };
    if (test_is_slow_build()) {
        printf("auto: skipped, of fewer rows a tree never pays, and all pairs are too many here\n");
        skip();
    }
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    int wrong = 0;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        test_rows points = test_trees_rows(KITH_F32, ROWS, sets[i].cols, sets[i].shape, 81);
        test_job job = {.name = test_shape_name(sets[i].shape),
                        .points = &points.matrix,
                        .metric = KITH_EUCLIDEAN,
                        .k = K};
        kith_neighbors got;
        kith_report report = {.struct_size = sizeof report};
        assert_int_equal(test_trees_solve(gpu, &job, KITH_METHOD_AUTO, &got), KITH_OK);
        assert_int_equal(kith_ctx_report(gpu, &report), KITH_OK);
        printf("  %s in %d columns: auto takes %s, %.3f s\n", job.name, (int)sets[i].cols,
               report.screen, report.seconds_total);
        wrong += (strcmp(report.screen, "tree") == 0) != sets[i].tree;
        /* Some of its rows, asked of the processor. */
        kith_matrix asked = points.matrix;
        kith_neighbors some = got;
        kith_neighbors wanted;
        uint32_t *own = malloc(ASKED * sizeof *own);
        assert_non_null(own);
        for (uint32_t q = 0; q < ASKED; q++) {
            own[q] = q;
        }
        asked.rows = ASKED;
        some.rows = ASKED;
        job.queries = &asked;
        job.exclude = own;
        assert_int_equal(test_trees_solve(cpu, &job, KITH_METHOD_EXACT, &wanted), KITH_OK);
        wrong += test_answers_differ(job.name, &wanted, &some);
        free(own);
        test_answer_free(&wanted);
        test_answer_free(&got);
        test_rows_free(&points);
    }
    assert_int_equal(wrong, 0);
    printf("auto: a tree where a sample says that it wins\n");
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
}

static void refusals(void **state)
{
    (void)state;
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    test_rows wide = test_trees_rows(KITH_F32, 300, KIN_TREE_GPU_MOST_COLS + 1, SHAPE_GAUSS, 91);
    test_rows many_rows = test_trees_rows(KITH_F32, KIN_TREE_GPU_MOST_K + 100, 3, SHAPE_GAUSS, 92);
    kith_neighbors got;
    test_job job = {.name = "wide", .points = &wide.matrix, .metric = KITH_EUCLIDEAN, .k = 3};
    assert_int_equal(test_trees_solve(gpu, &job, KITH_METHOD_TREE, &got), KITH_E_UNSUPPORTED);
    assert_non_null(strstr(kith_ctx_detail(gpu), "64 columns"));
    test_answer_free(&got);
    job = (test_job){.name = "many neighbours",
                     .points = &many_rows.matrix,
                     .metric = KITH_EUCLIDEAN,
                     .k = KIN_TREE_GPU_MOST_K + 1};
    assert_int_equal(test_trees_solve(gpu, &job, KITH_METHOD_TREE, &got), KITH_E_UNSUPPORTED);
    assert_non_null(strstr(kith_ctx_detail(gpu), "65536"));
    test_answer_free(&got);
    job.metric = KITH_COSINE;
    job.k = 3;
    assert_int_equal(test_trees_solve(gpu, &job, KITH_METHOD_TREE, &got), KITH_E_ARGUMENT);
    test_answer_free(&got);
    test_rows_free(&many_rows);
    test_rows_free(&wide);
    kith_ctx_free(gpu);
    printf("too many columns, too many neighbours, metrics without a tree: refused\n");
}

/* ---- Real data ------------------------------------------------------------------------------- */

static void real_file(const char *path, const char *name, void *arg)
{
    enum { MOST_REAL_COLS = 27, K = 10 };
    static const double CPU_PAIRS = 1e11; /* beyond, one metric of four does */
    test_trees *t = arg;
    kith_points *points = NULL;
    assert_int_equal(kith_points_open(t->wanted, path, NULL, &points), KITH_OK);
    const kith_matrix *m = kith_points_matrix(points);
    const int metrics = (double)m->rows * (double)m->rows > CPU_PAIRS ? 1 : TEST_TREE_METRICS;
    for (int i = 0; m->cols <= MOST_REAL_COLS && i < metrics; i++) {
        const test_job job = {.name = name, .points = m, .metric = test_tree_metrics[i], .k = K};
        kith_neighbors wanted;
        kith_neighbors got;
        kith_report report = {.struct_size = sizeof report};
        assert_int_equal(test_trees_solve(t->wanted, &job, KITH_METHOD_AUTO, &wanted), KITH_OK);
        assert_int_equal(test_trees_solve(t->ctx, &job, KITH_METHOD_TREE, &got), KITH_OK);
        assert_int_equal(kith_ctx_report(t->ctx, &report), KITH_OK);
        const bool wrong = test_answers_differ(name, &wanted, &got);
        t->cases += 1;
        t->wrong += wrong;
        printf("%s, %s, %lld x %d: %s; %.3f s, rerun %.4f, skipped %.5f, %.1f keys a row\n", name,
               kith_metric_name(job.metric), (long long)m->rows, (int)m->cols,
               wrong ? "DIFFERS" : "the same bytes", report.seconds_total, report.rerun_share,
               report.skipped_share, report.candidates);
        (void)fflush(stdout);
        test_answer_free(&got);
        test_answer_free(&wanted);
    }
    kith_points_free(points);
}

static void real_data(void **state)
{
    (void)state;
    test_need_corpora();
    test_trees t = test_trees_make(0);
    test_each_corpus(real_file, &t);
    test_trees_end(&t, "real data in few columns");
    test_trees_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns),       cmocka_unit_test(many),
        cmocka_unit_test(ties),          cmocka_unit_test(device_arrays),
        cmocka_unit_test(little_memory), cmocka_unit_test(many_runs),
        cmocka_unit_test(auto_takes),    cmocka_unit_test(refusals),
        cmocka_unit_test(real_data),
    };
    if (test_gpu_is_absent()) {
        return TEST_SKIPPED;
    }
    test_engines_use_gpu();
    const int failed = test_suite_run(&test_suite_tree);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
