/* SPDX-License-Identifier: Apache-2.0
 * Two graphs made one on a GPU: recall beside a descent of all points, in metrics that are screened
 * and others, with copies across the sets and lists of two lengths; the same bytes in two runs and
 * from device arrays; exact merges and removals have the bytes of exact graphs. KITH_TIMES=1: two
 * times 500,000 points of 128 columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_cuda.h"
#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_calls.h"
#include "support/support_gpu.h"
#include "support/support_mixture.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { K = 10, LONGER = 16 };

/* Points, and those of the first set. */
static int64_t all = 40000;
static int64_t first;

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static kith_matrix points_of(int64_t rows, int32_t cols, int64_t clusters, int nonnegative)
{
    const test_mixture mixture = {.dtype = KITH_F32,
                                  .rows = rows,
                                  .cols = cols,
                                  .inner = 10,
                                  .clusters = clusters,
                                  .spread = 0.5,
                                  .nonnegative = nonnegative,
                                  .seed = 41};
    return test_mixture_make(&mixture);
}

static kith_neighbors exact_of(kith_ctx *ctx, const kith_matrix *points, kith_metric metric,
                               int64_t k)
{
    kith_search_params params = kith_search_params_default();
    kith_neighbors graph = test_answer_make(points->rows, k);
    params.metric = metric;
    params.k = k;
    test_works(ctx, kith_graph(ctx, points, &params, &graph, NULL));
    return graph;
}

/* Without a sample where the report is not wanted. */
static kith_neighbors descent_of(kith_ctx *ctx, const kith_matrix *points, kith_metric metric,
                                 int64_t k)
{
    kith_descent_params params = kith_descent_params_default();
    kith_neighbors graph = test_answer_make(points->rows, k);
    params.metric = metric;
    params.k = k;
    params.sample = -1;
    test_works(ctx, test_descend(ctx, points, &params, &graph, NULL));
    return graph;
}

/* Recall of a merge less that of a descent of all. */
static double loss(kith_ctx *gpu, kith_ctx *cpu, const char *name, const kith_matrix *points,
                   kith_metric metric, kith_start start)
{
    const kith_matrix part[] = {test_part_of(points, 0, first),
                                test_part_of(points, first, points->rows - first)};
    kith_neighbors truth = exact_of(gpu, points, metric, K);
    kith_neighbors direct = descent_of(gpu, points, metric, K);
    kith_neighbors one = descent_of(gpu, &part[0], metric, LONGER);
    kith_neighbors two = descent_of(gpu, &part[1], metric, K);
    kith_neighbors out = test_answer_make(points->rows, K);
    kith_descent_params params = kith_descent_params_default();
    kith_descent_report report = {.struct_size = (uint32_t)sizeof report};
    params.metric = metric;
    params.k = K;
    params.start = start;
    test_works(gpu, test_merge_descending(gpu, &(kith_merge_sets){points, first, &one, &two},
                                          &params, &out, &report));
    test_graph_is_sound(cpu, name, points, metric, &out, 0);
    const double by_descent = test_graph_recall(metric, &direct, &truth, K);
    const double by_merge = test_graph_recall(metric, &out, &truth, K);
    printf("    %-12s %-13s direct %.4f, merged %.4f after %d rounds, told %.4f\n", name,
           kith_metric_name(metric), by_descent, by_merge, (int)report.rounds,
           report.recall.recall);
    test_answer_free(&out);
    test_answer_free(&two);
    test_answer_free(&one);
    test_answer_free(&direct);
    test_answer_free(&truth);
    return by_descent - by_merge;
}

