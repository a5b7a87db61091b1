/* SPDX-License-Identifier: Apache-2.0
 * Several real GPUs: graphs and searches, by the tree, too, descents, merges and descents that
 * begin with a graph, and searches of an index have the bytes of one, for uneven sizes, few rows,
 * equal rows, bytes and floats, lists that overflow, and with little memory on each. Exits with 77
 * where there are fewer than two. KITH_LONG=1: more rows, and how long both take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_gpu.h"
#include "support/support_mixture.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int32_t gpus;
static bool is_long;

static kith_ctx *ctx_of(const char *device, uint64_t gpu_memory)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.device = device;
    params.gpu_memory_limit = gpu_memory;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static double now(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

typedef struct setting {
    const char *name;
    kith_dtype dtype;
    kith_metric metric;
    int64_t rows;
    int32_t cols;
    int64_t k;
    int64_t clusters;
    double spread;
    int64_t equal; /* rows that are copies */
    uint64_t gpu_memory;
} setting;

static kith_matrix points_of(const setting *s, int64_t rows, uint64_t seed)
{
    const test_mixture mixture = {.dtype = s->dtype,
                                  .rows = rows,
                                  .cols = s->cols,
                                  .inner = s->cols < 12 ? s->cols : 12,
                                  .clusters = s->clusters,
                                  .spread = s->spread,
                                  .seed = seed};
    kith_matrix points = test_mixture_make(&mixture);
    for (int64_t i = 0; i < s->equal; i++) {
        test_mixture_copy(&points, rows - 1 - 3 * i, 7 * i);
    }
    return points;
}

/* One device, then several: both the same bytes. */
typedef kith_status (*job_fn)(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                              const kith_matrix *queries, kith_neighbors *out);

static double solve(const char *device, const setting *s, job_fn job, const kith_matrix *points,
                    const kith_matrix *queries, kith_neighbors *out)
{
    kith_ctx *ctx = ctx_of(device, s->gpu_memory);
    kith_report report = {.struct_size = sizeof report};
    const double begin = now();
    if (job(ctx, s, points, queries, out) != KITH_OK) {
        fail_msg("%s on %s: %s", s->name, device, kith_ctx_detail(ctx));
    }
    const double first = now() - begin;
    double again = first;
    if (is_long) {
        const double start = now();
        assert_int_equal(job(ctx, s, points, queries, out), KITH_OK);
        again = now() - start;
    }
    (void)kith_ctx_report(ctx, &report);
    printf("    %-10s %8.3f s, then %8.3f s  prepare %.3f screen %.3f rescore %.3f  %s\n",
           report.backend, first, again, report.seconds_prepare, report.seconds_screen,
           report.seconds_rescore, report.gpu);
    kith_ctx_free(ctx);
    return again;
}

