/* SPDX-License-Identifier: Apache-2.0
 * The pipeline buffer_tree on a GPU against the processor's exact engine, byte for byte: data,
 * columns, types, k, heights and buffers, more queries than a batch, ties, device arrays, budgets
 * that cut queries and points, many runs. What a GPU has no buffers for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_cuda.h"
#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_engines.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"
#include "support/support_trees.h"

#include <stdio.h>
#include <string.h>

/* Height and buffer; 0: the library's. */
static const int32_t ways[][2] = {{0, 0}, {0, 2}, {1, 3}, {3, 7}, {5, 16}, {2, 1 << 22}, {6, 64}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static test_trees trees_make(void)
{
    test_trees t = test_trees_make(0);
    t.pipeline = KITH_PIPELINE_BUFFER_TREE;
    return t;
}

static void go(test_trees *t, size_t way)
{
    t->tree_height = ways[way % WAYS][0];
    t->leaf_buffer = ways[way % WAYS][1];
}

/* ---- The same bytes -------------------------------------------------------------------------- */

static void shapes(void **state)
{
    (void)state;
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_U8, KITH_BF16, KITH_I8};
    test_trees t = trees_make();
    for (int shape = 0; shape < SHAPE_COUNT; shape += test_is_slow_build() ? 2 : 1) {
        for (int m = 0; m < TEST_TREE_METRICS; m++) {
            const kith_dtype dtype = dtypes[(shape + m) % 6];
            const int32_t cols = 1 + (shape * 5 + m * 3) % 32;
            test_rows points =
                test_trees_rows(dtype, 1201, cols, (test_shape)shape, 7 + (uint64_t)shape);
            test_rows queries =
                test_trees_rows(dtype, 161, cols, (test_shape)shape, 70 + (uint64_t)shape);
            go(&t, (size_t)(shape + m));
            test_trees_four(&t, &points, &queries, test_tree_metrics[m], 10,
                            test_shape_name((test_shape)shape));
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    test_trees_end(&t, "every shape of data and metric, heights and buffers in turn");
    test_trees_free(&t);
}

static void columns(void **state)
{
    (void)state;
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_U8, KITH_F16};
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_CLUSTERS, SHAPE_COPIES, SHAPE_TIGHT};
    const int64_t rows = test_is_slow_build() ? 900 : 4000;
    test_trees t = trees_make();
    for (int32_t cols = 1; cols <= 32; cols += test_is_slow_build() ? 7 : 1) {
        for (size_t d = 0; d < 4; d++) {
            const size_t at = (size_t)cols + d;
            const test_shape shape = data[at % 4];
            test_rows points = test_trees_rows(dtypes[d], rows, cols, shape, 21 + at);
            test_rows queries = test_trees_rows(dtypes[d], 700, cols, shape, 121 + at);
            go(&t, at);
            test_trees_four(&t, &points, &queries, test_tree_metrics[d], cols % 2 == 0 ? 10 : 70,
                            test_shape_name(shape));
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    test_trees_end(&t, "1 to 32 columns, four types and metrics, short and long lists");
    test_trees_free(&t);
}

static void every_k(void **state)
{
    (void)state;
    static const int64_t ks[] = {1, 2, 24, 31, 32, 52, 53, 54, 55, 56, 57, 64, 300, 1023, 1024};
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_GRID, SHAPE_EQUAL};
    test_trees t = trees_make();
    size_t way = 0;
    for (size_t s = 0; s < sizeof data / sizeof *data; s++) {
        test_rows points = test_trees_rows(s == 1 ? KITH_U8 : KITH_F32, 1500, 9, data[s], 8);
        test_rows queries = test_trees_rows(KITH_F32, 90, 9, data[s], 9);
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i += test_is_slow_build() ? 3 : 1) {
            go(&t, way++);
            test_trees_four(&t, &points, &queries, test_tree_metrics[i % TEST_TREE_METRICS], ks[i],
                            test_shape_name(data[s]));
        }
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    test_trees_end(&t, "k from 1 to 1,024");
    test_trees_free(&t);
}

static void sizes(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 15, 16, 17, 31, 32, 33, 49, 97, 400};
    test_trees t = trees_make();
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        test_rows points = test_trees_rows(KITH_F32, rows[n], 1 + (int32_t)n, SHAPE_COPIES, 5);
        test_rows queries = test_trees_rows(KITH_F64, 17, 1 + (int32_t)n, SHAPE_GAUSS, 6);
        go(&t, n);
        test_trees_four(&t, &points, &queries, test_tree_metrics[n % 4], rows[n], "all of them");
        test_trees_four(&t, &points, &queries, test_tree_metrics[n % 3], 3, "three");
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    test_trees_end(&t, "1 to 400 rows, k up to all");
    test_trees_free(&t);
}