static void little_is_lost(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_INNER_PRODUCT,
                                          KITH_MANHATTAN, KITH_CHI2};
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    kith_ctx *cpu = test_cpu_ctx();
    kith_matrix points = points_of(all, 32, 40, 1);
    int poor = 0;
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        poor += loss(gpu, cpu, "mixture", &points, metrics[i], KITH_START_AUTO) > 0.005;
    }
    (void)loss(gpu, cpu, "by chance", &points, KITH_EUCLIDEAN, KITH_START_RANDOM);
    for (int64_t row = 0; row < all; row += 17) {
        test_mixture_copy(&points, row, (row + all / 2) % all);
    }
    poor += loss(gpu, cpu, "copies", &points, KITH_EUCLIDEAN, KITH_START_AUTO) > 0.005;
    poor += loss(gpu, cpu, "copies", &points, KITH_MANHATTAN, KITH_START_AUTO) > 0.005;
    poor += loss(gpu, cpu, "published", &points, KITH_EUCLIDEAN, KITH_START_GGM) > 0.02;
    poor += loss(gpu, cpu, "published", &points, KITH_MANHATTAN, KITH_START_GGM) > 0.02;
    assert_int_equal(poor, 0);
    printf("merged: no more than 0.005 below a descent of all\n");
    test_mixture_free(&points);
    kith_ctx_free(cpu);
    kith_ctx_free(gpu);
}

/* Ids of a graph in device memory; its distances are not looked at. */
static kith_neighbors on_device(const test_caller *c, const kith_neighbors *host)
{
    const kith_matrix ids = {.data = host->ids,
                             .rows = host->rows,
                             .stride_bytes = host->k * (int64_t)sizeof(float),
                             .cols = (int32_t)host->k,
                             .dtype = KITH_F32};
    return (kith_neighbors){.ids = (uint32_t *)(uintptr_t)test_caller_copy(c, &ids).data,
                            .rows = host->rows,
                            .k = host->k};
}

static void bytes_of(kith_start start)
{
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    test_caller c = test_caller_open();
    kith_matrix points = points_of(all, 32, 40, 0);
    const kith_matrix part[] = {test_part_of(&points, 0, first),
                                test_part_of(&points, first, all - first)};
    kith_neighbors one = descent_of(gpu, &part[0], KITH_EUCLIDEAN, LONGER);
    kith_neighbors two = descent_of(gpu, &part[1], KITH_EUCLIDEAN, K);
    kith_neighbors out[] = {test_answer_make(all, K), test_answer_make(all, K)};
    kith_descent_params params = kith_descent_params_default();
    params.k = K;
    params.start = start;
    for (int i = 0; i < 2; i++) {
        test_works(gpu, test_merge_descending(gpu, &(kith_merge_sets){&points, first, &one, &two},
                                              &params, &out[i], NULL));
    }
    assert_true(test_answers_equal(&out[0], &out[1]));
    kith_matrix there = test_caller_copy(&c, &points);
    kith_neighbors one_there = on_device(&c, &one);
    kith_neighbors two_there = on_device(&c, &two);
    kith_neighbors out_there = test_caller_answer(&c, all, K);
    const kith_search_params descends = test_descends(&params, NULL);
    test_works(gpu,
               kith_cuda_graph_merge(gpu, &(kith_merge_sets){&there, first, &one_there, &two_there},
                                     &descends, &out_there, NULL, c.handle));
    kith_neighbors got = test_caller_fetch(&c, &out_there);
    assert_true(test_answers_equal(&out[0], &got));
    test_answer_free(&got);
    test_caller_release(&c, two_there.ids);
    test_caller_release(&c, one_there.ids);
    test_caller_release(&c, there.data);
    test_answer_free(&out[1]);
    test_answer_free(&out[0]);
    test_answer_free(&two);
    test_answer_free(&one);
    test_mixture_free(&points);
    test_caller_close(&c);
    kith_ctx_free(gpu);
}

static void bytes_are_the_same(void **state)
{
    (void)state;
    bytes_of(KITH_START_AUTO);
    bytes_of(KITH_START_GGM);
    printf("the same bytes in two runs, and from device arrays, also as published\n");
}