static void compare(const setting *s, job_fn job)
{
    kith_matrix points = points_of(s, s->rows, 3);
    kith_matrix queries = points_of(s, s->rows / 2 + 5, 4);
    kith_neighbors one = test_answer_make(s->rows, s->k);
    kith_neighbors all = test_answer_make(s->rows, s->k);
    printf("  %s\n", s->name);
    (void)solve("cuda:0", s, job, &points, &queries, &one);
    (void)solve("cuda:all", s, job, &points, &queries, &all);
    assert_true(test_answers_equal(&one, &all));
    if (gpus > 2) {
        test_answer_free(&all);
        all = test_answer_make(s->rows, s->k);
        (void)solve("cuda:2,0", s, job, &points, &queries, &all);
        assert_true(test_answers_equal(&one, &all));
    }
    test_answer_free(&all);
    test_answer_free(&one);
    test_mixture_free(&queries);
    test_mixture_free(&points);
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

static kith_status graph(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                         const kith_matrix *queries, kith_neighbors *out)
{
    kith_search_params params = kith_search_params_default();
    (void)queries;
    params.metric = s->metric;
    params.k = s->k;
    params.method = KITH_METHOD_EXACT;
    return kith_graph(ctx, points, &params, out, NULL);
}

/* By the tree, which a GPU that works with others takes for many rows. */
static kith_status tree_graph(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                              const kith_matrix *queries, kith_neighbors *out)
{
    kith_search_params params = kith_search_params_default();
    (void)queries;
    params.metric = s->metric;
    params.k = s->k;
    params.method = KITH_METHOD_TREE;
    return kith_graph(ctx, points, &params, out, NULL);
}

static kith_status tree_search(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                               const kith_matrix *queries, kith_neighbors *out)
{
    const kith_matrix corpus = test_part_of(points, s->rows / 2, s->rows / 4);
    kith_search_params params = kith_search_params_default();
    (void)queries;
    params.metric = s->metric;
    params.k = s->k;
    params.method = KITH_METHOD_TREE;
    return kith_search(ctx, &corpus, points, &params, out, NULL);
}

static kith_status search(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                          const kith_matrix *queries, kith_neighbors *out)
{
    kith_search_params params = kith_search_params_default();
    kith_neighbors part = *out;
    part.rows = queries->rows;
    params.metric = s->metric;
    params.k = s->k;
    params.method = KITH_METHOD_EXACT;
    return kith_search(ctx, points, queries, &params, &part, NULL);
}

/* An index that is prepared on each. */
static kith_status ask_index(kith_ctx *ctx, const setting *s, kith_method method,
                             const kith_matrix *points, const kith_matrix *queries,
                             kith_neighbors *out)
{
    kith_index_params made = kith_index_params_default();
    kith_search_params params = kith_search_params_default();
    kith_neighbors part = *out;
    kith_index *index = NULL;
    made.metric = s->metric;
    made.method = method;
    params.k = s->k;
    part.rows = queries->rows;
    kith_status status = kith_index_create(ctx, points, &made, &index);
    if (status == KITH_OK) {
        status = kith_index_search(ctx, index, queries, &params, &part, NULL);
    }
    kith_index_free(index);
    return status;
}

static kith_status exact_index(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                               const kith_matrix *queries, kith_neighbors *out)
{
    return ask_index(ctx, s, KITH_METHOD_EXACT, points, queries, out);
}

static kith_status tree_index(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                              const kith_matrix *queries, kith_neighbors *out)
{
    const kith_matrix corpus = test_part_of(points, s->rows / 2, s->rows / 4);
    (void)queries;
    return ask_index(ctx, s, KITH_METHOD_TREE, &corpus, points, out);
}

static kith_status graph_index(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                               const kith_matrix *queries, kith_neighbors *out)
{
    return ask_index(ctx, s, KITH_METHOD_GRAPH, points, queries, out);
}

static kith_status descend(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                           const kith_matrix *queries, kith_neighbors *out)
{
    kith_descent_params params = kith_descent_params_default();
    (void)queries;
    params.metric = s->metric;
    params.k = s->k;
    return test_descend(ctx, points, &params, out, NULL);
}

/* Graphs of two parts of uneven sizes of the points of a setting. */
typedef struct halves {
    const char *of; /* the setting's name */
    kith_neighbors graph[2];
} halves;

static halves made;

static void halves_free(void)
{
    test_answer_free(&made.graph[1]);
    test_answer_free(&made.graph[0]);
    made = (halves){0};
}

static void halves_make(const setting *s, const kith_matrix *points, int64_t first)
{
    const kith_matrix part[] = {test_part_of(points, 0, first),
                                test_part_of(points, first, s->rows - first)};
    kith_ctx *ctx = ctx_of("cuda:0", 0);
    kith_descent_params params = kith_descent_params_default();
    params.metric = s->metric;
    params.k = s->k;
    params.sample = -1;
    halves_free();
    made.of = s->name;
    for (int i = 0; i < 2; i++) {
        made.graph[i] = test_answer_make(part[i].rows, s->k);
        test_works(ctx, test_descend(ctx, &part[i], &params, &made.graph[i], NULL));
    }
    kith_ctx_free(ctx);
}

/* Of these graphs, and of one that is given. */
static kith_status start_with(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                              kith_start start, kith_neighbors *out)
{
    const int64_t first = s->rows * 2 / 5;
    const kith_neighbors *graph = made.graph;
    kith_descent_params params = kith_descent_params_default();
    if (made.of != s->name) {
        halves_make(s, points, first);
    }
    params.metric = s->metric;
    params.k = s->k;
    params.start = start;
    kith_status status = KITH_OK;
    const double begin = now();
    if (start != KITH_START_GRAPH) {
        const kith_merge_sets sets = {points, first, &graph[0], &graph[1]};
        status = test_merge_descending(ctx, &sets, &params, out, NULL);
    } else {
        kith_neighbors given = test_answer_make(s->rows, s->k); /* ids of rows of set 1 alone */
        memcpy(given.ids, graph[0].ids, (size_t)(first * s->k) * sizeof *given.ids);
        memcpy(given.ids + first * s->k, graph[1].ids,
               (size_t)((s->rows - first) * s->k) * sizeof *given.ids);
        params.init = &given;
        status = test_descend(ctx, points, &params, out, NULL);
        test_answer_free(&given);
    }
    printf("    by that start alone %8.3f s\n", now() - begin);
    return status;
}

static kith_status merge(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                         const kith_matrix *queries, kith_neighbors *out)
{
    (void)queries;
    return start_with(ctx, s, points, KITH_START_AUTO, out);
}

static kith_status merge_by_chance(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                                   const kith_matrix *queries, kith_neighbors *out)
{
    (void)queries;
    return start_with(ctx, s, points, KITH_START_RANDOM, out);
}

static kith_status merge_as_published(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                                      const kith_matrix *queries, kith_neighbors *out)
{
    (void)queries;
    return start_with(ctx, s, points, KITH_START_GGM, out);
}

static kith_status improve(kith_ctx *ctx, const setting *s, const kith_matrix *points,
                           const kith_matrix *queries, kith_neighbors *out)
{
    (void)queries;
    return start_with(ctx, s, points, KITH_START_GRAPH, out);
}

static const setting settings[] = {
    {"few rows", KITH_F32, KITH_EUCLIDEAN, 300, 16, 10, 3, 0.5, 0, 0},
    {"floats", KITH_F32, KITH_EUCLIDEAN, 60001, 48, 10, 40, 0.5, 0, 0},
    {"floats, equal rows", KITH_F32, KITH_EUCLIDEAN, 50177, 20, 10, 40, 0.5, 400, 0},
    {"bytes", KITH_U8, KITH_EUCLIDEAN, 70003, 96, 32, 60, 0.5, 0, 0},
    {"cosine", KITH_F32, KITH_COSINE, 40960, 64, 15, 60, 0.7, 3, 0},
    {"products", KITH_F32, KITH_INNER_PRODUCT, 33333, 40, 12, 60, 0.7, 0, 0},
    {"one fine cluster, lists overflow", KITH_F32, KITH_EUCLIDEAN, 40000, 30, 10, 1, 1e-7, 0, 0},
    {"many neighbours", KITH_F32, KITH_EUCLIDEAN, 30000, 24, 300, 20, 0.5, 0, 0},
    {"little memory", KITH_F32, KITH_EUCLIDEAN, 60000, 48, 10, 40, 0.5, 0, 48 << 20},
};
static const setting large[] = {
    {"1,000,000 x 96", KITH_F32, KITH_EUCLIDEAN, 1000000, 96, 10, 1000, 0.5, 0, 0},
    {"2,000,000 x 96 bytes", KITH_U8, KITH_EUCLIDEAN, 2000000, 96, 32, 2000, 0.5, 0, 0},
};

static const setting low[] = {
    {"floats of 4 columns", KITH_F32, KITH_EUCLIDEAN, 140001, 4, 10, 40, 0.5, 400, 0},
    {"bytes of 8 columns", KITH_U8, KITH_EUCLIDEAN, 131072, 8, 17, 40, 0.5, 0, 0},
    {"10 columns, little memory", KITH_F32, KITH_EUCLIDEAN, 135000, 10, 5, 40, 0.5, 0, 48 << 20},
};

static void trees(void **state)
{
    (void)state;
    const size_t count = test_is_slow_build() ? 1 : sizeof low / sizeof low[0];
    for (size_t i = 0; i < count; i++) {
        setting s = low[i];
        s.rows *= gpus > 2 && !test_is_slow_build() ? gpus : 1;
        compare(&s, tree_graph);
        compare(&s, tree_search);
        if (i == 0) {
            compare(&s, tree_index);
        }
    }
}

/* More neighbours than a block of threads sorts. */
static void long_lists(void **state)
{
    static const setting s = {"long lists", KITH_F32, KITH_EUCLIDEAN, 4500, 12, 3100, 9, 0.5, 3, 0};
    (void)state;
    compare(&s, graph);
    compare(&s, search);
}

typedef struct kind {
    const char *what;
    job_fn job;
} kind;

/* Kinds of jobs of one setting after another. */
static void compare_all(const kind *kinds, size_t count)
{
    const size_t usual = sizeof settings / sizeof settings[0];
    const size_t all = usual + (is_long ? sizeof large / sizeof large[0] : 0);
    for (size_t i = 0; i < all; i++) {
        setting s = i < usual ? settings[i] : large[i - usual];
        s.rows /= i < usual && test_is_slow_build() && s.rows > 10000 ? 8 : 1;
        for (const kind *each = kinds; each < kinds + count; each++) {
            const bool exact = each->job == graph || each->job == search;
            const bool needed =
                !test_is_slow_build() || i % 3 == 1 || (each->job == graph && i % 2 == 0) ||
                (each->job == descend && i % 3 == 0) || (each->job == search && s.gpu_memory != 0);
            if (needed && (exact || s.gpu_memory == 0)) { /* descents have no batches */
                printf("%s:\n", each->what);
                compare(&s, each->job);
            }
        }
    }
}

static void graphs(void **state)
{
    (void)state;
    compare_all(&(kind){"exact graph", graph}, 1);
}

static void searches(void **state)
{
    (void)state;
    compare_all(&(kind){"search", search}, 1);
}

static void descents(void **state)
{
    (void)state;
    compare_all(&(kind){"descent", descend}, 1);
}

static void starts(void **state)
{
    (void)state;
    static const kind kinds[] = {{"merge", merge},
                                 {"merge by chance", merge_by_chance},
                                 {"merge as published", merge_as_published},
                                 {"graph that is given", improve}};
    compare_all(kinds, sizeof kinds / sizeof kinds[0]);
    halves_free();
}

static void indices(void **state)
{
    (void)state;
    for (size_t i = 1; i < 4; i += 2) {
        setting s = settings[i];
        s.rows /= test_is_slow_build() ? 8 : 1;
        compare(&s, exact_index);
        compare(&s, graph_index);
    }
}

static int32_t count_gpus(void)
{
    int32_t count = 0;
    kith_device device = {.struct_size = sizeof device};
    for (int32_t i = 0; kith_device_get(i, &device) == KITH_OK; i++) {
        count += device.available != 0 && strncmp(device.name, "cuda:", 5) == 0;
    }
    return count;
}

int main(void)
{
    const char *wants = getenv("KITH_LONG");
    if (test_gpu_is_absent()) {
        return TEST_SKIPPED;
    }
    gpus = count_gpus();
    is_long = wants != NULL && strcmp(wants, "1") == 0;
    if (test_gpus_are_few()) {
        return TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs),  cmocka_unit_test(searches), cmocka_unit_test(long_lists),
        cmocka_unit_test(trees),   cmocka_unit_test(descents), cmocka_unit_test(starts),
        cmocka_unit_test(indices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