/* ---- Heights, batches ------------------------------------------------------------------------ */

/* Buffers that are never full, and some that always are. */
static void heights(void **state)
{
    (void)state;
    static const int32_t buffers[] = {0, 200, 5000, 1 << 22};
    const int64_t rows = test_is_slow_build() ? 3000 : 70000;
    test_trees t = trees_make();
    test_rows points = test_trees_rows(KITH_F32, rows, 4, SHAPE_CLUSTERS, 31);
    test_rows queries = test_trees_rows(KITH_F32, rows / 3, 4, SHAPE_CLUSTERS, 32);
    for (t.tree_height = 1; t.tree_height <= 12; t.tree_height++) {
        test_job job = {.name = "clusters",
                        .points = &points.matrix,
                        .queries = &queries.matrix,
                        .metric = test_tree_metrics[t.tree_height % TEST_TREE_METRICS],
                        .k = t.tree_height % 3 == 0 ? 80 : 10};
        t.leaf_buffer = buffers[t.tree_height % 4];
        test_trees_compare(&t, job);
        job.queries = NULL;
        t.leaf_buffer = buffers[(t.tree_height + 1) % 4];
        test_trees_compare(&t, job);
    }
    test_trees_end(&t, "heights 1 to 12, small buffers and large");
    test_rows_free(&queries);
    test_rows_free(&points);
    test_trees_free(&t);
}