static void exact_stays_exact(void **state)
{
    (void)state;
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    kith_matrix points = points_of(all, 24, 30, 0);
    for (int64_t row = 0; row < all; row += 17) {
        test_mixture_copy(&points, row, (row + all / 2) % all);
    }
    const kith_matrix part[] = {test_part_of(&points, 0, first),
                                test_part_of(&points, first, all - first)};
    kith_neighbors truth = exact_of(gpu, &points, KITH_EUCLIDEAN, K);
    kith_neighbors one = exact_of(gpu, &part[0], KITH_EUCLIDEAN, K);
    kith_neighbors two = exact_of(gpu, &part[1], KITH_EUCLIDEAN, LONGER);
    kith_neighbors out = test_answer_make(all, K);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    test_works(gpu, test_merge_exactly(gpu, &(kith_merge_sets){&points, first, &one, &two}, &params,
                                       &out));
    assert_true(test_answers_equal(&out, &truth));
    uint8_t *removed = calloc((size_t)all, 1);
    memset(removed + first, 1, 100);
    kith_matrix rest = points_of(all, 24, 30, 0);
    int64_t left = 0;
    for (int64_t row = 0; row < all; row++) {
        if (removed[row] == 0) {
            memcpy((char *)(uintptr_t)rest.data + left * rest.stride_bytes,
                   (const char *)points.data + row * points.stride_bytes,
                   (size_t)points.stride_bytes);
            left += 1;
        }
    }
    rest.rows = left;
    kith_neighbors wanted = exact_of(gpu, &rest, KITH_EUCLIDEAN, K);
    kith_neighbors less = test_answer_make(left, K);
    kith_remove_params remove = kith_remove_params_default();
    remove.k = K;
    remove.removed = removed;
    test_works(gpu, kith_graph_remove(gpu, &points, &truth, &remove, &less, NULL));
    assert_true(test_answers_equal(&less, &wanted));
    printf("exact graphs stay exact, merged and with points removed\n");
    free(removed);
    test_answer_free(&less);
    test_answer_free(&wanted);
    test_answer_free(&out);
    test_answer_free(&two);
    test_answer_free(&one);
    test_answer_free(&truth);
    test_mixture_free(&rest);
    test_mixture_free(&points);
    kith_ctx_free(gpu);
}

static void times(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    if (getenv("KITH_TIMES") == NULL) {
        skip();
    }
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    test_caller c = test_caller_open();
    kith_matrix points = points_of(MANY, 128, 1000, 0);
    const kith_matrix part[] = {test_part_of(&points, 0, MANY / 2),
                                test_part_of(&points, MANY / 2, MANY / 2)};
    kith_neighbors truth = exact_of(gpu, &points, KITH_EUCLIDEAN, K);
    kith_neighbors one = descent_of(gpu, &part[0], KITH_EUCLIDEAN, K);
    kith_neighbors two = descent_of(gpu, &part[1], KITH_EUCLIDEAN, K);
    kith_matrix there = test_caller_copy(&c, &points);
    kith_neighbors one_there = on_device(&c, &one);
    kith_neighbors two_there = on_device(&c, &two);
    for (int i = 0; i < 6; i++) {
        const bool direct = i % 2 == 0;
        kith_descent_params params = kith_descent_params_default();
        kith_descent_report report = {.struct_size = (uint32_t)sizeof report};
        kith_neighbors out = test_caller_answer(&c, MANY, K);
        params.k = K;
        params.sample = -1;
        const double start = now();
        const kith_search_params descends = test_descends(&params, &report);
        test_works(gpu, direct
                            ? kith_cuda_graph(gpu, &there, &descends, &out, NULL, c.handle)
                            : kith_cuda_graph_merge(
                                  gpu, &(kith_merge_sets){&there, MANY / 2, &one_there, &two_there},
                                  &descends, &out, NULL, c.handle));
        const double seconds = now() - start;
        kith_neighbors got = test_caller_fetch(&c, &out);
        printf("    %s: %.1f ms, start %.1f, %d rounds %.1f, recall@10 %.5f\n",
               direct ? "direct" : "merge ", 1e3 * seconds, 1e3 * report.seconds_start,
               (int)report.rounds, 1e3 * report.seconds_rounds,
               test_graph_recall(KITH_EUCLIDEAN, &got, &truth, K));
        test_answer_free(&got);
    }
    test_caller_release(&c, two_there.ids);
    test_caller_release(&c, one_there.ids);
    test_caller_release(&c, there.data);
    test_answer_free(&two);
    test_answer_free(&one);
    test_answer_free(&truth);
    test_mixture_free(&points);
    test_caller_close(&c);
    kith_ctx_free(gpu);
}

int main(void)
{
    all = 2 * test_fewer(all / 2);
    first = all * 3 / 8;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_is_lost), cmocka_unit_test(bytes_are_the_same),
        cmocka_unit_test(exact_stays_exact), cmocka_unit_test(times)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