/* More queries than a batch that was not asked for, and than a warp each at the end. */
static void many(void **state)
{
    (void)state;
    const int64_t asked = test_is_slow_build() ? 4000 : 400000;
    const int64_t rows = test_is_slow_build() ? 2000 : 50000;
    test_trees t = trees_make();
    for (int i = 0; i < 3; i++) {
        const test_shape shape = i == 1 ? SHAPE_CLUSTERS : SHAPE_GAUSS;
        test_rows points = test_trees_rows(KITH_F32, rows, 3 + i, shape, 41);
        test_rows queries = test_trees_rows(KITH_F32, asked, 3 + i, shape, 42);
        const test_job job = {.name = test_shape_name(shape),
                              .points = &points.matrix,
                              .queries = &queries.matrix,
                              .metric = test_tree_metrics[i],
                              .k = 5};
        t.leaf_buffer = i == 2 ? 1000 : 0;
        test_trees_compare(&t, job);
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    test_trees_end(&t, "more queries than a batch");
    test_trees_free(&t);
}

/* More queries than buffers of the paper's size hold at a time. */
static void chunks(void **state)
{
    (void)state;
    enum { ASKED = (1 << 22) + 1000 };
    if (test_is_slow_build()) {
        skip();
    }
    test_trees t = trees_make();
    test_rows points = test_trees_rows(KITH_F32, 40, 1, SHAPE_GAUSS, 45);
    test_rows queries = test_trees_rows(KITH_F32, ASKED, 1, SHAPE_GAUSS, 46);
    const test_job job = {.name = "gauss",
                          .points = &points.matrix,
                          .queries = &queries.matrix,
                          .metric = KITH_EUCLIDEAN,
                          .k = 2};
    t.tree_height = 1;
    test_trees_compare(&t, job);
    test_trees_end(&t, "two chunks of queries");
    test_rows_free(&queries);
    test_rows_free(&points);
    test_trees_free(&t);
}

/* Lists that are too short, again and again. */
static void ties(void **state)
{
    (void)state;
    static const int64_t ks[] = {1, 8, 30, 60, 64, 200, 1024};
    test_trees t = trees_make();
    test_rows points = test_rows_make(KITH_U8, test_is_slow_build() ? 1500 : 24000, 3, 0);
    test_rows fine = test_rows_make(KITH_F64, test_is_slow_build() ? 1000 : 3000, 2, 0);
    uint64_t seed = 31;
    for (int64_t i = 0; i < points.matrix.rows; i++) {
        for (int32_t c = 0; c < 3; c++) {
            test_rows_set(&points, i, c, (double)(int)(29.0 * test_uniform(&seed)));
        }
    }
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        go(&t, i);
        test_trees_four(&t, &points, &points, test_tree_metrics[i % TEST_TREE_METRICS], ks[i],
                        "29^3 places");
    }
    /* All points but ten within the last bits of float32. */
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

/* ---- Device arrays, little memory ------------------------------------------------------------ */

static kith_search_params params_of(int64_t k)
{
    kith_search_params params = kith_search_params_default();
    params.k = k;
    params.pipeline = KITH_PIPELINE_BUFFER_TREE;
    return params;
}

static void device_arrays(void **state)
{
    (void)state;
    test_caller c = test_caller_open();
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    test_rows points = test_trees_rows(KITH_F32, 5000, 5, SHAPE_COPIES, 41);
    test_rows queries = test_trees_rows(KITH_F32, 900, 5, SHAPE_GAUSS, 42);
    const kith_search_params params = params_of(9);
    int wrong = 0;
    for (int search = 0; search < 2; search++) {
        const test_job job = {.name = "device arrays",
                              .points = &points.matrix,
                              .queries = search ? &queries.matrix : NULL,
                              .metric = KITH_EUCLIDEAN,
                              .k = 9};
        kith_neighbors wanted;
        assert_int_equal(test_trees_solve(cpu, &job, KITH_METHOD_EXACT, &wanted), KITH_OK);
        kith_matrix corpus = test_caller_copy(&c, &points.matrix);
        kith_matrix asked = test_caller_copy(&c, &queries.matrix);
        kith_neighbors out = test_caller_answer(&c, search ? 900 : 5000, 9);
        assert_int_equal(search ? kith_cuda_search(gpu, &corpus, &asked, &params, &out, c.handle)
                                : kith_cuda_graph(gpu, &corpus, &params, &out, NULL, c.handle),
                         KITH_OK);
        kith_neighbors got = test_caller_fetch(&c, &out);
        wrong += test_answers_differ(job.name, &wanted, &got);
        test_caller_release(&c, corpus.data);
        test_caller_release(&c, asked.data);
        test_answer_free(&got);
        test_answer_free(&wanted);
    }
    assert_int_equal(wrong, 0);
    printf("arrays in device memory: the bytes of the processor\n");
    test_rows_free(&queries);
    test_rows_free(&points);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    test_caller_close(&c);
}

typedef struct budgets {
    int worked;
    int lacking;
    int wrong;
    int64_t stripes;
} budgets;

static void with_budget(budgets *b, const test_job *job, const kith_neighbors *wanted,
                        uint64_t bytes)
{
    kith_ctx *ctx = test_gpu_ctx(2, bytes);
    kith_search_params params = params_of(job->k);
    kith_plan plan = {.struct_size = sizeof plan};
    kith_report report = {.struct_size = sizeof report};
    kith_neighbors got;
    assert_int_equal(kith_plan_search(ctx, job->points, job->queries, &params, &plan), KITH_OK);
    assert_string_equal(plan.method, "buffer_tree");
    const kith_status status = test_trees_solve(ctx, job, KITH_METHOD_AUTO, &got);
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    if (status == KITH_OK) {
        b->worked += 1;
        b->wrong += test_answers_differ(job->name, wanted, &got);
        b->stripes = plan.gpu_query_stripes > b->stripes ? plan.gpu_query_stripes : b->stripes;
        assert_true(report.gpu_peak_bytes <= bytes);
    } else {
        b->lacking += 1;
        assert_int_equal(status, KITH_E_DEVICE_MEMORY);
        assert_non_null(strstr(kith_ctx_detail(ctx), "pipeline asks for a tree"));
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
    kith_ctx *cpu = test_cpu_ctx();
    budgets b = {0};
    for (int i = 0; i < 4; i++) {
        const int64_t rows = test_is_slow_build() ? 2000 : 6000;
        test_rows points = test_trees_rows(KITH_F32, rows, 5, SHAPE_GAUSS, 51);
        test_rows queries = test_trees_rows(KITH_F32, rows * 3 / 2, 5, SHAPE_GAUSS, 52);
        test_job job = {.name = "gauss",
                        .points = &points.matrix,
                        .queries = i % 2 == 1 ? &queries.matrix : NULL,
                        .metric = KITH_EUCLIDEAN,
                        .k = i < 2 ? 10 : 300};
        kith_neighbors wanted;
        assert_int_equal(test_trees_solve(cpu, &job, KITH_METHOD_EXACT, &wanted), KITH_OK);
        job.pipeline = KITH_PIPELINE_BUFFER_TREE;
        for (uint64_t bytes = (uint64_t)64 << 20; bytes >= 256 << 10; bytes = bytes / 5 * 2) {
            with_budget(&b, &job, &wanted, bytes);
        }
        test_answer_free(&wanted);
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

/* ---- Again and again, reports, refusals ------------------------------------------------------ */

/* In which order a leaf's queries stand is left to chance. */
static void many_runs(void **state)
{
    (void)state;
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_GRID, SHAPE_TIGHT};
    const int times = test_is_slow_build() ? 2 : 10;
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    int differ = 0;
    for (int s = 0; s < 3; s++) {
        const int64_t rows = test_is_slow_build() ? 2000 : 40000;
        test_rows points = test_trees_rows(KITH_F32, rows, 6, data[s], 71);
        const test_job job = {.name = test_shape_name(data[s]),
                              .points = &points.matrix,
                              .metric = KITH_EUCLIDEAN,
                              .k = 15,
                              .pipeline = KITH_PIPELINE_BUFFER_TREE,
                              .leaf_buffer = 300};
        kith_neighbors first;
        kith_report report = {.struct_size = sizeof report};
        assert_int_equal(test_trees_solve(gpu, &job, KITH_METHOD_AUTO, &first), KITH_OK);
        assert_int_equal(kith_ctx_report(gpu, &report), KITH_OK);
        assert_true(report.seconds_select > 0.0 && report.seconds_screen > 0.0);
        assert_true(s > 0 || (report.skipped_share > 0.0 && report.skipped_share < 1.0));
        for (int i = 1; i < times; i++) {
            kith_neighbors again;
            assert_int_equal(test_trees_solve(gpu, &job, KITH_METHOD_AUTO, &again), KITH_OK);
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

static void refused(kith_ctx *gpu, const test_rows *points, int64_t k, const char *says)
{
    const test_job job = {.name = says,
                          .points = &points->matrix,
                          .metric = KITH_EUCLIDEAN,
                          .k = k,
                          .pipeline = KITH_PIPELINE_BUFFER_TREE};
    kith_neighbors got;
    assert_int_equal(test_trees_solve(gpu, &job, KITH_METHOD_AUTO, &got), KITH_E_UNSUPPORTED);
    if (strstr(kith_ctx_detail(gpu), says) == NULL) {
        fail_msg("%s: %s", says, kith_ctx_detail(gpu));
    }
    test_answer_free(&got);
}

static void refusals(void **state)
{
    (void)state;
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    test_rows wide = test_trees_rows(KITH_F32, 300, 33, SHAPE_GAUSS, 91);
    test_rows points = test_trees_rows(KITH_F32, 1200, 3, SHAPE_GAUSS, 92);
    refused(gpu, &wide, 3, "more than 32 columns");
    refused(gpu, &points, 1025, "k above 1024");
    kith_neighbors forth = test_answer_make(1200, 3);
    kith_neighbors back = test_answer_make(1200, 3);
    const kith_search_params params = params_of(3);
    assert_int_equal(kith_knn_both(gpu, &points.matrix, &points.matrix, &params, &forth, &back),
                     KITH_E_UNSUPPORTED);
    test_answer_free(&back);
    test_answer_free(&forth);
    test_rows_free(&points);
    test_rows_free(&wide);
    kith_ctx_free(gpu);
    printf("too many columns, too many neighbours, both directions: refused\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),        cmocka_unit_test(columns),
        cmocka_unit_test(every_k),       cmocka_unit_test(sizes),
        cmocka_unit_test(heights),       cmocka_unit_test(many),
        cmocka_unit_test(chunks),        cmocka_unit_test(ties),
        cmocka_unit_test(device_arrays), cmocka_unit_test(little_memory),
        cmocka_unit_test(many_runs),     cmocka_unit_test(refusals),
    };
    if (test_gpu_is_absent()) {
        return TEST_SKIPPED;
    }
    test_engines_use_gpu();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
